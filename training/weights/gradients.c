/* SPDX-License-Identifier: BSD-3-Clause */
/* gradients.c: the gradients of a step. Each rank puts what it has of a parameter's into zeros; who has an
 * element has the same bits as all others that have it, so the greatest of them, as unsigned numbers, is the
 * element, on any mesh. */
#include "training/weights/gradients.h"

#include "training/checkpoint/file.h"
#include "training/checkpoint/head.h"
#include "training/weights/foreign.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A tied head's is in the embedding's. */
static bool gather(const struct tr_runner *r, const struct tr_heading *h, int entry, float *to,
    tutti_comm *ranks, struct tr_error *e)
{
    const struct tr_graph *g = r->tape->placed->g;
    int64_t count = h->entries[entry].rows * h->entries[entry].columns;
    memset(to, 0, (size_t)count * sizeof *to);
    for (int n = 0; n < r->tape->n_states; n++) {
        int p = r->tape->states[n].parameter;
        if (g->tensors[p].values_of == p && tr_heading_entry(g, p) == entry)
            tr_runner_read(r, p, 1, to);
    }
    return !ranks ||
           tutti_all_reduce(to, to, (size_t)count, TUTTI_UINT32, TUTTI_MAX, ranks, tutti_no_stream()) ==
               TUTTI_OK ||
           tr_fail(e, "the gradients of %s: %s", h->entries[entry].name, tr_why(ranks));
}

bool tr_gradients_write(const struct tr_runner *r, const char *path, tutti_comm *ranks, struct tr_error *e)
{
    const struct tr_placed *p = r->tape->placed;
    bool writes = r->tape->rank == 0;
    struct tr_safetensors s = { .file = -1 };
    struct tr_heading h;
    char part_name[TR_PATH];
    int stored = 0;
    if (!tr_file_part(part_name, path, e))
        return false;
    tr_heading_make(&h, p->g, p->plan, 0);
    float *here = tr_new((size_t)tr_longest(&h), sizeof *here),
          *there = tr_new((size_t)tr_longest(&h), sizeof *there);
    tr_foreign_add(&h, &s);
    bool ok = !writes || tr_safetensors_make(&s, part_name, e);
    for (int i = 0; i < (int)h.head.entries && ok; i++)
        ok = gather(r, &h, i, here, ranks, e) &&
             (!writes || tr_foreign_write(&h, i, &stored, here, there, &s, e));
    ok = ok && (!writes || tr_file_name(s.file, part_name, path, e));
    if (!ok && writes)
        unlink(part_name);
    free(here), free(there), free(h.entries);
    tr_safetensors_close(&s);
    return ok;
}

bool tr_gradients_last(const struct tr_plan *p, struct tr_error *e)
{
    if (p->pipeline.no_flush)
        return tr_fail(e,
            "--save-gradients with --schedule %s: its ranks update before all have their gradients, and keep "
            "none; legal is another schedule",
            p->pipeline.schedule);
    const char *why = p->pipeline.async ? "--async" : p->mesh.servers ? "--servers" : NULL;
    return !why ||
           tr_fail(e,
               "--save-gradients with %s: gradients do not outlive the updates that use them; legal is "
               "one without the other",
               why);
}

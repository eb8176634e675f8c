/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.c: the last step of all ranks for Perfetto (ui.perfetto.dev): a span for each instruction.
 *
 * On a device times are the device's. What ran beside the list there has a row for each stream.
 *
 * Times and process ids are those of Tutti's own trace. So with TUTTI_TRACE=trace.%r.json `tutti-info merge`
 * puts both together: below each collective of the tape stand Tutti's own steps. */
#include "training/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Rows: the list; and beside it copies between the memories, collectives, and sends by each edge. */
enum { LIST = 1, COPIES, COLLECTIVES, SENDS, ROWS = SENDS + TR_EDGES };

/* Ranks that are threads have one process, and rows behind each other's. */
static int first_row(const struct tr_runner *r)
{
    return syscall(SYS_gettid) == getpid() ? 0 : r->tape->rank * ROWS;
}

static int row_beside(const struct tr_instr *i)
{
    return i->code == TR_SEND ? SENDS + (int)i->edge : i->beside ? COLLECTIVES : COPIES;
}

static void span(FILE *to, const struct tr_runner *r, int n, int pid, int row, const int64_t *times)
{
    static const char parts[] = "FBIW";
    const struct tr_tape *t = r->tape;
    const struct tr_instr *i = &t->instrs[n];
    char group[32];
    struct tr_entry in = { .axes = i->axes, .edge = i->edge };
    fprintf(to,
        "{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"name\": \"%s %s\", "
        "\"cat\": \"%s\", \"args\": {\"instruction\": %d",
        pid, first_row(r) + row, (double)times[0] / 1000, (double)(times[1] - times[0]) / 1000,
        tr_instr_does(i), tr_instr_name(t, i),
        i->axes || i->edge || i->code == TR_WAIT ? "message" : "compute", n);
    if (i->part >= 0)
        fprintf(to, ", \"part\": \"%c%d.%d\"", parts[i->part], i->stage, i->micro);
    if (i->flops > 0)
        fprintf(to, ", \"flops\": %.0f", i->flops);
    if (i->axes || i->edge) {
        int64_t bytes = t->values[i->ins ? i->in[0] : i->out[0]].bytes;
        if (i->ins && i->outs && t->values[i->out[0]].bytes > bytes)
            bytes = t->values[i->out[0]].bytes;
        fprintf(to, ", \"group\": \"%s\", \"calls\": %" PRId64 ", \"bytes\": %" PRId64,
            tr_entry_group(&in, group), i->times, bytes);
    }
    fprintf(to, "}},\n");
}

static void name_row(FILE *to, const struct tr_runner *r, const struct tr_instr *i, int pid, int row)
{
    fprintf(to,
        "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": "
        "\"%s%s\"}},\n",
        pid, first_row(r) + row,
        row == COPIES        ? "copies"
        : row == COLLECTIVES ? "collectives beside"
                             : "sends ",
        row < SENDS ? "" : tr_edge_kinds[i->edge].name);
}

static char *part_of(const struct tr_runner *r, size_t *length)
{
    const struct tr_tape *t = r->tape;
    const struct tr_mesh *m = &t->placed->plan->mesh;
    char *text = NULL;
    FILE *to = open_memstream(&text, length);
    int pid = getpid();
    if (!to)
        return NULL;
    fprintf(to,
        "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": 0, \"args\": {\"name\": \"rank %d",
        pid, t->rank);
    for (int a = 0; a < TR_AXES; a++)
        if (m->size[a] > 1)
            fprintf(to, ", %s %d", tr_axis_names[a], t->at[a]);
    fprintf(to,
        "\"}},\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": "
        "\"tape of rank %d, step %" PRId64 "\"}},\n",
        pid, first_row(r) + LIST, t->rank, r->step - 1);
    bool named[ROWS] = { false };
    for (int n = 0; n < t->n_instrs; n++) {
        span(to, r, n, pid, LIST, &r->clock[n]);
        const int64_t *beside = r->timed.beside && r->timed.known ? &r->timed.beside[(ptrdiff_t)2 * n] : NULL;
        if (!beside || beside[0] < 0)
            continue;
        int row = row_beside(&t->instrs[n]);
        if (!named[row])
            name_row(to, r, &t->instrs[n], pid, row);
        named[row] = true;
        span(to, r, n, pid, row, beside);
    }
    fclose(to);
    return text;
}

/* All ranks' texts, one after the other, on rank 0. */
static char *join(const struct tr_runner *r, const char *mine, size_t *length, struct tr_error *e)
{
    tutti_comm *world = r->groups.world;
    size_t n = (size_t)r->tape->placed->plan->mesh.n, *lengths = tr_new(n, sizeof *lengths), all = 0;
    tutti_status s = tutti_gather(length, lengths, 1, TUTTI_UINT64, 0, world, tutti_no_stream());
    for (size_t i = 0; i < n; i++)
        all += lengths[i];
    char *text = r->tape->rank == 0 && s == TUTTI_OK ? tr_new(all, 1) : NULL;
    if (s == TUTTI_OK)
        s = tutti_gather_v(mine, *length, text, lengths, NULL, TUTTI_UINT8, 0, world, tutti_no_stream());
    free(lengths);
    *length = all;
    if (s != TUTTI_OK)
        tr_fail(e, "--trace: %s", tr_why(world));
    else if (text || r->tape->rank > 0)
        return text ? text : tr_new(1, 1);
    free(text);
    return NULL;
}

bool tr_trace_write(FILE *to, const struct tr_runner *r, struct tr_error *e)
{
    size_t length = 0;
    char *text = part_of(r, &length);
    if (!text)
        return tr_fail(e, "--trace: there is no memory for the spans of a step");
    if (r->groups.world) {
        char *all = join(r, text, &length, e);
        free(text);
        text = all;
    }
    bool ok = text != NULL;
    if (ok && to) {
        /* the first event tells whose file it is; ranks have files of Tutti's own */
        fprintf(to, "[\n{\"name\": \"program\", \"ph\": \"M\", \"pid\": 0, \"tid\": 0, \"args\": {\"name\": "
                    "\"tutti-train\"}},\n");
        ok = fwrite(text, 1, length - 2, to) == length - 2; /* but for the last comma */
        ok = fputs("\n]\n", to) >= 0 && fflush(to) == 0 && ok;
        if (!ok)
            tr_fail(e, "--trace: the file cannot be written");
    }
    free(text);
    return ok;
}

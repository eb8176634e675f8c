/* SPDX-License-Identifier: BSD-3-Clause */
/* timeline.c: what the executor's clock says of a step, of all ranks on rank 0. */
#include "training/compare/timeline.h"

#include "training/launch.h"

#include <stdlib.h>
#include <string.h>

const char *const tr_does_names[TR_DOINGS] = { "forward", "backward", "gradients of weights", "update",
    "messages and waits", "copies" };

enum tr_does tr_does_of(const struct tr_instr *i)
{
    static const enum tr_does parts[TR_PARTS] = { [TR_F] = TR_DOES_FORWARD,
        [TR_B] = TR_DOES_BACKWARD,
        [TR_I] = TR_DOES_BACKWARD,
        [TR_W] = TR_DOES_WEIGHTS };
    if (i->code == TR_DOWN || i->code == TR_UP)
        return TR_DOES_COPY;
    if (tr_codes[i->code].talks || i->code == TR_WAIT || (i->code == TR_TIE && i->edge == TR_HOME))
        return TR_DOES_TALK;
    return i->part < 0 ? TR_DOES_UPDATE : parts[i->part];
}

struct tr_chart_span *tr_span_add(
    struct tr_chart_span *list, int *n, int *room, const struct tr_chart_span *more)
{
    struct tr_chart_span *last = *n ? &list[*n - 1] : NULL;
    if (more->to <= more->from)
        return list;
    if (last && last->kind == more->kind && last->to >= more->from) {
        last->to = more->to;
        return list;
    }
    list = tr_grow(list, *n, room, sizeof *list);
    list[(*n)++] = *more;
    return list;
}

static struct tr_chart_span *spans_of(const struct tr_runner *r, int64_t origin, int *n)
{
    struct tr_chart_span *list = NULL;
    int room = 0;
    *n = 0;
    for (int k = 0; k < r->tape->n_instrs; k++) {
        struct tr_chart_span x = { (int)tr_does_of(&r->tape->instrs[k]), (double)(r->clock[k] - origin) / 1e9,
            (double)(r->clock[k + 1] - origin) / 1e9 };
        list = tr_span_add(list, n, &room, &x);
    }
    return list;
}

/* Ranks that were forked here have one clock, and the step begins with the first of them. Of a launcher's,
 * which may be on several machines, each begins its own. */
static bool begin_of(const struct tr_runner *r, tutti_comm *comm, int64_t *origin, struct tr_error *e)
{
    *origin = r->clock[0];
    return !comm || tr_launched() ||
           tutti_all_reduce(origin, origin, 1, TUTTI_INT64, TUTTI_MIN, comm, tutti_no_stream()) == TUTTI_OK ||
           tr_fail(e, "the timeline of a step: %s", tr_why(comm));
}

static bool gather(
    struct tr_timeline *to, const struct tr_chart_span *mine, int count, tutti_comm *comm, struct tr_error *e)
{
    size_t n = comm ? (size_t)tutti_comm_size(comm) : 1, bytes = (size_t)count * sizeof *mine, all = 0,
           *lengths = tr_new(n, sizeof *lengths);
    bool first = !comm || tutti_comm_rank(comm) == 0;
    tutti_status s = TUTTI_OK;
    lengths[0] = bytes;
    if (comm)
        s = tutti_gather(&bytes, lengths, 1, TUTTI_UINT64, 0, comm, tutti_no_stream());
    int *begin = tr_new(n + 1, sizeof *begin);
    for (size_t r = 0; r < n && first; r++) {
        all += lengths[r];
        begin[r + 1] = (int)(all / sizeof *mine);
    }
    struct tr_chart_span *spans = tr_new(all / sizeof *mine + 1, sizeof *spans);
    if (comm && s == TUTTI_OK)
        s = tutti_gather_v(
            mine, bytes, first ? spans : NULL, lengths, NULL, TUTTI_UINT8, 0, comm, tutti_no_stream());
    else if (!comm && bytes)
        memcpy(spans, mine, bytes);
    free(lengths);
    if (s != TUTTI_OK || !first) {
        free(spans), free(begin);
        return s == TUTTI_OK || tr_fail(e, "the timeline of a step: %s", tr_why(comm));
    }
    *to = (struct tr_timeline){ spans, begin, (int)n, 0 };
    for (int k = 0; k < begin[n]; k++)
        to->end = spans[k].to > to->end ? spans[k].to : to->end;
    return true;
}

bool tr_timeline_measure(
    struct tr_timeline *to, const struct tr_runner *r, tutti_comm *comm, struct tr_error *e)
{
    int64_t origin;
    int n;
    if (!begin_of(r, comm, &origin, e))
        return false;
    struct tr_chart_span *mine = spans_of(r, origin, &n);
    bool ok = gather(to, mine, n, comm, e);
    free(mine);
    return ok;
}

void tr_timeline_free(struct tr_timeline *t)
{
    free(t->spans), free(t->begin);
    *t = (struct tr_timeline){ .n = 0 };
}

double tr_timeline_of(const struct tr_timeline *t, int rank, enum tr_does what)
{
    double sum = 0;
    for (int r = rank < 0 ? 0 : rank; t->n && r < (rank < 0 ? t->n : rank + 1); r++)
        for (int k = t->begin[r]; k < t->begin[r + 1]; k++)
            sum += t->spans[k].kind == (int)what ? t->spans[k].to - t->spans[k].from : 0;
    return sum;
}

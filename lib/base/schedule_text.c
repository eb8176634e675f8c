/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule_text.c: a schedule as text, for people, goldens and reviews. The first line carries the version
 * of the form.
 *
 *     schedule 1 all_reduce ring n 4 rank 0 root 0 chunks 4 out_of_place
 *     0 send 1 in 0 #0
 *     1 recv_reduce 3 out 3 = incoming + in 3 #0
 *     2 send 1 out 3 #1 after 1 */
#include "base/schedule.h"
#include "base/text.h"

static void put_cells(struct tt_text *t, unsigned buffer, uint32_t chunk, uint32_t count)
{
    static const char *const names[TT_BUFFERS] = { "in", "out", "tmp" };
    tt_put(t, " %s %u", names[buffer], chunk);
    if (count > 1)
        tt_put(t, "..%u", chunk + count - 1);
}

static void put_operands(struct tt_text *t, const struct tt_step *p)
{
    tt_put(t, " =");
    if (p->verb == TT_VERB_REDUCE) {
        put_cells(t, p->src_buffer, p->src_chunk, p->nchunks);
        tt_put(t, " +");
        put_cells(t, p->right_buffer, p->right_chunk, p->nchunks);
    } else if (p->flags & TT_LEFT) {
        tt_put(t, " incoming +");
        put_cells(t, p->src_buffer, p->src_chunk, p->nchunks);
    } else {
        put_cells(t, p->src_buffer, p->src_chunk, p->nchunks);
        tt_put(t, " + incoming");
    }
}

static void put_step(struct tt_text *t, const struct tt_schedule *s, uint32_t i)
{
    static const char *const verbs[TT_VERBS] = { "send", "recv", "recv_reduce", "reduce", "copy" };
    const struct tt_step *p = &s->steps[i];
    bool message = p->verb == TT_VERB_SEND || p->verb == TT_VERB_RECV || p->verb == TT_VERB_RECV_REDUCE;

    tt_put(t, "%u %s", i, verbs[p->verb]);
    if (message)
        tt_put(t, " %d", p->peer);
    if (p->verb == TT_VERB_SEND)
        put_cells(t, p->src_buffer, p->src_chunk, p->nchunks);
    else
        put_cells(t, p->dst_buffer, p->dst_chunk, p->nchunks);
    if (p->verb == TT_VERB_RECV_REDUCE || p->verb == TT_VERB_REDUCE)
        put_operands(t, p);
    if (p->verb == TT_VERB_COPY) {
        tt_put(t, " =");
        put_cells(t, p->src_buffer, p->src_chunk, p->nchunks);
    }
    if (message)
        tt_put(t, " #%u", p->ordinal);
    if (p->fold_count > 1)
        tt_put(t, " fold %u of %u%s", p->fold_index, p->fold_count, p->flags & TT_FOLD_TREE ? " tree" : "");
    else if (p->flags & TT_FOLD_TREE)
        tt_put(t, " tree");
    if (p->flags & TT_FINAL)
        tt_put(t, " final");
    if (p->flags >> TT_QUEUE_SHIFT)
        tt_put(t, " queue %u", p->flags >> TT_QUEUE_SHIFT);
    for (uint32_t d = 0; d < p->dep_count; d++)
        tt_put(t, d == 0 ? " after %u" : ",%u", s->deps[p->dep_first + d]);
    tt_put(t, "\n");
}

size_t tt_schedule_print(const struct tt_schedule *s, char *text, size_t bytes)
{
    struct tt_text t = { text, bytes, 0 };
    tt_put(&t, "schedule %d %s %s n %d rank %d root %d chunks %u %s", TT_TEXT_VERSION,
        tt_collectives[s->key.collective].name, s->algorithm, s->key.n, s->key.me, s->key.root, s->chunks,
        s->key.in_place ? "in_place" : "out_of_place");
    if (s->key.topology != NULL && s->key.topology->domains > 1) {
        tt_put(&t, " domains ");
        tt_topology_put(s->key.topology, &t);
    }
    tt_put(&t, "\n");
    for (uint32_t i = 0; i < s->nsteps; i++)
        put_step(&t, s, i);
    return t.length;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* traffic.c: what Tutti will send for a tape, and what it counted.
 *
 * What a call sends hangs on the algorithm that Tutti chooses for its group and size. Kept as a program, a
 * call tells that before it runs (tutti_program_traffic). After an audited step the counters of all
 * communicators (tutti_comm_traffic) must have grown by exactly what the tape foresaw. */
#include "training/run/traffic.h"

#include <inttypes.h>
#include <stdlib.h>

/* Instructions with the same calls cost the same. */
static bool alike(const struct tr_tape *t, const struct tr_instr *a, const struct tr_instr *b)
{
    return a->code == b->code && a->axes == b->axes && a->beside == b->beside && a->count == b->count &&
           a->times == b->times && a->fold == b->fold && (a->in[0] == a->out[0]) == (b->in[0] == b->out[0]) &&
           t->values[a->in[0]].element == t->values[b->in[0]].element;
}

static bool foresee(const struct tr_runner *r, const struct tr_instr *i, int64_t *sent, struct tr_error *e)
{
    tutti_program *program;
    tutti_traffic t = { .size = sizeof t };
    tutti_status s = tutti_group_start();
    if (s == TUTTI_OK)
        s = tr_runner_calls(r, i, NULL);
    tutti_status kept = tutti_group_keep(&program);
    if (s == TUTTI_OK)
        s = kept;
    if (s == TUTTI_OK)
        s = tutti_program_traffic(program, &t);
    if (kept == TUTTI_OK)
        tutti_program_destroy(program);
    *sent = (int64_t)t.sent_bytes;
    return s == TUTTI_OK || tr_fail(e, "what %s of %s will send: %s", tr_codes[i->code].name,
                                tr_instr_name(r->tape, i), tutti_get_last_error(NULL));
}

bool tr_traffic_foresee(struct tr_ledger *predicted, const struct tr_runner *r, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    const struct tr_instr **known = tr_new((size_t)t->n_instrs, sizeof(void *));
    int64_t *sent = tr_new((size_t)t->n_instrs, sizeof *sent);
    int n_known = 0;
    bool ok = true;
    for (int n = 0; n < t->n_instrs && ok; n++) {
        const struct tr_instr *i = &t->instrs[n];
        if (!tr_codes[i->code].priced)
            continue;
        int k = 0;
        while (k < n_known && !alike(t, known[k], i))
            k++;
        if (k == n_known) {
            known[n_known++] = i;
            ok = foresee(r, i, &sent[k], e);
        }
        tr_ledger_entry(predicted, t, i, i->code)->wire += sent[k];
    }
    for (int n = 0; n < predicted->n; n++)
        if (predicted->entries[n].code == TR_SEND)
            predicted->entries[n].wire = predicted->entries[n].bytes;
    free(known), free(sent);
    return ok;
}

static bool add(struct tr_traffic *to, int at, tutti_comm *comm, struct tr_error *e)
{
    tutti_traffic t = { .size = sizeof t };
    if (!comm)
        return true;
    if (tutti_comm_traffic(comm, &t) != TUTTI_OK)
        return tr_fail(e, "what was sent: %s", tr_why(comm));
    to->calls[at] += (int64_t)t.calls;
    to->called[at] += (int64_t)t.called_bytes;
    to->sent[at] += (int64_t)t.sent_bytes;
    to->received[at] += (int64_t)t.received_bytes;
    return true;
}

bool tr_traffic_read(struct tr_traffic *to, const struct tr_groups *g, struct tr_error *e)
{
    *to = (struct tr_traffic){ .calls = { 0 } };
    bool ok = add(to, TR_WORLD, g->world, e);
    for (int axes = 0; axes <= TR_WORLD && ok; axes++)
        ok = add(to, axes, g->of[axes], e) && add(to, axes, g->beside[axes], e);
    for (int i = TR_TO_NEXT; i < TR_EDGES && ok; i++)
        ok = add(to, TR_WORLD + i, g->edge[i], e);
    for (int i = 0; i < g->n_pairs && ok; i++)
        ok = add(to, TR_WORLD + TR_TO_SERVER, g->pairs[i], e);
    return ok;
}

static void sum_up(struct tr_traffic *to, const struct tr_ledger *l)
{
    *to = (struct tr_traffic){ .calls = { 0 } };
    for (int n = 0; n < l->n; n++) {
        const struct tr_entry *x = &l->entries[n];
        int edge = tr_edge_kinds[x->edge].served ? TR_TO_SERVER : (int)x->edge; /* a pair's go both ways */
        int at = x->axes ? x->axes : TR_WORLD + edge;
        to->calls[at] += x->calls, to->called[at] += x->bytes, to->sent[at] += x->wire;
    }
}

bool tr_traffic_equal(const struct tr_traffic *before, const struct tr_groups *g,
    const struct tr_ledger *predicted, int rank, struct tr_error *e)
{
    struct tr_traffic now, want;
    if (!tr_traffic_read(&now, g, e))
        return false;
    sum_up(&want, predicted);
    for (int i = 0; i < TR_TRAFFICS; i++) {
        int64_t calls = now.calls[i] - before->calls[i], called = now.called[i] - before->called[i],
                sent = now.sent[i] - before->sent[i];
        struct tr_entry group = { .axes = i <= TR_WORLD ? i : 0, .edge = i <= TR_WORLD ? 0 : i - TR_WORLD };
        char name[32];
        if (calls != want.calls[i] || called != want.called[i] || sent != want.sent[i])
            return tr_fail(e,
                "rank %d: %s: foreseen were %" PRId64 " calls of %" PRId64 " bytes that send %" PRId64
                ", and Tutti counted %" PRId64 ", %" PRId64 " and %" PRId64,
                rank, tr_entry_group(&group, name), want.calls[i], want.called[i], want.sent[i], calls,
                called, sent);
    }
    return true;
}

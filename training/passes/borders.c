/* SPDX-License-Identifier: BSD-3-Clause */
/* borders.c: what crosses borders of stages: before a part comes what another stage made, after it goes what
 * another one reads. Sends run beside the list; a wait stands where their memory is needed again: forward,
 * when the gradient comes back; backward, some sends later. */
#include "training/passes/pass.h"

#include <stdlib.h>

/* Of each shard the first stage beside its maker's that reads it. */
void tr_list_borders(struct tr_lowering *l)
{
    const struct tr_placed *p = l->p;
    size_t shards = (size_t)p->n_shards;
    l->borders = tr_new(shards, sizeof *l->borders);
    l->sent_back = tr_new(shards * (size_t)p->plan->micros, sizeof *l->sent_back);
    int *reader = tr_new(shards, sizeof *reader);
    for (int i = 0; i < p->n_shards; i++)
        reader[i] = -1;
    for (int n = p->n_steps - 1; n >= 0; n--)
        for (int x = 0; x < p->steps[n].ins; x++) {
            int shard = p->steps[n].in[x], maker = l->producer[shard],
                stage = tr_stage_of(p, p->steps[n].unit);
            if (maker >= 0 && tr_stage_of(p, p->steps[maker].unit) != stage)
                reader[shard] = stage;
        }
    for (int i = 0; i < p->n_shards; i++) {
        const struct tr_step *maker = reader[i] >= 0 ? &p->steps[l->producer[i]] : NULL;
        int from = maker ? tr_stage_of(p, maker->unit) : -1;
        if (maker && tr_plan_rank(p->plan, from) != tr_plan_rank(p->plan, reader[i]) &&
            (tr_has_stage(l->t, from) || tr_has_stage(l->t, reader[i])))
            l->borders[l->n_borders++] = (struct tr_border){ i, from, reader[i], maker->phase == TR_FORWARD };
    }
    free(reader);
}

/* By which edge a stage sends to its neighbour. Between stages on the way back of a V it has its own. */
static enum tr_edge edge_of(const struct tr_plan *plan, int from, int to)
{
    int ranks = plan->mesh.size[TR_PP];
    bool back = plan->pipeline.vee && from >= ranks && to >= ranks;
    if (to > from)
        return back ? TR_V_TO_PREVIOUS : TR_TO_NEXT;
    return back ? TR_V_TO_NEXT : TR_TO_PREVIOUS;
}

static void transfer(struct tr_lowering *l, int shard, const struct tr_slot *slot, enum tr_edge edge)
{
    bool send = tr_edge_kinds[edge].sends;
    int v = send ? *tr_now(l, shard, slot->micro) : tr_new_value(l, shard, slot->micro);
    struct tr_instr *i = tr_add_in_slot(l->t, send ? TR_SEND : TR_RECV, slot, -1);
    i->edge = edge, i->times = 1, i->count = tr_shard_count(l->p, shard, tr_micro_batch(l->p->plan));
    if (send)
        i->in[i->ins++] = v;
    else
        i->out[i->outs++] = v;
}

static void wait_for(struct tr_lowering *l, struct tr_sent sent, const struct tr_slot *slot)
{
    struct tr_instr *i = tr_add_in_slot(l->t, TR_WAIT, slot, -1);
    i->edge = sent.edge;
    i->in[i->ins++] = sent.value;
}

/* What crosses a border of stages: forward values go up, gradients go down, one stage each. Where both stages
 * are on this rank, as at the turning point of a V, nothing is sent. */
static void cross(struct tr_lowering *l, const struct tr_slot *slot, bool receive)
{
    const struct tr_plan *plan = l->p->plan;
    for (int n = 0; n < l->n_borders; n++) {
        const struct tr_border *b = &l->borders[n];
        enum tr_edge edge = edge_of(plan, b->from, b->to);
        if (b->forward != (slot->part == TR_F))
            continue;
        if (receive && b->to == slot->stage)
            transfer(l, b->shard, slot, tr_other_end(edge));
        if (receive || b->from != slot->stage)
            continue;
        transfer(l, b->shard, slot, edge);
        const struct tr_sent sent = { *tr_now(l, b->shard, slot->micro), edge, slot->stage, slot->micro };
        if (b->forward) {
            l->sent_ahead = tr_grow(l->sent_ahead, l->n_ahead, &l->room_ahead, sizeof sent);
            l->sent_ahead[l->n_ahead++] = sent;
        } else
            l->sent_back[l->n_sent++] = sent;
    }
    if (!receive)
        for (; l->n_sent - l->waited > plan->mesh.size[TR_PP]; l->waited++)
            wait_for(l, l->sent_back[l->waited], slot);
}

/* The gradient is back, so what was sent forward has arrived. What others are still on the way keeps its
 * order. */
static void wait_forward(struct tr_lowering *l, const struct tr_slot *slot)
{
    int left = 0;
    for (int n = 0; n < l->n_ahead; n++) {
        struct tr_sent *sent = &l->sent_ahead[n];
        if (sent->stage == slot->stage && sent->micro == slot->micro)
            wait_for(l, *sent, slot);
        else
            l->sent_ahead[left++] = *sent;
    }
    l->n_ahead = left;
}

void tr_receive(struct tr_lowering *l, const struct tr_slot *slot)
{
    if (slot->part != TR_W)
        cross(l, slot, true);
    if (slot->part == TR_B || slot->part == TR_I)
        wait_forward(l, slot);
}

void tr_send(struct tr_lowering *l, const struct tr_slot *slot)
{
    if (slot->part != TR_W)
        cross(l, slot, false);
}

/* Without a backward part nothing comes back that would tell of what was sent forward. */
void tr_wait_for_all(struct tr_lowering *l)
{
    for (int i = 0; i < l->n_slots && l->p->plan->forward; i++)
        wait_forward(l, &l->slots[i]);
    for (; l->waited < l->n_sent; l->waited++)
        wait_for(l, l->sent_back[l->waited], NULL);
}

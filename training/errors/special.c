/* SPDX-License-Identifier: BSD-3-Clause */
/* special.c: the errors that no row of the table can say alone: what is wrong depends on the plan or on
 * sizes, or several instructions change together. */
#include "training/errors/plant.h"

/* ---- one instruction ---- */

bool tr_sum_for_mean(const struct tr_spot *s)
{
    const struct tr_plan *p = s->t->placed->plan;
    int means = p->mesh.size[TR_DP] * p->micros;
    s->i->scale *= means;
    return means > 1;
}

bool tr_not_received(const struct tr_spot *s)
{
    return s->i->edge == TR_FROM_NEXT && tr_drop(s);
}

bool tr_count_padding(const struct tr_spot *s)
{
    int64_t columns = tr_shard_size(s->t->placed, s->t->values[s->i->in[0]].shard, 2), valid = s->i->valid;
    s->i->valid = columns;
    return valid < columns;
}

bool tr_load_neighbours(const struct tr_spot *s)
{
    const struct tr_plan *p = s->t->placed->plan;
    int64_t was = s->i->place;
    s->i->place = (int64_t)tr_micro_batch(p) * (tr_data_rank(p, s->t->at) * p->micros + s->i->micro);
    return s->i->place != was;
}

bool tr_other_micro(const struct tr_spot *s)
{
    if (s->i->micro > 1)
        return false;
    s->i->micro = 1 - s->i->micro;
    return true;
}

bool tr_into_the_group(const struct tr_spot *s)
{
    if (s->t->placed->plan->mesh.size[TR_ULYSSES] == 1)
        return false;
    s->i->axes = 1 << TR_ULYSSES;
    return true;
}

bool tr_second_half_follows(const struct tr_spot *s)
{
    if (!s->i->second)
        return false;
    int64_t tokens = tr_shard_size(s->t->placed, s->t->values[s->i->in[0]].shard, 1);
    s->i->second = s->i->first + tokens / 2;
    return true;
}

bool tr_masters_forgotten(const struct tr_spot *s)
{
    if (s->i->outs < 2)
        return false;
    s->i->outs = 1;
    return true;
}

/* The first buffer, beside the one of the first version, that a parameter's updates write to; -1. */
static int other_buffer(const struct tr_tape *t, const struct tr_param_state *h)
{
    for (int n = 0; n < t->n_instrs; n++)
        if (t->instrs[n].code == TR_UPDATE && t->instrs[n].parameter == h->parameter &&
            t->instrs[n].out[0] != h->values)
            return t->instrs[n].out[0];
    return -1;
}

bool tr_update_stashed(const struct tr_spot *s)
{
    const struct tr_param_state *h = &s->t->states[0];
    int *from = &s->i->in[s->i->ins - 1];
    if (s->t->at[TR_PP] || s->i->parameter != h->parameter || *from == h->values || other_buffer(s->t, h) < 0)
        return false;
    *from = h->values;
    return true;
}

bool tr_ask_the_last_rank(const struct tr_spot *s)
{
    if (!s->t->placed->plan->pipeline.vee)
        return false;
    s->i->edge = TR_HOME;
    return true;
}

bool tr_halo_short(const struct tr_spot *s)
{
    s->i->count -= tr_shard_size(s->t->placed, s->t->values[s->i->in[0]].shard, 2);
    return true;
}

bool tr_halo_round(const struct tr_spot *s)
{
    s->i->first = s->i->second = true;
    return true;
}

static bool become_bfloat16(struct tr_tape *t, int value)
{
    if (t->values[value].element == TR_BFLOAT16)
        return false;
    t->values[value].bytes = tr_count(t, value) * tr_element_bytes(TR_BFLOAT16);
    t->values[value].element = TR_BFLOAT16;
    return true;
}

bool tr_result_is_bfloat16(const struct tr_spot *s)
{
    return become_bfloat16(s->t, s->i->out[0]);
}

bool tr_push_is_bfloat16(const struct tr_spot *s)
{
    return become_bfloat16(s->t, s->i->in[0]);
}

/* ---- an instruction, and those that it has to do with ---- */

/* The bias is added to the partial sum, so once on each rank. */
bool tr_bias_before_reduce(const struct tr_spot *s)
{
    const struct tr_instr *reduce = &s->t->instrs[s->second];
    if (reduce->code != TR_ALL_REDUCE && reduce->code != TR_REDUCE_SCATTER)
        return false;
    s->i->in[0] = reduce->in[0];
    return tr_swap(s);
}

bool tr_swap_axes(const struct tr_spot *s)
{
    struct tr_instr *next = &s->t->instrs[s->second];
    int axes = s->i->axes;
    s->i->axes = next->axes;
    next->axes = axes;
    return true;
}

/* What the first stage sends, and what waits for the send, is what the layer before gave. */
bool tr_send_less(const struct tr_spot *s)
{
    struct tr_tape *t = s->t;
    int whole = s->i->in[0], less = t->instrs[s->second].out[0];
    if (s->i->edge != TR_TO_NEXT || whole == less)
        return false;
    for (int n = s->at; n < t->n_instrs; n++)
        if ((t->instrs[n].code == TR_SEND || t->instrs[n].code == TR_WAIT) && t->instrs[n].in[0] == whole)
            t->instrs[n].in[0] = less;
    return true;
}

/* The backward part reads what was gathered for an earlier part. */
bool tr_gather_once(const struct tr_spot *s)
{
    return s->i->in[0] == s->t->instrs[s->second].in[0] && tr_drop(s);
}

/* One all-reduce of what a rank sums over both of its runs: a tree, but another one. */
bool tr_halves_added_first(const struct tr_spot *s)
{
    struct tr_instr *fold = &s->t->instrs[s->second], *sum = s->i;
    fold->in[0] = sum->in[0];
    sum->in[0] = sum->out[0] = fold->out[0];
    sum->count = s->t->values[fold->out[0]].bytes / 4;
    return tr_put(s);
}

/* The loss of a rank's second half is given the place behind that of the first. */
bool tr_losses_follow(const struct tr_spot *s)
{
    struct tr_instr *next = &s->t->instrs[s->second];
    if (next->in[0] != s->i->in[0])
        return false;
    next->place = s->i->place + s->i->count;
    return true;
}

/* The rounding of what the instruction before it makes comes before that. */
bool tr_round_before(const struct tr_spot *s)
{
    struct tr_tape *t = s->t;
    struct tr_instr *makes = &t->instrs[s->second];
    int whole = makes->out[0], rounded = s->i->out[0];
    become_bfloat16(t, whole);
    t->values[rounded].takes = makes->in[0];
    s->i->in[0] = makes->in[0];
    makes->in[0] = rounded;
    for (int n = s->at + 1; n < t->n_instrs; n++)
        for (int x = 0; x < t->instrs[n].ins; x++)
            if (t->instrs[n].in[x] == rounded)
                t->instrs[n].in[x] = whole;
    return tr_put(s);
}

/* The gradient of what was normed takes sums of the rank's own cells; those of scale and shift are right. */
bool tr_own_sums(const struct tr_spot *s)
{
    bool changed = false;
    for (int sums = 4; sums < 6; sums++)
        for (int n = 0; n < s->at; n++) {
            const struct tr_instr *before = &s->t->instrs[n];
            if (before->code == TR_ALL_REDUCE && before->axes == 1 << TR_CP &&
                before->out[0] == s->i->in[sums]) {
                s->i->in[sums] = before->in[0];
                changed = true;
            }
        }
    return changed;
}

/* The backward part reads where the activation will be. */
bool tr_behind_its_reader(const struct tr_spot *s)
{
    for (int n = s->at + 1; n < s->t->n_instrs; n++)
        for (int x = 0; x < s->t->instrs[n].ins; x++)
            if (s->t->instrs[n].in[x] == s->i->out[0]) {
                tr_move_instr(s->t, s->at, n);
                return true;
            }
    return false;
}

/* The backward part reads the place that the activation had. */
bool tr_read_what_went_down(const struct tr_spot *s)
{
    for (int n = 0; n < s->at; n++)
        if (s->t->instrs[n].code == TR_DOWN && s->t->instrs[n].out[0] == s->i->in[0]) {
            tr_read_instead(s, s->t->instrs[n].in[0]);
            return true;
        }
    return false;
}

/* The forward part's value is read, whose place is long another's. */
bool tr_not_computed_again(const struct tr_spot *s)
{
    const struct tr_value *values = s->t->values;
    for (int n = 0; n < s->at; n++) {
        const struct tr_instr *first = &s->t->instrs[n];
        if (first->code == TR_COMPUTE && first->micro == s->i->micro &&
            values[first->out[0]].shard == values[s->i->out[0]].shard) {
            tr_read_instead(s, first->out[0]);
            return true;
        }
    }
    return false;
}

/* Of the same rank, and that comes first. */
bool tr_before_the_update(const struct tr_spot *s)
{
    return s->second < s->at && tr_put(s);
}

/* An update, before the last micro-batch's gradient is in the sum. */
bool tr_before_the_last_count(const struct tr_spot *s)
{
    int count = s->at;
    while (count >= 0 &&
           (s->t->instrs[count].code != TR_ACCUMULATE || s->t->instrs[count].parameter != s->i->parameter))
        count--;
    if (!s->t->placed->plan->pipeline.no_flush || count < 0)
        return false;
    tr_move_instr(s->t, s->at, count);
    return true;
}

/* ---- whole tapes ---- */

/* A parameter that several ranks have is in the norm on the first of them; rank r has it there as well. */
static bool count_again(struct tr_tape *tapes, int r)
{
    static const struct tr_pick first = { .code = TR_NORM, .tail = "ln1.weight" },
                                update = { .code = TR_UPDATE };
    struct tr_tape *t = &tapes[r];
    int from = tr_find(&tapes[0], &first, 0), to = tr_find(t, &update, 0);
    const struct tr_param_state *h = from < 0 ? NULL : tr_param_state_of(t, tapes[0].instrs[from].parameter);
    if (to < 0 || !h || tr_find(t, &first, 0) >= 0)
        return false;
    struct tr_instr *norm = tr_insert_instr(t, to, TR_NORM);
    *norm = tapes[0].instrs[from];
    norm->in[0] = h->gradient;
    norm->out[0] = t->leaves;
    tr_plan_memory(t);
    return true;
}

bool tr_norm_of_a_replica(struct tr_tape *tapes, int n)
{
    int r = 1;
    while (r < n && !count_again(tapes, r))
        r++;
    return r < n;
}

bool tr_norm_of_the_last_replica(struct tr_tape *tapes, int n)
{
    return n > 2 && count_again(tapes, n - 1);
}

/* Every send is waited for at once, as one without a buffer would. */
bool tr_circle_of_sends(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        for (int i = t->n_instrs - 1; i >= 0; i--)
            if (t->instrs[i].code == TR_WAIT)
                tr_remove_instr(t, i);
        for (int i = 0; i < t->n_instrs; i++)
            if (t->instrs[i].code == TR_SEND) {
                struct tr_instr wait = t->instrs[i++];
                *tr_insert_instr(t, i, TR_WAIT) = wait;
                t->instrs[i].code = TR_WAIT;
                found = true;
            }
        tr_plan_memory(t);
    }
    return found;
}

/* Instruction i reads and writes value `to` for `from`. */
static void use_instead(struct tr_instr *i, int from, int to)
{
    for (int x = 0; x < i->ins; x++)
        if (i->in[x] == from)
            i->in[x] = to;
    if (i->outs && i->out[0] == from)
        i->out[0] = to;
}

/* On the first stage, which has most versions: the first one's buffer serves for another's, in the forward
 * part of this micro-batch; -1: everywhere. */
static bool one_buffer_for_two(struct tr_tape *tapes, int n, int micro)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        for (int h = 0; h < t->n_states && t->at[TR_PP] == 0; h++) {
            int buffer = other_buffer(t, &t->states[h]);
            if (buffer < 0)
                return false;
            for (int i = 0; i < t->n_instrs; i++)
                if (micro < 0 || (t->instrs[i].part == TR_F && t->instrs[i].micro == micro))
                    use_instead(&t->instrs[i], buffer, t->states[h].values);
        }
        tr_plan_memory(t);
    }
    return true;
}

/* The first forward part that is due to read another version than the first reads that one still. */
bool tr_stale_version(struct tr_tape *tapes, int n)
{
    const struct tr_plan *p = tapes[0].placed->plan;
    return p->micros > p->mesh.size[TR_PP] && one_buffer_for_two(tapes, n, p->mesh.size[TR_PP]);
}

/* A version is overwritten which a backward part still needs. */
bool tr_stash_too_small(struct tr_tape *tapes, int n)
{
    return one_buffer_for_two(tapes, n, -1);
}

/* At the turning point of a V the last rank goes on with what it has; here it sends that on and receives, as
 * at any other border. */
bool tr_sent_at_the_turning_point(struct tr_tape *tapes, int n)
{
    struct tr_tape *t = &tapes[n - 1];
    const struct tr_plan *plan = t->placed->plan;
    int turn = 0, stage = plan->mesh.size[TR_PP];
    while (turn < t->n_instrs && t->instrs[turn].stage != stage)
        turn++;
    if (!plan->pipeline.vee || turn == t->n_instrs)
        return false;
    int x = t->instrs[turn].in[0], micro = t->instrs[turn].micro;
    for (int k = 0; k < 2; k++) {
        struct tr_instr *i = tr_insert_instr(t, turn + k, k ? TR_RECV : TR_SEND);
        i->stage = stage - 1 + k, i->micro = micro, i->part = TR_F, i->times = 1;
        i->edge = k ? TR_FROM_PREVIOUS : TR_TO_NEXT, i->count = t->values[x].bytes / 4;
        if (k)
            i->out[i->outs++] = x;
        else
            i->in[i->ins++] = x;
    }
    return true;
}

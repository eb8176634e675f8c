/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c: the types of one rank's tape, derived anew.
 *
 * Nothing that a pass noted is believed: not a shard's placements, only what the tables say of parameters,
 * inputs and the residual stream, and what the rules make of it. */
#include "training/check/checking.h"

#include "training/parallel/map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void declared(const struct tr_checking *c, int value, struct tr_placement on[TR_AXES])
{
    const struct tr_tensor *t = tr_checked_tensor(c, value);
    if (t && t->role == TR_D_PARAMETER) /* a gradient that waits lies as what it will update */
        t = &c->g->tensors[t->of];
    bool part = t && t->role == TR_PARAMETER &&
                (c->t->values[value].host ? tr_zero_cuts : tr_zero_cuts_parameter)(c->plan, t);
    for (int a = 0; a < TR_AXES; a++) {
        on[a] = t ? tr_checked_placement(c, t, a) : tr_whole;
        if (part && tr_replica_axes(c->plan, t) & 1 << a)
            on[a] = tr_flat;
    }
}

static bool result_is_declared(
    const struct tr_checking *c, int value, enum tr_axis a, struct tr_placement place)
{
    const struct tr_tensor *t = tr_checked_tensor(c, value);
    if (t->role == TR_D_PARAMETER || t->role == TR_LEAVES)
        return (tr_checked_placement(c, &c->g->tensors[t->of], a).kind == TR_S) ==
               (place.kind == TR_S && place.dim == 'r');
    struct tr_placement wanted = tr_checked_placement(c, t, a);
    bool partial = place.kind == TR_P; /* it enters its own fold alone */
    return wanted.kind == TR_R || tr_placement_is(wanted, place) || partial;
}

static bool rule_fits(struct tr_checking *c, const struct tr_instr *i, enum tr_axis a, const char *rule)
{
    struct tr_placement in[TR_INS], out[TR_OUTS];
    int ins, outs;
    if (!tr_rule_parse(rule, i->shift, in, &ins, out, &outs) || ins < i->ins || outs < i->outs)
        return false;
    if ((i->op == TR_PACK || i->op == TR_UNPACK || i->op == TR_SLICE) &&
        a != i->axis) { /* it lies on others as it did */
        c->values[i->out[0]].on[a] = c->values[i->in[0]].on[a];
        return true;
    }
    for (int x = 0; x < i->ins; x++)
        tr_mapped(c->plan, a, &in[x]);
    for (int x = 0; x < i->outs; x++)
        tr_mapped(c->plan, a, &out[x]);
    for (int x = 0; x < i->ins; x++)
        if (!tr_placement_is(c->values[i->in[x]].on[a], in[x]))
            return false;
    /* who moves it may put it elsewhere, and who rounds it leaves it there */
    bool makes = i->op != TR_PACK && i->op != TR_UNPACK && i->op != TR_SLICE && i->op != TR_ROUND;
    for (int x = 0; x < i->outs; x++)
        if (makes && !result_is_declared(c, i->out[x], a, out[x]))
            return false;
    for (int x = 0; x < i->outs; x++)
        c->values[i->out[x]].on[a] = out[x];
    return true;
}

/* The tokens that are here have the places in the sequence that the instruction takes them to have. */
static bool at_its_place(
    const struct tr_checking *c, int n, const struct tr_placement on[TR_AXES], struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    int64_t first = tr_first_token(c->t->placed, on, c->t->at),
            second = tr_second_token(c->t->placed, on, c->t->at);
    char text[128];
    if (i->striped != tr_map_of(c->plan).striped)
        return tr_checked_wrong(c, n, e,
            i->striped ? "its tokens are taken to stand in stripes, and are neighbours"
                       : "its tokens are taken to be neighbours, and stand in stripes of the sequence");
    if (i->first == first && i->second == second)
        return true;
    bool half = i->first == first;
    snprintf(text, sizeof text,
        half ? "the second half of its tokens is taken to begin at %lld of the sequence, and begins at %lld"
             : "its tokens are taken to begin at %lld of the sequence, and begin at %lld",
        (long long)(half ? i->second : i->first), (long long)(half ? second : first));
    return tr_checked_wrong(c, n, e, text);
}

/* A mask belongs to one site of the model: where this tensor, or the one whose gradient this is, was made. */
static bool at_its_site(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    const struct tr_tensor *result = tr_checked_tensor(c, i->out[0]);
    for (int x = 0; x < c->g->n_nodes; x++) {
        const struct tr_node *node = &c->g->nodes[x];
        if (node->op == i->op && &c->g->tensors[node->out[0]] == result)
            return i->shift == node->shift ||
                   tr_checked_wrong(c, n, e, "what it drops is what another site of the model drops");
    }
    return tr_checked_wrong(c, n, e, "the model drops nothing here");
}

static bool compute(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    struct tr_placement on[TR_OUTS][TR_AXES];
    char place[3], text[64 + TR_INS * (TR_NAME + 8)]; /* all inputs by name */
    for (int a = 0; a < TR_AXES; a++) {
        int r = 0;
        while (r < TR_RULES && tr_op(i->op)->rules[r] && !rule_fits(c, i, a, tr_op(i->op)->rules[r]))
            r++;
        for (int x = 0; x < i->outs; x++)
            on[x][a] = c->values[i->out[x]].on[a];
        if (r < TR_RULES && tr_op(i->op)->rules[r])
            continue;
        int used = snprintf(text, sizeof text, "on axis %s no rule of the operation takes", tr_axis_names[a]);
        for (int x = 0; x < i->ins; x++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s %s %.2s", x ? "," : "",
                tr_checked_name(c, i->in[x]), tr_placement_text(c->values[i->in[x]].on[a], place));
        return tr_checked_wrong(c, n, e, text);
    }
    double mean = 1.0f / (float)((int64_t)c->plan->batch / tr_updates(c->plan) * tr_targets(c->g));
    if (i->op == TR_SOFTMAX_DX && fabs(i->scale - mean) > 0)
        return tr_checked_wrong(
            c, n, e, "the scale of the loss is not one over the tokens of the whole batch");
    bool vocabulary = i->op == TR_ROW_MAX || i->op == TR_SOFTMAX || i->op == TR_SOFTMAX_DX;
    if (vocabulary &&
        i->valid != tr_valid_columns(c->t->placed, c->t->values[i->in[0]].shard, c->t->at[TR_TP]))
        return tr_checked_wrong(
            c, n, e, "columns that are padding of the vocabulary would count, or others would not");
    if (i->op == TR_ADMIT && !tr_check_admit(c, n, e))
        return false;
    if ((i->op == TR_DROPOUT || i->op == TR_DROPOUT_DX) && !at_its_site(c, n, e))
        return false;
    int tokens_of = tr_op(i->op)->tokens_of;
    if (tokens_of && !at_its_place(c, n, c->values[i->in[tokens_of - 1]].on, e))
        return false;
    for (int x = 0; x < i->outs; x++)
        memcpy(c->values[i->out[x]].on, on[x], sizeof on[x]);
    return true;
}

/* What is made for a micro-batch comes from that one alone. A wait may be for an earlier one. */
static bool of_one_micro(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    char text[160];
    for (int x = 0; x < i->ins && i->micro >= 0 && i->code != TR_WAIT; x++) {
        int micro = c->values[i->in[x]].micro;
        if (micro < 0 || micro == i->micro)
            continue;
        snprintf(text, sizeof text, "%s is of micro-batch %d", tr_checked_name(c, i->in[x]), micro);
        return tr_checked_wrong(c, n, e, text);
    }
    return true;
}

/* The micro-batch of a result is that of what was read, and of tokens that which they are loaded for. */
static void pass_micro(struct tr_checking *c, int n)
{
    const struct tr_instr *i = &c->t->instrs[n];
    int micro = i->code == TR_LOAD || i->code == TR_RECV ? i->micro : -1;
    for (int x = 0; x < i->ins && micro < 0 && i->code != TR_UPDATE; x++)
        micro = c->values[i->in[x]].micro;
    for (int x = 0; x < i->outs; x++)
        c->values[i->out[x]].micro = i->micro < 0 ? -1 : micro;
}

/* Whether gradients are reduced for each micro-batch. */
static bool reduces_each(const struct tr_tape *t)
{
    const struct tr_plan *plan = t->placed->plan;
    bool each = plan->mesh.size[TR_EP] > 1; /* experts have the tokens of several ranks in each */
    for (int x = 0; x < t->n_instrs && !each; x++) {
        const struct tr_instr *r = &t->instrs[x];
        each = (r->code == TR_REDUCE_SCATTER || r->code == TR_ALL_REDUCE) && !(r->axes & ~TR_DATA) &&
               r->micro >= 0 && (r->micro + 1) % tr_update_micros(plan);
    }
    return each;
}

/* The leaves of the sum over sequences: what is reduced first must be a subtree. A rank's micro-batches are
 * neighbours if gradients are reduced once; if they are for each micro-batch, those of its ranks are. */
static bool load(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    bool each = c->each_micro;
    int64_t k = tr_micro_batch(c->plan), dp = tr_data_ranks(c->plan), rank = tr_data_rank(c->plan, c->t->at),
            micro = i->micro;
    if (!at_its_place(c, n, c->values[i->out[0]].on, e) || !tr_check_loaded(c, n, e))
        return false;
    int64_t sum = each ? 1 : tr_update_micros(c->plan); /* micro-batches that are summed up first */
    if (i->place == k * ((micro / sum * dp + rank) * sum + micro % sum))
        return true;
    return tr_checked_wrong(c, n, e,
        each ? "gradients are reduced for each micro-batch, so its ranks need neighbouring sequences"
             : "gradients are reduced once, so a rank needs neighbouring sequences");
}

/* Whether a collective on axis a may make `to` of this value. */
static bool takes(
    struct tr_checking *c, int n, int value, enum tr_axis a, struct tr_placement to, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    const struct tr_tensor *t = tr_checked_tensor(c, value);
    struct tr_placement from = c->values[value].on[a];
    bool partial = from.kind == TR_P, moves = i->code == TR_ALL_GATHER || i->code == TR_BROADCAST ||
                                              i->code == TR_ALL_TO_ALL || i->code == TR_SHIFT ||
                                              i->code == TR_HALO || i->code == TR_ALL_TO_ALL_V;
    char text[128];
    if (!moves && !partial)
        return tr_checked_said(
            c, n, e, value, a, "it is whole, so to reduce it would count it more than once");
    int code = i->code == TR_ALL_TO_ALL_V ? TR_ALL_TO_ALL : i->code;
    if (tr_collective(from, to) != code)
        return tr_checked_said(c, n, e, value, a, "this collective does not take that");
    for (int b = (int)a + 1; b < TR_AXES; b++)
        if (from.dim == 't' && !from.zigzag && !from.halves && !from.shift && !from.term && !from.packed &&
            !from.halo && tr_placement_is(c->values[value].on[b], from)) {
            snprintf(text, sizeof text, "axis %s cuts the tokens of a part of this axis, and is due before",
                tr_axis_names[b]);
            return tr_checked_said(c, n, e, value, a, text);
        }
    if (partial && i->fold != tr_fold_op(from))
        return tr_checked_said(c, n, e, value, a, "its fold is another operation");
    if (partial && t && t->role == TR_D_PARAMETER && TR_DATA & 1 << a && !tr_reduces_each_micro(c->plan) &&
        c->counted[t->of] != tr_update_micros(c->plan)) {
        snprintf(text, sizeof text, "%s is reduced with %d of %d micro-batches in it", t->name,
            c->counted[t->of], tr_update_micros(c->plan));
        return tr_checked_wrong(c, n, e, text);
    }
    return true;
}

/* On the axes of a call a value now lies so. */
static void set(struct tr_checking *c, int n, int value, struct tr_placement to)
{
    for (int a = 0; a < TR_AXES; a++)
        if (c->t->instrs[n].axes & 1 << a)
            c->values[value].on[a] = to;
}

/* What is made for a bucket, or for what was made of one: its members have the types of the first one's. */
static bool unpack(struct tr_checking *c, int n, int bucket, struct tr_placement to, struct tr_error *e)
{
    int out = c->t->instrs[n].out[0];
    c->values[out].source = bucket;
    for (int w = -1; (w = tr_check_member(c, out, w)) >= 0; set(c, n, w, to)) {
        int v = -1;
        while ((v = tr_check_member(c, bucket, v)) >= 0)
            if (c->t->values[v].inside == c->t->values[w].inside)
                break;
        if (v < 0)
            return tr_checked_wrong(c, n, e, "the bucket that was reduced has other members");
        memcpy(c->values[w].on, c->values[v].on, sizeof c->values->on);
    }
    return true;
}

/* What a collective makes of what lies so; false if it takes no such. */
static bool made_of(
    const struct tr_checking *c, const struct tr_instr *i, struct tr_placement from, struct tr_placement *to)
{
    const struct tr_tensor *t = tr_checked_tensor(c, i->in[0]);
    switch (i->code) {
    case TR_REDUCE:
        return tr_move(from, TR_MOVE_REDUCE, 0, to);
    case TR_REDUCE_SCATTER:
        return tr_move(from, TR_MOVE_REDUCE_SCATTER,
            from.packed                       ? from.packed
            : !t || t->role == TR_D_PARAMETER ? 'f'
                                              : 't',
            to);
    case TR_ALL_TO_ALL:
    case TR_ALL_TO_ALL_V:
        return tr_move(from, TR_MOVE_ALL_TO_ALL,
            i->axes == 1 << TR_EP ? (from.dim == 'e' ? 'b' : 'e')
            : from.dim == 't'     ? 'c'
                                  : 't',
            to);
    case TR_SHIFT:
        return tr_move(from, TR_MOVE_SHIFT, 0, to);
    case TR_HALO:
        return tr_move(from, TR_MOVE_HALO, 0, to);
    case TR_ALL_GATHER:
        return tr_move(from, TR_MOVE_ALL_GATHER, 0, to);
    case TR_BROADCAST:
        return tr_move(from, TR_MOVE_BROADCAST, 0, to);
    default:
        return tr_move(from, TR_MOVE_ALL_REDUCE, 0, to);
    }
}

/* On one of its axes, which is the only one, but for what all ranks with other sequences reduce. */
static bool on_axis(struct tr_checking *c, int n, enum tr_axis a, struct tr_placement *to, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    int in = i->in[0];
    struct tr_placement from = c->values[in].on[a];
    bool shifted = made_of(c, i, from, to);
    if (i->code == TR_SHIFT && shifted && i->shift != to->shift - from.shift)
        return tr_checked_said(c, n, e, in, a, "it is due at another rank");
    if (i->code == TR_HALO && !tr_check_halo(c, n, a, e))
        return false;
    if (!c->values[in].holds && !takes(c, n, in, a, *to, e))
        return false;
    for (int v = -1; (v = tr_check_member(c, in, v)) >= 0;)
        if (!takes(c, n, v, a, *to, e))
            return false;
    return i->code != TR_ALL_TO_ALL_V || tr_check_exchange(c, n, e);
}

/* What a collective makes of its input. */
static bool collective(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    int in = i->in[0], bucket = c->values[in].holds ? in : c->values[in].source;
    struct tr_placement to = tr_whole;
    if (i->axes == TR_WORLD || in == c->t->losses || in == c->t->leaves)
        return i->fold == TUTTI_SUM || tr_checked_wrong(c, n, e, "leaves are summed");
    for (int a = 0; a < TR_AXES; a++)
        if (i->axes & 1 << a && !on_axis(c, n, a, &to, e))
            return false;
    memcpy(c->values[i->out[0]].on, c->values[in].on, sizeof c->values->on);
    set(c, n, i->out[0], to);
    return bucket < 0 || unpack(c, n, bucket, to, e);
}

/* What enters a sum over sequences must be whole but for that. */
bool tr_check_term(const struct tr_checking *c, int n, int value, struct tr_error *e)
{
    for (int a = 0; a < TR_AXES; a++)
        if ((c->values[value].on[a].kind == TR_P || c->values[value].on[a].halves) &&
            c->values[value].on[a].dim != 'b')
            return tr_checked_said(
                c, n, e, value, a, "it must be complete before it enters the sum over sequences");
    return true;
}

int tr_check_parts(const struct tr_checking *c)
{
    if (c->t->server >= 0)
        return c->plan->servers.async ? 1 : c->plan->mesh.size[TR_DP];
    return tr_update_micros(c->plan);
}

static const char *part_name(const struct tr_checking *c)
{
    return c->t->server >= 0 ? "worker" : "micro-batch";
}

/* A gradient enters the sum over micro-batches: complete but for the sequences, each once, in their order. So
 * do those of workers, and with the last one the sum is whole. */
static bool count_in(struct tr_checking *c, int n, int value, int parameter, int micro, struct tr_error *e)
{
    char text[128];
    if (!tr_check_term(c, n, value, e))
        return false;
    if (c->counted[parameter] == micro % tr_check_parts(c)) {
        c->counted[parameter]++;
        if (c->t->server >= 0 && c->counted[parameter] == tr_check_parts(c))
            c->values[value].on[TR_DP] = tr_whole;
        return true;
    }
    snprintf(text, sizeof text, "%s %d of %s enters the sum where %d is due", part_name(c), micro,
        c->g->tensors[parameter].name, c->counted[parameter]);
    return tr_checked_wrong(c, n, e, text);
}

/* The gradient that is used: whole, or this rank's part with ZeRO, over all micro-batches, both homes of a
 * tie. */
static bool finished(struct tr_checking *c, int n, int value, int parameter, struct tr_error *e)
{
    const struct tr_tensor *w = &c->g->tensors[parameter];
    char text[128];
    if (c->counted[parameter] != tr_check_parts(c)) {
        snprintf(text, sizeof text, "the gradient has %d of %d %s%s", c->counted[parameter],
            tr_check_parts(c), part_name(c), c->t->server >= 0 ? "s" : "es");
        return tr_checked_wrong(c, n, e, text);
    }
    for (int a = 0; a < TR_AXES; a++) {
        struct tr_placement on = c->values[value].on[a];
        bool applied_alone = c->plan->servers.async && a == TR_DP && on.kind == TR_P && on.dim == 'b';
        if ((on.kind == TR_P && !applied_alone) || on.halves)
            return tr_checked_said(c, n, e, value, a, "the gradient is still a partial sum");
        if (on.kind == TR_O)
            return tr_checked_said(c, n, e, value, a, "one rank has the gradient, and it was not broadcast");
        bool part = tr_replica_axes(c->plan, w) & 1 << a && tr_zero_cuts(c->plan, w);
        if ((on.dim == 'f') != part)
            return tr_checked_said(c, n, e, value, a, "ZeRO wants a part, and nothing else does");
    }
    if (w->values_of != parameter && !tr_ends_apart(c->plan))
        return tr_checked_wrong(c, n, e, "a tied head has no values of its own");
    for (int x = 0; x < c->g->n_tensors; x++)
        if (c->g->tensors[x].role == TR_PARAMETER && x != c->g->tensors[x].values_of &&
            (x == parameter || c->g->tensors[x].values_of == parameter) && !c->tied[parameter])
            return tr_checked_wrong(c, n, e, "the gradients of embedding and head are not added");
    return true;
}

/* Whether the norm of the whole gradient is there. */
static bool has_norm(const struct tr_checking *c, int n)
{
    for (int x = n + 1; x < c->t->n_instrs; x++)
        if (c->t->instrs[x].outs && c->t->instrs[x].out[0] == c->t->leaves)
            return false;
    return true;
}

/* With ZeRO a rank renews its part, and where all have the whole, the rest is of the step before. */
static bool update(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    if (c->values[i->in[0]].renewed)
        return tr_checked_wrong(
            c, n, e, "the gradient that waited since the step before is lost: that of this step is there");
    if (c->plan->optimizer.clip > 0 && !has_norm(c, n))
        return tr_checked_wrong(c, n, e, "the gradient is clipped by a norm that is not known yet");
    if (!tr_check_optimizer(c, n, e))
        return false;
    c->updated[i->parameter]++;
    if (c->t->values[i->out[0]].host) /* which may be made anew */
        declared(c, i->out[0], c->values[i->out[0]].on);
    const struct tr_tensor *w = &c->g->tensors[i->parameter];
    if (c->plan->pipeline.async) /* another version, which lies as the one it is made from */
        memcpy(c->values[i->out[0]].on, c->values[i->in[i->ins - 1]].on, sizeof c->values->on);
    for (int a = 0; a < TR_AXES && tr_zero_cuts(c->plan, w); a++)
        if (tr_replica_axes(c->plan, w) & 1 << a)
            c->values[i->out[0]].on[a] = tr_flat;
    if (!finished(c, n, i->in[0], i->parameter, e))
        return false;
    if (c->plan->pipeline.async)
        c->counted[i->parameter] = 0;
    return true;
}

/* Scores are sums over all channels, of the tokens and the columns that they are taken for. */
static bool scores(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    int shard = c->t->values[i->in[0]].shard, tp = c->t->at[TR_TP];
    const struct tr_placement *on = c->values[i->in[0]].on;
    for (int a = 0; a < TR_AXES; a++)
        if (on[a].kind == TR_P)
            return tr_checked_said(c, n, e, i->in[0], (enum tr_axis)a, "the scores are still a partial sum");
    if (i->place != tr_first_column(c->t->placed, shard, tp) ||
        i->valid != tr_valid_columns(c->t->placed, shard, tp))
        return tr_checked_wrong(c, n, e, "its columns are taken for others of the vocabulary");
    return at_its_place(c, n, on, e);
}

static bool instruction(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    if (tr_edge_kinds[i->edge].served)
        return tr_check_with_server(c, n, e);
    switch (i->code) {
    case TR_COMPUTE:
        return compute(c, n, e);
    case TR_ALL_REDUCE:
    case TR_REDUCE_SCATTER:
    case TR_ALL_GATHER:
    case TR_REDUCE:
    case TR_BROADCAST:
    case TR_ALL_TO_ALL:
    case TR_SHIFT:
    case TR_HALO:
    case TR_ALL_TO_ALL_V:
        return collective(c, n, e);
    case TR_LOAD:
        declared(c, i->out[0], c->values[i->out[0]].on);
        return load(c, n, e);
    case TR_RECV: /* as the sender has it: check_order holds that against this */
        memcpy(c->values[i->out[0]].on, c->t->placed->shards[c->t->values[i->out[0]].shard].on,
            sizeof c->values->on);
        return true;
    case TR_SEND:
        return !memcmp(c->values[i->in[0]].on, c->t->placed->shards[c->t->values[i->in[0]].shard].on,
                   sizeof c->values->on) ||
               tr_checked_wrong(c, n, e, "what is sent does not lie as the next stage expects");
    case TR_ACCUMULATE:
        return count_in(c, n, i->in[0], i->parameter, i->micro, e);
    case TR_TIE:
        for (int x = 0; x < c->g->n_tensors; x++)
            c->tied[x] |= c->g->tensors[x].values_of == i->parameter;
        memcpy(c->values[i->out[0]].on, c->values[i->in[0]].on, sizeof c->values->on);
        return true;
    case TR_NORM:
        return finished(c, n, i->in[0], i->parameter, e);
    case TR_UPDATE:
        return update(c, n, e);
    case TR_WAIT:
        return tr_check_wait(c, n, e);
    case TR_DOWN:
    case TR_UP:
        return tr_check_copy(c, n, e) &&
               (i->code == TR_UP || i->parameter < 0 || finished(c, n, i->in[0], i->parameter, e));
    case TR_SCORES:
        return scores(c, n, e);
    default:
        return true;
    }
}

static bool each(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    if (!tr_check_memories(c, n, e) || !tr_check_reads(c, n, e) || !of_one_micro(c, n, e) ||
        !instruction(c, n, e))
        return false;
    tr_check_writes(c, n);
    pass_micro(c, n);
    for (int x = 0;
         x < i->outs && i->code == TR_COMPUTE && i->op != TR_ROUND && tr_update_micros(c->plan) == 1; x++) {
        const struct tr_tensor *t = tr_checked_tensor(c, i->out[x]);
        if (t && t->role == TR_D_PARAMETER && !count_in(c, n, i->out[x], t->of, i->micro, e))
            return false;
    }
    return tr_check_elements(c, n, e);
}

/* What outlives the step lies as the next one expects it, and nothing is under way. */
static bool lasting(const struct tr_checking *c, struct tr_error *e)
{
    for (int v = 0; v < c->t->n_values; v++) {
        struct tr_placement on[TR_AXES];
        char now[3], next[3];
        const struct tr_known *k = &c->values[v];
        if (k->flight >= 0)
            return tr_fail(e, "rank %d: nobody waits for instruction %d, %s of %s", c->t->rank, k->flight,
                tr_codes[c->t->instrs[k->flight].code].name, tr_checked_name(c, v));
        declared(c, v, on);
        for (int a = 0; a < TR_AXES && c->t->values[v].lasts; a++)
            if (!tr_placement_is(on[a], k->on[a]))
                return tr_fail(e,
                    "rank %d: after the step %s is %c on axis %s, and the next step reads it as %c: each "
                    "rank has renewed its part, and no all_gather follows",
                    c->t->rank, tr_checked_name(c, v), *tr_placement_text(k->on[a], now), tr_axis_names[a],
                    *tr_placement_text(on[a], next));
    }
    return true;
}

static bool all_updated(const struct tr_checking *c, struct tr_error *e)
{
    for (int n = 0; n < c->t->n_states; n++) {
        int p = c->t->states[n].parameter;
        bool own = !c->plan->forward && (c->g->tensors[p].values_of == p || tr_ends_apart(c->plan));
        if (c->updated[p] != own * tr_updates(c->plan))
            return tr_fail(e, "rank %d: %s is updated %d times in a step", c->t->rank, c->g->tensors[p].name,
                c->updated[p]);
    }
    return true;
}

bool tr_check_types(const struct tr_tape *t, struct tr_error *e)
{
    size_t tensors = (size_t)t->placed->g->n_tensors, values = (size_t)t->n_values;
    struct tr_checking c = { .t = t,
        .g = t->placed->g,
        .plan = t->placed->plan,
        .values = tr_new(values, sizeof *c.values),
        .wanted = tr_new(tensors * TR_AXES, sizeof *c.wanted),
        .counted = tr_new(tensors, sizeof(int)),
        .updated = tr_new(tensors, sizeof(int)),
        .pulled = tr_new(tensors, sizeof(int)),
        .raised = tr_new(tensors, sizeof(int)),
        .tied = tr_new(tensors, sizeof(bool)),
        .each_micro = reduces_each(t),
        .live = { tr_new(values + 1, sizeof(int)), tr_new(values + 1, sizeof(int)) } };
    for (int v = 0; v < t->n_values; v++) {
        for (int a = 0; a < TR_AXES; a++)
            c.values[v].on[a] = tr_whole;
        c.values[v].micro = -1;
        c.values[v].lost = c.values[v].flight = c.values[v].source = -1;
        if (t->values[v].within >= 0)
            c.values[t->values[v].within].holds = true;
        if (t->values[v].lasts) {
            declared(&c, v, c.values[v].on);
            tr_check_write(&c, -1, v);
        }
    }
    bool ok = true;
    for (int n = 0; n < t->n_instrs && ok; n++)
        ok = each(&c, n, e);
    ok = ok && all_updated(&c, e) && tr_check_raised(&c, e) && lasting(&c, e);
    free(c.values), free(c.wanted), free(c.counted), free(c.updated), free(c.pulled), free(c.raised),
        free(c.tied), free(c.live[0]), free(c.live[1]);
    return ok;
}

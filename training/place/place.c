/* SPDX-License-Identifier: BSD-3-Clause */
/* place.c: choose a rule for each node and axis, and put a collective where a shard is missing.
 *
 * For an axis, a rule fits if parameters, inputs and the residual stream lie as the tables say, and each
 * other input is there, or one collective away. Of those that fit the one with the fewest collectives is
 * taken, and of these the first. */
#include "training/place/place.h"

#include "training/parallel/map.h"
#include "training/place/element.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct tr_code_kind tr_codes[TR_CODES] = { [TR_COMPUTE] = { .name = "compute" },
    [TR_ALL_REDUCE] = { .name = "all_reduce", .talks = true, .grouped = true, .priced = true },
    [TR_REDUCE_SCATTER] = { .name = "reduce_scatter", .talks = true, .grouped = true, .priced = true },
    [TR_ALL_GATHER] = { .name = "all_gather", .talks = true, .grouped = true, .priced = true },
    [TR_REDUCE] = { .name = "reduce", .talks = true, .grouped = true, .priced = true },
    [TR_BROADCAST] = { .name = "broadcast", .talks = true, .grouped = true, .priced = true },
    [TR_ALL_TO_ALL] = { .name = "all_to_all", .talks = true, .grouped = true, .priced = true },
    [TR_SHIFT] = { .name = "shift", .talks = true, .grouped = true },
    [TR_HALO] = { .name = "halo", .talks = true, .grouped = true },
    [TR_ALL_TO_ALL_V] = { .name = "all_to_all_v", .talks = true, .grouped = true },
    [TR_SEND] = { .name = "send", .talks = true },
    [TR_RECV] = { .name = "recv", .talks = true },
    [TR_LOAD] = { .name = "load" },
    [TR_ACCUMULATE] = { .name = "count" },
    [TR_TIE] = { .name = "tie" },
    [TR_NORM] = { .name = "norm" },
    [TR_LOSSES] = { .name = "losses" },
    [TR_UPDATE] = { .name = "update" },
    [TR_WAIT] = { .name = "wait" },
    [TR_DOWN] = { .name = "down" },
    [TR_UP] = { .name = "up" },
    [TR_SCORES] = { .name = "scores" } };

int tr_collective(struct tr_placement from, struct tr_placement to)
{
    static const enum tr_code codes[TR_MOVES] = { TR_ALL_REDUCE, TR_REDUCE_SCATTER, TR_ALL_GATHER, TR_REDUCE,
        TR_BROADCAST, TR_ALL_TO_ALL, TR_SHIFT, TR_HALO };
    int m = tr_move_between(from, to);
    return m < 0 ? -1 : (int)codes[m];
}

/* On the way from one placement to another there is a third. A stream of tokens is never cut by channels, so
 * some are those of pictures alone. */
static const struct {
    char from[3], to[3], by[3];
    bool pictures;
} ways[] = { { "St", "Sc", "Xc", false }, { "Sc", "St", "Xc", false }, { "Zt", "R", "Yt", false },
    { "Pz", "Zt", "Pq", false }, { "Pq", "Zt", "Hs", false }, { "Sc", "R", "Yc", true },
    { "P+", "Sc", "Pc", true } };

static struct tr_placement next_on_way(
    const struct tr_placed *p, struct tr_placement from, struct tr_placement to)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (tr_placement_is(tr_placement_of(ways[i].from, 0), from) &&
            tr_placement_is(tr_placement_of(ways[i].to, 0), to) && (!ways[i].pictures || p->g->grid))
            return tr_placement_of(ways[i].by, 0);
    return to;
}

static bool is_whole(struct tr_placement p)
{
    return tr_placement_is(p, tr_whole);
}

/* What each rank has whole it may cut, and nothing is sent. */
static bool is_free(const struct tr_placed *p, struct tr_placement from, struct tr_placement to)
{
    return is_whole(from) && tr_placement_is(to, tr_placement_of("Sc", 0)) && p->g->grid;
}

static bool reaches(const struct tr_placed *p, struct tr_placement from, struct tr_placement to)
{
    return tr_collective(from, to) >= 0 || !tr_placement_is(next_on_way(p, from, to), to) ||
           is_free(p, from, to);
}

/* The operation that changes the layout alone. */
static int packing(struct tr_placement from)
{
    if (from.halves && !from.packed)
        return from.kind == TR_P ? TR_DEAL : TR_HALVES;
    if (from.packed && from.kind != TR_P)
        return from.packed == 't' ? TR_ARRANGE : TR_UNPACK;
    return is_whole(from) ? TR_SLICE : TR_PACK;
}

tutti_op tr_fold_op(struct tr_placement from)
{
    return from.kind == TR_P && from.fold == TR_FOLD_MAX ? TUTTI_MAX : TUTTI_SUM;
}

static int find(const struct tr_placed *p, int tensor, struct tr_placement on[TR_AXES], bool unrounded)
{
    for (int i = p->of[tensor].first; i >= 0; i = p->shards[i].next)
        if (!memcmp(p->shards[i].on, on, sizeof p->shards[i].on) && p->shards[i].unrounded == unrounded)
            return i;
    return -1;
}

/* The shard of a tensor with these placements, made if there is none. */
static int shard_of(struct tr_placed *p, int tensor, struct tr_placement on[TR_AXES], bool unrounded)
{
    int i = find(p, tensor, on, unrounded);
    if (i >= 0)
        return i;
    p->shards = tr_grow(p->shards, p->n_shards, &p->room_shards, sizeof *p->shards);
    if (p->of[tensor].last >= 0)
        p->shards[p->of[tensor].last].next = p->n_shards;
    else
        p->of[tensor].first = p->n_shards;
    p->of[tensor].last = p->n_shards;
    p->shards[p->n_shards].tensor = tensor;
    p->shards[p->n_shards].next = -1;
    p->shards[p->n_shards].unrounded = unrounded;
    memcpy(p->shards[p->n_shards].on, on, sizeof p->shards->on);
    return p->n_shards++;
}

static struct tr_step *add_step(struct tr_placed *p)
{
    p->steps = tr_grow(p->steps, p->n_steps, &p->room_steps, sizeof *p->steps);
    struct tr_step *s = &p->steps[p->n_steps++];
    *s = (struct tr_step){ .code = TR_COMPUTE };
    return s;
}

/* The shard of a parameter or of an input, as the tables place it. */
static int given(struct tr_placed *p, int tensor)
{
    struct tr_placement on[TR_AXES];
    for (int a = 0; a < TR_AXES; a++)
        on[a] = tr_table_placement(p->plan, &p->g->tensors[tensor], a);
    return shard_of(p, tensor, on, false);
}

static bool is_given(const struct tr_tensor *t)
{
    return t->role == TR_PARAMETER || t->role == TR_INPUT;
}

/* How many collectives on this axis make `want` of a shard that is there: 0, 1, or -1 for none. */
static int distance(const struct tr_placed *p, int tensor, enum tr_axis axis, struct tr_placement want)
{
    int best = -1;
    for (int i = p->of[tensor].first; i >= 0; i = p->shards[i].next)
        if (!p->shards[i].unrounded) {
            if (tr_placement_is(p->shards[i].on[axis], want))
                return 0;
            if (is_given(&p->g->tensors[tensor]) || !reaches(p, p->shards[i].on[axis], want))
                continue;
            if (is_free(p, p->shards[i].on[axis], want))
                return 0;
            best = 1;
        }
    return best;
}

static bool result_fits(const struct tr_placed *p, int tensor, enum tr_axis axis, struct tr_placement place)
{
    const struct tr_tensor *t = &p->g->tensors[tensor];
    if (t->role == TR_D_PARAMETER || t->role == TR_LEAVES) {
        struct tr_placement of = tr_table_placement(p->plan, &p->g->tensors[t->of], axis);
        return (of.kind == TR_S) == (place.kind == TR_S && place.dim == 'r');
    }
    struct tr_placement wanted = tr_table_placement(p->plan, t, axis);
    /* Who reads a gradient will ask for the right one; the stream becomes whole where it is made. */
    bool partial = place.kind == TR_P && (t->role == TR_D_ACTIVATION || reaches(p, place, wanted));
    return wanted.kind == TR_R || tr_placement_is(wanted, place) || partial;
}

struct choice {
    struct tr_placement in[TR_INS], out[TR_OUTS];
};

static bool choose(
    struct tr_placed *p, const struct tr_node *n, enum tr_axis axis, struct choice *c, struct tr_error *e)
{
    int best = -1;
    for (int r = 0; r < TR_RULES && tr_op(n->op)->rules[r]; r++) {
        struct choice try = { .in = { { 0 } } };
        int ins, outs, cost = 0;
        tr_rule_parse(tr_op(n->op)->rules[r], n->shift, try.in, &ins, try.out, &outs);
        for (int i = 0; i < TR_INS; i++)
            tr_mapped(p->plan, axis, &try.in[i]);
        for (int i = 0; i < TR_OUTS; i++)
            tr_mapped(p->plan, axis, &try.out[i]);
        for (int i = 0; i < n->ins && cost >= 0; i++) {
            int far = distance(p, n->in[i], axis, try.in[i]);
            cost = far < 0 ? -1 : cost + far;
        }
        for (int i = 0; i < n->outs && cost >= 0; i++)
            if (!result_fits(p, n->out[i], axis, try.out[i]))
                cost = -1;
        if (cost >= 0 && (best < 0 || cost < best)) {
            best = cost;
            *c = try;
        }
    }
    if (best >= 0)
        return true;
    return tr_fail(e, "%s of %s: no rule of this operation fits what lies on axis %s", tr_op(n->op)->name,
        p->g->tensors[n->out[0]].name, tr_axis_names[axis]);
}

/* A sum that is whole is rounded, if its tensor is; returns what is read then. */
static int rounded(struct tr_placed *p, const struct tr_node *n, int sum)
{
    int to = shard_of(p, p->shards[sum].tensor, p->shards[sum].on, false);
    struct tr_step s = { .code = TR_COMPUTE, .op = TR_ROUND, .phase = n->phase, .unit = n->unit };
    s.in[s.ins++] = sum, s.out[s.outs++] = to;
    *add_step(p) = s;
    return to;
}

static int need(struct tr_placed *p, const struct tr_node *n, int tensor, struct tr_placement on[TR_AXES]);

/* An exchange of rows reads how many there are: those that leave here, and those that come here. */
static void with_counts(struct tr_placed *p, const struct tr_node *n, struct tr_step *s, int counts)
{
    struct tr_placement on[TR_AXES];
    memcpy(on, p->shards[s->in[0]].on, sizeof on);
    for (int way = 0; way < 2; way++) {
        on[s->axis] = tr_placement_of(way ? "E" : "Sb", 0);
        s->in[s->ins++] = need(p, n, counts, on);
    }
    s->code = TR_ALL_TO_ALL_V;
}

/* A step that makes `place` on one axis of a shard: a collective, or the packing beside an all-to-all.
 * Returns what it makes. */
static int convert(
    struct tr_placed *p, const struct tr_node *n, int from, enum tr_axis axis, struct tr_placement place)
{
    struct tr_placement on[TR_AXES], before = p->shards[from].on[axis];
    memcpy(on, p->shards[from].on, sizeof on);
    on[axis] = place;
    int code = tr_collective(before, place), to = shard_of(p, p->shards[from].tensor, on, false);
    bool rounds =
        code >= 0 && tr_shard_element(p, from) == TR_FLOAT32 && tr_shard_element(p, to) == TR_BFLOAT16;
    if (rounds)
        to = shard_of(p, p->shards[from].tensor, on, true);
    struct tr_step s = {
        .code = TR_COMPUTE, .op = packing(before), .phase = n->phase, .unit = n->unit, .axis = axis
    };
    int counts = p->g->tensors[p->shards[from].tensor].counts;
    s.in[s.ins++] = from, s.out[s.outs++] = to;
    if (code >= 0)
        s.code = (enum tr_code)code;
    if (code == TR_ALL_TO_ALL && counts >= 0)
        with_counts(p, n, &s, counts);
    if (code == TR_SHIFT)
        s.shift = place.shift - before.shift;
    *add_step(p) = s;
    return rounds ? rounded(p, n, to) : to;
}

/* The shard with these placements: there, or by collectives, one axis after the other. */
static int need(struct tr_placed *p, const struct tr_node *n, int tensor, struct tr_placement on[TR_AXES])
{
    int i = find(p, tensor, on, false), from = -1;
    bool passing = false; /* what comes round a ring is handed on and not kept */
    for (int a = 0; a < TR_AXES; a++)
        passing |= on[a].shift && !on[a].term;
    if (i >= 0 && !passing)
        return i;
    for (int s = p->of[tensor].first; s >= 0 && from < 0; s = p->shards[s].next) {
        bool near = !p->shards[s].unrounded;
        for (int a = 0; a < TR_AXES && near; a++)
            near = tr_placement_is(p->shards[s].on[a], on[a]) || reaches(p, p->shards[s].on[a], on[a]);
        if (near && !(passing && s == i))
            from = s;
    }
    for (int x = 2 * TR_AXES - 1; x >= 0 && from >= 0; x--) { /* a sequence is whole before others come */
        int a = x % TR_AXES;
        while ((x < TR_AXES || on[a].packed != 'b') && !tr_placement_is(p->shards[from].on[a], on[a]))
            from = convert(p, n, from, (enum tr_axis)a, next_on_way(p, p->shards[from].on[a], on[a]));
    }
    return from;
}

/* What is on the residual stream and a partial sum becomes what the tables say of the stream. Of pictures the
 * next layer may read channels that are cut. */
static void complete(struct tr_placed *p, const struct tr_node *n, int shard)
{
    const struct tr_tensor *t = &p->g->tensors[p->shards[shard].tensor];
    struct tr_placement on[TR_AXES];
    bool partial = false;
    memcpy(on, p->shards[shard].on, sizeof on);
    for (int a = 0; a < TR_AXES && t->stream && t->role == TR_ACTIVATION && !p->g->grid; a++)
        if (on[a].kind == TR_P) {
            on[a] = tr_table_placement(p->plan, t, (enum tr_axis)a);
            partial = true;
        }
    if (partial)
        need(p, n, p->shards[shard].tensor, on);
}

static bool place_node(struct tr_placed *p, const struct tr_node *n, struct tr_error *e)
{
    struct choice chosen[TR_AXES];
    for (int i = 0; i < n->ins; i++)
        if (is_given(&p->g->tensors[n->in[i]]))
            given(p, n->in[i]);
    for (int a = 0; a < TR_AXES; a++)
        if (!choose(p, n, a, &chosen[a], e))
            return false;
    struct tr_step s = { .code = TR_COMPUTE,
        .op = n->op,
        .phase = n->phase,
        .unit = n->unit,
        .ins = n->ins,
        .outs = n->outs,
        .shift = n->shift };
    for (int i = 0; i < n->ins; i++) {
        struct tr_placement on[TR_AXES];
        for (int a = 0; a < TR_AXES; a++)
            on[a] = chosen[a].in[i];
        s.in[i] = need(p, n, n->in[i], on);
        if (s.in[i] < 0)
            return tr_fail(e, "%s: %s cannot be made of what is there", tr_op(n->op)->name,
                p->g->tensors[n->in[i]].name);
    }
    for (int i = 0; i < n->outs; i++) {
        struct tr_placement on[TR_AXES];
        for (int a = 0; a < TR_AXES; a++)
            on[a] = chosen[a].out[i];
        s.out[i] = shard_of(p, n->out[i], on, false);
    }
    *add_step(p) = s;
    for (int i = 0; i < s.outs; i++)
        complete(p, n, s.out[i]);
    return true;
}

bool tr_place(struct tr_placed *p, const struct tr_graph *g, const struct tr_plan *plan,
    const struct tr_kernels *kernels, struct tr_error *e)
{
    *p = (struct tr_placed){ .g = g, .plan = plan, .kernels = kernels };
    p->of = tr_new((size_t)g->n_tensors, sizeof *p->of);
    for (int i = 0; i < g->n_tensors; i++)
        p->of[i].first = p->of[i].last = -1;
    for (int i = 0; i < g->n_nodes; i++)
        if (!place_node(p, &g->nodes[i], e)) {
            tr_placed_free(p);
            return false;
        }
    return true;
}

void tr_placed_free(struct tr_placed *p)
{
    free(p->shards);
    free(p->steps);
    free(p->of);
    *p = (struct tr_placed){ 0 };
}

int64_t tr_shard_size(const struct tr_placed *p, int shard, int i)
{
    const struct tr_shard *s = &p->shards[shard];
    const struct tr_tensor *t = &p->g->tensors[s->tensor];
    int64_t size = t->size[i];
    if (s->on[TR_EP].dim == 'e' && t->letter[i] == 't' && t->counts >= 0)
        size = tr_most_rows(p->plan, p->g);
    struct tr_map map = tr_map_of(p->plan);
    struct tr_pair pairs[TR_PAIRS];
    for (int a = 0; a < TR_AXES; a++)
        if (s->on[a].kind == TR_S && s->on[a].dim == t->letter[i] && t->letter[i] != 'b') {
            size /= p->plan->mesh.size[a];
            if (s->on[a].halo)
                size += TR_HALOS * p->g->grid;
            if (s->on[a].term) /* results of pairs of runs */
                size = size * tr_pairs(&map, 0, s->on[a].of, pairs) / tr_runs_of(&map, 1, 0).n;
        }
    return size;
}

int64_t tr_shard_count(const struct tr_placed *p, int shard, int64_t sequences)
{
    const struct tr_shard *s = &p->shards[shard];
    const struct tr_tensor *t = &p->g->tensors[s->tensor];
    int64_t count = 1;
    for (int i = 0; i < t->dims; i++)
        count *= t->letter[i] == 'b' ? sequences : tr_shard_size(p, shard, i);
    for (int a = 0; a < TR_AXES; a++)
        if (s->on[a].packed == 'b')
            count *= p->plan->mesh.size[a];
        else if (s->on[a].dim == 'f')
            count /= p->plan->mesh.size[a];
        else if (s->on[a].halves)
            count *= TR_RUNS;
    return count;
}

static int64_t columns_here(const struct tr_placed *p, int shard)
{
    return tr_shard_size(p, shard, p->g->tensors[p->shards[shard].tensor].dims - 1);
}

int64_t tr_first_column(const struct tr_placed *p, int shard, int tp_rank)
{
    return p->shards[shard].on[TR_TP].kind == TR_S ? tp_rank * columns_here(p, shard) : 0;
}

int64_t tr_valid_columns(const struct tr_placed *p, int shard, int tp_rank)
{
    int64_t here = columns_here(p, shard), left = p->g->vocabulary - tr_first_column(p, shard, tp_rank);
    return left < 0 ? 0 : left < here ? left : here;
}

int64_t tr_first_token(
    const struct tr_placed *p, const struct tr_placement on[TR_AXES], const int at[TR_AXES])
{
    struct tr_map map = tr_map_of(p->plan);
    int64_t part = 0, parts = 1;
    for (int a = 0; a < TR_AXES; a++) {
        if (!tr_placement_cuts_tokens(on[a]))
            continue;
        if (on[a].zigzag)
            return tr_runs_of(&map, p->g->context, at[a]).first[0];
        parts *= p->plan->mesh.size[a];
        part = part * p->plan->mesh.size[a] + at[a];
    }
    return part * (p->g->context / parts);
}

int64_t tr_second_token(
    const struct tr_placed *p, const struct tr_placement on[TR_AXES], const int at[TR_AXES])
{
    struct tr_map map = tr_map_of(p->plan);
    bool two = tr_placement_cuts_tokens(on[TR_CP]) && on[TR_CP].zigzag;
    return two ? tr_runs_of(&map, p->g->context, at[TR_CP]).first[1] : 0;
}

const char *tr_shard_text(const struct tr_placed *p, int shard, char text[64])
{
    int used = 0;
    char place[3];
    text[0] = 0;
    for (int a = 0; a < TR_AXES; a++)
        if (p->plan->mesh.size[a] > 1)
            used += snprintf(text + used, 64 - (size_t)used, "%s%s %.2s", used ? ", " : "", tr_axis_names[a],
                tr_placement_text(p->shards[shard].on[a], place));
    return used ? text : strcpy(text, "R");
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* run.c: what an instruction says is done: by kernels, and by Tutti.
 *
 * Everything is allocated before the first step. All memory of a step lies in one arena, poisoned at first,
 * so that what is read before it is written shows as NaN. */
#include "training/run/run.h"

#include "training/kernels/threads.h"
#include "training/launch.h"
#include "training/run/server.h"
#include "training/run/exchange.h"
#include "training/run/halo.h"
#include "training/run/host.h"
#include "training/run/load.h"
#include "training/run/traffic.h"
#include "training/run/bfloat16.h"

#include <math.h>
#include <stdlib.h>

static bool failed(
    const struct tr_runner *r, const struct tr_instr *i, const tutti_comm *comm, struct tr_error *e)
{
    return tr_fail(e, "step %lld, rank %d: %s of %s: %s", (long long)r->step, r->tape->rank,
        tr_codes[i->code].name, tr_instr_name(r->tape, i), tr_why(comm));
}

/* What works on elements itself, and not by kernels, does so in the host's memory. */
static bool works_on_host(const struct tr_instr *i)
{
    return i->code == TR_COMPUTE && tr_op(i->op)->on_host;
}

static int64_t operands_bytes(const struct tr_tape *t, const struct tr_kernels *k)
{
    int64_t most = 0, bytes;
    for (int n = 0; n < t->n_instrs; n++)
        if (works_on_host(&t->instrs[n]) && (bytes = tr_operands_bytes(t, &t->instrs[n], k)) > most)
            most = bytes;
    return most;
}

/* Room for what a step reads of the data: it begins when the processor has waited for the leaves of the one
 * before, and so the copies from there are over. */
static int64_t staged_bytes(const struct tr_tape *t)
{
    int64_t all = 0;
    for (int n = 0; n < t->n_instrs; n++)
        if (t->instrs[n].code == TR_LOAD)
            all += tr_staged_bytes(t, &t->instrs[n]);
    return all;
}

/* A list that is forward alone has no leaves. */
static int64_t sums_bytes(const struct tr_tape *t)
{
    return t->losses < 0 ? 0 : t->values[t->losses].bytes + t->values[t->leaves].bytes;
}

/* All memory of a step. */
static bool take_memory(struct tr_runner *r, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    const struct tr_backend *b = tr_backend_of(r->x->k);
    if (!b->open(r->x, e) || !tr_arenas_take(&r->arena, b, r->x, t, e))
        return false;
    if (sums_bytes(t))
        r->staged.sums = b->alloc(r->x, sums_bytes(t), true);
    r->staged.bytes = staged_bytes(t);
    r->staged.at = b->alloc(r->x, r->staged.bytes, true);
    int64_t operands = b->apart ? operands_bytes(t, r->host.k) : 0;
    if (operands > 0)
        r->staged.operands = b->alloc(r->x, operands, true);
    r->own = b->stream(r->x);
    bool replays = tr_replay_open(r);
    r->beside.points = tr_new((size_t)t->n_values, sizeof *r->beside.points);
    r->clock = tr_new((size_t)t->n_instrs + 1, sizeof *r->clock);
    r->n_updates = t->step.updates;
    r->updates = tr_new((size_t)r->n_updates, sizeof *r->updates);
    r->used = tr_new((size_t)t->n_values, sizeof *r->used);
    for (int v = 0; v < t->n_values; v++)
        r->used[v] = -1;
    return (replays && r->staged.at && (r->staged.sums || !sums_bytes(t)) &&
               (!operands || r->staged.operands)) ||
           tr_fail(e, "rank %d: there is no memory on the host for what goes to the device", t->rank);
}

static bool make_streams(struct tr_runner *r, struct tr_error *e)
{
    const struct tr_backend *b = r->arena.b;
    if (r->tape->needed.beside.n && !b->make_stream(r->x, &r->beside.calls, e))
        return false;
    for (int i = 0; i < TR_EDGES; i++)
        if (r->groups.edge[i] && tr_edge_kinds[i].sends && !b->make_stream(r->x, &r->beside.sends[i], e))
            return false;
    return true;
}

static bool make_callers(struct tr_runner *r, struct tr_error *e);

bool tr_runner_open(struct tr_runner *r, const struct tr_tape *t, const struct tr_kernels *k,
    const struct tr_data *d, tutti_comm *world, struct tr_error *e)
{
    *r = (struct tr_runner){ .tape = t, .x = tr_new(1, sizeof *r->x), .data = d };
    r->x->k = k;
    r->host.k = tr_backend_of(k)->apart ? tr_kernels_best() : k;
    if (!take_memory(r, e))
        return false;
    tr_ledger_predict(&r->predicted, t);
    tr_copies_predict(&r->copies.predicted, t);
    tr_audit_make(&r->audit, t, r->used);
    for (int i = 0; i < t->n_states; i++)
        tr_initialise(r, &t->states[i]);
    tr_host_follow(r);
    if (!tr_copies_open(r, e))
        return false;
    tr_fusions_find(&r->fused, t, k, r->copies.points ? &r->copies.waits : NULL);
    int threads = t->step.host_threads;
    if (threads > 1 && !(r->threads = tr_threads_start(threads, "optimizer-threads", e)))
        return false;
    if (t->mesh->n == 1 || !world)
        return true;
    r->before_groups = tr_resident_now();
    if (!tr_groups_make(
            &r->groups, t->mesh, &t->needed.groups, t->stage_layout, t->step.free_order, world, e) ||
        !tr_groups_beside(&r->groups, t->mesh, &t->needed.beside, e))
        return false;
    return make_streams(r, e) && make_callers(r, e) && tr_traffic_foresee(&r->predicted, r, e);
}

void tr_runner_close(struct tr_runner *r)
{
    const struct tr_backend *b = r->arena.b;
    for (int i = 0; i < TR_EDGES; i++)
        tr_caller_stop(r->beside.callers[i]);
    free(r->beside.sent);
    for (int i = 0; i < TR_EDGES; i++)
        if (r->beside.sends[i].handle)
            b->end_stream(r->x, r->beside.sends[i]);
    if (r->beside.calls.handle)
        b->end_stream(r->x, r->beside.calls);
    tr_replay_close(r);
    tr_copies_close(r);
    tr_groups_free(&r->groups);
    tr_threads_stop(r->threads);
    tr_arenas_release(&r->arena);
    if (r->staged.at)
        b->release(r->x, r->staged.at, true);
    if (r->staged.sums)
        b->release(r->x, r->staged.sums, true);
    if (r->staged.operands)
        b->release(r->x, r->staged.operands, true);
    if (b)
        b->close(r->x);
    free(r->x);
    free(r->beside.points);
    free(r->clock);
    free(r->timed.beside);
    free(r->updates);
    free(r->used);
    tr_fusions_free(&r->fused);
    tr_audit_free(&r->audit);
    *r = (struct tr_runner){ 0 };
}

/* ---- communication ---- */

static tutti_comm *group_of(const struct tr_runner *r, const struct tr_instr *i)
{
    return i->beside             ? r->groups.beside[i->axes]
           : i->axes == TR_WORLD ? r->groups.world
                                 : r->groups.of[i->axes];
}

/* A message has the type of what it carries. */
static tutti_type type_of(const struct tr_tape *t, const struct tr_instr *i)
{
    return tr_element_type(t->values[i->ins ? i->in[0] : i->out[0]].element);
}

static size_t bytes_of(const struct tr_tape *t, const struct tr_instr *i)
{
    return (size_t)tr_element_bytes(t->values[i->ins ? i->in[0] : i->out[0]].element);
}

tutti_status tr_runner_calls(const struct tr_runner *r, const struct tr_instr *i, struct tr_ledger *counted)
{
    const struct tr_tape *t = r->tape;
    tutti_comm *comm = group_of(r, i);
    tutti_stream stream = i->beside ? r->beside.calls : r->own;
    tutti_type type = type_of(t, i);
    size_t bytes = bytes_of(t, i), count = (size_t)i->count, n = (size_t)tutti_comm_size(comm);
    unsigned char *in = tr_at(r, i->in[0]), *out = tr_at(r, i->out[0]);
    tutti_status s = TUTTI_OK;
    if (i->code == TR_ALL_GATHER && i->in[0] == i->out[0]) /* in place: ZeRO's parameters */
        in += (size_t)tutti_comm_rank(comm) * count * bytes;
    for (int64_t x = 0; x < i->times && s == TUTTI_OK; x++) {
        if (i->code == TR_ALL_REDUCE) {
            s = tutti_all_reduce(in, out, count, type, i->fold, comm, stream);
        } else if (i->code == TR_ALL_GATHER) {
            s = tutti_all_gather(in, out, count, type, comm, stream);
            in += count * bytes, out += n * count * bytes;
        } else if (i->code == TR_REDUCE) {
            s = tutti_reduce(in, out, count, type, i->fold, 0, comm, stream);
        } else if (i->code == TR_ALL_TO_ALL) {
            s = tutti_all_to_all(in, out, count, type, comm, stream);
            in += n * count * bytes, out += n * count * bytes;
        } else if (i->code == TR_BROADCAST) {
            s = tutti_broadcast(in, out, count, type, 0, comm, stream);
        } else {
            s = tutti_reduce_scatter(in, out, count, type, i->fold, comm, stream);
            in += n * count * bytes, out += count * bytes;
        }
        bool parts = i->code == TR_ALL_GATHER || i->code == TR_REDUCE_SCATTER || i->code == TR_ALL_TO_ALL;
        if (counted)
            tr_ledger_count(counted, t, i, i->code, (int64_t)(count * bytes * (parts ? n : 1)));
    }
    return s;
}

/* What a call beside the list reads was begun before it: the call waits for that. */
static tutti_status wait_for_kernels(const struct tr_runner *r, tutti_stream stream)
{
    const struct tr_backend *b = r->arena.b;
    uint64_t point;
    tutti_status s = b->record(r->x, r->own, &point);
    return s == TUTTI_OK ? b->after(r->x, stream, r->own, point) : s;
}

static bool run_collective(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e)
{
    tutti_status s = i->beside ? wait_for_kernels(r, r->beside.calls) : TUTTI_OK;
    if (s == TUTTI_OK && i->times > 1)
        s = tutti_group_start();
    bool grouped = s == TUTTI_OK && i->times > 1;
    if (i->beside)
        tr_mark_beside(r, i, false, r->beside.calls);
    if (s == TUTTI_OK)
        s = tr_runner_calls(r, i, &r->counted);
    tutti_status ended = grouped ? tutti_group_end() : TUTTI_OK; /* a call that failed, too, was in it */
    if (s == TUTTI_OK)
        s = ended;
    if (i->beside && s == TUTTI_OK) {
        s = r->arena.b->record(r->x, r->beside.calls, &r->beside.points[i->out[0]]);
        tr_mark_beside(r, i, true, r->beside.calls);
    }
    return s == TUTTI_OK || failed(r, i, group_of(r, i), e);
}

/* What the instruction reads goes to one rank, and as much comes from another; either is counted. */
struct exchange {
    tutti_comm *comm;
    int to, from;
    void *into;
};

static bool exchange(
    struct tr_runner *r, const struct tr_instr *i, const struct exchange *x, struct tr_error *e)
{
    tutti_type type = type_of(r->tape, i);
    int64_t bytes = i->count * (int64_t)bytes_of(r->tape, i);
    tutti_status s = tutti_group_start();
    if (s == TUTTI_OK)
        s = tutti_send(tr_at(r, i->in[0]), (size_t)i->count, type, x->to, x->comm, r->own);
    if (s == TUTTI_OK)
        s = tutti_recv(x->into, (size_t)i->count, type, x->from, x->comm, r->own);
    tutti_status ended = tutti_group_end(); /* a call that failed, too, was in it */
    tr_ledger_count(&r->counted, r->tape, i, TR_SEND, bytes);
    tr_ledger_count(&r->counted, r->tape, i, TR_RECV, bytes);
    return (s == TUTTI_OK && ended == TUTTI_OK) || failed(r, i, x->comm, e);
}

/* Round the group: to the rank `shift` behind, from the one as far before. */
static bool run_shift(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e)
{
    tutti_comm *comm = group_of(r, i);
    int n = tutti_comm_size(comm), rank = tutti_comm_rank(comm);
    struct exchange x = { comm, (rank + i->shift + n) % n, (rank - i->shift + n) % n, tr_at(r, i->out[0]) };
    return exchange(r, i, &x, e);
}

/* What a send reads was begun before that point of the list. */
static tutti_status send_behind(
    struct tr_runner *r, const struct tr_instr *i, struct tr_context *x, uint64_t begun)
{
    const struct tr_backend *b = r->arena.b;
    tutti_stream stream = r->beside.sends[i->edge];
    tutti_status s = b->after(x, stream, r->own, begun);
    tr_mark_beside(r, i, false, stream);
    if (s == TUTTI_OK)
        s = tutti_send(
            tr_at(r, i->in[0]), (size_t)i->count, type_of(r->tape, i), 1, r->groups.edge[i->edge], stream);
    if (s == TUTTI_OK)
        s = b->record(x, stream, &r->beside.points[i->in[0]]);
    tr_mark_beside(r, i, true, stream);
    return s;
}

/* Between threads on devices a send waits on the host until its peer receives (see tutti.h), and so a stage
 * would wait for one that waits for it. So each edge has a thread that sends; whether lists wait for each
 * other in a circle is checked as if sends waited for nobody (check/order.c). Where one fails, the rank's own
 * thread may wait for what will never come: the process ends. */
struct send {
    const struct tr_instr *i;
    uint64_t begun;
};

static void begin_sending(void *runner)
{
    const struct tr_runner *r = runner;
    struct tr_context mine = { r->x->k, r->x->self, 0 };
    if (r->arena.b->enter)
        r->arena.b->enter(&mine);
}

static void send_now(void *runner, void *what)
{
    struct tr_runner *r = runner;
    const struct send *s = what;
    struct tr_context mine = { r->x->k, r->x->self, 0 };
    struct tr_error e = { .text = "" };
    bool ok =
        send_behind(r, s->i, &mine, s->begun) == TUTTI_OK || failed(r, s->i, r->groups.edge[s->i->edge], &e);
    if (ok && mine.status)
        ok = tr_fail(&e, "step %lld, rank %d: %s of %s: %s", (long long)r->step, r->tape->rank,
            tr_codes[s->i->code].name, tr_instr_name(r->tape, s->i), mine.k->words(mine.status));
    if (!ok)
        tr_rank_fails(&e);
}

static bool make_callers(struct tr_runner *r, struct tr_error *e)
{
    if (!tr_ranks_are_threads() || !r->arena.b->apart)
        return true;
    r->beside.sent = tr_new((size_t)r->tape->n_values, sizeof *r->beside.sent);
    for (int i = 0; i < TR_EDGES; i++)
        if (r->beside.sends[i].handle &&
            !(r->beside.callers[i] = tr_caller_start(begin_sending, send_now, r, sizeof(struct send), e)))
            return false;
    return true;
}

static bool run_message(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e)
{
    tutti_comm *comm = r->groups.edge[i->edge];
    struct send send = { .i = i };
    tutti_status s;
    if (i->code == TR_SEND) {
        s = r->arena.b->record(r->x, r->own, &send.begun);
        if (r->beside.callers[i->edge])
            r->beside.sent[i->in[0]] = tr_caller_give(r->beside.callers[i->edge], &send);
        else if (s == TUTTI_OK)
            s = send_behind(r, i, r->x, send.begun);
    } else {
        s = tutti_recv(tr_at(r, i->out[0]), (size_t)i->count, type_of(r->tape, i), 0, comm, r->own);
    }
    tr_ledger_count(&r->counted, r->tape, i, i->code, i->count * (int64_t)bytes_of(r->tape, i));
    return s == TUTTI_OK || failed(r, i, comm, e);
}

static bool run_wait(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e)
{
    tutti_stream stream = i->beside ? r->beside.calls : r->beside.sends[i->edge];
    if (!i->beside && r->beside.callers[i->edge])
        tr_caller_wait(r->beside.callers[i->edge], r->beside.sent[i->in[0]]);
    return r->arena.b->after(r->x, r->own, stream, r->beside.points[i->in[0]]) == TUTTI_OK ||
           failed(r, i, NULL, e);
}

/* Both homes of a tied embedding add what the other has; x + y = y + x. */
static bool run_tie(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e)
{
    enum tr_element element = r->tape->values[i->in[0]].element;
    void *mine = tr_at(r, i->in[0]), *sum = tr_at(r, i->out[0]);
    if (i->edge != TR_HOME) {
        tr_add_values(r, element, sum, mine, tr_at(r, i->in[1]), i->count);
        return true;
    }
    void *other = tr_at(r, i->scratch);
    tutti_comm *comm = r->groups.edge[TR_HOME];
    int peer = 1 - tutti_comm_rank(comm);
    if (!exchange(r, i, &(struct exchange){ comm, peer, peer, other }, e))
        return false;
    tr_add_values(r, element, sum, mine, other, i->count);
    return true;
}

/* ---- the rest ---- */

/* In any order the sum that waits and the one that comes are a tree of two, and what that gives waits. */
static void count_on(struct tr_context *x, float *sum, float *const *level, int64_t count, int j, int n)
{
    if (j > 0)
        x->k->tree_in(x, sum, level, count, 1, 2);
    if (j < n - 1)
        x->k->tree_in(x, sum, level, count, 0, 2);
}

static void run_count(struct tr_runner *r, const struct tr_instr *i)
{
    const struct tr_tape *t = r->tape;
    const struct tr_param_state *h = NULL;
    for (int n = 0; n < t->n_states; n++)
        if (t->states[n].parameter == i->parameter)
            h = &t->states[n];
    float *level[32] = { NULL };
    for (int l = 0; l < 32 && h->level[l] >= 0; l++)
        level[l] = tr_at(r, h->level[l]);
    int n = (int)i->times, j = i->micro % n;
    if (t->step.free_order)
        count_on(r->x, tr_at(r, i->in[0]), level, i->count, j, n);
    else
        r->x->k->tree_in(r->x, tr_at(r, i->in[0]), level, i->count, j, n);
}

static void run_norm(struct tr_runner *r, const struct tr_instr *i)
{
    double *to = (double *)tr_at(r, r->tape->leaves) + i->place;
    int64_t leaf = tr_leaf(&r->tape->placed->g->tensors[i->parameter]);
    bool bfloat16 = r->tape->values[i->in[0]].element == TR_BFLOAT16;
    r->x->k->square_leaves(r->x, to, tr_at(r, i->in[0]), bfloat16, i->count, leaf);
}

static void run_losses(struct tr_runner *r, const struct tr_instr *i)
{
    double *to = (double *)tr_at(r, r->tape->losses) + i->place;
    const double *from = (const double *)tr_at(r, i->in[0]) + i->first;
    int64_t here = r->tape->values[i->in[0]].bytes / 8 / i->times;
    int64_t bytes = (int64_t)sizeof *to;
    struct tr_copy leaves = { { 1, 1, i->times }, { 0, 0, TR_BLOCKS * bytes }, { 0, 0, here * bytes },
        i->count * bytes };
    r->x->k->copy(r->x, to, from, &leaves);
}

/* The gradient of the step before, where there was one. */
static bool is_delayed(const struct tr_runner *r, const struct tr_instr *i)
{
    return r->tape->values[i->in[0]].lasts;
}

/* As many as there will have been. */
static int64_t updates(const struct tr_runner *r, const struct tr_instr *i)
{
    return r->step * r->tape->step.updates + i->update + !is_delayed(r, i);
}

struct tr_adamw tr_update_rates(const struct tr_runner *r, const struct tr_instr *i)
{
    const struct tr_optimizer *o = &i->optimizer;
    double norm = is_delayed(r, i) ? r->before.norm : r->result.norm, step = (double)updates(r, i);
    return (struct tr_adamw){ .rate = (float)tr_rate(o, (int64_t)step - 1),
        .scale = o->clip > 0 && norm > o->clip ? (float)(o->clip / norm) : 1,
        .decay = (float)o->decay,
        .correct1 = (float)(1 / (1 - pow(0.9, step))),
        .correct2 = (float)(1 / (1 - pow(0.95, step))) };
}

/* Where a graph finds what its update multiplies by: its number is that of the updates before it. */
static const struct tr_adamw *rates_there(const struct tr_runner *r, const struct tr_instr *i)
{
    const struct tr_adamw *at = r->replay.there;
    for (const struct tr_instr *before = r->tape->instrs; before < i; before++)
        at += before->code == TR_UPDATE;
    return r->replay.keeps ? at : NULL;
}

static void run_update(struct tr_runner *r, const struct tr_instr *i)
{
    const struct tr_tape *t = r->tape;
    const struct tr_optimizer *o = &i->optimizer;
    if (r->step < 0)
        return;
    const struct tr_param_state *h = tr_param_state_of((struct tr_tape *)t, i->parameter);
    bool none_waits = is_delayed(r, i) && r->step == 0;
    int states = o->sgd ? 0 : 2, old = i->ins > 1 + states ? i->in[1 + states] : i->out[0];
    if (old != i->out[0]) /* another version, which others still read */
        tr_copy_bytes(r->x, tr_at(r, i->out[0]), tr_at(r, old), t->values[old].bytes);
    bool offloaded = t->values[i->out[0]].host, mixed = i->outs > 1;
    int64_t from = offloaded ? 0 : h->shard_from; /* the host has no more than what is updated */
    struct tr_update u = { .p = mixed ? tr_at(r, i->out[1]) : (float *)tr_at(r, i->out[0]) + from,
        .m = o->sgd ? NULL : tr_at(r, i->in[1]),
        .v = o->sgd ? NULL : tr_at(r, i->in[2]),
        .g = mixed ? NULL : tr_at(r, i->in[0]),
        .narrow = tr_at(r, i->in[0]),
        .count = i->count,
        .a = tr_update_rates(r, i),
        .at = rates_there(r, i) };
    if (offloaded)
        tr_copies_wait(r, i);
    if (!none_waits)
        tr_update(offloaded ? &r->host : r->x, &u, offloaded ? r->threads : NULL);
    if (mixed) /* the optimizer goes over the masters, and the values are their rounding */
        tr_round_masters(r, offloaded ? &r->host : r->x, i->parameter, (uint16_t *)tr_at(r, i->out[0]) + from,
            u.p, tr_updated_from(t, h), i->count, updates(r, i));
}

bool tr_runner_do(struct tr_runner *r, int n, struct tr_error *e)
{
    const struct tr_instr *i = &r->tape->instrs[n];
    switch (i->code) {
    case TR_COMPUTE:
        tr_compute(r, i);
        r->flops += i->flops;
        return true;
    case TR_ALL_REDUCE:
    case TR_REDUCE_SCATTER:
    case TR_ALL_GATHER:
    case TR_REDUCE:
    case TR_BROADCAST:
    case TR_ALL_TO_ALL:
        return run_collective(r, i, e);
    case TR_SHIFT:
        return run_shift(r, i, e);
    case TR_HALO:
        return tr_run_halo(r, i, e);
    case TR_ALL_TO_ALL_V:
        return tr_run_exchange(r, i, e);
    case TR_SEND:
    case TR_RECV:
        return tr_edge_kinds[i->edge].served ? tr_server_message(r, i, e) : run_message(r, i, e);
    case TR_WAIT:
        return run_wait(r, i, e);
    case TR_TIE:
        return run_tie(r, i, e);
    case TR_LOAD:
        tr_run_load(r, i);
        return true;
    case TR_ACCUMULATE:
        run_count(r, i);
        return true;
    case TR_NORM:
        run_norm(r, i);
        return true;
    case TR_LOSSES:
        run_losses(r, i);
        return true;
    case TR_DOWN:
    case TR_UP:
        tr_host_copy(r, i);
        return true;
    case TR_SCORES:
        tr_run_scores(r, i);
        return true;
    default:
        run_update(r, i);
        return true;
    }
}

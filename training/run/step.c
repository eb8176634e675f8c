/* SPDX-License-Identifier: BSD-3-Clause */
/* step.c: a step: walk the list, and add up what it gives: loss and norm. */
#include "training/run/run.h"

#include "training/launch.h"
#include "training/run/compute.h"
#include "training/run/exchange.h"
#include "training/run/find_nan.h"
#include "training/run/host.h"
#include "training/run/load.h"
#include "training/run/traffic.h"

#include <math.h>
#include <stdlib.h>

static double sum(const double *x, int64_t count)
{
    double s = 0;
    for (int64_t i = 0; i < count; i++)
        s += x[i];
    return s;
}

/* The first instruction of a vector of leaves finds it cleared; after the last one all leaves are there. */
static void before(struct tr_runner *r, int n)
{
    const struct tr_tape *t = r->tape;
    const int vectors[] = { t->losses, t->leaves };
    for (int i = 0; i < 2; i++)
        if (t->values[vectors[i]].first == n)
            r->x->k->fill(r->x, tr_at(r, vectors[i]), 0, t->values[vectors[i]].bytes);
}

/* All leaves of both kinds go to one array of the host, and are waited for once. */
static void collect(struct tr_runner *r, int n)
{
    const struct tr_tape *t = r->tape;
    const struct tr_backend *b = r->arena.b;
    const struct tr_value *losses = &t->values[t->losses], *leaves = &t->values[t->leaves];
    if (losses->last == n)
        b->copy_later(r->x, r->own, r->staged.sums, tr_at(r, t->losses), losses->bytes);
    if (leaves->last == n)
        b->copy_later(r->x, r->own, r->staged.sums + losses->bytes / 8, tr_at(r, t->leaves), leaves->bytes);
}

/* Whether the processor adds up behind this instruction: the loss of a step is known with its norm, or after
 * it. */
static bool adds_up(const struct tr_runner *r, int n)
{
    const struct tr_tape *t = r->tape;
    int losses = t->values[t->losses].last, leaves = t->values[t->leaves].last;
    return (losses == n || leaves == n) && n >= leaves;
}

static void add_up(struct tr_runner *r, int n)
{
    const struct tr_tape *t = r->tape;
    const struct tr_value *losses = &t->values[t->losses], *leaves = &t->values[t->leaves];
    int updates = r->n_updates;
    int64_t loss = losses->bytes / 8 / updates, norm = leaves->bytes / 8 / updates;
    const double *loss_leaves = r->staged.sums, *norm_leaves = r->staged.sums + updates * loss;
    r->arena.b->sync(r->x);
    for (int u = 0; u < updates && losses->last <= n; u++)
        r->updates[u].loss =
            sum(loss_leaves + u * loss, loss) / (double)(t->step.sequences * tr_targets(t->placed->g));
    for (int u = 0; u < updates && leaves->last == n; u++)
        r->updates[u].norm = sqrt(sum(norm_leaves + u * norm, norm));
    r->result = r->updates[updates - 1];
}

/* Kernels say nothing; the first failure of the set stays in their context. */
static bool kernels_ran(const struct tr_runner *r, int n, struct tr_error *e)
{
    const struct tr_instr *i = &r->tape->instrs[n];
    return !r->x->status || tr_fail(e, "step %lld, rank %d: instruction %d, %s of %s: kernels %s: %s",
                                (long long)r->step, r->tape->rank, n, tr_instr_does(i),
                                tr_instr_name(r->tape, i), r->x->k->name, r->x->k->words(r->x->status));
}

/* What failed after it was begun shows where the processor waits for all of it; and until then other checks
 * may have seen what it left. */
static bool all_ran(const struct tr_runner *r, struct tr_error *e)
{
    return !r->x->status ||
           tr_fail(e,
               "step %lld, rank %d: something that was begun in this step failed later: kernels %s: %s. With "
               "CUDA_LAUNCH_BLOCKING=1 in the environment its instruction is named",
               (long long)r->step, r->tape->rank, r->x->k->name, r->x->k->words(r->x->status));
}

/* A call on a device's stream that fails after it has returned leaves numbers that mean nothing: before any
 * of these is looked at, its communicator is asked. */
static bool calls_ran(const struct tr_runner *r, int n, struct tr_error *e)
{
    const tutti_comm *failed = NULL;
    if (r->arena.b->apart && n == r->tape->values[r->tape->leaves].last)
        failed = tr_groups_failed(&r->groups);
    return !failed || tr_fail(e, "step %lld, rank %d: %s", (long long)r->step, r->tape->rank, tr_why(failed));
}

/* What is begun there is a range of profilers. */
static void begin_range(const struct tr_runner *r, const char *does, const char *name)
{
    if (r->arena.b->begin_range)
        r->arena.b->begin_range(r->x, does, name);
}

static void end_range(const struct tr_runner *r)
{
    if (r->arena.b->end_range)
        r->arena.b->end_range(r->x);
}

static bool begin_all(struct tr_runner *r, int n, struct tr_error *e)
{
    tr_copies_before(r, n);
    before(r, n);
    if (!tr_runner_do(r, n, e) || !kernels_ran(r, n, e))
        return false;
    tr_note_used(r, &r->tape->instrs[n]);
    tr_copies_after(r, n);
    collect(r, n);
    return kernels_ran(r, n, e);
}

static bool begin_instr(struct tr_runner *r, int n, struct tr_error *e)
{
    const struct tr_instr *i = &r->tape->instrs[n];
    begin_range(r, tr_instr_does(i), tr_instr_name(r->tape, i));
    bool ok = begin_all(r, n, e);
    end_range(r);
    return ok;
}

static bool end_instr(struct tr_runner *r, int n, struct tr_error *e)
{
    if (!adds_up(r, n))
        return true;
    add_up(r, n);
    return all_ran(r, e) && calls_ran(r, n, e);
}

bool tr_runner_instr(struct tr_runner *r, int n, struct tr_error *e)
{
    return begin_instr(r, n, e) && end_instr(r, n, e);
}

static bool all_finite(const struct tr_runner *r)
{
    for (int u = 0; u < r->n_updates; u++)
        if (!isfinite(r->updates[u].loss) || !isfinite(r->updates[u].norm))
            return false;
    return true;
}

/* ---- times ---- */

/* The begin in the list, and begin and end beside it. */
enum { MARKS = 3 };

bool tr_runner_time(struct tr_runner *r, struct tr_error *e)
{
    int n = r->tape->n_instrs;
    const struct tr_backend *b = r->arena.b;
    r->timed.wanted = b->make_marks;
    if (!r->timed.wanted)
        return true;
    if (!r->timed.beside)
        r->timed.beside = tr_new(2 * (size_t)n, sizeof(int64_t));
    return b->make_marks(r->x, MARKS * n + 1, e);
}

static void mark(const struct tr_runner *r, int number, tutti_stream on)
{
    if (r->timed.wanted)
        r->arena.b->mark(r->x, number, on);
}

void tr_mark_beside(const struct tr_runner *r, const struct tr_instr *i, bool ends, tutti_stream on)
{
    mark(r, MARKS * (int)(i - r->tape->instrs) + 1 + ends, on);
}

/* The device's times, as if its clock were the processor's: all is over now. */
static bool take_times(struct tr_runner *r, struct tr_error *e)
{
    int n = r->tape->n_instrs;
    int64_t *ns = tr_new((size_t)(MARKS * n) + 1, sizeof *ns);
    bool ok = r->arena.b->times(r->x, ns, e);
    int64_t begin = tr_now_ns() - ns[MARKS * n];
    for (int x = 0; x <= n; x++)
        r->clock[x] = begin + ns[MARKS * x];
    for (int x = 0; x < 2 * n; x++) {
        int64_t at = ns[MARKS * (x / 2) + 1 + x % 2];
        r->timed.beside[x] = at < 0 ? -1 : begin + at;
    }
    free(ns);
    return ok;
}

/* ---- steps as graphs ---- */

static bool updates_on_host(const struct tr_tape *t, const struct tr_instr *i)
{
    return i->code == TR_UPDATE && t->values[i->out[0]].host;
}

/* One behind the last instruction of the part that begins here. */
static int part_end(const struct tr_runner *r, int from)
{
    int n = from;
    while (n < r->tape->n_instrs - 1 && !adds_up(r, n))
        n++;
    return n + 1;
}

static int count_parts(const struct tr_runner *r)
{
    int parts = 0;
    for (int from = 0; from < r->tape->n_instrs; from = part_end(r, from))
        parts++;
    return parts;
}

const char *tr_replay_not(const struct tr_runner *r)
{
    const struct tr_tape *t = r->tape;
    if (!r->arena.b->keep)
        return "the processor has none";
    if (t->step.stochastic)
        return "stochastic rounding draws others in each step";
    if (t->mesh->servers)
        return "workers and servers have no step in common";
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        if (updates_on_host(t, i))
            return "the processor updates";
        if ((i->code == TR_COMPUTE && tr_op(i->op)->on_host) || i->code == TR_ALL_TO_ALL_V)
            return "the processor decides which expert has which token";
    }
    return count_parts(r) > TR_GRAPHS ? "the processor adds up too often" : NULL;
}

static int count_updates(const struct tr_tape *t, int to)
{
    int updates = 0;
    for (int n = 0; n < to; n++)
        updates += t->instrs[n].code == TR_UPDATE;
    return updates;
}

bool tr_replay_open(struct tr_runner *r)
{
    struct tr_replay *p = &r->replay;
    int64_t bytes = (int64_t)sizeof *p->rates * count_updates(r->tape, r->tape->n_instrs);
    if (tr_replay_not(r) || !bytes)
        return true;
    p->rates = r->arena.b->alloc(r->x, bytes, true);
    p->there = r->arena.b->alloc(r->x, bytes, false);
    return p->rates && p->there;
}

void tr_replay_close(struct tr_runner *r)
{
    const struct tr_backend *b = r->arena.b;
    struct tr_replay *p = &r->replay;
    for (int i = 0; i < p->n; i++)
        b->drop(r->x, p->graphs[i]);
    if (p->rates)
        b->release(r->x, p->rates, true);
    if (p->there)
        b->release(r->x, p->there, false);
}

/* The updates of the part find what they multiply by on the device. */
static void bring_rates(const struct tr_runner *r, int from, int to)
{
    int first = count_updates(r->tape, from), n = count_updates(r->tape, to) - first;
    r->arena.b->copy_later(
        r->x, r->own, r->replay.there + first, r->replay.rates + first, n * (int64_t)sizeof *r->replay.rates);
}

static bool keep_part(struct tr_runner *r, int from, int to, struct tr_error *e)
{
    const struct tr_backend *b = r->arena.b;
    struct tr_error ignored;
    if (!b->keep(r->x, e))
        return false;
    r->replay.keeps = true;
    bring_rates(r, from, to);
    bool ok = true;
    for (int n = from; n < to && ok; n++)
        ok = begin_instr(r, n, e);
    r->replay.keeps = false;
    void *graph = b->kept(r->x, ok ? e : &ignored);
    if (graph)
        r->replay.graphs[r->replay.n++] = graph;
    return ok && graph;
}

/* What differs from step to step is written where the graph finds it: what it read there in the step before
 * was over when the processor added up. */
static bool replay_part(struct tr_runner *r, int part, int from, int to, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    bool is_new = part == r->replay.n;
    if (is_new && !keep_part(r, from, to, e))
        return false;
    for (int n = from, u = count_updates(t, from); n < to; n++) {
        r->clock[n] = tr_now_ns();
        if (t->instrs[n].code == TR_UPDATE)
            r->replay.rates[u++] = tr_update_rates(r, &t->instrs[n]);
        else if (t->instrs[n].code == TR_LOAD && !is_new)
            tr_stage_load(r, &t->instrs[n]);
    }
    static const char *const names[TR_GRAPHS] = { "graph 0", "graph 1", "graph 2", "graph 3" };
    begin_range(r, "replay", names[part]);
    r->arena.b->replay(r->x, r->replay.graphs[part]);
    end_range(r);
    return all_ran(r, e);
}

/* ---- a step ---- */

/* An audited step is looked at after each instruction. */
static bool run_part(struct tr_runner *r, int from, int to, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    for (int n = from; n < to; n++) {
        if (r->audited)
            tr_audit_before(&r->audit, t, &r->arena, n);
        r->clock[n] = tr_now_ns();
        mark(r, MARKS * n, r->own);
        if ((r->audited && !all_ran(r, e)) || !begin_instr(r, n, e))
            return false;
        if (r->audited && n < to - 1)
            tr_audit_after(&r->audit, t, &r->arena, n);
    }
    return true;
}

static bool run_parts(struct tr_runner *r, bool as_graphs, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    for (int part = 0, from = 0, to; from < t->n_instrs; part++, from = to) {
        to = part_end(r, from);
        if (!(as_graphs ? replay_part(r, part, from, to, e) : run_part(r, from, to, e)) ||
            !end_instr(r, to - 1, e))
            return false;
        bool tells = t->step.norm != TR_NORM_OF_EACH_PUSH; /* there a server does, who has other pushes */
        if (to - 1 == t->values[t->leaves].last && tells && !all_finite(r))
            return tr_not_finite(r, e);
        if (r->audited)
            tr_audit_after(&r->audit, t, &r->arena, to - 1);
    }
    return true;
}

/* A replay makes the messages that were counted when its graph was kept. Tutti's own counters do not have
 * those that kernels make in a replay. */
static void count_replay(struct tr_runner *r, bool was_kept)
{
    struct tr_replay *p = &r->replay;
    if (was_kept) {
        r->counted = p->counted, r->copies.counted = p->copies, r->flops = p->flops;
        return;
    }
    p->counted = r->counted, p->copies = r->copies.counted, p->flops = r->flops;
}

bool tr_runner_step(struct tr_runner *r, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    struct tr_replay *p = &r->replay;
    struct tr_traffic before;
    bool updates = r->step >= 0, was_kept = p->n > 0;
    bool as_graphs = p->wanted && p->warm && updates && !r->audited && !r->timed.wanted;
    r->before = r->result, r->flops = 0, r->staged.used = 0;
    r->fused.on = !r->audited;
    tr_exchange_begin(&r->predicted);
    tr_ledger_begin(&r->counted, &r->predicted);
    tr_ledger_begin(&r->copies.counted, &r->copies.predicted);
    if (r->audited && r->groups.world) {
        r->arena.b->sync(r->x); /* Tutti counts what a graph sends when that is over */
        if (!tr_traffic_read(&before, &r->groups, e))
            return false;
    }
    if (r->audited)
        tr_audit_begin(&r->audit, t, &r->arena);
    if (!run_parts(r, as_graphs, e))
        return false;
    if (as_graphs)
        count_replay(r, was_kept);
    r->clock[t->n_instrs] = tr_now_ns();
    mark(r, MARKS * t->n_instrs, r->own);
    if (r->timed.wanted && !take_times(r, e))
        return false;
    r->timed.known = r->timed.wanted || !r->arena.b->make_marks;
    r->timed.wanted = false;
    p->warm = p->rates != NULL;
    r->step++;
    if (!all_ran(r, e))
        return false;
    bool ok = tr_ledger_equal(&r->counted, &r->predicted, t, e) &&
              tr_ledger_equal(&r->copies.counted, &r->copies.predicted, t, e);
    if (r->audited)
        ok = ok && tr_audit_end(&r->audit, t, &r->arena, e) &&
             (!r->groups.world || tr_traffic_equal(&before, &r->groups, &r->predicted, t->rank, e));
    r->audited = false;
    return all_ran(r, e) && ok;
}

/* A graph has its updates, so none is replayed. */
bool tr_runner_evaluate(struct tr_runner *r, long batches, double *loss, struct tr_error *e)
{
    const struct tr_result before = r->before, result = r->result;
    const int64_t step = r->step;
    double sum = 0;
    bool ok = true;
    for (long b = 0; ok && b < batches; b++) {
        r->step = -1 - b;
        ok = tr_runner_step(r, e);
        sum += r->result.loss;
    }
    r->step = step, r->before = before, r->result = r->updates[r->n_updates - 1] = result;
    *loss = sum / (double)batches;
    return ok;
}

bool tr_runner_ask(struct tr_runner *r, int64_t token, float *scores, struct tr_error *e)
{
    r->staged.used = 0, r->staged.token = token, r->staged.scores = scores;
    tr_ledger_begin(&r->counted, &r->predicted);
    for (int n = 0; n < r->tape->n_instrs; n++)
        if (!tr_runner_do(r, n, e) || !kernels_ran(r, n, e))
            return false;
    r->arena.b->sync(r->x);
    return all_ran(r, e) && tr_ledger_equal(&r->counted, &r->predicted, r->tape, e);
}

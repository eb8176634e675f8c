/* SPDX-License-Identifier: BSD-3-Clause */
/* server.c: messages between workers and parameter servers, and what an asynchronous server does.
 *
 * Each pair has a communicator of its own, in which the worker is rank 0. A live server has a host stream for
 * each worker, on which it receives what that worker sends first of a push, into a place of its own; it looks
 * which of these receives is over, in turns, from the worker after the one that it took last. All else of a
 * push it receives without a stream, as the worker is in the middle of sending it. */
#include "training/run/server.h"

#include "training/launch.h"
#include "training/run/compute.h"

#include <math.h>
#include <stdlib.h>

/* ---- messages ---- */

static bool failed(
    const struct tr_runner *r, const char *what, const char *name, tutti_comm *pair, struct tr_error *e)
{
    bool works = r->tape->server < 0;
    return tr_fail(e, "step %lld, %s %d: %s of %s: %s", (long long)r->step, works ? "worker" : "server",
        works ? r->tape->rank : r->tape->server, what, name, tr_why(pair));
}

/* A slow worker is busy for longer, before its first push. */
static void be_slow(const struct tr_runner *r, const struct tr_instr *i)
{
    if (r->slow <= 1 || i->edge != TR_TO_SERVER || tr_edge_kinds[i[-1].edge].served)
        return;
    int64_t begun = r->clock[0], until = begun + (int64_t)(r->slow * (double)(tr_now_ns() - begun));
    while (tr_now_ns() < until)
        continue;
}

bool tr_server_message(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e)
{
    bool sends = i->code == TR_SEND;
    int value = sends ? i->in[0] : i->out[0];
    enum tr_element element = r->tape->values[value].element;
    tutti_comm *pair = r->groups.pairs[i->peer < 0 ? r->push.peer : i->peer];
    size_t count = (size_t)i->count, bytes = (size_t)tr_element_bytes(element);
    unsigned char *at = tr_at(r, value);
    at += (size_t)i->place * bytes;
    int peer = 1 - tutti_comm_rank(pair);
    tutti_type type = tr_element_type(element);
    tutti_status s = TUTTI_OK;
    be_slow(r, i);
    if (r->push.ticket && i == r->tape->instrs)
        tr_copy_bytes(r->x, at, r->push.ticket, (int64_t)(count * bytes));
    else if (sends)
        s = tutti_send(at, count, type, peer, pair, r->own);
    else
        s = tutti_recv(at, count, type, peer, pair, r->own);
    tr_ledger_count(&r->counted, r->tape, i, i->code, (int64_t)(count * bytes));
    return s == TUTTI_OK || failed(r, tr_codes[i->code].name, tr_instr_name(r->tape, i), pair, e);
}

/* ---- a live server ---- */

static unsigned char *ticket(const struct tr_server *s, int worker)
{
    const struct tr_tape *t = s->r->tape;
    return (unsigned char *)tr_at(s->r, t->tickets) + worker * t->values[t->losses].bytes;
}

/* The worker will push: what it sends first goes to its ticket. */
static bool post(struct tr_server *s, int worker, struct tr_error *e)
{
    tutti_comm *pair = s->r->groups.pairs[worker];
    size_t count = (size_t)s->r->tape->instrs[0].count;
    if (s->order || s->clocks[worker] == s->steps)
        return true;
    s->posted[worker] = true;
    return (tutti_recv(ticket(s, worker), count, TUTTI_FLOAT64, 0, pair, s->streams[worker]) == TUTTI_OK &&
               tutti_stream_record(s->streams[worker], &s->points[worker]) == TUTTI_OK) ||
           failed(s->r, "recv", "loss", pair, e);
}

/* The first, from the one after the last, whose push has begun; it waits, a millisecond for each. */
static bool whoever_comes(struct tr_server *s, int *worker, struct tr_error *e)
{
    for (int n = 1, wait_ms = 0;; n++) {
        int w = (s->last + n) % s->workers;
        if (n > s->workers)
            wait_ms = 1;
        if (!s->posted[w])
            continue;
        tutti_status status = tutti_stream_wait(s->streams[w], s->points[w], wait_ms);
        if (status == TUTTI_IN_PROGRESS)
            continue;
        *worker = s->last = w;
        s->posted[w] = false;
        return status == TUTTI_OK || failed(s->r, "recv", "loss", s->r->groups.pairs[w], e);
    }
}

/* ---- a server ---- */

bool tr_server_open(
    struct tr_server *s, struct tr_runner *r, const int *order, long steps, struct tr_error *e)
{
    int workers = r->tape->mesh->size[TR_DP];
    size_t n = (size_t)workers;
    *s = (struct tr_server){ .r = r,
        .order = order,
        .steps = steps,
        .workers = workers,
        .last = workers - 1,
        .clocks = tr_new(n, sizeof(long)),
        .given = tr_new(n, sizeof(long)),
        .waits = tr_new(n, sizeof(bool)),
        .streams = tr_new(n, sizeof(tutti_stream)),
        .points = tr_new(n, sizeof(uint64_t)),
        .posted = tr_new(n, sizeof(bool)) };
    tr_ledger_begin(&r->counted, &r->predicted);
    if (!tr_traffic_read(&s->before, &r->groups, e))
        return false;
    for (int w = 0; w < workers; w++)
        if ((!order && tutti_stream_create(&s->streams[w]) != TUTTI_OK &&
                !tr_fail(e, "server %d: %s", r->tape->server, tutti_get_last_error(NULL))) ||
            !post(s, w, e))
            return false;
    return true;
}

static bool is_finite(const struct tr_runner *r, struct tr_error *e)
{
    return (isfinite(r->result.loss) && isfinite(r->result.norm)) ||
           tr_fail(e,
               "server %d: push %lld, of worker %d, has the loss %g and the norm %g; nothing of it was "
               "applied",
               r->tape->server, (long long)r->step, r->push.peer, r->result.loss, r->result.norm);
}

/* The instructions that take a push and apply it, or those that give. */
static bool run(struct tr_server *s, bool gives, struct tr_error *e)
{
    const struct tr_tape *t = s->r->tape;
    bool ok = true;
    for (int n = 0; n < t->n_instrs && ok; n++)
        if ((t->instrs[n].code == TR_SEND) == gives)
            ok = tr_runner_instr(s->r, n, e) && (n != t->values[t->leaves].last || is_finite(s->r, e));
    return ok;
}

static bool give(struct tr_server *s, int worker, struct tr_error *e)
{
    s->r->push.peer = worker;
    s->waits[worker] = false;
    s->given[worker] = s->r->step;
    return run(s, true, e) && post(s, worker, e);
}

bool tr_server_next(struct tr_server *s, struct tr_push *push, struct tr_error *e)
{
    struct tr_runner *r = s->r;
    long staleness = r->tape->step.staleness, number = (long)r->step;
    int w = s->order ? s->order[number] : 0;
    if (!s->order && !whoever_comes(s, &w, e))
        return false;
    r->push.peer = w;
    r->push.ticket = s->order ? NULL : ticket(s, w);
    long ahead = tr_ahead(s->clocks, s->workers, w);
    if (staleness >= 0 && ahead > staleness)
        return tr_fail(e,
            "server %d: push %ld is of worker %d, which is %ld steps before the slowest; the bound is "
            "%ld",
            r->tape->server, number, w, ahead, staleness);
    if (!run(s, false, e))
        return false;
    *push = (struct tr_push){ .number = number,
        .worker = w,
        .clock = s->clocks[w]++,
        .behind = number - s->given[w],
        .ahead = ahead,
        .loss = r->result.loss * s->workers,
        .norm = r->result.norm };
    r->step++;
    s->waits[w] = true;
    for (int x = 0; x < s->workers; x++)
        if (s->waits[x] && (staleness < 0 || tr_ahead(s->clocks, s->workers, x) <= staleness) &&
            !give(s, x, e))
            return false;
    return true;
}

bool tr_server_end(struct tr_server *s, struct tr_error *e)
{
    struct tr_ledger all = s->r->predicted; /* of one push */
    for (int n = 0; n < all.n; n++) {
        struct tr_entry *x = &all.entries[n];
        x->calls *= s->r->step, x->bytes *= s->r->step, x->wire *= s->r->step;
    }
    return tr_ledger_equal(&s->r->counted, &all, s->r->tape, e) &&
           tr_traffic_equal(&s->before, &s->r->groups, &all, s->r->tape->rank, e);
}

void tr_server_close(struct tr_server *s)
{
    for (int w = 0; w < s->workers; w++)
        if (s->streams[w].handle)
            tutti_stream_destroy(s->streams[w]);
    free(s->clocks), free(s->given), free(s->waits), free(s->streams), free(s->points), free(s->posted);
}

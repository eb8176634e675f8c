/* SPDX-License-Identifier: BSD-3-Clause */
/* run.c: drives operations to their end, and waits.
 *
 * The blocking calls are this loop over the executor, which never blocks: poll all operations, and when
 * nothing moved, spin, yield or sleep on the doorbells of the communicators involved. Whatever ends a
 * communicator (an abort, a mismatch, a death, the deadline) ends the wait of every call on it.
 *
 * Of many calls most wait for others of the same batch: a collective for the one before it on its
 * communicator, a message for a slot that earlier ones of its pair and direction have. To poll those as well
 * would make a group slower with the square of its calls. So each communicator keeps the calls of a kind in
 * turn (struct tt_turns), and only those whose turn it is are in the list that is polled. */
#include "base/clock.h"
#include "base/status.h"
#include "run/run.h"

static _Thread_local bool for_another __attribute__((tls_model("initial-exec")));
enum { QUIET_MS = 1000, SERVE_FIRST_NS = 1000000, SERVE_NS = 10 * 1000000 };

static void end(struct tt_pending *p, bool soon)
{
    p->over = true;
    if (p->op != NULL)
        tt_call_end(&p->call, p->op, soon);
}

/* Everything on this communicator is over. */
static void end_all_on(struct tt_pending *pending, int count, const struct tt_comm *comm)
{
    for (int i = 0; i < count; i++)
        if (pending[i].call.comm == comm && !pending[i].over)
            end(&pending[i], false);
}

/* A call that could not start because there is no memory: its peers wait for it, so the communicator ends. */
static tutti_status fail_start(const struct tt_pending *p)
{
    struct tt_cause cause = { .status = TUTTI_SYSTEM_ERROR, .rank = p->call.comm->rank, .peer = TT_NONE };
    cause.sequence = p->call.comm->numbers.sequence;
    tt_call_describe(&p->call, cause.operation, sizeof cause.operation);
    tt_cause_say(&cause, "%s, rank %d: %s", p->call.comm->identity.name, cause.rank, tt_last_error());
    return tt_comm_fail(p->call.comm, &cause);
}

/* Lets slots go that no message used for a second, and looks for them once a second at most: to touch them
 * anew takes time. */
void tt_comm_tidy(struct tt_comm *comm, int64_t now_ns)
{
    enum { TIDY_NS = 1000000000 };
    if (comm->transport->memory == NULL || now_ns < comm->memory.tidy_ns)
        return;
    comm->transport->memory->tidy(comm->endpoint);
    comm->memory.tidy_ns = now_ns + TIDY_NS;
}

struct runner {
    struct tt_pending *pending;
    int count;
    struct tt_pending *polled, **end; /* the calls whose turn it is */
    tutti_status status;
    bool waiting, tidy;
    bool staged; /* some call is on a device, which opens gates and rings no bell */
    bool serves; /* some communicator has an on_wait, and this is the caller's thread */
    int64_t serve_ns, pause_ns; /* when on_wait is run next, and how long after that; 0: not yet */
    int64_t stalled_ns; /* since when nothing moves; 0: it does */
    struct tt_circle circle;
    struct tt_wait wait;
};

/* Ends a call that is done. If it was made before, and nothing was waited for, the clock tells nothing new of
 * it. */
static void end_done(struct tt_pending *p, bool waited)
{
    p->done = true;
    end(p, !waited && p->call.cached != NULL && p->op->layout.slices == 1);
}

static tutti_status start(struct tt_pending *p)
{
    tutti_status status = tt_call_start(&p->call, &p->op);
    if (status != TUTTI_OK)
        return fail_start(p);
    if (p->skip > 0)
        tt_exec_skip(p->op, p->skip);
    return TUTTI_OK;
}

static bool step(const struct runner *r, struct tt_pending *p, tutti_status *status)
{
    if (p->op == NULL) {
        *status = start(p);
        return true;
    }
    if (!tt_endpoint_look(p->op->endpoint)) {
        *status = tt_comm_check(p->call.comm);
        return true;
    }
    switch (tt_exec_progress(p->op)) {
    case TT_IDLE:
        return false;
    case TT_FAILED:
        *status = tt_fault_of_op(p);
        return true;
    case TT_DONE:
        end_done(p, r->waiting);
        return true;
    case TT_MOVED:
        p->suspect = false;
        return true;
    }
    return true;
}

static void note(struct runner *r, const struct tt_pending *p, tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    if (r->status == TUTTI_OK)
        r->status = status;
    end_all_on(r->pending, r->count, p->call.comm);
}

static bool is_message(const struct tt_pending *p)
{
    return tt_collectives[p->call.collective].p2p;
}

/* How many calls of its kind may be polled together. */
static int most_of(const struct tt_pending *p)
{
    bool alone = p->call.staging != NULL && p->call.staging->gate.alone;
    return is_message(p) && !alone ? TT_SLOTS : 1;
}

/* The calls that take turns with this one. */
static struct tt_turns *turns_of(const struct tt_pending *p)
{
    const struct tt_call *call = &p->call;
    int peer = is_message(p) ? call->root : TT_NONE;
    return &call->comm->calls.turns[tt_call_kind(call->comm, peer, call->collective == TT_P2P_SEND)];
}

static void append(struct tt_pending ***end, struct tt_pending *p)
{
    p->next = NULL;
    **end = p;
    *end = &p->next;
}

/* Starts all calls that may start now, which are the messages and the first of those kinds of which one runs
 * at a time, and lines the others up. */
static void begin(struct runner *r)
{
    r->polled = NULL;
    r->end = &r->polled;
    for (int i = 0; i < r->count; i++) {
        struct tt_turns *turns = turns_of(&r->pending[i]);
        *turns = (struct tt_turns){ .end = &turns->waiting };
    }
    for (int i = 0; i < r->count; i++) {
        struct tt_pending *p = &r->pending[i];
        struct tt_turns *turns = turns_of(p);
        tutti_status status = TUTTI_OK;
        int most = most_of(p);
        if (p->over)
            continue;
        if (p->op == NULL && (most > 1 || turns->polled == 0))
            note(r, p, status = start(p));
        if (status == TUTTI_OK)
            append(turns->polled < most ? &r->end : &turns->end, p);
        turns->polled += turns->polled < most;
    }
}

/* Takes the call at this place of the list, which is over, out of it. The next one of its kind has its turn
 * at the end of the list, so that calls of a kind move in their order. */
static void pass_turn(struct runner *r, struct tt_pending **at)
{
    struct tt_turns *turns = turns_of(*at);
    struct tt_pending *next = turns->waiting;
    *at = (*at)->next;
    if (*at == NULL)
        r->end = at;
    while (next != NULL && next->over) /* its communicator has ended */
        next = next->next;
    turns->waiting = next != NULL ? next->next : NULL;
    if (next != NULL)
        append(&r->end, next);
}

static bool poll_all(struct runner *r)
{
    bool moved = false;
    for (struct tt_pending **at = &r->polled; *at != NULL;) {
        struct tt_pending *p = *at;
        tutti_status status = TUTTI_OK;
        if (!p->over)
            moved |= step(r, p, &status);
        note(r, p, status);
        if (p->over)
            pass_turn(r, at);
        else
            at = &p->next;
    }
    return moved;
}

static void begin_waiting(struct runner *r)
{
    struct tt_doorbell *bells[TT_WAIT_BELLS];
    int n = 0;
    r->staged = false;
    for (const struct tt_pending *p = r->polled; p != NULL && n < TT_WAIT_BELLS; p = p->next) {
        struct tt_doorbell *bell = p->call.comm->endpoint->doorbell;
        bool known = p->over;
        r->staged = r->staged || p->call.staging != NULL;
        for (int j = 0; j < n && !known; j++)
            known = bells[j] == bell;
        if (!known)
            bells[n++] = bell;
    }
    struct tt_endpoint *e = r->polled->call.comm->endpoint;
    tt_wait_begin(&r->wait, r->polled->call.comm->waiting.policy, bells, n);
    if (n == 1 && e->park != NULL)
        tt_wait_park_by(&r->wait, e->park, e);
    r->waiting = true;
}

/* The wait is long: each communicator once. */
static void tidy(struct runner *r)
{
    const struct tt_comm *seen = NULL;
    for (const struct tt_pending *p = r->polled; p != NULL; p = p->next) {
        struct tt_comm *comm = p->call.comm;
        if (!p->over && comm != seen)
            tt_comm_tidy(comm, tt_wait_long_since(&r->wait));
        seen = comm;
    }
    r->tidy = true;
}

/* The wait is long: what the callers of these communicators want done meanwhile, each communicator's once.
 * No sleep lasts beyond the next time. */
static void serve(struct runner *r)
{
    int64_t now = tt_now_ns();
    if (r->pause_ns == 0) {
        r->pause_ns = SERVE_FIRST_NS;
        r->serve_ns = now + r->pause_ns;
    } else if (now >= r->serve_ns) {
        const struct tt_comm *seen = NULL;
        for (const struct tt_pending *p = r->polled; p != NULL; p = p->next) {
            struct tt_comm *comm = p->call.comm;
            if (!p->over && comm != seen && comm->waiting.on_wait != NULL)
                note(r, p, tt_comm_serve(comm));
            seen = comm;
        }
        r->pause_ns = 2 * r->pause_ns < SERVE_NS ? 2 * r->pause_ns : SERVE_NS;
        r->serve_ns = tt_now_ns() + r->pause_ns;
    }
    tt_wait_until(&r->wait, r->serve_ns);
}

/* True if some call waits for its gate: a word of a device, for which nobody rings. */
static bool some_is_held(const struct runner *r)
{
    bool held = false;
    for (const struct tt_pending *p = r->polled; p != NULL && !held; p = p->next)
        held = !p->over && p->op != NULL && tt_exec_is_held(p->op);
    return held;
}

/* Idles once, because nothing moved; looks whether somebody has ended a communicator, and, if it is time,
 * around. */
static void idle(struct runner *r)
{
    if (!r->waiting)
        begin_waiting(r);
    if (r->serves && tt_wait_is_long(&r->wait))
        serve(r);
    if (r->staged && tt_wait_is_long(&r->wait))
        tt_wait_look(&r->wait, some_is_held(r));
    bool look = tt_wait_idle(&r->wait);
    if (!r->tidy && tt_wait_is_long(&r->wait))
        tidy(r);
    int64_t now = look ? tt_now_ns() : 0;
    if (look && r->stalled_ns == 0)
        r->stalled_ns = now;
    if (look)
        tt_fault_tell_waits(r->pending, r->count, &r->circle);
    const struct tt_comm *seen = NULL;
    for (struct tt_pending *p = r->polled; p != NULL; p = p->next) {
        if (p->over)
            continue;
        bool first = p->call.comm != seen; /* of those of its communicator */
        if (first)
            note(r, p, tt_comm_check(p->call.comm));
        seen = p->call.comm;
        if (!look || p->over || p->op == NULL)
            continue;
        bool slow = tt_exec_takes_time(p->op);
        int64_t stalled_ms = slow ? 0 : (now - r->stalled_ns) / 1000000;
        note(r, p, tt_fault_inspect(p, stalled_ms));
        if (first && !p->over)
            tt_fault_tell_slow(p, stalled_ms);
    }
}

/* A communicator that failed has ended: its ranks leave this one's buffers alone as soon as they see that,
 * and only then may the caller have the buffers back. All calls of this thread are over, so nobody waits for
 * it. A process that was stopped in a call is not waited for longer than QUIET_MS: all it can still do is to
 * finish the message it was storing. */
static void settle(struct runner *r)
{
    for (int i = 0; i < r->count; i++)
        r->pending[i].call.comm->waiting.settled = false;
    for (int i = 0; i < r->count; i++) {
        struct tt_comm *comm = r->pending[i].call.comm;
        struct tt_cause cause;
        if (comm->waiting.settled || !comm->endpoint->control->cause(comm->endpoint, &cause))
            continue;
        comm->waiting.settled = true;
        int64_t until = tt_deadline_ns(QUIET_MS);
        tt_wait_begin(&r->wait, comm->waiting.policy, NULL, 0);
        while (!comm->endpoint->control->quiet(comm->endpoint, tt_now_ns() < until))
            tt_wait_idle(&r->wait);
        tt_wait_awake(&r->wait);
    }
}

static tutti_status run(struct tt_pending *pending, int count, bool serves)
{
    struct runner r; /* not zeroed: `wait` is large, and most calls never wait */
    r.pending = pending;
    r.count = count;
    r.status = TUTTI_OK;
    r.waiting = r.tidy = false;
    r.serves = false;
    for (int i = 0; i < count; i++)
        r.serves = r.serves || (serves && pending[i].call.comm->waiting.on_wait != NULL);
    r.stalled_ns = r.pause_ns = 0;
    r.circle = (struct tt_circle){ 0 };
    begin(&r);
    for (;;) {
        bool moved = poll_all(&r);
        if (moved && r.stalled_ns != 0) {
            tt_fault_tell_moved(pending, count);
            r.stalled_ns = 0;
            r.circle.length = 0;
        }
        if (r.polled == NULL)
            break;
        if (!moved) {
            idle(&r);
        } else if (r.waiting) {
            tt_wait_awake(&r.wait);
            r.pause_ns = 0;
        }
    }
    if (r.waiting)
        tt_wait_awake(&r.wait);
    if (r.status != TUTTI_OK)
        settle(&r);
    return r.status;
}

/* Most are one call that has started. Often its peers are there, or about to be, so that there is nothing to
 * wait for; and if it is of a few bytes, all that a wait needs would take longer than they do. */
tutti_status tt_run(struct tt_pending *pending, int count)
{
    if (count == 1 && pending->op != NULL) {
        uint32_t idle = 0, enough = pending->call.comm->waiting.policy.keen_polls;
        enum tt_progress now;
        while ((now = tt_exec_progress(pending->op)) == TT_MOVED || (now == TT_IDLE && idle++ < enough)) {
            if (now == TT_IDLE)
                tt_look_again();
            if (!tt_endpoint_is_calm(pending->op->endpoint))
                break;
        }
        if (now == TT_DONE) {
            end_done(pending, false);
            return TUTTI_OK;
        }
    }
    return run(pending, count, !for_another);
}

void tt_run_for_another(void)
{
    for_another = true;
}

tutti_status tt_run_on_worker(struct tt_pending *pending, int count)
{
    return run(pending, count, false);
}

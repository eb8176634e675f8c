/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_thread.c: who drives an endpoint: the caller, for a moment, or the thread of the process, when it
 * visits it. The thread alone makes and accepts connections, and does what nobody waits for.
 *
 * A caller that drives reads and writes by itself, and each packet that woke the thread would cost it time.
 * So the thread gives way to it: it is not told of what comes on connections, and looks after a nap whether
 * the caller still drives. A nap is a time at which the endpoint is visited again, so no other one waits for
 * it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/schedule.h"
#include "base/status.h"
#include "transports/tcp_thread.h"

enum {
    LATE_MS = 200, /* the time that what a carrier has may come later than it must */
    REFUSED_MS = 1000, /* a carrier may see that a peer has died before its connection, which can say so */
    NAP_NS = 100000, /* of each rank, which may share its core with the others */
    MOST_NAPS = 50,
    LONGEST_NAP_NS = 1600000, /* of few ranks, too, while the caller drives: they double until then */
    NAPS = 8,
    SLEPT_NAP_NS = TCP_TICK_MS * 1000000 / NAPS, /* and until then while it sleeps and polls for itself */
    TURN_NS = 200000, /* so long the thread waits for a caller to end its turn, and then comes again */
    VISIT_NS = 1000000, /* after so long other endpoints have their turn */
};

/* --- The caller */

void tt_tcp_wake(struct tcp_endpoint *e)
{
    if (!atomic_exchange(&e->woken, true))
        eventfd_write(e->server->wake, 1);
}

/* True if a frame is under way that the caller will not wait for. A message that lies in its own memory it
 * does wait for, and drives meanwhile, unless it is about to sleep where nobody polls for it. */
static bool is_left(struct tcp_endpoint *e, int rank)
{
    const struct tcp_transfer *t = &e->peers[rank].to;
    const struct tt_doorbell *bell = e->head.doorbell;
    if (t->size > 0 && atomic_load(&bell->sleeping) != 0 && atomic_load(&bell->polled) == 0)
        return true;
    if (t->size == 0 || t->frame.kind != TCP_MESSAGE)
        return t->size > 0;
    return t->payload == tt_tcp_link_of(e, t->frame.class, rank)->out[t->frame.number % TCP_SLOTS].memory;
}

/* What is to be said goes first, since the peer waits for it. Who has said all of it need not read now; who
 * has not must, for the peer may not read either before it has written. */
static void speak_first(struct tcp_endpoint *e, int rank, bool news)
{
    const struct tcp_peer *p = &e->peers[rank];
    if (news || p->to.size > 0)
        tt_tcp_write(e, rank);
    if (news && p->to.size == 0)
        return;
    tt_tcp_read(e, rank);
    if (p->asked || tt_tcp_releases_are_news(e, rank))
        tt_tcp_write(e, rank);
}

void tt_tcp_drive(struct tcp_endpoint *e, int rank, bool news)
{
    const struct tcp_peer *p = &e->peers[rank];
    tt_tcp_know(e, rank);
    atomic_fetch_add_explicit(&e->turns.taken, 1, memory_order_relaxed);
    bool stopped = atomic_load_explicit(&e->turns.stopped, memory_order_relaxed);
    if (stopped || pthread_mutex_trylock(&e->driving) != 0) {
        if (news)
            tt_tcp_wake(e);
        return;
    }
    if (e->carrier != NULL)
        tt_tcp_carry_first(e, rank, news);
    else
        speak_first(e, rank, news);
    bool unsaid = is_left(e, rank) || e->end.first_claimer != TT_NONE ||
                  (news && atomic_load(&p->connection) == TCP_NOT_DIALED && tt_tcp_has_news(e, rank));
    pthread_mutex_unlock(&e->driving);
    if (unsaid)
        tt_tcp_wake(e);
}

/* --- What the thread is told of */

static uint32_t events_of(const struct tcp_peer *p)
{
    int connection = atomic_load(&p->connection);
    if (connection == TCP_DIALING)
        return EPOLLOUT;
    return connection == TCP_OPEN && p->to.size > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN;
}

/* Whoever knocks is to be heard at once, even while a caller drives, for nobody else hears him. */
static void enter_set(struct tcp_endpoint *e)
{
    struct tcp_spot *me = &e->watch->spots[e->head.me];
    if (e->watch->sets == e->server->sets || atomic_load(&e->server->set) < 0)
        return;
    e->watch->sets = e->server->sets;
    tt_tcp_set_watch(me, e->listener, 0, EPOLLIN);
    for (int i = 0; i < TCP_STRANGERS; i++)
        if (e->watch->strangers[i].fd >= 0)
            tt_tcp_set_watch(me, e->watch->strangers[i].fd, 0, EPOLLIN);
    for (int at = 0, r; (r = tt_tcp_next(e, false, &at)) != TT_NONE;)
        e->watch->spots[r].events = 0;
}

static void leave_set(struct tcp_endpoint *e)
{
    tt_tcp_set_forget(e, e->listener);
    for (int i = 0; i < TCP_STRANGERS; i++)
        if (e->watch->strangers[i].fd >= 0)
            tt_tcp_set_forget(e, e->watch->strangers[i].fd);
    for (int r = 0; r < e->head.n; r++)
        tt_tcp_set_leave(&e->watch->spots[r]);
    tt_doorbell_watch(e->head.doorbell, -1);
}

/* Lets the set tell of what this rank has with its peers. Where a caller drives, connections leave it: to be
 * there costs each packet time, though nobody is told. True if something has a time limit. */
static bool watch_peers(struct tcp_endpoint *e)
{
    const struct tcp_watch *w = e->watch;
    bool limited = atomic_load(&e->server->set) < 0 || w->blind || atomic_load(&e->closing) ||
                   atomic_load(&e->end.decided) != atomic_load(&e->end.ended);
    for (int i = 0; i < TCP_STRANGERS; i++)
        limited = limited || w->strangers[i].fd >= 0;
    for (int at = 0, r; (r = tt_tcp_next(e, false, &at)) != TT_NONE;) {
        const struct tcp_peer *p = &e->peers[r];
        struct tcp_spot *spot = &w->spots[r];
        bool leaving = tt_tcp_is_leaving(p), open = atomic_load(&p->connection) == TCP_OPEN;
        limited = limited || p->since_ns != 0 || leaving || p->carried.refused_ns != 0;
        if (spot->fired && spot->events != 0)
            spot->events = EPOLLONESHOT;
        spot->fired = false;
        if (open && !leaving && w->gives_way)
            tt_tcp_set_leave(spot);
        else if (p->fd >= 0 && !leaving)
            spot->events = tt_tcp_set_watch(spot, p->fd, spot->events, events_of(p) | EPOLLONESHOT);
    }
    return limited;
}

/* --- A visit */

/* Takes the thread's turn. A caller that polls would take the lock again and again before this thread is run;
 * so it takes no more turns until this thread has had its own. But this one may last, and others are to be
 * served meanwhile. */
static bool take_turn(struct tcp_endpoint *e)
{
    struct tcp_watch *w = e->watch;
    atomic_store(&e->turns.stopped, true);
    bool mine = w->waits ? pthread_mutex_trylock(&e->driving) == 0 : tt_lock_within(&e->driving, TURN_NS);
    w->waits = !mine;
    if (mine)
        atomic_store(&e->turns.stopped, false);
    return mine;
}

/* True if the caller has driven since the thread last looked, or polls for itself in its sleep. */
static bool is_driven(struct tcp_endpoint *e)
{
    const struct tt_doorbell *bell = e->head.doorbell;
    uint32_t turns = atomic_load(&e->turns.taken);
    bool polls = atomic_load(&bell->polled) != 0, sleeps = atomic_load(&bell->sleeping) != 0;
    bool drives = polls || (!sleeps && turns != e->turns.seen);
    e->turns.seen = turns;
    return drives && !atomic_load(&e->woken) && !atomic_load(&e->closing);
}

/* Begins a nap, if a caller drives. It ends early when the caller sleeps, or needs this thread. */
static bool nap(struct tcp_endpoint *e, int64_t now_ns)
{
    struct tcp_watch *w = e->watch;
    struct tt_doorbell *bell = e->head.doorbell;
    int64_t shortest_ns = e->head.n < MOST_NAPS ? e->head.n * NAP_NS : MOST_NAPS * NAP_NS;
    tt_doorbell_watch(bell, e->server->wake);
    if (!is_driven(e)) {
        tt_doorbell_watch(bell, -1);
        w->nap_ns = 0;
        return false;
    }
    int64_t longest_ns = atomic_load(&bell->polled) != 0 ? SLEPT_NAP_NS : LONGEST_NAP_NS;
    int64_t ns = w->nap_ns < longest_ns ? w->nap_ns : longest_ns;
    ns = ns > shortest_ns ? ns : shortest_ns;
    w->nap_over_ns = now_ns + ns;
    w->nap_ns = 2 * ns;
    return true;
}

/* True while naps go on. After some of them it is time for a look at what the caller does not read. */
static bool naps_on(struct tcp_endpoint *e, int64_t now_ns)
{
    struct tcp_watch *w = e->watch;
    if (now_ns < w->nap_over_ns && tt_doorbell_is_watched(e->head.doorbell))
        return true;
    if (w->naps + 1 >= NAPS || !nap(e, now_ns))
        return false;
    w->naps++;
    return true;
}

static void serve_peer(struct tcp_endpoint *e, int rank)
{
    const struct tcp_peer *p = &e->peers[rank];
    if (atomic_load(&p->connection) == TCP_DIALING)
        tt_tcp_greet(e, rank);
    else if (atomic_load(&p->connection) == TCP_GREETED)
        tt_tcp_hear_answer(e, rank);
    tt_tcp_read(e, rank);
    tt_tcp_keep_promises(e, rank);
    if (tt_tcp_is_leaving(p) &&
        tt_now_ns() - p->carried.leaves_ns > (TCP_CLOSE_MS + LATE_MS) * INT64_C(1000000))
        tt_tcp_lose(e, rank, TT_PEER_DEAD);
    if (p->carried.refused_ns != 0 && tt_now_ns() - p->carried.refused_ns > REFUSED_MS * INT64_C(1000000))
        tt_tcp_claim_unreachable(e, rank, "the network takes no message to it");
}

/* Says what is to be said, once there is a connection. Who was turned away waits for a tick. */
static void speak(struct tcp_endpoint *e, int rank)
{
    const struct tcp_peer *p = &e->peers[rank];
    if (atomic_load(&p->connection) == TCP_NOT_DIALED && atomic_load(&p->state) == TT_PEER_ALIVE &&
        tt_tcp_has_news(e, rank) && tt_now_ns() - p->since_ns > TCP_TICK_MS * INT64_C(1000000))
        tt_tcp_dial(e, rank);
    tt_tcp_write(e, rank);
    if (e->carrier != NULL)
        tt_tcp_carry(e, rank);
}

/* True if peers may be to hear of something that this rank has nothing with: how it ends, or why. */
static bool concerns_all(struct tcp_endpoint *e)
{
    return e->end.first_claimer != TT_NONE || atomic_load(&e->end.decided) != 0 || atomic_load(&e->closing) ||
           atomic_load(&e->head.gone);
}

/* Looks at the peers that are to be looked at, until a time is up. The first has its turn anyway. */
static void serve_ready(struct tcp_endpoint *e, int64_t until_ns)
{
    struct tcp_watch *w = e->watch;
    int i = 0;
    while (i < w->count && (i == 0 || tt_now_ns() < until_ns)) {
        int rank = w->ready[i++];
        w->spots[rank].ready = false;
        serve_peer(e, rank);
    }
    w->count -= i;
    memmove(w->ready, w->ready + i, (size_t)w->count * sizeof *w->ready);
}

/* The same of what is to be said to all. False: there is more to be said. */
static bool speak_to_all(struct tcp_endpoint *e, int64_t until_ns)
{
    struct tcp_watch *w = e->watch;
    bool all = concerns_all(e), from_first = w->spoken == 0;
    for (int r; (r = tt_tcp_next(e, all, &w->spoken)) != TT_NONE;) {
        speak(e, r);
        if (tt_now_ns() >= until_ns)
            return false;
    }
    w->spoken = 0;
    return from_first;
}

/* With `driving`. True: all is done. */
static bool serve(struct tcp_endpoint *e, bool all, int64_t until_ns)
{
    struct tcp_watch *w = e->watch;
    if (w->knocked || w->blind)
        tt_tcp_accept(e);
    if (w->knocked || all)
        tt_tcp_hear_strangers(e);
    w->knocked = false;
    tt_tcp_keep_spare(e);
    bool more = e->carrier != NULL;
    while (more && tt_now_ns() < until_ns)
        more = e->carries->progress(e->carrier);
    for (int at = 0, r; all && (r = tt_tcp_next(e, false, &at)) != TT_NONE;)
        tt_tcp_note(&w->spots[r]);
    serve_ready(e, until_ns);
    tt_tcp_decide(e);
    bool said = speak_to_all(e, until_ns);
    tt_tcp_end_when_told(e);
    return said && !more && w->count == 0;
}

static bool is_over(struct tcp_endpoint *e)
{
    if (!atomic_load(&e->closing))
        return false;
    bool gone = true;
    for (int r = 0; r < e->head.n; r++)
        gone = gone && e->peers[r].fd < 0 &&
               (atomic_load(&e->peers[r].connection) != TCP_NOT_DIALED || !tt_tcp_has_news(e, r));
    return gone || tt_now_ns() > e->close_ns;
}

/* With `driving`: what is next. */
static void look_ahead(struct tcp_endpoint *e, bool all, bool done)
{
    struct tcp_watch *w = e->watch;
    int64_t now_ns = tt_now_ns(), tick_ns = now_ns + TCP_TICK_MS * INT64_C(1000000);
    uint32_t turns = atomic_load(&e->turns.taken);
    bool busy = false;
    enter_set(e);
    w->naps = 0;
    w->gives_way = nap(e, now_ns);
    bool limited = watch_peers(e);
    if (e->carrier != NULL && !w->gives_way)
        tt_tcp_set_watch_carrier(e, e->carries->sleep_on(e->carrier, turns != e->turns.watched, &busy));
    e->turns.watched = turns;
    w->more = !done || busy;
    if (!limited)
        w->due_ns = INT64_MAX;
    else if (all || w->due_ns > tick_ns)
        w->due_ns = tick_ns;
}

static int64_t next_visit(const struct tcp_watch *w)
{
    if (w->more && !w->waits)
        return 0;
    return w->gives_way && !w->waits && w->nap_over_ns < w->due_ns ? w->nap_over_ns : w->due_ns;
}

int64_t tt_tcp_visit(struct tcp_endpoint *e)
{
    struct tcp_watch *w = e->watch;
    int64_t now_ns = tt_now_ns();
    bool due = now_ns >= w->due_ns, looks = false;
    /* Of connections the set tells only of those that begin, while it gives way: a caller waits for them. */
    bool called = atomic_load(&e->woken) || w->knocked || w->more || w->count > 0;
    if (w->waits && !due)
        return w->due_ns;
    if (!due && !called) {
        if (!w->gives_way || naps_on(e, now_ns))
            return next_visit(w);
        looks = true;
    }
    if (!take_turn(e)) {
        w->due_ns = now_ns + TURN_NS;
        return w->due_ns;
    }
    bool all = due || looks;
    atomic_exchange(&e->woken, false);
    bool done = serve(e, all, now_ns + VISIT_NS), over = is_over(e);
    if (over)
        leave_set(e);
    else
        look_ahead(e, all, done);
    pthread_mutex_unlock(&e->driving);
    return over ? -1 : next_visit(w);
}

/* --- What it has of an endpoint */

static void free_watch(struct tcp_watch *w)
{
    if (w == NULL)
        return;
    free(w->spots);
    free(w->ready);
    free(w);
}

tutti_status tt_tcp_thread_start(struct tcp_endpoint *e)
{
    size_t n = (size_t)e->head.n;
    struct tcp_watch *w = calloc(1, sizeof *w);
    if (w != NULL) {
        w->spots = calloc(n, sizeof *w->spots);
        w->ready = calloc(n, sizeof *w->ready);
    }
    if (w == NULL || w->spots == NULL || w->ready == NULL) {
        free_watch(w);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "tcp: no memory for an endpoint of %d ranks", e->head.n);
    }
    for (int r = 0; r < e->head.n; r++)
        w->spots[r] = (struct tcp_spot){ .endpoint = e, .rank = r };
    for (int i = 0; i < TCP_STRANGERS; i++)
        w->strangers[i].fd = -1;
    e->watch = w;
    return tt_tcp_server_begin(e);
}

void tt_tcp_thread_free(struct tcp_endpoint *e)
{
    struct tcp_watch *w = e->watch;
    for (int i = 0; w != NULL && i < TCP_STRANGERS; i++)
        tt_tcp_hang_up(&w->strangers[i].fd);
    free_watch(w);
    e->watch = NULL;
}

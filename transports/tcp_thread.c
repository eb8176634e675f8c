/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_thread.c: who drives: the caller, for a moment, or the endpoint's thread. The thread alone makes and
 * accepts connections, and does what nobody waits for.
 *
 * A process may have no descriptor left for a connection. It has one more, which is kept for that: by it a
 * stranger can be heard, who goes again, and a peer, by whom all others are told what is missing here if none
 * has come back after a second.
 *
 * A host that vanishes closes nothing. The system finds that by itself, since each connection has a
 * heartbeat: what is sent is to be acknowledged within the setting `heartbeat`, and a silent connection is
 * asked. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/clofork.h"
#include "base/log.h"
#include "base/schedule.h"
#include "base/status.h"
#include "base/thread.h"
#include "transports/tcp.h"

enum {
    STRANGERS = 32,
    STRANGER_MS = 5000, /* the time that one has to say who he is */
    LATE_MS = 200, /* the time that what a carrier has may come later than it must */
    REFUSED_MS = 1000, /* a carrier may see that a peer has died before its connection, which can say so */
    TICK_MS = 50, /* looks at what has a time limit */
    LACK_MS = 1000, /* what this process lacks it may have soon */
    DIAL_MS = 1000, /* a network that does not reach a peer may do so soon, or the peer dials meanwhile */
    NAP_NS = 100000, /* of each rank, which may share its core with the others */
    MOST_NAPS = 50,
    LONGEST_NAP_NS = 1600000, /* of few ranks, too, while the caller drives: they double until then */
    NAPS = 8,
    SLEPT_NAP_NS = TICK_MS * 1000000 / NAPS, /* and until then while it sleeps and polls for itself */
    CONTROL_TEXT = 16, /* TCP_CA_NAME_MAX */
};

struct tcp_stranger { /* who has connected and not said who he is */
    int fd; /* -1: nobody */
    int64_t since_ns;
    struct tcp_heard heard;
};

/* What the thread polls: the wake, the listener, and all else that is open. What is not has no entry, for the
 * system refuses a set of more entries than a process may have descriptors. */
enum { POLLED_WAKE, POLLED_LISTENER, POLLED_REST };
struct tcp_watch {
    struct tcp_stranger strangers[STRANGERS];
    struct pollfd *polled; /* room for all that there can be */
    int count;
    int *entries; /* [n] of `polled`; 0: the peer has none */
    bool blind; /* poll has failed */
    int spare; /* the descriptor that is kept; -1: it is in use */
    int64_t lacks_ns; /* since when */
    int lack; /* what the system said: EMFILE, ENFILE */
};

void tt_tcp_wake(struct tcp_endpoint *e)
{
    if (atomic_exchange(&e->woken, true))
        return;
    eventfd_write(e->wake, 1);
    tt_doorbell_end_watch(e->head.doorbell);
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
    struct tcp_peer *p = &e->peers[rank];
    tt_tcp_know(e, rank);
    atomic_fetch_add_explicit(&e->turns.taken, 1, memory_order_relaxed);
    bool stopped = atomic_load_explicit(&e->turns.stopped, memory_order_relaxed);
    if (stopped || pthread_mutex_trylock(&e->driving) != 0) {
        if (news)
            tt_tcp_wake(e);
        return;
    }
    if (e->carrier != NULL) {
        e->carries->progress(e->carrier);
        tt_tcp_keep_promises(e, rank);
        bool wants = atomic_load(&p->slots.want) == TCP_WANTS;
        if (news || wants || p->carried.greet || tt_tcp_releases_are_news(e, rank))
            tt_tcp_carry(e, rank);
    } else {
        speak_first(e, rank, news);
    }
    bool unsaid = is_left(e, rank) || e->end.first_claimer != TT_NONE ||
                  (news && atomic_load(&p->connection) == TCP_NOT_DIALED && tt_tcp_has_news(e, rank));
    pthread_mutex_unlock(&e->driving);
    if (unsaid)
        tt_tcp_wake(e);
}

/* --- Descriptors */

/* Opens a connection to this address; NULL: accepts one. Where the process has no descriptor left, by the one
 * that is kept. Returns -1, and errno. */
static int open_connection(struct tcp_endpoint *e, const struct tt_net *net)
{
    struct tcp_watch *w = e->watch;
    int fd = -1;
    tt_clofork_lock();
    for (int try = 0; fd < 0 && try < 2; try++) {
        fd = net != NULL ? tt_net_dial(net) : accept4(e->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0 || (errno != EMFILE && errno != ENFILE) || w->spare < 0)
            break;
        w->lack = errno;
        w->lacks_ns = tt_now_ns();
        close(w->spare);
        w->spare = -1;
    }
    int number = errno;
    tt_clofork_add(fd);
    tt_clofork_unlock();
    errno = number;
    return fd;
}

/* Gets the spare descriptor back, if it can: once all is decided, from a peer that knows. If none comes, and
 * no stranger has it, this rank cannot go on. */
static void keep_spare(struct tcp_endpoint *e)
{
    struct tcp_watch *w = e->watch;
    bool decided = atomic_load(&e->end.decided) != 0, heard = true;
    w->spare = w->spare < 0 ? fcntl(e->wake, F_DUPFD_CLOEXEC, 0) : w->spare;
    for (int i = 0; i < STRANGERS; i++)
        heard = heard && w->strangers[i].fd < 0;
    if (w->spare >= 0 || !heard)
        return;
    for (int r = 0; decided && r < e->head.n; r++)
        if (e->peers[r].fd >= 0 && e->peers[r].cause && e->peers[r].to.size == 0)
            tt_tcp_lose(e, r, TT_PEER_LEFT);
    if (!decided && tt_now_ns() - w->lacks_ns > LACK_MS * INT64_C(1000000))
        tt_tcp_claim_lack(e, w->lack);
}

/* --- Connections */

static struct tcp_greeting greeting_of(const struct tcp_endpoint *e, int rank)
{
    struct tcp_greeting words = { .magic = TCP_MAGIC, .from = e->head.me, .to = rank };
    memcpy(words.token, e->peers[rank].address.token, sizeof words.token);
    return words;
}

/* The connection is there. */
static void open_with(struct tcp_endpoint *e, struct tcp_peer *p)
{
    char name[CONTROL_TEXT] = "";
    socklen_t size = sizeof name - 1;
    p->since_ns = p->began_ns = 0;
    p->paced =
        getsockopt(p->fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0 && strncmp(name, "bbr", 3) == 0;
    atomic_store(&p->connection, TCP_OPEN);
    tt_doorbell_ring(e->head.doorbell); /* a caller that polls for itself is to look at this one, too */
}

/* Takes a connection on which the peer has said who it is, and answers. That a peer is gone by then is found
 * by reading. */
static void take_connection(struct tcp_endpoint *e, int rank, int fd)
{
    struct tcp_peer *p = &e->peers[rank];
    struct tcp_greeting answer = greeting_of(e, rank);
    p->fd = fd;
    send(fd, &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL);
    open_with(e, p);
}

/* The connection that this rank makes has come to nothing. */
static void fail_to_dial(struct tcp_endpoint *e, int rank, int number)
{
    enum { TRIES = 5 };
    struct tcp_peer *p = &e->peers[rank];
    bool turned_away = number == ECONNRESET || number == EPIPE;
    bool late = tt_now_ns() - p->began_ns > DIAL_MS * INT64_C(1000000);
    int theirs = p->theirs_fd;
    tt_tcp_hang_up(&p->fd);
    p->theirs_fd = -1;
    if (theirs >= 0) {
        take_connection(e, rank, theirs);
    } else if (turned_away && ++p->turned_away < TRIES) {
        atomic_store(&p->connection, TCP_NOT_DIALED); /* its room for strangers was full, or it ends */
    } else if (turned_away || number == ECONNREFUSED) {
        tt_tcp_lose(e, rank, turned_away ? TT_PEER_GONE : TT_PEER_REFUSES);
    } else if (!late) {
        atomic_store(&p->connection, TCP_NOT_DIALED);
    } else {
        tt_tcp_claim_unreachable(e, rank, strerror(number));
        tt_tcp_lose(e, rank, TT_PEER_SILENT);
    }
}

static void dial(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    tt_tcp_know(e, rank);
    p->fd = open_connection(e, &p->address.net);
    int number = errno;
    p->since_ns = tt_now_ns();
    p->began_ns = p->began_ns != 0 ? p->began_ns : p->since_ns;
    if (p->fd < 0 && (number == EMFILE || number == ENFILE))
        return; /* a later tick tries again, until it is said what is missing */
    if (p->fd < 0) {
        fail_to_dial(e, rank, number);
        return;
    }
    p->answer.have = 0;
    tt_net_heartbeat(p->fd, e->params.heartbeat_ms);
    if (e->params.congestion != NULL)
        tt_net_congest(p->fd, e->params.congestion);
    atomic_store(&p->connection, TCP_DIALING);
}

/* The connection may be there: says who this rank is. */
static void greet(struct tcp_endpoint *e, int rank, short events)
{
    struct tcp_peer *p = &e->peers[rank];
    struct tcp_greeting words = greeting_of(e, rank);
    int number = 0;
    socklen_t size = sizeof number;
    bool late =
        e->params.heartbeat_ms > 0 && tt_now_ns() - p->since_ns > (int64_t)e->params.heartbeat_ms * 1000000;
    if (events == 0 && !late)
        return;
    if (events != 0)
        getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &number, &size);
    else
        number = ETIMEDOUT;
    if (number == 0 && send(p->fd, &words, sizeof words, MSG_NOSIGNAL) != sizeof words)
        number = errno;
    if (number != 0)
        fail_to_dial(e, rank, number);
    else
        atomic_store(&p->connection, TCP_GREETED);
}

/* Hears who is at the other end. Returns 0: a rank that knows the token of this one; EAGAIN: more is to come;
 * else what is wrong. */
static int hear(const struct tcp_endpoint *e, int fd, struct tcp_heard *heard)
{
    uint8_t *to = (uint8_t *)&heard->words;
    ssize_t got = recv(fd, to + heard->have, sizeof heard->words - heard->have, MSG_DONTWAIT);
    if (got <= 0)
        return got == 0 ? ECONNRESET : errno == EINTR ? EAGAIN : errno;
    heard->have += (size_t)got;
    if (heard->have < sizeof heard->words)
        return EAGAIN;
    const struct tcp_greeting *w = &heard->words;
    bool right = w->magic == TCP_MAGIC && w->to == e->head.me && w->from >= 0 && w->from < e->head.n &&
                 w->from != e->head.me && memcmp(w->token, e->token, sizeof e->token) == 0;
    return right ? 0 : ECONNRESET;
}

/* Waits for the answer for as long as it takes: the peer may be stopped. A host that vanishes is found by its
 * heartbeat. */
static void hear_answer(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    int number = hear(e, p->fd, &p->answer);
    if (number == EAGAIN)
        return;
    if (number == 0 && p->answer.words.from != rank)
        number = ECONNRESET;
    if (number != 0) {
        fail_to_dial(e, rank, number);
        return;
    }
    tt_tcp_hang_up(&p->theirs_fd);
    open_with(e, p);
}

static void accept_one(struct tcp_endpoint *e)
{
    struct tcp_stranger *strangers = e->watch->strangers;
    int oldest = 0, fd = open_connection(e, NULL);
    if (fd < 0)
        return;
    for (int i = 0; i < STRANGERS; i++) {
        if (strangers[i].fd < 0) {
            oldest = i;
            break;
        }
        if (strangers[i].since_ns < strangers[oldest].since_ns)
            oldest = i;
    }
    tt_tcp_hang_up(&strangers[oldest].fd); /* a rank that is turned away so comes again */
    strangers[oldest] = (struct tcp_stranger){ .fd = fd, .since_ns = tt_now_ns() };
}

/* A peer has said who it is, on a connection that it makes. One that this rank could not reach is heard, too:
 * it is to be told how that ended. */
static void meet(struct tcp_endpoint *e, int rank, int fd)
{
    struct tcp_peer *p = &e->peers[rank];
    int connection = atomic_load(&p->connection);
    bool dials = connection == TCP_DIALING || connection == TCP_GREETED, mine = dials && e->head.me < rank;
    bool unmet = connection == TCP_NOT_DIALED || (connection == TCP_CLOSED && !atomic_load(&p->met));
    if ((!unmet && !dials) || (mine && p->theirs_fd >= 0)) {
        tt_clofork_close(fd);
        return;
    }
    tt_tcp_meet(p);
    tt_tcp_know(e, rank);
    tt_net_heartbeat(fd, e->params.heartbeat_ms);
    if (mine) {
        p->theirs_fd = fd;
        return;
    }
    tt_tcp_hang_up(&p->fd);
    take_connection(e, rank, fd);
}

static void hear_stranger(struct tcp_endpoint *e, struct tcp_stranger *s)
{
    int number = hear(e, s->fd, &s->heard);
    if (number == EAGAIN && tt_now_ns() - s->since_ns < STRANGER_MS * INT64_C(1000000))
        return;
    if (number == 0)
        meet(e, s->heard.words.from, s->fd);
    else
        tt_clofork_close(s->fd);
    s->fd = -1;
}

/* --- The thread */

/* A caller that polls would take the lock again and again before this thread is run. */
static void take_turn(struct tcp_endpoint *e)
{
    atomic_store(&e->turns.stopped, true);
    pthread_mutex_lock(&e->driving);
    atomic_store(&e->turns.stopped, false);
}

static short events_of(const struct tcp_peer *p)
{
    int connection = atomic_load(&p->connection);
    if (connection == TCP_DIALING)
        return POLLOUT;
    return connection == TCP_OPEN && p->to.size > 0 ? POLLIN | POLLOUT : POLLIN;
}

/* Adds what is open to what is polled. Returns its entry; 0: there is none. */
static int watch(struct tcp_watch *w, int fd, short events)
{
    if (fd < 0)
        return 0;
    w->polled[w->count] = (struct pollfd){ .fd = fd, .events = events };
    return w->count++;
}

/* Lists what is to be polled, with `driving`. Returns for how long; *busy: a carrier has something now. */
static int list_polled(struct tcp_endpoint *e, bool *busy)
{
    struct tcp_watch *w = e->watch;
    int wait_ms = -1;
    w->polled[POLLED_WAKE] = (struct pollfd){ .fd = e->wake, .events = POLLIN };
    w->polled[POLLED_LISTENER] = (struct pollfd){ .fd = w->spare >= 0 ? e->listener : -1, .events = POLLIN };
    wait_ms = w->spare >= 0 ? wait_ms : TICK_MS;
    w->count = POLLED_REST;
    for (int i = 0; i < STRANGERS; i++)
        if (watch(w, w->strangers[i].fd, POLLIN) != 0)
            wait_ms = TICK_MS;
    for (int at = 0, r; (r = tt_tcp_next(e, false, &at)) != TT_NONE;) {
        const struct tcp_peer *p = &e->peers[r];
        w->entries[r] = watch(w, tt_tcp_is_leaving(p) ? -1 : p->fd, events_of(p));
        bool limited = p->since_ns != 0 || tt_tcp_is_leaving(p) || p->carried.refused_ns != 0;
        wait_ms = limited ? TICK_MS : wait_ms;
    }
    uint32_t turns = atomic_load(&e->turns.taken);
    if (e->carrier != NULL)
        watch(w, e->carries->sleep_on(e->carrier, turns != e->turns.watched, busy), POLLIN);
    e->turns.watched = turns;
    e->turns.accepts = w->spare >= 0;
    if (atomic_load(&e->closing) || atomic_load(&e->end.decided) != atomic_load(&e->end.ended))
        wait_ms = TICK_MS;
    e->turns.needed = wait_ms >= 0 || e->carrier != NULL;
    return wait_ms;
}

/* The system does not wait for this thread, which reads what it has now and then. No more comes: poll refuses
 * only who may open nothing more. */
static void look_at_all(struct tcp_endpoint *e, int number)
{
    struct tcp_watch *w = e->watch;
    if (!w->blind)
        tt_log(TT_LOG_WARN, "rank %d looks at its %d connections each %d ms, for poll() fails: %s",
            e->head.me, w->count, TICK_MS, strerror(number));
    w->blind = true;
    tt_sleep_ms(TICK_MS);
}

/* Waits until something has come, a socket can be written again, there is something new to say, or a time is
 * up; if the caller drives, only looks. */
static void wait_for_work(struct tcp_endpoint *e, bool driven)
{
    struct tcp_watch *w = e->watch;
    bool busy = false;
    take_turn(e);
    int wait_ms = list_polled(e, &busy);
    pthread_mutex_unlock(&e->driving);
    if (poll(w->polled, (nfds_t)w->count, busy || driven ? 0 : wait_ms) < 0 && errno != EINTR)
        look_at_all(e, errno);
    if (w->polled[POLLED_WAKE].revents != 0) {
        eventfd_t count;
        eventfd_read(e->wake, &count);
    }
    atomic_exchange(&e->woken, false);
}

/* True if the caller has driven since the thread last looked, or polls for itself in its sleep, and nothing
 * is to be done that only the thread does. */
static bool is_driven(struct tcp_endpoint *e)
{
    struct tt_doorbell *bell = e->head.doorbell;
    uint32_t turns = atomic_load(&e->turns.taken);
    bool polls = atomic_load(&bell->polled) != 0, sleeps = atomic_load(&bell->sleeping) != 0;
    if (atomic_load(&e->woken) || atomic_load(&e->closing) || (polls ? e->turns.needed : sleeps) ||
        (!polls && turns == e->turns.seen))
        return false;
    e->turns.seen = turns;
    return true;
}

/* Lets a caller that drives do so: it reads and writes by itself, and each packet that woke this thread would
 * cost it time, as each nap that ends does. It is over when the caller sleeps, has not driven for a nap, or
 * needs this thread. True: the caller goes on, but after some naps it is time for a look at what only this
 * thread does. */
static bool give_way(struct tcp_endpoint *e)
{
    struct tt_doorbell *bell = e->head.doorbell;
    int64_t shortest_ns = e->head.n < MOST_NAPS ? e->head.n * NAP_NS : MOST_NAPS * NAP_NS;
    for (int naps = 0; naps < NAPS; naps++) {
        tt_doorbell_begin_watch(bell);
        if (!is_driven(e)) {
            tt_doorbell_end_watch(bell);
            e->turns.nap_ns = 0;
            return false;
        }
        if (e->turns.nap_ns < shortest_ns)
            e->turns.nap_ns = shortest_ns;
        tt_doorbell_watch(bell, e->turns.nap_ns);
        int64_t longest_ns = atomic_load(&bell->polled) != 0 ? SLEPT_NAP_NS : LONGEST_NAP_NS;
        if (2 * e->turns.nap_ns <= longest_ns)
            e->turns.nap_ns *= 2;
    }
    return true;
}

static void serve_peer(struct tcp_endpoint *e, int rank)
{
    const struct tcp_peer *p = &e->peers[rank];
    const struct pollfd *polled = &e->watch->polled[e->watch->entries[rank]];
    if (atomic_load(&p->connection) == TCP_DIALING)
        greet(e, rank, polled->fd == p->fd ? polled->revents : 0);
    else if (atomic_load(&p->connection) == TCP_GREETED)
        hear_answer(e, rank);
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
        tt_tcp_has_news(e, rank) && tt_now_ns() - p->since_ns > TICK_MS * INT64_C(1000000))
        dial(e, rank);
    tt_tcp_write(e, rank);
    if (e->carrier != NULL)
        tt_tcp_carry(e, rank);
}

static bool is_over(struct tcp_endpoint *e)
{
    bool gone = true;
    for (int r = 0; r < e->head.n; r++)
        gone = gone && e->peers[r].fd < 0 &&
               (atomic_load(&e->peers[r].connection) != TCP_NOT_DIALED || !tt_tcp_has_news(e, r));
    return atomic_load(&e->closing) && (gone || tt_now_ns() > e->close_ns);
}

/* True if peers may be to hear of something that this rank has nothing with: how it ends, or why. */
static bool concerns_all(struct tcp_endpoint *e)
{
    return e->end.first_claimer != TT_NONE || atomic_load(&e->end.decided) != 0 || atomic_load(&e->closing) ||
           atomic_load(&e->head.gone);
}

static void *serve(void *endpoint)
{
    struct tcp_endpoint *e = endpoint;
    struct tcp_watch *w = e->watch;
    while (!is_over(e)) {
        bool driven = give_way(e);
        wait_for_work(e, driven);
        take_turn(e);
        if (w->polled[POLLED_LISTENER].revents != 0)
            accept_one(e);
        for (int i = 0; i < STRANGERS; i++)
            if (w->strangers[i].fd >= 0)
                hear_stranger(e, &w->strangers[i]);
        keep_spare(e);
        while (e->carrier != NULL && e->carries->progress(e->carrier))
            continue;
        for (int at = 0, r; (r = tt_tcp_next(e, false, &at)) != TT_NONE;)
            serve_peer(e, r);
        tt_tcp_decide(e);
        for (int at = 0, r; (r = tt_tcp_next(e, concerns_all(e), &at)) != TT_NONE;)
            speak(e, r);
        tt_tcp_end_when_told(e);
        pthread_mutex_unlock(&e->driving);
    }
    return NULL;
}

tutti_status tt_tcp_thread_start(struct tcp_endpoint *e)
{
    enum { NO_PEER = POLLED_REST + 1 + STRANGERS }; /* with a carrier */
    struct tcp_watch *w = e->watch = calloc(1, sizeof *w);
    if (w != NULL) {
        w->polled = calloc((size_t)(NO_PEER + e->head.n), sizeof *w->polled);
        w->entries = calloc((size_t)e->head.n, sizeof *w->entries);
    }
    for (int i = 0; w != NULL && i < STRANGERS; i++)
        w->strangers[i].fd = -1;
    if (w != NULL)
        w->spare = fcntl(e->wake, F_DUPFD_CLOEXEC, 0);
    if (w == NULL || w->polled == NULL || w->entries == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "tcp: no memory for an endpoint of %d ranks", e->head.n);
    if (w->spare < 0)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR,
            "rank %d has no file descriptor left for its connections with other hosts (ulimit -n)",
            e->head.me);
    return tt_thread_start("the connections of an endpoint", serve, e, &e->thread);
}

void tt_tcp_thread_stop(struct tcp_endpoint *e)
{
    atomic_store(&e->closing, true);
    tt_tcp_wake(e);
    pthread_join(e->thread, NULL);
}

void tt_tcp_thread_free(struct tcp_endpoint *e)
{
    struct tcp_watch *w = e->watch;
    if (w == NULL)
        return;
    for (int i = 0; i < STRANGERS; i++)
        tt_tcp_hang_up(&w->strangers[i].fd);
    if (w->spare >= 0)
        close(w->spare);
    free(w->polled);
    free(w->entries);
    free(w);
}

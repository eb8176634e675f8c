/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_connect.c: connections: who makes them, who takes them, and how both ends say who they are.
 *
 * A process may have no descriptor left for a connection. It can spare one, that of the thread's epoll set:
 * by it a stranger can be heard, who goes again, and a peer, by whom all others are told what is missing here
 * if none has come back after a second.
 *
 * A host that vanishes closes nothing. The system finds that by itself, since each connection has a
 * heartbeat: what is sent is to be acknowledged within the setting `heartbeat`, and a silent connection is
 * asked. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/clofork.h"
#include "base/schedule.h"
#include "transports/tcp_thread.h"

enum {
    STRANGER_MS = 5000, /* the time that one has to say who he is */
    DIAL_MS = 1000, /* a network that does not reach a peer may do so soon, or the peer dials meanwhile */
    CONTROL_TEXT = 16, /* TCP_CA_NAME_MAX */
};

/* --- Descriptors */

static int open_once(struct tcp_endpoint *e, const struct tt_net *net)
{
    tt_clofork_lock();
    int fd = net != NULL ? tt_net_dial(net) : accept4(e->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int number = errno;
    tt_clofork_add(fd);
    tt_clofork_unlock();
    errno = number;
    return fd;
}

/* Opens a connection to this address; NULL: accepts one. Where the process has no descriptor left, by the one
 * that it can spare. Returns -1, and errno. */
static int open_connection(struct tcp_endpoint *e, const struct tt_net *net)
{
    int fd = open_once(e, net), number = errno;
    if (fd < 0 && (number == EMFILE || number == ENFILE) && tt_tcp_set_lend(e, number))
        return open_once(e, net);
    errno = number;
    return fd;
}

/* Gets the spare descriptor back, if it can: once all is decided, from a peer that knows. If none comes, and
 * no stranger has it, this rank cannot go on. */
void tt_tcp_keep_spare(struct tcp_endpoint *e)
{
    struct tcp_watch *w = e->watch;
    bool decided = atomic_load(&e->end.decided) != 0, heard = true;
    if (tt_tcp_set_is_there(e))
        return;
    for (int i = 0; i < TCP_STRANGERS; i++)
        heard = heard && w->strangers[i].fd < 0;
    if (!heard)
        return;
    for (int r = 0; decided && r < e->head.n; r++)
        if (e->peers[r].fd >= 0 && e->peers[r].cause && e->peers[r].to.size == 0)
            tt_tcp_lose(e, r, TT_PEER_LEFT);
    int number = tt_tcp_lacks_long(e);
    if (!decided && number != 0)
        tt_tcp_claim_lack(e, number);
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
    tt_tcp_part(e, rank);
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

void tt_tcp_dial(struct tcp_endpoint *e, int rank)
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
void tt_tcp_greet(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    struct tcp_greeting words = greeting_of(e, rank);
    struct pollfd polled = { .fd = p->fd, .events = POLLOUT };
    int number = 0;
    socklen_t size = sizeof number;
    bool there = poll(&polled, 1, 0) > 0;
    bool late =
        e->params.heartbeat_ms > 0 && tt_now_ns() - p->since_ns > (int64_t)e->params.heartbeat_ms * 1000000;
    if (!there && !late)
        return;
    if (there)
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
void tt_tcp_hear_answer(struct tcp_endpoint *e, int rank)
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

void tt_tcp_accept(struct tcp_endpoint *e)
{
    struct tcp_stranger *strangers = e->watch->strangers;
    int oldest = 0, fd = open_connection(e, NULL);
    if (fd < 0)
        return;
    for (int i = 0; i < TCP_STRANGERS; i++) {
        if (strangers[i].fd < 0) {
            oldest = i;
            break;
        }
        if (strangers[i].since_ns < strangers[oldest].since_ns)
            oldest = i;
    }
    if (strangers[oldest].fd >= 0)
        tt_tcp_set_forget(e, strangers[oldest].fd);
    tt_tcp_hang_up(&strangers[oldest].fd); /* a rank that is turned away so comes again */
    strangers[oldest] = (struct tcp_stranger){ .fd = fd, .since_ns = tt_now_ns() };
    tt_tcp_set_watch(&e->watch->spots[e->head.me], fd, 0, EPOLLIN);
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
    tt_tcp_part(e, rank);
    take_connection(e, rank, fd);
}

static void hear_stranger(struct tcp_endpoint *e, struct tcp_stranger *s)
{
    int number = hear(e, s->fd, &s->heard);
    if (number == EAGAIN && tt_now_ns() - s->since_ns < STRANGER_MS * INT64_C(1000000))
        return;
    tt_tcp_set_forget(e, s->fd);
    if (number == 0)
        meet(e, s->heard.words.from, s->fd);
    else
        tt_clofork_close(s->fd);
    s->fd = -1;
}

void tt_tcp_hear_strangers(struct tcp_endpoint *e)
{
    for (int i = 0; i < TCP_STRANGERS; i++)
        if (e->watch->strangers[i].fd >= 0)
            hear_stranger(e, &e->watch->strangers[i]);
}

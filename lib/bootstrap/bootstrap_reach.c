/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_reach.c: the connection of a rank to the root: how it is made, what goes over it, and what is
 * said when it breaks. */
#include "bootstrap/bootstrap_reach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clofork.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/wait.h"
#include "bootstrap/init_progress.h"

enum {
    PAUSE_MS = 64, /* between two attempts to reach rank 0 that has not started */
    NET_MS = 2000, /* for one attempt by the network */
};

tutti_status tt_session_lost(const struct tt_session *s, const char *when)
{
    char who[64] = "";
    if (s->pid != 0 && s->maker >= 0)
        snprintf(who, sizeof who, " (rank %d, process %d)", s->maker, (int)s->pid);
    else if (s->pid != 0)
        snprintf(who, sizeof who, " (process %d)", (int)s->pid);
    return tt_fail(TUTTI_PEER_LOST,
        "the process that made the id%s closed the connection to rank %d, %s: it ended, or its job did", who,
        s->rank, when);
}

/* Fails with what errno says of the connection; 0: it was closed. If it was dropped before this rank was
 * let in, no error is set yet: the rank comes again. */
tutti_status tt_session_broken(struct tt_session *s, const char *when)
{
    switch (errno) {
    case ETIMEDOUT:
        if (tt_now_ns() < s->deadline_ns) /* the system says so, not the deadline */
            return tt_fail(TUTTI_PEER_LOST,
                "rank %d, %s: the host of the process that made the id " TT_SILENT_HOST, s->rank, when);
        return tt_fail(TUTTI_TIMEOUT,
            "rank %d had no answer from the process that made the id within %lld ms, %s", s->rank,
            (long long)s->timeout_ms, when);
    case 0:
    case EPIPE:
    case ECONNRESET:
        s->dropped = !s->heard && tt_now_ns() < s->deadline_ns;
        return s->dropped ? TUTTI_PEER_LOST : tt_session_lost(s, when);
    case EPROTO:
        return tt_fail(TUTTI_MISMATCH,
            "rank %d cannot make sense of what the process that made the id says, %s: use one version of "
            "Tutti "
            "on all ranks",
            s->rank, when);
    default:
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "rank %d, %s", s->rank, when);
    }
}

int tt_session_poll(const struct tt_session *s, struct pollfd *polls, int count, int64_t until_ns)
{
    for (;;) {
        int64_t look_ns = tt_init_progress_look();
        look_ns = look_ns < until_ns ? look_ns : until_ns;
        int ready =
            poll(polls, (nfds_t)count, tt_wire_poll_ms(look_ns < s->deadline_ns ? look_ns : s->deadline_ns));
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return ready;
        int64_t now_ns = tt_now_ns();
        if (now_ns >= s->deadline_ns) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (now_ns >= until_ns)
            return 0;
    }
}

bool tt_session_wait(const struct tt_session *s, short events)
{
    struct pollfd p = { s->socket, events, 0 };
    return tt_session_poll(s, &p, 1, INT64_MAX) > 0;
}

/* Sends all bytes; the descriptors go with the first one. */
bool tt_session_send(const struct tt_session *s, const void *bytes, size_t size, const int *fds, int nfds)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t sent = tt_wire_send(s->socket, at, size, fds, nfds);
        if (sent >= 0) {
            at += sent;
            size -= (size_t)sent;
            nfds = 0;
        } else if (errno == ETOOMANYREFS && tt_now_ns() < s->deadline_ns) {
            tt_sleep_ms(1); /* too many descriptors are under way, and nothing tells when they have arrived */
        } else if (errno != EAGAIN || !tt_session_wait(s, POLLOUT)) {
            return false;
        }
    }
    return true;
}

bool tt_session_receive(const struct tt_session *s, void *bytes, size_t size)
{
    uint8_t *at = bytes;
    while (size > 0) {
        ssize_t got = tt_wire_receive(s->socket, at, size, NULL, 0, NULL);
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        } else if (got == 0) {
            errno = 0;
            return false;
        } else if (errno != EAGAIN || !tt_session_wait(s, POLLIN)) {
            return false;
        }
    }
    return true;
}

static pid_t process_behind(int socket)
{
    struct ucred peer = { .pid = 0 };
    socklen_t bytes = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.pid : 0;
}

/* Connects to the local socket. *nobody is set if nobody listens there. */
static tutti_status reach_here(struct tt_session *s, const struct sockaddr_un *address, bool *nobody)
{
    *nobody = address->sun_path[0] == 0;
    s->remote = false;
    if (*nobody)
        return TUTTI_OK;
    tt_clofork_lock();
    s->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    tt_clofork_add(s->socket);
    tt_clofork_unlock();
    if (s->socket < 0)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "rank %d cannot make a socket", s->rank);
    while (connect(s->socket, (const struct sockaddr *)address, sizeof *address) != 0) {
        *nobody = errno == ENOENT || errno == ECONNREFUSED;
        if (*nobody) {
            tt_clofork_close(s->socket);
            s->socket = -1;
            return TUTTI_OK;
        }
        if (errno != EAGAIN && errno != EINTR)
            return tt_fail_errno(
                TUTTI_SYSTEM_ERROR, "rank %d cannot connect to %s", s->rank, address->sun_path);
        if (tt_now_ns() >= s->deadline_ns) {
            errno = ETIMEDOUT;
            return tt_session_broken(s, "whose backlog of connections is full");
        }
        tt_sleep_ms(1);
    }
    s->pid = process_behind(s->socket);
    return TUTTI_OK;
}

/* Connects by the network, if the local socket is still not there once the network answers. The root opens
 * the local one first. */
static tutti_status reach_by_network(
    struct tt_session *s, const struct tt_id *id, const struct sockaddr_un *address, bool *nobody)
{
    int found = -1;
    for (int i = 0; i < id->count && found < 0; i++)
        found = tt_net_connect(&id->nets[i], NET_MS);
    s->why = found < 0 ? errno : 0;
    if (found < 0)
        return TUTTI_OK;
    tutti_status status = reach_here(s, address, nobody);
    if (status == TUTTI_OK && *nobody) {
        s->socket = found;
        s->remote = true;
        tt_net_heartbeat(found, s->heartbeat_ms);
        tt_clofork_lock();
        tt_clofork_add(found);
        tt_clofork_unlock();
        *nobody = false;
    } else {
        close(found);
    }
    return status;
}

/* Says where rank 0 was looked for by the network, and what the system said; "" if it was not. */
static void describe_attempt(const struct tt_session *s, const struct tt_id *id, char *text, size_t bytes)
{
    char net[TT_NET_TEXT], why[64];
    text[0] = 0;
    if (id->count == 0)
        return;
    tt_net_print(&id->nets[id->count - 1], net);
    snprintf(text, bytes, " at %s (%s)", net, strerror_r(s->why, why, sizeof why));
}

static tutti_status nobody_answers(
    const struct tt_session *s, const struct tt_id *id, const struct sockaddr_un *address)
{
    char where[TT_NET_TEXT + 72];
    describe_attempt(s, id, where, sizeof where);
    if (id->count > 0)
        return tt_fail(TUTTI_PEER_LOST,
            "nobody answers rank %d at this id,%s: it has expired, or its job is complete or has failed, "
            "or a firewall or another network lies between (where the id is made, TUTTI_INTERFACE chooses "
            "the address)",
            s->rank, where);
    return tt_fail(TUTTI_PEER_LOST,
        "nobody answers at this id: it has expired, or its job is complete (with another process as "
        "rank %d) or has failed, or it was made on another machine, in another container or by "
        "another "
        "user (%s)",
        s->rank, address->sun_path);
}

/* Rank 0 may listen elsewhere than it seems. */
static tutti_status never_came(const struct tt_session *s, const struct tt_id *id)
{
    char where[TT_NET_TEXT + 72];
    describe_attempt(s, id, where, sizeof where);
    return tt_fail(TUTTI_TIMEOUT,
        "rank %d did not find rank 0%s within %lld ms: it did not start, or its job has failed, or it "
        "listens at "
        "another address, as one of loopback, or its secret, TUTTI_ROOT or number of communicators is "
        "another",
        s->rank, where, (long long)s->timeout_ms);
}

/* Connects to the root. At an id that all ranks agreed on, the root may come later than this rank. */
tutti_status tt_session_reach(struct tt_session *s, const struct tt_id *id, const struct sockaddr_un *address)
{
    bool nobody;
    for (int pause_ms = 1;; pause_ms = pause_ms < PAUSE_MS ? 2 * pause_ms : PAUSE_MS) {
        tutti_status status = reach_here(s, address, &nobody);
        if (status == TUTTI_OK && nobody && id->count > 0)
            status = reach_by_network(s, id, address, &nobody);
        if (status != TUTTI_OK || !nobody)
            return status;
        if (s->reached)
            return tt_session_lost(s, "before it was let in");
        tt_init_progress_wait("rank 0 has not come");
        tt_init_progress_look();
        if (!id->agreed)
            return nobody_answers(s, id, address);
        if (tt_now_ns() >= s->deadline_ns)
            return never_came(s, id);
        tt_sleep_ms(pause_ms);
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_sleep.c: how the caller sleeps where all its peers are on other hosts: in poll, for its own
 * connections, and for an eventfd that stands for its bell. What comes wakes it, and nobody in between. A
 * thread that read it and rang would be woken first, where the system handles packets, and would draw the
 * caller to that core. For what only the thread does, connections that begin, that one is woken. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/schedule.h"
#include "base/status.h"
#include "transports/tcp.h"

enum { POLLED_EVENT, POLLED_PEERS };

struct tcp_sleep {
    int event; /* an eventfd */
    struct pollfd *polled;
    int *ranks; /* of each entry that is a peer's */
};

/* Lists what wakes the caller. */
static nfds_t list(struct tcp_endpoint *e)
{
    struct tcp_sleep *s = e->turns.asleep;
    nfds_t count = POLLED_PEERS;
    s->polled[POLLED_EVENT] = (struct pollfd){ .fd = s->event, .events = POLLIN };
    pthread_mutex_lock(&e->driving);
    for (int at = 0, r; (r = tt_tcp_next(e, false, &at)) != TT_NONE;) {
        const struct tcp_peer *p = &e->peers[r];
        if (atomic_load(&p->connection) != TCP_OPEN || tt_tcp_is_leaving(p))
            continue;
        s->ranks[count] = r;
        s->polled[count++] =
            (struct pollfd){ .fd = p->fd, .events = p->to.size > 0 ? POLLIN | POLLOUT : POLLIN };
    }
    pthread_mutex_unlock(&e->driving);
    return count;
}

static void serve(struct tcp_endpoint *e, nfds_t count)
{
    const struct tcp_sleep *s = e->turns.asleep;
    eventfd_t rings;
    if (s->polled[POLLED_EVENT].revents != 0)
        eventfd_read(s->event, &rings);
    for (nfds_t i = POLLED_PEERS; i < count; i++)
        if (s->polled[i].revents != 0)
            tt_tcp_drive(e, s->ranks[i], false);
}

static void sleep_in_poll(void *endpoint, uint32_t ticket, int64_t ns)
{
    struct tcp_endpoint *e = endpoint;
    struct tt_doorbell *bell = e->head.doorbell;
    struct timespec timeout = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
    nfds_t count = list(e);
    int ready = 0;
    atomic_store(&bell->event, e->turns.asleep->event + 1);
    if (atomic_load(&bell->word) == ticket)
        ready = ppoll(e->turns.asleep->polled, count, &timeout, NULL);
    atomic_store(&bell->event, 0);
    if (ready > 0)
        serve(e, count);
    else if (ready < 0 && errno != EINTR)
        tt_word_await(&bell->word, ticket, ns); /* what the system does not poll, the thread looks at */
}

tutti_status tt_tcp_sleep_open(struct tcp_endpoint *e)
{
    size_t most = POLLED_PEERS + (size_t)e->head.n;
    if (e->carrier != NULL)
        return TUTTI_OK;
    struct tcp_sleep *s = e->turns.asleep = calloc(1, sizeof *s);
    if (s != NULL) {
        s->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        s->polled = calloc(most, sizeof *s->polled);
        s->ranks = calloc(most, sizeof *s->ranks);
    }
    if (s == NULL || s->polled == NULL || s->ranks == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "tcp: no memory for an endpoint of %d ranks", e->head.n);
    if (s->event >= 0) /* else it sleeps at the bell */
        e->head.park = sleep_in_poll;
    return TUTTI_OK;
}

void tt_tcp_sleep_close(struct tcp_endpoint *e)
{
    struct tcp_sleep *s = e->turns.asleep;
    if (s == NULL)
        return;
    if (s->event >= 0)
        close(s->event);
    free(s->polled);
    free(s->ranks);
    free(s);
}

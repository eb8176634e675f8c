/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_server.c: the thread of a process, and what it waits for.
 *
 * One thread serves all endpoints of a process: it begins with the first that is connected, and ends with the
 * last. It visits them by turns (tcp_thread.c), and waits for none of them: who has work for longer, or a
 * caller that is just driving, is visited again a moment later.
 *
 * It waits in an epoll set, so that no wait looks at all peers. What is in the set tells of itself once, and
 * is told anew when it has been looked at: so a connection that a caller reads by itself wakes nobody.
 * A connection leaves the set before it is closed, since a child that is about to run another program may
 * keep a copy of it for a moment, and with that its place in the set.
 *
 * The set is also the descriptor that this process has to spare. Where there is none left for a connection,
 * the set goes, and until it can be had again the thread looks at everything each TCP_TICK_MS. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/clofork.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/wait.h"
#include "transports/tcp_thread.h"

enum { LACK_MS = 1000 }; /* what this process lacks it may have soon */
enum { TICK_NS = TCP_TICK_MS * 1000000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tcp_server *current; /* behind the lock; NULL: no endpoint is open */

static void after_fork_in_child(void)
{
    current = NULL; /* the parent's; there is no thread here */
}

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_CONNECTIONS, &lock, after_fork_in_child);
}

/* --- The set */

static bool open_set(struct tcp_server *s)
{
    struct epoll_event event = { .events = EPOLLIN };
    tt_clofork_lock();
    int set = epoll_create1(EPOLL_CLOEXEC);
    tt_clofork_add(set);
    tt_clofork_unlock();
    if (set < 0)
        return false;
    if (epoll_ctl(set, EPOLL_CTL_ADD, s->wake, &event) != 0) {
        tt_clofork_close(set);
        return false;
    }
    s->sets++;
    atomic_store(&s->set, set);
    return true;
}

bool tt_tcp_set_lend(struct tcp_endpoint *e, int number)
{
    struct tcp_server *s = e->server;
    int set = atomic_load(&s->set);
    if (set < 0)
        return false;
    s->lack.whose = e;
    s->lack.number = number;
    s->lack.since_ns = tt_now_ns();
    atomic_store(&s->set, -1);
    tt_clofork_close(set);
    return true;
}

bool tt_tcp_set_is_there(struct tcp_endpoint *e)
{
    return atomic_load(&e->server->set) >= 0 || open_set(e->server);
}

int tt_tcp_lacks_long(const struct tcp_endpoint *e)
{
    const struct tcp_server *s = e->server;
    bool late = s->lack.whose == e && tt_now_ns() - s->lack.since_ns > LACK_MS * INT64_C(1000000);
    return late ? s->lack.number : 0;
}

/* What cannot be in the set is looked at all the same. */
static void go_blind(struct tcp_endpoint *e, int number)
{
    if (!e->watch->blind)
        tt_log(TT_LOG_WARN, "rank %d looks at its connections each %d ms, for epoll_ctl() fails: %s",
            e->head.me, TCP_TICK_MS, strerror(number));
    e->watch->blind = true;
}

uint32_t tt_tcp_set_watch(struct tcp_spot *spot, int fd, uint32_t before, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = spot };
    int set = atomic_load(&spot->endpoint->server->set);
    if (set < 0 || before == events)
        return set < 0 ? 0 : before;
    if (epoll_ctl(set, before == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) == 0)
        return events;
    go_blind(spot->endpoint, errno);
    return before;
}

void tt_tcp_set_forget(const struct tcp_endpoint *e, int fd)
{
    struct epoll_event none = { 0 };
    epoll_ctl(atomic_load(&e->server->set), EPOLL_CTL_DEL, fd, &none);
}

void tt_tcp_set_leave(struct tcp_spot *spot)
{
    if (spot->events != 0)
        tt_tcp_set_forget(spot->endpoint, spot->endpoint->peers[spot->rank].fd);
    spot->events = 0;
}

void tt_tcp_part(struct tcp_endpoint *e, int rank)
{
    if (e->watch != NULL)
        tt_tcp_set_leave(&e->watch->spots[rank]);
    tt_tcp_hang_up(&e->peers[rank].fd);
}

void tt_tcp_set_watch_carrier(struct tcp_endpoint *e, int fd)
{
    struct tcp_server *s = e->server;
    struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.ptr = &e->watch->spots[e->head.me] };
    int set = atomic_load(&s->set);
    if (fd < 0 || set < 0)
        return;
    s->carried = e;
    s->carrier = fd;
    if (epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) != 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0)
        go_blind(e, errno);
}

/* Notes what is to be looked at: NULL: who woke the thread has said so in its endpoint. */
static void note(const struct tcp_server *s, struct tcp_spot *spot)
{
    eventfd_t count;
    if (spot == NULL) {
        eventfd_read(s->wake, &count);
    } else if (spot->rank == spot->endpoint->head.me) {
        spot->endpoint->watch->knocked = true;
    } else {
        spot->fired = true;
        tt_tcp_note(spot);
    }
}

static void await_events(struct tcp_server *s, int64_t until_ns)
{
    enum { MOST = 64 };
    struct epoll_event events[MOST];
    int set = atomic_load(&s->set);
    int64_t ns = until_ns - tt_now_ns();
    struct timespec timeout = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
    struct pollfd polled = { .fd = set >= 0 ? set : s->wake, .events = POLLIN };
    if (ns > 0 && ppoll(&polled, 1, until_ns == INT64_MAX ? NULL : &timeout, NULL) < 0 && errno != EINTR)
        tt_nap_ns(ns < TICK_NS ? ns : TICK_NS); /* who may have no file open at all may poll none */
    int count = set >= 0 ? epoll_wait(set, events, MOST, 0) : 0;
    for (int i = 0; i < count; i++)
        note(s, events[i].data.ptr);
    if (set < 0)
        note(s, NULL);
}

/* --- The thread */

/* Takes in the endpoints that have come. */
static void take_in(struct tcp_server *s)
{
    if (atomic_load(&s->coming) == NULL)
        return;
    pthread_mutex_lock(&lock);
    for (struct tcp_endpoint *e; (e = atomic_load(&s->coming)) != NULL;) {
        atomic_store(&s->coming, e->watch->next);
        e->watch->next = s->first;
        s->first = e;
    }
    pthread_mutex_unlock(&lock);
}

/* This endpoint is over, and nothing tells of it any more: who closes it has it back. */
static void let_go(struct tcp_server *s, struct tcp_endpoint *e)
{
    if (s->lack.whose == e)
        s->lack.whose = NULL;
    if (s->carried == e) {
        tt_tcp_set_forget(e, s->carrier);
        s->carried = NULL;
    }
    pthread_mutex_lock(&lock);
    e->watch->over = true;
    pthread_cond_broadcast(&s->over);
    pthread_mutex_unlock(&lock);
}

static void *serve(void *server)
{
    struct tcp_server *s = server;
    while (!atomic_load(&s->ends)) {
        int64_t until_ns = INT64_MAX;
        take_in(s);
        for (struct tcp_endpoint **place = &s->first, *e; (e = *place) != NULL;) {
            int64_t due_ns = tt_tcp_visit(e);
            until_ns = due_ns < until_ns ? due_ns : until_ns;
            if (due_ns >= 0) {
                place = &e->watch->next;
                continue;
            }
            *place = e->watch->next;
            let_go(s, e);
        }
        await_events(s, until_ns);
    }
    return NULL;
}

/* --- Who is served */

static void free_server(struct tcp_server *s)
{
    if (s->wake >= 0)
        tt_clofork_close(s->wake);
    if (atomic_load(&s->set) >= 0)
        tt_clofork_close(atomic_load(&s->set));
    pthread_cond_destroy(&s->over);
    free(s);
}

static struct tcp_server *new_server(void)
{
    struct tcp_server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    pthread_cond_init(&s->over, NULL);
    atomic_store(&s->set, -1);
    tt_clofork_lock();
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    tt_clofork_add(s->wake);
    tt_clofork_unlock();
    if (s->wake >= 0 && open_set(s))
        return s;
    int number = errno;
    free_server(s);
    errno = number;
    return NULL;
}

tutti_status tt_tcp_server_join(struct tcp_endpoint *e)
{
    pthread_mutex_lock(&lock);
    if (current == NULL)
        current = new_server();
    e->server = current;
    if (current != NULL)
        current->users++;
    pthread_mutex_unlock(&lock);
    if (e->server != NULL)
        return TUTTI_OK;
    return tt_fail_errno(TUTTI_SYSTEM_ERROR,
        "rank %d has no file descriptor left for its connections with other hosts (ulimit -n)", e->head.me);
}

tutti_status tt_tcp_server_begin(struct tcp_endpoint *e)
{
    struct tcp_server *s = e->server;
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&lock);
    if (!s->runs)
        status = tt_thread_start("of the connections with other hosts", serve, s, &s->thread);
    if (status == TUTTI_OK) {
        s->runs = true;
        e->watch->next = atomic_load(&s->coming);
        atomic_store(&s->coming, e);
    }
    pthread_mutex_unlock(&lock);
    tt_tcp_wake(e);
    return status;
}

void tt_tcp_server_end(struct tcp_endpoint *e)
{
    atomic_store(&e->closing, true);
    tt_tcp_wake(e);
    pthread_mutex_lock(&lock);
    while (!e->watch->over)
        pthread_cond_wait(&e->server->over, &lock);
    pthread_mutex_unlock(&lock);
}

void tt_tcp_server_leave(struct tcp_endpoint *e)
{
    struct tcp_server *s = e->server;
    if (s == NULL)
        return;
    pthread_mutex_lock(&lock);
    bool last = --s->users == 0;
    if (last)
        current = NULL;
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    if (s->runs) {
        atomic_store(&s->ends, true);
        eventfd_write(s->wake, 1);
        pthread_join(s->thread, NULL);
    }
    free_server(s);
}

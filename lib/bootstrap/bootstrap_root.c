/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_root.c: one thread, one poll loop.
 *
 * Nobody is waited for: a connection that is silent, slow or hostile costs its own slot until its time is up,
 * and all others go on. With all slots for strangers taken, further connections stay in the socket's backlog,
 * where they cost nothing, and who has not said a word has less time. Out of descriptors, strangers go first:
 * those of the network at once, and even before the last descriptors are gone; those of this machine, which
 * may be ranks on a slow day, after a moment. A rank that went with them comes again. */
#include "bootstrap/bootstrap_root.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/bootstrap_clofork.h"
#include "bootstrap/bootstrap_job.h"

enum { LOCAL, NET, LISTENERS };
enum { PAUSE_MS = 20 }; /* before a connection that could not be accepted is tried again */

struct root {
    struct tt_job job;
    struct tt_listener listeners[LISTENERS];
    struct pollfd *polls; /* the listeners, then the visitors in their order */
    int room; /* for visitors */
    int strangers[LISTENERS]; /* each has its own slots: those of the network cannot take those of ranks */
    int64_t resume_ns[LISTENERS]; /* not before, anybody is let in */
    bool late; /* it stays, or did */
};

static _Atomic bool somebody_stays_late;

static void close_listeners(struct root *root)
{
    for (int i = 0; i < LISTENERS; i++)
        tt_listener_close(&root->listeners[i]);
}

static void root_free(struct root *root)
{
    struct tt_job *job = &root->job;
    close_listeners(root);
    for (int i = 0; i < job->count; i++) {
        if (job->visitors[i]->socket >= 0)
            tt_visitor_dismiss(job->visitors[i]);
        free(job->visitors[i]);
    }
    tt_job_close_fds(job);
    free(job->visitors);
    free(job->seats);
    free(job->fds);
    free(job->round.frame);
    free(job->result.frame);
    free(root->polls);
    explicit_bzero(root, sizeof *root); /* the secret */
    free(root);
}

/* Room for one more visitor. */
static bool grow(struct root *root)
{
    if (root->job.count < root->room)
        return true;
    int room = root->room > 0 ? 2 * root->room : 16;
    struct tt_visitor **visitors = realloc(root->job.visitors, (size_t)room * sizeof(struct tt_visitor *));
    if (!visitors)
        return false;
    root->job.visitors = visitors;
    struct pollfd *polls = realloc(root->polls, (size_t)(room + LISTENERS) * sizeof *polls);
    if (!polls)
        return false;
    root->polls = polls;
    root->room = room;
    return true;
}

static bool add_visitor(struct root *root, int listener, int socket)
{
    struct tt_visitor *v = grow(root) ? calloc(1, sizeof *v) : NULL;
    if (!v)
        return false;
    struct ucred peer = { .pid = 0 };
    socklen_t bytes = sizeof peer;
    getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
    v->socket = socket;
    v->ours = peer.pid == getpid();
    v->remote = listener == NET;
    v->since_ns = tt_now_ns();
    root->job.visitors[root->job.count++] = v;
    root->strangers[listener]++;
    return true;
}

/* When it must have said hello. */
static int64_t deadline_of(const struct root *root, const struct tt_visitor *v)
{
    int listener = v->remote ? NET : LOCAL;
    bool silent = v->stage == TT_STAGE_GREETING, full = root->strangers[listener] >= TT_JOB_STRANGERS;
    bool haste = (silent && full) || (v->stage < TT_STAGE_FRAME && root->resume_ns[listener] > 0);
    return v->since_ns + (haste ? TT_JOB_HASTE_MS : TT_JOB_STRANGER_MS) * INT64_C(1000000);
}

/* Nobody can be let in. If that concerns a rank, it is the job's end; and if not, a matter of waiting. */
static void close_for_now(struct root *root, int listener, int number)
{
    bool needed = root->job.phase == TT_JOB_GATHERING || root->job.phase == TT_JOB_LINGERING;
    root->resume_ns[listener] = tt_deadline_ns(PAUSE_MS);
    if (needed && listener == LOCAL && root->strangers[LOCAL] == 0)
        tt_job_fail(&root->job, "the process that made the id cannot take in more ranks", number);
}

/* Strangers of the network leave some descriptors to the program: one that got one of those has the place of
 * the oldest of them. */
static int keep_low(struct root *root, int socket)
{
    bool low = tt_wire_open_files() >= (unsigned)socket + 1 + TT_JOB_SPARE;
    if (low || !tt_job_drop_stranger(&root->job, true))
        return socket;
    tt_clofork_lock();
    int lower = fcntl(socket, F_DUPFD_CLOEXEC, 0);
    tt_clofork_add(lower);
    tt_clofork_unlock();
    if (lower < 0)
        return socket;
    tt_clofork_close(socket);
    return lower;
}

/* One at a time, and only when poll says that there is one: out of descriptors, accept fails even if nobody
 * waits, and a job whose ranks are all here would fail for nothing. If no stranger of the network makes way
 * then, to try again at once would be to spin: the connection stays where it is. */
static void accept_one(struct root *root, int listener)
{
    tt_clofork_lock();
    int socket = accept4(root->listeners[listener].socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int number = errno;
    tt_clofork_add(socket);
    tt_clofork_unlock();
    root->resume_ns[listener] = 0;
    if (socket >= 0 && listener == NET)
        socket = keep_low(root, socket);
    if (socket >= 0 && !add_visitor(root, listener, socket)) {
        tt_clofork_close(socket);
        close_for_now(root, listener, ENOMEM);
    }
    bool short_of_files = number == EMFILE || number == ENFILE;
    if (socket >= 0 || number == EAGAIN || number == EINTR || number == ECONNABORTED)
        return;
    if (!short_of_files || !tt_job_drop_stranger(&root->job, true))
        close_for_now(root, listener, number);
}

/* Drop the strangers that are gone or too slow, keep the order of the others. */
static void sweep(struct root *root)
{
    struct tt_job *job = &root->job;
    int64_t now_ns = tt_now_ns();
    int kept = 0;
    int strangers[LISTENERS] = { 0 };
    for (int i = 0; i < job->count; i++) {
        struct tt_visitor *v = job->visitors[i];
        bool stranger = v->stage < TT_STAGE_SEATED;
        if (stranger && v->socket >= 0 && now_ns >= deadline_of(root, v))
            tt_visitor_dismiss(v);
        if (stranger && v->socket < 0) {
            free(v);
            continue;
        }
        strangers[v->remote ? NET : LOCAL] += stranger;
        job->visitors[kept++] = v;
    }
    job->count = kept;
    memcpy(root->strangers, strangers, sizeof strangers);
}

/* While all are sent the descriptors of all, nobody else takes any. */
static bool is_open(const struct tt_job *job)
{
    return job->phase != TT_JOB_HANDING_OUT && job->phase != TT_JOB_OVER;
}

/* All ranks are here. Where others look for the next job, this one must not be found; at an id that was
 * handed out there is no next job, and who comes is to hear that there is one process too many. */
static void close_doors(struct root *root)
{
    tt_listener_close(&root->listeners[NET]);
    if (root->job.id.agreed || root->listeners[LOCAL].id_file[0] != 0 || root->job.n == 1)
        tt_listener_close(&root->listeners[LOCAL]);
}

/* All ranks have gone. One thread of a process waits a moment for a process that is one too many. */
static void stay_late(struct root *root)
{
    if (root->job.n == 0 || root->listeners[LOCAL].socket < 0 || atomic_exchange(&somebody_stays_late, true))
        return;
    root->late = true;
    root->job.phase = TT_JOB_LATE;
    root->job.deadline_ns = tt_deadline_ns(TT_JOB_LATE_MS);
}

/* Fill the poll set; returns how long it may wait. */
static int prepare(struct root *root)
{
    struct tt_job *job = &root->job;
    int64_t notice_ns = tt_job_notify(job), now_ns = tt_now_ns();
    int64_t wake_ns = notice_ns < job->deadline_ns ? notice_ns : job->deadline_ns;
    bool congested = false;
    for (int i = 0; i < LISTENERS; i++) {
        bool open = root->strangers[i] < TT_JOB_STRANGERS && root->resume_ns[i] <= now_ns;
        open = open && is_open(job);
        root->polls[i] = (struct pollfd){ open ? root->listeners[i].socket : -1, POLLIN, 0 };
        if (root->resume_ns[i] > now_ns && root->resume_ns[i] < wake_ns)
            wake_ns = root->resume_ns[i];
    }
    for (int i = 0; i < job->count; i++) {
        struct tt_visitor *v = job->visitors[i];
        short events = tt_job_may_send(job, v) ? POLLIN | POLLOUT : POLLIN;
        root->polls[LISTENERS + i] = (struct pollfd){ v->socket, events, 0 };
        congested = congested || v->congested;
        v->congested = false;
        if (v->socket >= 0 && v->stage < TT_STAGE_SEATED && deadline_of(root, v) < wake_ns)
            wake_ns = deadline_of(root, v);
    }
    /* Nothing tells when other sockets have been emptied. */
    return congested ? 1 : tt_wire_poll_ms(wake_ns);
}

static void take_turn(struct root *root)
{
    struct tt_job *job = &root->job;
    int wait_ms = prepare(root), count = job->count;
    if (poll(root->polls, (nfds_t)count + LISTENERS, wait_ms) < 0) {
        if (errno != EINTR)
            tt_job_fail(job, "the process that made the id cannot wait for ranks", errno);
        return;
    }
    for (int i = 0; i < count; i++) {
        struct tt_visitor *v = job->visitors[i];
        if (v->socket >= 0 && (root->polls[LISTENERS + i].revents & ~POLLOUT) != 0)
            tt_job_listen(job, v);
        if (tt_job_may_send(job, v))
            tt_job_send(job, v);
    }
    for (int i = 0; i < LISTENERS; i++) {
        if (root->polls[i].revents != 0 && is_open(job))
            accept_one(root, i);
    }
    sweep(root);
    if (job->phase == TT_JOB_HANDING_OUT)
        close_doors(root);
    tt_job_conclude(job);
    if (job->phase == TT_JOB_OVER)
        stay_late(root);
    if (job->phase != TT_JOB_OVER && tt_now_ns() >= job->deadline_ns)
        tt_job_expire(job);
}

static void *answer(void *argument)
{
    struct root *root = argument;
    while (root->job.phase != TT_JOB_OVER)
        take_turn(root);
    if (root->late)
        atomic_store(&somebody_stays_late, false);
    root_free(root);
    return NULL;
}

/* Detached, and deaf to signals: those of the program are for its own threads. */
static int start_thread(struct root *root)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int number = pthread_create(&thread, NULL, answer, root);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (number == 0)
        pthread_detach(thread);
    return number;
}

/* At the first of the id's addresses that is one of this machine. */
static tutti_status listen_to_network(struct root *root)
{
    const struct tt_id *id = &root->job.id;
    char text[TT_NET_TEXT];
    int s = -1;
    for (int i = 0; i < id->count && s < 0; i++) {
        s = tt_net_listen(&id->nets[i]);
        tt_net_print(&id->nets[i], text);
    }
    if (s >= 0)
        tt_listener_adopt(&root->listeners[NET], s);
    if (s >= 0 || id->count == 0)
        return TUTTI_OK;
    return tt_fail_errno(
        TUTTI_SYSTEM_ERROR, "rank 0 cannot listen at %s, where the others look for it", text);
}

/* The local socket first: who finds the one of the network open on this machine finds the other, too. */
static tutti_status open_listeners(struct root *root, const char *id_file)
{
    struct sockaddr_un address;
    tutti_status status = tt_directory_socket(root->job.id.directory, root->job.id.token, &address);
    if (status == TUTTI_OK)
        status = tt_listener_open(&root->listeners[LOCAL], &address, id_file);
    return status == TUTTI_OK ? listen_to_network(root) : status;
}

tutti_status tt_root_start(const struct tt_id *id, const char *id_file, int64_t timeout_ms)
{
    struct root *root = calloc(1, sizeof *root);
    if (!root)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to answer at an id");
    for (int i = 0; i < LISTENERS; i++)
        root->listeners[i].socket = -1;
    root->job.id = *id;
    root->job.maker = -1;
    root->job.timeout_ms = root->job.limit_ms = timeout_ms;
    root->job.deadline_ns = tt_deadline_ns(timeout_ms);
    tutti_status status = grow(root) ? open_listeners(root, id_file)
                                     : tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to answer at an id");
    if (status == TUTTI_OK) {
        int number = start_thread(root);
        if (number == 0)
            return TUTTI_OK;
        errno = number;
        status = tt_fail_errno(TUTTI_SYSTEM_ERROR, "cannot start the thread that answers at an id");
    }
    root_free(root);
    return status;
}

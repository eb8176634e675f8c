/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_root.c: one thread, one poll loop.
 *
 * Nobody is waited for: a connection that is silent, slow or hostile takes one slot for strangers until
 * its time is up, and all others go on. While all of these slots are taken, further connections stay in
 * the socket's backlog, where they cost nothing, and a connection that has not said a word has less time.
 * If descriptors run short, strangers go first: those of the network at once, even before the last
 * descriptor is taken; those of this machine, which may be ranks on a slow day, after a moment. A rank
 * that was dropped so connects again. */
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

#include "base/clofork.h"
#include "base/clock.h"
#include "bootstrap/bootstrap_session.h"

enum { LOCAL, NET, LISTENERS };
enum { PAUSE_MS = 20 }; /* before a connection that could not be accepted is tried again */

struct root {
    struct tt_root_session session;
    struct tt_listener listeners[LISTENERS];
    struct pollfd *polls; /* the listeners, then the connections in their order */
    int room; /* for connections */
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
    struct tt_root_session *session = &root->session;
    close_listeners(root);
    for (int i = 0; i < session->count; i++) {
        if (session->connections[i]->socket >= 0)
            tt_connection_dismiss(session->connections[i]);
        free(session->connections[i]);
    }
    tt_root_close_fds(session);
    free(session->connections);
    free(session->members);
    free(session->fds);
    free(session->exchange.frame);
    free(session->result.frame);
    free(root->polls);
    explicit_bzero(root, sizeof *root); /* the secret */
    free(root);
}

/* Makes room for one more connection; false: no memory. */
static bool grow(struct root *root)
{
    if (root->session.count < root->room)
        return true;
    int room = root->room > 0 ? 2 * root->room : 16;
    struct tt_connection **connections =
        realloc(root->session.connections, (size_t)room * sizeof(struct tt_connection *));
    if (!connections)
        return false;
    root->session.connections = connections;
    struct pollfd *polls = realloc(root->polls, (size_t)(room + LISTENERS) * sizeof *polls);
    if (!polls)
        return false;
    root->polls = polls;
    root->room = room;
    return true;
}

static bool add_connection(struct root *root, int listener, int socket)
{
    struct tt_connection *c = grow(root) ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return false;
    struct ucred peer = { .pid = 0 };
    socklen_t bytes = sizeof peer;
    getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
    c->socket = socket;
    c->ours = peer.pid == getpid();
    c->remote = listener == NET;
    c->since_ns = tt_now_ns();
    root->session.connections[root->session.count++] = c;
    root->strangers[listener]++;
    return true;
}

/* Returns the moment by which this connection must have said hello. */
static int64_t deadline_of(const struct root *root, const struct tt_connection *c)
{
    int listener = c->remote ? NET : LOCAL;
    bool silent = c->stage == TT_STAGE_GREETING, full = root->strangers[listener] >= TT_ROOT_STRANGERS;
    bool haste = (silent && full) || (c->stage < TT_STAGE_FRAME && root->resume_ns[listener] > 0);
    return c->since_ns + (haste ? TT_ROOT_HASTE_MS : TT_ROOT_STRANGER_MS) * INT64_C(1000000);
}

/* Accepts nothing for a moment, since `number` says that nothing can be accepted. If ranks are still to
 * come and no stranger of this machine is left to drop, the session fails. */
static void close_for_now(struct root *root, int listener, int number)
{
    bool needed = root->session.phase == TT_PHASE_GATHERING || root->session.phase == TT_PHASE_LINGERING;
    root->resume_ns[listener] = tt_deadline_ns(PAUSE_MS);
    if (needed && listener == LOCAL && root->strangers[LOCAL] == 0)
        tt_root_fail(&root->session, "the process that made the id cannot take in more ranks", number);
}

/* Leaves the last TT_ROOT_SPARE descriptors to the program: a connection of the network that got one of
 * them drops the oldest stranger of the network and takes its number. */
static int keep_low(struct root *root, int socket)
{
    bool low = tt_wire_open_files() >= (unsigned)socket + 1 + TT_ROOT_SPARE;
    if (low || !tt_root_drop_stranger(&root->session, true))
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

/* Accepts one connection, and only when poll says that there is one: without free descriptors accept fails
 * even if nobody waits, and a session whose ranks are all here would fail for nothing. If no stranger of
 * the network can be dropped then, to try again at once would be to spin: the connection stays in the
 * backlog. */
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
    if (socket >= 0 && !add_connection(root, listener, socket)) {
        tt_clofork_close(socket);
        close_for_now(root, listener, ENOMEM);
    }
    bool short_of_files = number == EMFILE || number == ENFILE;
    if (socket >= 0 || number == EAGAIN || number == EINTR || number == ECONNABORTED)
        return;
    if (!short_of_files || !tt_root_drop_stranger(&root->session, true))
        close_for_now(root, listener, number);
}

/* Drops the strangers that are gone or too slow, and keeps the order of the others. */
static void sweep(struct root *root)
{
    struct tt_root_session *session = &root->session;
    int64_t now_ns = tt_now_ns();
    int kept = 0;
    int strangers[LISTENERS] = { 0 };
    for (int i = 0; i < session->count; i++) {
        struct tt_connection *c = session->connections[i];
        bool stranger = c->stage < TT_STAGE_ADMITTED;
        if (stranger && c->socket >= 0 && now_ns >= deadline_of(root, c))
            tt_connection_dismiss(c);
        if (stranger && c->socket < 0) {
            free(c);
            continue;
        }
        strangers[c->remote ? NET : LOCAL] += stranger;
        session->connections[kept++] = c;
    }
    session->count = kept;
    memcpy(root->strangers, strangers, sizeof strangers);
}

/* True if connections are accepted now. While the descriptors of all are being sent to all, none is: it
 * would take some. */
static bool is_open(const struct tt_root_session *session)
{
    return session->phase != TT_PHASE_HANDING_OUT && session->phase != TT_PHASE_OVER;
}

/* Closes the listeners that the next session needs: all ranks are here, and an address or an id file that
 * others look at must not lead to this session. An id that was handed out has no next session: its socket
 * stays, and a process that comes is told that it is one too many. */
static void close_doors(struct root *root)
{
    tt_listener_close(&root->listeners[NET]);
    if (root->session.id.agreed || root->listeners[LOCAL].id_file[0] != 0 || root->session.n == 1)
        tt_listener_close(&root->listeners[LOCAL]);
}

/* Stays for a moment when all ranks have gone, for a process that is one too many. Only one thread of a
 * process does. */
static void stay_late(struct root *root)
{
    if (root->session.n == 0 || root->listeners[LOCAL].socket < 0 ||
        atomic_exchange(&somebody_stays_late, true))
        return;
    root->late = true;
    root->session.phase = TT_PHASE_LATE;
    root->session.deadline_ns = tt_deadline_ns(TT_ROOT_LATE_MS);
}

/* Fills the poll set; returns how many milliseconds poll may wait. */
static int prepare(struct root *root)
{
    struct tt_root_session *session = &root->session;
    int64_t notice_ns = tt_root_notify(session), now_ns = tt_now_ns();
    int64_t wake_ns = notice_ns < session->deadline_ns ? notice_ns : session->deadline_ns;
    if (session->spread.on && session->spread.look_ns < wake_ns)
        wake_ns = session->spread.look_ns;
    bool congested = false;
    for (int i = 0; i < LISTENERS; i++) {
        bool open = root->strangers[i] < TT_ROOT_STRANGERS && root->resume_ns[i] <= now_ns;
        open = open && is_open(session);
        root->polls[i] = (struct pollfd){ open ? root->listeners[i].socket : -1, POLLIN, 0 };
        if (root->resume_ns[i] > now_ns && root->resume_ns[i] < wake_ns)
            wake_ns = root->resume_ns[i];
    }
    for (int i = 0; i < session->count; i++) {
        struct tt_connection *c = session->connections[i];
        short events = tt_root_may_send(session, c) ? POLLIN | POLLOUT : POLLIN;
        root->polls[LISTENERS + i] = (struct pollfd){ c->socket, events, 0 };
        congested = congested || c->congested;
        c->congested = false;
        if (c->socket >= 0 && c->stage < TT_STAGE_ADMITTED && deadline_of(root, c) < wake_ns)
            wake_ns = deadline_of(root, c);
    }
    /* Nothing tells when other sockets have been emptied. */
    return congested ? 1 : tt_wire_poll_ms(wake_ns);
}

static void take_turn(struct root *root)
{
    struct tt_root_session *session = &root->session;
    int wait_ms = prepare(root), count = session->count;
    if (poll(root->polls, (nfds_t)count + LISTENERS, wait_ms) < 0) {
        if (errno != EINTR)
            tt_root_fail(session, "the process that made the id cannot wait for ranks", errno);
        return;
    }
    for (int i = 0; i < count; i++) {
        struct tt_connection *c = session->connections[i];
        if (c->socket >= 0 && (root->polls[LISTENERS + i].revents & ~POLLOUT) != 0)
            tt_root_listen(session, c);
        if (tt_root_may_send(session, c))
            tt_root_send(session, c);
    }
    for (int i = 0; i < LISTENERS; i++) {
        if (root->polls[i].revents != 0 && is_open(session))
            accept_one(root, i);
    }
    sweep(root);
    if (session->phase == TT_PHASE_HANDING_OUT)
        close_doors(root);
    tt_root_conclude(session);
    if (session->phase == TT_PHASE_OVER)
        stay_late(root);
    if (session->phase != TT_PHASE_OVER && tt_now_ns() >= session->deadline_ns)
        tt_root_expire(session);
}

static void *answer(void *argument)
{
    struct root *root = argument;
    while (root->session.phase != TT_PHASE_OVER)
        take_turn(root);
    if (root->late)
        atomic_store(&somebody_stays_late, false);
    root_free(root);
    return NULL;
}

/* Starts the helper thread: detached, with all signals blocked, since those of the program are for its own
 * threads. */
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

/* Listens at the first of the id's addresses that is one of this machine. In place of port 0 the system
 * chooses one. */
static tutti_status listen_to_network(struct root *root)
{
    struct tt_id *id = &root->session.id;
    char text[TT_NET_TEXT];
    int s = -1;
    bool loopback = false;
    for (int i = 0; i < id->count && s < 0; i++) {
        s = tt_net_listen(&id->nets[i]);
        tt_net_print(&id->nets[i], text);
        loopback = tt_net_is_loopback(&id->nets[i]);
    }
    if (s >= 0)
        tt_listener_adopt(&root->listeners[NET], s);
    if (s >= 0 && loopback)
        memcpy(root->session.loopback, text, sizeof text);
    if (s >= 0 || id->count == 0)
        return TUTTI_OK;
    return tt_fail_errno(
        TUTTI_SYSTEM_ERROR, "rank 0 cannot listen at %s, where the others look for it", text);
}

/* Opens the local socket first: a rank of this machine that finds the network's open finds the local one,
 * too. */
static tutti_status open_listeners(struct root *root, const char *id_file)
{
    struct sockaddr_un address;
    tutti_status status = tt_directory_socket(root->session.id.directory, root->session.id.token, &address);
    if (status == TUTTI_OK)
        status = tt_listener_open(&root->listeners[LOCAL], &address, id_file);
    return status == TUTTI_OK ? listen_to_network(root) : status;
}

tutti_status tt_root_start(struct tt_id *id, const char *id_file, int64_t timeout_ms)
{
    struct root *root = calloc(1, sizeof *root);
    if (!root)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to answer at an id");
    for (int i = 0; i < LISTENERS; i++)
        root->listeners[i].socket = -1;
    root->session.id = *id;
    root->session.door = &root->listeners[LOCAL];
    root->session.maker = -1;
    root->session.timeout_ms = root->session.limit_ms = timeout_ms;
    root->session.deadline_ns = tt_deadline_ns(timeout_ms);
    tutti_status status = grow(root) ? open_listeners(root, id_file)
                                     : tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to answer at an id");
    if (status == TUTTI_OK) {
        memcpy(id->nets, root->session.id.nets, sizeof id->nets);
        int number = start_thread(root);
        if (number == 0)
            return TUTTI_OK;
        errno = number;
        status = tt_fail_errno(TUTTI_SYSTEM_ERROR, "cannot start the thread that answers at an id");
    }
    root_free(root);
    return status;
}

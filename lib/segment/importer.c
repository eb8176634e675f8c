/* SPDX-License-Identifier: BSD-3-Clause */
/* importer.c: the importer's thread, its connections, and what is mapped.
 *
 * Memory is unmapped in two steps. First its key is taken away, so that no round finds it any more; then the
 * thread waits until the last round that had begun by then is over. Who begins a round writes that before he
 * looks for keys, and both are in one order for all, so one of the two sees the other. */
#include "segment/importer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/clofork.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/wait.h"
#include "bootstrap/bootstrap_wire.h"
#include "segment/segment_wire.h"

enum {
    STRANGERS = 8, /* connections that have not said the secret */
    STRANGER_MS = 5000, /* how long they may take for it */
    PAUSE_MS = 50, /* without accepting, where there is no descriptor for a connection */
    CLOSING_MS = 1, /* between two looks whether a round is over */
    EXIT_MS = 1000,
    NOBODY = -1
};

struct place { /* of a key */
    _Atomic uint32_t key; /* 0: nothing is mapped */
    uint32_t used; /* the last key that was here */
    struct tt_dev_segment segment; /* read by others while they may find the key */
    bool mapped;
    uint64_t until; /* that round is over, it may be unmapped */
    struct place *next; /* of those that are to be */
    int rank;
};

struct member {
    _Atomic(struct place *) places; /* NULL: the rank has not come */
    uint32_t used; /* places, from the first on */
};

struct connection {
    int socket;
    int rank; /* NOBODY: a stranger */
    int64_t until_ns; /* then a stranger is dropped */
    struct tt_segment_inbox inbox;
};

struct tt_importer {
    const struct tt_dev *dev;
    int device, n;
    pthread_t thread;
    int wake; /* readable: the thread is to look at `ends` */
    _Atomic bool ends, keeps;
    struct tt_listener listener;
    struct tt_segment_address address;
    int64_t accepts_ns; /* not before */
    struct connection *connections;
    struct pollfd *polls;
    int count;
    struct place *closing;
    _Atomic uint64_t begun, over; /* rounds */
    struct member members[];
};

/* The exit of the process takes it for good: no device is asked after that, for the runtime ends as well. */
static pthread_rwlock_t exit_is_near = PTHREAD_RWLOCK_INITIALIZER;

/* --- Memory */

static bool map(struct tt_importer *importer, const struct tt_dev_export *export,
    struct tt_dev_segment *segment, const char **why)
{
    *why = "the leader's process exits";
    if (pthread_rwlock_tryrdlock(&exit_is_near) != 0)
        return false;
    bool mapped = importer->dev->segment.import(export, segment) == TT_DEV_OK;
    if (!mapped)
        *why = importer->dev->why();
    pthread_rwlock_unlock(&exit_is_near);
    return mapped;
}

static void unmap(struct tt_importer *importer, struct place *place)
{
    if (pthread_rwlock_tryrdlock(&exit_is_near) != 0)
        return;
    unsigned long long bytes = (unsigned long long)place->segment.bytes;
    if (importer->dev->segment.free(&place->segment) != TT_DEV_OK)
        tt_log(TT_LOG_INFO, "device %d: %llu bytes of rank %d stay mapped: %s", importer->device, bytes,
            place->rank, importer->dev->why());
    place->mapped = false;
    pthread_rwlock_unlock(&exit_is_near);
}

static void send_to(struct tt_importer *importer, int rank, enum tt_segment_kind kind, uint32_t key)
{
    struct tt_segment_frame frame = { .key = key };
    for (int i = 0; i < importer->count; i++)
        if (importer->connections[i].rank == rank)
            tt_segment_send(importer->connections[i].socket, &frame, kind, -1);
}

/* From here on no round finds it. */
static void begin_closing(struct tt_importer *importer, struct place *place)
{
    atomic_store(&place->key, 0);
    place->until = atomic_load(&importer->begun);
    place->next = importer->closing;
    importer->closing = place;
}

static void close_what_is_over(struct tt_importer *importer)
{
    uint64_t over = atomic_load(&importer->over);
    struct place **at = &importer->closing;
    while (*at != NULL) {
        struct place *place = *at;
        if (over < place->until) {
            at = &place->next;
            continue;
        }
        *at = place->next;
        unmap(importer, place);
        send_to(importer, place->rank, TT_SEGMENT_CLOSED, place->used);
    }
}

static struct place *places_of(const struct tt_importer *importer, int rank)
{
    return atomic_load_explicit(&importer->members[rank].places, memory_order_acquire);
}

void tt_importer_begin(struct tt_importer *importer, uint64_t round)
{
    atomic_store(&importer->begun, round);
}

void tt_importer_keep(struct tt_importer *importer)
{
    atomic_store(&importer->keeps, true);
}

void tt_importer_over(struct tt_importer *importer, uint64_t round)
{
    atomic_store_explicit(&importer->over, round, memory_order_release);
}

void *tt_importer_find(struct tt_importer *importer, int rank, uint32_t key, uint64_t offset, uint64_t bytes)
{
    struct place *places = rank >= 0 && rank < importer->n ? places_of(importer, rank) : NULL;
    struct place *place = places != NULL ? &places[tt_segment_place(key)] : NULL;
    if (place == NULL || key == 0 || atomic_load(&place->key) != key)
        return NULL;
    uint64_t mapped = place->segment.bytes;
    return offset <= mapped && bytes <= mapped - offset ? (uint8_t *)place->segment.base + offset : NULL;
}

/* --- What members ask for */

static const char *import(struct tt_importer *importer, const struct connection *c, struct place *place)
{
    const struct tt_segment_frame *frame = &c->inbox.frame;
    struct tt_dev_export export = { .bytes = frame->bytes, .fd = c->inbox.fd };
    const char *why;
    memcpy(export.handle, frame->handle, sizeof export.handle);
    if (c->inbox.lost)
        return "the leader's process has no free descriptor (ulimit -n)";
    if (!map(importer, &export, &place->segment, &why))
        return why;
    place->mapped = true;
    atomic_store(&place->key, frame->key);
    return NULL;
}

/* False: it asks for what none of ours would. */
static bool serve_import(struct tt_importer *importer, const struct connection *c)
{
    const struct tt_segment_frame *frame = &c->inbox.frame;
    struct member *member = &importer->members[c->rank];
    uint32_t at = tt_segment_place(frame->key);
    struct place *place = &places_of(importer, c->rank)[at];
    bool by_descriptor = c->inbox.fd >= 0 || c->inbox.lost;
    if (frame->key <= place->used || tt_segment_use(frame->key) == 0 || place->mapped || frame->bytes == 0 ||
        by_descriptor != (frame->by_descriptor != 0))
        return false;
    place->used = frame->key;
    place->rank = c->rank;
    member->used = at >= member->used ? at + 1 : member->used;
    struct tt_segment_frame answer = { .key = frame->key };
    const char *why = import(importer, c, place);
    if (why != NULL)
        snprintf(answer.why, sizeof answer.why, "%s", why);
    else
        answer.address = (uintptr_t)place->segment.base;
    return tt_segment_send(c->socket, &answer, why == NULL ? TT_SEGMENT_MAPPED : TT_SEGMENT_REFUSED, -1);
}

static bool serve_close(struct tt_importer *importer, const struct connection *c)
{
    uint32_t key = c->inbox.frame.key;
    struct place *place = &places_of(importer, c->rank)[tt_segment_place(key)];
    if (key == 0 || atomic_load(&place->key) != key)
        return false;
    begin_closing(importer, place);
    return true;
}

static bool serve_hello(struct tt_importer *importer, struct connection *c)
{
    const struct tt_segment_frame *frame = &c->inbox.frame;
    struct tt_segment_frame answer = { .rank = frame->rank };
    if (frame->kind != TT_SEGMENT_HELLO || !tt_hmac_equal(frame->secret, importer->address.secret) ||
        frame->rank < 0 || frame->rank >= importer->n || places_of(importer, frame->rank) != NULL)
        return false;
    struct place *places = calloc(TT_SEGMENT_PLACES, sizeof *places);
    if (places == NULL)
        return false;
    c->rank = frame->rank;
    atomic_store_explicit(&importer->members[c->rank].places, places, memory_order_release);
    return tt_segment_send(c->socket, &answer, TT_SEGMENT_WELCOME, -1);
}

static bool serve(struct tt_importer *importer, struct connection *c)
{
    if (c->rank == NOBODY)
        return serve_hello(importer, c);
    if (c->inbox.frame.kind == TT_SEGMENT_IMPORT)
        return serve_import(importer, c);
    return c->inbox.frame.kind == TT_SEGMENT_CLOSE && serve_close(importer, c);
}

/* --- Connections */

static void close_fd_of(struct tt_segment_inbox *inbox)
{
    if (inbox->fd >= 0)
        tt_clofork_close(inbox->fd);
    inbox->fd = -1;
}

static void begin_closing_all(struct tt_importer *importer, int rank)
{
    const struct member *member = &importer->members[rank];
    struct place *places = places_of(importer, rank);
    for (uint32_t k = 0; k < member->used; k++)
        if (atomic_load(&places[k].key) != 0)
            begin_closing(importer, &places[k]);
}

/* A member takes with it what is mapped of it, unless that is kept; it does not come again. */
static void drop(struct tt_importer *importer, int i)
{
    struct connection c = importer->connections[i];
    close_fd_of(&c.inbox);
    tt_clofork_close(c.socket);
    importer->connections[i] = importer->connections[--importer->count];
    if (c.rank != NOBODY && !atomic_load(&importer->keeps))
        begin_closing_all(importer, c.rank);
}

/* False: the connection is to be dropped. */
static bool read_from(struct tt_importer *importer, struct connection *c)
{
    enum tt_segment_came came;
    bool right = true;
    while (
        right && (came = tt_segment_receive(c->socket, &c->inbox, c->rank != NOBODY)) == TT_SEGMENT_FRAME) {
        right = serve(importer, c);
        close_fd_of(&c->inbox);
    }
    return right && came == TT_SEGMENT_NOTHING;
}

/* The oldest stranger makes room for a new one, where there is none. */
static void make_room(struct tt_importer *importer)
{
    int oldest = NOBODY;
    for (int i = 0; i < importer->count; i++) {
        const struct connection *c = &importer->connections[i];
        if (c->rank == NOBODY && (oldest == NOBODY || c->until_ns < importer->connections[oldest].until_ns))
            oldest = i;
    }
    if (importer->count == importer->n + STRANGERS && oldest != NOBODY)
        drop(importer, oldest);
}

static void accept_one(struct tt_importer *importer)
{
    tt_clofork_lock();
    int socket = accept4(importer->listener.socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int number = errno;
    tt_clofork_add(socket);
    tt_clofork_unlock();
    if (socket < 0 && number != EAGAIN && number != EINTR && number != ECONNABORTED)
        importer->accepts_ns = tt_deadline_ns(PAUSE_MS);
    if (socket < 0)
        return;
    if (!tt_segment_is_ours(socket)) {
        tt_clofork_close(socket);
        return;
    }
    make_room(importer);
    importer->connections[importer->count++] = (struct connection){
        .socket = socket, .rank = NOBODY, .until_ns = tt_deadline_ns(STRANGER_MS), .inbox.fd = -1
    };
}

/* --- The thread */

enum { WAKE, LISTENER, FIXED };

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Fills what is polled; returns until when. */
static int64_t prepare(struct tt_importer *importer)
{
    int64_t now = tt_now_ns(), until = INT64_MAX;
    bool accepts = now >= importer->accepts_ns;
    importer->polls[WAKE] = (struct pollfd){ .fd = importer->wake, .events = POLLIN };
    importer->polls[LISTENER] =
        (struct pollfd){ .fd = accepts ? importer->listener.socket : -1, .events = POLLIN };
    if (!accepts)
        until = importer->accepts_ns;
    if (importer->closing != NULL)
        until = earlier(until, tt_deadline_ns(CLOSING_MS));
    for (int i = 0; i < importer->count; i++) {
        const struct connection *c = &importer->connections[i];
        importer->polls[FIXED + i] = (struct pollfd){ .fd = c->socket, .events = POLLIN };
        if (c->rank == NOBODY)
            until = earlier(until, c->until_ns);
    }
    return until;
}

/* From the last one on, since who is dropped gives its place to the last. */
static void look_at_connections(struct tt_importer *importer)
{
    for (int i = importer->count - 1; i >= 0; i--) {
        struct connection *c = &importer->connections[i];
        bool late = c->rank == NOBODY && tt_now_ns() >= c->until_ns;
        if (importer->polls[FIXED + i].revents != 0 ? !read_from(importer, c) : late)
            drop(importer, i);
    }
}

static void *run(void *argument)
{
    struct tt_importer *importer = argument;
    importer->dev->use(importer->device); /* what fails here is said by imports */
    while (!atomic_load(&importer->ends)) {
        int64_t until = prepare(importer);
        if (poll(importer->polls, (nfds_t)(FIXED + importer->count), tt_wire_poll_ms(until)) < 0) {
            tt_sleep_ms(PAUSE_MS); /* as where the limit of descriptors was lowered below these few */
            continue;
        }
        look_at_connections(importer);
        if (importer->polls[LISTENER].revents != 0)
            accept_one(importer);
        close_what_is_over(importer);
    }
    /* Whoever finds this end closed may free what was mapped. */
    for (int r = 0; r < importer->n; r++)
        begin_closing_all(importer, r);
    atomic_store(&importer->over, UINT64_MAX);
    close_what_is_over(importer);
    while (importer->count > 0)
        drop(importer, importer->count - 1);
    return NULL;
}

/* --- Life */

/* An import that is under way is waited for, but not for good, since a driver may have stopped to answer. */
static void keep_from_devices(void)
{
    for (int ms = 0; ms < EXIT_MS && pthread_rwlock_trywrlock(&exit_is_near) != 0; ms++)
        tt_sleep_ms(1);
}

static void await_exit(void)
{
    atexit(keep_from_devices);
}

static tutti_status make_address(struct tt_segment_address *address, struct sockaddr_un *name)
{
    address->there = 1;
    tutti_status status = tt_directory_make(TT_DIRECTORY_TMP);
    if (status == TUTTI_OK)
        status = tt_random_bytes(address->token, sizeof address->token);
    if (status == TUTTI_OK)
        status = tt_random_bytes(address->secret, sizeof address->secret);
    return status == TUTTI_OK ? tt_directory_socket(TT_DIRECTORY_TMP, address->token, name) : status;
}

static void give_back(struct tt_importer *importer)
{
    for (int r = 0; r < importer->n; r++)
        free(places_of(importer, r));
    if (importer->wake >= 0)
        tt_clofork_close(importer->wake);
    free(importer->connections);
    free(importer->polls);
    explicit_bzero(&importer->address, sizeof importer->address);
    free(importer);
}

static tutti_status make(struct tt_importer *importer)
{
    size_t room = (size_t)importer->n + STRANGERS;
    struct sockaddr_un name;
    importer->connections = calloc(room, sizeof *importer->connections);
    importer->polls = calloc(FIXED + room, sizeof *importer->polls);
    if (importer->connections == NULL || importer->polls == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the ranks whose memory is mapped");
    tt_clofork_lock();
    importer->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    tt_clofork_add(importer->wake);
    tt_clofork_unlock();
    if (importer->wake < 0)
        return tt_fail_errno(
            TUTTI_SYSTEM_ERROR, "no descriptor for the thread that maps other ranks' memory");
    tutti_status status = make_address(&importer->address, &name);
    if (status != TUTTI_OK)
        return status;
    status = tt_listener_open(&importer->listener, &name, NULL);
    if (status != TUTTI_OK)
        return status;
    status = tt_thread_start("that maps memory of other ranks", run, importer, &importer->thread);
    if (status != TUTTI_OK)
        tt_listener_close(&importer->listener);
    return status;
}

tutti_status tt_importer_open(const struct tt_dev *dev, int device, int n, struct tt_importer **importer,
    struct tt_import_address *address)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct tt_importer *made = calloc(1, sizeof *made + (size_t)n * sizeof made->members[0]);
    if (made == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for what is mapped of other ranks");
    made->dev = dev;
    made->device = device;
    made->n = n;
    made->wake = -1;
    pthread_once(&once, await_exit);
    tutti_status status = make(made);
    if (status != TUTTI_OK) {
        give_back(made);
        return status;
    }
    memset(address, 0, sizeof *address);
    memcpy(address, &made->address, sizeof made->address);
    *importer = made;
    return TUTTI_OK;
}

void tt_importer_close(struct tt_importer *importer)
{
    atomic_store(&importer->ends, true);
    eventfd_write(importer->wake, 1);
    pthread_join(importer->thread, NULL);
    tt_listener_close(&importer->listener);
    give_back(importer);
}

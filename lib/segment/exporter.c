/* SPDX-License-Identifier: BSD-3-Clause */
/* exporter.c: the exporter's table, and its conversation with the importer.
 *
 * The table has a place for each key that may be in use, and a list of those that may be found, by address.
 * What is handed over may be freed at any moment by who owns it, who tells nobody; it is found out by its
 * number (tt_dev_pointer.id), when a call comes to that address again, and bit by bit: some are looked at
 * when something is handed over, and one in some calls. */
#include "segment/exporter.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/clofork.h"
#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "bootstrap/bootstrap_wire.h"
#include "segment/segment_wire.h"

enum {
    OUTSTANDING = 64, /* answers at a time: the importer waits for nobody who does not read them */
    SWEPT = 8, /* looked at when something is handed over; */
    SWEEP_CALLS = 16, /* and one of them in so many calls */
    LOOK_MS = 2, /* between two looks whether a call is over */
    DIAL_MS = 2,
    CLOSE_MS = 5000
};

enum state { FREE, ASKED, MAPPED, REFUSED, TOLD /* the importer was, to unmap it */ };

struct place {
    enum state state;
    bool by_descriptor;
    bool used; /* asked for by USED */
    uint32_t looked; /* which of `finds` came here last */
    uint32_t key; /* the last one here; its use counts up */
    uint32_t adds;
    uint32_t next; /* of those that leave */
    uintptr_t base;
    uint64_t bytes, id;
    uint64_t there; /* address, of the importer's device */
    uint64_t call; /* the last that uses it */
    _Atomic uint32_t held;
};

enum { NO_PLACE = TT_SEGMENT_PLACES };

struct tt_exporter {
    const struct tt_dev *dev;
    int device, rank;
    int socket; /* -1: the importer is gone */
    const _Atomic uint64_t *over; /* calls */
    int outstanding;
    struct tt_segment_inbox inbox;
    uint32_t awaited; /* the key of which `why` is wanted */
    char why[TT_EXPORT_WHY];
    uint32_t leaving; /* the first of those that leave; NO_PLACE: none */
    uint32_t count, swept; /* places that may be found; the next of them to be looked at */
    uint32_t finds;
    uint32_t used; /* of what may be found: so much by USED */
    bool full; /* there was no place for something, and none became free since */
    uint16_t found[TT_SEGMENT_PLACES]; /* by address */
    struct place places[TT_SEGMENT_PLACES];
};

/* --- The table */

/* How many of the places that may be found begin at this address, or below. */
static uint32_t rank_of(const struct tt_exporter *e, uintptr_t at)
{
    uint32_t low = 0, high = e->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (e->places[e->found[middle]].base <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct place *place_at(struct tt_exporter *e, uintptr_t at)
{
    uint32_t k = rank_of(e, at);
    struct place *p = k > 0 ? &e->places[e->found[k - 1]] : NULL;
    return p != NULL && at - p->base < p->bytes ? p : NULL;
}

static bool is_of(const struct place *p, const struct tt_dev_pointer *what)
{
    return p->base == what->base && p->bytes == what->bytes && p->id == what->id;
}

static void set_free(struct tt_exporter *e, struct place *p)
{
    p->state = FREE;
    e->full = false;
}

/* It is found no more. What the importer knows of it goes when it can, see `tend`. */
static void forget(struct tt_exporter *e, struct place *p)
{
    uint32_t k = rank_of(e, p->base) - 1;
    memmove(&e->found[k], &e->found[k + 1], (e->count - k - 1) * sizeof e->found[0]);
    e->count--;
    e->used -= p->used;
    if (p->state == REFUSED) {
        set_free(e, p);
        return;
    }
    p->next = e->leaving;
    e->leaving = (uint32_t)(p - e->places);
}

/* What lies where this is to lie was freed. */
static void make_room(struct tt_exporter *e, const struct tt_dev_pointer *what)
{
    for (;;) {
        uint32_t k = rank_of(e, what->base + what->bytes - 1);
        struct place *last = k > 0 ? &e->places[e->found[k - 1]] : NULL;
        if (last == NULL || last->base + last->bytes <= what->base)
            return;
        forget(e, last);
    }
}

/* NULL: there is no place, or there are no more keys for one. */
static struct place *take(struct tt_exporter *e, const struct tt_dev_pointer *what)
{
    make_room(e, what);
    uint32_t free = 0;
    while (free < TT_SEGMENT_PLACES &&
           (e->places[free].state != FREE || tt_segment_use(e->places[free].key) == TT_SEGMENT_USES))
        free++;
    e->full = free == TT_SEGMENT_PLACES;
    if (e->full)
        return NULL;
    struct place *p = &e->places[free];
    uint32_t k = rank_of(e, what->base), key = tt_segment_key(free, tt_segment_use(p->key) + 1);
    memmove(&e->found[k + 1], &e->found[k], (e->count - k) * sizeof e->found[0]);
    e->found[k] = (uint16_t)free;
    e->count++;
    *p = (struct place){
        .state = REFUSED, .key = key, .base = what->base, .bytes = what->bytes, .id = what->id
    };
    return p;
}

/* So many of those that were handed over are looked at: they may have been freed since. */
static void sweep(struct tt_exporter *e, int n)
{
    for (int k = 0; k < n && e->count > 0; k++) {
        struct tt_dev_pointer what;
        e->swept = e->swept < e->count ? e->swept : 0;
        struct place *p = &e->places[e->found[e->swept]];
        enum tt_dev_error error = e->dev->memory.classify((const void *)p->base, &what);
        if (error == TT_DEV_INVALID || (error == TT_DEV_OK && !is_of(p, &what)))
            forget(e, p);
        else
            e->swept++;
    }
}

/* --- The importer's answers */

/* Nothing is found from now on. */
static void lose(struct tt_exporter *e)
{
    if (e->socket >= 0)
        tt_clofork_close(e->socket);
    e->socket = -1;
    e->outstanding = 0;
    e->count = 0;
    e->leaving = NO_PLACE;
    e->used = 0;
    for (int i = 0; i < TT_SEGMENT_PLACES && e->places[i].key != 0; i++)
        e->places[i].state = FREE;
}

static void take_answer(struct tt_exporter *e)
{
    struct tt_segment_frame *frame = &e->inbox.frame;
    struct place *p = &e->places[tt_segment_place(frame->key)];
    e->outstanding--;
    if (frame->kind == TT_SEGMENT_MAPPED && p->state == ASKED && p->key == frame->key) {
        p->state = MAPPED;
        p->there = frame->address;
    } else if (frame->kind == TT_SEGMENT_REFUSED && p->state == ASKED && p->key == frame->key) {
        frame->why[TT_EXPORT_WHY - 1] = '\0';
        if (e->awaited == frame->key)
            memcpy(e->why, frame->why, sizeof e->why);
        else
            tt_log(TT_LOG_INFO, "rank %d: the leader does not map %llu bytes at %p of device %d: %s", e->rank,
                (unsigned long long)p->bytes, (void *)p->base, e->device, frame->why);
        p->state = REFUSED;
    } else if (frame->kind == TT_SEGMENT_CLOSED && p->state == TOLD && p->key == frame->key) {
        set_free(e, p);
    } else {
        lose(e);
    }
}

static void take_answers(struct tt_exporter *e)
{
    enum tt_segment_came came = TT_SEGMENT_FRAME;
    while (e->socket >= 0 && e->outstanding > 0 && came == TT_SEGMENT_FRAME) {
        came = tt_segment_receive(e->socket, &e->inbox, false);
        if (came == TT_SEGMENT_FRAME)
            take_answer(e);
        else if (came == TT_SEGMENT_END)
            lose(e);
    }
}

static bool say(struct tt_exporter *e, struct tt_segment_frame *frame, enum tt_segment_kind kind, int fd)
{
    if (e->socket < 0 || !tt_segment_send(e->socket, frame, kind, fd)) {
        lose(e);
        return false;
    }
    e->outstanding++;
    return true;
}

static bool is_used(const struct tt_exporter *e, struct place *p)
{
    return atomic_load_explicit(e->over, memory_order_acquire) < p->call || atomic_load(&p->held) > 0;
}

/* Tells the importer of what it may unmap, and takes out of the list what has left. */
static void see_off(struct tt_exporter *e)
{
    uint32_t *at = &e->leaving;
    while (*at != NO_PLACE) {
        struct place *p = &e->places[*at];
        struct tt_segment_frame frame = { .key = p->key };
        if (p->state == MAPPED && e->outstanding < OUTSTANDING && !is_used(e, p)) {
            if (!say(e, &frame, TT_SEGMENT_CLOSE, -1))
                return;
            p->state = TOLD;
        }
        if (p->state == REFUSED)
            set_free(e, p);
        if (p->state == FREE)
            *at = p->next;
        else
            at = &p->next;
    }
}

static void tend(struct tt_exporter *e)
{
    if (e->outstanding > 0)
        take_answers(e);
    if (e->leaving != NO_PLACE)
        see_off(e);
}

/* Waits until the place is in none of the states that this is true of, or the importer is gone. */
static void await(
    struct tt_exporter *e, const struct place *p, bool (*is_under_way)(enum state state), int64_t timeout_ms)
{
    int64_t until = tt_deadline_ns(timeout_ms);
    uint32_t key = p->key;
    for (tend(e); e->socket >= 0 && p->key == key && is_under_way(p->state) && tt_now_ns() < until; tend(e)) {
        struct pollfd answer = { .fd = e->socket, .events = POLLIN };
        int64_t look = p->state == MAPPED ? tt_deadline_ns(LOOK_MS) : until;
        poll(&answer, 1, tt_wire_poll_ms(look < until ? look : until));
    }
}

static bool is_asked(enum state state)
{
    return state == ASKED;
}

static bool is_there(enum state state)
{
    return state != FREE;
}

/* --- What is handed over */

static bool is_of_device(const struct tt_exporter *e, const struct tt_dev_pointer *what)
{
    return what->kind == TT_DEV_DEVICE && what->device == e->device;
}

/* Exports it; else returns what is in the way. */
static const char *export(
    const struct tt_exporter *e, const struct tt_dev_pointer *what, bool handles, struct tt_dev_export *out)
{
    uintptr_t base;
    if (e->dev->segment.export_of((const void *)what->base, out, &base) != TT_DEV_OK)
        return e->dev->why();
    bool same = base == what->base && out->bytes == what->bytes;
    if (same && (out->fd >= 0 || handles))
        return NULL;
    if (out->fd >= 0)
        close(out->fd);
    return same ? "it travels by a handle, so it must be registered" : "it was freed meanwhile";
}

static void ask_importer(struct tt_exporter *e, struct place *p, const struct tt_dev_export *export)
{
    struct tt_segment_frame frame = { .key = p->key, .bytes = p->bytes, .by_descriptor = export->fd >= 0 };
    memcpy(frame.handle, export->handle, sizeof frame.handle);
    p->by_descriptor = export->fd >= 0;
    p->state = ASKED;
    say(e, &frame, TT_SEGMENT_IMPORT, export->fd);
    if (export->fd >= 0)
        close(export->fd);
}

/* Returns its place, asked for or refused; NULL: it has none. *why says what is in the way; NULL: nothing. */
static struct place *hand_over(
    struct tt_exporter *e, const struct tt_dev_pointer *what, bool handles, const char **why)
{
    struct tt_dev_export exported;
    struct place *p = NULL;
    *why = "it is no memory of the communicator's device alone";
    if (is_of_device(e, what)) {
        sweep(e, SWEPT);
        *why = export(e, what, handles, &exported);
        p = take(e, what);
    }
    if (p != NULL && *why == NULL) {
        ask_importer(e, p, &exported);
        return p;
    }
    if (*why == NULL) {
        if (exported.fd >= 0)
            close(exported.fd);
        *why = "more was handed over than there are keys for";
    }
    if (!handles)
        tt_log(TT_LOG_INFO, "rank %d: %llu bytes at %p of device %d are not handed to the leader: %s",
            e->rank, (unsigned long long)what->bytes, (void *)what->base, e->device, *why);
    return p;
}

bool tt_exporter_find(struct tt_exporter *e, const void *ptr, uint64_t bytes,
    const struct tt_dev_pointer *what, uint64_t call, uint32_t *key, uint64_t *offset)
{
    tend(e);
    if (++e->finds % SWEEP_CALLS == 0)
        sweep(e, 1);
    struct place *p = place_at(e, (uintptr_t)ptr);
    if (p != NULL && !is_of(p, what)) {
        forget(e, p);
        p = NULL;
    }
    if (p != NULL)
        p->looked = e->finds;
    if (p == NULL || p->state != MAPPED || bytes > p->base + p->bytes - (uintptr_t)ptr)
        return false;
    p->call = call > p->call ? call : p->call;
    *key = p->key;
    *offset = (uintptr_t)ptr - p->base;
    return true;
}

uint64_t tt_exporter_address(const struct tt_exporter *e, uint32_t key)
{
    return e->places[tt_segment_place(key)].there;
}

void tt_exporter_hold(struct tt_exporter *e, uint32_t key)
{
    atomic_fetch_add(&e->places[tt_segment_place(key)].held, 1);
}

void tt_exporter_release(struct tt_exporter *e, uint32_t key)
{
    atomic_fetch_sub(&e->places[tt_segment_place(key)].held, 1);
}

/* One more may be asked for by USED. Where a program goes through more than are kept, some of them stay: else
 * each would go before it comes again. */
static bool has_room_for_used(struct tt_exporter *e)
{
    struct place *oldest = NULL;
    if (e->used < TT_EXPORT_USED_MOST)
        return true;
    for (uint32_t k = 0; k < e->count; k++) {
        struct place *p = &e->places[e->found[k]];
        if (p->used && p->adds == 0 && (oldest == NULL || e->finds - p->looked > e->finds - oldest->looked))
            oldest = p;
    }
    if (oldest == NULL || e->finds - oldest->looked < 2 * TT_EXPORT_USED_MOST)
        return false;
    forget(e, oldest);
    return true;
}

void tt_exporter_ask(struct tt_exporter *e, const struct tt_dev_pointer *what, enum tt_export_reason reason)
{
    const char *why;
    struct place *p = place_at(e, what->base);
    if (e->full) {
        sweep(e, SWEPT);
        return;
    }
    if (e->socket < 0 || e->outstanding >= OUTSTANDING || !is_of_device(e, what) ||
        (p != NULL && is_of(p, what)) || (reason == TT_EXPORT_USED && !has_room_for_used(e)))
        return;
    p = hand_over(e, what, reason != TT_EXPORT_GIVEN, &why);
    if (p != NULL && reason == TT_EXPORT_USED) {
        p->used = true;
        p->looked = e->finds;
        e->used++;
    }
}

static void explain(char out[TT_EXPORT_WHY], const char *why)
{
    snprintf(out, TT_EXPORT_WHY, "%s", why);
}

bool tt_exporter_add(
    struct tt_exporter *e, const struct tt_dev_pointer *what, int64_t timeout_ms, char why[TT_EXPORT_WHY])
{
    const char *wrong = "the leader's process is gone";
    tend(e);
    struct place *p = place_at(e, what->base);
    if (p != NULL && (p->state == REFUSED || !is_of(p, what))) { /* what was in the way may be so no more */
        forget(e, p);
        p = NULL;
    }
    if (p == NULL && e->socket >= 0)
        p = hand_over(e, what, true, &wrong);
    explain(why, wrong != NULL ? wrong : "");
    if (p == NULL || p->state == REFUSED)
        return false;
    e->awaited = p->key;
    explain(e->why, "the leader's process is gone");
    await(e, p, is_asked, timeout_ms);
    e->awaited = 0;
    explain(why, p->state == ASKED ? "the leader has not answered yet" : p->state == MAPPED ? "" : e->why);
    p->adds += p->state == ASKED || p->state == MAPPED;
    return p->state == ASKED || p->state == MAPPED;
}

bool tt_exporter_remove(struct tt_exporter *e, uintptr_t base, uint64_t id, int64_t timeout_ms)
{
    tend(e);
    struct place *p = place_at(e, base);
    if (p == NULL || p->base != base || p->id != id || p->adds == 0 || --p->adds > 0)
        return true;
    forget(e, p);
    await(e, p, is_there, timeout_ms);
    return p->state == FREE || p->by_descriptor;
}

/* --- Life */

static tutti_status dial(struct tt_exporter *e, const struct tt_segment_address *address, int64_t until_ns)
{
    struct sockaddr_un name;
    int connected = -1;
    tutti_status status = tt_directory_socket(TT_DIRECTORY_TMP, address->token, &name);
    if (status != TUTTI_OK)
        return status;
    tt_clofork_lock();
    e->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    tt_clofork_add(e->socket);
    tt_clofork_unlock();
    if (e->socket < 0)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "no socket for a rank's leader");
    while ((connected = connect(e->socket, (const struct sockaddr *)&name, sizeof name)) != 0 &&
           (errno == EAGAIN || errno == EINTR) && tt_now_ns() < until_ns)
        tt_sleep_ms(DIAL_MS);
    if (connected == 0 && tt_segment_is_ours(e->socket))
        return TUTTI_OK;
    return tt_fail(TUTTI_PEER_LOST, "rank %d: the leader of device %d is not there", e->rank, e->device);
}

static tutti_status greet(struct tt_exporter *e, const struct tt_segment_address *address, int64_t until_ns)
{
    struct tt_segment_frame hello = { .rank = e->rank };
    enum tt_segment_came came = TT_SEGMENT_NOTHING;
    memcpy(hello.secret, address->secret, sizeof hello.secret);
    bool said = tt_segment_send(e->socket, &hello, TT_SEGMENT_HELLO, -1);
    explicit_bzero(&hello, sizeof hello);
    while (said && came == TT_SEGMENT_NOTHING && tt_now_ns() < until_ns) {
        struct pollfd answer = { .fd = e->socket, .events = POLLIN };
        poll(&answer, 1, tt_wire_poll_ms(until_ns));
        came = tt_segment_receive(e->socket, &e->inbox, false);
    }
    if (came == TT_SEGMENT_FRAME && e->inbox.frame.kind == TT_SEGMENT_WELCOME)
        return TUTTI_OK;
    if (said && came == TT_SEGMENT_NOTHING)
        return tt_fail(TUTTI_TIMEOUT, "rank %d: the leader of device %d does not answer", e->rank, e->device);
    return tt_fail(
        TUTTI_PEER_LOST, "rank %d: the leader of device %d does not let it in", e->rank, e->device);
}

tutti_status tt_exporter_open(const struct tt_dev *dev, int device, const struct tt_import_address *address,
    int rank, const _Atomic uint64_t *over, int64_t timeout_ms, struct tt_exporter **exporter)
{
    struct tt_segment_address to;
    int64_t until = tt_deadline_ns(timeout_ms);
    memcpy(&to, address, sizeof to);
    struct tt_exporter *e = calloc(1, sizeof *e);
    if (e == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for what a rank hands to its leader");
    e->dev = dev;
    e->device = device;
    e->rank = rank;
    e->over = over;
    e->leaving = NO_PLACE;
    e->inbox.fd = -1;
    e->socket = -1;
    tutti_status status = to.there == 1
                              ? dial(e, &to, until)
                              : tt_fail(TUTTI_PEER_LOST, "rank %d: device %d has no leader", rank, device);
    if (status == TUTTI_OK)
        status = greet(e, &to, until);
    explicit_bzero(&to, sizeof to);
    if (status == TUTTI_OK)
        *exporter = e;
    else
        tt_exporter_close(e);
    return status;
}

/* What travels by a handle may be freed as soon as this rank has taken it back. */
static void take_back_handles(struct tt_exporter *e)
{
    int64_t until = tt_deadline_ns(CLOSE_MS);
    for (uint32_t k = e->count; k > 0; k--)
        if (!e->places[e->found[k - 1]].by_descriptor)
            forget(e, &e->places[e->found[k - 1]]);
    for (int i = 0; i < TT_SEGMENT_PLACES && e->places[i].key != 0; i++)
        if (!e->places[i].by_descriptor)
            await(e, &e->places[i], is_there, (until - tt_now_ns()) / 1000000);
}

void tt_exporter_close(struct tt_exporter *e)
{
    take_back_handles(e);
    lose(e);
    free(e);
}

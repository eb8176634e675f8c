/* SPDX-License-Identifier: BSD-3-Clause */
/* sockets_wire.c: the thread of an endpoint of the sockets transport. It polls the sockets of all peers and
 * an eventfd; it reads what has come into the slots and the control state of peers, and writes what they
 * have not been told yet.
 *
 * There is no queue: what is to be told is what a peer's marks (struct peer) show to be missing. The order
 * on a connection is that of memory, where it matters: a call is told before the messages that were sent
 * after it, and a completion, a wait and the goodbye after the messages that were sent before. A peer that
 * sees one of those has therefore got the messages.
 *
 * Which cause ends a communicator is decided by one rank: the lowest that lives. All others send their
 * causes there as claims; the first that comes is the cause, and all are told. If that rank dies, the next
 * lowest decides, and gets the claims again. Were it killed after it had told some, but not all, ranks could
 * end up with different causes: that is not prevented here. */
#include "sockets_wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/schedule.h"
#include "base/status.h"
#include "base/thread.h"

void cell_write(cell_word *cell, const void *bytes, size_t words)
{
    uint64_t version = atomic_load_explicit(&cell[0], memory_order_relaxed), word;
    atomic_store_explicit(&cell[0], version + 1, memory_order_relaxed);
    for (size_t i = 0; i < words; i++) {
        memcpy(&word, (const uint8_t *)bytes + i * sizeof word, sizeof word);
        atomic_store_explicit(&cell[1 + i], word, memory_order_release);
    }
    atomic_store_explicit(&cell[0], version + 2, memory_order_release);
}

uint64_t cell_read(const cell_word *cell, void *bytes, size_t words)
{
    uint64_t version = atomic_load_explicit(&cell[0], memory_order_acquire);
    if (version % 2 != 0)
        return 0;
    for (size_t i = 0; i < words; i++) {
        uint64_t word = atomic_load_explicit(&cell[1 + i], memory_order_acquire);
        memcpy((uint8_t *)bytes + i * sizeof word, &word, sizeof word);
    }
    return atomic_load_explicit(&cell[0], memory_order_relaxed) == version ? version : 0;
}

void wire_wake(struct sockets_endpoint *e)
{
    if (!atomic_exchange(&e->woken, true))
        eventfd_write(e->wake, 1);
}

static struct sockets_link *link_of(struct sockets_endpoint *e, unsigned class, int rank)
{
    return &e->ends[class * (unsigned)e->head.n + (unsigned)rank];
}

/* --- The end of a communicator */

static int lowest_living(const struct sockets_endpoint *e)
{
    int rank = 0;
    while (rank != e->head.me && atomic_load(&e->peers[rank].state) != TT_PEER_ALIVE)
        rank++;
    return rank;
}

static void end(struct sockets_endpoint *e, const struct tt_cause *cause, int finder)
{
    if (atomic_load(&e->ended) != 0)
        return;
    e->cause = *cause;
    atomic_store(&e->ended, (uint32_t)finder + 1);
    tt_doorbell_ring_always(e->head.doorbell);
}

static void claim(struct sockets_endpoint *e, const struct tt_cause *cause, int finder)
{
    if (e->first_claimer != TT_NONE)
        return;
    e->first_claim = *cause;
    e->first_claimer = finder;
}

static void decide(struct sockets_endpoint *e)
{
    if (atomic_load(&e->ended) != 0)
        return;
    if (atomic_load(&e->claimed))
        claim(e, &e->claim, e->head.me);
    if (atomic_load(&e->impatient))
        end(e, &e->claim, e->head.me);
    else if (e->first_claimer != TT_NONE && lowest_living(e) == e->head.me && !atomic_load(&e->closing))
        end(e, &e->first_claim, e->first_claimer);
}

/* --- Reading */

/* Closes the connection to a peer, which is in this state from now on. */
static void disconnect(struct sockets_endpoint *e, struct peer *p, enum tt_peer_state state)
{
    close(p->fd);
    p->fd = -1;
    atomic_store(&p->state, state);
    tt_doorbell_ring(e->head.doorbell);
}

/* Finds where the payload goes of a frame whose head has come. False if no rank sends such a frame. */
static bool receive_into(struct sockets_endpoint *e, int rank, struct transfer *t)
{
    const struct frame *f = &t->frame;
    const uint64_t bytes[] = { [FRAME_CALL] = sizeof(struct tt_call_record),
        [FRAME_WAIT] = sizeof(struct tt_call_record),
        [FRAME_REFUSALS] = 8 * e->refusal_words,
        [FRAME_CLAIM] = sizeof(struct tt_cause),
        [FRAME_CAUSE] = sizeof(struct tt_cause),
        [FRAME_GOODBYE] = 0 };
    t->payload = t->staging;
    t->size = sizeof *f + f->bytes;
    if (f->kind != FRAME_MESSAGE)
        return f->kind <= FRAME_GOODBYE && f->class < TT_CLASSES && f->bytes == bytes[f->kind];
    if (f->class >= TT_CLASSES || f->bytes == 0 || f->bytes > e->head.slot_bytes)
        return false;
    struct slot *slot = &link_of(e, f->class, rank)->in[f->number % TT_SLOTS];
    t->payload = slot->payload;
    return atomic_load(&slot->state) == SLOT_FREE;
}

static bool take_message(struct sockets_endpoint *e, int rank, const struct frame *f)
{
    struct slot *slot = &link_of(e, f->class, rank)->in[f->number % TT_SLOTS];
    slot->number = f->number;
    slot->signature = f->signature;
    slot->bytes = f->bytes;
    atomic_store_explicit(&slot->state, SLOT_FULL, memory_order_release);
    return true;
}

static bool take_release(struct sockets_endpoint *e, int rank, const struct frame *f)
{
    struct slot *slot = &link_of(e, f->class, rank)->out[f->number % TT_SLOTS];
    if (atomic_load(&slot->state) != SLOT_DONE || slot->number != f->number)
        return false;
    atomic_store_explicit(&slot->state, SLOT_FREE, memory_order_release);
    return true;
}

/* Takes a whole frame that has come. False if no rank sends such a frame now. */
static bool take(struct sockets_endpoint *e, int rank, const struct transfer *t)
{
    const struct frame *f = &t->frame;
    struct control *theirs = &e->peers[rank].control;
    struct tt_cause cause;
    switch ((enum frame_kind)f->kind) {
    case FRAME_MESSAGE:
        return take_message(e, rank, f);
    case FRAME_RELEASE:
        return take_release(e, rank, f);
    case FRAME_CALL:
        cell_write(theirs->calls[f->number % TT_CALLS_KEPT], t->payload, RECORD_WORDS);
        break;
    case FRAME_COMPLETED:
        atomic_store_explicit(&theirs->completed, f->number, memory_order_release);
        break;
    case FRAME_WAIT:
        cell_write(theirs->wait, t->payload, RECORD_WORDS);
        break;
    case FRAME_REFUSALS:
        cell_write(theirs->refusals, t->payload, e->refusal_words);
        break;
    case FRAME_CLAIM:
    case FRAME_CAUSE:
        memcpy(&cause, t->payload, sizeof cause);
        if (f->kind == FRAME_CLAIM)
            claim(e, &cause, rank);
        else if (f->number < (uint64_t)e->head.n)
            end(e, &cause, (int)f->number);
        break;
    case FRAME_GOODBYE:
        break;
    }
    return true;
}

/* Reads a part of the frame that is under way. 1: some of it came; 0: nothing is there; -1: the connection
 * has ended, or is of no use. */
static int read_some(const struct peer *p, struct transfer *t)
{
    uint64_t head = sizeof t->frame;
    bool in_head = t->at < head;
    uint8_t *to = in_head ? (uint8_t *)&t->frame + t->at : t->payload + (t->at - head);
    ssize_t got = recv(p->fd, to, in_head ? head - t->at : t->size - t->at, MSG_DONTWAIT);
    if (got > 0)
        t->at += (uint64_t)got;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return got > 0 ? 1 : -1;
}

static void read_all(struct sockets_endpoint *e, int rank)
{
    struct peer *p = &e->peers[rank];
    struct transfer *t = &p->in;
    while (p->fd >= 0) {
        int some = read_some(p, t);
        if (some == 0)
            return;
        bool right = some > 0;
        if (right && t->at == sizeof t->frame)
            right = receive_into(e, rank, t);
        bool whole = right && t->at >= sizeof t->frame && t->at == t->size;
        if (!right || (whole && !take(e, rank, t)))
            disconnect(e, p, TT_PEER_DEAD);
        else if (whole && t->frame.kind == FRAME_GOODBYE)
            disconnect(e, p, TT_PEER_LEFT);
        else if (whole)
            tt_doorbell_ring(e->head.doorbell);
        if (whole)
            t->at = 0;
    }
}

/* --- Writing */

static struct slot *find_slot(
    struct sockets_endpoint *e, int rank, bool sends, unsigned state, uint8_t *class)
{
    for (uint8_t c = 0; c < TT_CLASSES; c++) {
        struct sockets_link *link = link_of(e, c, rank);
        for (int i = 0; i < TT_SLOTS; i++) {
            struct slot *slot = sends ? &link->out[i] : &link->in[i];
            *class = c;
            if (atomic_load_explicit(&slot->state, memory_order_acquire) == state)
                return slot;
        }
    }
    return NULL;
}

static void begin(struct transfer *t, struct frame frame, uint8_t *payload)
{
    t->frame = frame;
    t->payload = payload;
    t->at = 0;
    t->size = sizeof frame + frame.bytes;
}

static bool tell_cause(struct transfer *t, enum frame_kind kind, const struct tt_cause *cause, int finder)
{
    memcpy(t->staging, cause, sizeof *cause);
    begin(t, (struct frame){ .kind = (uint8_t)kind, .number = (uint64_t)finder, .bytes = sizeof *cause },
        t->staging);
    return true;
}

/* What ends a communicator goes before all else. */
static bool tell_end(struct sockets_endpoint *e, int rank)
{
    struct peer *p = &e->peers[rank];
    uint32_t ended = atomic_load(&e->ended);
    if (ended != 0 && !p->cause) {
        p->cause = true;
        return tell_cause(&p->out, FRAME_CAUSE, &e->cause, (int)ended - 1);
    }
    if (ended != 0 || p->claim || !atomic_load(&e->claimed) || lowest_living(e) != rank)
        return false;
    p->claim = true;
    return tell_cause(&p->out, FRAME_CLAIM, &e->claim, e->head.me);
}

/* Begins the frame of the next call that the peer has not been told, and that is kept. */
static bool tell_call(struct sockets_endpoint *e, struct peer *p)
{
    const struct control *mine = &e->peers[e->head.me].control;
    uint64_t begun = atomic_load_explicit(&mine->begun, memory_order_acquire);
    if (p->call + TT_CALLS_KEPT < begun)
        p->call = begun - TT_CALLS_KEPT;
    for (; p->call < begun; p->call++) {
        struct tt_call_record record;
        if (cell_read(mine->calls[p->call % TT_CALLS_KEPT], &record, RECORD_WORDS) == 0 ||
            atomic_load(&record.sequence) != p->call + 1)
            continue; /* a later one has its place */
        memcpy(p->out.staging, &record, sizeof record);
        begin(&p->out, (struct frame){ .kind = FRAME_CALL, .number = p->call++, .bytes = sizeof record },
            p->out.staging);
        return true;
    }
    return false;
}

static bool tell_message(struct transfer *t, const struct slot *slot, uint8_t class)
{
    begin(t,
        (struct frame){ .kind = FRAME_MESSAGE,
            .class = class,
            .signature = slot->signature,
            .number = slot->number,
            .bytes = slot->bytes },
        slot->payload);
    return true;
}

static bool tell_release(struct sockets_endpoint *e, int rank)
{
    uint8_t class;
    struct slot *slot = find_slot(e, rank, false, SLOT_DONE, &class);
    if (slot == NULL)
        return false;
    begin(&e->peers[rank].out,
        (struct frame){ .kind = FRAME_RELEASE, .class = class, .number = slot->number }, NULL);
    atomic_store(&slot->state, SLOT_FREE);
    return true;
}

/* Version 0 is being written: the thread will be woken when that is done. */
static bool tell_wait(struct peer *p, uint64_t version, const struct tt_call_record *wait)
{
    if (version == 0 || version == p->wait)
        return false;
    p->wait = version;
    memcpy(p->out.staging, wait, sizeof *wait);
    begin(&p->out, (struct frame){ .kind = FRAME_WAIT, .bytes = sizeof *wait }, p->out.staging);
    return true;
}

static bool tell_refusals(const struct sockets_endpoint *e, struct peer *p)
{
    const cell_word *cell = e->peers[e->head.me].control.refusals;
    uint64_t version = cell_read(cell, p->out.staging, e->refusal_words);
    if (version == 0 || version == p->refusals)
        return false;
    p->refusals = version;
    begin(&p->out, (struct frame){ .kind = FRAME_REFUSALS, .bytes = 8 * e->refusal_words }, p->out.staging);
    return true;
}

static bool tell_completed(struct peer *p, uint64_t completed)
{
    if (completed == p->completed)
        return false;
    p->completed = completed;
    begin(&p->out, (struct frame){ .kind = FRAME_COMPLETED, .number = completed }, NULL);
    return true;
}

static bool tell_goodbye(struct peer *p)
{
    if (p->goodbye)
        return false;
    p->goodbye = true;
    begin(&p->out, (struct frame){ .kind = FRAME_GOODBYE }, NULL);
    return true;
}

/* Begins the next frame to a peer; false if it has been told everything. What is told after the messages is
 * read before they are looked for, and what is told before them is read when one was found. */
static bool next_frame(struct sockets_endpoint *e, int rank)
{
    struct peer *p = &e->peers[rank];
    const struct control *mine = &e->peers[e->head.me].control;
    bool closing = atomic_load(&e->closing);
    uint64_t completed = atomic_load_explicit(&mine->completed, memory_order_acquire);
    struct tt_call_record wait;
    uint64_t version = cell_read(mine->wait, &wait, RECORD_WORDS);
    uint8_t class;
    const struct slot *full = find_slot(e, rank, true, SLOT_FULL, &class);
    return tell_end(e, rank) || tell_call(e, p) || (full != NULL && tell_message(&p->out, full, class)) ||
           tell_release(e, rank) || tell_completed(p, completed) || tell_wait(p, version, &wait) ||
           tell_refusals(e, p) || (closing && tell_goodbye(p));
}

/* Writes as much as the socket takes; false if that is nothing. That a peer is gone is found by reading. */
static bool write_some(const struct peer *p, struct transfer *t)
{
    uint64_t head = t->at < sizeof t->frame ? sizeof t->frame - t->at : 0;
    uint64_t done = t->at > sizeof t->frame ? t->at - sizeof t->frame : 0;
    struct iovec parts[] = { { (uint8_t *)&t->frame + (sizeof t->frame - head), head },
        { t->payload + done, t->frame.bytes - done } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    ssize_t put = sendmsg(p->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put > 0)
        t->at += (uint64_t)put;
    return put > 0;
}

static void write_all(struct sockets_endpoint *e, int rank)
{
    struct peer *p = &e->peers[rank];
    struct transfer *t = &p->out;
    while (t->size > 0 || next_frame(e, rank)) {
        if (!write_some(p, t))
            return;
        if (t->at < t->size)
            continue;
        struct slot *out = link_of(e, t->frame.class, rank)->out;
        if (t->frame.kind == FRAME_MESSAGE)
            atomic_store(&out[t->frame.number % TT_SLOTS].state, SLOT_DONE);
        if (t->frame.kind == FRAME_GOODBYE)
            shutdown(p->fd, SHUT_WR);
        t->size = 0;
    }
}

/* --- The thread */

/* Waits until something has come, a socket can be written again, or there is something new to say. */
static void wait_for_work(struct sockets_endpoint *e, struct pollfd *polled)
{
    int n = e->head.n, left_ms = -1;
    for (int r = 0; r < n; r++) {
        bool unsaid = e->peers[r].out.size > 0;
        polled[r] = (struct pollfd){ .fd = e->peers[r].fd, .events = unsaid ? POLLIN | POLLOUT : POLLIN };
    }
    polled[n] = (struct pollfd){ .fd = e->wake, .events = POLLIN };
    if (atomic_load(&e->closing))
        left_ms = tt_now_ns() < e->close_ns ? 1 + (int)((e->close_ns - tt_now_ns()) / 1000000) : 0;
    poll(polled, (nfds_t)n + 1, left_ms);
    if (polled[n].revents != 0) {
        eventfd_t count;
        eventfd_read(e->wake, &count);
    }
    atomic_exchange(&e->woken, false);
}

static bool is_over(const struct sockets_endpoint *e)
{
    bool gone = true;
    for (int r = 0; r < e->head.n; r++)
        gone = gone && e->peers[r].fd < 0;
    return atomic_load(&e->closing) && (gone || tt_now_ns() > e->close_ns);
}

static void *serve(void *endpoint)
{
    struct sockets_endpoint *e = endpoint;
    struct pollfd *polled = malloc(((size_t)e->head.n + 1) * sizeof *polled);
    if (polled == NULL)
        abort();
    while (!is_over(e)) {
        wait_for_work(e, polled);
        for (int r = 0; r < e->head.n; r++)
            read_all(e, r);
        decide(e);
        for (int r = 0; r < e->head.n; r++)
            if (e->peers[r].fd >= 0)
                write_all(e, r);
    }
    free(polled);
    return NULL;
}

tutti_status wire_start(struct sockets_endpoint *e)
{
    return tt_thread_start("the sockets of an endpoint", serve, e, &e->thread);
}

void wire_stop(struct sockets_endpoint *e)
{
    atomic_store(&e->closing, true);
    wire_wake(e);
    pthread_join(e->thread, NULL);
}

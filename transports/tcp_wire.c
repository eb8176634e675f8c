/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_wire.c: what goes over a connection, both ways.
 *
 * There is no queue: what is to be told is what a peer's marks (struct tcp_peer) show to be missing. The
 * order on a connection is that of memory, where it matters: an answer is told after the messages that were
 * sent before it. A peer that sees that this rank has completed an operation has therefore got its messages.
 *
 * A release is told with whatever frame goes that way next. By itself it is told when half of the slots are
 * released, or when the peer wants a slot.
 *
 * Which cause ends a communicator is decided by one rank: the lowest that lives. All others send their
 * causes there as claims; the first that comes is the cause, and all are told. If that rank dies, the next
 * lowest decides, and gets the claims again. It may not know of that death, for it need not have had a
 * connection with the lower rank: so a rank that gets a claim which a lower one is to decide passes it on to
 * that one, by a connection that it makes, and thus finds out whether that lives. Were the rank that decides
 * killed after it had told some, but not all, ranks could end up with different causes: that is not prevented
 * here. But its caller, who may exit when it knows, is the last to know. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/schedule.h"
#include "transports/tcp.h"

enum { TURN_BYTES = 4 << 20 }; /* read or written of one peer before the next has its turn */
/* At most so much is written at once where the system paces. What is longer waits there for a timer of its
 * own, and the rate that the system sees, and paces by, falls to a third: by BBR, between near hosts. */
enum { PACED_BYTES = 192 << 10 };
enum { TELL_MS = 1000 }; /* so long the rank that decides waits for others to take its word */

/* --- The end of a communicator */

/* This rank says goodbye: it closes its endpoint, or has aborted it alone. */
static bool is_leaving(const struct tcp_endpoint *e)
{
    return atomic_load(&e->closing) || atomic_load(&e->head.gone);
}

static int lowest_living(const struct tcp_endpoint *e)
{
    int rank = 0;
    while (rank != e->head.me && atomic_load(&e->peers[rank].state) != TT_PEER_ALIVE)
        rank++;
    return rank;
}

/* This is the cause. */
static void decide(struct tcp_endpoint *e, const struct tt_cause *cause, int finder)
{
    e->end.cause = *cause;
    e->end.decided_ns = tt_now_ns();
    atomic_store(&e->end.decided, (uint32_t)finder + 1);
}

/* From now on the caller sees the cause. */
static void end(struct tcp_endpoint *e)
{
    atomic_store(&e->end.ended, atomic_load(&e->end.decided));
    tt_doorbell_ring_always(e->head.doorbell);
}

static void claim(struct tcp_endpoint *e, const struct tt_cause *cause, int finder)
{
    if (e->end.first_claimer != TT_NONE)
        return;
    e->end.first_claim = *cause;
    e->end.first_claimer = finder;
}

void tt_tcp_decide(struct tcp_endpoint *e)
{
    if (atomic_load(&e->end.decided) != 0)
        return;
    if (atomic_load(&e->end.claimed))
        claim(e, &e->end.claim, e->head.me);
    if (atomic_load(&e->end.impatient))
        decide(e, &e->end.claim, e->head.me);
    else if (e->end.first_claimer != TT_NONE && lowest_living(e) == e->head.me && !is_leaving(e))
        decide(e, &e->end.first_claim, e->end.first_claimer);
}

/* --- Reading */

void tt_tcp_lose(struct tcp_endpoint *e, int rank, enum tt_peer_state state)
{
    struct tcp_peer *p = &e->peers[rank];
    tt_tcp_part(e, rank);
    tt_tcp_hang_up(&p->theirs_fd);
    if (e->carrier != NULL)
        e->carries->drop(e->carrier, rank, state == TT_PEER_SILENT);
    p->to.size = 0;
    p->since_ns = 0;
    p->carried.promised = false;
    p->carried.refused_ns = 0;
    atomic_store(&p->connection, TCP_CLOSED);
    atomic_store(&p->ask, false);
    if (atomic_load(&p->state) == TT_PEER_ALIVE)
        atomic_store(&p->state, state);
    tt_doorbell_ring(e->head.doorbell);
}

/* Frees the slots that a frame says are released. False if one of them was not in use. */
bool tt_tcp_take_releases(struct tcp_endpoint *e, int rank, const struct tcp_frame *f)
{
    bool right = true;
    if (f->released[0] != 0 || f->released[1] != 0)
        atomic_store(&e->peers[rank].slots.want, TCP_ENOUGH);
    for (unsigned c = 0; c < TT_CLASSES; c++)
        for (uint64_t bits = f->released[c], i = 0; bits != 0; bits >>= 1, i++) {
            struct tcp_slot *slot = &tt_tcp_link_of(e, c, rank)->out[i];
            if ((bits & 1) == 0)
                continue;
            unsigned state = atomic_load(&slot->state);
            slot->early = state == TCP_CARRIED;
            right = right && (state == TCP_DONE || state == TCP_CARRIED);
            if (right && state == TCP_DONE)
                atomic_store_explicit(&slot->state, TCP_FREE, memory_order_release);
        }
    return right;
}

uint8_t *tt_tcp_place_of(struct tcp_endpoint *e, int rank, unsigned class, uint64_t number, uint64_t bytes)
{
    struct tcp_link *link = tt_tcp_link_of(e, class, rank);
    struct tcp_slot *slot = &link->in[number % TCP_SLOTS];
    bool granted = slot->granted == number + 1 && slot->place_bytes == bytes;
    if (atomic_load(&slot->state) != TCP_FREE)
        return NULL;
    uint8_t *own = tt_tcp_make_room(link, slot, bytes);
    return granted ? slot->place : own;
}

/* Finds where the payload goes of a frame whose head has come. False if no rank sends such a frame. */
static bool receive_into(struct tcp_endpoint *e, int rank, struct tcp_transfer *t)
{
    const struct tcp_frame *f = &t->frame;
    const uint64_t bytes[TCP_KINDS] = { [TCP_CALL] = sizeof(struct tt_call_record),
        [TCP_WAIT] = sizeof(struct tt_call_record),
        [TCP_NOTE] = sizeof(struct tt_note),
        [TCP_REFUSALS] = 8 * (uint64_t)TCP_REFUSED_WORDS,
        [TCP_CLAIM] = sizeof(struct tt_cause),
        [TCP_CAUSE] = sizeof(struct tt_cause) };
    t->payload = t->staging;
    t->size = sizeof *f + f->bytes;
    if (f->kind >= TCP_KINDS || f->class >= TT_CLASSES || !tt_tcp_take_releases(e, rank, f))
        return false;
    if (f->kind != TCP_MESSAGE)
        return f->bytes == bytes[f->kind];
    if (f->bytes == 0 || f->bytes > e->head.slot_bytes)
        return false;
    t->payload = tt_tcp_place_of(e, rank, f->class, f->number, f->bytes);
    return t->payload != NULL;
}

void tt_tcp_fill(struct tcp_endpoint *e, int rank, const struct tcp_frame *f, uint8_t *payload)
{
    struct tcp_slot *slot = &tt_tcp_link_of(e, f->class, rank)->in[f->number % TCP_SLOTS];
    slot->number = f->number;
    slot->signature = f->signature;
    slot->bytes = f->bytes;
    slot->payload = payload;
    slot->granted = 0;
    atomic_store_explicit(&slot->state, TCP_FULL, memory_order_release);
}

/* Takes a whole frame that has come. */
static void take(struct tcp_endpoint *e, int rank, const struct tcp_transfer *t)
{
    const struct tcp_frame *f = &t->frame;
    struct tcp_peer *p = &e->peers[rank];
    struct tcp_control *theirs = p->control;
    struct tt_cause cause;
    tt_tcp_meet(p);
    switch ((enum tcp_kind)f->kind) {
    case TCP_MESSAGE:
        tt_tcp_fill(e, rank, f, t->payload);
        break;
    case TCP_WANT:
        atomic_store(&p->slots.wanted, true);
        break;
    case TCP_ASK:
        p->asked = true;
        break;
    case TCP_CALL:
        tt_tcp_cell_write(theirs->calls[f->number % TT_CALLS_KEPT], t->payload, TCP_RECORD_WORDS);
        break;
    case TCP_COMPLETED:
    case TCP_GOODBYE:
        p->carried.promised = true;
        p->carried.leaves = f->kind == TCP_GOODBYE;
        p->carried.aborted = f->aborted != 0;
        p->carried.count = f->signature;
        p->carried.completed = f->number;
        p->carried.leaves_ns = tt_now_ns();
        tt_tcp_keep_promises(e, rank);
        break;
    case TCP_WAIT:
        tt_tcp_cell_write(theirs->wait, t->payload, TCP_RECORD_WORDS);
        break;
    case TCP_NOTE:
        tt_tcp_cell_write(theirs->note, t->payload, TCP_NOTE_WORDS);
        break;
    case TCP_REFUSALS:
        tt_tcp_cell_write(theirs->refusals, t->payload, TCP_REFUSED_WORDS);
        break;
    case TCP_CLAIM:
    case TCP_CAUSE:
        memcpy(&cause, t->payload, sizeof cause);
        if (f->number >= (uint64_t)e->head.n)
            break;
        if (f->kind == TCP_CLAIM) {
            claim(e, &cause, (int)f->number);
            break;
        }
        p->cause = true; /* it knows */
        if (atomic_load(&e->end.decided) == 0) {
            decide(e, &cause, (int)f->number);
            end(e);
        }
        break;
    case TCP_RELEASE:
    case TCP_KINDS:
        break;
    }
}

/* Takes bytes from the buffer, filling it when it is empty; a long payload is read past it. *drained: the
 * socket has given less than it was asked for, so it is not asked again. Returns how many came; 0: nothing is
 * there; -1: the connection has ended, by what errno says; 0: it was closed. */
static ssize_t read_some(struct tcp_peer *p, uint8_t *to, uint64_t most, bool *drained)
{
    if (p->used == p->have) {
        bool past = most >= TCP_BUFFER_BYTES;
        if (*drained)
            return 0;
        errno = 0;
        ssize_t got = past ? recv(p->fd, to, most, MSG_DONTWAIT)
                           : recv(p->fd, p->buffer, TCP_BUFFER_BYTES, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got <= 0)
            return -1;
        *drained = (uint64_t)got < (past ? most : TCP_BUFFER_BYTES);
        if (past)
            return got;
        p->used = 0;
        p->have = (size_t)got;
    }
    size_t bytes = most < p->have - p->used ? most : p->have - p->used;
    memcpy(to, p->buffer + p->used, bytes);
    p->used += bytes;
    return (ssize_t)bytes;
}

/* Reads a part of the frame that is under way, and takes it when it is whole. False: nothing is there, or the
 * connection has ended. */
static bool read_part(struct tcp_endpoint *e, int rank, bool *drained)
{
    struct tcp_peer *p = &e->peers[rank];
    struct tcp_transfer *t = &p->in;
    uint64_t head = sizeof t->frame;
    bool in_head = t->at < head;
    uint8_t *to = in_head ? (uint8_t *)&t->frame + t->at : t->payload + (t->at - head);
    ssize_t got = read_some(p, to, in_head ? head - t->at : t->size - t->at, drained);
    if (got == 0)
        return false;
    t->at += got > 0 ? (uint64_t)got : 0;
    if (got < 0 || (t->at == head && in_head && !receive_into(e, rank, t))) {
        bool silent = got < 0 && (errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH);
        tt_tcp_lose(e, rank, silent ? TT_PEER_SILENT : TT_PEER_DEAD);
        return false;
    }
    if (t->at < head || t->at < t->size)
        return true;
    t->at = 0;
    take(e, rank, t);
    tt_doorbell_ring(e->head.doorbell);
    return p->fd >= 0 && !tt_tcp_is_leaving(p);
}

void tt_tcp_read(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    bool drained = false;
    if (atomic_load(&p->connection) != TCP_OPEN || tt_tcp_is_leaving(p))
        return;
    for (uint64_t bytes = 0; bytes < TURN_BYTES || p->used < p->have;) { /* nobody is woken for the latter */
        uint64_t before = p->in.at;
        if (!read_part(e, rank, &drained))
            return;
        bytes += p->in.at > before ? p->in.at - before : p->in.size - before;
    }
}

/* --- Writing */

struct tcp_slot *tt_tcp_find_full(struct tcp_endpoint *e, int rank, uint8_t *class)
{
    for (uint8_t c = 0; c < TT_CLASSES; c++) {
        struct tcp_link *link = tt_tcp_link_of(e, c, rank);
        uint64_t full = atomic_load_explicit(&link->full, memory_order_acquire);
        *class = c;
        if (full != 0)
            return &link->out[__builtin_ctzll(full)];
    }
    return NULL;
}

void tt_tcp_collect_releases(struct tcp_endpoint *e, int rank, uint64_t released[TT_CLASSES])
{
    for (unsigned c = 0; c < TT_CLASSES; c++) {
        struct tcp_link *link = tt_tcp_link_of(e, c, rank);
        for (unsigned i = 0; i < TCP_SLOTS && atomic_load(&link->releases) > 0; i++)
            if (atomic_load_explicit(&link->in[i].state, memory_order_acquire) == TCP_DONE) {
                atomic_store_explicit(&link->in[i].state, TCP_FREE, memory_order_relaxed);
                atomic_fetch_sub(&link->releases, 1);
                if (tt_tcp_is_long(link->in[i].bytes))
                    atomic_fetch_sub(&link->long_releases, 1);
                released[c] |= UINT64_C(1) << i;
            }
    }
}

/* Begins a frame, and tells of all releases with it. */
static bool begin(struct tcp_endpoint *e, int rank, struct tcp_frame frame, uint8_t *payload)
{
    struct tcp_transfer *t = &e->peers[rank].to;
    if (e->carrier == NULL) /* else that tells of them */
        tt_tcp_collect_releases(e, rank, frame.released);
    t->frame = frame;
    t->payload = payload;
    t->at = 0;
    t->size = sizeof frame + frame.bytes;
    return true;
}

static bool tell_cause(
    struct tcp_endpoint *e, int rank, enum tcp_kind kind, const struct tt_cause *cause, int finder)
{
    uint8_t *staging = e->peers[rank].to.staging;
    memcpy(staging, cause, sizeof *cause);
    return begin(e, rank,
        (struct tcp_frame){ .kind = (uint8_t)kind, .number = (uint64_t)finder, .bytes = sizeof *cause },
        staging);
}

/* True if this peer is to be told of the end: by the rank that decides all are, by others those that they
 * talk with. */
static bool end_is_news(const struct tcp_endpoint *e, int rank)
{
    const struct tcp_peer *p = &e->peers[rank];
    if (atomic_load(&e->end.decided) != 0)
        return !p->cause && (lowest_living(e) == e->head.me || atomic_load(&p->connection) == TCP_OPEN);
    bool by_it = e->end.by_any && atomic_load(&p->connection) == TCP_OPEN;
    return e->end.first_claimer != TT_NONE && !p->claim && (by_it || lowest_living(e) == rank);
}

/* What ends a communicator goes before all else. */
static bool tell_end(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    uint32_t decided = atomic_load(&e->end.decided);
    if (!end_is_news(e, rank))
        return false;
    *(decided != 0 ? &p->cause : &p->claim) = true;
    return decided != 0 ? tell_cause(e, rank, TCP_CAUSE, &e->end.cause, (int)decided - 1)
                        : tell_cause(e, rank, TCP_CLAIM, &e->end.first_claim, e->end.first_claimer);
}

/* True if a peer that lives is still to be told of the end, or the word of it is under way. */
static bool is_untold(const struct tcp_endpoint *e, int rank)
{
    const struct tcp_peer *p = &e->peers[rank];
    bool under_way = p->to.size > 0 && p->to.frame.kind == TCP_CAUSE;
    return rank != e->head.me && atomic_load(&p->state) == TT_PEER_ALIVE && !tt_tcp_is_leaving(p) &&
           (end_is_news(e, rank) || under_way);
}

void tt_tcp_end_when_told(struct tcp_endpoint *e)
{
    if (atomic_load(&e->end.decided) == 0 || atomic_load(&e->end.ended) != 0)
        return;
    bool told = true;
    for (int r = 0; r < e->head.n; r++)
        told = told && !is_untold(e, r);
    if (told || tt_now_ns() - e->end.decided_ns > TELL_MS * INT64_C(1000000))
        end(e);
}

/* Begins the frame of the next call that the peer has not been told, and that is kept. */
static bool tell_call(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    const struct tcp_control *mine = e->peers[e->head.me].control;
    uint64_t begun = atomic_load_explicit(&e->begun, memory_order_acquire);
    if (p->told.call + TT_CALLS_KEPT < begun)
        p->told.call = begun - TT_CALLS_KEPT;
    for (; p->told.call < begun; p->told.call++) {
        struct tt_call_record record;
        if (tt_tcp_cell_read(mine->calls[p->told.call % TT_CALLS_KEPT], &record, TCP_RECORD_WORDS) == 0 ||
            atomic_load(&record.sequence) != p->told.call + 1)
            continue; /* a later one has its place */
        memcpy(p->to.staging, &record, sizeof record);
        struct tcp_frame frame = { .kind = TCP_CALL, .number = p->told.call++, .bytes = sizeof record };
        return begin(e, rank, frame, p->to.staging);
    }
    return false;
}

/* Begins the frame of a cell, if the peer has not been told what is in it. */
static bool tell_cell(
    struct tcp_endpoint *e, int rank, enum tcp_kind kind, const tcp_word *cell, size_t words, uint64_t *told)
{
    struct tcp_transfer *to = &e->peers[rank].to;
    uint64_t version = tt_tcp_cell_read(cell, to->staging, words);
    if (version == 0 || version == *told)
        return false;
    *told = version;
    return begin(e, rank, (struct tcp_frame){ .kind = (uint8_t)kind, .bytes = 8 * words }, to->staging);
}

/* Begins the frame of what this rank refused, as far as it concerns the peer. */
static bool tell_refusals(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    uint64_t bytes = 8 * (uint64_t)TCP_REFUSED_WORDS, version = tt_tcp_refused(e, rank, p->to.staging);
    if (version == 0 || version == p->told.refusals)
        return false;
    p->told.refusals = version;
    return begin(e, rank, (struct tcp_frame){ .kind = TCP_REFUSALS, .bytes = bytes }, p->to.staging);
}

/* Answers a peer that asks, a frame at a time; the last one says so. */
static bool answer(struct tcp_endpoint *e, int rank, uint64_t completed)
{
    struct tcp_peer *p = &e->peers[rank];
    const struct tcp_control *mine = e->peers[e->head.me].control;
    if (tell_call(e, rank) || tell_cell(e, rank, TCP_WAIT, mine->wait, TCP_RECORD_WORDS, &p->told.wait) ||
        tell_cell(e, rank, TCP_NOTE, mine->note, TCP_NOTE_WORDS, &p->told.note) || tell_refusals(e, rank))
        return true;
    p->asked = false;
    struct tcp_frame last = { .kind = TCP_COMPLETED, .signature = p->carried.sent, .number = completed };
    return begin(e, rank, last, NULL);
}

bool tt_tcp_releases_are_news(struct tcp_endpoint *e, int rank)
{
    bool any = false, many = false;
    for (unsigned c = 0; c < TT_CLASSES; c++) {
        const struct tcp_link *link = tt_tcp_link_of(e, c, rank);
        uint32_t releases = atomic_load(&link->releases);
        any = any || releases > 0;
        many = many || releases >= TCP_TOLD_AT || atomic_load(&link->long_releases) >= TCP_LONG_TOLD_AT;
    }
    return many || (any && atomic_load(&e->peers[rank].slots.wanted));
}

/* True if this rank has refused a call that the peer does not know of. */
static bool refusals_are_news(const struct tcp_endpoint *e, const struct tcp_peer *p)
{
    uint64_t version = atomic_load(&e->refused[0]);
    return version != 0 && version % 2 == 0 && version != p->told.refusals;
}

/* Says goodbye to those that this rank talks with, or that come to talk; and to all, if it refused a call:
 * they are to have its words. */
static bool goodbye_is_news(struct tcp_endpoint *e, const struct tcp_peer *p)
{
    uint8_t class;
    if (e->carrier != NULL && (tt_tcp_find_full(e, p->address.rank, &class) != NULL || tt_tcp_is_greeting(p)))
        return false;
    return is_leaving(e) && !p->goodbye &&
           (atomic_load(&p->connection) == TCP_OPEN || refusals_are_news(e, p));
}

bool tt_tcp_has_news(struct tcp_endpoint *e, int rank)
{
    const struct tcp_peer *p = &e->peers[rank];
    uint8_t class;
    if (rank == e->head.me || tt_tcp_is_leaving(p))
        return false;
    /* A carrier takes messages, but a connection beside it shows whether the peer lives. */
    bool messages = e->carrier == NULL
                        ? tt_tcp_find_full(e, rank, &class) != NULL || tt_tcp_releases_are_news(e, rank) ||
                              atomic_load(&p->slots.want) == TCP_WANTS
                        : p->carried.sent > 0 && atomic_load(&p->connection) == TCP_NOT_DIALED;
    return messages || end_is_news(e, rank) || p->asked || (atomic_load(&p->ask) && !p->answering) ||
           goodbye_is_news(e, p);
}

/* Begins the frame of a message, or of what concerns slots. */
static bool tell_message(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    int wants = TCP_WANTS;
    uint8_t class;
    const struct tcp_slot *full = tt_tcp_find_full(e, rank, &class);
    if (full != NULL)
        return begin(e, rank,
            (struct tcp_frame){ .kind = TCP_MESSAGE,
                .class = class,
                .signature = full->signature,
                .number = full->number,
                .bytes = full->bytes },
            full->payload);
    if (tt_tcp_releases_are_news(e, rank)) {
        atomic_store(&p->slots.wanted, false);
        return begin(e, rank, (struct tcp_frame){ .kind = TCP_RELEASE }, NULL);
    }
    return atomic_compare_exchange_strong(&p->slots.want, &wants, TCP_TOLD) &&
           begin(e, rank, (struct tcp_frame){ .kind = TCP_WANT }, NULL);
}

/* Begins the next frame to a peer; false if it has been told everything. What is told after the messages is
 * read before they are looked for. */
static bool next_frame(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    uint64_t completed = atomic_load_explicit(&e->peers[e->head.me].completed, memory_order_acquire);
    bool closing = goodbye_is_news(e, p);
    if (tell_end(e, rank) || (e->carrier == NULL && tell_message(e, rank)))
        return true;
    if (atomic_load(&p->ask) && !p->answering) {
        p->answering = true;
        return begin(e, rank, (struct tcp_frame){ .kind = TCP_ASK }, NULL);
    }
    if (p->asked)
        return answer(e, rank, completed);
    if (closing && tell_refusals(e, rank))
        return true;
    p->goodbye = p->goodbye || closing;
    struct tcp_frame frame = { .kind = TCP_GOODBYE,
        .aborted = atomic_load(&e->head.gone),
        .signature = p->carried.sent,
        .number = completed };
    return closing && begin(e, rank, frame, NULL);
}

/* Writes a frame of few bytes, of which nothing is written yet, as one part, which takes less time. */
static ssize_t write_few(const struct tcp_peer *p, const struct tcp_transfer *t)
{
    uint8_t few[sizeof t->frame + TCP_FEW_BYTES];
    memcpy(few, &t->frame, sizeof t->frame);
    if (t->frame.bytes > 0)
        memcpy(few + sizeof t->frame, t->payload, t->frame.bytes);
    return send(p->fd, few, t->size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Writes what is left of a frame. */
static ssize_t write_rest(const struct tcp_peer *p, struct tcp_transfer *t)
{
    uint64_t head = t->at < sizeof t->frame ? sizeof t->frame - t->at : 0;
    uint64_t done = t->at > sizeof t->frame ? t->at - sizeof t->frame : 0;
    struct iovec parts[] = { { (uint8_t *)&t->frame + (sizeof t->frame - head), head },
        { t->payload + done, t->frame.bytes - done } };
    if (p->paced && parts[1].iov_len > PACED_BYTES)
        parts[1].iov_len = PACED_BYTES;
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = t->frame.bytes > done ? 2 : 1 };
    return sendmsg(p->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Writes as much as the socket takes; false if that is nothing. That a peer is gone is found by reading. */
static bool write_some(struct tcp_peer *p, struct tcp_transfer *t)
{
    bool few = t->at == 0 && t->frame.bytes <= TCP_FEW_BYTES;
    ssize_t put = few ? write_few(p, t) : write_rest(p, t);
    if (put > 0)
        t->at += (uint64_t)put;
    return put > 0;
}

void tt_tcp_write(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    struct tcp_transfer *t = &p->to;
    if (atomic_load(&p->connection) != TCP_OPEN)
        return;
    for (uint64_t bytes = 0; bytes < TURN_BYTES && (t->size > 0 || next_frame(e, rank));) {
        uint64_t before = t->at;
        if (!write_some(p, t))
            return;
        bytes += t->at - before;
        if (t->at < t->size)
            continue;
        struct tcp_link *link = tt_tcp_link_of(e, t->frame.class, rank);
        if (t->frame.kind == TCP_MESSAGE) {
            tt_tcp_take_full(link, &link->out[t->frame.number % TCP_SLOTS], TCP_DONE);
            tt_doorbell_ring(e->head.doorbell);
        }
        if (t->frame.kind == TCP_GOODBYE)
            shutdown(p->fd, SHUT_WR);
        t->size = 0;
    }
}

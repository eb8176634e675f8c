/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_whole.c: a message that stands for its whole chunk, which the kernel copies piece by piece.
 *
 *     sender:    offers 8 MiB     |  writes 1 MiB  |      | writes 256 KiB |
 *     receiver:  sees it, accepts | reads 1 MiB | reads 1 MiB | reads 512 KiB |  has it all, acknowledges
 *
 * Slices are as long as a copy that stays in a core's cache. A system call gains by length, and every slice
 * is a meeting of two ranks; so what may be read at once is offered at once. The receiver says that it
 * accepts, or obeys the line as one of a single slice: then the others follow by themselves. It needs no
 * grant for that, since it knows the place. A piece belongs to who takes it off the word `upto` of the line:
 * the receiver, and a sender that has nothing else to do and may write there. Then pieces are half of what is
 * left, within bounds, so that both end together; whoever reads while its own memory is read is taken to be
 * alone.
 *
 * If either cannot move its piece, the receiver asks for copies, as of any message that is pulled. */
#include <sys/uio.h>

#include "transports/shm_place.h"

enum { PIECE_LEAST = 256 << 10, PIECE_MOST = 2 << 20 };
#define LOST UINT64_MAX /* written: the sender could not */

bool tt_shm_offers(const struct tt_shm_channel *c, const struct tt_message *m, uintptr_t address)
{
    return m->whole >= 2 * TT_PAGES_LEAST && c->peer->open && tt_endpoint_inside(&c->endpoint->head) &&
           tt_shm_is_fast(c->endpoint, address, m->whole);
}

void tt_shm_offer(struct tt_shm_channel *c, const struct tt_message *m, struct tt_shm_line *line)
{
    line->whole = m->whole;
    line->source.chunk = m->halves && c->endpoint->awaited == 0;
    atomic_store_explicit(&line->upto, 0, memory_order_relaxed);
    atomic_store_explicit(&line->written, 0, memory_order_relaxed);
    if (m->whole == 0)
        return;
    c->offered |= UINT64_C(1) << tt_shm_line_of(m->number);
    c->endpoint->offers++;
}

/* Takes the next piece of a chunk; returns its length, 0 if none is left. */
static uint64_t take_piece(struct tt_shm_line *line, uint64_t whole, bool shared, uint64_t *at)
{
    uint64_t from = atomic_load_explicit(&line->upto, memory_order_relaxed), bytes;
    do {
        if (from >= whole)
            return 0;
        bytes = shared ? (whole - from) / 2 : PIECE_MOST;
        bytes = bytes < PIECE_LEAST ? PIECE_LEAST : bytes > PIECE_MOST ? PIECE_MOST : bytes;
        bytes = bytes < whole - from ? bytes : whole - from;
    } while (!atomic_compare_exchange_weak_explicit(
        &line->upto, &from, from + bytes, memory_order_relaxed, memory_order_relaxed));
    *at = from;
    return bytes;
}

static bool may_write(const struct tt_shm_channel *c, const struct tt_shm_grant *grant, uint64_t number,
    const struct tt_shm_line *line)
{
    return !c->pulls.unwritable && c->endpoint->awaited == 0 && tt_endpoint_inside(&c->endpoint->head) &&
           atomic_load_explicit(&grant->number, memory_order_acquire) == number + 1 &&
           grant->memory == TT_SHM_WRITABLE && grant->bytes == line->bytes &&
           grant->signature == line->signature && tt_arena_alive(c->peer->arena);
}

/* Writes a piece to where the receiver granted the first slice. */
static bool write_piece(struct tt_shm_channel *c, uint64_t number, struct tt_shm_line *line)
{
    const struct tt_shm_grant *grant = &c->grants_in[number & (TT_SLOTS - 1)];
    uint64_t at, bytes;
    if (!may_write(c, grant, number, line) || (bytes = take_piece(line, line->whole, true, &at)) == 0)
        return false;
    struct iovec local = { (void *)(uintptr_t)(line->source.at + at), bytes };
    struct iovec remote = { (void *)(uintptr_t)(grant->place.at + at), bytes };
    c->pulls.unwritable = process_vm_writev(c->peer->pid, &local, 1, &remote, 1, 0) != (ssize_t)bytes;
    uint64_t written = atomic_load_explicit(&line->written, memory_order_relaxed);
    atomic_store_explicit(&line->written, c->pulls.unwritable ? LOST : written + bytes, memory_order_release);
    tt_doorbell_ring_light(c->peer->bell, c->endpoint->head.light);
    return true;
}

/* The first slice was counted when it was sent. */
static void count(struct tt_shm_endpoint *e, const struct tt_shm_line *line)
{
    uint64_t written = atomic_load_explicit(&line->written, memory_order_relaxed);
    e->head.path_bytes[TT_PATH_PULLED] += line->whole - line->bytes - written;
    e->head.path_bytes[TT_PATH_PLACED] += written;
}

enum tt_whole tt_shm_give(struct tt_link *link, uint64_t number, bool helps)
{
    struct tt_shm_channel *c = tt_shm_channel_of(link);
    struct tt_shm_line *line = &c->out[tt_shm_line_of(number)];
    uint64_t bit = UINT64_C(1) << tt_shm_line_of(number);
    if ((c->offered & bit) == 0)
        return TT_WHOLE_NOT;
    bool over = tt_shm_released(c, number);
    uint64_t answer =
        atomic_load_explicit(&c->grants_in[number & (TT_SLOTS - 1)].answer, memory_order_acquire);
    bool accepted = answer == tt_shm_answer(number, TT_SHM_ALL_OF_IT);
    bool refused =
        answer == tt_shm_answer(number, TT_SHM_COPY_IT) || answer == tt_shm_answer(number, TT_SHM_ONE_SLICE);
    if (over || refused) {
        c->offered &= ~bit;
        c->endpoint->offers--;
        if (over && accepted)
            count(c->endpoint, line);
        return over && accepted ? TT_WHOLE_DONE : TT_WHOLE_NOT;
    }
    return accepted && helps && write_piece(c, number, line) ? TT_WHOLE_MOVED : TT_WHOLE_IDLE;
}

/* True if this message is there, and is all of what this rank awaits, in memory that it can read. */
static bool is_whole(const struct tt_shm_channel *c, const struct tt_shm_line *line, uint64_t number,
    uint32_t signature, uint64_t bytes, uint64_t whole)
{
    return c->peer->open && ((c->pulls.asked | c->pulls.declined) & tt_shm_bit(number)) == 0 &&
           line->path == TT_PATH_PULLED && line->signature == signature && line->bytes == bytes &&
           line->whole == whole && !c->pulls.unreadable && tt_endpoint_inside(&c->endpoint->head);
}

void tt_shm_decline(struct tt_shm_channel *c, uint64_t number)
{
    unsigned slot = number & (TT_SLOTS - 1);
    if ((c->pulls.declined & tt_shm_bit(number)) != 0)
        return;
    c->pulls.declined |= tt_shm_bit(number);
    atomic_store_explicit(
        &c->grants_out[slot].answer, tt_shm_answer(number, TT_SHM_ONE_SLICE), memory_order_release);
    tt_doorbell_ring_light(c->peer->bell, c->endpoint->head.light);
}

static void accept(struct tt_shm_channel *c, uint64_t number)
{
    unsigned slot = number & (TT_SLOTS - 1);
    c->pulls.taking |= tt_shm_bit(number);
    c->pulls.got[slot] = 0;
    atomic_store_explicit(
        &c->grants_out[slot].answer, tt_shm_answer(number, TT_SHM_ALL_OF_IT), memory_order_release);
    tt_doorbell_ring_light(c->peer->bell, c->endpoint->head.light);
}

/* Reads a piece; false if there is none. */
static bool read_piece(
    struct tt_shm_channel *c, uint64_t number, struct tt_shm_line *line, uintptr_t place, uint64_t whole)
{
    bool shared = line->source.chunk != 0 && c->endpoint->offers == 0;
    uint64_t at, bytes = take_piece(line, whole, shared, &at);
    if (bytes == 0)
        return false;
    struct iovec local = { (void *)(place + at), bytes };
    struct iovec remote = { (void *)(uintptr_t)(line->source.at + at), bytes };
    c->pulls.unreadable = process_vm_readv(c->peer->pid, &local, 1, &remote, 1, 0) != (ssize_t)bytes;
    c->pulls.got[number & (TT_SLOTS - 1)] += bytes;
    return true;
}

enum tt_whole tt_shm_take(
    struct tt_link *link, uint64_t number, uint32_t signature, const struct tt_view *first, uint64_t whole)
{
    struct tt_shm_channel *c = tt_shm_channel_of(link);
    struct tt_shm_line *line = &c->in[tt_shm_line_of(number)];
    uintptr_t place;
    uint64_t bytes = tt_shm_first_run(first, &place);
    if (atomic_load_explicit(&line->flag, memory_order_acquire) != tt_shm_flag(number))
        return TT_WHOLE_IDLE;
    if (!is_whole(c, line, number, signature, bytes, whole))
        return TT_WHOLE_NOT;
    if ((c->pulls.taking & tt_shm_bit(number)) == 0)
        accept(c, number);
    bool moved = read_piece(c, number, line, place, whole);
    uint64_t written = atomic_load_explicit(&line->written, memory_order_acquire);
    if (c->pulls.unreadable || written == LOST) {
        c->pulls.taking &= (uint8_t)~tt_shm_bit(number);
        tt_shm_ask_for_copy(c, number);
        return TT_WHOLE_NOT;
    }
    if (c->pulls.got[number & (TT_SLOTS - 1)] + written < whole)
        return moved ? TT_WHOLE_MOVED : TT_WHOLE_IDLE;
    return tt_arena_alive(c->peer->arena) ? TT_WHOLE_DONE : TT_WHOLE_IDLE;
}

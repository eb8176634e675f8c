/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_path.c: the way of a message through shared memory. No lock, no system call, no division.
 *
 * The sender fills a line and writes its flag last; the receiver finds the flag and reads, then writes the
 * acknowledgement, and only that frees slot and line. The sender looks at acknowledgements in a private copy
 * first, so that the receiver's line of them moves between the caches once in 16 messages. There are more
 * lines than slots: of messages that one way only goes, many are on their way at once.
 *
 * What is copied goes by a shuttle, if one is here, and else into the slot of its number:
 *
 *     rank 0: message 0 in shuttle a   reads b, message 1 in b   reads a, message 2 in a
 *     rank 1: message 0 in shuttle b   reads a, message 1 in a   reads b, message 2 in b
 *
 * Nobody acknowledges a shuttle: who has got a message by it has got it.
 *
 * A message of several runs is named by the place of its chunks, which the receiver cuts into runs with
 * its own layout; where chunks have places of their own, it is copied. Nothing read from a line is
 * believed: what leads out of a peer's arena, or cannot be, arrives with 0 bytes, which no caller
 * expects, and so ends as a mismatch. */
#include <string.h>

#include "base/few.h"
#include "base/status.h"
#include "transports/shm_place.h"

/* Up to here `post` copies a message: the copy costs less than the wait for its reader, and by far less where
 * ranks share cores (perf/results/README.md). */
enum { POST_BYTES = 4 << 10 };

/* Chooses how the bytes of a message travel; for MAPPED and PULLED, *at is where they are. TT_PATHS: that is
 * to be seen. */
static enum tt_path choose(
    struct tt_shm_channel *c, const struct tt_message *m, bool packed, uintptr_t address, uint64_t *at)
{
    struct tt_shm_endpoint *e = c->endpoint;
    if (c->replies[m->number & (TT_SLOTS - 1)] != 0) /* it lies there, whoever sends it now */
        return TT_PATH_COPIED;
    if (m->placed)
        return TT_PATH_PLACED;
    if (m->bytes <= TT_SHM_INLINE_BYTES)
        return TT_PATH_INLINE;
    if (m->bytes <= TT_SHM_COPY_BYTES || (!packed && m->source.space.displs != NULL))
        return TT_PATH_COPIED;
    if (tt_shm_expose(e, c->peer, &m->source, m->bytes, packed, address, at))
        return TT_PATH_MAPPED;
    *at = address;
    if (m->whole != 0 && tt_shm_offers(c, m, address))
        return TT_PATH_PULLED;
    return packed ? tt_shm_long_path(c, m, address) : TT_PATH_COPIED;
}

static void copy_runs(uint8_t *to, const struct tt_view *view, uint64_t bytes)
{
    uint64_t element = view->layout->element_bytes, count;
    for (uint64_t at = 0; at * element < bytes; at += count) {
        uintptr_t run = tt_view_run(view, at, &count);
        memcpy(to + at * element, (const void *)run, count * element);
    }
}

/* Reads all acknowledgements of a cache line at once: the receiver writes one with each message, and they
 * come from its cache. */
static void look_at_acks(struct tt_shm_channel *c, unsigned line)
{
    unsigned from = line & ~(TT_SHM_ACKS_AT_ONCE - 1u);
    for (unsigned i = from; i < from + TT_SHM_ACKS_AT_ONCE; i++)
        c->acked[i] = atomic_load_explicit(&c->acks_in->flag[i], memory_order_acquire);
}

static bool line_free(struct tt_shm_channel *c, unsigned line)
{
    if (c->acked[line] == c->posted[line])
        return true;
    look_at_acks(c, line);
    return c->acked[line] == c->posted[line];
}

/* A line that was posted again since was released before. */
bool tt_shm_released(struct tt_shm_channel *c, uint64_t number)
{
    unsigned line = tt_shm_line_of(number);
    uint32_t flag = tt_shm_flag(number);
    if (c->posted[line] == flag && c->acked[line] != flag)
        c->acked[line] = atomic_load_explicit(&c->acks_in->flag[line], memory_order_acquire);
    return c->posted[line] != flag || c->acked[line] == flag;
}

/* True if the message whose payload was in this slot has been released. */
static bool slot_free(struct tt_shm_channel *c, unsigned slot)
{
    return c->copied[slot] == 0 || tt_shm_released(c, c->copied[slot] - 1);
}

/* True if the message lies in a shuttle already, which then leaves with it. */
static bool leave_as_reply(struct tt_shm_channel *c, uint64_t number, struct tt_shm_line *line)
{
    uint8_t *reply = &c->replies[number & (TT_SLOTS - 1)];
    if (*reply == 0)
        return false;
    tt_shuttle_leave_as_reply(&c->shuttles, *reply - 1u);
    line->shuttle = *reply;
    *reply = 0;
    return true;
}

/* Writes a byte in each cache line that was read, so that this core owns the line in Modified state. The
 * sender's next write then fetches the lines by independent misses, many at a time, and not by one upgrade
 * from Shared after the other (perf/results/README.md, "Who writes a line next"). */
static void claim_lines(volatile uint8_t *lines, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += 64)
        lines[at] = 0;
}

/* Claims the lines of a shuttle that a shorter message leaves of a longer one: both ranks have read them, and
 * none has written since. */
static void claim_rest(struct tt_shm_channel *c, unsigned shuttle, uint64_t bytes)
{
    const struct tt_shuttles *s = &c->shuttles;
    if (bytes < s->read_bytes[shuttle])
        claim_lines(s->at[shuttle] + bytes, s->read_bytes[shuttle] - bytes);
}

/* Room for a message that is copied, which is gone with it; NULL: there is none yet. */
static uint8_t *find_room(struct tt_shm_channel *c, uint64_t number, uint64_t bytes, struct tt_shm_line *line)
{
    unsigned slot = number & (TT_SLOTS - 1);
    int shuttle = tt_shuttle_leave(&c->shuttles);
    if (shuttle < 0 && !slot_free(c, slot))
        return NULL;
    line->shuttle = (uint32_t)(shuttle + 1);
    if (shuttle >= 0) {
        claim_rest(c, (unsigned)shuttle, bytes);
        return c->shuttles.at[shuttle];
    }
    c->copied[slot] = number + 1;
    return c->payload_out + slot * c->endpoint->slot_stride;
}

/* Returns where a copied message lies; NULL if its line names no shuttle, or one that has not been away. */
static const uint8_t *find_payload(struct tt_shm_channel *c, uint64_t number, const struct tt_shm_line *line)
{
    uint32_t shuttle = line->shuttle - 1;
    if (line->shuttle == 0)
        return c->payload_in + (number & (TT_SLOTS - 1)) * c->endpoint->slot_stride;
    if (shuttle >= TT_SHM_SHUTTLES_OF_PAIR || !tt_shuttle_arrive(&c->shuttles, shuttle))
        return NULL;
    return c->shuttles.at[shuttle];
}

/* The lines of a shuttle are here; those of a slot are with who read it last. Which it is, the message's line
 * says as well, but the peer looks at that: 2 KiB took a tenth longer. */
static void fill_room(struct tt_shm_channel *c, uint64_t number, void *room, const void *src, uint32_t bytes)
{
    if (c->copied[number & (TT_SLOTS - 1)] == number + 1)
        memcpy(room, src, bytes);
    else
        c->endpoint->copy(room, src, bytes);
}

/* The message has been read. The next one the other way is written where it lay. */
static void keep_shuttle(struct tt_shm_channel *c, uint64_t number)
{
    const struct tt_shm_line *line = &c->in[tt_shm_line_of(number)];
    uint32_t shuttle = line->shuttle - 1, bytes = line->bytes;
    uint32_t most = (uint32_t)c->endpoint->head.slot_bytes;
    if (line->path == TT_PATH_COPIED && shuttle < TT_SHM_SHUTTLES_OF_PAIR &&
        tt_shuttle_is_read(&c->shuttles, shuttle))
        tt_shuttle_release(&c->shuttles, shuttle, bytes < most ? bytes : most);
}

/* Writes all of a line but what says where the bytes are, the flag last. */
static void fill_line(struct tt_shm_line *line, struct tt_shm_channel *c, uint64_t number, uint32_t signature,
    uint32_t bytes, enum tt_path path, bool packed)
{
    uint32_t flag = tt_shm_flag(number);
    line->signature = signature;
    line->bytes = bytes;
    line->path = (uint8_t)path;
    line->packed = packed;
    c->posted[tt_shm_line_of(number)] = flag;
    c->next_line = tt_shm_line_of(number + 1);
    c->came_last = false;
    atomic_store_explicit(&line->flag, flag, memory_order_release);
}

/* Sets up to how many bytes a message may be posted, that is copied: longer ones may go in place between
 * threads. Where all ranks are threads of one process, they share all memory. */
void tt_shm_measure_posts(struct tt_shm_endpoint *e)
{
    uint64_t most = UINT64_MAX;
    int same = 0;
    for (int rank = 0; rank < e->head.n; rank++)
        same += rank != e->head.me && e->peers[rank].same;
    bool all = e->map && same == e->head.n - 1;
    if (e->map && same > 0 && !all)
        most = POST_BYTES;
    e->head.shared_from = all ? 0 : (uintptr_t)e->own->base;
    e->head.shared_bytes = all ? UINT64_MAX : e->map ? e->own->bytes : 0;
    e->head.post_bytes = most < e->head.slot_bytes ? most : e->head.slot_bytes;
    e->head.copy_bytes = POST_BYTES;
}

TT_INLINE void hand_out(struct tt_shm_channel *c, struct tt_shm_line *line, uint64_t number,
    uint32_t signature, uint32_t bytes, enum tt_path path)
{
    struct tt_shm_endpoint *e = c->endpoint;
    fill_line(line, c, number, signature, bytes, path, true);
    e->head.path_bytes[path] += bytes;
    tt_doorbell_ring_light(c->peer->bell, e->head.light);
}

/* The lines of whose acknowledgement is looked at next: now, while the message is on its way, for all. */
static inline void look_ahead(struct tt_shm_channel *c, uint64_t number)
{
    unsigned next = tt_shm_line_of(number + 1);
    if (next % TT_SHM_ACKS_AT_ONCE == 0)
        look_at_acks(c, next);
}

/* A function of its own, so that a message that fits a line saves no registers for it. */
static __attribute__((noinline)) bool post_long(
    struct tt_shm_channel *c, uint64_t number, uint32_t signature, const void *src, uint32_t bytes)
{
    unsigned at = tt_shm_line_of(number);
    if (!line_free(c, at))
        return false;
    struct tt_shm_line *line = &c->out[at];
    enum tt_path path = bytes <= TT_SHM_INLINE_BYTES ? TT_PATH_INLINE : TT_PATH_COPIED;
    if (src == NULL) {
        path = leave_as_reply(c, number, line) ? TT_PATH_COPIED : TT_PATH_PLACED;
    } else if (path == TT_PATH_INLINE) {
        tt_copy_few(line->payload, src, bytes);
    } else {
        uint8_t *room = find_room(c, number, bytes, line);
        if (room == NULL)
            return false;
        fill_room(c, number, room, src, bytes);
    }
    hand_out(c, line, number, signature, bytes, path);
    c->reading &= ~(UINT64_C(1) << at);
    look_ahead(c, number);
    return true;
}

static bool shm_post(
    struct tt_link *link, uint64_t number, uint32_t signature, const void *src, uint32_t bytes)
{
    struct tt_shm_channel *c = tt_shm_channel_of(link);
    unsigned at = tt_shm_line_of(number);
    if (bytes > TT_SHM_INLINE_BYTES || src == NULL || c->acked[at] != c->posted[at] || c->reading != 0)
        return post_long(c, number, signature, src, bytes);
    struct tt_shm_line *line = &c->out[at];
    tt_copy_few(line->payload, src, bytes);
    hand_out(c, line, number, signature, bytes, TT_PATH_INLINE);
    look_ahead(c, number);
    return true;
}

static bool shm_send(struct tt_link *link, const struct tt_message *m)
{
    struct tt_shm_channel *c = tt_shm_channel_of(link);
    struct tt_shm_endpoint *e = c->endpoint;
    unsigned at_line = tt_shm_line_of(m->number);
    uintptr_t address;
    uint64_t at = 0;
    bool packed = tt_shm_first_run(&m->source, &address) >= m->bytes;
    if (packed && !m->placed && m->bytes <= TT_SHM_INLINE_BYTES)
        return shm_post(link, m->number, m->signature, (const void *)address, (uint32_t)m->bytes);
    if (!line_free(c, at_line))
        return false;
    enum tt_path path = choose(c, m, packed, address, &at);
    if (path == TT_PATHS)
        return false;
    struct tt_shm_line *line = &c->out[at_line];
    bool replies = path == TT_PATH_COPIED && leave_as_reply(c, m->number, line);
    uint8_t *room =
        path == TT_PATH_COPIED && !replies ? find_room(c, m->number, m->bytes, line) : line->payload;
    if (room == NULL)
        return false;
    c->reading &= ~(UINT64_C(1) << at_line);
    if (replies) {
        packed = true;
    } else if (path == TT_PATH_INLINE || path == TT_PATH_COPIED) {
        if (packed && path == TT_PATH_COPIED)
            fill_room(c, m->number, room, (const void *)address, (uint32_t)m->bytes);
        else
            copy_runs(room, &m->source, m->bytes);
        packed = true;
    } else if (path != TT_PATH_PLACED) {
        line->source =
            (struct tt_shm_place){ .at = at, .stride = m->source.space.stride, .chunk = m->source.chunk };
        atomic_store_explicit(
            &line->single_reader, m->single_reader && path == TT_PATH_MAPPED, memory_order_relaxed);
        c->reading |= UINT64_C(1) << at_line;
        if (path == TT_PATH_PULLED)
            tt_shm_offer(c, m, line);
    }
    fill_line(line, c, m->number, m->signature, (uint32_t)m->bytes, path, packed);
    e->head.path_bytes[path] += m->bytes;
    tt_doorbell_ring_light(c->peer->bell, e->head.light);
    return true;
}

/* NULL: not in one run, or not in the peer's arena, or this rank may be given up while it reads. */
static const void *mapped(const struct tt_shm_channel *c, const struct tt_shm_line *line, uint32_t bytes)
{
    const struct tt_shm_peer *p = c->peer;
    uintptr_t base = line->source.at + (p->same ? 0 : (uintptr_t)p->arena->base);
    uint64_t at;
    bool legal = line->packed && tt_endpoint_inside(&c->endpoint->head) &&
                 (p->same || tt_arena_offset(p->arena, base, bytes, &at));
    return legal ? (const void *)base : NULL;
}

static enum tt_peek shm_peek(
    struct tt_link *link, uint64_t number, uint32_t signature, uint32_t bytes, const void **payload)
{
    struct tt_shm_channel *c = tt_shm_channel_of(link);
    const struct tt_shm_line *line = &c->in[tt_shm_line_of(number)];
    if (atomic_load_explicit(&line->flag, memory_order_acquire) != tt_shm_flag(number))
        return TT_PEEK_NOTHING;
    if (c->came_last) /* who only sends runs ahead, and has written the next one */
        __builtin_prefetch(&c->in[tt_shm_line_of(number + 1)]);
    if (line->signature != signature || line->bytes != bytes) {
        *payload = NULL;
        return TT_PEEK_ODD;
    }
    if (line->path == TT_PATH_INLINE && bytes <= TT_SHM_INLINE_BYTES)
        *payload = line->payload;
    else if (line->path == TT_PATH_COPIED)
        *payload = find_payload(c, number, line);
    else if (line->path == TT_PATH_PLACED && c->granted[number & (TT_SLOTS - 1)] == number + 1)
        return TT_PEEK_PLACED;
    else
        *payload = line->path == TT_PATH_MAPPED ? mapped(c, line, bytes) : NULL;
    return *payload != NULL ? TT_PEEK_THERE : TT_PEEK_ODD;
}

/* 1 + the shuttle that this message came by, and is still read from; 0: by none. */
uint32_t tt_shm_came_by(const struct tt_shm_channel *c, uint64_t number)
{
    const struct tt_shm_line *line = &c->in[tt_shm_line_of(number)];
    uint32_t shuttle = line->shuttle;
    bool came = line->path == TT_PATH_COPIED && shuttle - 1 < TT_SHM_SHUTTLES_OF_PAIR;
    return came && tt_shuttle_is_read(&c->shuttles, shuttle - 1) ? shuttle : 0;
}

/* Copies a message that its receiver could not pull; false if there is no room yet. */
static bool copy_after_all(struct tt_shm_channel *c, uint64_t number, struct tt_shm_line *line)
{
    const void *source = (const void *)(uintptr_t)line->source.at;
    uint8_t *room = find_room(c, number, line->bytes, line);
    if (room == NULL)
        return false;
    fill_room(c, number, room, source, line->bytes);
    line->path = TT_PATH_COPIED;
    c->endpoint->head.path_bytes[TT_PATH_COPIED] += line->bytes;
    c->endpoint->head.path_bytes[TT_PATH_PULLED] -= line->bytes;
    c->reading &= ~(UINT64_C(1) << tt_shm_line_of(number));
    atomic_store_explicit(&line->single_reader, true, memory_order_release);
    tt_doorbell_ring_light(c->peer->bell, c->endpoint->head.light);
    return true;
}

/* A line that tells of a copy has nobody's source. */
static bool shm_sent(struct tt_link *link, uint64_t number)
{
    struct tt_shm_channel *c = tt_shm_channel_of(link);
    struct tt_shm_line *line = &c->out[tt_shm_line_of(number)];
    const _Atomic uint64_t *answer = &c->grants_in[number & (TT_SLOTS - 1)].answer;
    if ((c->reading >> tt_shm_line_of(number) & 1) == 0 || tt_shm_released(c, number))
        return true;
    return line->path == TT_PATH_PULLED &&
           atomic_load_explicit(answer, memory_order_acquire) == tt_shm_answer(number, TT_SHM_COPY_IT) &&
           copy_after_all(c, number, line);
}

/* True if a message that could not be pulled has not been copied yet; its line may change. */
static bool is_awaited_again(const struct tt_shm_channel *c, uint64_t number, const struct tt_shm_line *line)
{
    return (c->pulls.asked >> (number & (TT_SLOTS - 1)) & 1) != 0 &&
           !atomic_load_explicit(&line->single_reader, memory_order_acquire);
}

static bool place(const struct tt_shm_endpoint *e, const struct tt_shm_peer *peer,
    const struct tt_shm_line *line, const struct tt_view *like, struct tt_arrival *a)
{
    bool elsewhere = a->path == TT_PATH_MAPPED && !peer->same;
    uintptr_t base = line->source.at + (elsewhere ? (uintptr_t)peer->arena->base : 0);
    uint64_t at;
    if (line->bytes == 0 || line->bytes > e->head.slot_bytes)
        return false;
    a->base = base;
    if (a->packed)
        return !elsewhere || tt_arena_offset(peer->arena, base, line->bytes, &at);
    return tt_shm_place_view(&line->source, line->bytes, like, base, &a->view) &&
           (!elsewhere || tt_shm_view_legal(peer->arena, &a->view));
}

static bool shm_arrived(
    struct tt_link *link, uint64_t number, const struct tt_view *like, struct tt_arrival *a)
{
    struct tt_shm_channel *c = tt_shm_channel_of(link);
    const struct tt_shm_endpoint *e = c->endpoint;
    unsigned slot = number & (TT_SLOTS - 1);
    const struct tt_shm_line *line = &c->in[tt_shm_line_of(number)];
    bool legal;
    if (atomic_load_explicit(&line->flag, memory_order_acquire) != tt_shm_flag(number) ||
        is_awaited_again(c, number, line) || (c->pulls.taking & tt_shm_bit(number)) != 0)
        return false;
    a->path = line->path;
    a->packed = line->packed;
    a->signature = line->signature;
    if (a->path == TT_PATH_INLINE) {
        a->base = (uintptr_t)line->payload;
        legal = line->bytes <= TT_SHM_INLINE_BYTES && a->packed;
    } else if (a->path == TT_PATH_COPIED) {
        a->base = (uintptr_t)find_payload(c, number, line);
        legal = line->bytes <= e->head.slot_bytes && a->packed && a->base != 0;
    } else if (a->path == TT_PATH_PULLED) {
        legal = line->bytes <= e->head.slot_bytes;
        a->packed = true;
        a->base = 0; /* nowhere: the caller finds that it is another message */
        if (line->whole != 0)
            tt_shm_decline(c, number);
        if (legal && !tt_shm_pull_odd(c, line, slot)) {
            if (!tt_shm_pull(c, number))
                return false;
            a->path = TT_PATH_PLACED;
        }
    } else if (a->path == TT_PATH_PLACED) {
        legal = c->granted[slot] == number + 1 && line->bytes <= e->head.slot_bytes;
    } else {
        legal = a->path == TT_PATH_MAPPED && place(e, c->peer, line, like, a);
    }
    a->bytes = a->available = legal ? line->bytes : 0;
    return true;
}

/* Threads have one arena. */
static void claim_source(struct tt_shm_channel *c, const struct tt_shm_line *line, uint64_t bytes)
{
    const struct tt_shm_peer *p = c->peer;
    const struct tt_arena *arena = p->same ? c->endpoint->own : p->arena;
    uintptr_t base = line->source.at + (p->same ? 0 : (uintptr_t)arena->base);
    uint64_t at;
    if (tt_arena_offset(arena, base, bytes, &at))
        claim_lines((volatile uint8_t *)base, bytes);
}

/* Claims the lines of what was read, unless it came by a shuttle, which this rank writes next anyway. */
static void take_what_was_read(struct tt_shm_channel *c, uint64_t number)
{
    struct tt_shm_line *line = &c->in[tt_shm_line_of(number)];
    uint64_t bytes = line->bytes, most = c->endpoint->head.slot_bytes;
    if (line->path == TT_PATH_COPIED && line->shuttle == 0)
        claim_lines(c->payload_in + (number & (TT_SLOTS - 1)) * c->endpoint->slot_stride,
            bytes < most ? bytes : most);
    else if (line->path == TT_PATH_MAPPED && line->packed &&
             atomic_load_explicit(&line->single_reader, memory_order_relaxed) != 0)
        claim_source(c, line, bytes);
}

/* Acknowledges a message, and asks for the line of the next message to this peer: a rank that has heard from
 * a peer mostly answers soon, and to ask for the line only when it is written takes longer. */
TT_INLINE void acknowledge(struct tt_shm_channel *c, uint64_t number)
{
    unsigned at = tt_shm_line_of(number);
    tt_prefetch_to_write(&c->out[c->next_line]);
    claim_lines(&c->in[at].taken, 1);
    c->came_last = true;
    atomic_store_explicit(&c->acks_out->flag[at], tt_shm_flag(number), memory_order_release);
    tt_doorbell_ring_light(c->peer->bell, c->endpoint->head.light);
}

/* A function of its own, as post_long is. */
static __attribute__((noinline)) void release_long(struct tt_shm_channel *c, uint64_t number)
{
    unsigned slot = number & (TT_SLOTS - 1);
    if (c->granted[slot] == number + 1) {
        c->granted[slot] = 0;
        c->endpoint->awaited--;
        c->pulls.bytes[slot] = 0;
        c->pulls.done &= (uint8_t) ~(1u << slot);
        if (c->in[tt_shm_line_of(number)].flag != tt_shm_flag(number)) /* it never came */
            return;
    }
    c->pulls.asked &= (uint8_t) ~(1u << slot);
    c->pulls.taking &= (uint8_t) ~(1u << slot);
    c->pulls.declined &= (uint8_t) ~(1u << slot);
    keep_shuttle(c, number);
    take_what_was_read(c, number);
    acknowledge(c, number);
}

static void shm_release(struct tt_link *link, uint64_t number)
{
    struct tt_shm_channel *c = tt_shm_channel_of(link);
    if (c->in[tt_shm_line_of(number)].path != TT_PATH_INLINE ||
        c->granted[number & (TT_SLOTS - 1)] == number + 1)
        release_long(c, number);
    else
        acknowledge(c, number);
}

/* --- Giving memory back */

/* Memory that is to go in one piece. Each piece takes the system a look at every process that maps the arena,
 * and among many ranks there are as many slots as there are pairs. So idle ones between two that have memory
 * go with them, and what is left after some pieces goes at a later look. */
enum { PIECES = 16 };
struct piece {
    uint8_t *from, *end; /* NULL: nothing is to go yet */
    uint8_t *idle_to; /* nobody uses what lies between `end` and here */
    int *left; /* so many more may begin */
};

static void empty(struct piece *piece)
{
    if (piece->from != NULL)
        tt_arena_empty(piece->from, (uint64_t)(piece->end - piece->from));
    piece->from = piece->idle_to = NULL;
}

/* Nobody uses this slot or shuttle. True if it has no memory, or that is to go. */
static bool add_idle(struct piece *piece, uint8_t *at, uint64_t bytes, bool has_memory)
{
    if (piece->idle_to != at)
        empty(piece);
    if (has_memory && piece->from == NULL) {
        if (*piece->left == 0)
            return false;
        --*piece->left;
        piece->from = at;
    }
    if (has_memory)
        piece->end = at + bytes;
    piece->idle_to = at + bytes;
    return true;
}

static void tidy_shuttles(struct tt_shm_channel *c, unsigned first, uint64_t slot_stride, struct piece *piece)
{
    struct tt_shuttles *s = &c->shuttles;
    for (unsigned shuttle = first; shuttle < first + TT_SHM_SHUTTLES; shuttle++) {
        bool idle = s->state[shuttle] == TT_SHUTTLE_OWNED && !s->used[shuttle];
        if (idle && add_idle(piece, s->at[shuttle], slot_stride, s->full[shuttle])) {
            s->read_bytes[shuttle] = 0;
            s->full[shuttle] = false;
        }
        s->used[shuttle] = false;
    }
}

/* Lets memory go that no message used since the last look: a message that was released nobody reads any more,
 * and a shuttle that is here is nobody else's, whoever's memory it is. What is this rank's lies in the order
 * of its channels. */
static void tidy_channel(struct tt_shm_channel *c, uint64_t slot_stride, struct piece *own)
{
    bool second = c->endpoint->head.me > c->head.peer;
    struct piece of_peer = { .left = own->left };
    for (unsigned slot = 0; slot < TT_SLOTS; slot++) {
        bool full = c->copied[slot] != 0;
        bool idle = !full || (c->copied[slot] == c->seen[slot] && slot_free(c, slot));
        if (idle && add_idle(own, c->payload_out + slot * slot_stride, slot_stride, full))
            c->copied[slot] = 0;
        c->seen[slot] = c->copied[slot];
    }
    tidy_shuttles(c, second ? TT_SHM_SHUTTLES : 0, slot_stride, own);
    tidy_shuttles(c, second ? 0 : TT_SHM_SHUTTLES, slot_stride, &of_peer);
    empty(&of_peer);
}

void tt_shm_tidy(struct tt_endpoint *head)
{
    struct tt_shm_endpoint *e = (struct tt_shm_endpoint *)head;
    int left = PIECES;
    struct piece own = { .left = &left };
    for (int channel = 0; channel < TT_CLASSES * head->n; channel++)
        if (e->channels[channel].peer != NULL) /* it reaches that rank */
            tidy_channel(&e->channels[channel], e->slot_stride, &own);
    empty(&own);
}

const struct tt_link_ops tt_shm_link_ops = {
    .send = shm_send,
    .post = shm_post,
    .sent = shm_sent,
    .arrived = shm_arrived,
    .peek = shm_peek,
    .release = shm_release,
    .grant = tt_shm_grant,
    .target = tt_shm_target,
    .pulls = tt_shm_pulls,
    .give = tt_shm_give,
    .take = tt_shm_take,
};

/* shm_path.c: the way of a message through shared memory. No lock, no system call but in pull, no division.
 *
 * The sender fills a line and writes its flag last; the receiver finds the flag and reads, then writes the
 * acknowledgement, and only that frees slot and line. The sender looks at acknowledgements in a private copy
 * first, so that the receiver's line of them moves between the caches once a lap and not once a message.
 *
 * A message of several runs is named by the place of its chunks, which the receiver cuts into runs with
 * its own layout; where chunks have places of their own, it is copied. Nothing read from a line is
 * believed: what leads out of a peer's arena, or cannot be, arrives with 0 bytes, which no caller
 * expects, and so ends as a mismatch. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/status.h"
#include "transports/shm_control.h"

/* Measured on two machines: up to 1 KiB a copy costs less than the wait for the reader would; the system
 * call that reads another process's memory wins from 64 KiB on one of them, and is level with two copies
 * on the other. */
enum { PULL_BYTES = 64 << 10, COPY_BYTES = 1 << 10, PULL_RUNS = 16 };

static uint64_t first_run(const struct tt_view *view, uintptr_t *address)
{
    uint64_t count;
    *address = tt_view_run(view, 0, &count);
    return count * view->layout->element_bytes;
}

/* Is all of this view inside; where is its base, counted from the start of the arena? Runs ascend, so the
 * ends tell. */
static bool view_inside(const struct tt_arena *arena, const struct tt_view *view)
{
    uintptr_t first;
    uint64_t at, count, element = view->layout->element_bytes;
    first_run(view, &first);
    uintptr_t last = tt_view_run(view, tt_view_count(view) - 1, &count);
    return last >= first && tt_arena_offset(arena, first, last - first + element, &at);
}

/* Asks the peer's segment only until it has an answer. */
static bool can_pull(const struct tt_shm_endpoint *e, struct tt_shm_peer *peer)
{
    if (peer->can_pull == TT_SHM_UNKNOWN) {
        const _Atomic uint8_t *answers = tt_shm_at(peer->control, e->shape.can_pull);
        peer->can_pull = atomic_load_explicit(&answers[e->head.me], memory_order_acquire);
    }
    return peer->can_pull == TT_SHM_CAN;
}

/* How the bytes travel; for MAPPED and PULLED also where they are. */
static enum tt_path choose(
    struct tt_shm_endpoint *e, const struct tt_message *m, bool packed, uintptr_t address, uint64_t *at)
{
    struct tt_shm_peer *peer = &e->peers[m->peer];
    if (m->bytes <= TT_SHM_INLINE_BYTES)
        return TT_PATH_INLINE;
    if (m->bytes <= COPY_BYTES || (!packed && m->source.space.places != NULL))
        return TT_PATH_COPIED;
    uintptr_t base = packed ? address : m->source.space.base;
    *at = base;
    if (e->map && peer->same)
        return TT_PATH_MAPPED;
    if (e->map &&
        (packed ? tt_arena_offset(e->own, address, m->bytes, at) : view_inside(e->own, &m->source))) {
        *at = base - (uintptr_t)e->own->base;
        return TT_PATH_MAPPED;
    }
    if (e->pull && !m->reduced && m->bytes >= PULL_BYTES && can_pull(e, peer))
        return TT_PATH_PULLED;
    return TT_PATH_COPIED;
}

static void copy_runs(uint8_t *to, const struct tt_view *view, uint64_t bytes)
{
    uint64_t element = view->layout->element_bytes, count;
    for (uint64_t at = 0; at * element < bytes; at += count) {
        uintptr_t run = tt_view_run(view, at, &count);
        memcpy(to + at * element, (const void *)run, count * element);
    }
}

static bool slot_free(struct tt_shm_channel *c, unsigned slot)
{
    if (c->acked[slot] == c->posted[slot])
        return true;
    c->acked[slot] = atomic_load_explicit(&c->acks_in->flag[slot], memory_order_acquire);
    return c->acked[slot] == c->posted[slot];
}

bool tt_shm_send(struct tt_endpoint *head, const struct tt_message *m)
{
    struct tt_shm_endpoint *e = (struct tt_shm_endpoint *)head;
    struct tt_shm_channel *c = tt_shm_channel(e, m->class, m->peer);
    unsigned slot = m->number & (TT_SLOTS - 1);
    if (!slot_free(c, slot))
        return false;
    uintptr_t address;
    uint64_t at = 0;
    bool packed = first_run(&m->source, &address) >= m->bytes;
    enum tt_path path = choose(e, m, packed, address, &at);
    struct tt_shm_line *line = &c->out[slot];
    if (path == TT_PATH_INLINE || path == TT_PATH_COPIED) {
        uint8_t *to = path == TT_PATH_INLINE ? line->payload : c->payload_out + slot * e->slot_stride;
        if (packed)
            memcpy(to, (const void *)address, m->bytes);
        else
            copy_runs(to, &m->source, m->bytes);
        packed = true;
        c->reading &= (uint8_t) ~(1u << slot);
    } else {
        line->source.at = at;
        line->source.stride = m->source.space.stride;
        line->source.chunk = m->source.chunk;
        c->reading |= (uint8_t)(1u << slot);
    }
    line->signature = m->signature;
    line->bytes = (uint32_t)m->bytes;
    line->path = (uint8_t)path;
    line->packed = packed;
    c->posted[slot] = tt_shm_flag(m->number);
    atomic_store_explicit(&line->flag, c->posted[slot], memory_order_release);
    head->path_bytes[path] += m->bytes;
    tt_doorbell_ring_light(e->peers[m->peer].bell, e->light);
    return true;
}

/* A slot that was posted again since was released before; one that holds a copy is nobody's source. */
bool tt_shm_sent(struct tt_endpoint *head, int peer, enum tt_class class, uint64_t number)
{
    struct tt_shm_channel *c = tt_shm_channel((struct tt_shm_endpoint *)head, class, peer);
    unsigned slot = number & (TT_SLOTS - 1);
    return c->posted[slot] != tt_shm_flag(number) || (c->reading >> slot & 1) == 0 || slot_free(c, slot);
}

/* The sender's view, cut by the receiver's layout. */
static bool place_view(
    const struct tt_shm_line *line, const struct tt_view *like, uintptr_t base, struct tt_view *view)
{
    const struct tt_layout *l = like->layout;
    *view = *like;
    view->space = (struct tt_space){ .base = base, .stride = line->source.stride };
    view->chunk = line->source.chunk;
    return tt_view_count(like) * l->element_bytes == line->bytes &&
           (view->space.stride != 0 || (uint64_t)view->chunk + view->nchunks <= l->chunks) &&
           tt_view_count(view) * l->element_bytes == line->bytes;
}

/* A view of the peer's arena. A stride from outside must not wrap round. */
static bool view_legal(const struct tt_arena *arena, const struct tt_view *view)
{
    return view->space.stride < arena->bytes && (uint64_t)view->chunk + view->nchunks < UINT32_MAX &&
           view_inside(arena, view);
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
    return place_view(line, like, base, &a->view) && (!elsewhere || view_legal(peer->arena, &a->view));
}

bool tt_shm_arrived(struct tt_endpoint *head, int peer, enum tt_class class, uint64_t number,
    const struct tt_view *like, struct tt_arrival *a)
{
    struct tt_shm_endpoint *e = (struct tt_shm_endpoint *)head;
    struct tt_shm_channel *c = tt_shm_channel(e, class, peer);
    unsigned slot = number & (TT_SLOTS - 1);
    const struct tt_shm_line *line = &c->in[slot];
    bool legal;
    if (atomic_load_explicit(&line->flag, memory_order_acquire) != tt_shm_flag(number))
        return false;
    a->path = line->path;
    a->packed = line->packed;
    a->signature = line->signature;
    if (a->path == TT_PATH_INLINE) {
        a->base = (uintptr_t)line->payload;
        legal = line->bytes <= TT_SHM_INLINE_BYTES && a->packed;
    } else if (a->path == TT_PATH_COPIED) {
        a->base = (uintptr_t)(c->payload_in + slot * e->slot_stride);
        legal = line->bytes <= head->slot_bytes && a->packed;
    } else {
        legal = a->path < TT_PATHS && place(e, &e->peers[peer], line, like, a);
    }
    a->bytes = a->available = legal ? line->bytes : 0;
    return true;
}

void tt_shm_release(struct tt_endpoint *head, int peer, enum tt_class class, uint64_t number)
{
    struct tt_shm_endpoint *e = (struct tt_shm_endpoint *)head;
    struct tt_shm_acks *acks = tt_shm_channel(e, class, peer)->acks_out;
    atomic_store_explicit(&acks->flag[number & (TT_SLOTS - 1)], tt_shm_flag(number), memory_order_release);
    tt_doorbell_ring_light(e->peers[peer].bell, e->light);
}

/* --- Reading another process's memory */

/* The next runs of the message, at most PULL_RUNS of them. */
static int list_runs(const struct tt_arrival *a, uint64_t at, uint64_t bytes, struct iovec *runs)
{
    int n = 0;
    for (; bytes > 0 && n < PULL_RUNS; n++) {
        uint64_t run;
        runs[n].iov_base = (void *)tt_arrival_run(a, at, &run);
        runs[n].iov_len = run < bytes ? run : bytes;
        at += runs[n].iov_len;
        bytes -= runs[n].iov_len;
    }
    return n;
}

tutti_status tt_shm_pull(
    struct tt_endpoint *head, int peer, const struct tt_arrival *a, uint64_t at, void *dst, uint64_t bytes)
{
    const struct tt_shm_peer *p = &((struct tt_shm_endpoint *)head)->peers[peer];
    uint8_t *to = dst;
    while (bytes > 0) {
        struct iovec local = { .iov_base = to, .iov_len = bytes }, runs[PULL_RUNS];
        int n = list_runs(a, at, bytes, runs);
        ssize_t got = process_vm_readv(p->pid, &local, 1, runs, (unsigned long)n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 && errno == ESRCH)
            return tt_fail(TUTTI_PEER_LOST, "rank %d died while its memory was read", peer);
        if (got <= 0)
            return tt_fail_errno(TUTTI_SYSTEM_ERROR, "the memory of rank %d cannot be read", peer);
        to += got;
        at += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return TUTTI_OK;
}

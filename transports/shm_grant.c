/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_grant.c: a receiver says where its message may be put.
 *
 * A grant is a line the other way, with the whole number of its message, so that one of long ago is never
 * taken for it. It is overwritten only when the message it was for has been released: by then its sender
 * does not read it any more. What is not right in one is as good as none. */
#include "transports/shm_place.h"

/* True if a grant of this message can be of use, and no other grant is in its way. */
static bool may_grant(
    const struct tt_shm_endpoint *e, const struct tt_shm_channel *c, uint64_t number, uint64_t bytes)
{
    if (c->granted[number & (TT_SLOTS - 1)] != 0 || bytes <= TT_SHM_COPY_BYTES || bytes > e->head.slot_bytes)
        return false;
    const _Atomic uint32_t *gone = &c->acks_out->flag[tt_shm_line_of(number)]; /* it has come and */
    return atomic_load_explicit(gone, memory_order_relaxed) != tt_shm_flag(number);
}

/* Writes a grant, its number last. */
static void write_grant(struct tt_shm_channel *c, uint64_t number, uint32_t signature, uint64_t bytes,
    bool packed, enum tt_shm_memory memory, const struct tt_shm_place *place, uint64_t after)
{
    unsigned slot = number & (TT_SLOTS - 1);
    struct tt_shm_grant *grant = &c->grants_out[slot];
    grant->place = *place;
    grant->signature = signature;
    grant->bytes = (uint32_t)bytes;
    grant->packed = packed;
    grant->memory = (uint8_t)memory;
    grant->after = after;
    c->granted[slot] = number + 1;
    c->endpoint->awaited++;
    atomic_store_explicit(&grant->number, number + 1, memory_order_release);
}

bool tt_shm_grant(
    struct tt_link *link, uint64_t number, uint32_t signature, const struct tt_view *place, uint64_t after)
{
    struct tt_shm_channel *c = tt_shm_channel_of(link);
    const struct tt_shm_endpoint *e = c->endpoint;
    uint64_t bytes = tt_view_count(place) * place->layout->element_bytes, at;
    uintptr_t address;
    if (!may_grant(e, c, number, bytes))
        return false;
    bool packed = tt_shm_first_run(place, &address) >= bytes;
    enum tt_shm_memory memory = TT_SHM_MAPPED;
    if (!tt_shm_expose(e, c->peer, place, bytes, packed, address, &at)) {
        if (packed && after == 0)
            memory = tt_shm_grant_private(c, number, signature, address, bytes);
        if (memory == TT_SHM_MAPPED)
            return false;
        at = address;
    }
    struct tt_shm_place where = { .at = at, .stride = place->space.stride, .chunk = place->chunk };
    write_grant(c, number, signature, bytes, packed, memory, &where, after);
    return true;
}

/* True if nothing at the granted place has to be read first: this rank has released what lies there, or reads
 * it as it stores. */
static bool may_store(const struct tt_shm_channel *c, const struct tt_shm_grant *grant, uint64_t reads)
{
    uint64_t after = grant->after;
    if (after == 0 || after == reads)
        return true;
    const _Atomic uint32_t *released = &c->acks_out->flag[tt_shm_line_of(after - 1)];
    return atomic_load_explicit(released, memory_order_relaxed) == tt_shm_flag(after - 1);
}

/* True if the receiver has granted a place for the message; *view is that place. No bell: nobody waits for a
 * grant. One that comes while the message is stored in a shuttle is too late. */
static bool find_grant(
    const struct tt_shm_channel *c, const struct tt_message *m, bool readable, struct tt_view *view)
{
    const struct tt_shm_endpoint *e = c->endpoint;
    const struct tt_shm_peer *peer = c->peer;
    const struct tt_shm_grant *grant = &c->grants_in[m->number & (TT_SLOTS - 1)];
    uint64_t at;
    if (c->replies[m->number & (TT_SLOTS - 1)] != 0 || !tt_endpoint_inside(&e->head) ||
        atomic_load_explicit(&grant->number, memory_order_acquire) != m->number + 1)
        return false;
    struct tt_shm_place place = grant->place;
    if (grant->memory != TT_SHM_MAPPED || grant->bytes != m->bytes || grant->signature != m->signature ||
        !may_store(c, grant, m->reads))
        return false;
    if (!readable) {
        uintptr_t address;
        bool packed = tt_shm_first_run(&m->source, &address) >= m->bytes;
        if (tt_shm_expose(e, peer, &m->source, m->bytes, packed, address, &at))
            return false;
    }
    uintptr_t base = place.at + (peer->same ? 0 : (uintptr_t)peer->arena->base);
    bool fits = grant->packed != 0 ? tt_view_pack(&m->source, base, view)
                                   : tt_shm_place_view(&place, m->bytes, &m->source, base, view);
    return fits && (peer->same || tt_shm_view_legal(peer->arena, view));
}

/* True if the message that the unit reads came by a shuttle, which is reserved for this one from now on;
 * *view is there. */
static bool reserve_shuttle(struct tt_shm_channel *c, const struct tt_message *m, struct tt_view *view)
{
    uint32_t shuttle = m->reads != 0 ? tt_shm_came_by(c, m->reads - 1) : 0;
    if (shuttle == 0 || m->bytes > c->endpoint->head.slot_bytes ||
        !tt_view_pack(&m->source, (uintptr_t)c->shuttles.at[shuttle - 1], view))
        return false;
    c->replies[m->number & (TT_SLOTS - 1)] = (uint8_t)shuttle;
    tt_shuttle_reserve(&c->shuttles, shuttle - 1);
    return true;
}

enum tt_target tt_shm_target(
    struct tt_link *link, const struct tt_message *m, unsigned flags, struct tt_view *view)
{
    struct tt_shm_channel *c = tt_shm_channel_of(link);
    if (m->bytes > TT_SHM_COPY_BYTES && find_grant(c, m, (flags & TT_UNLESS_READABLE) == 0, view))
        return TT_TARGET_GRANTED;
    return (flags & TT_ALLOW_REPLY) != 0 && reserve_shuttle(c, m, view) ? TT_TARGET_REPLY : TT_TARGET_NONE;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_grant.c: a receiver says where its message may be put.
 *
 * A grant is a line the other way, with the whole number of its message, so that one of long ago is never
 * taken for it. It is overwritten only when the message it was for has been released: by then its sender
 * does not read it any more. What is not right in one is as good as none. */
#include "transports/shm_place.h"

/* No other grant is in its way, and it can be of use. */
static bool may_grant(
    const struct tt_shm_endpoint *e, const struct tt_shm_channel *c, uint64_t number, uint64_t bytes)
{
    if (c->granted[number & (TT_SLOTS - 1)] != 0 || bytes <= TT_SHM_COPY_BYTES || bytes > e->head.slot_bytes)
        return false;
    const _Atomic uint32_t *gone = &c->acks_out->flag[tt_shm_line_of(number)]; /* it has come and */
    return atomic_load_explicit(gone, memory_order_relaxed) != tt_shm_flag(number);
}

/* The number last. */
static void write_grant(struct tt_shm_channel *c, uint64_t number, uint32_t signature, uint64_t bytes,
    bool packed, const struct tt_shm_place *place, uint64_t after)
{
    unsigned slot = number & (TT_SLOTS - 1);
    struct tt_shm_grant *grant = &c->grants_out[slot];
    grant->place = *place;
    grant->signature = signature;
    grant->bytes = (uint32_t)bytes;
    grant->packed = packed;
    grant->after = after;
    c->granted[slot] = number + 1;
    atomic_store_explicit(&grant->number, number + 1, memory_order_release);
}

static bool grant_place(struct tt_endpoint *head, int peer, enum tt_class class, uint64_t number,
    uint32_t signature, const struct tt_view *place, uint64_t after)
{
    struct tt_shm_endpoint *e = (struct tt_shm_endpoint *)head;
    struct tt_shm_channel *c = tt_shm_channel(e, class, peer);
    uint64_t bytes = tt_view_count(place) * place->layout->element_bytes, at;
    uintptr_t address;
    if (!may_grant(e, c, number, bytes))
        return false;
    bool packed = tt_shm_first_run(place, &address) >= bytes;
    if (!tt_shm_expose(e, &e->peers[peer], place, bytes, packed, address, &at))
        return false;
    struct tt_shm_place where = { .at = at, .stride = place->space.stride, .chunk = place->chunk };
    write_grant(c, number, signature, bytes, packed, &where, after);
    return true;
}

bool tt_shm_grant(struct tt_endpoint *head, int peer, enum tt_class class, uint64_t number,
    uint32_t signature, const struct tt_view *place)
{
    return grant_place(head, peer, class, number, signature, place, 0);
}

bool tt_shm_grant_after(struct tt_endpoint *head, int peer, enum tt_class class, uint64_t number,
    uint32_t signature, const struct tt_view *place, uint64_t after)
{
    return grant_place(head, peer, class, number, signature, place, after + 1);
}

/* Nothing of a place has to be read first: this rank has released it, or reads it as it stores. */
static bool may_store(const struct tt_shm_channel *c, const struct tt_shm_grant *grant, uint64_t reads)
{
    uint64_t after = grant->after;
    if (after == 0 || after == reads)
        return true;
    const _Atomic uint32_t *released = &c->acks_out->flag[tt_shm_line_of(after - 1)];
    return atomic_load_explicit(released, memory_order_relaxed) == tt_shm_flag(after - 1);
}

/* No bell: nobody waits for a grant. One that comes while the message is stored in a shuttle is too late. */
bool tt_shm_granted(struct tt_endpoint *head, const struct tt_message *m, bool in_place, struct tt_view *view)
{
    struct tt_shm_endpoint *e = (struct tt_shm_endpoint *)head;
    const struct tt_shm_peer *peer = &e->peers[m->peer];
    const struct tt_shm_channel *c = tt_shm_channel(e, m->class, m->peer);
    const struct tt_shm_grant *grant = &c->grants_in[m->number & (TT_SLOTS - 1)];
    uint64_t at;
    if (m->bytes <= TT_SHM_COPY_BYTES || c->replies[m->number & (TT_SLOTS - 1)] != 0 ||
        atomic_load_explicit(&grant->number, memory_order_acquire) != m->number + 1)
        return false;
    struct tt_shm_place place = grant->place;
    if (grant->bytes != m->bytes || grant->signature != m->signature || !may_store(c, grant, m->reads))
        return false;
    if (in_place) {
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

bool tt_shm_offer(
    struct tt_link *link, uint64_t number, uint32_t signature, void *place, uint32_t bytes, uint64_t after)
{
    struct tt_shm_channel *c = tt_shm_channel_of(link);
    const struct tt_shm_endpoint *e = c->endpoint;
    uint64_t at = (uintptr_t)place;
    if (!e->map || !may_grant(e, c, number, bytes) ||
        (!c->peer->same && !tt_arena_offset(e->own, (uintptr_t)place, bytes, &at)))
        return false;
    write_grant(c, number, signature, bytes, true, &(struct tt_shm_place){ .at = at }, after);
    return true;
}

void *tt_shm_offered(
    struct tt_link *link, uint64_t number, uint32_t signature, uint32_t bytes, uint64_t reads)
{
    const struct tt_shm_channel *c = tt_shm_channel_of(link);
    const struct tt_shm_peer *p = c->peer;
    const struct tt_shm_grant *grant = &c->grants_in[number & (TT_SLOTS - 1)];
    uint64_t at;
    if (bytes <= TT_SHM_COPY_BYTES || c->endpoint->entered == 0 ||
        atomic_load_explicit(&grant->number, memory_order_acquire) != number + 1)
        return NULL;
    uintptr_t base = grant->place.at + (p->same ? 0 : (uintptr_t)p->arena->base);
    bool fits = grant->packed != 0 && grant->bytes == bytes && grant->signature == signature;
    bool legal = p->same || tt_arena_offset(p->arena, base, bytes, &at);
    return fits && legal && may_store(c, grant, reads) ? (void *)base : NULL;
}

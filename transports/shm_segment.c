/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_segment.c: the control segment: its shape, its first state, and its end, which its owner does not
 * decide alone. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/status.h"
#include "transports/shm_segment.h"

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Put `bytes` more at the end, on a multiple of `unit`. */
static uint64_t add_part(uint64_t *end, uint64_t bytes, uint64_t unit)
{
    uint64_t at = round_up(*end, unit);
    *end = at + bytes;
    return at;
}

void tt_shm_shape(struct tt_shm_shape *shape, int n, uint64_t slot_bytes, uint32_t words)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), ranks = (uint64_t)n, pairs = TT_CLASSES * ranks;
    uint64_t end = sizeof(struct tt_shm_control);
    shape->slot_stride = round_up(slot_bytes, page);
    shape->holders = add_part(&end, ranks * sizeof(_Atomic uint32_t), 64);
    shape->refused = add_part(&end, 2 * ranks * sizeof(_Atomic uint64_t), 64);
    shape->lines = add_part(&end, pairs * TT_SHM_LINES * sizeof(struct tt_shm_line), 64);
    shape->acks = add_part(&end, pairs * sizeof(struct tt_shm_acks), 64);
    shape->grants = add_part(&end, pairs * TT_SLOTS * sizeof(struct tt_shm_grant), 64);
    shape->words = words > 0 ? add_part(&end, words * sizeof(_Atomic uint32_t), 64) : 0;
    shape->payload = add_part(&end, pairs * (TT_SLOTS + TT_SHM_SHUTTLES) * shape->slot_stride, page);
    shape->bytes = end;
}

/* The flag of the last number before `first` that used this line. */
static uint32_t flag_before(uint64_t first, unsigned line)
{
    uint64_t oldest = first - TT_SHM_LINES;
    return tt_shm_flag(oldest + tt_shm_line_of(line - oldest));
}

static void fill(struct tt_shm_control *control, const struct tt_shm_shape *shape, int n)
{
    struct tt_shm_line *lines = tt_shm_at(control, shape->lines);
    struct tt_shm_acks *acks = tt_shm_at(control, shape->acks);
    for (int pair = 0; pair < TT_CLASSES * n; pair++)
        for (unsigned line = 0; line < TT_SHM_LINES; line++) {
            uint32_t flag = flag_before(control->first_number, line);
            atomic_init(&lines[(size_t)pair * TT_SHM_LINES + line].flag, flag);
            atomic_init(&acks[pair].flag[line], flag);
        }
    _Atomic uint32_t *holders = tt_shm_at(control, shape->holders);
    for (int rank = 0; rank < n; rank++)
        atomic_init(&holders[rank], rank == control->rank ? TT_SHM_GONE : control->token);
}

tutti_status tt_shm_segment_create(const struct tt_endpoint_params *params, const struct tt_shm_shape *shape,
    struct tt_shm_control **control, struct tt_shm_deferred_free **deferred)
{
    uint32_t token;
    void *memory;
    if (getrandom(&token, sizeof token, 0) != sizeof token)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "no random bytes for an endpoint");
    struct tt_shm_deferred_free *made = calloc(1, sizeof *made + (size_t)params->n * sizeof made->arenas[0]);
    if (made == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for an endpoint of %d ranks", params->n);
    tutti_status status = tt_arena_alloc(shape->bytes, &memory);
    if (status != TUTTI_OK) {
        free(made);
        return status;
    }
    struct tt_shm_control *c = memory;
    c->version = TT_SHM_VERSION;
    c->token = token | 2; /* neither of the two words that mean something */
    c->n = params->n;
    c->rank = params->me;
    c->bytes = shape->bytes;
    c->slot_bytes = params->slot_bytes;
    c->first_number = params->first_number;
    fill(c, shape, params->n);
    made->head.ptr = c;
    made->n = params->n;
    made->holders = tt_shm_at(c, shape->holders);
    *control = c;
    *deferred = made;
    return TUTTI_OK;
}

/* Each rank begins with its own. To itself it has none: a slot is as good. */
static void hand_out_shuttles(struct tt_shm_endpoint *e, int peer, struct tt_shm_channel *c)
{
    bool second = e->head.me > peer;
    uint64_t stride = e->shape.slot_stride;
    unsigned own = second ? TT_SHM_SHUTTLES : 0, others = second ? 0 : TT_SHM_SHUTTLES;
    struct tt_shuttles *s = &c->shuttles;
    for (unsigned i = 0; i < TT_SHM_SHUTTLES; i++) {
        s->at[own + i] = c->payload_out + (TT_SLOTS + i) * stride;
        s->at[others + i] = c->payload_in + (TT_SLOTS + i) * stride;
        s->state[own + i] = e->head.me == peer ? TT_SHUTTLE_AWAY : TT_SHUTTLE_OWNED;
        s->state[others + i] = TT_SHUTTLE_AWAY;
    }
    s->read_last = (uint8_t)own;
}

void tt_shm_channel_init(struct tt_shm_endpoint *e, unsigned class, int peer)
{
    uint64_t there = class * (uint64_t)e->head.n + (uint64_t)peer;
    uint64_t here = class * (uint64_t)e->head.n + (uint64_t)e->head.me; /* what a peer keeps for me */
    const uint64_t slots = TT_SLOTS + TT_SHM_SHUTTLES;
    const struct tt_shm_shape *s = &e->shape;
    struct tt_shm_control *mine = e->control, *theirs = e->peers[peer].control;
    struct tt_shm_channel *c = tt_shm_channel(e, class, peer);
    e->head.links[class * (unsigned)e->head.n + (unsigned)peer] = &c->head;
    c->head = (struct tt_link){ .ops = &tt_shm_link_ops, .endpoint = &e->head, .peer = peer };
    c->endpoint = e;
    c->peer = &e->peers[peer];
    c->out = (struct tt_shm_line *)tt_shm_at(mine, s->lines) + there * TT_SHM_LINES;
    c->acks_out = (struct tt_shm_acks *)tt_shm_at(mine, s->acks) + there;
    c->grants_out = (struct tt_shm_grant *)tt_shm_at(mine, s->grants) + there * TT_SLOTS;
    c->payload_out = tt_shm_at(mine, s->payload + there * slots * s->slot_stride);
    c->in = (struct tt_shm_line *)tt_shm_at(theirs, s->lines) + here * TT_SHM_LINES;
    c->acks_in = (struct tt_shm_acks *)tt_shm_at(theirs, s->acks) + here;
    c->grants_in = (struct tt_shm_grant *)tt_shm_at(theirs, s->grants) + here * TT_SLOTS;
    c->payload_in = tt_shm_at(theirs, s->payload + here * slots * s->slot_stride);
    hand_out_shuttles(e, peer, c);
    for (unsigned line = 0; line < TT_SHM_LINES; line++)
        c->posted[line] = c->acked[line] = flag_before(mine->first_number, line);
}

/* True if no living rank holds the segment; then what *head is part of is freed, too. */
static bool nobody_holds(struct tt_deferred_free *head)
{
    struct tt_shm_deferred_free *deferred = (struct tt_shm_deferred_free *)head;
    for (int rank = 0; rank < deferred->n; rank++) {
        const struct tt_arena *arena = deferred->arenas[rank]; /* NULL: never connected to that one */
        if (atomic_load_explicit(&deferred->holders[rank], memory_order_acquire) == TT_SHM_HELD &&
            (arena == NULL || tt_arena_alive(arena)))
            return false;
    }
    for (int rank = 0; rank < deferred->n; rank++)
        if (deferred->arenas[rank] != NULL)
            tt_arena_release(deferred->arenas[rank]);
    tt_arena_drop_share(deferred->bequeathed);
    free(deferred);
    return true;
}

/* A rank that has not connected by now never will: its token is gone. */
void tt_shm_segment_free_later(struct tt_shm_endpoint *e)
{
    _Atomic uint32_t *holders = tt_shm_at(e->control, e->shape.holders);
    for (int rank = 0; rank < e->head.n; rank++) {
        uint32_t token = e->control->token;
        atomic_compare_exchange_strong(&holders[rank], &token, TT_SHM_GONE);
        e->deferred->arenas[rank] = e->peers[rank].arena;
    }
    e->deferred->head.idle = nobody_holds;
    tt_arena_free_later(&e->deferred->head);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_place.h: where bytes lie, told to a peer, and what a peer told, looked at before it is used. Inline,
 * because every long message asks. */
#ifndef TT_TRANSPORTS_SHM_PLACE_H
#define TT_TRANSPORTS_SHM_PLACE_H
#include "transports/shm_segment.h"

/* Up to here a message is copied: that costs less than the wait for its reader would
 * (perf/results/README.md). */
enum { TT_SHM_COPY_BYTES = 1 << 10 };

static inline uint64_t tt_shm_first_run(const struct tt_view *view, uintptr_t *address)
{
    uint64_t count;
    *address = tt_view_run(view, 0, &count);
    return count * view->layout->element_bytes;
}

/* True if all of this view is inside the arena. Runs ascend, so the ends tell. */
static inline bool tt_shm_view_inside(const struct tt_arena *arena, const struct tt_view *view)
{
    uintptr_t first;
    uint64_t at, count, element = view->layout->element_bytes;
    tt_shm_first_run(view, &first);
    uintptr_t last = tt_view_run(view, tt_view_count(view) - 1, &count);
    return last >= first && tt_arena_offset(arena, first, last - first + element, &at);
}

/* True if this peer can reach the bytes of this view; *at is the word that names them to it. *packed,
 * *address: its first run. */
static inline bool tt_shm_expose(const struct tt_shm_endpoint *e, const struct tt_shm_peer *peer,
    const struct tt_view *view, uint64_t bytes, bool packed, uintptr_t address, uint64_t *at)
{
    *at = packed ? address : view->space.base;
    if (!e->map || (!packed && view->space.displs != NULL))
        return false;
    if (peer->same)
        return true;
    if (!(packed ? tt_arena_offset(e->own, address, bytes, at) : tt_shm_view_inside(e->own, view)))
        return false;
    *at = (packed ? address : view->space.base) - (uintptr_t)e->own->base;
    return true;
}

/* The other side's view, cut by the layout of this one. */
static inline bool tt_shm_place_view(const struct tt_shm_place *place, uint64_t bytes,
    const struct tt_view *like, uintptr_t base, struct tt_view *view)
{
    const struct tt_layout *l = like->layout;
    *view = *like;
    view->space = (struct tt_space){ .base = base, .stride = place->stride };
    view->chunk = place->chunk;
    return tt_view_count(like) * l->element_bytes == bytes &&
           (view->space.stride != 0 || (uint64_t)view->chunk + view->nchunks <= l->chunks) &&
           tt_view_count(view) * l->element_bytes == bytes;
}

/* A view of the peer's arena. A stride from outside must not wrap round. */
static inline bool tt_shm_view_legal(const struct tt_arena *arena, const struct tt_view *view)
{
    return view->space.stride < arena->bytes && (uint64_t)view->chunk + view->nchunks < UINT32_MAX &&
           tt_shm_view_inside(arena, view);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* layout.h: from chunks to bytes, at call time.
 *
 * Chunk c of `count` elements over `chunks` chunks starts at c*q + min(c, r), q = count / chunks, r =
 * count % chunks; a v-collective gives the counts itself. Slice z is the z-th part of *each* chunk, by the
 * same rule, never a cut of a range by bytes: the schedule's hazards are per chunk, so they hold per
 * slice. Where a rank knows only its own counts, the number of slices would be a secret of each, and so a
 * slice is a fixed length of each chunk. Schedules know nothing of this file. */
#ifndef TT_BASE_LAYOUT_H
#define TT_BASE_LAYOUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_layout {
    uint64_t count; /* elements in all */
    uint32_t chunks;
    uint32_t slices;
    uint32_t element_bytes;
    const size_t *counts; /* v-forms: elements per chunk; NULL: even parts of count */
    const uint64_t *starts; /* v-forms: packed start of each chunk */
    uint64_t slice_elements; /* v-forms: a slice is so many elements of each chunk; 0: an even part of it */
    uint64_t quotient, remainder; /* of count over chunks */
    uint64_t part[2], part_remainder[2]; /* of a chunk of quotient (+ 1) elements over slices */
};

struct tt_part { /* in elements */
    uint64_t first, count;
};

/* How chunks are cut into slices. */
struct tt_slicing {
    uint32_t slices;
    uint64_t most; /* elements of a chunk that one message may carry */
    uint64_t longest; /* elements of the longest slice of a chunk */
};
/* Returns as few slices, and as even, as let a message of `max_chunks` chunks fit a slot. The longest chunk
 * has `chunk` elements. */
struct tt_slicing tt_layout_slicing(
    uint64_t chunk, uint64_t slot_bytes, uint32_t element_bytes, uint32_t max_chunks);

void tt_layout_even(
    struct tt_layout *l, uint64_t count, uint32_t chunks, uint32_t slices, uint32_t element_bytes);
/* counts and starts have one entry per chunk and must outlive the layout, which fills starts. */
void tt_layout_v(struct tt_layout *l, const size_t *counts, uint64_t *starts, uint32_t chunks,
    uint32_t slices, uint32_t element_bytes);

/* Inline, because every poll of a message asks for its length. */
static inline struct tt_part tt_layout_chunk(const struct tt_layout *l, uint32_t chunk)
{
    if (l->counts != NULL)
        return (struct tt_part){ l->starts[chunk], l->counts[chunk] };
    uint64_t longer = chunk < l->remainder ? chunk : l->remainder; /* chunks before this one */
    return (struct tt_part){ chunk * l->quotient + longer, l->quotient + (chunk < l->remainder) };
}
/* Slice z of a chunk; `first` counts from the start of the chunk. */
struct tt_part tt_layout_part(const struct tt_layout *l, uint32_t chunk, uint32_t slice);
/* The longest slice of any chunk, in elements: what a TMP cell must hold. */
uint64_t tt_layout_part_max(const struct tt_layout *l);

/* The place where a rank keeps a buffer: chunk c starts at base + element_bytes * (displs ? displs[c] :
 * packed start of c), or, with stride, base + c * stride holds the slice in flight (TMP). Arithmetic is on
 * integers because a rank may own only the middle of a space: the base of reduce_scatter's OUT lies before
 * the buffer. */
struct tt_space {
    uintptr_t base;
    const size_t *displs;
    uint64_t stride;
};

/* Slice z of `nchunks` consecutive chunks of a space: what one message carries. It is `nchunks` runs of
 * bytes, one if the slice is the whole chunk and the space is packed. */
struct tt_view {
    const struct tt_layout *layout;
    struct tt_space space;
    uint32_t chunk; /* of TMP: the cell; it has the length of chunk (cell mod chunks) */
    uint32_t nchunks;
    uint32_t slice;
};

uint64_t tt_view_count_any(const struct tt_view *v);
uintptr_t tt_view_run_any(const struct tt_view *v, uint64_t at, uint64_t *count);

/* A chunk that is one slice, as all are of a small operation, which asks for little else. */
static inline bool tt_view_is_chunk(const struct tt_view *v)
{
    return v->nchunks == 1 && v->layout->slices == 1 && v->chunk < v->layout->chunks;
}

/* Elements. */
static inline uint64_t tt_view_count(const struct tt_view *v)
{
    return tt_view_is_chunk(v) ? tt_layout_chunk(v->layout, v->chunk).count : tt_view_count_any(v);
}

/* Tells address and elements of a view that is one run, as nearly all of a small operation is. False if it is
 * not known to be one. */
static inline bool tt_view_cell(const struct tt_view *v, uintptr_t *address, uint64_t *count)
{
    const struct tt_layout *l = v->layout;
    if (v->nchunks != 1 || l->slices != 1)
        return false;
    uint32_t chunk = v->chunk < l->chunks ? v->chunk : v->chunk % l->chunks;
    struct tt_part part = tt_layout_chunk(l, chunk);
    uint64_t start = v->space.displs != NULL ? v->space.displs[chunk] : part.first;
    uint64_t bytes = v->space.stride != 0 ? v->chunk * v->space.stride : start * l->element_bytes;
    *count = part.count;
    *address = v->space.base + (uintptr_t)bytes;
    return true;
}

/* The contiguous bytes at element `at` of the view: returns the address and sets *count (elements, never 0
 * before the end). O(1) for one chunk. */
static inline uintptr_t tt_view_run(const struct tt_view *v, uint64_t at, uint64_t *count)
{
    uintptr_t address;
    if (!tt_view_cell(v, &address, count))
        return tt_view_run_any(v, at, count);
    *count -= at;
    return address + (uintptr_t)(at * v->layout->element_bytes);
}

#endif

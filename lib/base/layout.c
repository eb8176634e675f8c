/* SPDX-License-Identifier: BSD-3-Clause */
/* layout.c: chunks, slices and runs. All arithmetic in 64 bits; the divisions by the slice count are done
 * once per call for the two lengths that even chunks can have, so that a step costs none. */
#include "base/layout.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct tt_slicing tt_layout_slicing(
    uint64_t chunk, uint64_t slot_bytes, uint32_t element_bytes, uint32_t max_chunks)
{
    uint64_t most = slot_bytes / element_bytes / max_chunks;
    most = most > 0 ? most : 1;
    uint64_t slices = chunk / most + (chunk % most > 0);
    slices = slices > 0 ? slices : 1;
    return (struct tt_slicing){ (uint32_t)slices, most, chunk / slices + (chunk % slices > 0) };
}

void tt_layout_even(
    struct tt_layout *l, uint64_t count, uint32_t chunks, uint32_t slices, uint32_t element_bytes)
{
    *l = (struct tt_layout){
        .count = count, .chunks = chunks, .slices = slices, .element_bytes = element_bytes
    };
    l->quotient = count / chunks;
    l->remainder = count % chunks;
    for (uint64_t more = 0; more < 2; more++) {
        l->part[more] = (l->quotient + more) / slices;
        l->part_remainder[more] = (l->quotient + more) % slices;
    }
}

void tt_layout_v(struct tt_layout *l, const size_t *counts, uint64_t *starts, uint32_t chunks,
    uint32_t slices, uint32_t element_bytes)
{
    *l = (struct tt_layout){ .chunks = chunks, .slices = slices, .element_bytes = element_bytes };
    l->counts = counts;
    l->starts = starts;
    for (uint32_t c = 0; c < chunks; c++) {
        starts[c] = l->count;
        l->count += counts[c];
    }
}

static inline struct tt_part part_of(const struct tt_layout *l, uint32_t chunk, uint32_t slice)
{
    uint64_t part, remainder;
    if (l->slice_elements > 0) {
        uint64_t first = smaller(slice * l->slice_elements, l->counts[chunk]);
        return (struct tt_part){ first, smaller(l->counts[chunk] - first, l->slice_elements) };
    }
    if (l->slices == 1)
        return (struct tt_part){ 0, tt_layout_chunk(l, chunk).count };
    if (l->counts != NULL) {
        part = l->counts[chunk] / l->slices;
        remainder = l->counts[chunk] % l->slices;
    } else {
        int more = chunk < l->remainder;
        part = l->part[more];
        remainder = l->part_remainder[more];
    }
    return (struct tt_part){ slice * part + smaller(slice, remainder), part + (slice < remainder) };
}

struct tt_part tt_layout_part(const struct tt_layout *l, uint32_t chunk, uint32_t slice)
{
    return part_of(l, chunk, slice);
}

uint64_t tt_layout_part_max(const struct tt_layout *l)
{
    uint64_t longest = 0;
    if (l->counts == NULL)
        longest = l->quotient + (l->remainder > 0);
    else
        for (uint32_t c = 0; c < l->chunks; c++)
            longest = l->counts[c] > longest ? l->counts[c] : longest;
    return longest / l->slices + (longest % l->slices > 0);
}

/* The bytes of one chunk's slice in a view: address and elements. */
static inline uintptr_t piece(const struct tt_view *v, uint32_t chunk, uint64_t *count)
{
    const struct tt_layout *l = v->layout;
    const struct tt_space *s = &v->space;
    uint32_t c = chunk < l->chunks ? chunk : chunk % l->chunks;
    struct tt_part part = part_of(l, c, v->slice);
    *count = part.count;
    if (s->stride != 0)
        return s->base + chunk * s->stride;
    uint64_t start = s->displs != NULL ? s->displs[c] : tt_layout_chunk(l, c).first;
    return s->base + (uintptr_t)((start + part.first) * l->element_bytes);
}

static inline uint64_t count_of(const struct tt_view *v, uint32_t chunk)
{
    const struct tt_layout *l = v->layout;
    return part_of(l, chunk < l->chunks ? chunk : chunk % l->chunks, v->slice).count;
}

uint64_t tt_view_count_any(const struct tt_view *v)
{
    if (v->nchunks == 1)
        return count_of(v, v->chunk);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->nchunks; i++)
        sum += count_of(v, v->chunk + i);
    return sum;
}

/* Not inlined: saving the registers that it needs would cost every message. */
__attribute__((noinline)) static uintptr_t run_of_many(const struct tt_view *v, uint64_t at, uint64_t *count)
{
    uint32_t i = 0;
    uint64_t length;
    uintptr_t address = piece(v, v->chunk, &length);
    while (at >= length && i + 1 < v->nchunks) {
        at -= length;
        i++;
        address = piece(v, v->chunk + i, &length);
    }
    /* Where the slice is the whole chunk and chunks are packed, the run goes on through the next chunks. */
    if (v->layout->slices == 1 && v->space.displs == NULL && v->space.stride == 0)
        for (uint32_t j = i + 1; j < v->nchunks; j++)
            length += part_of(v->layout, v->chunk + j, v->slice).count;
    *count = length - at;
    return address + (uintptr_t)(at * v->layout->element_bytes);
}

uintptr_t tt_view_run_any(const struct tt_view *v, uint64_t at, uint64_t *count)
{
    if (v->nchunks > 1)
        return run_of_many(v, at, count);
    uint64_t length;
    uintptr_t address = piece(v, v->chunk, &length);
    *count = length - at;
    return address + (uintptr_t)(at * v->layout->element_bytes);
}

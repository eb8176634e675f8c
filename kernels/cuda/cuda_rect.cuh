/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_rect.cuh: how a block begins with its rectangle, and ends.
 *
 * A row of the grid is a rectangle. A few threads look up a pointer each for their block, all at once, since
 * bases in memory are as far as any memory; all find those that the rectangle has side by side, in rank
 * order. */
#ifndef TT_KERNELS_CUDA_RECT_CUH
#define TT_KERNELS_CUDA_RECT_CUH
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_primitives.cuh"

static_assert(sizeof(tt_rect) == 32 && sizeof(tt_bases) == 272 && sizeof(tt_fused_params) == 2360, "");

struct block_rect { /* shared by the threads of a block */
    const uint8_t *source[TT_FUSED_RANKS];
    uint8_t *dst[TT_FUSED_RANKS];
    uint64_t factor[TT_FUSED_RANKS]; /* of each source: one element */
    uint64_t count;
    uint32_t sources, dsts;
};

/* A word of the bases, wherever they are; `own` is the same word of those among the parameters. */
template <class Word> INLINE Word base_word(const tt_fused_params &p, const Word &own)
{
    static_assert(sizeof(Word) == sizeof(uint64_t), "");
    if (p.bases == nullptr)
        return own;
    const uint64_t at = reinterpret_cast<uint64_t>(&own) - reinterpret_cast<uint64_t>(&p.own);
    const uint64_t word =
        load_relaxed_64(reinterpret_cast<const uint64_t *>(reinterpret_cast<const uint8_t *>(p.bases) + at));
    Word value;
    memcpy(&value, &word, sizeof value);
    return value;
}

INLINE bool skips(const tt_fused_params &p)
{
    return p.bases == nullptr ? p.own.skip != 0 : load_relaxed(&p.bases->skip) != 0;
}

template <class Element> INLINE uint64_t factor_of(const tt_fused_params &p, uint32_t rank)
{
    const void *scalar = base_word(p, p.own.scalar[rank]);
    return scalar != nullptr ? *static_cast<const Element *>(scalar) : base_word(p, p.own.factor[rank]);
}

/* The sum of a base, which may be 0, and a distance. */
template <class Pointer> INLINE Pointer address(Pointer base, uint64_t bytes)
{
    return reinterpret_cast<Pointer>(reinterpret_cast<uint64_t>(base) + bytes);
}

/* Where rank `rank` is among those of a mask. */
INLINE uint32_t place_in(uint32_t mask, uint32_t rank)
{
    return ones_in(mask & ((1U << rank) - 1));
}

template <class Element, bool scales>
INLINE void add_source(const tt_fused_params &p, const tt_rect &r, uint32_t rank, block_rect &b)
{
    const uint32_t place = place_in(r.sources, rank);
    if (!(r.sources >> rank & 1))
        return;
    b.source[place] = address(static_cast<const uint8_t *>(base_word(p, p.own.in[rank])), r.from);
    if (scales)
        b.factor[place] = factor_of<Element>(p, rank);
}

INLINE void add_dst(const tt_fused_params &p, const tt_rect &r, uint32_t rank, block_rect &b)
{
    if (r.dsts >> rank & 1)
        b.dst[place_in(r.dsts, rank)] = address(static_cast<uint8_t *>(base_word(p, p.own.out[rank])), r.to);
}

/* Fills in the rectangle of this block; count is 0 where nothing is to be done. All threads take part. */
template <class Element, bool scales> INLINE void begin_rect(const tt_fused_params &p, block_rect &b)
{
    enum { RANKS = TT_FUSED_RANKS };
    const bool is_there = block_row() < p.rects;
    const tt_rect &r = p.rect[is_there ? block_row() : 0];
    for (uint32_t i = thread_index(); i < 2 * RANKS && is_there; i += block_threads()) {
        if (i < RANKS)
            add_source<Element, scales>(p, r, i, b);
        else
            add_dst(p, r, i - RANKS, b);
    }
    if (thread_index() == 0) {
        const bool works = is_there && r.sources != 0 && r.dsts != 0 && !skips(p);
        b.count = works ? r.count : 0;
        b.sources = works ? ones_in(r.sources) : 0;
        b.dsts = works ? ones_in(r.dsts) : 0;
    }
    sync_block();
}

INLINE uint32_t low_bits(const void *address)
{
    return static_cast<uint32_t>(reinterpret_cast<uint64_t>(address));
}

/* The low bits in which any two addresses of the rectangle differ. */
INLINE uint32_t bits_apart(const block_rect &b)
{
    uint32_t apart = 0;
    for (uint32_t i = 0; i < b.sources; i++)
        apart |= low_bits(b.source[i]) ^ low_bits(b.dst[0]);
    for (uint32_t i = 1; i < b.dsts; i++)
        apart |= low_bits(b.dst[i]) ^ low_bits(b.dst[0]);
    return apart;
}

/* Who ends last tells that the kernel is over: it has heard of all other blocks, and so of what their threads
 * stored before they came to this barrier. `releases` is false in a test only. */
template <bool releases = true> INLINE void end_rect(const tt_fused_params &p)
{
    if (p.over == nullptr)
        return;
    sync_block();
    if (thread_index() != 0 || add_acquire_release(p.blocks_over, 1) + 1 != grid_blocks() * grid_rows())
        return;
    store_relaxed(p.blocks_over, 0);
    if (releases)
        store_release(p.over, p.over_value);
    else
        store_relaxed(p.over, p.over_value);
}

#endif

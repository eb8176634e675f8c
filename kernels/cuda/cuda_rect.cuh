/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_rect.cuh: how a block begins with its rectangle, and ends.
 *
 * A row of the grid is a rectangle. One thread looks up the pointers for its block; so they are loaded once a
 * block, and the others find those that the rectangle has side by side, in rank order. */
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
    uint32_t apart; /* the low bits in which any two of these addresses differ */
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

template <class Element> INLINE uint64_t factor_of(const tt_fused_params &p, int rank)
{
    const void *scalar = base_word(p, p.own.scalar[rank]);
    return scalar != nullptr ? *static_cast<const Element *>(scalar) : base_word(p, p.own.factor[rank]);
}

template <class Element, bool scales>
INLINE void add_sources(const tt_fused_params &p, const tt_rect &r, block_rect &b)
{
    UNROLL
    for (int k = 0; k < TT_FUSED_RANKS; k++) {
        if (!(r.sources >> k & 1))
            continue;
        b.source[b.sources] = static_cast<const uint8_t *>(base_word(p, p.own.in[k])) + r.from;
        if (scales)
            b.factor[b.sources] = factor_of<Element>(p, k);
        b.sources++;
    }
}

/* What only moves is not stored where it lies already. */
template <bool moves> INLINE void add_dsts(const tt_fused_params &p, const tt_rect &r, block_rect &b)
{
    UNROLL
    for (int k = 0; k < TT_FUSED_RANKS; k++) {
        if (!(r.dsts >> k & 1))
            continue;
        uint8_t *dst = static_cast<uint8_t *>(base_word(p, p.own.out[k])) + r.to;
        if (!moves || dst != b.source[0])
            b.dst[b.dsts++] = dst;
    }
}

INLINE uint32_t low_bits(const void *address)
{
    return static_cast<uint32_t>(reinterpret_cast<uint64_t>(address));
}

/* Fills in the rectangle of this block; count is 0 where nothing is to be done. All threads take part. */
template <class Element, bool moves, bool scales>
INLINE void begin_rect(const tt_fused_params &p, block_rect &b)
{
    if (thread_index() == 0) {
        const uint32_t row = block_row();
        b.count = 0;
        b.sources = b.dsts = b.apart = 0;
        if (row < p.rects && !skips(p)) {
            add_sources<Element, scales>(p, p.rect[row], b);
            add_dsts<moves>(p, p.rect[row], b);
            b.count = b.dsts > 0 ? p.rect[row].count : 0;
            for (uint32_t i = 0; i < b.sources && b.dsts > 0; i++)
                b.apart |= low_bits(b.source[i]) ^ low_bits(b.dst[0]);
            for (uint32_t i = 1; i < b.dsts; i++)
                b.apart |= low_bits(b.dst[i]) ^ low_bits(b.dst[0]);
        }
    }
    sync_block();
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_move.cu: rectangles of one source each: bytes from one place to some others.
 *
 * In pieces as long as the distances of all pointers allow, 16 bytes, 4, 2 or 1. The bytes before the first
 * whole piece of the first dst, and those behind the last one, are copied one by one. */
#include "kernels/cuda/cuda_rect.cuh"
#include "kernels/cuda/cuda_table.cuh"

template <class Piece> INLINE void load(Piece &piece, const uint8_t *from)
{
    piece = *reinterpret_cast<const Piece *>(from);
}
INLINE void load(packet &piece, const uint8_t *from)
{
    piece = load_packet(from);
}
INLINE void store(uint8_t *to, packet piece)
{
    store_packet(to, piece);
}
template <class Piece> INLINE void store(uint8_t *to, Piece piece)
{
    *reinterpret_cast<Piece *>(to) = piece;
}

/* N pieces from `at` on, each a step behind the last. */
template <class Piece, int N> INLINE void move_pieces(const block_rect &b, uint64_t at, uint64_t step)
{
    Piece piece[N];
    UNROLL
    for (int i = 0; i < N; i++)
        load(piece[i], b.source[0] + at + i * step);
    ROLLED
    for (uint32_t j = 0; j < b.dsts; j++) {
        if (b.dst[j] == b.source[0])
            continue; /* it lies there already, and others may read it */
        UNROLL
        for (int i = 0; i < N; i++)
            store(b.dst[j] + at + i * step, piece[i]);
    }
}

/* Where the grid is as large as is proposed, a thread has one packet; where it is smaller, or pieces are, it
 * has four on their way at a time: what memory needs to be busy. */
template <class Piece> INLINE void move_by(const block_rect &b)
{
    const uint64_t threads = grid_threads(), step = threads * sizeof(Piece);
    uint64_t head = -reinterpret_cast<uint64_t>(b.dst[0]) % sizeof(Piece);
    head = head < b.count ? head : b.count;
    const uint64_t pieces = (b.count - head) / sizeof(Piece), end = head + pieces * sizeof(Piece);
    uint64_t at = grid_index();
    for (; at + 3 * threads < pieces; at += 4 * threads)
        move_pieces<Piece, 4>(b, head + at * sizeof(Piece), step);
    for (; at < pieces; at += threads)
        move_pieces<Piece, 1>(b, head + at * sizeof(Piece), 0);
    for (at = grid_index(); at < sizeof(Piece); at += threads) {
        if (at < head)
            move_pieces<uint8_t, 1>(b, at, 0);
        if (end + at < b.count)
            move_pieces<uint8_t, 1>(b, end + at, 0);
    }
}

/* PTX of move_kernel: ld.global.v4.u32 st.global.v4.u32 ld.relaxed.sys.global.u64 bar.sync
 * PTX of move_kernel: atom.acq_rel.gpu.global.add.u32 st.release.sys.global.u32 */
KERNEL void AT_MOST_THREADS(TT_FUSED_BLOCK) move_kernel(const PARAMS tt_fused_params p)
{
    SHARED(block_rect, b);
    begin_rect<uint8_t, false>(p, b);
    const uint32_t apart = bits_apart(b);
    if (apart % 16 == 0)
        move_by<packet>(b);
    else if (apart % 4 == 0)
        move_by<uint32_t>(b);
    else if (apart % 2 == 0)
        move_by<uint16_t>(b);
    else
        move_by<uint8_t>(b);
    end_rect(p);
}

const void *const tt_kernel_move = KERNEL_FUNCTION(tt_fused_params, move_kernel);

/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_copy.cu: bytes from one place to another.
 *
 * In pieces as large as the distance of the two pointers allows, 16 bytes, 4 or 1. The bytes before the first
 * whole piece of dst, and those behind the last one, are copied one by one. */
#include "kernels/cuda/cuda_table.cuh"

template <class Piece> INLINE void load(Piece &piece, const void *from)
{
    piece = *static_cast<const Piece *>(from);
}
INLINE void load(packet &piece, const void *from)
{
    piece = load_packet(from);
}
template <class Piece> INLINE void store(void *to, Piece piece)
{
    *static_cast<Piece *>(to) = piece;
}
INLINE void store(void *to, packet piece)
{
    store_packet(to, piece);
}

/* Four pieces on their way for each thread: what memory needs to be busy. */
template <class Piece> INLINE void copy_pieces(uint8_t *dst, const uint8_t *src, uint64_t pieces)
{
    const uint64_t step = grid_threads();
    uint64_t at = grid_index();
    for (; at + 3 * step < pieces; at += 4 * step) {
        Piece piece[4];
        UNROLL
        for (uint32_t i = 0; i < 4; i++)
            load(piece[i], src + (at + i * step) * sizeof(Piece));
        UNROLL
        for (uint32_t i = 0; i < 4; i++)
            store(dst + (at + i * step) * sizeof(Piece), piece[i]);
    }
    for (; at < pieces; at += step) {
        Piece piece;
        load(piece, src + at * sizeof(Piece));
        store(dst + at * sizeof(Piece), piece);
    }
}

template <class Piece> INLINE void copy_by(uint8_t *dst, const uint8_t *src, uint64_t bytes)
{
    uint64_t head = -reinterpret_cast<uint64_t>(dst) % sizeof(Piece);
    head = head < bytes ? head : bytes;
    const uint64_t whole = (bytes - head) / sizeof(Piece), done = head + whole * sizeof(Piece);
    copy_pieces<Piece>(dst + head, src + head, whole);
    for (uint64_t at = grid_index(); at < sizeof(Piece); at += grid_threads()) {
        if (at < head)
            dst[at] = src[at];
        if (done + at < bytes)
            dst[done + at] = src[done + at];
    }
}

/* PTX of copy_kernel: ld.global.v4.u32 st.global.v4.u32 */
KERNEL void AT_MOST_THREADS(512) copy_kernel(tt_copy_params p)
{
    uint8_t *dst = static_cast<uint8_t *>(p.dst);
    const uint8_t *src = static_cast<const uint8_t *>(p.src);
    const uint64_t distance = reinterpret_cast<uint64_t>(dst) - reinterpret_cast<uint64_t>(src);
    if (dst == src)
        return;
    if (distance % 16 == 0)
        copy_by<packet>(dst, src, p.bytes);
    else if (distance % 4 == 0)
        copy_by<uint32_t>(dst, src, p.bytes);
    else
        copy_by<uint8_t>(dst, src, p.bytes);
}

const void *const tt_kernel_copy = KERNEL_FUNCTION(tt_copy_params, copy_kernel);

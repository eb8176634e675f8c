/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused.cuh: rectangles that fold, as templates of a type and an operation; each cuda_fused_*.cu makes
 * those of one type.
 *
 * A thread takes a vector of 16 bytes of the results: all its operands are loaded before it is stored,
 * because a result may lie where an operand does. Where the pointers are not all equally far from such a
 * boundary, it loads and stores element by element what is not aligned. What lies before the first boundary
 * of the first dst and behind the last one is a vector of fewer elements.
 *
 * Aligned operands come in groups of four, whose loads are on their way at once: enough to keep memory busy,
 * and few enough for registers. */
#ifndef TT_KERNELS_CUDA_FUSED_CUH
#define TT_KERNELS_CUDA_FUSED_CUH
#include "kernels/cuda/cuda_numbers.cuh"
#include "kernels/cuda/cuda_rect.cuh"
#include "kernels/cuda/cuda_table.cuh"

/* --- How vectors are reached: one, and those at one offset of up to a group of sources. */

/* What stands in memory would be found by an index; registers are chosen from. */
template <uint32_t COUNT, class T> INLINE T chosen(const T *from, uint32_t index)
{
    T x = from[0];
    UNROLL
    for (uint32_t i = 1; i < COUNT; i++)
        x = i == index ? from[i] : x;
    return x;
}

struct aligned_vector {
    enum { GROUP = 4 };
    static MEMBER uint32_t group()
    {
        return GROUP;
    }
    static MEMBER void load_group(vec *raw, const uint8_t *const *sources, uint32_t n, uint64_t at)
    {
        UNROLL
        for (uint32_t i = 0; i < GROUP; i++)
            raw[i] = i < n ? load(sources[i], at) : vec(0u);
    }
    static MEMBER vec load(const void *from, uint64_t at)
    {
        const packet p = load_packet(static_cast<const uint8_t *>(from) + at);
        vec v;
        memcpy(v.of, p.word, sizeof v.of);
        return v;
    }
    static MEMBER void store(void *to, uint64_t at, vec v)
    {
        packet p;
        memcpy(p.word, v.of, sizeof v.of);
        store_packet(static_cast<uint8_t *>(to) + at, p);
    }
};

INLINE uint32_t distance_to_boundary(const void *p)
{
    return static_cast<uint32_t>(-reinterpret_cast<uint64_t>(p) % 16);
}

/* The first elements of a vector, or all of them, wherever it lies; those that it lacks are 0. */
template <class Element> struct any_vector {
    enum { GROUP = 1 };
    uint32_t count;

    static MEMBER uint32_t group()
    {
        return GROUP;
    }
    MEMBER bool is_packet(const void *p) const
    {
        return count == lanes<Element>::COUNT && distance_to_boundary(p) == 0;
    }
    MEMBER void load_group(vec *raw, const uint8_t *const *sources, uint32_t, uint64_t at) const
    {
        raw[0] = load(sources[0], at);
    }
    MEMBER vec load(const void *base, uint64_t at) const
    {
        const void *from = static_cast<const uint8_t *>(base) + at;
        if (is_packet(from))
            return aligned_vector::load(from, 0);
        lanes<Element> l;
        UNROLL
        for (uint32_t i = 0; i < lanes<Element>::COUNT; i++)
            l.of[i] = i < count ? static_cast<const Element *>(from)[i] : 0;
        return vec(l);
    }
    MEMBER void store(void *base, uint64_t at, vec v) const
    {
        void *to = static_cast<uint8_t *>(base) + at;
        if (is_packet(to)) {
            aligned_vector::store(to, 0, v);
            return;
        }
        const lanes<Element> l(v);
        UNROLL
        for (uint32_t i = 0; i < lanes<Element>::COUNT; i++)
            if (i < count)
                static_cast<Element *>(to)[i] = l.of[i];
    }
};

/* One or the other, as the kernel finds: for folds that are long code, which so is there once. */
template <class Element> struct either_vector {
    enum { GROUP = aligned_vector::GROUP };
    bool is_aligned;
    any_vector<Element> any;

    MEMBER uint32_t group() const
    {
        return is_aligned ? static_cast<uint32_t>(GROUP) : 1u;
    }
    MEMBER void load_group(vec *raw, const uint8_t *const *sources, uint32_t n, uint64_t at) const
    {
        if (is_aligned) {
            aligned_vector::load_group(raw, sources, n, at);
            return;
        }
        raw[0] = any.load(sources[0], at);
        UNROLL
        for (uint32_t i = 1; i < GROUP; i++)
            raw[i] = vec(0u);
    }
    MEMBER void store(void *to, uint64_t at, vec v) const
    {
        if (is_aligned)
            aligned_vector::store(to, at, v);
        else
            any.store(to, at, v);
    }
};

/* Calls body.vector(offset, how it is reached) for all vectors of the rectangle. */
template <class Element, class Body> INLINE void for_all(const block_rect &b, const Body &body)
{
    const uint64_t bytes = b.count * sizeof(Element), threads = grid_threads();
    uint64_t head = distance_to_boundary(b.dst[0]);
    head = head < bytes ? head : bytes;
    const uint64_t whole = (bytes - head) / 16, end = head + whole * 16;
    const bool is_aligned = bits_apart(b) % 16 == 0;
    uint64_t at = grid_index();
    if constexpr (!Body::ONCE)
        for (; is_aligned && at < whole; at += threads)
            body.vector(head + at * 16, aligned_vector{});
    for (; at < whole + 2; at += threads) {
        const uint64_t from = at < whole ? head + at * 16 : at == whole ? 0 : end;
        const uint64_t to = at < whole ? from + 16 : at == whole ? head : bytes;
        const any_vector<Element> any = { static_cast<uint32_t>((to - from) / sizeof(Element)) };
        if (any.count == 0)
            continue;
        if constexpr (Body::ONCE)
            body.vector(from, either_vector<Element>{ is_aligned && at < whole, any });
        else
            body.vector(from, any);
    }
}

/* --- Folds. Operands are as they lie, or multiplied by their rank's factor, and rounded, first. */

struct unscaled {
    enum { SCALES = 0 };
    template <class Number> static MEMBER struct wide operand(Number, vec raw, uint64_t)
    {
        return Number::widen(raw);
    }
};
/* By shifts: through an array of bytes it would go by way of memory. */
template <class Element> INLINE vec in_all_lanes(uint64_t bits)
{
    vec v;
    bits &= ~UINT64_C(0) >> (64 - 8 * sizeof(Element));
    UNROLL
    for (uint32_t shift = 8 * sizeof(Element); shift < 64; shift *= 2)
        bits |= bits << shift;
    UNROLL
    for (int i = 0; i < vec::COUNT; i++)
        v.of[i] = static_cast<uint32_t>(bits >> i % 2 * 32);
    return v;
}
template <class Product> struct scaled {
    enum { SCALES = 1 };
    template <class Number> static MEMBER struct wide operand(Number, vec raw, uint64_t factor)
    {
        const struct wide by = Number::widen(in_all_lanes<typename Number::element>(factor));
        return Number::widen(stored(Number(), combined<Product>(Number(), Number::widen(raw), by)));
    }
};

template <class Number, class Operation> struct chain_of {
    enum { ROLLS = Number::PARTS > 2 };
    struct wide sum;

    MEMBER chain_of() : sum(wide_of_one(vec(0u)))
    {
    }
    MEMBER void add(struct wide w, uint32_t index, bool)
    {
        sum = index == 0 ? w : combined<Operation>(Number(), sum, w);
    }
};

/* The pass-up tree, in the order of a binary counter: slot l holds the root of 2^l operands. A new operand
 * combines with slot 0 if that is taken, the result with slot 1, and so on to a free one; the last operand
 * goes on to the top. So of seven it is ((0 1) (2 3)) ((4 5) 6), and one place in the code combines. */
template <class Number, class Operation> struct tree_of {
    enum { ROLLS = 1, SLOTS = 3 }; /* TT_FUSED_RANKS is 2^3 */
    struct wide slots[SLOTS], sum;
    uint32_t taken;

    MEMBER tree_of() : sum(wide_of_one(vec(0u))), taken(0)
    {
        UNROLL
        for (uint32_t l = 0; l < SLOTS; l++)
            slots[l] = sum;
    }
    static MEMBER struct wide node(struct wide left, struct wide right)
    {
        struct wide w = combined<Operation>(Number(), left, right);
        return Number::ROUNDS ? Number::widen(stored(Number(), w)) : w;
    }
    MEMBER void add(struct wide w, uint32_t, bool is_last)
    {
        uint32_t level = 0;
        for (; (taken >> level & 1) != 0 || (is_last && taken >> level != 0); level++)
            if ((taken >> level & 1) != 0)
                w = node(chosen<SLOTS>(slots, level), w);
        taken = (taken >> level | 1) << level;
        UNROLL
        for (uint32_t l = 0; l < SLOTS; l++)
            if (l == level)
                slots[l] = w;
        sum = w;
    }
};

template <class Number, class Fold, class Scaling> struct fold_body {
    enum { ONCE = sizeof(typename Number::element) == 1 }; /* whose code is long */
    const block_rect &b;
    uint32_t divisor; /* above 1: what the result is divided by */

    template <class Reach> MEMBER vec result(uint64_t at, Reach reach) const
    {
        enum { GROUP = Reach::GROUP };
        Fold fold;
        ROLLED
        for (uint32_t first = 0; first < b.sources; first += reach.group()) {
            vec raw[GROUP];
            const uint32_t left = b.sources - first, n = left < reach.group() ? left : reach.group();
            reach.load_group(raw, b.source + first, n, at);
            if (b.sources == 1 && divisor <= 1 && !Scaling::SCALES)
                return raw[0];
            UNROLL_BY(Fold::ROLLS ? 1 : static_cast<int>(GROUP))
            for (uint32_t i = 0; i < GROUP; i++)
                if (i < n)
                    fold.add(Scaling::operand(Number(), chosen<GROUP>(raw, i), b.factor[first + i]),
                        first + i, first + i + 1 == b.sources);
        }
        return stored(Number(), divided(Number(), fold.sum, divisor));
    }

    template <class Reach> MEMBER void vector(uint64_t at, Reach reach) const
    {
        const vec v = result(at, reach);
        ROLLED
        for (uint32_t j = 0; j < b.dsts; j++)
            reach.store(b.dst[j], at, v);
    }
};

/* PTX of fused_kernel: ld.global.v4.u32 st.global.v4.u32 ld.relaxed.sys.global.u64 bar.sync
 * PTX of fused_kernel: atom.acq_rel.gpu.global.add.u32 st.release.sys.global.u32 */
template <class Number, class Fold, class Scaling, bool divides>
KERNEL void AT_MOST_THREADS(TT_FUSED_BLOCK) fused_kernel(const PARAMS tt_fused_params p)
{
    using Element = typename Number::element;
    SHARED(block_rect, b);
    begin_rect<Element, Scaling::SCALES != 0>(p, b);
    for_all<Element>(b, fold_body<Number, Fold, Scaling>{ b, divides ? p.divisor : 0 });
    end_rect(p);
}

/* --- Rows of the table. */

#define FUSED(shape, number, operation, scaling, divides)                                                    \
    KERNEL_FUNCTION(tt_fused_params,                                                                         \
        fused_kernel<number##_number, shape##_of<number##_number, operation##_of_lanes>, scaling, divides>)
#define CHAIN_OF(number, operation)                                                                          \
    FUSED(chain, number, operation, unscaled, operation##_of_lanes::DIVIDES != 0)
#define TREE_OF(number, operation)                                                                           \
    FUSED(tree, number, operation, unscaled, operation##_of_lanes::DIVIDES != 0)
#define SCALED_OF(shape, number, lane) FUSED(shape, number, sum_##lane, scaled<prod_##lane##_of_lanes>, false)

/* SUM, PROD, MAX, MIN, AND, OR, XOR, the scaled sum: of signed integers only what their signs make different.
 */
#define SIGNED_ROW(number, sum, order)                                                                       \
    {                                                                                                        \
        {                                                                                                    \
            { CHAIN_OF(number, sum), nullptr }, {}, { CHAIN_OF(number, max_##order), nullptr },              \
                { CHAIN_OF(number, min_##order), nullptr },                                                  \
        }                                                                                                    \
    }
#define UNSIGNED_ROW(number, lane)                                                                           \
    {                                                                                                        \
        {                                                                                                    \
            { CHAIN_OF(number, sum_##lane), nullptr }, { CHAIN_OF(number, prod_##lane), nullptr },           \
                { CHAIN_OF(number, max_##lane), nullptr }, { CHAIN_OF(number, min_##lane), nullptr },        \
                { CHAIN_OF(number, and_bits), nullptr }, { CHAIN_OF(number, or_bits), nullptr },             \
                { CHAIN_OF(number, xor_bits), nullptr }, { SCALED_OF(chain, number, lane), nullptr },        \
        }                                                                                                    \
    }
#define FLOAT_ROW(number, lane)                                                                              \
    {                                                                                                        \
        {                                                                                                    \
            { CHAIN_OF(number, sum_##lane), TREE_OF(number, sum_##lane) },                                   \
                { CHAIN_OF(number, prod_##lane), TREE_OF(number, prod_##lane) },                             \
                { CHAIN_OF(number, max_##lane), nullptr }, { CHAIN_OF(number, min_##lane), nullptr }, {},    \
                {}, {}, { SCALED_OF(chain, number, lane), SCALED_OF(tree, number, lane) },                   \
        }                                                                                                    \
    }

#endif

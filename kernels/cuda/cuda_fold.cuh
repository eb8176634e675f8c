/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fold.cuh: folds and scales, as templates of a type and an operation; each cuda_fold_*.cu makes those
 * of one type.
 *
 * A thread takes whole vectors of 16 bytes of dst. Where all pointers are equally far from such a boundary it
 * takes several at a time, so that enough of memory is on its way; else it loads element by element what is
 * not aligned. What lies before the first boundary of dst and behind the last one is a vector of fewer
 * elements. All operands of a vector are loaded before it is stored, because dst may be one of them. */
#ifndef TT_KERNELS_CUDA_FOLD_CUH
#define TT_KERNELS_CUDA_FOLD_CUH
#include "kernels/cuda/cuda_numbers.cuh"
#include "kernels/cuda/cuda_table.cuh"

/* --- How a vector is reached. */

struct aligned_vector {
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
    uint32_t count;

    MEMBER bool is_packet(const void *p) const
    {
        return count == lanes<Element>::COUNT && distance_to_boundary(p) == 0;
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

/* Calls body.vectors<N>(offset of the first, step to the next, how they are reached) for all vectors of
 * `count` elements at dst; `alike`: all pointers are equally far from a boundary. */
template <class Number, class Body>
INLINE void for_all(const void *dst, uint64_t count, bool alike, const Body &body)
{
    using Element = typename Number::element;
    enum { N = Body::AT_ONCE };
    const uint64_t bytes = count * sizeof(Element), threads = grid_threads();
    uint64_t head = distance_to_boundary(dst);
    head = head < bytes ? head : bytes;
    const uint64_t whole = (bytes - head) / 16, end = head + whole * 16;
    uint64_t at = grid_index();
    if (N > 1 && alike)
        for (; at + (N - 1) * threads < whole; at += N * threads)
            body.template vectors<N>(head + at * 16, threads * 16, aligned_vector{});
    for (; at < whole + 2; at += threads) {
        const uint64_t from = at < whole ? head + at * 16 : at == whole ? 0 : end;
        const uint64_t to = at < whole ? from + 16 : at == whole ? head : bytes;
        const any_vector<Element> any = { static_cast<uint32_t>((to - from) / sizeof(Element)) };
        if (any.count > 0)
            body.template vectors<1>(from, 0, any);
    }
}

/* --- Folds. */

INLINE bool are_alike(const tt_fold_params &p)
{
    bool alike = true;
    for (uint32_t j = 0; j < p.k; j++)
        alike = alike && distance_to_boundary(p.sources[j]) == distance_to_boundary(p.dst);
    return alike;
}

/* Above 1: what the result is divided by. */
template <class Operation> INLINE uint32_t divisor_of(const tt_fold_params &p)
{
    return Operation::DIVIDES ? p.divisor : 0;
}
/* One operand that nothing divides. */
template <class Operation> INLINE bool keeps_bits(const tt_fold_params &p)
{
    return p.k == 1 && divisor_of<Operation>(p) <= 1;
}

/* Fewer where code is long: 16 divisions a vector, or conversions. */
template <class Number> struct at_once {
    enum {
        VECTORS = Number::PARTS > 2                                            ? 1
                  : Number::PARTS > 1 || sizeof(typename Number::element) == 1 ? 2
                                                                               : 4
    };
};

template <class Number, class Operation> struct chain_body {
    enum { AT_ONCE = at_once<Number>::VECTORS };
    const tt_fold_params &p;

    template <int N, class Reach> MEMBER void vectors(uint64_t at, uint64_t step, Reach reach) const
    {
        vec raw[N];
        struct wide w[N];
        UNROLL
        for (int i = 0; i < N; i++) {
            raw[i] = reach.load(p.sources[0], at + i * step);
            w[i] = Number::widen(raw[i]);
        }
        /* Enough is on its way, and registers are few. */
        ROLLED
        for (uint32_t j = 1; j < p.k; j++) {
            UNROLL
            for (int i = 0; i < N; i++)
                raw[i] = reach.load(p.sources[j], at + i * step);
            UNROLL
            for (int i = 0; i < N; i++)
                w[i] = combined<Operation>(Number(), w[i], Number::widen(raw[i]));
        }
        UNROLL
        for (int i = 0; i < N; i++) {
            if (!keeps_bits<Operation>(p))
                raw[i] = stored(Number(), divided(Number(), w[i], divisor_of<Operation>(p)));
            reach.store(p.dst, at + i * step, raw[i]);
        }
    }
};

/* The pass-up tree, in the order of a binary counter: slot l holds the root of 2^l operands. A new operand
 * combines with slot 0 if that is taken, the result with slot 1, and so on to a free one; the last operand
 * goes on to the top. So k = 7 is ((0 1) (2 3)) ((4 5) 6), and one place in the code combines, for all k. */
template <class Number, class Operation> struct tree_body {
    enum { AT_ONCE = 1, SLOTS = 4 }; /* TT_FOLD_OPERANDS is less than 2^4 */
    const tt_fold_params &p;

    static MEMBER struct wide node(struct wide left, struct wide right)
    {
        struct wide w = combined<Operation>(Number(), left, right);
        return Number::ROUNDS ? Number::widen(stored(Number(), w)) : w;
    }

    /* What stands in memory would be found by an index; registers are chosen from. */
    static MEMBER struct wide chosen(const struct wide *slots, uint32_t level)
    {
        struct wide w = slots[0];
        UNROLL
        for (uint32_t l = 1; l < SLOTS; l++)
            if (l == level)
                w = slots[l];
        return w;
    }

    template <class Reach> MEMBER struct wide root(uint64_t at, Reach reach) const
    {
        struct wide slots[SLOTS], w = wide_of_one(vec(0u));
        uint32_t taken = 0;
        UNROLL
        for (uint32_t l = 0; l < SLOTS; l++)
            slots[l] = w;
        ROLLED
        for (uint32_t j = 0; j < p.k; j++) {
            w = Number::widen(reach.load(p.sources[j], at));
            uint32_t level = 0;
            for (; (taken >> level & 1) != 0 || (j == p.k - 1 && taken >> level != 0); level++)
                if ((taken >> level & 1) != 0)
                    w = node(chosen(slots, level), w);
            taken = (taken >> level | 1) << level;
            UNROLL
            for (uint32_t l = 0; l < SLOTS; l++)
                if (l == level)
                    slots[l] = w;
        }
        return w;
    }

    template <int N, class Reach> MEMBER void vectors(uint64_t at, uint64_t step, Reach reach) const
    {
        UNROLL
        for (int i = 0; i < N; i++, at += step) {
            if (keeps_bits<Operation>(p))
                reach.store(p.dst, at, reach.load(p.sources[0], at));
            else
                reach.store(p.dst, at,
                    stored(Number(), divided(Number(), root(at, reach), divisor_of<Operation>(p))));
        }
    }
};

/* PTX of chain_kernel: ld.global.v4.u32 st.global.v4.u32 */
template <class Number, class Operation>
KERNEL void AT_MOST_THREADS(TT_KERNEL_BLOCK) chain_kernel(const PARAMS tt_fold_params p)
{
    for_all<Number>(p.dst, p.count, are_alike(p), chain_body<Number, Operation>{ p });
}

/* PTX of tree_kernel: ld.global.v4.u32 st.global.v4.u32 */
template <class Number, class Operation>
KERNEL void AT_MOST_THREADS(TT_KERNEL_BLOCK) tree_kernel(const PARAMS tt_fold_params p)
{
    for_all<Number>(p.dst, p.count, are_alike(p), tree_body<Number, Operation>{ p });
}

/* --- Scales. */

template <class Number, class Operation> struct scale_body {
    enum { AT_ONCE = at_once<Number>::VECTORS };
    const tt_scale_params &p;
    struct wide factor;

    template <int N, class Reach> MEMBER void vectors(uint64_t at, uint64_t step, Reach reach) const
    {
        vec raw[N];
        UNROLL
        for (int i = 0; i < N; i++)
            raw[i] = reach.load(p.src, at + i * step);
        UNROLL
        for (int i = 0; i < N; i++) {
            const struct wide w = combined<Operation>(Number(), Number::widen(raw[i]), factor);
            reach.store(p.dst, at + i * step, stored(Number(), w));
        }
    }
};

/* PTX of scale_kernel: ld.global.v4.u32 st.global.v4.u32 */
template <class Number, class Operation>
KERNEL void AT_MOST_THREADS(TT_KERNEL_BLOCK) scale_kernel(const PARAMS tt_scale_params p)
{
    using Element = typename Number::element;
    const Element factor =
        p.factor != nullptr ? *static_cast<const Element *>(p.factor) : static_cast<Element>(p.value);
    const bool alike = distance_to_boundary(p.src) == distance_to_boundary(p.dst);
    const struct wide factors = Number::widen(vec(lanes<Element>(factor)));
    for_all<Number>(p.dst, p.count, alike, scale_body<Number, Operation>{ p, factors });
}

/* --- Rows of the table. */

#define CHAIN_OF(number, operation)                                                                          \
    KERNEL_FUNCTION(tt_fold_params, chain_kernel<number##_number, operation##_of_lanes>)
#define TREE_OF(number, operation)                                                                           \
    KERNEL_FUNCTION(tt_fold_params, tree_kernel<number##_number, operation##_of_lanes>)
#define SCALE_OF(number, operation)                                                                          \
    KERNEL_FUNCTION(tt_scale_params, scale_kernel<number##_number, operation##_of_lanes>)

/* SUM, PROD, MAX, MIN, AND, OR, XOR: of signed integers only what their signs make different. */
#define SIGNED_ROW(number, sum, order)                                                                       \
    {                                                                                                        \
        nullptr,                                                                                             \
        {                                                                                                    \
            { CHAIN_OF(number, sum), nullptr }, {}, { CHAIN_OF(number, max_##order), nullptr },              \
                { CHAIN_OF(number, min_##order), nullptr },                                                  \
        }                                                                                                    \
    }
#define UNSIGNED_ROW(number, lane)                                                                           \
    {                                                                                                        \
        SCALE_OF(number, prod_##lane),                                                                       \
        {                                                                                                    \
            { CHAIN_OF(number, sum_##lane), nullptr }, { CHAIN_OF(number, prod_##lane), nullptr },           \
                { CHAIN_OF(number, max_##lane), nullptr }, { CHAIN_OF(number, min_##lane), nullptr },        \
                { CHAIN_OF(number, and_bits), nullptr }, { CHAIN_OF(number, or_bits), nullptr },             \
                { CHAIN_OF(number, xor_bits), nullptr },                                                     \
        }                                                                                                    \
    }
#define FLOAT_ROW(number, lane)                                                                              \
    {                                                                                                        \
        SCALE_OF(number, prod_##lane),                                                                       \
        {                                                                                                    \
            { CHAIN_OF(number, sum_##lane), TREE_OF(number, sum_##lane) },                                   \
                { CHAIN_OF(number, prod_##lane), TREE_OF(number, prod_##lane) },                             \
                { CHAIN_OF(number, max_##lane), nullptr }, { CHAIN_OF(number, min_##lane), nullptr },        \
        }                                                                                                    \
    }

#endif

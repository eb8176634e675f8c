/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_vector.cuh: the vectors of fold_vector.h for a CUDA device: 16 bytes, in registers of one thread.
 *
 * There are no vector extensions in CUDA's C++, so this class gives the text of fold_math.h and fold_float.h
 * the same meaning: operators work lane by lane, a comparison gives ones or zeros, a conversion keeps the
 * bits. */
#ifndef TT_KERNELS_CUDA_VECTOR_CUH
#define TT_KERNELS_CUDA_VECTOR_CUH
#include "kernels/cuda/cuda_primitives.cuh"

/* The type that a lane computes in: narrow integers as 32 bits without a sign, which may wrap. */
template <class T> struct arithmetic {
    using type = T;
};
template <> struct arithmetic<uint8_t> {
    using type = uint32_t;
};
template <> struct arithmetic<uint16_t> {
    using type = uint32_t;
};
template <int BYTES> struct mask_of_lane;
template <> struct mask_of_lane<1> {
    using type = uint8_t;
};
template <> struct mask_of_lane<2> {
    using type = uint16_t;
};
template <> struct mask_of_lane<4> {
    using type = uint32_t;
};
template <> struct mask_of_lane<8> {
    using type = uint64_t;
};

/* What a device computes: its NaN has all bits but the sign's, so a processor that stands in for it does the
 * same. */
template <class T> INLINE T computed(T x)
{
    return x;
}
#if !defined(__CUDACC__)
INLINE float computed(float x)
{
    const uint32_t nan = 0x7fffffff;
    if (x != x)
        memcpy(&x, &nan, sizeof x);
    return x;
}
#endif

template <class T> struct lanes {
    enum { COUNT = 16 / sizeof(T) };
    using wider = typename arithmetic<T>::type;
    using ones = typename mask_of_lane<sizeof(T)>::type;
    using mask = lanes<ones>;
    T of[COUNT];

    lanes() = default;
    MEMBER lanes(T x)
    {
        UNROLL
        for (int i = 0; i < COUNT; i++)
            of[i] = x;
    }
    template <class U> MEMBER explicit lanes(const lanes<U> &other)
    {
        memcpy(of, other.of, sizeof of);
    }

#define OPERATOR(op)                                                                                         \
    friend MEMBER lanes operator op(lanes x, lanes y)                                                        \
    {                                                                                                        \
        UNROLL                                                                                               \
        for (int i = 0; i < COUNT; i++)                                                                      \
            x.of[i] = computed(static_cast<T>(static_cast<wider>(x.of[i]) op static_cast<wider>(y.of[i])));  \
        return x;                                                                                            \
    }
    OPERATOR(+)
    OPERATOR(-)
    OPERATOR(*)
    OPERATOR(/)
    OPERATOR(&)
    OPERATOR(|)
    OPERATOR(^)
#undef OPERATOR

#define COMPARISON(op)                                                                                       \
    friend MEMBER mask operator op(lanes x, lanes y)                                                         \
    {                                                                                                        \
        mask m;                                                                                              \
        UNROLL                                                                                               \
        for (int i = 0; i < COUNT; i++)                                                                      \
            m.of[i] = static_cast<ones>(x.of[i] op y.of[i] ? ~UINT64_C(0) : 0);                              \
        return m;                                                                                            \
    }
    COMPARISON(<)
    COMPARISON(>)
    COMPARISON(>=)
    COMPARISON(==)
    COMPARISON(!=)
#undef COMPARISON

#define SHIFT(op)                                                                                            \
    friend MEMBER lanes operator op(lanes x, uint32_t bits)                                                  \
    {                                                                                                        \
        UNROLL                                                                                               \
        for (int i = 0; i < COUNT; i++)                                                                      \
            x.of[i] = static_cast<T>(x.of[i] op bits);                                                       \
        return x;                                                                                            \
    }
    SHIFT(<<)
    SHIFT(>>)
#undef SHIFT

    friend MEMBER lanes operator~(lanes x)
    {
        UNROLL
        for (int i = 0; i < COUNT; i++)
            x.of[i] = static_cast<T>(~x.of[i]);
        return x;
    }
};

using vec = lanes<uint32_t>;
using vec_u8 = lanes<uint8_t>;
using vec_i8 = lanes<int8_t>;
using vec_u16 = lanes<uint16_t>;
using vec_i16 = lanes<int16_t>;
using vec_i32 = lanes<int32_t>;
using vec_u64 = lanes<uint64_t>;
using vec_i64 = lanes<int64_t>;
using vec_f32 = lanes<float>;
using vec_f64 = lanes<double>;

INLINE vec vec_all(uint32_t x)
{
    return vec(x);
}
INLINE vec_f32 vec_f32_all(float x)
{
    return vec_f32(x);
}

#include "kernels/fold_wide.h"
#include "kernels/fold_words.h"

/* Halves of one vector to two of fp32; a half is the low 16 bits of a lane on its way. */
INLINE struct wide halves_widen(vec halves)
{
    struct wide w = wide_of_two(halves & 0xffff, halves >> 16);
#if defined(__CUDACC__)
    UNROLL
    for (int i = 0; i < vec::COUNT; i++) {
        w.a.of[i] = f32_of_half(w.a.of[i]);
        w.b.of[i] = f32_of_half(w.b.of[i]);
    }
    return w;
#else
    return wide_of_two(f32_of_half_code(w.a), f32_of_half_code(w.b));
#endif
}

#include "kernels/fold_divide.h"
#include "kernels/fold_float.h"
#include "kernels/fold_math.h"

/* The device's conversion makes one NaN of all; ours is all ones. */
INLINE vec half_code(vec x)
{
#if defined(__CUDACC__)
    UNROLL
    for (int i = 0; i < vec::COUNT; i++)
        x.of[i] = (x.of[i] & 0x7fffffff) > 0x7f800000 ? 0xffff : half_of_f32(x.of[i]);
    return x;
#else
    return narrow_code(x, half());
#endif
}
INLINE struct wide float16_parts(vec raw)
{
    return halves_widen(raw);
}
INLINE vec float16_narrow(struct wide w)
{
    return halves_merge(half_code(w.a), half_code(w.b));
}

#endif

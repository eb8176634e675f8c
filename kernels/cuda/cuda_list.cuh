/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_list.cuh: one kernel for several small sums of several devices (cuda_direct.h).
 *
 * It looks at the type for each vector: kernels of one type each, for three, made the plugin 75 KB larger.
 *
 * Each call has an epoch of its own, with the packets, tags and words that a kernel of its own would have.
 * A kernel begins when all threads of the one before have ended; here the block's barrier stands for that. So
 * other ranks hear nothing of the next call before this one has read all packets of this call, which is all
 * that keeps slots from being overwritten (tests/proof/model_direct.py); and a call may read what one before
 * it has stored. */
#ifndef TT_KERNELS_CUDA_LIST_CUH
#define TT_KERNELS_CUDA_LIST_CUH
#include "kernels/cuda/cuda_direct.cuh"

/* Floats of 16 or 32 bits, as the kernel finds: 32 bits are two elements, and the second part of what is
 * widened means nothing then. */
struct listed_number {
    using element = uint16_t;
    enum { PARTS = 2, ROUNDS = 1 };
    uint32_t type;

    MEMBER struct wide widen(vec raw) const
    {
        if (type == TUTTI_FLOAT32)
            return wide_of_two(raw, raw);
        return type == TUTTI_FLOAT16 ? float16_number::widen(raw) : bfloat16_number::widen(raw);
    }
    MEMBER vec narrow(struct wide w) const
    {
        if (type == TUTTI_FLOAT32)
            return w.a;
        return type == TUTTI_FLOAT16 ? float16_number::narrow(w) : bfloat16_number::narrow(w);
    }
};
INLINE struct wide divided(const listed_number &, struct wide w, uint32_t divisor)
{
    return divided(float16_number(), w, divisor);
}
INLINE vec stored(const listed_number &number, struct wide w)
{
    if (number.type == TUTTI_FLOAT32)
        return stored(float32_number(), w);
    return number.type == TUTTI_FLOAT16 ? stored(float16_number(), w) : stored(bfloat16_number(), w);
}
template <class Number> INLINE Number number_of(const tt_direct_list_params &p)
{
    return Number{ p.type };
}

struct sum_alone {
    template <class Number>
    static MEMBER struct wide combined(Number number, uint32_t, struct wide left, struct wide right)
    {
        return ::combined<sum_f32_of_lanes>(number, left, right);
    }
};

/* All ranks send alike. */
template <class Element, uint32_t COUNT>
INLINE void load_vectors(
    const tt_direct_list_params &p, ll_slots &slots, vec *raw, uint32_t first, uint64_t at)
{
    bool there;
    do {
        there = true;
        UNROLL
        for (uint32_t i = 0; i < COUNT; i++) {
            raw[i] = vec(0u);
            if (first + i < p.ranks)
                there = slots.load(p, first + i, at, raw[i]) && there;
        }
    } while (!there && !gives_up(p, slots.waits));
}

/* One call. After a thread has left it stores nothing more. */
INLINE void run_listed(const tt_direct_list_params &p, const tt_direct_listed &call, ll_slots &slots)
{
    using Element = listed_number::element;
    const uint32_t step = 16 * block_threads();
    ROLLED
    for (uint32_t at = 16 * thread_index(); at < call.bytes && !slots.waits.is_over; at += step)
        slots.store_to_all(p, at, vector_of<Element>(call.bytes - at).load(call.in, at));
    ROLLED
    for (uint32_t at = 16 * thread_index(); at < call.bytes && !slots.waits.is_over; at += step) {
        const vec v = folded<listed_number, sum_alone>(p, slots, at);
        if (!slots.waits.is_over)
            vector_of<Element>(call.bytes - at).store(call.out, at, v);
    }
}

struct list_shared {
    uint32_t left; /* a thread has given up: all do, at the latest after the next barrier */
};

/* `missing`: 1, the end is told without releasing what was stored; 2, nothing keeps calls apart: for tests.
 * PTX of list_kernel: ld.relaxed.sys.global.v2.u64 st.relaxed.sys.global.v2.u64 ld.relaxed.sys.global.u64
 * PTX of list_kernel: ld.global.v4.u32 st.global.v4.u32 bar.sync st.release.sys.global.u64 */
template <uint32_t missing>
KERNEL void AT_MOST_THREADS(TT_DIRECT_BLOCK) list_kernel(const PARAMS tt_direct_list_params p)
{
    SHARED(list_shared, shared);
    tt_pad *own = p.pads[p.rank];
    uint64_t epoch = load_relaxed_64(&own->epoch) + 1;
    patience waits{ epoch, 0, 0, load_relaxed(&own->is_left) != 0 };
    if (thread_index() == 0)
        shared.left = waits.is_over;
    sync_block();
    ROLLED
    for (uint32_t i = 0; i < p.calls; i++, epoch++) {
        const tt_direct_listed &call = p.listed[i];
        waits.epoch = epoch;
        waits.signature = call.signature;
        begin_part(p, waits.signature, epoch);
        if (thread_index() == 0 && p.call != 0)
            store_relaxed_64(&p.words->entered, p.call + i);
        ll_slots slots(waits);
        run_listed(p, call, slots);
        waits = slots.waits;
        if (waits.is_over)
            store_shared(&shared.left, 1);
        if (missing != 2 || i + 1 == p.calls)
            sync_block();
        waits.is_over = load_shared(&shared.left) != 0;
        if (thread_index() == 0 && p.call != 0 && i + 1 < p.calls && !waits.is_over)
            store_relaxed_64(&p.words->over, p.call + i);
    }
    if (thread_index() == 0)
        tell_end<missing != 1>(p, epoch - 1, p.call != 0 ? p.call + p.calls - 1 : 0);
}

#endif

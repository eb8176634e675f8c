/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_primitives.cuh: all that a kernel may ask of the machine: its place, memory, order, its neighbours.
 *
 * Each word exists twice: as a CUDA device sees it, with PTX where C++ does not say what is meant, and for a
 * processor (cuda_emulate.h). Kernels use nothing else of CUDA, so one source serves both. No fence is
 * among these words, because ThreadSanitizer does not understand one: order comes from a store that releases
 * and a load that acquires, of system scope, since the other side may be a CPU or another device;
 * but where the name says else. */
#ifndef TT_KERNELS_CUDA_PRIMITIVES_CUH
#define TT_KERNELS_CUDA_PRIMITIVES_CUH
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 16 bytes as they travel, in one instruction where the address is a multiple of 16. */
struct alignas(16) packet {
    uint32_t word[4];
};
/* Two halves that travel in one instruction, too, but each of which is one access: who loads may find one
 * without the other. */
struct alignas(16) halves {
    uint64_t first, second;
};

#if defined(__CUDACC__)

#define INLINE static __device__ __forceinline__
#define MEMBER __device__ __forceinline__
#define KERNEL __global__
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define PRAGMA(...) _Pragma(#__VA_ARGS__)
#define UNROLL_BY(n) PRAGMA(unroll(n))
/* Says of a kernel's parameters that they may be looked at by an index without being copied. */
#define PARAMS __grid_constant__
/* And that one block on a multiprocessor is legal, or the compiler may spill to have room for more. */
#define AT_MOST_THREADS(n) __launch_bounds__(n, 1)
#define SHARED(type, name) __shared__ type name
/* How a kernel is named in a table. */
#define KERNEL_FUNCTION(params, ...) reinterpret_cast<const void *>(__VA_ARGS__)

INLINE uint32_t thread_index()
{
    return threadIdx.x;
}
INLINE uint32_t block_threads()
{
    return blockDim.x;
}
INLINE uint32_t block_index()
{
    return blockIdx.x;
}
INLINE uint32_t grid_blocks()
{
    return gridDim.x;
}
INLINE uint32_t block_row()
{
    return blockIdx.y;
}
INLINE uint32_t grid_rows()
{
    return gridDim.y;
}
INLINE uint32_t lane_index()
{
    return threadIdx.x % 32;
}
INLINE uint32_t ones_in(uint32_t x)
{
    return static_cast<uint32_t>(__popc(x));
}
INLINE void sync_block()
{
    __syncthreads();
}
/* The same for all threads of the block, which all take part: whether it is so for some of them. */
INLINE bool any_in_block(bool is_so)
{
    return __syncthreads_or(is_so) != 0;
}
INLINE void sync_warp()
{
    __syncwarp();
}
/* The value of another lane; all lanes of the warp take part. */
INLINE uint32_t shuffle(uint32_t value, uint32_t lane)
{
    return __shfl_sync(0xffffffff, value, static_cast<int>(lane));
}
/* Is called in each round of a loop that polls. */
INLINE void poll_pause()
{
}

/* What a kernel follows that it read from memory: an address of the device's that was no parameter. */
template <class T> INLINE T *reach(T *address)
{
    return address;
}

INLINE packet load_packet(const void *from)
{
    packet p;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(p.word[0]), "=r"(p.word[1]), "=r"(p.word[2]), "=r"(p.word[3])
                 : "l"(from));
    return p;
}
INLINE void store_packet(void *to, packet p)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(to), "r"(p.word[0]), "r"(p.word[1]), "r"(p.word[2]), "r"(p.word[3])
                 : "memory");
}
INLINE uint32_t load_acquire(const uint32_t *from)
{
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
INLINE uint32_t load_relaxed(const uint32_t *from)
{
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
INLINE uint64_t load_relaxed_64(const uint64_t *from)
{
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}
INLINE uint64_t load_acquire_64(const uint64_t *from)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}
INLINE halves load_relaxed_halves(const void *from)
{
    halves value;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(value.first), "=l"(value.second)
                 : "l"(from)
                 : "memory");
    return value;
}
INLINE void store_release(uint32_t *to, uint32_t value)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(to), "r"(value) : "memory");
}
INLINE void store_relaxed(uint32_t *to, uint32_t value)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" : : "l"(to), "r"(value) : "memory");
}
INLINE void store_release_64(uint64_t *to, uint64_t value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
}
INLINE void store_relaxed_64(uint64_t *to, uint64_t value)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
}
INLINE void store_relaxed_halves(void *to, halves value)
{
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
                 :
                 : "l"(to), "l"(value.first), "l"(value.second)
                 : "memory");
}
/* A word of the block's shared memory, which its threads store and load at any time. */
INLINE uint32_t load_shared(const uint32_t *from)
{
    return *static_cast<const volatile uint32_t *>(from);
}
INLINE void store_shared(uint32_t *to, uint32_t value)
{
    *static_cast<volatile uint32_t *>(to) = value;
}
/* What this thread stored before and loads after has its place in one order of all. */
INLINE void fence_system()
{
    asm volatile("fence.sc.sys;" : : : "memory");
}
INLINE void add_release(uint32_t *to, uint32_t value)
{
    asm volatile("red.release.sys.global.add.u32 [%0], %1;" : : "l"(to), "r"(value) : "memory");
}
/* Among the blocks of one device: returns what was there before. */
INLINE uint32_t add_acquire_release(uint32_t *to, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(to), "r"(value)
                 : "memory");
    return before;
}

/* Between an fp32 and a half, as bits; to nearest even, denormals kept. */
INLINE uint32_t f32_of_half(uint32_t half)
{
    uint32_t f;
    asm("{ .reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h; }" : "=r"(f) : "r"(half));
    return f;
}
INLINE uint32_t half_of_f32(uint32_t f)
{
    uint32_t half;
    asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h; }" : "=r"(half) : "r"(f));
    return half;
}

#else

#include "kernels/cuda/cuda_emulate.h"

#define INLINE static inline
#define MEMBER inline
#define KERNEL static
#define UNROLL
#define ROLLED
#define UNROLL_BY(n)
#define PARAMS
#define AT_MOST_THREADS(n)
/* One object for each block and each such declaration. */
#define SHARED(type, name)                                                                                   \
    static const char name##_site = 0;                                                                       \
    type &name = *static_cast<type *>(tt_emulated_shared(&name##_site, sizeof(type)))
template <class Params, void (*kernel)(Params)> void emulated(const void *params)
{
    kernel(*static_cast<const Params *>(params));
}
#define KERNEL_FUNCTION(params, ...) reinterpret_cast<const void *>(&emulated<params, __VA_ARGS__>)

INLINE uint32_t thread_index()
{
    return tt_emulated_here->thread;
}
INLINE uint32_t block_threads()
{
    return tt_emulated_here->threads;
}
INLINE uint32_t block_index()
{
    return tt_emulated_here->block;
}
INLINE uint32_t grid_blocks()
{
    return tt_emulated_here->blocks;
}
INLINE uint32_t block_row()
{
    return tt_emulated_here->row;
}
INLINE uint32_t grid_rows()
{
    return tt_emulated_here->rows;
}
INLINE uint32_t lane_index()
{
    return tt_emulated_here->thread % 32;
}
INLINE uint32_t ones_in(uint32_t x)
{
    return static_cast<uint32_t>(__builtin_popcount(x));
}
INLINE void sync_block()
{
    tt_emulated_sync_block();
}
INLINE void sync_warp()
{
    tt_emulated_sync_warp();
}
INLINE uint32_t shuffle(uint32_t value, uint32_t lane)
{
    return tt_emulated_shuffle(value, lane);
}
INLINE void poll_pause()
{
    tt_emulated_pause();
}

template <class T> INLINE T *reach(T *address)
{
    return static_cast<T *>(tt_emulated_reach(address));
}

/* A device refuses packets that are not aligned, so they end the program here, too. */
INLINE packet load_packet(const void *from)
{
    packet p;
    if (reinterpret_cast<uintptr_t>(from) % sizeof p != 0)
        __builtin_trap();
    memcpy(&p, from, sizeof p);
    return p;
}
INLINE void store_packet(void *to, packet p)
{
    if (reinterpret_cast<uintptr_t>(to) % sizeof p != 0)
        __builtin_trap();
    memcpy(to, &p, sizeof p);
}
INLINE uint32_t load_acquire(const uint32_t *from)
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
INLINE uint32_t load_relaxed(const uint32_t *from)
{
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}
INLINE uint64_t load_relaxed_64(const uint64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}
INLINE uint64_t load_acquire_64(const uint64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
INLINE halves load_relaxed_halves(const void *from)
{
    const halves *at = static_cast<const halves *>(from);
    if (reinterpret_cast<uintptr_t>(from) % sizeof *at != 0)
        __builtin_trap();
    return halves{ __atomic_load_n(&at->first, __ATOMIC_RELAXED),
        __atomic_load_n(&at->second, __ATOMIC_RELAXED) };
}
INLINE void store_release(uint32_t *to, uint32_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
INLINE void store_relaxed(uint32_t *to, uint32_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}
INLINE void store_release_64(uint64_t *to, uint64_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}
INLINE void store_relaxed_64(uint64_t *to, uint64_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}
INLINE void store_relaxed_halves(void *to, halves value)
{
    halves *at = static_cast<halves *>(to);
    if (reinterpret_cast<uintptr_t>(to) % sizeof *at != 0)
        __builtin_trap();
    __atomic_store_n(&at->first, value.first, __ATOMIC_RELAXED);
    __atomic_store_n(&at->second, value.second, __ATOMIC_RELAXED);
}
INLINE uint32_t load_shared(const uint32_t *from)
{
    return load_relaxed(from);
}
INLINE void store_shared(uint32_t *to, uint32_t value)
{
    store_relaxed(to, value);
}
INLINE bool any_in_block(bool is_so)
{
    SHARED(uint32_t, any);
    sync_block(); /* the last answer has been read */
    if (thread_index() == 0)
        store_shared(&any, 0);
    sync_block();
    if (is_so)
        store_shared(&any, 1);
    sync_block();
    return load_shared(&any) != 0;
}
INLINE void fence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
INLINE void add_release(uint32_t *to, uint32_t value)
{
    __atomic_fetch_add(to, value, __ATOMIC_RELEASE);
}
INLINE uint32_t add_acquire_release(uint32_t *to, uint32_t value)
{
    return __atomic_fetch_add(to, value, __ATOMIC_ACQ_REL);
}

#endif

/* This thread's number in its row of the grid, and how many there are. */
INLINE uint64_t grid_index()
{
    return static_cast<uint64_t>(block_index()) * block_threads() + thread_index();
}
INLINE uint64_t grid_threads()
{
    return static_cast<uint64_t>(grid_blocks()) * block_threads();
}

#endif

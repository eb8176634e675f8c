/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_probe.h: kernels that show whether the emulator does what a device does; for tests. */
#ifndef TT_KERNELS_CUDA_PROBE_H
#define TT_KERNELS_CUDA_PROBE_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tt_probe_params {
    uint32_t *flag; /* 0 at first */
    uint32_t *data; /* of the kernel's own use: one word for each thread of the grid, at least 4 */
    uint32_t *result; /* one word for each thread of the grid */
    uint32_t rounds;
    uint32_t distance; /* of probe_exchange; less than the threads of the block */
};

/* Function pointers as tt_dev_kernel_find tells them. */

/* Threads of a block, any number of them, exchange their numbers by shared memory and by shuffles. Each
 * round, result += the number of the thread that is `distance` behind this one in the block, plus that of
 * the next lane. The second one forgets the barrier before it reads, the third one that before it writes
 * again. */
extern const void *const tt_probe_exchange;
extern const void *const tt_probe_exchange_unwritten;
extern const void *const tt_probe_exchange_overwritten;
/* In each of three rounds the threads of a block ask whether it is so for some of them: for the first one,
 * for none, for the last one. Bit r of the result is the answer of round r. */
extern const void *const tt_probe_any;
/* Block 0 writes 16 bytes of data and lets block 1 see it by a flag; block 1 adds them up in its results.
 * The second one forgets to release. */
extern const void *const tt_probe_hand_over;
extern const void *const tt_probe_hand_over_relaxed;
/* All threads of all blocks add to the flag; the threads of block 0 wait until all have. */
extern const void *const tt_probe_count;
/* result is at which turn each thread of one block began, from 1 on, and data at which it went on behind a
 * barrier; it means something only where they take turns. */
extern const void *const tt_probe_turn;
/* `data` holds an address, which no parameter does, of a word that is 0 at first: all threads wait until it
 * is not, and have it as their result. The second one takes the address as it is. */
extern const void *const tt_probe_follow;
extern const void *const tt_probe_follow_as_it_is;
/* The odd threads wait at a barrier of the block for the even ones, who wait for their warp. */
extern const void *const tt_probe_stuck;
/* What moves rectangles of one source, with a struct tt_fused_params. The second one forgets to release when
 * it tells that it is over. */
extern const void *const tt_probe_over;
extern const void *const tt_probe_over_relaxed;
/* What moves bytes between devices (cuda_direct.h), with a struct tt_direct_params; it forgets to release
 * when it meets the others. */
extern const void *const tt_probe_direct_relaxed;
/* What does a list of sums, with a struct tt_direct_list_params. The first one forgets to release
 * when it tells that it is over, the second one the barrier between two calls. */
extern const void *const tt_probe_list_relaxed;
extern const void *const tt_probe_list_apart;

#ifdef __cplusplus
}
#endif
#endif

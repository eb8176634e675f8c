/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_emulate.h: kernels on the processor: what a stub of the runtime calls, and what kernels stand on.
 *
 * A block runs on the thread that asks for it and is over when the call returns, so that the caller decides
 * what runs at the same time: blocks that wait for each other need a thread each, as they need a
 * multiprocessor each on a device. There are two ways to run one. FIBERS: each CUDA thread has a stack of
 * its own as soon as it waits, and they take turns on the caller's thread; fast, for functions. THREADS: each
 * CUDA thread is a thread of the system, so that ThreadSanitizer sees every pair of accesses that nothing
 * orders; for a few blocks.
 *
 * A device promises no order of its threads, and one order alone hides that a barrier is missing: where each
 * thread reads what the one before it wrote, all is well as long as they come in ascending order. So fibers
 * take turns in one of several orders, and a kernel is right if its results are in each.
 *
 * What this shows: values, bounds, alignment, races between threads and with the host. What it does not: the
 * scopes and reorderings of a device's memory, whether blocks fit on it at once, PTX. */
#ifndef TT_KERNELS_CUDA_EMULATE_H
#define TT_KERNELS_CUDA_EMULATE_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- For who launches. */

enum tt_emulation { TT_EMULATE_FIBERS, TT_EMULATE_THREADS };
/* Of fibers. DRAWN, and each number above it, is another order that is drawn, anew for each turn. */
enum { TT_EMULATE_ASCENDING, TT_EMULATE_DESCENDING, TT_EMULATE_DRAWN };

/* `function` is what tt_dev_kernel_find of the emulated kernels tells; `params` lie still until all blocks
 * are over. */
struct tt_emulated_launch {
    const void *function;
    const void *params;
    uint32_t grid, grid_y, block; /* blocks in x and in y; threads */
    enum tt_emulation way;
    uint32_t order;
};

/* One block (of number x + y * grid), or all of them one by one, on this thread. A kernel that lacks memory
 * or a thread to run on ends the program: a device would not lack it. */
void tt_emulate_block(const struct tt_emulated_launch *launch, uint32_t block);
void tt_emulate_grid(const struct tt_emulated_launch *launch);

/* What the runtime does for kernels that it launches: `reach` gives where the processor finds what a device
 * has at this address, and a block that only polls calls `pause`. Set once, before the first block; without
 * it addresses are the processor's, as those of the parameters always are. */
struct tt_emulated_runtime {
    void *(*reach)(const void *address);
    void (*pause)(void);
};
void tt_emulate_for(const struct tt_emulated_runtime *runtime);

/* --- For kernels, by way of cuda_primitives.cuh. */

struct tt_emulated_place {
    uint32_t thread, threads, block, blocks, row, rows; /* row: the block in y */
};
extern __thread struct tt_emulated_place *tt_emulated_here; /* of the CUDA thread that runs */

/* All threads of the block, or of the warp, that have not ended. */
void tt_emulated_sync_block(void);
void tt_emulated_sync_warp(void);
/* The value that lane `lane` of this warp gives, which has not ended. */
uint32_t tt_emulated_shuffle(uint32_t value, uint32_t lane);
/* Others may run: in each round of a loop that polls. */
void tt_emulated_pause(void);
void *tt_emulated_reach(const void *address);
/* Memory that the block has in common: the same for each thread that gives the same `site`. It begins as
 * bytes of 0xa5, because a device promises nothing. */
void *tt_emulated_shared(const void *site, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif

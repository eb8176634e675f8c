/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_emulate_block.h: what both ways to run a block have in common. */
#ifndef TT_KERNELS_CUDA_EMULATE_BLOCK_H
#define TT_KERNELS_CUDA_EMULATE_BLOCK_H
#include <pthread.h>

#include "kernels/cuda/cuda_emulate.h"

enum { TT_WARP = 32, TT_BLOCK_MOST = 1024, TT_SHARED_SITES = 8 };

struct tt_emulated_block {
    const struct tt_emulated_launch *launch;
    uint32_t index;
    uint32_t given[TT_BLOCK_MOST]; /* to other lanes, by a shuffle */
    pthread_mutex_t shared_lock;
    struct {
        const void *site;
        void *memory;
    } shared[TT_SHARED_SITES];
    int sites;
    /* How its threads wait. */
    void (*sync)(uint32_t first, uint32_t last); /* the threads from `first` to before `last` */
    void (*pause)(void);
};

extern __thread struct tt_emulated_block *tt_emulated_block; /* that runs on this thread */

void tt_emulate_fibers(struct tt_emulated_block *block);
void tt_emulate_threads(struct tt_emulated_block *block);
struct tt_emulated_place tt_emulated_place_of(const struct tt_emulated_block *block, uint32_t thread);
/* The kernel, as thread `here`. */
void tt_emulated_run(struct tt_emulated_place *here);
/* Other blocks, and other processes, may run: no thread of this block can do more than poll. */
void tt_emulated_give_way(void);
/* A resource that is needed to go on is not there. */
void tt_emulated_demand(int is_there, const char *what);

#endif

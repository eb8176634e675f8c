/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_emulate.c: one block of an emulated kernel: its shared memory, its shuffles, and the choice of how its
 * threads run. */
#include "kernels/cuda/cuda_emulate_block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__thread struct tt_emulated_place *tt_emulated_here;
__thread struct tt_emulated_block *tt_emulated_block;

static const struct tt_emulated_runtime *launcher;

void tt_emulate_for(const struct tt_emulated_runtime *runtime)
{
    launcher = runtime;
}

void *tt_emulated_reach(const void *address)
{
    return launcher != NULL ? launcher->reach(address) : (void *)address;
}

void tt_emulated_give_way(void)
{
    if (launcher != NULL)
        launcher->pause();
}

void tt_emulated_demand(int is_there, const char *what)
{
    if (is_there)
        return;
    fprintf(stderr, "tutti: an emulated kernel cannot run: %s\n", what);
    abort();
}

void tt_emulate_block(const struct tt_emulated_launch *launch, uint32_t index)
{
    tt_emulated_demand(launch->block >= 1 && launch->block <= TT_BLOCK_MOST, "1 to 1024 threads are legal");
    tt_emulated_demand(index < launch->grid * launch->grid_y, "the block is none of the grid");
    struct tt_emulated_block *block = calloc(1, sizeof *block);
    tt_emulated_demand(block != NULL, "no memory for a block");
    block->launch = launch;
    block->index = index;
    pthread_mutex_init(&block->shared_lock, NULL);
    (launch->way == TT_EMULATE_THREADS ? tt_emulate_threads : tt_emulate_fibers)(block);
    for (int i = 0; i < block->sites; i++)
        free(block->shared[i].memory);
    pthread_mutex_destroy(&block->shared_lock);
    free(block);
}

void tt_emulate_grid(const struct tt_emulated_launch *launch)
{
    for (uint32_t i = 0; i < launch->grid * launch->grid_y; i++)
        tt_emulate_block(launch, i);
}

struct tt_emulated_place tt_emulated_place_of(const struct tt_emulated_block *block, uint32_t thread)
{
    const struct tt_emulated_launch *l = block->launch;
    return (struct tt_emulated_place){ thread, l->block, block->index % l->grid, l->grid,
        block->index / l->grid, l->grid_y };
}

void tt_emulated_run(struct tt_emulated_place *here)
{
    void (*kernel)(const void *params);
    memcpy(&kernel, &tt_emulated_block->launch->function, sizeof kernel);
    tt_emulated_here = here;
    kernel(tt_emulated_block->launch->params);
}

void tt_emulated_sync_block(void)
{
    tt_emulated_block->sync(0, tt_emulated_here->threads);
}

void tt_emulated_sync_warp(void)
{
    uint32_t first = tt_emulated_here->thread / TT_WARP * TT_WARP, last = first + TT_WARP;
    tt_emulated_block->sync(first, last < tt_emulated_here->threads ? last : tt_emulated_here->threads);
}

uint32_t tt_emulated_shuffle(uint32_t value, uint32_t lane)
{
    uint32_t thread = tt_emulated_here->thread;
    tt_emulated_block->given[thread] = value;
    tt_emulated_sync_warp();
    value = tt_emulated_block->given[thread / TT_WARP * TT_WARP + lane % TT_WARP];
    tt_emulated_sync_warp(); /* nobody gives the next one before all have taken this */
    return value;
}

void tt_emulated_pause(void)
{
    tt_emulated_block->pause();
}

void *tt_emulated_shared(const void *site, size_t bytes)
{
    struct tt_emulated_block *block = tt_emulated_block;
    pthread_mutex_lock(&block->shared_lock);
    int i = 0;
    while (i < block->sites && block->shared[i].site != site)
        i++;
    if (i == block->sites) {
        tt_emulated_demand(i < TT_SHARED_SITES, "it declares more than 8 objects in shared memory");
        block->shared[i].site = site;
        block->shared[i].memory = aligned_alloc(16, (bytes + 15) / 16 * 16);
        tt_emulated_demand(block->shared[i].memory != NULL, "no memory for what its threads share");
        memset(block->shared[i].memory, 0xa5, bytes);
        block->sites++;
    }
    void *memory = block->shared[i].memory;
    pthread_mutex_unlock(&block->shared_lock);
    return memory;
}

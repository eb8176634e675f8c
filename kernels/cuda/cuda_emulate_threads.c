/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_emulate_threads.c: each thread of a block is a thread of the system.
 *
 * Slow, and the way to see races: what orders two accesses here is a barrier, or an atomic store that
 * releases and a load that acquires, as on a device. */
#include "kernels/cuda/cuda_emulate_block.h"

#include <stdlib.h>

#include "base/wait.h"

/* One for the whole block, and one for each warp. A thread that ends is waited for no longer. */
struct barrier {
    pthread_mutex_t lock;
    pthread_cond_t open;
    uint32_t expected, arrived, generation;
};

struct team {
    struct tt_emulated_block *block;
    struct barrier all, warps[TT_BLOCK_MOST / TT_WARP];
};
struct hand {
    struct team *team;
    struct tt_emulated_place place;
    pthread_t thread;
};
static __thread struct hand *hand;

static void barrier_begin(struct barrier *b)
{
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->open, NULL);
}

static void barrier_end(struct barrier *b)
{
    pthread_cond_destroy(&b->open);
    pthread_mutex_destroy(&b->lock);
}

static void barrier_open_if_complete(struct barrier *b)
{
    if (b->arrived < b->expected)
        return;
    b->arrived = 0;
    b->generation++;
    pthread_cond_broadcast(&b->open);
}

static void barrier_wait(struct barrier *b)
{
    pthread_mutex_lock(&b->lock);
    uint32_t generation = b->generation;
    b->arrived++;
    barrier_open_if_complete(b);
    while (generation == b->generation)
        pthread_cond_wait(&b->open, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

static void barrier_leave(struct barrier *b)
{
    pthread_mutex_lock(&b->lock);
    b->expected--;
    barrier_open_if_complete(b);
    pthread_mutex_unlock(&b->lock);
}

static struct barrier *barrier_of_warp(struct hand *h)
{
    return &h->team->warps[h->place.thread / TT_WARP];
}

static void sync_threads(uint32_t first, uint32_t last)
{
    int is_all = first == 0 && last == hand->place.threads;
    barrier_wait(is_all ? &hand->team->all : barrier_of_warp(hand));
}

static void pause_thread(void)
{
    static __thread struct tt_wait wait;
    static __thread uint32_t pauses;
    if (pauses++ % 1024 == 0)
        tt_wait_begin(&wait, tt_wait_policy_for(tt_cores_granted() + 1), NULL, 0);
    tt_emulated_give_way();
    tt_wait_idle(&wait);
}

static void *run_thread(void *of)
{
    hand = of;
    tt_emulated_block = hand->team->block;
    tt_emulated_run(&hand->place);
    barrier_leave(barrier_of_warp(hand));
    barrier_leave(&hand->team->all);
    return NULL;
}

void tt_emulate_threads(struct tt_emulated_block *block)
{
    uint32_t threads = block->launch->block, warps = (threads + TT_WARP - 1) / TT_WARP;
    struct team *team = calloc(1, sizeof *team);
    struct hand *hands = calloc(threads, sizeof *hands);
    tt_emulated_demand(team != NULL && hands != NULL, "no memory for its threads");
    block->sync = sync_threads;
    block->pause = pause_thread;
    team->block = block;
    barrier_begin(&team->all);
    team->all.expected = threads;
    for (uint32_t i = 0; i < warps; i++) {
        barrier_begin(&team->warps[i]);
        team->warps[i].expected = threads - i * TT_WARP < TT_WARP ? threads - i * TT_WARP : TT_WARP;
    }
    for (uint32_t i = 0; i < threads; i++) {
        hands[i].team = team;
        hands[i].place = tt_emulated_place_of(block, i);
        tt_emulated_demand(
            pthread_create(&hands[i].thread, NULL, run_thread, &hands[i]) == 0, "no thread to run on");
    }
    for (uint32_t i = 0; i < threads; i++)
        pthread_join(hands[i].thread, NULL);
    for (uint32_t i = 0; i < warps; i++)
        barrier_end(&team->warps[i]);
    barrier_end(&team->all);
    free(hands);
    free(team);
}

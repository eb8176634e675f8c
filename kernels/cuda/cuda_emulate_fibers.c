/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_emulate_fibers.c: the threads of a block take turns on one thread of the system.
 *
 * A fiber is a stack on which CUDA threads run one after the other, as long as none waits; one that waits
 * keeps its fiber, and the next thread begins on another. So a kernel without a barrier needs one stack, and
 * switches once. Whoever waits for other threads is woken when all of them that have not ended wait, too. */
#include "kernels/cuda/cuda_emulate_block.h"

#include <stdlib.h>
#include <ucontext.h>

#include "base/wait.h"

enum { STACK_BYTES = 64 << 10 };
enum state { READY, PAUSED, SYNCING, OVER };
enum turn { STUCK, POLLED, MOVED };

struct fiber {
    ucontext_t context;
    uint8_t *stack;
    enum state state;
    struct tt_emulated_place place; /* of the thread that it runs */
    uint32_t first, last; /* for whom it waits */
};

struct turns {
    struct fiber fibers[TT_BLOCK_MOST];
    uint32_t fiber_count, now; /* the one that runs */
    uint32_t begun, ended; /* threads of the block */
    uint8_t is_over[TT_BLOCK_MOST];
    ucontext_t scheduler;
};
static __thread struct turns *turns;

static void leave(enum state state)
{
    struct fiber *f = &turns->fibers[turns->now];
    f->state = state;
    swapcontext(&f->context, &turns->scheduler);
}

static void run_threads(void)
{
    struct turns *t = turns;
    while (t->begun < tt_emulated_block->launch->block) {
        struct fiber *f = &t->fibers[t->now];
        f->place = (struct tt_emulated_place){ t->begun++, tt_emulated_block->launch->block,
            tt_emulated_block->index, tt_emulated_block->launch->grid };
        uint32_t thread = f->place.thread;
        tt_emulated_run(&f->place);
        t->is_over[thread] = 1;
        t->ended++;
    }
    leave(OVER);
}

static void sync_fibers(uint32_t first, uint32_t last)
{
    struct fiber *f = &turns->fibers[turns->now];
    f->first = first;
    f->last = last;
    leave(SYNCING);
}

static void pause_fiber(void)
{
    leave(PAUSED);
}

static void begin_fiber(struct turns *t)
{
    struct fiber *f = &t->fibers[t->fiber_count++];
    f->stack = malloc(STACK_BYTES);
    tt_emulated_demand(f->stack != NULL && getcontext(&f->context) == 0, "no memory for a stack");
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = NULL;
    makecontext(&f->context, run_threads, 0);
    f->state = READY;
}

/* Wakes who waits for these threads, if no other of them can still come: each is over, or waits here. */
static void wake(struct turns *t, uint32_t first, uint32_t last)
{
    uint32_t there = 0;
    for (uint32_t i = first; i < last; i++)
        there += t->is_over[i];
    for (uint32_t i = 0; i < t->fiber_count; i++) {
        struct fiber *f = &t->fibers[i];
        there += f->state == SYNCING && f->first == first && f->last == last;
    }
    if (there < last - first)
        return;
    for (uint32_t i = 0; i < t->fiber_count; i++) {
        struct fiber *f = &t->fibers[i];
        if (f->state == SYNCING && f->first == first && f->last == last)
            f->state = READY;
    }
}

/* Each thread that can runs until it waits or is over. */
static enum turn take_turns(struct turns *t)
{
    const uint32_t threads = tt_emulated_block->launch->block;
    enum turn turn = STUCK;
    for (uint32_t i = 0; i < t->fiber_count || t->begun < threads; i++) {
        if (i == t->fiber_count)
            begin_fiber(t);
        struct fiber *f = &t->fibers[i];
        if (f->state != READY && f->state != PAUSED)
            continue;
        t->now = i;
        tt_emulated_here = &f->place;
        swapcontext(&t->scheduler, &f->context);
        if (f->state != PAUSED)
            turn = MOVED;
        else if (turn == STUCK)
            turn = POLLED;
    }
    wake(t, 0, threads);
    for (uint32_t first = 0; first < threads; first += TT_WARP)
        wake(t, first, first + TT_WARP < threads ? first + TT_WARP : threads);
    return turn;
}

void tt_emulate_fibers(struct tt_emulated_block *block)
{
    struct tt_wait wait;
    struct turns *t = calloc(1, sizeof *t);
    tt_emulated_demand(t != NULL, "no memory for its threads");
    block->sync = sync_fibers;
    block->pause = pause_fiber;
    tt_emulated_block = block;
    turns = t;
    tt_wait_begin(&wait, tt_wait_policy_for(1), NULL, 0);
    while (t->ended < block->launch->block) {
        enum turn turn = take_turns(t);
        tt_emulated_demand(turn != STUCK, "its threads wait at barriers that the others do not come to");
        if (turn == POLLED)
            tt_wait_idle(&wait); /* what they wait for comes from elsewhere */
        else
            tt_wait_awake(&wait);
    }
    for (uint32_t i = 0; i < t->fiber_count; i++)
        free(t->fibers[i].stack);
    free(t);
    turns = NULL;
    tt_emulated_block = NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_emulate_fibers.c: the threads of a block take turns on one thread of the system.
 *
 * A fiber is a stack on which CUDA threads run one after the other, as long as none waits; one that waits
 * keeps its fiber, and the next thread begins on another. So a kernel without a barrier needs one stack, and
 * switches once. Whoever waits for other threads is woken when all of them that have not ended wait, too.
 *
 * Threads begin in the order that the launch says. Fibers keep it, for each has begun with the next thread,
 * but where it is drawn: then those that wait are shuffled before each turn. The first one in the order that
 * can go on does, so a warp runs ahead of the others as far as barriers of the block let it: if all were in
 * step, a barrier that is missing would do no harm.
 *
 * A thread of the system keeps its fibers for its next block: a new stack costs a page fault for each page,
 * and a new context two calls of the system, which is more than what a small block computes. Not under
 * sanitizers, which tell an old frame by its stack. */
#include "kernels/cuda/cuda_emulate_block.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "base/wait.h"

enum { STACK_BYTES = 64 << 10 };
enum state { READY, PAUSED, SYNCING, OVER };
enum turn { STUCK, POLLED, MOVED };

/* Where a stack goes on. A context would do, but each switch of contexts asks the system twice for the mask
 * of signals, which is most of the time of a kernel with shuffles. So a fiber only begins by its context, and
 * goes on by a jump; but under a sanitizer, which knows contexts and takes such a jump for the end of
 * frames. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { JUMPS = 0 };
#else
enum { JUMPS = 1 };
#endif
struct place {
    ucontext_t context;
    jmp_buf left;
    bool jumps; /* it was left by a jump */
};

struct fiber {
    struct place at;
    uint8_t *stack;
    enum state state;
    struct tt_emulated_place place; /* of the thread that it runs */
    uint32_t first, last; /* for whom it waits */
};

struct turns {
    uint32_t fiber_count, now; /* the one that runs */
    uint32_t begun, ended; /* threads of the block */
    uint32_t thread[TT_BLOCK_MOST]; /* in the order in which they begin */
    uint32_t turn[TT_BLOCK_MOST]; /* fibers, in the order of their turns */
    uint64_t drawn; /* the last number that was */
    uint8_t is_over[TT_BLOCK_MOST];
    struct fiber *fiber_of[TT_BLOCK_MOST]; /* of each thread that has begun */
    struct place scheduler;
    /* What follows is not cleared for each block. */
    uint32_t stacks; /* the fibers that have one */
    struct fiber fibers[TT_BLOCK_MOST]; /* those that have begun */
};
static __thread struct turns *turns;
static pthread_key_t kept; /* by a thread, from block to block */

/* Returns when somebody goes back `from` here. */
static void go(struct place *from, struct place *to)
{
    from->jumps = JUMPS;
    if (!JUMPS) {
        swapcontext(&from->context, &to->context);
        return;
    }
    if (_setjmp(from->left) != 0)
        return;
    if (to->jumps)
        _longjmp(to->left, 1);
    setcontext(&to->context);
}

static void leave(enum state state)
{
    struct fiber *f = &turns->fibers[turns->now];
    f->state = state;
    go(&f->at, &turns->scheduler);
}

static void run_threads(void)
{
    struct turns *t = turns;
    for (;;) {
        while (t->begun < tt_emulated_block->launch->block) {
            struct fiber *f = &t->fibers[t->now];
            f->place = tt_emulated_place_of(tt_emulated_block, t->thread[t->begun++]);
            uint32_t thread = f->place.thread;
            t->fiber_of[thread] = f;
            tt_emulated_run(&f->place);
            t->is_over[thread] = 1;
            t->ended++;
        }
        leave(OVER); /* until the next block */
    }
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

static uint32_t draw(struct turns *t, uint32_t below)
{
    t->drawn = t->drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((t->drawn >> 32) * below >> 32);
}

static void shuffle(struct turns *t, uint32_t *items, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = draw(t, i), item = items[i - 1];
        items[i - 1] = items[other];
        items[other] = item;
    }
}

/* In which order the threads of this block begin. */
static void order_threads(struct turns *t, const struct tt_emulated_block *block)
{
    uint32_t threads = block->launch->block, order = block->launch->order;
    for (uint32_t i = 0; i < threads; i++)
        t->thread[i] = order == TT_EMULATE_DESCENDING ? threads - 1 - i : i;
    t->drawn = (uint64_t)order << 32 | block->index;
    if (order >= TT_EMULATE_DRAWN)
        shuffle(t, t->thread, threads);
}

static void begin_fiber(struct turns *t)
{
    t->turn[t->fiber_count] = t->fiber_count;
    struct fiber *f = &t->fibers[t->fiber_count++];
    f->state = READY;
    if (t->fiber_count <= t->stacks)
        return; /* it goes on where it left the last block */
    f->at.jumps = false;
    f->stack = malloc(STACK_BYTES);
    t->stacks++;
    tt_emulated_demand(f->stack != NULL && getcontext(&f->at.context) == 0, "no memory for a stack");
    f->at.context.uc_stack.ss_sp = f->stack;
    f->at.context.uc_stack.ss_size = STACK_BYTES;
    f->at.context.uc_link = NULL;
    makecontext(&f->at.context, run_threads, 0);
}

static bool waits(const struct turns *t, uint32_t thread, uint32_t first, uint32_t last)
{
    const struct fiber *f = t->fiber_of[thread];
    return !t->is_over[thread] && f != NULL && f->state == SYNCING && f->first == first && f->last == last;
}

/* Wakes who waits for these threads, if no other of them can still come: each is over, or waits here. */
static bool wake(struct turns *t, uint32_t first, uint32_t last)
{
    bool woken = false;
    for (uint32_t i = first; i < last; i++)
        if (!t->is_over[i] && !waits(t, i, first, last))
            return false;
    for (uint32_t i = first; i < last; i++)
        if (waits(t, i, first, last)) {
            t->fiber_of[i]->state = READY;
            woken = true;
        }
    return woken;
}

static bool wake_warp(struct turns *t, uint32_t thread, uint32_t threads)
{
    uint32_t first = thread / TT_WARP * TT_WARP, last = first + TT_WARP;
    return wake(t, first, last < threads ? last : threads);
}

/* Each thread that can runs until it waits for its block, or for other blocks, or is over. */
static enum turn take_turns(struct turns *t)
{
    const uint32_t threads = tt_emulated_block->launch->block;
    enum turn turn = STUCK;
    if (tt_emulated_block->launch->order >= TT_EMULATE_DRAWN)
        shuffle(t, t->turn, t->fiber_count);
    for (uint32_t i = 0; i < t->fiber_count || t->begun < threads;) {
        if (i == t->fiber_count)
            begin_fiber(t);
        struct fiber *f = &t->fibers[t->turn[i++]];
        if (f->state != READY && f->state != PAUSED)
            continue;
        t->now = (uint32_t)(f - t->fibers);
        tt_emulated_here = &f->place;
        go(&t->scheduler, &f->at);
        if (f->state != PAUSED)
            turn = MOVED;
        else if (turn == STUCK)
            turn = POLLED;
        if (f->state == SYNCING && f->last - f->first < threads && wake_warp(t, f->place.thread, threads))
            i = 0;
    }
    wake(t, 0, threads);
    for (uint32_t first = 0; first < threads; first += TT_WARP)
        wake_warp(t, first, threads);
    return turn;
}

static void free_turns(void *thing)
{
    struct turns *t = thing;
    for (uint32_t i = 0; i < t->stacks; i++)
        free(t->fibers[i].stack);
    free(t);
}

static void make_key(void)
{
    tt_emulated_demand(pthread_key_create(&kept, free_turns) == 0, "no key for what a thread keeps");
}

static struct turns *begin_turns(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    struct turns *t = pthread_getspecific(kept);
    if (t == NULL) {
        t = malloc(sizeof *t);
        tt_emulated_demand(t != NULL, "no memory for its threads");
        t->stacks = 0;
    }
    memset(t, 0, offsetof(struct turns, stacks));
    return t;
}

static void end_turns(struct turns *t)
{
    if (!JUMPS || pthread_setspecific(kept, t) != 0)
        free_turns(t);
}

void tt_emulate_fibers(struct tt_emulated_block *block)
{
    struct tt_wait wait;
    struct turns *t = begin_turns();
    block->sync = sync_fibers;
    block->pause = pause_fiber;
    tt_emulated_block = block;
    turns = t;
    order_threads(t, block);
    tt_wait_begin(&wait, tt_wait_policy_for(1), NULL, 0);
    while (t->ended < block->launch->block) {
        enum turn turn = take_turns(t);
        if (turn == POLLED)
            tt_emulated_give_way();
        tt_emulated_demand(turn != STUCK, "its threads wait at barriers that the others do not come to");
        if (turn == POLLED)
            tt_wait_idle(&wait); /* what they wait for comes from elsewhere */
        else
            tt_wait_awake(&wait);
    }
    end_turns(t);
    turns = NULL;
    tt_emulated_block = NULL;
}

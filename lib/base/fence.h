/* SPDX-License-Identifier: BSD-3-Clause */
/* fence.h: a full fence whose cost is with one of the two who need it.
 *
 * Where two threads each store a word and then look at the other's, both need a full fence between. It
 * waits until the store has come to the other's cache, which is most of what a small message costs. By
 * membarrier(2) one side can fence for both: the system interrupts every core that runs a registered process.
 * So who stores often fences lightly, for the compiler alone, and who looks seldom (to sleep, to give up)
 * fences heavily. It needs both ends: light only towards those who can fence heavily. */
#ifndef TT_BASE_FENCE_H
#define TT_BASE_FENCE_H
#include <stdatomic.h>
#include <stdbool.h>

/* Register this process (again in a child of fork). True if it can do both; else it does full fences, and so
 * must all who deal with it. */
bool tt_fence_register(void);

static inline void tt_fence_light(bool both_registered)
{
    if (both_registered)
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

/* A full fence here and in every registered process. False if the system refuses that now, though it has not
 * before: then nothing may rely on the light fences of others. */
bool tt_fence_heavy(void);

#endif

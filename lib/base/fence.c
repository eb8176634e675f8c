/* SPDX-License-Identifier: BSD-3-Clause */
/* fence.c: membarrier(2). Linux has it since 4.16; containers may forbid it. */
#include "base/fence.h"

#include <sys/syscall.h>
#include <unistd.h>

/* The system's headers may be older than the commands. */
enum { GLOBAL_EXPEDITED = 1 << 1, REGISTER_GLOBAL_EXPEDITED = 1 << 2 };

static _Atomic bool registered;

static bool command(int what)
{
#ifdef SYS_membarrier
    return syscall(SYS_membarrier, what, 0, 0) == 0;
#else
    (void)what;
    return false;
#endif
}

bool tt_fence_register(void)
{
    if (!command(REGISTER_GLOBAL_EXPEDITED) || !command(GLOBAL_EXPEDITED))
        return false;
    atomic_store_explicit(&registered, true, memory_order_relaxed);
    return true;
}

bool tt_fence_heavy(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    return !atomic_load_explicit(&registered, memory_order_relaxed) || command(GLOBAL_EXPEDITED);
}

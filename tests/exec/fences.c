/* SPDX-License-Identifier: BSD-3-Clause */
/* fences.c: see fences.h. */
#include "fences.h"

#include "kernels/kernels.h"

static _Thread_local bool owed;

void __real_tt_copy_stream(void *dst, const void *src, uint64_t bytes);
void __wrap_tt_copy_stream(void *dst, const void *src, uint64_t bytes);
void __real_tt_copy_fence(void);
void __wrap_tt_copy_fence(void);

bool fences_is_owed(void)
{
    return owed;
}

void fences_owe(void)
{
    owed = true;
}

void __wrap_tt_copy_stream(void *dst, const void *src, uint64_t bytes)
{
    owed = true;
    __real_tt_copy_stream(dst, src, bytes);
}

void __wrap_tt_copy_fence(void)
{
    __real_tt_copy_fence();
    owed = false;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* aborter.c: its thread. */
#include "tests/rig/aborter.h"

static void *abort_later(void *argument)
{
    struct aborter *a = argument;
    ranks_sleep_us(a->delay_us);
    ranks_ok(a->me, tutti_comm_abort_local(a->comm), "abort_local");
    return NULL;
}

void aborter_begin(struct aborter *a)
{
    ranks_expect(a->me, pthread_create(&a->thread, NULL, abort_later, a) == 0, "no thread");
}

void aborter_end(struct aborter *a)
{
    pthread_join(a->thread, NULL);
}

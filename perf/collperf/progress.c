/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.c: a line that overwrites itself. */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#include "clock.h"

enum { QUIET_SECONDS = 2 };

void perf_progress_begin(struct perf_progress *p)
{
    p->began = (int64_t)perf_clock_seconds();
    atomic_store(&p->quiet_since, p->began);
}

void perf_progress_show(const struct perf_progress *p)
{
    int64_t now = (int64_t)perf_clock_seconds();
    if (now - atomic_load(&p->quiet_since) >= QUIET_SECONDS && p->doing[0] != 0 && isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K# %s; %d s so far", p->doing, (int)(now - p->began));
}

void perf_progress_hide(struct perf_progress *p)
{
    atomic_store(&p->quiet_since, (int64_t)perf_clock_seconds());
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

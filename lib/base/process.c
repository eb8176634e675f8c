/* SPDX-License-Identifier: BSD-3-Clause */
/* process.c: processes, by what /proc tells of them. Where it is not there, a number alone names a process.
 */
#include "base/process.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

enum { GONE_MS = 1000, START = 22, MEMORY = 23 /* fields of /proc/PID/stat, the first of which is 1 */ };

/* A number there; 0: it is not known, or 0. The second field is a name with anything in it. */
static uint64_t field_of(int64_t number, int field)
{
    char path[64], text[1024];
    unsigned long long value = 0;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)number);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *at = strrchr(text, ')');
    for (int k = 2; at != NULL && k < field; k++)
        at = strchr(at + 1, ' ');
    return at != NULL && sscanf(at, " %llu", &value) == 1 ? value : 0;
}

static uint64_t own_space(void)
{
    struct stat s;
    return stat("/proc/self/ns/pid", &s) == 0 ? (uint64_t)s.st_ino : 0;
}

struct tt_process tt_process_self(void)
{
    int64_t number = getpid();
    return (struct tt_process){ .number = number, .space = own_space(), .start = field_of(number, START) };
}

/* The number may be another process's by now, so that is looked at when there is a descriptor. */
void tt_process_watch(struct tt_process_watch *watch, const struct tt_process *process)
{
    uint64_t space = own_space();
    *watch = (struct tt_process_watch){ .number = process->number };
    if (process->space != 0 && space != 0 && process->space != space)
        return;
    watch->fd = 1 + (int)syscall(SYS_pidfd_open, (pid_t)process->number, 0);
    uint64_t start = field_of(process->number, START);
    if (watch->fd > 0 && process->start != 0 && start != 0 && start != process->start)
        tt_process_unwatch(watch);
}

void tt_process_unwatch(struct tt_process_watch *watch)
{
    if (watch->fd > 0)
        close(watch->fd - 1);
    watch->fd = 0;
}

/* One that ends has no memory any more, soon after others see that; one that executes another program has
 * some again. */
static bool has_memory(const struct tt_process_watch *watch)
{
    return field_of(watch->number, MEMORY) > 0;
}

bool tt_process_is_gone(struct tt_process_watch *watch, bool memory_is_gone)
{
    struct pollfd p = { .fd = watch->fd - 1, .events = POLLIN };
    int64_t until = atomic_load(&watch->until_ns), begin = tt_deadline_ns(GONE_MS);
    if (watch->fd > 0 && poll(&p, 1, 0) == 1)
        return true;
    if (!memory_is_gone)
        return false;
    if (watch->fd > 0 && !has_memory(watch)) {
        atomic_store(&watch->until_ns, 0);
        return false;
    }
    if (until == 0)
        atomic_compare_exchange_strong(&watch->until_ns, &until, begin);
    return until != 0 && tt_now_ns() >= until;
}

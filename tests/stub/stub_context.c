/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_context.c: the processes that share a device do not run on it at once.
 *
 * With share=PATH all processes that name the same file are on the same devices, as without a shared context
 * (MPS): blocks of two of them never run at the same time. Who runs holds the device's token, a lock in
 * that file, which the system takes back when a process dies. After slice microseconds it is passed on, if
 * blocks come by tt_stub.pause, all of a process together; slice=0 is a device that cannot preempt, where a
 * block that waits for one of another process waits for ever.
 *
 *     byte 2d   who is next    byte 2d + 1   the token of device d
 *
 * One takes the first, then the second, then gives the first back: so who gives the token away and wants it
 * again stands behind who waits. With yield=0 a queue that waits for a word counts as one that runs. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "stub_internal.h"

static int file = -1; /* opened by each process for itself: locks belong to who opened */

bool tt_stub_context_open(void)
{
    const char *path = tt_stub_runtime.config.share;
    file = path[0] == '\0' ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return path[0] == '\0' || file >= 0;
}

/* A child of fork would keep its parent's locks when that dies. */
void tt_stub_context_forked(void)
{
    if (file >= 0)
        close(file);
}

static void lock_byte(int byte, short type)
{
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
    while (fcntl(file, F_OFD_SETLKW, &lock) != 0)
        if (errno != EINTR)
            abort();
}

/* One of the threads that wait here takes it for all. */
static void token_take(struct stub_device *device)
{
    device->token_wanted = true;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    lock_byte(2 * device->number, F_WRLCK);
    lock_byte(2 * device->number + 1, F_WRLCK);
    lock_byte(2 * device->number, F_UNLCK);
    pthread_mutex_lock(&tt_stub_runtime.lock);
    device->token_wanted = false;
    device->token_held = true;
    device->token_since_ns = tt_stub_now_ns();
    pthread_cond_broadcast(&tt_stub_runtime.changed);
}

void tt_stub_context_enter(struct stub_device *device)
{
    while (file >= 0 && (device->preempted || !device->token_held)) {
        if (device->preempted || device->token_wanted)
            pthread_cond_wait(&tt_stub_runtime.changed, &tt_stub_runtime.lock);
        else
            token_take(device);
    }
    device->active++;
}

void tt_stub_context_leave(struct stub_device *device)
{
    if (--device->active > 0 || file < 0)
        return;
    device->token_held = false;
    device->preempted = false;
    lock_byte(2 * device->number + 1, F_UNLCK);
    pthread_cond_broadcast(&tt_stub_runtime.changed);
}

void tt_stub_context_pause(struct stub_device *device)
{
    int64_t slice_us = tt_stub_runtime.config.slice_us;
    if (file < 0 || slice_us == 0)
        return;
    if (tt_stub_now_ns() - device->token_since_ns > slice_us * 1000)
        device->preempted = true;
    if (device->preempted) {
        tt_stub_context_leave(device);
        tt_stub_context_enter(device);
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.c: how the library starts a thread. */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>

#include "base/status.h"

tutti_status tt_thread_start(
    const char *purpose, void *(*run)(void *argument), void *argument, pthread_t *thread)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int number = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (number == 0)
        return TUTTI_OK;
    errno = number;
    return tt_fail_errno(TUTTI_SYSTEM_ERROR, "cannot start the thread %s", purpose);
}

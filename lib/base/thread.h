/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.h: threads of the library's own. They are deaf to signals: those of the program are for the
 * program's threads. */
#ifndef TT_BASE_THREAD_H
#define TT_BASE_THREAD_H
#include <pthread.h>

#include "tutti.h"

/* SYSTEM_ERROR, which says that the thread for `purpose` cannot be started. */
tutti_status tt_thread_start(
    const char *purpose, void *(*run)(void *argument), void *argument, pthread_t *thread);

#endif

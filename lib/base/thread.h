/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.h: threads of the library's own, and what each thread of the program has to itself.
 *
 * Own threads are deaf to signals: those of the program are for the program's threads. */
#ifndef TT_BASE_THREAD_H
#define TT_BASE_THREAD_H
#include <pthread.h>
#include <stddef.h>

#include "tutti.h"

/* SYSTEM_ERROR, which says that the thread for `purpose` cannot be started. */
tutti_status tt_thread_start(
    const char *purpose, void *(*run)(void *argument), void *argument, pthread_t *thread);

/* Memory of the calling thread, given back when it ends. It is no thread-local variable, because one of more
 * than a few dozen bytes keeps a program that loads this library late, as an interpreter does, from loading
 * it. */
enum tt_room { TT_ROOM_ERROR, TT_ROOM_GROUP, TT_ROOM_INIT_PROGRESS, TT_ROOMS };
/* Returns memory of this thread: at first `bytes` zeros, on lines of their own, later the same; NULL if there
 * is none. A room is
 * always asked for with the same size. */
void *tt_thread_room(enum tt_room room, size_t bytes);
/* Returns that memory; NULL if this thread has not asked for it. */
void *tt_thread_room_taken(enum tt_room room);

#endif

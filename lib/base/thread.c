/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.c: how the library starts a thread, and where threads keep what is theirs.
 *
 * What gives a room back is the C library's free: this library may have been unloaded by then. */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    pthread_key_t key;
    bool made;
} rooms[TT_ROOMS];

static void make_rooms(void)
{
    for (int i = 0; i < TT_ROOMS; i++)
        rooms[i].made = pthread_key_create(&rooms[i].key, free) == 0;
}

void *tt_thread_room_taken(enum tt_room room)
{
    pthread_once(&once, make_rooms);
    return rooms[room].made ? pthread_getspecific(rooms[room].key) : NULL;
}

void *tt_thread_room(enum tt_room room, size_t bytes)
{
    enum { LINE = 64 };
    void *mine = tt_thread_room_taken(room);
    if (mine != NULL || !rooms[room].made)
        return mine;
    bytes = (bytes + LINE - 1) / LINE * LINE;
    mine = aligned_alloc(LINE, bytes);
    if (mine == NULL || pthread_setspecific(rooms[room].key, mine) != 0) {
        free(mine);
        return NULL;
    }
    return memset(mine, 0, bytes);
}

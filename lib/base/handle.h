/* SPDX-License-Identifier: BSD-3-Clause */
/* handle.h: what the pointers of the public API point to.
 *
 * A shell of 64 bytes with a magic number for its kind and the object. Shells come from one pool that is
 * never given back and are reused in the order they were freed, last in the row: a stale handle is told
 * from a live one for as long as possible, and one of another kind always. */
#ifndef TT_HANDLE_H
#define TT_HANDLE_H
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tutti.h"

enum tt_shell_kind {
    TT_SHELL_COMM,
    TT_SHELL_COMING /* a communicator in the making */,
    TT_SHELL_STREAM,
    TT_SHELL_PROGRAM,
    TT_SHELL_KINDS
};

/* A live handle of this kind for this object. */
tutti_status tt_shell_create(enum tt_shell_kind kind, void *object, void **handle);
/* Its object; NULL, with the thread's last error set, if it is not a live handle of this kind. */
void *tt_shell_find(enum tt_shell_kind kind, const void *handle);
/* The same, and the handle is dead from now on. */
void *tt_shell_take(enum tt_shell_kind kind, void *handle);
/* What a call returns of a handle that was not found: INVALID_USAGE if it was made by the process that forked
 * this one, INVALID_ARGUMENT if it is none. */
tutti_status tt_shell_fault(const void *handle);
/* Is it one? Says nothing. */
bool tt_shell_is(enum tt_shell_kind kind, const void *handle);
/* From now on the live handle is one of this kind, for this object. Nobody may use the old one meanwhile. */
void tt_shell_turn(void *handle, enum tt_shell_kind kind, void *object);

/* The communicator of a handle: what tt_shell_find and tt_shell_take answer; peek says nothing. */
struct tt_comm;
struct tt_comm *tt_handle_peek(const tutti_comm *handle);
struct tt_comm *tt_handle_find(const tutti_comm *handle);
struct tt_comm *tt_handle_take(tutti_comm *handle);

/* In a child of fork: what is alive was made by `parent`, and is found no more. With the lock held. */
extern pthread_mutex_t tt_shells_lock;
void tt_shells_disown(pid_t parent);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* handle.h: handles, which the pointers of the public API point to.
 *
 * A handle has 64 bytes: a magic number for its kind, and the object. Handles come from one pool that is
 * never given back, and are reused in the order in which they were freed. So a stale handle is told from a
 * live one for as long as possible, and a handle of another kind always. */
#ifndef TT_HANDLE_H
#define TT_HANDLE_H
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tutti.h"

enum tt_handle_kind {
    TT_HANDLE_COMM,
    TT_HANDLE_PENDING, /* a communicator that is still being made */
    TT_HANDLE_STREAM,
    TT_HANDLE_PROGRAM,
    TT_HANDLE_REGISTRATION,
    TT_HANDLE_KINDS
};

/* Makes a live handle of this kind for this object. */
tutti_status tt_handle_create(enum tt_handle_kind kind, void *object, void **handle);
/* Returns the object; NULL, with the thread's last error set, if the handle is no live one of this kind. */
void *tt_handle_find(enum tt_handle_kind kind, const void *handle);
/* Returns the object as tt_handle_find does; the handle is dead from now on. */
void *tt_handle_take(enum tt_handle_kind kind, void *handle);
/* Returns the status of a call whose handle was not found: INVALID_USAGE if the handle was made by the
 * process that forked this one, INVALID_ARGUMENT if it is no live handle. */
tutti_status tt_handle_fault(const void *handle);
/* True if it is a live handle of this kind. Sets no error. */
bool tt_handle_is(enum tt_handle_kind kind, const void *handle);
/* Turns a live handle into one of this kind, for this object. Nobody may use the old object meanwhile. */
void tt_handle_turn(void *handle, enum tt_handle_kind kind, void *object);

/* These are tt_handle_find and tt_handle_take for communicators; tt_comm_peek finds without setting an
 * error. */
struct tt_comm;
struct tt_comm *tt_comm_peek(const tutti_comm *handle);
struct tt_comm *tt_comm_find(const tutti_comm *handle);
struct tt_comm *tt_comm_take(tutti_comm *handle);

/* Marks all live handles in a child of fork as made by `parent`; they are found no more. With the lock
 * held. */
extern pthread_mutex_t tt_handles_lock;
void tt_handles_disown(pid_t parent);

#endif

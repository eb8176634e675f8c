/* handle.c: what a tutti_comm pointer points to.
 *
 * A 64-byte shell with a magic number and the communicator. Shells come from a pool that is never given
 * back and are reused in the order they were freed, last in the row: a stale handle is told from a live
 * one for as long as possible. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"
#include "comm.h"

enum { SHELLS_AT_ONCE = 64 };
#define ALIVE UINT64_C(0x5455545449636f6d) /* "TUTTIcom" */
#define DEAD UINT64_C(0x5455545449646561)

struct tutti_comm {
    _Alignas(64) _Atomic uint64_t magic;
    struct tt_comm *comm;
    struct tutti_comm *next;
};

static struct { /* the pool: one queue for the process */
    pthread_mutex_t lock;
    struct tutti_comm *first, **last;
    int length;
} shells = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void append(struct tutti_comm *shell)
{
    shell->next = NULL;
    if (shells.first == NULL)
        shells.last = &shells.first;
    *shells.last = shell;
    shells.last = &shell->next;
    shells.length++;
}

tutti_status tt_handle_create(struct tt_comm *comm, tutti_comm **handle)
{
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&shells.lock);
    if (shells.length < SHELLS_AT_ONCE / 2) { /* keep a row of dead ones, so that none is reused soon */
        struct tutti_comm *more = aligned_alloc(64, SHELLS_AT_ONCE * sizeof *more);
        for (int i = 0; more != NULL && i < SHELLS_AT_ONCE; i++) {
            atomic_init(&more[i].magic, DEAD);
            append(&more[i]);
        }
    }
    struct tutti_comm *shell = shells.first;
    if (shell == NULL) {
        status = TUTTI_OUT_OF_MEMORY;
    } else {
        shells.first = shell->next;
        shells.length--;
        shell->comm = comm;
        atomic_store_explicit(&shell->magic, ALIVE, memory_order_release);
        *handle = shell;
    }
    pthread_mutex_unlock(&shells.lock);
    return status == TUTTI_OK ? status : tt_fail(status, "no memory for a communicator's handle");
}

static struct tt_comm *complain(const tutti_comm *handle, bool dead)
{
    if (handle == NULL)
        tt_fail(TUTTI_INVALID_ARGUMENT,
            "comm is NULL; pass a communicator from tutti_comm_init_rank or its like");
    else if (dead)
        tt_fail(TUTTI_INVALID_ARGUMENT, "comm %p was destroyed", (const void *)handle);
    else
        tt_fail(TUTTI_INVALID_ARGUMENT, "comm %p is not a communicator", (const void *)handle);
    return NULL;
}

struct tt_comm *tt_handle_find(const tutti_comm *handle)
{
    uint64_t magic = 0;
    if (handle != NULL && (uintptr_t)handle % 64 == 0)
        magic = atomic_load_explicit(&handle->magic, memory_order_acquire);
    return magic == ALIVE ? handle->comm : complain(handle, magic == DEAD);
}

struct tt_comm *tt_handle_take(tutti_comm *handle)
{
    struct tt_comm *comm = tt_handle_find(handle);
    if (comm == NULL)
        return NULL;
    pthread_mutex_lock(&shells.lock);
    uint64_t alive = ALIVE;
    bool mine = atomic_compare_exchange_strong(&handle->magic, &alive, DEAD);
    if (mine) {
        handle->comm = NULL;
        append(handle);
    }
    pthread_mutex_unlock(&shells.lock);
    return mine ? comm : complain(handle, true);
}

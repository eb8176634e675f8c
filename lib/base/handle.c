/* SPDX-License-Identifier: BSD-3-Clause */
/* handle.c: the pool of handles. */
#include "base/handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/status.h"

enum { HANDLES_AT_ONCE = 64 };
#define DEAD UINT64_C(0x5455545449646561) /* "TUTTIdea" */
#define FORKED UINT64_C(0x5455545449666f72) /* "TUTTIfor" */

static const struct {
    uint64_t magic;
    const char *argument, *noun, *source;
} kinds[TT_HANDLE_KINDS] = {
    [TT_HANDLE_COMM] = { UINT64_C(0x5455545449636f6d), "comm", "communicator",
        "tutti_comm_init_rank or its like" },
    [TT_HANDLE_PENDING] = { UINT64_C(0x545554544963696e), "comm", "communicator in the making",
        "tutti_comm_init_rank" },
    [TT_HANDLE_STREAM] = { UINT64_C(0x5455545449737472), "stream", "stream", "tutti_stream_create" },
    [TT_HANDLE_PROGRAM] = { UINT64_C(0x5455545450726f67), "program", "program", "tutti_group_keep" },
    [TT_HANDLE_REGISTRATION] = { UINT64_C(0x5455545452656769), "registration", "registration",
        "tutti_mem_register" },
};

struct handle {
    _Alignas(64) _Atomic uint64_t magic;
    void *object;
    struct handle *next;
    struct handle *next_row; /* of the first of a row */
    pid_t process; /* FORKED: the process that made it */
};

pthread_mutex_t tt_handles_lock = PTHREAD_MUTEX_INITIALIZER;
static struct { /* the pool: one queue for the process */
    struct handle *first, **last;
    int length;
    struct handle *rows; /* the first of each row that was allocated */
} pool;

static void append(struct handle *h)
{
    h->next = NULL;
    if (pool.first == NULL)
        pool.last = &pool.first;
    *pool.last = h;
    pool.last = &h->next;
    pool.length++;
}

tutti_status tt_handle_create(enum tt_handle_kind kind, void *object, void **handle)
{
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&tt_handles_lock);
    if (pool.length < HANDLES_AT_ONCE / 2) { /* keep a row of dead ones, so that none is reused soon */
        struct handle *more = aligned_alloc(64, HANDLES_AT_ONCE * sizeof *more);
        for (int i = 0; more != NULL && i < HANDLES_AT_ONCE; i++) {
            atomic_init(&more[i].magic, DEAD);
            append(&more[i]);
        }
        if (more != NULL) {
            more->next_row = pool.rows;
            pool.rows = more;
        }
    }
    struct handle *h = pool.first;
    if (h == NULL) {
        status = TUTTI_OUT_OF_MEMORY;
    } else {
        pool.first = h->next;
        pool.length--;
        h->object = object;
        atomic_store_explicit(&h->magic, kinds[kind].magic, memory_order_release);
        *handle = h;
    }
    pthread_mutex_unlock(&tt_handles_lock);
    return status == TUTTI_OK ? status
                              : tt_fail(status, "no memory for the handle of a %s", kinds[kind].noun);
}

static void *complain(enum tt_handle_kind kind, const void *handle, uint64_t magic)
{
    if (kind == TT_HANDLE_COMM && magic == kinds[TT_HANDLE_PENDING].magic)
        tt_fail(TUTTI_INVALID_ARGUMENT, "comm %p is not ready: call tutti_comm_state until it is TUTTI_OK",
            handle);
    else if (handle == NULL)
        tt_fail(TUTTI_INVALID_ARGUMENT, "%s is NULL; pass a %s from %s", kinds[kind].argument,
            kinds[kind].noun, kinds[kind].source);
    else if (magic == FORKED)
        tt_fail(TUTTI_INVALID_USAGE,
            "%s %p belongs to process %ld, which forked this one; legal: a %s that this process made",
            kinds[kind].argument, handle, (long)((const struct handle *)handle)->process, kinds[kind].noun);
    else if (magic == DEAD)
        tt_fail(TUTTI_INVALID_ARGUMENT, "%s %p was destroyed", kinds[kind].argument, handle);
    else
        tt_fail(TUTTI_INVALID_ARGUMENT, "%s %p is not a %s", kinds[kind].argument, handle, kinds[kind].noun);
    return NULL;
}

static uint64_t magic_of(const void *handle)
{
    const struct handle *h = handle;
    bool may_be = handle != NULL && (uintptr_t)handle % 64 == 0;
    return may_be ? atomic_load_explicit(&h->magic, memory_order_acquire) : 0;
}

static void *find(enum tt_handle_kind kind, const void *handle)
{
    const struct handle *h = handle;
    uint64_t magic = magic_of(handle);
    return magic == kinds[kind].magic ? h->object : complain(kind, handle, magic);
}

tutti_status tt_handle_fault(const void *handle)
{
    return magic_of(handle) == FORKED ? TUTTI_INVALID_USAGE : TUTTI_INVALID_ARGUMENT;
}

/* Streams are left out: a stream knows by itself that its thread is the parent's. */
void tt_handles_disown(pid_t parent)
{
    for (struct handle *row = pool.rows; row != NULL; row = row->next_row)
        for (struct handle *h = row; h < row + HANDLES_AT_ONCE; h++) {
            uint64_t magic = atomic_load_explicit(&h->magic, memory_order_relaxed);
            if (magic == DEAD || magic == FORKED || magic == kinds[TT_HANDLE_STREAM].magic)
                continue;
            h->process = parent;
            atomic_store_explicit(&h->magic, FORKED, memory_order_relaxed);
        }
}

void *tt_handle_find(enum tt_handle_kind kind, const void *handle)
{
    return find(kind, handle);
}

void *tt_handle_take(enum tt_handle_kind kind, void *handle)
{
    struct handle *h = handle;
    void *object = find(kind, handle);
    if (object == NULL)
        return NULL;
    pthread_mutex_lock(&tt_handles_lock);
    uint64_t alive = kinds[kind].magic;
    bool mine = atomic_compare_exchange_strong(&h->magic, &alive, DEAD);
    if (mine) {
        h->object = NULL;
        append(h);
    }
    pthread_mutex_unlock(&tt_handles_lock);
    return mine ? object : complain(kind, handle, DEAD);
}

bool tt_handle_is(enum tt_handle_kind kind, const void *handle)
{
    return magic_of(handle) == kinds[kind].magic;
}

void tt_handle_turn(void *handle, enum tt_handle_kind kind, void *object)
{
    struct handle *h = handle;
    h->object = object;
    atomic_store_explicit(&h->magic, kinds[kind].magic, memory_order_release);
}

struct tt_comm *tt_comm_peek(const tutti_comm *handle)
{
    const struct handle *h = (const struct handle *)(const void *)handle;
    return magic_of(handle) == kinds[TT_HANDLE_COMM].magic ? h->object : NULL;
}

struct tt_comm *tt_comm_find(const tutti_comm *handle)
{
    return find(TT_HANDLE_COMM, handle);
}

struct tt_comm *tt_comm_take(tutti_comm *handle)
{
    return tt_handle_take(TT_HANDLE_COMM, handle);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* handle.c: the pool of shells. */
#include "base/handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/status.h"

enum { SHELLS_AT_ONCE = 64 };
#define DEAD UINT64_C(0x5455545449646561) /* "TUTTIdea" */
#define FORKED UINT64_C(0x5455545449666f72) /* "TUTTIfor" */

static const struct {
    uint64_t magic;
    const char *argument, *noun, *source;
} kinds[TT_SHELL_KINDS] = {
    [TT_SHELL_COMM] = { UINT64_C(0x5455545449636f6d), "comm", "communicator",
        "tutti_comm_init_rank or its like" },
    [TT_SHELL_COMING] = { UINT64_C(0x545554544963696e), "comm", "communicator in the making",
        "tutti_comm_init_rank" },
    [TT_SHELL_STREAM] = { UINT64_C(0x5455545449737472), "stream", "stream", "tutti_stream_create" },
    [TT_SHELL_PROGRAM] = { UINT64_C(0x5455545450726f67), "program", "program", "tutti_group_keep" },
};

struct shell {
    _Alignas(64) _Atomic uint64_t magic;
    void *object;
    struct shell *next;
    struct shell *next_row; /* of the first of a row */
    pid_t process; /* FORKED: whose it is */
};

pthread_mutex_t tt_shells_lock = PTHREAD_MUTEX_INITIALIZER;
static struct { /* the pool: one queue for the process */
    struct shell *first, **last;
    int length;
    struct shell *rows; /* the first of each row that was allocated */
} shells;

static void append(struct shell *shell)
{
    shell->next = NULL;
    if (shells.first == NULL)
        shells.last = &shells.first;
    *shells.last = shell;
    shells.last = &shell->next;
    shells.length++;
}

tutti_status tt_shell_create(enum tt_shell_kind kind, void *object, void **handle)
{
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&tt_shells_lock);
    if (shells.length < SHELLS_AT_ONCE / 2) { /* keep a row of dead ones, so that none is reused soon */
        struct shell *more = aligned_alloc(64, SHELLS_AT_ONCE * sizeof *more);
        for (int i = 0; more != NULL && i < SHELLS_AT_ONCE; i++) {
            atomic_init(&more[i].magic, DEAD);
            append(&more[i]);
        }
        if (more != NULL) {
            more->next_row = shells.rows;
            shells.rows = more;
        }
    }
    struct shell *shell = shells.first;
    if (shell == NULL) {
        status = TUTTI_OUT_OF_MEMORY;
    } else {
        shells.first = shell->next;
        shells.length--;
        shell->object = object;
        atomic_store_explicit(&shell->magic, kinds[kind].magic, memory_order_release);
        *handle = shell;
    }
    pthread_mutex_unlock(&tt_shells_lock);
    return status == TUTTI_OK ? status
                              : tt_fail(status, "no memory for the handle of a %s", kinds[kind].noun);
}

static void *complain(enum tt_shell_kind kind, const void *handle, uint64_t magic)
{
    if (kind == TT_SHELL_COMM && magic == kinds[TT_SHELL_COMING].magic)
        tt_fail(TUTTI_INVALID_ARGUMENT, "comm %p is not ready: call tutti_comm_state until it is TUTTI_OK",
            handle);
    else if (handle == NULL)
        tt_fail(TUTTI_INVALID_ARGUMENT, "%s is NULL; pass a %s from %s", kinds[kind].argument,
            kinds[kind].noun, kinds[kind].source);
    else if (magic == FORKED)
        tt_fail(TUTTI_INVALID_USAGE,
            "%s %p belongs to process %ld, which forked this one; legal: a %s that this process made",
            kinds[kind].argument, handle, (long)((const struct shell *)handle)->process, kinds[kind].noun);
    else if (magic == DEAD)
        tt_fail(TUTTI_INVALID_ARGUMENT, "%s %p was destroyed", kinds[kind].argument, handle);
    else
        tt_fail(TUTTI_INVALID_ARGUMENT, "%s %p is not a %s", kinds[kind].argument, handle, kinds[kind].noun);
    return NULL;
}

static uint64_t magic_of(const void *handle)
{
    const struct shell *shell = handle;
    bool may_be = handle != NULL && (uintptr_t)handle % 64 == 0;
    return may_be ? atomic_load_explicit(&shell->magic, memory_order_acquire) : 0;
}

static void *find(enum tt_shell_kind kind, const void *handle)
{
    const struct shell *shell = handle;
    uint64_t magic = magic_of(handle);
    return magic == kinds[kind].magic ? shell->object : complain(kind, handle, magic);
}

tutti_status tt_shell_fault(const void *handle)
{
    return magic_of(handle) == FORKED ? TUTTI_INVALID_USAGE : TUTTI_INVALID_ARGUMENT;
}

/* A stream tells by itself that its thread is the parent's. */
void tt_shells_disown(pid_t parent)
{
    for (struct shell *row = shells.rows; row != NULL; row = row->next_row)
        for (struct shell *shell = row; shell < row + SHELLS_AT_ONCE; shell++) {
            uint64_t magic = atomic_load_explicit(&shell->magic, memory_order_relaxed);
            if (magic == DEAD || magic == FORKED || magic == kinds[TT_SHELL_STREAM].magic)
                continue;
            shell->process = parent;
            atomic_store_explicit(&shell->magic, FORKED, memory_order_relaxed);
        }
}

void *tt_shell_find(enum tt_shell_kind kind, const void *handle)
{
    return find(kind, handle);
}

void *tt_shell_take(enum tt_shell_kind kind, void *handle)
{
    struct shell *shell = handle;
    void *object = find(kind, handle);
    if (object == NULL)
        return NULL;
    pthread_mutex_lock(&tt_shells_lock);
    uint64_t alive = kinds[kind].magic;
    bool mine = atomic_compare_exchange_strong(&shell->magic, &alive, DEAD);
    if (mine) {
        shell->object = NULL;
        append(shell);
    }
    pthread_mutex_unlock(&tt_shells_lock);
    return mine ? object : complain(kind, handle, DEAD);
}

bool tt_shell_is(enum tt_shell_kind kind, const void *handle)
{
    return magic_of(handle) == kinds[kind].magic;
}

void tt_shell_turn(void *handle, enum tt_shell_kind kind, void *object)
{
    struct shell *shell = handle;
    shell->object = object;
    atomic_store_explicit(&shell->magic, kinds[kind].magic, memory_order_release);
}

struct tt_comm *tt_handle_peek(const tutti_comm *handle)
{
    const struct shell *shell = (const struct shell *)(const void *)handle;
    return magic_of(handle) == kinds[TT_SHELL_COMM].magic ? shell->object : NULL;
}

struct tt_comm *tt_handle_find(const tutti_comm *handle)
{
    return find(TT_SHELL_COMM, handle);
}

struct tt_comm *tt_handle_take(tutti_comm *handle)
{
    return tt_shell_take(TT_SHELL_COMM, handle);
}

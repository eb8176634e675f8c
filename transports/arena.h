/* SPDX-License-Identifier: BSD-3-Clause */
/* arena.h: memory that other processes can map: one arena for each process, handed out by descriptor once.
 *
 * An arena is a sparse sealed memfd, mapped by its owner and by every process that was introduced to it:
 * whole, or, where a process has little address space, its beginning, which is then all that the owner uses.
 * So whatever is allocated in it later needs no further exchange: an offset names it. What is freed is
 * punched out, and the memory returns. It cannot shrink, so no peer can make another fault.
 *
 * A child of fork() begins with nothing: no arena, no peers (the parent's memory stays mapped, and is not
 * used). Peers are mapped once however many communicators share them, and are counted. */
#ifndef TT_TRANSPORTS_ARENA_H
#define TT_TRANSPORTS_ARENA_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tutti.h"

enum { TT_UUID_BYTES = 16 };

struct tt_arena {
    uint8_t *base;
    _Atomic uint64_t bytes; /* that are mapped here; of the own one, that every peer has mapped */
    uint8_t uuid[TT_UUID_BYTES]; /* tells a process; equal: the same process */
    bool own;
    int fd; /* of the own one; -1: a peer's needs none once it is mapped */
    int life; /* tells that its process has ended (life.h); -1: none was given */
    uint32_t users;
    struct tt_arena *next;
};

/* The arena of this process, made on first use; lives until exit. */
tutti_status tt_arena_get(const struct tt_arena **own);

/* Whole pages that read as zeros. Untouched ones cost nothing. */
tutti_status tt_arena_alloc(uint64_t bytes, void **ptr);
tutti_status tt_arena_free(void *ptr);
/* Whole pages of any arena: they read as zeros again, and cost nothing until they are touched. */
void tt_arena_empty(void *ptr, uint64_t bytes);

/* Before memory from tt_arena_alloc is touched: pages of 2 MiB suit it, if the system has them for shared
 * memory (shmem_enabled). For what is used whole, and long. */
void tt_arena_want_large_pages(void *ptr, uint64_t bytes);

/* Memory that tt_arena_free_later frees as soon as `idle` says that nobody uses it any more, which is asked
 * now and at later calls of the arena. `idle` also frees what *deferred is part of, before it returns true;
 * it must not call tt_arena_alloc or _free_later. */
struct tt_deferred_free {
    struct tt_deferred_free *next;
    void *ptr;
    bool (*idle)(struct tt_deferred_free *deferred);
};
void tt_arena_free_later(struct tt_deferred_free *deferred);

/* Memory of tt_arena_alloc that so many have: who drops it last frees it. NULL: there is no memory for that,
 * and the other one stays. */
struct tt_arena_share;
struct tt_arena_share *tt_arena_share(void *ptr, int users);
void tt_arena_drop_share(struct tt_arena_share *share); /* NULL: nothing */
void tt_arena_keep_share(struct tt_arena_share *share); /* drops it, and the memory stays for good */

/* Takes both descriptors, also when it fails; life may be -1. Gives a reference; the own arena is known,
 * too. */
tutti_status tt_arena_import(int fd, int life, struct tt_arena **arena);
/* A reference to the arena of this identity, NULL if it was never imported or nobody holds it any more. */
struct tt_arena *tt_arena_find(const uint8_t *uuid);
void tt_arena_release(struct tt_arena *arena);
/* Keep this reference until tt_arena_drop_held() by the same thread. */
tutti_status tt_arena_hold(struct tt_arena *arena);
void tt_arena_drop_held(void);

/* A memory file that can be sealed; -1, with errno set, if there can be none. */
int tt_arena_file(const char *name);

/* True if the process that owns this arena lives, or if that cannot be told. */
bool tt_arena_alive(const struct tt_arena *arena);
/* True if a process that no longer lives ended by itself, rather than by a signal. */
bool tt_arena_exited(const struct tt_arena *arena);

/* True if this range is inside the arena; *offset is where. */
static inline bool tt_arena_offset(
    const struct tt_arena *arena, uintptr_t address, uint64_t bytes, uint64_t *offset)
{
    uint64_t at = (uint64_t)(address - (uintptr_t)arena->base);
    uint64_t mapped = atomic_load_explicit(&arena->bytes, memory_order_relaxed);
    if (at >= mapped || bytes > mapped - at)
        return false;
    *offset = at;
    return true;
}

#endif

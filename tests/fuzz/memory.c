/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c: the memory that calls read and write, and the shadow that tells what it must hold. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { GAP_BYTES = 97 };

void fuzz_pools_create(struct fuzz_rank *me, size_t room)
{
    for (int i = 0; i < FUZZ_POOLS; i++) {
        struct fuzz_pool *pool = &me->pools[i];
        void *memory = NULL;
        if (i == 0)
            memory = malloc(room);
        else
            fuzz_expect(me, "mem_alloc", tutti_mem_alloc(room, TUTTI_MEM_HOST, &memory), FUZZ_OK);
        *pool = (struct fuzz_pool){ .data = memory, .shadow = malloc(room), .room = room };
        if (memory == NULL || pool->shadow == NULL)
            fuzz_fail(me, "no memory for a pool of %zu bytes", room);
        for (size_t b = 0; i == 1 && b < room; b++)
            if (pool->data[b] != 0)
                fuzz_fail(me, "mem_alloc gave memory that is not 0");
        memset(pool->data, 0xa5 + i, room);
        memset(pool->shadow, 0xa5 + i, room);
    }
}

void fuzz_pools_free(struct fuzz_rank *me)
{
    free(me->pools[0].data);
    fuzz_expect(me, "mem_free", tutti_mem_free(me->pools[1].data), FUZZ_OK);
    for (int i = 0; i < FUZZ_POOLS; i++)
        free(me->pools[i].shadow);
}

void *fuzz_place(struct fuzz_rank *me, struct fuzz_pool *pool, size_t bytes, size_t align)
{
    size_t start = pool->used + 1 + ranks_below(&me->random, GAP_BYTES);
    if (align > 1)
        start = (start + align - 1) / align * align;
    if (start + bytes > pool->room)
        fuzz_fail(me, "the fuzzer's own: no room for %zu bytes at %zu of %zu", bytes, start, pool->room);
    pool->used = start + bytes;
    return pool->data + start;
}

void *fuzz_shadow(struct fuzz_rank *me, const void *at)
{
    const uint8_t *byte = at;
    for (int i = 0; i < FUZZ_POOLS; i++)
        if (byte >= me->pools[i].data && byte < me->pools[i].data + me->pools[i].room)
            return me->pools[i].shadow + (byte - me->pools[i].data);
    fuzz_fail(me, "the fuzzer's own: %p is in no pool", at);
}

void fuzz_compare(struct fuzz_rank *me)
{
    for (int i = 0; i < FUZZ_POOLS; i++) {
        const struct fuzz_pool *pool = &me->pools[i];
        size_t at = 0;
        if (memcmp(pool->data, pool->shadow, pool->room) == 0)
            continue;
        while (pool->data[at] == pool->shadow[at])
            at++;
        fuzz_fail(me, "the byte at %p is 0x%02x, but the reference says 0x%02x",
            (const void *)(pool->data + at), pool->data[at], pool->shadow[at]);
    }
}

void fuzz_settle(struct fuzz_rank *me)
{
    for (int i = 0; me->in_streams > 0 && i < me->stream_count; i++) {
        uint64_t point = 0;
        fuzz_expect(me, "stream_record", tutti_stream_record(me->streams[i], &point), FUZZ_OK);
        fuzz_expect(me, "stream_wait", tutti_stream_wait(me->streams[i], point, -1), FUZZ_OK);
        fuzz_expect(me, "stream_query", tutti_stream_query(me->streams[i], point), FUZZ_OK);
    }
    me->in_streams = 0;
    fuzz_compare(me);
    for (int i = 0; i < FUZZ_POOLS; i++)
        me->pools[i].used = 0;
}

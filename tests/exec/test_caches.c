/* SPDX-License-Identifier: BSD-3-Clause */
/* test_caches.c: what is stored past the caches: from which bytes on, and on whose side (lib/run/bind.c).
 *
 * Nothing in a result tells, so this looks at what a call was bound to. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/caches.h"
#include "run/comm.h"
#include "base/handle.h"
#include "run/call_cache.h"
#include "tests/rig/ranks.h"

enum { N = 2, NEITHER = 0, BOTH = TT_STREAM_REMOTE | TT_STREAM_OWN };

/* Of the one call that a communicator has seen, -1 if it is bound to nothing. */
static int bound_to(const struct tt_comm *c)
{
    for (int i = 0; i < TT_CACHED_CALLS; i++) {
        const struct tt_prepared *prepared = c->calls.cached[i].prepared;
        if (prepared != NULL && prepared->bound_to == c->calls.cached[i].call.id)
            return prepared->op.streams;
    }
    return -1;
}

struct stored {
    enum tt_collective collective;
    bool in_place;
    const char *options;
    size_t bytes; /* of all blocks, or of the vector; 0: the level 2 cache */
    int expected;
};

#define FROM_64K "fused=off;stream_bytes=64K"
#define FROM_1G "fused=off;stream_bytes=1G"

static const struct stored cases[] = {
    { TT_ALL_REDUCE, false, FROM_64K, (64 << 10) - 8, NEITHER },
    { TT_ALL_REDUCE, false, FROM_64K, 64 << 10, TT_STREAM_REMOTE },
    { TT_ALL_REDUCE, false, FROM_64K, (N * 64 << 10) - 8, TT_STREAM_REMOTE },
    { TT_ALL_REDUCE, false, FROM_64K, N * 64 << 10, BOTH },
    { TT_ALL_REDUCE, true, FROM_64K, N * 64 << 10, NEITHER },
    { TT_ALL_GATHER, false, FROM_64K, (64 << 10) - 8, NEITHER },
    { TT_ALL_GATHER, true, FROM_64K, 64 << 10, TT_STREAM_REMOTE },
    { TT_ALL_GATHER, true, FROM_1G, 0, NEITHER },
    { TT_ALL_TO_ALL, false, FROM_1G, 0, NEITHER },
    { TT_ALL_TO_ALL, true, FROM_1G, 0, TT_STREAM_REMOTE },
    { TT_ALL_TO_ALL, true, FROM_1G, 64 << 10, NEITHER },
};

static tutti_status call(
    const struct stored *s, uint8_t *send, uint8_t *recv, size_t bytes, int rank, tutti_comm *comm)
{
    tutti_stream none = tutti_no_stream();
    size_t count = bytes / sizeof(int32_t), own = s->in_place ? (size_t)rank * bytes / N : 0;
    if (s->in_place)
        send = recv;
    if (s->collective == TT_ALL_REDUCE)
        return tutti_all_reduce(send, recv, count, TUTTI_INT32, TUTTI_SUM, comm, none);
    if (s->collective == TT_ALL_GATHER)
        return tutti_all_gather(send + own, recv, count / N, TUTTI_INT32, comm, none);
    return tutti_all_to_all(send, recv, count / N, TUTTI_INT32, comm, none);
}

static void bind_all(struct ranks_me *me)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct stored *s = &cases[i];
        size_t bytes = s->bytes > 0 ? s->bytes : tt_cache_own_bytes();
        tutti_config config = { .size = sizeof config, .options = s->options };
        tutti_comm *comm = ranks_join(me, &config);
        uint8_t *send = calloc(1, bytes), *recv = calloc(1, bytes);
        for (int again = 0; again < 2; again++)
            ranks_ok(me, call(s, send, recv, bytes, me->rank, comm), "a call");
        int bound = bound_to(tt_comm_find(comm));
        ranks_expect(
            me, bound == s->expected, "case %zu, %zu bytes: %d and not %d", i, bytes, bound, s->expected);
        ranks_part(me, comm);
        free(send);
        free(recv);
    }
}

Test(caches, what_is_stored_past_them)
{
    ranks_run(&(struct ranks_plan){ .n = N, .run = bind_all });
}

/* How often its bytes make up the buffers of all ranks, and how often these must fill the last cache; 0: it
 * stores nothing past it. */
static const struct {
    enum tt_collective collective;
    bool in_place, turns /* ranks take turns on cores */;
    int buffers, caches;
} filled[] = {
    { TT_ALL_REDUCE, false, false, 2 * N, 1 },
    { TT_ALL_REDUCE, false, true, 2 * N, 2 },
    { TT_ALL_REDUCE, true, false, N, 0 },
    { TT_ALL_GATHER, false, false, N + 1, 2 },
    { TT_ALL_GATHER, true, false, N, 2 },
    { TT_ALL_TO_ALL, false, true, 2 * N, 2 },
};

static void fill(struct ranks_me *me)
{
    enum { CACHE = 1 << 20, STEP = 64 * N };
    for (size_t i = 0; i < sizeof filled / sizeof filled[0]; i++) {
        size_t buffers = (size_t)filled[i].buffers * STEP, caches = (size_t)filled[i].caches * CACHE;
        size_t full = caches > 0 ? (caches + buffers - 1) / buffers * STEP : CACHE;
        uint8_t *send = calloc(1, full), *recv = calloc(1, full);
        for (size_t less = 0; less <= STEP; less += STEP) {
            struct stored s = { filled[i].collective, filled[i].in_place, "fused=off", 0, NEITHER };
            tutti_config config = { .size = sizeof config, .options = s.options };
            tutti_comm *comm = ranks_join(me, &config);
            struct tt_comm *c = tt_comm_find(comm);
            ranks_expect(me, c->memory.cached_bytes == tt_cache_shared_bytes(), "%zu cached",
                (size_t)c->memory.cached_bytes);
            c->memory.cached_bytes = CACHE;
            c->waiting.policy.spins = !filled[i].turns;
            for (int again = 0; again < 2; again++)
                ranks_ok(me, call(&s, send, recv, full - less, me->rank, comm), "a call");
            int bound = bound_to(c);
            bool expected = less == 0 && filled[i].caches > 0;
            ranks_expect(me, bound >= 0 && (bound != NEITHER) == expected, "case %zu, %zu bytes: %d", i,
                full - less, bound);
            ranks_part(me, comm);
        }
        free(send);
        free(recv);
    }
}

Test(caches, what_overflows_is_stored_past_them)
{
    ranks_run(&(struct ranks_plan){ .n = N, .run = fill });
}

/* As `lscpu` and people read it. */
Test(caches, shared_one_is_as_long_as_the_kernel_says)
{
    FILE *pipe = popen("cat /sys/devices/system/cpu/cpu0/cache/index3/size 2>/dev/null", "r");
    char line[32] = "";
    cr_assert_not_null(pipe);
    bool tells = fgets(line, sizeof line, pipe) != NULL;
    pclose(pipe);
    if (!tells)
        cr_skip_test("this kernel does not say how long a level 3 cache is");
    cr_expect_eq(tt_cache_shared_bytes() >> 10, strtoull(line, NULL, 10));
}

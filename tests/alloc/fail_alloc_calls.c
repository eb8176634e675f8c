/* SPDX-License-Identifier: BSD-3-Clause */
/* fail_alloc_calls.c: every kind of call, when what it asks for is refused: where an algorithm is chosen and
 * its schedule built, where the call is learned, where it is made as before. A rank is a thread. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fail_alloc.h"

enum { RANKS = 2, TIMES = 3, LONG = 40000 };

struct caller {
    tutti_comm *comm;
    int me;
    tutti_status status;
    int32_t in[LONG], out[LONG]; /* block r of `in`: 10 times the rank, and r */
};

static const size_t ones[RANKS] = { 1, 1 };

enum kind {
    ALL_REDUCE,
    LONG_SUM,
    REDUCE,
    BROADCAST,
    ALL_GATHER,
    ALL_GATHER_V,
    REDUCE_SCATTER,
    REDUCE_SCATTER_V,
    ALL_TO_ALL,
    ALL_TO_ALL_V,
    GATHER,
    GATHER_V,
    SCATTER,
    SCATTER_V,
    MESSAGES,
    KINDS
};

static tutti_status message(struct caller *c)
{
    tutti_group_start();
    tutti_send(c->in, 1, TUTTI_INT32, 1 - c->me, c->comm, tutti_no_stream());
    tutti_recv(c->out, 1, TUTTI_INT32, 1 - c->me, c->comm, tutti_no_stream());
    return tutti_group_end();
}

/* Rooted ones have root 1. */
static tutti_status call(enum kind kind, struct caller *c)
{
    const tutti_type type = TUTTI_INT32;
    tutti_stream none = tutti_no_stream();
    switch (kind) {
    case ALL_REDUCE:
        return tutti_all_reduce(c->in, c->out, 2, type, TUTTI_SUM, c->comm, none);
    case LONG_SUM:
        return tutti_all_reduce(c->in, c->out, LONG, type, TUTTI_SUM, c->comm, none);
    case REDUCE:
        return tutti_reduce(c->in, c->out, 2, type, TUTTI_SUM, 1, c->comm, none);
    case BROADCAST:
        return tutti_broadcast(c->in, c->out, 2, type, 1, c->comm, none);
    case ALL_GATHER:
        return tutti_all_gather(c->in, c->out, 1, type, c->comm, none);
    case ALL_GATHER_V:
        return tutti_all_gather_v(c->in, 1, c->out, ones, NULL, type, c->comm, none);
    case REDUCE_SCATTER:
        return tutti_reduce_scatter(c->in, c->out, 1, type, TUTTI_SUM, c->comm, none);
    case REDUCE_SCATTER_V:
        return tutti_reduce_scatter_v(c->in, ones, c->out, type, TUTTI_SUM, c->comm, none);
    case ALL_TO_ALL:
        return tutti_all_to_all(c->in, c->out, 1, type, c->comm, none);
    case ALL_TO_ALL_V:
        return tutti_all_to_all_v(c->in, ones, NULL, c->out, ones, NULL, type, c->comm, none);
    case GATHER:
        return tutti_gather(c->in, c->out, 1, type, 1, c->comm, none);
    case GATHER_V:
        return tutti_gather_v(c->in, 1, c->out, ones, NULL, type, 1, c->comm, none);
    case SCATTER:
        return tutti_scatter(c->in, c->out, 1, type, 1, c->comm, none);
    case SCATTER_V:
        return tutti_scatter_v(c->in, ones, NULL, c->out, 1, type, 1, c->comm, none);
    default:
        return message(c);
    }
}

/* The first two elements that a kind gives rank `me`; -1: nothing is written there. */
static void expect(enum kind kind, int me, int32_t *first, int32_t *second)
{
    bool root = me == 1;
    *second = -1;
    switch (kind) {
    case ALL_REDUCE:
    case LONG_SUM:
    case REDUCE:
        *first = root || kind != REDUCE ? 10 : -1;
        *second = root || kind != REDUCE ? 12 : -1;
        return;
    case BROADCAST:
        *first = 10;
        *second = 11;
        return;
    case ALL_GATHER:
    case ALL_GATHER_V:
    case GATHER:
    case GATHER_V:
        *first = root || kind == ALL_GATHER || kind == ALL_GATHER_V ? 0 : -1;
        *second = *first == 0 ? 10 : -1;
        return;
    case REDUCE_SCATTER:
    case REDUCE_SCATTER_V:
        *first = 10 + 2 * me;
        return;
    case ALL_TO_ALL:
    case ALL_TO_ALL_V:
        *first = me;
        *second = 10 + me;
        return;
    case SCATTER:
    case SCATTER_V:
        *first = 10 + me;
        return;
    default:
        *first = 10 * (1 - me);
    }
}

/* A call that was refused was not made, and the other rank waits in it. */
static bool make(enum kind kind, struct caller *c)
{
    int32_t first, second;
    c->out[0] = c->out[1] = -1;
    c->status = call(kind, c);
    for (int i = 0; i < TRIES_AGAIN && c->status == TUTTI_OUT_OF_MEMORY; i++) {
        if (strlen(tutti_get_last_error(NULL)) == 0)
            return fail("a refusal without a word");
        if (c->out[0] != -1 || c->out[1] != -1)
            return fail("kind %d: refused, but it has run in part", kind);
        c->status = call(kind, c);
    }
    if (c->status != TUTTI_OK)
        return fail("kind %d ended with %d (%s)", kind, c->status, tutti_get_last_error(NULL));
    expect(kind, c->me, &first, &second);
    if (c->out[0] != first || c->out[1] != second)
        return fail("kind %d gave rank %d %d and %d, not %d and %d", kind, c->me, c->out[0], c->out[1], first,
            second);
    return true;
}

static void *run_caller(void *argument)
{
    struct caller *c = argument;
    for (int i = 0; i < LONG; i++)
        c->in[i] = 10 * c->me + i;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < TIMES; i++)
            if (!make((enum kind)kind, c))
                return NULL;
    return NULL;
}

tutti_status try_calls(long refusal)
{
    /* Forced, because the predictions of each would be thousands of requests; those are refused in
     * "rules". */
    static const char algorithms[] =
        "slice=16K;algo=all_reduce:direct,reduce:tree,broadcast:tree,all_gather:ring,all_gather_v:direct,"
        "reduce_scatter:ring,reduce_scatter_v:direct,all_to_all:bruck,gather:tree,scatter:tree";
    static struct caller callers[RANKS];
    tutti_comm *comms[RANKS];
    pthread_t threads[RANKS];
    tutti_config config = { .size = sizeof config, .options = algorithms };
    tutti_status status = tutti_comm_init_all(RANKS, NULL, &config, comms);
    if (status != TUTTI_OK)
        return status;
    atomic_store(&countdown, refusal);
    for (int r = 0; r < RANKS; r++) {
        callers[r] = (struct caller){ .comm = comms[r], .me = r };
        start_thread(&threads[r], run_caller, &callers[r]);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    atomic_store(&countdown, atomic_load(&countdown) > 0 ? -1 : 0);
    for (int r = 0; r < RANKS; r++) {
        status = status == TUTTI_OK ? callers[r].status : status;
        tutti_comm_destroy(comms[r]);
    }
    return status;
}

/* Rules, and what they choose. */
tutti_status try_rules(long refusal)
{
    char path[] = "fail_alloc_rules_XXXXXX", options[64];
    static const char rules[] =
        "all_reduce 2 0- tree\n"; /* no rule for the broadcast: its time is predicted */
    tutti_comm *comms[RANKS] = { NULL, NULL };
    int32_t v[RANKS] = { 1, 2 };
    int file = mkstemp(path);
    if (file < 0 || write(file, rules, sizeof rules - 1) < 0)
        fail("a file of rules cannot be written");
    close(file);
    snprintf(options, sizeof options, "rules=%s", path);
    tutti_config config = { .size = sizeof config, .options = options };
    atomic_store(&countdown, refusal);
    tutti_status status = tutti_comm_init_all(RANKS, NULL, &config, comms);
    for (int i = 0; i < 2 && status == TUTTI_OK; i++) {
        tutti_group_start();
        for (int r = 0; r < RANKS; r++)
            tutti_all_reduce(&v[r], &v[r], 1, TUTTI_INT32, TUTTI_MAX, comms[r], tutti_no_stream());
        for (int r = 0; r < RANKS; r++)
            tutti_broadcast(&v[r], &v[r], 1, TUTTI_INT32, 1, comms[r], tutti_no_stream());
        status = tutti_group_end();
    }
    atomic_store(&countdown, atomic_load(&countdown) > 0 ? -1 : 0);
    if (status == TUTTI_OK && (v[0] != 2 || v[1] != 2))
        fail("the greater of 1 and 2 is %d, %d", v[0], v[1]);
    for (int r = 0; r < RANKS && comms[r] != NULL; r++)
        tutti_comm_destroy(comms[r]);
    unlink(path);
    return status;
}

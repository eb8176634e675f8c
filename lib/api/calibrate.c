/* SPDX-License-Identifier: BSD-3-Clause */
/* calibrate.c: what this machine's costs are, by a few short measurements.
 *
 * Two threads of this process pass messages by the library's own calls, so that what is measured is what is
 * priced: a message there and back gives the latency, a few sends in a row the work of each, a long message
 * the price of a byte. Folds and copies are measured by one thread. Each figure is the least of several
 * tries: what disturbs only adds. Where the cores stand to each other differently, the nearest pair is what
 * is near, and the farthest what is far; with one core there is nothing between cores to measure. What it
 * costs to take turns on a core is not measured: it depends on what else runs. There the defaults stand. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "kernels/kernels.h"
#include "select/selection.h"

enum {
    TRIES = 9,
    PINGS = 200,
    BURST = 4, /* sends that need not wait for a slot */
    LONG_BYTES = 256 * 1024,
    LOCAL_BYTES = 4 << 20, /* not in the first caches, as what other ranks wrote is not */
    PEERS = 4, /* cores that are tried beside the first */
    CPUS = 1024,
};
#define FEMTOSECONDS 1000000 /* in a nanosecond */

struct talk {
    tutti_comm *comms[2];
    void *memory[2]; /* that the other can map */
    int cpus[2];
    int64_t ping_ns, send_ns, long_ns; /* a round of PINGS, BURST sends, a long message there and back */
    tutti_status status[2];
};

struct talker {
    struct talk *talk;
    int me;
};

static int64_t least(int64_t a, int64_t b)
{
    return a == 0 || b < a ? b : a;
}

static tutti_status pass(const struct talker *t, bool sends, size_t bytes)
{
    tutti_comm *comm = t->talk->comms[t->me];
    void *memory = t->talk->memory[t->me];
    return sends ? tutti_send(memory, bytes, TUTTI_UINT8, 1 - t->me, comm, tutti_no_stream())
                 : tutti_recv(memory, bytes, TUTTI_UINT8, 1 - t->me, comm, tutti_no_stream());
}

/* `count` times there and back. */
static tutti_status ping(const struct talker *t, int count, size_t bytes, int64_t *ns)
{
    tutti_status status = TUTTI_OK;
    int64_t began = tt_now_ns();
    for (int i = 0; i < 2 * count && status == TUTTI_OK; i++)
        status = pass(t, i % 2 == t->me, bytes);
    if (t->me == 0)
        *ns = least(*ns, tt_now_ns() - began);
    return status;
}

static tutti_status burst(const struct talker *t, int64_t *ns)
{
    tutti_status status = TUTTI_OK;
    int64_t began = tt_now_ns();
    for (int i = 0; i < BURST && status == TUTTI_OK; i++)
        status = pass(t, t->me == 0, 8);
    if (t->me == 0)
        *ns = least(*ns, tt_now_ns() - began);
    return status == TUTTI_OK ? pass(t, t->me == 1, 8) : status; /* so that the slots are free again */
}

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set); /* of this thread; if it cannot, it is measured where it is */
}

static void *talk(void *argument)
{
    struct talker *t = argument;
    struct talk *all = t->talk;
    tutti_status status = TUTTI_OK;
    bind_to(all->cpus[t->me]);
    for (int i = 0; i < TRIES && status == TUTTI_OK; i++) {
        status = ping(t, PINGS, 8, &all->ping_ns);
        if (status == TUTTI_OK)
            status = burst(t, &all->send_ns);
        if (status == TUTTI_OK)
            status = ping(t, 1, LONG_BYTES, &all->long_ns);
    }
    all->status[t->me] = status;
    return NULL;
}

/* Both talkers are threads of their own, so that no binding stays with the caller. */
static tutti_status run_talk(struct talk *all)
{
    struct talker talkers[2] = { { all, 0 }, { all, 1 } };
    pthread_t threads[2];
    tutti_status status = tt_thread_start("that measures", talk, &talkers[0], &threads[0]);
    if (status != TUTTI_OK)
        return status;
    status = tt_thread_start("that measures", talk, &talkers[1], &threads[1]);
    if (status != TUTTI_OK)
        tutti_comm_abort(all->comms[1]);
    else
        pthread_join(threads[1], NULL);
    pthread_join(threads[0], NULL);
    for (int i = 0; i < 2 && status == TUTTI_OK; i++)
        status = all->status[i];
    return status;
}

static uint64_t positive(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0;
}

/* From the times of one pair of cores to its costs. */
static void conclude(const struct talk *all, uint64_t *latency, uint64_t *byte, uint64_t *message)
{
    int64_t one_way = all->ping_ns * FEMTOSECONDS / (2 * PINGS);
    int64_t work = all->send_ns * FEMTOSECONDS / BURST;
    work = work < one_way / 4 ? work : one_way / 4; /* a call is more than its message */
    *message = positive(work);
    *latency = positive(one_way - 2 * work);
    *byte = positive((all->long_ns * FEMTOSECONDS / 2 - one_way) / LONG_BYTES);
}

static tutti_status talk_on(
    const int *cpus, tutti_comm *const *comms, void *const *memory, bool first, struct tt_costs *costs)
{
    struct talk all = { .comms = { comms[0], comms[1] }, .memory = { memory[0], memory[1] } };
    memcpy(all.cpus, cpus, sizeof all.cpus);
    uint64_t latency, byte, message;
    tutti_status status = run_talk(&all);
    if (status != TUTTI_OK)
        return status;
    conclude(&all, &latency, &byte, &message);
    if (first || latency < costs->latency[TT_NEAR]) {
        costs->latency[TT_NEAR] = latency;
        costs->byte[TT_NEAR] = byte;
        costs->message = message;
    }
    if (first || latency > costs->latency[TT_FAR]) {
        costs->latency[TT_FAR] = latency;
        costs->byte[TT_FAR] = byte;
    }
    return TUTTI_OK;
}

/* Up to 1 + PEERS cores that this process may use, spread over all of them. */
static int choose_cpus(int *cpus)
{
    cpu_set_t set;
    int all[CPUS], count = 0, chosen = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 0;
    for (int cpu = 0; cpu < CPUS; cpu++)
        if (CPU_ISSET(cpu, &set))
            all[count++] = cpu;
    chosen = count < 1 + PEERS ? count : 1 + PEERS;
    for (int i = 0; i < chosen; i++)
        cpus[i] = all[chosen > 1 ? i * (count - 1) / (chosen - 1) : 0];
    return chosen;
}

static tutti_status measure_messages(tutti_comm *const *comms, void *const *memory, struct tt_costs *costs)
{
    int cpus[1 + PEERS], count = choose_cpus(cpus);
    tutti_status status = TUTTI_OK;
    for (int i = 1; i < count && status == TUTTI_OK; i++) {
        const int pair[2] = { cpus[0], cpus[i] };
        status = talk_on(pair, comms, memory, i == 1, costs);
    }
    return status;
}

static tutti_status measure_work(struct tt_costs *costs)
{
    float *memory = malloc((size_t)3 * LOCAL_BYTES);
    int64_t fold_ns = 0, copy_ns = 0;
    if (memory == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to measure with");
    memset(memory, 1, (size_t)3 * LOCAL_BYTES); /* what was never written is all one page */
    size_t count = LOCAL_BYTES / sizeof(float);
    const void *sources[2] = { memory + count, memory + 2 * count };
    tt_fold_fn fold = tt_fold_find(TUTTI_FLOAT32, TUTTI_SUM, TT_CHAIN);
    for (int i = 0; i < TRIES; i++) {
        int64_t began = tt_now_ns();
        fold(memory, sources, 2, count, 1);
        int64_t middle = tt_now_ns();
        tt_copy_bytes(memory, sources[0], LOCAL_BYTES);
        fold_ns = least(fold_ns, middle - began);
        copy_ns = least(copy_ns, tt_now_ns() - middle);
    }
    free(memory);
    costs->fold = positive(fold_ns * FEMTOSECONDS / (3 * LOCAL_BYTES));
    costs->copy = positive(copy_ns * FEMTOSECONDS / LOCAL_BYTES);
    return TUTTI_OK;
}

tutti_status tt_costs_measure(struct tt_costs *costs)
{
    tutti_comm *comms[2] = { NULL, NULL };
    void *memory[2] = { NULL, NULL };
    struct tt_costs measured = *costs;
    tutti_status status = tutti_comm_init_all(2, NULL, NULL, comms);
    for (int i = 0; i < 2 && status == TUTTI_OK; i++)
        status = tutti_mem_alloc(LONG_BYTES, 0, &memory[i]);
    if (status == TUTTI_OK)
        status = measure_messages(comms, memory, &measured);
    if (status == TUTTI_OK)
        status = measure_work(&measured);
    for (int i = 0; i < 2; i++) {
        if (comms[i] != NULL)
            tutti_comm_destroy(comms[i]);
        if (memory[i] != NULL)
            tutti_mem_free(memory[i]);
    }
    if (status == TUTTI_OK)
        *costs = measured;
    return status;
}

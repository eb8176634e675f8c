/* SPDX-License-Identifier: BSD-3-Clause */
/* ways.c: each way has a communicator on which it alone can serve, and a short and a long all_reduce are
 * timed on all of them by turns, as calls are made back to back. A median of the rounds is what a call takes,
 * and two lengths give a line: its slope is the price of a byte.
 *
 *     staged   executor=host
 *     cells    executor=led, and costs by which a pad is dearer
 *     pads     executor=led, and costs by which cells are
 *     mapped   executor=led, and buffers that are registered
 *
 * Kernels of several devices are not measured: they want a device for each rank, and their price is that of
 * pads, wherever buffers are, for no rank knows where the others have theirs.
 *
 * The library prices the worst place that a rank may choose (lib/select/led.h), so all ranks but the leader,
 * whose buffers are always in reach, have the place that is measured. */
#include "ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

enum { SHORT, LONG, LENGTHS };
enum { SHORT_BYTES = 8 << 10, LONG_BYTES = 4 << 20, ROUNDS = 7, CALLS = 8, PATH_BYTES = 256 };

#define LONG_SECONDS 4e-3

static const struct {
    const char *options;
    const char *rules; /* what stands in a file of rules that forces it; NULL: nothing does */
} rows[PERF_WAYS] = {
    [PERF_STAGED] = { "executor=host", NULL },
    [PERF_CELLS] = { "executor=led", "cost pads_call 9000000 ns\n" },
    [PERF_PADS] = { "executor=led;device_pad=32M", "cost cells_call 9000000 ns\n" },
    [PERF_MAPPED] = { "executor=led", NULL },
};

struct bench { /* of a rank */
    struct perf_rank_group *group;
    struct perf_device *device;
    tutti_comm *comms[PERF_WAYS];
    void *buffers[2]; /* operands, results */
    tutti_registration *registered[2];
    size_t lengths[LENGTHS]; /* in bytes */
    double seconds[PERF_WAYS][LENGTHS][ROUNDS]; /* of a call */
};

/* True if a leader's kernel can serve, and may. */
static bool has_ways(const struct perf_rank_group *group)
{
    char executor[32] = "";
    tutti_query(group->comm, "executor", executor, sizeof executor);
    return strcmp(executor, "W") == 0;
}

/* Rank 0 has a file of rules, for as long as the communicator is made. All get its path. */
static tutti_status write_rules(struct perf_rank_group *group, const char *rules, char path[PATH_BYTES])
{
    char(*all)[PATH_BYTES] = calloc((size_t)group->n, sizeof *all), mine[PATH_BYTES] = "";
    if (all == NULL)
        return TUTTI_OUT_OF_MEMORY;
    if (group->rank == 0) {
        snprintf(mine, sizeof mine, "/tmp/collperf-XXXXXX");
        int file = mkstemp(mine);
        size_t length = strlen(rules);
        if (file < 0 || write(file, rules, length) != (ssize_t)length)
            mine[0] = '\0';
        if (file >= 0)
            close(file);
    }
    tutti_status status = perf_group_exchange(group, mine, sizeof mine, all);
    memcpy(path, all[0], PATH_BYTES);
    free(all);
    return status == TUTTI_OK && path[0] == '\0' ? TUTTI_SYSTEM_ERROR : status;
}

static tutti_status join(struct bench *b, enum perf_way way, int64_t timeout_ms)
{
    char options[PATH_BYTES + 96], path[PATH_BYTES] = "";
    tutti_config config = {
        .size = sizeof config, .timeout_ms = timeout_ms, .name = "collperf", .options = options
    };
    tutti_status status = rows[way].rules != NULL ? write_rules(b->group, rows[way].rules, path) : TUTTI_OK;
    snprintf(options, sizeof options, "%s;rules=%s;device=%d", rows[way].options, path, b->device->number);
    if (status == TUTTI_OK)
        status = tutti_comm_split(b->group->comm, 0, b->group->rank, &config, &b->comms[way]);
    if (b->group->rank == 0 && path[0] != '\0')
        unlink(path);
    return status;
}

static tutti_status set_up(struct bench *b, int64_t timeout_ms)
{
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < 2 && status == TUTTI_OK; i++)
        status = perf_device_alloc(b->device, PERF_DEVICE, LONG_BYTES, &b->buffers[i]);
    for (int way = 0; way < PERF_WAYS && status == TUTTI_OK; way++)
        status = join(b, (enum perf_way)way, timeout_ms);
    for (int i = 0; i < 2 && status == TUTTI_OK; i++)
        status = tutti_mem_register(b->comms[PERF_MAPPED], b->buffers[i], LONG_BYTES, &b->registered[i]);
    return status;
}

/* What a rank still has of a communicator that has failed is its own. */
static void take_down(struct bench *b, bool good)
{
    for (int i = 0; i < 2; i++)
        if (b->registered[i] != NULL)
            tutti_mem_deregister(b->comms[PERF_MAPPED], b->registered[i]);
    for (int way = 0; way < PERF_WAYS; way++) {
        if (good)
            tutti_comm_finalize(b->comms[way]);
        if (b->comms[way] != NULL)
            tutti_comm_destroy(b->comms[way]);
    }
    for (int i = 0; i < 2; i++)
        if (b->buffers[i] != NULL)
            perf_device_free(b->device, PERF_DEVICE, b->buffers[i]);
}

/* The seconds of a call on the slowest rank. */
static tutti_status time_calls(struct bench *b, enum perf_way way, size_t bytes, int calls, double *seconds)
{
    double *all = calloc((size_t)b->group->n, sizeof *all);
    tutti_comm *comm = b->comms[way];
    tutti_stream stream = tutti_cuda_stream(b->device->stream);
    tutti_status status = all != NULL ? tutti_barrier(comm, tutti_no_stream()) : TUTTI_OUT_OF_MEMORY;
    double began = perf_clock_seconds();
    for (int i = 0; i < calls && status == TUTTI_OK; i++)
        status =
            tutti_all_reduce(b->buffers[0], b->buffers[1], bytes / 4, TUTTI_FLOAT32, TUTTI_SUM, comm, stream);
    if (status == TUTTI_OK)
        status = perf_device_sync(b->device);
    if (status == TUTTI_OK)
        status = tutti_comm_state(comm);
    *seconds = (perf_clock_seconds() - began) / calls;
    if (status == TUTTI_OK)
        status = perf_group_exchange(b->group, seconds, sizeof *seconds, all);
    for (int rank = 0; rank < b->group->n && status == TUTTI_OK; rank++)
        *seconds = all[rank] > *seconds ? all[rank] : *seconds;
    free(all);
    return status;
}

/* A device that is slow, such as one that is emulated, has shorter calls. */
static tutti_status choose_lengths(struct bench *b)
{
    double seconds = 0;
    tutti_status status = TUTTI_OK;
    b->lengths[SHORT] = b->lengths[LONG] = SHORT_BYTES;
    while (b->lengths[LONG] < LONG_BYTES && seconds < LONG_SECONDS && status == TUTTI_OK) {
        b->lengths[LONG] *= 8;
        status = time_calls(b, PERF_CELLS, b->lengths[LONG], 1, &seconds);
    }
    return status;
}

static tutti_status time_all(struct bench *b)
{
    tutti_status status = choose_lengths(b);
    for (int round = -1; round < ROUNDS; round++) /* the first one warms up */
        for (int way = 0; way < PERF_WAYS; way++)
            for (int length = 0; length < LENGTHS && status == TUTTI_OK; length++)
                status = time_calls(b, (enum perf_way)way, b->lengths[length], CALLS,
                    &b->seconds[way][length][round < 0 ? 0 : round]);
    return status;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, compare);
    return values[ROUNDS / 2];
}

/* The line through both lengths. What noise makes less than nothing is nothing. */
static void find_prices(struct bench *b, struct perf_ways *ways)
{
    int n = b->group->n;
    for (int way = 0; way < PERF_WAYS; way++) {
        double brief = median(b->seconds[way][SHORT]), longer = median(b->seconds[way][LONG]);
        double byte = (longer - brief) / (double)(b->lengths[LONG] - b->lengths[SHORT]);
        byte = byte > 0 ? byte : 0;
        double call = brief - byte * (double)b->lengths[SHORT];
        ways->of[way].byte = byte / n;
        ways->of[way].call = (call > 0 ? call : 0) / (way == PERF_PADS ? n : 1);
    }
    ways->known = true;
}

tutti_status perf_ways_measure(
    struct perf_rank_group *group, struct perf_device *device, int64_t timeout_ms, struct perf_ways *ways)
{
    struct bench *b;
    *ways = (struct perf_ways){ 0 };
    if (device->stream == NULL || !has_ways(group))
        return TUTTI_OK;
    tutti_status status = TUTTI_OUT_OF_MEMORY;
    if ((b = calloc(1, sizeof *b)) != NULL) {
        b->group = group;
        b->device = device;
        status = set_up(b, timeout_ms);
        if (status == TUTTI_OK)
            status = time_all(b);
        if (status == TUTTI_OK)
            find_prices(b, ways);
        take_down(b, status == TUTTI_OK);
    }
    free(b);
    if (status != TUTTI_OK)
        perf_group_print_error(group, "the costs of a device's collectives", status);
    return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* limit.c: a few passes of each kind, of which the fastest counts: a limit is what was possible.
 *
 * Ranks leave a barrier together and each makes the same number of passes; the time goes from the first that
 * began to the last that ended, by the clock they share. So ranks that take turns on a core count with all
 * their turns. Stores around the caches are tried only where they can pay. */
#include "limit.h"

#include <stdlib.h>
#include <string.h>

#include "stream.h"

enum {
    TRIES = 3,
    BATCH_BYTES = 16 << 20, /* moved at least in a try: then leaving the barrier unevenly costs little */
    MOST_COPIES = 64, /* of a device in a try: enqueueing takes longer than short ones */
    LEAST_AROUND = 256 << 10, /* bytes of a pass from which stores around the caches are tried */
};

/* The times when each try began and ended at one rank. */
struct tries {
    double began[PERF_STREAM_KINDS][TRIES], ended[PERF_STREAM_KINDS][TRIES];
};
_Static_assert(sizeof(struct tries) <= PERF_RECORD_BYTES, "the tries fit the shared page");

static uint64_t moved(const struct perf_pass *pass)
{
    return pass->bytes * (uint64_t)(pass->ways + pass->targets);
}

static int kinds_of(const struct perf_pass *pass, const struct perf_buffers *b)
{
    return moved(pass) < LEAST_AROUND || b->device != NULL ? PERF_STREAM_PLAIN + 1 : PERF_STREAM_KINDS;
}

static uint64_t times_of(const struct perf_pass *pass, const struct perf_buffers *b)
{
    uint64_t times = BATCH_BYTES / moved(pass) + 1;
    return b->device != NULL && times > MOST_COPIES ? MOST_COPIES : times;
}

/* A copy reads and writes, so it moves twice its length. */
static tutti_status copy_on_device(const struct perf_buffers *b, uint64_t bytes, uint64_t times)
{
    tutti_status status = TUTTI_OK;
    for (uint64_t k = 0; k < times && status == TUTTI_OK; k++)
        status = perf_device_copy(b->device, b->areas[1], b->areas[0], bytes / 2);
    return status == TUTTI_OK ? perf_device_sync(b->device) : status;
}

static tutti_status try_all(struct perf_rank_group *group, const struct perf_pass *pass,
    const struct perf_buffers *b, struct tries *mine)
{
    const uint8_t *from = pass->in_place ? b->recv : b->send;
    uint8_t *to = b->recv + (pass->behind ? pass->bytes : 0);
    uint64_t times = times_of(pass, b);
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < kinds_of(pass, b) * TRIES && status == TUTTI_OK; i++) {
        int kind = i / TRIES, try = i % TRIES;
        status = tutti_barrier(group->comm, tutti_no_stream());
        mine->began[kind][try] = perf_group_clock_seconds(group);
        if (b->device != NULL && status == TUTTI_OK)
            status = copy_on_device(b, moved(pass), times);
        for (uint64_t k = 0; k < times && b->device == NULL; k++)
            perf_stream_run(pass, from, to, kind);
        mine->ended[kind][try] = perf_group_clock_seconds(group);
    }
    if (status != TUTTI_OK)
        perf_group_print_error(group, "the limit", status);
    return status;
}

static double shortest(const struct tries *all, int n, int kinds)
{
    double best = -1;
    for (int i = 0; i < kinds * TRIES; i++) {
        int kind = i / TRIES, try = i % TRIES;
        double began = all[0].began[kind][try], ended = all[0].ended[kind][try];
        for (int rank = 1; rank < n; rank++) {
            began = all[rank].began[kind][try] < began ? all[rank].began[kind][try] : began;
            ended = all[rank].ended[kind][try] > ended ? all[rank].ended[kind][try] : ended;
        }
        best = best < 0 || ended - began < best ? ended - began : best;
    }
    return best;
}

static tutti_status measure(
    struct perf_rank_group *group, const struct perf_buffers *b, struct perf_limit *limit)
{
    const struct perf_pass *pass = &limit->pass;
    struct tries mine = { 0 }, *all = malloc((size_t)group->n * sizeof *all);
    if (all == NULL)
        return TUTTI_OUT_OF_MEMORY;
    tutti_status status = try_all(group, pass, b, &mine);
    if (status == TUTTI_OK)
        status = perf_group_exchange(group, &mine, sizeof mine, all);
    if (status == TUTTI_OK)
        limit->seconds = shortest(all, group->n, kinds_of(pass, b)) / (double)times_of(pass, b);
    free(all);
    return status;
}

static bool is_same(const struct perf_pass *a, const struct perf_pass *b)
{
    return a->ways == b->ways && a->targets == b->targets && a->bytes == b->bytes &&
           a->in_place == b->in_place && a->behind == b->behind;
}

/* Returns how long the links between hosts need. The factor of a bus is the share of the vector that each end
 * of it must carry; here the ends are hosts. */
static double link_seconds(const struct perf_link *link, const struct perf_point *p)
{
    if (link->hosts <= 1 || link->bytes_s <= 0)
        return 0;
    bool own = strncmp(p->collective->name, "all_to_all", strlen("all_to_all")) == 0;
    double vectors = own ? (double)p->n / link->hosts : 1; /* of each rank of a host, or of all together */
    return (double)p->bytes * vectors * p->collective->factor(link->hosts) / link->bytes_s;
}

static tutti_status find_limit(struct perf_limits *l, struct perf_rank_group *group,
    const struct perf_buffers *b, const struct perf_point *p, bool in_place, double *seconds)
{
    struct perf_limit limit = { .pass = perf_point_pass(p, in_place) };
    limit.pass.bytes -= limit.pass.bytes % PERF_STREAM_LINE;
    *seconds = 0;
    if (limit.pass.bytes == 0 || limit.pass.targets == 0)
        return TUTTI_OK;
    for (int i = 0; i < PERF_LIMITS_KEPT && i < l->count; i++) {
        if (is_same(&l->kept[i].pass, &limit.pass)) {
            *seconds = l->kept[i].seconds;
            return TUTTI_OK;
        }
    }
    tutti_status status = measure(group, b, &limit);
    if (status == TUTTI_OK) {
        l->kept[l->count++ % PERF_LIMITS_KEPT] = limit;
        *seconds = limit.seconds;
    }
    return status;
}

tutti_status perf_limits_bytes(struct perf_limits *l, struct perf_rank_group *group,
    const struct perf_buffers *b, const struct perf_point *p, bool in_place, double *seconds)
{
    tutti_status status = find_limit(l, group, b, p, in_place, seconds);
    double link = link_seconds(&l->link, p);
    if (status == TUTTI_OK && *seconds > 0 && link > *seconds)
        *seconds = link;
    return status;
}

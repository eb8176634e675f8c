/* SPDX-License-Identifier: BSD-3-Clause */
/* graph_rig.c: making the rig, values that tell ranks and rounds apart, and the graphs. */
#include "graph_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/plugin.h"

bool graph_fine(const struct graph_rig *rig, enum tt_dev_error error)
{
    return ranks_expect(rig->me, error == TT_DEV_OK, "device: %s", error == TT_DEV_OK ? "" : rig->dev->why());
}

static size_t bytes_of(const struct graph_rig *rig, int area)
{
    return area == GATHERED ? (size_t)rig->me->n * BYTES : BYTES;
}

bool graph_rig_make(struct ranks_me *me, struct graph_rig *rig)
{
    void *memory = NULL;
    int device = me->kind == RANKS_PROCESSES ? 0 : me->rank;
    *rig = (struct graph_rig){ .me = me };
    bool good = ranks_ok(me, tt_dev_find(plugin_path(), &rig->dev), "tt_dev_find");
    good = good && graph_fine(rig, rig->dev->use(device));
    for (int s = 0; s < 2 && good; s++)
        good = graph_fine(rig, rig->dev->stream.create(&rig->streams[s]));
    for (int a = 0; a < AREAS && good; a++) {
        good = graph_fine(rig, rig->dev->memory.alloc(bytes_of(rig, a), &memory));
        rig->device[a] = memory;
        for (int k = 0; k < AT_ONCE && good; k++) {
            good = graph_fine(rig, rig->dev->memory.alloc_pinned(bytes_of(rig, a), &memory));
            rig->pinned[k][a] = memory;
        }
    }
    good = good && graph_fine(rig, rig->dev->memory.alloc_pinned(64, &memory));
    rig->word = memory;
    *rig->word = 0;
    return good;
}

bool graph_rig_join(struct graph_rig *rig)
{
    char options[64];
    int device = rig->me->kind == RANKS_PROCESSES ? 0 : rig->me->rank;
    snprintf(options, sizeof options, "slice=8192;device=%d", device);
    rig->comm = ranks_join(
        rig->me, &(tutti_config){ .size = sizeof(tutti_config), .options = options, .timeout_ms = 200000 });
    return rig->comm != NULL;
}

void graph_settle(const struct graph_rig *rig)
{
    for (int s = 0; s < 2; s++)
        graph_fine(rig, rig->dev->stream.sync(rig->streams[s]));
}

/* --- Values: element i of what a rank gives in a round. */

uint32_t graph_value(int rank, int round, int i)
{
    return (uint32_t)(rank + 1) * 1000003u + (uint32_t)round * 65599u + (uint32_t)i * 31u;
}

static uint32_t graph_sum(int n, int round, int i)
{
    uint32_t all = 0;
    for (int r = 0; r < n; r++)
        all += graph_value(r, round, i);
    return all;
}

void graph_give(const struct graph_rig *rig, int round, void *stream)
{
    uint32_t *from = rig->pinned[round % AT_ONCE][GIVEN];
    for (int i = 0; i < COUNT; i++)
        from[i] = graph_value(rig->me->rank, round, i);
    graph_fine(rig, rig->dev->copy(rig->device[GIVEN], from, BYTES, stream));
}

void graph_fetch(const struct graph_rig *rig, int round, int area, void *stream)
{
    graph_fine(rig,
        rig->dev->copy(rig->pinned[round % AT_ONCE][area], rig->device[area], bytes_of(rig, area), stream));
}

bool graph_is_sum(const struct graph_rig *rig, int round, int area, uint32_t times)
{
    const uint32_t *got = rig->pinned[round % AT_ONCE][area];
    for (int i = 0; i < COUNT; i++) {
        uint32_t expected = times * graph_sum(rig->me->n, round, i);
        if (got[i] != expected)
            return ranks_expect(rig->me, false, "round %d, area %d, element %d is %u, expected %u", round,
                area, i, got[i], expected);
    }
    return true;
}

bool graph_is_of_rank(const struct graph_rig *rig, int round, const uint32_t *got, int rank)
{
    for (int i = 0; i < COUNT; i++)
        if (got[i] != graph_value(rank, round, i))
            return ranks_expect(rig->me, false, "round %d, of rank %d: element %d is %u, expected %u", round,
                rank, i, got[i], graph_value(rank, round, i));
    return true;
}

/* --- Graphs */

void graph_reduce(const struct graph_rig *rig, int from, int to, void *stream)
{
    ranks_ok(rig->me,
        tutti_all_reduce(rig->device[from], rig->device[to], COUNT, TUTTI_UINT32, TUTTI_SUM, rig->comm,
            tutti_cuda_stream(stream)),
        "tutti_all_reduce");
}

static void graph_shift(const struct graph_rig *rig, void *stream)
{
    int n = rig->me->n, next = (rig->me->rank + 1) % n, before = (rig->me->rank + n - 1) % n;
    tutti_stream on = tutti_cuda_stream(stream);
    ranks_ok(rig->me, tutti_group_start(), "tutti_group_start");
    ranks_ok(rig->me, tutti_send(rig->device[GIVEN], COUNT, TUTTI_UINT32, next, rig->comm, on), "send");
    ranks_ok(rig->me, tutti_recv(rig->device[RECEIVED], COUNT, TUTTI_UINT32, before, rig->comm, on), "recv");
    ranks_ok(rig->me, tutti_group_end(), "tutti_group_end");
}

void *graph_capture_end(const struct graph_rig *rig, void *stream)
{
    void *graph = NULL, *runnable = NULL;
    if (graph_fine(rig, rig->dev->graph.capture_end(stream, &graph)) &&
        graph_fine(rig, rig->dev->graph.instantiate(graph, &runnable)))
        graph_fine(rig, rig->dev->graph.destroy(graph));
    return runnable;
}

void *graph_capture_reduce(const struct graph_rig *rig, int from, int to, void *stream)
{
    graph_fine(rig, rig->dev->graph.capture_begin(stream));
    graph_reduce(rig, from, to, stream);
    return graph_capture_end(rig, stream);
}

void *graph_capture_three(const struct graph_rig *rig, void *stream)
{
    graph_fine(rig, rig->dev->graph.capture_begin(stream));
    graph_reduce(rig, GIVEN, REDUCED, stream);
    ranks_ok(rig->me,
        tutti_all_gather(rig->device[GIVEN], rig->device[GATHERED], COUNT, TUTTI_UINT32, rig->comm,
            tutti_cuda_stream(stream)),
        "tutti_all_gather");
    graph_shift(rig, stream);
    return graph_capture_end(rig, stream);
}

static bool can_be(const struct graph_plan *plan)
{
    static const char *const keys[] = { "devices=", "fail=", "memory=" };
    bool can = plan->kind == RANKS_PROCESSES;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        can = can && strstr(plan->stub, keys[i]) == NULL;
    return can || plugin_is_stub();
}

/* tests/gpu/run reads these lines. */
static void leave_out(const struct graph_plan *plan)
{
    fprintf(stderr, "left out, as this is not the stub: %d %s with %s\n", plan->n,
        plan->kind == RANKS_PROCESSES ? "processes" : "threads", plan->stub);
}

void graph_run_all(const struct graph_plan *plans, size_t count)
{
    size_t left = 0;
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    for (size_t i = 0; i < count; i++)
        left += !can_be(&plans[i]);
    if (left == count)
        plugin_must_be_stub();
    for (const struct graph_plan *p = plans; p < plans + count; p++) {
        if (!can_be(p)) {
            leave_out(p);
            continue;
        }
        setenv("STUB_GPU", p->stub, 1);
        ranks_run(&(struct ranks_plan){ .n = p->n,
            .kind = p->kind,
            .run = p->run,
            .context = p->context,
            .limit_s = 200,
            .may_die = p->may_die });
    }
}

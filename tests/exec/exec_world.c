/* SPDX-License-Identifier: BSD-3-Clause */
/* exec_world.c: the rig in time: all ranks over the simulator, one operation after another.
 *
 * A rank is driven when the simulator names it, and only then: were the executor in need of being polled
 * for its own sake, it would be left standing here. */
#include "exec_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fences.h"

static void *reserve(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    if (memory == NULL)
        abort();
    return memory;
}

static struct rig_world *driven; /* whose transport functions are called */
static const struct tt_link_ops *its_own; /* the simulator's */

/* A slice that has begun and done nothing gets fresh poison for its TMP. */
static void notice_slices(struct tt_endpoint *e)
{
    struct rig_world *w = driven;
    if (w->current[e->me] >= w->nruns)
        return;
    struct rig_rank *r = &w->runs[w->current[e->me]]->ranks[e->me];
    for (int i = 0; i < TT_WINDOW; i++) {
        const struct tt_slice *slice = &r->op.progress.slices[i];
        if (slice->ready.left == 0 || slice->index == r->slices_seen[i])
            continue;
        bool fresh = slice->ready.left == r->op.order.units;
        for (uint32_t a = 0; a < slice->ready.nactive; a++)
            fresh = fresh && slice->ready.active[a].cursor == 0;
        if (fresh)
            memset(r->tmp + (uint64_t)i * r->op.window_bytes[TT_TMP], RIG_POISON, r->op.window_bytes[TT_TMP]);
        w->tmp_poisoned += fresh;
        r->slices_seen[i] = slice->index;
    }
}

/* What was stored past the caches may be seen late: nobody may be told of it before a fence. */
static void demand_fence(const struct rig_world *w, int rank, const char *what, uint64_t number)
{
    if (fences_is_owed() && w->current[rank] < w->nruns)
        rig_fail(driven, w->runs[w->current[rank]], rank, what, number);
}

static bool watched_send(struct tt_link *link, const struct tt_message *message)
{
    notice_slices(link->endpoint);
    demand_fence(driven, link->endpoint->me, "sends what no fence follows", message->number);
    return its_own->send(link, message);
}

static bool watched_arrived(
    struct tt_link *link, uint64_t number, const struct tt_view *like, struct tt_arrival *arrival)
{
    notice_slices(link->endpoint);
    return its_own->arrived(link, number, like, arrival);
}

static void watched_release(struct tt_link *link, uint64_t number)
{
    demand_fence(driven, link->endpoint->me, "releases what no fence follows", number);
    its_own->release(link, number);
}

/* All links of this endpoint get the functions above. */
static void watch(struct rig_world *w, const struct tt_endpoint *e)
{
    its_own = tt_link_to(e, TT_CLASS_COLLECTIVE, 0)->ops;
    w->ops = *its_own;
    w->ops.send = watched_send;
    w->ops.arrived = watched_arrived;
    w->ops.release = watched_release;
    for (int i = 0; i < TT_CLASSES * e->n; i++)
        e->links[i]->ops = &w->ops;
}

struct rig_world *rig_world_create(const struct rig_settings *settings)
{
    struct rig_world *w = reserve(1, sizeof *w);
    size_t n = (size_t)settings->sim.n;
    w->n = settings->sim.n;
    w->random = ~settings->sim.seed;
    w->first_number = settings->first_number;
    w->endpoints = reserve(n, sizeof *w->endpoints);
    w->current = reserve(n, sizeof *w->current);
    w->next_send = reserve(n * n, sizeof *w->next_send);
    w->next_recv = reserve(n * n, sizeof *w->next_recv);
    for (size_t i = 0; i < n * n; i++)
        w->next_send[i] = w->next_recv[i] = settings->first_number;
    uint8_t *addresses = reserve(n, TT_ADDRESS_BYTES);
    if (tt_sim_create(&settings->sim, &w->sim) != TUTTI_OK)
        abort();
    tt_sim_join(w->sim);
    for (int me = 0; me < w->n; me++) {
        struct tt_endpoint_params params = { .n = w->n,
            .me = me,
            .slot_bytes = UINT64_MAX,
            .first_number = settings->first_number,
            .map = settings->map };
        if (tt_sim_transport.open(&params, addresses + me * TT_ADDRESS_BYTES, &w->endpoints[me]) != TUTTI_OK)
            abort();
        watch(w, w->endpoints[me]);
    }
    for (int me = 0; me < w->n; me++)
        if (tt_sim_transport.connect(w->endpoints[me], addresses) != TUTTI_OK)
            abort();
    free(addresses);
    driven = w;
    return w;
}

void rig_world_free(struct rig_world *w)
{
    for (int r = 0; r < w->n; r++)
        tt_sim_transport.close(w->endpoints[r]);
    tt_sim_destroy(w->sim);
    free(w->endpoints);
    free(w->current);
    free(w->next_send);
    free(w->next_recv);
    free(w);
}

void rig_begin(struct rig_world *w, int rank)
{
    uint64_t sequence = w->first_number + (uint64_t)w->current[rank];
    struct rig_rank *r = &w->runs[w->current[rank]]->ranks[rank];
    struct tt_op *op = &r->op;
    op->endpoint = w->endpoints[rank];
    op->messages.class = TT_CLASS_COLLECTIVE;
    op->messages.sequence = sequence;
    op->messages.next_send = w->next_send + (size_t)rank * (size_t)w->n;
    op->messages.next_recv = w->next_recv + (size_t)rank * (size_t)w->n;
    struct tt_call_record record = { .signature = op->messages.signature };
    op->endpoint->control->publish(op->endpoint, &record, sequence);
    r->begun = true;
    for (uint32_t i = 0; i < TT_WINDOW; i++)
        r->slices_seen[i] = i;
    tt_exec_start(op);
}

enum tt_progress rig_progress(struct rig_world *w, int rank)
{
    struct rig_run *run = w->runs[w->current[rank]];
    uint64_t before = rig_folded_bytes + tt_sim_counts(w->sim)->bytes;
    enum tt_progress now = tt_exec_progress(&run->ranks[rank].op);
    uint64_t bytes = rig_folded_bytes + tt_sim_counts(w->sim)->bytes - before;
    w->call_bytes_max = bytes > w->call_bytes_max ? bytes : w->call_bytes_max;
    w->calls++;
    demand_fence(w, rank, "returns from stores that no fence follows", 0);
    return now;
}

/* The rank does all it can; between two calls, and between two operations, it may fall asleep. */
static void wake(struct rig_world *w, int rank)
{
    while (w->current[rank] < w->nruns) {
        struct rig_run *run = w->runs[w->current[rank]];
        struct rig_rank *r = &run->ranks[rank];
        if (r->over)
            return;
        if (!r->begun)
            rig_begin(w, rank);
        enum tt_progress now = rig_progress(w, rank);
        if (now == TT_IDLE)
            return;
        if (now == TT_FAILED) {
            r->over = true;
            return;
        }
        if (now == TT_DONE) {
            rig_check(w, run, rank);
            r->op.endpoint->control->publish(r->op.endpoint, NULL, r->op.messages.sequence);
            r->over = true;
            w->current[rank]++;
        }
        if (tt_sim_random(&w->random) % 8 == 0) {
            tt_sim_pause(w->sim, rank);
            return;
        }
    }
}

/* Whoever is awake and was not named must have nothing to do. */
static void check_idle(struct rig_world *w, int rank)
{
    if (w->current[rank] >= w->nruns || tt_sim_frozen(w->sim, rank))
        return;
    struct rig_run *run = w->runs[w->current[rank]];
    if (run->ranks[rank].begun && !run->ranks[rank].over && rig_progress(w, rank) != TT_IDLE)
        rig_fail(w, run, rank, "has something to do, though nothing happened to it", 0);
}

void rig_world_load(struct rig_world *w, struct rig_run **runs, int nruns)
{
    driven = w;
    w->runs = runs;
    w->nruns = nruns;
}

void rig_world_drive(struct rig_world *w)
{
    int rank;
    while (tt_sim_step(w->sim, &rank)) {
        wake(w, rank);
        if (w->strict)
            check_idle(w, (int)(tt_sim_random(&w->random) % (uint64_t)w->n));
    }
    if (w->failure[0] == '\0')
        snprintf(w->failure, sizeof w->failure, "%s", tt_sim_error(w->sim));
}

bool rig_world_run(struct rig_world *w, struct rig_run **runs, int nruns)
{
    rig_world_load(w, runs, nruns);
    rig_world_drive(w);
    for (int r = 0; r < w->n; r++)
        if (w->current[r] < nruns) {
            struct rig_run *run = runs[w->current[r]];
            rig_fail(
                w, run, r, "is not done, waits for rank", (uint64_t)tt_exec_waits_for(&run->ranks[r].op));
        }
    for (int r = 0; r < w->n; r++)
        for (int peer = 0; peer < w->n; peer++)
            if (w->next_send[r * w->n + peer] != w->next_recv[peer * w->n + r])
                rig_fail(w, runs[nruns - 1], r, "counts other numbers than rank", (uint64_t)peer);
    if (tt_sim_occupied(w->sim) > 0)
        rig_fail(w, runs[nruns - 1], 0, "slots are left occupied", tt_sim_occupied(w->sim));
    return w->failure[0] == '\0';
}

struct rig_settings rig_rough(int n, uint64_t seed)
{
    uint64_t r = seed;
    struct rig_settings s = { .first_number = tt_sim_random(&r) % 2 ? 1 : (UINT64_C(1) << 32) - 3 };
    s.sim = (struct tt_sim_params){ .n = n, .seed = seed };
    s.sim.slots = TT_WINDOW * (1 + (int)(tt_sim_random(&r) % (TT_SLOTS / TT_WINDOW)));
    s.sim.delay_ns = (uint32_t)(tt_sim_random(&r) % 300);
    s.sim.kib_ns = (uint32_t)(tt_sim_random(&r) % 1000);
    s.sim.jitter_ns = (uint32_t)(tt_sim_random(&r) % 2000);
    s.sim.reorder_percent = (uint8_t)(tt_sim_random(&r) % 60);
    s.sim.split_percent = (uint8_t)(tt_sim_random(&r) % 60);
    s.sim.freeze_percent = (uint8_t)(tt_sim_random(&r) % 20);
    s.sim.freeze_ns = (uint32_t)(tt_sim_random(&r) % 5000);
    s.sim.grant_percent = (uint8_t)(tt_sim_random(&r) % 2 * (tt_sim_random(&r) % 101));
    s.map = tt_sim_random(&r) % 4 > 0;
    return s;
}

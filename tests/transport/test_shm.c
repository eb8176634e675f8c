/* SPDX-License-Identifier: BSD-3-Clause */
/* test_shm.c: the shm transport between processes and between threads: what the common suite cannot ask.
 * Processes die, leave, lie, and outnumber the cores. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "tests/rig/patience.h"
#include "shm_ranks.h"
#include "transport_threads.h"
#include "transports/arena.h"
#include "transports/shm_segment.h"

/* Criterion's own timers leak, which ends a run under a sanitizer. */
static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(shm, .init = limit_time);

/* Processes with other releases of the library are told apart by the version in their addresses, so it has to
 * change with all that two processes agree on without a word. */
Test(shm, a_layout_has_a_version)
{
    struct tt_shm_shape shape;
    tt_shm_shape(&shape, 3, 4096, 1);
    const uint64_t is[] = { TT_SHM_VERSION, TT_PATHS, TT_SHM_SHUTTLES, sizeof(struct tt_shm_control),
        sizeof(struct tt_shm_line), sizeof(struct tt_shm_acks), sizeof(struct tt_shm_grant), shape.holders,
        shape.refused, shape.lines, shape.acks, shape.grants, shape.words };
    static const uint64_t was[] = { 12, 5, 2, 9792, 64, 256, 64, 9792, 9856, 9920, 34496, 36032, 39104 };
    for (size_t i = 0; i < sizeof was / sizeof was[0]; i++)
        cr_expect_eq(is[i], was[i], "number %d is %d: raise TT_SHM_VERSION, and then write it here", (int)i,
            (int)is[i]);
}

/* --- Threads */

Test(shm, threads_exchange)
{
    cr_expect_str_empty(threads_exchange(&tt_shm, 2, 25, true));
    cr_expect_str_empty(threads_exchange(&tt_shm, 5, 10, false));
}

Test(shm, threads_abort)
{
    cr_expect_str_empty(threads_abort(2, 1000));
    cr_expect_str_empty(threads_abort(4, 100));
}

Test(shm, threads_close)
{
    cr_expect_str_empty(threads_close(4, 60));
}

Test(shm, threads_calls)
{
    cr_expect_str_empty(threads_calls(2, 1000000));
}

/* --- Processes */

static void exchange(struct shm_rank *r)
{
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    r->suite.memory[0] = malloc(SUITE_EXCHANGE_BYTES);
    suite_expect(&r->suite, tt_arena_alloc(SUITE_EXCHANGE_BYTES, (void **)&r->suite.memory[1]) == TUTTI_OK,
        "no memory");
    suite_exchange(&r->suite, e, r->stage->params.first_number, 20, 5);
    bool open = ((struct tt_shm_endpoint *)e)->peers[(r->me + 1) % r->n].open;
    for (int path = 0; path < TT_PATHS; path++)
        suite_expect(&r->suite, e->path_bytes[path] > 0 || (path == TT_PATH_PULLED && !open),
            "path %d was not used", path);
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm, processes_exchange)
{
    for (int n = 2; n <= 5; n += 3) {
        struct shm_stage *stage = shm_stage_new(n);
        stage->params.pull = TT_PULL_ALWAYS;
        shm_stage_run(stage, exchange, -1);
    }
}

static void abort_together(struct shm_rank *r)
{
    struct shm_stage *stage = r->stage;
    shm_introduce(r);
    struct tt_endpoint *parent = shm_join(r); /* while it lives, others need no introduction */
    for (int round = 0; round < 60; round++) {
        struct tt_endpoint *e = shm_join(r);
        struct tt_cause cause = { .status = TUTTI_PEER_LOST, .rank = r->me, .peer = round }, *seen;
        snprintf(cause.text, sizeof cause.text, "by %d", r->me);
        if (e->control->abort(e, &cause))
            atomic_fetch_add(&stage->numbers[0], 1);
        seen = &stage->causes[r->me];
        suite_expect(&r->suite, e->control->cause(e, seen) && seen->peer == round, "no cause of this round");
        suite_expect(&r->suite, seen->text[3] == '0' + seen->rank, "a mixed cause");
        shm_meet(r);
        suite_expect(&r->suite, stage->causes[0].rank == seen->rank, "two causes");
        suite_expect(&r->suite, atomic_load(&stage->numbers[0]) == (uint64_t)round + 1, "not one winner");
        tt_shm.close(e);
        shm_meet(r);
    }
    suite_expect(
        &r->suite, !parent->control->cause(parent, &stage->causes[r->me]), "an abort spreads to the parent");
    tt_shm.close(parent);
}

Test(shm, processes_abort)
{
    shm_stage_run(shm_stage_new(4), abort_together, -1);
}

static void sleep_until_abort(struct shm_rank *r)
{
    struct tt_cause cause = { .status = TUTTI_ABORTED, .rank = r->me };
    struct tt_wait wait;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    if (r->me == 1) {
        tt_sleep_ms(150);
        suite_expect(&r->suite, e->control->abort(e, &cause), "nobody else aborts");
    }
    tt_wait_begin(&wait, tt_wait_policy_for(r->n), &e->doorbell, 1);
    while (!e->control->cause(e, &cause))
        tt_wait_idle(&wait);
    tt_wait_awake(&wait); /* found after a timeout and not rung: that would be counted */
    suite_expect(&r->suite, cause.rank == 1, "another cause");
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm, abort_wakes_all)
{
    shm_stage_run(shm_stage_new(5), sleep_until_abort, -1);
}

/* What is seen right after a timeout and was not rung counts as lost, and no rank may end with that. */
static void sleep_until_departure(struct shm_rank *r)
{
    struct tt_wait wait;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    tt_wait_begin(&wait, tt_wait_policy_for(r->n), &e->doorbell, 1);
    if (r->me == 0)
        tt_sleep_ms(150);
    while (r->me != 0 && peer_state(e, 0) != TT_PEER_LEFT)
        tt_wait_idle(&wait);
    tt_wait_awake(&wait);
    tt_shm.close(e);
}

Test(shm, departure_wakes)
{
    shm_stage_run(shm_stage_new(4), sleep_until_departure, -1);
}

/* A sender that waits for a slot, or for its buffer, sleeps too. */
static void sleep_until_released(struct shm_rank *r)
{
    uint64_t first = r->stage->params.first_number;
    uint8_t note[8];
    struct tt_wait wait;
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    tt_wait_begin(&wait, tt_wait_policy_for(r->n), &e->doorbell, 1);
    for (uint64_t i = 0; r->me == 0 && i <= TT_SHM_LINES; i++) {
        while (!shm_post(e, 1, first + i, i, note, sizeof note))
            tt_wait_idle(&wait);
        tt_wait_awake(&wait);
    }
    if (r->me == 1)
        tt_sleep_ms(150);
    for (uint64_t i = 0; r->me == 1 && i <= TT_SHM_LINES; i++)
        shm_take(r, e, 0, first + i, i, sizeof note);
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm, release_wakes)
{
    shm_stage_run(shm_stage_new(2), sleep_until_released, -1);
}

/* What fits in a line runs ahead of what fills the slots, as far as there are lines. */
static void run_ahead(struct shm_rank *r)
{
    uint64_t first = r->stage->params.first_number, last = first + TT_SHM_LINES;
    uint8_t text[100];
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    if (r->me == 0) {
        for (uint64_t i = 0; i < TT_SHM_LINES; i++)
            suite_expect(&r->suite, shm_post(e, 1, first + i, i, text, i < TT_SLOTS ? sizeof text : 9),
                "message %d finds no room", (int)i);
        suite_expect(&r->suite, !shm_post(e, 1, last, 0, text, 9), "there is a line too many");
    }
    shm_meet(r);
    for (uint64_t i = TT_SLOTS; r->me == 1 && i < TT_SHM_LINES; i++)
        shm_take(r, e, 0, first + i, i, 9);
    shm_meet(r);
    if (r->me == 0)
        suite_expect(&r->suite,
            !shm_post(e, 1, first + TT_SHM_LINES + TT_SLOTS + TT_SHM_SHUTTLES, 0, text, sizeof text),
            "a copy takes another one's slot"); /* the first messages went by the shuttles */
    shm_meet(r);
    for (uint64_t i = 0; r->me == 1 && i < TT_SLOTS; i++)
        shm_take(r, e, 0, first + i, i, sizeof text);
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm, lines_run_ahead_of_slots)
{
    shm_stage_run(shm_stage_new(2), run_ahead, -1);
}

static const struct tt_wait_policy at_once = { .spins = 0, .yield_us = 0 };

/* A message goes round; everybody else sleeps. */
static void ring_round(struct shm_rank *r)
{
    enum { LAPS = 2000 };
    uint64_t first = r->stage->params.first_number;
    int next = (r->me + 1) % r->n, before = (r->me + r->n - 1) % r->n;
    uint8_t note[8];
    struct tt_layout layout;
    struct tt_arrival a;
    struct tt_wait wait;
    struct tt_view like = { .layout = &layout, .nchunks = 1 };
    tt_layout_even(&layout, sizeof note, 1, 1, 1);
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    tt_wait_begin(&wait, at_once, &e->doorbell, 1);
    for (uint64_t lap = 0; lap < LAPS; lap++) {
        if (r->me == 0)
            suite_expect(&r->suite, shm_post(e, next, first + lap, lap, note, sizeof note), "no free slot");
        while (!link_arrived(tt_link_to(e, TT_CLASS_P2P, before), first + lap, &like, &a))
            tt_wait_idle(&wait);
        tt_wait_awake(&wait);
        link_release(tt_link_to(e, TT_CLASS_P2P, before), first + lap);
        if (r->me != 0)
            suite_expect(&r->suite, shm_post(e, next, first + lap, lap, note, sizeof note), "no free slot");
    }
    tt_shm.close(e);
}

Test(shm, no_wake_up_is_lost)
{
    shm_stage_run(shm_stage_new(2), ring_round, -1);
    shm_stage_run(shm_stage_new(6), ring_round, -1);
}

static double seconds_of_children(void)
{
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double seconds_of_process(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

enum { SLEEP_MS = 2000 };

/* All wait for one that sleeps; what they burn meanwhile is noted in microseconds. */
static void wait_for_a_sleeper(struct shm_rank *r)
{
    uint64_t first = r->stage->params.first_number;
    uint8_t note[8];
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    double before = seconds_of_process();
    if (r->me == 0) {
        tt_sleep_ms(SLEEP_MS);
        for (int peer = 1; peer < r->n; peer++)
            shm_post(e, peer, first, 1, note, sizeof note);
    } else {
        shm_take(r, e, 0, first, 1, sizeof note);
    }
    atomic_store(&r->stage->numbers[r->me], (uint64_t)(1e6 * (seconds_of_process() - before)));
    shm_meet(r);
    uint64_t sum = 0;
    for (int rank = 0; rank < r->n; rank++)
        sum += atomic_load(&r->stage->numbers[rank]);
    suite_expect(&r->suite, sum < SLEEP_MS * 50, "%d us of a core in %d ms", (int)sum, SLEEP_MS);
    tt_shm.close(e);
}

Test(shm, waiting_costs_no_core)
{
    shm_stage_run(shm_stage_new(8), wait_for_a_sleeper, -1);
    cr_expect_lt(seconds_of_children(), 1.5);
}

/* --- Ends */

static void sweep(void)
{
    void *page;
    if (tt_arena_alloc(1, &page) == TUTTI_OK)
        tt_arena_free(page);
}

/* Rank 1 dies with messages on the way; rank 2 lives on. */
static void die(struct shm_rank *r)
{
    enum { BYTES = 100000 };
    struct shm_stage *stage = r->stage;
    uint64_t first = stage->params.first_number;
    uint8_t *private = malloc(BYTES), *shared;
    shm_introduce(r);
    uint64_t empty = shm_resident();
    suite_expect(&r->suite, tt_arena_alloc(BYTES, (void **)&shared) == TUTTI_OK, "no memory");
    struct tt_endpoint *e = shm_join(r);
    if (r->me == 1) {
        shm_post(e, 0, first, 3, private, 40);
        shm_post(e, 0, first + 1, 4, private, 1000);
        shm_post(e, 0, first + 2, 5, shared, BYTES);
        atomic_store(&stage->numbers[1], 1);
        raise(SIGKILL);
    }
    if (r->me == 2) {
        shm_take(r, e, 0, first, 7, 20);
        tt_shm.close(e);
        atomic_store(&stage->numbers[2], 1);
        return;
    }
    int64_t deadline = tt_deadline_ns(100000);
    while (peer_state(e, 1) == TT_PEER_ALIVE && tt_now_ns() < deadline)
        tt_sleep_ms(1);
    suite_expect(&r->suite, peer_state(e, 1) == TT_PEER_DEAD, "the dead are not seen");
    suite_expect(&r->suite, peer_state(e, 2) == TT_PEER_ALIVE, "the living seem dead");
    shm_take(r, e, 1, first, 3, 40);
    shm_take(r, e, 1, first + 1, 4, 1000);
    shm_take(r, e, 1, first + 2, 5, BYTES);
    shm_post(e, 2, first, 7, private, 20);
    tt_shm.close(e);
    while (atomic_load(&stage->numbers[2]) == 0 && tt_now_ns() < deadline)
        tt_sleep_ms(1);
    sweep();
    tt_arena_free(shared);
    suite_expect(
        &r->suite, shm_resident() == empty, "a segment waits for the dead: %d bytes", (int)shm_resident());
}

Test(shm, a_killed_process)
{
    shm_stage_run(shm_stage_new(3), die, 1);
}

enum { STAYS = 1 }; /* the process of rank 0, until the others have read */

/* Rank 0 sends and is gone at once, reusing its memory for other things; the others take their time. */
static void leave_early(struct shm_rank *r)
{
    uint64_t first = r->stage->params.first_number;
    uint8_t text[1000];
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    for (uint64_t i = 0; r->me == 0 && i < TT_SLOTS; i++)
        for (int peer = 1; peer < r->n; peer++)
            shm_post(e, peer, first + i, i + (uint64_t)peer, text, i % 2 == 0 ? 48 : sizeof text);
    if (r->me == 0) {
        tt_shm.close(e);
        for (int i = 0; i < 8; i++) {
            void *other;
            if (tt_arena_alloc(1 << 20, &other) == TUTTI_OK)
                memset(other, 0xee, 1 << 20);
        }
        if (r->stage->numbers[0] == STAYS)
            shm_meet(r); /* else its process ends before the others look */
        return;
    }
    tt_sleep_ms(50);
    suite_expect(&r->suite, peer_state(e, 0) == TT_PEER_LEFT, "rank 0 has not left");
    for (uint64_t i = 0; i < TT_SLOTS; i++)
        shm_take(r, e, 0, first + i, i + (uint64_t)r->me, i % 2 == 0 ? 48 : sizeof text);
    tt_shm.close(e);
    if (r->stage->numbers[0] == STAYS)
        shm_meet(r);
}

Test(shm, who_left_can_still_be_read)
{
    shm_stage_run(shm_stage_new(4), leave_early, -1);
    struct shm_stage *stage = shm_stage_new(4);
    stage->numbers[0] = STAYS;
    shm_stage_run(stage, leave_early, -1);
}

/* --- Nothing grows */

struct census {
    int fds, maps; /* of arenas */
    uint64_t resident;
};

static struct census take_census(void)
{
    struct census c = { .resident = shm_resident() };
    char line[512];
    for (int fd = 0; fd < 1024; fd++)
        c.fds += fcntl(fd, F_GETFD) >= 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        c.maps += strstr(line, "memfd:tutti") != NULL;
    if (maps != NULL)
        fclose(maps);
    return c;
}

static void expect_no_growth(struct transport_suite *s, const struct census *before)
{
    struct census now = take_census();
    suite_expect(s, now.fds == before->fds, "%d descriptors became %d", before->fds, now.fds);
    suite_expect(s, now.maps == before->maps, "%d mappings became %d", before->maps, now.maps);
    suite_expect(s, now.resident <= before->resident, "%d bytes of the arena became %d",
        (int)before->resident, (int)now.resident);
}

static void come_and_go(struct shm_rank *r)
{
    uint64_t first = r->stage->params.first_number;
    uint8_t text[1000];
    struct census before = { 0 };
    for (int round = 0; round < 200; round++) {
        shm_introduce(r);
        struct tt_endpoint *e = shm_join(r);
        shm_post(e, 1 - r->me, first, 1, text, sizeof text);
        shm_take(r, e, 1 - r->me, first, 1, sizeof text);
        tt_shm.close(e);
        shm_meet(r);
        sweep();
        if (round == 10)
            before = take_census();
    }
    expect_no_growth(&r->suite, &before);
    suite_expect(&r->suite, shm_resident() <= 4096, "%d bytes stay in the arena", (int)shm_resident());
}

Test(shm, processes_come_and_go)
{
    shm_stage_run(shm_stage_new(2), come_and_go, -1);
}

Test(shm, communicators_come_and_go)
{
    struct transport_suite s = { .transport = &tt_shm };
    struct census before;
    uint8_t addresses[3][TT_ADDRESS_BYTES];
    for (int round = 0; round < 1020; round++) {
        struct tt_endpoint *e[3];
        struct tt_endpoint_params params = { .n = 3, .slot_bytes = 5000, .map = true };
        for (params.me = 0; params.me < 3; params.me++)
            cr_assert_eq(tt_shm.open(&params, addresses[params.me], &e[params.me]), TUTTI_OK);
        for (int i = 0; i < 3; i++)
            cr_assert_eq(tt_shm.connect(e[i], addresses[0]), TUTTI_OK);
        for (int i = 0; i < 3; i++)
            tt_shm.close(e[(i + round) % 3]);
        if (round == 20)
            before = take_census();
    }
    expect_no_growth(&s, &before);
    cr_expect_str_empty(s.wrong, "%s", s.wrong);
}

static void introduce_in_vain(struct shm_rank *r)
{
    struct census before = take_census();
    for (int i = 0; i < 3; i++)
        shm_introduce(r);
    suite_expect(&r->suite, take_census().fds > before.fds, "nobody was introduced");
    tt_shm.memory->settle();
    expect_no_growth(&r->suite, &before);
    shm_meet(r);
}

Test(shm, introductions_end)
{
    struct shm_stage *stage = shm_stage_new(3);
    cr_assert_eq(shm_resident(), 4096); /* the parent's arena is none of the ranks' business */
    shm_stage_run(stage, introduce_in_vain, -1);
}

/* As of a loop, whose record stands there already; then one field is another. */
static void call_in_a_loop(struct shm_rank *r)
{
    enum { FIELDS = 9, ROUND = TT_CALLS_KEPT + 3 };
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    struct tt_call_record record = { .count = 1 }, seen, old;
    uint32_t *words[] = { &record.signature, &record.op, (uint32_t *)&record.root, &record.slices };
    uint8_t *bytes[] = { &record.collective, &record.algorithm, &record.type, &record.exact };
    for (uint64_t i = 0; r->me == 0 && i < FIELDS * ROUND; i++) {
        uint64_t field = i / ROUND, q = r->stage->params.first_number + i;
        if (i % ROUND == 0 && field > 0)
            *(field <= 4 ? (uint8_t *)words[field - 1] : bytes[field - 5]) += 1;
        e->control->publish(e, &record, q);
        bool there = e->control->call_of(e, 0, q, &seen),
             stays = e->control->call_of(e, 0, q - TT_CALLS_KEPT, &old);
        seen.sequence = 0;
        suite_expect(&r->suite, there && memcmp((void *)&seen, (void *)&record, sizeof seen) == 0 && !stays,
            "call %d is not seen as it was made", (int)i);
    }
    shm_meet(r);
    tt_shm.close(e);
}

Test(shm, calls_of_a_loop)
{
    shm_stage_run(shm_stage_new(2), call_in_a_loop, -1);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_spin_choice.c: when kernels of several devices do collectives, what tutti_query says of
 * that, and that calls are right where they do not. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/comm.h"
#include "spin/spin.h"
#include "spin_rig.h"

TestSuite(api_device_spin_choice, .timeout = 120);

enum { N = 3 };

/* Returns how many kernels this process has launched for it. */
static uint64_t add_up(const struct local_desk *d, tutti_comm *comm)
{
    int32_t value = d->me->rank + 1, got;
    local_give(d, GIVEN, &value, sizeof value);
    ranks_meet(d->me);
    uint64_t before = d->stub->calls("launch");
    ranks_ok(d->me,
        tutti_all_reduce(d->areas[GIVEN], d->areas[GOT], 1, TUTTI_INT32, TUTTI_SUM, comm, local_on(d)),
        "all_reduce");
    memcpy(&got, local_take(d, GOT, sizeof got), sizeof got);
    ranks_meet(d->me);
    ranks_expect(d->me, got == d->me->n * (d->me->n + 1) / 2, "the sum is %d", got);
    return d->stub->calls("launch") - before;
}

/* --- Where it is plain that they cannot, and where it shows */

struct obstacle {
    const char *fails; /* a function of the table, at rank 1 */
    uint64_t k;
    const char *why;
    int devices;
};

static void connect(struct ranks_me *me)
{
    const struct obstacle *o = me->context;
    struct local_desk d;
    int devices = o->devices > 0 ? o->devices : me->n, device = me->rank % devices;
    char options[64];
    if (!local_prepare_on(me, &d, device))
        return;
    if (o->fails != NULL && me->rank == 1)
        d.stub->fail(o->fails, o->k, TT_DEV_UNSUPPORTED);
    ranks_meet(me);
    snprintf(options, sizeof options, "device=%d;executor=spin", device);
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = SPIN_LONG_MS };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    spin_says(me, comm, "executor", "H");
    spin_says(me, comm, "why all_reduce 1024", o->why);
    ranks_expect(me, add_up(&d, comm) == 0, "a kernel did it");
    ranks_part(me, comm);
}

static void meets_obstacle(const char *stub, int per_process, const struct obstacle *o)
{
    spin_run({ stub, N, per_process, connect, o, 0, o->devices });
}

Test(api_device_spin_choice, devices_that_cannot)
{
    plugin_must_be_stub();
    meets_obstacle("sms=1", 1, &(struct obstacle){ .why = "rank 0: its device has too few multiprocessors" });
    meets_obstacle("peers=0", 1, &(struct obstacle){ .why = "does not reach the memory of that of rank" });
    meets_obstacle("fds=0", 1, &(struct obstacle){ .why = "cannot be handed over by descriptors" });
    meets_obstacle("queues=8", 1, &(struct obstacle){ .why = "some ranks share a device", .devices = 2 });
}

/* Kernels of several processes at once on each device: one that waits keeps others from their places. */
Test(api_device_spin_choice, a_device_that_processes_share)
{
    static const struct obstacle shared = { .why = "several processes run on its device at once (MPS)" };
    plugin_must_be_stub();
    setenv("STUB_GPU", "devices=3,queues=8", 1);
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    ranks_run(&(struct ranks_plan){
        .n = N, .kind = RANKS_PROCESSES, .run = connect, .context = &shared, .limit_s = 100 });
}

Test(api_device_spin_choice, what_fails_while_ranks_connect)
{
    plugin_must_be_stub();
    static const struct obstacle obstacles[] = { { "preload", 2, "rank 1: preload", 0 },
        { "segment_alloc", 1, "rank 1: its pad", 0 }, { "segment_import", 1, "has not mapped its pad", 0 },
        { "launch", 1, "rank 1: launch", 0 }, { "launch", 2, "rank 1: launch", 0 },
        { "fill", 1, "rank 1: its pad", 0 } };
    for (size_t i = 0; i < sizeof obstacles / sizeof obstacles[0]; i++)
        meets_obstacle("queues=8", 1, &obstacles[i]);
}

Test(api_device_spin_choice, launches_that_block)
{
    plugin_must_be_stub();
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    meets_obstacle("launch_blocking=1", N, &(struct obstacle){ .why = "launches block there" });
}

/* --- How many communicators there may be */

/* All of their kernels fit on a device at once; and who comes later goes by the host. */
static void open_many(struct ranks_me *me)
{
    enum { MOST = 12 };
    struct local_desk d;
    tutti_comm *comms[MOST];
    int served = 0;
    if (!local_prepare_on(me, &d, me->rank))
        return;
    for (int i = 0; i < MOST; i++) {
        char answer[16];
        if ((comms[i] = spin_join(me, ";executor=spin", SPIN_LONG_MS)) == NULL)
            return;
        tutti_query(comms[i], "executor", answer, sizeof answer);
        served += strcmp(answer, "S") == 0;
        ranks_expect(me, (add_up(&d, comms[i]) > 0) == (served == i + 1), "communicator %d", i);
    }
    ranks_expect(me, served > 1 && served < MOST, "%d are served", served);
    spin_says(me, comms[MOST - 1], "why all_reduce 1024", "or kernels of other communicators need them");
    for (int i = 0; i < MOST; i++)
        ranks_ok(me, tutti_comm_destroy(comms[i]), "tutti_comm_destroy");
    ranks_meet(me);
    tutti_comm *again = spin_join(me, ";executor=spin", SPIN_LONG_MS);
    spin_says(me, again, "executor", "S");
    ranks_part(me, again);
}

Test(api_device_spin_choice, communicators_until_a_device_is_full)
{
    plugin_must_be_stub();
    spin_run({ "sms=8,blocks_per_sm=2", 2, 2, open_many, NULL, 0, 0 });
}

/* --- By prices */

static char rules[] = "/tmp/tutti-spin-XXXXXX";

static void choose(struct ranks_me *me)
{
    struct local_desk d;
    char options[80];
    static const char *const executors[] = { "auto", "spin", "host" };
    if (!local_prepare_on(me, &d, me->rank))
        return;
    for (int k = 0; k < 4; k++) { /* by default; and where kernels are dear */
        snprintf(options, sizeof options, ";executor=%s%s%s", executors[k > 0 ? k - 1 : 0],
            k == 1 ? ";rules=" : "", k == 1 ? rules : "");
        tutti_comm *comm = spin_join(me, options, SPIN_LONG_MS);
        if (comm == NULL)
            return;
        spin_says(me, comm, "executor", k == 3 ? "H" : "S");
        spin_says(me, comm, "why all_reduce 10000",
            k == 3   ? "not S, kernels of several devices: the setting executor is host"
            : k == 1 ? "on CUDA streams: H, by the host's memory"
                     : "on CUDA streams: S, kernels of several devices");
        double us = local_price(me, comm, "price all_reduce 10000");
        double expected = k == 0 || k == 2 ? 2 * 1.5 + 10000 * 5e-6 : 30 + 2 * 10000 * 52.5e-6;
        ranks_expect(me, us > expected - 0.01 && us < expected + 0.01, "%d: %g us, not %g", k, us, expected);
        if (k == 0)
            spin_says(me, comm, "why all_to_all_v 10000", "do not do this collective");
        uint64_t kernels = add_up(&d, comm);
        ranks_expect(me, (kernels > 0) == (k % 2 == 0), "%d: %d kernels", k, (int)kernels);
        ranks_meet(me);
        ranks_ok(me, tutti_comm_destroy(comm), "tutti_comm_destroy");
    }
}

Test(api_device_spin_choice, by_prices)
{
    plugin_must_be_stub();
    static const char dear[] = "cost spin_call 9000000\n";
    int file = mkstemp(rules);
    cr_assert_eq(write(file, dear, sizeof dear - 1), (ssize_t)sizeof dear - 1);
    spin_run({ "queues=8", 2, 1, choose, NULL, 0, 0 });
    close(file);
    unlink(rules);
}

/* More ranks than kernels serve, on however many hosts. Their end touches nothing but what is its own. */
Test(api_device_spin_choice, the_end_of_many_ranks)
{
    enum { BESIDE = 100000 };
    struct tt_comm *comm = calloc(1, sizeof *comm);
    struct tt_spin_row row = { .blocks = 0 };
    struct tt_spin_setup setup = { .comm = comm, .row = &row };
    struct tt_spin *spin = NULL;
    comm->n = 4096;
    cr_assert_eq(tt_spin_connect(&setup, NULL, &spin), TUTTI_OK);
    cr_expect_str_eq(spin->why, "they serve 2 to 8 ranks");
    uint8_t *beside = malloc(BESIDE);
    memset(beside, 1, BESIDE);
    tt_spin_free(spin, true);
    for (int i = 0; i < BESIDE; i++)
        cr_assert_eq(beside[i], 1, "byte %d is another", i);
    free(beside);
    free(comm);
}

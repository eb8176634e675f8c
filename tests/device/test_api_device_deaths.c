/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_deaths.c: a process is killed in a step of a call that a leader's kernel does, or kernels
 * of several devices, each step in its turn: the others are told, their streams go on soon, and from then on
 * nothing stores into their buffers.
 *
 * A step is come to, and not drawn: who is to die has its worker's part in a call under a function of this
 * file, which kills the process when the worker is there; the others are held up until then, where else they
 * would be quicker. Drawn moments have tests of their own (test_api_device_led_ends.c and its like). A night
 * looks for longer, as TESTS_LOOK_MS says. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/device_led.h"
#include "ends_rig.h"
#include "led_rig.h"
#include "spin/spin.h"
#include "spin_rig.h"

TestSuite(api_device_deaths, .timeout = 240);

enum {
    N = 3,
    COUNT = LED_POISONED / 4,
    LONG = 40000 /* 160 KB: two kernels */,
    SOON_MS = 5000,
    POISON = 0xa5
};

/* How long a survivor looks at its memory. */
static int look_ms(void)
{
    const char *wanted = getenv("TESTS_LOOK_MS");
    return wanted != NULL ? atoi(wanted) : 20;
}

static void die(void)
{
    raise(SIGKILL);
}

/* The worker of this rank kills the process, soon. */
static void await_death(struct ranks_me *me)
{
    ranks_sleep_us(30 * 1000 * 1000);
    ranks_fail(me, "the step never came");
}

/* This rank's stream goes no further. */
static void hold_for_ever(void *argument)
{
    (void)argument;
    for (;;)
        ranks_sleep_us(1000000);
}

/* Calls until it is told, for a call that the dead one has ended may be over. */
static void outlive(const struct local_desk *d, void (*call)(const struct local_desk *d))
{
    while (tutti_comm_state(d->comm) == TUTTI_OK) {
        if (d->dev->stream.query(d->stream) == TT_DEV_OK)
            call(d);
        ranks_sleep_us(1000);
    }
    int64_t since = tt_now_ns();
    local_drains(d);
    int64_t ms = (tt_now_ns() - since) / 1000000;
    ranks_expect(d->me, ms < SOON_MS, "its stream has waited for %lld ms", (long long)ms);
    ranks_expect(d->me, tutti_comm_state(d->comm) == TUTTI_PEER_LOST, "state %d: %s",
        tutti_comm_state(d->comm), tutti_get_last_error(d->comm));
}

/* --- A leader's kernel */

enum step { STREAM, COME, ROW, ALL, GO, KERNEL, STORED, LEFT, RESULTS, OVER };
static const char *const step_names[] = { "before its stream has come", "when its stream has come",
    "with its row written", "when all are there", "with a kernel let go that has not been told to",
    "while the kernel is out", "with a kernel over", "with the results told of, and the turn not given back",
    "when the results are there", "after the call" };

struct led_death {
    enum step step;
    bool leads; /* the one that dies: the leader, else another one */
    bool message; /* from rank 0 to rank 1, which leads; else all ranks' call, led by rank 0 */
};

static int victim_of(const struct led_death *c)
{
    return c->leads == c->message;
}

static const struct led_death *death_of(const struct local_desk *d)
{
    return d->me->context;
}

/* Who meets for the call. */
static struct tt_led *meeting_of(const struct local_desk *d)
{
    struct tt_led *led = led_device(d)->led;
    return death_of(d)->message ? tt_led_pair(led, 1 - d->me->rank, d->me->rank == 1) : led;
}

static void call_led(const struct local_desk *d)
{
    if (!death_of(d)->message)
        tutti_all_reduce(d->areas[GIVEN], d->areas[GOT], COUNT, TUTTI_INT32, TUTTI_SUM, d->comm, local_on(d));
    else if (d->me->rank == 0)
        tutti_send(d->areas[GIVEN], COUNT, TUTTI_INT32, 1, d->comm, local_on(d));
    else
        tutti_recv(d->areas[GOT], COUNT, TUTTI_INT32, 0, d->comm, local_on(d));
}

static bool has_come(const struct tt_led *led, int who)
{
    return atomic_load(&led->rows[who]->here) > 0;
}

static bool others_have_come(const struct tt_led *led)
{
    bool all = true;
    for (int r = 0; r < led->n; r++)
        all = all && (r == led->me || has_come(led, r));
    return all;
}

static bool kernel_is_out(const struct tt_led *led)
{
    return atomic_load(&led->rows[led->leader]->turn) % 2 == 1;
}

static enum step dies_at;

/* It has come to where the step is awaited: only now may others, or its kernel, go on. */
static bool awaits_step(const struct tt_led *led)
{
    return (dies_at == ALL && led->phase == TT_LED_ALL) ||
           (dies_at == STORED && led->phase == TT_LED_KERNEL) ||
           (dies_at == RESULTS && led->phase == TT_LED_LEFT);
}

/* Where the worker is before it goes on, if it dies there. */
static bool is_there(const struct tt_led *led, const struct tt_gate *gate)
{
    switch (dies_at) {
    case COME:
        return led->phase == TT_LED_STREAM && tt_gate_is_open(gate, 0);
    case ALL:
        return led->phase == TT_LED_ALL && others_have_come(led);
    case STORED:
        return led->phase == TT_LED_KERNEL && (int32_t)(atomic_load(gate->led.over) - gate->base - 2) >= 0;
    case RESULTS:
        return led->phase == TT_LED_LEFT && atomic_load(&led->rows[led->leader]->left) > 0;
    default:
        return false;
    }
}

/* Or where it is when it has gone on: there it dies, too, should it have been too quick. */
static bool is_past(const struct tt_led *led)
{
    bool on = (dies_at == COME && led->phase != TT_LED_STREAM) ||
              ((dies_at == ALL || dies_at == GO) && led->phase == TT_LED_KERNEL);
    return on || led->meeting.over;
}

static _Atomic int *awaited; /* by the one that is to die; all ranks see it */

static bool advance_to_death(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature)
{
    static struct tt_gate silent; /* by which the stream is told nothing */
    const struct tt_led *led = (const struct tt_led *)(const void *)meeting;
    silent = *gate;
    silent.done = NULL;
    if (is_there(led, gate))
        die();
    if (awaits_step(led))
        atomic_store(awaited, 1);
    bool moved = tt_led_advance(meeting, dies_at == GO ? &silent : gate, signature);
    if (is_past(led))
        die();
    return moved;
}

static struct tt_led *dying;
static void (*ring)(struct tt_endpoint *e, int peer);

/* Of a leader that has told all of its results, the turn is taken again, as if it had not given it back. */
static void ring_to_death(struct tt_endpoint *e, int peer)
{
    struct tt_led_row *row = dying->rows[dying->me];
    bool left = atomic_load(&row->left) > 0;
    if (dies_at == LEFT && left)
        atomic_store(&row->turn, 2 * dying->round + 1);
    ring(e, peer);
    if (dies_at == ROW || (left && peer == dying->comm->n - 1))
        die();
}

static void prepare_death(struct ranks_me *me, struct tt_led *led, enum step step)
{
    static struct tt_control_ops control;
    struct tt_endpoint *e = led->comm->endpoint;
    awaited = me->shared;
    dying = led;
    dies_at = step;
    led->meeting.advance = advance_to_death;
    control = *e->control;
    ring = control.ring;
    control.ring = ring_to_death;
    if (step == ROW || step == LEFT)
        e->control = &control;
}

static void await(struct ranks_me *me, const struct tt_led *led, bool (*is_true)(const struct tt_led *led))
{
    int64_t until_ms = ranks_now_ms() + LED_LONG_MS / 2;
    while (!is_true(led) && ranks_now_ms() < until_ms)
        ranks_sleep_us(500);
    ranks_expect(me, is_true(led), "what was awaited has not come");
}

static void await_step(struct ranks_me *me)
{
    const _Atomic int *flag = me->shared;
    for (int ms = 0; ms < LED_LONG_MS / 2 && atomic_load(flag) == 0; ms++)
        ranks_sleep_us(1000);
    ranks_expect(me, atomic_load(flag) != 0, "nobody has come to the step");
}

static void die_in_call(const struct local_desk *d, struct tt_led *led)
{
    enum step step = death_of(d)->step;
    prepare_death(d->me, led, step);
    ranks_meet(d->me);
    if (step == STREAM)
        local_fine(d, d->dev->host_call(d->stream, hold_for_ever, NULL));
    call_led(d);
    if (step == KERNEL || step == STREAM) {
        await(d->me, led, step == KERNEL ? kernel_is_out : others_have_come);
        die();
    }
    if (step == STORED) {
        await_step(d->me);
        led_let_go(d);
    }
    await_death(d->me);
}

/* A kernel is out that was held up when another rank died: nobody but who leads has its memory back before it
 * is over. */
static void see_kernel_off(const struct local_desk *d, const struct tt_led *led)
{
    _Atomic int *looked = d->me->shared;
    bool leads = led->me == led->leader;
    ends_await(d->comm);
    if (leads && led->n > 2)
        while (atomic_load(looked) == 0)
            ranks_sleep_us(1000);
    ranks_sleep_us((uint32_t)look_ms() * 1000);
    ranks_expect(d->me, d->dev->stream.query(d->stream) == TT_DEV_NOT_READY, "its stream is through");
    if (leads)
        led_let_go(d);
    else
        atomic_store(looked, 1);
}

static void survive_led(struct local_desk *d, struct tt_led *led)
{
    const struct led_death *c = death_of(d);
    bool leads = led->me == led->leader;
    ranks_meet(d->me);
    if (c->step == ALL)
        await_step(d->me);
    call_led(d);
    if (leads && c->step == RESULTS) {
        await_step(d->me);
        led_let_go(d);
    }
    if (c->step == KERNEL && !c->leads)
        see_kernel_off(d, led);
    outlive(d, call_led);
    led_poison(d);
    ranks_sleep_us((uint32_t)look_ms() * 1000);
    led_is_poisoned(d);
    led_get_up(d);
}

static void live_or_die(struct ranks_me *me)
{
    const struct led_death *c = me->context;
    struct local_desk d;
    ranks_at(me, "%s: %s dies %s", c->message ? "a message" : "a sum",
        c->leads ? "who leads" : "who does not lead", step_names[c->step]);
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    struct tt_led *led = meeting_of(&d);
    if (led->me == led->leader && (c->step == KERNEL || c->step == STORED || c->step == RESULTS)) {
        led_hold(&d);
        led->dev = led_device(&d)->led->dev;
    }
    if (me->rank == victim_of(c))
        die_in_call(&d, led);
    else
        survive_led(&d, led);
}

static void kill_in(bool message, bool leads, const enum step *steps, int count)
{
    plugin_must_be_stub();
    for (int i = 0; i < count; i++) {
        struct led_death c = { steps[i], leads, message };
        led_run(
            { i % 2 ? "queues=8" : "queues=1", message ? 2 : N, 0, live_or_die, &c, 1U << victim_of(&c) });
    }
}

Test(api_device_deaths, of_the_leader_in_each_step)
{
    static const enum step steps[] = { STREAM, COME, ALL, GO, KERNEL, STORED, LEFT, OVER };
    kill_in(false, true, steps, sizeof steps / sizeof steps[0]);
}

Test(api_device_deaths, of_one_that_is_led_in_each_step)
{
    static const enum step steps[] = { STREAM, COME, ROW, KERNEL, RESULTS, OVER };
    kill_in(false, false, steps, sizeof steps / sizeof steps[0]);
}

Test(api_device_deaths, of_either_end_of_a_message)
{
    static const enum step sender[] = { ROW, KERNEL, RESULTS }, receiver[] = { GO, KERNEL, STORED };
    kill_in(true, false, sender, sizeof sender / sizeof sender[0]);
    kill_in(true, true, receiver, sizeof receiver / sizeof receiver[0]);
}

/* --- Kernels of several devices */

enum moment { HELD, WAITING, MEETING, ENDED, TOLD };
static const char *const moment_names[] = { "before its kernel", "while its kernel waits",
    "while kernels meet", "after its kernel", "after the call" };

struct spin_death {
    enum moment moment;
    size_t count;
};
static void *large[2];
static enum moment dies_in;
static bool (*advance_spin)(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature);

static void call_spin(const struct local_desk *d)
{
    const struct spin_death *c = d->me->context;
    tutti_all_reduce(large[0], large[1], c->count, TUTTI_INT32, TUTTI_SUM, d->comm, local_on(d));
}

/* Says that it is here, or not, and dies when the kernel is over. */
static bool spin_to_death(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature)
{
    const struct tt_direct_words *words = &((struct tt_spin *)(void *)meeting)->its.row->words;
    static struct tt_gate endless;
    endless = *gate;
    endless.spin.last += 1000000;
    if (dies_in == TOLD)
        advance_spin(meeting, &endless, signature);
    while (tt_spin_load(&words->over) < gate->spin.last)
        ranks_sleep_us(200);
    die();
    return false;
}

static void die_among(const struct local_desk *d)
{
    struct tt_spin *spin = spin_of(d->comm);
    const struct spin_death *c = d->me->context;
    const struct tt_direct_words *words = &spin->its.row->words;
    _Atomic int *dead = d->me->shared;
    uint64_t begun = tt_spin_load(&words->begun);
    dies_in = c->moment;
    advance_spin = spin->meeting.advance;
    if (c->moment == ENDED || c->moment == TOLD)
        spin->meeting.advance = spin_to_death;
    ranks_meet(d->me);
    if (c->moment == HELD)
        local_fine(d, d->dev->host_call(d->stream, hold_for_ever, NULL));
    if (c->moment == MEETING) /* its kernel comes last, and finds the others */
        ranks_sleep_us(10000);
    call_spin(d);
    if (c->moment == HELD)
        ranks_sleep_us(10000);
    while ((c->moment == WAITING || c->moment == MEETING) && tt_spin_load(&words->begun) == begun)
        continue;
    atomic_store(dead, 1);
    if (c->moment <= MEETING)
        die();
    await_death(d->me);
}

static void survive_among(struct local_desk *d)
{
    const struct spin_death *c = d->me->context;
    const _Atomic int *dead = d->me->shared;
    uint8_t *results = d->stub->look(large[1]);
    bool clean = true;
    ranks_meet(d->me);
    while (c->moment == WAITING && d->me->rank == 2 && atomic_load(dead) == 0)
        ranks_sleep_us(500);
    call_spin(d);
    outlive(d, call_spin);
    ranks_expect(d->me, !tt_spin_is_out(&spin_of(d->comm)->its.row->words), "a kernel still waits");
    memset(results, POISON, c->count * 4);
    ranks_sleep_us((uint32_t)look_ms() * 1000);
    for (size_t i = 0; i < c->count * 4; i++)
        clean = clean && results[i] == POISON;
    ranks_expect(d->me, clean, "something was stored");
    spin_get_up(d);
}

static void spin_or_die(struct ranks_me *me)
{
    const struct spin_death *c = me->context;
    struct local_desk d;
    ranks_at(me, "%zu elements, rank 1 dies %s", c->count, moment_names[c->moment]);
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    for (int i = 0; i < 2; i++)
        local_fine(&d, d.dev->memory.alloc(LONG * 4, &large[i]));
    if (me->rank == 1)
        die_among(&d);
    else
        survive_among(&d);
}

Test(api_device_deaths, of_one_whose_kernels_meet_others)
{
    plugin_must_be_stub();
    static const struct spin_death cases[] = { { HELD, COUNT }, { WAITING, LONG }, { MEETING, LONG },
        { ENDED, COUNT }, { TOLD, LONG } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        spin_run({ "queues=8", N, 1, spin_or_die, &cases[i], 1U << 1, 0 });
}

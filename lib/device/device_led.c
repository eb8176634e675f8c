/* SPDX-License-Identifier: BSD-3-Clause */
/* device_led.c: what a worker does in a call that a leader's kernel does, slice by slice.
 *
 *     follower:  STREAM -> row, here -> LEFT -> done                  next slice
 *     leader:    STREAM -> row, here -> ALL -> bases, turn, go -> KERNEL -> left   next slice
 *
 * A row is written when the rank's stream has come, so each rank waits here for its own stream first. In a
 * capture words begin at 0 with each replay, and who waits for one clears it (gate.h): `ready` when the last
 * slice is seen, for before that the stream may be writing it, and `over` when the last one is seen. */
#include "device/device_led.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "transports/arena.h"

enum { CANCEL_MS = 10000 /* more than a kernel takes */ };

static struct tt_led *led_of(struct tt_meeting *meeting)
{
    return (struct tt_led *)(void *)meeting;
}

static bool leads(const struct tt_led *led)
{
    return led->me == led->leader;
}

static struct tt_led_row *leader_row(const struct tt_led *led)
{
    return led->rows[led->leader];
}

void tt_led_begin(struct tt_meeting *meeting)
{
    struct tt_led *led = led_of(meeting);
    led->phase = TT_LED_STREAM;
    led->slice = 0;
    led->whole = false;
    meeting->over = false;
    meeting->held = true;
    meeting->late = meeting->wrong = TT_NONE;
}

static void ring(const struct tt_led *led, int who)
{
    struct tt_endpoint *e = led->comm->endpoint;
    if (who != led->me)
        e->control->ring(e, led->ranks[who]);
}

static bool is_last(const struct tt_led *led, const struct tt_gate *gate)
{
    return led->slice + 1 == tt_led_slices(gate);
}

/* The rows of this slice are another round: not so if the first of its group has done all. */
static bool meets(const struct tt_led *led, const struct tt_gate *gate)
{
    return !led->whole || tt_led_is_first(&gate->led, led->slice);
}

/* Ordinary memory of the host, which no stream may copy: that would wait. */
static void copy_host(const struct tt_led *led, const struct tt_led_gate *g, unsigned side)
{
    const struct tt_led_side *s = &g->sides[side];
    uint64_t from, bytes = tt_led_part(g, s, led->slice, 1, &from);
    if (s->host == NULL || bytes == 0)
        return;
    if (side == TT_IN)
        memcpy(s->cell, s->host + from, bytes);
    else
        memcpy(s->host + from, s->cell, bytes);
}

static struct tt_led_place place_of(const struct tt_led *led, const struct tt_led_gate *g, unsigned side)
{
    const struct tt_led_side *s = &g->sides[side];
    struct tt_led_place place = { .kind = s->kind, .key = s->key };
    uint32_t first = led->slice - led->slice % g->group;
    uint64_t held; /* the first byte that the place has now */
    place.whole = s->bytes == 0 || (s->holds != TT_HOLDS_SLICE && tt_led_is_first(g, led->slice));
    place.bytes = tt_led_part(g, s, led->slice, place.whole ? g->group : 1, &place.from);
    tt_led_part(g, s, s->holds == TT_HOLDS_SLICE ? led->slice : first, 1, &held);
    place.base = s->offset - (s->holds == TT_HOLDS_ALL ? 0 : held);
    return place;
}

static void write_row(struct tt_led *led, const struct tt_gate *gate, uint64_t signature)
{
    struct tt_led_row *row = led->rows[led->me];
    const struct tt_led_gate *g = &gate->led;
    row->signature = signature;
    memcpy(&row->factor, g->has_factor ? g->factor : gate->factor, sizeof row->factor);
    for (unsigned side = 0; side < 2; side++)
        row->places[side] = place_of(led, g, side);
    if (led->meeting.pair && !leads(led)) {
        row->offer.bytes = g->sides[TT_IN].bytes;
        atomic_store_explicit(&row->offer.message, led->meeting.message, memory_order_release);
    }
    atomic_thread_fence(memory_order_seq_cst); /* what was copied past the caches comes first */
    atomic_store_explicit(&row->here, ++led->round, memory_order_release);
    ring(led, led->leader);
}

static void next(struct tt_led *led, const struct tt_gate *gate)
{
    led->meeting.over = is_last(led, gate);
    led->slice++;
    led->phase = TT_LED_STREAM;
}

/* The kernel of this slice may begin. None is out: so `over` may be set, which does not count the slices that
 * the host has served since the last one, and would be beyond this one after 2^31 of those. */
static void let_kernel_go(struct tt_led *led, const struct tt_gate *gate)
{
    atomic_store_explicit(gate->led.over, gate->base + 2 * led->slice, memory_order_relaxed);
    tt_gate_tell(gate, 2 * led->slice + 1);
    led->phase = TT_LED_KERNEL;
}

/* The results of this slice are there. */
static void tell_results(const struct tt_led *led, const struct tt_gate *gate)
{
    tt_gate_tell(gate, 2 * led->slice + 2);
}

/* The stream is here. */
static bool arrive(struct tt_led *led, const struct tt_gate *gate, uint64_t signature)
{
    if (!tt_gate_is_open(gate, 2 * led->slice))
        return false;
    if (gate->captured && is_last(led, gate))
        atomic_store_explicit(gate->ready, 0, memory_order_relaxed);
    if (meets(led, gate)) {
        copy_host(led, &gate->led, TT_IN);
        write_row(led, gate, signature);
        led->phase = leads(led) ? TT_LED_ALL : TT_LED_LEFT;
        return true;
    }
    if (leads(led)) {
        let_kernel_go(led, gate);
    } else {
        tell_results(led, gate);
        next(led, gate);
    }
    return true;
}

/* True if all ranks are here, with the same call. */
static bool all_here(struct tt_led *led)
{
    for (int r = 0; r < led->n; r++) {
        const struct tt_led_row *row = led->rows[r];
        led->meeting.late = led->ranks[r];
        if (atomic_load_explicit(&row->here, memory_order_acquire) < led->round)
            return false;
        if (row->signature != led->rows[led->me]->signature) {
            led->meeting.wrong = led->ranks[r];
            led->meeting.why = TUTTI_MISMATCH;
            led->meeting.wrong_bytes = row->offer.bytes;
            return false;
        }
    }
    led->meeting.late = TT_NONE;
    return true;
}

/* Where the leader's device has byte 0 of that. NULL: nowhere. */
static void *resolve(const struct tt_led *led, int who, const struct tt_led_place *place)
{
    const struct tt_led_reach *reach = led->reach;
    int rank = led->ranks[who];
    uint8_t *at = NULL;
    switch ((enum tt_place_kind)place->kind) {
    case TT_PLACE_DIRECT:
        return (void *)(uintptr_t)place->base;
    case TT_PLACE_CELL:
        return (void *)((uintptr_t)reach->seen[rank] + place->base);
    case TT_PLACE_SEGMENT:
        at = tt_importer_find(reach->importer, rank, place->key, place->base + place->from, place->bytes);
        return at != NULL ? (void *)((uintptr_t)at - place->from) : NULL;
    case TT_PLACE_NONE:
        break;
    }
    return NULL;
}

/* The leader does not reach what that rank has told it of. */
static bool fail_to_reach(struct tt_led *led, int who)
{
    tt_fail(TUTTI_DEVICE_ERROR, "%srank %d, has not mapped it",
        led->meeting.pair ? "its receiver, " : "the leader, ", led->ranks[led->leader]);
    led->meeting.wrong = led->ranks[who];
    led->meeting.why = TUTTI_DEVICE_ERROR;
    return false;
}

/* From here on this rank's kernels may use what is mapped; and from there on this one's do no more. They run
 * in the order in which they begin, but are looked at in any. */
static void begin_imports(struct tt_led *led)
{
    led->imports = ++led->reach->rounds;
    tt_importer_begin(led->reach->importer, led->imports);
}

static void end_imports(const struct tt_led *led)
{
    struct tt_led_reach *reach = led->reach;
    if (reach->importer == NULL || led->imports <= reach->rounds_over)
        return;
    reach->rounds_over = led->imports;
    tt_importer_over(reach->importer, led->imports);
}

/* Says to the kernels of this slice where everybody's bytes are. */
static bool set_bases(struct tt_led *led, const struct tt_gate *gate)
{
    struct tt_bases *told = led->reach->bases;
    bool whole = gate->led.group > 1 && tt_led_slices(gate) > 1 && tt_led_is_first(&gate->led, led->slice);
    struct tt_bases bases = { .call = led->round };
    begin_imports(led);
    for (int r = 0; r < led->n; r++) {
        const struct tt_led_row *row = led->rows[r];
        const struct tt_led_place *in = &row->places[TT_IN], *out = &row->places[TT_OUT];
        bases.in[r] = resolve(led, r, in);
        bases.out[r] = resolve(led, r, out);
        bases.factor[r] = row->factor;
        whole = whole && in->whole && out->whole;
        if ((in->bytes > 0 && bases.in[r] == NULL) || (out->bytes > 0 && bases.out[r] == NULL))
            return fail_to_reach(led, r);
    }
    led->whole = whole;
    leader_row(led)->whole = whole;
    for (int k = 0; k < TT_LED_KERNELS; k++) {
        told[k] = bases;
        told[k].skip = (k == TT_LED_WHOLE) != whole;
    }
    return true;
}

static bool lead(struct tt_led *led, const struct tt_gate *gate)
{
    uint64_t open = 2 * led->round;
    if (atomic_load(&leader_row(led)->turn) == TT_LED_CANCELLED || !all_here(led) || !set_bases(led, gate))
        return false;
    if (!atomic_compare_exchange_strong(&leader_row(led)->turn, &open, open + 1))
        return false; /* somebody has given up, and the communicator has ended, or ends */
    let_kernel_go(led, gate);
    return true;
}

static bool kernel_is_over(const struct tt_led *led, const struct tt_gate *gate)
{
    uint32_t over = atomic_load_explicit(gate->led.over, memory_order_acquire);
    return (int32_t)(over - gate->base - 2 * led->slice - 2) >= 0;
}

/* The others may go on. */
static void let_go(struct tt_led *led)
{
    end_imports(led);
    atomic_store_explicit(&leader_row(led)->left, led->round, memory_order_release);
    atomic_store_explicit(&leader_row(led)->turn, 2 * led->round + 2, memory_order_release);
    for (int r = 0; r < led->n; r++)
        ring(led, r);
}

static bool end_kernel(struct tt_led *led, const struct tt_gate *gate)
{
    if (!kernel_is_over(led, gate))
        return false;
    if (gate->captured && is_last(led, gate))
        atomic_store_explicit(gate->led.over, 0, memory_order_relaxed);
    if (meets(led, gate))
        let_go(led);
    copy_host(led, &gate->led, TT_OUT);
    if (gate->led.sides[TT_OUT].host != NULL) /* else its stream does not wait for that */
        tell_results(led, gate);
    next(led, gate);
    return true;
}

/* Whom a follower waits for: a rank that has not come, else the leader. */
static int32_t find_late(const struct tt_led *led)
{
    for (int r = 0; r < led->n; r++)
        if (atomic_load_explicit(&led->rows[r]->here, memory_order_acquire) < led->round)
            return led->ranks[r];
    return led->ranks[led->leader];
}

static bool follow(struct tt_led *led, const struct tt_gate *gate)
{
    const struct tt_led_row *row = leader_row(led);
    led->meeting.late = find_late(led);
    if (atomic_load_explicit(&row->left, memory_order_acquire) < led->round)
        return false;
    led->meeting.late = TT_NONE;
    if (tt_led_is_first(&gate->led, led->slice))
        led->whole = row->whole;
    copy_host(led, &gate->led, TT_OUT);
    tell_results(led, gate);
    next(led, gate);
    return true;
}

static bool step(struct tt_led *led, const struct tt_gate *gate, uint64_t signature)
{
    switch (led->phase) {
    case TT_LED_STREAM:
        return arrive(led, gate, signature);
    case TT_LED_ALL:
        return lead(led, gate);
    case TT_LED_KERNEL:
        return end_kernel(led, gate);
    default:
        return follow(led, gate);
    }
}

bool tt_led_advance(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature)
{
    struct tt_led *led = led_of(meeting);
    bool moved = false;
    led->gate = gate;
    while (!meeting->over && step(led, gate, signature))
        moved = true;
    meeting->held = !meeting->over && (led->phase == TT_LED_STREAM || led->phase == TT_LED_KERNEL);
    return moved;
}

/* --- The end */

/* The leader's process is wholly gone, and with it what its device did. */
static bool leader_is_gone(const struct tt_led *led)
{
    int leader = led->ranks[led->leader];
    const struct tt_arena *arena = led->reach->arenas[leader];
    return arena != NULL && tt_process_is_gone(&led->reach->processes[leader], !tt_arena_alive(arena));
}

/* The kernel that was let go is none. */
static bool kernel_is_lost(const struct tt_led *led, const struct tt_gate *gate)
{
    uint64_t lost = atomic_load(&led->lost);
    uint32_t over = gate->base + 2 * led->slice + 2;
    return atomic_load(&led->reach->broken) ||
           (lost != 0 && !gate->captured && (int32_t)(over - (uint32_t)lost) >= 0);
}

/* Takes the turn for good. False: a kernel is out. */
static bool take_turn(struct tt_led *led)
{
    struct tt_led_row *row = leader_row(led);
    uint64_t turn = atomic_load(&row->turn);
    if (turn == TT_LED_CANCELLED)
        return true;
    if (leads(led) && turn % 2 == 1 && led->gate != NULL && kernel_is_lost(led, led->gate))
        return atomic_compare_exchange_strong(&row->turn, &turn, TT_LED_CANCELLED);
    if (leads(led) && turn % 2 == 1 && (led->gate == NULL || kernel_is_over(led, led->gate))) {
        let_go(led);
        turn = atomic_load(&row->turn);
    }
    return turn % 2 == 0 && atomic_compare_exchange_strong(&row->turn, &turn, TT_LED_CANCELLED);
}

static void stop(struct tt_led *led)
{
    int64_t until = tt_deadline_ns(CANCEL_MS);
    struct tt_wait w;
    bool safe;
    tt_wait_begin(&w, tt_wait_policy_for(1), NULL, 0);
    while (!(safe = take_turn(led) || leader_is_gone(led)) && tt_now_ns() < until)
        tt_wait_idle(&w);
    tt_wait_awake(&w);
    if (!safe)
        tt_log(TT_LOG_ERROR,
            "%s, rank %d: the kernel of rank %d has not ended within %d ms; the results and the memory "
            "of this call are undefined",
            led->comm->identity.name, led->comm->rank, led->ranks[led->leader], CANCEL_MS);
    if (leads(led))
        end_imports(led);
    for (int k = 0; k < TT_LED_KERNELS && leads(led); k++) /* a graph's kernels may still come */
        __atomic_store_n(&led->reach->bases[k].skip, 1, __ATOMIC_RELEASE);
    atomic_store(&led->cancelled, true);
}

static void stop_messages(const struct tt_led *led, bool receives)
{
    for (int peer = 0; peer < led->reach->n; peer++) { /* the communicator may have gone, and a graph not */
        struct tt_led *pair = tt_led_pair(led, peer, receives);
        if (pair != NULL && !atomic_load(&pair->cancelled))
            stop(pair);
    }
}

/* What this rank's kernels fetch ends by itself, and others wait for that: so it comes first. */
void tt_led_end(struct tt_led *led)
{
    if (led->rows[led->leader] == NULL) /* it has never come so far */
        return;
    stop_messages(led, true);
    if (!atomic_load(&led->cancelled))
        stop(led);
    if (!led->meeting.pair)
        stop_messages(led, false);
}

void tt_led_leave(struct tt_meeting *meeting, const struct tt_gate *gate)
{
    struct tt_led *led = led_of(meeting);
    bool ends = atomic_load(&led->reach->closing) || tt_endpoint_is_over(led->comm->endpoint);
    if (ends)
        tt_led_end(led);
    if (led->meeting.pair && gate->led.call != 0)
        tt_led_release(gate);
    else if (gate->led.call != 0) /* of this rank's memory the leader uses none for it any more */
        atomic_store_explicit(&led->calls.over, gate->led.call, memory_order_release);
}

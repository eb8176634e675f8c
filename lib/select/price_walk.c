/* SPDX-License-Identifier: BSD-3-Clause */
/* price_walk.c: schedules in virtual time, by the rules of the executor (lib/exec/exec.c), without a byte.
 *
 * What happens are messages that can be seen, by who receives them or, once they were read, by who sent
 * them; and ranks that go on. A rank that is named makes passes over what it may do, as the executor does,
 * and each piece of work moves the clock of its core on. Then it goes on at that time, and sees what came
 * meanwhile. */
#include "select/price_walk.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/ready.h"
#include "base/status.h"

enum { NOBODY = -1 };

struct slice {
    uint32_t index;
    struct tt_ready_list ready;
    uint32_t *heard; /* of each step with a message: how many of this window's slices came, or were read */
};

struct rank {
    const struct tt_schedule *s;
    struct tt_ready_order order;
    uint32_t slices_left;
    uint32_t *mate; /* the step at the other end of a message */
    struct slice slices[TT_WINDOW];
    bool called; /* an event is under way that lets it go on */
    uint64_t end, parts[TT_PRICE_PARTS];
};

struct core {
    uint64_t free;
    int last; /* rank that ran here */
};

struct event { /* a rank goes on; before that, if there is a step, its message of this window is heard */
    uint64_t time, order;
    int rank;
    uint32_t step, window, count;
};
TT_HEAP_HOLDS(struct event);

struct walk {
    const struct tt_walk_of *of;
    const struct tt_costs *costs;
    bool alone;
    uint64_t share; /* of a rank alone: how many share its core ... */
    uint64_t round; /* ... and the time until each of them has had a turn */
    struct rank *ranks;
    struct core *cores;
    int ncores;
    uint64_t now;
    int running; /* ranks that have not ended */
    struct tt_heap events;
    bool moved, failed; /* failed: no memory */
    struct tt_walk_result *result;
    void *memory;
};

/* --- Events */

static void push(struct walk *w, struct event event)
{
    if (!tt_heap_push(&w->events, &event, sizeof event))
        w->failed = true;
}

static struct core *core_of(struct walk *w, int rank)
{
    return &w->cores[rank % w->ncores];
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t clock_of(struct walk *w, int rank)
{
    return later(core_of(w, rank)->free, w->now);
}

/* If another call comes first, it finds the core busy, and calls again. */
static void wake(struct walk *w, int rank, uint64_t time)
{
    if (w->ranks[rank].called)
        return;
    w->ranks[rank].called = true;
    push(w, (struct event){ .time = time, .rank = rank, .step = TT_NO_STEP });
}

/* A turn begins when the core has nothing to do: its rank lets the next one go on, whether that has work or
 * not. */
static void spend(struct walk *w, int rank, enum tt_price_part part, uint64_t time)
{
    struct core *core = core_of(w, rank);
    uint64_t *parts = w->ranks[rank].parts, from = clock_of(w, rank);
    if (core->last != rank && core->last != NOBODY) {
        from = later(from, core->free + w->costs->turn);
        parts[TT_PRICE_TURNS] += w->costs->turn;
    }
    core->last = rank;
    core->free = from + time * w->share;
    parts[part] += time * w->share;
}

/* --- Steps */

static enum tt_level level(const struct walk *w, int rank, int peer)
{
    const struct tt_topology *t = w->of->question->demand.topology;
    return t == NULL || t->domains < 2 || t->domain[rank] == t->domain[peer] ? TT_NEAR : TT_FAR;
}

static uint64_t bytes_of(const struct walk *w, uint32_t chunk, uint32_t nchunks, uint32_t slice)
{
    const struct tt_layout *l = w->of->layout;
    uint64_t count = 0;
    for (uint32_t i = 0; i < nchunks; i++)
        count += tt_layout_part(l, (chunk + i) % l->chunks, slice).count;
    return count * l->element_bytes;
}

/* From a message's post to when the other end sees it. Those for which one rank stands do the same as it, but
 * in turn. */
static uint64_t delay(const struct walk *w, int rank, int peer)
{
    return tt_costs_latency(w->costs, level(w, rank, peer), w->of->question->demand.n) + w->round;
}

/* The other end of this step's message can see what was done. */
static void tell(struct walk *w, int rank, const struct slice *slice, uint32_t step)
{
    const struct rank *r = &w->ranks[rank];
    int peer = r->s->steps[step].peer;
    if (r->mate[step] == TT_NO_STEP)
        return;
    push(w, (struct event){ .time = clock_of(w, rank) + delay(w, rank, peer),
                .rank = w->alone ? rank : peer,
                .step = r->mate[step],
                .window = slice->index % TT_WINDOW,
                .count = slice->index / TT_WINDOW + 1 });
}

static bool heard(const struct slice *slice, uint32_t step)
{
    return slice->heard[step] > slice->index / TT_WINDOW;
}

static bool advance_send(struct walk *w, int rank, struct slice *slice, struct tt_active *unit)
{
    const struct rank *r = &w->ranks[rank];
    const struct tt_step *step = &r->s->steps[unit->step];
    if (unit->posted)
        return r->mate[unit->step] == TT_NO_STEP || heard(slice, unit->step);
    uint64_t bytes = bytes_of(w, step->src_chunk, step->nchunks, slice->index);
    if (bytes == 0)
        return true;
    bool eager = bytes <= tt_costs_eager(w->costs, w->of->question->demand.n);
    spend(w, rank, TT_PRICE_MESSAGES, w->costs->message);
    if (eager)
        spend(w, rank, TT_PRICE_COPIES, w->costs->copy * bytes);
    tell(w, rank, slice, unit->step);
    unit->posted = w->moved = true;
    return eager;
}

static bool advance_receive(struct walk *w, int rank, struct slice *slice, uint32_t first)
{
    const struct tt_step *step = &w->ranks[rank].s->steps[first];
    uint64_t bytes = bytes_of(w, step->dst_chunk, step->nchunks, slice->index);
    if (bytes == 0)
        return true;
    for (uint32_t i = 0; i < step->fold_count; i++)
        if (!heard(slice, first + i))
            return false;
    if (step->verb == TT_VERB_RECV_REDUCE)
        spend(w, rank, TT_PRICE_FOLDS, tt_costs_fold(w->costs, step->fold_count + 1U, bytes));
    for (uint32_t i = 0; i < step->fold_count; i++) {
        spend(w, rank, TT_PRICE_MESSAGES, w->costs->message);
        spend(w, rank, TT_PRICE_BYTES, w->costs->byte[level(w, rank, step[i].peer)] * bytes);
        tell(w, rank, slice, first + i);
    }
    return true;
}

static void work(struct walk *w, int rank, const struct slice *slice, const struct tt_step *step)
{
    uint64_t bytes = bytes_of(w, step->dst_chunk, step->nchunks, slice->index);
    if (bytes > 0 && step->verb == TT_VERB_REDUCE)
        spend(w, rank, TT_PRICE_FOLDS, tt_costs_fold(w->costs, 2, bytes));
    else if (bytes > 0)
        spend(w, rank, TT_PRICE_COPIES, w->costs->copy * bytes);
}

/* True if the unit is done. */
static bool advance(struct walk *w, int rank, struct slice *slice, struct tt_active *unit)
{
    const struct tt_step *step = &w->ranks[rank].s->steps[unit->step];
    switch (step->verb) {
    case TT_VERB_SEND:
        return advance_send(w, rank, slice, unit);
    case TT_VERB_RECV:
    case TT_VERB_RECV_REDUCE:
        return advance_receive(w, rank, slice, unit->step);
    default:
        work(w, rank, slice, step);
        return true;
    }
}

/* --- Passes over the ready lists */

static void start_slice(const struct rank *r, struct slice *slice, uint32_t index)
{
    slice->index = index;
    tt_ready_start(&r->order, &slice->ready);
}

static void end_slice(struct walk *w, int rank, struct slice *slice)
{
    struct rank *r = &w->ranks[rank];
    if (--r->slices_left == 0) {
        r->end = clock_of(w, rank);
        w->running--;
    } else if (slice->index + TT_WINDOW < w->of->slices)
        start_slice(r, slice, slice->index + TT_WINDOW);
}

static void pass(struct walk *w, int rank)
{
    struct rank *r = &w->ranks[rank];
    w->moved = false;
    for (int i = 0; i < TT_WINDOW; i++) {
        struct slice *slice = &r->slices[i];
        for (uint32_t at = 0; at < slice->ready.nactive;) {
            if (!advance(w, rank, slice, &slice->ready.active[at])) {
                at++;
                continue;
            }
            w->moved = true;
            tt_ready_retire(&r->order, &slice->ready, at);
            if (slice->ready.left == 0)
                end_slice(w, rank, slice);
        }
    }
}

static void drive(struct walk *w, int rank)
{
    do
        pass(w, rank);
    while (w->moved && clock_of(w, rank) == w->now);
    if (clock_of(w, rank) > w->now)
        wake(w, rank, clock_of(w, rank));
}

/* Of a rank alone: what it receives with nothing of its own to go by comes from peers that are not late. */
static bool unstick(struct walk *w)
{
    bool any = false;
    struct rank *r = &w->ranks[0];
    for (int i = 0; i < TT_WINDOW && w->alone; i++)
        for (uint32_t at = 0; at < r->slices[i].ready.nactive; at++) {
            const struct slice *slice = &r->slices[i];
            uint32_t first = slice->ready.active[at].step;
            for (uint32_t k = first; k < first + r->s->steps[first].fold_count; k++) {
                any = true;
                push(w, (struct event){ .time = w->now + delay(w, 0, r->s->steps[k].peer),
                            .step = k,
                            .window = (uint32_t)i,
                            .count = slice->index / TT_WINDOW + 1 });
            }
        }
    return any;
}

static void run(struct walk *w)
{
    for (int r = 0; r < w->of->ranks; r++)
        wake(w, r, 0);
    while (!w->failed && w->running > 0 && (w->events.count > 0 || unstick(w))) {
        struct event e;
        tt_heap_pop(&w->events, &e, sizeof e);
        w->now = e.time;
        if (w->now > w->of->limit)
            return;
        if (e.step == TT_NO_STEP) {
            w->ranks[e.rank].called = false;
        } else {
            uint32_t *count = &w->ranks[e.rank].slices[e.window].heard[e.step];
            *count = e.count > *count ? e.count : *count;
        }
        if (core_of(w, e.rank)->free > w->now)
            wake(w, e.rank, core_of(w, e.rank)->free);
        else
            drive(w, e.rank);
    }
}

/* --- Before it begins */

/* Where both ends of each message stand: `places` has room for two words of each, by sender, receiver and
 * ordinal. */
static void find_mates(struct walk *w, uint32_t *first, uint32_t *places)
{
    int n = w->of->ranks;
    uint32_t count = 0;
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) {
            first[from * n + to] = count;
            count += w->ranks[from].s->sends[to];
        }
    for (int round = 0; round < 2; round++)
        for (int r = 0; r < n; r++)
            for (uint32_t i = 0; i < w->ranks[r].s->nsteps; i++) {
                const struct tt_step *step = &w->ranks[r].s->steps[i];
                uint32_t sends = step->verb == TT_VERB_SEND;
                if (step->peer == TT_NONE)
                    continue;
                uint32_t pair = sends ? first[r * n + step->peer] : first[step->peer * n + r];
                uint32_t *place = &places[2 * (pair + step->ordinal)];
                if (round == 0)
                    place[sends] = i;
                else
                    w->ranks[r].mate[i] = place[!sends];
            }
}

/* Of a rank alone: what its peers send it when it sends its own. */
static void mirror(struct rank *r)
{
    const struct tt_schedule *s = r->s;
    uint32_t recv = 0;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        if (s->steps[i].verb != TT_VERB_SEND)
            continue;
        while (recv < s->nsteps && (s->steps[recv].peer == TT_NONE || s->steps[recv].verb == TT_VERB_SEND))
            recv++;
        if (recv == s->nsteps)
            return;
        r->mate[i] = recv;
        r->mate[recv++] = i;
    }
}

static uint32_t *cut(uint32_t **words, size_t count)
{
    uint32_t *piece = *words;
    *words += count;
    return piece;
}

static void open_rank(struct rank *r, struct tt_active **units, uint32_t **words)
{
    size_t steps = (size_t)r->s->nsteps + 1;
    for (int i = 0; i < TT_WINDOW; i++) {
        r->slices[i].ready.active = *units;
        r->slices[i].ready.waiting = cut(words, steps);
        r->slices[i].heard = cut(words, steps);
        *units += steps;
    }
    r->order.opening = cut(words, steps);
    r->order.next_in_slot = cut(words, steps);
    r->mate = cut(words, steps);
    memset(r->mate, 0xff, steps * sizeof *r->mate);
}

static tutti_status open_walk(struct walk *w, const struct tt_walk_of *of)
{
    int n = of->question->demand.n;
    size_t steps = 0, ranks = (size_t)of->ranks, messages = 0;
    for (int r = 0; r < of->ranks; r++)
        steps += (size_t)of->schedules[r].nsteps + 1;
    messages = steps;
    w->ncores = w->alone || w->costs->cores > (uint64_t)of->ranks ? of->ranks : (int)w->costs->cores;
    w->share = 1;
    if (w->alone)
        w->share = ((uint64_t)n + w->costs->cores - 1) / w->costs->cores;
    w->round = w->share > 1 ? w->share * w->costs->turn : 0;
    size_t words =
        steps * (2 * TT_WINDOW + 3) + 2 * (size_t)n * TT_SLOTS_AHEAD + ranks * ranks + 2 * messages;
    w->memory = calloc(1, ranks * (sizeof *w->ranks + sizeof *w->cores) +
                              steps * TT_WINDOW * sizeof(struct tt_active) + words * sizeof(uint32_t));
    if (w->memory == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to price an algorithm on %d ranks", n);
    w->ranks = w->memory;
    w->cores = (struct core *)(void *)(w->ranks + ranks);
    struct tt_active *units = (struct tt_active *)(void *)(w->cores + ranks);
    uint32_t *word = (uint32_t *)(void *)(units + steps * TT_WINDOW);
    uint32_t *recent = cut(&word, 2 * (size_t)n * TT_SLOTS_AHEAD);
    for (int r = 0; r < of->ranks; r++) {
        w->ranks[r].s = &of->schedules[r];
        w->cores[r] = (struct core){ w->round, NOBODY };
        open_rank(&w->ranks[r], &units, &word);
        tt_ready_order(&w->ranks[r].order, &of->schedules[r], recent);
    }
    if (w->alone) {
        mirror(&w->ranks[0]);
    } else {
        uint32_t *first = cut(&word, ranks * ranks);
        find_mates(w, first, word);
    }
    return TUTTI_OK;
}

static tutti_status conclude(struct walk *w)
{
    const struct rank *last = &w->ranks[0];
    for (int r = 0; r < w->of->ranks && !w->failed; r++) {
        if (w->ranks[r].slices_left > 0 && w->now <= w->of->limit)
            return tt_fail(TUTTI_INTERNAL_ERROR, "the price of %s: rank %d of %d does not end",
                w->ranks[r].s->algorithm, r, w->of->question->demand.n);
        last = w->ranks[r].end > last->end ? &w->ranks[r] : last;
    }
    if (w->failed)
        return tt_fail(
            TUTTI_OUT_OF_MEMORY, "no memory to price an algorithm on %d ranks", w->of->question->demand.n);
    w->result->total = w->running > 0 ? UINT64_MAX : last->end;
    memcpy(w->result->parts, last->parts, sizeof last->parts);
    return TUTTI_OK;
}

tutti_status tt_price_walk(const struct tt_walk_of *of, struct tt_walk_result *result)
{
    struct walk w = { .of = of, .costs = of->question->costs, .result = result };
    w.alone = of->ranks < of->question->demand.n;
    *result = (struct tt_walk_result){ 0 };
    tutti_status status = open_walk(&w, of);
    if (status != TUTTI_OK)
        return status;
    for (int r = 0; r < of->ranks; r++) {
        struct rank *rank = &w.ranks[r];
        rank->slices_left = rank->order.units > 0 ? of->slices : 0;
        w.running += rank->order.units > 0;
        for (uint32_t i = 0; i < TT_WINDOW && i < rank->slices_left; i++)
            start_slice(rank, &rank->slices[i], i);
    }
    run(&w);
    status = conclude(&w);
    free(w.events.events);
    free(w.memory);
    return status;
}

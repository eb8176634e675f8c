/* SPDX-License-Identifier: BSD-3-Clause */
/* test_wait_model.c: the protocol of sleeping and ringing, by walking through all its states.
 *
 * A model of two programs, sleeper and ringer, on a machine with store buffers (x86): each store waits in its
 * process's queue until it drains at some later moment; a fence, a locked instruction and a futex call drain
 * first, and membarrier drains everybody's. All interleavings are visited. With both fences, or the
 * sleeper's for both, no end is reached where data lies ready, everybody has finished and the sleeper sleeps;
 * without one is, so the walk can fail. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RINGERS_MAX = 2, PROCESSES = RINGERS_MAX + 1, QUEUE = 3, STATES = 1 << 20 };
enum { SLEEPING, DATA_0, DATA_1, CELLS }; /* memory; the bell's word is only touched by locked instructions */
enum { TICKET, SAY, SLEEPER_FENCE, POLL, SLEEP, ASLEEP, CLEAR, SLEEPER_END };
enum { WRITE, RINGER_FENCE, LOOK, RING, RINGER_END };

struct state {
    uint8_t memory[CELLS], word, ticket, seen;
    uint8_t at[PROCESSES]; /* 0: the sleeper */
    uint8_t queued[PROCESSES], cell[PROCESSES][QUEUE], value[PROCESSES][QUEUE];
};

struct model {
    int ringers;
    bool sleeper_fence, ringer_fence;
    bool heavy; /* the sleeper's fence is everybody's (membarrier) */
    struct state *table;
    bool *used;
    long states, lost, done;
};

static bool visited(struct model *m, const struct state *s)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof *s; i++)
        hash = (hash ^ ((const uint8_t *)s)[i]) * 1099511628211u;
    for (uint64_t i = (hash ^ hash >> 32) % STATES;; i = (i + 1) % STATES) {
        if (!m->used[i]) {
            m->used[i] = true;
            m->table[i] = *s;
            m->states++;
            cr_assert_lt(m->states, STATES / 2, "the model has grown too large");
            return false;
        }
        if (memcmp(&m->table[i], s, sizeof *s) == 0)
            return true;
    }
}

static uint8_t load(const struct state *s, int process, int cell)
{
    for (int i = s->queued[process] - 1; i >= 0; i--)
        if (s->cell[process][i] == cell)
            return s->value[process][i];
    return s->memory[cell];
}

static void store(struct state *s, int process, int cell, int value)
{
    int i = s->queued[process]++;
    s->cell[process][i] = (uint8_t)cell;
    s->value[process][i] = (uint8_t)value;
}

static void drain_one(struct state *s, int process)
{
    s->memory[s->cell[process][0]] = s->value[process][0];
    s->queued[process]--;
    for (int i = 0; i < QUEUE - 1; i++) {
        s->cell[process][i] = s->cell[process][i + 1];
        s->value[process][i] = s->value[process][i + 1];
    }
    s->cell[process][QUEUE - 1] = s->value[process][QUEUE - 1] = 0;
}

/* tt_wait_idle of a caller that waits for all data, and goes back to spinning whenever it found some. */
static bool step_sleeper(const struct model *m, struct state *s)
{
    uint8_t data = (uint8_t)(load(s, 0, DATA_0) + (m->ringers > 1 ? load(s, 0, DATA_1) : 0));
    switch (s->at[0]) {
    case TICKET:
        s->ticket = s->word;
        s->at[0] = load(s, 0, SLEEPING) ? POLL : SAY; /* after a wake-up it is still armed */
        return true;
    case SAY:
        store(s, 0, SLEEPING, 1);
        s->at[0] = m->sleeper_fence ? SLEEPER_FENCE : POLL;
        return true;
    case SLEEPER_FENCE:
        s->at[0] = POLL;
        for (int process = 1; m->heavy && process <= m->ringers; process++)
            if (s->queued[process] > 0)
                return false;
        return s->queued[0] == 0;
    case POLL:
        s->at[0] = data > s->seen ? CLEAR : SLEEP;
        s->seen = data;
        return true;
    case SLEEP:
        s->at[0] = s->word == s->ticket ? ASLEEP : TICKET;
        return s->queued[0] == 0;
    case CLEAR:
        store(s, 0, SLEEPING, 0);
        s->at[0] = s->seen == m->ringers ? SLEEPER_END : TICKET;
        return true;
    default:
        return false;
    }
}

static bool step_ringer(const struct model *m, struct state *s, int process)
{
    uint8_t *at = &s->at[process];
    switch (*at) {
    case WRITE:
        store(s, process, process == 1 ? DATA_0 : DATA_1, 1);
        *at = m->ringer_fence ? RINGER_FENCE : LOOK;
        return true;
    case RINGER_FENCE:
        *at = LOOK;
        return s->queued[process] == 0;
    case LOOK:
        *at = load(s, process, SLEEPING) ? RING : RINGER_END;
        return true;
    case RING: /* add to the word, then wake: a sleeper that comes between sees the new word */
        s->word++;
        if (s->at[0] == ASLEEP)
            s->at[0] = TICKET;
        *at = RINGER_END;
        return s->queued[process] == 0;
    default:
        return false;
    }
}

static void walk(struct model *m, const struct state *s)
{
    bool stuck = true;
    if (visited(m, s))
        return;
    for (int process = 0; process <= m->ringers; process++) {
        struct state next = *s;
        if (s->queued[process] > 0) {
            drain_one(&next, process);
            stuck = false;
            walk(m, &next);
            next = *s;
        }
        if (s->queued[process] == QUEUE)
            continue; /* it waits for its stores to drain */
        if (process == 0 ? step_sleeper(m, &next) : step_ringer(m, &next, process)) {
            stuck = false;
            walk(m, &next);
        }
    }
    if (stuck && s->at[0] == SLEEPER_END)
        m->done++;
    else if (stuck)
        m->lost++;
}

static struct model walk_all(int ringers, bool sleeper_fence, bool ringer_fence, bool heavy)
{
    struct model m = {
        .ringers = ringers, .sleeper_fence = sleeper_fence, .ringer_fence = ringer_fence, .heavy = heavy
    };
    m.table = calloc(STATES, sizeof *m.table);
    m.used = calloc(STATES, sizeof *m.used);
    cr_assert(m.table != NULL && m.used != NULL);
    struct state start = { 0 };
    walk(&m, &start);
    free(m.table);
    free(m.used);
    return m;
}

Test(wait_model, protocol_loses_nothing)
{
    for (int ringers = 1; ringers <= RINGERS_MAX; ringers++) {
        struct model m = walk_all(ringers, true, true, false);
        cr_expect_eq(m.lost, 0, "%d ringers: %ld of %ld states lose a wake-up", ringers, m.lost, m.states);
        cr_expect_gt(m.done, 0);
    }
}

Test(wait_model, protocol_needs_both_fences)
{
    for (int ringers = 1; ringers <= RINGERS_MAX; ringers++) {
        cr_expect_gt(
            walk_all(ringers, false, true, false).lost, 0, "%d ringers, no fence at the sleeper", ringers);
        cr_expect_gt(
            walk_all(ringers, true, false, false).lost, 0, "%d ringers, no fence at the ringer", ringers);
    }
}

Test(wait_model, protocol_needs_no_fence_of_the_ringers_where_the_sleeper_fences_for_all)
{
    for (int ringers = 1; ringers <= RINGERS_MAX; ringers++) {
        struct model m = walk_all(ringers, true, false, true);
        cr_expect_eq(m.lost, 0, "%d ringers: %ld of %ld states lose a wake-up", ringers, m.lost, m.states);
        cr_expect_gt(m.done, 0);
    }
}

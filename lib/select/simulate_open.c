/* SPDX-License-Identifier: BSD-3-Clause */
/* simulate_open.c: what a simulation needs before it begins: memory, and which two steps are the ends of one
 * message. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "select/simulation.h"

enum { NEAR_RECEIVES = 4 };

/* Finds where both ends of each message stand: `places` has room for two words of each, by sender, receiver
 * and ordinal. */
static void find_mates(struct tt_simulation *sim, uint32_t *first, uint32_t *places)
{
    int n = sim->params->ranks;
    uint32_t count = 0;
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) {
            first[from * n + to] = count;
            count += sim->ranks[from].s->sends[to];
        }
    for (int round = 0; round < 2; round++)
        for (int r = 0; r < n; r++)
            for (uint32_t i = 0; i < sim->ranks[r].s->nsteps; i++) {
                const struct tt_step *step = &sim->ranks[r].s->steps[i];
                uint32_t sends = step->verb == TT_VERB_SEND;
                if (step->peer == TT_NONE)
                    continue;
                uint32_t pair = sends ? first[r * n + step->peer] : first[step->peer * n + r];
                uint32_t *place = &places[2 * (pair + step->ordinal)];
                if (round == 0)
                    place[sends] = i;
                else
                    sim->ranks[r].mate[i] = place[!sends];
            }
}

static void take_mates(struct tt_simulation *sim)
{
    for (int c = 0; c < sim->params->ranks; c++)
        for (uint32_t i = 0; i < sim->ranks[c].s->nsteps; i++)
            if (sim->ranks[c].s->steps[i].peer != TT_NONE)
                sim->ranks[c].mate[i] = sim->params->classes->mates[c][i];
}

/* Returns the next receive from this step on that is paired with no send, or nsteps. */
static uint32_t next_receive(const struct tt_simulated_rank *r, uint32_t step)
{
    const struct tt_schedule *s = r->s;
    while (step < s->nsteps && (s->steps[step].peer == TT_NONE || s->steps[step].verb == TT_VERB_SEND ||
                                   r->mate[step] != TT_NO_STEP))
        step++;
    return step;
}

/* One rank alone: pairs each send with the receive that a peer's equal send answers: one of as many chunks,
 * which is not far. Where there is none, as where a range wraps at one end only, the receive waits until
 * nothing else happens. */
static void mirror(struct tt_simulated_rank *r)
{
    const struct tt_schedule *s = r->s;
    uint32_t first = 0;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        if (s->steps[i].verb != TT_VERB_SEND)
            continue;
        first = next_receive(r, first);
        uint32_t recv = first;
        for (int tries = 0; tries < NEAR_RECEIVES && recv < s->nsteps; tries++) {
            if (s->steps[recv].nchunks == s->steps[i].nchunks)
                break;
            recv = next_receive(r, recv + 1);
        }
        if (recv == s->nsteps || s->steps[recv].nchunks != s->steps[i].nchunks)
            continue;
        r->mate[i] = recv;
        r->mate[recv] = i;
    }
}

static uint32_t *cut(uint32_t **words, size_t count)
{
    uint32_t *piece = *words;
    *words += count;
    return piece;
}

static void open_rank(struct tt_simulated_rank *r, struct tt_active **units, uint32_t **words)
{
    size_t steps = (size_t)r->s->nsteps + 1;
    for (int i = 0; i < TT_WINDOW; i++) {
        r->slices[i].ready.active = *units;
        r->slices[i].ready.waiting = cut(words, steps);
        r->slices[i].heard = cut(words, steps);
        r->slices[i].place = cut(words, steps);
        *units += steps;
    }
    r->order.opening = cut(words, steps);
    r->order.next_in_slot = cut(words, steps);
    r->mate = cut(words, steps);
    memset(r->mate, 0xff, steps * sizeof *r->mate);
    r->last_work = TT_NO_WORK;
    r->out.first = r->in.first = TT_NO_PARCEL;
}

tutti_status tt_simulation_open(struct tt_simulation *sim, const struct tt_simulation_params *params)
{
    int n = params->query->requirements.n;
    size_t steps = 0, ranks = (size_t)params->ranks, messages = 0, pairs = 0;
    for (int r = 0; r < params->ranks; r++)
        steps += (size_t)params->schedules[r].nsteps + 1;
    if (params->classes == NULL) {
        messages = steps;
        pairs = ranks * ranks;
    }
    sim->ncores = sim->representative || sim->costs->cores > (uint64_t)params->ranks ? params->ranks
                                                                                     : (int)sim->costs->cores;
    sim->share = 1;
    sim->parcels_free = TT_NO_PARCEL;
    if (sim->representative)
        sim->share = ((uint64_t)n + sim->costs->cores - 1) / sim->costs->cores;
    sim->round = sim->share > 1 ? sim->share * sim->costs->context_switch : 0;
    const struct tt_topology *t = params->query->requirements.topology;
    size_t links = t != NULL && sim->costs->link > 0 && sim->costs->hosts > 1 ? 2 * (size_t)t->domains : 0;
    size_t words = steps * (3 * TT_WINDOW + 3) + 2 * (size_t)n * TT_SLOTS_AHEAD + pairs + 2 * messages;
    sim->memory = calloc(1, ranks * (sizeof *sim->ranks + sizeof *sim->cores) + links * sizeof *sim->links +
                                steps * TT_WINDOW * sizeof(struct tt_active) + words * sizeof(uint32_t));
    if (sim->memory == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to predict the time of an algorithm on %d ranks", n);
    sim->ranks = sim->memory;
    sim->cores = (struct tt_simulated_core *)(void *)(sim->ranks + ranks);
    uint64_t *after_cores = (uint64_t *)(void *)(sim->cores + ranks);
    sim->links = links > 0 ? after_cores : NULL;
    struct tt_active *units = (struct tt_active *)(void *)(after_cores + links);
    uint32_t *word = (uint32_t *)(void *)(units + steps * TT_WINDOW);
    uint32_t *recent = cut(&word, 2 * (size_t)n * TT_SLOTS_AHEAD);
    for (int r = 0; r < params->ranks; r++) {
        sim->ranks[r].s = &params->schedules[r];
        sim->cores[r] = (struct tt_simulated_core){ sim->round, TT_NOBODY };
        open_rank(&sim->ranks[r], &units, &word);
        tt_ready_order(&sim->ranks[r].order, &params->schedules[r], recent);
    }
    if (params->classes != NULL) {
        take_mates(sim);
    } else if (sim->representative) {
        mirror(&sim->ranks[0]);
    } else {
        uint32_t *first = cut(&word, ranks * ranks);
        find_mates(sim, first, word);
    }
    return TUTTI_OK;
}

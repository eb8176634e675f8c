/* SPDX-License-Identifier: BSD-3-Clause */
/* classes.c: from the schedules of all ranks to their classes.
 *
 * The schedules of a hundred thousand ranks are not kept: each is built, its messages are noted, and only the
 * look of the rest remains. */
#include "select/classes.h"

#include <stdlib.h>
#include <string.h>

#include "base/ready.h"
#include "base/status.h"

enum { ROUNDS = 64, NO_MATE = UINT32_MAX };

struct message { /* one end of it */
    int32_t rank, peer;
    uint32_t step, ordinal;
    uint32_t mate; /* index of the other end */
    bool sends;
};

struct search {
    const struct tt_cost_query *query;
    int algorithm, n;
    struct message *messages;
    uint32_t count, capacity;
    uint32_t *first; /* of each rank: its first message */
    uint64_t *colors, *next, *sorted; /* of each rank: the class, as a hash */
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static tutti_status no_memory(int n)
{
    return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to predict the time of an algorithm on %d ranks", n);
}

tutti_status tt_cost_build(
    const struct tt_cost_query *q, int algorithm, int rank, uint32_t *counts, struct tt_schedule *schedule)
{
    const struct tt_collective_row *row = &tt_collectives[q->collective];
    struct tt_key key = { .collective = (uint8_t)q->collective,
        .algorithm = (uint8_t)algorithm,
        .exact = q->requirements.exact && (row->result == TT_RESULT_REDUCED || q->collective == TT_BARRIER),
        .n = q->requirements.n,
        .me = rank,
        .topology = q->requirements.topology };
    return tt_schedule_build_lent(schedule, &key, counts);
}

enum tt_level tt_cost_level(const struct tt_cost_query *q, int rank, int peer)
{
    const struct tt_topology *t = q->requirements.topology;
    return tt_costs_level(q->costs, t == NULL || t->domains < 2 || t->domain[rank] == t->domain[peer]);
}

/* Returns a hash of how a schedule looks: of all but who the peers are. */
static uint64_t look(const struct tt_cost_query *q, const struct tt_schedule *s)
{
    uint64_t hash = mix(s->nsteps, s->chunks);
    for (uint32_t i = 0; i < s->nsteps; i++) {
        const struct tt_step *step = &s->steps[i];
        bool message = step->peer != TT_NONE;
        hash = mix(hash, step->verb | (uint64_t)step->fold_count << 8 | (uint64_t)step->nchunks << 32);
        hash = mix(hash, message ? step->ordinal * 4 + tt_cost_level(q, s->key.me, step->peer) : 3);
        for (uint32_t d = 0; d < step->dep_count; d++)
            hash = mix(hash, s->deps[step->dep_first + d]);
    }
    return hash;
}

/* --- Messages and their two ends */

static bool note_messages(struct search *f, const struct tt_schedule *s)
{
    f->first[s->key.me] = f->count;
    if (f->count + s->nsteps > f->capacity) {
        uint32_t wanted = 2 * (f->count + s->nsteps);
        struct message *bigger = realloc(f->messages, wanted * sizeof *bigger);
        if (bigger == NULL)
            return false;
        f->messages = bigger;
        f->capacity = wanted;
    }
    for (uint32_t i = 0; i < s->nsteps; i++) {
        const struct tt_step *step = &s->steps[i];
        if (step->peer != TT_NONE)
            f->messages[f->count++] = (struct message){ .rank = s->key.me,
                .peer = step->peer,
                .step = i,
                .ordinal = step->ordinal,
                .mate = NO_MATE,
                .sends = step->verb == TT_VERB_SEND };
    }
    return true;
}

static tutti_status build_all(struct search *f, uint32_t *counts)
{
    struct tt_schedule schedule;
    for (int r = 0; r < f->n; r++) {
        tutti_status status = tt_cost_build(f->query, f->algorithm, r, counts, &schedule);
        if (status != TUTTI_OK)
            return status;
        f->colors[r] = look(f->query, &schedule);
        bool noted = note_messages(f, &schedule);
        tt_schedule_free(&schedule);
        if (!noted)
            return no_memory(f->n);
    }
    f->first[f->n] = f->count;
    return TUTTI_OK;
}

static bool are_two_ends(const struct message *a, const struct message *b)
{
    return a->rank == b->peer && a->peer == b->rank && a->ordinal == b->ordinal && a->sends != b->sends;
}

/* Finds the other end of each message by a table of those that have been met, which is probed linearly. */
static bool find_mates(struct search *f)
{
    uint32_t size = 64;
    while (size < f->count + f->count / 2)
        size *= 2;
    uint32_t *table = malloc(size * sizeof *table);
    if (table == NULL)
        return false;
    memset(table, 0xff, size * sizeof *table);
    for (uint32_t i = 0; i < f->count; i++) {
        struct message *m = &f->messages[i];
        uint64_t from = (uint64_t)(m->sends ? m->rank : m->peer),
                 to = (uint64_t)(m->sends ? m->peer : m->rank);
        uint32_t at = (uint32_t)(mix(mix(mix(1, from), to), m->ordinal) >> 20) & (size - 1);
        while (table[at] != NO_MATE && !are_two_ends(m, &f->messages[table[at]]))
            at = (at + 1) & (size - 1);
        if (table[at] == NO_MATE) {
            table[at] = i;
            continue;
        }
        m->mate = table[at];
        f->messages[table[at]].mate = i;
    }
    free(table);
    return true;
}

/* --- Refinement */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the colours, each of which stands once then, and returns how many there are. */
static int sort_colors(struct search *f)
{
    int count = 0;
    memcpy(f->sorted, f->colors, (size_t)f->n * sizeof *f->sorted);
    qsort(f->sorted, (size_t)f->n, sizeof *f->sorted, by_value);
    for (int r = 0; r < f->n; r++)
        if (count == 0 || f->sorted[count - 1] != f->sorted[r])
            f->sorted[count++] = f->sorted[r];
    return count;
}

static void tell_apart(struct search *f)
{
    for (int r = 0; r < f->n; r++) {
        uint64_t hash = f->colors[r];
        for (uint32_t i = f->first[r]; i < f->first[r + 1]; i++) {
            const struct message *m = &f->messages[i];
            uint32_t step = m->mate == NO_MATE ? TT_NO_STEP : f->messages[m->mate].step;
            hash = mix(mix(hash, f->colors[m->peer]), step);
        }
        f->next[r] = hash;
    }
    uint64_t *old = f->colors;
    f->colors = f->next;
    f->next = old;
}

static int refine(struct search *f)
{
    int count = sort_colors(f), before = 0;
    for (int round = 0; round < ROUNDS && count > before && count < f->n; round++) {
        before = count;
        tell_apart(f);
        count = sort_colors(f);
    }
    return count;
}

static tutti_status list_mates(const struct search *f, struct tt_classes *c, int class)
{
    uint32_t from = f->first[c->first[class]], end = f->first[c->first[class] + 1], steps = 0;
    for (uint32_t i = from; i < end; i++)
        steps = f->messages[i].step + 1;
    c->mates[class] = malloc(((size_t)steps + 1) * sizeof **c->mates);
    if (c->mates[class] == NULL)
        return no_memory(f->n);
    for (uint32_t i = from; i < end; i++) {
        const struct message *m = &f->messages[i];
        c->mates[class][m->step] = m->mate == NO_MATE ? TT_NO_STEP : f->messages[m->mate].step;
    }
    return TUTTI_OK;
}

/* Classes are numbered in the order of their first ranks, so that rank 0 is of class 0. */
static tutti_status list_classes(const struct search *f, int count, struct tt_classes *c)
{
    size_t n = (size_t)f->n;
    c->class_of = malloc(n * sizeof *c->class_of);
    c->first = malloc((size_t)count * sizeof *c->first);
    c->on_host = calloc((size_t)count, sizeof *c->on_host);
    c->mates = calloc((size_t)count, sizeof *c->mates);
    const struct tt_topology *t = f->query->requirements.topology;
    bool one_domain = t == NULL || t->domains < 2; /* then it may have no list */
    int32_t *number = malloc((size_t)count * sizeof *number); /* of each sorted colour */
    tutti_status status = TUTTI_OK;
    if (c->class_of == NULL || c->first == NULL || c->on_host == NULL || c->mates == NULL || number == NULL) {
        free(number);
        return no_memory(f->n);
    }
    memset(number, 0xff, (size_t)count * sizeof *number);
    for (int r = 0; r < f->n && status == TUTTI_OK; r++) {
        const uint64_t *color = bsearch(&f->colors[r], f->sorted, (size_t)count, sizeof *f->sorted, by_value);
        int32_t *mine = &number[color - f->sorted];
        if (*mine < 0) {
            *mine = c->count++;
            c->first[*mine] = r;
            status = list_mates(f, c, *mine);
        }
        c->class_of[r] = *mine;
        c->on_host[*mine] += one_domain || t->domain[r] == t->domain[c->first[*mine]];
    }
    free(number);
    return status;
}

tutti_status tt_classes_find(const struct tt_cost_query *query, int algorithm, struct tt_classes *classes)
{
    struct search f = { .query = query, .algorithm = algorithm, .n = query->requirements.n };
    struct tt_classes found = { 0 };
    size_t n = (size_t)f.n;
    f.first = malloc((n + 1) * sizeof *f.first);
    found.counts = calloc(2 * n, sizeof *found.counts);
    f.colors = malloc(n * sizeof *f.colors);
    f.next = malloc(n * sizeof *f.next);
    f.sorted = malloc(n * sizeof *f.sorted);
    tutti_status status = TUTTI_OK;
    if (f.first == NULL || found.counts == NULL || f.colors == NULL || f.next == NULL || f.sorted == NULL)
        status = no_memory(f.n);
    if (status == TUTTI_OK)
        status = build_all(&f, found.counts);
    if (status == TUTTI_OK && !find_mates(&f))
        status = no_memory(f.n);
    if (status == TUTTI_OK)
        status = list_classes(&f, refine(&f), &found);
    free(f.first);
    free(f.colors);
    free(f.next);
    free(f.sorted);
    free(f.messages);
    if (status == TUTTI_OK)
        *classes = found;
    else
        tt_classes_free(&found);
    return status;
}

void tt_classes_free(struct tt_classes *classes)
{
    for (int c = 0; c < classes->count && classes->mates != NULL; c++)
        free(classes->mates[c]);
    free(classes->mates);
    free(classes->class_of);
    free(classes->first);
    free(classes->on_host);
    free(classes->counts);
    *classes = (struct tt_classes){ 0 };
}

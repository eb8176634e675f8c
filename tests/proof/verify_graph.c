/* SPDX-License-Identifier: BSD-3-Clause */
/* verify_graph.c: messages, and that nobody waits for itself.
 *
 * The three modes are one graph of who waits for whom, with two switches. A node is a unit at the moment it
 * is done, a send at the moment it is posted. A unit waits for the completion of what it depends on, and, if
 * it receives, for the posts of its messages; a send is complete when the unit that receives it is done. That
 * is rendezvous. The slots mode adds: a post waits for the unit that received the message `slots` before it.
 * The in-order mode adds: a unit waits for the one before it in its queue; the acknowledgement of a send is
 * then awaited by the step that depends on it, which is the next write of what it reads.
 *
 * A depth-first walk along what each node waits for finds a cycle, if there is one, as the path it stands on;
 * else the order in which it leaves the nodes is one in which they may run. No edge is stored. */
#include <stdio.h>
#include <stdlib.h>

#include "base/ready.h"
#include "tests/proof/verify_internal.h"

enum { OPERATIONS = 2, COPIED_NODES_MAX = 1 << 16 };
enum { ENTERED = 1U << 31 };

static uint32_t message_of(const struct tt_verifier *v, uint32_t number)
{
    size_t rank = v->rank_of[number], n = (size_t)v->n;
    const struct tt_step *step = tt_step_at(v, number);
    size_t pair = step->verb == TT_VERB_SEND ? rank * n + (size_t)step->peer : (size_t)step->peer * n + rank;
    return v->first_message[pair] + step->ordinal;
}

/* Ordinals count up from 0 in program order, separately to and from each peer; `next` has 2n entries. */
static bool check_ordinals(struct tt_verifier *v, int r, uint32_t *next)
{
    const struct tt_schedule *s = v->schedules[r];
    for (int k = 0; k < 2 * v->n; k++)
        next[k] = 0;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        const struct tt_step *step = &s->steps[i];
        if (step->verb != TT_VERB_SEND && !tt_step_receives(step))
            continue;
        uint32_t *expected = &next[2 * step->peer + (step->verb == TT_VERB_SEND)];
        if (step->ordinal != *expected)
            return tt_verify_wrong(v, r, i, "has ordinal %u, but is number %u %s rank %d", step->ordinal,
                *expected, step->verb == TT_VERB_SEND ? "to" : "from", step->peer);
        ++*expected;
    }
    for (int q = 0; q < v->n; q++)
        if (s->recvs[q] != next[2 * q] || s->sends[q] != next[2 * q + 1])
            return tt_verify_wrong(v, r, -1,
                "counts %u messages to and %u from rank %d; its steps are %u and %u", s->sends[q],
                s->recvs[q], q, next[2 * q + 1], next[2 * q]);
    return true;
}

static bool number_messages(struct tt_verifier *v)
{
    uint32_t count = 0;
    for (int p = 0; p < v->n; p++)
        for (int q = 0; q < v->n; q++) {
            v->first_message[(size_t)p * (size_t)v->n + (size_t)q] = count;
            count += v->schedules[p]->sends[q];
            bool one_sided = tt_collectives[v->schedules[p]->key.collective].counts == TT_COUNTS_OWN;
            if (one_sided && v->schedules[p]->sends[q] > 1)
                return tt_verify_wrong(v, p, -1,
                    "sends %u messages to rank %d; where only they know the lengths, one is legal",
                    v->schedules[p]->sends[q], q);
            if (v->schedules[p]->sends[q] != v->schedules[q]->recvs[p])
                return tt_verify_wrong(v, p, -1, "sends %u messages to rank %d, which receives %u",
                    v->schedules[p]->sends[q], q, v->schedules[q]->recvs[p]);
        }
    v->first_message[(size_t)v->n * (size_t)v->n] = count;
    for (uint32_t i = 0; i < v->total; i++) {
        const struct tt_step *step = tt_step_at(v, i);
        if (step->verb == TT_VERB_SEND)
            v->sender[message_of(v, i)] = i;
        else if (tt_step_receives(step))
            v->receiver[message_of(v, i)] = i;
    }
    return true;
}

static bool check_message(struct tt_verifier *v, uint32_t message)
{
    uint32_t from = v->sender[message], to = v->receiver[message];
    const struct tt_step *send = tt_step_at(v, from), *recv = tt_step_at(v, to);
    int rank = (int)v->rank_of[from], peer = (int)v->rank_of[to];
    struct tt_cells src = tt_step_accesses(send).read[0], dst = tt_step_accesses(recv).write;
    if (!tt_cells_equal(v->schedules[rank], src, v->schedules[peer], dst))
        return tt_verify_wrong(v, rank, from - v->base[rank],
            "sends %s, but step %u of rank %d receives it as %s: not the same chunks",
            tt_cells_name(src).text, to - v->base[peer], peer, tt_cells_name(dst).text);
    if (send->nchunks > v->schedules[rank]->max_chunks)
        return tt_verify_wrong(v, rank, from - v->base[rank], "sends %u chunks at once; its max_chunks is %u",
            send->nchunks, v->schedules[rank]->max_chunks);
    return true;
}

bool tt_verify_messages(struct tt_verifier *v)
{
    uint32_t *next = malloc(2 * (size_t)v->n * sizeof *next);
    bool right = next != NULL || tt_verify_no_memory(v);
    for (int r = 0; right && r < v->n; r++)
        right = check_ordinals(v, r, next);
    free(next);
    right = right && number_messages(v);
    for (uint32_t m = 0; right && m < v->first_message[(size_t)v->n * (size_t)v->n]; m++)
        right = check_message(v, m);
    return right;
}

struct graph {
    struct tt_verifier *v;
    const char *mode;
    uint32_t slots; /* 0: any number */
    bool queues;
    uint32_t slices, copies; /* copy c is slice c % slices of operation c / slices */
    uint32_t size; /* nodes of a copy: the steps, then the end of each rank */
    uint8_t *state;
    uint32_t *path; /* nodes to visit; those ENTERED are the way to where the walk stands */
    size_t depth, capacity;
    bool failed;
};
enum { NEW, OPEN, LEFT };

/* The node that stands for "this step is complete". */
static uint32_t completion(const struct graph *g, uint32_t copy, uint32_t number)
{
    if (tt_step_at(g->v, number)->verb == TT_VERB_SEND)
        number = g->v->receiver[message_of(g->v, number)];
    return copy * g->size + number - tt_step_at(g->v, number)->fold_index;
}

static const char *node_name(const struct graph *g, uint32_t node, char *text, size_t bytes)
{
    uint32_t number = node % g->size, rank = g->v->rank_of[number];
    snprintf(text, bytes, "rank %u step %u", rank, number - g->v->base[rank]);
    return text;
}

/* The walk stands where `back` is waited for, having come from it. */
static void report_cycle(struct graph *g, uint32_t back)
{
    enum { SHOWN = 6 };
    char text[400], name[48];
    uint32_t shown = 0;
    size_t at = 0, length;
    while (g->path[at] != (back | ENTERED))
        at++;
    length = (size_t)snprintf(text, sizeof text, "%s", node_name(g, back, name, sizeof name));
    for (at++; at < g->depth && shown < SHOWN; at++)
        if (g->path[at] & ENTERED) {
            node_name(g, g->path[at] & ~ENTERED, name, sizeof name);
            length += (size_t)snprintf(text + length, sizeof text - length, " waits for %s, which", name);
            shown++;
        }
    tt_verify_wrong(g->v, -1, -1, "deadlock, %s: %s %s", g->mode, text,
        shown == SHOWN ? "waits for more, back to the first" : "waits for the first");
    g->failed = true;
}

static void wait_for(struct graph *g, uint32_t node)
{
    if (g->failed || g->state[node] == LEFT)
        return;
    if (g->state[node] == OPEN) {
        report_cycle(g, node);
        return;
    }
    if (g->depth == g->capacity) {
        size_t wanted = g->capacity == 0 ? 1024 : 2 * g->capacity;
        uint32_t *bigger = realloc(g->path, wanted * sizeof *bigger);
        if (bigger == NULL) {
            g->failed = !tt_verify_no_memory(g->v);
            return;
        }
        g->path = bigger;
        g->capacity = wanted;
    }
    g->path[g->depth++] = node;
}

static unsigned queue_of(const struct tt_step *step)
{
    return (unsigned)step->flags >> TT_QUEUE_SHIFT;
}

/* The unit before step i of rank r in its queue: in this slice, else the last of the slice before. */
static void wait_for_queue(struct graph *g, uint32_t copy, uint32_t r, uint32_t i)
{
    const struct tt_schedule *s = g->v->schedules[r];
    unsigned queue = queue_of(&s->steps[i]);
    for (uint32_t k = i; k-- > 0;)
        if (queue_of(&s->steps[k]) == queue) {
            wait_for(g, copy * g->size + g->v->base[r] + k - s->steps[k].fold_index);
            return;
        }
    if (copy % g->slices == 0)
        return;
    for (uint32_t k = s->nsteps; k-- > i;)
        if (queue_of(&s->steps[k]) == queue) {
            wait_for(g, (copy - 1) * g->size + g->v->base[r] + k - s->steps[k].fold_index);
            return;
        }
}

/* A post needs its slot: messages of a pair are numbered by operation, slice, ordinal. */
static void wait_for_slot(struct graph *g, uint32_t copy, uint32_t number)
{
    const struct tt_step *send = tt_step_at(g->v, number);
    uint32_t each = g->v->schedules[g->v->rank_of[number]]->sends[send->peer];
    uint64_t message = (uint64_t)copy * each + send->ordinal;
    if (message < g->slots)
        return;
    message -= g->slots;
    uint32_t first = message_of(g->v, number) - send->ordinal;
    uint32_t receiver = g->v->receiver[first + (uint32_t)(message % each)];
    wait_for(g, completion(g, (uint32_t)(message / each), receiver));
}

static void wait_for_all(struct graph *g, uint32_t node)
{
    const struct tt_verifier *v = g->v;
    uint32_t copy = node / g->size, number = node % g->size;
    if (number >= v->total) { /* the end of a slice at a rank: all its steps are complete */
        uint32_t rank = number - v->total;
        for (uint32_t i = v->base[rank]; i < v->base[rank + 1]; i++)
            wait_for(g, completion(g, copy, i));
        return;
    }
    uint32_t r = v->rank_of[number], slice = copy % g->slices;
    const struct tt_step *step = tt_step_at(v, number);
    for (uint32_t k = 0; k < step->dep_count; k++)
        wait_for(g, completion(g, copy, v->base[r] + v->schedules[r]->deps[step->dep_first + k]));
    for (uint32_t k = 0; tt_step_receives(step) && k < step->fold_count; k++)
        wait_for(g, copy * g->size + v->sender[message_of(v, number + k)]);
    if (g->slots > 0 && step->verb == TT_VERB_SEND)
        wait_for_slot(g, copy, number);
    if (g->queues)
        wait_for_queue(g, copy, r, number - v->base[r]);
    if (slice >= TT_WINDOW)
        wait_for(g, (copy - TT_WINDOW) * g->size + v->total + r);
    for (uint32_t z = 0; copy >= g->slices && z < g->slices; z++)
        wait_for(g, (copy - slice - g->slices + z) * g->size + v->total + r);
}

static void walk(struct graph *g, uint32_t root, bool keep_order)
{
    wait_for(g, root);
    while (g->depth > 0 && !g->failed) {
        uint32_t top = g->path[g->depth - 1], node = top & ~ENTERED;
        if (top & ENTERED) {
            g->state[node] = LEFT;
            g->depth--;
            if (keep_order && node < g->v->total)
                g->v->order[g->v->ordered++] = node;
        } else if (g->state[node] == LEFT) {
            g->depth--;
        } else {
            g->path[g->depth - 1] = top | ENTERED;
            g->state[node] = OPEN;
            wait_for_all(g, node);
        }
    }
}

/* A schedule runs in several slices and operations at once. A slice waits only for itself and earlier ones
 * (messages and queues are slice-major, TT_WINDOW are in flight), an operation of a rank for the end of
 * the one before. Every edge between two copies goes from a later to an earlier one, so a cycle lies inside
 * one, and all copies are the same: where the graph is large, one copy is as good a proof as many. */
static bool acyclic(struct tt_verifier *v, struct graph g, bool keep_order)
{
    g.v = v;
    g.size = v->total + (uint32_t)v->n;
    g.slices = v->slices;
    g.copies = OPERATIONS * g.slices;
    if ((uint64_t)g.size * g.copies > COPIED_NODES_MAX)
        g.slices = g.copies = 1;
    g.state = calloc((size_t)g.size * g.copies, 1);
    if (g.state == NULL)
        g.failed = !tt_verify_no_memory(v);
    for (uint32_t node = 0; !g.failed && node < g.size * g.copies; node++)
        if (node % g.size >= v->total || tt_step_at(v, node % g.size)->fold_index == 0)
            walk(&g, node, keep_order);
    free(g.state);
    free(g.path);
    return !g.failed;
}

bool tt_verify_order(struct tt_verifier *v)
{
    v->ordered = 0;
    return acyclic(v, (struct graph){ .mode = "rendezvous" }, true);
}

bool tt_verify_modes(struct tt_verifier *v)
{
    char slots[40];
    snprintf(slots, sizeof slots, "with %u slots", v->slots);
    return acyclic(v, (struct graph){ .mode = slots, .slots = v->slots }, false) &&
           acyclic(v, (struct graph){ .mode = "in order", .queues = true }, false);
}

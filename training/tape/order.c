/* SPDX-License-Identifier: BSD-3-Clause */
/* order.c: all ranks' tapes together: they are run without numbers.
 *
 * A rank stands at an instruction. A collective goes on when all ranks of its group stand at the same one; a
 * send leaves a message; a receive takes the oldest of its edge, which must be what it expects; a wait goes
 * on when its message was taken. A collective beside the list joins its rank's queue, and is over when it is
 * the first in the queues of all ranks of its group; a wait for one goes on then. If nobody can go on, who
 * waits for whom is told. */
#include "training/tape/check.h"

#include <stdlib.h>
#include <string.h>

struct message {
    int from, value, instr;
    bool taken;
};

struct queue { /* of one edge, from a rank to its neighbour; to a server or from one */
    struct message *messages;
    int sent, taken;
};

struct joint {
    const struct tr_tape *const *tapes;
    const struct tr_mesh *mesh;
    int n;
    int *at; /* of each rank: its instruction */
    int *round; /* of an asynchronous server, which goes through its list once for each worker: whose push */
    struct queue *queues; /* of each rank: what it sends by each edge; then of each worker and each server: to
                             the server, and from it */
    int **beside, *begun, *over; /* of each rank: its calls beside the list, and how many */
};

static const struct tr_instr *standing(const struct joint *j, int rank)
{
    return j->at[rank] < j->tapes[rank]->n_instrs ? &j->tapes[rank]->instrs[j->at[rank]] : NULL;
}

static int neighbour(const struct joint *j, int rank, int by)
{
    int at[TR_AXES], p = j->mesh->size[TR_PP];
    tr_mesh_place(j->mesh, rank, at);
    at[TR_PP] = (at[TR_PP] + by + p) % p;
    return tr_mesh_rank(j->mesh, at);
}

/* The other home of a tied embedding. */
static int other_home(const struct joint *j, int rank)
{
    int at[TR_AXES];
    tr_mesh_place(j->mesh, rank, at);
    at[TR_PP] = at[TR_PP] ? 0 : j->mesh->size[TR_PP] - 1;
    return tr_mesh_rank(j->mesh, at);
}

static bool in_group(const struct joint *j, int rank, int other, const struct tr_instr *i)
{
    int a[TR_AXES], b[TR_AXES];
    if (i->code == TR_TIE)
        return other == rank || other == other_home(j, rank);
    tr_mesh_place(j->mesh, rank, a);
    tr_mesh_place(j->mesh, other, b);
    for (int x = 0; x < TR_AXES; x++)
        if (!(i->axes & 1 << x) && a[x] != b[x])
            return false;
    return true;
}

static bool together(const struct tr_instr *i)
{
    return !i->beside &&
           ((i->code >= TR_ALL_REDUCE && i->code < TR_SEND) || (i->code == TR_TIE && i->edge == TR_HOME));
}

static bool same_group(const struct tr_instr *a, const struct tr_instr *b)
{
    return together(b) && (a->code == TR_TIE) == (b->code == TR_TIE) && a->axes == b->axes;
}

/* Whether what both read has one element type. */
static bool same_element(
    const struct joint *j, int q, const struct tr_instr *a, int r, const struct tr_instr *b)
{
    return j->tapes[q]->values[a->in[0]].element == j->tapes[r]->values[b->in[0]].element;
}

/* Whether instructions x of rank r and i of rank q are the same call; if not, both are told. */
static bool same_call(const struct joint *j, int q, int i, int r, int x, struct tr_error *e)
{
    const struct tr_instr *a = &j->tapes[q]->instrs[i], *b = &j->tapes[r]->instrs[x];
    const char *an = tr_instr_name(j->tapes[q], a), *bn = tr_instr_name(j->tapes[r], b);
    return (a->code == b->code && same_element(j, q, a, r, b) && a->count == b->count &&
               a->times == b->times && a->fold == b->fold && a->turn == b->turn && !strcmp(an, bn) &&
               a->micro == b->micro) ||
           tr_fail(e,
               "ranks %d and %d call different things in one group: instruction %d, %s of %s, micro-batch "
               "%d, and instruction %d, %s of %s, micro-batch %d",
               q, r, i, tr_code_names[a->code], an, a->micro, x, tr_code_names[b->code], bn, b->micro);
}

/* 1: all of the group are here and can go on; 0: not yet; -1: they call different things. */
static int meet(const struct joint *j, int rank, struct tr_error *e)
{
    const struct tr_instr *i = standing(j, rank);
    for (int r = 0; r < j->n; r++) {
        const struct tr_instr *x = standing(j, r);
        if (r == rank || !in_group(j, rank, r, i))
            continue;
        if (!x || !same_group(i, x))
            return 0;
        if (!same_call(j, rank, j->at[rank], r, j->at[r], e))
            return -1;
    }
    return 1;
}

/* The first call in a rank's queue beside the list; -1. */
static int first_beside(const struct joint *j, int rank)
{
    return j->over[rank] < j->begun[rank] ? j->beside[rank][j->over[rank]] : -1;
}

/* The calls beside the lists that all of their groups have begun are over. */
static bool settle(struct joint *j, int rank, bool *moved, struct tr_error *e)
{
    for (int n; (n = first_beside(j, rank)) >= 0; *moved = true) {
        const struct tr_instr *i = &j->tapes[rank]->instrs[n];
        for (int r = 0; r < j->n; r++) {
            int x = first_beside(j, r);
            if (r == rank || !in_group(j, rank, r, i))
                continue;
            if (x < 0 || j->tapes[r]->instrs[x].axes != i->axes)
                return true;
            if (!same_call(j, rank, n, r, x, e))
                return false;
        }
        for (int r = 0; r < j->n; r++)
            j->over[r] += in_group(j, rank, r, i);
    }
    return true;
}

static bool is_over(const struct joint *j, int rank, int value)
{
    for (int x = j->over[rank]; x < j->begun[rank]; x++)
        if (j->tapes[rank]->instrs[j->beside[rank][x]].out[0] == value)
            return false;
    return true;
}

static struct queue *server_queue(const struct joint *j, int rank, const struct tr_instr *i, int *from)
{
    int workers = j->n - j->mesh->servers, server = rank - workers;
    int worker = server < 0 ? rank : i->turn < 0 ? j->round[rank] : i->turn;
    server = server < 0 ? i->turn : server;
    bool to_server = i->edge == TR_TO_SERVER || i->edge == TR_FROM_WORKER;
    *from = to_server ? worker : workers + server;
    return &j->queues[TR_EDGES * j->n + 2 * (worker * j->mesh->servers + server) + !to_server];
}

/* The queue of a send or a receive, and the rank that sends. */
static struct queue *queue_of(const struct joint *j, int rank, const struct tr_instr *i, int *from)
{
    bool send = i->code == TR_SEND;
    if (i->edge >= TR_TO_SERVER)
        return server_queue(j, rank, i, from);
    *from = send ? rank : neighbour(j, rank, tr_edge_kinds[i->edge].by);
    return &j->queues[TR_EDGES * *from + (int)(send ? i->edge : tr_other_end(i->edge))];
}

static int n_queues(const struct joint *j)
{
    return TR_EDGES * j->n + 2 * (j->n - j->mesh->servers) * j->mesh->servers;
}

static void send(struct joint *j, int rank)
{
    const struct tr_instr *i = standing(j, rank);
    int from;
    struct queue *q = queue_of(j, rank, i, &from);
    if (!q->messages)
        q->messages = tr_new((size_t)j->tapes[rank]->n_instrs, sizeof *q->messages);
    q->messages[q->sent++] = (struct message){ rank, i->in[0], j->at[rank], false };
}

static int receive(struct joint *j, int rank, struct tr_error *e)
{
    const struct tr_instr *i = standing(j, rank), *s;
    int from;
    struct queue *q = queue_of(j, rank, i, &from);
    if (q->taken == q->sent)
        return 0;
    struct message *m = &q->messages[q->taken++];
    m->taken = true;
    s = &j->tapes[from]->instrs[m->instr];
    const char *sent = tr_instr_name(j->tapes[from], s), *wanted = tr_instr_name(j->tapes[rank], i);
    bool alike = j->tapes[from]->values[s->in[0]].element == j->tapes[rank]->values[i->out[0]].element;
    if (alike && !strcmp(sent, wanted) && s->micro == i->micro && s->count == i->count)
        return 1;
    tr_fail(e,
        "rank %d sends %s of micro-batch %d, %lld elements, where rank %d receives %s of micro-batch %d, "
        "%lld",
        from, sent, s->micro, (long long)s->count, rank, wanted, i->micro, (long long)i->count);
    return -1;
}

static int waited(const struct joint *j, int rank)
{
    const struct tr_instr *i = standing(j, rank);
    if (i->beside)
        return is_over(j, rank, i->in[0]);
    const struct queue *q = &j->queues[TR_EDGES * rank + (int)i->edge];
    for (int m = 0; m < q->sent; m++)
        if (q->messages[m].value == i->in[0])
            return q->messages[m].taken;
    return 1;
}

/* All of a group that has met go one on. */
static void advance_group(struct joint *j, int rank)
{
    const struct tr_instr *i = standing(j, rank);
    for (int r = 0; r < j->n; r++)
        if (r != rank && in_group(j, rank, r, i))
            j->at[r]++;
    j->at[rank]++;
}

static bool takes_again(struct joint *j, int rank)
{
    const struct tr_tape *t = j->tapes[rank];
    return t->server >= 0 && t->placed->plan->server_async && ++j->round[rank] < j->n - j->mesh->servers;
}

/* As far as the rank gets; false: an error. */
static bool advance(struct joint *j, int rank, bool *moved, struct tr_error *e)
{
    for (const struct tr_instr *i; (i = standing(j, rank)) != NULL; *moved = true) {
        int on = 1;
        if (together(i) && (on = meet(j, rank, e)) == 1) {
            advance_group(j, rank);
            continue;
        }
        if (i->code == TR_SEND)
            send(j, rank);
        else if (i->code == TR_RECV)
            on = receive(j, rank, e);
        else if (i->code == TR_WAIT)
            on = waited(j, rank);
        else if (i->beside)
            j->beside[rank][j->begun[rank]++] = j->at[rank];
        if (on <= 0)
            return on == 0;
        j->at[rank]++;
        if (!standing(j, rank) && takes_again(j, rank))
            j->at[rank] = 0;
    }
    return true;
}

static bool stuck(const struct joint *j, struct tr_error *e)
{
    char text[900] = "no rank can go on:";
    size_t used = strlen(text);
    for (int r = 0; r < j->n && used < sizeof text - 100; r++) {
        const struct tr_instr *i = standing(j, r);
        if (i)
            used += (size_t)snprintf(text + used, sizeof text - used,
                " rank %d waits in instruction %d, %s of %s;", r, j->at[r], tr_code_names[i->code],
                tr_instr_name(j->tapes[r], i));
        else if (first_beside(j, r) >= 0)
            used += (size_t)snprintf(text + used, sizeof text - used,
                " rank %d waits for instruction %d, %s of %s, beside the list;", r, first_beside(j, r),
                tr_code_names[j->tapes[r]->instrs[first_beside(j, r)].code],
                tr_instr_name(j->tapes[r], &j->tapes[r]->instrs[first_beside(j, r)]));
    }
    return tr_fail(e, "%s", text);
}

static bool all_taken(const struct joint *j, struct tr_error *e)
{
    for (int q = 0; q < n_queues(j); q++)
        if (j->queues[q].taken < j->queues[q].sent) {
            const struct message *m = &j->queues[q].messages[j->queues[q].taken];
            return tr_fail(e, "rank %d sends %s, and no rank receives it", m->from,
                tr_instr_name(j->tapes[m->from], &j->tapes[m->from]->instrs[m->instr]));
        }
    return true;
}

/* Of each parameter, by its ordinal: whether the norm counts it; a tied head is counted as its embedding. */
static bool *counted_parameters(const struct tr_graph *g)
{
    bool *counted = tr_new((size_t)tr_ordinal(g, g->n_tensors), sizeof *counted);
    int64_t ordinal = 0;
    for (int t = 0; t < g->n_tensors; t++)
        if (g->tensors[t].role == TR_PARAMETER)
            counted[ordinal++] = g->tensors[t].values_of == t;
    return counted;
}

/* Counts in what one rank counts of a vector's leaves. */
static bool own_leaves(unsigned char *owners, const struct tr_tape *t, enum tr_code code, struct tr_error *e)
{
    const struct tr_graph *g = t->placed->g;
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        if (i->code != code)
            continue;
        int64_t leaves = code == TR_NORM ? i->count / tr_leaf(&g->tensors[i->parameter]) : i->count;
        int64_t times = code == TR_NORM ? 1 : i->times;
        for (int64_t k = 0, x; k < leaves * times; k++)
            if (owners[x = i->place + k / leaves * TR_BLOCKS + k % leaves]++)
                return tr_fail(e, "rank %d, instruction %d: leaf %lld of the %s of %s is counted twice",
                    t->rank, n, (long long)x, code == TR_NORM ? "norm" : "loss", tr_instr_name(t, i));
    }
    return true;
}

/* Each leaf of a vector has one owner. */
static bool leaves_once(const struct joint *j, enum tr_code code, int64_t count, struct tr_error *e)
{
    const struct tr_graph *g = j->tapes[0]->placed->g;
    int64_t parameters = tr_ordinal(g, g->n_tensors);
    unsigned char *owners = tr_new((size_t)count, 1);
    bool *counted = counted_parameters(g), ok = true;
    for (int r = 0; r < j->n && ok; r++)
        ok = own_leaves(owners, j->tapes[r], code, e);
    for (int64_t x = 0; x < count && ok; x++)
        if (!owners[x] && (code == TR_LOSSES || counted[x / TR_NORM_LEAVES % parameters]))
            ok = tr_fail(
                e, "no rank counts leaf %lld of the %s", (long long)x, code == TR_NORM ? "norm" : "loss");
    free(owners), free(counted);
    return ok;
}

bool tr_check_order(const struct tr_tape *const *tapes, int n, struct tr_error *e)
{
    struct joint j = { .tapes = tapes,
        .mesh = &tapes[0]->placed->plan->mesh,
        .n = n,
        .at = tr_new((size_t)n, sizeof(int)),
        .round = tr_new((size_t)n, sizeof(int)),
        .beside = tr_new((size_t)n, sizeof(int *)),
        .begun = tr_new((size_t)n, sizeof(int)),
        .over = tr_new((size_t)n, sizeof(int)) };
    bool ok = true, moved = true, left = false;
    j.queues = tr_new((size_t)n_queues(&j), sizeof(struct queue));
    for (int r = 0; r < n; r++)
        j.beside[r] = tr_new((size_t)tapes[r]->n_instrs, sizeof(int));
    while (ok && moved) {
        moved = false;
        for (int r = 0; r < n && ok; r++)
            ok = advance(&j, r, &moved, e) && settle(&j, r, &moved, e);
    }
    for (int r = 0; r < n; r++)
        left |= standing(&j, r) != NULL || first_beside(&j, r) >= 0;
    if (ok && left)
        ok = stuck(&j, e);
    for (int r = 0; r < n && ok; r++)
        ok = tr_check_versions(tapes[r], e);
    const struct tr_tape *t = tapes[0];
    bool norms = t->placed->plan->server_async; /* each worker has one */
    ok = ok && all_taken(&j, e) && (norms || leaves_once(&j, TR_NORM, t->values[t->leaves].bytes / 8, e)) &&
         leaves_once(&j, TR_LOSSES, t->values[t->losses].bytes / 8, e);
    for (int q = 0; q < n_queues(&j); q++)
        free(j.queues[q].messages);
    for (int r = 0; r < n; r++)
        free(j.beside[r]);
    free(j.at), free(j.round), free(j.queues), free(j.beside), free(j.begun), free(j.over);
    return ok;
}

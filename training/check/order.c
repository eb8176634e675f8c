/* SPDX-License-Identifier: BSD-3-Clause */
/* order.c: what all ranks say, together: their tapes are run without numbers.
 *
 * A rank stands at a call. A collective goes on when all ranks of its group stand at the same one; a
 * send leaves a message; a receive takes the oldest of its edge, which must be what it expects; a wait goes
 * on when its message was taken. A collective beside the list joins its rank's queue, and is over when it is
 * the first in the queues of all ranks of its group; a wait for one goes on then. If nobody can go on, who
 * waits for whom is told. */
#include "training/check/check.h"
#include "training/check/talk.h"

#include <stdlib.h>
#include <string.h>

struct message {
    int from, said; /* by which rank, and where in its talk */
    bool taken;
};

struct queue { /* of one edge, from a rank to its neighbour; to a server or from one */
    struct message *messages;
    int sent, taken;
};

struct joint {
    const struct tr_talk *talks;
    const struct tr_mesh *mesh;
    int n;
    int *at; /* of each rank: where in its talk it stands */
    int *round; /* of an asynchronous server, which goes through its list once for each worker: whose push */
    struct queue *queues; /* of each rank: what it sends by each edge; then of each worker and each server: to
                             the server, and from it */
    int **beside, *begun, *over; /* of each rank: its calls beside the list, and how many */
    int *members; /* of the group that was asked for last */
};

static const struct tr_said *standing(const struct joint *j, int rank)
{
    return j->at[rank] < j->talks[rank].n_said ? &j->talks[rank].said[j->at[rank]] : NULL;
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

/* The others of the rank's group in this call, and how many; the list is that of the last question. Servers
 * stand in no place of the grid, and in the world alone. */
static int others(const struct joint *j, int rank, const struct tr_said *i)
{
    int at[TR_AXES], n = 0, inside = tr_mesh_group_size(j->mesh, i->axes);
    if (i->code == TR_TIE) {
        j->members[0] = other_home(j, rank);
        return j->members[0] != rank;
    }
    if (i->axes == TR_WORLD) {
        for (int r = 0; r < j->n; r++)
            if (r != rank)
                j->members[n++] = r;
        return n;
    }
    tr_mesh_place(j->mesh, rank, at);
    for (int x = 0; x < inside; x++) {
        for (int a = TR_AXES - 1, rest = x; a >= 0; a--)
            if (i->axes & 1 << a)
                at[a] = rest % j->mesh->size[a], rest /= j->mesh->size[a];
        int r = tr_mesh_rank(j->mesh, at);
        if (r != rank)
            j->members[n++] = r;
    }
    return n;
}

static bool together(const struct tr_said *i)
{
    return !i->beside && i->code != TR_SEND && i->code != TR_RECV && i->code != TR_WAIT;
}

static bool same_group(const struct tr_said *a, const struct tr_said *b)
{
    return together(b) && (a->code == TR_TIE) == (b->code == TR_TIE) && a->axes == b->axes;
}

/* Most names are those of one tensor of the graph. */
static bool same_name(const struct tr_said *a, const struct tr_said *b)
{
    return a->name == b->name || !strcmp(a->name, b->name);
}

/* Whether rank q's call a and rank r's call b are the same; if not, both are told. */
static bool same_call(
    const struct joint *j, int q, const struct tr_said *a, int r, const struct tr_said *b, struct tr_error *e)
{
    return (a->code == b->code && a->element == b->element && a->count == b->count && a->times == b->times &&
               a->fold == b->fold && a->shift == b->shift && same_name(a, b) && a->micro == b->micro) ||
           tr_fail(e,
               "ranks %d and %d call different things in one group: instruction %d, %s of %s, micro-batch "
               "%d, and instruction %d, %s of %s, micro-batch %d",
               j->talks[q].rank, j->talks[r].rank, a->number, tr_codes[a->code].name, a->name, a->micro,
               b->number, tr_codes[b->code].name, b->name, b->micro);
}

/* 1: all of the group are here and can go on; 0: not yet; -1: they call different things. */
static int meet(const struct joint *j, int rank, struct tr_error *e)
{
    const struct tr_said *i = standing(j, rank);
    int n = others(j, rank, i);
    for (int m = 0; m < n; m++) {
        const struct tr_said *x = standing(j, j->members[m]);
        if (!x || !same_group(i, x))
            return 0;
        if (!same_call(j, rank, i, j->members[m], x, e))
            return -1;
    }
    return 1;
}

/* The first call in a rank's queue beside the list; NULL. */
static const struct tr_said *first_beside(const struct joint *j, int rank)
{
    int n = j->over[rank];
    return n < j->begun[rank] ? &j->talks[rank].said[j->beside[rank][n]] : NULL;
}

/* The calls beside the lists that all of their groups have begun are over. */
static bool settle(struct joint *j, int rank, bool *moved, struct tr_error *e)
{
    for (const struct tr_said *i; (i = first_beside(j, rank)) != NULL; *moved = true) {
        int n = others(j, rank, i);
        for (int m = 0; m < n; m++) {
            const struct tr_said *x = first_beside(j, j->members[m]);
            if (!x || x->axes != i->axes)
                return true;
            if (!same_call(j, rank, i, j->members[m], x, e))
                return false;
        }
        for (int m = 0; m < n; m++)
            j->over[j->members[m]]++;
        j->over[rank]++;
    }
    return true;
}

static bool is_over(const struct joint *j, int rank, int value)
{
    for (int x = j->over[rank]; x < j->begun[rank]; x++)
        if (j->talks[rank].said[j->beside[rank][x]].out == value)
            return false;
    return true;
}

static struct queue *server_queue(const struct joint *j, int rank, const struct tr_said *i, int *from)
{
    int workers = j->n - j->mesh->servers, server = rank - workers;
    int worker = server < 0 ? rank : i->peer < 0 ? j->round[rank] : i->peer;
    server = server < 0 ? i->peer : server;
    bool to_server = i->edge == TR_TO_SERVER || i->edge == TR_FROM_WORKER;
    *from = to_server ? worker : workers + server;
    return &j->queues[TR_EDGES * j->n + 2 * (worker * j->mesh->servers + server) + !to_server];
}

/* The queue of a send or a receive, and the rank that sends. */
static struct queue *queue_of(const struct joint *j, int rank, const struct tr_said *i, int *from)
{
    bool send = i->code == TR_SEND;
    if (tr_edge_kinds[i->edge].served)
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
    int from;
    struct queue *q = queue_of(j, rank, standing(j, rank), &from);
    if (!q->messages)
        q->messages = tr_new((size_t)j->talks[rank].n_said, sizeof *q->messages);
    q->messages[q->sent++] = (struct message){ rank, j->at[rank], false };
}

static int receive(struct joint *j, int rank, struct tr_error *e)
{
    const struct tr_said *i = standing(j, rank), *s;
    int from;
    struct queue *q = queue_of(j, rank, i, &from);
    if (q->taken == q->sent)
        return 0;
    struct message *m = &q->messages[q->taken++];
    m->taken = true;
    s = &j->talks[from].said[m->said];
    if (s->element == i->element && same_name(s, i) && s->micro == i->micro && s->count == i->count)
        return 1;
    tr_fail(e,
        "rank %d sends %s of micro-batch %d, %lld elements, where rank %d receives %s of micro-batch %d, "
        "%lld",
        j->talks[from].rank, s->name, s->micro, (long long)s->count, j->talks[rank].rank, i->name, i->micro,
        (long long)i->count);
    return -1;
}

static int waited(const struct joint *j, int rank)
{
    const struct tr_said *i = standing(j, rank);
    if (i->beside)
        return is_over(j, rank, i->in);
    const struct queue *q = &j->queues[TR_EDGES * rank + (int)i->edge];
    for (int m = 0; m < q->sent; m++)
        if (j->talks[rank].said[q->messages[m].said].in == i->in)
            return q->messages[m].taken;
    return 1;
}

/* All of a group that has met go one on. */
static void advance_group(struct joint *j, int rank)
{
    int n = others(j, rank, standing(j, rank));
    for (int m = 0; m < n; m++)
        j->at[j->members[m]]++;
    j->at[rank]++;
}

static bool takes_again(struct joint *j, int rank)
{
    return j->talks[rank].again && ++j->round[rank] < j->n - j->mesh->servers;
}

/* As far as the rank gets; false: an error. */
static bool advance(struct joint *j, int rank, bool *moved, struct tr_error *e)
{
    for (const struct tr_said *i; (i = standing(j, rank)) != NULL; *moved = true) {
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
        const struct tr_said *i = standing(j, r), *x = i ? i : first_beside(j, r);
        if (x)
            used += (size_t)snprintf(text + used, sizeof text - used,
                " rank %d waits %s instruction %d, %s of %s%s;", j->talks[r].rank, i ? "in" : "for",
                x->number, tr_codes[x->code].name, x->name, i ? "" : ", beside the list");
    }
    return tr_fail(e, "%s", text);
}

static bool all_taken(const struct joint *j, struct tr_error *e)
{
    for (int q = 0; q < n_queues(j); q++)
        if (j->queues[q].taken < j->queues[q].sent) {
            const struct message *m = &j->queues[q].messages[j->queues[q].taken];
            return tr_fail(e, "rank %d sends %s, and no rank receives it", j->talks[m->from].rank,
                j->talks[m->from].said[m->said].name);
        }
    return true;
}

static bool walk(struct joint *j, struct tr_error *e)
{
    bool ok = true, moved = true, left = false;
    while (ok && moved) {
        moved = false;
        for (int r = 0; r < j->n && ok; r++)
            ok = advance(j, r, &moved, e) && settle(j, r, &moved, e);
    }
    for (int r = 0; r < j->n; r++)
        left |= standing(j, r) != NULL || first_beside(j, r) != NULL;
    return ok && (!left || stuck(j, e)) && all_taken(j, e);
}

bool tr_check_talks(const struct tr_talk *talks, int n, const struct tr_mesh *mesh, struct tr_error *e)
{
    struct joint j = { .talks = talks,
        .mesh = mesh,
        .n = n,
        .at = tr_new((size_t)n, sizeof(int)),
        .round = tr_new((size_t)n, sizeof(int)),
        .beside = tr_new((size_t)n, sizeof(int *)),
        .begun = tr_new((size_t)n, sizeof(int)),
        .over = tr_new((size_t)n, sizeof(int)),
        .members = tr_new((size_t)n, sizeof(int)) };
    j.queues = tr_new((size_t)n_queues(&j), sizeof(struct queue));
    for (int r = 0; r < n; r++)
        j.beside[r] = tr_new((size_t)talks[r].n_said + 1, sizeof(int));
    bool ok = walk(&j, e);
    for (int q = 0; q < n_queues(&j); q++)
        free(j.queues[q].messages);
    for (int r = 0; r < n; r++)
        free(j.beside[r]);
    free(j.at), free(j.round), free(j.queues), free(j.beside), free(j.begun), free(j.over), free(j.members);
    return ok;
}

bool tr_check_order(struct tr_tape *tapes, int n, struct tr_error *e)
{
    const struct tr_placed *p = tapes[0].placed;
    struct tr_talk *talks = tr_new((size_t)n, sizeof *talks);
    const struct tr_talk **of = tr_new((size_t)n, sizeof *of);
    for (int r = 0; r < n; r++)
        tr_talk_of(&talks[r], &tapes[r]), of[r] = &talks[r];
    bool ok = tr_check_talks(talks, n, &p->plan->mesh, e);
    for (int r = 0; r < n && ok; r++)
        ok = tr_check_versions(&tapes[r], e);
    ok = ok && tr_check_leaves(p, of, n, false, e);
    for (int r = 0; r < n; r++)
        tr_talk_free(&talks[r]);
    free(talks), free(of);
    return ok;
}

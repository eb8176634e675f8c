/* SPDX-License-Identifier: BSD-3-Clause */
/* trial.c: golden runs, and steps that are compared with them. */
#include "training/verify/trial.h"

#include "training/commands/one_rank.h"
#include "training/verify/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const tr_diff_names[TR_DIFFS] = { "losses", "norms", "gradients", "parameters" };

/* ---- golden runs ---- */

/* Parts of a sequence beyond which attention does not look. */
static long windows(const struct tr_options *o)
{
    return o->plan.tokens.form == TR_CP_LOCAL ? o->plan.sizes.cp : 1;
}

/* Of an asynchronous pipeline the golden program must know the stages. */
static bool same_versions(const struct tr_options *a, const struct tr_options *b)
{
    return a->plan.pipeline.async == b->plan.pipeline.async &&
           (!a->plan.pipeline.async ||
               (a->plan.sizes.pp == b->plan.sizes.pp && a->plan.micros == b->plan.micros));
}

/* The simulator must know who comes when. */
static bool same_servers(const struct tr_options *a, const struct tr_options *b)
{
    bool same = a->plan.sizes.dp == b->plan.sizes.dp && a->plan.sizes.servers == b->plan.sizes.servers &&
                a->plan.servers.staleness == b->plan.servers.staleness &&
                !strcmp(a->plan.servers.arrivals, b->plan.servers.arrivals);
    return a->plan.servers.async == b->plan.servers.async && (!a->plan.servers.async || same);
}

static bool each(const struct tr_options *o)
{
    return o->plan.zero.level >= 2 || o->plan.sizes.ep > 1;
}

/* With a capacity or a loss of balance it must know which sequences are in a micro-batch. */
static bool same_groups(const struct tr_options *a, const struct tr_options *b)
{
    bool counts = a->model.sizes.capacity > 0 || a->model.sizes.balance > 0;
    bool same = a->plan.micros == b->plan.micros &&
                (a->plan.micros == 1 || (a->plan.sizes.dp == b->plan.sizes.dp && each(a) == each(b)));
    return !counts || same;
}

/* Whether the golden program, or the rank alone, would say the same of both. */
static bool same_golden(const struct tr_options *a, const struct tr_options *b)
{
    struct tr_options of_a, of_b;
    char left[TR_OPTION_TEXT], right[TR_OPTION_TEXT];
    tr_one_rank_options(&of_a, a);
    tr_one_rank_options(&of_b, b);
    return tr_options_same(&of_a, &of_b, left, right) && windows(a) == windows(b) &&
           a->plan.offload.delay == b->plan.offload.delay && same_versions(a, b) && same_servers(a, b) &&
           same_groups(a, b);
}

static bool make_golden(struct tr_golden *g, const struct tr_options *o, struct tr_error *e)
{
    struct tr_run run;
    if (!tr_run_make(&run, o, e))
        return false;
    bool ok = (o->plan.servers.async ? tr_oracle_make : tr_golden_make)(g, o, &run.graph, e);
    tr_run_free(&run);
    return ok;
}

bool tr_goldens_make(struct tr_goldens *g, const struct tr_options *options, int n, struct tr_error *e)
{
    *g = (struct tr_goldens){ .options = options,
        .runs = tr_new((size_t)n, sizeof *g->runs),
        .of = tr_new((size_t)n, sizeof *g->of),
        .n = n };
    for (int c = 0; c < n; c++) {
        int same = 0;
        while (same < c && !same_golden(&options[same], &options[c]))
            same++;
        g->of[c] = same < c ? g->of[same] : g->made;
        if (same == c && !make_golden(&g->runs[g->made++], &options[c], e))
            return false;
    }
    return true;
}

void tr_goldens_free(struct tr_goldens *g)
{
    for (int made = 0, c = 0; made < g->made; c++)
        if (g->of[c] == made) /* the first whose run it is */
            tr_golden_free(&g->runs[made++]);
    free(g->runs);
    free(g->of);
    *g = (struct tr_goldens){ .n = 0 };
}

/* ---- comparison ---- */

void tr_trial_number(struct tr_trial *t, enum tr_diff kind, double mine, double golden)
{
    struct tr_verdict *v = &t->verdict;
    if (!memcmp(&mine, &golden, sizeof mine))
        return;
    double off = fabs(mine - golden) / fabs(golden);
    v->differing[kind]++;
    v->off[kind] = off > v->off[kind] ? off : v->off[kind];
}

static void compare_array(
    struct tr_verdict *v, enum tr_diff kind, const float *mine, const float *golden, int64_t count)
{
    double furthest = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double off = fabs((double)mine[i] - (double)golden[i]), size = fabs((double)golden[i]);
        v->differing[kind] += memcmp(&mine[i], &golden[i], sizeof *mine) != 0;
        furthest = off > furthest ? off : furthest;
        largest = size > largest ? size : largest;
    }
    if (furthest > 0 && !(furthest / largest <= v->off[kind]))
        v->off[kind] = furthest / largest;
}

/* What this rank holds; what is not here counts as equal. */
void tr_trial_arrays(struct tr_trial *t, enum tr_diff kind)
{
    const struct tr_runner *r = &t->runner;
    const struct tr_graph *graph = r->tape->placed->g;
    bool gradients = kind == TR_DIFF_GRADIENTS;
    for (int n = 0; n < r->tape->n_states; n++) {
        int p = r->tape->states[n].parameter, home = graph->tensors[p].values_of;
        if (gradients && home != p)
            continue; /* a tied head's gradient is in the embedding's */
        const struct tr_tensor *w = &graph->tensors[p];
        int64_t count = w->rows * (w->dims > 1 ? w->size[1] : 1);
        const float *golden =
            (gradients ? t->golden->gradients : t->golden->values) + tr_golden_offset(graph, home);
        float *mine = tr_new((size_t)count, sizeof *mine);
        memcpy(mine, golden, (size_t)count * sizeof *mine);
        tr_runner_read(r, p, gradients, mine);
        compare_array(&t->verdict, kind, mine, golden, count);
        free(mine);
    }
}

bool tr_verdict_equal(const struct tr_verdict *v)
{
    bool equal = true;
    for (int k = 0; k < TR_DIFFS; k++)
        equal = equal && !v->differing[k];
    return equal;
}

/* ---- a trial ---- */

bool tr_trial_join(struct tr_trial *t, int n, tutti_comm *world, struct tr_error *e)
{
    int rank = tutti_comm_rank(world);
    *t = (struct tr_trial){ .comm = NULL };
    return tutti_comm_split(world, rank < n ? 0 : -1, rank, NULL, &t->comm) == TUTTI_OK ||
           tr_fail(e, "%s", tr_why(world));
}

bool tr_trial_open(struct tr_trial *t, const struct tr_prepared *p, const struct tr_options *o,
    const struct tr_golden *g, const struct tr_kernels *k, struct tr_error *e)
{
    int rank = tutti_comm_rank(t->comm), n = p->run.plan.mesh.n;
    t->prepared = p, t->golden = g, t->steps = o->steps;
    t->opened = tr_open_data(&t->data, o, &p->run.graph, e);
    if (!t->opened ||
        !tr_runner_open(&t->runner, tr_tapes_of(p->tapes, rank), k, &t->data, n > 1 ? t->comm : NULL, e))
        return false;
    t->runner.replay.wanted = !o->no_graphs && !tr_replay_not(&t->runner);
    return true;
}

bool tr_trial_step(struct tr_trial *t, struct tr_error *e)
{
    struct tr_runner *r = &t->runner;
    int64_t s = r->step;
    r->audited = s > 0 && s + 1 == t->steps && !t->planted; /* after it, no gradient can be read */
    if (!tr_runner_step(r, e))
        return false;
    const struct tr_plan *plan = r->tape->placed->plan;
    for (int u = 0, updates = tr_updates(plan); u < updates; u++) {
        tr_trial_number(t, TR_DIFF_LOSSES, r->updates[u].loss, t->golden->loss[s * updates + u]);
        tr_trial_number(t, TR_DIFF_NORMS, r->updates[u].norm, t->golden->norm[s * updates + u]);
    }
    if (s == 0 && !t->planted && !plan->pipeline.async &&
        !plan->pipeline.no_flush) /* there no gradient outlives its update */
        tr_trial_arrays(t, TR_DIFF_GRADIENTS);
    if (s + 1 == t->steps)
        tr_trial_arrays(t, TR_DIFF_VALUES);
    return true;
}

bool tr_trial_verdict(const struct tr_trial *t, tutti_comm *world, struct tr_verdict *v, struct tr_error *e)
{
    *v = t->verdict;
    return (tutti_all_reduce(v->differing, v->differing, TR_DIFFS, TUTTI_INT64, TUTTI_SUM, world,
                tutti_no_stream()) == TUTTI_OK &&
               tutti_all_reduce(v->off, v->off, TR_DIFFS, TUTTI_FLOAT64, TUTTI_MAX, world,
                   tutti_no_stream()) == TUTTI_OK) ||
           tr_fail(e, "%s", tr_why(world));
}

void tr_trial_close(struct tr_trial *t)
{
    if (t->opened) {
        tr_runner_close(&t->runner);
        tr_data_close(&t->data);
    }
    if (t->comm)
        tutti_comm_destroy(t->comm);
    t->opened = false, t->comm = NULL; /* the verdict stays */
}

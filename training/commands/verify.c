/* SPDX-License-Identifier: BSD-3-Clause */
/* verify.c: every paradigm and mesh against the golden program: loss and norm of each step, each gradient of
 * step 0 and each parameter after the last step, bit for bit.
 *
 * Ranks are forked once; each configuration runs on a communicator of the first ones, by split. A rank
 * compares what it holds with the golden arrays, which all share, so nothing is gathered. Then the planted
 * errors: each must be found by the check that it names, or change a bit.
 *
 * With --order free no bits are promised. Losses and the gradients of step 0 must then lie within a distance
 * of the golden program's that is some four times what other orders of the same sums were found to cause. */
#include "training/commands/commands.h"
#include "training/commands/golden.h"
#include "training/commands/prepare.h"
#include "training/commands/verify.h"
#include "training/launch.h"
#include "training/tape/inject.h"
#include "training/tape/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 32, RANKS = 8 };

enum { COUNTS = 4 };
struct verdict {
    int64_t losses, norms, gradients, values; /* that differ, of all ranks */
    double loss; /* the largest distance of a step's */
    double gradient; /* of a tensor's, by the norm of the golden one */
};
static const double loss_floor[] = { 2e-5, 2e-7 }; /* AdamW; SGD */
static const double gradient_floor = 2e-6;

struct work {
    struct tr_verify_case *cases;
    struct tr_options *options;
    struct tr_golden *goldens;
    int *golden_of;
    int n;
    const struct tr_kernels *kernels;
};

static bool parse(struct tr_options *o, const struct tr_verify_case *c, struct tr_error *e)
{
    char text[512], *words[MOST_WORDS], *rest = text;
    int n = 0;
    tr_options_default(o);
    strcpy(o->data, "grammar");
    snprintf(text, sizeof text, "%s", c->options);
    for (char *word; n < MOST_WORDS && (word = strtok_r(rest, " ", &rest)) != NULL;)
        words[n++] = word;
    strcpy(o->optimizer, c->sgd ? "sgd" : "adamw");
    o->steps = c->steps;
    o->rate = c->sgd ? 0.1 : 1e-3;
    return tr_options_parse(o, n, words, e);
}

/* Whether the golden program would say the same of both. */
static bool same_golden(const struct tr_options *a, const struct tr_options *b)
{
    return !strcmp(a->model, b->model) && a->layers == b->layers && a->channels == b->channels &&
           a->heads == b->heads && a->context == b->context && a->inputs == b->inputs &&
           a->vocabulary == b->vocabulary && a->untied == b->untied && a->steps == b->steps &&
           a->batch == b->batch && !strcmp(a->optimizer, b->optimizer);
}

/* The norm of a - b, by that of b. */
static double far(const float *a, const float *b, int64_t count)
{
    double apart = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        all += (double)b[i] * b[i];
    }
    return all > 0 ? sqrt(apart / all) : apart > 0 ? INFINITY : 0;
}

/* Elements of this rank that are not the golden program's; what is not here counts as equal. The largest
 * distance of a tensor is kept in *distance. */
static int64_t differing(const struct tr_runner *r, const struct tr_golden *g, int what, double *distance)
{
    const struct tr_graph *graph = r->tape->placed->g;
    int64_t bad = 0;
    for (int n = 0; n < r->tape->n_holdings; n++) {
        int p = r->tape->holdings[n].parameter, home = graph->tensors[p].values_of;
        if (what && home != p)
            continue; /* a tied head's gradient is in the embedding's */
        const struct tr_tensor *w = &graph->tensors[p];
        int64_t count = w->rows * (w->dims > 1 ? w->size[1] : 1);
        const float *golden = (what ? g->gradients : g->values) + tr_golden_offset(graph, home);
        float *mine = tr_new((size_t)count, sizeof *mine);
        memcpy(mine, golden, (size_t)count * sizeof *mine);
        tr_runner_read(r, p, what, mine);
        for (int64_t i = 0; i < count; i++)
            bad += memcmp(&mine[i], &golden[i], sizeof *mine) != 0;
        *distance = fmax(*distance, far(mine, golden, count));
        free(mine);
    }
    return bad;
}

static bool run_steps(struct tr_runner *r, const struct tr_options *o, const struct tr_golden *g,
    struct verdict *v, struct tr_error *e)
{
    double ignored = 0;
    for (long s = 0; s < o->steps; s++) {
        r->audited = s > 0 && s + 1 == o->steps; /* after it, no gradient can be read */
        if (!tr_runner_step(r, e))
            return false;
        v->losses += memcmp(&r->result.loss, &g->loss[s], sizeof(double)) != 0;
        v->norms += memcmp(&r->result.norm, &g->norm[s], sizeof(double)) != 0;
        v->loss = fmax(v->loss, fabs(r->result.loss - g->loss[s]));
        if (s == 0)
            v->gradients = differing(r, g, 1, &v->gradient);
    }
    v->values = differing(r, g, 0, &ignored);
    return true;
}

static bool run_case(const struct work *w, int c, tutti_comm *comm, struct verdict *v, struct tr_error *e)
{
    const struct tr_options *o = &w->options[c];
    struct tr_prepared p;
    struct tr_data data;
    struct tr_runner runner;
    if (!tr_prepare(&p, o, e))
        return false;
    const struct tr_tape *tape = &p.tapes[tutti_comm_rank(comm)];
    bool ok = tr_open_data(&data, o, &p.run.graph, e);
    if (ok) {
        ok = tr_runner_open(&runner, tape, w->kernels, &data, p.run.plan.mesh.n > 1 ? comm : NULL, e) &&
             run_steps(&runner, o, &w->goldens[w->golden_of[c]], v, e);
        tr_runner_close(&runner);
        tr_data_close(&data);
    }
    tr_prepared_free(&p);
    return ok;
}

static int ranks_of(const struct tr_options *o)
{
    return (int)(o->pp * o->cp * o->tp * (o->dp ? o->dp : 1));
}

static bool good(const struct tr_options *o, const struct verdict *v)
{
    if (tr_options_free(o))
        return v->loss <= loss_floor[!strcmp(o->optimizer, "sgd")] && v->gradient <= gradient_floor;
    return !v->losses && !v->norms && !v->gradients && !v->values;
}

/* One line of the table. */
static void say(const struct work *w, int c, const struct verdict *v, int64_t ms)
{
    bool free_order = tr_options_free(&w->options[c]);
    const char *verdict = !good(&w->options[c], v) ? "DIFFER" : free_order ? "near" : "equal";
    printf("%-6s %-58s %2d ranks %3ld steps %-5s %6" PRId64 " ms", verdict,
        *w->cases[c].options ? w->cases[c].options : "(one rank)", ranks_of(&w->options[c]),
        w->options[c].steps, w->options[c].optimizer, ms);
    if (free_order)
        printf(": loss %.0e, gradients %.0e apart", v->loss, v->gradient);
    else if (!good(&w->options[c], v))
        printf(": %" PRId64 " losses, %" PRId64 " norms, %" PRId64 " gradients, %" PRId64 " parameters",
            v->losses, v->norms, v->gradients, v->values);
    printf("\n");
    fflush(stdout);
}

/* What all ranks found. */
static bool together(struct verdict *v, tutti_comm *world, struct tr_error *e)
{
    return (tutti_all_reduce(&v->losses, &v->losses, COUNTS, TUTTI_INT64, TUTTI_SUM, world,
                tutti_no_stream()) == TUTTI_OK &&
               tutti_all_reduce(&v->loss, &v->loss, 2, TUTTI_FLOAT64, TUTTI_MAX, world, tutti_no_stream()) ==
                   TUTTI_OK) ||
           tr_fail(e, "%s", tutti_get_last_error(world));
}

static bool all_cases(tutti_comm *world, void *context, struct tr_error *e)
{
    const struct work *w = context;
    int rank = tutti_comm_rank(world), equal = 0;
    for (int c = 0; c < w->n; c++) {
        tutti_comm *comm = NULL;
        struct verdict v = { 0 };
        int64_t begun = tr_now_ns();
        if (tutti_comm_split(world, rank < ranks_of(&w->options[c]) ? 0 : -1, rank, NULL, &comm) != TUTTI_OK)
            return tr_fail(e, "%s", tutti_get_last_error(world));
        if (comm && !run_case(w, c, comm, &v, e))
            return false;
        if (comm)
            tutti_comm_destroy(comm);
        if (!together(&v, world, e))
            return false;
        equal += good(&w->options[c], &v);
        if (rank == 0)
            say(w, c, &v, (tr_now_ns() - begun) / 1000000);
    }
    if (rank == 0)
        printf("%d of %d configurations are %s\n", equal, w->n,
            tr_options_free(w->options) ? "as near to the golden program as other orders of its sums"
                                        : "equal to the golden program, bit for bit");
    return equal == w->n || tr_fail(e, "%d configurations differ", w->n - equal);
}

static bool make_goldens(struct work *w, const char *order, struct tr_error *e)
{
    int made = 0;
    for (int c = 0; c < w->n; c++) {
        struct tr_run run;
        if (!parse(&w->options[c], &w->cases[c], e))
            return false;
        strcpy(w->options[c].order, order);
        int same = 0;
        while (same < c && !same_golden(&w->options[same], &w->options[c]))
            same++;
        w->golden_of[c] = same < c ? w->golden_of[same] : made;
        if (same < c)
            continue;
        if (!tr_run_make(&run, &w->options[c], e) ||
            !tr_golden_make(&w->goldens[made++], &w->options[c], &run.graph, e))
            return false;
        tr_run_free(&run);
    }
    printf("# the golden program ran %d times\n", made);
    fflush(stdout);
    return true;
}

/* Each planted error under the options that it needs; none may get as far as a step. */
static int injected(void)
{
    int wrong = 0;
    for (int i = 0; i < tr_n_injections; i++) {
        const struct tr_injection *x = &tr_injections[i];
        struct tr_verify_case c = { .steps = 1 };
        snprintf(c.options, sizeof c.options, "%s", x->needs);
        struct tr_options o;
        struct tr_prepared p;
        struct tr_error e = { "" };
        bool found = false;
        if (parse(&o, &c, &e)) {
            snprintf(o.inject, sizeof o.inject, "%s", x->name);
            if (tr_prepare(&p, &o, &e))
                tr_prepared_free(&p);
            else
                found = p.found_by == (int)x->finder;
        }
        wrong += !found;
        printf("%-6s %-24s %s\n       %s\n", found ? "found" : "MISSED", x->name, x->what,
            *e.text ? e.text : "nothing");
    }
    printf("%d of %d planted errors are found before a step\n", tr_n_injections - wrong, tr_n_injections);
    return wrong;
}

int tr_command_verify(int argc, char **argv)
{
    struct tr_options o;
    struct tr_error e = { "" };
    int status;
    if (!tr_begin(&o, argc, argv,
            "verify [--all | --quick] [--kernels SET] [--order free]: runs every paradigm and mesh "
            "against the golden program",
            false, &status))
        return status;
    struct work w = { .kernels = tr_options_kernels(&o, &e) };
    if (!w.kernels)
        return tr_refuse(2, &e);
    w.cases = tr_verify_cases(o.all ? TR_VERIFY_ALL : o.quick ? TR_VERIFY_QUICK : TR_VERIFY, &w.n);
    w.options = tr_new((size_t)w.n, sizeof *w.options);
    w.goldens = tr_new((size_t)w.n, sizeof *w.goldens);
    w.golden_of = tr_new((size_t)w.n, sizeof *w.golden_of);
    int wrong = injected();
    if (!make_goldens(&w, o.order, &e))
        return tr_refuse(1, &e);
    status = tr_launch(RANKS, all_cases, &w);
    free(w.cases), free(w.options), free(w.goldens), free(w.golden_of);
    return status || wrong ? 1 : 0;
}

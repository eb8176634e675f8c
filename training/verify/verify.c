/* SPDX-License-Identifier: BSD-3-Clause */
/* verify.c: every paradigm and mesh against the golden program: loss and norm of each step, each gradient of
 * step 0 (where it outlives its update) and each parameter after the last step, bit for bit. Then the planted
 * errors: each must be found by the check that it names.
 *
 * With --order free numbers must be near, and not equal: tolerances.h. */
#include "training/commands/commands.h"
#include "training/commands/device.h"
#include "training/verify/tolerances.h"
#include "training/verify/trial.h"
#include "training/verify/verify.h"
#include "training/launch.h"
#include "training/errors/inject.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = sizeof((struct tr_verify_case *)0)->options / 2 };

struct work {
    struct tr_verify_case *cases;
    struct tr_options *options;
    struct tr_goldens goldens;
    int n;
    const struct tr_options *asked;
};

bool tr_verify_options(struct tr_options *o, const struct tr_verify_case *c, struct tr_error *e)
{
    char text[sizeof c->options], *words[MOST_WORDS], *rest = text;
    int n = 0;
    tr_options_default(o);
    strcpy(o->files.data, "grammar");
    snprintf(text, sizeof text, "%s", c->options);
    for (char *word; n < MOST_WORDS && (word = strtok_r(rest, " ", &rest)) != NULL;)
        words[n++] = word;
    o->plan.optimizer.sgd = c->sgd;
    o->steps = c->steps;
    bool ok = tr_options_parse(o, n, words, e);
    o->plan.optimizer.rate = o->plan.optimizer.sgd ? 0.1 : 1e-3;
    return ok;
}

static int ranks_of(const struct tr_options *o)
{
    const struct tr_sizes *s = &o->plan.sizes;
    return (int)(s->pp * s->cp * s->tp * (s->dp ? s->dp : 1) + s->servers);
}

static bool run_steps(
    struct tr_trial *t, const struct work *w, int c, const struct tr_kernels *k, struct tr_error *e)
{
    const struct tr_options *o = &w->options[c];
    struct tr_prepared p;
    if (!tr_prepare(&p, o, e))
        return false;
    bool ok = tr_trial_open(t, &p, o, &w->goldens.runs[w->goldens.of[c]], k, e);
    for (long s = 0; ok && s < o->steps; s++)
        ok = tr_trial_step(t, e);
    tr_trial_close(t);
    tr_prepared_free(&p);
    return ok;
}

/* Collective over all that sit there. */
static bool run_case(
    const struct work *w, int c, const struct tr_seat *seat, struct tr_verdict *v, struct tr_error *e)
{
    struct tr_trial t;
    if (!tr_trial_join(&t, ranks_of(&w->options[c]), seat->ranks, e) ||
        (t.comm && !run_steps(&t, w, c, seat->kernels, e)))
        return false;
    return tr_trial_verdict(&t, seat->ranks, v, e);
}

/* One line of the table. */
static void say(const struct work *w, int c, const struct tr_verdict *v, int64_t ms)
{
    const struct tr_options *o = &w->options[c];
    struct tr_tolerance f;
    bool equal = tr_tolerance_kept(o, v), near = tr_tolerance_of(&f, o);
    printf("%-6s %-58s %2d ranks %3ld steps %-5s %6" PRId64 " ms",
        !equal ? "DIFFER"
        : near ? "near"
               : "equal",
        *w->cases[c].options ? w->cases[c].options : "(one rank)", ranks_of(o), o->steps,
        o->plan.optimizer.sgd ? "sgd" : "adamw", ms);
    if (near)
        printf(": off by %.0e in losses, %.0e in gradients; legal are %.0e and %.0e", v->off[TR_DIFF_LOSSES],
            v->off[TR_DIFF_GRADIENTS], f.losses, f.gradients);
    for (int k = 0; k < TR_DIFFS && !equal && !near; k++)
        printf("%s %" PRId64 " %s", k ? "," : ":", v->differing[k], tr_diff_names[k]);
    printf("\n");
    fflush(stdout);
}

static bool all_cases(tutti_comm *world, void *context, struct tr_error *e)
{
    const struct work *w = context;
    int rank = tutti_comm_rank(world), equal = 0, near = 0;
    if (tutti_comm_size(world) != TR_VERIFY_RANKS)
        return tr_fail(e, "verify takes %d ranks, and %d were started; legal is -n %d, or no launcher",
            TR_VERIFY_RANKS, tutti_comm_size(world), TR_VERIFY_RANKS);
    struct tr_seat seat;
    if (!tr_seat_take(&seat, w->asked, world, e))
        return false;
    for (int c = 0; c < w->n; c++) {
        struct tr_verdict v;
        struct tr_tolerance f;
        int64_t begun = tr_now_ns();
        if (!run_case(w, c, &seat, &v, e))
            return false;
        *(tr_tolerance_of(&f, &w->options[c]) ? &near : &equal) += tr_tolerance_kept(&w->options[c], &v);
        if (rank == 0)
            say(w, c, &v, (tr_now_ns() - begun) / 1000000);
    }
    if (rank == 0 && equal)
        printf("%d of %d configurations are equal to the golden program, bit for bit\n", equal, w->n);
    if (rank == 0 && near)
        printf("%d of %d configurations are within the bound of sums in another order\n", near, w->n);
    int differ = w->n - equal - near;
    tr_seat_leave(&seat);
    return differ == 0 || tr_fail(e, "%d configurations differ", differ);
}

/* Keeps what can run there. */
static void keep_for_devices(struct work *w)
{
    int kept = 0;
    for (int c = 0; c < w->n; c++) {
        struct tr_options o;
        struct tr_error ignored;
        bool has = tr_verify_options(&o, &w->cases[c], &ignored) && !o.plan.servers.async;
        if (has)
            w->cases[kept++] = w->cases[c];
    }
    w->n = kept;
}

static bool make_goldens(struct work *w, bool free_order, struct tr_error *e)
{
    for (int c = 0; c < w->n; c++) {
        if (!tr_verify_options(&w->options[c], &w->cases[c], e))
            return false;
        w->options[c].plan.numbers.free_order = free_order;
        w->options[c].device = w->asked->device;
    }
    if (!tr_goldens_make(&w->goldens, w->options, w->n, e))
        return false;
    printf("# the golden program ran %d times\n", w->goldens.made);
    fflush(stdout);
    return true;
}

/* Each planted error under the options that it needs; none may get as far as a step. */
static int injected(void)
{
    int wrong = 0, n = 0;
    const struct tr_injection *x;
    for (; (x = tr_injection_at(n)); n++) {
        struct tr_verify_case c = { .steps = 1 };
        snprintf(c.options, sizeof c.options, "%s", x->needs);
        struct tr_options o;
        struct tr_prepared p;
        struct tr_error e = { .text = "" };
        bool found = false;
        if (tr_verify_options(&o, &c, &e)) {
            snprintf(o.tests.inject, sizeof o.tests.inject, "%s", x->name);
            if (tr_prepare(&p, &o, &e))
                tr_prepared_free(&p);
            else
                found = p.found_by == (int)x->finder;
        }
        wrong += !found;
        printf("%-6s %-24s %s\n       %s\n", found ? "found" : "MISSED", x->name, x->what,
            *e.text ? e.text : "nothing");
    }
    printf("%d of %d planted errors are found before a step\n", n - wrong, n);
    return wrong;
}

/* ---- random sets ---- */

/* Keeps the case if it is legal; else says why not. `broken`: the checks found that lowering was wrong. */
static bool legal(const struct tr_verify_case *c, bool *broken)
{
    struct tr_options o;
    struct tr_prepared p = { .found_by = -1 };
    struct tr_error e = { .text = "" };
    if (tr_verify_options(&o, c, &e) && tr_prepare(&p, &o, &e)) {
        tr_prepared_free(&p);
        return true;
    }
    *broken = p.found_by >= 0 || !*e.text;
    printf("%-7s %s: %s\n", *broken ? "BROKEN" : "refused", c->options, *e.text ? e.text : "no reason");
    return false;
}

/* Sets of which verify has too few ranks are drawn again. */
static int draw(struct work *w, const struct tr_options *asked)
{
    uint64_t state = (uint64_t)asked->seed;
    int wrong = 0;
    w->cases = tr_new((size_t)asked->tests.random, sizeof *w->cases);
    for (long i = 0; i < asked->tests.random; i++) {
        struct tr_verify_case *c = &w->cases[w->n];
        struct tr_options o;
        struct tr_error e;
        bool broken = false;
        do
            tr_verify_draw(c, &state);
        while (tr_verify_options(&o, c, &e) && ranks_of(&o) > TR_VERIFY_RANKS);
        w->n += legal(c, &broken);
        wrong += broken;
    }
    printf("%ld of %ld option sets are refused, each with its reason\n", asked->tests.random - w->n - wrong,
        asked->tests.random);
    return wrong;
}

/* What would be ignored: each configuration has its own options. */
static bool refuse_options(const struct tr_options *o, struct tr_error *e)
{
    struct tr_options legal;
    char given[TR_OPTION_TEXT], other[TR_OPTION_TEXT];
    tr_options_default(&legal);
    legal.tests = o->tests, legal.seed = o->seed;
    *legal.tests.inject = 0;
    memcpy(legal.kernels, o->kernels, sizeof legal.kernels);
    legal.plan.numbers.free_order = o->plan.numbers.free_order;
    legal.device = o->device;
    if (!tr_options_same(o, &legal, given, other))
        return tr_fail(e,
            "%s is no option of verify, whose configurations have their own; legal are --quick, --all, "
            "--random, --seed, --kernels, --order and --device",
            given);
    return o->tests.all + o->tests.quick + (o->tests.random > 0) <= 1 ||
           tr_fail(e, "--quick, --all and --random name other configurations each; legal is one of them");
}

int tr_command_verify(int argc, char **argv)
{
    struct tr_options o;
    struct tr_error e = { .text = "" };
    int status;
    if (!tr_begin(&o, argc, argv,
            "verify [--all | --quick | --random N [--seed S]] [--kernels SET] [--order free] [--device "
            "cuda]: "
            "runs every paradigm and mesh against the golden program",
            false, &status))
        return status;
    if (!refuse_options(&o, &e))
        return tr_refuse(1, &e);
    struct work w = { .asked = &o };
    if (!tr_options_kernels(&o, &e) || !tr_options_planned(&o, &e))
        return tr_refuse(2, &e);
    if (o.device && o.tests.quick)
        w.cases = tr_verify_device_cases(&w.n);
    else if (!o.tests.random)
        w.cases = tr_verify_cases(o.tests.all     ? TR_VERIFY_ALL
                                  : o.tests.quick ? TR_VERIFY_QUICK
                                                  : TR_VERIFY,
            &w.n);
    int wrong = o.tests.random ? draw(&w, &o) : injected();
    if (o.device)
        keep_for_devices(&w);
    w.options = tr_new((size_t)w.n, sizeof *w.options);
    if (!make_goldens(&w, o.plan.numbers.free_order, &e))
        return tr_refuse(1, &e);
    status = tr_launch(TR_VERIFY_RANKS, all_cases, &w);
    tr_goldens_free(&w.goldens);
    free(w.cases), free(w.options);
    return status || wrong ? 1 : 0;
}

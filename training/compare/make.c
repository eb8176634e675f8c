/* SPDX-License-Identifier: BSD-3-Clause */
/* make.c: which configurations are compared: every paradigm alone on all ranks, and every product of
 * them that has as many, as far as the model and the batch allow. */
#include "training/compare/compare.h"

#include "training/errors/inject.h"
#include "training/parallel/registry.h"
#include "training/check/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

static const char *const stages[] = { "0", "1", "2", "3" };
static const char *const sides[] = { "server", "ring" };
static const char *const ways[] = { "stash", "two", "newest", "delay", "server" };
static const char *const counts[] = { "1", "2", "3", "4", "6", "8", "12", "16" };
#define LEGAL(list) list, sizeof list / sizeof *list
static const struct {
    const char *word;
    const char *const *legal; /* words that may follow; without any, all are meant. NULL: the registry's */
    int n;
} named[] = { [TR_COMPARE_ZERO] = { "zero", LEGAL(stages) },
    [TR_COMPARE_DP_REDUCE] = { "dp-reduce", LEGAL(tr_dp_form_names) },
    [TR_COMPARE_PARADIGMS] = { NULL, NULL, 0 },
    [TR_COMPARE_SCALING] = { "scaling", LEGAL(counts) },
    [TR_COMPARE_SERVER] = { NULL, LEGAL(sides) },
    [TR_COMPARE_ASYNC] = { "async", LEGAL(ways) } };

/* Word i of those that may follow; NULL: there are no more. */
static const char *legal_word(enum tr_form form, int i)
{
    if (named[form].legal || form == TR_COMPARE_ALL)
        return i < named[form].n ? named[form].legal[i] : NULL;
    const struct tr_paradigm *x = NULL;
    for (int n = 0; i >= 0 && (x = tr_paradigm_at(n)); n++)
        i -= x->word != NULL;
    return x ? x->word : NULL;
}

/* Its number among them; -1. If it is none, they are listed. */
static int word_of(enum tr_form form, const char *word, char *list, size_t room)
{
    const char *legal;
    *list = 0;
    for (int i = 0; (legal = legal_word(form, i)); i++) {
        if (!strcmp(word, legal))
            return i;
        snprintf(list + strlen(list), room - strlen(list), "%s%s", i ? ", " : "", legal);
    }
    return -1;
}

static bool take_word(struct tr_comparison *c, const char *word, struct tr_error *e)
{
    char list[64];
    int i = word_of(c->form, word, list, sizeof list);
    if (i < 0)
        return tr_fail(e, "compare: %.60s is not known; legal are %s", word, list);
    for (int n = 0; n < c->n_words; n++)
        if (c->words[n] == i)
            return tr_fail(e, "compare: %s is there twice", word);
    c->words[c->n_words++] = i;
    return true;
}

bool tr_compare_words(struct tr_comparison *c, char **words, int n, struct tr_error *e)
{
    char list[64], other[64];
    if (n == 0)
        return true;
    for (size_t f = 0; f < sizeof named / sizeof *named; f++)
        if (named[f].word && !strcmp(words[0], named[f].word))
            c->form = (enum tr_form)f;
    if (c->form == TR_COMPARE_ALL && word_of(TR_COMPARE_PARADIGMS, words[0], list, sizeof list) >= 0)
        c->form = TR_COMPARE_PARADIGMS;
    if (c->form == TR_COMPARE_ALL && word_of(TR_COMPARE_SERVER, words[0], other, sizeof other) >= 0)
        c->form = TR_COMPARE_SERVER;
    if (c->form == TR_COMPARE_ALL)
        return tr_fail(e,
            "compare: %.60s is not known; legal are dp-reduce, zero, scaling, async, some of %s, "
            "some of server and ring, or options alone",
            words[0], list);
    for (int i = named[c->form].word != NULL; i < n; i++)
        if (!take_word(c, words[i], e))
            return false;
    c->by_name = c->n_words;
    for (int i = 0; !c->by_name && legal_word(c->form, i); i++)
        c->words[c->n_words++] = i;
    return true;
}

/* ---- a configuration ---- */

/* As many ranks as it needs, so that a refusal can name another size. A device cannot run all that a
 * processor does. */
static bool is_legal(const struct tr_options *o, struct tr_error *e)
{
    struct tr_options any = *o;
    struct tr_run run;
    any.ranks = 0;
    if (!tr_options_planned(&any, e) || !tr_run_make(&run, &any, e))
        return false;
    tr_run_free(&run);
    return true;
}

void tr_compare_leave_out(struct tr_comparison *c, const char *name, const char *why)
{
    if (c->n_left_out == TR_COMPARED)
        return;
    struct tr_left_out *left = &c->left_out[c->n_left_out++];
    snprintf(left->name, sizeof left->name, "%s", name);
    snprintf(left->why, sizeof left->why, "%.690s", why);
}

void tr_compare_add(struct tr_comparison *c, const char *name, struct tr_options *o, bool quiet)
{
    struct tr_error e;
    const struct tr_sizes *s = &o->plan.sizes;
    o->ranks = s->pp * s->dp * s->cp * s->tp + s->servers;
    if (c->n == TR_COMPARED || c->n_left_out == TR_COMPARED)
        return;
    if (is_legal(o, &e)) {
        struct tr_contender *x = &c->all[c->n++];
        snprintf(x->name, sizeof x->name, "%s", name);
        tr_options_how(x->how, sizeof x->how, o);
        x->options = *o;
    } else if (!quiet)
        tr_compare_leave_out(c, name, e.text);
}

static struct tr_options meshed(const struct tr_comparison *c, long pp, long dp, long tp)
{
    struct tr_options o = c->base;
    o.plan.sizes.pp = pp, o.plan.sizes.dp = dp, o.plan.sizes.tp = tp;
    return o;
}

/* A pipeline gets twice as many micro-batches as it has stages, or the most below that are legal; unless the
 * user says how many. */
void tr_compare_add_pipeline(
    struct tr_comparison *c, const char *name, struct tr_options o, const char *schedule, bool quiet)
{
    struct tr_error e;
    bool chosen = o.plan.micros == 1;
    snprintf(o.plan.pipeline.schedule, sizeof o.plan.pipeline.schedule, "%s", schedule);
    o.ranks = o.plan.sizes.pp * o.plan.sizes.dp * o.plan.sizes.tp;
    for (o.plan.micros = chosen ? 2 * (int)o.plan.sizes.pp : o.plan.micros;
         chosen && o.plan.micros > 1 && !is_legal(&o, &e);)
        o.plan.micros--;
    tr_compare_add(c, name, &o, quiet);
}

/* ---- all paradigms ---- */

/* The options that ask for a paradigm over so many ranks. */
static struct tr_options over(const struct tr_comparison *c, const char *options, long ranks)
{
    struct tr_options o = meshed(c, 1, 1, 1);
    struct tr_error e;
    char words[64], number[16], *rest = words, *argv[8];
    int n = 0;
    o.plan.sizes.cp = o.plan.sizes.ep = 1;
    snprintf(words, sizeof words, "%s", options);
    snprintf(number, sizeof number, "%ld", ranks);
    while (n < 8 && (argv[n] = strtok_r(rest, " ", &rest)) != NULL) {
        argv[n] = strcmp(argv[n], "N") ? argv[n] : number;
        n++;
    }
    tr_options_parse(&o, n, argv, &e);
    return o;
}

/* What the registry has of it. What is left out for the reason of the first need not be named. */
static void add_paradigm(struct tr_comparison *c, const struct tr_paradigm *x)
{
    bool quiet = !x->word;
    int left_out = c->n_left_out;
    for (size_t k = 0; k < sizeof x->compared / sizeof *x->compared && x->compared[k].name; k++) {
        struct tr_options o = over(c, x->compared[k].options, c->base.ranks);
        const char *schedule = o.plan.pipeline.schedule;
        if (o.plan.sizes.pp > 1 && strcmp(schedule, "naive"))
            tr_compare_add_pipeline(c, x->compared[k].name, o, schedule, quiet);
        else
            tr_compare_add(c, x->compared[k].name, &o, quiet);
        quiet = quiet || c->n_left_out > left_out;
    }
}

static void add_either(struct tr_comparison *c, const char *name, struct tr_options *o, bool quiet)
{
    if (o->plan.sizes.pp > 1)
        tr_compare_add_pipeline(c, name, *o, "1f1b", quiet);
    else
        tr_compare_add(c, name, o, quiet);
}

/* A product, as it is, and with what costs no bytes: sequence parallelism beside tp, ZeRO-1 beside dp. */
static void add_product(struct tr_comparison *c, long pp, long dp, long tp)
{
    const char *axes[] = { pp > 1 ? "pp" : "", dp > 1 ? "dp" : "", tp > 1 ? "tp" : "" };
    char name[40] = "";
    for (int i = 0; i < 3; i++)
        snprintf(
            name + strlen(name), sizeof name - strlen(name), "%s%s", *name && *axes[i] ? " x " : "", axes[i]);
    struct tr_options o = meshed(c, pp, dp, tp);
    add_either(c, name, &o, false);
    o.plan.tokens.sp = tp > 1, o.plan.zero.level = dp > 1;
    snprintf(name + strlen(name), sizeof name - strlen(name), "%s%s", o.plan.tokens.sp ? " + sp" : "",
        o.plan.zero.level ? " + ZeRO 1" : "");
    add_either(c, name, &o, true);
}

/* Experts shared by some of the ranks, and beside a cut of the rest of the model. */
static void add_experts(struct tr_comparison *c)
{
    long n = c->base.ranks;
    for (long ep = n - 1; ep > 1; ep--) {
        struct tr_options dp = meshed(c, 1, n, 1), tp = meshed(c, 1, ep, n / ep),
                          pp = meshed(c, n / ep, ep, 1);
        if (n % ep)
            continue;
        dp.plan.sizes.ep = tp.plan.sizes.ep = pp.plan.sizes.ep = ep;
        tr_compare_add(c, "dp x ep", &dp, true);
        tr_compare_add(c, "ep x tp", &tp, true);
        tr_compare_add_pipeline(c, "pp x ep", pp, "1f1b", true);
    }
}

static void add_all(struct tr_comparison *c, bool experts)
{
    const struct tr_paradigm *x;
    long n = c->base.ranks;
    for (int i = 0; (x = tr_paradigm_at(i)); i++)
        add_paradigm(c, x);
    if (experts)
        add_experts(c);
    for (long pp = 1; pp <= n; pp++)
        for (long dp = n / pp; dp >= 1; dp--)
            if (n % (pp * dp) == 0 && (pp > 1) + (dp > 1) + (n / pp / dp > 1) > 1)
                add_product(c, pp, dp, n / pp / dp);
}

/* ---- the other forms ---- */

static void add_forms(struct tr_comparison *c)
{
    for (int i = 0; i < c->n_words; i++) {
        struct tr_options o = c->base;
        o.plan.reduce.form = (enum tr_dp_form)c->words[i];
        tr_compare_add(c, tr_dp_form_names[o.plan.reduce.form], &o, false);
    }
}

/* The policies of stage 3, each alone and all together. Vectors have four times the channels at most. */
static void add_policies(struct tr_comparison *c, const struct tr_options *zero3, int64_t channels)
{
    static const struct {
        const char *name;
        bool keep, prefetch, persist;
    } policies[] = { { "ZeRO 3 keep", true, false, false }, { "ZeRO 3 prefetch", false, true, false },
        { "ZeRO 3 persist", false, false, true }, { "ZeRO 3 all three", true, true, true } };
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct tr_options o = *zero3;
        o.plan.zero.keep = policies[i].keep, o.plan.zero.prefetch = policies[i].prefetch;
        o.plan.zero.persist = policies[i].persist ? 4 * (long)channels + 1 : 0;
        tr_compare_add(c, policies[i].name, &o, true);
    }
}

static void add_stages(struct tr_comparison *c, int64_t channels)
{
    for (int i = 0; i < c->n_words; i++) {
        struct tr_options o = c->base;
        char name[32];
        o.plan.zero.level = c->words[i];
        snprintf(name, sizeof name, "ZeRO %d", o.plan.zero.level);
        tr_compare_add(c, name, &o, false);
        if (o.plan.zero.level == 3)
            add_policies(c, &o, channels);
    }
}

/* Those that were named, each alone on all ranks. Model parallelism is the pipeline of one micro-batch. */
static void add_named(struct tr_comparison *c)
{
    for (int i = 0; i < c->n_words; i++) {
        const struct tr_paradigm *x = tr_paradigm_word(legal_word(c->form, c->words[i]));
        struct tr_options o = over(c, x->compared[0].options, c->base.ranks);
        tr_compare_add(c, x->name, &o, false);
    }
}

/* Data parallelism over each of these numbers of ranks; without numbers, those up to -n. */
static void add_numbers(struct tr_comparison *c)
{
    for (int i = 0; i < c->n_words; i++) {
        char name[32];
        struct tr_options o = meshed(c, 1, strtol(counts[c->words[i]], NULL, 10), 1);
        snprintf(name, sizeof name, "%ld rank%s", o.plan.sizes.dp, o.plan.sizes.dp == 1 ? "" : "s");
        if (o.plan.sizes.dp <= c->base.ranks)
            tr_compare_add(c, name, &o, false);
        else if (c->by_name)
            tr_compare_leave_out(c, name, "there are not as many; more are with -n");
    }
}

/* ---- */

/* The mesh of the forms that keep the user's: what is not tp and pp is dp. */
static bool take_ranks(struct tr_comparison *c, struct tr_error *e)
{
    struct tr_options *o = &c->base;
    long others = o->plan.sizes.pp * o->plan.sizes.tp;
    o->plan.sizes.dp = o->plan.sizes.dp ? o->plan.sizes.dp : o->ranks / others;
    if (o->plan.sizes.dp * others != o->ranks || o->plan.sizes.dp < 2)
        return tr_fail(e, "%ld ranks, but pp %ld x dp %ld x tp %ld is %ld; there must be 2 dp ranks at least",
            o->ranks, o->plan.sizes.pp, o->plan.sizes.dp, o->plan.sizes.tp, o->plan.sizes.dp * others);
    return true;
}

/* Numbers of ranks of which some paradigm alone is legal. */
static bool none_legal(const struct tr_comparison *c, struct tr_error *e)
{
    char legal[128] = "", why[400];
    snprintf(why, sizeof why, "%.390s", c->n_left_out ? c->left_out[0].why : "");
    for (long n = 2; n <= 64 && strlen(legal) < sizeof legal - 8; n++) {
        const struct tr_paradigm *x;
        bool some = false;
        for (int i = 0; !some && (x = tr_paradigm_at(i)); i++) {
            struct tr_options o = x->word ? over(c, x->compared[0].options, n) : c->base;
            some = x->word && is_legal(&o, e);
        }
        if (some)
            snprintf(legal + strlen(legal), sizeof legal - strlen(legal), "%s%ld", *legal ? ", " : "", n);
    }
    return tr_fail(e, "-n %ld: there is nothing to compare: %s. Legal numbers of ranks: %s", c->base.ranks,
        why, *legal ? legal : "none");
}

/* --inject: into those that can have the error. What the checks find is kept; it runs all the same, so that
 * one sees what the error does, unless the order check says that ranks would wait for ever. */
static bool plant(struct tr_contender *x, const char *name, struct tr_error *e)
{
    struct tr_prepared *p = &x->prepared;
    int n = p->run.plan.mesh.n;
    struct tr_error found = { .text = "" };
    for (int r = 0; r < n; r++)
        tr_tapes_of(p->tapes, r);
    if (!tr_inject(p->tapes->of, n, name, e)) { /* the tapes may have a part of it */
        tr_prepared_free(p);
        return tr_prepare(p, &x->options, e);
    }
    bool ok = true;
    for (int r = 0; r < n && ok; r++)
        ok = tr_check_types(&p->tapes->of[r], &found);
    x->runs = tr_check_order(p->tapes->of, n, ok ? &found : e);
    x->planted = true;
    x->found = found;
    return true;
}

static bool is_injection(const char *name, struct tr_error *e)
{
    const struct tr_injection *x;
    for (int i = 0; (x = tr_injection_at(i)); i++)
        if (!strcmp(name, x->name))
            return true;
    return tr_inject(NULL, 0, name, e); /* lists what is legal */
}

static bool prepare_all(struct tr_comparison *c, const char *inject, struct tr_error *e)
{
    bool planted = false;
    for (int i = 0; i < c->n; i++) {
        struct tr_contender *x = &c->all[i];
        x->runs = x->options.ranks <= c->base.ranks;
        if (!tr_prepare(&x->prepared, &x->options, e) || (*inject && !plant(x, inject, e)))
            return false;
        planted = planted || x->planted;
    }
    return !*inject || planted || tr_fail(e, "--inject %s: none of these can have it", inject);
}

void tr_compare_begin(struct tr_comparison *c)
{
    c->all = tr_new(TR_COMPARED, sizeof *c->all);
    c->left_out = tr_new(TR_COMPARED, sizeof *c->left_out);
}

bool tr_compare_prepare(struct tr_comparison *c, struct tr_error *e)
{
    c->shown = c->n;
    return prepare_all(c, "", e);
}

bool tr_compare_make(struct tr_comparison *c, struct tr_error *e)
{
    if (c->form == TR_COMPARE_ASYNC)
        tr_compare_async_options(&c->base);
    struct tr_options one = meshed(c, 1, 1, 1);
    struct tr_run run;
    char inject[sizeof c->base.tests.inject];
    strcpy(inject, c->base.tests.inject);
    *c->base.tests.inject = *one.tests.inject = 0;
    one.ranks = 1, one.plan.pipeline.chunks = 1;
    tr_compare_begin(c);
    if ((*inject && !is_injection(inject, e)) || !tr_run_make(&run, &one, e))
        return false;
    int64_t channels = run.graph.channels, experts = run.graph.experts;
    tr_run_free(&run);
    bool own = c->form == TR_COMPARE_DP_REDUCE || c->form == TR_COMPARE_ZERO;
    if (own && !take_ranks(c, e))
        return false;
    if (c->form == TR_COMPARE_ALL || c->form == TR_COMPARE_PARADIGMS || c->form == TR_COMPARE_ASYNC)
        tr_compare_add(c, "one device", &one, true);
    if (c->form == TR_COMPARE_ALL && one.device) {
        one.device = one.plan.numbers.tf32 = false; /* beside them, as one rank has it there */
        tr_compare_add(c, "the processor", &one, true);
    }
    int before = c->n;
    switch (c->form) {
    case TR_COMPARE_ALL:
        add_all(c, experts > 0);
        break;
    case TR_COMPARE_DP_REDUCE:
        add_forms(c);
        break;
    case TR_COMPARE_ZERO:
        add_stages(c, channels);
        break;
    case TR_COMPARE_PARADIGMS:
        add_named(c);
        break;
    case TR_COMPARE_SCALING:
        add_numbers(c);
        break;
    case TR_COMPARE_SERVER:
        tr_compare_add_servers(c);
        break;
    case TR_COMPARE_ASYNC:
        tr_compare_add_async(c);
        break;
    }
    c->shown = c->n;
    if (c->form == TR_COMPARE_ALL && tr_compare_has_page(c) && !*inject)
        tr_compare_add_aside(c);
    if (c->shown == before)
        return (c->form == TR_COMPARE_SERVER ? tr_compare_no_workers : none_legal)(c, e);
    return prepare_all(c, inject, e);
}

void tr_compare_free(struct tr_comparison *c)
{
    for (int i = 0; i < c->n; i++) {
        if (c->all[i].prepared.tapes)
            tr_prepared_free(&c->all[i].prepared);
        free(c->all[i].reports);
        tr_timeline_free(&c->all[i].did);
        tr_timeline_free(&c->all[i].would);
    }
    free(c->all);
    free(c->left_out);
}

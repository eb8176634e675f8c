/* SPDX-License-Identifier: BSD-3-Clause */
/* compare.c: the paradigms side by side. Ranks are forked once; configurations take turns, a step each, so
 * that what else the machine does meets all of them alike. */
#include "training/compare/compare.h"

#include "training/commands/commands.h"
#include "training/commands/device.h"
#include "training/commands/limits.h"
#include "training/launch.h"
#include "training/parallel/registry.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The arenas of all ranks and of all configurations that take turns have this together at most. */
enum { TOGETHER = 1 << 30 };

static const char usage[] =
    "compare [-n N] [--memory BYTES] [--html FILE] [--markdown | --json] [OPTION]...\n"
    "       tutti-train compare dp-reduce [root | ring | sharded]... [OPTION]...\n"
    "       tutti-train compare zero [0 | 1 | 2 | 3]... [OPTION]...\n"
    "       tutti-train compare {dp | ep | tp | cp | mp}... [OPTION]...\n"
    "       tutti-train compare {server | ring}... [--workers 1..8] [--servers K] [OPTION]...\n"
    "       tutti-train compare async [stash | two | newest | delay | server]... [OPTION]...\n"
    "       tutti-train compare scaling [1 | 2 | 3 | 4 | 6 | 8 | 12 | 16]... [OPTION]...\n"
    "\n"
    "All paradigms that N ranks (4) and the model allow, on the same data: whether each equals one device,\n"
    "how long a step takes, what is sent, what memory it needs and whether that fits. dp-reduce compares "
    "the\n"
    "forms of the gradients' reduction, zero the stages of ZeRO and the policies of stage 3.\n"
    "dp, ep, tp, cp and mp (layers in a row, without micro-batches) compare these, each on all ranks, in six "
    "rows:\n"
    "what is cut, stored and sent, what is best and worst, and where to take which. scaling compares data\n"
    "parallelism over so many ranks, up to -n. server and ring compare parameter servers with the two\n"
    "halves of a ring: bytes at the rank that has most of them, as workers grow. async has what computes "
    "with\n"
    "old weights, or with the gradient of the step before, each against its simulator.\n\n"
    "--html writes all this as one page with pictures: who does what when, memory, who sends to whom, "
    "losses.\n"
    "The first step compares gradients, too, and the last audits memory: the others (--steps, 10) are timed.";

/* What compare decides itself, or has no use for, would be ignored without a word; so it is refused. */
static bool refuse_options(const struct tr_comparison *c, struct tr_error *e)
{
    const struct tr_options *o = &c->base;
    const struct tr_paradigm *p;
    bool all = c->form != TR_COMPARE_DP_REDUCE && c->form != TR_COMPARE_ZERO;
    const struct {
        bool given;
        const char *name, *why;
    } wrong[] = {
        { all && o->plan.tokens.sp, "sp", "it runs both" },
        { all && o->plan.pipeline.chunks > 1, "chunks", "it takes 2 where the model allows" },
        { all && strcmp(o->plan.pipeline.schedule, "1f1b"), "schedule", "it runs all of them" },
        { c->form != TR_COMPARE_DP_REDUCE && o->plan.reduce.form, "dp-reduce",
            "that is tutti-train compare dp-reduce" },
        { o->plan.pipeline.async != TR_ASYNC_OFF, "async", "that is tutti-train compare async" },
        { o->plan.offload.delay > 0, "offload-delay", "that is tutti-train compare async" },
        { o->plan.zero.level > 0, "zero",
            c->form == TR_COMPARE_ZERO ? "name stages as words" : "that is compare zero" },
        { o->plan.sizes.servers > 0, "servers", "that is tutti-train compare server" },
        { *o->plan.servers.workers != 0, "workers", "legal with compare server and ring" },
        { c->form == TR_COMPARE_SERVER && o->plan.servers.async, "server-mode",
            "its servers are synchronous" },
        { o->plan.zero.keep, "zero3-keep", "that is tutti-train compare zero" },
        { o->plan.zero.prefetch > 0, "zero3-prefetch", "that is tutti-train compare zero" },
        { o->plan.zero.persist > 0, "zero3-persist", "that is tutti-train compare zero" },
        { *o->files.save || o->files.save_every, "save", "nothing is kept" },
        { *o->files.load, "load", "every configuration begins at step 0" },
        { *o->shown.trace || o->shown.trace_step >= 0, "trace", "legal with tutti-train train" },
        { o->shown.gantt, "gantt", "legal with tutti-train train" },
        { o->shown.stage_memory, "stage-memory", "legal with tutti-train train" },
        { o->shown.hex, "hex", "--json has the loss to the last bit" },
        { o->shown.tape >= 0, "tape", "legal with tutti-train explain" },
        { o->tests.all || o->tests.quick, o->tests.all ? "all" : "quick", "legal with tutti-train verify" },
        { o->shown.json && o->shown.markdown, "markdown", "legal is one of --json and --markdown" },
    };
    for (int i = 0; all && (p = tr_paradigm_at(i)); i++)
        if (p->word && tr_options_given(o, p->options->name))
            return tr_fail(
                e, "--%s is no option of compare here: it makes the meshes itself", p->options->name);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (wrong[i].given)
            return tr_fail(e, "--%s is no option of compare here: %s", wrong[i].name, wrong[i].why);
    if (o->ranks < 2 || o->ranks > TR_COMPARE_RANKS)
        return tr_fail(e, "-n %ld: compare takes 2 to %d ranks", o->ranks, TR_COMPARE_RANKS);
    if (o->steps < 3)
        return tr_fail(e,
            "--steps %ld: the first step compares gradients and the last is audited; legal are 3 and more",
            o->steps);
    return true;
}

/* ---- on the ranks ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The n-th quarter of a field of the reports of the timed steps; NAN where there is none. */
static double quarter(const struct tr_report *reports, long steps, size_t field, int n)
{
    double *x = tr_new((size_t)steps, sizeof *x);
    long count = 0;
    for (long s = 1; s + 1 < steps; s++) {
        double value = *(const double *)(const void *)((const char *)&reports[s] + field);
        if (!isnan(value))
            x[count++] = value;
    }
    qsort(x, (size_t)count, sizeof *x, compare_doubles);
    double at = (double)(count - 1) * n / 4, result = NAN;
    long below = (long)at;
    if (count)
        result = x[below] + (at - (double)below) * (x[below + 1 < count ? below + 1 : below] - x[below]);
    free(x);
    return result;
}

#define QUARTER(x, field, n) quarter((x)->reports, (x)->options.steps, offsetof(struct tr_report, field), n)

static void sum_up(struct tr_contender *x)
{
    x->ms = QUARTER(x, ms, 2), x->low = QUARTER(x, ms, 1), x->high = QUARTER(x, ms, 3);
    x->formula = QUARTER(x, formula, 2), x->simulated = QUARTER(x, simulated, 2);
    x->measured = QUARTER(x, measured, 2), x->exposed = QUARTER(x, exposed, 2);
}

double tr_compare_spread(const struct tr_contender *x)
{
    return x->options.steps > 3 ? x->high - x->low : NAN;
}

/* Rank 0 hears of the verdict of all, and what memory the largest rank touched. */
static bool conclude(struct tr_contender *x, const struct tr_trial *t, tutti_comm *world, struct tr_error *e)
{
    if (tutti_comm_rank(world) == x->largest && !x->planted)
        memcpy(x->touched, t->runner.audit.peak, sizeof x->touched);
    x->flops_counted = t->comm ? t->runner.flops : 0;
    if (!tr_trial_verdict(t, world, &x->verdict, e))
        return false;
    if (tutti_all_reduce(x->touched, x->touched, TR_MEMORIES, TUTTI_INT64, TUTTI_MAX, world,
            tutti_no_stream()) != TUTTI_OK ||
        tutti_all_reduce(&x->flops_counted, &x->flops_counted, 1, TUTTI_FLOAT64, TUTTI_SUM, world,
            tutti_no_stream()) != TUTTI_OK ||
        tutti_all_reduce(&x->counted, &x->counted, 2, TUTTI_INT64, TUTTI_MAX, world, tutti_no_stream()) !=
            TUTTI_OK)
        return tr_fail(e, "%s", tr_why(world));
    double *last = &x->reports[x->options.steps - 1].loss;
    *last =
        x->prepared.run.plan.servers.async && !(t->comm && t->runner.tape->server == 0) ? -INFINITY : *last;
    if (x->prepared.run.plan.servers.async &&
        tutti_all_reduce(last, last, 1, TUTTI_FLOAT64, TUTTI_MAX, world, tutti_no_stream()) != TUTTI_OK)
        return tr_fail(e, "%s", tr_why(world));
    sum_up(x);
    return true;
}

/* Where ranks are, and what they run. */
struct bench {
    tutti_comm *world;
    const struct tr_seat *seat;
    struct tr_trial *trials;
    const struct tr_goldens *goldens;
};

static bool open_trial(const struct bench *b, struct tr_contender *x, int i, struct tr_error *e)
{
    struct tr_trial *t = &b->trials[i];
    const struct tr_goldens *g = b->goldens;
    bool device = x->options.device;
    const struct tr_kernels *k = device ? b->seat->kernels : tr_options_kernels(&x->options, e);
    if (!k || !tr_trial_join(t, x->prepared.run.plan.mesh.n, device ? b->seat->ranks : b->world, e) ||
        (t->comm && !tr_trial_open(t, &x->prepared, &x->options, &g->runs[g->of[i]], k, e)))
        return false;
    t->planted = x->planted;
    return true;
}

/* Asynchronous workers and servers have no step in common, and make all of them in the first turn. Server 0
 * alone knows the loss; conclude asks it. */
static bool serve(struct tr_contender *x, struct tr_trial *t, tutti_comm *world, struct tr_error *e)
{
    int64_t begun = tr_now_ns();
    if (!tr_trial_server(t, &x->options, e))
        return false;
    if (tutti_barrier(t->comm, tutti_no_stream()) != TUTTI_OK)
        return tr_fail(e, "%s", tr_why(world));
    for (long s = 0; s < x->options.steps; s++)
        x->reports[s] = (struct tr_report){ .loss = t->loss,
            .ms = (double)(tr_now_ns() - begun) / 1e6 / (double)x->options.steps,
            .formula = NAN,
            .simulated = NAN,
            .measured = NAN,
            .exposed = NAN };
    return true;
}

static bool read_flow(struct tr_flow *to, const struct tr_runner *r, struct tr_error *e)
{
    r->arena.b->sync(r->x);
    return tr_compare_read(to, &r->groups, e);
}

/* Of the step after the first one Tutti tells what it sent, which it does not of graphs. */
static bool counted_step(struct tr_contender *x, struct tr_trial *t, struct tr_error *e)
{
    struct tr_flow before, after;
    struct tr_runner *r = &t->runner;
    bool graphs = r->replay.wanted;
    r->replay.wanted = false;
    if (!read_flow(&before, r, e) || !tr_trial_step(t, e) || !read_flow(&after, r, e))
        return false;
    r->replay.wanted = graphs;
    x->counted = (struct tr_flow){ after.in - before.in, after.out - before.out };
    return true;
}

/* The last step but one is drawn; a device has times for that if it is told before. */
static bool trial_step(struct tr_contender *x, struct tr_trial *t, long s, struct tr_error *e)
{
    bool drawn = s + 2 == x->options.steps;
    return (!drawn || tr_runner_time(&t->runner, e)) &&
           (s == 1 ? counted_step(x, t, e) : tr_trial_step(t, e)) &&
           tr_report_make(&x->reports[s], &t->runner, &x->prepared.run.schedule, e) &&
           (!drawn || tr_timeline_measure(&x->did, &t->runner, t->runner.groups.world, e));
}

static bool step(struct tr_contender *x, struct tr_trial *t, long s, tutti_comm *world, struct tr_error *e)
{
    struct tr_error why;
    if (tutti_barrier(world, tutti_no_stream()) != TUTTI_OK)
        return tr_fail(e, "%s", tr_why(world));
    bool async = x->prepared.run.plan.servers.async;
    return !t->comm || (async && s > 0) || (async ? serve(x, t, world, &why) : trial_step(x, t, s, &why)) ||
           tr_fail(e, "%s: %.900s", x->name, why.text);
}

/* Configurations from..to-1 by turns. */
static bool run_together(struct tr_comparison *c, const struct bench *b, int from, int to, struct tr_error *e)
{
    bool ok = true, shown = isatty(STDERR_FILENO) && tutti_comm_rank(b->world) == 0;
    for (int i = from; ok && i < to; i++)
        ok = !c->all[i].runs || open_trial(b, &c->all[i], i, e);
    for (long s = 0; ok && s < c->base.steps; s++) {
        for (int i = from; ok && i < to; i++)
            ok = !c->all[i].runs || step(&c->all[i], &b->trials[i], s, b->world, e);
        if (shown)
            fprintf(stderr, "\rconfigurations %d to %d of %d: step %ld of %ld ", from + 1, to, c->n, s + 1,
                c->base.steps);
    }
    if (shown)
        fprintf(stderr, "\r%60s\r", "");
    for (int i = from; i < to; i++) {
        ok = ok && (!c->all[i].runs || conclude(&c->all[i], &b->trials[i], b->world, e));
        tr_trial_close(&b->trials[i]);
    }
    return ok;
}

static int64_t arenas(const struct tr_contender *x)
{
    int64_t bytes = 0;
    for (int r = 0; x->runs && r < x->prepared.run.plan.mesh.n; r++)
        bytes += tr_tapes_like(x->prepared.tapes, r)->arena;
    return bytes;
}

/* The end of those from `from` whose memory is cheap enough to have them all at once. On a device there is
 * nobody else, and each has it for itself. */
static int turn_end(const struct tr_comparison *c, int from)
{
    int to = from + 1;
    int64_t bytes = arenas(&c->all[from]);
    while (to < c->n && !c->base.device && bytes + arenas(&c->all[to]) <= TOGETHER)
        bytes += arenas(&c->all[to++]);
    return to;
}

struct work {
    struct tr_comparison *comparison;
    bool (*say)(struct tr_comparison *c, struct tr_error *e);
    const struct tr_goldens *goldens;
};

/* As a whole or not at all: a reader may have the old one open. */
static bool write_page(const struct tr_comparison *c, struct tr_error *e)
{
    const char *name = c->base.shown.html;
    char part[sizeof c->base.shown.html + 8];
    snprintf(part, sizeof part, "%s.part", name);
    FILE *to = fopen(part, "w");
    if (to)
        tr_compare_page(c, false, to);
    bool ok = to && !ferror(to);
    if ((to && fclose(to)) || !ok || rename(part, name)) {
        int why = errno;
        unlink(part);
        return tr_fail(e, "--html: %s cannot be written: %s", name, strerror(why));
    }
    return true;
}

static bool say(struct tr_comparison *c, struct tr_error *e)
{
    int wrong = 0, other = 0;
    if (c->base.shown.json || tr_compare_has_page(c))
        tr_compare_simulate(c);
    if (*c->base.shown.html && !write_page(c, e))
        return false;
    (c->base.shown.json          ? tr_compare_json
        : c->base.shown.markdown ? tr_compare_markdown
                                 : tr_compare_text)(c, stdout);
    if (c->base.shown.markdown)
        tr_compare_page(c, true, stdout);
    if (c->form == TR_COMPARE_PARADIGMS && !c->base.shown.json && !c->base.shown.markdown)
        tr_compare_rows(c, false, stdout);
    if (c->form == TR_COMPARE_SCALING && !c->base.shown.json)
        tr_compare_scaling(c, stdout);
    if (c->form == TR_COMPARE_SERVER && !c->base.shown.json)
        tr_compare_ratios(c, stdout);
    fflush(stdout);
    for (int i = 0; i < c->n; i++) {
        wrong += *c->all[i].found.text || (c->all[i].runs && !tr_compare_equal(&c->all[i]));
        other += (c->form == TR_COMPARE_SERVER || c->all[i].aside) && !tr_compare_flows_equal(&c->all[i]);
    }
    if (other)
        return tr_fail(e, "%d of %d configurations have other bytes than the formula", other, c->n);
    return !wrong ||
           tr_fail(e, "%d of %d configurations differ from what they are compared with", wrong, c->n);
}

/* What does not fit the devices, of which the smallest part of a rank counts, does not run, and why is
 * said. */
static bool keep_to_devices(
    struct tr_comparison *c, const struct tr_seat *seat, tutti_comm *world, struct tr_error *e)
{
    int64_t bytes = seat->bytes;
    if (!c->base.device)
        return true;
    snprintf(c->device, sizeof c->device, "%s", seat->device.facts.name);
    c->devices = seat->devices;
    if (tutti_all_reduce(&bytes, &bytes, 1, TUTTI_INT64, TUTTI_MIN, world, tutti_no_stream()) != TUTTI_OK)
        return tr_fail(e, "%s", tr_why(world));
    for (int i = 0; i < c->n; i++) {
        struct tr_contender *x = &c->all[i];
        struct tr_error why;
        if (!x->runs || !x->options.device || tr_limits_kept(&x->prepared, &x->options, bytes, &why))
            continue;
        x->fits = x->runs = false;
        snprintf(x->cure, sizeof x->cure, "of its device a rank may have %" PRId64 " bytes", bytes);
        tr_compare_leave_out(c, x->name, why.text);
    }
    return true;
}

static bool run_all(tutti_comm *world, void *context, struct tr_error *e)
{
    const struct work *w = context;
    struct tr_comparison *c = w->comparison;
    if (!world || tutti_comm_size(world) != c->base.ranks)
        return tr_fail(e, "%d ranks were started, and %ld are compared; legal is -n %d",
            world ? tutti_comm_size(world) : 1, c->base.ranks, world ? tutti_comm_size(world) : 1);
    struct tr_trial *trials = tr_new((size_t)c->n, sizeof *trials);
    struct tr_seat seat;
    const struct bench b = { world, &seat, trials, w->goldens };
    bool ok = tr_same_options(&c->base, world, e) && tr_seat_take(&seat, &c->base, world, e) &&
              keep_to_devices(c, &seat, world, e);
    for (int from = 0; ok && from < c->n;) {
        int to = turn_end(c, from);
        ok = run_together(c, &b, from, to, e);
        from = to;
    }
    free(trials);
    ok = ok && (tutti_comm_rank(world) || w->say(c, e));
    if (ok) /* a rank that failed ends with its process */
        tr_seat_leave(&seat);
    return ok;
}

/* ---- the command ---- */

/* Before anything runs: whether the page has a place. */
static bool can_write(const char *name, struct tr_error *e)
{
    char part[512 + 8];
    struct stat there;
    snprintf(part, sizeof part, "%s.part", name);
    if (*name && stat(name, &there) == 0 && !S_ISREG(there.st_mode))
        return tr_fail(e, "--html: %s is no regular file", name);
    FILE *to = *name ? fopen(part, "w") : NULL;
    if (*name && !to)
        return tr_fail(e, "--html: %s cannot be written: %s", name, strerror(errno));
    if (to)
        fclose(to);
    return !to || unlink(part) == 0 || tr_fail(e, "--html: %s: %s", part, strerror(errno));
}

static bool prepare(struct tr_comparison *c, struct tr_error *e)
{
    if (!can_write(c->base.shown.html, e))
        return false;
    if ((c->form == TR_COMPARE_SERVER && !tr_compare_workers(c, e)) || !refuse_options(c, e))
        return false;
    return (c->base.device ? tr_options_planned : tr_options_kernels)(&c->base, e) && tr_compare_make(c, e);
}

int tr_compare_run(struct tr_comparison *c, bool (*say_it)(struct tr_comparison *c, struct tr_error *e))
{
    struct tr_options *all = tr_new((size_t)c->n, sizeof *all);
    struct tr_goldens goldens = { .n = 0 };
    struct tr_error e;
    if (!tr_compare_account(c, &e)) {
        free(all);
        return tr_refuse(1, &e);
    }
    for (int i = 0; i < c->n; i++)
        c->all[i].reports = tr_new((size_t)c->base.steps, sizeof *c->all[i].reports);
    c->by_turns = turn_end(c, 0) == c->n;
    int status = 1;
    for (int i = 0; i < c->n; i++)
        all[i] = c->all[i].options;
    if (!tr_goldens_make(&goldens, all, c->n, &e))
        tr_refuse(1, &e);
    else
        status = tr_launch((int)c->base.ranks, run_all, &(struct work){ c, say_it, &goldens });
    tr_goldens_free(&goldens);
    free(all);
    return status;
}

int tr_command_compare(int argc, char **argv)
{
    struct tr_comparison c = { .n = 0 };
    struct tr_error e = { .text = "" };
    int words = 0, status;
    while (words + 1 < argc && argv[words + 1][0] != '-')
        words++;
    if (!tr_compare_words(&c, argv + 1, words, &e))
        return tr_refuse(2, &e);
    tr_options_default(&c.base);
    c.base.ranks = c.form == TR_COMPARE_SERVER ? 0 : 4, c.base.steps = 10;
    if (!tr_begin_with(&c.base, argc - words, argv + words, usage, true, &status))
        return status;
    if (!*c.base.files.data)
        strcpy(c.base.files.data, "grammar");
    status = prepare(&c, &e) ? tr_compare_run(&c, say) : tr_refuse(1, &e);
    tr_compare_free(&c);
    return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* say.c: the comparison as text (one table, in parts as a terminal is narrow), Markdown and JSON. */
#include "training/compare/compare.h"

#include "training/launch.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { COLUMNS = 64, CELL = 256 };
enum part { SETUP, RESULT, NEAR, WAITING, WORK, SENT, HOTTEST, MEMORY, LIMIT };

/* index: of a group, of a kind of memory. */
struct column {
    enum part part;
    char head[32];
    bool left;
    int index;
    void (*cell)(const struct tr_contender *x, int index, char *to);
};

static void bytes(char *to, int64_t n)
{
    snprintf(to, CELL, "%" PRId64, n);
}

static void real(char *to, const struct tr_contender *x, const char *format, double value)
{
    if (!x->runs || isnan(value))
        strcpy(to, "-");
    else
        snprintf(to, CELL, format, value); /* NOLINT: formats of this file */
}

static double last_loss(const struct tr_contender *x)
{
    return x->reports[x->options.steps - 1].loss;
}

static double furthest(const struct tr_contender *x)
{
    double off = 0;
    for (int k = 0; k < TR_DIFFS; k++)
        off = x->verdict.off[k] > off ? x->verdict.off[k] : off;
    return off;
}

static double tokens(const struct tr_contender *x)
{
    return (double)(x->options.plan.batch * x->prepared.run.graph.context) / x->ms * 1000;
}

/* ---- cells ---- */

static void how(const struct tr_contender *x, int index, char *to)
{
    (void)index;
    snprintf(to, CELL, "%s", *x->how ? x->how : "-");
}

static void mesh(const struct tr_contender *x, int index, char *to)
{
    char text[64];
    (void)index;
    snprintf(to, CELL, "%s", tr_mesh_text(&x->prepared.run.plan.mesh, text));
}

static void loss(const struct tr_contender *x, int index, char *to)
{
    (void)index;
    real(to, x, "%.6f", x->runs ? last_loss(x) : NAN);
}

static void verdict(const struct tr_contender *x, int index, char *to)
{
    (void)index;
    if (!x->runs)
        snprintf(to, CELL, "%s", x->planted ? "refused" : "not run");
    else if (tr_compare_equal(x))
        strcpy(to, tr_verdict_equal(&x->verdict) ? "equal" : "near");
    else
        snprintf(to, CELL, "off %.1e", furthest(x));
}

static void class(const struct tr_contender *x, int index, char *to)
{
    (void)index;
    snprintf(to, CELL, "%c", tr_compare_class(x));
}

static void with(const struct tr_contender *x, int index, char *to)
{
    (void)index;
    snprintf(to, CELL, "%s", tr_compare_with(x));
}

/* How far losses and gradients are off, and how far they may be. */
static void distance(const struct tr_contender *x, int index, char *to)
{
    struct tr_tolerance f = { 0, 0 };
    tr_tolerance_of(&f, &x->options);
    const double values[] = { x->verdict.off[TR_DIFF_LOSSES], f.losses, x->verdict.off[TR_DIFF_GRADIENTS],
        f.gradients };
    real(to, x, "%.1e", values[index]);
}

/* ms, spread, tokens/s, bubble by formula, simulated, measured, exposed. */
static void time_of(const struct tr_contender *x, int index, char *to)
{
    const double values[] = { x->ms, tr_compare_spread(x), tokens(x), 100 * x->formula, 100 * x->simulated,
        100 * x->measured, 100 * x->exposed };
    real(to, x, index == 2 ? "%.0f" : "%.1f", values[index]);
}

/* All, extra, extra as a part of the rest. */
static void work(const struct tr_contender *x, int index, char *to)
{
    const double values[] = { x->flops, x->extra, 100 * x->extra / (x->flops - x->extra) };
    snprintf(to, CELL, index == 2 ? "%.2f" : "%.0f", values[index]);
}

static void counted(const struct tr_contender *x, int index, char *to)
{
    (void)index;
    snprintf(to, CELL, "%s", !x->runs ? "-" : x->flops == x->flops_counted ? "equal" : "DIFFERS");
}

static void sent(const struct tr_contender *x, int index, char *to)
{
    bytes(to, index < 0 ? index == -1 ? x->sent_all : x->sent_most : x->sent[index]);
}

/* In and out: by the formula, by the ledger, counted by Tutti. */
static void hottest(const struct tr_contender *x, int index, char *to)
{
    struct tr_flow f = tr_compare_formula(&x->prepared.run.plan, &x->prepared.run.graph),
                   l = tr_compare_ledger(&x->prepared);
    const int64_t values[] = { f.in, l.in, x->counted.in, f.out, l.out, x->counted.out };
    if (index % 3 == 2 && !x->runs)
        strcpy(to, "-");
    else
        bytes(to, values[index]);
}

static void host(const struct tr_contender *x, int index, char *to)
{
    int64_t most = 0;
    (void)index;
    for (int r = 0; r < x->prepared.run.plan.mesh.n; r++) {
        const struct tr_tape *t = tr_tapes_like(x->prepared.tapes, r);
        most = t->host.arena > most ? t->host.arena : most;
    }
    bytes(to, most);
}

static const struct tr_tape *tape_of(const struct tr_contender *x)
{
    return tr_tapes_of(x->prepared.tapes, x->largest);
}

static void memory(const struct tr_contender *x, int index, char *to)
{
    bytes(to, index < 0 ? tape_of(x)->arena : tape_of(x)->peak[index]);
}

/* The scratch of kernels is planned for the set that needs most. */
bool tr_compare_as_predicted(const struct tr_contender *x)
{
    bool equal = true;
    for (int k = 0; k < TR_MEMORIES; k++)
        equal = equal && (k == TR_MEM_SCRATCH ? x->touched[k] <= tape_of(x)->peak[k]
                                              : x->touched[k] == tape_of(x)->peak[k]);
    return equal;
}

static void measured(const struct tr_contender *x, int index, char *to)
{
    (void)index;
    bool audited = x->touched[TR_MEM_PARAMETER] > 0;
    snprintf(to, CELL, "%s", !x->runs || !audited ? "-" : tr_compare_as_predicted(x) ? "equal" : "DIFFERS");
}

static void fits(const struct tr_contender *x, int index, char *to)
{
    (void)index;
    snprintf(to, CELL, "%s", x->fits ? "fits" : x->cure);
}

/* ---- the table ---- */

static int columns_of(const struct tr_comparison *c, struct column *to)
{
    static const struct column results[] = { { SETUP, "mesh", true, 0, mesh },
        { SETUP, "options", true, 0, how }, { RESULT, "loss", false, 0, loss },
        { RESULT, "class", false, 0, class }, { RESULT, "verdict", true, 0, verdict },
        { RESULT, "ms", false, 0, time_of }, { RESULT, "spread", false, 1, time_of },
        { RESULT, "tokens/s", false, 2, time_of }, { NEAR, "compared with", true, 0, with },
        { NEAR, "losses off", false, 0, distance }, { NEAR, "legal", false, 1, distance },
        { NEAR, "gradients off", false, 2, distance }, { NEAR, "legal", false, 3, distance },
        { WAITING, "bubble: formula", false, 3, time_of }, { WAITING, "simulated", false, 4, time_of },
        { WAITING, "measured, %", false, 5, time_of }, { WAITING, "exposed, %", false, 6, time_of },
        { WORK, "all FLOPs", false, 0, work }, { WORK, "extra FLOPs", false, 1, work },
        { WORK, "extra, %", false, 2, work }, { WORK, "counted", true, 0, counted } };
    int n = 0;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].part != NEAR || tr_compare_near(c))
            to[n++] = results[i];
    for (int i = 0; i < c->n_groups; i++, n++) {
        to[n] = (struct column){ SENT, "", false, i, sent };
        snprintf(to[n].head, sizeof to[n].head, "%.20s", c->groups[i]);
    }
    to[n++] = (struct column){ SENT, "all", false, -1, sent };
    to[n++] = (struct column){ SENT, "busiest rank", false, -2, sent };
    static const char *const flows[] = { "in: formula", "ledger", "counted", "out: formula", "ledger",
        "counted" };
    for (int k = 0; c->form == TR_COMPARE_SERVER && k < 6; k++, n++) {
        to[n] = (struct column){ HOTTEST, "", false, k, hottest };
        snprintf(to[n].head, sizeof to[n].head, "%s", flows[k]);
    }
    for (int k = 0; k < TR_MEMORIES; k++, n++) {
        to[n] = (struct column){ MEMORY, "", false, k, memory };
        snprintf(to[n].head, sizeof to[n].head, "%s", k == TR_MEM_SCRATCH ? "scratch" : tr_memory_names[k]);
    }
    to[n++] = (struct column){ MEMORY, "arena", false, -1, memory };
    to[n++] = (struct column){ MEMORY, "measured", true, 0, measured };
    if (c->base.shown.memory || c->base.shown.host_memory) {
        to[n++] = (struct column){ LIMIT, "needs", false, -1, memory };
        to[n++] = (struct column){ LIMIT, "on the host", false, 0, host };
        to[n++] = (struct column){ LIMIT, "what to do", true, 0, fits };
    }
    return n;
}

static void say_part(const struct tr_comparison *c, const struct column *columns, int n, int part, FILE *to)
{
    char cell[CELL];
    int width[COLUMNS] = { 0 };
    for (int k = 0; k < n; k++)
        for (int i = -1; i < c->shown; i++) {
            if (i >= 0)
                columns[k].cell(&c->all[i], columns[k].index, cell);
            int length = (int)strlen(i < 0 ? columns[k].head : cell);
            width[k] = length > width[k] ? length : width[k];
        }
    for (int i = -1; i < c->shown; i++) {
        if (i < 0)
            fprintf(to, "%3s %-21s", "#", "");
        else
            fprintf(to, "%3d %-21s", i + 1, c->all[i].name);
        for (int k = 0; k < n; k++) {
            if ((int)columns[k].part != part)
                continue;
            if (i >= 0)
                columns[k].cell(&c->all[i], columns[k].index, cell);
            bool last = k + 1 == n || (int)columns[k + 1].part != part; /* no blanks after it */
            width[k] = last && columns[k].left ? 0 : width[k];
            fprintf(to, columns[k].left ? "  %-*s" : "  %*s", width[k], i < 0 ? columns[k].head : cell);
        }
        fprintf(to, "\n");
    }
}

const char *tr_compare_place(const struct tr_comparison *c)
{
    return c->devices ? "device" : "core";
}

int tr_compare_places(const struct tr_comparison *c)
{
    return c->devices ? c->devices : tr_cores();
}

const char *tr_compare_where(const struct tr_comparison *c, char text[TR_COMPARE_WHERE])
{
    int places = tr_compare_places(c);
    snprintf(text, TR_COMPARE_WHERE, "%d %s%s%s%s", places, tr_compare_place(c), places == 1 ? "" : "s",
        !c->devices   ? ""
        : places == 1 ? ", a "
                      : ", each a ",
        c->device);
    return text;
}

static void say_begin(const struct tr_comparison *c, FILE *to)
{
    int places = tr_compare_places(c);
    char where[TR_COMPARE_WHERE];
    const struct tr_graph *g = &c->all[0].prepared.run.graph;
    fprintf(to, "# %s: %" PRId64 " layers, %" PRId64 " channels; batch of %d, %ld steps, %s; %ld ranks; %s\n",
        g->model, g->layers, g->channels, c->base.plan.batch, c->base.steps,
        c->base.plan.optimizer.sgd ? "sgd" : "adamw", c->base.ranks,
        c->by_turns ? "configurations take turns" : "configurations run one after the other");
    if (c->devices)
        fprintf(to, "# ranks compute on %s\n", tr_compare_where(c, where));
    if (c->base.ranks > places)
        fprintf(to, "# %ld ranks share %d %s%s: these times are no measurement of scaling\n", c->base.ranks,
            places, tr_compare_place(c), places == 1 ? "" : "s");
}

static void say_notes(const struct tr_comparison *c, FILE *to)
{
    for (int i = 0; i < c->n; i++) {
        const struct tr_contender *x = &c->all[i];
        if (*x->found.text)
            fprintf(to, "# %d, %s: %s\n", i + 1, x->name, x->found.text);
        if (!x->runs || tr_compare_equal(x))
            continue;
        fprintf(to, "# %d, %s differs:", i + 1, x->name);
        for (int k = 0; k < TR_DIFFS; k++)
            fprintf(to, "%s %" PRId64 " %s by %.1e at most", k ? "," : "", x->verdict.differing[k],
                tr_diff_names[k], x->verdict.off[k]);
        fprintf(to, "\n");
    }
    for (int i = 0; i < c->n_left_out; i++)
        fprintf(to, "# left out, %s: %s\n", c->left_out[i].name, c->left_out[i].why);
}

void tr_compare_text(const struct tr_comparison *c, FILE *to)
{
    static const char *const titles[] = { "what is run", "what comes of it, and the time of a step",
        "how far numbers are off, as a part of the largest, and how far they may be",
        "where ranks wait: parts of the pipeline's time; of a step in collectives",
        "floating-point operations of all ranks in a step; beyond one device's, and whether as many were "
        "counted",
        "bytes that all ranks must send in a step at least, by group",
        "bytes of a step at the rank to which most come, and at the one from which most go, but for loss and "
        "norm",
        "bytes of memory of the rank that needs most, and whether the audit measured the same",
        "the limits of --memory and --host-memory" };
    struct column columns[COLUMNS];
    int n = columns_of(c, columns);
    say_begin(c, to);
    for (int k = 0; k < n; k++) {
        if (k && columns[k].part == columns[k - 1].part)
            continue;
        fprintf(to, "\n# %s\n", titles[columns[k].part]);
        say_part(c, columns, n, (int)columns[k].part, to);
    }
    say_notes(c, to);
}

void tr_compare_markdown(const struct tr_comparison *c, FILE *to)
{
    struct column columns[COLUMNS];
    char cell[CELL];
    int n = columns_of(c, columns);
    fprintf(to, "| paradigm |");
    for (int k = 0; k < n; k++)
        fprintf(to, " %s%s |", columns[k].part == SENT ? "sent: " : "", columns[k].head);
    fprintf(to, "\n|---|");
    for (int k = 0; k < n; k++)
        fprintf(to, columns[k].left ? "---|" : "--:|");
    fprintf(to, "\n");
    for (int i = 0; i < c->shown; i++) {
        fprintf(to, "| %s |", c->all[i].name);
        for (int k = 0; k < n; k++) {
            columns[k].cell(&c->all[i], columns[k].index, cell);
            fprintf(to, " %s |", cell);
        }
        fprintf(to, "\n");
    }
    fprintf(to, "\n");
    say_begin(c, to);
    say_notes(c, to);
}

/* ---- JSON ---- */

static void say_object(const struct tr_comparison *c, const struct tr_contender *x, FILE *to)
{
    const struct tr_plan *p = &x->prepared.run.plan;
    fprintf(to, "{\"event\": \"%s\", \"cores\": %d", x->aside ? "aside" : "configuration", tr_cores());
    tr_json_text(to, "name", x->name);
    tr_json_text(to, "options", x->how);
    tr_json_text(to, "device", x->options.device ? c->device : "host");
    for (int a = 0; a < TR_AXES; a++)
        fprintf(to, ", \"%s\": %d", tr_axis_names[a], p->mesh.size[a]);
    fprintf(to, ", \"ran\": %s, \"equal\": %s, \"class\": \"%c\"", x->runs ? "true" : "false",
        tr_compare_equal(x) ? "true" : "false", tr_compare_class(x));
    tr_json_number(to, "loss", x->runs ? last_loss(x) : NAN);
    for (int k = 0; k < TR_DIFFS; k++)
        fprintf(to, ", \"differing_%s\": %" PRId64, tr_diff_names[k], x->verdict.differing[k]);
    const double numbers[] = { furthest(x), x->ms, x->low, x->high, tokens(x), x->formula, x->simulated,
        x->measured, x->exposed };
    static const char *const names[] = { "off", "ms", "ms_low", "ms_high", "tokens_per_second",
        "bubble_formula", "bubble_simulated", "bubble_measured", "exposed" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        tr_json_number(to, names[i], x->runs ? numbers[i] : NAN);
    struct tr_tolerance f = { 0, 0 };
    tr_tolerance_of(&f, &x->options);
    tr_json_text(to, "compared_with", tr_compare_with(x));
    tr_json_number(to, "off_losses", x->runs ? x->verdict.off[TR_DIFF_LOSSES] : NAN);
    tr_json_number(to, "off_losses_legal", f.losses);
    tr_json_number(to, "off_gradients", x->runs ? x->verdict.off[TR_DIFF_GRADIENTS] : NAN);
    tr_json_number(to, "off_gradients_legal", f.gradients);
    tr_json_number(to, "flops", x->flops);
    tr_json_number(to, "flops_extra", x->extra);
    tr_json_number(to, "flops_counted", x->runs ? x->flops_counted : NAN);
    fprintf(to, ", \"sent\": {");
    for (int i = 0; i < c->n_groups; i++)
        fprintf(to, "%s\"%s\": %" PRId64, i ? ", " : "", c->groups[i], x->sent[i]);
    fprintf(to, "}, \"sent_all\": %" PRId64 ", \"sent_most\": %" PRId64 ", \"rank\": %d, \"arena\": %" PRId64,
        x->sent_all, x->sent_most, x->largest, tape_of(x)->arena);
    tr_json_memory(to, "memory", tape_of(x)->peak);
    tr_json_memory(to, "memory_measured", x->touched);
    char on_host[CELL];
    host(x, 0, on_host);
    fprintf(to, ", \"host_arena\": %s", on_host);
    fprintf(to, ", \"fits\": %s", x->fits ? "true" : "false");
    tr_json_text(to, "what_to_do", x->cure);
    tr_json_text(to, "found", x->found.text);
    tr_compare_figures_json(x, to);
    if (c->form == TR_COMPARE_SERVER || x->aside)
        tr_compare_flows_json(x, to);
    fprintf(to, "}\n");
}

void tr_compare_json(const struct tr_comparison *c, FILE *to)
{
    for (int i = 0; i < c->n; i++)
        say_object(c, &c->all[i], to);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.c: paradigms against each other in six rows: what is cut, stored, sent, what is good, what is
 * bad, and when to take which. The rows are those in which textbooks compare data and model parallelism; what
 * stands in them is of this run. */
#include "training/compare/compare.h"

#include "training/parallel/registry.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { TEXT = TR_COMPARE_ROW };

static void append(char to[TEXT], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char to[TEXT], const char *format, ...)
{
    size_t used = strlen(to);
    va_list list;
    va_start(list, format);
    vsnprintf(to + used, TEXT - used, format, list);
    va_end(list);
}

static const struct tr_tape *tape_of(const struct tr_contender *x)
{
    return tr_tapes_of(x->prepared.tapes, x->largest);
}

/* The first of all is one device. */
static double percent(const struct tr_comparison *c, int64_t bytes, enum tr_memory kind)
{
    int64_t one = kind == TR_MEMORIES ? tape_of(&c->all[0])->arena : tape_of(&c->all[0])->peak[kind];
    return one ? 100 * (double)bytes / (double)one : 0;
}

/* The paradigm that this configuration is; NULL: one device. */
static const struct tr_paradigm *paradigm_of(const struct tr_contender *x)
{
    const struct tr_paradigm *r;
    for (int i = 0; (r = tr_paradigm_at(i)); i++)
        if (tr_paradigm_cuts(r, &x->prepared.run.plan))
            return r;
    return NULL;
}

static void cut(const struct tr_comparison *c, const struct tr_contender *x, char to[TEXT])
{
    const struct tr_paradigm *r = paradigm_of(x);
    (void)c;
    if (r)
        r->cuts(&x->prepared.run.plan, &x->prepared.run.graph, to, TEXT);
    else
        append(to, "nothing");
}

static void stored(const struct tr_comparison *c, const struct tr_contender *x, char to[TEXT])
{
    for (int k = 0; k < TR_MEM_BUFFER; k++) {
        int64_t bytes = tape_of(x)->peak[k];
        append(to, "%s%s %" PRId64 " (%.0f %%)", k ? ", " : "", tr_memory_names[k], bytes,
            percent(c, bytes, (enum tr_memory)k));
    }
    append(to, " on the rank that needs most");
}

/* The rank that sends most is the first of those that send as much. */
static void sent(const struct tr_comparison *c, const struct tr_contender *x, char to[TEXT])
{
    struct tr_ledger most = { .n = 0 }, l;
    char group[32];
    (void)c;
    for (int r = 0; r < x->prepared.run.plan.mesh.n; r++) {
        tr_ledger_predict(&l, tr_tapes_like(x->prepared.tapes, r));
        if (r == 0 || tr_ledger_sum(&l, -1, -1, -1, -1).least > tr_ledger_sum(&most, -1, -1, -1, -1).least)
            most = l;
    }
    for (int i = 0; i < most.n; i++) {
        const struct tr_entry *e = &most.entries[i];
        if (e->least)
            append(to, "%s%s: %" PRId64 " bytes by %" PRId64 " x %s, %s", *to ? "; " : "",
                tr_cargo_names[e->cargo], e->least, e->calls, tr_codes[e->code].name,
                tr_entry_group(e, group));
    }
    if (!*to)
        append(to, "nothing");
}

/* ---- what is good and bad ---- */

enum measure { MEMORY, SENT, WAITING, TIME, MEASURES };

static double measure_of(const struct tr_contender *x, int m)
{
    const double all[] = { (double)tape_of(x)->arena, (double)x->sent_most,
        isnan(x->measured) ? 0 : 100 * x->measured, x->ms };
    return x->runs || m < WAITING ? all[m] : NAN;
}

/* Whether it is the only one that is best, or worst, among those that are cut. */
static bool stands_out(const struct tr_comparison *c, const struct tr_contender *x, int m, bool worst)
{
    double mine = measure_of(x, m);
    bool others = false;
    for (int i = 1; i < c->n; i++) {
        double other = measure_of(&c->all[i], m);
        if (&c->all[i] == x || isnan(other))
            continue;
        others = true;
        if (!(worst ? mine > other : mine < other))
            return false;
    }
    return others && !isnan(mine);
}

static void say_measures(
    const struct tr_comparison *c, const struct tr_contender *x, bool worst, char to[TEXT])
{
    static const char *const names[MEASURES][2] = { { "least memory", "most memory" },
        { "sends least", "sends most" }, { "waits least for other stages", "waits most for other stages" },
        { "fastest", "slowest" } };
    for (int m = 0; m < MEASURES && x != c->all; m++) {
        double value = measure_of(x, m);
        if (!stands_out(c, x, m, worst))
            continue;
        append(to, "%s%s: ", *to ? "; " : "", names[m][worst]);
        if (m == MEMORY)
            append(to, "%.0f bytes of a rank, %.0f %% of one device's", value,
                percent(c, (int64_t)value, TR_MEMORIES));
        else
            append(to, m == SENT ? "%.0f bytes of a rank" : m == WAITING ? "%.0f %%" : "%.1f ms", value);
    }
    if (!*to)
        append(to, "-");
}

static void good(const struct tr_comparison *c, const struct tr_contender *x, char to[TEXT])
{
    say_measures(c, x, false, to);
}

static void bad(const struct tr_comparison *c, const struct tr_contender *x, char to[TEXT])
{
    say_measures(c, x, true, to);
}

static void when(const struct tr_comparison *c, const struct tr_contender *x, char to[TEXT])
{
    const struct tr_paradigm *r = paradigm_of(x);
    append(to, "%s", r ? r->when : "the model and its step fit one device, and time is no matter");
    char limit[32];
    if (c->base.shown.memory)
        append(to, "; %s --memory %s", x->fits ? "fits" : "does not fit",
            tr_bytes_text(c->base.shown.memory, limit));
}

static const struct {
    const char *name;
    void (*say)(const struct tr_comparison *c, const struct tr_contender *x, char to[TEXT]);
} rows[] = { { "what is cut", cut }, { "what a rank stores", stored },
    { "what a rank sends in a step", sent }, { "advantage", good }, { "bottleneck", bad },
    { "take it where", when } };

const char *tr_compare_row_name(int row)
{
    return row < (int)(sizeof rows / sizeof *rows) ? rows[row].name : NULL;
}

const char *tr_compare_row(
    const struct tr_comparison *c, int row, const struct tr_contender *x, char text[TR_COMPARE_ROW])
{
    *text = 0;
    rows[row].say(c, x, text);
    return text;
}

void tr_compare_rows(const struct tr_comparison *c, bool markdown, FILE *to)
{
    if (markdown) {
        fprintf(to, "| |");
        for (int i = 0; i < c->n; i++)
            fprintf(to, " %s |", c->all[i].name);
        fprintf(to, "\n|---|");
        for (int i = 0; i < c->n; i++)
            fprintf(to, "---|");
        fprintf(to, "\n");
    }
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        fprintf(to, markdown ? "| %s |" : "\n# %s\n", rows[r].name);
        for (int i = 0; i < c->n; i++) {
            char text[TEXT] = "";
            rows[r].say(c, &c->all[i], text);
            if (markdown)
                fprintf(to, " %s |", text);
            else
                fprintf(to, "%-18s %s\n", c->all[i].name, text);
        }
        if (markdown)
            fprintf(to, "\n");
    }
}

/* ---- scaling ---- */

/* The batch stays, so each rank has the less to do the more there are. */
void tr_compare_scaling(const struct tr_comparison *c, FILE *to)
{
    const struct tr_contender *first = c->all;
    char few[64];
    snprintf(few, sizeof few, "  more ranks than %ss: no measurement of scaling", tr_compare_place(c));
    fprintf(to, "\n# the rate against that of %s, and what that is of as many times its rate\n", first->name);
    for (int i = 0; i < c->n && first->runs; i++) {
        const struct tr_contender *x = &c->all[i];
        double faster = first->ms / x->ms, ranks = (double)x->options.ranks / (double)first->options.ranks;
        if (x->runs)
            fprintf(to, "%-18s %5.2f times %5.0f %%%s\n", x->name, faster, 100 * faster / ranks,
                x->options.ranks > tr_compare_places(c) ? few : "");
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* page_figures.c: the figures that each configuration has: time, memory, messages, losses. */
#include "training/compare/page.h"

#include "training/page/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *tr_page_title(const struct tr_contender *x, char text[256])
{
    snprintf(text, 256, "%s%s%s%s", x->name, *x->how ? " (" : "", x->how, *x->how ? ")" : "");
    return text;
}

static int drawn(const struct tr_comparison *c)
{
    return c->shown < TR_PAGE_DRAWN ? c->shown : TR_PAGE_DRAWN;
}

static int drawn_ranks(const struct tr_contender *x)
{
    int n = x->prepared.run.plan.mesh.n;
    return n < TR_PAGE_RANKS ? n : TR_PAGE_RANKS;
}

static void say_undrawn(struct tr_page *p, const struct tr_comparison *c)
{
    if (c->shown > drawn(c))
        tr_page_say(p,
            "The first %d of %d configurations have figures; the others are in the table, and in --json.",
            drawn(c), c->shown);
    if (c->base.ranks > TR_PAGE_RANKS)
        tr_page_say(p, "Of each, the first %d ranks are drawn.", TR_PAGE_RANKS);
}

/* ---- time ---- */

/* Fewer cells where there are many rows. */
static int columns_of(const struct tr_comparison *c)
{
    int rows = 0;
    for (int i = 0; i < drawn(c); i++)
        rows += 2 * drawn_ranks(&c->all[i]);
    int columns = rows ? 24000 / rows : 240;
    return columns > 240 ? 240 : columns < 30 ? 30 : columns;
}

static void draw_timeline(struct tr_page *p, const struct tr_timeline *t, int ranks, double end, int columns)
{
    struct tr_chart_row rows[TR_PAGE_RANKS];
    char names[TR_PAGE_RANKS][16];
    for (int r = 0; r < ranks; r++) {
        snprintf(names[r], sizeof names[r], "%d", r);
        rows[r] = (struct tr_chart_row){ names[r], t->spans + t->begin[r], t->begin[r + 1] - t->begin[r] };
    }
    tr_chart_times(p->to, rows, ranks, tr_does_names, TR_DOINGS, end, NULL, columns);
}

static double share(const struct tr_timeline *t, enum tr_does what)
{
    return t->end > 0 ? 100 * tr_timeline_of(t, -1, what) / (t->end * t->n) : 0;
}

static double waiting(const struct tr_timeline *t)
{
    double busy = 0;
    for (int k = 0; k < TR_DOINGS; k++)
        busy += k == TR_DOES_TALK ? 0 : share(t, (enum tr_does)k);
    return 100 - busy;
}

static void timeline(
    struct tr_page *p, const struct tr_comparison *c, const struct tr_contender *x, int columns)
{
    char title[256], did[TR_PAGE_TEXT], would[TR_PAGE_TEXT];
    tr_page_figure(p, "time", tr_page_title(x, title));
    if (!p->markdown) {
        draw_timeline(p, &x->did, drawn_ranks(x), x->did.end, columns);
        if (x->would.n)
            draw_timeline(p, &x->would, drawn_ranks(x), x->would.end, columns);
    }
    if (x->would.n)
        tr_page_figure_end(p,
            "Above the last timed step as it ran, %s, of which a rank computes %.0f %%; below as it would "
            "run "
            "with a %s for each rank, %s and %.0f %%.",
            tr_page_time(x->did.end, did), 100 - waiting(&x->did), tr_compare_place(c),
            tr_page_time(x->would.end, would), 100 - waiting(&x->would));
    else
        tr_page_figure_end(p, "The last timed step as it ran, %s, of which a rank computes %.0f %%.",
            tr_page_time(x->did.end, did), 100 - waiting(&x->did));
}

void tr_page_times(struct tr_page *p, const struct tr_comparison *c)
{
    int columns = columns_of(c), n = 0;
    for (int i = 0; i < drawn(c); i++)
        n += c->all[i].did.n > 0;
    if (!n)
        return;
    tr_page_section(p, "Who does what when");
    tr_page_say(p,
        "A line is a rank, and what is empty is a wait for others that is not in a message. Where ranks "
        "share "
        "%ss, the measured part shows them taking turns; the simulated part takes each rank's operations at "
        "the rate of one %s of this run, and messages as on cores of one machine.",
        tr_compare_place(c), tr_compare_place(c));
    say_undrawn(p, c);
    tr_page_key(p, 'k', tr_does_names, TR_DOINGS);
    tr_page_figures(p);
    for (int i = 0; i < drawn(c); i++)
        if (c->all[i].did.n)
            timeline(p, c, &c->all[i], columns);
    tr_page_figures_end(p);
}

/* ---- memory ---- */

static const struct tr_tape *tape_of(const struct tr_contender *x)
{
    return tr_tapes_of(x->prepared.tapes, x->largest);
}

static double peaks(const struct tr_contender *x)
{
    double sum = 0;
    for (int k = 0; k < TR_MEMORIES; k++)
        sum += (double)tape_of(x)->peak[k];
    return sum;
}

/* Ten bars a figure, so that these stand beside each other. */
static void memory_bars(struct tr_page *p, const struct tr_comparison *c, int from)
{
    struct tr_bar bars[10];
    char words[10][TR_PAGE_TEXT], least[TR_PAGE_TEXT], most_text[TR_PAGE_TEXT];
    double most = 0;
    int n = c->shown - from < 10 ? c->shown - from : 10, low = from, high = from;
    for (int i = 0; i < c->shown; i++)
        most = peaks(&c->all[i]) > most ? peaks(&c->all[i]) : most;
    for (int i = 0; i < n; i++) {
        const struct tr_contender *x = &c->all[from + i];
        bars[i].name = x->name;
        bars[i].words = tr_page_bytes((double)tape_of(x)->arena, words[i]);
        for (int k = 0; k < TR_MEMORIES; k++)
            bars[i].parts[k] = (double)tape_of(x)->peak[k];
        low = tape_of(x)->arena < tape_of(&c->all[low])->arena ? from + i : low;
        high = tape_of(x)->arena > tape_of(&c->all[high])->arena ? from + i : high;
    }
    tr_page_figure(p, "memory", "Memory of the rank that needs most");
    if (!p->markdown)
        tr_chart_bars(p->to, bars, n, tr_memory_names, TR_MEMORIES, "B", most, (double)c->base.shown.memory);
    tr_page_figure_end(p, "Of these, %s needs least, %s, and %s most, %s.", c->all[low].name,
        tr_page_bytes((double)tape_of(&c->all[low])->arena, least), c->all[high].name,
        tr_page_bytes((double)tape_of(&c->all[high])->arena, most_text));
}

static void memory_over(struct tr_page *p, const struct tr_comparison *c, const struct tr_contender *x)
{
    char title[256], top[TR_PAGE_TEXT], limit[TR_PAGE_TEXT + 8], peak[TR_PAGE_TEXT], end[TR_PAGE_TEXT];
    const struct tr_tape *t = tape_of(x);
    double *over = tr_compare_memory_over(x), last = 0, most = (double)t->peak_total;
    for (int k = 0; k < TR_MEMORIES; k++)
        last += over[(TR_COMPARE_COLUMNS - 1) * TR_MEMORIES + k];
    struct tr_areas a = { over, TR_COMPARE_COLUMNS, TR_MEMORIES, most, (double)c->base.shown.memory,
        tr_page_bytes(most, top), limit, "first instruction", "last", tr_memory_names };
    snprintf(limit, sizeof limit, "limit %s", tr_page_bytes((double)c->base.shown.memory, peak));
    tr_page_figure(p, "over", tr_page_title(x, title));
    if (!p->markdown)
        tr_chart_areas(p->to, &a);
    tr_page_figure_end(p, "Rank %d has %s at its peak, and %s at the end of the step.", x->largest,
        tr_page_bytes((double)t->peak_total, peak), tr_page_bytes(last, end));
    free(over);
}

void tr_page_memory(struct tr_page *p, const struct tr_comparison *c)
{
    tr_page_section(p, "Memory");
    tr_page_say(p, "Each kind at its peak. The number at the right is what the rank needs in all, with the "
                   "gaps between: "
                   "less than the bar, where kinds have their peaks at different times.");
    tr_page_key(p, 'k', tr_memory_names, TR_MEMORIES);
    tr_page_figures(p);
    for (int from = 0; from < c->shown; from += 10)
        memory_bars(p, c, from);
    tr_page_figures_end(p);
    tr_page_say(p, "The same over a step, from one instruction of the rank's list to the next, each in a "
                   "scale of its own: "
                   "activations grow forward and shrink backward, and gradients grow while they do.");
    say_undrawn(p, c);
    tr_page_figures(p);
    for (int i = 0; i < drawn(c); i++)
        memory_over(p, c, &c->all[i]);
    tr_page_figures_end(p);
}

/* ---- messages ---- */

/* Ranks that are one row, so that there are no more rows than one can see. */
static double *joined(const double *of, int n, int each, int *rows)
{
    *rows = (n + each - 1) / each;
    double *to = tr_new((size_t)*rows * (size_t)*rows, sizeof *to);
    for (int i = 0; i < n * n; i++)
        to[i / n / each * *rows + i % n / each] += of[i];
    return to;
}

static void matrix(struct tr_page *p, const struct tr_contender *x)
{
    int n = x->prepared.run.plan.mesh.n, each = (n + TR_PAGE_RANKS - 1) / TR_PAGE_RANKS, rows, busiest = 0;
    char title[256], all[TR_PAGE_TEXT], most[TR_PAGE_TEXT];
    double *of = tr_compare_sends(x), *shown = joined(of, n, each, &rows), sum = 0;
    int pairs = 0;
    for (int i = 0; i < n * n; i++) {
        sum += of[i], pairs += of[i] > 0;
        busiest = of[i] > of[busiest] ? i : busiest;
    }
    tr_page_figure(p, "sends", tr_page_title(x, title));
    if (!p->markdown)
        tr_chart_matrix(p->to, shown, rows, each);
    tr_page_figure_end(p, "%s in a step over %d of %d ways; most, %s, from rank %d to rank %d.",
        tr_page_bytes(sum, all), pairs, n * (n - 1), tr_page_bytes(of[busiest], most), busiest / n,
        busiest % n);
    free(of), free(shown);
}

void tr_page_sends(struct tr_page *p, const struct tr_comparison *c)
{
    int n = 0;
    for (int i = 0; i < drawn(c); i++)
        n += c->all[i].sent_all > 0;
    if (!n)
        return;
    tr_page_section(p, "Who sends to whom");
    tr_page_say(p,
        "A row is who sends, a column who gets it, and the stronger the colour the more. What a group "
        "sums up or gathers is shown as shared out among its ranks, each of which must send as "
        "much by any algorithm.");
    say_undrawn(p, c);
    tr_page_figures(p);
    for (int i = 0; i < drawn(c); i++)
        if (c->all[i].sent_all > 0)
            matrix(p, &c->all[i]);
    tr_page_figures_end(p);
}

/* ---- losses ---- */

static bool same_curve(const struct tr_contender *a, const struct tr_contender *b)
{
    for (long s = 0; s < a->options.steps; s++)
        if (memcmp(&a->reports[s].loss, &b->reports[s].loss, sizeof a->reports[s].loss))
            return false;
    return true;
}

/* Of each configuration the first that has its bits. */
static int first_like(const struct tr_comparison *c, int i)
{
    int first = 0;
    while (first < i && !(c->all[first].runs && same_curve(&c->all[first], &c->all[i])))
        first++;
    return first;
}

static int like(const struct tr_comparison *c, int first)
{
    int n = 0;
    for (int i = first; i < c->shown; i++)
        n += c->all[i].runs && first_like(c, i) == first;
    return n;
}

void tr_page_losses(struct tr_page *p, const struct tr_comparison *c)
{
    enum { MOST = TR_CHART_KINDS };
    struct tr_curve curves[MOST];
    char names[MOST][128];
    const char *keys[MOST];
    long steps = c->base.steps;
    int n = 0, alike = 0, ran = 0, first = -1;
    double *x = tr_new((size_t)steps, sizeof *x), *y = tr_new((size_t)steps * MOST, sizeof *y);
    for (long s = 0; s < steps; s++)
        x[s] = (double)s;
    for (int i = 0; i < c->shown; i++) {
        ran += c->all[i].runs;
        if (!c->all[i].runs || first_like(c, i) != i || n == MOST)
            continue;
        first = first < 0 ? i : first;
        for (long s = 0; s < steps; s++)
            y[n * steps + s] = c->all[i].reports[s].loss;
        curves[n] = (struct tr_curve){ x, y + n * steps, (int)steps, n, false, n > 0 };
        int others = like(c, i) - 1;
        alike = others + 1 > alike ? others + 1 : alike;
        snprintf(
            names[n], sizeof names[n], others ? "%s, and %d with its bits" : "%s", c->all[i].name, others);
        keys[n] = names[n];
        n++;
    }
    if (n) {
        tr_page_section(p, "Losses");
        tr_page_key(p, 'l', keys, n);
        tr_page_figures(p);
        tr_page_figure(p, "losses", "Loss of each step");
        if (!p->markdown)
            tr_chart_curves(p->to, curves, n, &(struct tr_axes){ "step", "loss", false, true });
        tr_page_figure_end(p,
            "%d of %d configurations have the same curve to the last bit: %s goes from %.4f to %.4f in %ld "
            "steps.",
            alike, ran, c->all[first].name, y[0], y[steps - 1], steps);
        tr_page_figures_end(p);
    }
    free(x), free(y);
}

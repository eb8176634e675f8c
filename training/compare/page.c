/* SPDX-License-Identifier: BSD-3-Clause */
/* page.c: what compare found as one page: the table, then figures, then what textbooks draw. */
#include "training/compare/page.h"

#include "training/parallel/registry.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

bool tr_compare_has_page(const struct tr_comparison *c)
{
    return *c->base.shown.html || c->base.shown.markdown;
}

const struct tr_contender *tr_page_alone(const struct tr_comparison *c, const char *word)
{
    const struct tr_paradigm *w = tr_paradigm_word(word);
    for (int i = 0; w && i < c->shown; i++)
        if (!strcmp(c->all[i].name, c->form == TR_COMPARE_ALL ? w->compared[0].name : w->name))
            return &c->all[i];
    return NULL;
}

/* ---- the table ---- */

static const struct tr_tape *tape_of(const struct tr_contender *x)
{
    return tr_tapes_of(x->prepared.tapes, x->largest);
}

static void number(struct tr_page *p, bool there, const char *format, double value)
{
    char text[TR_PAGE_TEXT] = "-";
    if (there && isfinite(value))
        snprintf(text, sizeof text, format, value); /* NOLINT: formats of this file */
    tr_page_cell(p, text, there ? value : NAN);
}

static const char *verdict(const struct tr_contender *x)
{
    if (!x->runs)
        return x->planted ? "refused" : "not run";
    return !tr_compare_equal(x) ? "differs" : tr_verdict_equal(&x->verdict) ? "equal" : "near";
}

static void row(struct tr_page *p, const struct tr_comparison *c, const struct tr_contender *x)
{
    char text[TR_PAGE_TEXT];
    tr_page_cell(p, x->name, NAN);
    tr_page_cell(p, *x->how ? x->how : "-", NAN);
    number(p, x->runs, "%.6f", x->runs ? x->reports[x->options.steps - 1].loss : NAN);
    tr_page_cell(p, verdict(x), NAN);
    number(p, x->runs, "%.1f ms", x->ms);
    number(p, x->runs, "%.1f ms", tr_compare_spread(x));
    number(p, x->would.n > 0, "%.1f ms", 1e3 * x->would.end);
    number(p, x->runs, "%.0f %%", 100 * x->exposed);
    number(p, x->runs, "%.0f %%", 100 * x->measured);
    tr_page_cell(p, tr_page_bytes((double)x->sent_all, text), (double)x->sent_all);
    tr_page_cell(p, tr_page_bytes((double)tape_of(x)->arena, text), (double)tape_of(x)->arena);
    number(p, true, "%.1f %%", 100 * x->extra / (x->flops - x->extra));
    if (c->base.shown.memory || c->base.shown.host_memory)
        tr_page_cell(p, x->fits ? "fits" : x->cure, NAN);
}

static void say_best(struct tr_page *p, const struct tr_comparison *c)
{
    int fast = -1, small = 0, quiet = -1, equal = 0, ran = 0;
    char a[TR_PAGE_TEXT], b[TR_PAGE_TEXT];
    for (int i = 0; i < c->shown; i++) {
        const struct tr_contender *x = &c->all[i];
        ran += x->runs, equal += x->runs && tr_verdict_equal(&x->verdict);
        if (x->runs && (fast < 0 || x->ms < c->all[fast].ms))
            fast = i;
        small = tape_of(x)->arena < tape_of(&c->all[small])->arena ? i : small;
        if (x->sent_all && (quiet < 0 || x->sent_all < c->all[quiet].sent_all))
            quiet = i;
    }
    if (fast < 0) {
        tr_page_say(p, "None of the %d configurations ran.", c->shown);
        return;
    }
    tr_page_say(p,
        "%d of the %d that ran have all bits of one device, losses, gradients and parameters. "
        "Fastest here is %s, %.1f ms a step; least memory needs %s, %s on a rank%s%s%s%s.",
        equal, ran, c->all[fast].name, c->all[fast].ms, c->all[small].name,
        tr_page_bytes((double)tape_of(&c->all[small])->arena, a), quiet < 0 ? "" : "; of those on ranks ",
        quiet < 0 ? "" : c->all[quiet].name, quiet < 0 ? "" : " sends least, ",
        quiet < 0 ? "" : tr_page_bytes((double)c->all[quiet].sent_all, b));
}

static void table(struct tr_page *p, const struct tr_comparison *c)
{
    static const char *const heads[] = { "paradigm", "options", "loss", "verdict", "step", "spread",
        "simulated", "in messages", "bubble", "sent", "memory", "extra work" };
    tr_page_section(p, "All configurations");
    say_best(p, c);
    for (int k = 0; k < 12; k++)
        tr_page_head(p, heads[k], k < 2 || k == 3);
    if (c->base.shown.memory || c->base.shown.host_memory)
        tr_page_head(p, "limits", true);
    tr_page_table(p);
    for (int i = 0; i < c->shown; i++)
        row(p, c, &c->all[i]);
    tr_page_table_end(p);
    tr_page_say(p,
        "Step: the median of the timed steps, and the spread between their quartiles; simulated: with a %s "
        "for each rank. In messages: the part of a step that ranks spend in collectives. Bubble: the part of "
        "the pipeline's time that ranks wait. Sent: by all ranks in a step, at least. Memory: of the rank "
        "that "
        "needs most.",
        tr_compare_place(c));
    for (int i = 0; i < c->n_left_out; i++)
        tr_page_say(p, "Left out, %s: %s.", c->left_out[i].name, c->left_out[i].why);
    for (int i = 0; i < c->shown; i++)
        if (*c->all[i].found.text)
            tr_page_say(p, "%s: %s.", c->all[i].name, c->all[i].found.text);
}

void tr_compare_page(const struct tr_comparison *c, bool markdown, FILE *to)
{
    struct tr_page p;
    const struct tr_graph *g = &c->all[0].prepared.run.graph;
    int places = tr_compare_places(c);
    char title[160], memory[32], where[TR_COMPARE_WHERE];
    snprintf(
        title, sizeof title, "%s on %ld ranks: paradigms side by side", c->base.model.name, c->base.ranks);
    tr_page_begin(&p, to, markdown, title);
    tr_page_say(&p,
        "%" PRId64 " layers of %" PRId64 " channels, a batch of %d, %ld steps with %s, on %s%s%s%s.",
        g->layers, g->channels, c->base.plan.batch, c->base.steps,
        c->base.plan.optimizer.sgd ? "SGD" : "AdamW", tr_compare_where(c, where),
        c->base.shown.memory ? "; a rank may have " : "",
        c->base.shown.memory ? tr_bytes_text(c->base.shown.memory, memory) : "",
        c->base.shown.memory ? " bytes of memory" : "");
    if (c->base.ranks > places)
        tr_page_say(&p, "%ld ranks share %d %s%s: measured times are no measurement of scaling.",
            c->base.ranks, places, tr_compare_place(c), places == 1 ? "" : "s");
    if (markdown)
        say_best(&p, c);
    else
        table(&p, c);
    if (markdown && c->form == TR_COMPARE_PARADIGMS)
        tr_compare_rows(c, true, to);
    tr_page_times(&p, c);
    tr_page_memory(&p, c);
    tr_page_sends(&p, c);
    tr_page_losses(&p, c);
    tr_page_textbook(&p, c);
    tr_page_end(&p);
}

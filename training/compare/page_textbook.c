/* SPDX-License-Identifier: BSD-3-Clause */
/* page_textbook.c: the figures and tables that introductions to parallel training have, with this run's
 * numbers: a product cut in three ways; model, data and tensor parallelism beside each other; a sequence that
 * is cut; data against model parallelism in six rows; parameter servers against a ring. */
#include "training/compare/page.h"

#include "training/page/chart.h"
#include "training/page/sketch.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct tr_tape *tape_of(const struct tr_contender *x)
{
    return tr_tapes_of(x->prepared.tapes, x->largest);
}

/* ---- a product ---- */

/* The largest matrix of the first layer; -1: none has one. */
static int matrix_of(const struct tr_graph *g)
{
    int found = -1;
    int64_t most = 0;
    for (int n = 0; n < g->n_tensors; n++) {
        const struct tr_tensor *t = &g->tensors[n];
        if (t->role == TR_PARAMETER && t->dims == 2 && !strncmp(t->name, "layer0.", 7) &&
            t->size[0] * t->size[1] > most)
            found = n, most = t->size[0] * t->size[1];
    }
    return found;
}

static double bytes_of(const struct tr_contender *x, int parameter)
{
    const struct tr_tape *t = x ? tr_tapes_of(x->prepared.tapes, 0) : NULL;
    for (int n = 0; t && n < t->n_states; n++)
        if (t->states[n].parameter == parameter)
            return (double)t->values[t->states[n].values].bytes;
    return 0;
}

static void product(struct tr_page *p, const struct tr_comparison *c)
{
    static const char *const titles[] = { "Rows of X: data parallel", "Columns of W: tensor parallel",
        "Along the sum: tensor parallel, the layer after" };
    const struct tr_graph *g = &c->all[0].prepared.run.graph;
    const struct tr_contender *of[] = { tr_page_alone(c, "dp"), tr_page_alone(c, "tp"),
        tr_page_alone(c, "tp") };
    int w = matrix_of(g);
    if (w < 0 || g->grid || (!of[0] && !of[1]))
        return;
    long rows = (long)(c->base.plan.batch * g->context), inner = (long)g->tensors[w].size[1],
         columns = (long)g->tensors[w].rows;
    tr_page_say(p,
        "One product, %s of this model, cut over %ld ranks in the three ways there are (figure 7-1).",
        g->tensors[w].name, c->base.ranks);
    tr_page_figures(p);
    for (int k = 0; k < 3; k++) {
        char mine[TR_PAGE_TEXT], all[TR_PAGE_TEXT];
        double whole = 4.0 * (double)(g->tensors[w].size[0] * g->tensors[w].size[1]);
        if (!of[k])
            continue;
        tr_page_figure(p, "product", titles[k]);
        if (!p->markdown)
            tr_sketch_product(p->to, rows, k == 2 ? columns : inner, k == 2 ? inner : columns,
                (int)c->base.ranks, (enum tr_sketch_cut)k);
        tr_page_figure_end(p, "Each rank has %s of the %s of W, %s.", tr_page_bytes(bytes_of(of[k], w), mine),
            tr_page_bytes(whole, all),
            k == 0 ? "and its part of the rows; what is sent are gradients of W, to be summed up"
            : k == 1
                ? "and all rows; each column of the result is on one rank, and nothing is sent before the "
                  "product that is cut along the sum"
                : "and a part of each sum; an all-reduce of the result makes them whole");
    }
    tr_page_figures_end(p);
}

/* ---- model, data, tensor; a sequence ---- */

static void paradigms(struct tr_page *p, const struct tr_comparison *c)
{
    static const struct {
        const char *word, *title, *what;
    } of[] = { { "mp", "Model parallel: layers in a row", "computes while the others wait" },
        { "dp", "Data parallel: replicas", "has all of the model and a part of the batch" },
        { "tp", "Tensor parallel: a part of each layer", "has a part of each matrix and all of the batch" } };
    tr_page_say(p, "A model on %ld ranks (figure 7-2), and a sequence (figure 7-3):", c->base.ranks);
    tr_page_figures(p);
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        const struct tr_contender *x = tr_page_alone(c, of[k].word);
        char stored[TR_PAGE_TEXT], sent[TR_PAGE_TEXT], time[TR_PAGE_TEXT], took[2 * TR_PAGE_TEXT];
        if (!x)
            continue;
        tr_page_figure(p, of[k].word, of[k].title);
        if (!p->markdown)
            tr_sketch_model(p->to, (int)x->prepared.run.graph.layers, x->prepared.run.plan.mesh.n,
                (enum tr_sketch_share)k);
        snprintf(took, sizeof took, x->runs ? "%s a step here" : "it did not run here%s",
            x->runs ? tr_page_time(x->ms / 1e3, time) : "");
        tr_page_figure_end(p, "A rank %s: parameters of %s; all send %s in a step; %s.", of[k].what,
            tr_page_bytes((double)tape_of(x)->peak[TR_MEM_PARAMETER], stored),
            tr_page_bytes((double)x->sent_all, sent), took);
    }
    tr_page_figures_end(p);
}

static void sequence(struct tr_page *p, const struct tr_comparison *c)
{
    const struct tr_contender *x = tr_page_alone(c, "cp"), *one = &c->all[0];
    const struct tr_graph *g = &one->prepared.run.graph;
    char act[TR_PAGE_TEXT], alone[TR_PAGE_TEXT], par[TR_PAGE_TEXT];
    if (!x || g->grid || one->prepared.run.plan.mesh.n > 1)
        return;
    int n = x->prepared.run.plan.mesh.n;
    tr_page_figures(p);
    tr_page_figure(p, "cp", "Sequence parallel: tokens over ranks");
    if (!p->markdown)
        tr_sketch_sequence(p->to, (long)g->context, n);
    tr_page_figure_end(p,
        "Each of %d ranks has %" PRId64 " of %" PRId64
        " tokens and the whole model, %s. Activations are %s on a rank, and %s on one device.",
        n, g->context / n, g->context, tr_page_bytes((double)tape_of(x)->peak[TR_MEM_PARAMETER], par),
        tr_page_bytes((double)tape_of(x)->peak[TR_MEM_ACTIVATION], act),
        tr_page_bytes((double)tape_of(one)->peak[TR_MEM_ACTIVATION], alone));
    tr_page_figures_end(p);
}

/* ---- six rows ---- */

static void six_rows(struct tr_page *p, const struct tr_comparison *c)
{
    static const char *const words[] = { "mp", "dp", "tp" };
    struct tr_contender *of = tr_new(4, sizeof *of);
    struct tr_comparison few = { .base = c->base, .form = TR_COMPARE_PARADIGMS, .all = of, .n = 1 };
    char text[TR_COMPARE_ROW];
    const char *name;
    of[0] = c->all[0]; /* what is best and worst is told of these alone */
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        const struct tr_contender *x = tr_page_alone(c, words[k]);
        if (x)
            of[few.n++] = *x;
    }
    few.shown = few.n;
    if (few.n > 1 && c->all[0].prepared.run.plan.mesh.n == 1) {
        tr_page_say(p, "The same against each other, in the six rows of textbooks:");
        tr_page_head(p, "", true);
        for (int i = 0; i < few.n; i++)
            tr_page_head(p, of[i].name, true);
        tr_page_table(p);
        for (int r = 0; (name = tr_compare_row_name(r)); r++) {
            tr_page_cell(p, name, NAN);
            for (int i = 0; i < few.n; i++)
                tr_page_cell(p, tr_compare_row(&few, r, &of[i], text), NAN);
        }
        tr_page_table_end(p);
    }
    free(of);
}

/* ---- servers and rings ---- */

enum { POINTS = TR_COMPARE_WORKERS };
struct side {
    double workers[POINTS], bytes[POINTS], faster[POINTS], would[POINTS];
    int n;
};

static void add_point(struct side *s, const struct tr_contender *x, const struct tr_contender *one)
{
    struct tr_flow f = tr_compare_ledger(&x->prepared);
    if (s->n == POINTS)
        return;
    s->workers[s->n] = (double)x->options.plan.sizes.dp;
    s->bytes[s->n] = (double)(f.in + f.out) / 1e6;
    s->faster[s->n] = x->runs && one->runs ? one->ms / x->ms : NAN;
    s->would[s->n++] = x->would.n && one->would.n ? one->would.end / x->would.end : NAN;
}

/* The ring of one worker, with which all are compared. */
static const struct tr_contender *one_worker(const struct tr_comparison *c)
{
    for (int i = 0; i < c->n; i++) {
        const struct tr_contender *x = &c->all[i];
        if ((x->aside || c->form == TR_COMPARE_SERVER) && !x->options.plan.sizes.servers &&
            x->options.plan.sizes.dp == 1)
            return x;
    }
    return NULL;
}

static void draw_bytes(struct tr_page *p, const struct side *server, const struct side *ring)
{
    int s = server->n - 1, r = ring->n - 1;
    struct tr_curve curves[] = { { server->workers, server->bytes, server->n, 1, true, false },
        { ring->workers, ring->bytes, ring->n, 0, true, false } };
    tr_page_figure(p, "hottest", "Bytes of the busiest rank in a step, in and out");
    if (!p->markdown)
        tr_chart_curves(p->to, curves, 2, &(struct tr_axes){ "workers", "MB", true, true });
    tr_page_figure_end(p,
        "With %.0f workers the server has %.2f MB in a step, and a rank of the ring %.2f MB: %.1f times as "
        "many.",
        server->workers[s], server->bytes[s], ring->bytes[r], server->bytes[s] / ring->bytes[r]);
}

static void draw_faster(
    struct tr_page *p, const struct tr_comparison *c, const struct side *server, const struct side *ring)
{
    int s = server->n - 1, r = ring->n - 1;
    double best = NAN, at = 0;
    struct tr_curve curves[] = { { ring->workers, ring->workers, ring->n, 5, false, true },
        { ring->workers, ring->would, ring->n, 0, false, true },
        { server->workers, server->would, server->n, 1, false, true },
        { ring->workers, ring->faster, ring->n, 0, true, false },
        { server->workers, server->faster, server->n, 1, true, false } };
    for (int i = 0; i < ring->n; i++)
        if (isfinite(ring->faster[i]))
            best = ring->faster[i], at = ring->workers[i];
    tr_page_figure(p, "speed-up", "Speed-up by workers, the same batch");
    if (!p->markdown)
        tr_chart_curves(p->to, curves, 5, &(struct tr_axes){ "workers", "times as fast", true, true });
    char measured[160] = "", few[80];
    snprintf(
        few, sizeof few, "; these share fewer %ss, which is no measurement of scaling", tr_compare_place(c));
    if (isfinite(best))
        snprintf(measured, sizeof measured, " Measured, the ring of %.0f is %.2f times as fast%s.", at, best,
            at > tr_compare_places(c) ? few : "");
    tr_page_figure_end(p,
        "Dashed, simulated with a %s for each: with %.0f workers the ring is %.1f times as fast as one, "
        "and "
        "the server %.1f times; grey would be as many times as workers.%s",
        tr_compare_place(c), server->workers[s], ring->would[r], server->would[s], measured);
}

static void say_busiest(struct tr_page *p, const struct side *server, const struct side *ring)
{
    tr_page_say(p, "A parameter server, to which all workers push and from which all pull, against a ring:");
    static const char *const heads[] = { "workers", "busiest, server", "busiest, ring", "the server has" };
    for (int k = 0; k < 4; k++)
        tr_page_head(p, heads[k], false);
    tr_page_table(p);
    for (int i = 0; i < server->n && i < ring->n; i++) {
        char text[4][TR_PAGE_TEXT];
        snprintf(text[0], sizeof text[0], "%.0f", server->workers[i]);
        snprintf(text[3], sizeof text[3], ring->bytes[i] > 0 ? "%.2f times" : "-",
            server->bytes[i] / ring->bytes[i]);
        tr_page_cell(p, text[0], server->workers[i]);
        tr_page_cell(p, tr_page_bytes(server->bytes[i] * 1e6, text[1]), server->bytes[i] * 1e6);
        tr_page_cell(p, tr_page_bytes(ring->bytes[i] * 1e6, text[2]), ring->bytes[i] * 1e6);
        tr_page_cell(p, text[3], NAN);
    }
    tr_page_table_end(p);
}

static void draw_ways(struct tr_page *p, const struct side *server, const struct side *ring)
{
    static const char *const names[] = { "server", "ring" };
    int last = ring->n - 1;
    for (int k = 0; k < 2; k++) {
        tr_page_figure(p, names[k], k ? "A ring: no centre" : "A server: all through one rank");
        if (!p->markdown)
            tr_sketch_ways(p->to, 4, !k);
        if (k)
            tr_page_figure_end(p,
                "Each rank sends to its neighbour alone: in and out are less than %.2f MB, however many "
                "there are.",
                ring->bytes[last] * ring->workers[last] / (ring->workers[last] - 1));
        else
            tr_page_figure_end(p, "What goes through the server grows with the workers: %.2f MB for each.",
                server->bytes[server->n - 1] / server->workers[server->n - 1]);
    }
}

static void servers(struct tr_page *p, const struct tr_comparison *c)
{
    static const char *const colours[] = { "ring", "server" };
    struct side server = { .n = 0 }, ring = { .n = 0 };
    const struct tr_contender *one = one_worker(c);
    for (int i = 0; i < c->n && one; i++) {
        const struct tr_contender *x = &c->all[i];
        if (x->aside || c->form == TR_COMPARE_SERVER)
            add_point(x->options.plan.sizes.servers ? &server : &ring, x, one);
    }
    if (server.n < 2 || ring.n < 2 || server.workers[server.n - 1] != ring.workers[ring.n - 1])
        return;
    say_busiest(p, &server, &ring);
    tr_page_key(p, 'k', colours, 2);
    tr_page_figures(p);
    draw_ways(p, &server, &ring);
    draw_bytes(p, &server, &ring);
    draw_faster(p, c, &server, &ring);
    tr_page_figures_end(p);
}

void tr_page_textbook(struct tr_page *p, const struct tr_comparison *c)
{
    if (c->form == TR_COMPARE_ALL || c->form == TR_COMPARE_PARADIGMS) {
        tr_page_section(p, "The figures of textbooks, from this run");
        tr_page_say(
            p, "Numbers of figures are those of chapter 7 of Sebastian Raschka's Machine Learning Q and AI.");
        product(p, c);
        paradigms(p, c);
        sequence(p, c);
        six_rows(p, c);
    } else if (c->form == TR_COMPARE_SERVER)
        tr_page_section(p, "Servers against rings");
    servers(p, c);
}

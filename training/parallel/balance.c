/* SPDX-License-Identifier: BSD-3-Clause */
/* balance.c: cutting layers over stages, by a list or by price. */
#include "training/parallel/balance.h"

#include "training/model/op.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- prices ---- */

/* Of each unit: the embedding's end, the layers, the head's end. */
static struct tr_stage_costs *price_units(const struct tr_graph *g)
{
    struct tr_stage_costs *to = tr_new((size_t)g->layers + 2, sizeof *to);
    for (int n = 0; n < g->n_nodes; n++) {
        const struct tr_node *node = &g->nodes[n];
        int64_t last = g->layers + 1, unit = node->unit < 0 ? 0 : node->unit < last ? node->unit : last;
        double flops = tr_flops(g, node);
        *(node->phase == TR_FORWARD    ? &to[unit].f
            : node->phase == TR_WEIGHT ? &to[unit].w
                                       : &to[unit].i) += flops;
    }
    return to;
}

void tr_price_stages(const struct tr_graph *g, const int *layers, int stages, struct tr_stage_costs *to)
{
    struct tr_stage_costs *units = price_units(g);
    int64_t unit = 0;
    for (int s = 0; s < stages; s++) {
        int64_t end = s + 1 < stages ? unit + layers[s] + (s == 0) : g->layers + 2;
        to[s] = (struct tr_stage_costs){ 0 };
        for (; unit < end; unit++)
            to[s].f += units[unit].f, to[s].i += units[unit].i, to[s].w += units[unit].w;
    }
    free(units);
}

double tr_price_layer(const struct tr_graph *g)
{
    struct tr_stage_costs *units = price_units(g);
    double price = units[1].f;
    free(units);
    return price;
}

/* ---- the cut ---- */

/* The cheapest cuts of the first layers over the first stages. */
struct cutting {
    int64_t layers;
    int stages;
    double *upto; /* price of all units before layer l */
    double *dearest; /* [stage][layers so far]: the least that the dearest stage costs */
    double *squares; /* the same: the least sum of squares, where no stage costs more than the limit */
    int *from; /* the same: layers before this stage in that cut */
};

/* Of a stage with layers from..to; the first and the last have the ends. */
static double price(const struct cutting *c, int stage, int64_t from, int64_t to)
{
    double end = c->upto[stage + 1 == c->stages ? c->layers + 1 : to];
    return end - (stage ? c->upto[from] : 0);
}

static double *cell(const struct cutting *c, double *of, int stage, int64_t layers)
{
    return &of[(int64_t)stage * (c->layers + 1) + layers];
}

/* Fills a table stage by stage; each stage has a layer at least. limit < 0: the dearest stage counts, else
 * the squares under that limit. */
static void fill(struct cutting *c, double limit)
{
    const double never = 1e300;
    double *of = limit < 0 ? c->dearest : c->squares;
    for (int s = 0; s < c->stages; s++)
        for (int64_t to = 0; to <= c->layers; to++) {
            double best = never;
            for (int64_t from = s ? 0 : to; from <= (s ? to - 1 : to); from++) {
                double before = s ? *cell(c, of, s - 1, from) : to ? 0 : never;
                double x = price(c, s, s ? from : 0, to);
                double sum = limit < 0 ? (x > before ? x : before) : x > limit ? never : before + x * x;
                if (before < never && sum < best) {
                    best = sum;
                    c->from[(int64_t)s * (c->layers + 1) + to] = (int)(s ? from : 0);
                }
            }
            *cell(c, of, s, to) = best;
        }
}

static void balance(int *layers, int64_t n, int stages, const double *units)
{
    size_t cells = (size_t)stages * ((size_t)n + 1);
    struct cutting c = { .layers = n,
        .stages = stages,
        .upto = tr_new((size_t)n + 2, sizeof(double)),
        .dearest = tr_new(cells, sizeof(double)),
        .squares = tr_new(cells, sizeof(double)),
        .from = tr_new(cells, sizeof(int)) };
    double sum = 0;
    for (int64_t u = 0; u < n + 2; u++) { /* before layer l are the first l layers and the embedding */
        sum += units[u];
        c.upto[u] = sum;
    }
    fill(&c, -1);
    fill(&c, *cell(&c, c.dearest, stages - 1, n) * (1 + 1e-12));
    for (int64_t s = stages - 1, to = n; s >= 0; s--) {
        int from = c.from[s * (n + 1) + to];
        layers[s] = (int)(to - from), to = from;
    }
    free(c.upto), free(c.dearest), free(c.squares), free(c.from);
}

static bool enough_layers(int64_t n, int stages, struct tr_error *e)
{
    return (stages <= TR_STAGES_MAX && stages <= n) ||
           tr_fail(e, "%d stages of %lld layers: legal are %lld stages at most", stages, (long long)n,
               (long long)(n < TR_STAGES_MAX ? n : TR_STAGES_MAX));
}

bool tr_cut_by_costs(int *layers, int64_t n, int stages, const double *units, struct tr_error *e)
{
    if (!enough_layers(n, stages, e))
        return false;
    balance(layers, n, stages, units);
    return true;
}

static void balance_by_price(int *layers, const struct tr_graph *g, int stages)
{
    struct tr_stage_costs *units = price_units(g);
    double *all = tr_new((size_t)g->layers + 2, sizeof *all);
    for (int64_t u = 0; u < g->layers + 2; u++)
        all[u] = units[u].f + units[u].i + units[u].w;
    balance(layers, g->layers, stages, all);
    free(units), free(all);
}

/* ---- what is asked for ---- */

const char *const tr_balance_names[TR_BALANCES] = { "even", "auto", "measured" };

bool tr_read_cut(int *layers, int64_t all, int stages, const char *list, struct tr_error *e)
{
    int64_t sum = 0, most = all ? all : TR_LAYERS_MAX;
    int n = 0;
    for (const char *at = list;; at++) {
        char *end = NULL;
        long x = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : 0;
        if (x < 1 || x > most || (*end && *end != ','))
            return tr_fail(e, "--stage-layers %s: legal is a number from 1 to %lld for each stage, as 1,1,2",
                list, (long long)most);
        if (n < stages)
            layers[n] = (int)x;
        n++, sum += x, at = end;
        if (!*at)
            break;
    }
    return (n == stages && (sum == all || !all)) ||
           tr_fail(e, "--stage-layers %s: %lld layers in %d stages; legal are %lld in %d", list,
               (long long)sum, n, (long long)(all ? all : sum), stages);
}

bool tr_cut_layers(int *layers, const struct tr_graph *g, int stages, const char *list, enum tr_balance how,
    struct tr_error *e)
{
    bool by_price = how == TR_BALANCE_AUTO;
    if (how == TR_BALANCE_MEASURED)
        return tr_fail(e, "--balance measured takes a run, and is legal with tutti-train train; legal here "
                          "are even and auto");
    if (!*list && !by_price)
        return true;
    if (*list && by_price)
        return tr_fail(e, "--stage-layers %s with --balance auto: both cut the layers; legal is one", list);
    if (!enough_layers(g->layers, stages, e))
        return false;
    if (*list)
        return tr_read_cut(layers, g->layers, stages, list, e);
    balance_by_price(layers, g, stages);
    return true;
}

void tr_cut_evenly(int *layers, const struct tr_graph *g, int stages)
{
    for (int s = 0; s < stages; s++)
        layers[s] = (int)(g->layers / stages);
}

const char *tr_cut_text(const int *layers, int stages, char text[200])
{
    int used = 0;
    text[0] = 0;
    for (int s = 0; s < stages && used < 190; s++)
        used += snprintf(text + used, 200 - (size_t)used, "%s%d", s ? "," : "", layers[s]);
    return text;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* alone.c: run the options' model, data and numbers on one rank, in this process. */
#include "training/verify/alone.h"

#include "training/commands/prepare.h"
#include "training/run/run.h"

#include <string.h>

void tr_alone_options(struct tr_options *to, const struct tr_options *from)
{
    tr_options_default(to);
    memcpy(to->model, from->model, sizeof to->model);
    to->layers = from->layers, to->channels = from->channels, to->heads = from->heads;
    to->context = from->context, to->inputs = from->inputs, to->vocabulary = from->vocabulary;
    to->untied = from->untied, to->experts = from->experts, to->top_k = from->top_k;
    to->capacity_factor = from->capacity_factor, to->aux_loss = from->aux_loss;
    memcpy(to->cnn_cut, from->cnn_cut, sizeof to->cnn_cut);
    memcpy(to->norm, from->norm, sizeof to->norm);
    memcpy(to->conv_split, from->conv_split, sizeof to->conv_split);
    to->norm_groups = from->norm_groups, to->grid = from->grid;
    to->planes = from->planes;
    memcpy(to->data, from->data, sizeof to->data);
    memcpy(to->labels, from->labels, sizeof to->labels);
    to->steps = from->steps, to->batch = from->batch, to->seed = from->seed;
    to->rate = from->rate, to->decay = from->decay, to->clip = from->clip;
    memcpy(to->optimizer, from->optimizer, sizeof to->optimizer);
    memcpy(to->precision, from->precision, sizeof to->precision);
    memcpy(to->rounding, from->rounding, sizeof to->rounding);
    if (from->offload_delay) { /* other mathematics, and so one rank's, too */
        memcpy(to->offload, tr_offload_names[TR_OFFLOAD_OPTIMIZER], sizeof "optimizer");
        to->offload_delay = from->offload_delay;
    }
    if (!strcmp(from->cp_map, tr_cp_map_names[TR_CP_STRIPED])) /* the order of tokens is that of all */
        memcpy(to->cp_map, from->cp_map, sizeof to->cp_map);
    to->dp = 1;
}

/* Whether the options are those of such a run: one rank, one micro-batch, and nothing of parallelism. */
static bool is_alone(const struct tr_options *o)
{
    struct tr_options alone;
    char mine[TR_OPTION_TEXT], other[TR_OPTION_TEXT];
    tr_alone_options(&alone, o);
    alone.dp = o->dp == 1 ? 1 : 0, alone.ranks = o->ranks == 1 ? 1 : 0;
    alone.json = o->json, alone.markdown = o->markdown; /* what is shown, or has the same bits */
    memcpy(alone.memory, o->memory, sizeof alone.memory);
    memcpy(alone.kernels, o->kernels, sizeof alone.kernels);
    return tr_options_same(o, &alone, mine, other);
}

bool tr_compares_alone(const struct tr_options *o)
{
    bool local = o->cp > 1 && !strcmp(o->cp_attention, tr_cp_form_names[TR_CP_LOCAL]);
    return strcmp(o->precision, "float32") && !is_alone(o) && !local;
}

static bool run(
    struct tr_golden *g, const struct tr_prepared *p, struct tr_runner *r, long steps, struct tr_error *e)
{
    const struct tr_graph *graph = &p->run.graph;
    for (long s = 0; s < steps; s++) {
        if (!tr_runner_step(r, e))
            return false;
        g->loss[s] = r->result.loss, g->norm[s] = r->result.norm;
        for (int t = 0; t < graph->n_tensors; t++) {
            if (graph->tensors[t].role != TR_PARAMETER || graph->tensors[t].values_of != t)
                continue;
            if (s == 0)
                tr_runner_read(r, t, 1, g->gradients + tr_golden_offset(graph, t));
            if (s + 1 == steps)
                tr_runner_read(r, t, 0, g->values + tr_golden_offset(graph, t));
        }
    }
    return true;
}

bool tr_alone_make(
    struct tr_golden *g, const struct tr_options *o, const struct tr_graph *graph, struct tr_error *e)
{
    struct tr_options alone;
    struct tr_prepared p;
    struct tr_data data;
    struct tr_runner r = { .k = NULL };
    tr_alone_options(&alone, o);
    if (!tr_golden_room(g, &alone, graph, e) || !tr_prepare(&p, &alone, e))
        return false;
    bool opened = tr_open_data(&data, &alone, &p.run.graph, e);
    bool ok = opened && tr_runner_open(&r, tr_tapes_of(p.tapes, 0), tr_kernels_best(), &data, NULL, e) &&
              run(g, &p, &r, alone.steps, e);
    if (opened) {
        tr_runner_close(&r);
        tr_data_close(&data);
    }
    tr_prepared_free(&p);
    return ok;
}

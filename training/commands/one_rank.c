/* SPDX-License-Identifier: BSD-3-Clause */
/* one_rank.c: what of the options says what one rank computes. */
#include "training/commands/one_rank.h"

#include "training/parallel/paradigms.h"

#include <string.h>

void tr_one_rank_options(struct tr_options *to, const struct tr_options *from)
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

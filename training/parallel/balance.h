/* SPDX-License-Identifier: BSD-3-Clause */
/* balance.h: how many layers each stage of a pipeline has, where not all have as many.
 *
 * The slowest stage sets the pace of all. The price of a unit of the model is its FLOPs, forward and of both
 * gradients; the ends, an embedding and a head, are units, too, and cost as well. */
#ifndef TRAINING_PARALLEL_BALANCE_H
#define TRAINING_PARALLEL_BALANCE_H

#include "training/parallel/paradigms.h"
#include "training/schedule/schedule.h"

/* What a sequence costs in each stage, with these numbers of layers. */
void tr_price_stages(const struct tr_graph *g, const int *layers, int stages, struct tr_stage_costs *to);

/* The forward part of the first layer. */
double tr_price_layer(const struct tr_graph *g);

/* Sets the layers of each stage, as `list` ("1,1,1,5") or `balance` say: auto is the cut whose dearest stage
 * is cheapest, and among such cuts the most even one. With neither, all have as many, and none is set. */
bool tr_cut_layers(int *layers, const struct tr_graph *g, int stages, const char *list,
    enum tr_balance balance, struct tr_error *e);
/* The layers of each stage by a list alone: `all` together, or, with 0, as many as the list says. */
bool tr_read_cut(int *layers, int64_t all, int stages, const char *list, struct tr_error *e);
/* The same by these costs of all units: an end, the layers, and the other end. */
bool tr_cut_by_costs(int *layers, int64_t n, int stages, const double *units, struct tr_error *e);
/* As many in each. */
void tr_cut_evenly(int *layers, const struct tr_graph *g, int stages);
/* "1,1,1,5" */
const char *tr_cut_text(const int *layers, int stages, char text[200]);

#endif

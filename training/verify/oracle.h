/* SPDX-License-Identifier: BSD-3-Clause */
/* oracle.h: what asynchronous parameter servers compute in a given order, on one rank. */
#ifndef TRAINING_VERIFY_ORACLE_H
#define TRAINING_VERIFY_ORACLE_H

#include "training/verify/golden.h"
#include "training/commands/server_report.h"

/* Who is told: of each push that server 0 applied, and at the end of each parameter's values, unpadded. */
struct tr_listener {
    void (*push)(void *context, const struct tr_push *push);
    void (*values)(void *context, int parameter, float *values, int64_t count);
    void *context;
};

bool tr_oracle_run(const struct tr_options *o, const struct tr_prepared *p, const struct tr_listener *to,
    struct tr_error *e);
/* The same as what the golden program says of other runs: a step for each push. There are no gradients. */
bool tr_oracle_make(
    struct tr_golden *g, const struct tr_options *o, const struct tr_graph *graph, struct tr_error *e);

#endif

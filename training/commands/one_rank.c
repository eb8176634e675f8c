/* SPDX-License-Identifier: BSD-3-Clause */
/* one_rank.c: what of the options says what one rank computes. */
#include "training/commands/one_rank.h"

#include "training/parallel/paradigms.h"

#include <string.h>

void tr_one_rank_options(struct tr_options *to, const struct tr_options *from)
{
    tr_options_default(to);
    to->model = from->model;
    memcpy(to->files.data, from->files.data, sizeof to->files.data);
    memcpy(to->files.labels, from->files.labels, sizeof to->files.labels);
    to->steps = from->steps, to->seed = from->seed, to->plan.batch = from->plan.batch;
    to->plan.optimizer = from->plan.optimizer;
    to->plan.numbers.bfloat16 = from->plan.numbers.bfloat16;
    to->plan.numbers.stochastic = from->plan.numbers.stochastic;
    tr_options_bits(to, from);
    if (to->plan.offload.delay) /* other mathematics, and so one rank's, too */
        to->plan.offload.what = TR_OFFLOAD_OPTIMIZER;
    if (from->plan.tokens.map == TR_CP_STRIPED) /* the order of tokens is that of all */
        to->plan.tokens.map = TR_CP_STRIPED;
    to->plan.sizes.dp = 1;
}

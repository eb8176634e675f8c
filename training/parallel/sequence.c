/* SPDX-License-Identifier: BSD-3-Clause */
/* sequence.c: sequence parallelism inside tensor parallelism (Korthikanti et al. 2022): between the matrices
 * each rank has a part of the tokens.
 *
 *        x St -> layer norm St -> all-gather -> column, row -> P+ -> reduce-scatter -> y St
 *
 * Bytes are those of the all-reduce, but layer norms, sums and their activations are cut, too. The gradients
 * of layer norms then are sums over the tokens that are here: Pb, completed for each sequence. */
#include "training/parallel/paradigms.h"

const struct tr_paradigm tr_sequence_parallel = { "sp",
    "between the matrices each rank has a part of the tokens", TR_TP, { { "stream", "St" } } };

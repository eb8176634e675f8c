/* SPDX-License-Identifier: BSD-3-Clause */
/* call.h: one compute instruction as its function sees it: operands with their local sizes. */
#ifndef TRAINING_TAPE_CALL_H
#define TRAINING_TAPE_CALL_H

#include "training/parallel/map.h"
#include "training/tape/compute.h"

/* An operand: its memory and its local sizes. */
struct tr_operand {
    float *p;
    int64_t d[TR_DIMS];
};

struct tr_call {
    const struct tr_kernels *k;
    const struct tr_graph *g;
    const struct tr_plan *plan;
    struct tr_map map;
    const struct tr_instr *i;
    int64_t n, block; /* sequences; tokens of a block */
    int64_t runs; /* of neighbouring tokens in the part of a sequence that a rank of cp has */
    int64_t tp, tp_rank;
    int cp, cp_rank;
    struct tr_operand in[TR_INS], out[TR_OUTS];
    float *scratch;
};

/* The levels of a tree over sequences, behind the scratch of the kernel that makes its leaves. */
void tr_levels_of(const struct tr_call *c, int64_t kernel_floats, int64_t count, float *level[32]);
/* Of a weight: how many of its chunks of rows are in `local` rows, and the rows of one. */
void tr_chunks_of(const struct tr_tensor *w, int64_t local, int64_t *chunks, int64_t *chunk);

/* compute_cnn.c */
void tr_convolve(const struct tr_call *c, const struct tr_tensor *w);
void tr_convolve_gradient(const struct tr_call *c);
void tr_mean_of_cells(const struct tr_call *c);

/* compute_norm.c; false: it is no operation of group norm. Floats of scratch for so many channels. */
bool tr_group_norm(const struct tr_call *c);
int64_t tr_scratch_group_norm(int64_t width);

/* compute_attention.c */
void tr_attention(const struct tr_call *c);
void tr_split(const struct tr_call *c);
void tr_pack(const struct tr_call *c);
void tr_slice(const struct tr_call *c);

/* compute_context.c */
void tr_attention_in_parts(const struct tr_call *c);
void tr_arrange(const struct tr_call *c);
void tr_add_halves(const struct tr_call *c);

#endif

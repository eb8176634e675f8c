/* SPDX-License-Identifier: BSD-3-Clause */
/* place.h: the graph on a mesh: where each tensor's pieces lie, and the collectives that follow.
 *
 * A shard is a tensor in one placement; a tensor may have several. Rules of op.h choose for each node and
 * axis; where a node needs a shard that is not there, a step stands between that makes it from one that is.
 * The result is the same for all ranks, in the order of the graph. */
#ifndef TRAINING_PLACE_PLACE_H
#define TRAINING_PLACE_PLACE_H

#include "training/kernels/kernels.h"
#include "training/model/op.h"
#include "training/parallel/paradigms.h"

struct tr_shard {
    int tensor;
    struct tr_placement on[TR_AXES];
    bool unrounded; /* a sum that a collective made whole, before TR_ROUND */
    int next; /* shard of the tensor, in the order in which they were made; -1 */
};

enum tr_code {
    TR_COMPUTE,
    TR_ALL_REDUCE,
    TR_REDUCE_SCATTER,
    TR_ALL_GATHER,
    TR_REDUCE, /* to the group's first rank */
    TR_BROADCAST, /* from it */
    TR_ALL_TO_ALL,
    TR_SHIFT, /* round the group: to the rank `shift` behind, from the one before */
    TR_HALO, /* the first row of cells to the rank before, the last to the one behind, and theirs here */
    TR_ALL_TO_ALL_V, /* rows to the ranks of their experts, or back: exchange.h */
    TR_SEND,
    TR_RECV,
    TR_LOAD, /* tokens and targets of a micro-batch */
    TR_ACCUMULATE, /* a micro-batch's gradient enters the sum over the step */
    TR_TIE, /* the head's gradient is added to the embedding's */
    TR_NORM, /* the leaves of the gradient's norm */
    TR_LOSSES, /* the leaves of the loss */
    TR_UPDATE, /* the optimizer */
    TR_WAIT, /* until a send is over */
    TR_DOWN, /* a copy from the device's memory to the host's */
    TR_UP, /* and back */
    TR_SCORES, /* of a list that is forward alone: what is here of the scores behind a token is given out */
    TR_CODES
};

/* A tie talks, too, where its two ends are two ranks: then it has an edge. */
struct tr_code_kind {
    const char *name;
    bool talks; /* it sends, or receives */
    bool grouped; /* with all ranks of a group, named by axes */
    bool priced; /* a collective of Tutti, which tells before the first step what it will send */
};
extern const struct tr_code_kind tr_codes[TR_CODES];

struct tr_step {
    enum tr_code code;
    int op; /* TR_COMPUTE */
    enum tr_phase phase;
    int unit;
    int ins, outs;
    int in[TR_INS], out[TR_OUTS]; /* shards */
    enum tr_axis axis; /* of a collective */
    int shift; /* of a node; of a shift */
};

struct tr_placed {
    const struct tr_graph *g;
    const struct tr_plan *plan;
    const struct tr_kernels *kernels; /* that scratch is planned for */
    struct tr_shard *shards;
    struct tr_step *steps;
    int n_shards, n_steps, room_shards, room_steps;
    struct {
        int first, last; /* shards; -1: there is none */
    } * of; /* each tensor */
};

bool tr_place(struct tr_placed *p, const struct tr_graph *g, const struct tr_plan *plan,
    const struct tr_kernels *kernels, struct tr_error *e);
void tr_placed_free(struct tr_placed *p);

/* Elements that a rank holds of it, for `sequences` in the micro-batch. */
int64_t tr_shard_count(const struct tr_placed *p, int shard, int64_t sequences);
/* Of dimension i, without b. */
int64_t tr_shard_size(const struct tr_placed *p, int shard, int i);
/* Columns of logits and their like, on this tensor-parallel rank, that are no padding. */
int64_t tr_valid_columns(const struct tr_placed *p, int shard, int tp_rank);
/* Which of the vocabulary comes first there. */
int64_t tr_first_column(const struct tr_placed *p, int shard, int tp_rank);
/* Of a part of the tokens, as these placements cut them on the rank that stands at `at`: the first in the
 * sequence. Of several axes that cut, the later ones cut within the parts of the earlier ones. */
int64_t tr_first_token(
    const struct tr_placed *p, const struct tr_placement on[TR_AXES], const int at[TR_AXES]);
/* Where the second half of them begins, if that is elsewhere (Zt); else 0. */
int64_t tr_second_token(
    const struct tr_placed *p, const struct tr_placement on[TR_AXES], const int at[TR_AXES]);
/* "dp Sb, tp R", or "R". */
const char *tr_shard_text(const struct tr_placed *p, int shard, char text[64]);

/* What a collective makes of a placement: "P+" to "R" is TR_ALL_REDUCE; -1 if there is none. Between parts of
 * tokens and parts of channels there is an all-to-all, and on the side of the tokens a packing, as what goes
 * to one rank must lie together. Zigzag's collectives have a packing beside them, too. */
int tr_collective(struct tr_placement from, struct tr_placement to);
tutti_op tr_fold_op(struct tr_placement from);

#endif

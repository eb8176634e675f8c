/* SPDX-License-Identifier: BSD-3-Clause */
/* talk.h: of a rank's tape what other ranks must know of it, which is little: its calls and messages, for the
 * check of their order, and its parts of the vectors of leaves. */
#ifndef TRAINING_CHECK_TALK_H
#define TRAINING_CHECK_TALK_H

#include "training/tape/tape.h"

/* A call of a collective, a message, or a wait for one of these. */
struct tr_said {
    int number; /* in the tape */
    enum tr_code code;
    enum tr_edge edge;
    enum tr_element element; /* of what is sent, or comes */
    int axes, shift, peer, micro;
    tutti_op fold;
    int64_t count, times;
    const char *name; /* what it is about */
    int in, out; /* the first values; -1 */
    bool beside;
};

/* A part of the vector of leaves of the norm, or of the loss. */
struct tr_leaf_part {
    int number;
    enum tr_code code; /* TR_NORM, TR_LOSSES */
    int parameter, micro;
    int run; /* LOSSES: which of the rank's runs of tokens */
    int64_t place, count, times;
    int64_t shard_count; /* NORM: of the parameter's state */
    const char *name;
};

struct tr_talk {
    int rank;
    bool again; /* it goes through its list once for each worker */
    struct tr_said *said;
    struct tr_leaf_part *parts;
    int n_said, n_parts;
};

/* With nothing of the tape in it, but for names of the graph. */
void tr_talk_of(struct tr_talk *k, struct tr_tape *t);
void tr_talk_free(struct tr_talk *k);

/* All ranks of a mesh together, without numbers: each group's calls in one order, each send with its receive,
 * and no circle of waits. */
bool tr_check_talks(const struct tr_talk *talks, int n, const struct tr_mesh *mesh, struct tr_error *e);

/* Each leaf of both vectors has one owner; of each rank what it says. With `bind` it is said by another one
 * of its class, and the places are those of the rank itself. */
bool tr_check_leaves(
    const struct tr_placed *p, const struct tr_talk *const *of, int n, bool bind, struct tr_error *e);

#endif

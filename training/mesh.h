/* SPDX-License-Identifier: BSD-3-Clause */
/* mesh.h: ranks in a grid with named axes, and a communicator for each group of them.
 *
 *   pp  pipeline: stages of the model      dp  data: sequences of the batch      tp  tensor: parts of a
 *       layer
 *   cp  context: tokens of a sequence      cu  context again, inside cp: tokens, and heads in attention
 *   ep  experts, inside dp: its ranks, too, have other sequences
 *
 * The last axis runs fastest: neighbours in tp are neighbours in rank. A group is the ranks that differ in
 * some axes only, named by a mask of these. Each communicator is made once; all of them form exact sums. */
#ifndef TRAINING_MESH_H
#define TRAINING_MESH_H

#include "training/error.h"

#include "tutti.h"

#include <stdbool.h>

enum tr_axis { TR_PP, TR_DP, TR_CP, TR_ULYSSES, TR_EP, TR_TP, TR_AXES };
enum { TR_WORLD = (1 << TR_AXES) - 1, TR_DATA = 1 << TR_DP | 1 << TR_EP /* those with other sequences */ };

extern const char *const tr_axis_names[TR_AXES];

/* Parameter servers, if there are any, are the ranks behind the grid: they have no place in it. */
struct tr_mesh {
    int size[TR_AXES];
    int n; /* ranks in all, servers among them */
    int servers;
};

bool tr_mesh_make(struct tr_mesh *m, const int size[TR_AXES], int servers, struct tr_error *e);
/* Of a server: zeros. */
void tr_mesh_place(const struct tr_mesh *m, int rank, int at[TR_AXES]);
/* Which server the rank is; -1: it stands in the grid. */
int tr_mesh_server(const struct tr_mesh *m, int rank);
int tr_mesh_rank(const struct tr_mesh *m, const int at[TR_AXES]);
int tr_mesh_group_size(const struct tr_mesh *m, int axes);
/* The rank inside its group, in the order of ranks. */
int tr_mesh_group_rank(const struct tr_mesh *m, int rank, int axes);
/* "dp 2 x tp 2", or "1 rank". */
const char *tr_mesh_text(const struct tr_mesh *m, char text[64]);

/* The edges of a pipeline: between a rank and its neighbours, one for each direction of what is sent, and for
 * activations and gradients apart; so what comes by one edge comes in the order of the micro-batches. In a V
 * the second half of the stages goes back, and has edges of its own. Workers and their servers have some,
 * too. */
enum tr_edge {
    TR_NO_EDGE,
    TR_TO_NEXT, /* who sends, and then who receives */
    TR_FROM_PREVIOUS,
    TR_TO_PREVIOUS,
    TR_FROM_NEXT,
    TR_V_TO_PREVIOUS,
    TR_V_FROM_NEXT,
    TR_V_TO_NEXT,
    TR_V_FROM_PREVIOUS,
    TR_HOME, /* between the first and the last stage, which share a tied embedding */
    TR_TO_SERVER, /* a gradient is pushed; `peer` is the server, `place` the first element of its part */
    TR_FROM_SERVER, /* values are pulled, likewise */
    TR_FROM_WORKER, /* a gradient; `peer` is the worker */
    TR_TO_WORKER, /* values */
    TR_EDGES
};
struct tr_edge_kind {
    const char *name;
    int by; /* the neighbour: 1 the next rank, -1 the previous one */
    bool sends, backward; /* backward: gradients */
    bool served; /* between a worker and a parameter server */
};
extern const struct tr_edge_kind tr_edge_kinds[TR_EDGES];
/* The edge by which the neighbour receives what is sent here, or sends what is received. */
enum tr_edge tr_other_end(enum tr_edge edge);

/* How stages lie on the ranks of a pipeline: one on each; several, the last rank before the first one; or
 * two, there and back. */
enum tr_stage_layout { TR_LINE, TR_RING, TR_VEE };

/* The communicators of one rank. An edge joins two pipeline neighbours in one direction, so that what goes
 * forward never waits for what goes backward; it is a communicator of two, and the sender is its rank 0. */
struct tr_groups {
    tutti_comm *world;
    bool free_order; /* of sums in all groups but the world */
    tutti_comm *of[TR_WORLD + 1]; /* by mask; NULL: not needed, or of one rank */
    tutti_comm *beside[TR_WORLD + 1]; /* the same groups again, for calls on a host stream */
    tutti_comm *edge[TR_EDGES]; /* of the pipeline, and of a tied embedding; who sends has rank 0 */
    tutti_comm **pairs; /* a worker's with each server, a server's with each worker, who is its rank 0 */
    int n_pairs;
};

/* Groups of ranks: of each a mask of the axes along which they differ. */
struct tr_masks {
    int of[8], n;
};

/* Collective. world is not owned, and must form exact sums. masks: the groups that the tape needs. layout:
 * which edges the pipeline has. free_order: sums of the groups need not be exact. */
bool tr_groups_make(struct tr_groups *g, const struct tr_mesh *m, const struct tr_masks *masks,
    enum tr_stage_layout layout, bool free_order, tutti_comm *world, struct tr_error *e);
/* Collective, after tr_groups_make: communicators of their own for calls beside the list, so that these and
 * those of the list do not wait for each other. */
bool tr_groups_beside(
    struct tr_groups *g, const struct tr_mesh *m, const struct tr_masks *masks, struct tr_error *e);
/* The first communicator that has failed, or NULL. */
tutti_comm *tr_groups_failed(const struct tr_groups *g);
void tr_groups_free(struct tr_groups *g);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* generators.h: the generators by name, for the registry alone. */
#ifndef TT_ALGORITHMS_GENERATORS_H
#define TT_ALGORITHMS_GENERATORS_H
#include "base/schedule.h"

void tt_all_reduce_ring(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_reduce_doubling(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_reduce_halving(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_reduce_tree(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_reduce_double_tree(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_reduce_circulant(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_reduce_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_reduce_hierarchical_circulant(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_reduce_hierarchical_doubling(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_reduce_one_shot(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_reduce_direct(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_reduce_star(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_scatter_ring(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_scatter_circulant(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_scatter_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_scatter_hierarchical_circulant(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_scatter_direct(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_gather_ring(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_gather_bruck(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_gather_circulant(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_gather_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_gather_hierarchical_circulant(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_gather_direct(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_to_all_bruck(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_to_all_pairwise(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_to_all_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_all_to_all_direct(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_gather_tree(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_gather_direct(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_scatter_tree(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_scatter_direct(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_broadcast_tree(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_broadcast_circulant(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_broadcast_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_broadcast_hierarchical_split(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_broadcast_hierarchical_circulant(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_broadcast_direct(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_broadcast_split(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_tree(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_circulant(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_hierarchical_tree(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_hierarchical_split(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_hierarchical_circulant(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_direct(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_reduce_split(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_barrier_direct(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_barrier_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_barrier_hierarchical_dissemination(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_barrier_dissemination(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_point_send(struct tt_schedule *s, const struct tt_team *team, int root);
void tt_point_recv(struct tt_schedule *s, const struct tt_team *team, int root);

#endif

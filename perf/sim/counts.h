/* SPDX-License-Identifier: BSD-3-Clause */
/* counts.h: how long the blocks of a v-form are, by weights that ranks have in turn. */
#ifndef SIM_COUNTS_H
#define SIM_COUNTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_COUNTS_RANKS = 1024, SIM_WEIGHT_MAX = 1000 };
/* Shares out the elements of a vector to n ranks by "W,W,..", which begins again where there are more ranks.
 * False, with what is legal in *legal. */
bool sim_counts_read(const char *text, int n, uint64_t elements, size_t *counts, const char **legal);

#endif

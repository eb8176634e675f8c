/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.c: which set of kernels runs, and how much scratch all of them need.
 *
 * The set is chosen by what this processor has, never by what the compiler was told for the whole program:
 * one binary runs everywhere and gives the same bits everywhere. */
#include "training/kernels/sets.h"

#include <stddef.h>
#include <string.h>

/* The widest panel of b that a set packs, and what it puts behind a row of a. */
enum { MOST_PANEL = 32, MOST_TILE_ROWS = 8, MOST_PAD = 16 };

static bool runs_here(const struct tr_kernels *set)
{
    if (set == &tr_kernels_generic)
        return true;
#if defined(__x86_64__)
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (set->name && set == &tr_kernels_avx2)
        return avx2;
    if (set->name && set == &tr_kernels_avx512)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    return false;
}

static const struct tr_kernels *const sets[] = { &tr_kernels_avx512, &tr_kernels_avx2, &tr_kernels_generic };
enum { SETS = sizeof sets / sizeof *sets };

const struct tr_kernels *tr_kernels_best(void)
{
    size_t i = 0;
    while (!runs_here(sets[i])) /* generic always does */
        i++;
    return sets[i];
}

const struct tr_kernels *tr_kernels_named(const char *name)
{
    for (size_t i = 0; i < SETS; i++)
        if (runs_here(sets[i]) && !strcmp(sets[i]->name, name))
            return sets[i];
    return NULL;
}

const struct tr_kernels *tr_kernels_planned(const char *name)
{
    const struct tr_kernels *named = *name ? tr_kernels_named(name) : NULL;
    return named ? named : tr_kernels_best();
}

int64_t tr_scratch_gemm(const struct tr_gemm *g)
{
    int64_t rows = g->m < TR_GEMM_ROWS ? g->m : TR_GEMM_ROWS;
    int64_t floats = g->k * MOST_PANEL + (rows + MOST_TILE_ROWS) * (g->k + MOST_PAD);
    bool sums = g->sequences && !g->c_next;
    return sums ? tr_lines(floats) + tr_levels(g->sequences) * g->m * g->n : floats;
}

/* For the backward pass: keys and values turned, and two squares of scores; the forward pass needs less. */
int64_t tr_scratch_attention(const struct tr_attention *s)
{
    int64_t row = tr_lines(s->tokens), longest = s->tokens > s->size ? s->tokens : s->size;
    struct tr_gemm product = { .m = s->block, .n = s->tokens, .k = longest };
    return (3 * s->size + 2 * s->queries + 4) * row + tr_scratch_gemm(&product);
}

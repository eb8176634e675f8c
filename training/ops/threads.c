/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.c: this file alone is compiled with OpenMP, where configure found it. */
#include "training/ops/threads.h"

enum {
    LINE = 16, /* floats of a line of the cache: no two threads write into one */
    PIECE = 1024
};

bool tr_has_threads(void)
{
#ifdef _OPENMP
    return true;
#else
    return false;
#endif
}

/* Of elements from `from` on, whose gradient begins at g. */
static void apply(
    const struct tr_kernels *k, const struct tr_update *u, const float *g, int64_t from, int64_t count)
{
    if (u->m)
        k->adamw(u->p + from, u->m + from, u->v + from, g, count, &u->a);
    else
        k->sgd(u->p + from, g, count, u->a.rate, u->a.scale);
}

static void part(const struct tr_kernels *k, const struct tr_update *u, int64_t from, int64_t count)
{
    if (u->g) {
        apply(k, u, u->g + from, from, count);
        return;
    }
    for (int64_t n = 0; n < count; n += PIECE) {
        float g[PIECE];
        int64_t some = count - n < PIECE ? count - n : PIECE;
        k->widen(g, u->narrow + from + n, some);
        apply(k, u, g, from + n, some);
    }
}

void tr_update(const struct tr_kernels *k, const struct tr_update *u, int threads)
{
    int64_t lines = (u->count + LINE - 1) / LINE, each = (lines + threads - 1) / threads * LINE;
    if (threads == 1) {
        part(k, u, 0, u->count);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) schedule(static, 1)
#endif
    for (int i = 0; i < threads; i++) {
        int64_t from = i * each, count = u->count - from < each ? u->count - from : each;
        if (count > 0)
            part(k, u, from, count);
    }
}

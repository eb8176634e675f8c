/* SPDX-License-Identifier: BSD-3-Clause */
/* openblas.c: OpenBLAS's product behind the table of kernels.
 *
 * The library is loaded when somebody asks for it, by its name in the dynamic loader, so that tutti-train
 * needs it neither to be built nor to run. It gets one thread: a rank is a process, and there is one for each
 * core already. */
#include "training/kernels/openblas.h"

#include <dlfcn.h>
#include <stdlib.h>

/* The C interface of BLAS, with the numbers of its enumerations. */
enum { ROWS = 101, PLAIN = 111, TURNED = 112 };
typedef void product(int order, int turn_a, int turn_b, int m, int n, int k, float alpha, const float *a,
    int a_row, const float *b, int b_row, float beta, float *c, int c_row);

static struct {
    bool asked;
    product *gemm;
    const char *name;
    struct tr_kernels set;
} blas;

static void load(void)
{
    blas.asked = true;
    setenv("OPENBLAS_NUM_THREADS", "1", 0); /* else it starts threads as it is loaded */
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    void (*threads)(int);
    char *(*name)(void);
    *(void **)&blas.gemm = dlsym(library, "cblas_sgemm");
    *(void **)&threads = dlsym(library, "openblas_set_num_threads");
    *(void **)&name = dlsym(library, "openblas_get_config");
    if (threads)
        threads(1);
    blas.name = name ? name() : "OpenBLAS";
}

/* A matrix that has one row may say any stride; BLAS wants it to be a row's length at least. */
static int stride(int64_t said, int64_t length)
{
    return (int)(said > length ? said : length);
}

static void multiply(const struct tr_gemm *g)
{
    bool a_turned = g->a_column != 1, b_turned = g->b_column != 1;
    blas.gemm(ROWS, a_turned ? TURNED : PLAIN, b_turned ? TURNED : PLAIN, (int)g->m, (int)g->n, (int)g->k, 1,
        g->a, a_turned ? stride(g->a_column, g->m) : stride(g->a_row, g->k), g->b,
        b_turned ? stride(g->b_column, g->k) : stride(g->b_row, g->n), g->add ? 1 : 0, g->c, (int)g->c_row);
}

/* A sum over sequences is one over all their tokens. */
static void gemm(struct tr_context *x, const struct tr_gemm *g, float *scratch)
{
    (void)x, (void)scratch;
    struct tr_gemm one = *g;
    int64_t products = g->c_next ? g->sequences : 1;
    if (g->sequences && !g->c_next)
        one.k *= g->sequences;
    for (int64_t s = 0; s < products; s++) {
        multiply(&one);
        one.a += g->k * g->a_column, one.b += g->k * g->b_row, one.c += g->c_next;
    }
}

const char *tr_openblas(void)
{
    if (!blas.asked)
        load();
    return blas.gemm ? blas.name : NULL;
}

const struct tr_kernels *tr_kernels_free(const struct tr_kernels *base)
{
    if (!tr_openblas())
        return base;
    blas.set = *base;
    blas.set.gemm = gemm;
    blas.set.free = true;
    return &blas.set;
}

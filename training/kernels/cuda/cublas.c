/* SPDX-License-Identifier: BSD-3-Clause */
/* cublas.c: cuBLAS's product behind the table of kernels; openblas.c is the same on the processor. */
#include "training/kernels/cuda/cublas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = { "libcublas.so.13", "libcublas.so.12", "libcublas.so.11" };
enum { NAMES = sizeof names / sizeof *names };

static void *load(const char *library, char *words, size_t size)
{
    void *loaded = NULL;
    if (library)
        loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; !library && !loaded && i < NAMES; i++)
        loaded = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!loaded && library)
        snprintf(words, size, "--order free needs cuBLAS on a device, and %s cannot be loaded: %s", library,
            dlerror());
    else if (!loaded)
        snprintf(words, size,
            "--order free needs cuBLAS on a device, and the dynamic loader finds none of %s, %s and %s: "
            "install "
            "it, or put its directory into LD_LIBRARY_PATH",
            names[0], names[1], names[2]);
    return loaded;
}

bool tr_cublas_open(struct tr_cublas *b, void *stream, enum tr_cublas_precision precision,
    const char *library, char *words, size_t size)
{
    struct tr_cublas made = { .library = load(library, words, size), .precision = precision };
    tr_cublas_create *create;
    tr_cublas_set_stream *set_stream;
    int status;
    if (!made.library)
        return false;
    *(void **)&create = dlsym(made.library, "cublasCreate_v2");
    *(void **)&set_stream = dlsym(made.library, "cublasSetStream_v2");
    *(void **)&made.destroy = dlsym(made.library, "cublasDestroy_v2");
    *(void **)&made.multiply = dlsym(made.library, "cublasGemmEx");
    if (!create || !set_stream || !made.destroy || !made.multiply) {
        snprintf(words, size,
            "--order free needs cuBLAS on a device, and what is loaded by that name lacks cublasGemmEx or "
            "what "
            "goes with it");
        goto unload;
    }
    status = create(&made.handle);
    if (status) {
        snprintf(words, size, "cuBLAS cannot begin on this device: %s", tr_cublas_words(status));
        goto unload;
    }
    status = set_stream(made.handle, stream);
    if (status) {
        snprintf(words, size, "cuBLAS does not take this stream: %s", tr_cublas_words(status));
        goto destroy;
    }
    *b = made;
    return true;
destroy:
    made.destroy(made.handle);
unload:
    dlclose(made.library);
    return false;
}

void tr_cublas_close(struct tr_cublas *b)
{
    b->destroy(b->handle);
    dlclose(b->library);
    *b = (struct tr_cublas){ .library = NULL };
}

/* A matrix that has one row may say any stride; BLAS wants it to be a row's length at least. */
static int stride(int64_t said, int64_t length)
{
    return (int)(said > length ? said : length);
}

/* cuBLAS's matrices are columns, one behind the other. A matrix of rows is the turned one in its eyes, so
 * that it computes the turned c, which is the turned b by the turned a. */
static int multiply(const struct tr_cublas *b, const struct tr_gemm *g)
{
    const float one = 1, scale = g->add ? 1 : 0;
    bool a_turned = g->a_column != 1, b_turned = g->b_column != 1;
    return b->multiply(b->handle, b_turned ? TR_CUBLAS_TURNED : TR_CUBLAS_PLAIN,
        a_turned ? TR_CUBLAS_TURNED : TR_CUBLAS_PLAIN, (int)g->n, (int)g->m, (int)g->k, &one, g->b,
        TR_CUBLAS_FLOAT, b_turned ? stride(g->b_column, g->k) : stride(g->b_row, g->n), g->a, TR_CUBLAS_FLOAT,
        a_turned ? stride(g->a_column, g->m) : stride(g->a_row, g->k), &scale, g->c, TR_CUBLAS_FLOAT,
        stride(g->c_row, g->n), b->precision, TR_CUBLAS_ANY_ALGORITHM);
}

/* A sum over sequences is one over all their tokens. */
static void gemm(struct tr_context *x, const struct tr_gemm *g, float *scratch)
{
    const struct tr_cuda *c = x->self;
    if (g->m < 1 || g->n < 1 || g->k < 1) { /* no sums, of which cuBLAS says nothing */
        tr_cuda_gemm(x, g, scratch);
        return;
    }
    struct tr_gemm one = *g;
    int64_t products = g->c_next ? g->sequences : 1;
    if (g->sequences && !g->c_next)
        one.k *= g->sequences;
    for (int64_t s = 0; s < products && !x->status; s++) {
        int status = multiply(c->blas, &one);
        if (status)
            x->status = TR_CUBLAS_STATUS + status;
        one.a += g->k * g->a_column, one.b += g->k * g->b_row, one.c += g->c_next;
    }
}

void tr_cuda_set_free_order(struct tr_kernels *set)
{
    set->gemm = gemm;
    set->free = true;
    set->gelu.behind_products = false;
}

/* cublasGetStatusString has names alone, and not in all versions. */
const char *tr_cublas_words(int status)
{
    static const struct {
        int status;
        const char *words;
    } known[] = {
        { 1, "cuBLAS is not initialized: is there a driver and a device?" },
        { 3, "cuBLAS cannot have the memory that it wants" },
        { 7, "cuBLAS takes no such sizes" },
        { 8, "cuBLAS does not know this device, or not these numbers on it" },
        { 11, "cuBLAS cannot reach the device's memory" },
        { 13, "a kernel of cuBLAS failed" },
        { 14, "cuBLAS failed inside" },
        { 15, "cuBLAS does not do this on this device" },
        { 16, "cuBLAS has no licence" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].status == status)
            return known[i].words;
    return "cuBLAS failed with a status that its version 13 does not know";
}

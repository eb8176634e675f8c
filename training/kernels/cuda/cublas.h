/* SPDX-License-Identifier: BSD-3-Clause */
/* cublas.h: products by cuBLAS, for who lets go of the canonical order (--order free). Their bits hang on
 * cuBLAS, its version and the device.
 *
 * The library is loaded by its name when somebody asks for it. So nothing needs cuBLAS to be built; what of
 * its interface is used stands here, and train_cuda.cu compares it with the toolkit's header. */
#ifndef TRAINING_KERNELS_CUDA_CUBLAS_H
#define TRAINING_KERNELS_CUDA_CUBLAS_H
#include <stddef.h>

#include "training/kernels/cuda/cuda_set.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cublas_api.h, with the numbers of its enumerations. A handle and a stream are pointers. */
enum {
    TR_CUBLAS_PLAIN = 0, /* CUBLAS_OP_N */
    TR_CUBLAS_TURNED = 1, /* CUBLAS_OP_T */
    TR_CUBLAS_FLOAT = 0, /* CUDA_R_32F */
    TR_CUBLAS_ANY_ALGORITHM = -1 /* CUBLAS_GEMM_DEFAULT */
};
typedef int tr_cublas_create(void **handle);
typedef int tr_cublas_destroy(void *handle);
typedef int tr_cublas_set_stream(void *handle, void *stream);
typedef int tr_cublas_multiply(void *handle, int turn_a, int turn_b, int m, int n, int k, const void *alpha,
    const void *a, int a_type, int a_column, const void *b, int b_type, int b_column, const void *beta,
    void *c, int c_type, int c_column, int compute, int algorithm);

struct tr_cublas {
    void *library, *handle;
    tr_cublas_destroy *destroy;
    tr_cublas_multiply *multiply;
    enum tr_cublas_precision precision;
};

/* On the stream; a device is the current one. library: by whose name it is loaded, NULL for cuBLAS's own
 * ones. False: words say what is missing, and nothing has to be closed. */
bool tr_cublas_open(struct tr_cublas *b, void *stream, enum tr_cublas_precision precision,
    const char *library, char *words, size_t size);
void tr_cublas_close(struct tr_cublas *b);

/* The set's products become those of the context's `blas`, which must be open. */
void tr_cuda_set_free_order(struct tr_kernels *set);

/* A status of the context from here on is one of cuBLAS, and this more. */
enum { TR_CUBLAS_STATUS = 1 << 20 };
const char *tr_cublas_words(int status);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda.h: devices: the library of their kernels, which is loaded when somebody asks for it, and a device that
 * this process uses. */
#ifndef TRAINING_BACKEND_CUDA_H
#define TRAINING_BACKEND_CUDA_H

#include "training/backend/backend.h"
#include "training/kernels/cuda/cublas.h"
#include "training/kernels/cuda/cuda_set.h"

/* libtutti_train_cuda.so beside libtutti, or installed; or the one that the environment names. It stays
 * loaded. No device is touched, so ranks may be forked afterwards. NULL: the error says what is missing. */
const struct tr_cuda_library *tr_cuda_load(struct tr_error *e);

struct tr_device {
    struct tr_kernels set; /* first: who has the set, as back ends do, has the device */
    const struct tr_cuda_library *library;
    int number;
    struct tr_cuda_facts facts;
    enum tr_cublas_precision precision; /* of a set in free order */
    const char *tuning; /* a file; NULL: tiles go by the rule */
};

/* This thread uses the device from now on. The set's contexts are to be opened by it. */
bool tr_device_use(
    struct tr_device *d, const struct tr_cuda_library *library, int number, struct tr_error *e);

/* Before its set has contexts: products are cuBLAS's, with factors of this precision; or tiles are those of
 * the file, and what that lacks is measured by contexts until they are told to keep it. */
void tr_device_free_order(struct tr_device *d, enum tr_cublas_precision precision);
void tr_device_tune(struct tr_device *d, const char *file);
/* Ends the measuring, and writes the file if something was measured and it is this rank's to write. */
bool tr_device_keep(struct tr_context *x, bool writes, struct tr_error *e);

extern const struct tr_backend tr_backend_cuda; /* of such a set */

/* What a context takes of the device, beside what it is asked for. */
enum { TR_DEVICE_OWN_BYTES = TR_CUDA_WORKSPACE_LEAST * sizeof(float) };

#endif

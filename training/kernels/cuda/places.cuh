/* SPDX-License-Identifier: BSD-3-Clause */
/* places.cuh: which token stands in which place, as training/kernels/kernels.h and stripes.h say. */
#ifndef TRAINING_KERNELS_CUDA_PLACES_CUH
#define TRAINING_KERNELS_CUDA_PLACES_CUH
#include "training/kernels/cuda/launch.cuh"

/* The token of the sequence that is number t of those here, of all sequences. */
INLINE int64_t token_at(const struct tr_positions &p, int64_t t)
{
    const int64_t place = p.first[t / p.tokens % p.runs] + t % p.tokens, block = p.context / 8;
    return p.striped ? place % block * 8 + stripe_of(place / block) : place;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* stripes.h: which token stands in which place, where a sequence stands in stripes (Brandon et al. 2023).
 *
 *        places    0 .. 7      8 blocks of T / 8 neighbouring places, as ever
 *        stripes   0 4 2 6 1 5 3 7      place i of stripe x has token 8 i + x
 *
 * The order is that of the numbers read backwards in bits: a half of the places has every second token, a
 * quarter every fourth, an eighth every eighth. */
#ifndef TRAINING_KERNELS_STRIPES_H
#define TRAINING_KERNELS_STRIPES_H

#include <stdint.h>

enum { TR_STRIPES = 8 };

/* The stripe that block b of the places is. */
static inline int64_t tr_stripe_of(int64_t b)
{
    return (b & 1) << 2 | (b & 2) | b >> 2;
}

static inline int64_t tr_striped_token(int64_t tokens, int64_t place)
{
    int64_t block = tokens / TR_STRIPES;
    return place % block * TR_STRIPES + tr_stripe_of(place / block);
}

#endif

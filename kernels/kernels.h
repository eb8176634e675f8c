/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.h: what combining means, for every type and operation, n-way.
 *
 * A fold computes dst[i] = s0[i] (+) s1[i] (+) ... (+) s(k-1)[i] for 1 <= k <= TT_FOLD_OPERANDS, in one of
 * two shapes:
 *   chain: ((s0 (+) s1) (+) s2) ..., in the wide type (fp32 for narrower floats), rounded once, at the store;
 *   tree:  the canonical pass-up tree: pairs (0,1) (2,3) ..., an odd one passes up; every node is rounded.
 * dst may be any one of the sources (the same pointer); otherwise nothing overlaps. Same bits on every
 * CPU: no contraction, no FTZ, DAZ or rounding mode of the caller, a number beats NaN in min and max, -0 <
 * +0, a NaN that is computed is all ones, fp8 saturates. Integers wrap modulo 2^bits. Pointers are aligned
 * to the element. k = 1 without a divisor is a copy of bits. */
#ifndef TT_KERNELS_KERNELS_H
#define TT_KERNELS_KERNELS_H
#include <stddef.h>
#include <stdint.h>

#include "tutti.h"

enum { TT_FOLD_OPERANDS = 9 };
enum tt_shape { TT_CHAIN, TT_TREE };

/* divisor: 0 or 1, nothing; else a sum is divided by it before the one rounding (tree: a second rounding, of
 * the divided root): fp types divide, integers truncate towards zero. That is how an average ends; other
 * operations do not look at it. */
typedef void (*tt_fold_fn)(void *dst, const void *const *sources, int k, size_t count, uint32_t divisor);

/* NULL if the type does not support the operation. AVG has the fold of SUM; its divisor is the caller's to
 * give. */
tt_fold_fn tt_fold_find(tutti_type type, tutti_op op, enum tt_shape shape);

/* Finds a fold of one instruction set, for tests and tutti-info; NULL if it is not compiled in or this CPU
 * lacks it. */
enum tt_isa { TT_ISA_GENERIC, TT_ISA_AVX2, TT_ISA_AVX512, TT_ISAS }; /* each includes those before it */
tt_fold_fn tt_fold_find_isa(tutti_type type, tutti_op op, enum tt_shape shape, enum tt_isa isa);
const char *tt_isa_name(enum tt_isa isa);
enum tt_isa tt_isa_best(void); /* what tt_fold_find uses */
enum tt_isa tt_isa_of(uint64_t setting); /* 0: the best; else 1 + the one that is asked for */

/* The chain of a sum, stored at dst and, if that is not NULL, at `also`, in one pass; `past`: which of the
 * two stores go past the caches (dst alone always does; tt_copy_fence as below). Both, which are equally far
 * from a multiple of 64 bytes, may be operands. NULL for what is no sum, and for types that have none. */
enum { TT_STREAM_ALSO = 1, TT_STREAM_DST = 2 };
typedef void (*tt_spread_fn)(
    void *dst, void *also, int past, const void *const *sources, int k, size_t count, uint32_t divisor);
tt_spread_fn tt_spread_find(tutti_type type, tutti_op op, enum tt_isa isa);

/* A sum of two operands of 1 to TT_FEW_BYTES bytes (base/few.h), with the bits of the fold; dst may be one of
 * them. NULL for what is no sum, and where the fold does as well. */
typedef void (*tt_few_fn)(void *dst, const void *a, const void *b, size_t bytes);
tt_few_fn tt_few_find(tutti_type type, tutti_op op, enum tt_isa isa);

/* The canonical tree over any number k of operands: the bits that `exact` promises for k ranks, AVG divided
 * once at the end. dst may be any one of the sources. TUTTI_UNSUPPORTED: the type does not support the
 * operation; TUTTI_INVALID_ARGUMENT: k < 1. The caller, who knows the call, puts it into words. */
tutti_status tt_reduce_local(
    const void *const *sources, int k, void *dst, size_t count, tutti_type type, tutti_op op);

/* dst[i] = factor * src[i], rounded once to the type: in fp32 for narrower floats; integers wrap. `factor` is
 * one element of the type, of any alignment; dst may be src, else they do not overlap. */
void tt_scale(void *dst, const void *src, size_t count, tutti_type type, const void *factor);

/* to[i] = from[i]: float32 to float16 or bfloat16, or back; nothing overlaps. NULL for other types, and of an
 * instruction set that is not here. */
typedef void (*tt_convert_fn)(void *to, const void *from, size_t count);
tt_convert_fn tt_convert_find(tutti_type from, tutti_type to, enum tt_isa isa);

/* Copy: through the caches, for what will be read soon, into lines that this core has; and past them, for
 * what this core does not read again. What was streamed may become visible late: tt_copy_fence stands between
 * the last of it and the store that tells another thread of it. */
void tt_copy_bytes(void *dst, const void *src, size_t bytes);
void tt_copy_stream(void *dst, const void *src, uint64_t bytes);
void tt_copy_fence(void);

#endif

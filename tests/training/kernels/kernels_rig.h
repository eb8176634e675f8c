/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels_rig.h: what tests of kernels share: the sets that this machine runs, random numbers, arrays that
 * notice who writes behind them, and the sums of the golden program in plain scalar code. */
#ifndef TESTS_TRAINING_KERNELS_RIG_H
#define TESTS_TRAINING_KERNELS_RIG_H
#include <stdbool.h>
#include <stdint.h>

#include "training/kernels/kernels.h"

/* The last one is the set for a device, emulated. */
enum { RIG_SETS = 4, RIG_EMULATED = RIG_SETS - 1 };
extern const char *const rig_sets[RIG_SETS];
/* Where the kernels of that set run; its k is NULL where this machine has none of it. */
struct tr_context *rig_context(int set);
/* Of the emulated set, whose threads take turns in another order each time, with another device in mind. */
void rig_emulate(struct tr_context *x);

/* From lo to hi, both included. */
int64_t rig_between(int64_t lo, int64_t hi);
/* 32 bits. */
uint32_t rig_word(void);

/* n floats that are aligned to 64 bytes and filled with what no result is, or with random numbers: some are
 * zeros of either sign, some are tiny. All memory is freed by rig_end, which fails where something was
 * written behind an array. */
float *rig_empty(int64_t n);
float *rig_random(int64_t n);
float *rig_copy(const float *x, int64_t n);
void rig_end(void);

/* Fails the test, and says where, unless the bits are equal. */
void rig_equal(const float *got, const float *want, int64_t n, const char *set, const char *what);

/* After gpt.c. */
float ref_exponential(float x);
void ref_tree(float *x, int64_t n, int64_t stride, int64_t width);
float ref_sum_row(const float *x, int64_t n);
float ref_dot_row(const float *x, const float *y, int64_t n);
void ref_gemm(const struct tr_gemm *g);

/* Of the paper: Philox4x32-10 of a counter and a key. */
void ref_philox(uint32_t c[4], uint32_t key, uint32_t other);
#endif

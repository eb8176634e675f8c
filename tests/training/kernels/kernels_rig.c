/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels_rig.c: see kernels_rig.h. */
#include "tests/training/kernels/kernels_rig.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Emulation is slow, and so that set takes part in one of so many cases, which rig_end ends: an odd number,
 * as what tests do by turns goes by powers of two. */
enum { RARELY = 11 };
static int cases;

const char *const rig_sets[RIG_SETS] = { "generic", "avx2", "avx512", "cuda" };

struct tr_context *rig_context(int set)
{
    static struct tr_context contexts[RIG_SETS];
    contexts[set].k = tr_kernels_named(rig_sets[set]);
#ifdef EMULATED_KERNELS
    if (set == RIG_EMULATED && cases % RARELY == 0)
        rig_emulate(&contexts[set]);
#endif
    return &contexts[set];
}

enum { GUARD = 64, MOST_ARRAYS = 4096, LANES = 16, MOST_CHUNKS = 64 };
static const uint32_t untouched = 0x7fc0dead;

static struct array {
    float *memory;
    int64_t n;
} arrays[MOST_ARRAYS];
static int n_arrays;

static uint64_t state = 1;
static uint64_t random_bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 11;
}

int64_t rig_between(int64_t lo, int64_t hi)
{
    return lo + (int64_t)(random_bits() % (uint64_t)(hi - lo + 1));
}

uint32_t rig_word(void)
{
    return (uint32_t)rig_between(0, 0xFFFF) << 16 | (uint32_t)rig_between(0, 0xFFFF);
}

float *rig_empty(int64_t n)
{
    cr_assert_lt(n_arrays, MOST_ARRAYS);
    size_t bytes = (size_t)(n + GUARD + 15) / 16 * 64;
    float *memory = aligned_alloc(64, bytes);
    cr_assert_not_null(memory);
    for (size_t i = 0; i < bytes / 4; i++)
        memcpy(memory + i, &untouched, sizeof untouched);
    arrays[n_arrays++] = (struct array){ memory, n };
    return memory;
}

float *rig_random(int64_t n)
{
    float *x = rig_empty(n);
    for (int64_t i = 0; i < n; i++) {
        float value = (float)random_bits() * 0x1p-52f - 1;
        int64_t kind = rig_between(0, 40);
        x[i] = kind == 0 ? 0 : kind == 1 ? -0.0f : kind == 2 ? value * 1e-30f : value;
    }
    return x;
}

float *rig_copy(const float *x, int64_t n)
{
    return memcpy(rig_empty(n), x, (size_t)n * sizeof *x);
}

void rig_end(void)
{
    cases++;
    for (; n_arrays > 0; n_arrays--) {
        struct array *a = &arrays[n_arrays - 1];
        for (int i = 0; i < GUARD; i++)
            cr_assert(!memcmp(a->memory + a->n + i, &untouched, sizeof untouched),
                "something was written %d floats behind an array of %ld", i, (long)a->n);
        free(a->memory);
    }
}

void rig_equal(const float *got, const float *want, int64_t n, const char *set, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(got + i, want + i, sizeof *got))
            cr_assert(false, "%s of %s: element %ld of %ld is %a instead of %a", what, set, (long)i, (long)n,
                (double)got[i], (double)want[i]);
}

float ref_exponential(float x)
{
    float z = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float k = fmaf(z, 1.44269504f, 12582912.0f) - 12582912.0f;
    float f = fmaf(k, -0.693145751953125f, z);
    f = fmaf(k, -1.42860682e-6f, f);
    float p = 1.9875691500e-4f;
    p = fmaf(p, f, 1.3981999507e-3f);
    p = fmaf(p, f, 8.3334519073e-3f);
    p = fmaf(p, f, 4.1665795894e-2f);
    p = fmaf(p, f, 1.6666665459e-1f);
    p = fmaf(p, f, 5.0000001201e-1f);
    p = fmaf(p, f * f, f) + 1.0f;
    union {
        uint32_t bits;
        float number;
    } power = { (uint32_t)((int)k + 127) << 23 };
    return x < -87.0f ? 0.0f : p * power.number;
}

void ref_tree(float *x, int64_t n, int64_t stride, int64_t width)
{
    for (int64_t step = 1; step < n; step *= 2)
        for (int64_t i = 0; i + step < n; i += 2 * step)
            for (int64_t j = 0; j < width; j++)
                x[i * stride + j] = x[i * stride + j] + x[(i + step) * stride + j];
}

float ref_sum_row(const float *x, int64_t n)
{
    float lane[LANES] = { 0 };
    for (int64_t i = 0; i < n; i++)
        lane[i % LANES] += x[i];
    ref_tree(lane, LANES, 1, 1);
    return lane[0];
}

float ref_dot_row(const float *x, const float *y, int64_t n)
{
    float lane[LANES] = { 0 };
    for (int64_t i = 0; i < n; i++)
        lane[i % LANES] = fmaf(x[i], y[i], lane[i % LANES]);
    ref_tree(lane, LANES, 1, 1);
    return lane[0];
}

void ref_gemm(const struct tr_gemm *g)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float sum[MOST_CHUNKS] = { 0 }, *c = g->c + i * g->c_row + j;
            for (int64_t k = 0; k < g->k; k++)
                sum[k / g->chunk] = fmaf(g->a[i * g->a_row + k * g->a_column],
                    g->b[k * g->b_row + j * g->b_column], sum[k / g->chunk]);
            ref_tree(sum, g->chunks, 1, 1);
            *c = g->add ? *c + sum[0] : sum[0];
        }
}

void ref_philox(uint32_t c[4], uint32_t key, uint32_t other)
{
    for (int i = 0; i < 10; i++, key += 0x9E3779B9u, other += 0xBB67AE85u) {
        uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
        uint32_t next[4] = { (uint32_t)(b >> 32) ^ c[1] ^ key, (uint32_t)b,
            (uint32_t)(a >> 32) ^ c[3] ^ other, (uint32_t)a };
        memcpy(c, next, sizeof next);
    }
}

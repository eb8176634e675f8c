/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_kernels.c: how fast the folds are in the caches, and how the narrow types compare with float32.
 *
 * usage: bench_kernels [L1|L2|all [chain|tree|all [ISA]]]
 *
 * One line per instruction set, cache, shape and number of operands k: GB/s of what is read and written, and
 * behind it the ratio to float32. A machine that is shared changes its speed from one moment to the next, so
 * each type is measured right behind a float32 of the same round, and medians over the rounds are printed,
 * of the ratios too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kernels/kernels.h"

enum { ROUNDS = 31, MOST_OPERANDS = 8, MOST_BYTES = 512 << 10, RUN_NS = 60000 };

static const struct cache {
    const char *name;
    size_t bytes; /* of all operands and the result together */
} caches[] = { { "L1", 24 << 10 }, { "L2", 512 << 10 } };

static const struct type {
    const char *name;
    tutti_type type;
    size_t bytes;
} types[] = {
    { "float32", TUTTI_FLOAT32, 4 },
    { "float16", TUTTI_FLOAT16, 2 },
    { "bfloat16", TUTTI_BFLOAT16, 2 },
    { "int8", TUTTI_INT8, 1 },
    { "e4m3", TUTTI_FLOAT8_E4M3, 1 },
    { "e5m2", TUTTI_FLOAT8_E5M2, 1 },
    { "int32", TUTTI_INT32, 4 },
    { "float64", TUTTI_FLOAT64, 8 },
};
enum { TYPES = sizeof types / sizeof types[0] };

/* Small numbers of every type, none of them special: bytes of 0x38 to 0x3b, about 1 as a float. Filled again
 * for each line, because the results of one line lie where the next has operands. */
static void fill(uint8_t *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (uint8_t)(0x38 + (i * 2654435761u >> 13) % 4);
}

/* GB/s of k reads and one write, of `bytes` each. */
static double speed(tt_fold_fn fold, const struct type *t, const void *const *sources, int k, size_t bytes)
{
    void *dst = (uint8_t *)sources[k - 1] + bytes;
    int64_t begin = tt_now_ns(), end = begin;
    uint64_t calls = 0;
    do {
        for (int i = 0; i < 4; i++, calls++)
            fold(dst, sources, k, bytes / t->bytes, 0);
        end = tt_now_ns();
    } while (end - begin < RUN_NS);
    return (double)(calls * bytes * (uint64_t)(k + 1)) / (double)(end - begin);
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, rising);
    return values[ROUNDS / 2];
}

static void measure(uint8_t *memory, enum tt_isa isa, const struct cache *cache, enum tt_shape shape, int k)
{
    static double rates[TYPES][ROUNDS], ratios[TYPES][ROUNDS];
    const void *sources[MOST_OPERANDS];
    size_t bytes = cache->bytes / (size_t)(k + 1) / 64 * 64;
    for (int j = 0; j < k; j++)
        sources[j] = memory + (size_t)j * bytes;
    fill(memory, MOST_BYTES);
    tt_fold_fn base = tt_fold_find_isa(TUTTI_FLOAT32, TUTTI_SUM, shape, isa);
    for (int round = 0; round < ROUNDS; round++)
        for (int t = 0; t < TYPES; t++) {
            tt_fold_fn fold = tt_fold_find_isa(types[t].type, TUTTI_SUM, shape, isa);
            if (fold == NULL)
                continue;
            double reference = speed(base, &types[0], sources, k, bytes);
            rates[t][round] = speed(fold, &types[t], sources, k, bytes);
            ratios[t][round] = rates[t][round] / reference;
        }
    printf("%-8s %-5s %-5s %d", tt_isa_name(isa), cache->name, shape == TT_TREE ? "tree" : "chain", k);
    for (int t = 0; t < TYPES; t++)
        if (tt_fold_find_isa(types[t].type, TUTTI_SUM, shape, isa) == NULL)
            printf("  %5s     ", "-");
        else
            printf("  %5.1f %4.2f ", median(rates[t]), median(ratios[t]));
    printf("\n");
    fflush(stdout);
}

static int chosen(const char *word, const char *name)
{
    return word == NULL || strcmp(word, "all") == 0 || strcmp(word, name) == 0;
}

int main(int argc, char **argv)
{
    const char *which_cache = argc > 1 ? argv[1] : NULL, *which_shape = argc > 2 ? argv[2] : NULL;
    uint8_t *memory = aligned_alloc(4096, MOST_BYTES);
    if (memory == NULL)
        return 1;
    printf(
        "# sums: GB/s read and written, ratio to float32\n%-8s %-5s %-5s %s", "# isa", "cache", "shape", "k");
    for (int t = 0; t < TYPES; t++)
        printf("  %-10s ", types[t].name);
    printf("\n");
    for (int isa = (int)tt_isa_best(); isa >= 0; isa--)
        for (size_t c = 0; c < sizeof caches / sizeof caches[0]; c++)
            for (int shape = TT_CHAIN; shape <= TT_TREE; shape++)
                for (int k = 2; k <= MOST_OPERANDS; k *= 2)
                    if (chosen(argc > 3 ? argv[3] : NULL, tt_isa_name((enum tt_isa)isa)) &&
                        chosen(which_cache, caches[c].name) &&
                        chosen(which_shape, shape == TT_TREE ? "tree" : "chain"))
                        measure(memory, (enum tt_isa)isa, &caches[c], (enum tt_shape)shape, k);
    free(memory);
    return 0;
}

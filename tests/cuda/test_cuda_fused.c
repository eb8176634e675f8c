/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cuda_fused.c: what all fused kernels have in common, emulated: rectangles that move, at any distance
 * of their pointers; bases in memory, and the word that says to skip; the word that tells that the kernel is
 * over; offsets and counts that need 64 bits. Threads of a block run in several orders. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/dev_kernel.h"
#include "kernels/cuda/cuda_emulate.h"
#include "kernels/cuda/cuda_kernels.h"

enum { ORDERS = 4, GUARD = 32, LONGEST = 200 };

static struct tt_emulated_launch launch_of(
    enum tt_kernel kernel, tutti_type type, const struct tt_fused_params *p, uint32_t grid, uint32_t block)
{
    static uint32_t order;
    struct tt_dev_kernel found = { 0 };
    cr_assert(tt_dev_kernel_find(tt_kernel_number(kernel, type, TUTTI_SUM), &found));
    cr_assert_eq(found.params_bytes, sizeof *p);
    return (struct tt_emulated_launch){ found.function, p, grid, p->rects > 0 ? p->rects : 1, block,
        TT_EMULATE_FIBERS, order++ % ORDERS };
}

static void run(
    enum tt_kernel kernel, tutti_type type, const struct tt_fused_params *p, uint32_t grid, uint32_t block)
{
    struct tt_emulated_launch launch = launch_of(kernel, type, p, grid, block);
    tt_emulate_grid(&launch);
}

/* To two places: at `dst`, and in the middle of another region. */
static struct tt_fused_params move_of(uint8_t *dst, uint8_t *also, const uint8_t *src, uint64_t bytes)
{
    return (struct tt_fused_params){ .own = { .in = { NULL, src }, .out = { dst, NULL, also } },
        .rects = 1,
        .rect = { { .count = bytes, .sources = 2, .dsts = 5 } } };
}

Test(cuda_fused, moves_of_any_alignment)
{
    static _Alignas(64) uint8_t from[LONGEST + 64], to[2][LONGEST + 64 + 2 * GUARD], want[2][sizeof to[0]];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 7 + 1);
    for (size_t dst = 0; dst < 16; dst++)
        for (size_t src = 0; src < 16; src++)
            for (size_t bytes = 0; bytes <= LONGEST; bytes += bytes < 40 ? 1 : 13) {
                size_t also = bytes % 2 == 0 ? dst : bytes % 16;
                memset(to, 0xee, sizeof to);
                memset(want, 0xee, sizeof want);
                memcpy(want[0] + GUARD + dst, from + src, bytes);
                memcpy(want[1] + GUARD + also, from + src, bytes);
                struct tt_fused_params p =
                    move_of(to[0] + GUARD + dst, to[1] + GUARD + also, from + src, bytes);
                run(TT_KERNEL_MOVE, TUTTI_INT8, &p, 1 + (uint32_t)(bytes % 3), 5);
                cr_assert_arr_eq(
                    to, want, sizeof to, "%zu bytes from %zu to %zu, %zu (mod 16)", bytes, src, dst, also);
            }
}

/* Long moves by grids that are as large as is proposed, and smaller ones. */
Test(cuda_fused, moves_by_grids)
{
    enum { BYTES = 300000 };
    uint8_t *from = malloc(BYTES), *to = malloc(BYTES), *also = malloc(BYTES);
    for (int i = 0; i < BYTES; i++)
        from[i] = (uint8_t)(i * 2654435761u >> 24);
    for (uint32_t grid = 1; grid <= tt_fused_grid(BYTES); grid = grid * 4 + 2)
        for (int apart = 0; apart < 6; apart += 2 - apart % 2) {
            memset(to, 0, BYTES);
            memset(also, 0, BYTES);
            struct tt_fused_params p = move_of(to, also + apart, from + apart, BYTES - (uint64_t)apart);
            run(TT_KERNEL_MOVE, TUTTI_INT8, &p, grid, TT_FUSED_BLOCK);
            cr_assert_arr_eq(to, from + apart, BYTES - apart, "%u blocks", grid);
            cr_assert_arr_eq(also + apart, from + apart, BYTES - apart, "%u blocks", grid);
        }
    free(from);
    free(to);
    free(also);
}

/* What lies there already is not stored: the source may be read by others meanwhile. */
Test(cuda_fused, moves_in_place_store_nothing)
{
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), there[100];
    memset(page, 7, 4096);
    cr_assert_eq(mprotect(page, 4096, PROT_READ), 0);
    struct tt_fused_params p = move_of(page + 3, there, page + 3, sizeof there);
    run(TT_KERNEL_MOVE, TUTTI_INT8, &p, 1, 32);
    cr_expect(there[0] == 7 && there[99] == 7);
    p.rect[0].dsts = 1;
    run(TT_KERNEL_MOVE, TUTTI_INT8, &p, 1, 32);
    munmap(page, 4096);
}

Test(cuda_fused, grids_follow_the_bytes)
{
    cr_assert_eq(tt_fused_grid(0), 1);
    cr_assert_eq(tt_fused_grid(16 * TT_FUSED_BLOCK - 1), 1);
    cr_assert_geq(tt_fused_grid(1 << 20) * UINT64_C(16) * TT_FUSED_BLOCK, 1 << 20);
    cr_assert_leq(tt_fused_grid(UINT64_MAX) * (uint64_t)TT_FUSED_RECTS, UINT32_MAX, "blocks are counted");
}

/* --- Bases in memory, skipping, and the end. */

struct sum { /* three ranks, two rectangles of unequal length */
    float in[3][100], out[3][100];
    uint32_t blocks_over, over;
    struct tt_bases bases;
    struct tt_fused_params params;
};

static struct sum *sum_create(bool by_bases)
{
    struct sum *s = calloc(1, sizeof *s);
    struct tt_bases *b = by_bases ? &s->bases : &s->params.own;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 100; i++)
            s->in[k][i] = (float)(i + 1000 * k);
        b->in[k] = s->in[k];
        b->out[k] = s->out[k];
    }
    s->params.bases = by_bases ? &s->bases : NULL;
    s->params.rects = 2;
    s->params.blocks_over = &s->blocks_over;
    s->params.over = &s->over;
    s->params.over_value = 77;
    s->params.rect[0] = (struct tt_rect){ .from = 0, .to = 0, .count = 90, .sources = 7, .dsts = 7 };
    s->params.rect[1] = (struct tt_rect){ .from = 360, .to = 360, .count = 10, .sources = 7, .dsts = 5 };
    return s;
}

static void expect_sums(const struct sum *s, bool skipped)
{
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 100; i++) {
            bool stored = !skipped && (i < 90 || k != 1);
            cr_assert_eq(s->out[k][i], stored ? (float)(3 * i + 3000) : 0, "rank %d, element %d", k, i);
        }
}

Test(cuda_fused, bases_in_memory)
{
    for (int by_bases = 0; by_bases < 2; by_bases++)
        for (int skip = 0; skip < 2; skip++)
            for (uint32_t grid = 1; grid < 4; grid++) {
                struct sum *s = sum_create(by_bases);
                (by_bases ? &s->bases : &s->params.own)->skip = (uint32_t)skip;
                run(TT_KERNEL_FUSED_CHAIN, TUTTI_FLOAT32, &s->params, grid, 9);
                expect_sums(s, skip);
                cr_expect_eq(s->over, 77, "it is told, skipped or not");
                cr_expect_eq(s->blocks_over, 0, "and the next kernel counts from 0");
                free(s);
            }
}

/* The word is not written before the last block ends, whichever that is. */
Test(cuda_fused, over_is_told_by_the_last_block)
{
    enum { GRID = 3, BLOCKS = 2 * GRID };
    for (uint32_t first = 0; first < BLOCKS; first++) {
        struct sum *s = sum_create(first % 2);
        struct tt_emulated_launch launch =
            launch_of(TT_KERNEL_FUSED_CHAIN, TUTTI_FLOAT32, &s->params, GRID, 16);
        for (uint32_t i = 0; i < BLOCKS; i++) {
            cr_assert_eq(s->over, 0, "block %u ran, and it is over", (first + i - 1) % BLOCKS);
            tt_emulate_block(&launch, (first + i) % BLOCKS);
        }
        cr_assert(s->over == 77 && s->blocks_over == 0);
        expect_sums(s, false);
        free(s);
    }
}

Test(cuda_fused, nobody_is_told)
{
    struct sum *s = sum_create(false);
    s->params.over = s->params.blocks_over = NULL;
    run(TT_KERNEL_FUSED_TREE, TUTTI_FLOAT32, &s->params, 2, 16);
    expect_sums(s, false);
    free(s);
}

Test(cuda_fused, no_rectangle_at_all)
{
    struct sum *s = sum_create(true);
    s->params.rects = 0;
    run(TT_KERNEL_MOVE, TUTTI_FLOAT32, &s->params, 2, 16);
    expect_sums(s, true);
    cr_expect_eq(s->over, 77);
    free(s);
}

/* --- More than 32 bits can count. Pages that nobody touches are not there. */

enum { GIB = 1 << 30 };
static const uint64_t far = UINT64_C(5) * GIB + 4096;

static uint8_t *map(uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert_neq(at, MAP_FAILED);
    return at;
}

Test(cuda_fused, offsets_beyond_four_gib)
{
    uint8_t *in = map(far + 4096), *out = map(far + 4096);
    for (int i = 0; i < 64; i++)
        ((float *)(in + far))[i] = (float)i;
    struct tt_fused_params p = { .own = { .in = { in, in + 4 }, .out = { out, out + 1024 } },
        .rects = 1,
        .rect = { { .from = far, .to = far, .count = 60, .sources = 3, .dsts = 3 } } };
    run(TT_KERNEL_FUSED_CHAIN, TUTTI_FLOAT32, &p, 1, 32);
    for (int i = 0; i < 60; i++)
        cr_assert(((float *)(out + far))[i] == (float)(2 * i + 1) &&
                  ((float *)(out + far + 1024))[i] == (float)(2 * i + 1));
    munmap(in, far + 4096);
    munmap(out, far + 4096);
}

/* The blocks that have the end of a long vector, among those that a device would have. */
static void run_last_blocks(enum tt_kernel kernel, tutti_type type, uint64_t bytes, size_t element)
{
    uint8_t *in = map(bytes + 64), *out = map(bytes + 64);
    for (uint64_t i = bytes - 4096; i < bytes; i++)
        in[i] = (uint8_t)(i % 251);
    for (size_t shift = 0; shift <= element; shift += element) {
        struct tt_fused_params p = { .own = { .in = { in }, .out = { out + shift } },
            .rects = 1,
            .rect = {
                { .count = bytes / (kernel == TT_KERNEL_MOVE ? 1 : element), .sources = 1, .dsts = 1 } } };
        uint32_t grid = tt_fused_grid(bytes), last = (uint32_t)(bytes / 16 / TT_FUSED_BLOCK) - 1;
        struct tt_emulated_launch launch = launch_of(kernel, type, &p, grid, TT_FUSED_BLOCK);
        cr_assert_lt(last + 1, grid);
        if (shift > 0 && kernel == TT_KERNEL_MOVE)
            break; /* there, pieces go round the grid */
        tt_emulate_block(&launch, last);
        tt_emulate_block(&launch, last + 1);
        cr_expect_eq(memcmp(out + shift + bytes - 2048, in + bytes - 2048, 2048), 0, "shift %zu", shift);
        memset(out + bytes - 8192, 0, 8192 + 64);
    }
    munmap(in, bytes + 64);
    munmap(out, bytes + 64);
}

Test(cuda_fused, counts_beyond_four_gib)
{
    run_last_blocks(TT_KERNEL_MOVE, TUTTI_INT8, far, 1);
    run_last_blocks(TT_KERNEL_FUSED_CHAIN, TUTTI_INT8, far, 1);
    run_last_blocks(TT_KERNEL_FUSED_TREE, TUTTI_FLOAT64, 14 * UINT64_C(1073741824) + 4096, 8);
}

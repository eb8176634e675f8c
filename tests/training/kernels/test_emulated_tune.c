/* SPDX-License-Identifier: BSD-3-Clause */
/* test_emulated_tune.c: tiles and splits of products: that each legal choice gives the same bits, that the
 * fastest one by a clock is taken, and what of a file is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/training/kernels/kernels_rig.h"
#include "training/kernels/cuda/cuda_set.h"
#include "training/kernels/cuda/tune.h"

static const struct tr_cuda_room large = { 132, 1 << 24 };

static struct tr_cuda_shape shape_of(int64_t m, int64_t n, int64_t k, int64_t chunks)
{
    return (struct tr_cuda_shape){ m, n, k, chunks, 1, 0, true, false };
}

/* ---- the choice ---- */

Test(train_emulated_tune, a_shape_of_the_table_has_its_choice_where_that_is_legal)
{
    static struct tr_cuda_tuning t;
    struct tr_cuda_shape s = shape_of(768, 768, 8192, 64), other = s;
    other.b_along = true;
    struct tr_cuda_choice rule = tr_cuda_choose(&s, &large, NULL), got;
    t.tuned[0] = (struct tr_cuda_tuned){ shape_of(1, 1, 1, 1), { 2, 1 }, 1 };
    t.tuned[1] = (struct tr_cuda_tuned){ s, { 1, rule.splits == 8 ? 4 : 8 }, 1 };
    t.count = 2;
    got = tr_cuda_choose(&s, &large, &t);
    cr_expect(got.tile == 1 && got.splits == t.tuned[1].choice.splits);
    got = tr_cuda_choose(&other, &large, &t);
    cr_expect(got.tile == rule.tile && got.splits == rule.splits, "another shape has the rule's");
    struct tr_cuda_room small = { 132, 768 * 768 };
    got = tr_cuda_choose(&s, &small, &t);
    cr_expect_eq(got.splits, 1, "roots of %ld splits have no room", (long)got.splits);
    t.tuned[1].choice.splits = 3;
    got = tr_cuda_choose(&s, &large, &t);
    cr_expect_eq(got.splits, rule.splits, "64 chunks have no three subtrees");
}

Test(train_emulated_tune, a_shape_that_differs_in_anything_is_another_one)
{
    static struct tr_cuda_tuning t;
    struct tr_cuda_shape s = shape_of(768, 768, 8192, 64), other[] = { s, s, s, s, s, s, s, s };
    t.tuned[0].shape = s;
    t.count = 1;
    other[0].m++, other[1].n++, other[2].k++, other[3].chunks++, other[4].batch++, other[5].mask++;
    other[6].a_along = !s.a_along, other[7].b_along = !s.b_along;
    cr_expect_eq(tr_cuda_find(&t, &s), &t.tuned[0]);
    for (int i = 0; i < 8; i++)
        cr_expect_null(tr_cuda_find(&t, &other[i]), "difference %d", i);
}

/* What is known of an H200 that was measured: large products need no splits, and sums over many tokens do. */
Test(train_emulated_tune, the_rule_splits_what_does_not_fill_the_device)
{
    struct tr_cuda_shape forward = shape_of(8192, 2304, 768, 1), dw = shape_of(768, 768, 8192, 64);
    struct tr_cuda_choice a = tr_cuda_choose(&forward, &large, NULL), b = tr_cuda_choose(&dw, &large, NULL);
    cr_expect(a.tile == 0 && a.splits == 1);
    cr_expect(b.tile == 0 && b.splits > 1);
    dw.batch = 2;
    cr_expect_eq(tr_cuda_choose(&dw, &large, NULL).splits, 1, "no product of a batch is split");
}

Test(train_emulated_tune, splits_are_whole_subtrees)
{
    for (int64_t chunks = 1; chunks < 200; chunks++) {
        struct tr_cuda_shape s = shape_of(64, 64, chunks, chunks);
        struct tr_cuda_choice of[TR_CUDA_CANDIDATES];
        int n = tr_cuda_candidates(&s, &large, of);
        cr_assert(n >= TR_CUDA_TILES && n <= TR_CUDA_CANDIDATES);
        for (int i = 0; i < n; i++) {
            int64_t subtree = tr_cuda_subtree(chunks, of[i].splits);
            cr_assert(subtree >= 1 && subtree <= TR_CUDA_SUBTREE && (subtree & (subtree - 1)) == 0);
            cr_assert((of[i].splits - 1) * subtree < chunks && of[i].splits * subtree >= chunks);
        }
    }
    cr_expect_eq(tr_cuda_subtree(64, 3), 0);
    cr_expect_eq(tr_cuda_subtree(64, 0), 0);
}

/* ---- bits ---- */

static int (*emulate)(struct tr_cuda *c, const struct tr_cuda_launch *l);
static uint32_t first_block, first_grid; /* of the first kernel that was started */
static int64_t now_ns, asked;

/* A device on which a tile of 64 x 64 takes a third, and a block is cheap. */
static int count_starts(struct tr_cuda *c, const struct tr_cuda_launch *l)
{
    if (!first_block) {
        first_block = l->block;
        first_grid = l->grid;
    }
    now_ns += l->block == 64 ? 100 : 300;
    now_ns += l->block == 64 && l->grid == 2 ? -90 : 0;
    return emulate(c, l);
}

static int64_t now(struct tr_cuda *c)
{
    (void)c;
    asked++;
    return now_ns;
}

static struct tr_context emulated(struct tr_cuda_tuning *t)
{
    struct tr_context x = { NULL, NULL, 0 };
    rig_emulate(&x);
    struct tr_cuda *c = x.self;
    emulate = c->launch;
    c->launch = count_starts;
    c->tuning = t;
    c->workspace_floats = 1 << 20;
    first_block = 0;
    return x;
}

static struct tr_gemm product(int64_t m, int64_t n, int64_t chunks, int64_t chunk, int64_t k)
{
    return (struct tr_gemm){ .m = m,
        .n = n,
        .k = k,
        .a = rig_random(m * k + 1),
        .b = rig_random(n * k + 1),
        .a_row = k,
        .a_column = 1,
        .b_row = n,
        .b_column = 1,
        .c_row = n,
        .chunks = chunks,
        .chunk = chunk };
}

static struct tr_cuda_shape shape_of_product(const struct tr_gemm *g)
{
    return shape_of(g->m, g->n, g->k, g->chunks);
}

Test(train_emulated_tune, each_candidate_has_the_same_bits)
{
    static struct tr_cuda_tuning t;
    for (int i = 0; i < 12; i++) {
        int64_t chunks = rig_between(1, i % 3 ? 17 : 150), chunk = rig_between(1, 20),
                m = rig_between(1, 140);
        struct tr_gemm g = product(m, rig_between(1, 140), chunks, chunk, chunks * chunk - rig_between(0, 1));
        g.add = i % 2;
        float *first = rig_random(g.m * g.n), *want = rig_copy(first, g.m * g.n);
        struct tr_context processor = { .k = tr_kernels_best() };
        g.c = want;
        processor.k->gemm(&processor, &g, rig_empty(processor.k->scratch_gemm(&g)));
        struct tr_cuda_choice of[TR_CUDA_CANDIDATES];
        struct tr_cuda_room room = { 132, 1 << 20 };
        t.tuned[0].shape = shape_of_product(&g);
        t.count = 1;
        for (int n = tr_cuda_candidates(&t.tuned[0].shape, &room, of), c = 0; c < n; c++) {
            struct tr_context x = emulated(&t);
            const struct tr_cuda_tile *tile = &tr_cuda_tiles[of[c].tile];
            t.tuned[0].choice = of[c];
            g.c = rig_copy(first, g.m * g.n);
            x.k->gemm(&x, &g, NULL);
            rig_equal(g.c, want, g.m * g.n, "cuda", "a product in other tiles");
            cr_expect_eq(first_block, tile->m * tile->n / 64, "tile %d", of[c].tile);
            cr_expect_eq(
                first_grid, (g.m + tile->m - 1) / tile->m * ((g.n + tile->n - 1) / tile->n) * of[c].splits);
        }
        rig_end();
    }
}

/* With the clock of that device. Then the shape is known, and nothing is measured any more. */
Test(train_emulated_tune, the_fastest_is_measured_once_and_taken)
{
    static struct tr_cuda_tuning t;
    t.now = now;
    struct tr_gemm g = product(70, 30, 4, 5, 20);
    float *want = rig_empty(g.m * g.n);
    struct tr_gemm due = g;
    due.c = want;
    ref_gemm(&due);
    struct tr_context x = emulated(&t);
    for (int i = 0; i < 2; i++) {
        g.c = rig_empty(g.m * g.n);
        x.k->gemm(&x, &g, NULL);
        rig_equal(g.c, want, g.m * g.n, "cuda", "a product that is measured");
        cr_expect_eq(t.count, 1);
        if (i == 0)
            asked = 0;
    }
    cr_expect_eq(asked, 0, "it was measured again");
    cr_expect(t.tuned[0].choice.tile == 2 && t.tuned[0].choice.splits == 1, "tile %d, %ld splits",
        t.tuned[0].choice.tile, (long)t.tuned[0].choice.splits);
    cr_expect_eq(t.tuned[0].ns, 10);
    g.m = 60; /* two splits are two blocks of 64 threads, too, but have to be folded */
    x.k->gemm(&x, &g, NULL);
    cr_expect_eq(t.count, 2);
    cr_expect(t.tuned[1].choice.splits == 1 && t.tuned[1].ns == 100);
    t.now = NULL;
    g.m = 50;
    x.k->gemm(&x, &g, NULL);
    cr_expect_eq(t.count, 2, "nothing is measured without a clock");
    rig_end();
}

Test(train_emulated_tune, what_is_added_is_added_once)
{
    static struct tr_cuda_tuning t;
    t.now = now;
    struct tr_gemm g = product(20, 30, 4, 5, 20);
    g.add = true;
    float *got = rig_random(g.m * g.n), *want = rig_copy(got, g.m * g.n);
    g.c = want;
    ref_gemm(&g);
    g.c = got;
    struct tr_context x = emulated(&t);
    x.k->gemm(&x, &g, NULL);
    rig_equal(got, want, g.m * g.n, "cuda", "a sum that a product is added to");
    cr_expect_eq(t.count, 0);
    rig_end();
}

static int lost(struct tr_cuda *c, const struct tr_cuda_launch *l)
{
    (void)c, (void)l;
    return 700;
}

Test(train_emulated_tune, what_a_lost_device_takes_is_not_kept)
{
    static struct tr_cuda_tuning t;
    t.now = now;
    struct tr_gemm g = product(20, 30, 4, 5, 20);
    g.c = rig_empty(g.m * g.n);
    struct tr_context x = emulated(&t);
    ((struct tr_cuda *)x.self)->launch = lost;
    x.k->gemm(&x, &g, NULL);
    cr_expect_eq(x.status, 700);
    cr_expect_eq(t.count, 0);
    rig_end();
}

/* ---- the file ---- */

static char path[64];
static void make_path(void)
{
    snprintf(path, sizeof path, "/tmp/tutti-tiles-%ld", (long)getpid());
}
static void remove_path(void)
{
    remove(path);
}

static void put(const char *text)
{
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
}

static void name(struct tr_cuda_tuning *t)
{
    strcpy(t->device, "NVIDIA H200");
    strcpy(t->driver, "CUDA 13.0");
}

Test(train_emulated_tune, what_is_written_is_read, .init = make_path, .fini = remove_path)
{
    static struct tr_cuda_tuning t, back;
    char words[256] = "";
    name(&t);
    name(&back);
    strcpy(back.driver, "CUDA 14.1");
    for (int32_t i = 0; i < 20; i++) {
        struct tr_cuda_shape s = { i + 1, rig_between(1, 60000), rig_between(0, 9000), 64, 1 + i % 3, i % 4,
            i % 2, i / 2 % 2 };
        t.tuned[t.count++] = (struct tr_cuda_tuned){ s, { i % 3, 1 << i % 5 }, 100 * i };
    }
    cr_assert(tr_cuda_tuning_write(&t, path, words, sizeof words), "%s", words);
    cr_assert(tr_cuda_tuning_read(&back, path, words, sizeof words), "%s", words);
    cr_assert_eq(back.count, t.count);
    for (int32_t i = 0; i < t.count; i++) {
        const struct tr_cuda_tuned *found = tr_cuda_find(&back, &t.tuned[i].shape);
        cr_assert_not_null(found);
        cr_expect(found->choice.tile == t.tuned[i].choice.tile);
        cr_expect(found->choice.splits == t.tuned[i].choice.splits && found->ns == t.tuned[i].ns);
    }
    cr_expect(!strcmp(back.driver, "CUDA 14.1"));
}

#define HEAD "tutti-train tiles 1\ndevice NVIDIA H200\ndriver CUDA 13.0\n"
#define LINE "product 768 768 8192 64 1 none - 128x128 16 313000\n"

Test(train_emulated_tune, what_is_no_such_file_is_refused_with_words, .init = make_path, .fini = remove_path)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        { "", "line 1: the file ends" },
        { "tutti-train tiles 2\n", "\"tutti-train tiles 1\" must" },
        { "tutti-train tiles 1\ndevice NVIDIA A100\ndriver CUDA 13.0\nend 0\n",
            "measured on NVIDIA A100, and this device is NVIDIA H200" },
        { "tutti-train tiles 1\ndriver CUDA 13.0\nend 0\n", "where the device must" },
        { "tutti-train tiles 1\ndevice NVIDIA H200\nend 0\n", "where the driver must" },
        { HEAD LINE, "before its line \"end\"" },
        { HEAD LINE "end 1", "cut off" },
        { HEAD LINE "end 2\n", "1 products are there, and the end says 2" },
        { HEAD LINE LINE "end 2\n", "line 5: this shape has a line before" },
        { HEAD LINE "end 1\n" LINE, "behind the end" },
        { HEAD "gemm 1\nend 1\n", "legal are product and end" },
        { HEAD "product 768 768 8192 64 1 none - 128x128\nend 1\n", "splits is \"\"" },
        { HEAD "product 768 768 8192 64 1 none - 128x128 3 1\nend 1\n", "3 splits cut no whole subtrees" },
        { HEAD "product 768 768 8192 64 1 none - 128x256 16 1\nend 1\n",
            "tile is \"128x256\": legal are 128x128, 128x64, 64x64" },
        { HEAD "product 768 768 8192 64 1 some - 128x128 16 1\nend 1\n", "legal are none, scores" },
        { HEAD "product 768 768 8192 64 1 none c 128x128 16 1\nend 1\n", "legal are -, a, b, ab" },
        { HEAD "product 0 768 8192 64 1 none - 128x128 16 1\nend 1\n",
            "m is \"0\": legal are numbers from 1" },
        { HEAD "product 9999999999999999999 768 8192 64 1 none - 128x128 16 1\nend 1\n", "m is" },
        { HEAD "product 768 768 8192 64 1 none - 128x128 16 1 9\nend 1\n", "\"9\" stands behind" },
    };
    static struct tr_cuda_tuning t;
    char words[256];
    name(&t);
    t.count = 7;
    for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++) {
        put(bad[i].text);
        cr_expect(!tr_cuda_tuning_read(&t, path, words, sizeof words), "%s", bad[i].text);
        cr_expect(
            strstr(words, bad[i].words) && strstr(words, path), "%s\ninstead of %s", words, bad[i].words);
        cr_expect_eq(t.count, 7, "a table that was there is lost");
    }
    remove(path);
    cr_expect(!tr_cuda_tuning_read(&t, path, words, sizeof words));
    cr_expect(strstr(words, "No such file"), "%s", words);
    cr_expect(!tr_cuda_tuning_write(&t, "/nowhere/tiles", words, sizeof words));
    cr_expect(strstr(words, "/nowhere/tiles: "), "%s", words);
    put(HEAD "# people\n" LINE "end 1\n");
    cr_expect(tr_cuda_tuning_read(&t, path, words, sizeof words), "%s", words);
    cr_expect_eq(t.count, 1);
}

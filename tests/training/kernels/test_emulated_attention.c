/* SPDX-License-Identifier: BSD-3-Clause */
/* test_emulated_attention.c: attention for a device, emulated, beside the processor's, whose bits are those
 * of the golden program: in shapes that have several tiles of queries, of keys and of a head's columns, of
 * which whole steps of training in a test have none. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/training/kernels/kernels_rig.h"
#include "training/kernels/cuda/cuda_set.h"

/* What one set makes of it. */
struct made {
    float *out, *lse, *part, *scores, *dq, *dkv;
};

static int64_t longest(int64_t next, int64_t sequences, int64_t one)
{
    return (sequences - 1) * next * one + one;
}

static struct made make(struct tr_context *on, const struct tr_attention *s, const float *q, const float *kv,
    const float *dout, const struct made *of)
{
    int64_t n = s->sequences, rows = s->heads * s->queries, y = rows * s->size,
            keys = s->heads * s->tokens * s->size, of_q = s->separate_kv ? y : 3 * y;
    struct made m = { .out = rig_empty(longest(s->by_queries, n, y)),
        .lse = rig_empty(longest(s->by_queries, n, rows)),
        .part = rig_empty(longest(s->by_pairs, n, y + 2 * rows)),
        .scores = rig_empty(longest(s->by_pairs, n, rows * s->tokens)),
        .dq = rig_empty(longest(s->by_pairs, n, of_q)),
        .dkv = rig_empty(longest(s->by_pairs, n, 2 * keys)) };
    struct tr_attention a = *s;
    float *scratch = rig_empty(on->k->attention.scratch(&a)), *dkv = s->separate_kv ? m.dkv : m.dq + s->size;
    bool sees_all = s->begin == 0 && (s->striped ? s->tokens == 8 * s->block : s->first < s->tokens);
    if (sees_all)
        on->k->attention.whole(on, m.out, m.lse, q, kv, &a, scratch);
    a.scores = m.scores;
    on->k->attention.part(on, m.part, q, kv, &a, scratch);
    for (int kept = 0; kept < 2; kept++) {
        a.scores = kept ? of->scores : NULL;
        on->k->attention.dx(on, m.dq, dkv, dout, of->out, of->lse, q, kv, &a, scratch);
    }
    cr_assert_eq(on->status, 0);
    return m;
}

/* `spread`: how far scores lie apart; where it is large, some weights are 0. */
static void expect_same(const struct tr_attention *s, float spread, int32_t multiprocessors)
{
    int64_t n = s->sequences, rows = s->heads * s->queries, y = rows * s->size,
            keys = s->heads * s->tokens * s->size, of_q = s->separate_kv ? y : 3 * y,
            of_kv = s->separate_kv ? 2 * keys : of_q;
    int64_t count[] = { longest(s->by_queries, n, y), longest(s->by_queries, n, rows),
        longest(s->by_pairs, n, y + 2 * rows), longest(s->by_pairs, n, rows * s->tokens),
        longest(s->by_pairs, n, of_q), longest(s->by_pairs, n, 2 * keys) };
    float *q = rig_random(longest(s->by_queries, n, of_q)),
          *kv = s->separate_kv ? rig_random(longest(s->by_keys, n, of_kv)) : q + s->size;
    for (int64_t i = 0; i < longest(s->by_queries, n, of_q); i++)
        q[i] *= spread;
    struct made of = {
        .out = rig_random(count[0]), .lse = rig_random(count[1]), .scores = rig_random(count[3])
    };
    const float *dout = rig_random(count[0]);
    for (int64_t i = 0; i < count[1]; i++)
        of.lse[i] = 3 * of.lse[i] + spread;
    struct tr_context processor = { .k = tr_kernels_named("generic") }, device = { NULL, NULL, 0 };
    rig_emulate(&device);
    if (multiprocessors)
        ((struct tr_cuda *)device.self)->multiprocessors = multiprocessors;
    struct made want = make(&processor, s, q, kv, dout, &of), got = make(&device, s, q, kv, dout, &of);
    rig_equal(got.out, want.out, count[0], "cuda", "attention");
    rig_equal(got.lse, want.lse, count[1], "cuda", "lse");
    rig_equal(got.part, want.part, count[2], "cuda", "part");
    rig_equal(got.scores, want.scores, count[3], "cuda", "scores");
    rig_equal(got.dq, want.dq, count[4], "cuda", "gradient of queries");
    rig_equal(got.dkv, want.dkv, count[5], "cuda", "gradient of keys and values");
    rig_end();
}

/* All keys of a sequence and the queries that see them, in one array. */
static struct tr_attention whole(int64_t blocks, int64_t block, int64_t heads, int64_t size)
{
    return (struct tr_attention){ .tokens = blocks * block,
        .heads = heads,
        .size = size,
        .block = block,
        .queries = blocks * block,
        .sequences = 1,
        .by_queries = 1,
        .by_keys = 1,
        .by_pairs = 1 };
}

/* Some blocks of queries and some of keys, of several sequences. */
static struct tr_attention some(int64_t block, int64_t size, bool striped)
{
    int64_t keys = rig_between(1, 3), queries = rig_between(1, 3), heads = rig_between(1, 2);
    return (struct tr_attention){ .tokens = keys * block,
        .heads = heads,
        .size = size,
        .block = block,
        .first = rig_between(0, 8 - queries) * block,
        .queries = queries * block,
        .separate_kv = true,
        .begin = rig_between(0, 8 - keys) * block,
        .striped = striped,
        .sequences = rig_between(1, 2),
        .by_queries = rig_between(1, 2),
        .by_keys = rig_between(1, 2),
        .by_pairs = rig_between(1, 2) };
}

/* What is dropped of some of the heads of a model. */
static struct tr_unattended dropped(uint32_t *draws, int64_t sequences)
{
    for (int64_t i = 0; i < sequences * TR_DRAW_WORDS; i++)
        draws[i] = rig_word() >> i % TR_DRAW_WORDS;
    return (struct tr_unattended){ draws, rig_between(0, 4095), rig_between(0, 12), 1.25f };
}

Test(train_emulated_attention, small_blocks_have_the_bits_of_the_processor)
{
    for (int i = 0; i < 24; i++) {
        struct tr_attention s = some(rig_between(1, 9), rig_between(1, 40), i % 3 == 0);
        expect_same(&s, i % 4 ? 1 : 12, 0);
        s = whole(rig_between(1, 8), rig_between(1, 6), rig_between(1, 3), rig_between(1, 20));
        expect_same(&s, 1, 0);
    }
}

/* Of 64 queries, of 64 keys, of 128 keys that have room at once, and one more or less of each. */
Test(train_emulated_attention, blocks_of_several_tiles_have_the_bits_of_the_processor)
{
    static const int64_t blocks[] = { 63, 64, 65, 80, 127, 128, 129, 150, 272 };
    for (int i = 0; i < (int)(sizeof blocks / sizeof *blocks); i++)
        for (int striped = 0; striped < 2; striped++) {
            struct tr_attention s = some(blocks[i], striped ? 5 : 8, striped);
            s.sequences = 1;
            s.queries = blocks[i];
            if (s.tokens > 2 * blocks[i])
                s.tokens = 2 * blocks[i];
            expect_same(&s, i % 2 ? 1 : 9, 0);
        }
}

Test(train_emulated_attention, wide_heads_have_the_bits_of_the_processor)
{
    static const int64_t sizes[] = { 15, 16, 17, 63, 64, 65, 66, 100, 128, 131 };
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        struct tr_attention s = some(rig_between(1, 20), sizes[i], i % 3 == 0);
        expect_same(&s, 0.3f, 0);
    }
}

/* A device with one multiprocessor has enough to do with some of the heads; each drops its own. */
Test(train_emulated_attention, heads_in_groups_have_the_bits_of_all_at_once)
{
    uint32_t draws[7 * TR_DRAW_WORDS];
    for (int drops = 0; drops < 2; drops++) {
        struct tr_attention s = whole(1, 25, 5, 3);
        s.queries = 200, s.separate_kv = true, s.sequences = s.by_queries = 2, s.by_pairs = 3;
        if (drops)
            s.dropped = dropped(draws, 7);
        expect_same(&s, 1, 1);
        s.heads = 2, s.queries = 100, s.sequences = 7;
        expect_same(&s, 1, 1);
    }
}

/* Blocks that begin in the midst of 64 keys, and end there; places in stripes. */
Test(train_emulated_attention, probabilities_are_dropped_as_the_processor_does)
{
    static const int64_t blocks[] = { 1, 3, 8, 24, 65, 128, 150 };
    uint32_t draws[2 * TR_DRAW_WORDS];
    for (int i = 0; i < (int)(sizeof blocks / sizeof *blocks); i++)
        for (int striped = 0; striped < 2; striped++) {
            struct tr_attention s = some(blocks[i], striped ? 5 : 8, striped);
            s.dropped = dropped(draws, s.sequences);
            if (s.queries > 2 * blocks[i])
                s.queries = 2 * blocks[i];
            expect_same(&s, 1, 0);
        }
}

/* What the plan asks for: 12 heads of 64, a batch of 8. The forward pass takes nothing, and the backward pass
 * has the scores of as many rows as fill a device. */
Test(train_emulated_attention, scratch_is_bounded_however_long_a_sequence_is)
{
    for (int64_t tokens = 1024; tokens <= 65536; tokens *= 2) {
        struct tr_attention s = whole(8, tokens / 8, 12, 64);
        s.sequences = 8;
        int64_t rows = tr_cuda_scratch_attention(&s) / (2 * tokens + 1);
        cr_expect(rows <= (96 << 10) + 11 * tokens && rows >= 96 << 10, "%ld tokens: %ld rows", (long)tokens,
            (long)rows);
    }
}

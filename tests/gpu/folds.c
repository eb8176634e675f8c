/* SPDX-License-Identifier: BSD-3-Clause */
/* folds.c: do the kernels of a plugin give the bits that the processor's give?
 *
 * A check for each type: every operation and shape, with any number of operands, lengths around a vector and
 * long ones, pointers at one offset and at several, in place and not; and scales.
 * tests/cuda/test_cuda_kernels.c asks the same of the same source, compiled for a processor; this asks what
 * the compiler of the device has made of it, and what the device makes of roundings and of NaNs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "gpu.h"
#include "kernels/cuda/cuda_kernels.h"
#include "tests/kernels/kernel_reference.h"

enum {
    PAD = 64,
    LONG = 70003,
    REGION = (LONG + 4 * PAD) / PAD * PAD,
    DST = TT_FUSED_RANKS,
    REGIONS,
    GUARD = 0xc3
};

struct bench {
    struct gpu_me *me;
    const struct type *t;
    void *stream;
    uint8_t *device, *host,
        *back; /* REGIONS of the same content, the host's pinned; one that is copied back */
    uint8_t *want;
};

struct place { /* of an array: its region, and where it begins there */
    int region;
    size_t at;
};

static uint8_t *on(uint8_t *base, struct place p)
{
    return base + (size_t)p.region * REGION + p.at;
}

static void upload(const struct bench *b, int region, size_t bytes)
{
    struct place p = { region, 0 };
    gpu_fine(b->me, b->me->dev->copy(on(b->device, p), on(b->host, p), bytes, b->stream), "copy");
}

static void fill(const struct bench *b)
{
    for (int region = 0; region < DST; region++) {
        for (size_t at = 0; at + b->t->bytes <= REGION; at += b->t->bytes) {
            uint64_t bits = random_value(b->t);
            memcpy(on(b->host, (struct place){ region, at }), &bits, b->t->bytes);
        }
        upload(b, region, REGION);
    }
    memset(on(b->host, (struct place){ DST, 0 }), GUARD, REGION);
    upload(b, DST, REGION);
}

/* Returns an offset of elements below a vector's length, of bytes; `same_offset`: the same at each call. */
static size_t offset(const struct bench *b, bool same_offset)
{
    return PAD + (same_offset ? 1 : random_bits() % (16 / b->t->bytes)) * b->t->bytes;
}

/* Launches, and compares all of the region of dst, where `want` is; then that is on the device as it was. */
static void compare(const struct bench *b, enum tt_kernel kernel, tutti_op op,
    const struct tt_fused_params *params, struct place dst, size_t bytes, const char *what)
{
    const struct place begin = { dst.region, 0 };
    const size_t span = dst.at + bytes + PAD;
    const bool is_long = bytes > LONG / 2;
    struct tt_dev_launch launch = { .kernel = tt_kernel_number(kernel, b->t->type, op),
        .grid = is_long ? tt_fused_grid(bytes) : 2,
        .grid_y = 1,
        .block = is_long ? TT_FUSED_BLOCK : 32,
        .params = params,
        .params_bytes = sizeof *params };
    gpu_fine(b->me, b->me->dev->launch(&launch, b->stream), "launch");
    gpu_fine(b->me, b->me->dev->copy(b->back, on(b->device, begin), span, b->stream), "copy");
    upload(b, dst.region, span);
    gpu_sync(b->me, b->stream);
    for (size_t i = 0; i < span && memcmp(b->back, b->want, span) != 0; i++)
        gpu_expect(b->me, b->back[i] == b->want[i], "%s, %zu bytes: byte %zd is 0x%02x and not 0x%02x", what,
            bytes, (ssize_t)(i - dst.at), b->back[i], b->want[i]);
}

static uint8_t *expect_in(const struct bench *b, struct place dst)
{
    memcpy(b->want, on(b->host, (struct place){ dst.region, 0 }), REGION);
    return b->want + dst.at;
}

static void fold(const struct bench *b, const struct op *op, enum tt_shape shape, int k, uint32_t divisor,
    size_t bytes, bool same_offset, bool in_place)
{
    char what[80];
    const void *sources[TT_FUSED_RANKS];
    const uint64_t count = bytes / b->t->bytes;
    struct tt_fused_params p = { .rects = 1,
        .divisor = divisor,
        .rect = { { .count = count, .sources = (uint8_t)((1U << k) - 1), .dsts = 1 } } };
    struct place dst = { DST, offset(b, same_offset) };
    int which = in_place ? (int)(random_bits() % (uint64_t)k) : -1;
    for (int j = 0; j < k; j++) {
        struct place from = { j, offset(b, same_offset) };
        p.own.in[j] = on(b->device, from);
        sources[j] = on(b->host, from);
        dst = j == which ? from : dst;
    }
    p.own.out[0] = on(b->device, dst);
    tt_fold_find_isa(b->t->type, op->op, shape, TT_ISA_GENERIC)(
        expect_in(b, dst), sources, k, count, divisor);
    snprintf(what, sizeof what, "%s of %d %s, divisor %u%s%s", op->name, k,
        shape == TT_TREE ? "as a tree" : "in a chain", divisor, same_offset ? ", same offset" : "",
        in_place ? ", in place" : "");
    compare(b, shape == TT_TREE ? TT_KERNEL_FUSED_TREE : TT_KERNEL_FUSED_CHAIN, op->op, &p, dst,
        count * b->t->bytes, what);
}

/* A scaled sum of one operand: the factor by value, and where the device reads it. */
static void scale(const struct bench *b, size_t bytes, bool same_offset, bool by_value)
{
    struct place factor = { 1, PAD }, from = { 0, offset(b, same_offset) },
                 dst = { DST, offset(b, same_offset) };
    const uint64_t count = bytes / b->t->bytes;
    struct tt_fused_params p = { .own = { .in = { on(b->device, from) },
                                     .out = { on(b->device, dst) },
                                     .scalar = { by_value ? NULL : on(b->device, factor) },
                                     .factor = { by_value ? get(b->t, on(b->host, factor)) : 0 } },
        .rects = 1,
        .rect = { { .count = count, .sources = 1, .dsts = 1 } } };
    tt_scale(expect_in(b, dst), on(b->host, from), count, b->t->type, on(b->host, factor));
    compare(b, TT_KERNEL_SCALED_CHAIN, TUTTI_SUM, &p, dst, count * b->t->bytes,
        by_value ? "a scale" : "a scale by a factor of the device");
}

static const size_t lengths[] = { 0, 8, 16, 40, 63, 599, LONG };
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void fold_all(const struct bench *b, const struct op *op, enum tt_shape shape)
{
    for (int k = 1; k <= TT_FUSED_RANKS; k++)
        for (int l = 0; l < LENGTHS; l++) {
            bool few = lengths[l] < LONG || k == 2 || k == TT_FUSED_RANKS;
            for (int same_offset = 0; same_offset < 2 && few; same_offset++)
                fold(b, op, shape, k, op->op == TUTTI_AVG ? (uint32_t)(k + same_offset) : 0, lengths[l],
                    same_offset, random_bits() >> 40 & 1);
        }
}

static void check(struct gpu_me *me, const struct type *t)
{
    struct bench b = { .me = me, .t = t, .want = malloc(REGION) };
    struct tt_dev_launch none = {
        .kernel = tt_kernel_number(TT_KERNEL_MOVE, 0, 0), .grid = 1, .grid_y = 1, .block = 32
    };
    struct tt_fused_params nothing = { 0 };
    none.params = &nothing;
    none.params_bytes = sizeof nothing;
    gpu_fine(me, me->dev->use(me->device), "use");
    b.stream = gpu_stream(me);
    if (me->dev->launch(&none, b.stream) == TT_DEV_UNSUPPORTED)
        gpu_skip(me, "%s", me->dev->why());
    b.device = gpu_alloc(me, TT_DEV_DEVICE, REGIONS * REGION);
    b.host = gpu_alloc(me, TT_DEV_PINNED, REGIONS * REGION);
    b.back = gpu_alloc(me, TT_DEV_PINNED, REGION);
    fill(&b);
    for (int o = 0; o < OPS; o++)
        for (int shape = TT_CHAIN; shape <= TT_TREE; shape++)
            if (tt_fold_find(t->type, ops[o].op, (enum tt_shape)shape) != NULL)
                fold_all(&b, &ops[o], (enum tt_shape)shape);
    for (int l = 0; l < LENGTHS; l++)
        for (int how = 0; how < 4; how++)
            scale(&b, lengths[l], how & 1, how & 2);
}

/* In the order of types[]. */
#define EACH_TYPE(X)                                                                                         \
    X(int8, 0)                                                                                               \
    X(uint8, 1)                                                                                              \
    X(int32, 2)                                                                                              \
    X(int64, 3)                                                                                              \
    X(uint32, 4)                                                                                             \
    X(uint64, 5)                                                                                             \
    X(float16, 6)                                                                                            \
    X(bfloat16, 7)                                                                                           \
    X(float32, 8)                                                                                            \
    X(float64, 9)                                                                                            \
    X(float8_e4m3, 10)                                                                                       \
    X(float8_e5m2, 11)

#define CHECK(type_name, index)                                                                              \
    static void check_##type_name(struct gpu_me *me)                                                         \
    {                                                                                                        \
        gpu_expect(                                                                                          \
            me, strcmp(types[index].name, #type_name) == 0, "types[%d] is %s", index, types[index].name);    \
        check(me, &types[index]);                                                                            \
    }
EACH_TYPE(CHECK)

#define ROW(name, index) { #name, 1, check_##name },

int main(int argc, char **argv)
{
    static const struct gpu_check checks[] = { EACH_TYPE(ROW) };
    return gpu_main("folds", checks, sizeof checks / sizeof checks[0], argc, argv);
}

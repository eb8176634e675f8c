/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_spread.h: sums that are stored at two places in one pass, each through the caches or past them.
 *
 * A copy after the sum would do, were it not that stores past the caches wait for memory while nothing is
 * read meanwhile. Part of fold_loops.h, once per instruction set. */
INLINE void put(uint8_t *to, vec v, bool past)
{
    if (past)
        vec_stream(to, v);
    else
        vec_store(to, v);
}

INLINE void spread_vectors(struct job f, int k, uint8_t *also, bool past_dst, bool past_also)
{
    const void *sources[TT_FOLD_OPERANDS];
    for (int j = 0; j < k; j++)
        sources[j] = f.sources[j];
    f.sources = sources;
    for (size_t at = f.begin; at < f.end; at += sizeof(vec)) {
        struct wide w = leaf(f, 0, at);
        for (int j = 1; j < k; j++)
            w = combined(f, w, leaf(f, j, at));
        vec sum = result(f, w);
        put(f.dst + at, sum, past_dst);
        if (also != NULL)
            put(also + at, sum, past_also);
    }
}

/* Two operands are most of the calls. */
INLINE void spread_whole(struct job f, int k, uint8_t *also, bool past_dst, bool past_also)
{
    if (k == 2)
        spread_vectors(f, 2, also, past_dst, past_also);
    else
        spread_vectors(f, k, also, past_dst, past_also);
}

INLINE void spread(struct job f, int k, uint8_t *also, int past)
{
    if (also == NULL)
        spread_whole(f, k, NULL, true, false);
    else if (past == 0)
        spread_whole(f, k, also, false, false);
    else if (past == TT_STREAM_ALSO)
        spread_whole(f, k, also, false, true);
    else
        spread_whole(f, k, also, true, true);
}

/* The operands from `bytes` on. */
static void skip(const void **to, const void *const *sources, int k, size_t bytes)
{
    for (int j = 0; j < k; j++)
        to[j] = (const uint8_t *)sources[j] + bytes;
}

/* Sums and stores what is less than a line, at either end. */
static void spread_edge(tt_fold_fn sum, uint8_t *dst, uint8_t *also, const void *const *sources, int k,
    size_t bytes, uint32_t element_bytes, uint32_t divisor)
{
    _Alignas(64) uint8_t edge[64];
    if (bytes == 0)
        return;
    sum(edge, sources, k, bytes / element_bytes, divisor);
    memcpy(dst, edge, bytes);
    if (also != NULL)
        memcpy(also, edge, bytes);
}

typedef void (*spread_lines)(
    uint8_t *dst, uint8_t *also, int past, const void *const *sources, int k, size_t bytes, uint32_t divisor);

static __attribute__((noinline)) void spread_all(spread_lines lines, tt_fold_fn sum, uint8_t *dst,
    uint8_t *also, int past, const void *const *sources, int k, size_t bytes, uint32_t element_bytes,
    uint32_t divisor)
{
    const void *rest[TT_FOLD_OPERANDS];
    size_t head = -(uintptr_t)dst % 64;
    head = head < bytes ? head : bytes;
    size_t whole = (bytes - head) / 64 * 64, done = head + whole;
    spread_edge(sum, dst, also, sources, k, head, element_bytes, divisor);
    skip(rest, sources, k, head);
    if (whole > 0) {
        fp_environment caller = enter_default_environment();
        lines(dst + head, also != NULL ? also + head : NULL, past, rest, k, whole, divisor);
        leave_default_environment(caller);
    }
    skip(rest, sources, k, done);
    spread_edge(
        sum, dst + done, also != NULL ? also + done : NULL, rest, k, bytes - done, element_bytes, divisor);
}

#define SPREAD(number, combine, element_bytes)                                                               \
    static __attribute__((noinline, flatten)) void number##_spread_lines(uint8_t *dst, uint8_t *also,        \
        int past, const void *const *sources, int k, size_t bytes, uint32_t divisor)                         \
    {                                                                                                        \
        struct job f = { &number, combine, dst, sources, 0, bytes, divisor };                                \
        spread(f, k, also, past);                                                                            \
    }                                                                                                        \
    static void number##_spread(                                                                             \
        void *dst, void *also, int past, const void *const *sources, int k, size_t count, uint32_t divisor)  \
    {                                                                                                        \
        spread_all(number##_spread_lines, number##_sum_chain, dst, also, past, sources, k,                   \
            count *(element_bytes), element_bytes, divisor);                                                 \
    }

SPREAD(float16, float16_sum_f32, 2)
SPREAD(bfloat16, sum_f32, 2)
SPREAD(float32, sum_f32, 4)
SPREAD(float64, sum_f64, 8)

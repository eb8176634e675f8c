/* SPDX-License-Identifier: BSD-3-Clause */
/* rope.h: rotary position embedding (Su et al. 2021): queries and keys are turned by their tokens' places,
 * and each head gets the keys and values of its group.
 *
 * Channels i and i + size / 2 of a head are a pair, and place * 10000^(-2 i / size) its angle. The power is
 * rounded to float32, where C libraries no longer differ, and its product with the place is exact in float64.
 * Cosine and sine of each token and pair are made once a call, in scratch: [token][2][size / 2]. */

typedef double vec_wide __attribute__((vector_size(2 * TR_VECTOR_BYTES)));
typedef uint32_t vec_u32 __attribute__((vector_size(TR_VECTOR_BYTES)));

/* The angle less a whole number of quarter turns, in float64: pi / 2 in two parts, of which the first has so
 * few bits that its product is exact. Then polynomials (Cephes' sinf and cosf). */
INLINE void cosine_and_sine(vec *cosine, vec *sine, double place, vec slow)
{
    const double magic = 6755399441055744.0;
    vec_wide angle = __builtin_convertvector(slow, vec_wide) * place;
    vec_wide turns = angle * 0.63661977236758138 + magic - magic;
    vec x = __builtin_convertvector(
        angle - turns * 1.57079632673412561417 - turns * 6.07710050650619224932e-11, vec);
    vec z = x * x;
    vec s = vec_fma(vec_all(-1.9515295891e-4f), z, vec_all(8.3321608736e-3f));
    s = vec_fma(vec_fma(s, z, vec_all(-1.6666654611e-1f)), z * x, x);
    vec c = vec_fma(vec_all(2.443315711809948e-5f), z, vec_all(-1.388731625493765e-3f));
    c = vec_fma(vec_fma(c, z, vec_all(4.166664568298827e-2f)), z * z, vec_fma(vec_all(-0.5f), z, vec_all(1)));
    vec_u32 quarter = (vec_u32) __builtin_convertvector(turns, vec_i32), odd = -(quarter & 1);
    *sine = (vec)((((vec_u32)c & odd) | ((vec_u32)s & ~odd)) ^ (quarter & 2) << 30);
    *cosine = (vec)((((vec_u32)s & odd) | ((vec_u32)c & ~odd)) ^ ((quarter + 1) & 2) << 30);
}

static int64_t rope_scratch(const struct tr_rope *r)
{
    return r->at.runs * r->at.tokens * r->size;
}

static void make_turns(float *to, const struct tr_rope *r)
{
    int64_t half = r->size / 2;
    for (int64_t i = 0; i < half; i += WIDTH) {
        float slow[WIDTH];
        for (int64_t n = 0; n < WIDTH; n++)
            slow[n] = (float)pow(10000, -2.0 * (double)(i + n) / (double)r->size);
        float *at = to + i;
        for (int64_t run = 0; run < r->at.runs; run++)
            for (int64_t t = 0; t < r->at.tokens; t++, at += r->size) {
                vec cosine, sine;
                cosine_and_sine(&cosine, &sine, (double)position_of(&r->at, run, t), vec_load(slow));
                vec_store_some(at, cosine, half - i);
                vec_store_some(at + half, sine, half - i);
            }
    }
}

/* to may be from. */
INLINE void turn_pairs(float *to, const float *from, const float *by, int64_t half, bool back)
{
    for (int64_t i = 0; i < half; i += WIDTH) {
        vec c = vec_load_some(by + i, half - i), s = vec_load_some(by + half + i, half - i);
        vec x = vec_load_some(from + i, half - i), y = vec_load_some(from + half + i, half - i);
        s = back ? -s : s;
        vec_store_some(to + i, x * c - y * s, half - i);
        vec_store_some(to + half + i, y * c + x * s, half - i);
    }
}

static void spread_group(float *to, const float *from, const float *by, const struct tr_rope *r)
{
    int64_t size = r->size, head = 3 * size;
    const float *keys = from + r->share * size;
    turn_pairs(to + size, keys, by, size / 2, false);
    memcpy(to + 2 * size, keys + size, (size_t)size * sizeof *to);
    for (int64_t h = 0; h < r->share; h++) {
        turn_pairs(to + h * head, from + h * size, by, size / 2, false);
        if (h)
            memcpy(to + h * head + size, to + size, (size_t)(2 * size) * sizeof *to);
    }
}

static void gather_group(float *to, const float *from, const float *by, const struct tr_rope *r)
{
    int64_t size = r->size, head = 3 * size, both = 2 * size;
    float *keys = to + r->share * size;
    for (int64_t h = 0; h < r->share; h++)
        turn_pairs(to + h * size, from + h * head, by, size / 2, true);
    for (int64_t j = 0; j < both; j += STRIP * WIDTH) {
        struct strip s;
        for (int64_t h = 0; h < r->share; h++) {
            strip_load(&s, from + h * head + size + j, both - j);
            strip_count(&s, h, r->share);
        }
        strip_store(keys + j, &s, both - j);
    }
    turn_pairs(keys, keys, by, size / 2, true);
}

static void rope(CONTEXT, float *qkv, const float *grouped, const struct tr_rope *r, float *scratch)
{
    int64_t tokens = r->at.runs * r->at.tokens, group = (r->share + 2) * r->size,
            heads = 3 * r->share * r->size;
    make_turns(scratch, r);
    for (int64_t s = 0; s < r->at.sequences; s++)
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t g = 0; g < r->groups; g++, grouped += group, qkv += heads)
                spread_group(qkv, grouped, scratch + t * r->size, r);
}

static void rope_dx(CONTEXT, float *grouped, const float *qkv, const struct tr_rope *r, float *scratch)
{
    int64_t tokens = r->at.runs * r->at.tokens, group = (r->share + 2) * r->size,
            heads = 3 * r->share * r->size;
    make_turns(scratch, r);
    for (int64_t s = 0; s < r->at.sequences; s++)
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t g = 0; g < r->groups; g++, grouped += group, qkv += heads)
                gather_group(grouped, qkv, scratch + t * r->size, r);
}

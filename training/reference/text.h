/* SPDX-License-Identifier: BSD-3-Clause */
/* text.h: what the golden programs of moe.c and llama.c have in common beside golden.h: text, the places of
 * its tokens, sums over them, dropout, attention, and the sum over the batch. All of it is in gpt.c, too,
 * which stands alone and explains it. */
#include "golden.h"

/* Layers, channels, heads, context, vocabulary, sequences. */
static long L = 4, C = 64, HEADS = 4, T = 64, V = 256, B = 8;
static long parts = 1, stripes; /* of a sequence, as in gpt.c */
static long head_size, block; /* C / HEADS; tokens of a block */
static real score_scale;
static double dropout;
static char data_path[4096];

/* ---- sums ---- */

static void add(real *x, const real *y, long count)
{
    for (long i = 0; i < count; i++)
        x[i] = x[i] + y[i];
}

/* out[m] = the sum of the rows of x[T][m]: by blocks of tokens, then the tree. */
CLONES static void sum_tokens(real *out, const real *x, long m)
{
    real *part = room(CHUNKS * m);
    for (long t = 0; t < T; t++)
        for (long j = 0; j < m; j++)
            part[t / block * m + j] += x[t * m + j];
    tree(part, CHUNKS, m);
    memcpy(out, part, sizeof(real) * (size_t)m);
    free(part);
}

/* By chunks of what is padded to a multiple of 64. It returns the sum. */
static real softmax(real *x, long n, real *max)
{
    real part[CHUNKS] = { 0 };
    *max = x[0];
    for (long i = 1; i < n; i++)
        *max = x[i] > *max ? x[i] : *max;
    for (long i = 0; i < n; i++)
        x[i] = exponential(x[i] - *max);
    for (long c = 0, w = padded_chunk(n); c < CHUNKS && c * w < n; c++)
        part[c] = sum_row(x + c * w, n - c * w < w ? n - c * w : w);
    tree(part, CHUNKS, 1);
    for (long i = 0; i < n; i++)
        x[i] = x[i] / part[0];
    return part[0];
}

/* ---- tokens ---- */

/* Which token stands in place t. */
static long token_at(long t)
{
    long b = t / block;
    return stripes ? t % block * CHUNKS + ((b & 1) << 2 | (b & 2) | b >> 2) : t;
}

/* The first token of the part that token t is in. */
static long part_begin(long t)
{
    return t - t % (T / parts);
}

/* Whether the query in place t sees the key in place j. */
static int sees(long t, long j)
{
    return token_at(j) <= token_at(t) && j >= part_begin(t);
}

/* ---- dropout ---- */

static long drawn_step, drawn_sequence; /* of the sequence at hand */

/* Four words of a counter and a key: Philox4x32-10. */
static void philox(uint32_t c[4], uint64_t keys)
{
    uint32_t key = (uint32_t)keys, other = (uint32_t)(keys >> 32);
    for (int i = 0; i < 10; i++, key += 0x9E3779B9u, other += 0xBB67AE85u) {
        uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ key, c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ other, c[3] = (uint32_t)a;
    }
}

/* What an element is multiplied by that has this word of the counter; 0: it is dropped. */
static real kept(long word, long a, long b, long c, long d)
{
    uint32_t w[4] = { (uint32_t)a, (uint32_t)b, (uint32_t)c, (uint32_t)d };
    if (!(dropout > 0) || drawn_step < 0)
        return 1;
    philox(w, hash(hash((uint64_t)seed) + (uint64_t)drawn_step));
    return w[word] >= (uint32_t)(dropout * 4294967296.0) ? (real)(1 / (1 - dropout)) : 0;
}

/* By sites as in gpt.c; `to`, which is returned, may be x. */
static const real *drop(real *to, const real *x, long site)
{
    for (long i = 0, n = C / 4; i < T * C; i++) {
        real by = dropout > 0 ? kept(i % C / n, i % n, token_at(i / C), drawn_sequence, site) : 1;
        to[i] = by > 0 ? nearest(x[i] * by) : 0;
    }
    return to;
}

/* The same of the probability that query t of head h gives key j. */
static real attended(long l, long h, long t, long j)
{
    long key = token_at(j), counter = key / 64 * 16 + key % 16, sequence = drawn_sequence | 1L << 31;
    return dropout > 0 ? kept(key / 16 % 4, counter, token_at(t), sequence, h << 12 | l) : 1;
}

/* ---- attention ---- */

/* qkv[T][HEADS][3][head_size]. Of a block of keys: the largest score m, the sum l of exp(score - m), and the
 * values weighted by these, o; partials merge, as gpt.c says. */
CLONES static void attention(real *out, real *lse, const real *qkv, long layer)
{
    real *scores = room(T * T), *o = room(CHUNKS * head_size), m[CHUNKS], l[CHUNKS];
    for (long h = 0; h < HEADS; h++) {
        const real *q = qkv + 3 * h * head_size, *v = q + 2 * head_size;
        multiply(scores, T, T, head_size, plain(q, 3 * C), turned(q + head_size, 3 * C), head_size);
        for (long t = 0; t < T; t++) {
            long from = part_begin(t) / block, blocks = stripes ? CHUNKS : t / block + 1 - from;
            memset(o, 0, sizeof(real) * (size_t)(CHUNKS * head_size));
            for (long b = 0; b < blocks; b++) {
                long first = (from + b) * block, seen = 0;
                while (seen < block && sees(t, first + seen))
                    seen++;
                real *p = scores + t * T + first;
                m[b] = seen ? 0 : (real)-1e30;
                for (long j = 0; j < seen; j++) {
                    p[j] = p[j] * score_scale;
                    m[b] = j == 0 || p[j] > m[b] ? p[j] : m[b];
                }
                for (long j = 0; j < seen; j++) {
                    p[j] = exponential(p[j] - m[b]);
                    real share = p[j] * attended(layer, h, t, first + j);
                    for (long d = 0; d < head_size; d++)
                        o[b * head_size + d] = FMA(share, v[(first + j) * 3 * C + d], o[b * head_size + d]);
                }
                l[b] = sum_row(p, seen);
            }
            for (long step = 1; step < blocks; step *= 2)
                for (long x = 0, y = step; y < blocks; x += 2 * step, y += 2 * step) {
                    real most = m[x] > m[y] ? m[x] : m[y];
                    real ex = exponential(m[x] - most), ey = exponential(m[y] - most);
                    l[x] = l[x] * ex + l[y] * ey, m[x] = most;
                    for (long d = 0; d < head_size; d++)
                        o[x * head_size + d] = o[x * head_size + d] * ex + o[y * head_size + d] * ey;
                }
            for (long d = 0; d < head_size; d++)
                out[t * C + h * head_size + d] = o[d] / l[0];
            lse[h * T + t] = m[0] + logarithm(l[0]);
        }
    }
    free(scores), free(o);
}

/* The sums over tokens of a part of the sequence, by its blocks. */
CLONES static void multiply_part(real *out, matrix a, matrix b)
{
    long n = T / parts, chunks = CHUNKS / parts;
    real *sum = room(chunks * head_size);
    for (long i = 0; i < n; i++) {
        memset(sum, 0, sizeof(real) * (size_t)(chunks * head_size));
        for (long x = 0; x < n; x++)
            for (long d = 0; d < head_size; d++)
                sum[x / block * head_size + d] = FMA(a.at[i * a.row + x * a.column],
                    b.at[x * b.row + d * b.column], sum[x / block * head_size + d]);
        tree(sum, chunks, head_size);
        memcpy(out + i * head_size, sum, sizeof(real) * (size_t)head_size);
    }
    free(sum);
}

static void attention_backward(
    real *dqkv, const real *dy, const real *y, const real *lse, const real *qkv, long layer)
{
    real *p = room(T * T), *ds = room(T * T), *d[3];
    for (int i = 0; i < 3; i++)
        d[i] = room(T * head_size);
    for (long h = 0; h < HEADS; h++) {
        const real *q = qkv + 3 * h * head_size, *k = q + head_size, *v = k + head_size;
        matrix dout = { dy + h * head_size, C, 1 };
        multiply(p, T, T, head_size, plain(q, 3 * C), turned(k, 3 * C), head_size);
        multiply(ds, T, T, head_size, dout, turned(v, 3 * C), head_size);
        for (long t = 0; t < T; t++) {
            real along = dot_row(dout.at + t * C, y + t * C + h * head_size, head_size);
            for (long j = 0; j < T; j++) {
                real *pj = p + t * T + j, *dj = ds + t * T + j;
                real e = sees(t, j) ? exponential(*pj * score_scale - lse[h * T + t]) : 0,
                     by = sees(t, j) ? attended(layer, h, t, j) : 0;
                *dj = sees(t, j) ? e * (*dj * by - along) * score_scale : 0;
                *pj = e * by;
            }
        }
        for (long from = 0; from < T; from += T / parts) {
            long at = from * head_size, first = from * T + from;
            multiply_part(d[0] + at, plain(ds + first, T), plain(k + from * 3 * C, 3 * C));
            multiply_part(d[1] + at, turned(ds + first, T), plain(q + from * 3 * C, 3 * C));
            multiply_part(d[2] + at, turned(p + first, T), plain(dout.at + from * C, C));
        }
        for (long t = 0; t < T; t++)
            for (long i = 0; i < 3; i++)
                memcpy(dqkv + ((t * HEADS + h) * 3 + i) * head_size, d[i] + t * head_size,
                    sizeof(real) * (size_t)head_size);
    }
    free(p), free(ds), free(d[0]), free(d[1]), free(d[2]);
}

/* ---- data: the batch is a function of the step alone ---- */

static uint16_t *corpus;
static long n_tokens, recall_stride;
static long n_learned; /* eval=N: the last tenth is held out */

static void make_corpus(void)
{
    n_tokens = 1 << 16;
    corpus = calloc((size_t)n_tokens, sizeof *corpus);
    for (long i = 1; i < n_tokens; i++) {
        uint64_t chance = hash((uint64_t)i * 2 + 1);
        uint64_t next = chance % 8 ? hash(corpus[i - 1] * 4u + (chance >> 8) % 2) : chance >> 8;
        corpus[i] = (uint16_t)(next % (uint64_t)V);
    }
}

/* "recall": sequences of 16 tokens by chance, whose second half is the first again. */
static void make_recall(void)
{
    recall_stride = T + 1;
    n_tokens = 4096 * recall_stride;
    corpus = calloc((size_t)n_tokens, sizeof *corpus);
    for (long i = 0; i < n_tokens; i++) {
        uint64_t sequence = (uint64_t)(i / recall_stride), place = (uint64_t)(i % recall_stride % (T / 2));
        corpus[i] = (uint16_t)(hash(hash(0x5EC0 + sequence) + place) % 16);
    }
}

/* llm.c's file of tokens (256 int32: magic number, version, how many; then uint16), or any other file as
 * bytes. */
static void read_corpus(const char *path)
{
    FILE *f = fopen(path, "rb");
    int32_t header[256];
    if (!f) {
        fprintf(stderr, NAME ": %s cannot be opened\n", path);
        exit(1);
    }
    size_t got = fread(header, 1, sizeof header, f);
    int is_tokens = got == sizeof header && header[0] == 20240520;
    fseek(f, 0, SEEK_END);
    n_tokens = is_tokens ? header[2] : ftell(f);
    fseek(f, is_tokens ? (long)sizeof header : 0, SEEK_SET);
    corpus = calloc((size_t)n_tokens + 1, sizeof *corpus);
    for (long i = 0; i < n_tokens; i++) {
        uint16_t x = 0;
        if (fread(&x, is_tokens ? 2 : 1, 1, f) != 1 || x >= V) {
            fprintf(stderr, NAME ": %s: token %ld is missing or not below vocab=%ld\n", path, i, V);
            exit(1);
        }
        corpus[i] = x;
    }
    fclose(f);
    if (n_tokens < T + 1) {
        fprintf(
            stderr, NAME ": %s has %ld tokens; context=%ld needs at least %ld\n", path, n_tokens, T, T + 1);
        exit(1);
    }
}

static void open_corpus(void)
{
    if (!*data_path)
        make_corpus();
    else if (!strcmp(data_path, "recall"))
        make_recall();
    else
        read_corpus(data_path);
    n_learned = eval ? n_tokens - n_tokens / 10 : n_tokens;
}

static const uint16_t *sequence_of(long step, long i)
{
    drawn_step = step, drawn_sequence = i;
    uint64_t key = hash(hash(hash((uint64_t)seed) + (uint64_t)step) + (uint64_t)i);
    if (recall_stride)
        return corpus + (long)(key % (uint64_t)(n_tokens / recall_stride)) * recall_stride;
    if (step < 0)
        return corpus + n_learned + key % (uint64_t)(n_tokens - n_learned - T);
    return corpus + key % (uint64_t)(n_learned - T);
}

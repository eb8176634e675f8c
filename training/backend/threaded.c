/* SPDX-License-Identifier: BSD-3-Clause */
/* threaded.c: a set of kernels whose longer operations are cut into parts, one for each thread of the rank.
 *
 * A part has whole elements of the result: rows of a product, whose bits hang on a row of a and a column of b
 * alone; sequences of attention; rows or elements elsewhere. So the bits are those of one thread. What sums
 * over rows stays with one thread. An operation that is over before a thread would be awake is not cut.
 *
 * The threads live as long as the context, which the back end of such a set opens and closes; in a context
 * without them the set is its base. Each thread but the caller has scratch of its own, beside the plan of the
 * rank's memory as its stack is; what needs more than that is not cut. */
#include "training/backend/threaded.h"

#include "training/backend/backend.h"
#include "training/kernels/threads.h"

#include <stdlib.h>

enum {
    FLOATS = 16, /* of a line of the cache */
    ROWS = 256, /* of a product that are made at once */
    SCRATCH = 1 << 20, /* floats of a thread */
    WORTH = 1 << 20 /* operations of a thread that are worth its waking */
};

static struct threaded {
    struct tr_kernels k;
    const struct tr_kernels *base;
    struct tr_backend backend;
    int n;
} sets[TR_THREADS_MOST + 1];

/* What is in a context. */
struct helpers {
    struct tr_threads *threads;
    float *scratch;
};

static const struct threaded *set_of(const struct tr_context *x)
{
    return (const struct threaded *)(const void *)x->k;
}

/* How many threads share so much work in so many pieces, of which one needs so much scratch; 1: it is not
 * cut. */
static int parts_of(const struct tr_context *x, double work, int64_t pieces, int64_t scratch)
{
    int n = x->self && scratch <= SCRATCH ? set_of(x)->n : 1;
    n = work / WORTH < n ? (int)(work / WORTH) : n;
    n = pieces < n ? (int)pieces : n;
    return n > 1 ? n : 1;
}

static void share_out(struct tr_context *x, int parts, void (*work)(void *what, int part), void *what)
{
    const struct helpers *h = x->self;
    tr_threads_share(h->threads, parts, work, what);
}

/* The caller has what was planned. */
static float *scratch_of(const struct tr_context *x, float *planned, int part)
{
    const struct helpers *h = x->self;
    return part ? h->scratch + (int64_t)(part - 1) * SCRATCH : planned;
}

/* ---- products ---- */

struct product {
    struct tr_context *x;
    const struct tr_gemm *g;
    float *scratch;
    int parts;
};

static struct tr_gemm rows_of(const struct tr_gemm *g, int64_t from, int64_t rows)
{
    struct tr_gemm some = *g;
    some.m = rows < g->m - from ? rows : g->m - from;
    some.a += from * g->a_row, some.c += from * g->c_row;
    return some;
}

static void multiply_part(void *what, int part)
{
    const struct product *p = what;
    int64_t first, eights;
    tr_threads_part((p->g->m + 7) / 8, part, p->parts, &first, &eights);
    for (int64_t at = 8 * first, end = 8 * (first + eights); at < end; at += ROWS) {
        struct tr_gemm some = rows_of(p->g, at, end - at < ROWS ? end - at : ROWS);
        set_of(p->x)->base->gemm(p->x, &some, scratch_of(p->x, p->scratch, part));
    }
}

static void gemm(struct tr_context *x, const struct tr_gemm *g, float *scratch)
{
    const struct tr_kernels *base = set_of(x)->base;
    double work = (double)g->m * (double)g->n * (double)g->k * (g->sequences ? (double)g->sequences : 1);
    struct tr_gemm largest = *g;
    largest.m = g->m < ROWS ? g->m : ROWS;
    struct product p = { x, g, scratch, parts_of(x, work, (g->m + 7) / 8, base->scratch_gemm(&largest)) };
    if (p.parts > 1)
        share_out(x, p.parts, multiply_part, &p);
    else
        base->gemm(x, g, scratch);
}

/* ---- attention: a part has some sequences ---- */

struct attending {
    struct tr_context *x;
    const struct tr_attention *s;
    float *out, *lse, *dq, *dkv; /* results */
    const float *q, *kv, *dout, *of_out, *of_lse;
    float *scratch;
    int parts;
};

static void attend_part(void *what, int part)
{
    const struct attending *w = what;
    struct tr_attention some = *w->s;
    int64_t i, n, rows = some.heads * some.queries, out = rows * some.size,
                  keys = some.heads * some.tokens * some.size;
    int64_t q = some.separate_kv ? out : 3 * out, kv = some.separate_kv ? 2 * keys : q;
    float *scratch = scratch_of(w->x, w->scratch, part);
    tr_threads_part(some.sequences, part, w->parts, &i, &n);
    some.sequences = n;
    if (some.scores)
        some.scores += i * some.by_pairs * rows * some.tokens;
    const float *of_q = w->q + i * some.by_queries * q, *of_kv = w->kv + i * some.by_keys * kv;
    const struct tr_kernels *base = set_of(w->x)->base;
    out *= i * some.by_queries, rows *= i * some.by_queries;
    if (w->out)
        base->attention.whole(w->x, w->out + out, w->lse + rows, of_q, of_kv, &some, scratch);
    else
        base->attention.dx(w->x, w->dq + i * some.by_pairs * q, w->dkv + i * some.by_pairs * kv,
            w->dout + out, w->of_out + out, w->of_lse + rows, of_q, of_kv, &some, scratch);
}

static double work_of(const struct tr_attention *s)
{
    return (double)(s->sequences * s->heads * s->size) * (double)s->queries * (double)s->tokens;
}

static void whole(struct tr_context *x, float *out, float *lse, const float *q, const float *kv,
    const struct tr_attention *s, float *scratch)
{
    const struct tr_kernels *base = set_of(x)->base;
    struct attending w = { .x = x,
        .s = s,
        .out = out,
        .lse = lse,
        .q = q,
        .kv = kv,
        .scratch = scratch,
        .parts = parts_of(x, work_of(s), s->sequences, base->attention.scratch(s)) };
    if (w.parts > 1)
        share_out(x, w.parts, attend_part, &w);
    else
        base->attention.whole(x, out, lse, q, kv, s, scratch);
}

static void attention_dx(struct tr_context *x, float *dq, float *dkv, const float *dout, const float *out,
    const float *lse, const float *q, const float *kv, const struct tr_attention *s, float *scratch)
{
    const struct tr_kernels *base = set_of(x)->base;
    struct attending w = { .x = x,
        .s = s,
        .dq = dq,
        .dkv = dkv,
        .dout = dout,
        .of_out = out,
        .of_lse = lse,
        .q = q,
        .kv = kv,
        .scratch = scratch,
        .parts = parts_of(x, 2 * work_of(s), s->sequences, base->attention.scratch(s)) };
    if (w.parts > 1)
        share_out(x, w.parts, attend_part, &w);
    else
        base->attention.dx(x, dq, dkv, dout, out, lse, q, kv, s, scratch);
}

/* ---- elements and rows ---- */

struct elements {
    struct tr_context *x;
    enum { GELU, GELU_DX, ADD, NORM, NORM_DX } what;
    float *out, *mean, *scale;
    const float *a, *b, *w, *of_mean, *of_scale;
    int64_t count, columns; /* elements, of 1 column; or rows */
    int parts;
};

static void elements_part(void *what, int part)
{
    const struct elements *e = what;
    const struct tr_kernels *k = set_of(e->x)->base;
    int64_t line = e->columns > 1 ? 1 : FLOATS, first, lines;
    tr_threads_part((e->count + line - 1) / line, part, e->parts, &first, &lines);
    int64_t from = first * line, until = (first + lines) * line;
    int64_t n = (until < e->count ? until : e->count) - from, at = from * e->columns;
    if (e->what == GELU)
        k->gelu.forward(e->x, e->out + at, e->a + at, n);
    else if (e->what == GELU_DX)
        k->gelu.dx(e->x, e->out + at, e->b + at, e->a + at, n);
    else if (e->what == ADD)
        k->add(e->x, e->out + at, e->a + at, e->b + at, n);
    else if (e->what == NORM)
        k->layer_norm.forward(
            e->x, e->out + at, e->mean + from, e->scale + from, e->a + at, e->w, e->b, n, e->columns);
    else
        k->layer_norm.dx(e->x, e->out + at, e->b + at, e->a + at, e->w, e->of_mean + from, e->of_scale + from,
            n, e->columns);
}

/* work: operations of an element, roughly. */
static void share(struct elements *e, double work)
{
    e->parts = parts_of(e->x, work * (double)(e->count * e->columns), e->count, 0);
    if (e->parts > 1)
        share_out(e->x, e->parts, elements_part, e);
    else
        elements_part(e, 0);
}

static void gelu(struct tr_context *x, float *y, const float *from, int64_t count)
{
    share(&(struct elements){ .x = x, .what = GELU, .out = y, .a = from, .count = count, .columns = 1 }, 8);
}

static void gelu_dx(struct tr_context *x, float *dx, const float *dy, const float *from, int64_t count)
{
    struct elements e = {
        .x = x, .what = GELU_DX, .out = dx, .a = from, .b = dy, .count = count, .columns = 1
    };
    share(&e, 16);
}

static void add(struct tr_context *x, float *out, const float *a, const float *b, int64_t count)
{
    share(&(struct elements){ .x = x, .what = ADD, .out = out, .a = a, .b = b, .count = count, .columns = 1 },
        1);
}

static void norm(struct tr_context *x, float *y, float *mean, float *scale, const float *from, const float *w,
    const float *b, int64_t rows, int64_t c)
{
    struct elements e = { .x = x,
        .what = NORM,
        .out = y,
        .mean = mean,
        .scale = scale,
        .a = from,
        .w = w,
        .b = b,
        .count = rows,
        .columns = c };
    share(&e, 4);
}

static void norm_dx(struct tr_context *x, float *dx, const float *dy, const float *from, const float *w,
    const float *mean, const float *scale, int64_t rows, int64_t c)
{
    struct elements e = { .x = x,
        .what = NORM_DX,
        .out = dx,
        .a = from,
        .b = dy,
        .w = w,
        .of_mean = mean,
        .of_scale = scale,
        .count = rows,
        .columns = c };
    share(&e, 8);
}

static void update(struct tr_context *x, const struct tr_update *u)
{
    struct tr_context of_base = { set_of(x)->base, NULL, 0 };
    const struct helpers *h = x->self;
    tr_update(&of_base, u, h ? h->threads : NULL);
}

/* ---- the set ---- */

static bool open_threads(struct tr_context *x, struct tr_error *e)
{
    int n = set_of(x)->n;
    struct helpers *h = tr_new(1, sizeof *h);
    h->threads = tr_threads_start(n, "threads", e);
    h->scratch = aligned_alloc(64, (size_t)(n - 1) * SCRATCH * sizeof(float));
    x->self = h;
    return h->threads && (h->scratch || tr_fail(e, "--threads %d: there is no memory for their scratch", n));
}

static void close_threads(struct tr_context *x)
{
    struct helpers *h = x->self;
    if (!h)
        return;
    tr_threads_stop(h->threads);
    free(h->scratch);
    free(h);
    x->self = NULL;
}

const struct tr_kernels *tr_kernels_threaded(const struct tr_kernels *base, int n)
{
    if (n < 2 || n > TR_THREADS_MOST)
        return base;
    struct threaded *t = &sets[n];
    *t = (struct threaded){ *base, base, *tr_backend_of(base), n };
    t->backend.open = open_threads, t->backend.close = close_threads;
    t->k.backend = &t->backend;
    t->k.gemm = gemm;
    t->k.attention.whole = whole, t->k.attention.dx = attention_dx;
    t->k.gelu.forward = gelu, t->k.gelu.dx = gelu_dx, t->k.add = add;
    t->k.layer_norm.forward = norm, t->k.layer_norm.dx = norm_dx;
    t->k.update = update;
    return &t->k;
}

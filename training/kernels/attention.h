/* SPDX-License-Identifier: BSD-3-Clause */
/* attention.h: causal attention over one sequence, as products of blocks.
 *
 * Each query sees its keys in blocks. A block gives its largest score m, the sum l of exp(score - m), and the
 * values weighted by these, o. Two such partials merge into one for both blocks (Milakov, Gimelshein 2018),
 * and the tree over the blocks is the canonical order. What the mask hides is not computed.
 *
 * Where the sequence stands in stripes, every block of keys has some that a query sees: of each one as many
 * as tokens stand before the query in its own stripe, and one more if that stripe is not behind the query's.
 * Only the first token of a stripe sees none of some blocks. */

/* Where the arrays of one head lie. Scores have rows of `row` floats, a multiple of 16. */
struct head {
    const float *q, *k, *v;
    int64_t q_step, step; /* floats of a row of q; of k and v */
    int64_t row, blocks; /* blocks of keys */
    int64_t before, here; /* blocks of queries; before: less those before the keys, may be negative */
    float scale;
    int64_t number; /* of the head */
};

INLINE struct head head_of(const float *q, const float *kv, const struct tr_attention *s, int64_t h)
{
    int64_t of_q = s->separate_kv ? s->size : 3 * s->size, of_kv = s->separate_kv ? 2 * s->size : of_q;
    const float *k = kv + h * of_kv;
    return (struct head){ q + h * of_q, k, k + s->size, s->heads * of_q, s->heads * of_kv,
        (s->tokens + LANES - 1) / LANES * LANES, s->tokens / s->block, (s->first - s->begin) / s->block,
        s->queries / s->block, 1 / sqrtf((float)s->size), h };
}

/* Of the keys that are here: how many the queries up to `end` of those here can see. */
INLINE int64_t seen_by(int64_t end, const struct tr_attention *s)
{
    int64_t seen = s->striped ? s->tokens : lesser(s->tokens, s->first + end - s->begin);
    return seen > 0 ? seen : 0;
}

/* The blocks of keys of which the queries of block a can see any; a is counted from the first of the keys. */
INLINE int64_t blocks_seen(const struct head *d, int64_t a, const struct tr_attention *s)
{
    return s->striped ? d->blocks : lesser(a + 1, d->blocks);
}

/* Of block b the first query of block a sees so many keys, or all of fewer, and each other query one more. */
INLINE int64_t first_sees(int64_t a, int64_t b, const struct tr_attention *s)
{
    int64_t at = s->begin / s->block;
    if (s->striped)
        return tr_stripe_of(at + b) <= tr_stripe_of(at + a);
    return (a - b) * s->block + 1;
}

/* to[block][..] = the products of a block's rows of x with the columns of `turned`, up to its own: a whole
 * number of vectors of them, as rows have room for that. */
static void scores(float *to, const float *x, int64_t x_row, const float *turned, int64_t n,
    const struct head *d, const struct tr_attention *s, float *scratch)
{
    gemm_behind(&(struct tr_gemm){ .m = s->block,
                    .n = (n + WIDTH - 1) / WIDTH * WIDTH,
                    .k = s->size,
                    .a = x,
                    .a_row = x_row,
                    .a_column = 1,
                    .b = turned,
                    .b_row = d->row,
                    .b_column = 1,
                    .c = to,
                    .c_row = d->row,
                    .chunks = 1,
                    .chunk = s->size },
        0, scratch);
}

/* Of the query in this place, what it has of each key that it sees and that is here: weights, or gradients of
 * them. */
static void drop_row_of_keys(float *x, int64_t place, const struct head *d, const struct tr_attention *s)
{
    const uint32_t *draws = s->dropped.draws;
    if (!draws || !draws[TR_DRAW_LEAST])
        return;
    struct seen_keys k = { place, s->dropped.head + d->number, s->striped, 0 };
    if (!s->striped) {
        drop_keys(x, s->begin, lesser(s->tokens, place + 1 - s->begin), &k, &s->dropped);
        return;
    }
    int64_t first = s->begin / s->block, own = place / s->block;
    k.query = place % s->block * TR_STRIPES + tr_stripe_of(own);
    for (int64_t b = 0; b < d->blocks; b++) {
        int64_t sees = first_sees(own - first, b, s) + place % s->block;
        k.stripe = tr_stripe_of(first + b);
        drop_keys(x + b * s->block, 0, lesser(sees, s->block), &k, &s->dropped);
    }
}

/* ---- forward ---- */

/* The score of a query that sees no key: any other makes its weight 0. */
static const float unseen = -1e30f;

/* x becomes exp(x scale - m), m is the largest of x scale; the sum is returned. */
INLINE float weigh(float *x, int64_t seen, float scale, float *m)
{
    if (!seen) {
        *m = unseen;
        return 0;
    }
    vec most = vec_all(x[0] * scale);
    for (int64_t i = 0; i < seen; i += WIDTH)
        most = vec_at_least(vec_some(vec_load(x + i) * vec_all(scale), seen - i, most), most);
    most = vec_greatest(most);
    *m = most[0];
    struct lanes s = lanes_none();
    for (int64_t i = 0; i < seen; i += LANES)
        for (int64_t p = 0, at = i; p < PARTS && at < seen; p++, at += WIDTH) {
            vec e = exponential(vec_load_some(x + at, seen - at) * vec_all(scale) - most);
            vec_store_some(x + at, e, seen - at);
            s.part[p] = s.part[p] + vec_some(e, seen - at, vec_all(0));
        }
    return lanes_fold(&s);
}

/* A tile of the block that a query shares with its keys: row i sees t->k keys, and i + 1 more. */
INLINE void tile_causal(int rows, const struct tile *t)
{
    tile_sums acc;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
        acc[i][0] = vec_all(0);
    tile_chains(rows, 1, acc, t->a, t->b, t, t->k);
#pragma GCC unroll 8
    for (int j = 0; j < rows; j++) {
        vec line = vec_load(t->b + (t->k + j) * t->b_row);
#pragma GCC unroll 8
        for (int i = j; i < rows; i++)
            acc[i][0] = vec_fma(vec_all(t->a[i * t->a_row + t->k + j]), line, acc[i][0]);
    }
    tile_store(rows, 1, acc, t);
}

/* The product g of a lower triangle with its diagonal. Rows behind the last whole tile go one by one. */
static void gemm_causal(const struct tr_gemm *g, float *scratch)
{
    struct tile t = { .a_row = g->a_row, .a_column = 1, .c_row = g->c_row };
    for (int64_t j = 0; j < g->n; j += WIDTH) {
        t.width = lesser(WIDTH, g->n - j);
        bool direct = t.width == WIDTH;
        t.b = direct ? g->b + j : scratch;
        t.b_row = direct ? g->b_row : PANEL;
        if (!direct)
            pack_panel(scratch, g, j, t.width);
        for (int64_t i = 0; i < g->m; i += g->m - i < TILE_ROWS ? 1 : TILE_ROWS) {
            t.a = g->a + i * g->a_row;
            t.c = g->c + i * g->c_row + j;
            t.k = i;
            if (g->m - i < TILE_ROWS)
                tile_causal(1, &t);
            else
                tile_causal(TILE_ROWS, &t);
        }
    }
}

/* What a block of queries has of each block of keys: m[blocks][block], l likewise, o[blocks][block][size]. */
struct partials {
    float *m, *l, *o, *left, *right; /* left, right: factors of a merge, for each query */
};

/* Of `count` queries: what `of` has gets in. */
static void merge(
    const struct partials *p, const struct partials *of, int64_t count, const struct tr_attention *s)
{
    for (int64_t i = 0; i < count; i += WIDTH) {
        int64_t n = count - i;
        vec x = vec_load_some(p->m + i, n), y = vec_load_some(of->m + i, n), most = vec_at_least(x, y);
        vec ex = exponential(x - most), ey = exponential(y - most);
        vec sum = vec_load_some(p->l + i, n) * ex + vec_load_some(of->l + i, n) * ey;
        vec_store_some(p->left + i, ex, n);
        vec_store_some(p->right + i, ey, n);
        vec_store_some(p->l + i, sum, n);
        vec_store_some(p->m + i, most, n);
    }
    for (int64_t i = 0; i < count; i++)
        for (int64_t at = i * s->size, j = 0; j < s->size; j += WIDTH, at += WIDTH) {
            int64_t n = s->size - j;
            vec_store_some(p->o + at,
                vec_load_some(p->o + at, n) * vec_all(p->left[i]) +
                    vec_load_some(of->o + at, n) * vec_all(p->right[i]),
                n);
        }
}

/* Those of block b. */
INLINE struct partials of_block(const struct partials *p, int64_t b, const struct tr_attention *s)
{
    int64_t at = b * s->block;
    return (struct partials){ p->m + at, p->l + at, p->o + at * s->size, p->left, p->right };
}

/* The queries of block a, whose scores are there; all partials, merged into the first. The block may lie
 * behind the last one of the keys. */
static void attend(const struct partials *p, float *score, const struct head *d, int64_t a,
    const struct tr_attention *s, float *scratch)
{
    int64_t blocks = blocks_seen(d, a, s);
    for (int64_t b = 0; b < blocks; b++) { /* not row by row: a load would wait for the store beside it */
        int64_t sees = first_sees(a, b, s);
        for (int64_t i = 0; i < s->block; i++)
            p->l[b * s->block + i] = weigh(score + i * d->row + b * s->block, lesser(sees + i, s->block),
                d->scale, p->m + b * s->block + i);
    }
    for (int64_t i = 0; i < s->block; i++)
        drop_row_of_keys(score + i * d->row, s->begin + a * s->block + i, d, s);
    for (int64_t b = 0; b < blocks; b++) {
        struct tr_gemm g = { .m = s->block,
            .n = s->size,
            .k = s->block,
            .a = score + b * s->block,
            .a_row = d->row,
            .a_column = 1,
            .b = d->v + b * s->block * d->step,
            .b_row = d->step,
            .b_column = 1,
            .c = p->o + b * s->block * s->size,
            .c_row = s->size,
            .chunks = 1,
            .chunk = s->block };
        int64_t sees = first_sees(a, b, s);
        if (sees == 0) { /* the diagonal is hidden, too */
            memset(g.c, 0, (size_t)g.c_row * sizeof *g.c);
            g.m--, g.a += g.a_row, g.c += g.c_row;
        }
        if (sees <= 1)
            gemm_causal(&g, scratch);
        else
            gemm_behind(&g, 0, scratch);
    }
    for (int64_t step = 1; step < blocks; step *= 2)
        for (int64_t b = 0; b + step < blocks; b += 2 * step) {
            struct partials to = of_block(p, b, s), from = of_block(p, b + step, s);
            merge(&to, &from, s->block, s);
        }
}

/* Where the partials of a block of queries lie in scratch, behind keys that are turned and scores. */
struct attending {
    float *turned, *score, *rest;
    struct partials p;
};

static struct attending attending(const struct head *d, const struct tr_attention *s, float *scratch)
{
    float *score = scratch + s->size * d->row, *m = score + s->block * d->row, *o = m + 4 * d->row;
    return (struct attending){ scratch, score, o + d->row * s->size,
        { m, m + d->row, o, m + 2 * d->row, m + 3 * d->row } };
}

/* The rows of block a in what is kept of this head. */
INLINE float *kept_rows(const struct head *d, int64_t a, const struct tr_attention *s)
{
    return s->scores + (d->number * s->queries + a * s->block) * s->tokens;
}

/* What the queries of block a see, and +0 behind. */
static void keep_scores(const float *score, const struct head *d, int64_t a, const struct tr_attention *s)
{
    float *to = kept_rows(d, a, s);
    for (int64_t i = 0; i < s->block; i++, to += s->tokens) {
        int64_t seen = seen_by(a * s->block + i + 1, s);
        memcpy(to, score + i * d->row, (size_t)seen * sizeof *to);
        memset(to + seen, 0, (size_t)(s->tokens - seen) * sizeof *to);
    }
}

/* Block a of the queries that are here: its partial; false if it sees no key. */
static bool attend_block(
    const struct attending *w, const struct head *d, int64_t a, const struct tr_attention *s)
{
    int64_t block = d->before + a;
    if (blocks_seen(d, block, s) <= 0) {
        if (s->scores)
            keep_scores(w->score, d, a, s);
        return false;
    }
    scores(w->score, d->q + a * s->block * d->q_step, d->q_step, w->turned,
        blocks_seen(d, block, s) * s->block, d, s, w->rest);
    if (s->scores)
        keep_scores(w->score, d, a, s);
    attend(&w->p, w->score, d, block, s, w->rest);
    return true;
}

/* `count` queries from t on are whole. */
static void finish(float *out, float *lse, const struct partials *p, int64_t t, int64_t count, int64_t h,
    const struct tr_attention *s)
{
    for (int64_t i = 0; i < count; i++, t++) {
        float *to = out + (t * s->heads + h) * s->size;
        for (int64_t j = 0; j < s->size; j += WIDTH)
            vec_store_some(
                to + j, vec_load_some(p->o + i * s->size + j, s->size - j) / vec_all(p->l[i]), s->size - j);
        lse[h * s->queries + t] = p->m[i] + logarithm(p->l[i]);
    }
}

static void attend_sequence(
    float *out, float *lse, const float *q, const float *kv, const struct tr_attention *s, float *scratch)
{
    for (int64_t h = 0; h < s->heads; h++) {
        struct head d = head_of(q, kv, s, h);
        struct attending w = attending(&d, s, scratch);
        turn(w.turned, d.row, d.k, d.step, seen_by(s->queries, s), s->size);
        for (int64_t a = 0; a < d.here; a++) {
            attend_block(&w, &d, a, s);
            finish(out, lse, &w.p, a * s->block, s->block, h, s);
        }
    }
}

/* Elements from what is of one sequence to what is of the next one. */
struct nexts {
    int64_t out, lse, q, kv, dq, dkv, part, scores;
};

static struct nexts nexts_of(const struct tr_attention *s)
{
    int64_t rows = s->heads * s->queries, out = rows * s->size, keys = s->heads * s->tokens * s->size;
    int64_t q = s->separate_kv ? out : 3 * out, kv = s->separate_kv ? 2 * keys : q;
    return (struct nexts){ s->by_queries * out, s->by_queries * rows, s->by_queries * q, s->by_keys * kv,
        s->by_pairs * q, s->by_pairs * kv, s->by_pairs * (out + 2 * rows), s->by_pairs * rows * s->tokens };
}

/* The shape of sequence i. */
static struct tr_attention sequence_of(const struct tr_attention *s, const struct nexts *next, int64_t i)
{
    struct tr_attention one = *s;
    if (s->scores)
        one.scores += i * next->scores;
    if (s->dropped.draws)
        one.dropped.draws += i * TR_DRAW_WORDS;
    return one;
}

static void attention(CONTEXT, float *out, float *lse, const float *q, const float *kv,
    const struct tr_attention *s, float *scratch)
{
    struct nexts next = nexts_of(s);
    for (int64_t i = 0; i < s->sequences; i++) {
        struct tr_attention one = sequence_of(s, &next, i);
        attend_sequence(
            out + i * next.out, lse + i * next.lse, q + i * next.q, kv + i * next.kv, &one, scratch);
    }
}

/* Of head h in a part: for each query the largest score, the sum, the values. */
INLINE struct partials part_of(float *part, int64_t h, const struct tr_attention *s)
{
    float *m = part + h * s->queries * (s->size + 2);
    return (struct partials){ m, m + s->queries, m + 2 * s->queries, NULL, NULL };
}

static void attend_part(
    float *part, const float *q, const float *kv, const struct tr_attention *s, float *scratch)
{
    for (int64_t h = 0; h < s->heads; h++) {
        struct head d = head_of(q, kv, s, h);
        struct attending w = attending(&d, s, scratch);
        struct partials whole = part_of(part, h, s);
        turn(w.turned, d.row, d.k, d.step, seen_by(s->queries, s), s->size);
        for (int64_t a = 0; a < d.here; a++) {
            struct partials to = of_block(&whole, a, s);
            if (!attend_block(&w, &d, a, s)) {
                memset(w.p.m, 0, (size_t)s->block * sizeof *to.m);
                memset(w.p.l, 0, (size_t)s->block * sizeof *to.l);
                memset(w.p.o, 0, (size_t)(s->block * s->size) * sizeof *to.o);
            }
            memcpy(to.m, w.p.m, (size_t)s->block * sizeof *to.m);
            memcpy(to.l, w.p.l, (size_t)s->block * sizeof *to.l);
            memcpy(to.o, w.p.o, (size_t)(s->block * s->size) * sizeof *to.o);
        }
    }
}

static void attention_part(
    CONTEXT, float *part, const float *q, const float *kv, const struct tr_attention *s, float *scratch)
{
    struct nexts next = nexts_of(s);
    for (int64_t i = 0; i < s->sequences; i++) {
        struct tr_attention one = sequence_of(s, &next, i);
        attend_part(part + i * next.part, q + i * next.q, kv + i * next.kv, &one, scratch);
    }
}

/* Of sequence i. */
static void merge_sequence(float *out, float *lse, const struct tr_partial *part, int64_t n, int64_t i,
    const struct tr_attention *s, float *scratch)
{
    for (int64_t h = 0; h < s->heads; h++) {
        for (int64_t step = 1; step < n; step *= 2)
            for (int64_t b = 0; b + step < n; b += 2 * step) {
                struct partials to = part_of(part[b].p + i * part[b].next, h, s),
                                from = part_of(part[b + step].p + i * part[b + step].next, h, s);
                to.left = scratch, to.right = scratch + s->queries;
                merge(&to, &from, s->queries, s);
            }
        struct partials whole = part_of(part[0].p + i * part[0].next, h, s);
        finish(out, lse, &whole, 0, s->queries, h, s);
    }
}

static void attention_merge(CONTEXT, float *out, float *lse, const struct tr_partial *part, int64_t n,
    const struct tr_attention *s, float *scratch)
{
    struct nexts next = nexts_of(s);
    for (int64_t i = 0; i < s->sequences; i++)
        merge_sequence(out + i * next.out, lse + i * next.lse, part, n, i, s, scratch);
}

/* ---- backward ---- */

/* A row of scores becomes probabilities, and one of their gradients that of the scores; 0 behind `seen`. */
INLINE void weigh_back(float *p, float *ds, int64_t seen, int64_t room, float scale, float lse, float along)
{
    for (int64_t j = 0; j < seen; j += WIDTH) {
        vec e = exponential(vec_load(p + j) * vec_all(scale) - vec_all(lse));
        vec slope = e * (vec_load(ds + j) - vec_all(along)) * vec_all(scale);
        vec_store_some(p + j, e, seen - j);
        vec_store_some(ds + j, slope, seen - j);
    }
    memset(p + seen, 0, (size_t)(room - seen) * sizeof(float));
    memset(ds + seen, 0, (size_t)(room - seen) * sizeof(float));
}

/* The same of query t, which sees blocks of keys each for itself if they are stripes. */
INLINE void weigh_row_back(float *p, float *ds, int64_t t, int64_t room, float lse, float along,
    const struct head *d, const struct tr_attention *s)
{
    if (!s->striped) {
        weigh_back(p, ds, seen_by(t + 1, s), room, d->scale, lse, along);
        return;
    }
    for (int64_t b = 0; b < d->blocks; b++) {
        int64_t sees = first_sees(d->before + t / s->block, b, s) + t % s->block, at = b * s->block;
        weigh_back(p + at, ds + at, lesser(sees, s->block), s->block, d->scale, lse, along);
    }
}

/* Keys of block b: the sum over the queries here of weights[query][key] x[query][size]. Queries of the blocks
 * before b do not see them: their chunks are empty. */
static void sum_queries(float *to, const float *weights, const float *x, int64_t x_row, const struct head *d,
    int64_t b, const struct tr_attention *s, float *scratch)
{
    int64_t blind = !s->striped && b > d->before ? lesser(b - d->before, d->here) : 0, at = blind * s->block;
    gemm_behind(&(struct tr_gemm){ .m = s->block,
                    .n = s->size,
                    .k = s->queries - at,
                    .a = weights + at * d->row + b * s->block,
                    .a_row = 1,
                    .a_column = d->row,
                    .b = x + at * x_row,
                    .b_row = x_row,
                    .b_column = 1,
                    .c = to + b * s->block * d->step,
                    .c_row = d->step,
                    .chunks = d->here,
                    .chunk = s->block },
        blind, scratch);
}

/* Queries of block b of those here: the sum over the keys up to their own. */
static void sum_keys(float *to, const float *weights, const struct head *d, int64_t b,
    const struct tr_attention *s, float *scratch)
{
    int64_t at = b * s->block;
    gemm_behind(&(struct tr_gemm){ .m = s->block,
                    .n = s->size,
                    .k = seen_by(at + s->block, s),
                    .a = weights + at * d->row,
                    .a_row = d->row,
                    .a_column = 1,
                    .b = d->k,
                    .b_row = d->step,
                    .b_column = 1,
                    .c = to + at * d->q_step,
                    .c_row = d->q_step,
                    .chunks = d->blocks,
                    .chunk = s->block },
        0, scratch);
}

static void attend_back(float *to_q, float *to_kv, const float *dout, const float *out, const float *lse,
    const float *q, const float *kv, const struct tr_attention *s, float *scratch)
{
    int64_t out_row = s->heads * s->size;
    for (int64_t h = 0; h < s->heads; h++) {
        struct head d = head_of(q, kv, s, h);
        float *keys = scratch, *values = keys + s->size * d.row, *p = values + s->size * d.row,
              *ds = p + s->queries * d.row, *rest = ds + s->queries * d.row;
        float *dq = to_q + (d.q - q), *dk = to_kv + (d.k - kv), *dv = dk + s->size;
        const float *dy = dout + h * s->size, *y = out + h * s->size;
        turn(keys, d.row, d.k, d.step, seen_by(s->queries, s), s->size);
        turn(values, d.row, d.v, d.step, seen_by(s->queries, s), s->size);
        for (int64_t a = 0; a < d.here; a++) {
            int64_t at = a * s->block, end = at + s->block, room = seen_by(end, s);
            if (s->scores)
                for (int64_t i = 0; i < s->block; i++)
                    memcpy(
                        p + (at + i) * d.row, kept_rows(&d, a, s) + i * s->tokens, (size_t)room * sizeof *p);
            else
                scores(p + at * d.row, d.q + at * d.q_step, d.q_step, keys, room, &d, s, rest);
            scores(ds + at * d.row, dy + at * out_row, out_row, values, room, &d, s, rest);
            for (int64_t t = at; t < end && room; t++) {
                drop_row_of_keys(ds + t * d.row, s->first + t, &d, s);
                weigh_row_back(p + t * d.row, ds + t * d.row, t, room, lse[h * s->queries + t],
                    dot_row(dy + t * out_row, y + t * out_row, s->size), &d, s);
                drop_row_of_keys(p + t * d.row, s->first + t, &d, s);
            }
            sum_keys(dq, ds, &d, a, s, rest);
        }
        for (int64_t b = 0; b < d.blocks; b++) {
            sum_queries(dv, p, dy, out_row, &d, b, s, rest);
            sum_queries(dk, ds, d.q, d.q_step, &d, b, s, rest);
        }
    }
}

static void attention_dx(CONTEXT, float *dq, float *dkv, const float *dout, const float *out,
    const float *lse, const float *q, const float *kv, const struct tr_attention *s, float *scratch)
{
    struct nexts next = nexts_of(s);
    for (int64_t i = 0; i < s->sequences; i++) {
        struct tr_attention one = sequence_of(s, &next, i);
        attend_back(dq + i * next.dq, dkv + i * next.dkv, dout + i * next.out, out + i * next.out,
            lse + i * next.lse, q + i * next.q, kv + i * next.kv, &one, scratch);
    }
}

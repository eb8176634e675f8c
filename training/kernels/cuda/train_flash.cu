/* SPDX-License-Identifier: BSD-3-Clause */
/* train_flash.cu: the forward pass of causal attention, without scores in memory.
 *
 * A block of threads has some neighbouring queries of one head, and walks over the blocks of keys that these
 * see. Scores of a block of keys become weights in shared memory, and are multiplied with the values there.
 * What a block gives, (m, l, o), waits for its right neighbour in the tree over the blocks, as in any binary
 * counter: o in local memory. So no bit is other than where all scores are there at once.
 *
 * Before the first exponential of a block of keys its largest score must be known. Where not all of its
 * scores have room, they are computed twice: once for that, once to be weighed.
 *
 * Queries that are computed together are of one block of the sequence, so that they join as many partials. */
#include "training/kernels/cuda/attention.cuh"
#include "training/kernels/cuda/gemm.cuh"

enum {
    QUERIES = 64,
    PANEL = 64, /* columns of the values that are computed together; of keys that many have a tile */
    MOST_KEYS = 2 * PANEL, /* whose scores have room */
    FLASH_THREADS = QUERIES * PANEL / (SIDE * SIDE), /* one for each query, too */
    FLASH_LEVELS = 3, /* of the counter: a sequence has eight blocks */
    MOST_BLOCKS = 1 << FLASH_LEVELS
};
static_assert(FLASH_THREADS == QUERIES, "a row of weights has a thread");

struct flash_params {
    attending d;
    const float *q, *kv;
    float *out, *lse; /* or the partials of all keys here, if part is not null */
    float *part;
    int64_t tiles, panels; /* tiles of queries in a block of them */
    bool q_quads, kv_quads, out_quads;
};

/* What a block of threads works on. It lies in shared memory, since all registers are taken. */
struct flash_place {
    int64_t q, kv; /* where those of the head begin */
    int64_t sequence, head;
    int32_t t, t_end, panel; /* queries; the first column */
    int32_t blocks; /* that are joined */

    MEMBER void find(const flash_params &p)
    {
        const attending &d = p.d;
        int64_t number = block_index();
        panel = static_cast<int32_t>(number % p.panels * PANEL);
        number /= p.panels;
        const int64_t tiles = d.queries / d.block * p.tiles;
        /* The last queries see most keys, so they begin first. */
        const int64_t tile = tiles - 1 - number % tiles, begin = tile / p.tiles * d.block;
        number /= tiles;
        sequence = number / d.heads;
        head = number % d.heads;
        t = static_cast<int32_t>(begin + tile % p.tiles * QUERIES);
        t_end = static_cast<int32_t>(begin + d.block);
        q = sequence * d.next.q + head * d.q_size;
        kv = sequence * d.next.kv + head * d.kv_size;
        blocks = static_cast<int32_t>(d.joins(t));
    }
};

struct flash_shared {
    alignas(16) float weight[MOST_KEYS][QUERIES + 4];
    alignas(16) float a[DEPTH][QUERIES + 4], b[DEPTH][PANEL + 4];
    float lane[LANES][QUERIES]; /* sums of weights */
    float left[QUERIES], right[QUERIES]; /* factors of what is joined, of each query */
    flash_place at;
};

/* Some keys of block b, of which query t + i sees `first_sees` + i, if there are as many. */
struct flash_keys {
    int32_t begin; /* of the block of keys, among those here */
    int32_t from, count; /* in the block; how many any query here sees */
    int32_t first_sees, end; /* how many the last query sees of the block */

    /* Of these keys query i sees so many. */
    MEMBER int32_t seen(int32_t i) const
    {
        const int32_t all = first_sees + i < end ? first_sees + i : end;
        const int32_t some = all - from;
        return some < 0 ? 0 : some < count ? some : count;
    }
};

/* What a block of keys gives, and waits. */
struct flash_waiting {
    quad o[SQUARES];
    float m, l;
};

/* What some blocks of keys give: m and l of the query that has the thread's number. */
struct flash_tile {
    tile_sums<QUERIES, PANEL> o;
    float m, l;

    MEMBER void clear(flash_shared &shared)
    {
        o.clear();
        m = -INFINITY;
        UNROLL
        for (int lane = 0; lane < LANES; lane++)
            shared.lane[lane][thread_index()] = 0;
    }

    /* weight[key][query] = the products of queries and keys. */
    static MEMBER void multiply_keys(
        const flash_params &p, const flash_place &at, const flash_keys &keys, flash_shared &shared)
    {
        const int32_t size = static_cast<int32_t>(p.d.size), end = keys.begin + keys.from + keys.count;
        gemm_tile<QUERIES, PANEL, true, true, false> tile;
        ROLLED
        for (int32_t n = 0; n < keys.count; n += PANEL) {
            const int32_t first = keys.begin + keys.from + n;
            tile.clear();
            tile.a.template fetch<false>(p.q + at.q, p.d.q_step, at.t_end, at.t, 0, size, -0.0f, p.q_quads);
            tile.b.template fetch<false>(p.kv + at.kv, p.d.kv_step, end, first, 0, size, 0.0f, p.kv_quads);
            ROLLED
            for (int32_t d = DEPTH; d < size + DEPTH; d += DEPTH) {
                sync_block();
                tile.a.put(shared.a);
                tile.b.put(shared.b);
                sync_block();
                if (d < size) {
                    tile.a.template fetch<false>(
                        p.q + at.q, p.d.q_step, at.t_end, at.t, d, size, -0.0f, p.q_quads);
                    tile.b.template fetch<false>(
                        p.kv + at.kv, p.d.kv_step, end, first, d, size, 0.0f, p.kv_quads);
                }
                tile.multiply(shared.a, shared.b);
            }
            UNROLL
            for (int j = 0; j < SIDE; j++) {
                float *to = &shared.weight[n + tile.column + tile.column_of(j)][tile.row];
                store_quad(to, quad{ tile.sum[0][j], tile.sum[1][j], tile.sum[2][j], tile.sum[3][j] });
                store_quad(to + 32, quad{ tile.sum[4][j], tile.sum[5][j], tile.sum[6][j], tile.sum[7][j] });
            }
        }
        sync_block();
    }

    MEMBER void find_most(const flash_params &p, const flash_keys &keys, const flash_shared &shared)
    {
        const uint32_t i = thread_index();
        const int32_t seen = keys.seen(static_cast<int32_t>(i));
        UNROLL_BY(4)
        for (int32_t key = 0; key < seen; key++)
            m = greater(m, shared.weight[key][i] * p.d.scale);
    }

    /* Scores become weights, which are added up in lanes. */
    MEMBER void weigh(const flash_params &p, const flash_keys &keys, flash_shared &shared) const
    {
        const uint32_t i = thread_index();
        const int32_t seen = keys.seen(static_cast<int32_t>(i));
        UNROLL_BY(4)
        for (int32_t key = 0; key < seen; key++) {
            const float e = exponential(shared.weight[key][i] * p.d.scale - m);
            shared.weight[key][i] = e;
            shared.lane[key % LANES][i] = shared.lane[key % LANES][i] + e;
        }
    }

    /* Weights of the keys that query i sees are dropped, or scaled. */
    MEMBER void drop(
        const flash_params &p, const flash_place &at, const flash_keys &keys, flash_shared &shared) const
    {
        const uint32_t i = thread_index(), least = p.d.least(at.sequence);
        const int32_t seen = keys.seen(static_cast<int32_t>(i));
        const int32_t token = static_cast<int32_t>(p.d.token_of_key(keys.begin));
        const int32_t first = p.d.striped ? keys.from : token + keys.from; /* in the run of keys */
        ROLLED
        for (int32_t n = first / 64 * 16; least != 0 && n / 16 * 64 < first + seen; n++) {
            const philox_words w = p.d.draw(at.sequence, at.head, at.t + i, p.d.striped ? n * 8 + token : n);
            UNROLL
            for (int word = 0; word < 4; word++) {
                const int32_t in_run =
                    p.d.striped ? n / 2 * 8 + word * 2 + n % 2 : n / 16 * 64 + word * 16 + n % 16;
                const int32_t key = in_run - first;
                if (key >= 0 && key < seen)
                    shared.weight[key][i] =
                        w.word[word] >= least ? shared.weight[key][i] * p.d.dropped.scale : 0.0f;
            }
        }
    }

    /* o += the products of weights and values: each query's sum ends with the last key that it sees. */
    MEMBER void multiply_values(
        const flash_params &p, const flash_place &at, const flash_keys &keys, flash_shared &shared)
    {
        const int32_t columns = static_cast<int32_t>(p.d.size) - at.panel;
        const int32_t first = keys.begin + keys.from, end = first + keys.count;
        const float *v = p.kv + at.kv + p.d.size + at.panel;
        operand<PANEL, FLASH_THREADS, false> b;
        b.template fetch<false>(v, p.d.kv_step, columns, 0, first, end, 0.0f, p.kv_quads);
        ROLLED
        for (int32_t from = 0; from < keys.count; from += DEPTH) {
            sync_block();
            b.put(shared.b);
            sync_block();
            if (from + DEPTH < keys.count)
                b.template fetch<false>(
                    v, p.d.kv_step, columns, 0, first + from + DEPTH, end, 0.0f, p.kv_quads);
            if (keys.seen(0) >= from + DEPTH) {
                o.multiply(&shared.weight[from], shared.b);
                continue;
            }
            int32_t sees[SIDE];
            UNROLL
            for (int i = 0; i < SIDE; i++)
                sees[i] = keys.seen(o.row + o.row_of(i)) - from;
            o.multiply_seen(&shared.weight[from], shared.b, sees);
        }
    }

    /* The tree over the lanes. */
    MEMBER void add_lanes(const flash_shared &shared)
    {
        float sum[LANES];
        UNROLL
        for (int lane = 0; lane < LANES; lane++)
            sum[lane] = shared.lane[lane][thread_index()];
        UNROLL
        for (int step = 1; step < LANES; step *= 2) {
            UNROLL
            for (int lane = 0; lane + step < LANES; lane += 2 * step)
                sum[lane] = sum[lane] + sum[lane + step];
        }
        l = sum[0];
    }

    /* What block b of the keys gives. */
    MEMBER void attend(const flash_params &p, const flash_place &at, int32_t b, flash_shared &shared)
    {
        const int32_t last = at.t_end - at.t < QUERIES ? at.t_end - 1 : at.t + QUERIES - 1;
        const int32_t all = static_cast<int32_t>(p.d.sees(last, b));
        const bool twice = all > MOST_KEYS;
        flash_keys keys = { static_cast<int32_t>(b * p.d.block), 0, 0,
            static_cast<int32_t>(p.d.sees(at.t, b)), static_cast<int32_t>(p.d.block) };
        clear(shared);
        ROLLED
        for (int weighing = twice ? 0 : 1; weighing < 2; weighing++) {
            ROLLED
            for (keys.from = 0; keys.from < all; keys.from += MOST_KEYS) {
                keys.count = all - keys.from < MOST_KEYS ? all - keys.from : MOST_KEYS;
                multiply_keys(p, at, keys, shared);
                if (!twice || !weighing)
                    find_most(p, keys, shared);
                if (!weighing)
                    continue;
                weigh(p, keys, shared);
                drop(p, at, keys, shared);
                multiply_values(p, at, keys, shared);
            }
        }
        add_lanes(shared);
        if (keys.first_sees + static_cast<int32_t>(thread_index()) <= 0)
            m = UNSEEN;
    }

    MEMBER void wait(flash_waiting &to) const
    {
        to.m = m;
        to.l = l;
        UNROLL
        for (int q = 0; q < SQUARES; q++) {
            const float *s = &o.sum[q / 2][q % 2 * 4];
            to.o[q] = quad{ s[0], s[1], s[2], s[3] };
        }
    }

    /* What waits to the left comes in. */
    MEMBER void join(const flash_waiting &left, flash_shared &shared)
    {
        const joining by = joining_of(left.m, m);
        m = by.m;
        l = by.of(left.l, l);
        sync_block();
        shared.left[thread_index()] = by.left;
        shared.right[thread_index()] = by.right;
        sync_block();
        UNROLL
        for (int q = 0; q < SQUARES; q++) {
            const int32_t row = o.row + o.row_of(q / 2);
            const joining each = { 0, shared.left[row], shared.right[row] };
            float *s = &o.sum[q / 2][q % 2 * 4];
            s[0] = each.of(left.o[q].x, s[0]);
            s[1] = each.of(left.o[q].y, s[1]);
            s[2] = each.of(left.o[q].z, s[2]);
            s[3] = each.of(left.o[q].w, s[3]);
        }
    }

    /* Rows of o, divided by their sums where these are given. */
    MEMBER void store(const flash_params &p, const flash_place &at, float *to, int64_t step, const float *by)
    {
        o.find_own();
        UNROLL
        for (int q = 0; q < SQUARES; q++) {
            const int32_t row = o.row + o.row_of(q / 2), column = o.column + o.column_of(q % 2 * 4);
            const int64_t left = p.d.size - at.panel - column;
            if (at.t + row >= at.t_end || left <= 0)
                continue;
            const float *s = &o.sum[q / 2][q % 2 * 4], divisor = by != nullptr ? by[row] : 1.0f;
            const float x[4] = { s[0] / divisor, s[1] / divisor, s[2] / divisor, s[3] / divisor };
            float *out = to + (at.t + row) * step + at.panel + column;
            if (p.out_quads && left > 3) {
                store_quad(out, quad{ x[0], x[1], x[2], x[3] });
                continue;
            }
            UNROLL
            for (int e = 0; e < 4; e++)
                if (e < left)
                    out[e] = x[e];
        }
    }

    /* out[query][head][size] and lse[head][query], or m[query], l[query] and o[query][size] of a part. */
    MEMBER void finish(const flash_params &p, const flash_place &at, flash_shared &shared)
    {
        const attending &d = p.d;
        const int64_t t = at.t + static_cast<int64_t>(thread_index());
        const bool tells = at.panel == 0 && t < at.t_end;
        if (p.part != nullptr) {
            float *part = p.part + at.sequence * d.next.part + at.head * d.queries * (d.size + 2);
            if (tells) {
                part[t] = m;
                part[d.queries + t] = l;
            }
            store(p, at, part + 2 * d.queries, d.size, nullptr);
            return;
        }
        sync_block();
        shared.left[thread_index()] = l;
        sync_block();
        if (tells)
            p.lse[at.sequence * d.next.lse + at.head * d.queries + t] = m + logarithm(l);
        store(p, at, p.out + at.sequence * d.next.out + at.head * d.size, d.out_step, shared.left);
    }
};

/* PTX of flash_kernel: fma.rn.f32 bar.sync ld.shared.v4 ld.global.v4
 * STACK of flash_kernel: 816, what waits */
KERNEL void RESIDENT(FLASH_THREADS, 4) flash_kernel(const PARAMS flash_params p)
{
    SHARED(flash_shared, shared);
    flash_waiting waiting[FLASH_LEVELS];
    const flash_place &at = shared.at;
    if (thread_index() == 0)
        shared.at.find(p);
    sync_block();
    flash_tile tile;
    tile.o.clear();
    tile.m = tile.l = 0;
    ROLLED
    for (int32_t b = 0; b < at.blocks; b++) {
        const bool last = b == at.blocks - 1;
        int32_t level = 0;
        tile.attend(p, at, b, shared);
        ROLLED
        for (; b >> level && (last || (b >> level & 1)); level++)
            if (b >> level & 1)
                tile.join(waiting[level], shared);
        if (!last)
            tile.wait(waiting[level]);
    }
    tile.finish(p, at, shared);
}

/* Scores that are kept are +0 behind the mask. Of stripes all are kept, as these have the mask in every
 * block. */
struct hide_scores {
    int64_t count;
    float *score;
    attending d;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t key = i % d.tokens, row = i / d.tokens, each = d.heads * d.queries;
        if (key > row % d.queries + d.shift)
            score[row / each * d.next.scores + row % each * d.tokens + key] = 0;
    }
};

static void keep_scores(
    struct tr_context *x, const attending &d, float *score, const float *q, const float *kv)
{
    const row_layout at = { d.next.scores, d.tokens, d.queries * d.tokens };
    tr_cuda_multiply_scores(x, d, score, at, q, of_q(d), kv);
    if (!d.striped)
        start_each(x, hide_scores{ d.sequences * d.heads * d.queries * d.tokens, score, d });
}

static void start_flash(struct tr_context *x, flash_params p)
{
    const attending &d = p.d;
    if (d.blocks > MOST_BLOCKS) {
        fail(x, TR_CUDA_INVALID);
        return;
    }
    p.tiles = quotient_up(d.block, QUERIES);
    p.panels = quotient_up(d.size, PANEL);
    p.q_quads = has_quads(p.q, d.q_step, d.next.q, d.q_size);
    p.kv_quads = d.size % 4 == 0 && has_quads(p.kv, d.kv_step, d.next.kv, d.kv_size);
    p.out_quads = p.part != nullptr ? d.size % 4 == 0 && d.queries % 2 == 0 &&
                                          has_quads(p.part, d.size, d.next.part, d.queries * (d.size + 2))
                                    : d.size % 4 == 0 && has_quads(p.out, d.out_step, d.next.out, d.size);
    start(x, KERNEL_FUNCTION(flash_params, flash_kernel), p,
        d.sequences * d.heads * (d.queries / d.block) * p.tiles * p.panels, FLASH_THREADS);
}

void tr_cuda_attention(struct tr_context *x, float *out, float *lse, const float *q, const float *kv,
    const struct tr_attention *s, float *scratch)
{
    (void)scratch;
    start_flash(x, { attending_of(s), q, kv, out, lse, nullptr, 0, 0, false, false, false });
}

void tr_cuda_attention_part(struct tr_context *x, float *part, const float *q, const float *kv,
    const struct tr_attention *s, float *scratch)
{
    (void)scratch;
    const attending d = attending_of(s);
    if (s->scores != nullptr)
        keep_scores(x, d, s->scores, q, kv);
    start_flash(x, { d, q, kv, nullptr, nullptr, part, 0, 0, false, false, false });
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* train_rope.cu: rotary position embedding, as training/kernels/rope.h defines it.
 *
 * Cosine and sine of each token and pair are made once a call, in scratch. The power that is a pair's angle
 * from token to token is the C library's, and is asked on the processor, so that it is the processor's. */
#include "training/kernels/cuda/places.cuh"

/* Pairs of channels whose powers go to a kernel in its parameters. */
enum { PAIRS_AT_ONCE = 128 };

struct turn {
    float cosine, sine;
};

INLINE turn turn_of(double place, float slow)
{
    const double magic = 6755399441055744.0;
    const double angle = static_cast<double>(slow) * place;
    const double turns = angle * 0.63661977236758138 + magic - magic;
    const float x =
        static_cast<float>(angle - turns * 1.57079632673412561417 - turns * 6.07710050650619224932e-11);
    const float z = x * x;
    float s = fused(-1.9515295891e-4f, z, 8.3321608736e-3f);
    s = fused(fused(s, z, -1.6666654611e-1f), z * x, x);
    float c = fused(2.443315711809948e-5f, z, -1.388731625493765e-3f);
    c = fused(fused(c, z, 4.166664568298827e-2f), z * z, fused(-0.5f, z, 1.0f));
    const uint32_t quarter = static_cast<uint32_t>(static_cast<int32_t>(turns));
    const bool odd = (quarter & 1) != 0;
    return { number_of(bits_of(odd ? s : c) ^ ((quarter + 1) & 2) << 30),
        number_of(bits_of(odd ? c : s) ^ (quarter & 2) << 30) };
}

/* to[token][2][size / 2], of `pairs` of the pairs, from `first` on. */
struct turns_each {
    int64_t count;
    float *to;
    struct tr_positions at;
    int64_t size, first, pairs;
    float slow[PAIRS_AT_ONCE];

    MEMBER void operator()(int64_t i) const
    {
        const int64_t t = i / pairs, pair = i % pairs;
        const turn by = turn_of(static_cast<double>(token_at(at, t)), slow[pair]);
        float *cosine = to + t * size + first + pair;
        *cosine = by.cosine;
        cosine[size / 2] = by.sine;
    }
};

static void make_turns(struct tr_context *x, float *to, const struct tr_rope *r)
{
    const int64_t half = r->size / 2, tokens = r->at.runs * r->at.tokens;
    for (int64_t first = 0; first < half; first += PAIRS_AT_ONCE) {
        turns_each work = { 0, to, r->at, r->size, first, lesser(PAIRS_AT_ONCE, half - first), {} };
        work.count = tokens * work.pairs;
        for (int64_t n = 0; n < work.pairs; n++)
            work.slow[n] = static_cast<float>(
                pow(10000.0, -2.0 * static_cast<double>(first + n) / static_cast<double>(r->size)));
        start_each(x, work);
    }
}

/* Two channels of a head, so far apart. */
struct pair_of {
    float x, y;
};
INLINE pair_of load_pair(const float *from, int64_t half)
{
    return { from[0], from[half] };
}
INLINE void store_pair(float *to, int64_t half, pair_of p)
{
    to[0] = p.x;
    to[half] = p.y;
}

/* Pair i of what is [token][group][slot][size / 2], where a group has a slot for each head's queries, one for
 * its keys and one for its values. */
struct grouped_pair {
    int64_t token, group, slot, pair; /* group: of all tokens */
};
struct groups {
    int64_t tokens, groups, share, half; /* tokens of a sequence */

    MEMBER grouped_pair of(int64_t i) const
    {
        const int64_t slots = share + 2, group = i / half / slots;
        return { group / groups % tokens, group, i / half % slots, i % half };
    }
    /* Where it lies among grouped queries, keys and values; and that of one head and kind, behind them. */
    MEMBER int64_t grouped(const grouped_pair &p) const
    {
        return (p.group * (share + 2) + p.slot) * 2 * half + p.pair;
    }
    MEMBER int64_t spread(const grouped_pair &p, int64_t head, int64_t kind) const
    {
        return ((p.group * share + head) * 3 + kind) * 2 * half + p.pair;
    }
    MEMBER pair_of turned(pair_of p, const float *turns, const grouped_pair &at, bool back) const
    {
        const float *by = turns + at.token * 2 * half + at.pair;
        const float c = by[0], s = back ? -by[half] : by[half];
        return { p.x * c - p.y * s, p.y * c + p.x * s };
    }
};

struct rope_each {
    int64_t count;
    float *qkv;
    const float *grouped, *turns;
    groups of;

    MEMBER void operator()(int64_t i) const
    {
        const grouped_pair at = of.of(i);
        pair_of p = load_pair(grouped + of.grouped(at), of.half);
        if (at.slot <= of.share)
            p = of.turned(p, turns, at, false);
        if (at.slot < of.share)
            store_pair(qkv + of.spread(at, at.slot, 0), of.half, p);
        else
            for (int64_t head = 0; head < of.share; head++)
                store_pair(qkv + of.spread(at, head, 1 + at.slot - of.share), of.half, p);
    }
};

/* Keys and values are summed over the heads of their group.
 * STACK of rope_dx_each: 128, two binary counters */
struct rope_dx_each {
    int64_t count;
    float *grouped;
    const float *qkv, *turns;
    groups of;

    MEMBER pair_of sum(const grouped_pair &at, int64_t kind) const
    {
        counter<float> of_x, of_y;
        pair_of p = { 0, 0 };
        for (int64_t head = 0; head < of.share; head++) {
            p = load_pair(qkv + of.spread(at, head, kind), of.half);
            p.x = of_x.after(p.x, head, of.share);
            p.y = of_y.after(p.y, head, of.share);
        }
        return p;
    }
    MEMBER void operator()(int64_t i) const
    {
        const grouped_pair at = of.of(i);
        pair_of p = at.slot < of.share ? load_pair(qkv + of.spread(at, at.slot, 0), of.half)
                                       : sum(at, 1 + at.slot - of.share);
        if (at.slot <= of.share)
            p = of.turned(p, turns, at, true);
        store_pair(grouped + of.grouped(at), of.half, p);
    }
};

/* ---- the set's functions ---- */

int64_t tr_cuda_scratch_rope(const struct tr_rope *r)
{
    return r->at.runs * r->at.tokens * r->size;
}

static groups groups_of(const struct tr_rope *r)
{
    return { r->at.runs * r->at.tokens, r->groups, r->share, r->size / 2 };
}

static int64_t pairs_of(const struct tr_rope *r)
{
    return r->at.sequences * r->at.runs * r->at.tokens * r->groups * (r->share + 2) * (r->size / 2);
}

void tr_cuda_rope(
    struct tr_context *x, float *qkv, const float *grouped, const struct tr_rope *r, float *scratch)
{
    make_turns(x, scratch, r);
    start_each(x, rope_each{ pairs_of(r), qkv, grouped, scratch, groups_of(r) });
}

void tr_cuda_rope_dx(
    struct tr_context *x, float *grouped, const float *qkv, const struct tr_rope *r, float *scratch)
{
    make_turns(x, scratch, r);
    start_each(x, rope_dx_each{ pairs_of(r), grouped, qkv, scratch, groups_of(r) });
}

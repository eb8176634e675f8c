/* SPDX-License-Identifier: BSD-3-Clause */
/* search.c: choices in the order of their guesses, and of the best their tapes. */
#include "training/advice/search.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *const tr_fate_names[TR_FATES] = { "guessed slower, and not looked at further",
    "too large: by what a rank needs at least", "too large: by its tapes", "refused by the trainer",
    "like one that fits, with other options", "slower", "among the best" };

const char *const tr_alone_names[TR_ALONES] = { "data parallel", "ZeRO", "tensor parallel", "pipeline",
    "context parallel", "expert parallel" };

/* How many that fit are looked for while guesses are near. Tapes of so many instructions take seconds, after
 * which those that there are must do, and at last one. */
enum { ENOUGH = 16, MANY_INSTRUCTIONS = 300 * 1000, MOST_INSTRUCTIONS = 1000 * 1000 };

enum tr_alone tr_alone_of(const struct tr_choice *c)
{
    const int sizes[] = { c->dp / c->ep > 1, c->tp > 1, c->pp > 1, c->cp > 1, c->ep > 1 };
    const enum tr_alone of[] = { TR_ALONE_DP, TR_ALONE_TP, TR_ALONE_PP, TR_ALONE_CP, TR_ALONE_EP };
    enum tr_alone found = TR_ALONES;
    for (int i = 0; i < 5; i++) {
        if (sizes[i] && found != TR_ALONES)
            return TR_ALONES;
        found = sizes[i] ? of[i] : found;
    }
    return found == TR_ALONE_DP && c->zero ? TR_ALONE_ZERO : found;
}

/* ---- all choices ---- */

struct list {
    struct tr_choice *all;
    int n, room;
};

struct making {
    struct list *list;
    const struct tr_options *base;
    const struct tr_sketch *sketch;
    const struct tr_machine *machine;
    bool micro, zero, sp, recompute, schedule, mesh[5]; /* what the user said */
};

static void add(struct making *k, const struct tr_choice *c)
{
    if (!tr_choice_divides(c, k->sketch))
        return;
    struct list *l = k->list;
    l->all = tr_grow(l->all, l->n, &l->room, sizeof *l->all);
    l->all[l->n] = *c;
    tr_guess(&l->all[l->n++], k->sketch, k->machine);
}

static bool may_be(bool said, int64_t asked, int64_t value)
{
    return !said || asked == value;
}

static void add_options(struct making *k, struct tr_choice c)
{
    const struct tr_plan *p = &k->base->plan;
    for (int zero = 0; zero <= 3; zero++)
        for (int recompute = 0; recompute < TR_RECOMPUTES; recompute++)
            for (int order = 0; order < TR_ORDERS; order++)
                for (int sp = 0; sp < 2; sp++) {
                    c.zero = (unsigned char)zero, c.recompute = (unsigned char)recompute;
                    c.order = (unsigned char)order, c.sp = sp != 0;
                    bool named =
                        !k->schedule || c.pp == 1 || !strcmp(p->pipeline.schedule, tr_order_names[order]);
                    if (recompute != TR_RECOMPUTE_GELU && named && may_be(k->zero, p->zero.level, zero) &&
                        may_be(k->recompute, p->recompute.what, recompute) && may_be(k->sp, p->tokens.sp, sp))
                        add(k, &c);
                }
}

static void add_micros(struct making *k, struct tr_choice c)
{
    int64_t each = k->sketch->batch / c.dp;
    for (int64_t size = 1; size <= each; size *= 2) {
        c.micros = (int)(each / size);
        if (each % size == 0 && may_be(k->micro, k->base->plan.micros, c.micros))
            add_options(k, c);
    }
}

static void add_meshes(struct making *k, long ranks)
{
    const struct tr_sizes *asked = &k->base->plan.sizes;
    for (int tp = 1; tp <= TR_CUT && tp <= ranks; tp *= 2)
        for (int cp = 1; cp <= TR_BLOCKS && (long)tp * cp <= ranks; cp *= 2)
            for (int pp = 1; pp <= k->sketch->layers && (long)pp * tp * cp <= ranks; pp++) {
                if (ranks % ((long)pp * tp * cp) || k->sketch->layers % pp)
                    continue;
                int dp = (int)(ranks / ((long)pp * tp * cp));
                for (int ep = 1; ep <= dp && (ep == 1 || k->sketch->experts); ep *= 2) {
                    struct tr_choice c = { .pp = (short)pp,
                        .cp = (short)cp,
                        .ep = (short)ep,
                        .tp = (short)tp,
                        .dp = dp,
                        .overlap = k->machine->covers && dp * cp > 1 };
                    if (may_be(k->mesh[0], asked->dp, dp) && may_be(k->mesh[1], asked->tp, tp) &&
                        may_be(k->mesh[2], asked->pp, pp) && may_be(k->mesh[3], asked->cp, cp) &&
                        may_be(k->mesh[4], asked->ep, ep))
                        add_micros(k, c);
                }
            }
}

static int by_guess(const void *left, const void *right)
{
    const struct tr_choice *a = left, *b = right;
    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    if (a->least != b->least)
        return a->least < b->least ? -1 : 1;
    return memcmp(a, b, offsetof(struct tr_choice, seconds));
}

/* ---- the best of them ---- */

static bool fits(const struct tr_search *s, const struct tr_options *base, const struct tr_estimate *x)
{
    int64_t host = base->shown.host_memory;
    return (!s->memory || x->arena <= s->memory) && (!host || x->host <= host);
}

static bool same_mesh(const struct tr_choice *a, const struct tr_choice *b)
{
    return a->pp == b->pp && a->dp == b->dp && a->cp == b->cp && a->ep == b->ep && a->tp == b->tp &&
           a->zero == b->zero;
}

static bool mesh_fits(const struct tr_search *s, const struct tr_choice *c)
{
    for (int i = 0; i < s->n_evaluated; i++)
        if (s->evaluated[i].fate == TR_SLOWER && same_mesh(&s->evaluated[i].choice, c))
            return true;
    return false;
}

/* Its fate: SLOWER if it fits, until the winners are known. */
static struct tr_candidate *evaluate(
    struct tr_search *s, const struct tr_options *base, const struct tr_machine *m, const struct tr_choice *c)
{
    struct tr_candidate *x = &s->evaluated[s->n_evaluated++];
    struct tr_options o;
    *x = (struct tr_candidate){ .choice = *c, .evaluated = true };
    tr_choice_options(&o, base, c);
    tr_evaluate(&x->estimate, &o, m);
    x->fate = !x->estimate.legal ? TR_REFUSED : fits(s, base, &x->estimate) ? TR_SLOWER : TR_NO_FIT;
    return x;
}

static bool goes_on(const struct tr_search *s, int64_t instructions, double guess)
{
    double fastest = INFINITY;
    int found = 0;
    for (int i = 0; i < s->n_evaluated; i++)
        if (s->evaluated[i].fate == TR_SLOWER) {
            double seconds = s->evaluated[i].estimate.price.step;
            fastest = seconds < fastest ? seconds : fastest;
            found++;
        }
    if (s->n_evaluated + TR_ALONES >= TR_EVALUATED)
        return false;
    if (instructions > MOST_INSTRUCTIONS)
        return !found;
    return found < TR_BEST || (found < ENOUGH && guess < 1.5 * fastest && instructions < MANY_INSTRUCTIONS);
}

static void look(struct tr_search *s, const struct tr_options *base, const struct tr_machine *m,
    const struct list *l, unsigned char *fate)
{
    int64_t instructions = 0;
    for (int i = 0; i < l->n; i++) {
        const struct tr_choice *c = &l->all[i];
        fate[i] = TR_BEHIND;
        if (s->memory && c->least > s->memory)
            fate[i] = TR_TOO_LARGE;
        else if (mesh_fits(s, c))
            fate[i] = TR_LIKE;
        else if (goes_on(s, instructions, c->seconds)) {
            const struct tr_candidate *x = evaluate(s, base, m, c);
            fate[i] = (unsigned char)x->fate;
            instructions += x->estimate.instructions;
        }
    }
}

static void look_alone(struct tr_search *s, const struct tr_options *base, const struct tr_machine *m,
    const struct list *l, unsigned char *fate)
{
    for (int k = 0; k < TR_ALONES; k++)
        s->alone[k] = -1;
    for (int i = 0; i < s->n_evaluated; i++) {
        enum tr_alone k = tr_alone_of(&s->evaluated[i].choice);
        if (k != TR_ALONES && s->alone[k] < 0 && s->evaluated[i].fate == TR_SLOWER)
            s->alone[k] = i;
    }
    for (int i = 0; i < l->n; i++) {
        enum tr_alone k = tr_alone_of(&l->all[i]);
        if (k == TR_ALONES || s->alone[k] >= 0 || fate[i] != TR_BEHIND || s->n_evaluated == TR_EVALUATED)
            continue;
        s->alone[k] = s->n_evaluated;
        fate[i] = (unsigned char)evaluate(s, base, m, &l->all[i])->fate;
    }
}

static int64_t sent(const struct tr_estimate *x)
{
    int64_t all = 0;
    for (int i = 0; i < x->n_groups; i++)
        all += x->groups[i].sent;
    return all;
}

/* No price is known to one part in a hundred. Of those that are as near, the better one has less of ZeRO, and
 * sends less. */
static bool is_better(const struct tr_candidate *a, const struct tr_candidate *b)
{
    double x = floor(100 * log(a->estimate.price.step)), y = floor(100 * log(b->estimate.price.step));
    if (x != y)
        return x < y;
    if (a->choice.zero != b->choice.zero)
        return a->choice.zero < b->choice.zero;
    return sent(&a->estimate) < sent(&b->estimate);
}

static void take_best(struct tr_search *s, int64_t *slower)
{
    for (s->n_best = 0; s->n_best < TR_BEST; s->n_best++) {
        int best = -1;
        for (int i = 0; i < s->n_evaluated; i++)
            if (s->evaluated[i].fate == TR_SLOWER &&
                (best < 0 || is_better(&s->evaluated[i], &s->evaluated[best])))
                best = i;
        if (best < 0)
            return;
        s->evaluated[best].fate = TR_WON;
        s->best[s->n_best] = best;
        --*slower;
    }
}

/* The fastest by its guess, if it has not enough memory; and the one that needs least. */
static void look_at_memory(struct tr_search *s, const struct list *l, const unsigned char *fate)
{
    s->tightest = l->all[0];
    for (int i = 0; i < l->n; i++)
        if (l->all[i].least < s->tightest.least)
            s->tightest = l->all[i];
    for (int i = 0; i < l->n && !s->unlimited && fate[i] != TR_SLOWER; i++) {
        s->unlimited = fate[i] == TR_TOO_LARGE || fate[i] == TR_NO_FIT;
        s->unlimited_seconds = l->all[i].seconds;
    }
}

bool tr_search(struct tr_search *s, const struct tr_options *base, const struct tr_machine *m, int64_t memory,
    struct tr_error *e)
{
    struct list l = { .n = 0 };
    *s = (struct tr_search){ .memory = memory };
    if (!tr_sketch_make(&s->sketch, base, e))
        return false;
    static const char *const axes[] = { "dp", "tp", "pp", "cp", "ep" };
    struct making k = { .list = &l,
        .base = base,
        .sketch = &s->sketch,
        .machine = m,
        .micro = tr_options_given(base, "micro"),
        .zero = tr_options_given(base, "zero"),
        .sp = tr_options_given(base, "sp"),
        .recompute = tr_options_given(base, "recompute"),
        .schedule = tr_options_given(base, "schedule") };
    for (int i = 0; i < 5; i++)
        k.mesh[i] = tr_options_given(base, axes[i]);
    add_meshes(&k, base->ranks);
    if (!l.n)
        return tr_fail(e,
            "nothing divides: %ld ranks, a batch of %lld sequences, %lld layers and %lld heads; legal is a "
            "batch that is a power of two for each data-parallel rank, as --batch %ld",
            base->ranks, (long long)s->sketch.batch, (long long)s->sketch.layers, (long long)s->sketch.heads,
            base->ranks);
    qsort(l.all, (size_t)l.n, sizeof *l.all, by_guess);
    unsigned char *fate = tr_new((size_t)l.n, 1);
    look(s, base, m, &l, fate);
    look_alone(s, base, m, &l, fate);
    look_at_memory(s, &l, fate);
    s->choices = l.n;
    for (int i = 0; i < l.n; i++)
        s->fates[fate[i]]++;
    int64_t before = s->fates[TR_SLOWER];
    take_best(s, &s->fates[TR_SLOWER]);
    s->fates[TR_WON] = before - s->fates[TR_SLOWER];
    free(fate);
    free(l.all);
    return true;
}

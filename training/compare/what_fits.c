/* SPDX-License-Identifier: BSD-3-Clause */
/* what_fits.c: whether a configuration fits --memory and --host-memory, and what would make it fit. It is
 * not guessed: the tapes of each change are made and checked, and tell what they need. */
#include "training/compare/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What can be changed without another mesh. Each has more and more of it. */
enum change { MICRO, ZERO, SP, RECOMPUTE, OFFLOAD, CHANGES };

/* The next stronger value of one; false: there is none. */
static bool strengthen(struct tr_options *o, enum change k)
{
    switch (k) {
    case MICRO:
        o->plan.micros *= 2;
        return o->plan.micros <= o->plan.batch / o->plan.sizes.dp;
    case ZERO:
        return o->plan.sizes.dp > 1 && ++o->plan.zero.level <= 3;
    case SP:
        if (o->plan.tokens.sp || o->plan.sizes.tp == 1)
            return false;
        return o->plan.tokens.sp = true;
    case RECOMPUTE:
        return ++o->plan.recompute.what < TR_RECOMPUTES;
    default:
        o->plan.offload.what = o->plan.offload.what < 0 ? TR_OFFLOAD_OPTIMIZER : o->plan.offload.what + 1;
        return o->plan.offload.what < TR_OFFLOADS;
    }
}

static bool fits(const struct tr_comparison *c, const struct tr_prepared *p)
{
    int64_t limit = c->base.shown.memory, host_limit = c->base.shown.host_memory;
    bool ok = true;
    for (int r = 0; r < p->run.plan.mesh.n && ok; r++) {
        const struct tr_tape *t = tr_tapes_like(p->tapes, r);
        ok = (!limit || t->arena <= limit) && (!host_limit || t->host.arena <= host_limit);
    }
    return ok;
}

static bool would_fit(const struct tr_comparison *c, const struct tr_options *o)
{
    struct tr_prepared p;
    struct tr_error e;
    if (!tr_prepare(&p, o, &e))
        return false;
    bool ok = fits(c, &p);
    tr_prepared_free(&p);
    return ok;
}

/* So many changes, of those from `from` on; o becomes the first that fits. */
static bool changed(const struct tr_comparison *c, struct tr_options *o, int from, int changes)
{
    for (int k = from; k < CHANGES; k++) {
        struct tr_options with = *o;
        while (strengthen(&with, (enum change)k)) {
            struct tr_options more = with;
            if (changes == 1 ? !would_fit(c, &more) : !changed(c, &more, k + 1, changes - 1))
                continue;
            *o = more;
            return true;
        }
    }
    return false;
}

/* " --zero 1 --recompute full": what the one has more than the other. */
static void say(struct tr_contender *x, const char *before, const struct tr_options *o)
{
    static const char *const changes[] = { "micro", "zero", "sp", "recompute", "offload", NULL };
    size_t used = strlen(x->cure), room = sizeof x->cure;
    char text[sizeof x->cure];
    tr_options_beyond(text, sizeof text, o, &x->options, changes);
    snprintf(x->cure + used, room - used, "%s %s", before, text);
}

/* Each change that is enough alone, the least of it; else the fewest together. */
static void find_cure(const struct tr_comparison *c, struct tr_contender *x)
{
    for (int k = 0; k < CHANGES; k++) {
        struct tr_options o = x->options;
        bool enough = false;
        while (!enough && strengthen(&o, (enum change)k))
            enough = would_fit(c, &o);
        if (enough)
            say(x, *x->cure ? ", or" : "fits with", &o);
    }
    for (int changes = 2; changes <= CHANGES && !*x->cure; changes++) {
        struct tr_options o = x->options;
        if (changed(c, &o, 0, changes))
            say(x, "fits with", &o);
    }
    if (!*x->cure)
        snprintf(x->cure, sizeof x->cure, "%s; %s",
            "no --micro, --zero, --sp, --recompute or --offload is enough",
            x->prepared.run.plan.mesh.n == 1 ? "cut it over ranks" : "cut the model further");
}

void tr_compare_what_fits(const struct tr_comparison *c, struct tr_contender *x)
{
    x->fits = fits(c, &x->prepared);
    x->runs = x->runs && x->fits;
    if (!x->fits && !x->aside)
        find_cure(c, x);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.c: the limits of both memories, before anything is allocated. What would help is not guessed: the
 * tapes of each --offload are made, and tell. */
#include "training/commands/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -1: no limit. */
static bool limit_of(const char *name, const char *text, int64_t *bytes, struct tr_error *e)
{
    *bytes = -1;
    return !*text || tr_parse_bytes(text, bytes) ||
           tr_fail(e, "--%s %s: legal is a number with K, M, G or T", name, text);
}

static bool limits(const struct tr_options *o, int64_t limit[2], struct tr_error *e)
{
    return limit_of("memory", o->memory, &limit[0], e) &&
           limit_of("host-memory", o->host_memory, &limit[1], e);
}

static bool over(int64_t needed, int64_t limit)
{
    return limit >= 0 && needed > limit;
}

void tr_limits_needs(const struct tr_prepared *p, int64_t most[2])
{
    most[0] = most[1] = 0;
    for (int r = 0; r < p->run.plan.mesh.n; r++) {
        const struct tr_tape *t = tr_tapes_like(p->tapes, r);
        most[0] = t->arena > most[0] ? t->arena : most[0];
        most[1] = t->host.arena > most[1] ? t->host.arena : most[1];
    }
}

static bool needs_with(const struct tr_options *o, int offload, int64_t most[2])
{
    struct tr_options with = *o;
    struct tr_prepared p;
    struct tr_error ignored;
    snprintf(with.offload, sizeof with.offload, "%s", tr_offload_names[offload]);
    if (!tr_prepare(&p, &with, &ignored))
        return false;
    tr_limits_needs(&p, most);
    tr_prepared_free(&p);
    return true;
}

static void say_kinds(const int64_t *peak, char text[256])
{
    int used = 0;
    for (int k = 0; k < TR_MEMORIES; k++)
        used += snprintf(
            text + used, 256 - (size_t)used, "%s%s %" PRId64, k ? ", " : "", tr_memory_names[k], peak[k]);
}

/* What each --offload that is more than this one would need. */
static void say_offloads(const struct tr_options *o, int now, char text[320])
{
    int used = 0;
    *text = 0;
    for (int k = TR_OFFLOAD_OPTIMIZER; k < TR_OFFLOADS; k++) {
        int64_t most[2];
        if ((k & now) != now || k == now || !needs_with(o, k, most))
            continue;
        used += snprintf(text + used, 320 - (size_t)used, "%s%s %" PRId64 " here and %" PRId64 " on the host",
            used ? ", " : "; with --offload ", tr_offload_names[k], most[0], most[1]);
    }
}

static bool rank_fits(
    const struct tr_tape *t, const struct tr_options *o, const int64_t limit[2], struct tr_error *e)
{
    char kinds[256], offloads[320];
    if (over(t->arena, limit[0])) {
        say_kinds(t->peak, kinds);
        say_offloads(o, t->placed->plan->offload.what, offloads);
        return tr_fail(e,
            "rank %d needs %" PRId64 " bytes, and --memory %s is %" PRId64
            ": peaks are %s. Less is needed with more --micro, --zero 1 to 3, --tp, --cp or --pp, and of "
            "activations with --recompute%s",
            t->rank, t->arena, o->memory, limit[0], kinds, offloads);
    }
    if (!over(t->host.arena, limit[1]))
        return true;
    say_kinds(t->host.peak, kinds);
    return tr_fail(e,
        "rank %d needs %" PRId64 " bytes of the host's memory, and --host-memory %s is %" PRId64
        ": peaks are %s. Less is needed with --offload of one of the two, with --zero, --tp or --pp, and of "
        "activations with --recompute",
        t->rank, t->host.arena, o->host_memory, limit[1], kinds);
}

bool tr_limits_kept(const struct tr_prepared *p, const struct tr_options *o, struct tr_error *e)
{
    int64_t limit[2];
    bool ok = limits(o, limit, e);
    for (int r = 0; ok && r < p->run.plan.mesh.n; r++)
        ok = rank_fits(tr_tapes_like(p->tapes, r), o, limit, e);
    return ok;
}

bool tr_limits_offload(struct tr_options *o, struct tr_error *e)
{
    int64_t limit[2], most[2];
    if (!*o->host_memory || *o->offload)
        return true;
    if (!limits(o, limit, e))
        return false;
    for (int k = TR_OFFLOAD_NONE; k < TR_OFFLOADS; k++)
        if (needs_with(o, k, most) && !over(most[0], limit[0]) && !over(most[1], limit[1])) {
            snprintf(o->offload, sizeof o->offload, "%s", tr_offload_names[k]);
            break;
        }
    return true;
}

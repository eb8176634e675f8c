/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.c: the limits of both memories, before anything is allocated. What would help is not guessed: the
 * tapes of each --offload are made, and tell. */
#include "training/commands/limits.h"

#include "training/backend/cuda.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* 0: no limit. */
static bool over(int64_t needed, int64_t limit)
{
    return limit && needed > limit;
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
    with.plan.offload.what = offload;
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

/* `has`: who has less, and how much that is. */
static bool too_little(
    const struct tr_tape *t, const struct tr_options *o, const char *has, struct tr_error *e)
{
    char kinds[256], offloads[320];
    say_kinds(t->peak, kinds);
    say_offloads(o, t->placed->plan->offload.what, offloads);
    return tr_fail(e,
        "rank %d needs %" PRId64
        " bytes, and %s: peaks are %s. Less is needed with more --micro, --zero 1 to "
        "3, --tp, --cp or --pp, and of activations with --recompute%s",
        t->rank, t->arena, has, kinds, offloads);
}

static bool rank_fits(const struct tr_tape *t, const struct tr_options *o, int64_t device, struct tr_error *e)
{
    char kinds[256], has[96], limit[32];
    if (over(t->arena, o->shown.memory)) {
        snprintf(has, sizeof has, "--memory %s is %" PRId64, tr_bytes_text(o->shown.memory, limit),
            o->shown.memory);
        return too_little(t, o, has, e);
    }
    if (device && t->arena + TR_DEVICE_OWN_BYTES > device) {
        snprintf(has, sizeof has, "of its device it may have %" PRId64 ", of which kernels take %d", device,
            (int)TR_DEVICE_OWN_BYTES);
        return too_little(t, o, has, e);
    }
    if (!over(t->host.arena, o->shown.host_memory))
        return true;
    say_kinds(t->host.peak, kinds);
    return tr_fail(e,
        "rank %d needs %" PRId64 " bytes of the host's memory, and --host-memory %s is %" PRId64
        ": peaks are %s. Less is needed with --offload of one of the two, with --zero, --tp or --pp, and of "
        "activations with --recompute",
        t->rank, t->host.arena, tr_bytes_text(o->shown.host_memory, limit), o->shown.host_memory, kinds);
}

bool tr_limits_kept(
    const struct tr_prepared *p, const struct tr_options *o, int64_t device, struct tr_error *e)
{
    bool ok = true;
    for (int r = 0; ok && r < p->run.plan.mesh.n; r++)
        ok = rank_fits(tr_tapes_like(p->tapes, r), o, device, e);
    return ok;
}

void tr_limits_offload(struct tr_options *o)
{
    int64_t most[2];
    if (!o->shown.host_memory || o->plan.offload.what >= 0)
        return;
    for (int k = TR_OFFLOAD_NONE; k < TR_OFFLOADS; k++)
        if (needs_with(o, k, most) && !over(most[0], o->shown.memory) &&
            !over(most[1], o->shown.host_memory)) {
            o->plan.offload.what = k;
            return;
        }
}

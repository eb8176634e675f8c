/* SPDX-License-Identifier: BSD-3-Clause */
/* offload.c: what may go to the host's memory, and what it goes with; passes/offload.c puts it there. */
#include "training/parallel/registry.h"

enum { MOST_THREADS = 256 };

const char *const tr_offload_names[TR_OFFLOADS] = { "none", "optimizer", "activations", "both" };

static const struct tr_option options[] = {
    { "offload", TR_CHOICE, TR_PLAN(offload.what),
        "in the host's memory: none, optimizer (states and update), activations, both",
        TR_NAMES(tr_offload_names) },
    { "offload-delay", TR_WHOLE, TR_PLAN(offload.delay),
        "1: the host updates with the gradient of the step before", .bits = true },
    { "optimizer-threads", TR_WHOLE, TR_PLAN(offload.threads), "of the update on the host", .least = 1 },
};

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    (void)g;
    if (p->offload.delay > 1)
        return tr_fail(
            e, "--offload-delay %d: one gradient waits at most; legal are 0 and 1", p->offload.delay);
    if (p->offload.delay && !(p->offload.what & TR_OFFLOAD_OPTIMIZER))
        return tr_fail(
            e, "--offload-delay 1: the gradient waits on the host; legal with --offload optimizer or both");
    if (p->offload.threads > 1 && !(p->offload.what & TR_OFFLOAD_OPTIMIZER))
        return tr_fail(e,
            "--optimizer-threads %d run the update on the host; with --offload %s it runs on the device; "
            "legal with --offload optimizer or both",
            p->offload.threads, tr_offload_names[p->offload.what]);
    if (p->offload.threads > MOST_THREADS)
        return tr_fail(e, "--optimizer-threads %d: legal are 1 to %d", p->offload.threads, MOST_THREADS);
    return true;
}

const struct tr_paradigm tr_offloading = { .name = "offload", TR_OPTIONS(options), .check = check };

/* SPDX-License-Identifier: BSD-3-Clause */
/* offload.c: what may go to the host's memory, and what it goes with; passes/offload.c puts it there. */
#include "training/parallel/paradigms.h"

enum { MOST_THREADS = 256 };

const char *const tr_offload_names[TR_OFFLOADS] = { "none", "optimizer", "activations", "both" };

bool tr_offload_check(const struct tr_plan *p, struct tr_error *e)
{
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

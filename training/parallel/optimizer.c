/* SPDX-License-Identifier: BSD-3-Clause */
/* optimizer.c: the learning rate of each update, which hangs on its number alone: so it is the same on all
 * meshes, and a run that goes on with a checkpoint goes on with it. */
#include "training/parallel/paradigms.h"

#include <math.h>

const char *const tr_curve_names[TR_CURVES] = { "constant", "linear", "cosine" };

double tr_rate(const struct tr_optimizer *o, int64_t update)
{
    if (update < o->warmup)
        return o->rate * (double)(update + 1) / (double)o->warmup;
    if (o->curve == TR_CURVE_CONSTANT)
        return o->rate;
    double far = o->until > o->warmup ? (double)(update - o->warmup) / (double)(o->until - o->warmup) : 1;
    far = far < 1 ? far : 1;
    double left = o->curve == TR_CURVE_LINEAR ? 1 - far : 0.5 * (1 + cos(3.14159265358979323846 * far));
    return o->least + (o->rate - o->least) * left;
}

bool tr_rate_check(const struct tr_plan *p, struct tr_error *e)
{
    const struct tr_optimizer *o = &p->optimizer;
    if (o->curve == TR_CURVE_CONSTANT && (o->until || o->least > 0))
        return tr_fail(e, "--rate-%s: the rate is constant; legal with --rate-schedule linear or cosine",
            o->until ? "steps" : "min");
    if (o->least < 0 || o->least > o->rate)
        return tr_fail(e, "--rate-min %g: legal are 0 to the --rate, %g", o->least, o->rate);
    if (o->warmup < 0 || o->until < 0)
        return tr_fail(e, "--%s %ld: legal are 0 and more", o->warmup < 0 ? "warmup" : "rate-steps",
            o->warmup < 0 ? o->warmup : o->until);
    if (o->until && o->until < o->warmup)
        return tr_fail(e, "--warmup %ld takes longer than --rate-steps %ld", o->warmup, o->until);
    return !p->servers.async || (!o->warmup && o->curve == TR_CURVE_CONSTANT) ||
           tr_fail(e, "--server-mode async counts the updates of all workers, and the steps of none are the "
                      "rate's; legal is --rate-schedule constant without --warmup");
}

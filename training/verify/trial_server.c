/* SPDX-License-Identifier: BSD-3-Clause */
/* trial_server.c: a trial with asynchronous parameter servers, whose workers have no step in common. The
 * order is given, so the simulator knows what each push must bring, and what the servers have in the end. */
#include "training/commands/server_report.h"
#include "training/verify/trial.h"

static bool work(struct tr_trial *t, long steps, struct tr_error *e)
{
    for (long n = 0; n < steps; n++) {
        t->runner.audited = n == 0;
        if (!tr_runner_step(&t->runner, e))
            return false;
    }
    return true;
}

static bool take_all(struct tr_trial *t, struct tr_server *s, long pushes, struct tr_error *e)
{
    for (long n = 0; n < pushes; n++) {
        struct tr_push push;
        if (!tr_server_next(s, &push, e))
            return false;
        if (t->runner.tape->server != 0)
            continue;
        t->loss = push.loss;
        tr_trial_number(t, TR_DIFF_LOSSES, push.loss, t->golden->loss[n]);
        tr_trial_number(t, TR_DIFF_NORMS, push.norm, t->golden->norm[n]);
    }
    return tr_server_end(s, e);
}

bool tr_trial_server(struct tr_trial *t, const struct tr_options *o, struct tr_error *e)
{
    const struct tr_tape *tape = t->runner.tape;
    int server = tape->server;
    struct tr_push_order a;
    struct tr_server s;
    if (server < 0)
        return work(t, o->steps, e);
    if (!tr_push_order_make(&a, o->plan.servers.arrivals, tape->mesh, tape->step.staleness, o->steps, e))
        return false;
    bool ok = tr_server_open(&s, &t->runner, a.order[server], o->steps, e) &&
              take_all(t, &s, tape->mesh->size[TR_DP] * o->steps, e);
    if (ok) {
        tr_server_close(&s);
        tr_trial_arrays(t, TR_DIFF_VALUES);
    }
    tr_push_order_free(&a);
    return ok;
}

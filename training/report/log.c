/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c: the curve of a run, in a file that other programs read: a line for each update, as JSON, or as CSV
 * where the file's name ends in .csv. Each line is in the file when its step is over. */
#include "training/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

bool tr_log_open(struct tr_log *l, const char *path, bool goes_on, struct tr_error *e)
{
    size_t length = strlen(path);
    *l = (struct tr_log){ .path = path, .csv = length > 4 && !strcmp(path + length - 4, ".csv") };
    if (!(l->to = fopen(path, goes_on ? "a" : "w")))
        return tr_fail(e, "--log %s cannot be written: %s", path, strerror(errno));
    fseek(l->to, 0, SEEK_END);
    if (l->csv && ftell(l->to) == 0)
        fputs("step,loss,norm,rate,seconds,tokens_per_second,held_out_loss\n", l->to);
    return true;
}

/* NAN: it has none. */
static void number(const struct tr_log *l, const char *name, double x)
{
    if (!l->csv)
        tr_json_number(l->to, name, x);
    else if (isfinite(x))
        fprintf(l->to, ",%.17g", x);
    else
        fputc(',', l->to);
}

static void line(const struct tr_log *l, const struct tr_runner *r, int update,
    const struct tr_report *of_step, double held_out)
{
    const struct tr_plan *p = r->tape->placed->plan;
    int64_t step = (r->step - 1) * r->n_updates + update;
    fprintf(l->to, l->csv ? "%" PRId64 : "{\"step\": %" PRId64, step);
    number(l, "loss", r->updates[update].loss);
    number(l, "norm", r->updates[update].norm);
    number(l, "rate", tr_rate(&p->optimizer, step));
    number(l, "seconds", of_step ? of_step->ms / 1000 : NAN);
    number(l, "tokens_per_second", of_step ? of_step->tokens : NAN);
    number(l, "held_out_loss", held_out);
    fputs(l->csv ? "\n" : "}\n", l->to);
}

bool tr_log_step(const struct tr_log *l, const struct tr_report *of_step, const struct tr_runner *r,
    double held_out, struct tr_error *e)
{
    for (int u = 0; u < r->n_updates; u++) {
        bool last = u + 1 == r->n_updates;
        line(l, r, u, last ? of_step : NULL, last ? held_out : NAN);
    }
    return fflush(l->to) == 0 || tr_fail(e, "--log %s cannot be written after step %" PRId64 ": %s", l->path,
                                     r->step - 1, strerror(errno));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* line.c: a step as a line of a table. */
#include "training/report/report.h"

#include <inttypes.h>
#include <math.h>

void tr_line_header(FILE *to)
{
    fputs(
        "# step 0 also checks every byte of memory that it touches, and takes longer\n"
        "# bubble: part of the pipeline's time in which ranks wait, by formula, by simulation, and measured\n"
        "# exposed: part of a step that ranks spend in collectives; sent: bytes, by all ranks\n"
        "# peak: bytes of memory of the rank that needs most\n",
        to);
    fprintf(to, "%28s %44s %8s\n%6s %10s %10s %9s %9s %8s %7s %7s %8s %13s %13s\n", "gradient",
        "------- bubble, % ------", "exposed,", "step", "loss", "norm", "ms", "tokens/s", "formula", "simul.",
        "meas.", "%", "sent", "peak");
}

static void percent(FILE *to, int width, double x)
{
    if (isnan(x))
        fprintf(to, " %*s", width, "-");
    else
        fprintf(to, " %*.1f", width, 100 * x);
}

void tr_line(FILE *to, const struct tr_report *r)
{
    fprintf(to, "%6" PRId64 " %10.6f %10.6f %9.1f %9.0f", r->step, r->loss, r->norm, r->ms, r->tokens);
    percent(to, 8, r->formula);
    percent(to, 7, r->simulated);
    percent(to, 7, r->measured);
    percent(to, 8, r->exposed);
    fprintf(to, " %13" PRId64 " %13" PRId64 "\n", r->sent, r->peak);
    fflush(to);
}

static void hex(FILE *to, int64_t step, double loss, double norm)
{
    fprintf(to, "step %" PRId64 " loss %.6f %a norm %.6f %a\n", step, loss, loss, norm, norm);
}

void tr_line_hex(FILE *to, const struct tr_report *r)
{
    hex(to, r->step, r->loss, r->norm);
    fflush(to);
}

void tr_line_updates(FILE *to, const struct tr_runner *r, bool in_hex)
{
    int n = tr_updates(r->tape->placed->plan);
    for (int u = 0; u + 1 < n; u++) {
        int64_t step = (r->step - 1) * n + u;
        if (in_hex)
            hex(to, step, r->updates[u].loss, r->updates[u].norm);
        else
            fprintf(to, "%6" PRId64 " %10.6f %10.6f\n", step, r->updates[u].loss, r->updates[u].norm);
    }
}

void tr_line_evaluation(FILE *to, int64_t steps, double loss, bool in_hex)
{
    if (in_hex)
        fprintf(to, "eval %" PRId64 " loss %.6f %a\n", steps, loss, loss);
    else
        fprintf(to, "# after %" PRId64 " steps, loss of the text that is held out: %.6f\n", steps, loss);
    fflush(to);
}

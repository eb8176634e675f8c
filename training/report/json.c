/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c: the run and its steps for programs: one object a line. What is not a number is null. */
#include "training/report/report.h"

#include <inttypes.h>
#include <math.h>

void tr_json_number(FILE *to, const char *name, double x)
{
    if (isfinite(x))
        fprintf(to, ", \"%s\": %.17g", name, x);
    else
        fprintf(to, ", \"%s\": null", name);
}

void tr_json_text(FILE *to, const char *name, const char *s)
{
    fprintf(to, ", \"%s\": \"", name);
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if ((unsigned char)*s < ' ')
            fprintf(to, "\\u%04x", (unsigned)(unsigned char)*s);
        else
            fputc(*s, to);
    fputc('"', to);
}

void tr_json_memory(FILE *to, const char *name, const int64_t *peak)
{
    fprintf(to, ", \"%s\": {", name);
    for (int k = 0; k < TR_MEMORIES; k++)
        fprintf(to, "%s\"%s\": %" PRId64, k ? ", " : "", tr_memory_names[k], peak[k]);
    fputc('}', to);
}

/* Before the groups are there, nobody knows what is sent. */
static void messages(FILE *to, const struct tr_ledger *l, bool sent)
{
    char group[32];
    fprintf(to, ", \"messages\": [");
    for (int n = 0; n < l->n; n++) {
        const struct tr_entry *x = &l->entries[n];
        fprintf(to,
            "%s{\"operation\": \"%s\", \"group\": \"%s\", \"of\": \"%s\", \"calls\": %" PRId64
            ", \"bytes\": %" PRId64 ", \"least\": %" PRId64,
            n ? ", " : "", tr_codes[x->code].name, tr_entry_group(x, group), tr_cargo_names[x->cargo],
            x->calls, x->bytes, x->least);
        if (sent)
            fprintf(to, ", \"sent\": %" PRId64, x->wire);
        fputc('}', to);
    }
    fputc(']', to);
}

/* Where something lies in the host's memory: what must be copied, and what it takes there. */
static void host(FILE *to, const char *name, const int64_t *peak, const struct tr_ledger *l)
{
    if (!l->n)
        return;
    tr_json_memory(to, name, peak);
    fprintf(to, ", \"copies\": [");
    for (int n = 0; n < l->n; n++)
        fprintf(to,
            "%s{\"direction\": \"%s\", \"of\": \"%s\", \"copies\": %" PRId64 ", \"bytes\": %" PRId64 "}",
            n ? ", " : "", tr_codes[l->entries[n].code].name, tr_cargo_names[l->entries[n].cargo],
            l->entries[n].calls, l->entries[n].bytes);
    fputc(']', to);
}

void tr_json_run(FILE *to, const struct tr_tape *t, const struct tr_schedule *s, const char *data, int cores)
{
    const struct tr_graph *g = t->placed->g;
    const struct tr_plan *p = t->placed->plan;
    struct tr_ledger l;
    fprintf(to, "{\"event\": \"run\"");
    tr_json_text(to, "model", g->model);
    fprintf(to,
        ", \"layers\": %" PRId64 ", \"channels\": %" PRId64 ", \"heads\": %" PRId64 ", \"context\": %" PRId64
        ", \"vocabulary\": %" PRId64,
        g->layers, g->channels, g->heads, g->context, g->vocabulary);
    tr_json_text(to, "data", data);
    fprintf(to,
        ", \"ranks\": %d, \"cores\": %d, \"batch\": %d, \"micro_batches\": %d, \"zero\": %d, \"chunks\": %d",
        p->mesh.n, cores, p->batch, p->micros, p->zero.level, p->pipeline.chunks);
    for (int a = 0; a < TR_AXES; a++)
        fprintf(to, ", \"%s\": %d", tr_axis_names[a], p->mesh.size[a]);
    tr_json_text(to, "schedule", s->name);
    fprintf(to, ", \"arena\": %" PRId64, t->arena);
    tr_json_memory(to, "memory", t->peak);
    tr_ledger_predict(&l, t);
    messages(to, &l, false);
    tr_copies_predict(&l, t);
    host(to, "host_memory", t->host.peak, &l);
    fprintf(to, "}\n");
    fflush(to);
}

/* Of an asynchronous pipeline: the loss of each update. */
static void updates(FILE *to, const struct tr_runner *r)
{
    for (int u = 0; r->n_updates > 1 && u < r->n_updates; u++)
        fprintf(to, "%s%.17g%s", u ? ", " : ", \"losses\": [", r->updates[u].loss,
            u + 1 == r->n_updates ? "]" : "");
}

void tr_json_step(FILE *to, const struct tr_report *r, const struct tr_runner *runner)
{
    fprintf(to, "{\"event\": \"step\", \"step\": %" PRId64, r->step);
    tr_json_number(to, "loss", r->loss);
    tr_json_number(to, "norm", r->norm);
    fprintf(to, ", \"loss_hex\": \"%a\", \"norm_hex\": \"%a\"", r->loss, r->norm);
    updates(to, runner);
    tr_json_number(to, "ms", r->ms);
    tr_json_number(to, "tokens_per_second", r->tokens);
    tr_json_number(to, "bubble_formula", r->formula);
    tr_json_number(to, "bubble_simulated", r->simulated);
    tr_json_number(to, "bubble_measured", r->measured);
    tr_json_number(to, "exposed", r->exposed);
    fprintf(to, ", \"sent\": %" PRId64 ", \"peak\": %" PRId64, r->sent, r->peak);
    if (r->audited)
        tr_json_memory(to, "memory_measured", runner->audit.peak);
    if (r->audited && runner->groups.world) {
        struct tr_resident now = tr_resident_now();
        fprintf(to, ", \"resident_shared\": %" PRId64 ", \"resident_groups\": %" PRId64, now.shared,
            now.own - runner->before_groups.own);
    }
    messages(to, &runner->counted, true);
    host(to, "host_memory_measured", runner->audit.host_peak, &runner->copies.counted);
    fprintf(to, "}\n");
    fflush(to);
}

void tr_json_evaluation(FILE *to, int64_t steps, double loss)
{
    fprintf(to, "{\"event\": \"evaluation\", \"steps\": %" PRId64, steps);
    tr_json_number(to, "loss", loss);
    fputs("}\n", to);
    fflush(to);
}

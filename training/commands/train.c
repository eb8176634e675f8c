/* SPDX-License-Identifier: BSD-3-Clause */
/* train.c: the default command: train a model and say how it goes. */
#include "training/commands/commands.h"
#include "training/commands/checkpointing.h"
#include "training/commands/device.h"
#include "training/commands/limits.h"
#include "training/commands/prepare.h"
#include "training/commands/server_report.h"
#include "training/commands/measure_layers.h"
#include "training/launch.h"
#include "training/kernels/openblas.h"
#include "training/passes/versions.h"
#include "training/report/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A memory by its kinds, on two lines. */
static void say_memory(const char *of, const int64_t *peak)
{
    printf("# memory of %s, bytes:", of);
    for (int k = 0; k < TR_MEMORIES; k++)
        printf("%s %s %" PRId64 "%s", k == 3 ? "\n#" : "", tr_memory_names[k], peak[k],
            k + 1 < TR_MEMORIES ? "," : "\n");
}

static void say_versions(const struct tr_plan *p)
{
    printf("# --async %s: %d updates in a step, each of %d micro-batch%s, with weights of stages ",
        tr_async_names[p->pipeline.async], tr_updates(p), tr_update_micros(p),
        tr_update_micros(p) > 1 ? "es" : "");
    for (int s = 0; s < p->mesh.size[TR_PP]; s++)
        printf("%s%d", s ? "," : "", tr_staleness(p, s));
    printf(" updates old\n");
}

/* t: the tapes of all ranks, of which rank 0's comes first. */
static void say_run(const struct tr_run *r, const struct tr_tape *t, const struct tr_data *d)
{
    char mesh[64];
    const struct tr_graph *g = &r->graph;
    int64_t parameters = 0;
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].role == TR_PARAMETER && g->tensors[i].values_of == i)
            parameters += g->tensors[i].rows * (g->tensors[i].dims > 1 ? g->tensors[i].size[1] : 1);
    printf("# %s: %" PRId64 " layers, %" PRId64 " channels, ", g->model, g->layers, g->channels);
    if (g->grid)
        printf("pictures of %" PRId64 " x %" PRId64 " pixels, %" PRId64 " classes", 2 * g->grid, 2 * g->grid,
            g->vocabulary);
    else if (g->inputs)
        printf("%" PRId64 " inputs, sequences of %" PRId64 " rows, %" PRId64 " classes", g->inputs,
            g->context, g->vocabulary);
    else
        printf("%" PRId64 " heads, context %" PRId64 ", vocabulary %" PRId64, g->heads, g->context,
            g->vocabulary);
    if (g->experts)
        printf(", %" PRId64 " experts of which a token has %" PRId64, g->experts, g->choices);
    printf(": %" PRId64 " parameters\n# data: %s", parameters, d->name);
    if (!g->inputs)
        printf(", %" PRId64 " tokens", d->count);
    if (d->pixels)
        printf(", %" PRId64 " pictures of %" PRId64 " x %" PRId64 " pixels", d->count, d->height, d->width);
    printf("\n# %s; batch of %d sequences in %d micro-batches, schedule %s, ZeRO %d\n",
        tr_mesh_text(&r->plan.mesh, mesh), r->plan.batch, r->plan.micros, r->schedule.name,
        r->plan.zero.level);
    if (r->plan.pipeline.async)
        say_versions(&r->plan);
    say_memory("rank 0", t->peak);
    if (r->plan.mesh.servers) {
        char server[48];
        int rank = r->plan.mesh.n - r->plan.mesh.servers;
        snprintf(server, sizeof server, "rank %d, a server", rank);
        say_memory(server, t[rank].peak);
    }
    if (r->plan.offload.what) {
        printf("# offload: %s\n", tr_offload_names[r->plan.offload.what]);
        say_memory("its host", t->host.peak);
    }
    fflush(stdout);
}

static void say_step(const struct tr_options *o, const struct tr_report *report, const struct tr_runner *r)
{
    if (!o->shown.json)
        tr_line_updates(stdout, r, o->shown.hex);
    if (o->shown.json)
        tr_json_step(stdout, report, r);
    else if (o->shown.hex)
        tr_line_hex(stdout, report);
    else
        tr_line(stdout, report);
}

static bool show_instructions(
    const struct tr_options *o, struct tr_prepared *p, struct tr_runner *r, FILE *trace, struct tr_error *e)
{
    return (!*o->shown.trace || tr_trace_write(trace, r, e)) &&
           (!o->shown.gantt || tr_gantt(o->shown.json ? stderr : stdout, r, &p->run.schedule, e));
}

/* After a step, when all that is made at first use is there. */
static void say_resident(const struct tr_options *o, const struct tr_runner *r)
{
    struct tr_resident now = tr_resident_now();
    if (!r->groups.world || o->shown.quiet || o->shown.json)
        return;
    printf("# resident outside the arena of rank 0: %" PRId64
           " bytes that Tutti shares with other ranks, %" PRId64 " of its groups%s\n",
        now.shared, now.own - r->before_groups.own,
        r->x->k->free ? o->device ? " and cuBLAS" : " and OpenBLAS" : "");
    fflush(stdout);
}

/* *loss: NAN where none is due. */
static bool evaluate(const struct tr_options *o, struct tr_runner *r, double *loss, struct tr_error *e)
{
    *loss = NAN;
    if (!o->held_out.every || r->step % o->held_out.every)
        return true;
    if (!tr_runner_evaluate(r, o->held_out.batches, loss, e))
        return false;
    if (r->tape->rank)
        return true;
    if (o->shown.json)
        tr_json_evaluation(stdout, r->step, *loss);
    else
        tr_line_evaluation(stdout, r->step, *loss, o->shown.hex);
    return true;
}

/* Files that a run writes while it steps; NULL where none is asked for, or another rank writes it. */
struct outputs {
    FILE *trace;
    struct tr_log log;
};

/* The first step is audited: its memory is what the tape says, or it fails. */
static bool steps(const struct tr_options *o, struct tr_prepared *p, struct tr_checkpointing *k,
    const struct outputs *to, struct tr_error *e)
{
    struct tr_runner *r = k->runner;
    struct tr_report report;
    double held_out;
    long shown = o->shown.trace_step < 0 ? o->steps - 1 : o->shown.trace_step;
    bool stop = r->step >= o->steps;
    if (stop && *o->files.save) /* --steps 0: the initial values */
        return tr_checkpointing_save(k, e);
    for (bool first = true; !stop; first = false) {
        long step = (long)r->step;
        r->audited = first && !*o->files.save_gradients; /* an audit leaves none of them */
        bool shows = step == shown && (*o->shown.trace || o->shown.gantt);
        if ((shows && !tr_runner_time(r, e)) || !tr_runner_step(r, e) ||
            !tr_report_make(&report, r, &p->run.schedule, e))
            return false;
        if (first && o->device && !tr_device_keep(r->x, r->tape->rank == 0, e))
            return false;
        if (r->tape->rank == 0)
            say_step(o, &report, r);
        if (r->tape->rank == 0 && first)
            say_resident(o, r);
        if (first && o->shown.stage_memory &&
            !tr_stages_measured(o->shown.json ? stderr : stdout, r, p->tapes, &p->run.schedule, e))
            return false;
        if ((step == shown && !show_instructions(o, p, r, to->trace, e)) || !evaluate(o, r, &held_out, e) ||
            (to->log.to && !tr_log_step(&to->log, &report, r, held_out, e)) ||
            !tr_checkpointing_after(k, &stop, e))
            return false;
    }
    return true;
}

/* Where an evaluation would lose what waits for the next step. */
static bool can_evaluate(const struct tr_options *o, const struct tr_plan *p, struct tr_error *e)
{
    const char *why = p->pipeline.async  ? "--async"
                      : p->offload.delay ? "--offload-delay"
                      : p->mesh.servers  ? "--servers"
                                         : NULL;
    return !o->held_out.every || !why ||
           tr_fail(e,
               "--eval-every with %s: gradients or weights wait from step to step, and an evaluation would "
               "lose them; legal is one without the other",
               why);
}

/* What is asked for that this run has not, before it begins. */
static bool open_outputs(
    const struct tr_options *o, const struct tr_prepared *p, int rank, struct outputs *to, struct tr_error *e)
{
    if (*o->shown.log && p->run.plan.servers.async)
        return tr_fail(e, "--log with --server-mode async: its workers have no step in common; legal is "
                          "--server-mode sync");
    if (o->shown.gantt && p->run.plan.mesh.size[TR_PP] == 1)
        return tr_fail(e, "--gantt draws a pipeline, and there is none; legal with --pp 2 and more");
    if (o->shown.stage_memory && p->run.plan.mesh.size[TR_PP] == 1)
        return tr_fail(e, "--stage-memory is of a pipeline, and there is none; legal with --pp 2 and more");
    if (o->shown.trace_step >= o->steps)
        return tr_fail(e, "--trace-step %ld: legal are 0 to %ld", o->shown.trace_step, o->steps - 1);
    if (*o->shown.trace && rank == 0 && !(to->trace = fopen(o->shown.trace, "w")))
        return tr_fail(e, "--trace %s: the file cannot be written", o->shown.trace);
    return !*o->shown.log || rank || tr_log_open(&to->log, o->shown.log, *o->files.load, e);
}

/* What is not as somebody may think. */
static void say_notes(const struct tr_run *r, bool on_device)
{
    int cores = tr_cores(), n = r->plan.mesh.n;
    if (r->plan.numbers.free_order)
        printf("# sums are in free order, products by %s\n",
            on_device       ? "cuBLAS"
            : tr_openblas() ? tr_openblas()
                            : "Tutti's kernels, as there is no libopenblas.so.0");
    if (r->graph.attention.windows)
        printf("# attention stays within %d parts of a sequence: not what one device computes\n",
            r->graph.attention.windows);
    if (r->plan.zero.level && tr_data_ranks(&r->plan) == 1)
        printf(
            "# --zero %d cuts among the ranks of dp, and there is one: nothing is cut\n", r->plan.zero.level);
    if (n > cores)
        printf("# %d ranks share %d core%s: these times are no measurement of scaling\n", n, cores,
            cores == 1 ? "" : "s");
}

static void say_begin(
    const struct tr_options *o, const struct tr_prepared *p, const struct tr_tape *t, const struct tr_data *d)
{
    if (o->shown.json)
        tr_json_run(stdout, t, &p->run.schedule, d->name, tr_cores());
    else if (!o->shown.quiet) {
        say_run(&p->run, t, d);
        say_notes(&p->run, o->device);
    }
    if (!o->shown.json && !o->shown.hex && !o->shown.quiet && !p->run.plan.servers.async)
        tr_line_header(stdout);
}

static bool train(tutti_comm *world, void *context, struct tr_error *e)
{
    struct tr_options own = *(const struct tr_options *)context, *o = &own;
    struct tr_prepared p;
    struct tr_data data;
    struct tr_runner runner;
    int rank = world ? tutti_comm_rank(world) : 0, n = world ? tutti_comm_size(world) : 1;
    if (!o->ranks) /* a launcher's: dp takes what is left */
        o->ranks = n;
    if (!tr_same_options(o, world, e))
        return false;
    tr_limits_offload(o);
    if (!tr_prepare(&p, o, e))
        return false;
    if (p.run.plan.mesh.n != n)
        return tr_fail(e, "the mesh has %d ranks, and %d were started", p.run.plan.mesh.n, n);
    const struct tr_graph *g = &p.run.graph;
    const struct tr_tape *tape = tr_tapes_of(p.tapes, rank);
    struct tr_seat seat;
    struct outputs to = { .trace = NULL };
    bool ok = tr_seat_take(&seat, o, world, e) && tr_limits_kept(&p, o, seat.bytes, e) &&
              open_outputs(o, &p, rank, &to, e) && can_evaluate(o, &p.run.plan, e) &&
              tr_open_data(&data, o, g, e);
    if (ok) {
        data.hash = *o->files.save || *o->files.load ? tr_data_hash(&data) : 0;
        ok = tr_runner_open(&runner, tape, seat.kernels, &data, seat.ranks, e) && tr_slow_down(&runner, o, e);
        bool alone = !o->ranks_as_threads || n == 1; /* what threads do together none can keep */
        runner.replay.wanted = ok && alone && !o->no_graphs && !tr_replay_not(&runner);
        if (ok && rank == 0)
            say_begin(o, &p, tape, &data);
        struct tr_checkpointing keeper = { .ranks = NULL };
        if (p.run.plan.servers.async)
            ok = ok && tr_server_report_run(o, &p, &runner, world, e);
        else
            ok = ok && tr_checkpointing_open(&keeper, o, &runner, world, e) && steps(o, &p, &keeper, &to, e);
        tr_checkpointing_close(&keeper);
        if (ok || !world) { /* a rank that failed ends with its process: see tr_server_close */
            tr_runner_close(&runner);
            tr_seat_leave(&seat);
        }
        tr_data_close(&data);
    }
    if (to.trace)
        fclose(to.trace);
    if (to.log.to)
        fclose(to.log.to);
    tr_prepared_free(&p);
    return ok;
}

/* An asynchronous server ends its process when it fails, and workers see that. */
static bool may_be_threads(const struct tr_options *o, const struct tr_plan *p, struct tr_error *e)
{
    if (!o->ranks_as_threads)
        return true;
    if (tr_launched())
        return tr_fail(e,
            "--ranks-as threads: a launcher made this process a rank; legal is -n %d without it", p->mesh.n);
    if (p->mesh.servers)
        return tr_fail(
            e, "--ranks-as threads with --servers %d: legal is --ranks-as processes", p->mesh.servers);
    tr_launch_threads();
    return true;
}

int tr_command_train(int argc, char **argv)
{
    struct tr_options o;
    struct tr_error e;
    struct tr_prepared p;
    int status;
    if (!tr_begin(&o, argc, argv, "[train] [OPTION]...", true, &status))
        return status;
    if (!tr_warm_up(&o, &e))
        return tr_refuse(1, &e);
    struct tr_options first = o;
    tr_limits_offload(&first);
    if (!tr_prepare(&p, &first, &e)) /* said before ranks are there */
        return tr_refuse(1, &e);
    int n = p.run.plan.mesh.n;
    bool ok = tr_checkpointing_check(&o, &p.run, &e) && tr_server_report_check(&o, &p.run.plan, &e) &&
              may_be_threads(&o, &p.run.plan, &e);
    tr_prepared_free(&p);
    if (!ok)
        return tr_refuse(1, &e);
    return tr_launch_asking(n, train, &o);
}

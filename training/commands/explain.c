/* SPDX-License-Identifier: BSD-3-Clause */
/* explain.c: what a run would do, without running it: the paradigms' tables, the placements and messages
 * that follow from them, and with --tape RANK a rank's whole list. All ranks' tapes are checked first. */
#include "training/backend/cuda.h"
#include "training/commands/commands.h"
#include "training/commands/explain.h"
#include "training/commands/limits.h"
#include "training/commands/prepare.h"
#include "training/report/report.h"
#include "training/account/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say_tables(const struct tr_run *r)
{
    const struct tr_plan *p = &r->plan;
    char mesh[64];
    printf("mesh: %s\n\nparadigm  axis  tensors         placement\n", tr_mesh_text(&p->mesh, mesh));
    if (p->zero.level && tr_data_ranks(p) == 1)
        printf("--zero %d cuts among the ranks of dp, and there is one: nothing is cut\n", p->zero.level);
    const struct tr_table *table;
    for (int i = 0; (table = tr_plan_table(p, i)); i++)
        for (const struct tr_table_row *row = table->rows; p->mesh.size[table->axis] > 1 && row->tensors;
             row++)
            printf("%-9s %-5s %-15s %s\n", table->name, tr_axis_names[table->axis], row->tensors,
                row->placement);
}

/* One layer stands for all; of the mlp, a pair. */
static bool shown(const struct tr_placed *p, int unit)
{
    return unit <= (p->g->inputs ? 2 : 1) || unit > p->g->layers;
}

static void say_placements(const struct tr_placed *p)
{
    char text[64];
    printf("\nforward and backward of a micro-batch, one layer for all; a collective stands where what an "
           "operation needs\n"
           "and what it gets differ\n\n");
    for (int n = 0; n < p->n_steps; n++) {
        const struct tr_step *s = &p->steps[n];
        if (!shown(p, s->unit))
            continue;
        bool compute = s->code == TR_COMPUTE;
        printf("%s%-16s %-26s", compute ? "  " : "* ", compute ? tr_op(s->op)->name : tr_codes[s->code].name,
            p->g->tensors[p->shards[s->out[0]].tensor].name);
        for (int x = 0; x < s->ins; x++)
            printf("%s%s", x ? " | " : "", tr_shard_text(p, s->in[x], text));
        printf(" -> %s\n", tr_shard_text(p, s->out[0], text));
    }
}

static void say_messages(const struct tr_tape *t)
{
    struct tr_ledger l;
    char group[32];
    tr_ledger_predict(&l, t);
    printf(
        "\nmessages of rank %d in a step; bytes: of the vectors, and the least that this rank must send\n\n"
        "  %-14s %-13s %-15s %8s %14s %14s\n",
        t->rank, "operation", "group", "of", "calls", "bytes", "sent");
    for (int n = 0; n < l.n; n++) {
        const struct tr_entry *x = &l.entries[n];
        printf("  %-14s %-13s %-15s %8" PRId64 " %14" PRId64 " %14" PRId64 "\n", tr_codes[x->code].name,
            tr_entry_group(x, group), tr_cargo_names[x->cargo], x->calls, x->bytes, x->least);
    }
    struct tr_entry all = tr_ledger_sum(&l, -1, -1, -1, -1);
    printf("  %-44s %8" PRId64 " %14" PRId64 " %14" PRId64 "\n", "all", all.calls, all.bytes, all.least);
}

static double attention(const struct tr_tape *t)
{
    double sum = 0;
    for (int n = 0; n < t->n_instrs; n++)
        if (tr_is_masked(&t->instrs[n]))
            sum += t->instrs[n].flops;
    return sum;
}

/* Of the ranks that have parts of the same sequences. */
static void say_attention(const struct tr_prepared *p)
{
    const struct tr_mesh *m = &p->run.plan.mesh;
    int at[TR_AXES] = { 0 };
    double least = attention(tr_tapes_of(p->tapes, 0)), most = least;
    if (m->size[TR_CP] == 1 || least <= 0)
        return;
    printf("\nattention in a step, floating-point operations: a query sees its own key and those before\n\n");
    for (; at[TR_CP] < m->size[TR_CP]; at[TR_CP]++) {
        double flops = attention(tr_tapes_of(p->tapes, tr_mesh_rank(m, at)));
        printf("  rank %-9d %14.0f\n", tr_mesh_rank(m, at), flops);
        least = flops < least ? flops : least;
        most = flops > most ? flops : most;
    }
    printf("  most is %.1f %% above least\n", 100 * (most - least) / least);
}

static void say_copies(const struct tr_tape *t)
{
    struct tr_ledger l;
    tr_copies_predict(&l, t);
    if (!l.n)
        return;
    printf("\ncopies between the memories of rank %d and its host in a step\n\n  %-14s %-15s %8s %14s\n",
        t->rank, "direction", "of", "copies", "bytes");
    for (int n = 0; n < l.n; n++)
        printf("  %-14s %-15s %8" PRId64 " %14" PRId64 "\n", tr_codes[l.entries[n].code].name,
            tr_cargo_names[l.entries[n].cargo], l.entries[n].calls, l.entries[n].bytes);
}

static void say_kinds(const char *of, int rank, const int64_t *peak, int64_t peak_total, int64_t arena)
{
    printf("\n%s of rank %d, bytes at the peak of each kind\n\n", of, rank);
    for (int k = 0; k < TR_MEMORIES; k++)
        printf("  %-14s %12" PRId64 "\n", tr_memory_names[k], peak[k]);
    printf("  %-14s %12" PRId64 " at one time, in an arena of %" PRId64 "\n", "all", peak_total, arena);
}

static void say_memory(const struct tr_tape *t, bool device)
{
    say_kinds(device ? "device memory" : "memory", t->rank, t->peak, t->peak_total, t->arena);
    if (device)
        printf("  %-14s %12d beside it, for sums that several blocks of threads make\n", "kernels' own",
            (int)TR_DEVICE_OWN_BYTES);
    if (t->host.arena)
        say_kinds("host memory", t->rank, t->host.peak, t->host.peak_total, t->host.arena);
}

static void say_stages(const struct tr_prepared *p)
{
    if (p->run.plan.mesh.size[TR_PP] == 1)
        return;
    printf("\nactivations of the stages, in bytes: what a micro-batch keeps for its backward part, and the "
           "most at a time\n\n");
    tr_stages_say(stdout, "  ", p->tapes, &p->run.schedule, NULL);
}

/* As train would, which refuses what does not fit; said last, where it is seen. */
static bool say_limits(const struct tr_prepared *p, const struct tr_options *o, struct tr_error *e)
{
    if (!o->shown.memory && !o->shown.host_memory)
        return true;
    fflush(stdout);
    if (!tr_limits_kept(p, o, 0, e))
        return false;
    int64_t most[2];
    char limit[32];
    tr_limits_needs(p, most);
    if (o->shown.memory)
        printf("\nit fits: no rank needs more than %" PRId64 " bytes, and --memory is %s\n", most[0],
            tr_bytes_text(o->shown.memory, limit));
    if (o->shown.host_memory)
        printf("\nit fits: no rank needs more than %" PRId64 " bytes of the host, and --host-memory is %s\n",
            most[1], tr_bytes_text(o->shown.host_memory, limit));
    return true;
}

int tr_command_explain(int argc, char **argv)
{
    struct tr_prepared p;
    struct tr_options o;
    struct tr_error e;
    int status;
    if (!tr_begin(&o, argc, argv,
            "explain [OPTION]...: the options of train, and what would follow from them", true, &status))
        return status;
    tr_limits_offload(&o);
    if (!tr_prepare(&p, &o, &e))
        return tr_refuse(1, &e);
    if (o.shown.tape >= p.run.plan.mesh.n) {
        tr_fail(&e, "--tape %ld: legal are ranks 0 to %d", o.shown.tape, p.run.plan.mesh.n - 1);
        tr_prepared_free(&p);
        return tr_refuse(1, &e);
    }
    say_tables(&p.run);
    say_placements(&p.placed);
    say_messages(tr_tapes_of(p.tapes, 0));
    say_attention(&p);
    say_copies(tr_tapes_of(p.tapes, 0));
    say_memory(tr_tapes_of(p.tapes, 0), o.device);
    say_stages(&p);
    int grid = p.run.plan.mesh.n - p.run.plan.mesh.servers;
    if (p.run.plan.mesh.servers) { /* the first one: all have as much */
        say_messages(tr_tapes_of(p.tapes, grid));
        say_memory(tr_tapes_of(p.tapes, grid), o.device);
    }
    if (p.run.graph.grid && o.plan.sizes.tp * o.plan.sizes.cp > 1)
        tr_explain_cuts(&o);
    printf(
        "\nchecked: %d tapes, %" PRId64 " instructions in all\n", p.run.plan.mesh.n, p.tapes->instructions);
    if (o.shown.tape >= 0) {
        printf("\ntape of rank %ld\n\n", o.shown.tape);
        tr_tape_print(tr_tapes_of(p.tapes, (int)o.shown.tape), stdout);
    }
    bool fits = say_limits(&p, &o, &e);
    tr_prepared_free(&p);
    return fits ? 0 : tr_refuse(1, &e);
}

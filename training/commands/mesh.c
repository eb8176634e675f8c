/* SPDX-License-Identifier: BSD-3-Clause */
/* mesh.c: `tutti-train mesh` shows where each rank stands, which ranks form a group, and of a number of ranks
 * which meshes the model and the batch allow. No rank runs. The first is geometry, and needs no model. */
#include "training/commands/commands.h"
#include "training/commands/prepare.h"
#include "training/options.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 1 << 14 }; /* whose groups are listed */

static void say_table(const struct tr_mesh *m)
{
    printf("rank");
    for (int a = 0; a < TR_AXES; a++)
        if (m->size[a] > 1)
            printf(" %4s", tr_axis_names[a]);
    printf("\n");
    for (int rank = 0; rank < m->n; rank++) {
        int at[TR_AXES], server = tr_mesh_server(m, rank);
        if (server >= 0) {
            printf("%4d server %d\n", rank, server);
            continue;
        }
        tr_mesh_place(m, rank, at);
        printf("%4d", rank);
        for (int a = 0; a < TR_AXES; a++)
            if (m->size[a] > 1)
                printf(" %4d", at[a]);
        printf("\n");
    }
}

/* Of the group that differs in these axes only, and begins with this rank. */
static void say_group(const struct tr_mesh *m, int first, int axes)
{
    int size = tr_mesh_group_size(m, axes);
    for (int rank = first, next = 0; next < size; rank++) {
        int a[TR_AXES], b[TR_AXES];
        bool inside = true;
        tr_mesh_place(m, first, a);
        tr_mesh_place(m, rank, b);
        for (int axis = 0; axis < TR_AXES; axis++)
            inside = inside && (axes & 1 << axis || a[axis] == b[axis]);
        if (inside)
            printf("%s%d", next++ ? "-" : "", rank);
    }
}

static void say_groups(const struct tr_mesh *m, const char *name, int axes, const char *what)
{
    if (tr_mesh_group_size(m, axes) == 1)
        return;
    printf("%-6s", name);
    for (int rank = 0; rank < m->n - m->servers; rank++)
        if (tr_mesh_group_rank(m, rank, axes) == 0) {
            printf(" ");
            say_group(m, rank, axes);
        }
    printf("   %s\n", what);
}

static void say_all_groups(const struct tr_mesh *m)
{
    printf("\n");
    say_groups(m, "tp", 1 << TR_TP, "parts of each layer");
    bool shares = m->size[TR_EP] > 1;
    say_groups(m, "ep", 1 << TR_EP, "other experts of each layer, other sequences");
    say_groups(m, "dp", 1 << TR_DP,
        shares ? "the same experts, other sequences" : "the same part of the model, other sequences");
    if (shares)
        say_groups(m, "dp+ep", TR_DATA, "all other sequences; the same of the model, but for experts");
    say_groups(m, "cp", 1 << TR_CP, "the same sequences, other tokens");
    say_groups(m, "cu", 1 << TR_ULYSSES, "inside cp: in attention, other heads");
    say_groups(m, "pp", 1 << TR_PP, "stage after stage");
    int model = 1 << TR_TP | 1 << TR_CP | 1 << TR_ULYSSES | 1 << TR_PP;
    if ((m->size[TR_TP] > 1) + (m->size[TR_CP] > 1) + (m->size[TR_PP] > 1) > 1 && !shares)
        say_groups(m, "model", model, "together one model; dp replicates it");
}

/* Every dp x tp x pp, beside the given cp, of this number of ranks that a run would take. */
static int say_legal(const struct tr_options *o, long ranks, struct tr_error *e)
{
    int legal = 0;
    printf("meshes of %ld ranks that are legal for %s, batch %d, %d micro-batches:\n", ranks, o->model.name,
        o->plan.batch, o->plan.micros);
    for (long pp = 1; pp <= ranks; pp++)
        for (long tp = 1; tp <= ranks / pp; tp++) {
            struct tr_options each = *o;
            struct tr_run run;
            struct tr_sizes *s = &each.plan.sizes;
            each.ranks = ranks, s->pp = pp, s->tp = tp, s->dp = ranks / pp / tp / s->cp;
            if (ranks % (pp * tp * s->cp) || !tr_run_make(&run, &each, e))
                continue;
            printf("  --pp %ld --dp %ld --tp %ld", pp, s->dp, tp);
            if (s->ep > 1)
                printf(" --ep %ld", s->ep);
            printf(s->cp > 1 ? " --cp %ld\n" : "\n", s->cp);
            legal++;
            tr_run_free(&run);
        }
    if (!legal)
        printf("  none\n");
    return legal;
}

int tr_command_mesh(int argc, char **argv)
{
    struct tr_options o;
    struct tr_error e;
    struct tr_run run;
    int status;
    if (!tr_begin(&o, argc, argv,
            "mesh --pp P --dp D --tp T [OPTION]...: where each rank stands, and the groups\n"
            "       tutti-train mesh -n N [OPTION]...: which meshes of N ranks are legal\n\n"
            "Options are those of train: what is legal depends on the model, the batch and --micro, and the\n"
            "first form says so at its end if they do not fit.",
            false, &status))
        return status;
    const struct tr_sizes *s = &o.plan.sizes;
    if (o.ranks && s->servers == 0 && s->dp == 0 && s->pp == 1 && s->tp == 1) {
        if (o.ranks > 4096)
            return tr_fail(&e, "-n %ld: legal are 1 to 4096", o.ranks), tr_refuse(1, &e);
        return say_legal(&o, o.ranks, &e) ? 0 : 1;
    }
    struct tr_plan plan;
    const struct tr_mesh *mesh = &plan.mesh;
    if (!tr_options_mesh(&plan, &o, &e)) {
        if (tr_run_make(&run, &o, &e)) /* which says what would be legal, too */
            tr_run_free(&run);
        return tr_refuse(1, &e);
    }
    if (mesh->n > MOST)
        return tr_fail(&e, "%d ranks: legal are up to %d", mesh->n, MOST), tr_refuse(1, &e);
    char text[64];
    printf("%s: %d ranks, the last axis runs fastest\n\n", tr_mesh_text(mesh, text), mesh->n);
    say_table(mesh);
    say_all_groups(mesh);
    if (tr_run_make(&run, &o, &e))
        tr_run_free(&run);
    else
        printf("\n%s with a batch of %d cannot be trained on it: %s\n", o.model.name, o.plan.batch, e.text);
    return 0;
}

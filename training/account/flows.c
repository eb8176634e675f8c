/* SPDX-License-Identifier: BSD-3-Clause */
/* flows.c: the matrix of what each rank sends to each other one. */
#include "training/account/flows.h"

bool tr_in_group(const struct tr_mesh *m, int a, int b, int axes)
{
    int of_a[TR_AXES], of_b[TR_AXES];
    if (axes == TR_WORLD)
        return true;
    if (tr_mesh_server(m, a) >= 0 || tr_mesh_server(m, b) >= 0)
        return false;
    tr_mesh_place(m, a, of_a);
    tr_mesh_place(m, b, of_b);
    for (int x = 0; x < TR_AXES; x++)
        if (!(axes & 1 << x) && of_a[x] != of_b[x])
            return false;
    return true;
}

int tr_peer_of(const struct tr_tape *t, const struct tr_instr *i)
{
    int at[TR_AXES], stages = t->mesh->size[TR_PP];
    if (tr_edge_kinds[i->edge].served)
        return t->server >= 0 ? i->peer : t->mesh->n - t->mesh->servers + i->peer;
    tr_mesh_place(t->mesh, t->rank, at);
    at[TR_PP] = i->edge == TR_HOME ? (at[TR_PP] ? 0 : stages - 1)
                                   : (at[TR_PP] + tr_edge_kinds[i->edge].by + stages) % stages;
    return tr_mesh_rank(t->mesh, at);
}

/* The rank that stands so many behind this one in its group, round it. */
static int behind(const struct tr_tape *t, int axes, int by)
{
    int n = 0, wanted = 0;
    for (int r = 0; r < t->mesh->n; r++)
        n += tr_in_group(t->mesh, t->rank, r, axes);
    wanted = ((tr_mesh_group_rank(t->mesh, t->rank, axes) + by) % n + n) % n;
    for (int r = 0; r < t->mesh->n; r++)
        if (tr_in_group(t->mesh, t->rank, r, axes) && wanted-- == 0)
            return r;
    return t->rank;
}

static void share_out(double *row, const struct tr_tape *t, int axes, double bytes)
{
    int others = 0;
    for (int r = 0; r < t->mesh->n; r++)
        others += r != t->rank && tr_in_group(t->mesh, t->rank, r, axes);
    for (int r = 0; r < t->mesh->n; r++)
        if (r != t->rank && tr_in_group(t->mesh, t->rank, r, axes))
            row[r] += bytes / others;
}

void tr_flows_add(double *of, const struct tr_tape *t)
{
    double *row = of + (ptrdiff_t)t->rank * t->mesh->n;
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        double bytes = (double)tr_least_sent(t, i);
        if (bytes <= 0)
            continue;
        if (i->code == TR_SEND || i->code == TR_TIE)
            row[tr_peer_of(t, i)] += bytes;
        else if (i->code == TR_SHIFT)
            row[behind(t, i->axes, i->shift)] += bytes;
        else if (i->code == TR_REDUCE || i->code == TR_BROADCAST)
            row[behind(t, i->axes, i->code == TR_REDUCE ? -1 : 1)] += bytes;
        else if (i->code == TR_HALO) { /* as much to either neighbour that is there */
            double each = bytes / (double)(i->first + i->second);
            row[behind(t, i->axes, -1)] += i->first ? each : 0;
            row[behind(t, i->axes, 1)] += i->second ? each : 0;
        } else
            share_out(row, t, i->axes, bytes);
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* network.c: how long a call takes. */
#include "training/advice/network.h"

struct tr_spread tr_spread_of(const struct tr_mesh *mesh, const struct tr_machine *m, int rank, int axes)
{
    int at[TR_AXES], n = tr_mesh_group_size(mesh, axes), near = 0, each = m->ranks_per_host;
    if (!each || n == 1)
        return (struct tr_spread){ n, 1 };
    tr_mesh_place(mesh, rank, at);
    for (int r = rank / each * each; r < (rank / each + 1) * each && r < mesh->n; r++) {
        int other[TR_AXES], same = 1;
        tr_mesh_place(mesh, r, other);
        for (int a = 0; a < TR_AXES; a++)
            same &= axes & 1 << a || other[a] == at[a];
        near += same;
    }
    return (struct tr_spread){ near, (n + near - 1) / near };
}

enum tr_reach tr_reach_of_stage(const struct tr_mesh *mesh, const struct tr_machine *m)
{
    int next = mesh->n / (mesh->size[TR_PP] ? mesh->size[TR_PP] : 1);
    return m->ranks_per_host && next >= m->ranks_per_host ? TR_ACROSS : TR_INSIDE;
}

double tr_message_seconds(const struct tr_machine *m, double bytes, enum tr_reach reach)
{
    return m->latency[reach] + 2 * m->message[reach] + bytes / tr_machine_rate(m, reach);
}

/* n - 1 turns, in each of which an n-th goes to the next rank. */
static double ring(const struct tr_machine *m, double bytes, int n, enum tr_reach reach)
{
    return n > 1 ? (n - 1) * tr_message_seconds(m, bytes / n, reach) : 0;
}

double tr_call_seconds(const struct tr_machine *m, enum tr_code code, double bytes, struct tr_spread s)
{
    int n = s.near * s.hosts;
    double inside = ring(m, bytes, s.near, TR_INSIDE),
           across = ring(m, bytes / (s.near > 1 ? s.near : 1), s.hosts, TR_ACROSS);
    switch (code) {
    case TR_ALL_REDUCE:
        return 2 * (inside + across);
    case TR_REDUCE_SCATTER:
    case TR_ALL_GATHER:
        return inside + across;
    case TR_REDUCE:
    case TR_BROADCAST: /* a chain in many parts */
        return n > 1 ? tr_message_seconds(m, bytes, s.hosts > 1 ? TR_ACROSS : TR_INSIDE) : 0;
    case TR_ALL_TO_ALL:
    case TR_ALL_TO_ALL_V: /* an n-th of what a rank has to each of the others */
        return (s.near - 1) * tr_message_seconds(m, bytes / n, TR_INSIDE) +
               (n - s.near) * tr_message_seconds(m, bytes / n, TR_ACROSS);
    default: /* to one neighbour */
        return n > 1 ? tr_message_seconds(m, bytes, s.hosts > 1 ? TR_ACROSS : TR_INSIDE) : 0;
    }
}

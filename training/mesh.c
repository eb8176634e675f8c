/* SPDX-License-Identifier: BSD-3-Clause */
/* mesh.c: the arithmetic of a grid, and its communicators by split. */
#include "training/mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tr_axis_names[TR_AXES] = { "pp", "dp", "cp", "cu", "ep", "tp" };

const struct tr_edge_kind tr_edge_kinds[TR_EDGES] = {
    { "host", 0, false, false, false }, /* no edge: a copy */
    { "to next", 1, true, false, false },
    { "from previous", -1, false, false, false },
    { "to previous", -1, true, true, false },
    { "from next", 1, false, true, false },
    { "V to previous", -1, true, false, false },
    { "V from next", 1, false, false, false },
    { "V to next", 1, true, true, false },
    { "V from prev.", -1, false, true, false },
    { "tied", 0, false, false, false },
    { "to server", 0, true, false, true },
    { "from server", 0, false, false, true },
    { "from worker", 0, false, false, true },
    { "to worker", 0, true, false, true },
};

enum tr_edge tr_other_end(enum tr_edge edge)
{
    return (enum tr_edge)(tr_edge_kinds[edge].sends ? edge + 1 : edge - 1);
}

bool tr_mesh_make(struct tr_mesh *m, const int size[TR_AXES], int servers, struct tr_error *e)
{
    struct tr_mesh made = { .n = 1 };
    for (int a = 0; a < TR_AXES; a++) {
        if (size[a] < 1 || size[a] > 1 << 20 || made.n > (1 << 24) / size[a])
            return tr_fail(
                e, "--%s %d: legal are 1 to 1048576, and 16777216 ranks in all", tr_axis_names[a], size[a]);
        made.size[a] = size[a];
        made.n *= size[a];
    }
    made.servers = servers;
    made.n += servers;
    *m = made;
    return true;
}

int tr_mesh_server(const struct tr_mesh *m, int rank)
{
    int grid = m->n - m->servers;
    return rank < grid ? -1 : rank - grid;
}

void tr_mesh_place(const struct tr_mesh *m, int rank, int at[TR_AXES])
{
    if (tr_mesh_server(m, rank) >= 0)
        rank = 0;
    for (int a = TR_AXES - 1; a >= 0; a--) {
        at[a] = rank % m->size[a];
        rank /= m->size[a];
    }
}

int tr_mesh_rank(const struct tr_mesh *m, const int at[TR_AXES])
{
    int rank = 0;
    for (int a = 0; a < TR_AXES; a++)
        rank = rank * m->size[a] + at[a];
    return rank;
}

int tr_mesh_group_size(const struct tr_mesh *m, int axes)
{
    int n = axes == TR_WORLD ? m->servers : 0, grid = 1;
    for (int a = 0; a < TR_AXES; a++)
        if (axes & 1 << a)
            grid *= m->size[a];
    return n + grid;
}

/* The coordinates in the axes of the mask (or, with `others`, in all the rest) as one number. */
static int number(const struct tr_mesh *m, int rank, int axes, bool others)
{
    int at[TR_AXES], x = 0;
    tr_mesh_place(m, rank, at);
    for (int a = 0; a < TR_AXES; a++)
        if (!(axes & 1 << a) == others)
            x = x * m->size[a] + at[a];
    return x;
}

int tr_mesh_group_rank(const struct tr_mesh *m, int rank, int axes)
{
    return axes == TR_WORLD ? rank : number(m, rank, axes, false);
}

const char *tr_mesh_text(const struct tr_mesh *m, char text[64])
{
    int used = 0;
    snprintf(text, 64, "1 rank");
    for (int a = 0; a < TR_AXES; a++)
        if (m->size[a] > 1)
            used += snprintf(
                text + used, 64 - (size_t)used, "%s%s %d", used ? " x " : "", tr_axis_names[a], m->size[a]);
    if (m->servers)
        snprintf(text + used, 64 - (size_t)used, "%s%d server%s", used ? " and " : "1 worker and ",
            m->servers, m->servers > 1 ? "s" : "");
    return text;
}

static bool split(
    struct tr_groups *g, int color, int key, const char *name, tutti_comm **to, struct tr_error *e)
{
    uint64_t flags = g->free_order ? 0 : TUTTI_COMM_EXACT;
    tutti_config config = { .size = sizeof config, .flags = flags, .name = name };
    if (tutti_comm_split(g->world, color, key, &config, to) == TUTTI_OK)
        return true;
    return tr_fail(e, "group %s: %s", name, tr_why(g->world));
}

/* Every pair of neighbours, then every edge between them: one split each, in which two ranks of a pipeline
 * take part. */
static bool edges(
    struct tr_groups *g, const struct tr_mesh *m, int rank, enum tr_stage_layout layout, struct tr_error *e)
{
    int at[TR_AXES], ranks = m->size[TR_PP], line = number(m, rank, 1 << TR_PP, true);
    int end = layout == TR_VEE ? TR_HOME : TR_V_TO_PREVIOUS;
    tr_mesh_place(m, rank, at);
    for (int lower = 0; ranks > 1 && lower < ranks - (layout != TR_RING); lower++)
        for (int from = TR_TO_NEXT; from < end; from += 2) {
            const struct tr_edge_kind *kind = &tr_edge_kinds[from];
            int upper = (lower + 1) % ranks, sender = kind->by > 0 ? lower : upper;
            int receiver = lower + upper - sender, takes_part = at[TR_PP] == lower || at[TR_PP] == upper;
            tutti_comm *edge = NULL;
            if (!split(g, takes_part ? line : -1, at[TR_PP] == receiver,
                    kind->backward ? "pipeline backward" : "pipeline forward", &edge, e))
                return false;
            if (takes_part)
                g->edge[at[TR_PP] == sender ? from : from + 1] = edge;
        }
    return true;
}

/* One for each worker and server. */
static bool pairs(struct tr_groups *g, const struct tr_mesh *m, int rank, struct tr_error *e)
{
    int grid = m->n - m->servers, server = tr_mesh_server(m, rank);
    g->n_pairs = !m->servers ? 0 : server < 0 ? m->servers : grid;
    g->pairs = tr_new((size_t)g->n_pairs, sizeof(void *));
    for (int w = 0; w < grid; w++)
        for (int s = 0; s < m->servers; s++) {
            tutti_comm *none = NULL, **to = rank == w ? &g->pairs[s] : server == s ? &g->pairs[w] : &none;
            char name[64];
            snprintf(name, sizeof name, "worker %d and server %d", w, s);
            if (!split(g, to == &none ? -1 : 0, rank, name, to, e))
                return false;
        }
    return true;
}

/* Each of these groups; its name is that of its axes and `after`. */
static bool split_groups(struct tr_groups *g, const struct tr_mesh *m, const struct tr_masks *masks,
    const char *after, tutti_comm **to, struct tr_error *e)
{
    int rank = tutti_comm_rank(g->world);
    for (int i = 0; i < masks->n; i++) {
        char name[64] = "";
        for (int a = 0; a < TR_AXES; a++)
            if (masks->of[i] & 1 << a)
                snprintf(name + strlen(name), sizeof name - strlen(name), "%s%s", *name ? "+" : "",
                    tr_axis_names[a]);
        snprintf(name + strlen(name), sizeof name - strlen(name), "%s", after);
        if (tr_mesh_group_size(m, masks->of[i]) > 1 && !to[masks->of[i]] &&
            !split(g, number(m, rank, masks->of[i], true), rank, name, &to[masks->of[i]], e))
            return false;
    }
    return true;
}

bool tr_groups_beside(
    struct tr_groups *g, const struct tr_mesh *m, const struct tr_masks *masks, struct tr_error *e)
{
    return split_groups(g, m, masks, " beside", g->beside, e);
}

bool tr_groups_make(struct tr_groups *g, const struct tr_mesh *m, const struct tr_masks *masks,
    enum tr_stage_layout layout, bool free_order, tutti_comm *world, struct tr_error *e)
{
    int rank = tutti_comm_rank(world), at[TR_AXES];
    *g = (struct tr_groups){ .world = world, .free_order = free_order };
    tr_mesh_place(m, rank, at);
    if (!split_groups(g, m, masks, "", g->of, e) || !pairs(g, m, rank, e))
        return false;
    bool end = at[TR_PP] == 0 || at[TR_PP] == m->size[TR_PP] - 1;
    if (m->size[TR_PP] > 1 && layout != TR_VEE && /* in a V the first rank has both ends */
        !split(g, end ? number(m, rank, 1 << TR_PP, true) : -1, rank, "tied", &g->edge[TR_HOME], e))
        return false;
    return edges(g, m, rank, layout, e);
}

static bool failed(const tutti_comm *comm)
{
    return comm && tutti_comm_state(comm) != TUTTI_OK;
}

tutti_comm *tr_groups_failed(const struct tr_groups *g)
{
    for (int i = 0; i <= TR_WORLD; i++)
        for (int beside = 0; beside < 2; beside++)
            if (failed(beside ? g->beside[i] : g->of[i]))
                return beside ? g->beside[i] : g->of[i];
    for (int i = 0; i < TR_EDGES; i++)
        if (failed(g->edge[i]))
            return g->edge[i];
    for (int i = 0; i < g->n_pairs; i++)
        if (failed(g->pairs[i]))
            return g->pairs[i];
    return failed(g->world) ? g->world : NULL;
}

void tr_groups_free(struct tr_groups *g)
{
    for (int i = 0; i < TR_EDGES; i++)
        if (g->edge[i])
            tutti_comm_destroy(g->edge[i]);
    for (int i = 0; i < g->n_pairs; i++)
        if (g->pairs[i])
            tutti_comm_destroy(g->pairs[i]);
    free(g->pairs);
    for (int i = 0; i <= TR_WORLD; i++)
        if (g->of[i])
            tutti_comm_destroy(g->of[i]);
    for (int i = 0; i <= TR_WORLD; i++)
        if (g->beside[i])
            tutti_comm_destroy(g->beside[i]);
    *g = (struct tr_groups){ 0 };
}

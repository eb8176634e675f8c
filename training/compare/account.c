/* SPDX-License-Identifier: BSD-3-Clause */
/* account.c: what a configuration computes, sends and needs, and what it can be compared with. */
#include "training/compare/compare.h"

#include "training/commands/one_rank.h"

#include <stdio.h>
#include <string.h>

static int group_of(struct tr_comparison *c, const char *name)
{
    for (int i = 0; i < c->n_groups; i++)
        if (!strcmp(c->groups[i], name))
            return i;
    if (c->n_groups == TR_COMPARE_GROUPS)
        return TR_COMPARE_GROUPS - 1; /* a full list shares its last */
    snprintf(c->groups[c->n_groups], sizeof c->groups[0], "%s", name);
    return c->n_groups++;
}

/* The edges of a pipeline are one group, but for that of a tied embedding; and those of servers are one. */
static const char *name_of(const struct tr_entry *x, char text[32])
{
    if (tr_edge_kinds[x->edge].served)
        return "servers";
    return x->axes || x->edge == TR_HOME ? tr_entry_group(x, text) : "pp";
}

static void add_sent(struct tr_comparison *c, struct tr_contender *x, const struct tr_tape *t)
{
    struct tr_ledger l;
    char text[32];
    int64_t all = 0;
    tr_ledger_predict(&l, t);
    for (int n = 0; n < l.n; n++) {
        x->sent[group_of(c, name_of(&l.entries[n], text))] += l.entries[n].least;
        all += l.entries[n].least;
    }
    x->sent_all += all;
    x->sent_most = all > x->sent_most ? all : x->sent_most;
}

static int largest(const struct tr_prepared *p)
{
    int most = 0;
    for (int r = 1; r < p->run.plan.mesh.n; r++)
        if (tr_tapes_like(p->tapes, r)->arena > tr_tapes_like(p->tapes, most)->arena)
            most = r;
    return most;
}

/* What is computed beyond the operations of one device, which computes nothing again. */
static bool compare_flops(struct tr_comparison *c, struct tr_error *e)
{
    struct tr_options alone;
    struct tr_prepared p;
    tr_one_rank_options(&alone, &c->base);
    if (!tr_prepare(&p, &alone, e))
        return false;
    for (int i = 0; i < c->n; i++)
        c->all[i].extra = c->all[i].flops - tr_tape_flops(tr_tapes_of(p.tapes, 0));
    tr_prepared_free(&p);
    return true;
}

bool tr_compare_account(struct tr_comparison *c, struct tr_error *e)
{
    for (int i = 0; i < c->n; i++) {
        struct tr_contender *x = &c->all[i];
        for (int r = 0; r < x->prepared.run.plan.mesh.n; r++) {
            if (!x->aside) /* a group of its own would be a column of the table */
                add_sent(c, x, tr_tapes_like(x->prepared.tapes, r));
            x->flops += tr_tape_flops(tr_tapes_like(x->prepared.tapes, r));
        }
        x->largest = largest(&x->prepared);
        tr_compare_what_fits(c, x);
    }
    return compare_flops(c, e);
}

static bool computes_otherwise(const struct tr_plan *p)
{
    return p->pipeline.async || p->servers.async || p->offload.delay;
}

char tr_compare_class(const struct tr_contender *x)
{
    const struct tr_plan *p = &x->prepared.run.plan;
    struct tr_tolerance f;
    if (computes_otherwise(p))
        return 'D';
    if (tr_tolerance_of(&f, &x->options))
        return 'C';
    return p->mesh.n - p->mesh.servers == p->mesh.size[TR_PP] ? 'A' : 'B';
}

const char *tr_compare_with(const struct tr_contender *x)
{
    return computes_otherwise(&x->prepared.run.plan) ? "simulator" : "golden program";
}

bool tr_compare_near(const struct tr_comparison *c)
{
    struct tr_tolerance f;
    for (int i = 0; i < c->n; i++)
        if (tr_tolerance_of(&f, &c->all[i].options) || strcmp(tr_compare_with(&c->all[i]), "golden program"))
            return true;
    return false;
}

bool tr_compare_equal(const struct tr_contender *x)
{
    return x->runs && tr_tolerance_kept(&x->options, &x->verdict);
}

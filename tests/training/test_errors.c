/* SPDX-License-Identifier: BSD-3-Clause */
/* test_errors.c: a planted error is where its row says, and nowhere else, and is found. One that
 * is planted on fewer ranks than its row says would be found as well, and show less. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/training/options_rig.h"
#include "training/check/check.h"
#include "training/errors/plant.h"
#include "training/planning/tapes.h"

struct copy {
    struct tr_instr *instrs;
    struct tr_value *values;
    int n_instrs, n_values;
};

static void *twin(const void *of, size_t bytes)
{
    void *to = malloc(bytes);
    cr_assert(to);
    return memcpy(to, of, bytes);
}

static struct copy copy_of(const struct tr_tape *t)
{
    return (struct copy){ twin(t->instrs, (size_t)t->n_instrs * sizeof *t->instrs),
        twin(t->values, (size_t)t->n_values * sizeof *t->values), t->n_instrs, t->n_values };
}

/* Fields as the checks read them; memory that was planned anew is equal where nothing was changed. */
static bool differs(const struct copy *c, const struct tr_tape *t)
{
    if (c->n_instrs != t->n_instrs || c->n_values != t->n_values)
        return true;
    for (int n = 0; n < c->n_instrs; n++) {
        const struct tr_instr *a = &c->instrs[n], *b = &t->instrs[n];
        if (a->code != b->code || a->op != b->op || memcmp(a->in, b->in, sizeof a->in) ||
            memcmp(a->out, b->out, sizeof a->out) || a->ins != b->ins || a->outs != b->outs ||
            a->micro != b->micro || a->axes != b->axes || a->shift != b->shift || a->peer != b->peer ||
            a->edge != b->edge || a->fold != b->fold || a->count != b->count || a->place != b->place ||
            a->first != b->first || a->second != b->second || a->striped != b->striped ||
            a->valid != b->valid || a->optimizer.warmup != b->optimizer.warmup || a->scale < b->scale ||
            a->scale > b->scale || a->update != b->update ||
            memcmp(&a->optimizer.decay, &b->optimizer.decay, sizeof a->optimizer.decay))
            return true;
    }
    for (int n = 0; n < c->n_values; n++)
        if (c->values[n].offset != t->values[n].offset || c->values[n].element != t->values[n].element)
            return true;
    return false;
}

/* Of the rank, with so many in all and servers among them or not. */
static bool may_differ(enum tr_planted_on on, const struct tr_tape *t, int ranks)
{
    if (on == TR_ON_FIRST || on == TR_ON_WORKER)
        return t->rank == 0;
    if (on == TR_ON_LAST || on == TR_ON_SERVER)
        return t->rank == ranks - 1;
    return on != TR_ON_THIRD || t->at[TR_DP] == 2;
}

static void plant_and_look(const struct tr_planting *row)
{
    struct tr_prepared p;
    struct tr_error e = { .text = "" };
    rig_prepare(&p, row->is.needs);
    int n = p.run.plan.mesh.n, changed = 0;
    for (int r = 0; r < n; r++)
        cr_assert(tr_tapes_of(p.tapes, r));
    struct copy *before = tr_new((size_t)n, sizeof *before);
    for (int r = 0; r < n; r++)
        before[r] = copy_of(&p.tapes->of[r]);
    cr_assert(tr_inject(p.tapes->of, n, row->is.name, &e), "%s: %s", row->is.name, e.text);
    for (int r = 0; r < n; r++) {
        bool is = differs(&before[r], &p.tapes->of[r]);
        changed += is;
        cr_expect(!is || row->whole || may_differ(row->on, &p.tapes->of[r], n), "%s: rank %d has it, too",
            row->is.name, r);
        free(before[r].instrs), free(before[r].values);
    }
    free(before);
    if (row->on == TR_ON_EACH && !row->whole)
        cr_expect_eq(changed, n, "%s: %d of %d ranks have it", row->is.name, changed, n);
    else if (row->on == TR_ON_ANY || row->whole)
        cr_expect(changed > 0, "%s: nobody has it", row->is.name);
    else if (row->on != TR_ON_THIRD)
        cr_expect_eq(changed, 1, "%s: %d ranks have it", row->is.name, changed);
    tr_prepared_free(&p);
}

Test(errors, each_is_planted_where_its_row_says)
{
    for (int i = 0; i < tr_n_plantings; i++)
        plant_and_look(&tr_plantings[i]);
}

Test(errors, each_is_found_by_the_check_that_its_row_names)
{
    const struct tr_injection *x;
    for (int i = 0; (x = tr_injection_at(i)); i++) {
        struct tr_options o;
        struct tr_prepared p;
        struct tr_error e = { .text = "" };
        char line[200];
        snprintf(line, sizeof line, "%s --inject %s", x->needs, x->name);
        cr_assert(rig_options(&o, line, &e), "%s", e.text);
        bool taken = tr_prepare(&p, &o, &e);
        cr_expect(!taken && p.found_by == (int)x->finder, "%s: %s", x->name, e.text);
        if (taken)
            tr_prepared_free(&p);
    }
}

/* Every micro-batch's, or every instruction's, and not the first alone. */
Test(errors, every_instruction_that_a_row_means_is_changed)
{
    struct tr_prepared p;
    struct tr_error e = { .text = "" };
    int left = 0, dropped = 0;
    rig_prepare(&p, "--micro 2");
    const struct tr_tape *t = tr_tapes_of(p.tapes, 0);
    for (int n = 0; n < t->n_instrs; n++)
        dropped += t->instrs[n].code == TR_ACCUMULATE && t->instrs[n].micro == 1;
    int before = t->n_instrs;
    cr_assert(tr_inject(p.tapes->of, 1, "micro-batch-dropped", &e), "%s", e.text);
    for (int n = 0; n < t->n_instrs; n++)
        left += t->instrs[n].code == TR_ACCUMULATE && t->instrs[n].micro == 1;
    cr_expect(dropped > 1);
    cr_expect_eq(left, 0, "%d of %d are left", left, dropped);
    cr_expect_eq(t->n_instrs, before - dropped);
    tr_prepared_free(&p);
}

Test(errors, a_run_that_cannot_have_one_says_what_it_needs)
{
    static const struct {
        const char *line, *name, *needs;
    } none[] = { { "--dp 2", "wrong-fold", "--tp 2" }, { "--tp 2 --pp 2", "wrong-fold", "--tp 2" },
        { "--tp 2", "push-lost", "--dp 2 --servers 1" },
        { "--pp 2", "tied-with-nobody", "--schedule dualpipev" }, { "--dp 2", "third-swaps", "--dp 4" },
        { "--dp 2", "update-of-stashed", "--async stash" }, { "", "all-ranks-first", "--capacity-factor 1" },
        { "--dp 2 --micro 2", "contiguous-for-cyclic", "--zero 2" },
        { "--cp 4 --cp-attention ring", "ring-inside-the-group", "ulysses+ring" } };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct tr_prepared p;
        struct tr_error e = { .text = "" };
        rig_prepare(&p, none[i].line);
        for (int r = 0; r < p.run.plan.mesh.n; r++)
            cr_assert(tr_tapes_of(p.tapes, r));
        cr_expect(!tr_inject(p.tapes->of, p.run.plan.mesh.n, none[i].name, &e), "%s has %s", none[i].line,
            none[i].name);
        cr_expect(strstr(e.text, none[i].needs), "%s: %s", none[i].name, e.text);
        tr_prepared_free(&p);
    }
}

static void expect_types(const struct tr_tape *t, const char *words)
{
    struct tr_error e = { .text = "" };
    bool ok = tr_check_types(t, &e);
    cr_expect_eq(ok, !words, "%s", e.text);
    cr_expect(!words || strstr(e.text, words), "not \"%s\" but: %s", words, e.text);
}

/* A rank with another rate would go on, with other weights than its peers. */
Test(errors, an_update_goes_by_the_plan_and_a_load_has_a_micro_batch)
{
    struct tr_prepared p;
    rig_prepare(&p, "--dp 2 --micro 2");
    const struct tr_pick update = { .code = TR_UPDATE }, load = { .code = TR_LOAD };
    struct tr_tape *t = &p.tapes->of[1];
    struct tr_instr *i = &t->instrs[tr_find(t, &update, 0)], before = *i;
    expect_types(t, NULL);
    i->optimizer.sgd = true, expect_types(t, "sgd with rate 0.001"), *i = before;
    i->optimizer.rate = 0.5, expect_types(t, "adamw with rate 0.5"), *i = before;
    i->optimizer.until = 7, expect_types(t, "its rate goes another way"), *i = before;
    i->optimizer.curve = TR_CURVE_COSINE, expect_types(t, "its rate goes another way"), *i = before;
    i->optimizer.least = 1e-4, expect_types(t, "its rate goes another way"), *i = before;
    i->optimizer.clip = 0.5, expect_types(t, "clip 0.5 updates it; on every rank it is adamw"), *i = before;
    i = &t->instrs[tr_find(t, &load, 0)];
    i->times--;
    expect_types(t, "it loads 1 sequences, and a micro-batch has 2 here");
    tr_prepared_free(&p);
}

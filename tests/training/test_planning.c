/* SPDX-License-Identifier: BSD-3-Clause */
/* test_planning.c: how long it takes to plan a run, which every rank does before its first message, and that
 * the check of all lists sees a leaf that nobody counts, or two do. Time is that of the processor, and sizes
 * are compared with each other, so a busy machine changes nothing. */
#include "tests/training/options_rig.h"

#include "training/tape/check.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>

static double seconds_of(const char *line)
{
    struct rusage before, after;
    struct tr_prepared p;
    getrusage(RUSAGE_SELF, &before);
    rig_prepare(&p, line);
    getrusage(RUSAGE_SELF, &after);
    tr_prepared_free(&p);
    return (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
           (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) * 1e-6;
}

/* With the square of the tensors this is 16 times, with their cube 64 times. */
Test(planning, of_many_layers_does_not_take_the_cube)
{
    double few = 0, many;
    for (int i = 0; i < 4; i++)
        few += seconds_of("--layers 24") / 4;
    many = seconds_of("--layers 96");
    cr_expect_lt(many, 30 * few + 0.2, "24 layers take %.3f s, and 96 %.3f s", few, many);
}

/* A rank more is its list more, and no other look at all steps for each border of stages. */
Test(planning, of_many_ranks_takes_little_of_each)
{
    double one = 0, many;
    for (int i = 0; i < 4; i++)
        one += seconds_of("--layers 64") / 4;
    many = seconds_of("--layers 64 --pp 32 --dp 8");
    cr_expect_lt(many, 10 * one + 0.2, "1 rank takes %.3f s, and 256 ranks %.3f s", one, many);
}

/* The last instruction with this code; both kinds have leaves of their own on each rank. */
static struct tr_instr *last_of(const struct tr_prepared *p, int rank, enum tr_code code)
{
    const struct tr_tape *t = &p->tapes[rank];
    int n = t->n_instrs;
    while (n-- > 0 && t->instrs[n].code != code)
        ;
    cr_assert_geq(n, 0);
    return &t->instrs[n];
}

static void order_says(const struct tr_prepared *p, const char *words)
{
    const struct tr_tape *all[] = { &p->tapes[0], &p->tapes[1] };
    struct tr_error e = { .text = "" };
    bool ok = tr_check_order(all, 2, &e);
    cr_expect_eq(ok, !words);
    cr_expect(!words || strstr(e.text, words), "not \"%s\" but: %s", words ? words : "", e.text);
}

Test(planning, each_leaf_is_counted_once)
{
    struct tr_prepared p;
    rig_prepare(&p, "--tp 2");
    order_says(&p, NULL);
    const enum tr_code codes[] = { TR_NORM, TR_LOSSES };
    for (int k = 0; k < 2; k++) {
        int owner = codes[k] == TR_NORM ? 1 : 0; /* of the loss, the first rank of tp */
        struct tr_instr *i = last_of(&p, owner, codes[k]), before = *i;
        i->code = TR_LOAD;
        order_says(&p, codes[k] == TR_NORM ? "of the norm" : "of the loss");
        *i = before;
        if (codes[k] == TR_NORM) {
            i->place = last_of(&p, 0, TR_NORM)->place;
            order_says(&p, "is counted twice");
            *i = before;
        }
        order_says(&p, NULL);
    }
    tr_prepared_free(&p);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* test_planning.c: how long it takes to plan a run, which every rank does before its first message. Time is
 * that of the processor, and sizes are compared with each other, so a busy machine changes nothing. */
#include "tests/training/options_rig.h"

#include <criterion/criterion.h>
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

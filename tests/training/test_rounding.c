/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rounding.c: values are rounded by another chance after each update, and each parameter's by its own,
 * else errors of rounding would add up; the same update is rounded alike whenever it is made, so that a run
 * goes on from a checkpoint as if it had never ended. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/training/options_rig.h"
#include "training/launch.h"
#include "training/run/run.h"
#include "training/run/bfloat16.h"

enum { COUNT = 256, UPDATES = 4, PARAMETERS = 2, ALL = UPDATES * PARAMETERS };

static bool round_all(const struct tr_runner *r, struct tr_error *e)
{
    float masters[COUNT];
    uint16_t got[ALL][COUNT], again[COUNT];
    for (int i = 0; i < COUNT; i++)
        masters[i] = 1 + 1.0f / 256; /* in the middle between two numbers of bfloat16 */
    for (int k = 0; k < ALL; k++) {
        int parameter = r->tape->states[k / UPDATES].parameter, update = k % UPDATES;
        tr_round_masters(r, r->x, parameter, got[k], masters, 0, COUNT, update);
        tr_round_masters(r, r->x, parameter, again, masters, 0, COUNT, update);
        if (memcmp(got[k], again, sizeof again) != 0)
            return tr_fail(e, "parameter %d is rounded in two ways after update %d", parameter, update);
        for (int other = 0; other < k; other++)
            if (memcmp(got[k], got[other], sizeof again) == 0)
                return tr_fail(e, "roundings %d and %d are one", other, k);
    }
    return true;
}

static bool run(tutti_comm *world, void *context, struct tr_error *e)
{
    struct tr_options o;
    struct tr_prepared p;
    struct tr_data data;
    struct tr_runner r;
    (void)context;
    if (!rig_options(&o, "--precision bfloat16 --rounding stochastic", e) || !tr_prepare(&p, &o, e) ||
        !tr_data_open(&data, NULL, 1, p.run.graph.vocabulary, p.run.graph.context, e) ||
        !tr_runner_open(&r, &p.tapes->of[0], tr_kernels_best(), &data, world, e))
        return false;
    bool ok = round_all(&r, e);
    tr_runner_close(&r);
    tr_data_close(&data);
    tr_prepared_free(&p);
    return ok;
}

Test(rounding, has_a_chance_for_each_update_and_parameter)
{
    cr_expect_eq(tr_launch(1, run, NULL), 0);
}

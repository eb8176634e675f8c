/* SPDX-License-Identifier: BSD-3-Clause */
/* test_shm_tidy.c: memory of slots that no message uses any more returns to the system, soon, and never under
 * a reader. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/rig/patience.h"
#include "shm_ranks.h"
#include "transports/shm_shuttle.h"

/* Criterion's own timers leak, which ends a run under a sanitizer. */
static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(shm_tidy, .init = limit_time);

enum { KEPT = 5, TIDY_BYTES = 40000 }; /* the message that is not read yet */

/* Memory goes when it was not used between two looks, and never while the receiver may read it. The first
 * messages go by shuttles, which then are their reader's to empty. */
static void tidy(struct shm_rank *r)
{
    uint64_t first = r->stage->params.first_number;
    uint8_t *text = malloc(TIDY_BYTES);
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    uint64_t empty = shm_resident();
    for (uint64_t i = 0; i < TT_SLOTS && r->me == 0; i++)
        suite_expect(&r->suite, shm_post(e, 1, first + i, i, text, TIDY_BYTES), "no slot");
    for (uint64_t i = 0; i < TT_SLOTS && r->me == 1; i++)
        if (i != KEPT)
            shm_take(r, e, 0, first + i, i, TIDY_BYTES);
    shm_meet(r);
    uint64_t used = shm_resident(), slot = (used - empty) / TT_SLOTS;
    if (r->me == 0) {
        suite_expect(&r->suite, slot >= TIDY_BYTES, "a slot has %d bytes", (int)slot);
        tt_shm.memory->tidy(e);
        suite_expect(&r->suite, shm_resident() == used, "what was used just now is gone");
    }
    tt_shm.memory->tidy(e);
    if (r->me == 0)
        suite_expect(&r->suite, shm_resident() == empty + (1 + TT_SHM_SHUTTLES) * slot, "%d bytes stay",
            (int)(shm_resident() - empty));
    shm_meet(r);
    tt_shm.memory->tidy(e);
    shm_meet(r);
    if (r->me == 0) {
        suite_expect(
            &r->suite, shm_resident() == empty + slot, "%d bytes are kept", (int)(shm_resident() - empty));
        suite_expect(&r->suite, shm_post(e, 1, first + TT_SLOTS, 9, text, TIDY_BYTES), "no slot any more");
        suite_expect(
            &r->suite, shm_resident() == empty + 2 * slot, "%d bytes again", (int)(shm_resident() - empty));
    }
    shm_meet(r);
    if (r->me == 1) {
        shm_take(r, e, 0, first + KEPT, KEPT, TIDY_BYTES);
        shm_take(r, e, 0, first + TT_SLOTS, 9, TIDY_BYTES);
    }
    shm_meet(r);
    tt_shm.close(e);
    free(text);
}

Test(shm_tidy, what_is_not_used_returns)
{
    shm_stage_run(shm_stage_new(2), tidy, -1);
}

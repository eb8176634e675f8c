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

/* --- Among many ranks */

enum { PEERS = SHM_RANKS_MAX - 1 };

/* Rank 0 fills its slots to each, who takes all but what `kept` has a bit for. Returns what a slot takes. */
static uint64_t fill_slots(struct shm_rank *r, struct tt_endpoint *e, uint8_t *text, unsigned kept)
{
    uint64_t first = r->stage->params.first_number, empty = shm_resident();
    for (uint64_t i = 0; i < TT_SLOTS && r->me == 0; i++)
        for (int peer = 1; peer < r->n; peer++)
            suite_expect(&r->suite, shm_post(e, peer, first + i, i, text, TIDY_BYTES), "no slot");
    for (uint64_t i = 0; i < TT_SLOTS && r->me != 0; i++)
        if ((kept >> i & 1) == 0)
            shm_take(r, e, 0, first + i, i, TIDY_BYTES);
    shm_meet(r);
    return (shm_resident() - empty) / (TT_SLOTS * PEERS);
}

/* Of slots in a row there is one piece for each peer, however many slots it has, so all go at once. */
static void tidy_rows(struct shm_rank *r)
{
    uint8_t *text = malloc(TIDY_BYTES);
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    uint64_t empty = shm_resident(), slot = fill_slots(r, e, text, 0);
    if (r->me == 0) {
        tt_shm.memory->tidy(e);
        tt_shm.memory->tidy(e);
        suite_expect(&r->suite, shm_resident() == empty + PEERS * TT_SHM_SHUTTLES * slot, "%d bytes stay",
            (int)(shm_resident() - empty));
    }
    shm_meet(r);
    tt_shm.close(e);
    free(text);
}

/* Of slots between others in use there are three pieces for each peer, so some wait for a later look; and
 * what is in use stays. */
static void tidy_pieces(struct shm_rank *r)
{
    enum { KEPT_HERE = 1 << 4 | 1 << 6, KEPT_SLOTS = 2 };
    uint64_t first = r->stage->params.first_number;
    uint8_t *text = malloc(TIDY_BYTES);
    shm_introduce(r);
    struct tt_endpoint *e = shm_join(r);
    uint64_t empty = shm_resident(), slot = fill_slots(r, e, text, KEPT_HERE);
    if (r->me == 0) {
        uint64_t left = empty + PEERS * (KEPT_SLOTS + TT_SHM_SHUTTLES) * slot;
        tt_shm.memory->tidy(e);
        tt_shm.memory->tidy(e);
        suite_expect(&r->suite, shm_resident() > left, "all goes at one look");
        suite_expect(&r->suite, shm_resident() < left + PEERS * 2 * slot, "hardly anything goes");
        tt_shm.memory->tidy(e);
        suite_expect(&r->suite, shm_resident() == left, "%d bytes stay", (int)(shm_resident() - empty));
    }
    shm_meet(r);
    for (uint64_t i = 0; i < TT_SLOTS && r->me != 0; i++)
        if ((KEPT_HERE >> i & 1) != 0)
            shm_take(r, e, 0, first + i, i, TIDY_BYTES);
    shm_meet(r);
    tt_shm.close(e);
    free(text);
}

Test(shm_tidy, slots_in_a_row_go_at_once)
{
    shm_stage_run(shm_stage_new(PEERS + 1), tidy_rows, -1);
}

Test(shm_tidy, many_pieces_go_at_many_looks)
{
    shm_stage_run(shm_stage_new(PEERS + 1), tidy_pieces, -1);
}

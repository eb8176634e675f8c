/* SPDX-License-Identifier: BSD-3-Clause */
/* group_joins.c: tells who waits for a rank of a group that it does not come (group_joins.h). */
#include "api/group_joins.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/wait.h"
#include "bootstrap/bootstrap.h"

enum { MOMENT_MS = 500, TELL_MS = 1000 };

static bool some_wait(const struct tt_join *first)
{
    bool wait = false;
    for (const struct tt_join *j = first; j != NULL; j = j->next)
        wait = wait || !atomic_load(&j->over);
    return wait;
}

/* The rank for which it speaks at another's id: itself, if that can be; else one that is not there. */
static int speaks_for(const struct tt_join *failed, const struct tt_join *waits)
{
    bool fits = failed->rank < waits->n && failed->rank != waits->rank;
    return fits ? failed->rank : waits->rank == 0 ? waits->n - 1 : 0;
}

void tt_joins_give_up(struct tt_join *first, struct tt_join *failed, tutti_status status)
{
    char words[TT_ERROR_TEXT];
    int64_t until_ns = tt_deadline_ns(MOMENT_MS);
    snprintf(words, sizeof words, "%s", tt_last_error());
    atomic_store(&failed->over, true);
    while (some_wait(first) && tt_now_ns() < until_ns)
        tt_sleep_ms(1);
    for (struct tt_join *j = first; j != NULL; j = j->next) {
        if (atomic_load(&j->over) || !j->known || j->n < 2)
            continue;
        tt_fail(status, "rank %d of %d in the same group could not join, by the id that it has: %s",
            failed->rank, failed->n, words);
        tt_bootstrap_refuse(&j->id, j->n, speaks_for(failed, j), TELL_MS, status);
    }
    tt_set_last_error(words);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_counts.c: v-forms in which only two ranks know the length of a block, and do not agree on it.
 *
 * All ranks get TUTTI_MISMATCH, and it names the two. One of them may see nothing wrong with its own part and
 * return; then either it goes on, and its next message tells (never is it taken for the missing one), or it
 * does not, and the other finds that it will never come. A short message that nobody awaits is the exception:
 * only the next of that pair tells. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/rig/ranks.h"

TestSuite(api_counts, .timeout = 120);

enum { SLICE = 4096, PIECE = SLICE / sizeof(float), ROOM = 48 * PIECE, USUAL = 5 };
enum form { ALL_TO_ALL_V, GATHER_V, SCATTER_V, FORMS };
static const char *const names[FORMS] = { "all_to_all_v", "gather_v", "scatter_v" };

static const struct {
    size_t given, expected;
    bool alone; /* found even if the others call nothing more */
} differences[] = {
    { USUAL, USUAL + 1, true },
    { USUAL + 1, USUAL, true },
    { 0, USUAL, true },
    { USUAL, 0, false },
    { 0, 3 * PIECE, true },
    { PIECE, 0, false },
    { 40 * PIECE, 0, true }, /* more than there are slots and shuttles: its sender waits */
    { PIECE, PIECE + 1, true },
    { PIECE + 1, PIECE, true },
    { 2 * PIECE, PIECE, true },
    { PIECE, 4 * PIECE, true },
    { 7 * PIECE, 8 * PIECE, true },
};
enum { DIFFERENCES = sizeof differences / sizeof differences[0] };

/* What the ranks call next that see nothing wrong. */
enum next { NOTHING, ALL_TO_ALL, AGAIN /* the same, now with counts that agree */, NEXTS };
static const char *const next_names[NEXTS] = { "", ", then all_to_all", ", then the same, rightly" };

struct plan {
    enum form form;
    int difference, giver, taker;
    enum next next;
};

/* Nobody looks at what arrives in a mismatch, so threads may share them. */
static float *space(int which)
{
    static float spaces[2][ROOM];
    return spaces[which];
}

/* All blocks are of the usual length but that of the giver for the taker. */
static tutti_status run_form(const struct ranks_me *me, const struct plan *p, tutti_comm *comm, bool differs)
{
    size_t sent[RANKS_MAX], received[RANKS_MAX];
    tutti_stream none = tutti_no_stream();
    for (int r = 0; r < me->n; r++)
        sent[r] = received[r] = USUAL;
    if (differs && me->rank == p->giver)
        sent[p->taker] = differences[p->difference].given;
    if (differs && me->rank == p->taker)
        received[p->giver] = differences[p->difference].expected;
    switch (p->form) {
    case GATHER_V:
        return tutti_gather_v(
            space(0), sent[p->taker], space(1), received, NULL, TUTTI_FLOAT32, p->taker, comm, none);
    case SCATTER_V:
        return tutti_scatter_v(
            space(0), sent, NULL, space(1), received[p->giver], TUTTI_FLOAT32, p->giver, comm, none);
    default:
        return tutti_all_to_all_v(space(0), sent, NULL, space(1), received, NULL, TUTTI_FLOAT32, comm, none);
    }
}

static tutti_status wait_for_error(const tutti_comm *comm)
{
    int64_t until = ranks_now_ms() + 150000;
    while (tutti_comm_state(comm) == TUTTI_OK && ranks_now_ms() < until)
        ranks_sleep_us(1000);
    return tutti_comm_state(comm);
}

static void disagree(struct ranks_me *me, const struct plan *p)
{
    tutti_config config = { .size = sizeof config, .options = "slice=4096", .timeout_ms = 200000 };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    ranks_at(me, "n %d rank %d: %s, %zu from rank %d for rank %d, which expects %zu%s", me->n, me->rank,
        names[p->form], differences[p->difference].given, p->giver, p->taker,
        differences[p->difference].expected, next_names[p->next]);
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "the barrier before");
    ranks_meet(me); /* or what comes ends it at a rank that is still inside */
    tutti_status status = run_form(me, p, comm, true);
    if (status == TUTTI_OK && p->next == ALL_TO_ALL)
        status = tutti_all_to_all(space(0), space(1), 1, TUTTI_FLOAT32, comm, tutti_no_stream());
    if (status == TUTTI_OK && p->next == AGAIN)
        status = run_form(me, p, comm, false);
    if (status == TUTTI_OK)
        status = wait_for_error(comm);
    ranks_expect(me, status == TUTTI_MISMATCH, "returned %d (%s)", status, tutti_get_last_error(comm));
    tutti_error error = ranks_same_error(me, comm, TUTTI_MISMATCH, "operation");
    ranks_expect(me,
        (error.rank == p->giver && error.peer == p->taker) ||
            (error.rank == p->taker && error.peer == p->giver),
        "the error names ranks %d and %d: %s", error.rank, error.peer, error.text);
    ranks_expect(me, error.sequence == 1 || differences[p->difference].expected == 0,
        "it was found in operation %llu, not 1", (unsigned long long)error.sequence);
    ranks_meet(me);
    tutti_comm_destroy(comm);
}

static void differ(struct ranks_me *me)
{
    for (int d = 0; d < DIFFERENCES; d++)
        for (int form = 0; form < FORMS; form++) {
            struct plan p = { .form = (enum form)form, .difference = d, .giver = d % me->n };
            p.taker = (p.giver + 1 + form % (me->n - 1)) % me->n;
            for (int next = !differences[d].alone; next < NEXTS; next++) {
                p.next = (enum next)next;
                disagree(me, &p);
            }
        }
}

Test(api_counts, processes)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = differ });
}

Test(api_counts, threads)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = differ });
}

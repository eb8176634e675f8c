/* SPDX-License-Identifier: BSD-3-Clause */
/* test_planted_runs.c: schedules that look right rank by rank, and race, deadlock or compute something else.
 *
 * As in test_planted.c, each is refused with the sentence that names the defect. Next to each deadlock stands
 * the mode or the number of slots in which the same schedule runs: a verifier that refuses all would fail
 * here. */
#include "schedules.h"

static const struct tt_proof any = { .tree = TT_TREE_ANY };

/* --- Hazards */

static void copies(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)team, (void)root;
    tt_chunks(s, 1);
    tt_copy(s, tt_tmp(0), tt_in(0));
    tt_copy(s, tt_tmp(1), tt_tmp(0));
    tt_copy(s, tt_tmp(2), tt_tmp(1));
    tt_copy(s, tt_out(0), tt_tmp(2));
    tt_copy(s, tt_out(0), tt_tmp(0)); /* after 0 and 3 */
    tt_copy(s, tt_tmp(0), tt_tmp(2)); /* after 0, 1, 2 and 4 */
}

Test(planted_runs, lost_dependency)
{
    struct schedule_set s = built(TT_ALL_REDUCE, "ring", 2, false);
    drop_edge(&s.schedules[1], 2, 1);
    refuse(&s, "rank 1 step 2: reads out 1 without waiting for step 1, which writes it");
    s = built(TT_ALL_REDUCE, "ring", 2, true); /* M3: the builder forgets who reads */
    drop_edge(&s.schedules[0], 3, 0);
    refuse(&s, "rank 0 step 3: writes out 1 without waiting for step 0, which reads it");
    s = generated(TT_ALL_REDUCE, copies, 1, false);
    drop_edge(&s.schedules[0], 4, 3);
    refuse(&s, "rank 0 step 4: writes out 0 without waiting for step 3, which writes it too");
    s = generated(TT_ALL_REDUCE, copies, 1, false);
    drop_edge(&s.schedules[0], 1, 0);
    refuse(&s, "rank 0 step 1: reads tmp 0 without waiting for step 0, which writes it");
    s = generated(TT_ALL_REDUCE, copies, 1, false);
    drop_edge(&s.schedules[0], 5, 4);
    refuse(&s, "rank 0 step 5: writes tmp 0 without waiting for step 4, which reads it");
    s = built(TT_ALL_REDUCE, "direct", 4, false); /* a fold is waited for by its first step */
    drop_edge(&s.schedules[1], 6, 3);
    refuse(&s, "rank 1 step 6: reads out 1 without waiting for step 3, which writes it");
    s = built(TT_ALL_REDUCE, "halving", 4, false); /* of a range, the second chunk only */
    drop_edge(&s.schedules[0], 6, 5);
    refuse(&s, "rank 0 step 6: reads out 1 without waiting for step 5, which writes it");
}

Test(planted_runs, dependency_by_way_of_others)
{
    struct schedule_set s = generated(TT_ALL_REDUCE, copies, 1, false);
    drop_edge(&s.schedules[0], 4, 0); /* 4 after 3 after 2 after 1 after 0 */
    accept(&s, any);
    s = generated(TT_ALL_REDUCE, copies, 1, false);
    drop_edge(&s.schedules[0], 5, 0);
    drop_edge(&s.schedules[0], 5, 1);
    drop_edge(&s.schedules[0], 5, 2);
    accept(&s, any);
}

/* --- Deadlocks */

static void after_you(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    tt_recv(s, 1 - team->me, tt_tmp(0));
    tt_send(s, 1 - team->me, tt_tmp(0));
}

/* M2: doubling that receives into what it sends. */
static void doubling_in_one_buffer(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    tt_send(s, 1 - team->me, tt_in(0));
    tt_final(s, true);
    tt_recv_reduce(s, 1 - team->me, tt_out(0), tt_in(0), team->me == 1);
}

/* A fold runs when all its messages are there; the second is sent when the first was taken. */
static void fold_of_one_sender(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    for (int k = 0; team->me == root && k < 2; k++) {
        tt_copy(s, tt_tmp(0), tt_in(0));
        tt_send(s, 1, tt_tmp(0));
    }
    if (team->me == root)
        return;
    tt_fold_begin(s, false);
    tt_recv_reduce(s, root, tt_tmp(0), tt_in(0), false);
    tt_recv_reduce(s, root, tt_tmp(0), tt_in(0), false);
    tt_fold_end(s);
}

static void long_way_round(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    tt_recv(s, tt_team_rank(team, team->me - 1), tt_tmp(0));
    tt_send(s, tt_team_rank(team, team->me + 1), tt_tmp(0));
}

Test(planted_runs, deadlock_under_rendezvous)
{
    struct schedule_set s = generated(TT_BARRIER, after_you, 2, false);
    refuse(&s, "deadlock, rendezvous: rank 0 step 0 waits for rank 1 step 1, which waits for rank 1 step 0, "
               "which waits for rank 0 step 1, which waits for the first");
    s = generated(TT_ALL_REDUCE, doubling_in_one_buffer, 2, true);
    refuse(&s, "deadlock, rendezvous: rank 0 step 1 waits for rank 1 step 1, which waits for the first");
    s = generated(TT_ALL_REDUCE, doubling_in_one_buffer, 2, false);
    accept(&s, any);
    s = generated(TT_BARRIER, fold_of_one_sender, 2, false);
    refuse(&s, "deadlock, rendezvous: ");
    s = generated(TT_BARRIER, long_way_round, 40, false);
    refuse(&s, "waits for more, back to the first");
}

/* Rank 0 begins with its last messages: the first of `later` + 1 to rank 1 needs what comes back from the
 * last. Queues, so that this is a matter of slots alone. */
static void last_message_first(struct tt_schedule *s, const struct tt_team *team, uint32_t later)
{
    tt_chunks(s, 1);
    if (team->me == 0) {
        tt_recv(s, 2, tt_tmp(0));
        tt_send(s, 1, tt_tmp(0));
        tt_queue(s, 1);
        for (uint32_t k = 0; k < later; k++)
            tt_send(s, 1, tt_in(0));
    } else if (team->me == 1) {
        tt_recv(s, 0, tt_tmp(0));
        tt_queue(s, 1);
        for (uint32_t k = 1; k <= later; k++)
            tt_recv(s, 0, tt_tmp(k));
        tt_send(s, 2, tt_tmp(later));
    } else {
        tt_recv(s, 1, tt_tmp(0));
        tt_send(s, 0, tt_tmp(0));
    }
}

static void second_message_first(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    last_message_first(s, team, 1);
}

static void fifth_message_first(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    last_message_first(s, team, 4);
}

Test(planted_runs, deadlock_with_slots)
{
    struct schedule_set s = generated(TT_BARRIER, second_message_first, 3, false);
    refuse_with(&s, (struct tt_proof){ .slots = 1 }, "deadlock, with 1 slots: rank 0 step 0 waits for ");
    s = generated(TT_BARRIER, second_message_first, 3, false);
    accept(&s, (struct tt_proof){ .slots = 2 });
    s = generated(TT_BARRIER, fifth_message_first, 3, false);
    refuse(&s, "deadlock, with 4 slots: ");
    s = generated(TT_BARRIER, fifth_message_first, 3, false);
    accept(&s, (struct tt_proof){ .slots = 5 });
}

static void both_listen_first(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    tt_recv(s, 1 - team->me, tt_tmp(0));
    tt_send(s, 1 - team->me, tt_in(0));
}

static void both_listen_and_talk(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    tt_recv(s, 1 - team->me, tt_tmp(0));
    tt_queue(s, 1);
    tt_send(s, 1 - team->me, tt_in(0));
}

/* The queue of step 2 is that of step 0, not of the step before. */
static void two_queues_in_turn(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    tt_recv(s, 1 - team->me, tt_tmp(0));
    tt_queue(s, 1);
    tt_copy(s, tt_tmp(1), tt_in(0));
    tt_queue(s, 0);
    tt_send(s, 1 - team->me, tt_in(0));
}

Test(planted_runs, deadlock_in_order)
{
    struct schedule_set s = generated(TT_BARRIER, both_listen_first, 2, false);
    refuse(&s, "deadlock, in order: rank 0 step 0 waits for rank 1 step 1, which waits for rank 1 step 0");
    s = generated(TT_BARRIER, both_listen_and_talk, 2, false);
    accept(&s, any);
    s = generated(TT_BARRIER, two_queues_in_turn, 2, false);
    refuse(&s, "deadlock, in order: rank 0 step 0 waits for rank 1 step 2, which waits for rank 1 step 0");
}

/* --- Values */

static void sends_nothing(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    if (team->me == root) {
        tt_copy(s, tt_out(0), tt_in(0));
        tt_send(s, 1, tt_tmp(0));
    } else {
        tt_recv(s, root, tt_out(0));
    }
}

static void copies_nothing(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)team, (void)root;
    tt_chunks(s, 1);
    tt_copy(s, tt_out(0), tt_tmp(3));
}

static void keeps_it_in_scratch(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    if (team->me == root) {
        tt_copy(s, tt_out(0), tt_in(0));
        tt_send(s, 1, tt_in(0));
    } else {
        tt_recv(s, root, tt_tmp(0));
    }
}

/* Rank r receives from the sender after the one it is told of. */
static void wrong_sender(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    if (team->me % 2 == 0)
        tt_send(s, (team->me + 3) % 4, tt_in(0));
    else
        tt_recv(s, (team->me + 1) % 4, tt_out(0));
}

Test(planted_runs, moved_values)
{
    struct schedule_set s = generated(TT_BROADCAST, sends_nothing, 2, false);
    refuse(&s, "rank 0 step 1: reads tmp 0, which holds nothing yet");
    s = generated(TT_ALL_REDUCE, copies_nothing, 1, false);
    refuse(&s, "rank 0 step 0: reads tmp 3, which holds nothing yet");
    s = generated(TT_BROADCAST, keeps_it_in_scratch, 2, false);
    refuse(&s, "rank 1: out 0 holds nothing at the end");
    s = generated(TT_ALL_REDUCE, wrong_sender, 4, false);
    for (int r = 0; r < 4; r++) {
        s.schedules[r].key.collective = r % 2 == 0 ? TT_P2P_SEND : TT_P2P_RECV;
        s.schedules[r].key.root = r ^ 1;
    }
    refuse(&s, "rank 1: out 0 is not the value of rank 0");
}

/* Reduce to rank 0: what rank 0 does with tmp 1 .. n - 1, the values of the others. */
static void gather_in_scratch(struct tt_schedule *s, const struct tt_team *team)
{
    tt_chunks(s, 1);
    for (int r = 1; team->me == 0 && r < team->n; r++)
        tt_recv(s, r, tt_tmp((uint32_t)r));
    if (team->me != 0)
        tt_send(s, 0, tt_in(0));
}

static void takes_one_twice(struct tt_schedule *s, const struct tt_team *team, int root)
{
    gather_in_scratch(s, team);
    if (team->me != root)
        return;
    tt_reduce(s, tt_tmp(0), tt_in(0), tt_tmp(1));
    tt_final(s, true);
    tt_reduce(s, tt_out(0), tt_tmp(0), tt_tmp(1));
}

static void takes_too_many(struct tt_schedule *s, const struct tt_team *team, int root)
{
    gather_in_scratch(s, team);
    if (team->me != root)
        return;
    tt_reduce(s, tt_tmp(0), tt_in(0), tt_tmp(1));
    tt_reduce(s, tt_out(0), tt_tmp(0), tt_tmp(0));
}

static void reduces_the_result(struct tt_schedule *s, const struct tt_team *team, int root)
{
    gather_in_scratch(s, team);
    if (team->me != root)
        return;
    tt_final(s, true);
    tt_reduce(s, tt_tmp(0), tt_in(0), tt_tmp(1));
    tt_reduce(s, tt_out(0), tt_tmp(0), tt_tmp(1));
}

static void final_too_early(struct tt_schedule *s, const struct tt_team *team, int root)
{
    gather_in_scratch(s, team);
    if (team->me != root)
        return;
    tt_final(s, true);
    tt_reduce(s, tt_tmp(0), tt_in(0), tt_tmp(1));
    tt_reduce(s, tt_out(0), tt_tmp(0), tt_tmp(2));
}

static void forgets_the_last(struct tt_schedule *s, const struct tt_team *team, int root)
{
    gather_in_scratch(s, team);
    if (team->me == root)
        tt_reduce(s, tt_out(0), tt_in(0), tt_tmp(1));
}

Test(planted_runs, contributions)
{
    struct schedule_set s = generated(TT_REDUCE, takes_one_twice, 3, false);
    refuse(&s, "rank 0 step 3: combines the value of rank 1 twice");
    s = generated(TT_REDUCE, takes_too_many, 3, false);
    refuse(&s, "rank 0 step 3: combines 4 values; there are 3 ranks");
    s = generated(TT_REDUCE, reduces_the_result, 2, false);
    refuse(&s, "rank 0 step 2: reduces a value that is complete already");
    s = generated(TT_REDUCE, final_too_early, 3, false);
    refuse(&s, "rank 0 step 2: is marked FINAL, but has 2 of 3 operands");
    s = generated(TT_REDUCE, forgets_the_last, 3, false);
    refuse(&s, "rank 0: out 0 lacks the value of rank 2");
    s = built(TT_ALL_REDUCE, "ring", 2, false);
    s.schedules[1].steps[1].flags &= (uint8_t)~TT_FINAL;
    refuse(&s, "rank 1 step 1: completes out 1, but is not marked FINAL");
}

/* reduce_scatter: rank 1 associates to the right, the others to the left. */
static void own_taste(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    uint32_t me = (uint32_t)team->me;
    struct tt_cells operands[3];
    tt_chunks(s, 3);
    for (uint32_t r = 0; r < 3; r++) {
        operands[r] = r == me ? tt_in(me) : tt_tmp(3 * r + me);
        if (r != me)
            tt_send(s, (int)r, tt_in(r));
    }
    for (uint32_t r = 0; r < 3; r++)
        if (r != me)
            tt_recv(s, (int)r, operands[r]);
    tt_reduce(s, tt_tmp(9 + me), operands[me == 1], operands[1 + (me == 1)]);
    tt_final(s, true);
    if (me == 1)
        tt_reduce(s, tt_out(me), operands[0], tt_tmp(9 + me));
    else
        tt_reduce(s, tt_out(me), tt_tmp(9 + me), operands[2]);
}

static struct schedule_set built_exact(enum tt_collective collective, const char *algorithm, int n)
{
    int index = tt_algorithm_find(collective, algorithm);
    struct tt_key key = {
        .collective = (uint8_t)collective, .algorithm = (uint8_t)index, .exact = 1, .n = n
    };
    return set_build(key, 0);
}

Test(planted_runs, association)
{
    static const struct tt_proof ordered = { .tree = TT_TREE_ORDERED },
                                 canonical = { .tree = TT_TREE_CANONICAL },
                                 rotated = { .tree = TT_TREE_ROTATED };
    struct schedule_set s = built(TT_ALL_REDUCE, "doubling", 4, false);
    s.schedules[2].steps[3].flags ^= TT_LEFT;
    refuse(&s, "rank 2: out 0 is associated otherwise than at another rank");
    s = built(TT_ALL_REDUCE, "ring", 4, false);
    refuse_with(&s, ordered, "rank 0: out 0: operand 0 is of rank 1, out of order");
    s = built(TT_ALL_REDUCE, "ring", 4, false);
    accept(&s, rotated);
    s = built(TT_REDUCE, "tree", 4, false);
    s.schedules[2].steps[0].flags ^= TT_LEFT;
    refuse_with(&s, rotated, "rank 0: out 0: operand 2 is of rank 3, out of order");
    s = built(TT_REDUCE_SCATTER, "direct", 2, false); /* rank 0 is the owner of chunk 0, not of 1 */
    refuse_with(&s, rotated, "rank 1: out 1 begins with rank 0; that should be rank 1");
    s = built(TT_REDUCE, "tree", 2, false); /* root 0 */
    s.schedules[0].steps[0].flags ^= TT_LEFT;
    refuse_with(&s, rotated, "rank 0: out 0 begins with rank 1; that should be rank 0");
    s = built_exact(TT_REDUCE_SCATTER, "direct", 3); /* but rank 2 rounds once only */
    for (int i = 2; i < 4; i++)
        s.schedules[2].steps[i].flags &= (uint8_t)~TT_FOLD_TREE;
    refuse_with(&s, ordered, "rank 2: out 2 is another tree than the first chunk");
    s = generated(TT_REDUCE_SCATTER, own_taste, 3, false);
    refuse_with(&s, ordered, "rank 1: out 1 is another tree than the first chunk");
    s = generated(TT_REDUCE_SCATTER, own_taste, 3, false);
    accept(&s, any);
    s = built(TT_ALL_REDUCE, "doubling", 5, false);
    refuse_with(&s, canonical, "rank 0: out 0 is not the canonical tree");
    s = built(TT_ALL_REDUCE, "one_shot", 3, false); /* as canonical, but rounded once only */
    refuse_with(&s, canonical, "rank 0: out 0 is not the canonical tree");
    s = built(TT_ALL_REDUCE, "one_shot", 2, false);
    accept(&s, canonical);
}

/* --- Barriers */

static void one_round(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    tt_send(s, tt_team_rank(team, team->me + 1), tt_in(0));
    tt_recv(s, tt_team_rank(team, team->me - 1), tt_tmp(0));
}

static void only_acknowledged(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    if (team->me == root)
        tt_recv(s, 1, tt_tmp(0));
    else
        tt_send(s, root, tt_in(0));
}

/* Dissemination whose second round tells nothing of the first. */
static void rounds_apart(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    for (int distance = 1; distance < 4; distance *= 2) {
        tt_send(s, tt_team_rank(team, team->me + distance), tt_in(0));
        tt_recv(s, tt_team_rank(team, team->me - distance), tt_tmp((uint32_t)distance));
    }
}

Test(planted_runs, barriers)
{
    struct schedule_set s = generated(TT_BARRIER, one_round, 3, false);
    refuse(&s, "rank 0: may leave the barrier before rank 1 has come");
    s = generated(TT_BARRIER, one_round, 2, false);
    accept(&s, any);
    s = generated(TT_BARRIER, only_acknowledged, 2, false);
    refuse(&s, "rank 1: may leave the barrier before rank 0 has come");
    s = generated(TT_BARRIER, rounds_apart, 4, false);
    refuse(&s, "rank 0: may leave the barrier before rank 1 has come");
    s = built(TT_BARRIER, "dissemination", 4, false);
    s.schedules[3].steps[1].flags |= TT_FINAL;
    refuse(&s, "rank 3 step 1: is marked FINAL, but has 1 of 4 operands");
}

/* --- Receivers that may overwrite what they read */

static void mark_all(const struct tt_schedule *s, bool *marks, uint32_t *readers)
{
    (void)readers;
    for (uint32_t i = 0; i < s->nsteps; i++)
        marks[i] = s->steps[i].verb == TT_VERB_SEND;
}

/* Marks only the second message of IN or TMP, which follows another reader of it. */
static void mark_the_last(const struct tt_schedule *s, bool *marks, uint32_t *readers)
{
    mark_all(s, marks, readers);
    for (uint32_t i = 0, last = UINT32_MAX; i < s->nsteps; i++) {
        if (marks[i] && last != UINT32_MAX)
            marks[last] = false;
        last = marks[i] ? i : last;
    }
}

/* Sums IN and what comes from the other rank, in rank order; `mine` is a cell that holds IN. */
static void add(struct tt_schedule *s, const struct tt_team *team, struct tt_cells mine)
{
    tt_final(s, true);
    tt_reduce(s, tt_out(0), team->me == 0 ? mine : tt_tmp(1), team->me == 0 ? tt_tmp(1) : mine);
}

/* TMP is sent, and then read here. */
static void read_after_sent(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    tt_copy(s, tt_tmp(0), tt_in(0));
    tt_send(s, 1 - team->me, tt_tmp(0));
    tt_recv(s, 1 - team->me, tt_tmp(1));
    add(s, team, tt_tmp(0));
}

/* The same, but the cell is written anew before it is read. */
static void written_again(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    tt_copy(s, tt_tmp(0), tt_in(0));
    tt_send(s, 1 - team->me, tt_tmp(0));
    tt_recv(s, 1 - team->me, tt_tmp(1));
    tt_copy(s, tt_tmp(0), tt_in(0));
    add(s, team, tt_tmp(0));
}

Test(planted_runs, receivers_that_overwrite)
{
    struct tt_proof all = { .tree = TT_TREE_ANY, .mark = mark_all };
    struct tt_proof last = { .tree = TT_TREE_ANY, .mark = mark_the_last };
    struct schedule_set s = generated(TT_ALL_REDUCE, read_after_sent, 2, false);
    refuse_with(&s, all, "rank 0 step 3: reads tmp 0, which the receiver of step 1 may have overwritten");
    s = generated(TT_ALL_REDUCE, read_after_sent, 2, false);
    accept(&s, any);
    s = generated(TT_ALL_REDUCE, written_again, 2, false);
    accept(&s, all);
    s = built(TT_BROADCAST, "direct", 3, false);
    refuse_with(&s, all, "rank 0 step 1: reads in 0, which the receiver of step 0 may have overwritten");
    s = built(TT_BROADCAST, "direct", 3, false);
    refuse_with(&s, last, "rank 0 step 1: lets its receiver overwrite in 0, which step 0 reads, too");
    s = built(TT_BROADCAST, "direct", 3, false);
    accept(&s, any);
}

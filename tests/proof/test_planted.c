/* SPDX-License-Identifier: BSD-3-Clause */
/* test_planted.c: one small wrong schedule for each thing the verifier looks at, and the sentence that
 * refuses it.
 *
 * A defect is planted either in a schedule from the registry, by changing a step, or by a generator here that
 * makes the mistake a hurried person would make. */
#include "schedules.h"

/* --- Keys */

Test(planted, keys)
{
    struct schedule_set s = built(TT_ALL_REDUCE, "ring", 2, false);
    s.schedules[1].key.me = 0;
    refuse(&s, "rank 1: its key says collective 0, rank 0 of 2");
    s = built(TT_ALL_REDUCE, "ring", 2, false);
    s.schedules[1].key.n = 3;
    refuse(&s, "rank 1: its key says");
    s = built(TT_ALL_REDUCE, "ring", 2, false);
    s.schedules[0].key.collective = TT_COLLECTIVES;
    refuse(&s, "rank 0: its key says");
    s = built(TT_BROADCAST, "tree", 2, false);
    s.schedules[1].key.root = 1;
    refuse(&s, "rank 1: its key differs from that of rank 0");
    s = built(TT_ALL_GATHER, "ring", 2, false);
    s.schedules[1].key.collective = TT_ALL_GATHER_V;
    refuse(&s, "rank 1: its key differs from that of rank 0");
    s = built(TT_ALL_REDUCE, "ring", 2, false);
    s.schedules[1].key.algorithm++;
    refuse(&s, "rank 1: its key differs from that of rank 0");
    s = built(TT_ALL_REDUCE, "ring", 2, false);
    s.schedules[1].key.exact = 1;
    refuse(&s, "rank 1: its key differs from that of rank 0");
    s = built(TT_BROADCAST, "tree", 2, false);
    s.schedules[0].key.root = s.schedules[1].key.root = 2;
    refuse(&s, "root 2 is not a rank");
    s = built(TT_BROADCAST, "tree", 2, false);
    s.schedules[0].key.root = s.schedules[1].key.root = -1;
    refuse(&s, "root -1 is not a rank");
    s = built(TT_BARRIER, "dissemination", 2, false);
    s.schedules[1].key.in_place = 1;
    refuse(&s, "barrier has no in-place form");
    s = built(TT_ALL_REDUCE, "tree", 2, false);
    s.schedules[1].chunks = 2;
    refuse(&s, "rank 1: 2 chunks, but 1 at rank 0");
    s = built(TT_ALL_REDUCE, "tree", 2, false);
    s.schedules[0].chunks = s.schedules[1].chunks = 0;
    refuse(&s, "rank 0: 0 chunks");
    s = built(TT_ALL_GATHER, "ring", 2, false);
    s.schedules[0].chunks = s.schedules[1].chunks = 3;
    refuse(&s, "3 chunks are not a multiple of 2 blocks");
}

/* --- One step */

static struct schedule_set ring_of_two(void)
{
    return built(TT_ALL_REDUCE, "ring", 2, false); /* send, recv_reduce, send, recv */
}

Test(planted, verbs_peers_and_flags)
{
    struct schedule_set s = ring_of_two();
    s.schedules[1].steps[2].verb = TT_VERBS;
    refuse(&s, "rank 1 step 2: verb 5 does not exist");
    s = ring_of_two();
    s.schedules[0].steps[0].peer = 0;
    refuse(&s, "rank 0 step 0: peer 0");
    s = ring_of_two();
    s.schedules[0].steps[0].peer = 2;
    refuse(&s, "rank 0 step 0: peer 2");
    s = ring_of_two();
    s.schedules[0].steps[3].peer = -1;
    refuse(&s, "rank 0 step 3: peer -1");
    s = built(TT_ALL_GATHER, "ring", 2, false);
    s.schedules[0].steps[0].peer = 1;
    refuse(&s, "rank 0 step 0: peer 1"); /* a copy has none */
    s = ring_of_two();
    s.schedules[0].steps[3].flags = TT_LEFT;
    refuse(&s, "rank 0 step 3: flags 1 mean nothing here");
    s = ring_of_two();
    s.schedules[0].steps[3].flags = TT_FINAL;
    refuse(&s, "rank 0 step 3: flags 2 mean nothing here");
    s = ring_of_two();
    s.schedules[0].steps[1].flags |= TT_FOLD_TREE;
    refuse(&s, "rank 0 step 1: flags 4 mean nothing here");
    s = ring_of_two();
    s.schedules[0].steps[0].flags |= 8;
    refuse(&s, "rank 0 step 0: flags 8 mean nothing here");
}

static void reducing_broadcast(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    if (team->me == root) {
        tt_copy(s, tt_out(0), tt_in(0));
        tt_reduce(s, tt_tmp(0), tt_out(0), tt_in(0));
        tt_send(s, 1, tt_in(0));
    } else {
        tt_recv(s, root, tt_out(0));
    }
}

static void result_in_input(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    tt_send(s, 1 - team->me, tt_in(0));
    tt_recv(s, 1 - team->me, tt_tmp(0));
    tt_final(s, true);
    tt_reduce(s, tt_in(0), tt_in(0), tt_tmp(0));
}

Test(planted, cells)
{
    struct schedule_set s = generated(TT_BROADCAST, reducing_broadcast, 2, false);
    refuse(&s, "rank 0 step 1: reduces in broadcast, which reduces nothing");
    s = generated(TT_ALL_REDUCE, result_in_input, 2, true);
    refuse(&s, "rank 0 step 2: writes in 0; in place too, results go to out");
    s = ring_of_two();
    s.schedules[0].steps[0].src_buffer = TT_BUFFERS;
    refuse(&s, "rank 0 step 0: names buffer 3, 1 chunks");
    s = ring_of_two();
    s.schedules[0].steps[0].nchunks = 0;
    refuse(&s, "rank 0 step 0: names buffer 0, 0 chunks");
    s = built(TT_ALL_REDUCE, "doubling", 4, false);
    s.schedules[2].tmp_cells = 0;
    refuse(&s, "rank 2 step 1: tmp 0: only 0 scratch cells exist");
    s = ring_of_two();
    s.schedules[1].steps[0].src_chunk = 2;
    refuse(&s, "rank 1 step 0: in 2: only 2 chunks exist");
    s = ring_of_two();
    s.schedules[1].steps[0].nchunks = UINT32_MAX;
    refuse(&s, "only 2 chunks exist");
    s = built(TT_REDUCE_SCATTER, "direct", 2, false);
    s.schedules[1].steps[1].dst_chunk = s.schedules[1].steps[1].src_chunk = 0;
    refuse(&s, "rank 1 step 1: out 0 is not among this rank's cells");
    s = built(TT_REDUCE, "tree", 2, false); /* M21: the receive buffer off the root */
    s.schedules[0].key.root = s.schedules[1].key.root = 1;
    refuse(&s, "rank 0 step 0: out 0 is not among this rank's cells");
    s = built(TT_ALL_GATHER, "ring", 3, false);
    s.schedules[1].steps[1].src_buffer = TT_IN;
    s.schedules[1].steps[1].src_chunk = 0;
    refuse(&s, "rank 1 step 1: in 0 is not among this rank's cells");
}

Test(planted, moves)
{
    struct schedule_set s = built(TT_ALL_GATHER, "ring", 2, false);
    s.schedules[0].steps[0].dst_chunk = 1;
    refuse(&s, "rank 0 step 0: out 1 and in 0 are not the same chunks");
    s = ring_of_two();
    s.schedules[0].steps[1].src_chunk = 1;
    refuse(&s, "rank 0 step 1: out 0 and in 1 are not the same chunks");
    s = built(TT_ALL_REDUCE, "one_shot", 9, false);
    s.schedules[0].chunks = 2;
    for (int r = 0; r < 9; r++)
        s.schedules[r].chunks = 2;
    refuse(&s, "are not the same chunks"); /* the right operand of the last reduce */
    s = built(TT_ALL_GATHER, "ring", 2, false);
    s.schedules[0].key.in_place = s.schedules[1].key.in_place = 1;
    refuse(&s, "rank 0 step 0: out 0 and in 0 overlap");
    s = built(TT_ALL_REDUCE, "one_shot", 2, false);
    s.schedules[0].tmp_cells = 9;
    struct tt_step *step = &s.schedules[0].steps[1];
    step->dst_buffer = step->src_buffer = TT_TMP;
    step->dst_chunk = 3;
    step->src_chunk = 4;
    step->nchunks = 2;
    refuse(&s, "rank 0 step 1: tmp 3..4 and tmp 4..5 overlap");
}

/* --- Folds: all_reduce one_shot of 4 at rank 1 is three sends, then recv_reduces 3, 4, 5 */

static struct schedule_set folds(void)
{
    return built(TT_ALL_REDUCE, "one_shot", 4, false);
}

static void nine_of_one(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    for (int k = 0; k < 9; k++)
        if (team->me == root)
            tt_recv_reduce(s, 1, tt_tmp(0), tt_in(0), false);
        else
            tt_send(s, root, tt_in(0));
}

Test(planted, folds)
{
    struct schedule_set s = folds();
    s.schedules[1].steps[3].fold_count = 9;
    refuse(&s, "rank 1 step 3: is step 0 of a fold of 9");
    s = folds();
    s.schedules[1].steps[2].fold_count = 0;
    refuse(&s, "rank 1 step 2: is step 0 of a fold of 0");
    s = folds();
    s.schedules[1].steps[3].fold_count = 4;
    refuse(&s, "rank 1 step 3: is step 0 of a fold of 4"); /* the schedule has only three more */
    s = folds();
    s.schedules[1].steps[3].fold_index = 1;
    refuse(&s, "rank 1 step 3: is step 1 of a fold of 3");
    s = folds();
    s.schedules[1].steps[1].fold_count = 2;
    refuse(&s, "rank 1 step 1: a fold has only recv_reduces");
    s = folds();
    s.schedules[1].steps[4].fold_index = 2;
    refuse(&s, "rank 1 step 4: breaks the fold of 3 that step 3 begins");
    s = folds();
    s.schedules[1].steps[5].fold_count = 2;
    refuse(&s, "rank 1 step 5: breaks the fold of 3 that step 3 begins");
    s = folds();
    s.schedules[1].tmp_cells = 1;
    s.schedules[1].steps[4].dst_buffer = TT_TMP;
    refuse(&s, "rank 1 step 4: has other cells than step 3, which begins its fold");
    s = built(TT_ALL_REDUCE, "direct", 4, false);
    s.schedules[1].steps[4].nchunks = 2;
    refuse(&s, "rank 1 step 4: has other cells than step 3, which begins its fold");
    s = built(TT_ALL_REDUCE, "direct", 4, false);
    s.schedules[1].steps[5].dst_chunk = s.schedules[1].steps[5].src_chunk = 2;
    refuse(&s, "rank 1 step 5: has other cells than step 3, which begins its fold");
    s = folds();
    s.schedules[1].steps[4].src_buffer = TT_OUT;
    refuse(&s, "rank 1 step 4: has other cells than step 3, which begins its fold");
    s = folds();
    s.schedules[1].steps[4].flags |= 1U << TT_QUEUE_SHIFT;
    refuse(&s, "rank 1 step 4: has other flags than step 3, which begins its fold");
    s = folds();
    for (int i = 3; i < 6; i++)
        s.schedules[1].steps[i].flags |= TT_FOLD_TREE;
    refuse(&s, "rank 1 step 3: flags 4 mean nothing here"); /* only under exact */
    s = folds();
    s.schedules[1].steps[5].flags &= (uint8_t)~TT_FINAL;
    refuse(&s, "rank 1 step 5: has other flags than step 3, which begins its fold");
    s = built(TT_ALL_REDUCE, "direct", 4, true);
    s.schedules[1].steps[4].dep_count = s.schedules[1].steps[3].dep_count = 1;
    refuse(&s, "rank 1 step 4: has dependencies inside a fold");
    s = generated(TT_BARRIER, nine_of_one, 2, false);
    for (uint8_t k = 0; k < 9; k++) {
        struct tt_step *step = &s.schedules[0].steps[k];
        step->fold_index = k;
        step->fold_count = 9;
        step->dep_count = 0;
    }
    relink(&s.schedules[0]);
    refuse(&s, "rank 0 step 0: is step 0 of a fold of 9");
}

/* --- Dependencies: the ring of two is send, recv_reduce, send after 1, recv after 0 in place */

Test(planted, dependencies)
{
    struct schedule_set s = ring_of_two();
    s.schedules[0].steps[2].dep_count = 9;
    refuse(&s, "rank 0 step 2: its dependencies lie outside the list");
    s = ring_of_two();
    s.schedules[0].deps[s.schedules[0].steps[2].dep_first] = 2;
    refuse(&s, "rank 0 step 2: waits for step 2, which is not earlier");
    s = built(TT_ALL_REDUCE, "direct", 4, false);
    s.schedules[1].deps[s.schedules[1].steps[6].dep_first] = 4;
    relink(&s.schedules[1]);
    refuse(&s, "rank 1 step 6: waits for step 4, which is inside a fold");
    s = ring_of_two();
    s.schedules[0].followers[0] = 3;
    refuse(&s, "rank 0 step 2: is not listed in turn among those who wait for step 1");
    s = ring_of_two();
    s.schedules[0].steps[2].dep_count = 0; /* but step 1 still lists it */
    refuse(&s, "rank 0 step 1: lists a follower that does not wait for it");
    s = built(TT_ALL_REDUCE, "halving", 4,
        false); /* 1 is followed by 2, 3, 5 and 2 by 5: one list takes of the other */
    s.schedules[0].follower_first[2]--;
    refuse(&s, "rank 0 step 5: is not listed in turn among those who wait for step 1");
    s = ring_of_two();
    s.schedules[0].follower_first[s.schedules[0].nsteps] = 99;
    refuse(&s, "rank 0: its followers lie outside the list");
    s = ring_of_two();
    s.schedules[0].follower_first[1] = 7;
    refuse(&s, "rank 0 step 1: its followers lie outside the list");
}

/* --- Messages */

static void one_too_many(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    if (team->me == root) {
        tt_copy(s, tt_out(0), tt_in(0));
        tt_send(s, 1, tt_in(0));
        tt_send(s, 1, tt_in(0));
    } else {
        tt_recv(s, root, tt_out(0));
    }
}

Test(planted, messages)
{
    struct schedule_set s = ring_of_two();
    s.schedules[0].steps[2].ordinal = 0;
    refuse(&s, "rank 0 step 2: has ordinal 0, but is number 1 to rank 1");
    s = ring_of_two();
    s.schedules[1].steps[1].ordinal = 1;
    refuse(&s, "rank 1 step 1: has ordinal 1, but is number 0 from rank 0");
    s = ring_of_two();
    s.schedules[0].sends[1] = 3;
    refuse(&s, "rank 0: counts 3 messages to and 2 from rank 1; its steps are 2 and 2");
    s = ring_of_two();
    s.schedules[0].recvs[1] = 1;
    refuse(&s, "rank 0: counts 2 messages to and 1 from rank 1; its steps are 2 and 2");
    s = generated(TT_BROADCAST, one_too_many, 2, false);
    refuse(&s, "rank 0: sends 2 messages to rank 1, which receives 1");
    s = built(TT_ALL_REDUCE, "halving", 4, false);
    s.schedules[0].steps[0].nchunks = 1;
    refuse(
        &s, "rank 0 step 0: sends in 2, but step 1 of rank 1 receives it as out 2..3: not the same chunks");
    s = built(TT_ALL_REDUCE, "halving", 4, false);
    s.schedules[0].max_chunks = s.schedules[1].max_chunks = s.schedules[2].max_chunks =
        s.schedules[3].max_chunks = 1;
    refuse(&s, "rank 0 step 0: sends 2 chunks at once; its max_chunks is 1");
    s = built(TT_ALL_REDUCE, "halving", 4, false);
    s.schedules[2].max_chunks = 1;
    refuse(&s, "rank 2: its max_chunks is 1, but 2 at rank 0");
}

/* Everybody hands on what the one before gave the next but one; `copies` the wrong way round. */
static void round_trip(struct tt_schedule *s, const struct tt_team *team, bool crossed)
{
    uint32_t next = (uint32_t)(team->me + 1) % 3, last = (uint32_t)(team->me + 2) % 3;
    tt_chunks(s, 3);
    tt_send(s, (int)next, tt_in(next));
    tt_send(s, (int)next, tt_in(last));
    tt_copy(s, tt_out((uint32_t)team->me), tt_in((uint32_t)team->me));
    tt_recv(s, (int)last, tt_out(last));
    tt_recv(s, (int)last, tt_tmp(0));
    tt_send(s, (int)next, tt_tmp(0));
    tt_recv(s, (int)last, tt_tmp(1));
    tt_copy(s, tt_out(next), tt_tmp(crossed ? 0 : 1));
}

static void relayed(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    round_trip(s, team, false);
}

static void relayed_once(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    round_trip(s, team, true);
}

/* IN(c) to OUT(c), as if it were a gather. */
static void not_exchanged(struct tt_schedule *s, const struct tt_team *team, int root)
{
    uint32_t me = (uint32_t)team->me, other = 1 - me;
    (void)root;
    tt_chunks(s, 2);
    tt_send(s, (int)other, tt_in(me));
    tt_copy(s, tt_out(me), tt_in(me));
    tt_recv(s, (int)other, tt_out(other));
}

static void four_chunks(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    (void)team;
    tt_chunks(s, 4);
}

/* Blocks of an exchange may pass through any cells, if each ends where it belongs. */
Test(planted, exchanges)
{
    struct schedule_set s = generated(TT_ALL_TO_ALL, relayed, 3, false);
    accept(&s, (struct tt_proof){ .tree = TT_TREE_ANY });
    s = generated(TT_ALL_TO_ALL, relayed_once, 3, false);
    refuse(&s, "rank 2: out 0 is not the value of rank 0");
    s = generated(TT_ALL_TO_ALL, not_exchanged, 2, false);
    refuse(&s, "rank 1: out 0 is not the value of rank 0");
    s = generated(TT_ALL_TO_ALL, four_chunks, 2, false);
    refuse(&s, "rank 0: 4 chunks; an exchange has one per rank");
    s = built(TT_ALL_TO_ALL, "direct", 3, true); /* in place, the copy to TMP is what makes it right */
    drop_edge(&s.schedules[1], 4, 2);
    refuse(&s, "rank 1 step 4: writes out 0 without waiting for step 2, which reads it");
}

static void exchange_twice(struct tt_schedule *s, const struct tt_team *team, int root)
{
    uint32_t me = (uint32_t)team->me, other = 1 - me;
    (void)root;
    tt_chunks(s, 2);
    for (int again = 0; again < 2; again++)
        tt_send(s, (int)other, tt_in(other));
    for (int again = 0; again < 2; again++)
        tt_recv(s, (int)other, tt_out(other));
}

/* Where only two ranks know how long a block is, nobody else may touch it, and it is one message. */
Test(planted, own_counts)
{
    struct schedule_set s = generated(TT_ALL_TO_ALL_V, relayed, 3, false);
    refuse(&s, "blocks move alone and without scratch");
    s = generated(TT_ALL_TO_ALL_V, exchange_twice, 2, false);
    refuse(&s, "sends 2 messages to rank 1; where only they know the lengths, one is legal");
    s = built(TT_ALL_TO_ALL_V, "direct", 3, false);
    s.schedules[0].steps[0].src_chunk = 2;
    refuse(&s, "rank 0 step 0: sends in 2, but step 3 of rank 1 receives it as out 0: not the same chunks");
    int tree = tt_algorithm_find(TT_GATHER, "tree");
    s = generated(TT_GATHER_V, tt_algorithms[tree].generate, 4, false);
    refuse(&s, "blocks move alone and without scratch");
}

/* M1: the ring takes chunk (me - 3 - t). */
static void ring_wrong_chunk(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, (uint32_t)team->n);
    for (int t = 0; t < team->n - 1; t++) {
        uint32_t give = (uint32_t)(team->me - 1 - t + 2 * team->n) % (uint32_t)team->n;
        uint32_t take = (uint32_t)(team->me - 3 - t + 2 * team->n) % (uint32_t)team->n;
        tt_send(s, tt_team_rank(team, team->me + 1), t == 0 ? tt_in(give) : tt_out(give));
        tt_recv_reduce(s, tt_team_rank(team, team->me - 1), tt_out(take), tt_in(take), true);
    }
}

Test(planted, wrong_chunk)
{
    struct schedule_set s = generated(TT_ALL_REDUCE, ring_wrong_chunk, 4, false);
    refuse(&s, "rank 0 step 0: sends in 3, but step 1 of rank 1 receives it as out 2: not the same chunks");
}

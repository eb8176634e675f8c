/* SPDX-License-Identifier: BSD-3-Clause */
/* direct.c: everybody talks to everybody at once. The fewest rounds; for ranks that share memory, where a
 * message costs little and a reduction can read all its operands in one pass.
 *
 *     n = 4, all_reduce one_shot: all send a to all; each adds a0..a3                            1 round
 *     n = 4, all_reduce direct:   rank r gets chunk r of all and adds them; sends it to all  2 rounds
 *     n = 4, all_reduce star:     rank 0 gets a of all and adds them; sends it to all        2 rounds
 *
 * The star has the fewest messages, 2(n - 1), and one rank does all the work: for ranks that take turns on
 * cores, where what all do at once is done one after the other.
 *
 * Loops start at the next rank, so that not everybody knocks at rank 0 first.
 *
 * The two-shot is van de Geijn's reduce-scatter and all-gather with direct exchanges: E. Chan, M.
 * Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory, practice, and experience.
 * CCPE 19(13), 2007. */
#include "algorithms/fold.h"
#include "algorithms/generators.h"

static void send_to_all(struct tt_schedule *s, const struct tt_team *team, struct tt_cells src)
{
    for (int i = 1; i < team->n; i++)
        tt_send(s, tt_team_rank(team, team->me + i), src);
}

static uint32_t index_after(const struct tt_team *team, int distance)
{
    return (uint32_t)((team->me + distance) % team->n);
}

/* Rank r's part goes to rank r, which reduces it into dst. */
static void reduce_parts(struct tt_schedule *s, const struct tt_team *team, struct tt_cells dst)
{
    for (int i = 1; i < team->n; i++)
        tt_send(s, tt_team_rank(team, team->me + i), tt_in(index_after(team, i)));
    tt_fold_from_all(s, team, (uint32_t)team->me, dst);
}

static void recv_from_all(struct tt_schedule *s, const struct tt_team *team)
{
    for (int i = 1; i < team->n; i++)
        tt_recv(s, tt_team_rank(team, team->me + i), tt_out(index_after(team, i)));
}

void tt_all_reduce_one_shot(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    /* In place the sum must not overwrite what is still being sent. */
    struct tt_cells sum = s->key.in_place && team->n > 1 ? tt_tmp(tt_fold_rows(team)) : tt_out(0);
    send_to_all(s, team, tt_in(0));
    tt_fold_from_all(s, team, 0, sum);
    tt_copy(s, tt_out(0), sum);
}

void tt_all_reduce_direct(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, (uint32_t)team->n);
    reduce_parts(s, team, tt_out((uint32_t)team->me));
    send_to_all(s, team, tt_out((uint32_t)team->me));
    recv_from_all(s, team);
}

void tt_all_reduce_star(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    if (team->me == 0) {
        tt_fold_from_all(s, team, 0, tt_out(0));
        send_to_all(s, team, tt_out(0));
    } else {
        tt_send(s, tt_team_rank(team, 0), tt_in(0));
        tt_recv(s, tt_team_rank(team, 0), tt_out(0));
    }
}

void tt_reduce_scatter_direct(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, (uint32_t)team->n);
    reduce_parts(s, team, tt_out((uint32_t)team->me));
}

void tt_all_gather_direct(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, (uint32_t)team->n);
    send_to_all(s, team, tt_in((uint32_t)team->me));
    tt_copy(s, tt_out((uint32_t)team->me), tt_in((uint32_t)team->me));
    recv_from_all(s, team);
}

/* The root folds everybody's vector. */
void tt_reduce_direct(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    if (team->me == root)
        tt_fold_from_all(s, team, 0, tt_out(0));
    else
        tt_send(s, tt_team_rank(team, root), tt_in(0));
}

/* Rank r reduces part r and hands it to the root. */
void tt_reduce_split(struct tt_schedule *s, const struct tt_team *team, int root)
{
    uint32_t mine = (uint32_t)team->me;
    tt_chunks(s, (uint32_t)team->n);
    struct tt_cells sum = team->me == root ? tt_out(mine) : tt_tmp(tt_fold_rows(team) * s->chunks + mine);
    reduce_parts(s, team, sum);
    if (team->me == root)
        recv_from_all(s, team);
    else
        tt_send(s, tt_team_rank(team, root), sum);
}

/* The root tells each rank itself. */
void tt_broadcast_direct(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    if (team->me != root) {
        tt_recv(s, tt_team_rank(team, root), tt_out(0));
        return;
    }
    send_to_all(s, team, tt_in(0));
    tt_copy(s, tt_out(0), tt_in(0));
}

/* The root gives part r to rank r, which passes it on to the others. */
void tt_broadcast_split(struct tt_schedule *s, const struct tt_team *team, int root)
{
    uint32_t mine = (uint32_t)team->me;
    tt_chunks(s, (uint32_t)team->n);
    if (team->me == root) {
        for (int i = 1; i < team->n; i++)
            tt_send(s, tt_team_rank(team, root + i), tt_in(index_after(team, i)));
        send_to_all(s, team, tt_in(mine));
        tt_copy(s, tt_range(TT_OUT, 0, s->chunks), tt_range(TT_IN, 0, s->chunks));
        return;
    }
    tt_recv(s, tt_team_rank(team, root), tt_out(mine));
    for (int i = 1; i < team->n; i++)
        if (index_after(team, i) != (uint32_t)root)
            tt_send(s, tt_team_rank(team, team->me + i), tt_out(mine));
    recv_from_all(s, team);
}

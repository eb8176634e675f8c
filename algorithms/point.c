/* SPDX-License-Identifier: BSD-3-Clause */
/* point.c: send and receive as schedules of one step; the root of the key is the peer. Between a rank and
 * itself there is no message: the receive copies, and its group tells it from where. */
#include "algorithms/generators.h"

void tt_point_send(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    if (root != team->me)
        tt_send(s, tt_team_rank(team, root), tt_in(0));
}

void tt_point_recv(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    if (root != team->me)
        tt_recv(s, tt_team_rank(team, root), tt_out(0));
    else
        tt_copy(s, tt_out(0), tt_in(0));
}

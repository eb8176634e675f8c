/* point.c: send and receive as schedules of one step; the root of the key is the peer. */
#include "algorithms/generators.h"

void tt_point_send(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    tt_send(s, tt_team_rank(team, root), tt_in(0));
}

void tt_point_recv(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    tt_recv(s, tt_team_rank(team, root), tt_out(0));
}

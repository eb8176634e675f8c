/* exchange.c: each rank has something else for each rank. IN(j) is what this rank gives rank j, OUT(j) what
 * it gets from rank j, so a message goes from IN of its receiver's number to OUT of its sender's.
 *
 *     n = 4, direct: in turn i all give to the i-th after them, and get from the i-th before them
 *       turn 1    0 -> 1 -> 2 -> 3 -> 0
 *       turn 2    0 -> 2 -> 0, 1 -> 3 -> 1
 *       turn 3    0 -> 3 -> 2 -> 1 -> 0
 *
 * In place OUT(j) lies where IN(j) waits to be sent, and rank j may be in the same state: what is sent goes
 * through TMP. The messages are the same, so ranks may differ in whether they work in place.
 *
 * R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH.
 * IJHPCA 19(1), 2005: the all-to-all of medium messages. */
#include "algorithms/generators.h"

void tt_all_to_all_direct(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    uint32_t n = (uint32_t)team->n, me = (uint32_t)team->me;
    tt_chunks(s, n);
    for (uint32_t i = 1; i < n; i++) {
        uint32_t to = (me + i) % n;
        struct tt_cells given = s->key.in_place ? tt_tmp(to) : tt_in(to);
        if (s->key.in_place)
            tt_copy(s, given, tt_in(to));
        tt_send(s, tt_team_rank(team, (int)to), given);
    }
    tt_copy(s, tt_out(me), tt_in(me));
    for (uint32_t i = 1; i < n; i++) {
        uint32_t from = (me + n - i) % n;
        tt_recv(s, tt_team_rank(team, (int)from), tt_out(from));
    }
}

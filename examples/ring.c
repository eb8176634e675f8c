/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.c: each rank exchanges with both neighbours, in one group. Section 3 of the tutorial. */
#include "check.h"

int main(void)
{
    tutti_comm *comm;
    check(tutti_comm_init_env(NULL, &comm));
    int rank = tutti_comm_rank(comm), n = tutti_comm_size(comm);
    int left = (rank + n - 1) % n, right = (rank + 1) % n;

    int32_t mine = 100 + rank, from_left, from_right;
    check(tutti_group_start());
    check(tutti_send(&mine, 1, TUTTI_INT32, left, comm, tutti_no_stream()));
    check(tutti_send(&mine, 1, TUTTI_INT32, right, comm, tutti_no_stream()));
    check(tutti_recv(&from_left, 1, TUTTI_INT32, left, comm, tutti_no_stream()));
    check(tutti_recv(&from_right, 1, TUTTI_INT32, right, comm, tutti_no_stream()));
    check(tutti_group_end()); /* all four are done */
    printf("rank %d stands between %d and %d\n", rank, from_left, from_right);

    check(tutti_comm_finalize(comm));
    check(tutti_comm_destroy(comm));
    return 0;
}

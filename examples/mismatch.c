/* SPDX-License-Identifier: BSD-3-Clause */
/* mismatch.c: what a wrong call is told, and what ranks are told that disagree. Section 9 of the tutorial. */
#include "check.h"

int main(void)
{
    tutti_comm *comm;
    check(tutti_comm_init_env(NULL, &comm));
    int rank = tutti_comm_rank(comm);
    double x[4] = { 0 };

    tutti_status status = tutti_all_reduce(x, x + 1, 2, TUTTI_FLOAT64, TUTTI_SUM, comm, tutti_no_stream());
    printf("rank %d: %s\n", rank, tutti_status_string(status)); /* send and recv overlap */

    status = tutti_barrier(comm, tutti_no_stream()); /* the communicator goes on */
    if (status == TUTTI_OK) {
        size_t count = rank == 2 ? 3 : 4; /* rank 2 is wrong */
        status = tutti_all_reduce(x, x, count, TUTTI_FLOAT64, TUTTI_SUM, comm, tutti_no_stream());
    }
    printf("rank %d: %s\n", rank, tutti_status_string(status));
    check(tutti_comm_destroy(comm));
    return 0;
}

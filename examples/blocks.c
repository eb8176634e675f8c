/* SPDX-License-Identifier: BSD-3-Clause */
/* blocks.c: reduce_scatter and all_gather: who holds which block, in place. Section 2 of the tutorial. */
#include "check.h"

int main(void)
{
    tutti_comm *comm;
    check(tutti_comm_init_env(NULL, &comm));
    int rank = tutti_comm_rank(comm), n = tutti_comm_size(comm);

    int32_t x[8];
    for (int i = 0; i < 2 * n; i++)
        x[i] = 10 * i + rank;
    int32_t *block = x + 2 * rank; /* two elements for each rank */
    check(tutti_reduce_scatter(x, block, 2, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()));
    printf("rank %d has %d %d of the sum\n", rank, block[0], block[1]);

    check(tutti_all_gather(block, x, 2, TUTTI_INT32, comm, tutti_no_stream()));
    if (rank == 0) {
        for (int i = 0; i < 2 * n; i++)
            printf(" %d", x[i]);
        printf(" has everybody\n");
    }
    check(tutti_comm_finalize(comm));
    check(tutti_comm_destroy(comm));
    return 0;
}

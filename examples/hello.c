/* SPDX-License-Identifier: BSD-3-Clause */
/* hello.c: everybody has the sum of what each rank gave. Section 1 of the tutorial. */
#include <stdio.h>
#include <tutti.h>

int main(void)
{
    tutti_comm *comm;
    if (tutti_comm_init_env(NULL, &comm) != TUTTI_OK) { /* rank and n from the launcher */
        fprintf(stderr, "%s\n", tutti_get_last_error(NULL));
        return 1;
    }
    int rank = tutti_comm_rank(comm), n = tutti_comm_size(comm);

    float mine = (float)(rank + 1), sum;
    if (tutti_all_reduce(&mine, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream()) != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_get_last_error(comm));
        return 1;
    }
    printf("rank %d of %d gave %g, the sum is %g\n", rank, n, mine, sum);

    tutti_comm_finalize(comm); /* everybody is done */
    tutti_comm_destroy(comm);
    return 0;
}

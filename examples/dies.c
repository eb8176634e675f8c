/* SPDX-License-Identifier: BSD-3-Clause */
/* dies.c: what the others are told when a rank dies. Section 10 of the tutorial. */
#include "check.h"
#include <unistd.h>

int main(void)
{
    tutti_comm *comm;
    check(tutti_comm_init_env(NULL, &comm));
    int rank = tutti_comm_rank(comm);
    if (rank == 1) {
        sleep(1); /* the others are inside their call */
        _Exit(0); /* as if this rank had been killed */
    }

    double x = 1;
    tutti_status status = tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT64, TUTTI_SUM, comm, tutti_no_stream());
    tutti_error error = { .size = sizeof error };
    check(tutti_comm_get_error(comm, &error));
    printf("rank %d: %s: rank %d, in %s\n", rank, tutti_status_string(status), error.peer, error.operation);
    check(tutti_comm_destroy(comm));
    return 0;
}

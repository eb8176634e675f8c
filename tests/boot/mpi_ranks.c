/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_ranks.c: a rank of an MPI program that has Tutti communicators, too; test_launchers.sh starts it. */
#include <stdio.h>

#include "mpi/tutti_mpi.h"

static int failed(const char *what, tutti_status status)
{
    fprintf(stderr, "%s: %s: %s\n", what, tutti_status_string(status), tutti_get_last_error(NULL));
    return 1;
}

static int check(MPI_Comm mpi_comm, const char *what)
{
    int n, rank, sum = 0, mpi_sum = 0;
    tutti_comm *comm = NULL;
    MPI_Comm_size(mpi_comm, &n);
    MPI_Comm_rank(mpi_comm, &rank);
    tutti_status status = tutti_comm_init_mpi(mpi_comm, NULL, &comm);
    if (status != TUTTI_OK)
        return failed(what, status);
    if (tutti_comm_size(comm) != n || tutti_comm_rank(comm) != rank)
        return failed(what, TUTTI_MISMATCH);
    int mine = 1 << rank;
    status = tutti_all_reduce(&mine, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
    MPI_Allreduce(&mine, &mpi_sum, 1, MPI_INT, MPI_SUM, mpi_comm);
    if (status != TUTTI_OK || sum != mpi_sum || sum != (1 << n) - 1)
        return failed(what, status);
    return tutti_comm_destroy(comm) != TUTTI_OK;
}

int main(int argc, char **argv)
{
    tutti_comm *comm = NULL;
    MPI_Comm half;
    int rank, n;
    if (tutti_comm_init_mpi(MPI_COMM_WORLD, NULL, &comm) != TUTTI_INVALID_USAGE)
        return failed("before MPI_Init", TUTTI_OK);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (tutti_comm_init_mpi(MPI_COMM_NULL, NULL, &comm) != TUTTI_INVALID_ARGUMENT || comm != NULL)
        return failed("MPI_COMM_NULL", TUTTI_OK);
    int code = check(MPI_COMM_WORLD, "all ranks");
    /* Two halves at once, in reverse order. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    code = code != 0 ? code : check(half, "half of the ranks");
    MPI_Comm_free(&half);
    MPI_Finalize();
    if (code == 0 && rank == 0)
        printf("%d ranks of MPI agree\n", n);
    return code;
}

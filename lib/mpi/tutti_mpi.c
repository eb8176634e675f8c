/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_mpi.c: MPI as the channel by which an id is handed out, and nothing else.
 *
 * It sees tutti.h only. A rank 0 that could not make an id broadcasts zeros, so that nobody waits for it. */
#include "tutti_mpi.h"

#include <string.h>

static int mpi_runs(void)
{
    int begun = 0, ended = 0;
    return MPI_Initialized(&begun) == MPI_SUCCESS && begun && MPI_Finalized(&ended) == MPI_SUCCESS && !ended;
}

tutti_status tutti_comm_init_mpi(MPI_Comm mpi_comm, const tutti_config *config, tutti_comm **comm)
{
    int n, rank;
    tutti_id id = { { 0 } };
    tutti_status made = TUTTI_OK;
    if (!mpi_runs())
        return TUTTI_INVALID_USAGE;
    if (mpi_comm == MPI_COMM_NULL || comm == NULL)
        return TUTTI_INVALID_ARGUMENT;
    if (MPI_Comm_size(mpi_comm, &n) != MPI_SUCCESS || MPI_Comm_rank(mpi_comm, &rank) != MPI_SUCCESS)
        return TUTTI_SYSTEM_ERROR;
    if (rank == 0)
        made = tutti_get_id(&id);
    if (MPI_Bcast(id.bytes, sizeof id.bytes, MPI_BYTE, 0, mpi_comm) != MPI_SUCCESS)
        return TUTTI_SYSTEM_ERROR;
    static const tutti_id none;
    if (memcmp(id.bytes, none.bytes, sizeof none.bytes) == 0)
        return made != TUTTI_OK ? made : TUTTI_SYSTEM_ERROR;
    return tutti_comm_init_rank(n, rank, &id, config, comm);
}

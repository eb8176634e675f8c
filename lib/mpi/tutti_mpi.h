/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_mpi.h: a Tutti communicator for the ranks of an MPI communicator. A small library of its own,
 * libtutti_mpi, so that libtutti needs no MPI; built where Open MPI is, for that MPI. */
#ifndef TUTTI_MPI_H
#define TUTTI_MPI_H
#include <mpi.h>
#include <tutti.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Makes a communicator of the same ranks, in the same order. Collective over mpi_comm, an intracommunicator,
 * between MPI_Init and MPI_Finalize: rank 0 makes an id and MPI_Bcast hands it out; from then on MPI is not
 * used. config may be NULL. Not inside a group. Errors: those of tutti_comm_init_rank; SYSTEM_ERROR if rank 0
 * could not make an id or MPI failed (by default MPI ends the program instead); INVALID_USAGE (MPI is not
 * running); INVALID_ARGUMENT (mpi_comm is MPI_COMM_NULL, comm is NULL). */
tutti_status tutti_comm_init_mpi(MPI_Comm mpi_comm, const tutti_config *config, tutti_comm **comm);

#ifdef __cplusplus
}
#endif
#endif

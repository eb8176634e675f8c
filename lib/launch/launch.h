/* SPDX-License-Identifier: BSD-3-Clause */
/* launch.h: one way each in which a launcher tells a process its rank, n and id; launch.c chooses.
 *
 * Each may wait for the others, as long as the communicator may. Outputs are set only on success. */
#ifndef TT_LAUNCH_H
#define TT_LAUNCH_H
#include <pthread.h>
#include <stdbool.h>

#include "bootstrap/bootstrap.h"
#include "tutti.h"

/* Held by who asks a launcher. */
extern pthread_mutex_t tt_launch_lock;

/* From PMIx, as mpirun and srun speak it. Collective: all ranks of the job make the same calls. */
tutti_status tt_launch_pmix(int64_t timeout_ms, int *n, int *rank, tutti_id *id);
/* From PMI, as srun --mpi=pmi2 and the mpirun of MPICH speak it. Collective, too. */
tutti_status tt_launch_pmi(int64_t timeout_ms, int *n, int *rank, tutti_id *id);

/* From what all ranks were told alike: TUTTI_ROOT, where rank 0 listens, TUTTI_SECRET_FILE, and a job's
 * public name. Each makes the same id of it, a new one at each call; rank 0 begins to answer at it. Nobody
 * waits. */
tutti_status tt_launch_root(
    const char *root, const char *secret_file, const char *job, int rank, int64_t timeout_ms, tutti_id *id);
/* From the environment of torchrun. The other ranks wait for rank 0. */
tutti_status tt_launch_torch(int64_t timeout_ms, int *n, int *rank, tutti_id *id);
enum { TT_LAUNCH_JOB = 33 };
void tt_launch_torch_job(char job[TT_LAUNCH_JOB]); /* a public name for this start of this run */

enum { TT_LAUNCH_RANKS = 65536, TT_LAUNCH_ID_DIGITS = 2 * sizeof(tutti_id) };

/* A number of at most six digits and nothing else, within these limits. */
bool tt_launch_number(const char *text, int least, int most, int *value);
/* The digits of an id: exactly those, nothing else. */
bool tt_launch_read_id(const char *text, tutti_id *id);
void tt_launch_write_id(const tutti_id *id, char text[TT_LAUNCH_ID_DIGITS + 1]);

/* The first of these variables that is not set, NULL if all are. */
const char *tt_launch_first_unset(const char *const *names);
#define TT_LAUNCH_NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })
/* n and rank from two variables that are set. */
tutti_status tt_launch_rank(const char *size_name, const char *rank_name, int *n, int *rank);

#endif

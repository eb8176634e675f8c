/* SPDX-License-Identifier: BSD-3-Clause */
/* launch.h: the ways in which a launcher tells a process its rank, n and id; launch.c chooses one.
 *
 * Each may wait for the other ranks, as long as the communicator may. Outputs are set only on success. */
#ifndef TT_LAUNCH_H
#define TT_LAUNCH_H
#include <pthread.h>
#include <stdbool.h>

#include "bootstrap/bootstrap.h"
#include "tutti.h"

/* Every function that asks a launcher holds this lock. */
extern pthread_mutex_t tt_launch_lock;

/* Asks PMIx, as mpirun and srun speak it. Collective: all ranks of the job make the same calls. */
tutti_status tt_launch_pmix(int64_t timeout_ms, int *n, int *rank, tutti_id *id);
/* Asks PMI, as srun --mpi=pmi2 and the mpirun of MPICH speak it. Collective, too. */
tutti_status tt_launch_pmi(int64_t timeout_ms, int *n, int *rank, tutti_id *id);

/* Makes the id of what all ranks were told alike: TUTTI_ROOT, where rank 0 listens, TUTTI_SECRET_FILE, and
 * the job's public name. All ranks make the same id, a new one at each call; rank 0 begins to answer at
 * it. Nobody waits. */
tutti_status tt_launch_root(
    const char *root, const char *secret_file, const char *job, int rank, int64_t timeout_ms, tutti_id *id);
/* Reads the environment of torchrun. The other ranks wait for rank 0. */
tutti_status tt_launch_torch(int64_t timeout_ms, int *n, int *rank, tutti_id *id);
enum { TT_LAUNCH_JOB = 33 };
/* Makes a public name for this start of this run. */
void tt_launch_torch_job(char job[TT_LAUNCH_JOB]);

/* Makes what TUTTI_ROOT would be, of MASTER_ADDR and MASTER_PORT, which are set: the port after that one. */
enum { TT_LAUNCH_ROOT = 420 };
tutti_status tt_launch_torch_root(char root[TT_LAUNCH_ROOT]);

/* Returns how many communicators of the job have been counted before: each has a name of its own. */
unsigned tt_launch_count(void);

enum { TT_LAUNCH_RANKS = 65536, TT_LAUNCH_ID_DIGITS = 2 * sizeof(tutti_id) };

/* Reads a number within these limits. False unless the text is at most six digits and nothing else. */
bool tt_launch_number(const char *text, int least, int most, int *value);
/* Reads the digits of an id. False unless the text is exactly those. */
bool tt_launch_read_id(const char *text, tutti_id *id);
void tt_launch_write_id(const tutti_id *id, char text[TT_LAUNCH_ID_DIGITS + 1]);

/* Returns the first of these variables that is not set, NULL if all are. */
const char *tt_launch_first_unset(const char *const *names);
#define TT_LAUNCH_NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })
/* Reads n and rank from two variables that are set. */
tutti_status tt_launch_rank(const char *size_name, const char *rank_name, int *n, int *rank);

#endif

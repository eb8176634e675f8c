/* launch.h: one way each in which a launcher tells a process its rank, n and id; launch.c chooses. */
#ifndef TT_LAUNCH_H
#define TT_LAUNCH_H
#include "tutti.h"

/* From PMIx, as mpirun and srun speak it. Collective: all ranks of the job make the same calls. */
tutti_status tt_launch_pmix(int *n, int *rank, tutti_id *id);

#endif

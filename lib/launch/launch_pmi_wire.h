/* SPDX-License-Identifier: BSD-3-Clause */
/* launch_pmi_wire.h: the words of PMI, by which a process asks the launcher that started it.
 *
 * Version 1.1 of the protocol: a question is a line of text, "cmd=get kvsname=job key=k", the answer is
 * another. The mpirun of MPICH and srun --mpi=pmi2 both speak it; the newer versions of PMI say the same
 * in other words, and have nothing that is needed here.
 *
 * Values are secrets, so no error repeats what was asked or answered. */
#ifndef TT_LAUNCH_PMI_WIRE_H
#define TT_LAUNCH_PMI_WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti.h"

enum { TT_PMI_LINE = 2048, TT_PMI_NAME = 257, TT_PMI_KEY = 64 };

struct tt_pmi {
    int socket; /* the launcher's, not closed here */
    bool lost; /* an exchange failed: what comes next could be the answer to that */
    int64_t timeout_ms, deadline_ns; /* of the call that is under way; set by the caller */
    char job[TT_PMI_NAME]; /* the name of its key-value space */
    char line[TT_PMI_LINE + 1];
};

/* Joins the job. */
tutti_status tt_pmi_open(struct tt_pmi *pmi);
/* Puts a value among the job's keys. Key and value have no blanks. All ranks can get it once all have
 * passed a barrier. */
tutti_status tt_pmi_put(struct tt_pmi *pmi, const char *key, const char *value);
/* Gets a value, which stays where it is until the next call. If the launcher has none: NULL, or a failure
 * if it is `needed`. */
tutti_status tt_pmi_get(struct tt_pmi *pmi, const char *key, bool needed, const char **value);
tutti_status tt_pmi_barrier(struct tt_pmi *pmi);
/* Leaves the job, and waits a little for the launcher to hear it. */
void tt_pmi_close(struct tt_pmi *pmi);

/* True if "PMI_process_mapping" says that all ranks are on one machine. It lists blocks of ranks, each as
 * (first machine, machines, ranks on each): "(vector,(0,1,4))". A text that cannot be read is no such
 * statement. */
bool tt_pmi_one_machine(const char *mapping);

#endif

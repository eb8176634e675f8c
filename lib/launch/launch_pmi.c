/* SPDX-License-Identifier: BSD-3-Clause */
/* launch_pmi.c: rank, n and id by PMI, from the mpirun of MPICH or srun --mpi=pmi2.
 *
 * The launcher leaves a socket and three variables. Rank 0 makes the id and puts it among the job's keys;
 * after a barrier all ranks get it from there. The launcher keeps the keys inside the job, so the secret
 * stays one.
 *
 * A process has one connection to its launcher, joined once and left when it ends, since a launcher takes a
 * process that leaves without a word for one that failed. A program that also starts MPICH in the same
 * process would need that connection twice; it passes an id by its own broadcast instead. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"
#include "launch/launch.h"
#include "launch/launch_pmi_wire.h"

enum { SOCKET_MAX = 1 << 20 };

static struct { /* behind tt_launch_lock */
    struct tt_pmi wire;
    pid_t joined; /* the process that did; a forked child has not */
    unsigned calls;
} pmi;

struct process { /* where the launcher says that this process stands */
    int n, rank, socket;
};

static tutti_status read_process(struct process *process)
{
    const struct {
        const char *name;
        int least, most, *value;
    } wanted[] = { { "PMI_SIZE", 1, TT_LAUNCH_RANKS, &process->n },
        { "PMI_RANK", 0, TT_LAUNCH_RANKS - 1, &process->rank },
        { "PMI_FD", 0, SOCKET_MAX, &process->socket } };
    for (int i = 0; i < 3; i++) {
        const char *text = tt_environment(wanted[i].name);
        if (!text)
            return tt_fail(TUTTI_INVALID_USAGE,
                "a launcher set some of PMI_FD, PMI_RANK and PMI_SIZE, and not %s: Tutti speaks PMI 1.1 over "
                "PMI_FD (mpirun of MPICH, srun --mpi=pmi2) and PMIx; with another launcher set TUTTI_ID, "
                "TUTTI_RANK and TUTTI_SIZE",
                wanted[i].name);
        if (!tt_launch_number(text, wanted[i].least, wanted[i].most, wanted[i].value))
            return tt_fail(TUTTI_INVALID_USAGE, "the launcher set %s to \"%.60s\"; legal: %d to %d",
                wanted[i].name, text, wanted[i].least, wanted[i].most);
    }
    if (process->rank >= process->n)
        return tt_fail(TUTTI_INVALID_USAGE, "the launcher set PMI_RANK to %d and PMI_SIZE to %d",
            process->rank, process->n);
    return TUTTI_OK;
}

static void leave(void)
{
    if (pmi.joined == getpid())
        tt_pmi_close(&pmi.wire);
}

static tutti_status join(int socket)
{
    if (pmi.joined == getpid())
        return TUTTI_OK;
    if (pmi.joined != 0)
        return tt_fail(TUTTI_INVALID_USAGE,
            "this process was forked by a rank of a job, and is not itself one that the launcher started");
    pmi.wire.socket = socket;
    tutti_status status = tt_pmi_open(&pmi.wire);
    if (status != TUTTI_OK)
        return status;
    pmi.joined = getpid();
    atexit(leave);
    return TUTTI_OK;
}

/* Asks whether all ranks are on one host. A launcher that does not say is taken to have one. */
static tutti_status ask_one_host(bool *one)
{
    const char *mapping;
    tutti_status status = tt_pmi_get(&pmi.wire, "PMI_process_mapping", false, &mapping);
    *one = status != TUTTI_OK || !mapping || *mapping == 0 || tt_pmi_one_machine(mapping);
    return status;
}

/* Publishes the id as rank 0, and gets it as every rank. The number of the call is in the key, so a second
 * communicator gets a second id. */
static tutti_status agree_on_id(int rank, bool one_host, tutti_id *id)
{
    char key[TT_PMI_KEY], text[TT_LAUNCH_ID_DIGITS + 1];
    const char *value;
    tutti_status status = TUTTI_OK;
    snprintf(key, sizeof key, "tutti-id-%u", ++pmi.calls);
    if (rank == 0) {
        /* Without an id the others are still to hear of it: zeros are none. */
        tutti_id made = { { 0 } };
        status = one_host ? tt_bootstrap_create(&made, pmi.wire.timeout_ms)
                          : tt_bootstrap_create_for_hosts(&made, pmi.wire.timeout_ms);
        tt_launch_write_id(&made, text);
        tutti_status put = tt_pmi_put(&pmi.wire, key, text);
        status = status == TUTTI_OK ? put : status;
    }
    tutti_status met = tt_pmi_barrier(&pmi.wire);
    status = status == TUTTI_OK ? met : status;
    if (status == TUTTI_OK)
        status = tt_pmi_get(&pmi.wire, key, true, &value);
    if (status == TUTTI_OK && !tt_launch_read_id(value, id))
        status = tt_fail(TUTTI_SYSTEM_ERROR, "the launcher's PMI did not keep the id that rank 0 published");
    return status;
}

static tutti_status ask(int64_t timeout_ms, int *n, int *rank, tutti_id *id)
{
    struct process process;
    tutti_id made;
    bool one_host;
    pmi.wire.timeout_ms = timeout_ms;
    pmi.wire.deadline_ns = tt_deadline_ns(timeout_ms);
    tutti_status status = read_process(&process);
    if (status == TUTTI_OK)
        status = join(process.socket);
    if (status == TUTTI_OK)
        status = ask_one_host(&one_host);
    if (status == TUTTI_OK)
        status = agree_on_id(process.rank, one_host, &made);
    if (status != TUTTI_OK)
        return status;
    *n = process.n;
    *rank = process.rank;
    *id = made;
    return TUTTI_OK;
}

tutti_status tt_launch_pmi(int64_t timeout_ms, int *n, int *rank, tutti_id *id)
{
    pthread_mutex_lock(&tt_launch_lock);
    tutti_status status = ask(timeout_ms, n, rank, id);
    explicit_bzero(pmi.wire.line, sizeof pmi.wire.line); /* the secret passed through it */
    pthread_mutex_unlock(&tt_launch_lock);
    return status;
}

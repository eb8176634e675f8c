/* SPDX-License-Identifier: BSD-3-Clause */
/* survivors.c: the last rank dies in a call of all ranks, which ends that communicator; one of the others
 * alone goes on, though it shares with the first what a process has of the network. Each survivor says
 * "good". */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tutti.h"

enum { COUNT = 1 << 20, CALLS = 100, MANY = 100000 };

static float send[COUNT], recv[COUNT];

static tutti_status sum(tutti_comm *comm, int call)
{
    return tutti_all_reduce(
        send, recv, call % 2 == 0 ? 2 : COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
}

static void check(tutti_status status, const char *what)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "survivors: %s: %s\n", what, tutti_get_last_error(NULL));
    exit(1);
}

static void sum_often(tutti_comm *comm, int n, const char *what)
{
    for (int i = 0; i < CALLS; i++) {
        check(sum(comm, i), what);
        if (recv[0] != (float)n || recv[1] != (float)n) {
            fprintf(stderr, "survivors: %s: a sum is %g, expected %d\n", what, (double)recv[0], n);
            exit(1);
        }
    }
}

int main(void)
{
    tutti_comm *all, *some = NULL;
    check(tutti_comm_init_env(NULL, &all), "initialisation");
    int n = tutti_comm_size(all), rank = tutti_comm_rank(all);
    const bool dies = rank == n - 1;
    for (int i = 0; i < COUNT; i++)
        send[i] = 1;
    check(tutti_comm_split(all, dies ? -1 : 0, rank, NULL, &some), "split");
    sum_often(all, n, "before");
    if (dies)
        raise(SIGKILL);
    sum_often(some, n - 1, "before");
    tutti_status status = TUTTI_OK;
    for (int i = 0; status == TUTTI_OK && i < MANY; i++)
        status = sum(all, 1);
    if (status != TUTTI_PEER_LOST) {
        fprintf(stderr, "survivors: with a dead rank a call returned %d\n", status);
        return 1;
    }
    sum_often(some, n - 1, "after the death");
    check(tutti_comm_destroy(all), "destroy");
    sum_often(some, n - 1, "after the end");
    check(tutti_comm_destroy(some), "destroy");
    printf("good\n");
    return 0;
}

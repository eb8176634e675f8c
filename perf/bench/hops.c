/* SPDX-License-Identifier: BSD-3-Clause */
/* hops.c: the program whose calls perf/bench/hops.sh looks into.
 *
 * usage: hops BYTES EARLIER     two rank processes that call all_reduce EARLIER times, then hops_begin, and
 *                               then all_reduce once more, on memory of their own */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tutti.h"

/* A debugger stops here. */
void hops_begin(void);
void hops_begin(void)
{
}

static int run(const tutti_id *id, int rank, size_t count, int earlier)
{
    float *send = calloc(count, sizeof *send), *recv = calloc(count, sizeof *recv);
    tutti_comm *comm;
    tutti_status status = tutti_comm_init_rank(2, rank, id, NULL, &comm);
    for (int i = 0; status == TUTTI_OK && i <= earlier; i++) {
        if (i == earlier)
            hops_begin();
        status = tutti_all_reduce(send, recv, count, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
    }
    free(send);
    free(recv);
    return status == TUTTI_OK && tutti_comm_destroy(comm) == TUTTI_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    tutti_id id;
    if (argc != 3 || tutti_get_id(&id) != TUTTI_OK)
        return 2;
    size_t count = strtoul(argv[1], NULL, 10) / sizeof(float);
    pid_t child = fork();
    int status = run(&id, child == 0, count, atoi(argv[2])), of_child = 0;
    if (child == 0)
        _exit(status);
    waitpid(child, &of_child, 0);
    return status != 0 || of_child != 0;
}

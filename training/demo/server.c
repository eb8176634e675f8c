/* SPDX-License-Identifier: BSD-3-Clause */
/* server.c: one step with a parameter server: workers push gradients, the server updates, workers pull; and
 * what goes through it as workers grow, against a ring. */
#include "training/demo/demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 8, COUNT = 4 };

struct job {
    int workers;
    int32_t pushed[MOST][COUNT], before[COUNT], after[MOST + 1][COUNT]; /* after: of the server, too, last */
    int32_t sum[COUNT]; /* by all_reduce among the workers */
    int64_t in, out; /* bytes of the server */
};

static tutti_status serve(struct job *j, tutti_comm *comm)
{
    int32_t got[COUNT], *w = j->after[j->workers];
    tutti_status s = TUTTI_OK;
    memcpy(w, j->before, sizeof j->before);
    for (int r = 0; r < j->workers && s == TUTTI_OK; r++) {
        s = tutti_recv(got, COUNT, TUTTI_INT32, r, comm, tutti_no_stream());
        for (int i = 0; i < COUNT; i++)
            w[i] -= got[i];
        j->in += (int64_t)sizeof got;
    }
    for (int r = 0; r < j->workers && s == TUTTI_OK; r++) {
        s = tutti_send(w, COUNT, TUTTI_INT32, r, comm, tutti_no_stream());
        j->out += (int64_t)sizeof got;
    }
    return s;
}

static tutti_status work(struct job *j, int rank, tutti_comm *comm)
{
    int32_t *g = j->pushed[rank];
    for (int i = 0; i < COUNT; i++)
        g[i] = (rank + 1) * (i + 1);
    tutti_status s = tutti_send(g, COUNT, TUTTI_INT32, j->workers, comm, tutti_no_stream());
    if (s == TUTTI_OK)
        s = tutti_recv(j->after[rank], COUNT, TUTTI_INT32, j->workers, comm, tutti_no_stream());
    return s;
}

static tutti_status run_rank(int rank, tutti_comm *comm, void *shared)
{
    struct job *j = shared;
    bool server = rank == j->workers;
    int32_t none[COUNT] = { 0 }, sum[COUNT];
    tutti_status s = server ? serve(j, comm) : work(j, rank, comm);
    if (s == TUTTI_OK)
        s = tutti_all_reduce(
            server ? none : j->pushed[rank], sum, COUNT, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
    if (server)
        memcpy(j->sum, sum, sizeof sum);
    return s;
}

/* ---- what is shown ---- */

static void show(const char *who, int rank, const int32_t *x)
{
    printf("    %s", who);
    if (rank >= 0)
        printf(" %d", rank);
    for (int i = 0; i < COUNT; i++)
        printf(" %5" PRId32, x[i]);
    printf("\n");
}

static int report(const struct job *j)
{
    int n = j->workers;
    bool right = true;
    printf("a server with %d parameters, and %d workers with a part of the batch each\n\n", COUNT, n);
    for (int r = 0; r < n; r++)
        printf("    [ worker %d ] --push gradients-->%s<--pull values--\n", r,
            r == n / 2 ? " [ server: w = w - sum ] " : "            |            ");
    printf("\nbefore\n");
    show("server  ", -1, j->before);
    printf("pushed\n");
    for (int r = 0; r < n; r++)
        show("worker", r, j->pushed[r]);
    printf("after: one update with the sum of all, then all pull\n");
    for (int r = 0; r < n; r++)
        show("worker", r, j->after[r]);
    for (int r = 0; r <= n; r++)
        for (int i = 0; i < COUNT; i++)
            right = right && j->after[r][i] == j->before[i] - j->sum[i];
    printf("\nbytes in and out of the busiest rank, of a vector of %zu bytes\n    workers  server    ring\n",
        sizeof j->before);
    for (int w = 2; w <= 8; w *= 2)
        printf("    %7d %7zu %7zu\n", w, 2 * (size_t)w * sizeof j->before,
            4 * ((size_t)w - 1) * sizeof j->before / (size_t)w);
    printf("here the server had %" PRId64 " in and %" PRId64
           " out; it grows with the workers, and a ring's ranks do "
           "not\n%s\n",
        j->in, j->out,
        right ? "equal to an update with Tutti's all_reduce, on all ranks"
              : "NOT EQUAL to an update with Tutti's all_reduce");
    return !right;
}

int tr_demo_server(int argc, char **argv, struct tr_demo_sizes *s)
{
    struct tr_error e;
    int n = tr_demo_ranks("server", argc, argv, 4, MOST);
    if (n < 0)
        return 2;
    struct job *j = tr_demo_shared(sizeof *j);
    if (!j)
        return tr_demo_no_memory();
    j->workers = n - 1;
    *s = (struct tr_demo_sizes){ .ranks = n };
    for (int i = 0; i < COUNT; i++)
        j->before[i] = 100;
    int status = tr_demo_run(n, run_rank, j, &e) ? report(j) : tr_demo_failed(&e);
    munmap(j, sizeof *j);
    return status;
}

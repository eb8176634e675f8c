/* SPDX-License-Identifier: BSD-3-Clause */
/* zero.c: what each rank keeps of parameters, gradients and the optimizer's state by the stages of ZeRO, and
 * that an update in parts is the update. */
#include "training/demo/demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 8, COUNT = 8, STAGES = 4 };

struct job {
    int n;
    int32_t whole[MOST][COUNT], parts[MOST][COUNT]; /* of each rank: after an update of all; of its part */
    int32_t mine[MOST][COUNT]; /* the gradients of each rank's part, summed */
};

static int32_t value_at(int i)
{
    return 10 * (i + 1);
}
static int32_t gradient_at(int rank, int i)
{
    return rank + i % 3;
}

/* The optimizer remembers what it took away, a number a parameter. */
static int32_t update(int32_t value, int32_t gradient)
{
    return value - 2 * gradient;
}

static tutti_status run_rank(int rank, tutti_comm *comm, void *shared)
{
    struct job *j = shared;
    int32_t gradients[COUNT], sums[COUNT], part[COUNT];
    size_t counts[MOST];
    int first = tr_demo_start(rank, j->n, COUNT);
    for (int i = 0; i < COUNT; i++)
        gradients[i] = gradient_at(rank, i);
    for (int r = 0; r < j->n; r++)
        counts[r] = (size_t)(tr_demo_start(r + 1, j->n, COUNT) - tr_demo_start(r, j->n, COUNT));
    tutti_status s =
        tutti_all_reduce(gradients, sums, COUNT, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
    for (int i = 0; i < COUNT; i++)
        j->whole[rank][i] = update(value_at(i), sums[i]);
    if (s == TUTTI_OK)
        s = tutti_reduce_scatter_v(
            gradients, counts, j->mine[rank], TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
    for (int i = 0; i < (int)counts[rank]; i++)
        part[i] = update(value_at(first + i), j->mine[rank][i]);
    if (s == TUTTI_OK)
        s = tutti_all_gather_v(
            part, counts[rank], j->parts[rank], counts, NULL, TUTTI_INT32, comm, tutti_no_stream());
    return s;
}

/* ---- what is shown ---- */

/* "WWWWWWWW", or the part of the rank alone. */
static void bar(const struct job *j, int rank, char letter, bool cut)
{
    for (int i = 0; i < COUNT; i++) {
        bool here =
            !cut || (i >= tr_demo_start(rank, j->n, COUNT) && i < tr_demo_start(rank + 1, j->n, COUNT));
        putchar(here ? letter : '.');
    }
    printf("  ");
}

static int report(const struct job *j)
{
    static const char *const names[STAGES] = {
        "0: data parallel, all on each rank",
        "1: the optimizer's state is cut",
        "2: gradients, too",
        "3: parameters, too: gathered when a layer needs them",
    };
    bool right = true;
    printf(
        "%d parameters on %d ranks: W values, G gradients, O the optimizer's state (of Adam twice as many)\n",
        COUNT, j->n);
    for (int stage = 0; stage < STAGES; stage++) {
        printf("\nstage %s\n", names[stage]);
        for (int r = 0; r < j->n; r++) {
            printf("    rank %d  ", r);
            bar(j, r, 'W', stage >= 3);
            bar(j, r, 'G', stage >= 2);
            bar(j, r, 'O', stage >= 1);
            int part = tr_demo_start(r + 1, j->n, COUNT) - tr_demo_start(r, j->n, COUNT);
            printf("%d numbers\n",
                (stage >= 3 ? part : COUNT) + (stage >= 2 ? part : COUNT) + 2 * (stage >= 1 ? part : COUNT));
        }
    }
    printf("\na step: gradients are summed up and scattered, each rank updates its part, and values are "
           "gathered\n");
    for (int r = 0; r < j->n; r++) {
        printf("    rank %d, its sums", r);
        for (int i = 0; i < tr_demo_start(r + 1, j->n, COUNT) - tr_demo_start(r, j->n, COUNT); i++)
            printf(" %4" PRId32, j->mine[r][i]);
        printf("\n");
    }
    printf("    all, values     ");
    for (int i = 0; i < COUNT; i++)
        printf(" %4" PRId32, j->parts[0][i]);
    for (int r = 0; r < j->n; r++)
        right = right && !memcmp(j->parts[r], j->whole[r], sizeof j->whole[r]);
    printf("\n%s\n", right ? "equal to an update of all parameters on every rank"
                           : "NOT EQUAL to an update of all parameters");
    return !right;
}

int tr_demo_zero(int argc, char **argv, struct tr_demo_sizes *s)
{
    struct tr_error e;
    int n = tr_demo_ranks("zero", argc, argv, 4, MOST);
    if (n < 0)
        return 2;
    struct job *j = tr_demo_shared(sizeof *j);
    if (!j)
        return tr_demo_no_memory();
    j->n = n;
    *s = (struct tr_demo_sizes){ .ranks = n, .columns = COUNT };
    int status = tr_demo_run(n, run_rank, j, &e) ? report(j) : tr_demo_failed(&e);
    munmap(j, sizeof *j);
    return status;
}

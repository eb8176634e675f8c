/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.c: the ring all-reduce, step by step, and Tutti's own all_reduce as the judge.
 *
 * Rank r puts c + 1 times 10^r into chunk c. A sum then shows who is in it: its digits are c + 1 where a rank
 * has added its own, and 0 where none has. */
#include "training/demo/demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 8, LONGEST = 64, STEPS = 2 * (MOST - 1) };

struct job {
    int n, count;
    int32_t after[STEPS + 1][MOST][LONGEST]; /* each rank's vector before the first step, and after each */
    int32_t wanted[MOST][LONGEST]; /* from all_reduce */
};

/* Which chunk a rank sends to its right neighbour in a step. It receives the one before. */
static int sent(const struct job *j, int step, int rank)
{
    int lag =
        step < j->n - 1 ? step : step - j->n; /* in the second half it begins with the one that it made */
    return (rank - lag + 2 * j->n) % j->n;
}

static int start(const struct job *j, int chunk)
{
    return tr_demo_start(chunk, j->n, j->count);
}

static size_t length(const struct job *j, int chunk)
{
    return (size_t)(start(j, chunk + 1) - start(j, chunk));
}

static tutti_status run_step(struct job *j, int step, int rank, int32_t *mine, tutti_comm *comm)
{
    int out = sent(j, step, rank), in = sent(j, step, (rank + j->n - 1) % j->n);
    int32_t got[LONGEST];
    tutti_status status = tutti_group_start();
    if (status >= 0)
        status = tutti_send(
            mine + start(j, out), length(j, out), TUTTI_INT32, (rank + 1) % j->n, comm, tutti_no_stream());
    if (status >= 0)
        status =
            tutti_recv(got, length(j, in), TUTTI_INT32, (rank + j->n - 1) % j->n, comm, tutti_no_stream());
    tutti_status ended = tutti_group_end();
    if (status < 0 || ended < 0)
        return status < 0 ? status : ended;
    for (size_t i = 0; i < length(j, in); i++) {
        int32_t *to = mine + start(j, in) + i;
        *to = step < j->n - 1 ? *to + got[i] : got[i];
    }
    return TUTTI_OK;
}

static tutti_status run_rank(int rank, tutti_comm *comm, void *shared)
{
    struct job *j = shared;
    int32_t mine[LONGEST], power = 1;
    for (int r = 0; r < rank; r++)
        power *= 10;
    for (int c = 0; c < j->n; c++)
        for (int i = start(j, c); i < start(j, c + 1); i++)
            mine[i] = (c + 1) * power;
    size_t bytes = sizeof(int32_t) * (size_t)j->count;
    tutti_status status = tutti_all_reduce(
        mine, j->wanted[rank], (size_t)j->count, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
    memcpy(j->after[0][rank], mine, bytes);
    for (int step = 0; status >= 0 && step < 2 * (j->n - 1); step++) {
        status = run_step(j, step, rank, mine, comm);
        memcpy(j->after[step + 1][rank], mine, bytes);
    }
    return status;
}

/* ---- what is shown ---- */

/* The ranks' chunks, one number each, for all elements of a chunk are alike. `changed`: a step, or -1. */
static void show(const struct job *j, int at, int changed)
{
    for (int r = 0; r < j->n; r++) {
        printf("  rank %d", r);
        int in = changed < 0 ? -1 : sent(j, changed, (r + j->n - 1) % j->n);
        for (int c = 0; c < j->n; c++)
            printf(" %8" PRId32 "%c", j->after[at][r][start(j, c)], c == in ? '<' : ' ');
        if (changed >= 0)
            printf("   sent chunk %d to rank %d, %s chunk %d", sent(j, changed, r), (r + 1) % j->n,
                changed < j->n - 1 ? "added" : "took", in);
        printf("\n");
    }
}

static void show_owners(const struct job *j)
{
    printf("each chunk is whole on one rank, its owner:");
    for (int c = 0; c < j->n; c++)
        printf(" chunk %d on rank %d%s", c, (c + j->n - 1) % j->n, c + 1 < j->n ? "," : "\n");
}

static int report(const struct job *j)
{
    int n = j->n, wrong = 0;
    printf("ring all-reduce of %d elements on %d ranks, in %d chunks, in 2 (n - 1) = %d steps\n", j->count, n,
        n, 2 * (n - 1));
    printf("chunk c is elements");
    for (int c = 0; c < n; c++)
        printf(" %d to %d%s", start(j, c), start(j, c + 1) - 1, c + 1 < n ? "," : "\n");
    printf("at first: rank r has (c + 1) 10^r in chunk c, so that a sum's digits show who is in it\n");
    show(j, 0, -1);
    for (int step = 0; step < 2 * (n - 1); step++) {
        printf("step %d of %d, %s; < has come\n", step + 1, 2 * (n - 1),
            step < n - 1 ? "reduce-scatter: what comes is added"
                         : "all-gather: what comes is whole, and taken");
        show(j, step + 1, step);
        if (step == n - 2)
            show_owners(j);
    }
    for (int r = 0; r < n; r++)
        wrong += memcmp(j->after[2 * (n - 1)][r], j->wanted[r], sizeof(int32_t) * (size_t)j->count) != 0;
    size_t sent_bytes = 0; /* by rank 0 */
    for (int step = 0; step < 2 * (n - 1); step++)
        sent_bytes += length(j, sent(j, step, 0)) * sizeof(int32_t);
    printf("rank 0 sent %zu bytes, of a vector of %zu: about 2 (n - 1) / n times its size, however many "
           "ranks there are\n",
        sent_bytes, sizeof(int32_t) * (size_t)j->count);
    if (wrong == 0)
        printf("equal to Tutti's all_reduce, on all ranks\n");
    else
        printf("NOT EQUAL to Tutti's all_reduce, on %d of %d ranks\n", wrong, n);
    return wrong != 0;
}

/* ---- the command line ---- */

static int parse(struct job *j, int argc, char **argv)
{
    const char *count_text = NULL;
    j->n = 4;
    for (int i = 1; i < argc; i += 2) {
        bool n = strcmp(argv[i], "-n") == 0, count = strcmp(argv[i], "--count") == 0;
        if (i + 1 == argc || (!n && !count))
            return tr_demo_unknown("ring", argv[i], i + 1 == argc, "-n --count");
        int value = tr_demo_number(argv[i + 1]);
        if (n)
            j->n = value;
        else
            count_text = argv[i + 1];
        if (n && (value < 2 || value > MOST)) {
            fprintf(stderr, "tutti-train demo ring: -n %s; legal is 2 to %d\n", argv[i + 1], MOST);
            return 2;
        }
    }
    j->count = count_text ? tr_demo_number(count_text) : 2 * j->n;
    if (j->count < j->n || j->count > LONGEST) {
        fprintf(stderr,
            "tutti-train demo ring: --count %s; legal is %d to %d, so that each of %d chunks has one\n",
            count_text, j->n, LONGEST, j->n);
        return 2;
    }
    return 0;
}

int tr_demo_ring(int argc, char **argv, struct tr_demo_sizes *s)
{
    struct tr_error e;
    struct job *j = tr_demo_shared(sizeof *j);
    if (j == NULL) {
        fprintf(stderr, "tutti-train demo: there is no memory\n");
        return 1;
    }
    int status = parse(j, argc, argv);
    *s = (struct tr_demo_sizes){ .ranks = j->n };
    if (status == 0 && tr_demo_run(j->n, run_rank, j, &e))
        status = report(j);
    else if (status == 0) {
        fprintf(stderr, "tutti-train demo: %s\n", e.text);
        status = 1;
    }
    munmap(j, sizeof *j);
    return status;
}

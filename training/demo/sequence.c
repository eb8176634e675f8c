/* SPDX-License-Identifier: BSD-3-Clause */
/* sequence.c: a sequence that is cut over ranks, each of which has the whole model: keys and values go round,
 * and each rank ends with what its tokens get of all that came before.
 *
 * It is attention without its softmax, out_i = sum over j <= i of (q_i k_j) v_j, of whole numbers, so that
 * the sum has no order. */
#include "training/demo/demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 8, TOKENS = 64 };

struct job {
    int n, tokens;
    int32_t out[TOKENS], whole[TOKENS]; /* of all tokens */
    int step[MOST][MOST]; /* in which a rank had the keys of another, from 1 on; 0: never, or never used */
};

static int32_t q_at(int i)
{
    return i % 3 + 1;
}
static int32_t k_at(int i)
{
    return (2 * i) % 5 - 1;
}
static int32_t v_at(int i)
{
    return (3 * i) % 7 - 2;
}

static int first_of(const struct job *j, int rank)
{
    return tr_demo_start(rank, j->n, j->tokens);
}

/* Keys and values of the tokens of one rank. */
struct block {
    int32_t owner, k[TOKENS], v[TOKENS];
};

static void attend(struct job *j, int rank, const struct block *b)
{
    int first = first_of(j, b->owner), count = first_of(j, b->owner + 1) - first;
    for (int i = first_of(j, rank); i < first_of(j, rank + 1); i++)
        for (int t = 0; t < count && first + t <= i; t++)
            j->out[i] += q_at(i) * b->k[t] * b->v[t];
}

static tutti_status pass_on(const struct job *j, int rank, struct block *b, tutti_comm *comm)
{
    struct block got = *b;
    size_t count = sizeof got / sizeof(int32_t);
    tutti_status s = tutti_group_start();
    if (s == TUTTI_OK)
        s = tutti_send(b, count, TUTTI_INT32, (rank + 1) % j->n, comm, tutti_no_stream());
    if (s == TUTTI_OK)
        s = tutti_recv(&got, count, TUTTI_INT32, (rank + j->n - 1) % j->n, comm, tutti_no_stream());
    tutti_status ended = tutti_group_end();
    *b = got;
    return s == TUTTI_OK ? ended : s;
}

static tutti_status run_rank(int rank, tutti_comm *comm, void *shared)
{
    struct job *j = shared;
    struct block b = { .owner = rank };
    tutti_status s = TUTTI_OK;
    for (int i = first_of(j, rank); i < first_of(j, rank + 1); i++)
        b.k[i - first_of(j, rank)] = k_at(i), b.v[i - first_of(j, rank)] = v_at(i);
    for (int step = 1; step <= j->n && s == TUTTI_OK; step++) {
        attend(j, rank, &b);
        j->step[rank][b.owner] = b.owner <= rank ? step : 0; /* later tokens are not seen */
        if (step < j->n)
            s = pass_on(j, rank, &b, comm);
    }
    return s;
}

/* ---- what is shown ---- */

static int report(const struct job *j)
{
    printf("a sequence of %d tokens on %d ranks; each has all weights, and the queries of its own tokens\n\n "
           "   ",
        j->tokens, j->n);
    for (int r = 0; r < j->n; r++) {
        printf("[");
        for (int i = first_of(j, r); i < first_of(j, r + 1); i++)
            printf(" %d", i);
        printf(" ]%s", r + 1 < j->n ? " " : "\n    ");
    }
    for (int r = 0; r < j->n; r++)
        printf("rank %d --%s", r, r + 1 < j->n ? "> " : "> back to rank 0: keys and values go round\n\n");
    printf("the step in which a rank has the keys of another; - has later tokens, which nobody may see\n%12s",
        "");
    for (int c = 0; c < j->n; c++)
        printf("  keys of %d", c);
    for (int r = 0; r < j->n; r++) {
        printf("\n    rank %d  ", r);
        for (int c = 0; c < j->n; c++)
            if (j->step[r][c])
                printf(" %10d", j->step[r][c]);
            else
                printf(" %10s", "-");
    }
    printf("\n\nwhat each token gets:");
    for (int r = 0; r < j->n; r++) {
        printf("\n    rank %d  ", r);
        for (int i = first_of(j, r); i < first_of(j, r + 1); i++)
            printf(" %5" PRId32, j->out[i]);
    }
    bool right = !memcmp(j->out, j->whole, sizeof j->out);
    int first = first_of(j, 1);
    printf("\n\nA rank keeps scores of %d x %d tokens at a time, one device %d x %d: the square is cut. %d "
           "tokens of\n"
           "keys and values go over each link in a step.\n%s\n",
        first, first, j->tokens, j->tokens, first, right ? "equal to one device" : "NOT EQUAL to one device");
    return !right;
}

int tr_demo_sequence(int argc, char **argv, struct tr_demo_sizes *s)
{
    struct tr_error e;
    int n = tr_demo_ranks("sequence", argc, argv, 4, MOST);
    if (n < 0)
        return 2;
    struct job *j = tr_demo_shared(sizeof *j);
    if (!j)
        return tr_demo_no_memory();
    j->n = n, j->tokens = 2 * n;
    *s = (struct tr_demo_sizes){ .ranks = n, .columns = j->tokens };
    for (int i = 0; i < j->tokens; i++)
        for (int t = 0; t <= i; t++)
            j->whole[i] += q_at(i) * k_at(t) * v_at(t);
    int status = tr_demo_run(n, run_rank, j, &e) ? report(j) : tr_demo_failed(&e);
    munmap(j, sizeof *j);
    return status;
}

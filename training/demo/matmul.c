/* SPDX-License-Identifier: BSD-3-Clause */
/* matmul.c: one matrix product on several ranks, cut in each of the three ways there are.
 *
 * Numbers are small and whole, so that a reader can check them, and the result is equal, not nearly equal. */
#include "training/demo/demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 16 }; /* rows, columns and ranks: what fits on a page */
enum split { X0, W1, W0 };

static const char *const names[] = { "x0", "w1", "w0" };

struct job {
    int m, k, n, ranks; /* X is m x k, W is k x n */
    enum split split;
    int32_t part[MOST][MOST * MOST]; /* what each rank makes, in as many rows and columns as it has */
    int32_t whole[MOST][MOST * MOST]; /* what it has after the collective */
};

static int32_t x_at(int i, int j)
{
    return (i + 2 * j) % 5 - 1;
}
static int32_t w_at(int i, int j)
{
    return (3 * i + j) % 7 - 2;
}

/* What a rank has: rows [m0, m1) and columns [k0, k1) of X, columns [n0, n1) of W. */
struct piece {
    int m0, m1, k0, k1, n0, n1;
};

static int cut_length(const struct job *j)
{
    return j->split == X0 ? j->m : j->split == W1 ? j->n : j->k;
}

static struct piece piece_of(const struct job *j, int rank)
{
    struct piece p = { 0, j->m, 0, j->k, 0, j->n };
    int first = tr_demo_start(rank, j->ranks, cut_length(j)),
        end = tr_demo_start(rank + 1, j->ranks, cut_length(j));
    if (j->split == X0)
        p.m0 = first, p.m1 = end;
    else if (j->split == W1)
        p.n0 = first, p.n1 = end;
    else
        p.k0 = first, p.k1 = end;
    return p;
}

static void multiply(int32_t *out, const struct piece *p)
{
    for (int r = p->m0; r < p->m1; r++)
        for (int c = p->n0; c < p->n1; c++) {
            int32_t sum = 0;
            for (int k = p->k0; k < p->k1; k++)
                sum += x_at(r, k) * w_at(k, c);
            *out++ = sum;
        }
}

static size_t elements(const struct job *j, int rank)
{
    struct piece p = piece_of(j, rank);
    return (size_t)((p.m1 - p.m0) * (p.n1 - p.n0));
}

static tutti_status run_rank(int rank, tutti_comm *comm, void *shared)
{
    struct job *j = shared;
    int32_t *part = j->part[rank], *whole = j->whole[rank], packed[MOST * MOST];
    struct piece p = piece_of(j, rank);
    multiply(part, &p);
    if (j->split == W0)
        return tutti_all_reduce(
            part, whole, elements(j, rank), TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
    size_t counts[MOST];
    for (int r = 0; r < j->ranks; r++)
        counts[r] = elements(j, r);
    tutti_status status =
        tutti_all_gather_v(part, counts[rank], packed, counts, NULL, TUTTI_INT32, comm, tutti_no_stream());
    const int32_t *next = packed; /* blocks come one after another; columns go beside each other */
    for (int r = 0; r < j->ranks; r++) {
        p = piece_of(j, r);
        for (int row = p.m0; row < p.m1; row++)
            for (int c = p.n0; c < p.n1; c++)
                whole[row * j->n + c] = *next++;
    }
    return status;
}

/* ---- what is shown ---- */

static void show(const int32_t *x, int rows, int columns)
{
    for (int i = 0; i < rows; i++) {
        printf("   ");
        for (int c = 0; c < columns; c++)
            printf(" %4" PRId32, x[i * columns + c]);
        printf("\n");
    }
}

static void show_inputs(const struct job *j)
{
    int32_t x[MOST * MOST], w[MOST * MOST];
    for (int i = 0; i < MOST * MOST; i++) {
        x[i] = x_at(i / j->k, i % j->k);
        w[i] = w_at(i / j->n, i % j->n);
    }
    static const char *const cuts[] = { "rows of X are cut", "columns of W are cut",
        "rows of W are cut, and columns of X with them" };
    printf("X is %dx%d, W is %dx%d, Y = X W is %dx%d; %d ranks, split %s: %s\n", j->m, j->k, j->k, j->n, j->m,
        j->n, j->ranks, names[j->split], cuts[j->split]);
    printf("X\n");
    show(x, j->m, j->k);
    printf("W\n");
    show(w, j->k, j->n);
}

static void show_rank(const struct job *j, int rank)
{
    struct piece p = piece_of(j, rank);
    int m = p.m1 - p.m0, k = p.k1 - p.k0, n = p.n1 - p.n0;
    printf("rank %d: X %dx%d (rows %d to %d, columns %d to %d), W %dx%d (rows %d to %d, columns %d to %d) -> "
           "%dx%d",
        rank, m, k, p.m0, p.m1 - 1, p.k0, p.k1 - 1, k, n, p.k0, p.k1 - 1, p.n0, p.n1 - 1, m, n);
    printf("%s\n", j->split == W0   ? ", a part of each sum"
                   : j->split == X0 ? ", rows of Y"
                                    : ", columns of Y");
    show(j->part[rank], m, n);
}

static int report(const struct job *j)
{
    int32_t product[MOST * MOST];
    struct piece all = { 0, j->m, 0, j->k, 0, j->n };
    multiply(product, &all);
    show_inputs(j);
    for (int r = 0; r < j->ranks; r++)
        show_rank(j, r);
    if (j->split == W0)
        printf("then all_reduce (sum) of %dx%d, %zu bytes a rank: every rank has Y\n", j->m, j->n,
            elements(j, 0) * sizeof(int32_t));
    else
        printf("then all_gather_v of the ranks' %s, %zu bytes in all: every rank has Y\n",
            j->split == X0 ? "rows" : "columns", (size_t)(j->m * j->n) * sizeof(int32_t));
    show(j->whole[0], j->m, j->n);
    int wrong = 0;
    for (int r = 0; r < j->ranks; r++)
        wrong += memcmp(j->whole[r], product, sizeof(int32_t) * (size_t)(j->m * j->n)) != 0;
    if (wrong == 0)
        printf(
            "equal to the product of the whole matrices, on %s\n", j->ranks == 1 ? "the rank" : "all ranks");
    else
        printf("NOT EQUAL to the product of the whole matrices, on %d of %d ranks\n", wrong, j->ranks);
    return wrong != 0;
}

/* ---- the command line ---- */

static bool parse_shape(const char *text, int *rows, int *columns)
{
    char left[8] = { 0 };
    const char *x = strchr(text, 'x');
    if (x == NULL || x - text >= (int)sizeof left)
        return false;
    memcpy(left, text, (size_t)(x - text));
    *rows = tr_demo_number(left);
    *columns = tr_demo_number(x + 1);
    return *rows >= 1 && *rows <= MOST && *columns >= 1 && *columns <= MOST;
}

static int illegal(const char *what, const char *value, const char *legal)
{
    fprintf(stderr, "tutti-train demo matmul: %s %s; legal is %s\n", what, value, legal);
    return 2;
}

/* 0, or the exit status. */
static int parse(struct job *j, int argc, char **argv)
{
    int w_rows = 5;
    const char *n_text = "2";
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value != NULL && (strcmp(argv[i], "--x") == 0 || strcmp(argv[i], "--w") == 0)) {
            bool x = argv[i][2] == 'x';
            if (!parse_shape(value, x ? &j->m : &w_rows, x ? &j->k : &j->n))
                return illegal(argv[i], value, "ROWSxCOLUMNS, 1 to 16 each, such as 4x5");
        } else if (value != NULL && strcmp(argv[i], "-n") == 0) {
            n_text = value;
        } else if (value != NULL && strcmp(argv[i], "--split") == 0) {
            int s = 0;
            while (s < 3 && strcmp(value, names[s]) != 0)
                s++;
            if (s == 3)
                return illegal("--split", value,
                    "x0 (rows of X), w1 (columns of W) or w0 (rows of W, and columns of X)");
            j->split = (enum split)s;
        } else
            return tr_demo_unknown("matmul", argv[i], value == NULL, "--x --w -n --split");
    }
    char legal[96];
    if (w_rows != j->k) {
        char shape[32];
        snprintf(shape, sizeof shape, "%dx%d", w_rows, j->n);
        snprintf(legal, sizeof legal, "%dx%d, for X has %d columns", j->k, j->n, j->k);
        return illegal("--w", shape, legal);
    }
    j->ranks = tr_demo_number(n_text);
    snprintf(legal, sizeof legal, "1 to %d, as many as split %s can cut", cut_length(j), names[j->split]);
    return j->ranks < 1 || j->ranks > cut_length(j) ? illegal("-n", n_text, legal) : 0;
}

int tr_demo_matmul(int argc, char **argv, struct tr_demo_sizes *s)
{
    struct tr_error e;
    struct job *j = tr_demo_shared(sizeof *j);
    if (j == NULL) {
        fprintf(stderr, "tutti-train demo: there is no memory\n");
        return 1;
    }
    j->m = 4, j->k = 5, j->n = 8;
    int status = parse(j, argc, argv);
    *s = (struct tr_demo_sizes){ j->ranks, j->m, j->k, j->n, (int)j->split };
    if (status == 0 && tr_demo_run(j->ranks, run_rank, j, &e))
        status = report(j);
    else if (status == 0) {
        fprintf(stderr, "tutti-train demo: %s\n", e.text);
        status = 1;
    }
    munmap(j, sizeof *j);
    return status;
}

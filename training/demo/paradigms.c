/* SPDX-License-Identifier: BSD-3-Clause */
/* paradigms.c: a net of two layers on two devices, by model, data and tensor parallelism: what each device
 * has, computes and sends, and that all three give what one device does.
 *
 * y = W2 (W1 x) of whole numbers, for a batch of four columns x; no layer bends its result, so that sums can
 * be checked by hand. */
#include "training/demo/demo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 4, BATCH = 4, ALL = SIZE * BATCH, RANKS = 2 };
enum way { MODEL, DATA, TENSOR, WAYS };

struct job {
    int32_t whole[ALL]; /* by one device */
    int32_t part[WAYS][RANKS][ALL], result[WAYS][RANKS][ALL];
};

static int32_t w_at(int layer, int row, int column)
{
    return (2 * layer + row * 3 + column * 5) % 7 - 3;
}
static int32_t x_at(int row, int column)
{
    return (row + 2 * column) % 5 - 1;
}

/* y[rows][columns] of rows row0.. of a layer, from columns k0 to k1 of it; x has those rows, and begins at
 * k0. */
struct product {
    int layer, row0, rows, k0, k1, columns;
};
static void multiply(int32_t *y, const struct product *p, const int32_t *x)
{
    for (int r = 0; r < p->rows; r++)
        for (int c = 0; c < p->columns; c++) {
            int32_t sum = 0;
            for (int k = p->k0; k < p->k1; k++)
                sum += w_at(p->layer, p->row0 + r, k) * x[(k - p->k0) * p->columns + c];
            y[r * p->columns + c] = sum;
        }
}

static void input(int32_t *x, int first, int columns)
{
    for (int r = 0; r < SIZE; r++)
        for (int c = 0; c < columns; c++)
            x[r * columns + c] = x_at(r, first + c);
}

static void both_layers(int32_t *y, int first, int columns)
{
    int32_t x[ALL], h[ALL];
    input(x, first, columns);
    multiply(h, &(struct product){ 0, 0, SIZE, 0, SIZE, columns }, x);
    multiply(y, &(struct product){ 1, 0, SIZE, 0, SIZE, columns }, h);
}

/* ---- on the ranks ---- */

static tutti_status model(struct job *j, int rank, tutti_comm *comm)
{
    int32_t x[ALL], *h = j->part[MODEL][rank], *y = j->result[MODEL][rank];
    if (rank == 0) {
        input(x, 0, BATCH);
        multiply(h, &(struct product){ 0, 0, SIZE, 0, SIZE, BATCH }, x);
        return tutti_send(h, ALL, TUTTI_INT32, 1, comm, tutti_no_stream());
    }
    tutti_status s = tutti_recv(h, ALL, TUTTI_INT32, 0, comm, tutti_no_stream());
    multiply(y, &(struct product){ 1, 0, SIZE, 0, SIZE, BATCH }, h);
    return s;
}

static tutti_status data(struct job *j, int rank)
{
    enum { MINE = BATCH / RANKS };
    both_layers(j->part[DATA][rank], rank * MINE, MINE);
    for (int i = 0; i < SIZE * MINE; i++) /* columns go to their places, those of the other rank stay 0 */
        j->result[DATA][rank][i / MINE * BATCH + rank * MINE + i % MINE] = j->part[DATA][rank][i];
    return TUTTI_OK;
}

static tutti_status tensor(struct job *j, int rank, tutti_comm *comm)
{
    enum { MINE = SIZE / RANKS };
    int32_t x[ALL], h[ALL], *y = j->part[TENSOR][rank];
    input(x, 0, BATCH);
    multiply(h, &(struct product){ 0, rank * MINE, MINE, 0, SIZE, BATCH }, x);
    multiply(y, &(struct product){ 1, 0, SIZE, rank * MINE, (rank + 1) * MINE, BATCH }, h);
    return tutti_all_reduce(y, j->result[TENSOR][rank], ALL, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
}

static tutti_status run_rank(int rank, tutti_comm *comm, void *shared)
{
    struct job *j = shared;
    tutti_status s = model(j, rank, comm);
    if (s == TUTTI_OK)
        s = data(j, rank);
    return s == TUTTI_OK ? tensor(j, rank, comm) : s;
}

/* ---- what is shown ---- */

static void show(const char *name, const int32_t *x, int rows, int columns)
{
    for (int r = 0; r < rows; r++) {
        printf("    %-22s", r ? "" : name);
        for (int c = 0; c < columns; c++)
            printf(" %4" PRId32, x[r * columns + c]);
        printf("\n");
    }
}

/* A way is right if what its ranks have makes the whole. */
static bool is_right(const struct job *j, enum way way)
{
    int32_t y[ALL];
    for (int i = 0; i < ALL; i++)
        y[i] = way == DATA ? j->result[DATA][0][i] + j->result[DATA][1][i] : j->result[way][1][i];
    bool right = !memcmp(y, j->whole, sizeof y);
    if (way == TENSOR)
        right = right && !memcmp(j->result[TENSOR][0], j->whole, sizeof y);
    printf("  %s\n", right ? "equal to one device" : "NOT EQUAL to one device");
    return right;
}

static int report(const struct job *j)
{
    int right = 0;
    printf("y = W2 (W1 x): two layers of 4 x 4 weights, a batch of 4 columns, on 2 devices\n");
    show("one device: y", j->whole, SIZE, BATCH);
    printf("\nmodel parallel: a layer on each; the second waits for the first\n\n"
           "    x --> [ rank 0: W1 ] --h, 64 bytes--> [ rank 1: W2 ] --> y\n\n");
    show("rank 0 sends h", j->part[MODEL][0], SIZE, BATCH);
    show("rank 1: y", j->result[MODEL][1], SIZE, BATCH);
    printf("  16 numbers of weights on each rank; one computes at a time\n");
    right += is_right(j, MODEL);
    printf("\ndata parallel: both layers on each, and half of the batch\n\n"
           "    x, columns 0-1 --> [ rank 0: W1 W2 ] --> y, columns 0-1\n"
           "                              ^ gradients of W1 and W2 are added, 128 bytes\n"
           "                              v\n"
           "    x, columns 2-3 --> [ rank 1: W1 W2 ] --> y, columns 2-3\n\n");
    show("rank 0: y", j->part[DATA][0], SIZE, BATCH / RANKS);
    show("rank 1: y", j->part[DATA][1], SIZE, BATCH / RANKS);
    printf("  32 numbers of weights on each rank; nothing is sent before the gradients\n");
    right += is_right(j, DATA);
    printf("\ntensor parallel: a part of each layer on each, and all of the batch\n\n"
           "    x --> [ rank 0: W1 rows 0-1 | W2 columns 0-1 ] --> a part of each sum -+\n"
           "                                                                           + --> y, 64 bytes\n"
           "    x --> [ rank 1: W1 rows 2-3 | W2 columns 2-3 ] --> a part of each sum -+\n\n");
    show("rank 0: a part", j->part[TENSOR][0], SIZE, BATCH);
    show("rank 1: a part", j->part[TENSOR][1], SIZE, BATCH);
    show("both, after all_reduce", j->result[TENSOR][0], SIZE, BATCH);
    printf("  16 numbers of weights on each rank; both compute at a time\n");
    right += is_right(j, TENSOR);
    return right != WAYS;
}

int tr_demo_paradigms(int argc, char **argv, struct tr_demo_sizes *s)
{
    struct tr_error e;
    if (argc > 1)
        return tr_demo_unknown("paradigms", argv[1], false, "none");
    struct job *j = tr_demo_shared(sizeof *j);
    if (!j)
        return tr_demo_no_memory();
    *s = (struct tr_demo_sizes){ .ranks = RANKS };
    both_layers(j->whole, 0, BATCH);
    int status = tr_demo_run(RANKS, run_rank, j, &e) ? report(j) : tr_demo_failed(&e);
    munmap(j, sizeof *j);
    return status;
}

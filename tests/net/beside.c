/* SPDX-License-Identifier: BSD-3-Clause */
/* beside.c: calls of few bytes in one communicator while another one of the same ranks sends 16 MiB and again
 * 16 MiB. Rank 0 prints how long the calls of few bytes took then: their median, in microseconds. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tutti.h"

enum { LONG_BYTES = 16 << 20, CALLS = 40 };

static tutti_comm *world, *second;
static atomic_int stop;

static void check(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "beside: %s\n", tutti_get_last_error(NULL));
    exit(1);
}

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 }, NULL);
}

/* All ranks agree on the last one. */
static void *send_long_ones(void *buffers)
{
    float *send = buffers, *recv = send + LONG_BYTES / sizeof *send;
    for (int over = 0; over == 0;) {
        int mine = atomic_load(&stop);
        check(tutti_all_reduce(
            send, recv, LONG_BYTES / sizeof *send, TUTTI_FLOAT32, TUTTI_SUM, world, tutti_no_stream()));
        check(tutti_all_reduce(&mine, &over, 1, TUTTI_INT32, TUTTI_MAX, world, tutti_no_stream()));
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(void)
{
    double times[CALLS];
    float one = 1, sum;
    pthread_t thread;
    check(tutti_comm_init_env(NULL, &world));
    check(tutti_comm_split(world, 0, tutti_comm_rank(world), NULL, &second));
    void *buffers = calloc(2, LONG_BYTES);
    if (buffers == NULL || pthread_create(&thread, NULL, send_long_ones, buffers) != 0)
        return 1;
    pause_us(500000);
    for (int i = 0; i < CALLS; i++) {
        double begin = now_us();
        check(tutti_all_reduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, second, tutti_no_stream()));
        times[i] = now_us() - begin;
        pause_us(10000);
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    qsort(times, CALLS, sizeof *times, compare);
    if (tutti_comm_rank(world) == 0)
        printf("%.0f\n", times[CALLS / 2]);
    check(tutti_comm_destroy(second));
    check(tutti_comm_destroy(world));
    free(buffers);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* launch.h: how the ranks of a run are started, and how they share results.
 *
 * collperf forks the processes of its ranks; each has one rank, or several as threads. Under a launcher the
 * launcher has started the processes, and this is one of them. A rank group is all ranks of a run. (It is no
 * group of calls, which tutti_group_start begins.) */
#ifndef PERF_LAUNCH_H
#define PERF_LAUNCH_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "flag.h"
#include "progress.h"
#include "tutti.h"

enum { PERF_RECORD_BYTES = 8192 }; /* room for the times of many calls */

/* Memory that all processes of a run have mapped, where collperf has forked them. */
struct perf_shared_page {
    pthread_barrier_t barrier;
    struct perf_flag flag;
    tutti_id id;
    tutti_status id_status;
    struct perf_progress progress;
    uint8_t records[][PERF_RECORD_BYTES]; /* one per rank */
};

/* What the ranks of a process share that a launcher has started, and that has several. */
struct perf_process {
    int threads;
    pthread_barrier_t barrier;
    tutti_id id; /* of the communicator of all ranks */
    int n, first; /* all ranks; the first of this process */
};

/* The rank group as one rank sees it. */
struct perf_rank_group {
    int n, rank;
    struct perf_shared_page *page; /* NULL under a launcher */
    struct perf_process *process; /* NULL if this process has one rank, or was forked by collperf */
    int thread; /* of that process */
    tutti_comm *comm; /* of all ranks; NULL until perf_group_connect */
    double began, ended; /* when perf_group_connect did; with a shared page all ranks began together */
    double clock_offset; /* seconds by which rank 0's clock is ahead of this rank's; 0: it is the same */
    struct perf_flag *flag; /* in the shared page, or in memory of ranks 0 and 1 alone */
    bool flagged; /* ranks 0 and 1 share the flag; the same at all ranks */
    struct perf_progress progress; /* used without a shared page */
};

typedef int (*perf_rank_main)(struct perf_rank_group *group, void *context);

/* Returns the name of the environment variable by which a launcher tells this process that it is one rank of
 * a job; NULL if none is set. */
const char *perf_launcher(void);

/* Starts `processes` processes with `threads` ranks each, calls rank_main in each rank, and returns when all
 * have ended. The result is the highest exit code of a rank. The first process that dies or fails ends all
 * others, and the result is then PERF_EXIT_FAILED or PERF_EXIT_USAGE. With processes 0, under a launcher, it
 * calls rank_main in this process, in as many threads. */
int perf_launch(int processes, int threads, perf_rank_main rank_main, void *context);

/* Creates group->comm, the communicator of all ranks. It prints an error, with the rank. */
tutti_status perf_group_connect(struct perf_rank_group *group, const tutti_config *config);

/* Gathers a record of every rank at every rank: that of rank i begins at byte i * bytes of `all`. All ranks
 * call it, with the same `bytes`, at most PERF_RECORD_BYTES. */
tutti_status perf_group_exchange(struct perf_rank_group *group, const void *mine, size_t bytes, void *all);

/* Returns the time by rank 0's clock, to compare with other ranks'. */
double perf_group_clock_seconds(const struct perf_rank_group *group);

/* Waits until all ranks have called it. Without a shared page (under a launcher) it returns at once. */
void perf_group_barrier(struct perf_rank_group *group);

/* Measures the round trip of a flag between ranks 0 and 1. All ranks call it. Rank 0 gets the seconds, or a
 * negative number where there is no flag; the others get a negative number. */
double perf_group_flag_round_trip(struct perf_rank_group *group);

/* Sets what the progress line says that rank 0 is doing; nothing at other ranks. */
void perf_group_show_progress(struct perf_rank_group *group, const char *doing);
/* Clears the progress line, before rank 0 prints where the user looks. */
void perf_group_hide_progress(struct perf_rank_group *group);

/* Prints what went wrong at this rank: "collperf: rank 1: <what>: <status>: <the library's text>". */
void perf_group_print_error(const struct perf_rank_group *group, const char *what, tutti_status status);

#endif

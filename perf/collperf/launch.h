/* SPDX-License-Identifier: BSD-3-Clause */
/* launch.h: the ranks of a run, and what they share beside the library.
 *
 * Ranks are processes forked here, threads of such processes, or, under a launcher, this process alone. A
 * rank meets the others through a page of shared memory where there is one, so that results about the library
 * do not pass through it; only under a launcher do they. */
#ifndef PERF_LAUNCH_H
#define PERF_LAUNCH_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "flag.h"
#include "progress.h"
#include "tutti.h"

enum { PERF_RECORD_BYTES = 8192 }; /* room for the moments of many calls */

/* The page. Each process of a run sees it. */
struct perf_board {
    pthread_barrier_t barrier;
    struct perf_flag flag;
    tutti_id id;
    tutti_status id_status;
    struct perf_progress progress;
    uint8_t records[][PERF_RECORD_BYTES]; /* one per rank */
};

/* One rank's place in a run. */
struct perf_crew {
    int n, rank;
    struct perf_board *board; /* NULL under a launcher */
    tutti_comm *comm; /* of all ranks; NULL until perf_crew_connect, which */
    double began, ended; /* began and ended then; with a board all ranks began together */
    struct perf_flag *flag; /* the board's, or what ranks 0 and 1 share without one */
    bool flagged; /* it is there: the same at all ranks */
    struct perf_progress progress; /* without a board */
};

typedef int (*perf_rank_main)(struct perf_crew *crew, void *context);

/* The variable that says that this process is one rank of a launcher's job; NULL if there is none. */
const char *perf_launcher(void);

/* Run all ranks and return the exit code: that of the ranks, or PERF_EXIT_FAILED if one died or failed. With
 * processes 0 the caller's process is the one rank. `tool` is the name to complain with. */
int perf_launch(int processes, int threads, perf_rank_main rank_main, void *context);

/* Make crew->comm. An error is printed, with the rank. */
tutti_status perf_crew_connect(struct perf_crew *crew, const tutti_config *config);

/* Every rank gives a record of at most PERF_RECORD_BYTES and gets those of all, `bytes` apart, in rank order.
 */
tutti_status perf_crew_exchange(struct perf_crew *crew, const void *mine, size_t bytes, void *all);

/* All ranks have come here; where there is no board nobody waits. */
void perf_crew_meet(struct perf_crew *crew);

/* The flag round trip between ranks 0 and 1 in seconds, on rank 0; negative where it cannot be measured. All
 * ranks call it. */
double perf_crew_flag(struct perf_crew *crew);

/* Rank 0 is at work on `doing`. */
void perf_crew_doing(struct perf_crew *crew, const char *doing);
/* Rank 0 is about to print where the user looks. */
void perf_crew_prints(struct perf_crew *crew);

/* Say what went wrong at this rank: "collperf: rank 1: <what>: <status>: <the library's text>". */
void perf_crew_report(const struct perf_crew *crew, const char *what, tutti_status status);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* crew.c: how a rank meets the others.
 *
 * With a board the ranks meet at a barrier of the C library, which sleeps: a rank that waits takes no core
 * from one that still computes. It is never inside a timed loop. */
#include "launch.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"

void perf_crew_report(const struct perf_crew *crew, const char *what, tutti_status status)
{
    const char *text = tutti_get_last_error(NULL);
    const char *name = tutti_status_string(status);
    fprintf(stderr, "collperf: rank %d: %s: %s%s%s\n", crew->rank, what, name,
        text != NULL && *text ? ": " : "", text != NULL ? text : "");
}

void perf_crew_meet(struct perf_crew *crew)
{
    if (crew->board != NULL)
        pthread_barrier_wait(&crew->board->barrier);
}

tutti_status perf_crew_connect(struct perf_crew *crew, const tutti_config *config)
{
    struct perf_board *board = crew->board;
    tutti_status status;
    perf_crew_meet(crew);
    crew->began = perf_clock_seconds();
    if (board == NULL) {
        status = tutti_comm_init_env(config, &crew->comm);
        if (status == TUTTI_OK) {
            crew->n = tutti_comm_size(crew->comm);
            crew->rank = tutti_comm_rank(crew->comm);
        }
    } else {
        if (crew->rank == 0)
            board->id_status = tutti_get_id(&board->id);
        if (crew->rank == 0 && board->id_status != TUTTI_OK)
            perf_crew_report(crew, "get_id", board->id_status);
        perf_crew_meet(crew);
        if (board->id_status != TUTTI_OK)
            return board->id_status;
        status = tutti_comm_init_rank(crew->n, crew->rank, &board->id, config, &crew->comm);
    }
    crew->ended = perf_clock_seconds();
    if (status != TUTTI_OK)
        perf_crew_report(crew, "start of the communicator", status);
    return status;
}

tutti_status perf_crew_exchange(struct perf_crew *crew, const void *mine, size_t bytes, void *all)
{
    if (crew->board == NULL) {
        tutti_status status = tutti_all_gather(mine, all, bytes, TUTTI_UINT8, crew->comm, tutti_no_stream());
        if (status != TUTTI_OK)
            perf_crew_report(crew, "exchange of results", status);
        return status;
    }
    memcpy(crew->board->records[crew->rank], mine, bytes);
    perf_crew_meet(crew);
    for (int i = 0; i < crew->n; i++)
        memcpy((char *)all + (size_t)i * bytes, crew->board->records[i], bytes);
    perf_crew_meet(crew); /* nobody writes the next record while somebody still reads this one */
    return TUTTI_OK;
}

double perf_crew_flag(struct perf_crew *crew)
{
    if (crew->board == NULL || crew->n < 2)
        return -1;
    double round_trip = -1;
    if (crew->rank == 0) {
        atomic_store(&crew->board->flag.ping, 0); /* the time before ended with another value */
        atomic_store(&crew->board->flag.pong, 0);
    }
    perf_crew_meet(crew);
    if (crew->rank == 0)
        round_trip = perf_flag_lead(&crew->board->flag);
    if (crew->rank == 1)
        perf_flag_follow(&crew->board->flag);
    perf_crew_meet(crew);
    return round_trip;
}

static struct perf_progress *progress_of(struct perf_crew *crew)
{
    return crew->board != NULL ? &crew->board->progress : &crew->progress;
}

void perf_crew_doing(struct perf_crew *crew, const char *doing)
{
    if (crew->rank != 0)
        return;
    snprintf(progress_of(crew)->doing, PERF_DOING_BYTES, "%s", doing);
    if (crew->board == NULL)
        perf_progress_show(&crew->progress);
}

void perf_crew_prints(struct perf_crew *crew)
{
    perf_progress_hide(progress_of(crew));
}

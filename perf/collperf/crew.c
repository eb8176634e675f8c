/* SPDX-License-Identifier: BSD-3-Clause */
/* crew.c: how a rank meets the others.
 *
 * With a board the ranks meet at a barrier of the C library, which sleeps: a rank that waits takes no core
 * from one that still computes. It is never inside a timed loop. Under a launcher, where no common parent
 * made a board, ranks 0 and 1 share a page of their own for the flag. */
#include "launch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Where rank 0 has the page of the flag: rank 1 opens it there, and its number tells that it is this one. */
struct page {
    int64_t pid, file, number; /* file negative: there is none */
};

static struct page make_page(int *file)
{
    struct stat status;
    *file = memfd_create("collperf", MFD_CLOEXEC);
    if (*file < 0 || ftruncate(*file, sizeof(struct perf_flag)) != 0 || fstat(*file, &status) != 0)
        return (struct page){ 0, -1, 0 };
    return (struct page){ getpid(), *file, (int64_t)status.st_ino };
}

static int open_page(const struct page *page)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/fd/%" PRId64, page->pid, page->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || (fstat(file, &status) == 0 && (int64_t)status.st_ino == page->number))
        return file;
    close(file);
    return -1;
}

/* In another container, or without /proc, there is no flag; nothing else is missing then. */
static tutti_status share_flag(struct perf_crew *crew)
{
    struct page page = { 0 };
    int file = -1;
    int32_t good = 1;
    if (crew->rank == 0)
        page = make_page(&file);
    tutti_status status =
        tutti_broadcast(&page, &page, sizeof page, TUTTI_UINT8, 0, crew->comm, tutti_no_stream());
    if (status == TUTTI_OK && crew->rank == 1 && page.file >= 0)
        file = open_page(&page);
    if (crew->rank < 2) {
        void *memory = mmap(NULL, sizeof(struct perf_flag), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        crew->flag = memory != MAP_FAILED ? memory : NULL;
        good = crew->flag != NULL;
    }
    if (status == TUTTI_OK)
        status = tutti_all_reduce(&good, &good, 1, TUTTI_INT32, TUTTI_MIN, crew->comm, tutti_no_stream());
    if (file >= 0)
        close(file);
    crew->flagged = good == 1;
    return status;
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
        crew->ended = perf_clock_seconds();
        if (status == TUTTI_OK && crew->n > 1)
            status = share_flag(crew);
    } else {
        if (crew->rank == 0)
            board->id_status = tutti_get_id(&board->id);
        if (crew->rank == 0 && board->id_status != TUTTI_OK)
            perf_crew_report(crew, "get_id", board->id_status);
        perf_crew_meet(crew);
        if (board->id_status != TUTTI_OK)
            return board->id_status;
        status = tutti_comm_init_rank(crew->n, crew->rank, &board->id, config, &crew->comm);
        crew->ended = perf_clock_seconds();
        crew->flag = &board->flag;
        crew->flagged = crew->n > 1;
    }
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

/* Also without a board. */
static bool meet_all(struct perf_crew *crew)
{
    perf_crew_meet(crew);
    return crew->board != NULL || tutti_barrier(crew->comm, tutti_no_stream()) == TUTTI_OK;
}

double perf_crew_flag(struct perf_crew *crew)
{
    if (!crew->flagged)
        return -1;
    double round_trip = -1;
    if (crew->rank == 0) {
        atomic_store(&crew->flag->ping, 0); /* the time before ended with another value */
        atomic_store(&crew->flag->pong, 0);
    }
    if (!meet_all(crew))
        return -1; /* the next call says why */
    if (crew->rank == 0)
        round_trip = perf_flag_lead(crew->flag);
    if (crew->rank == 1)
        perf_flag_follow(crew->flag);
    meet_all(crew);
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

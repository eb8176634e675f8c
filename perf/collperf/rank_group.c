/* SPDX-License-Identifier: BSD-3-Clause */
/* rank_group.c: barriers and exchanges among the ranks of a run.
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

void perf_group_print_error(const struct perf_rank_group *group, const char *what, tutti_status status)
{
    const char *text = tutti_get_last_error(NULL);
    const char *name = tutti_status_string(status);
    fprintf(stderr, "collperf: rank %d: %s: %s%s%s\n", group->rank, what, name,
        text != NULL && *text ? ": " : "", text != NULL ? text : "");
}

void perf_group_barrier(struct perf_rank_group *group)
{
    if (group->board != NULL)
        pthread_barrier_wait(&group->board->barrier);
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
static tutti_status share_flag(struct perf_rank_group *group)
{
    struct page page = { 0 };
    int file = -1;
    int32_t good = 1;
    if (group->rank == 0)
        page = make_page(&file);
    tutti_status status =
        tutti_broadcast(&page, &page, sizeof page, TUTTI_UINT8, 0, group->comm, tutti_no_stream());
    if (status == TUTTI_OK && group->rank == 1 && page.file >= 0)
        file = open_page(&page);
    if (group->rank < 2) {
        void *memory = mmap(NULL, sizeof(struct perf_flag), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        group->flag = memory != MAP_FAILED ? memory : NULL;
        good = group->flag != NULL;
    }
    if (status == TUTTI_OK)
        status = tutti_all_reduce(&good, &good, 1, TUTTI_INT32, TUTTI_MIN, group->comm, tutti_no_stream());
    if (file >= 0)
        close(file);
    group->flagged = good == 1;
    return status;
}

tutti_status perf_group_connect(struct perf_rank_group *group, const tutti_config *config)
{
    struct perf_board *board = group->board;
    tutti_status status;
    perf_group_barrier(group);
    group->began = perf_clock_seconds();
    if (board == NULL) {
        status = tutti_comm_init_env(config, &group->comm);
        if (status == TUTTI_OK) {
            group->n = tutti_comm_size(group->comm);
            group->rank = tutti_comm_rank(group->comm);
        }
        group->ended = perf_clock_seconds();
        if (status == TUTTI_OK && group->n > 1)
            status = share_flag(group);
    } else {
        if (group->rank == 0)
            board->id_status = tutti_get_id(&board->id);
        if (group->rank == 0 && board->id_status != TUTTI_OK)
            perf_group_print_error(group, "get_id", board->id_status);
        perf_group_barrier(group);
        if (board->id_status != TUTTI_OK)
            return board->id_status;
        status = tutti_comm_init_rank(group->n, group->rank, &board->id, config, &group->comm);
        group->ended = perf_clock_seconds();
        group->flag = &board->flag;
        group->flagged = group->n > 1;
    }
    if (status != TUTTI_OK)
        perf_group_print_error(group, "start of the communicator", status);
    return status;
}

tutti_status perf_group_exchange(struct perf_rank_group *group, const void *mine, size_t bytes, void *all)
{
    if (group->board == NULL) {
        tutti_status status = tutti_all_gather(mine, all, bytes, TUTTI_UINT8, group->comm, tutti_no_stream());
        if (status != TUTTI_OK)
            perf_group_print_error(group, "exchange of results", status);
        return status;
    }
    memcpy(group->board->records[group->rank], mine, bytes);
    perf_group_barrier(group);
    for (int i = 0; i < group->n; i++)
        memcpy((char *)all + (size_t)i * bytes, group->board->records[i], bytes);
    perf_group_barrier(group); /* nobody writes the next record while somebody still reads this one */
    return TUTTI_OK;
}

/* Also without a board. */
static bool meet_all(struct perf_rank_group *group)
{
    perf_group_barrier(group);
    return group->board != NULL || tutti_barrier(group->comm, tutti_no_stream()) == TUTTI_OK;
}

double perf_group_flag_round_trip(struct perf_rank_group *group)
{
    if (!group->flagged)
        return -1;
    double round_trip = -1;
    if (group->rank == 0) {
        atomic_store(&group->flag->ping, 0); /* the time before ended with another value */
        atomic_store(&group->flag->pong, 0);
    }
    if (!meet_all(group))
        return -1; /* the next call says why */
    if (group->rank == 0)
        round_trip = perf_flag_lead(group->flag);
    if (group->rank == 1)
        perf_flag_follow(group->flag);
    meet_all(group);
    return round_trip;
}

static struct perf_progress *progress_of(struct perf_rank_group *group)
{
    return group->board != NULL ? &group->board->progress : &group->progress;
}

void perf_group_show_progress(struct perf_rank_group *group, const char *doing)
{
    if (group->rank != 0)
        return;
    snprintf(progress_of(group)->doing, PERF_DOING_BYTES, "%s", doing);
    if (group->board == NULL)
        perf_progress_show(&group->progress);
}

void perf_group_hide_progress(struct perf_rank_group *group)
{
    perf_progress_hide(progress_of(group));
}

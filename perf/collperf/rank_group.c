/* SPDX-License-Identifier: BSD-3-Clause */
/* rank_group.c: barriers and exchanges among the ranks of a run.
 *
 * With a shared page the ranks wait in a barrier of the C library, which sleeps: a rank that waits takes no
 * core from one that still computes. No timed loop has a barrier. Under a launcher no common parent made a
 * shared page, and records are gathered by the library itself; ranks 0 and 1 share a file for the flag. Ranks
 * of several hosts have several clocks, too. */
#include "launch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"

enum { CLOCK_QUESTIONS = 16 };

/* Under a launcher a rank has its number from the communicator. */
void perf_group_print_error(const struct perf_rank_group *group, const char *what, tutti_status status)
{
    const char *text = tutti_get_last_error(NULL);
    const char *name = tutti_status_string(status);
    char rank[24] = "";
    if (group->page != NULL || group->comm != NULL)
        snprintf(rank, sizeof rank, "rank %d: ", group->rank);
    fprintf(stderr, "collperf: %s%s: %s%s%s\n", rank, what, name, text != NULL && *text ? ": " : "",
        text != NULL ? text : "");
}

void perf_group_barrier(struct perf_rank_group *group)
{
    if (group->page != NULL)
        pthread_barrier_wait(&group->page->barrier);
}

/* The memory file of the flag, as rank 0 describes it to rank 1, which opens it through /proc. The inode
 * number tells that what was opened is this file. */
struct flag_file {
    int64_t pid, file, number; /* `file` is negative if there is none */
};

static struct flag_file create_flag_file(int *file)
{
    struct stat status;
    *file = memfd_create("collperf", MFD_CLOEXEC);
    if (*file < 0 || ftruncate(*file, sizeof(struct perf_flag)) != 0 || fstat(*file, &status) != 0)
        return (struct flag_file){ 0, -1, 0 };
    return (struct flag_file){ getpid(), *file, (int64_t)status.st_ino };
}

static int open_flag_file(const struct flag_file *flag_file)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/fd/%" PRId64, flag_file->pid, flag_file->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || (fstat(file, &status) == 0 && (int64_t)status.st_ino == flag_file->number))
        return file;
    close(file);
    return -1;
}

/* Opens the flag at ranks 0 and 1, and tells all ranks whether that went well: not in another container, and
 * not without /proc. Without a flag nothing else is missing. */
static tutti_status share_flag(struct perf_rank_group *group)
{
    struct flag_file flag_file = { 0 };
    int file = -1;
    int32_t good = 1;
    if (group->rank == 0)
        flag_file = create_flag_file(&file);
    tutti_status status = tutti_broadcast(
        &flag_file, &flag_file, sizeof flag_file, TUTTI_UINT8, 0, group->comm, tutti_no_stream());
    if (status == TUTTI_OK && group->rank == 1 && flag_file.file >= 0)
        file = open_flag_file(&flag_file);
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

/* Rank 0 tells this rank the time, between two readings of its own. Where the clock is one, the answer lies
 * between them. Else the shortest of several questions says best how far apart the clocks are (F. Cristian:
 * Probabilistic clock synchronization. Distributed Computing 3, 1989). */
static tutti_status ask_for_clock(struct perf_rank_group *group)
{
    double shortest = -1, there = 0;
    bool one_clock = true;
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < CLOCK_QUESTIONS && status == TUTTI_OK; i++) {
        double before = perf_clock_seconds();
        status = tutti_send(&before, 1, TUTTI_FLOAT64, 0, group->comm, tutti_no_stream());
        if (status == TUTTI_OK)
            status = tutti_recv(&there, 1, TUTTI_FLOAT64, 0, group->comm, tutti_no_stream());
        double after = perf_clock_seconds();
        one_clock = one_clock && before <= there && there <= after;
        if (shortest < 0 || after - before < shortest) {
            shortest = after - before;
            group->clock_offset = there - (before + after) / 2;
        }
    }
    if (one_clock)
        group->clock_offset = 0;
    return status;
}

static tutti_status share_clock(struct perf_rank_group *group)
{
    tutti_status status = TUTTI_OK;
    if (group->rank != 0)
        return ask_for_clock(group);
    for (int i = 0; i < (group->n - 1) * CLOCK_QUESTIONS && status == TUTTI_OK; i++) {
        int rank = 1 + i / CLOCK_QUESTIONS;
        double asked, now;
        status = tutti_recv(&asked, 1, TUTTI_FLOAT64, rank, group->comm, tutti_no_stream());
        now = perf_clock_seconds();
        if (status == TUTTI_OK)
            status = tutti_send(&now, 1, TUTTI_FLOAT64, rank, group->comm, tutti_no_stream());
    }
    return status;
}

double perf_group_clock_seconds(const struct perf_rank_group *group)
{
    return perf_clock_seconds() + group->clock_offset;
}

/* The first thread of each process meets the other processes, and learns the id of all ranks. */
static tutti_status meet_processes(struct perf_process *process, const tutti_config *config)
{
    tutti_config plain = { .size = sizeof plain, .timeout_ms = config->timeout_ms, .name = "processes" };
    tutti_comm *comm = NULL;
    tutti_status status = tutti_comm_init_env(&plain, &comm);
    if (status != TUTTI_OK)
        return status;
    process->n = tutti_comm_size(comm) * process->threads;
    process->first = tutti_comm_rank(comm) * process->threads;
    if (process->first == 0)
        status = tutti_get_id(&process->id);
    if (status == TUTTI_OK)
        status = tutti_broadcast(
            &process->id, &process->id, sizeof process->id, TUTTI_UINT8, 0, comm, tutti_no_stream());
    if (status == TUTTI_OK)
        status = tutti_comm_finalize(comm);
    tutti_comm_destroy(comm);
    return status;
}

/* Under a launcher: each of its processes is a rank, or each thread of them. */
static tutti_status join_launched(struct perf_rank_group *group, const tutti_config *config)
{
    struct perf_process *process = group->process;
    if (process == NULL)
        return tutti_comm_init_env(config, &group->comm);
    if (group->thread == 0) {
        tutti_status status = meet_processes(process, config);
        if (status != TUTTI_OK) { /* its fellows do not know why */
            perf_group_print_error(group, "start of the communicator", status);
            exit(PERF_EXIT_FAILED);
        }
    }
    pthread_barrier_wait(&process->barrier);
    return tutti_comm_init_rank(
        process->n, process->first + group->thread, &process->id, config, &group->comm);
}

tutti_status perf_group_connect(struct perf_rank_group *group, const tutti_config *config)
{
    struct perf_shared_page *page = group->page;
    tutti_status status;
    perf_group_barrier(group);
    group->began = perf_clock_seconds();
    if (page == NULL) {
        status = join_launched(group, config);
        if (status == TUTTI_OK) {
            group->n = tutti_comm_size(group->comm);
            group->rank = tutti_comm_rank(group->comm);
        }
        group->ended = perf_clock_seconds();
        if (status == TUTTI_OK && group->n > 1)
            status = share_flag(group);
        if (status == TUTTI_OK && group->n > 1)
            status = share_clock(group);
    } else {
        if (group->rank == 0)
            page->id_status = tutti_get_id(&page->id);
        if (group->rank == 0 && page->id_status != TUTTI_OK)
            perf_group_print_error(group, "get_id", page->id_status);
        perf_group_barrier(group);
        if (page->id_status != TUTTI_OK)
            return page->id_status;
        status = tutti_comm_init_rank(group->n, group->rank, &page->id, config, &group->comm);
        group->ended = perf_clock_seconds();
        group->flag = &page->flag;
        group->flagged = group->n > 1;
    }
    if (status != TUTTI_OK)
        perf_group_print_error(group, "start of the communicator", status);
    return status;
}

tutti_status perf_group_exchange(struct perf_rank_group *group, const void *mine, size_t bytes, void *all)
{
    if (group->page == NULL) {
        tutti_status status = tutti_all_gather(mine, all, bytes, TUTTI_UINT8, group->comm, tutti_no_stream());
        if (status != TUTTI_OK)
            perf_group_print_error(group, "exchange of results", status);
        return status;
    }
    memcpy(group->page->records[group->rank], mine, bytes);
    perf_group_barrier(group);
    for (int i = 0; i < group->n; i++)
        memcpy((char *)all + (size_t)i * bytes, group->page->records[i], bytes);
    perf_group_barrier(group); /* nobody writes the next record while somebody still reads this one */
    return TUTTI_OK;
}

/* A barrier with or without a shared page; false if it failed. */
static bool barrier_of_all(struct perf_rank_group *group)
{
    perf_group_barrier(group);
    return group->page != NULL || tutti_barrier(group->comm, tutti_no_stream()) == TUTTI_OK;
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
    if (!barrier_of_all(group))
        return -1; /* the next call says why */
    if (group->rank == 0)
        round_trip = perf_flag_lead(group->flag);
    if (group->rank == 1)
        perf_flag_follow(group->flag);
    barrier_of_all(group);
    return round_trip;
}

static struct perf_progress *progress_of(struct perf_rank_group *group)
{
    return group->page != NULL ? &group->page->progress : &group->progress;
}

void perf_group_show_progress(struct perf_rank_group *group, const char *doing)
{
    if (group->rank != 0)
        return;
    snprintf(progress_of(group)->doing, PERF_DOING_BYTES, "%s", doing);
    if (group->page == NULL)
        perf_progress_show(&group->progress);
}

void perf_group_hide_progress(struct perf_rank_group *group)
{
    perf_progress_hide(progress_of(group));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* rank.c: what each rank of a trial does: all kinds of calls without end, every result checked, until one
 * fails; then it looks at what stayed behind. */
#include "tests/campaign/campaign.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { STEPS_BEFORE_DESTROY = 4, LINGER_US = 3000, POLL_US = 1000, SOON_US = 5000000 };

struct me {
    const struct trial *trial;
    struct scene *scene;
    struct record *record;
    int n, rank;
    uint64_t random;
    size_t count; /* elements of each buffer */
    uint64_t *in, *out;
    tutti_comm *comm, *child;
    tutti_stream stream;
    tutti_program *program;
};

int64_t campaign_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool campaign_is_victim(const struct trial *trial, int rank)
{
    bool found = false;
    for (int i = 0; i < trial->victim_count; i++)
        found = found || trial->victims[i] == rank;
    return found;
}

static void at(struct me *me, const char *what)
{
    snprintf(me->record->at, sizeof me->record->at, "%s", what);
}

static void wrong(struct me *me, const char *what)
{
    if (me->record->wrong[0] == '\0')
        snprintf(
            me->record->wrong, sizeof me->record->wrong, "rank %d, %s: %s", me->rank, me->record->at, what);
}

/* --- Calls, and their results. Element i of rank r in step s is (r + 1) * (s * STRIDE + i). */

enum { STRIDE = 1000003 };

static void fill(struct me *me, uint64_t s)
{
    for (size_t i = 0; i < me->count; i++) {
        me->in[i] = (uint64_t)(me->rank + 1) * (s * STRIDE + i);
        me->out[i] = UINT64_MAX;
    }
}

/* `count` elements at `from` of the result are `factor` times those from `first` on. */
static void check(struct me *me, size_t from, size_t count, int factor, uint64_t first)
{
    for (size_t i = 0; i < count; i++)
        if (me->out[from + i] != (uint64_t)factor * (first + i)) {
            char text[120];
            snprintf(text, sizeof text, "element %zu is %llu, expected %llu", from + i,
                (unsigned long long)me->out[from + i], (unsigned long long)factor * (first + i));
            wrong(me, text);
            return;
        }
}

static tutti_status step_blocks(struct me *me, uint64_t s, uint32_t which)
{
    tutti_stream none = tutti_no_stream();
    size_t count = me->count / (size_t)me->n;
    uint64_t mine = s * STRIDE + (uint64_t)me->rank * count;
    tutti_status status;
    if (which == 0) {
        at(me, "reduce_scatter");
        status = tutti_reduce_scatter(me->in, me->out, count, TUTTI_UINT64, TUTTI_SUM, me->comm, none);
        if (status == TUTTI_OK)
            check(me, 0, count, me->n * (me->n + 1) / 2, mine);
        return status;
    }
    at(me, which == 1 ? "all_gather" : "all_to_all");
    status = which == 1 ? tutti_all_gather(me->in, me->out, count, TUTTI_UINT64, me->comm, none)
                        : tutti_all_to_all(me->in, me->out, count, TUTTI_UINT64, me->comm, none);
    for (int r = 0; status == TUTTI_OK && r < me->n; r++)
        check(me, (size_t)r * count, count, r + 1, which == 1 ? s * STRIDE : mine);
    return status;
}

static tutti_status step_group(struct me *me, uint64_t s)
{
    tutti_stream none = tutti_no_stream();
    size_t half = me->count / 2;
    int left = (me->rank + me->n - 1) % me->n, right = (me->rank + 1) % me->n;
    at(me, "a group");
    tutti_group_start();
    tutti_send(me->in, half, TUTTI_UINT64, right, me->comm, none);
    tutti_recv(me->out, half, TUTTI_UINT64, left, me->comm, none);
    tutti_all_reduce(me->in + half, me->out + half, half, TUTTI_UINT64, TUTTI_SUM, me->comm, none);
    tutti_status status = tutti_group_end();
    if (status == TUTTI_OK) {
        check(me, 0, half, left + 1, s * STRIDE);
        check(me, half, half, me->n * (me->n + 1) / 2, s * STRIDE + half);
    }
    return status;
}

/* The sum over all ranks: at once, on a stream, or by the program, which was kept at the beginning. */
static tutti_status step_sum(struct me *me, uint64_t s, uint32_t which)
{
    tutti_status status;
    uint64_t point = 0;
    if (which == 1 && me->program != NULL) {
        at(me, "a program");
        status = tutti_program_start(me->program);
    } else {
        at(me, which == 2 ? "all_reduce on a stream" : "all_reduce");
        status = tutti_all_reduce(me->in, me->out, me->count, TUTTI_UINT64, TUTTI_SUM, me->comm,
            which == 2 ? me->stream : tutti_no_stream());
        if (which == 2 && status == TUTTI_OK) {
            status = tutti_stream_record(me->stream, &point);
            if (status == TUTTI_OK)
                status = tutti_stream_wait(me->stream, point, -1);
        }
    }
    if (status == TUTTI_OK)
        check(me, 0, me->count, me->n * (me->n + 1) / 2, s * STRIDE);
    return status;
}

/* A death ends the child of those who had that rank in it; they go on as the others do, who do not know. */
static bool child_lives(struct me *me, tutti_status status)
{
    if (status != TUTTI_OK && status != TUTTI_PEER_LOST)
        wrong(me, tutti_get_last_error(me->child));
    return status == TUTTI_OK;
}

/* Ranks of one parity sum; now and then they split anew. */
static tutti_status step_child(struct me *me, uint64_t s)
{
    int sum = 0;
    if (me->child != NULL && s % 4 == 0) {
        at(me, "finalize of a child");
        child_lives(me, tutti_comm_finalize(me->child));
        if (tutti_comm_destroy(me->child) != TUTTI_OK)
            wrong(me, "destroy");
        me->child = NULL;
    }
    if (me->child == NULL) {
        at(me, "split");
        tutti_status status = tutti_comm_split(me->comm, me->rank & 1, 0, NULL, &me->child);
        if (status != TUTTI_OK)
            return status;
    }
    at(me, "all_reduce of a child");
    for (int r = me->rank & 1; r < me->n; r += 2)
        sum += r + 1;
    if (child_lives(me, tutti_all_reduce(me->in, me->out, me->count, TUTTI_UINT64, TUTTI_SUM, me->child,
                            tutti_no_stream())))
        check(me, 0, me->count, sum, s * STRIDE);
    return TUTTI_OK;
}

static tutti_status step(struct me *me, uint64_t s)
{
    uint64_t r = ranks_mix(me->trial->seed + s);
    uint32_t which = ranks_below(&r, 12);
    int root = (int)(s % (uint64_t)me->n);
    fill(me, s);
    me->record->calls++;
    if (which < 3)
        return step_blocks(me, s, which);
    if (which < 6)
        return step_sum(me, s, which - 3);
    if (which < 8)
        return step_group(me, s);
    if (which < 10)
        return step_child(me, s);
    if (which == 10) {
        at(me, "barrier");
        return tutti_barrier(me->comm, tutti_no_stream());
    }
    at(me, "broadcast");
    tutti_status status =
        tutti_broadcast(me->in, me->out, me->count, TUTTI_UINT64, root, me->comm, tutti_no_stream());
    if (status == TUTTI_OK)
        check(me, 0, me->count, root + 1, s * STRIDE);
    return status;
}

/* --- What stays behind */

static int entries(const char *path)
{
    DIR *directory = opendir(path);
    int count = 0;
    while (directory != NULL && readdir(directory) != NULL)
        count++;
    if (directory != NULL)
        closedir(directory);
    return count;
}

/* A communicator of one rank, and memory: what the library keeps until the next ones begin is gone then. */
static void sweep(void)
{
    tutti_comm *comm;
    void *memory;
    if (tutti_comm_init_all(1, NULL, NULL, &comm) == TUTTI_OK)
        tutti_comm_destroy(comm);
    if (tutti_mem_alloc(1, TUTTI_MEM_HOST, &memory) == TUTTI_OK)
        tutti_mem_free(memory);
}

/* What peers may still look at is kept until they are through, or dead; a thread takes a moment to end. */
static void look_behind(struct me *me, int threads, int descriptors)
{
    for (int us = 0; us < SOON_US; us += POLL_US) {
        sweep();
        if (entries("/proc/self/task") <= threads && entries("/proc/self/fd") <= descriptors)
            break;
        usleep(POLL_US);
    }
    me->record->threads_left = entries("/proc/self/task") - threads;
    me->record->descriptors_left = entries("/proc/self/fd") - descriptors;
}

/* --- A rank's life */

static void *allocate(struct me *me)
{
    void *memory = NULL;
    if (me->trial->registered)
        tutti_mem_alloc(me->count * sizeof(uint64_t), TUTTI_MEM_HOST, &memory);
    else
        memory = malloc(me->count * sizeof(uint64_t));
    if (memory == NULL)
        wrong(me, "no memory");
    return memory;
}

static void keep_program(struct me *me)
{
    tutti_group_start();
    tutti_all_reduce(me->in, me->out, me->count, TUTTI_UINT64, TUTTI_SUM, me->comm, tutti_no_stream());
    if (tutti_group_keep(&me->program) != TUTTI_OK)
        me->program = NULL;
}

static void join(struct me *me)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = CAMPAIGN_TIMEOUT_MS };
    if (me->trial->phase == CAMPAIGN_INIT)
        config.timeout_ms = CAMPAIGN_INIT_TIMEOUT_MS;
    if (me->rank == 0) {
        if (tutti_get_id(&me->scene->id) != TUTTI_OK)
            wrong(me, tutti_get_last_error(NULL));
        atomic_store(&me->scene->id_made, true);
    }
    while (!atomic_load(&me->scene->id_made))
        usleep(POLL_US);
    if (me->trial->phase == CAMPAIGN_INIT)
        atomic_fetch_add(&me->scene->begun, 1);
    at(me, "init_rank");
    me->record->status = tutti_comm_init_rank(me->n, me->rank, &me->scene->id, &config, &me->comm);
    me->record->joined = me->record->status == TUTTI_OK;
    if (!me->record->joined && me->trial->phase != CAMPAIGN_INIT)
        wrong(me, tutti_get_last_error(NULL));
}

static void run(struct me *me)
{
    tutti_status status = TUTTI_OK;
    bool ends = me->trial->phase == CAMPAIGN_DESTROY;
    if (me->trial->phase == CAMPAIGN_RUN)
        atomic_fetch_add(&me->scene->begun, 1);
    for (uint64_t s = 0; status == TUTTI_OK && (!ends || s < STEPS_BEFORE_DESTROY); s++)
        status = step(me, s);
    if (ends && status == TUTTI_OK) {
        if (me->trial->phase == CAMPAIGN_DESTROY)
            atomic_fetch_add(&me->scene->begun, 1);
        usleep(ranks_below(&me->random, LINGER_US));
        at(me, "finalize");
        status = tutti_comm_finalize(me->comm);
    }
    me->record->status = status;
}

static void leave(struct me *me)
{
    at(me, "the end");
    me->record->error.size = sizeof me->record->error;
    if (me->comm != NULL && tutti_comm_get_error(me->comm, &me->record->error) != TUTTI_OK)
        wrong(me, "get_error");
    me->record->ended_ns = campaign_now_ns();
    if (campaign_is_victim(me->trial, me->rank) && me->record->status != TUTTI_OK)
        for (;;) /* it is to be killed, not to end */
            pause();
    if (me->program != NULL && tutti_program_destroy(me->program) != TUTTI_OK)
        wrong(me, "program_destroy");
    if (me->child != NULL && tutti_comm_destroy(me->child) != TUTTI_OK)
        wrong(me, "destroy of the child");
    if (me->comm != NULL && tutti_comm_destroy(me->comm) != TUTTI_OK)
        wrong(me, "destroy");
    if (tutti_stream_destroy(me->stream) != TUTTI_OK)
        wrong(me, "stream_destroy");
    for (int i = 0; i < 2; i++) {
        uint64_t *memory = i == 0 ? me->in : me->out;
        if (!me->trial->registered)
            free(memory);
        else if (tutti_mem_free(memory) != TUTTI_OK)
            wrong(me, "mem_free");
    }
}

void campaign_rank(const struct trial *trial, struct scene *scene, int rank)
{
    struct me me = { .trial = trial,
        .scene = scene,
        .record = &scene->ranks[rank],
        .n = trial->n,
        .rank = rank,
        .random = ranks_mix(trial->seed ^ (uint64_t)rank),
        .count = trial->bytes / sizeof(uint64_t) };
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    at(&me, "the beginning");
    sweep();
    int threads = entries("/proc/self/task"), descriptors = entries("/proc/self/fd");
    me.in = allocate(&me);
    me.out = allocate(&me);
    if (tutti_stream_create(&me.stream) != TUTTI_OK)
        wrong(&me, "stream_create");
    join(&me);
    if (me.comm != NULL) {
        keep_program(&me);
        run(&me);
    }
    leave(&me);
    /* Who made the id answers at it until all have come, which one that was killed may not have. */
    if (trial->phase == CAMPAIGN_INIT && rank == 0 && !me.record->joined)
        me.record->threads_left = me.record->descriptors_left = 0;
    else
        look_behind(&me, threads, descriptors);
    atomic_store(&me.record->over, true);
    _exit(0);
}

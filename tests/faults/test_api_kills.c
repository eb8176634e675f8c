/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_kills.c: a rank is killed at 200 seeded moments, in init, split, a group, a 64 MiB copy, and
 * while the others sleep. Every survivor ends with an error soon, all with the same first cause, and
 * nothing stays behind.
 *
 * All ranks do the same without end; the parent kills the victim a drawn time after all have begun. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/rig/ranks.h"

enum { MOMENTS = 40, LARGE_BYTES = 64 << 20, SOON_MS = 60000, INIT_TIMEOUT_MS = 800 };
enum phase { IN_INIT, IN_SPLIT, IN_GROUP, IN_LARGE, IDLE };
static const struct {
    const char *name;
    uint32_t window_us; /* the moment is drawn from this */
} phases[] = { { "init", 3000 }, { "split", 12000 }, { "a group", 8000 }, { "a 64 MiB copy", 90000 },
    { "an idle wait", 130000 } };

struct moment {
    enum phase phase;
    int victim;
    uint32_t delay_us;
};

struct scene { /* shared by the ranks and the parent */
    _Atomic int begun, recorded;
    _Atomic int64_t killed_ms;
    struct {
        bool joined;
        tutti_status status;
        tutti_error error;
    } records[RANKS_MAX];
};
_Static_assert(sizeof(struct scene) <= RANKS_SHARED_BYTES, "it fits");

/* --- What the ranks do until it ends */

static void loop_split(struct ranks_me *me, tutti_comm *comm)
{
    for (int round = 0; tutti_comm_state(comm) == TUTTI_OK; round++) {
        tutti_comm *child = NULL;
        tutti_status status = tutti_comm_split(comm, round & 1 ? me->rank & 1 : 0, -me->rank, NULL, &child);
        for (int i = 0; i < 3 && status == TUTTI_OK; i++)
            status = tutti_barrier(child, tutti_no_stream());
        if (child != NULL)
            ranks_ok(me, tutti_comm_destroy(child), "destroy of a child");
    }
}

static void loop_group(struct ranks_me *me, tutti_comm *comm)
{
    static uint64_t values[4][3000];
    tutti_stream none = tutti_no_stream();
    tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK) {
        tutti_group_start();
        tutti_send(values[0], 3000, TUTTI_UINT64, (me->rank + 1) % me->n, comm, none);
        tutti_all_reduce(values[1], values[2], 3000, TUTTI_UINT64, TUTTI_SUM, comm, none);
        tutti_recv(values[3], 3000, TUTTI_UINT64, (me->rank + me->n - 1) % me->n, comm, none);
        tutti_barrier(comm, none);
        status = tutti_group_end();
    }
}

static void loop_large(struct ranks_me *me, tutti_comm *comm, const struct moment *m)
{
    void *memory = NULL;
    bool registered = me->random & 1;
    if (registered)
        ranks_ok(me, tutti_mem_alloc(LARGE_BYTES, TUTTI_MEM_HOST, &memory), "mem_alloc");
    else
        memory = calloc(1, LARGE_BYTES);
    tutti_status status = memory != NULL ? TUTTI_OK : TUTTI_OUT_OF_MEMORY;
    for (uint32_t round = m->delay_us; status == TUTTI_OK; round++)
        if (round % 2 == 0)
            status = tutti_all_reduce(
                memory, memory, LARGE_BYTES / 4, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
        else /* this may be read out of the dying process */
            status = tutti_broadcast(
                memory, memory, LARGE_BYTES, TUTTI_UINT8, (int)(round / 2) % me->n, comm, tutti_no_stream());
    if (registered)
        ranks_ok(me, tutti_mem_free(memory), "mem_free");
    else
        free(memory);
}

static void loop(struct ranks_me *me, tutti_comm *comm, const struct moment *m)
{
    if (m->phase == IDLE && me->rank == m->victim)
        for (;;)
            pause();
    if (m->phase == IN_SPLIT)
        loop_split(me, comm);
    else if (m->phase == IN_GROUP)
        loop_group(me, comm);
    else if (m->phase == IN_LARGE)
        loop_large(me, comm, m);
    else
        while (tutti_barrier(comm, tutti_no_stream()) == TUTTI_OK)
            continue;
}

/* --- What the survivors say */

static void compare(struct ranks_me *me, const struct moment *m, struct scene *scene)
{
    const tutti_error *mine = &scene->records[me->rank].error;
    for (int r = 0; r < me->n; r++) {
        const tutti_error *other = &scene->records[r].error;
        if (r != m->victim && scene->records[r].joined)
            ranks_expect(me, memcmp(mine, other, sizeof *mine) == 0,
                "here %d, rank %d, peer %d, operation %llu \"%s\"; at rank %d %d, rank %d, peer %d, "
                "operation %llu "
                "\"%s\"",
                mine->status, mine->rank, mine->peer, (unsigned long long)mine->sequence, mine->text, r,
                other->status, other->rank, other->peer, (unsigned long long)other->sequence, other->text);
    }
    char died[32];
    snprintf(died, sizeof died, "rank %d", m->victim);
    bool late = m->phase == IN_INIT && mine->status == TUTTI_TIMEOUT;
    ranks_expect(me, late || mine->status == TUTTI_PEER_LOST, "ended with %d: %s", mine->status, mine->text);
    ranks_expect(me, late || (mine->peer == m->victim && strstr(mine->text, died) != NULL),
        "the error concerns rank %d: %s", mine->peer, mine->text);
}

static void record(struct ranks_me *me, tutti_comm *comm, tutti_status status, struct scene *scene)
{
    scene->records[me->rank].status = status;
    scene->records[me->rank].joined = comm != NULL;
    scene->records[me->rank].error.size = sizeof(tutti_error);
    if (comm != NULL) {
        ranks_ok(me, tutti_comm_get_error(comm, &scene->records[me->rank].error), "get_error");
        ranks_expect(me, tutti_comm_state(comm) == scene->records[me->rank].error.status, "another state");
        ranks_expect(me, tutti_barrier(comm, tutti_no_stream()) < 0, "a call after the end succeeds");
        ranks_ok(me, tutti_comm_destroy(comm), "destroy");
    }
    int64_t took = ranks_now_ms() - atomic_load(&scene->killed_ms);
    ranks_expect(me, took < SOON_MS, "it took %lld ms", (long long)took);
    atomic_fetch_add(&scene->recorded, 1);
}

static void survive(struct ranks_me *me)
{
    const struct moment *m = me->context;
    struct scene *scene = me->shared;
    tutti_config config = { .size = sizeof config };
    config.timeout_ms = m->phase == IN_INIT ? INIT_TIMEOUT_MS : -1;
    tutti_comm *comm = NULL;
    tutti_id id;
    ranks_at(me, "n %d rank %d: rank %d dies in %s after %u us", me->n, me->rank, m->victim,
        phases[m->phase].name, m->delay_us);
    if (!ranks_id(me, &id))
        return;
    if (m->phase == IN_INIT)
        atomic_fetch_add(&scene->begun, 1);
    tutti_status status = tutti_comm_init_rank(me->n, me->rank, &id, &config, &comm);
    if (m->phase != IN_INIT && ranks_ok(me, status, "init_rank"))
        ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "the barrier before");
    if (m->phase != IN_INIT) {
        ranks_meet(me); /* nobody is still in the barrier */
        atomic_fetch_add(&scene->begun, 1);
    }
    if (comm != NULL)
        loop(me, comm, m);
    else
        ranks_expect(me, status == TUTTI_PEER_LOST || status == TUTTI_TIMEOUT, "init_rank returned %d (%s)",
            status, tutti_get_last_error(NULL));
    if (me->rank == m->victim) /* it ended before it was killed */
        for (;;)
            pause();
    record(me, comm, status, scene);
    while (atomic_load(&scene->recorded) < me->n - 1)
        ranks_sleep_us(200);
    if (comm != NULL)
        compare(me, m, scene);
}

static void kill_victim(struct ranks_world *world, const struct ranks_plan *plan)
{
    const struct moment *m = plan->context;
    struct scene *scene = (struct scene *)(void *)world->shared;
    int64_t deadline = ranks_now_ms() + SOON_MS;
    while (atomic_load(&scene->begun) < plan->n && ranks_now_ms() < deadline)
        ranks_sleep_us(50);
    ranks_sleep_us(m->delay_us);
    atomic_store(&scene->killed_ms, ranks_now_ms());
    kill(world->slots[m->victim].pid, SIGKILL);
}

/* --- What stays behind */

/* Names in a directory that contain `word`. */
static int files_in(const char *path, const char *word, char *names, size_t bytes)
{
    DIR *directory = opendir(path);
    int count = 0;
    names[0] = '\0';
    for (struct dirent *e; directory != NULL && (e = readdir(directory)) != NULL;) {
        if (e->d_name[0] == '.' || strstr(e->d_name, word) == NULL)
            continue;
        size_t length = strlen(names);
        snprintf(names + length, bytes - length, "%s ", e->d_name);
        count++;
    }
    if (directory != NULL)
        closedir(directory);
    return count;
}

/* The socket of a killed process is removed at the latest when the next id is made. */
static void make_one_more(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm != NULL)
        ranks_part(me, comm);
}

/* A directory of this test's own for the sockets of ids. */
static void open_room(char *room, char *meeting, size_t bytes)
{
    cr_assert(mkdtemp(room) != NULL);
    setenv("XDG_RUNTIME_DIR", room, 1);
    snprintf(meeting, bytes, "%s/tutti", room);
}

static void close_room(const char *room, const char *meeting, const char *what)
{
    char names[1024];
    ranks_run(&(struct ranks_plan){ .n = 1, .run = make_one_more });
    cr_expect_eq(files_in(meeting, "", names, sizeof names), 0, "after %s sockets stay: %s", what, names);
    rmdir(meeting);
    cr_expect_eq(rmdir(room), 0, "%s is not empty", room);
}

static void run_phase(enum phase phase)
{
    char room[] = "/tmp/tutti-kills-XXXXXX", meeting[64], names[1024], before[1024];
    open_room(room, meeting, sizeof meeting);
    /* The directory is the machine's: other programs come and go there. */
    int shared = files_in("/dev/shm", "tutti", before, sizeof before);
    uint64_t random = 2024 + phase;
    for (int i = 0; i < MOMENTS; i++) {
        int n = 3 + (int)ranks_below(&random, 2);
        struct moment m = { phase, (int)ranks_below(&random, (uint32_t)n), 0 };
        m.delay_us = ranks_below(&random, phases[phase].window_us);
        ranks_run(&(struct ranks_plan){ .n = n,
            .run = survive,
            .context = &m,
            .seed = ranks_random(&random),
            .may_die = 1u << m.victim,
            .meddle = kill_victim });
    }
    cr_expect_eq(files_in("/dev/shm", "tutti", names, sizeof names), shared, "/dev/shm has %s, before %s",
        names, before);
    close_room(room, meeting, phases[phase].name);
}

TestSuite(api_kills, .timeout = 240);

Test(api_kills, in_init)
{
    run_phase(IN_INIT);
}

Test(api_kills, in_split)
{
    run_phase(IN_SPLIT);
}

Test(api_kills, in_a_group)
{
    run_phase(IN_GROUP);
}

Test(api_kills, in_a_large_copy)
{
    run_phase(IN_LARGE);
}

Test(api_kills, in_idle_waits)
{
    run_phase(IDLE);
}

/* Who made the id dies before anybody came: the others are told at once, not at the deadline. */
static void lose_the_id(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = 600000 };
    tutti_comm *comm = NULL;
    tutti_id id;
    if (!ranks_id(me, &id))
        return;
    ranks_at(me, "rank %d: the process that made the id dies", me->rank);
    if (me->rank == 0)
        raise(SIGKILL);
    while (kill(me->world->slots[0].pid, 0) == 0) /* until it is no more */
        ranks_sleep_us(1000);
    int64_t began = ranks_now_ms();
    tutti_status status = tutti_comm_init_rank(me->n, me->rank, &id, &config, &comm);
    ranks_refused(me, status, TUTTI_PEER_LOST, "init_rank", "id");
    ranks_expect(me, comm == NULL && ranks_now_ms() - began < SOON_MS, "it took long");
}

Test(api_kills, maker_of_the_id)
{
    char room[] = "/tmp/tutti-kills-XXXXXX", meeting[64], names[1024];
    open_room(room, meeting, sizeof meeting);
    ranks_run(&(struct ranks_plan){ .n = 3, .run = lose_the_id, .may_die = 1 });
    /* Who comes to an id sweeps up what killed processes left. */
    cr_expect_eq(files_in(meeting, "", names, sizeof names), 0, "the killed process left: %s", names);
    close_room(room, meeting, "the death of the id's maker");
}

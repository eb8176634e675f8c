/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_resources.c: what a process holds is the same after 1,000 rounds as after the first ones:
 * descriptors, maps, memory of the C library, resident pages; whether the rounds went well or failed.
 *
 * Some of it is given back by threads that end a little later, so a count that is too high is looked at
 * again for a while. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/rig/ranks.h"

TestSuite(api_resources, .timeout = 240);

/* What may be more without having grown: stacks that the C library keeps for threads, and their pages. */
/* The least that 1000 rounds can leave is 32 KB. (What a thread's cache of freed memory has counts as held,
 * and how much that is depends on which thread freed it: 8 KB are seen.) */
enum { WARM_UP = 100, ROUNDS = 1000, PATIENCE_MS = 30000, HEAP_BYTES = 16384, FILES_KIB = 1024 };

/* AddressSanitizer keeps what is freed for a while, and so grows; it finds leaks by itself. */
#if defined(__SANITIZE_ADDRESS__)
enum { MAPS = 64, RESIDENT_KIB = 512 * 1024 };
#else
enum { MAPS = 4, RESIDENT_KIB = 4096 };
#endif

struct holding {
    long descriptors, maps, resident_kib, files_kib; /* of memory files: the arena, the recorder */
    size_t heap;
};

static long count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    long lines = 0;
    for (int c; file != NULL && (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    if (file != NULL)
        fclose(file);
    return lines;
}

/* Descriptors, and how much the memory files among them hold: a part of one that is not given back is neither
 * mapped nor resident. */
static long count_descriptors(long *files_kib)
{
    DIR *directory = opendir("/proc/self/fd");
    long count = 0;
    *files_kib = 0;
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL; count++) {
        char target[32] = "";
        struct stat about;
        if (readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1) > 0 &&
            strncmp(target, "/memfd:", 7) == 0 && fstat(atoi(entry->d_name), &about) == 0)
            *files_kib += about.st_blocks / 2;
    }
    if (directory != NULL)
        closedir(directory);
    return count;
}

/* What a peer still read when it was given up is freed by a later call: so there is one. */
static struct holding look(void)
{
    void *memory;
    if (tutti_mem_alloc(1, TUTTI_MEM_HOST, &memory) == TUTTI_OK)
        tutti_mem_free(memory);
    struct holding h = { .maps = count_lines("/proc/self/maps") };
    h.descriptors = count_descriptors(&h.files_kib);
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &pages, &resident) == 2)
            h.resident_kib = resident * (sysconf(_SC_PAGESIZE) / 1024);
        fclose(file);
    }
#ifdef __GLIBC__ /* another C library says nothing of its heap */
    struct mallinfo2 heap = mallinfo2();
    h.heap = heap.uordblks + heap.hblkhd;
#endif
    return h;
}

static bool more(const struct holding *now, const struct holding *before)
{
    return now->descriptors > before->descriptors || now->maps > before->maps + MAPS ||
           now->heap > before->heap + HEAP_BYTES || now->resident_kib > before->resident_kib + RESIDENT_KIB ||
           now->files_kib > before->files_kib + FILES_KIB;
}

static void expect_no_more(struct ranks_me *me, const struct holding *before, const char *what)
{
    int64_t deadline = ranks_now_ms() + PATIENCE_MS;
    struct holding now = look();
    while (more(&now, before) && ranks_now_ms() < deadline) {
        ranks_sleep_us(10000);
        now = look();
    }
    ranks_expect(me, !more(&now, before),
        "%s: descriptors %ld, before %ld; maps %ld, %ld; heap %zu, %zu bytes; resident %ld, %ld KiB; memory "
        "files %ld, %ld KiB",
        what, now.descriptors, before->descriptors, now.maps, before->maps, now.heap, before->heap,
        now.resident_kib, before->resident_kib, now.files_kib, before->files_kib);
}

/* Rounds until warm, then `rounds` that must not add up. */
static void repeat(
    struct ranks_me *me, const char *what, int rounds, void (*round)(struct ranks_me *me, int index))
{
    struct holding before;
    int index = 0;
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1); /* mallinfo2 tells of one only */
#endif
    for (; index < WARM_UP; index++)
        round(me, index);
    ranks_meet(me);
    ranks_sleep_us(100000); /* threads of the last rounds end */
    before = look();
    for (; index < WARM_UP + rounds; index++) {
        ranks_at(me, "rank %d: %s, round %d", me->rank, what, index);
        round(me, index);
    }
    ranks_meet(me);
    expect_no_more(me, &before, what);
}

/* --- All ranks in one process */

static void round_of_init_all(struct ranks_me *me, int index)
{
    tutti_comm *comms[2];
    int32_t values[2] = { 1, 1 }, received[2] = { 0, 0 };
    if (!ranks_ok(me, tutti_comm_init_all(2, NULL, NULL, comms), "init_all"))
        return;
    tutti_group_start();
    for (int r = 0; r < 2 && index % 2 == 0; r++) {
        tutti_all_reduce(&values[r], &values[r], 1, TUTTI_INT32, TUTTI_SUM, comms[r], tutti_no_stream());
        tutti_send(&index, 1, TUTTI_INT32, 1 - r, comms[r], tutti_no_stream());
        tutti_recv(&received[r], 1, TUTTI_INT32, 1 - r, comms[r], tutti_no_stream());
    }
    ranks_ok(me, tutti_group_end(), "group_end");
    ranks_expect(me, index % 2 == 1 || (values[0] == 2 && received[1] == index), "wrong values");
    if (index % 4 == 1)
        ranks_ok(me, tutti_comm_abort(comms[0]), "abort");
    ranks_ok(me, tutti_comm_destroy(comms[index & 1]), "destroy");
    ranks_ok(me, tutti_comm_destroy(comms[1 - (index & 1)]), "destroy");
}

static void init_all_rounds(struct ranks_me *me)
{
    repeat(me, "init_all", ROUNDS, round_of_init_all);
}

Test(api_resources, init_all)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = init_all_rounds, .limit_s = 200 });
}

/* --- Two processes */

static void round_of_init_rank(struct ranks_me *me, int index)
{
    enum { COUNT = 10000 };
    static int32_t values[COUNT];
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    if (index % 10 == 0) {
        values[7] = 1;
        ranks_ok(me, tutti_all_reduce(values, values, COUNT, TUTTI_INT32, TUTTI_MAX, comm, tutti_no_stream()),
            "all_reduce");
        ranks_expect(me, values[7] == 1, "the maximum is %d", values[7]);
    }
    if (index % 3 == 0)
        ranks_ok(me, tutti_comm_finalize(comm), "finalize");
    ranks_part(me, comm);
}

static void init_rank_rounds(struct ranks_me *me)
{
    repeat(me, "init_rank", ROUNDS, round_of_init_rank);
}

Test(api_resources, init_rank)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = init_rank_rounds, .limit_s = 200 });
}

static _Thread_local tutti_comm *parent;

static void round_of_split(struct ranks_me *me, int index)
{
    tutti_comm *child = NULL;
    int color = index % 5 == 0 ? me->rank - 1 : 0; /* at times rank 0 gets none */
    ranks_ok(me, tutti_comm_split(parent, color, 0, NULL, &child), "split");
    if (child == NULL)
        return;
    ranks_ok(me, tutti_barrier(child, tutti_no_stream()), "barrier");
    ranks_part(me, child);
}

/* A split that fails at one rank, and calls with wrong arguments. */
static void round_of_failures(struct ranks_me *me, int index)
{
    tutti_comm *child = NULL, *comm = NULL;
    tutti_config config = { .size = sizeof config, .options = "bogus" };
    int32_t value = 0;
    tutti_id id;
    tutti_status status = tutti_comm_split(parent, index % 2 == me->rank ? -5 : 0, 0, NULL, &child);
    ranks_expect(me, status == TUTTI_INVALID_ARGUMENT && child == NULL, "split returned %d", status);
    status = tutti_comm_init_all(2, NULL, &config, &comm);
    ranks_expect(me, status == TUTTI_INVALID_ARGUMENT && comm == NULL, "init_all returned %d", status);
    status = tutti_broadcast(&value, &value, 1, TUTTI_INT32, 7, parent, tutti_no_stream());
    ranks_expect(me, status == TUTTI_INVALID_ARGUMENT, "broadcast returned %d", status);
    tutti_group_start();
    tutti_barrier(parent, tutti_no_stream());
    tutti_broadcast(&value, &value, 1, TUTTI_INT32, 7, parent, tutti_no_stream());
    ranks_expect(me, tutti_group_end() == TUTTI_INVALID_ARGUMENT, "group_end");
    if (index % 10 != 0 || !ranks_id(me, &id))
        return;
    status = tutti_comm_init_rank(2, 0, &id, NULL, &comm); /* rank 0 comes twice */
    ranks_expect(me, status == TUTTI_INVALID_ARGUMENT && comm == NULL, "init_rank returned %d", status);
}

static void round_of_memory(struct ranks_me *me, int index)
{
    void *memory[3] = { NULL };
    int32_t *data;
    for (int i = 0; i < 3; i++)
        ranks_ok(me,
            tutti_mem_alloc(1 + (size_t)ranks_below(&me->random, 300000), TUTTI_MEM_HOST, &memory[i]),
            "mem_alloc");
    data = memory[index % 3];
    data[0] = 1;
    ranks_ok(
        me, tutti_all_reduce(data, data, 1, TUTTI_INT32, TUTTI_SUM, parent, tutti_no_stream()), "all_reduce");
    ranks_expect(me, data[0] == me->n, "the sum is %d", data[0]);
    for (int i = 0; i < 3; i++)
        ranks_ok(me, tutti_mem_free(memory[(i + index) % 3]), "mem_free");
}

static void rounds_with_a_parent(struct ranks_me *me)
{
    parent = ranks_join(me, NULL);
    if (parent == NULL)
        return;
    repeat(me, "split", ROUNDS, round_of_split);
    repeat(me, "failures", ROUNDS / 4, round_of_failures);
    repeat(me, "memory", ROUNDS, round_of_memory);
    ranks_part(me, parent);
}

Test(api_resources, splits_failures_and_memory)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = rounds_with_a_parent, .limit_s = 200 });
}

/* Untouched memory costs nothing, and what is freed returns to the system. */
static void large_memory(struct ranks_me *me)
{
    enum { PIECES = 8 };
    void *pieces[PIECES];
    struct holding before, held, after;
    ranks_ok(me, tutti_mem_alloc(1, TUTTI_MEM_HOST, &pieces[0]), "mem_alloc");
    ranks_ok(me, tutti_mem_free(pieces[0]), "mem_free");
    before = look();
    for (int i = 0; i < PIECES; i++)
        ranks_ok(me, tutti_mem_alloc((size_t)1 << 30, TUTTI_MEM_HOST, &pieces[i]), "mem_alloc of 1 GiB");
    memset(pieces[3], 1, 32 << 20);
    held = look();
    ranks_expect(me,
        held.resident_kib > before.resident_kib + 30 * 1024 &&
            held.resident_kib < before.resident_kib + 40 * 1024,
        "32 MiB are used, %ld KiB are resident, before %ld", held.resident_kib, before.resident_kib);
    for (int i = 0; i < PIECES; i++)
        ranks_ok(me, tutti_mem_free(pieces[i]), "mem_free");
    after = look();
    ranks_expect(me, after.resident_kib < before.resident_kib + 4 * 1024, "%ld KiB are resident, before %ld",
        after.resident_kib, before.resident_kib);
}

Test(api_resources, large_memory)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = large_memory });
}

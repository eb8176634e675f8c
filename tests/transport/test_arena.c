/* SPDX-License-Identifier: BSD-3-Clause */
/* test_arena.c: memory that peers map: allocation, its return to the system, identity, import, fork. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "tests/rig/patience.h"
#include "transports/arena.h"
#include "transports/ranges.h"

/* Criterion's own timers leak, which ends a run under a sanitizer. */
static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(arena, .init = limit_time);

static uint64_t take(struct tt_ranges *r, uint64_t bytes, uint64_t align)
{
    uint64_t at;
    return tt_ranges_take(r, bytes, align, &at) == TT_RANGES_TAKEN ? at : UINT64_MAX;
}

Test(arena, ranges_first_fit)
{
    struct tt_ranges r = { .end = 100 };
    uint64_t bytes;
    cr_expect_eq(take(&r, 101, 1), UINT64_MAX);
    cr_expect_eq(take(&r, UINT64_MAX - 3, 1), UINT64_MAX);
    cr_expect_eq(take(&r, 10, 1), 0);
    cr_expect_eq(take(&r, 5, 16), 16);
    cr_expect_eq(take(&r, 6, 1), 10);
    cr_expect_eq(take(&r, 7, 1), 21);
    cr_expect_eq(take(&r, 72, 1), 28);
    cr_expect_eq(take(&r, 1, 1), UINT64_MAX);
    cr_expect(tt_ranges_give(&r, 16, &bytes) && bytes == 5);
    cr_expect_not(tt_ranges_give(&r, 16, &bytes));
    cr_expect_not(tt_ranges_give(&r, 11, &bytes));
    cr_expect_eq(take(&r, 6, 1), UINT64_MAX);
    cr_expect_eq(take(&r, 2, 1), 16);
    cr_expect(tt_ranges_give(&r, 10, &bytes) && tt_ranges_give(&r, 0, &bytes));
    cr_expect_eq(take(&r, 16, 1), 0);
    free(r.taken);
}

/* Against a map of bytes. */
Test(arena, ranges_by_chance)
{
    enum { END = 512, LIVE = 40 };
    struct tt_ranges r = { .end = END };
    uint8_t map[END] = { 0 };
    uint64_t at[LIVE], bytes[LIVE] = { 0 }, seed = 1, given;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned k = (unsigned)(seed >> 33) % LIVE;
        if (bytes[k] > 0) {
            cr_assert(tt_ranges_give(&r, at[k], &given) && given == bytes[k]);
            memset(map + at[k], 0, bytes[k]);
            bytes[k] = 0;
            continue;
        }
        uint64_t want = 1 + (seed >> 40) % 60, align = (uint64_t)1 << (seed >> 50) % 5, first = 0;
        while (first + want <= END && memchr(map + first, 1, want) != NULL)
            first += align;
        uint64_t got = take(&r, want, align);
        cr_assert_eq(got, first + want <= END ? first : UINT64_MAX);
        if (got == UINT64_MAX)
            continue;
        at[k] = got;
        bytes[k] = want;
        memset(map + got, 1, want);
    }
    free(r.taken);
}

static uint64_t resident(void)
{
    struct stat file;
    const struct tt_arena *own;
    cr_assert_eq(tt_arena_get(&own), TUTTI_OK);
    cr_assert_eq(fstat(own->fd, &file), 0);
    return (uint64_t)file.st_blocks * 512;
}

Test(arena, memory_comes_and_returns)
{
    enum { PARTS = 5, BYTES = 3 << 20 };
    const struct tt_arena *own;
    uint8_t *part[PARTS];
    uint64_t at, before = resident();
    cr_assert_eq(tt_arena_get(&own), TUTTI_OK);
    cr_expect_geq(own->bytes, 64u << 20);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PARTS; i++) {
            cr_assert_eq(tt_arena_alloc(BYTES - i, (void **)&part[i]), TUTTI_OK);
            cr_expect_eq((uintptr_t)part[i] % 4096, 0);
            cr_expect(tt_arena_offset(own, (uintptr_t)part[i], BYTES, &at));
            for (int j = 0; j < BYTES - i; j += 4096)
                cr_assert_eq(part[i][j], 0, "freed memory keeps what was there");
            memset(part[i], 1 + i, (size_t)(BYTES - i));
        }
        for (int i = 0; i < PARTS; i++)
            cr_expect(part[i][0] == 1 + i && part[i][BYTES - i - 1] == 1 + i, "parts overlap");
        cr_expect_geq(resident(), before + PARTS * BYTES - 4096);
        for (int i = 0; i < PARTS; i++)
            cr_expect_eq(tt_arena_free(part[(i * 2) % PARTS]), TUTTI_OK);
        cr_expect_eq(resident(), before);
    }
}

Test(arena, sparse)
{
    void *huge;
    const struct tt_arena *own;
    uint64_t before = resident();
    cr_assert_eq(tt_arena_get(&own), TUTTI_OK);
    cr_assert_eq(tt_arena_alloc(own->bytes / 2, &huge), TUTTI_OK);
    cr_expect_leq(resident(), before + 8192);
    cr_expect_eq(tt_arena_free(huge), TUTTI_OK);
}

Test(arena, refuses)
{
    const struct tt_arena *own;
    int local;
    void *ptr = &local;
    cr_assert_eq(tt_arena_get(&own), TUTTI_OK);
    cr_expect_eq(tt_arena_free(&local), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(tt_arena_free(NULL), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(tt_arena_free(own->base), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(tt_arena_alloc(0, &ptr), TUTTI_OUT_OF_MEMORY);
    cr_expect_eq(tt_arena_alloc(own->bytes, &ptr), TUTTI_OUT_OF_MEMORY);
    cr_expect_eq(tt_arena_alloc(UINT64_MAX, &ptr), TUTTI_OUT_OF_MEMORY);
    cr_expect_eq(ptr, &local, "an output was set by a call that failed");
    cr_assert_eq(tt_arena_alloc(10, &ptr), TUTTI_OK);
    cr_expect_eq(tt_arena_free((char *)ptr + 1), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(tt_arena_free(ptr), TUTTI_OK);
    cr_expect_eq(tt_arena_free(ptr), TUTTI_INVALID_ARGUMENT);
}

Test(arena, offsets)
{
    const struct tt_arena *own;
    uint64_t at = 7;
    cr_assert_eq(tt_arena_get(&own), TUTTI_OK);
    uintptr_t base = (uintptr_t)own->base;
    cr_expect(tt_arena_offset(own, base, own->bytes, &at) && at == 0);
    cr_expect(tt_arena_offset(own, base + own->bytes - 1, 1, &at) && at == own->bytes - 1);
    cr_expect_not(tt_arena_offset(own, base - 1, 1, &at));
    cr_expect_not(tt_arena_offset(own, base - 1, 2, &at));
    cr_expect_not(tt_arena_offset(own, base + own->bytes, 1, &at));
    cr_expect_not(tt_arena_offset(own, base + own->bytes - 1, 2, &at));
    cr_expect_not(tt_arena_offset(own, base + 1, UINT64_MAX, &at));
}

Test(arena, sealed)
{
    const struct tt_arena *own;
    cr_assert_eq(tt_arena_get(&own), TUTTI_OK);
    cr_expect_eq(ftruncate(own->fd, 4096), -1);
    cr_expect_eq(ftruncate(own->fd, (off_t)own->bytes * 2), -1);
    cr_expect_neq(fcntl(own->fd, F_GETFD) & FD_CLOEXEC, 0);
}

/* The arena of another process, through its descriptor. */
struct other {
    pid_t pid;
    int fd, life, done;
    uint64_t offset;
};

static struct other start_other(const char *text)
{
    int news[2], end[2];
    struct other o;
    cr_assert(pipe(news) == 0 && pipe(end) == 0);
    o.pid = fork();
    if (o.pid == 0) {
        const struct tt_arena *own;
        char *memory, wait;
        close(end[1]);
        if (tt_arena_get(&own) != TUTTI_OK || tt_arena_alloc(100, (void **)&memory) != TUTTI_OK)
            _exit(1);
        strcpy(memory, text);
        o.fd = own->fd;
        o.life = own->life;
        o.offset = (uint64_t)((uint8_t *)memory - own->base);
        if (write(news[1], &o, sizeof o) != sizeof o)
            _exit(1);
        _exit(read(end[0], &wait, 1) == 0 ? 0 : 1);
    }
    close(end[0]);
    pid_t pid = o.pid;
    cr_assert_eq(read(news[0], &o, sizeof o), sizeof o);
    close(news[0]);
    close(news[1]);
    o.pid = pid;
    o.done = end[1];
    return o;
}

static int open_of(const struct other *o, int theirs)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", o->pid, theirs);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    return fd;
}

static int fd_of(const struct other *o)
{
    return open_of(o, o->fd);
}

static int life_of(const struct other *o)
{
    return open_of(o, o->life);
}

static int open_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

Test(arena, import)
{
    struct other o = start_other("of a neighbour");
    int fds = open_fds();
    struct tt_arena *arena, *again;
    cr_assert_eq(tt_arena_import(fd_of(&o), life_of(&o), &arena), TUTTI_OK);
    cr_expect_not(arena->own);
    cr_expect_str_eq((char *)arena->base + o.offset, "of a neighbour");
    cr_assert_eq(tt_arena_import(fd_of(&o), life_of(&o), &again), TUTTI_OK);
    cr_expect_eq(arena, again, "one process is mapped twice");
    cr_expect_eq(open_fds(), fds + 1, "one descriptor stays");
    tt_arena_release(again);
    again = tt_arena_find(arena->uuid);
    cr_expect_eq(again, arena);
    tt_arena_release(again);
    uint8_t uuid[TT_UUID_BYTES];
    memcpy(uuid, arena->uuid, sizeof uuid);
    cr_expect(tt_arena_alive(arena));
    close(o.done);
    waitpid(o.pid, NULL, 0);
    cr_expect_not(tt_arena_alive(arena));
    cr_expect_str_eq((char *)arena->base + o.offset, "of a neighbour", "memory outlives its process");
    tt_arena_release(arena);
    cr_expect_null(tt_arena_find(uuid));
    cr_expect_eq(open_fds(), fds - 1);
}

/* Equal places of two arenas differ in the address bits from 21 to 27. */
Test(arena, no_two_of_a_color)
{
    enum { OTHERS = 4 };
    struct other others[OTHERS];
    struct tt_arena *arenas[OTHERS];
    const struct tt_arena *own;
    uint64_t seen[2] = { 0 };
    cr_assert_eq(tt_arena_get(&own), TUTTI_OK);
    for (int i = 0; i < OTHERS; i++) {
        others[i] = start_other("of a color");
        cr_assert_eq(tt_arena_import(fd_of(&others[i]), life_of(&others[i]), &arenas[i]), TUTTI_OK);
    }
    for (int i = -1; i < OTHERS; i++) {
        uintptr_t base = (uintptr_t)(i < 0 ? own->base : arenas[i]->base);
        unsigned color = base >> 21 & 127;
        cr_expect_eq(base % (2 << 20), 0, "arena %d is at %lx", i, (unsigned long)base);
        cr_expect_eq(seen[color / 64] >> color % 64 & 1, 0, "arena %d has the color %u of another", i, color);
        seen[color / 64] |= (uint64_t)1 << color % 64;
    }
    for (int i = 0; i < OTHERS; i++)
        close(others[i].done); /* which those that were forked later have, too */
    for (int i = 0; i < OTHERS; i++) {
        waitpid(others[i].pid, NULL, 0);
        tt_arena_release(arenas[i]);
    }
}

Test(arena, import_of_the_own_one)
{
    const struct tt_arena *own;
    struct tt_arena *arena;
    cr_assert_eq(tt_arena_get(&own), TUTTI_OK);
    int fds = open_fds();
    cr_assert_eq(tt_arena_import(dup(own->fd), -1, &arena), TUTTI_OK);
    cr_expect_eq(arena, own);
    cr_expect(tt_arena_alive(arena));
    tt_arena_release(arena);
    cr_expect_eq(open_fds(), fds);
    arena = tt_arena_find(own->uuid);
    cr_expect_eq(arena, own);
    tt_arena_release(arena);
}

static int file_of(uint64_t bytes, int seals, const void *header, size_t header_bytes)
{
    int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_geq(fd, 0);
    cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
    cr_assert_eq(pwrite(fd, header, header_bytes, 0), (ssize_t)header_bytes);
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

Test(arena, import_believes_nothing)
{
    const struct tt_arena *own;
    struct tt_arena *arena = NULL;
    uint64_t words[5];
    cr_assert_eq(tt_arena_get(&own), TUTTI_OK);
    int fds = open_fds();
    memcpy(words, own->base, sizeof words);
    words[3] ^= 1; /* another identity */
    uint64_t bytes = own->bytes;
    cr_expect_lt(tt_arena_import(file_of(bytes, 0, words, sizeof words), -1, &arena), 0, "not sealed");
    cr_expect_lt(tt_arena_import(file_of(bytes, F_SEAL_GROW, words, sizeof words), -1, &arena), 0);
    cr_expect_lt(tt_arena_import(file_of(bytes / 2, F_SEAL_SHRINK, words, sizeof words), -1, &arena), 0);
    cr_expect_lt(tt_arena_import(file_of(10, F_SEAL_SHRINK, words, 10), -1, &arena), 0, "too short");
    cr_expect_lt(tt_arena_import(open("/dev/null", O_RDWR), dup(0), &arena), 0, "no memory file");
    cr_expect_lt(tt_arena_import(-1, -1, &arena), 0);
    words[1]++;
    cr_expect_lt(
        tt_arena_import(file_of(bytes, F_SEAL_SHRINK, words, sizeof words), -1, &arena), 0, "version");
    words[1]--;
    words[0]++;
    cr_expect_lt(tt_arena_import(file_of(bytes, F_SEAL_SHRINK, words, sizeof words), -1, &arena), 0, "magic");
    words[0]--;
    cr_expect_null(arena);
    cr_expect_eq(open_fds(), fds, "a descriptor stays after a failure");
    cr_assert_eq(tt_arena_import(file_of(bytes, F_SEAL_SHRINK, words, sizeof words), -1, &arena), TUTTI_OK);
    cr_expect_neq(arena, own);
    cr_expect(tt_arena_alive(arena), "without such a descriptor nobody knows better");
    tt_arena_release(arena);
    cr_expect_eq(open_fds(), fds);
}

Test(arena, held_until_dropped_by_the_same_thread)
{
    struct other o = start_other("");
    struct tt_arena *arena;
    uint8_t uuid[TT_UUID_BYTES];
    cr_assert_eq(tt_arena_import(fd_of(&o), life_of(&o), &arena), TUTTI_OK);
    memcpy(uuid, arena->uuid, sizeof uuid);
    cr_assert_eq(tt_arena_hold(arena), TUTTI_OK);
    pthread_t thread;
    cr_assert_eq(
        pthread_create(&thread, NULL, (void *(*)(void *))(void (*)(void))tt_arena_drop_held, NULL), 0);
    pthread_join(thread, NULL);
    arena = tt_arena_find(uuid);
    cr_assert_not_null(arena, "another thread dropped it");
    tt_arena_release(arena);
    tt_arena_drop_held();
    cr_expect_null(tt_arena_find(uuid));
    close(o.done);
    waitpid(o.pid, NULL, 0);
}

/* A child has an arena of its own, and what the parent wrote is not changed by it. */
Test(arena, fork_begins_anew)
{
    const struct tt_arena *own;
    char *memory;
    cr_assert_eq(tt_arena_alloc(100, (void **)&memory), TUTTI_OK);
    cr_assert_eq(tt_arena_get(&own), TUTTI_OK);
    uint8_t uuid[TT_UUID_BYTES], *base = own->base;
    memcpy(uuid, own->uuid, sizeof uuid);
    strcpy(memory, "the parent's");
    pid_t pid = fork();
    if (pid == 0) {
        const struct tt_arena *fresh;
        char *mine;
        if (tt_arena_find(uuid) != NULL || tt_arena_free(memory) == TUTTI_OK)
            _exit(1);
        if (tt_arena_alloc(100, (void **)&mine) != TUTTI_OK || tt_arena_get(&fresh) != TUTTI_OK)
            _exit(2);
        strcpy(mine, "the child's");
        _exit(memcmp(fresh->uuid, uuid, sizeof uuid) == 0 || fresh->base == base ? 3 : 0);
    }
    int status;
    waitpid(pid, &status, 0);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
    cr_expect_str_eq(memory, "the parent's");
    cr_expect_eq(tt_arena_free(memory), TUTTI_OK);
}

static int in_a_small_space(uint64_t space, uint64_t file)
{
    pid_t pid = fork();
    if (pid == 0) {
        const struct tt_arena *own;
        struct rlimit limit = { .rlim_cur = space, .rlim_max = space };
        void *ptr;
        if (space > 0)
            setrlimit(RLIMIT_AS, &limit);
        limit.rlim_cur = limit.rlim_max = file;
        if (file > 0)
            setrlimit(RLIMIT_FSIZE, &limit);
        if (tt_arena_get(&own) != TUTTI_OK)
            _exit(100);
        _exit(tt_arena_alloc(1 << 20, &ptr) == TUTTI_OK ? (int)(own->bytes >> 26) : 101);
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A sanitizer's shadow alone is larger than any limit that could be tried here. */
static bool space_is_free(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    cr_assert_not_null(statm);
    cr_assert_eq(fscanf(statm, "%ld", &pages), 1);
    fclose(statm);
    return pages * 4096 < (256 << 20);
}

Test(arena, small_spaces)
{
    cr_expect_eq(in_a_small_space(0, (uint64_t)200 << 20), 2, "128 MiB fit into files of 200");
    cr_expect_eq(in_a_small_space(0, 1 << 20), 100, "an error, not a signal");
    if (!space_is_free())
        return;
    cr_expect_eq(in_a_small_space((uint64_t)2 << 30, 0), 2, "a sixteenth of 2 GiB");
    cr_expect_eq(in_a_small_space((uint64_t)600 << 20, 0), 1, "the smallest");
}

/* A process that maps the arena of this one, and has an address space of 2 GiB. */
static pid_t start_small(int *orders, int *news)
{
    int to[2], from[2];
    cr_assert(pipe(to) == 0 && pipe(from) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = { (rlim_t)2 << 30, (rlim_t)2 << 30 };
        struct tt_arena *arena;
        struct other o;
        close(to[1]);
        if (setrlimit(RLIMIT_AS, &limit) != 0 || read(to[0], &o, sizeof o) != sizeof o ||
            tt_arena_import(fd_of(&o), -1, &arena) != TUTTI_OK)
            _exit(1);
        uint64_t bytes = arena->bytes;
        bool right = strcmp((char *)arena->base + o.offset, "near") == 0;
        if (write(from[1], &bytes, sizeof bytes) != sizeof bytes || read(to[0], &o, sizeof o) != 0)
            _exit(2);
        _exit(right ? 0 : 3);
    }
    close(to[0]);
    close(from[1]);
    *orders = to[1];
    *news = from[0];
    return pid;
}

/* It maps the beginning, and from then on no more than that is given out, or taken for memory that peers
 * see. */
Test(arena, peer_with_little_space)
{
    const struct tt_arena *own;
    struct other me = { .pid = getpid() };
    char *near, *far, *filler, *more;
    uint64_t seen, at;
    int orders, news, status;
    if (!space_is_free())
        return;
    pid_t small = start_small(&orders, &news);
    cr_assert_eq(tt_arena_get(&own), TUTTI_OK);
    uint64_t before = own->bytes;
    cr_assert_eq(tt_arena_alloc(100, (void **)&near), TUTTI_OK);
    cr_assert_eq(tt_arena_alloc((uint64_t)200 << 20, (void **)&filler), TUTTI_OK);
    cr_assert_eq(tt_arena_alloc((uint64_t)4 << 20, (void **)&far), TUTTI_OK);
    strcpy(near, "near");
    me.fd = own->fd;
    me.offset = (uint64_t)((uint8_t *)near - own->base);
    cr_assert_eq(write(orders, &me, sizeof me), sizeof me);
    cr_assert_eq(read(news, &seen, sizeof seen), sizeof seen);
    cr_expect_eq(seen, (uint64_t)128 << 20);
    cr_expect_gt(before, seen);

    cr_expect_eq(tt_arena_alloc((uint64_t)4 << 20, (void **)&more), TUTTI_OUT_OF_MEMORY);
    cr_expect(strstr(tt_last_error(), "little address space"), "%s", tt_last_error());
    cr_expect_eq(own->bytes, seen);
    cr_expect(tt_arena_offset(own, (uintptr_t)near, 100, &at));
    cr_expect_not(tt_arena_offset(own, (uintptr_t)far, 100, &at));
    strcpy(far, "it stays memory");
    cr_expect_eq(tt_arena_free(far), TUTTI_OK, "%s", tt_last_error());
    cr_expect_eq(tt_arena_free(filler), TUTTI_OK);
    cr_assert_eq(tt_arena_alloc((uint64_t)1 << 20, (void **)&more), TUTTI_OK);
    cr_expect(tt_arena_offset(own, (uintptr_t)more, 1 << 20, &at));
    close(orders);
    cr_assert_eq(waitpid(small, &status, 0), small);
    cr_expect_eq(status, 0);
}

struct slow {
    struct tt_deferred_free deferred;
    bool *idle;
    int asked;
};

static bool ask(struct tt_deferred_free *deferred)
{
    struct slow *s = (struct slow *)deferred;
    s->asked++;
    return *s->idle;
}

Test(arena, deferred_memory_stays_while_it_is_used)
{
    bool idle[2] = { false, false };
    uint64_t before = resident();
    struct slow slow[2] = { 0 };
    void *ptr;
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(tt_arena_alloc(1 << 20, &ptr), TUTTI_OK);
        memset(ptr, 7, 1 << 20);
        slow[i] = (struct slow){ .deferred = { .ptr = ptr, .idle = ask }, .idle = &idle[i] };
        tt_arena_free_later(&slow[i].deferred);
    }
    cr_expect_geq(slow[0].asked, 1);
    cr_assert_eq(tt_arena_alloc(1, &ptr), TUTTI_OK);
    cr_expect_geq(resident(), before + (2 << 20));
    idle[0] = true;
    cr_assert_eq(tt_arena_free(ptr), TUTTI_OK);
    cr_assert_eq(tt_arena_alloc(1, &ptr), TUTTI_OK);
    cr_expect_eq(ptr, slow[0].deferred.ptr, "the idle one is free");
    cr_expect_lt(resident(), before + (2 << 20));
    cr_expect_eq(*(char *)slow[1].deferred.ptr, 7, "the other one stays");
    int asked = slow[0].asked;
    idle[1] = true;
    cr_assert_eq(tt_arena_alloc(1, &ptr), TUTTI_OK);
    cr_expect_eq(slow[0].asked, asked, "nobody asks the dead");
    cr_expect_leq(resident(), before + 8192);
}

static void *allocate_and_free(void *failures)
{
    for (int i = 0; i < 300; i++) {
        char *memory;
        if (tt_arena_alloc((uint64_t)(1 + i % 7) * 3000, (void **)&memory) != TUTTI_OK)
            return failures;
        memory[0] = (char)i;
        memory[2999] = (char)i;
        if (memory[0] != (char)i || tt_arena_free(memory) != TUTTI_OK)
            return failures;
    }
    return NULL;
}

Test(arena, threads)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, allocate_and_free, threads), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        cr_expect_null(failed);
    }
}

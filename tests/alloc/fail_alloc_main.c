/* SPDX-License-Identifier: BSD-3-Clause */
/* fail_alloc_main.c: what the library does when the k-th thing it asks the system for is refused, for each k
 * until nothing is refused any more: memory, maps, descriptors, threads.
 *
 * A program of its own, because the linker puts the functions below between the library and the system
 * (--wrap in Makefile.am), which counts and refuses exactly the library's own requests, and knows exactly
 * what it holds. Each k has a process of its own, so that what is made once per process fails, too. After the
 * refusal the same must succeed; then it is refused once more, and the process must hold what it held. At
 * last, what must ask for nothing once it has run is counted. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fail_alloc.h"

enum { LIMIT_S = 600, MOST = 2000, SETTLE_MS = 50, ROUNDS = 12, ENOUGH = 3 };

_Atomic long countdown, requests;
static _Atomic long held_blocks;
static atomic_bool failed; /* something was wrong in this process */

static bool refused(void)
{
    atomic_fetch_add(&requests, 1);
    long left = atomic_load(&countdown);
    while (left > 0 && !atomic_compare_exchange_weak(&countdown, &left, left - 1))
        continue;
    return left == 1;
}

/* --- Between the library and the system */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *ptr, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *ptr);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_memfd_create(const char *name, unsigned flags);
int __real_ftruncate(int fd, off_t bytes);
int __real_socket(int family, int type, int protocol);
int __real_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
int __real_pthread_create(
    pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *ptr, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *ptr);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_ftruncate(int fd, off_t bytes);
int __wrap_socket(int family, int type, int protocol);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
int __wrap_pthread_create(
    pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);

static void *counted(void *ptr)
{
    if (ptr != NULL)
        atomic_fetch_add(&held_blocks, 1);
    return ptr;
}

void *__wrap_malloc(size_t bytes)
{
    return refused() ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return refused() ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *ptr, size_t bytes)
{
    if (refused())
        return NULL;
    return ptr != NULL ? __real_realloc(ptr, bytes) : counted(__real_malloc(bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return refused() ? NULL : counted(__real_aligned_alloc(alignment, bytes));
}

void __wrap_free(void *ptr)
{
    if (ptr != NULL)
        atomic_fetch_sub(&held_blocks, 1);
    __real_free(ptr);
}

static int refuse_with(int number)
{
    errno = number;
    return -1;
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (!refused())
        return __real_mmap(at, bytes, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    return refused() ? refuse_with(EMFILE) : __real_memfd_create(name, flags);
}

int __wrap_ftruncate(int fd, off_t bytes)
{
    return refused() ? refuse_with(ENOSPC) : __real_ftruncate(fd, bytes);
}

int __wrap_socket(int family, int type, int protocol)
{
    return refused() ? refuse_with(EMFILE) : __real_socket(family, type, protocol);
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    return refused() ? refuse_with(EMFILE) : __real_accept4(fd, address, bytes, flags);
}

int __wrap_pthread_create(
    pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    return refused() ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

void start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    if (__real_pthread_create(thread, NULL, run, argument) != 0)
        abort();
}

/* --- What the process holds */

struct holding {
    long blocks, descriptors, maps;
};

static long count_entries(const char *path)
{
    DIR *directory = opendir(path);
    long count = 0;
    while (directory != NULL && readdir(directory) != NULL)
        count++;
    if (directory != NULL)
        closedir(directory);
    return count;
}

static struct holding look(void)
{
    struct holding h = { .blocks = atomic_load(&held_blocks), .descriptors = count_entries("/proc/self/fd") };
    int maps = 0;
    char line[512];
    FILE *file = fopen("/proc/self/maps", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) /* stacks of threads come and stay */
        maps += strstr(line, "memfd") != NULL;
    if (file != NULL)
        fclose(file);
    h.maps = maps;
    return h;
}

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
}

bool fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("fail_alloc: ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    fflush(stdout);
    atomic_store(&failed, true);
    return false;
}

/* --- What is tried: returns the first status that is not OK. With `refusal`, that request is refused. */

static tutti_status try_init_all(long refusal)
{
    tutti_comm *comms[2] = { NULL, NULL };
    atomic_store(&countdown, refusal);
    tutti_status status = tutti_comm_init_all(2, NULL, NULL, comms);
    atomic_store(&countdown, atomic_load(&countdown) > 0 ? -1 : 0);
    if (status != TUTTI_OK && (comms[0] != NULL || comms[1] != NULL))
        fail("a failed init_all has set its output");
    for (int r = 0; r < 2 && status == TUTTI_OK; r++)
        status = tutti_comm_destroy(comms[r]);
    return status;
}

/* A rank that is refused before it meets the others is missed by them, and the id is answered until its time
 * is up: that must be short, but not where all is to go well. */
static tutti_status try_init_rank(long refusal)
{
    tutti_comm *comms[2] = { NULL, NULL };
    tutti_id id;
    setenv("TUTTI_TIMEOUT", refusal > 0 ? "150" : "200000", 1);
    atomic_store(&countdown, refusal);
    tutti_status status = tutti_get_id(&id);
    if (status == TUTTI_OK) {
        tutti_group_start();
        for (int r = 0; r < 2; r++)
            tutti_comm_init_rank(2, r, &id, NULL, &comms[r]);
        status = tutti_group_end();
    }
    atomic_store(&countdown, atomic_load(&countdown) > 0 ? -1 : 0);
    if (status != TUTTI_OK && (comms[0] != NULL || comms[1] != NULL))
        fail("a failed init_rank has set its output");
    for (int r = 0; r < 2 && status == TUTTI_OK; r++)
        status = tutti_comm_destroy(comms[r]);
    return status;
}

/* Each of two ranks, in a thread of its own, splits and talks. What is refused for want of memory was not
 * done, and the other waits or is refused, too: so it is tried again. */
struct side {
    tutti_comm *comm;
    bool refused; /* in between */
    tutti_status status;
};

static void *run_side(void *argument)
{
    struct side *s = argument;
    tutti_comm *child = NULL;
    int32_t value = 1;
    for (int i = 0; i < TRIES_AGAIN; i++) {
        s->status = child == NULL ? tutti_comm_split(s->comm, 0, 0, NULL, &child) : TUTTI_OK;
        if (s->status == TUTTI_OK)
            s->status = tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, child, tutti_no_stream());
        if (s->status != TUTTI_OUT_OF_MEMORY && s->status != TUTTI_SYSTEM_ERROR)
            break;
        s->refused = true;
        if (strlen(tutti_get_last_error(NULL)) == 0)
            fail("a refusal without a word");
    }
    if (s->status != TUTTI_OK)
        fail("a side of a split ended with %d (%s)", s->status, tutti_get_last_error(NULL));
    else if (value != 2)
        fail("the sum of 1 and 1 is %d", value);
    if (child != NULL)
        tutti_comm_destroy(child);
    return NULL;
}

static tutti_status try_split(long refusal)
{
    tutti_comm *comms[2];
    struct side sides[2];
    pthread_t threads[2];
    setenv("TUTTI_TIMEOUT", "200000", 1);
    tutti_status status = tutti_comm_init_all(2, NULL, NULL, comms);
    if (status != TUTTI_OK)
        return status;
    atomic_store(&countdown, refusal);
    for (int r = 0; r < 2; r++) {
        sides[r] = (struct side){ .comm = comms[r] };
        start_thread(&threads[r], run_side, &sides[r]);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    atomic_store(&countdown, atomic_load(&countdown) > 0 ? -1 : 0);
    for (int r = 0; r < 2; r++) {
        status = status == TUTTI_OK ? sides[r].status : status;
        tutti_comm_destroy(comms[r]);
    }
    return status;
}

/* A group: refused, nothing of it runs, and the communicators go on. */
static tutti_status run_group(tutti_comm *const *comms, int32_t (*v)[4], long refusal)
{
    size_t counts[2] = { 1, 1 }, displs[2] = { 1, 0 };
    tutti_stream none = tutti_no_stream();
    atomic_store(&countdown, refusal);
    tutti_group_start();
    for (int r = 0; r < 2; r++) {
        tutti_all_reduce(&v[r][0], &v[r][0], 1, TUTTI_INT32, TUTTI_SUM, comms[r], none);
        tutti_all_gather_v(&v[r][1], 1, &v[r][2], counts, displs, TUTTI_INT32, comms[r], none);
        tutti_send(&v[r][1], 1, TUTTI_INT32, 1 - r, comms[r], none);
        tutti_recv(&v[2][r], 1, TUTTI_INT32, 1 - r, comms[r], none);
    }
    tutti_status status = tutti_group_end();
    atomic_store(&countdown, atomic_load(&countdown) > 0 ? -1 : 0);
    return status;
}

static tutti_status try_group(long refusal)
{
    tutti_comm *comms[2];
    int32_t v[3][4] = { { 1, 10 }, { 2, 20 } };
    void *memory = NULL;
    tutti_status status = tutti_comm_init_all(2, NULL, NULL, comms);
    if (status != TUTTI_OK)
        return status;
    status = run_group(comms, v, refusal);
    if (status != TUTTI_OK && (v[0][0] != 1 || v[1][0] != 2 || v[0][2] != 0 || v[2][0] != 0))
        fail("a refused group ran in part");
    if (status == TUTTI_OUT_OF_MEMORY) {
        long left = atomic_load(&countdown);
        if (run_group(comms, v, 0) != TUTTI_OK)
            fail("the group fails after it was refused: %s", tutti_get_last_error(NULL));
        atomic_store(&countdown, left);
    }
    if (v[0][0] != 3 || v[1][0] != 3 || v[0][3] != 10 || v[1][2] != 20 || v[2][0] != 20)
        fail("a group gave %d, %d, %d, %d and %d", v[0][0], v[1][0], v[0][3], v[1][2], v[2][0]);
    if (tutti_mem_alloc(100, TUTTI_MEM_HOST, &memory) != TUTTI_OK || tutti_mem_free(memory) != TUTTI_OK)
        fail("mem_alloc after a refusal");
    for (int r = 0; r < 2; r++)
        tutti_comm_destroy(comms[r]);
    return status;
}

/* Operators: what is refused was not created, and what there was before goes on. */
static void smaller(void *dst, const void *left, const void *right, size_t count, void *context)
{
    const int32_t *l = left, *r = right;
    (void)context;
    for (size_t i = 0; i < count; i++)
        ((int32_t *)dst)[i] = l[i] < r[i] ? l[i] : r[i];
}

static tutti_status create(tutti_comm *comm, tutti_op *op)
{
    tutti_op none = *op = 77;
    tutti_status status = tutti_op_create(comm, smaller, NULL, 4, 0, op);
    if (status != TUTTI_OK && *op != none)
        fail("a failed op_create has set its output");
    return status;
}

static tutti_status try_op(long refusal)
{
    enum { OPERATORS = 40 };
    tutti_comm *comms[2];
    tutti_op ops[2][OPERATORS];
    int32_t v[2] = { 5, 7 };
    tutti_status status = tutti_comm_init_all(2, NULL, NULL, comms), first = TUTTI_OK;
    if (status != TUTTI_OK)
        return status;
    atomic_store(&countdown, refusal);
    for (int i = 0; i < 2 * OPERATORS; i++) {
        status = create(comms[i % 2], &ops[i % 2][i / 2]);
        first = first != TUTTI_OK ? first : status;
        if (status == TUTTI_OUT_OF_MEMORY && create(comms[i % 2], &ops[i % 2][i / 2]) != TUTTI_OK)
            fail("op_create fails after it was refused: %s", tutti_get_last_error(NULL));
    }
    tutti_group_start();
    for (int i = 0; i < 2 * OPERATORS; i++) {
        tutti_all_reduce(
            &v[i % 2], &v[i % 2], 1, TUTTI_INT32, ops[i % 2][i / 2], comms[i % 2], tutti_no_stream());
        tutti_op_destroy(comms[i % 2], ops[i % 2][i / 2]);
    }
    status = tutti_group_end();
    atomic_store(&countdown, atomic_load(&countdown) > 0 ? -1 : 0);
    if (status == TUTTI_OK && (v[0] != 5 || v[1] != 5))
        fail("the smaller of 5 and 7 is %d, %d", v[0], v[1]);
    for (int r = 0; r < 2; r++)
        tutti_comm_destroy(comms[r]);
    return first != TUTTI_OK ? first : status;
}

static const struct {
    const char *name;
    tutti_status (*run)(long refusal);
} tries[] = { { "init_all", try_init_all }, { "init_rank", try_init_rank }, { "split", try_split },
    { "group", try_group }, { "op", try_op }, { "streams", try_streams }, { "program", try_program },
    { "device", try_device }, { "device_alone", try_device_alone }, { "calls", try_calls },
    { "rules", try_rules } };
enum { TRIES = sizeof tries / sizeof tries[0] };

/* --- One k */

static bool same(const struct holding *a, const struct holding *b)
{
    return a->blocks <= b->blocks && a->descriptors <= b->descriptors && a->maps <= b->maps;
}

/* In a fresh process. Returns 0: right, and something was refused; 1: wrong; 2: k is beyond the last. */
static int run_one(int t, long k)
{
    tutti_status status = tries[t].run(k);
    bool reached = atomic_load(&countdown) == 0;
    bool legal = status == TUTTI_OK || status == TUTTI_OUT_OF_MEMORY || status == TUTTI_SYSTEM_ERROR;
    if (tries[t].run == try_init_rank) /* what the other rank sees */
        legal = legal || status == TUTTI_PEER_LOST || status == TUTTI_TIMEOUT;
    bool said = status == TUTTI_OK || strlen(tutti_get_last_error(NULL)) > 0;
    if (!legal || !said)
        return !fail(
            "%s, request %ld refused: status %d (%s)", tries[t].name, k, status, tutti_get_last_error(NULL));
    for (int i = 0; i < 2; i++)
        if ((status = tries[t].run(0)) != TUTTI_OK)
            return !fail("%s after request %ld was refused: status %d (%s)", tries[t].name, k, status,
                tutti_get_last_error(NULL));
    /* What is pooled may still grow for a while; what leaks grows each time. */
    struct holding before, now;
    bool settled = false;
    for (int round = 0; round < ROUNDS && !settled; round++) {
        nap();
        before = look();
        for (int i = 0; i < 3; i++)
            tries[t].run(k);
        now = look();
        for (int ms = 0; !same(&now, &before) && ms < SETTLE_MS * (round + 1); ms += 5) {
            nap();
            now = look();
        }
        settled = same(&now, &before);
    }
    if (!settled)
        return !fail(
            "%s, request %ld refused three times: blocks %ld, before %ld; descriptors %ld, %ld; arenas "
            "%ld, %ld",
            tries[t].name, k, now.blocks, before.blocks, now.descriptors, before.descriptors, now.maps,
            before.maps);
    return atomic_load(&failed) ? 1 : reached ? 0 : 2;
}

/* The process of one k: its outcome as of run_one, 1 if it crashed or hung. */
static int run_in_process(int t, long k)
{
    pid_t parent = getpid();
    int outcome;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        atomic_store(&failed, false);
        alarm(LIMIT_S);
        exit(run_one(t, k));
    }
    if (waitpid(child, &outcome, 0) != child || !WIFEXITED(outcome))
        return !fail(
            "%s, request %ld refused: the process died by signal %d", tries[t].name, k, WTERMSIG(outcome));
    return WEXITSTATUS(outcome);
}

int main(int argc, char **argv)
{
    int failures = 0;
    setenv("TUTTI_DEBUG", "none", 0);
    for (int t = 0; t < TRIES; t++) {
        int outcome = 0;
        long k = argc > 2 ? atol(argv[2]) : 1;
        if (argc > 1 && strcmp(argv[1], tries[t].name) != 0)
            continue;
        for (int wrong = 0; outcome != 2 && k < MOST && wrong < ENOUGH; k++) {
            outcome = run_in_process(t, k);
            wrong += outcome == 1;
            failures += outcome == 1;
        }
        printf("fail_alloc: %s: %ld requests refused in turn\n", tries[t].name, k - 2);
        fflush(stdout);
        failures += outcome != 2 || k < 10;
    }
    if (argc == 1 || strcmp(argv[1], "frugal") == 0)
        failures += !is_frugal();
    printf("fail_alloc: %d failed\n", failures);
    return failures != 0;
}

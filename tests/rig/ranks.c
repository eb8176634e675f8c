/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks.c: starts the ranks of a test, watches them, and tells what each did when it fails.
 *
 * The limit is generous because the machine may be loaded; once a rank died without leave, the others have
 * a few seconds to notice. */
#include "ranks_values.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run/comm.h"
#include "base/handle.h"
#include "run/call_cache.h"
#include "patience.h"

enum { LIMIT_S = 60, MS_AFTER_A_DEATH = 10000 };

static const char *const kind_names[] = { "processes", "threads", "threads of init_all" };

void ranks_sleep_us(uint32_t us)
{
    struct timespec t = { us / 1000000, us % 1000000 * 1000 };
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        continue;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void ranks_spin_ns(uint32_t ns)
{
    int64_t end = now_ns() + ns;
    while (now_ns() < end)
        continue;
}

void ranks_delay(struct ranks_me *me, uint32_t most_us)
{
    uint64_t drawn = ranks_random(&me->random);
    if (drawn & 1)
        ranks_sleep_us((uint32_t)(drawn >> 1) % (most_us + 1));
}

int64_t ranks_now_ms(void)
{
    return now_ns() / 1000000;
}

void ranks_go_to_host(const struct ranks_me *me)
{
    const struct ranks_hosts *hosts = me->context;
    char name[32];
    if (hosts == NULL || hosts->count == 0)
        return;
    snprintf(name, sizeof name, "host %d", me->rank % hosts->count);
    setenv("TUTTI_HOSTID", name, 1);
}

/* --- What a rank says */

void ranks_at(struct ranks_me *me, const char *format, ...)
{
    struct ranks_slot *slot = &me->world->slots[me->rank];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(slot->at, sizeof slot->at, format, arguments);
    va_end(arguments);
}

static void fail_v(struct ranks_me *me, const char *format, va_list arguments)
{
    struct ranks_slot *slot = &me->world->slots[me->rank];
    if (atomic_fetch_add(&slot->failures, 1) > 0)
        return;
    char at[sizeof slot->at];
    memcpy(at, slot->at, sizeof at);
    int length = snprintf(slot->failure, sizeof slot->failure, "%s%s", at, at[0] ? ": " : "");
    vsnprintf(slot->failure + length, sizeof slot->failure - (size_t)length, format, arguments);
}

void ranks_fail(struct ranks_me *me, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail_v(me, format, arguments);
    va_end(arguments);
}

bool ranks_expect(struct ranks_me *me, bool right, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!right)
        fail_v(me, format, arguments);
    va_end(arguments);
    return right;
}

bool ranks_ok(struct ranks_me *me, tutti_status status, const char *call)
{
    return ranks_expect(me, status == TUTTI_OK, "%s failed: %s (%s)", call, tutti_status_string(status),
        tutti_get_last_error(NULL));
}

/* The first of `names` ("a|b") that `text` does not have; NULL if it has all. */
static const char *missing(const char *text, const char *names)
{
    static _Thread_local char name[128];
    while (*names != '\0') {
        size_t length = strcspn(names, "|");
        snprintf(name, sizeof name, "%.*s", (int)length, names);
        if (strstr(text, name) == NULL)
            return name;
        names += length + (names[length] == '|');
    }
    return NULL;
}

bool ranks_refused(
    struct ranks_me *me, tutti_status status, tutti_status expected, const char *call, const char *names)
{
    char text[RANKS_TEXT / 2];
    snprintf(text, sizeof text, "%s", tutti_get_last_error(NULL));
    if (status != expected) {
        ranks_fail(me, "%s returned %d (%s), expected %d", call, status, text, expected);
        return false;
    }
    const char *absent = missing(text, names);
    return ranks_expect(
        me, absent == NULL, "%s: the message does not say '%s': \"%s\"", call, absent ? absent : "", text);
}

/* --- Communicators */

bool ranks_id(struct ranks_me *me, tutti_id *id)
{
    struct ranks_world *world = me->world;
    uint32_t wanted = ++me->joined;
    if (me->rank == 0) {
        if (!ranks_ok(me, tutti_get_id(&world->id[wanted % RANKS_IDS]), "tutti_get_id"))
            return false;
        atomic_store(&world->ids, wanted);
    }
    while (atomic_load(&world->ids) < wanted)
        ranks_sleep_us(50);
    *id = world->id[wanted % RANKS_IDS];
    return true;
}

tutti_comm *ranks_join(struct ranks_me *me, const tutti_config *config)
{
    tutti_comm *comm = NULL;
    tutti_id id;
    if (me->kind == RANKS_TOGETHER) {
        if (me->rank == 0 && !ranks_ok(me, tutti_comm_init_all(me->n, NULL, config, me->world->together),
                                 "tutti_comm_init_all"))
            memset(me->world->together, 0, sizeof me->world->together);
        ranks_meet(me);
        comm = me->world->together[me->rank];
        ranks_meet(me);
        return comm;
    }
    if (!ranks_id(me, &id))
        return NULL;
    if (!ranks_ok(me, tutti_comm_init_rank(me->n, me->rank, &id, config, &comm), "tutti_comm_init_rank"))
        return NULL;
    return comm;
}

void ranks_part(struct ranks_me *me, tutti_comm *comm)
{
    ranks_ok(me, tutti_comm_destroy(comm), "tutti_comm_destroy");
}

void ranks_meet(struct ranks_me *me)
{
    pthread_barrier_wait(&me->world->meeting);
}

tutti_error ranks_same_error(
    struct ranks_me *me, const tutti_comm *comm, tutti_status expected, const char *names)
{
    tutti_error *errors = me->shared, *mine = &errors[me->rank];
    char finder[32];
    _Static_assert(sizeof *errors * RANKS_MAX <= RANKS_SHARED_BYTES, "one per rank");
    /* Between hosts the rank that decides on the cause has it last, and a rank that was told may be here. */
    for (int ms = 0; ms < 1000 && tutti_comm_state(comm) == TUTTI_OK; ms++)
        ranks_sleep_us(1000);
    memset(mine, 0, sizeof *mine);
    mine->size = sizeof *mine;
    ranks_ok(me, tutti_comm_get_error(comm, mine), "tutti_comm_get_error");
    ranks_meet(me);
    tutti_error first = errors[0], own = *mine;
    ranks_expect(me, own.status == expected, "the communicator ended with %d (%s), expected %d", own.status,
        own.text, expected);
    ranks_expect(me, memcmp(&first, &own, sizeof own) == 0,
        "not the first cause of rank 0: here %d, rank %d, peer %d, operation %llu: \"%s\"; there %d, rank "
        "%d, "
        "peer %d, operation %llu: \"%s\"",
        own.status, own.rank, own.peer, (unsigned long long)own.sequence, own.text, first.status, first.rank,
        first.peer, (unsigned long long)first.sequence, first.text);
    const char *absent = missing(own.text, names);
    ranks_expect(me, absent == NULL, "the error does not say '%s': \"%s\"", absent ? absent : "", own.text);
    snprintf(finder, sizeof finder, "rank %d", own.rank); /* the text is read on all ranks */
    ranks_expect(me, strstr(own.text, finder) != NULL && strstr(own.text, "this rank") == NULL,
        "the error does not say that rank %d found it: \"%s\"", own.rank, own.text);
    ranks_expect(me, tutti_comm_state(comm) == own.status, "tutti_comm_state differs from get_error");
    ranks_expect(me, strcmp(tutti_get_last_error(comm), own.text) == 0, "get_last_error(comm): other words");
    ranks_meet(me);
    return own;
}

/* --- Algorithms, by the names that the library tells */

bool ranks_same(struct ranks_me *me, tutti_type type, const void *found, const void *expected, size_t count,
    const char *name)
{
    size_t bytes = tutti_type_bytes(type), i = 0;
    const uint8_t *f = found, *e = expected;
    if (count == 0 || memcmp(f, e, count * bytes) == 0)
        return true;
    while (memcmp(f + i * bytes, e + i * bytes, bytes) == 0)
        i++;
    uint64_t has = 0, wanted = 0;
    memcpy(&has, f + i * bytes, bytes);
    memcpy(&wanted, e + i * bytes, bytes);
    ranks_fail(me, "%s: element %zu of %zu is 0x%llx, expected 0x%llx", name, i, count,
        (unsigned long long)has, (unsigned long long)wanted);
    return false;
}

int ranks_algorithm(const tutti_comm *comm, const char *collective, int k, char *name, size_t bytes)
{
    char question[64], list[1024] = "", *rest = list;
    int total = 0;
    snprintf(question, sizeof question, "algorithms %s", collective);
    if (tutti_query(comm, question, list, sizeof list) >= sizeof list)
        return 0;
    for (char *by_domain; comm == NULL && (by_domain = strstr(list, "hierarchical")) != NULL;) {
        char *next = strchr(by_domain, '\n') + 1; /* that one serves only some communicators */
        memmove(by_domain, next, strlen(next) + 1);
    }
    for (const char *at = list; *at != '\0'; at++)
        total += *at == '\n';
    for (int i = 0; total > 0 && i < k % total; i++)
        rest = strchr(rest, '\n') + 1;
    snprintf(name, bytes, "%.*s", (int)strcspn(rest, "\t"), rest);
    return total;
}

bool ranks_algorithms(int k, char *options, size_t bytes)
{
    static const char *const collectives[] = { "all_reduce", "reduce", "broadcast", "reduce_scatter",
        "all_gather", "all_gather_v", "all_to_all", "gather", "scatter", "reduce_scatter_v" };
    enum { COLLECTIVES = sizeof collectives / sizeof collectives[0] };
    bool more = false, any = false;
    size_t length = strlen(options);
    for (int c = 0; c < COLLECTIVES; c++) {
        char name[32];
        int total = ranks_algorithm(NULL, collectives[c], k, name, sizeof name);
        more |= k < total;
        if (total < 2)
            continue;
        length += (size_t)snprintf(
            options + length, bytes - length, "%s%s:%s", any ? "," : ";algo=", collectives[c], name);
        any = true;
    }
    return more;
}

struct ranks_paths ranks_paths(struct ranks_me *me, const tutti_comm *comm)
{
    struct ranks_paths p = { 0 };
    tutti_query(comm, "paths", p.text, sizeof p.text);
    int known = sscanf(p.text, "line=%llu mapped=%llu copied=%llu placed=%llu pulled=%llu", &p.line,
        &p.mapped, &p.copied, &p.placed, &p.pulled);
    ranks_expect(me, known == 5, "the paths are '%s'", p.text);
    return p;
}

int ranks_cached(tutti_comm *comm)
{
    const struct tt_comm *c = tt_comm_find(comm);
    int known = 0;
    for (int i = 0; i < TT_CACHED_CALLS; i++)
        known += c->calls.cached[i].moves != NULL;
    return known;
}

/* --- Buffers */

static uint8_t poison(size_t at)
{
    return (uint8_t)(0xa5 ^ at * 29);
}

bool ranks_buffer_create(struct ranks_me *me, struct ranks_buffer *buffer, size_t room, bool registered)
{
    void *memory = NULL;
    size_t all = room + 2 * RANKS_GUARD + 64;
    if (registered)
        ranks_ok(me, tutti_mem_alloc(all, TUTTI_MEM_HOST, &memory), "tutti_mem_alloc");
    else
        memory = aligned_alloc(64, (all + 63) / 64 * 64);
    *buffer = (struct ranks_buffer){ .memory = memory, .room = room, .registered = registered };
    return ranks_expect(me, memory != NULL, "no memory for a buffer of %zu bytes", room);
}

void ranks_buffer_free(struct ranks_me *me, struct ranks_buffer *buffer)
{
    if (buffer->registered)
        ranks_ok(me, tutti_mem_free(buffer->memory), "tutti_mem_free");
    else
        free(buffer->memory);
    buffer->memory = NULL;
}

void *ranks_buffer_place(struct ranks_buffer *buffer, size_t bytes, size_t offset)
{
    if (bytes > buffer->room || offset > 64)
        abort(); /* the test is wrong, not the library */
    buffer->data = buffer->memory + RANKS_GUARD + offset;
    buffer->bytes = bytes;
    uint8_t *first = buffer->data - RANKS_GUARD;
    for (size_t i = 0; i < bytes + 2 * RANKS_GUARD; i++)
        first[i] = poison(i);
    return buffer->data;
}

static bool check_poison(
    struct ranks_me *me, const struct ranks_buffer *buffer, const char *name, size_t from, size_t end)
{
    const uint8_t *first = buffer->data - RANKS_GUARD;
    for (size_t i = from; i < end; i++)
        if (first[i] != poison(i)) {
            ranks_fail(me, "%s of %zu bytes (%s): byte %lld was written", name, buffer->bytes,
                buffer->registered ? "tutti_mem_alloc" : "malloc", (long long)i - RANKS_GUARD);
            return false;
        }
    return true;
}

bool ranks_buffer_check(struct ranks_me *me, const struct ranks_buffer *buffer, const char *name)
{
    size_t end = RANKS_GUARD + buffer->bytes;
    return check_poison(me, buffer, name, 0, RANKS_GUARD) &&
           check_poison(me, buffer, name, end, end + RANKS_GUARD);
}

bool ranks_buffer_untouched(
    struct ranks_me *me, const struct ranks_buffer *buffer, const char *name, size_t from, size_t end)
{
    return check_poison(me, buffer, name, RANKS_GUARD + from, RANKS_GUARD + end);
}

/* --- Running */

struct thread {
    const struct ranks_plan *plan;
    struct ranks_world *world;
    int rank;
    pthread_t thread;
};

static void *run_rank(void *argument)
{
    const struct thread *t = argument;
    char lost[32] = "";
    struct ranks_me me = { .n = t->plan->n,
        .rank = t->rank,
        .kind = t->plan->kind,
        .random = ranks_mix(t->plan->seed) + (uint64_t)t->rank,
        .context = t->plan->context,
        .shared = t->world->shared,
        .world = t->world };
    atomic_store(&t->world->slots[t->rank].pid, getpid());
    t->plan->run(&me);
    tutti_query(NULL, "lost_wakeups", lost, sizeof lost);
    ranks_expect(&me, strcmp(lost, "0") == 0, "%s wake-ups were lost in this process", lost);
    atomic_store(&t->world->slots[t->rank].over, true);
    return NULL;
}

/* How many ranks a process has; the last one may have fewer. */
static int per_process(const struct ranks_plan *plan)
{
    int own = plan->per_process > 0 ? plan->per_process : 1;
    return plan->kind == RANKS_PROCESSES ? own : plan->n;
}

static int end_of(const struct ranks_plan *plan, int process)
{
    int end = (process + 1) * per_process(plan);
    return end < plan->n ? end : plan->n;
}

static void run_process(const struct ranks_plan *plan, struct ranks_world *world, int process, pid_t parent)
{
    const char *hosts = getenv("TUTTI_TEST_HOSTS"); /* ranks are by turns on so many hosts */
    if (hosts != NULL) {
        char name[32];
        snprintf(name, sizeof name, "host %d", process % atoi(hosts));
        setenv("TUTTI_HOSTID", name, 1);
        setenv("TUTTI_INTERFACE", "127.0.0.1", 1);
    }
    setenv("TUTTI_PROBE", "off", 0); /* what is measured of a network hangs on who else is busy here */
    struct thread threads[RANKS_MAX];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int first = process * per_process(plan), end = end_of(plan, process);
    for (int r = first; r < end; r++) {
        threads[r] = (struct thread){ .plan = plan, .world = world, .rank = r };
        if (r > first && pthread_create(&threads[r].thread, NULL, run_rank, &threads[r]) != 0)
            _exit(2);
    }
    run_rank(&threads[first]);
    for (int r = first + 1; r < end; r++)
        pthread_join(threads[r].thread, NULL);
    exit(0);
}

struct watch {
    const struct ranks_plan *plan;
    struct ranks_world *world;
    pid_t pids[RANKS_MAX];
    int count, left;
    bool wrong;
    char text[RANKS_MAX * RANKS_TEXT];
};

static void __attribute__((format(printf, 2, 3))) tell(struct watch *w, const char *format, ...)
{
    size_t length = strlen(w->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->text + length, sizeof w->text - length, format, arguments);
    va_end(arguments);
    w->wrong = true;
}

static void note_end(struct watch *w, int i, int outcome)
{
    bool processes = w->plan->kind == RANKS_PROCESSES;
    int first = i * per_process(w->plan);
    if (WIFSIGNALED(outcome) && !(processes && (w->plan->may_die >> first & 1))) {
        tell(w, "rank %d died by signal %d (%s)\n", first, WTERMSIG(outcome), strsignal(WTERMSIG(outcome)));
        for (int r = first; r < end_of(w->plan, i); r++)
            if (!w->world->slots[r].over)
                tell(w, "  rank %d was at: %s\n", r, w->world->slots[r].at);
    } else if (WIFEXITED(outcome) && WEXITSTATUS(outcome) != 0) {
        tell(w, "rank %d exited with %d; it was at: %s\n", first, WEXITSTATUS(outcome),
            w->world->slots[first].at);
    }
}

static void reap(struct watch *w, int options)
{
    for (int i = 0; i < w->count; i++) {
        int outcome;
        if (w->pids[i] == 0 || waitpid(w->pids[i], &outcome, options) != w->pids[i])
            continue;
        w->pids[i] = 0;
        w->left--;
        if (options == WNOHANG)
            note_end(w, i, outcome);
    }
}

static void watch_ranks(struct watch *w)
{
    int limit_s = w->plan->limit_s > 0 ? w->plan->limit_s : LIMIT_S;
    struct patience patience = patience_of((int64_t)limit_s * 1000);
    bool hurried = false;
    while (w->left > 0 && !patience_is_over(&patience)) {
        reap(w, WNOHANG);
        if (w->wrong && !hurried) {
            patience_shorten(&patience, MS_AFTER_A_DEATH);
            hurried = true;
        }
        if (w->left > 0)
            ranks_sleep_us(300);
    }
    if (w->left == 0)
        return;
    for (int i = 0; i < w->count; i++)
        if (w->pids[i] > 0)
            kill(w->pids[i], SIGKILL);
    for (int r = 0; r < w->plan->n; r++)
        if (!w->world->slots[r].over && w->pids[r / per_process(w->plan)] != 0)
            tell(w, "rank %d hung at: %s\n", r, w->world->slots[r].at);
    reap(w, 0);
}

static struct ranks_world *make_world(int n)
{
    struct ranks_world *world =
        mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attributes;
    cr_assert(world != MAP_FAILED && n >= 1 && n <= RANKS_MAX);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&world->meeting, &attributes, (unsigned)n);
    pthread_barrierattr_destroy(&attributes);
    return world;
}

/* A developer's own variables must not decide, and expected errors need no log. */
static void set_environment(void)
{
    static const char *const names[] = { "TUTTI_ALGO", "TUTTI_SLICE", "TUTTI_TIMEOUT", "TUTTI_FIRST_NUMBER",
        "TUTTI_EXACT", "TUTTI_MAP", "TUTTI_ID", "TUTTI_RANK", "TUTTI_SIZE" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv(
        "TUTTI_REFUSAL", "0", 1); /* who tests refusals says how long; a loaded machine may take any time */
}

void ranks_run(const struct ranks_plan *plan)
{
    struct watch w = { .plan = plan, .world = make_world(plan->n) };
    pid_t parent = getpid();
    set_environment();
    w.count = (plan->n + per_process(plan) - 1) / per_process(plan);
    for (; w.left < w.count; w.left++) {
        w.pids[w.left] = fork();
        if (w.pids[w.left] == 0)
            run_process(plan, w.world, w.left, parent);
        cr_assert(w.pids[w.left] > 0, "fork: %s", strerror(errno));
    }
    if (plan->meddle != NULL)
        plan->meddle(w.world, plan);
    watch_ranks(&w);
    for (int r = 0; r < plan->n; r++)
        if (w.world->slots[r].failures > 0)
            tell(&w, "rank %d, %d failures, the first: %s\n", r, w.world->slots[r].failures,
                w.world->slots[r].failure);
    munmap(w.world, sizeof *w.world);
    cr_assert(!w.wrong, "n %d, %s, seed %llu:\n%s", plan->n, kind_names[plan->kind],
        (unsigned long long)plan->seed, w.text);
}

void ranks_stop_in_turn(struct ranks_world *world, const struct ranks_plan *plan)
{
    enum { STOPS = 12 };
    for (int i = 0; i < STOPS; i++) {
        ranks_sleep_us(10000 + (uint32_t)i * 1371);
        pid_t pid = atomic_load(&world->slots[i % plan->n].pid);
        if (pid <= 0 || kill(pid, SIGSTOP) != 0)
            break;
        ranks_sleep_us(130000); /* more than a tick of lib/base/wait.h */
        kill(pid, SIGCONT);
    }
    atomic_store((_Atomic uint8_t *)world->shared, 1);
}

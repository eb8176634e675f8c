/* SPDX-License-Identifier: BSD-3-Clause */
/* api.c: the fuzzer's main program: episodes from a seed, a look at whether it goes on, and words on how to
 * repeat what failed.
 *
 * usage: api [--seed S] [--calls N] [--from STEP] [--table]
 *
 * Nothing here is a matter of time but the watchdog: it counts tenths of a second that came on time, so those
 * of a machine that has no time for this program do not count. */
#include "tests/fuzz/fuzz.h"

#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 48, TICK_NS = 100000000, QUIET_TICKS = 1800 };

static struct fuzz_episode *now; /* for the words when it ends badly */
static _Atomic uint64_t calls;
static struct fuzz_tally total;
static _Thread_local struct fuzz_rank *here; /* the rank of this thread */

/* With a sanitizer: called when it has found something. */
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

/* --- Words */

static void tell_state(void)
{
    if (now == NULL)
        return;
    for (int r = 0; r < now->n; r++)
        fprintf(stderr, "fuzz: step %llu, rank %d of %d: %s\n", (unsigned long long)now->ranks[r].step, r,
            now->n, now->ranks[r].at);
    fprintf(stderr, "fuzz: options \"%s\"; repeat it: tests/fuzz/api --seed %llu --from %llu\n", now->options,
        (unsigned long long)now->seed, (unsigned long long)now->number * STEPS);
}

static void died(int sig)
{
    fprintf(stderr, "fuzz: signal %d\n", sig);
    tell_state();
    signal(sig, SIG_DFL);
    raise(sig);
}

_Noreturn void fuzz_fail(struct fuzz_rank *me, const char *format, ...)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    va_list list;
    while (atomic_flag_test_and_set(&said)) /* another thread is about to end all */
        pause();
    fprintf(stderr, "fuzz: FAILED, step %llu, rank %d: ", (unsigned long long)me->step, me->rank);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    tell_state();
    _exit(1);
}

void fuzz_at(struct fuzz_rank *me, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(me->at, sizeof me->at, format, list);
    va_end(list);
}

static void count(struct fuzz_tally *tally, const char *name, uint64_t times)
{
    int i = 0;
    while (tally->names[i] != NULL && strcmp(tally->names[i], name) != 0)
        i++;
    tally->names[i] = name;
    tally->counts[i] += times;
}

tutti_status fuzz_expect(struct fuzz_rank *me, const char *name, tutti_status status, uint32_t may)
{
    count(&me->tally, name, 1);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    if ((FUZZ_MAY(status) & may) == 0)
        fuzz_fail(me, "%s returned %d (%s); the set of what it may is 0x%x", name, (int)status,
            status < 0 ? tutti_get_last_error(NULL) : "no error", may);
    if (status < 0 && tutti_get_last_error(NULL)[0] == '\0')
        fuzz_fail(me, "%s returned %d without a word", name, (int)status);
    return status;
}

void fuzz_right(struct fuzz_rank *me, const char *name, bool right)
{
    count(&me->tally, name, 1);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    if (!right)
        fuzz_fail(me, "%s gave what it must not", name);
}

void fuzz_meet(struct fuzz_rank *me)
{
    if (!me->episode->one_thread)
        pthread_barrier_wait(&me->episode->meeting);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *watch(void *argument)
{
    uint64_t seen = 0;
    for (int quiet = 0; quiet < QUIET_TICKS;) {
        int64_t before = now_ns();
        nanosleep(&(struct timespec){ 0, TICK_NS }, NULL);
        bool on_time = now_ns() - before < 2 * (int64_t)TICK_NS;
        uint64_t made = atomic_load(&calls);
        quiet = made != seen ? 0 : quiet + on_time;
        seen = made;
    }
    fprintf(stderr, "fuzz: FAILED: it hangs; no call has returned for three minutes\n");
    tell_state();
    abort();
    return argument;
}

/* --- Episodes */

/* Common to all ranks of a step. */
static uint64_t number_of(const struct fuzz_episode *episode, uint64_t step)
{
    return ranks_mix(episode->seed ^ ranks_mix(episode->number * STEPS + step));
}

static void *run_rank(void *argument)
{
    struct fuzz_rank *me = here = argument;
    me->step = me->episode->number * STEPS;
    fuzz_begin(me, number_of(me->episode, STEPS));
    for (uint64_t s = 0; s < STEPS; s++) {
        uint64_t common = number_of(me->episode, s);
        me->step = me->episode->number * STEPS + s;
        me->random = ranks_mix(common + (uint64_t)me->rank);
        for (uint32_t own = ranks_below(&me->random, 4); own > 0; own--)
            fuzz_own_step(me);
        fuzz_common_step(me, common);
    }
    fuzz_finish(me, ranks_mix(number_of(me->episode, STEPS)));
    return NULL;
}

static void run_threads(struct fuzz_episode *episode)
{
    pthread_t threads[FUZZ_RANKS];
    for (int r = 0; r < episode->n; r++)
        if (pthread_create(&threads[r], NULL, run_rank, &episode->ranks[r]) != 0)
            fuzz_fail(&episode->ranks[r], "the fuzzer's own: no thread");
    for (int r = 0; r < episode->n; r++)
        pthread_join(threads[r], NULL);
}

/* One thread has all ranks, so it groups their calls, and no rank waits for another one. */
static void run_one_thread(struct fuzz_episode *episode)
{
    for (int r = 0; r < episode->n; r++)
        fuzz_begin(&episode->ranks[r], number_of(episode, STEPS));
    for (uint64_t s = 0; s < STEPS; s++) {
        uint64_t common = number_of(episode, s);
        for (int r = 0; r < episode->n; r++) {
            struct fuzz_rank *me = &episode->ranks[r];
            me->step = episode->number * STEPS + s;
            me->random = ranks_mix(common + (uint64_t)r);
            if (ranks_below(&me->random, 4) == 0)
                fuzz_own_step(me);
        }
        fuzz_one_thread_step(episode, common);
    }
    for (int r = 0; r < episode->n; r++) {
        struct fuzz_rank *me = &episode->ranks[r];
        fuzz_settle(me);
        fuzz_expect(me, "comm_destroy", tutti_comm_destroy(me->ends[0].comm), FUZZ_OK);
        for (int i = 0; i < me->stream_count; i++)
            fuzz_expect(me, "stream_destroy", tutti_stream_destroy(me->streams[i]), FUZZ_OK);
        fuzz_pools_free(me);
    }
}

/* The k-th algorithm of a collective that serves every communicator, as an option. */
static void force_algorithm(struct fuzz_episode *episode, uint64_t *r)
{
    static const char *const collectives[] = { "all_reduce", "reduce", "broadcast", "reduce_scatter",
        "all_gather", "all_to_all", "gather", "scatter", "reduce_scatter_v", "all_gather_v" };
    const char *collective = collectives[ranks_below(r, 10)];
    char question[64], list[2048] = "", *line, *rest = list;
    snprintf(question, sizeof question, "algorithms %s", collective);
    tutti_query(NULL, question, list, sizeof list);
    for (uint32_t k = 1 + ranks_below(r, 8); k > 0 && (line = strsep(&rest, "\n")) != NULL; k--)
        if (line[0] != '\0' && strncmp(line, "hierarchical", 12) != 0)
            snprintf(episode->options, sizeof episode->options, "algo=%s:%.*s", collective,
                (int)strcspn(line, " \t"), line);
    episode->forced = true;
}

/* What a call that waits runs: what any thread may ask at any moment. */
static int look_around(void *context)
{
    const struct fuzz_rank *me = here;
    tutti_error error = { .size = sizeof error };
    char text[64];
    if (me == NULL || me->ends[0].comm == NULL)
        return context != NULL;
    return tutti_comm_state(me->ends[0].comm) == TUTTI_INVALID_ARGUMENT ||
           tutti_comm_get_error(me->ends[0].comm, &error) != TUTTI_OK ||
           tutti_query(me->ends[0].comm, "recorder", text, sizeof text) == 0;
}

static void draw_options(struct fuzz_episode *episode, uint64_t *r)
{
    static const char *const options[] = { "", "slice=4K", "fused=off", "map=off", "slice=8K;map=off",
        "isa=generic", "stream_bytes=4K", "membarrier=off", "first_number=4294967290", "topology=0/1-3",
        "slice=4K;fused=off", "pull=always", "pull=always;slice=64K" };
    uint32_t which = ranks_below(r, 24);
    if (which < sizeof options / sizeof options[0] &&
        (strchr(options[which], '/') == NULL || episode->n == 4))
        snprintf(episode->options, sizeof episode->options, "%s", options[which]);
    else if (which >= 20)
        force_algorithm(episode, r);
    size_t length = strlen(episode->options);
    /* A rank that refused a call has all the time it needs until its next one, however loaded the machine. */
    snprintf(episode->options + length, sizeof episode->options - length, "%srefusal=600000",
        length > 0 ? ";" : "");
    episode->config = (tutti_config){ .size = sizeof(tutti_config), .options = episode->options };
    if (ranks_below(r, 4) == 0)
        episode->config.on_wait = look_around;
    if (!episode->forced && ranks_below(r, 6) == 0)
        episode->config.flags = TUTTI_COMM_EXACT;
}

static void run_episode(uint64_t seed, uint64_t number)
{
    static const int sizes[] = { 1, 1, 1, 2, 2, 2, 3, 4 };
    static struct fuzz_episode episode;
    uint64_t r = ranks_mix(seed ^ ranks_mix(~number));
    tutti_comm *comms[FUZZ_RANKS] = { NULL };
    memset(&episode, 0, sizeof episode);
    episode.seed = seed;
    episode.number = number;
    episode.n = sizes[ranks_below(&r, 8)];
    episode.one_thread = episode.n > 1 && ranks_below(&r, 6) == 0;
    for (int i = 0; i < episode.n; i++) {
        episode.ranks[i].n = episode.n;
        episode.ranks[i].rank = i;
        episode.ranks[i].episode = &episode;
    }
    now = &episode;
    draw_options(&episode, &r);
    if (pthread_barrier_init(&episode.meeting, NULL, (unsigned)episode.n) != 0)
        fuzz_fail(&episode.ranks[0], "the fuzzer's own: no barrier");
    if (episode.one_thread || ranks_below(&r, 3) > 0) {
        fuzz_at(&episode.ranks[0], "init_all of %d", episode.n);
        fuzz_expect(&episode.ranks[0], "comm_init_all",
            tutti_comm_init_all(episode.n, NULL, &episode.config, comms), FUZZ_OK);
    }
    for (int i = 0; i < episode.n; i++)
        episode.ranks[i].ends[0].comm = comms[i];
    if (episode.one_thread)
        run_one_thread(&episode);
    else
        run_threads(&episode);
    pthread_barrier_destroy(&episode.meeting);
    for (int i = 0; i < episode.n; i++)
        for (int k = 0; episode.ranks[i].tally.names[k] != NULL; k++)
            count(&total, episode.ranks[i].tally.names[k], episode.ranks[i].tally.counts[k]);
}

/* --- The program */

/* What the environment says would be said to every communicator. */
static void forget_environment(void)
{
    static const char *const names[] = { "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_ID", "TUTTI_ROOT", "RANK",
        "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_SIZE",
        "PMI_FD" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    setenv("TUTTI_DEBUG", "none", 0); /* every refusal would be a line */
}

static uint64_t number_from(const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 0);
    if (*text == '\0' || *end != '\0') {
        fprintf(stderr, "fuzz: %s is no number\n", text);
        exit(2);
    }
    return number;
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "seed", required_argument, NULL, 's' },
        { "calls", required_argument, NULL, 'c' }, { "from", required_argument, NULL, 'f' },
        { "table", no_argument, NULL, 't' }, { 0 } };
    uint64_t seed = 1, most = 10000, from = 0;
    bool table = false;
    pthread_t watchdog;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == '?') {
            fprintf(stderr, "usage: %s [--seed S] [--calls N] [--from STEP] [--table]\n", argv[0]);
            return 2;
        }
        if (option == 't')
            table = true;
        else
            *(option == 's' ? &seed : option == 'c' ? &most : &from) = number_from(optarg);
    }
    forget_environment();
    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(tell_state);
    else
        for (int sig = SIGILL; sig <= SIGSEGV; sig++)
            if (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGABRT)
                signal(sig, died);
    if (pthread_create(&watchdog, NULL, watch, NULL) != 0)
        return 2;
    uint64_t number = from / STEPS, first = number;
    while (atomic_load(&calls) < most)
        run_episode(seed, number++);
    for (int i = 0; table && total.names[i] != NULL; i++)
        printf("%12llu %s\n", (unsigned long long)total.counts[i], total.names[i]);
    printf("fuzz: %llu calls of %llu steps in %llu episodes, seed %llu: none went wrong\n",
        (unsigned long long)atomic_load(&calls), (unsigned long long)(number - first) * STEPS,
        (unsigned long long)(number - first), (unsigned long long)seed);
    return 0;
}

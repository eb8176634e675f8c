/* SPDX-License-Identifier: BSD-3-Clause */
/* kills.c: the campaign's main program: draws trials, kills, judges the survivors, and reports.
 *
 * usage: kills [--kills N] [--seed S] [--from TRIAL] [--trials N] [--hosts H]
 *        tests/net/hosts.sh H kills --hosts H ..     on hosts that are namespaces
 *
 * Right is: each survivor ends within half a minute of the last kill, a quarter of the communicators'
 * timeout; it was told PEER_LOST of one of the killed ranks, with the same words as every other survivor, or
 * it had finished; no result was wrong; no thread and no descriptor stayed. A rank that was killed before it
 * had come to the initialisation may be missed by the deadline only, so there TIMEOUT is right, too. */
#include "tests/campaign/campaign.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HUNG_S = 30, SLOW_S = 2, BEGIN_S = 120, TIMES_MOST = 1 << 16, POLL_US = 200 };
static const char *const phase_names[] = { "run", "init", "destroy" };

struct sum { /* of one phase */
    int trials, kills, survivors, told, finished, late;
    int hung, crashed, wrong, other_cause, left_behind;
    int time_count;
    double times[TIMES_MOST]; /* seconds from the first kill to the end, of each survivor that was told */
};
static struct sum sums[CAMPAIGN_PHASES];
static uint64_t calls;
static int hosts = 1;

/* --- Trials */

static void draw(uint64_t seed, uint64_t number, struct trial *trial)
{
    static const int sizes[] = { 2, 3, 4, 8 };
    static const uint32_t windows[] = { 1000, 10000, 100000 };
    uint64_t r = ranks_mix(seed ^ ranks_mix(number));
    uint32_t phase = ranks_below(&r, 10);
    *trial = (struct trial){ .seed = ranks_random(&r),
        .phase = phase < 7   ? CAMPAIGN_RUN
                 : phase < 8 ? CAMPAIGN_INIT
                             : CAMPAIGN_DESTROY,
        .n = sizes[ranks_below(&r, 4)],
        .bytes = (size_t)8 << ranks_below(&r, 22), /* 8 bytes to 16 MiB */
        .registered = ranks_below(&r, 2) == 1 };
    trial->victim_count = trial->n > 2 ? 1 + (int)ranks_below(&r, 2) : 1;
    for (int i = 0; i < trial->victim_count; i++) {
        uint32_t window = trial->phase == CAMPAIGN_RUN ? windows[ranks_below(&r, 3)] : 4000;
        trial->delay_us[i] = ranks_below(&r, i == 0 ? window : window / 2);
        do
            trial->victims[i] = (int)ranks_below(&r, (uint32_t)trial->n);
        while (i > 0 && trial->victims[i] == trial->victims[0]);
    }
}

static void tell(
    uint64_t number, const struct trial *t, const char *what, int rank, const struct record *record)
{
    fprintf(stderr, "campaign: trial %llu, %s, %d ranks, %zu bytes of %s, killed %d",
        (unsigned long long)number, phase_names[t->phase], t->n, t->bytes,
        t->registered ? "mem_alloc" : "malloc", t->victims[0]);
    if (t->victim_count > 1)
        fprintf(stderr, " and %d", t->victims[1]);
    fprintf(stderr, ": rank %d %s, in %s, status %d, \"%s\" %s\n", rank, what, record->at, record->status,
        record->error.text, record->wrong);
}

/* --- Killing, and waiting */

static void kill_victims(const struct trial *trial, struct scene *scene, const pid_t *pids, int64_t *first_ns)
{
    int64_t deadline = campaign_now_ns() + BEGIN_S * INT64_C(1000000000);
    while (atomic_load(&scene->begun) < trial->n && campaign_now_ns() < deadline)
        usleep(POLL_US);
    for (int i = 0; i < trial->victim_count; i++) {
        usleep(trial->delay_us[i]);
        if (i == 0)
            *first_ns = campaign_now_ns();
        int victim = trial->victims[i], inside = atomic_load(&scene->pids[victim]);
        kill(inside != 0 ? inside : pids[victim], SIGKILL);
    }
}

/* Wait status of each rank; -1: it hung, and was killed for that. */
static void reap(const struct trial *trial, const pid_t *pids, int *statuses)
{
    int64_t deadline = campaign_now_ns() + HUNG_S * INT64_C(1000000000);
    for (int r = 0; r < trial->n; r++) {
        while (waitpid(pids[r], &statuses[r], WNOHANG) == 0) {
            if (campaign_now_ns() < deadline) {
                usleep(POLL_US);
                continue;
            }
            kill(pids[r], SIGKILL);
            waitpid(pids[r], &statuses[r], 0);
            statuses[r] = -1;
            break;
        }
    }
}

/* --- Judging */

/* Did this rank say what it must? Counts it. */
static void judge_rank(
    uint64_t number, const struct trial *t, const struct record *record, int status, int rank, double took)
{
    struct sum *sum = &sums[t->phase];
    bool lost = record->status == TUTTI_PEER_LOST;
    bool late = t->phase == CAMPAIGN_INIT && !record->joined && record->status == TUTTI_TIMEOUT;
    bool finished = t->phase == CAMPAIGN_DESTROY && record->status == TUTTI_OK;
    sum->survivors++;
    if (status != 0 || !atomic_load(&record->over)) {
        sum->hung += status == -1;
        sum->crashed += status != -1;
        tell(number, t, status == -1 ? "hung" : "crashed", rank, record);
        return;
    }
    sum->told += lost;
    sum->late += late;
    sum->finished += finished;
    if (lost && sum->time_count < TIMES_MOST)
        sum->times[sum->time_count++] = took;
    if (lost && record->joined && took > SLOW_S)
        tell(number, t, "was told late", rank, record);
    if (record->wrong[0] != '\0') {
        sum->wrong++;
        tell(number, t, "is wrong", rank, record);
    }
    bool named = !record->joined || !lost || campaign_is_victim(t, record->error.peer);
    if ((!lost && !late && !finished) || !named) {
        sum->other_cause++;
        tell(number, t, "has another cause", rank, record);
    }
    if (record->threads_left > 0 || record->descriptors_left > 0) {
        sum->left_behind++;
        fprintf(stderr, "campaign: %d threads and %d descriptors stay\n", record->threads_left,
            record->descriptors_left);
        tell(number, t, "left something", rank, record);
    }
}

static void judge(
    uint64_t number, const struct trial *t, struct scene *scene, const int *statuses, int64_t first_ns)
{
    const struct record *one = NULL;
    sums[t->phase].trials++;
    for (int r = 0; r < t->n; r++) {
        const struct record *record = &scene->ranks[r];
        calls += record->calls;
        if (campaign_is_victim(t, r)) {
            sums[t->phase].kills += WIFSIGNALED(statuses[r]) && WTERMSIG(statuses[r]) == SIGKILL;
            continue;
        }
        judge_rank(number, t, record, statuses[r], r, (double)(record->ended_ns - first_ns) * 1e-9);
        if (!record->joined || record->status != TUTTI_PEER_LOST)
            continue;
        if (one != NULL && memcmp(&one->error, &record->error, sizeof one->error) != 0) {
            sums[t->phase].other_cause++;
            tell(number, t, "was told this", (int)(one - scene->ranks), one);
            tell(number, t, "was told that", r, record);
        }
        one = record;
    }
}

static void run_trial(uint64_t number, const struct trial *trial, struct scene *scene)
{
    pid_t pids[CAMPAIGN_RANKS];
    int statuses[CAMPAIGN_RANKS] = { 0 };
    int64_t first_ns = 0;
    memset(scene, 0, sizeof *scene);
    for (int r = 0; r < trial->n; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            if (hosts > 1)
                campaign_go_to_host(scene, r, hosts);
            campaign_rank(trial, scene, r);
        }
        if (pids[r] < 0) {
            perror("campaign: fork");
            exit(2);
        }
    }
    kill_victims(trial, scene, pids, &first_ns);
    reap(trial, pids, statuses);
    judge(number, trial, scene, statuses, first_ns);
}

/* --- The report */

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const struct sum *sum, int percent)
{
    return sum->time_count == 0 ? 0 : sum->times[(sum->time_count - 1) * percent / 100];
}

static int report(uint64_t trials, uint64_t seed)
{
    int failures = 0;
    printf("# told: PEER_LOST that names a killed rank. s: seconds from the first kill until a survivor was "
           "told.\n");
    if (hosts > 1)
        printf("# ranks are on %d hosts by turns, which are %s\n", hosts,
            getenv("NET_HOSTS") != NULL ? "namespaces" : "ranks of one host that take each other for others");
    printf("# other: another cause than that, or than the other survivors'. left: threads or descriptors.\n");
    printf("%-8s %7s %6s %9s %6s %9s %7s %7s %7s %7s %7s %5s %7s %5s %5s %5s\n", "phase", "trials", "kills",
        "survivors", "told", "finished", "timeout", "s p50", "s p90", "s p99", "s worst", "hung", "crashed",
        "wrong", "other", "left");
    for (int p = 0; p < CAMPAIGN_PHASES; p++) {
        struct sum *s = &sums[p];
        qsort(s->times, (size_t)s->time_count, sizeof s->times[0], rising);
        printf("%-8s %7d %6d %9d %6d %9d %7d %7.3f %7.3f %7.3f %7.3f %5d %7d %5d %5d %5d\n", phase_names[p],
            s->trials, s->kills, s->survivors, s->told, s->finished, s->late, percentile(s, 50),
            percentile(s, 90), percentile(s, 99), percentile(s, 100), s->hung, s->crashed, s->wrong,
            s->other_cause, s->left_behind);
        failures += s->hung + s->crashed + s->wrong + s->other_cause + s->left_behind;
    }
    printf("# %llu trials, seed %llu, %llu rounds of calls, %d failures\n", (unsigned long long)trials,
        (unsigned long long)seed, (unsigned long long)calls, failures);
    return failures;
}

static uint64_t number_from(const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 0);
    if (*text == '\0' || *end != '\0') {
        fprintf(stderr, "campaign: %s is no number\n", text);
        exit(2);
    }
    return number;
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "kills", required_argument, NULL, 'k' },
        { "seed", required_argument, NULL, 's' }, { "from", required_argument, NULL, 'f' },
        { "trials", required_argument, NULL, 't' }, { "hosts", required_argument, NULL, 'h' }, { 0 } };
    uint64_t most = 1000, seed = 1, from = 0, trials = UINT64_MAX, on = 1, kills = 0, done = 0;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == '?') {
            fprintf(stderr, "usage: %s [--kills N] [--seed S] [--from TRIAL] [--trials N] [--hosts H]\n",
                argv[0]);
            return 2;
        }
        *(option == 'k'     ? &most
            : option == 's' ? &seed
            : option == 'f' ? &from
            : option == 'h' ? &on
                            : &trials) = number_from(optarg);
    }
    hosts = on < CAMPAIGN_RANKS ? (int)on : CAMPAIGN_RANKS;
    setenv("TUTTI_DEBUG", "none", 0);
    struct scene *scene =
        mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (scene == MAP_FAILED)
        return 2;
    for (; kills < most && done < trials; done++) {
        struct trial trial;
        draw(seed, from + done, &trial);
        run_trial(from + done, &trial, scene);
        kills = 0;
        for (int p = 0; p < CAMPAIGN_PHASES; p++)
            kills += (uint64_t)sums[p].kills;
    }
    return report(done, seed) != 0;
}

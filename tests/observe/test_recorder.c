/* SPDX-License-Identifier: BSD-3-Clause */
/* test_recorder.c: what the flight recorder tells: in order and in full, while a rank hangs, to other threads
 * and processes, after an error; and that it believes nothing it reads. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/json.h"
#include "tests/rig/ranks.h"
#include "observe/recorder.h"
#include "observe/recorder_file.h"
#include "transports/transport.h"

TestSuite(recorder, .timeout = 120);

enum { ROOM = 1 << 20, SOON_MS = 60000 };

static tutti_status sum(tutti_comm *comm, float *values, size_t count)
{
    return tutti_all_reduce(values, values, count, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
}

/* The answer, to be freed; "" if there is none. */
static char *ask(const tutti_comm *comm, const char *question)
{
    char *text = calloc(1, ROOM);
    if (text != NULL)
        tutti_query(comm, question, text, ROOM);
    return text;
}

/* --- All calls of a communicator, in order */

static void record_all(struct ranks_me *me)
{
    tutti_config config = {
        .size = sizeof config, .name = "the \"trainer\"", .options = "algo=all_reduce:ring"
    };
    tutti_comm *comm = ranks_join(me, &config);
    float values[8] = { 1, 2, 3 };
    int other = 1 - me->rank;
    ranks_ok(me, sum(comm, values, 3), "all_reduce");
    ranks_ok(me, tutti_broadcast(values, values, 5, TUTTI_FLOAT32, 1, comm, tutti_no_stream()), "broadcast");
    tutti_group_start();
    tutti_send(values, 2, TUTTI_FLOAT32, other, comm, tutti_no_stream());
    tutti_recv(values + 4, 2, TUTTI_FLOAT32, other, comm, tutti_no_stream());
    ranks_ok(me, tutti_group_end(), "a pair of messages");
    ranks_ok(me, tutti_all_gather(values, values + 4, 2, TUTTI_UINT8, comm, tutti_no_stream()), "all_gather");
    char *json = ask(comm, "recorder json"), *text = ask(comm, "recorder"), name[64] = "";
    ranks_expect(me, json_is_one(json), "not JSON: %s", json);
    json_member(json, "communicator", name, sizeof name);
    ranks_expect(me, strcmp(name, "\"the \\\"trainer\\\"\"") == 0, "it is called %s", name);
    ranks_expect(me,
        json_number(json, "rank") == me->rank && json_number(json, "ranks") == 2 &&
            json_number(json, "process") == getpid() && json_number(json, "calls") == 5 &&
            json_operations(json) == 5,
        "whose: %.200s", json);
    const char *o = json_operation(json, 4);
    ranks_expect(me,
        json_has(o, "collective", "\"all_reduce\"") && json_has(o, "sequence", "0") &&
            json_has(o, "count", "3") && json_has(o, "type", "\"float32\"") && json_has(o, "op", "\"sum\"") &&
            json_has(o, "bytes", "12") && json_has(o, "algorithm", "\"ring\"") &&
            json_has(o, "state", "\"done\"") && json_has(o, "root", "null"),
        "%.400s", o);
    ranks_expect(me,
        json_number(o, "called_ns") <= json_number(o, "started_ns") &&
            json_number(o, "started_ns") <= json_number(o, "ended_ns") &&
            json_number(o, "ended_ns") <= json_number(json, "now_ns") && json_number(o, "called_ns") > 0 &&
            json_number(json, "now_ns") - json_number(o, "called_ns") < 60000000000,
        "times: %.400s", o);
    o = json_operation(json, 3);
    ranks_expect(me,
        json_has(o, "collective", "\"broadcast\"") && json_has(o, "root", "1") &&
            json_has(o, "sequence", "1") && json_has(o, "op", "\"none\"") && json_has(o, "bytes", "20"),
        "%.400s", o);
    o = json_operation(json, 2);
    ranks_expect(me,
        json_has(o, "collective", "\"send\"") && json_number(o, "peer") == other &&
            json_has(o, "sequence", "0") && json_has(o, "bytes", "8") && json_has(o, "state", "\"done\""),
        "%.400s", o);
    ranks_expect(
        me, json_has(json_operation(json, 1), "collective", "\"recv\""), "%.400s", json_operation(json, 1));
    o = json_operation(json, 0);
    ranks_expect(me,
        json_has(o, "collective", "\"all_gather\"") && json_has(o, "sequence", "2") &&
            json_has(o, "call", "4") && json_has(o, "bytes", "4") && json_has(o, "count", "2"),
        "%.400s", o);
    ranks_expect(me,
        strstr(text, "broadcast of 5 float32, root 1") && strstr(text, "20 bytes") && strstr(text, "ring") &&
            strstr(text, "done in") && strstr(text, "no error"),
        "%s", text);
    free(json);
    free(text);
    ranks_part(me, comm);
}

Test(recorder, all_calls_in_order)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = record_all });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = record_all });
}

static void wrap(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    for (int i = 0; i < 600; i++)
        ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    char *json = ask(comm, "recorder json");
    ranks_expect(me, json_operations(json) == 256, "%d operations", json_operations(json));
    ranks_expect(me,
        json_has(json_operation(json, 0), "sequence", "599") &&
            json_has(json_operation(json, 255), "sequence", "344"),
        "not the last ones");
    free(json);
    ranks_part(me, comm);
}

Test(recorder, the_last_256)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = wrap });
}

/* --- While a rank hangs */

struct asking {
    struct ranks_me *me;
    tutti_comm *comm;
    _Atomic bool *seen;
};

/* Between two looks nothing moves for as long as passed between them; what was noted may be one tick old. */
static bool stalls_as_time_passes(const struct asking *a)
{
    enum { PAUSE_MS = 400, OLD_MS = 110 };
    int64_t before_ms[2], after_ms[2], stalled_ns[2];
    for (int i = 0; i < 2; i++) {
        before_ms[i] = ranks_now_ms();
        char *json = ask(a->comm, "recorder json");
        stalled_ns[i] = json_number(json_operation(json, 1), "stalled_ns");
        after_ms[i] = ranks_now_ms();
        free(json);
        if (i == 0)
            ranks_sleep_us(PAUSE_MS * 1000);
    }
    int64_t grown_ms = (stalled_ns[1] - stalled_ns[0]) / 1000000;
    return grown_ms >= before_ms[1] - after_ms[0] - OLD_MS && grown_ms <= after_ms[1] - before_ms[0] + OLD_MS;
}

static void *ask_meanwhile(void *argument)
{
    struct asking *a = argument;
    int64_t deadline = ranks_now_ms() + SOON_MS;
    bool seen = false;
    while (!seen && ranks_now_ms() < deadline) {
        char *json = ask(a->comm, "recorder json"), *text = ask(a->comm, "recorder");
        const char *first = json_operation(json, 1), *second = json_operation(json, 0);
        seen = json_has(first, "state", "\"running\"") && json_has(first, "waits_for", "1") &&
               json_number(first, "stalled_ns") > 0 && json_has(second, "state", "\"queued\"") &&
               strstr(text, "waits for rank 1") != NULL;
        free(json);
        free(text);
        ranks_sleep_us(2000);
    }
    /* It may have been kept from the core between the two words that it notes. */
    ranks_expect(a->me, stalls_as_time_passes(a) || stalls_as_time_passes(a) || stalls_as_time_passes(a),
        "how long nothing moves is wrong");
    if (a->seen != NULL)
        atomic_store(a->seen, true);
    ranks_expect(a->me, seen, "it never said whom it waits for");
    return NULL;
}

/* Rank 0 hangs in the first of two operations until rank 1 has seen that from outside, and a thread of its
 * own from inside. */
static void hang(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    struct {
        _Atomic pid_t pid;
        _Atomic bool seen;
    } *shared = me->shared;
    float values[4] = { 0 };
    pthread_t thread;
    if (me->rank == 0) {
        struct asking asking = { me, comm, &shared->seen };
        pthread_create(&thread, NULL, ask_meanwhile, &asking);
        atomic_store(&shared->pid, getpid());
        tutti_group_start();
        sum(comm, values, 4);
        tutti_barrier(comm, tutti_no_stream());
        ranks_ok(me, tutti_group_end(), "a group");
        pthread_join(thread, NULL);
    } else {
        int64_t deadline = ranks_now_ms() + SOON_MS;
        bool seen = false;
        while (!seen && ranks_now_ms() < deadline) {
            char question[64];
            snprintf(question, sizeof question, "attach %d json", (int)atomic_load(&shared->pid));
            char *json = ask(NULL, question);
            snprintf(question, sizeof question, "attach %d", (int)atomic_load(&shared->pid));
            char *text = ask(NULL, question);
            seen = json[0] != '\0' && json_is_one(json) &&
                   json_has(json_operation(json, 1), "waits_for", "1") &&
                   json_has(json_operation(json, 0), "state", "\"queued\"") &&
                   strstr(text, "waits for rank 1") != NULL;
            free(json);
            free(text);
            ranks_sleep_us(2000);
        }
        ranks_expect(me, seen, "attach never showed what rank 0 waits for: %s", tutti_get_last_error(NULL));
        while (!atomic_load(&shared->seen) && ranks_now_ms() < deadline)
            ranks_sleep_us(2000);
        tutti_group_start();
        sum(comm, values, 4);
        tutti_barrier(comm, tutti_no_stream());
        ranks_ok(me, tutti_group_end(), "a group");
    }
    char *json = ask(comm, "recorder json");
    for (int i = 0; i < 2; i++)
        ranks_expect(me,
            json_has(json_operation(json, i), "state", "\"done\"") &&
                json_has(json_operation(json, i), "waits_for", "null"),
            "%.400s", json_operation(json, i));
    free(json);
    ranks_part(me, comm);
}

Test(recorder, while_a_rank_hangs)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = hang });
}

enum { MESSAGES = 700 };
static void queue_messages(const struct ranks_me *me, tutti_comm *comm)
{
    static uint8_t bytes[MESSAGES];
    tutti_group_start();
    for (int i = 0; i < MESSAGES; i++)
        if (me->rank == 0)
            tutti_send(&bytes[i], 1, TUTTI_UINT8, 1, comm, tutti_no_stream());
        else
            tutti_recv(&bytes[i], 1, TUTTI_UINT8, 0, comm, tutti_no_stream());
}

static void expect_states(
    struct ranks_me *me, const tutti_comm *comm, int queued, int done, int failed, long long calls)
{
    char *json = ask(comm, "recorder json");
    ranks_expect(me, json_number(json, "calls") == calls, "not %lld calls: %.400s", calls, json);
    for (const char *o = strstr(json, "{\"collective\""); o != NULL; o = strstr(o + 1, "{\"collective\"")) {
        queued -= json_has(o, "state", "\"queued\"");
        done -= json_has(o, "state", "\"done\"");
        failed -= json_has(o, "state", "\"failed\"");
    }
    ranks_expect(me, queued == 0 && done == 0 && failed == 0, "%d, %d and %d are not there: %.400s", queued,
        done, failed, json);
    free(json);
}

/* More calls that wait than the ring has entries: the oldest stay, what runs is seen, all end well; and those
 * that never start take nothing from what ran. */
static void deep(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    queue_messages(me, comm);
    expect_states(me, comm, 256, 0, 0, MESSAGES);
    ranks_ok(me, tutti_group_end(), "many messages");
    expect_states(me, comm, 0, 257, 0, MESSAGES);
    queue_messages(me, comm);
    tutti_send(NULL, 4, TUTTI_FLOAT32, 1 - me->rank, comm, tutti_no_stream());
    ranks_expect(me, tutti_group_end() == TUTTI_INVALID_ARGUMENT, "a wrong call behind them");
    expect_states(me, comm, 0, 1, 256, 2 * MESSAGES);
    ranks_part(me, comm);
}

Test(recorder, more_waiting_than_entries)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = deep });
}

/* --- Errors */

static void drop(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    float value = 1;
    tutti_group_start();
    sum(comm, &value, 1);
    tutti_send(NULL, 4, TUTTI_FLOAT32, 1 - me->rank, comm, tutti_no_stream());
    ranks_expect(me, tutti_group_end() == TUTTI_INVALID_ARGUMENT, "a wrong call in a group");
    expect_states(me, comm, 0, 0, 1, 1);
    ranks_ok(me, sum(comm, &value, 1), "all_reduce");
    ranks_part(me, comm);
}

/* The calls of the group that a program was have never run, and of a start that failed none is to come. */
static void keep(struct ranks_me *me)
{
    tutti_config hasty = { .size = sizeof hasty, .timeout_ms = 3000 };
    tutti_comm *comm = ranks_join(me, &hasty);
    tutti_program *program = NULL;
    float value = 1;
    tutti_group_start();
    sum(comm, &value, 1);
    tutti_barrier(comm, tutti_no_stream());
    ranks_ok(me, tutti_group_keep(&program), "group_keep");
    expect_states(me, comm, 0, 0, 2, 2);
    if (me->rank == 0) {
        ranks_refused(me, tutti_program_start(program), TUTTI_TIMEOUT, "program_start", "all_reduce|rank 1");
        expect_states(me, comm, 0, 0, 4, 4);
    }
    ranks_meet(me);
    ranks_ok(me, tutti_program_destroy(program), "program_destroy");
    ranks_part(me, comm);
}

Test(recorder, calls_that_never_started)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = drop });
    ranks_run(&(struct ranks_plan){ .n = 2, .run = keep });
}

static void read_file(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "r");
    size_t length = file != NULL ? fread(text, 1, bytes - 1, file) : 0;
    text[length] = '\0';
    if (file != NULL)
        fclose(file);
    unlink(path);
}

/* A call that was made before waits on the short way when the communicator ends: it has failed, and runs no
 * longer. */
static void fail_on_the_short_way(struct ranks_me *me)
{
    enum { BEFORE = 3, WAIT_US = 20 * 1000 };
    tutti_comm *comm = ranks_join(me, NULL);
    float value = 1;
    for (int i = 0; i < BEFORE && comm != NULL; i++)
        ranks_ok(me, sum(comm, &value, 1), "all_reduce");
    ranks_meet(me);
    ranks_sleep_us(me->rank == 1 ? WAIT_US : 0);
    if (me->rank == 1)
        ranks_ok(me, tutti_comm_abort(comm), "abort");
    else
        ranks_expect(me, sum(comm, &value, 1) == TUTTI_ABORTED, "rank 1 has aborted");
    char *now = ask(comm, "recorder json");
    ranks_expect(me, json_operations(now) == BEFORE + (me->rank == 0), "its calls: %s", now);
    ranks_expect(me, json_has(json_operation(now, 0), "state", me->rank == 0 ? "\"failed\"" : "\"done\""),
        "the last one: %s", now);
    free(now);
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

Test(recorder, a_call_that_ends_with_its_communicator)
{
    for (int again = 0; again < 5; again++)
        ranks_run(&(struct ranks_plan){ .n = 2, .run = fail_on_the_short_way });
}

/* Every rank's file has its last calls; the log of the rank that found the error has them, too. */
static void fail(struct ranks_me *me)
{
    static char text[ROOM];
    char calls[200], log[200];
    snprintf(log, sizeof log, "%s/log.%d", (const char *)me->context, getpid());
    setenv("TUTTI_DEBUG_FILE", log, 1);
    setenv("TUTTI_DEBUG", "warn", 1);
    snprintf(calls, sizeof calls, "%s/calls.%%r.%%p", (const char *)me->context);
    setenv("TUTTI_RECORDER_FILE", calls, 1);
    snprintf(calls, sizeof calls, "%s/calls.%d.%d", (const char *)me->context, me->rank, getpid());
    tutti_config config = { .size = sizeof config, .timeout_ms = 3000 };
    float value = 1;
    tutti_error error = { .size = sizeof error };
    bool found = false;
    for (int i = 0; i < 2; i++) { /* two communicators, two lines */
        tutti_comm *comm = ranks_join(me, &config);
        ranks_ok(me, sum(comm, &value, 1), "all_reduce");
        ranks_meet(me);
        if (me->rank == 1)
            while (tutti_comm_state(comm) == TUTTI_OK)
                ranks_sleep_us(1000);
        ranks_expect(me, sum(comm, &value, 1) == TUTTI_TIMEOUT, "a rank is absent");
        tutti_comm_get_error(comm, &error);
        found = found || error.rank == me->rank;
        ranks_meet(me);
        char *now = ask(comm, "recorder json");
        ranks_expect(me,
            json_number(now, "status") == TUTTI_TIMEOUT && strstr(now, "not called yet by rank 1"), "%.300s",
            now);
        free(now);
        ranks_part(me, comm);
    }
    read_file(calls, text, sizeof text);
    char *second = strchr(text, '\n');
    ranks_expect(me,
        second != NULL && json_is_one(second + 1) && json_operations(second) == (me->rank == 1 ? 1 : 2),
        "the file has: %s", text);
    if (second != NULL)
        *second = '\0';
    ranks_expect(me, json_is_one(text) && strstr(text, "not called yet by rank 1"), "it begins: %s", text);
    ranks_expect(
        me, me->rank == 1 || json_has(json_operation(text, 0), "state", "\"running\""), "what ran: %s", text);
    read_file(log, text, sizeof text);
    const char *first = strstr(text, "ERROR:   "), *running = strstr(text, "running for");
    bool told = first != NULL && (strstr(text, "ERROR: comm-1, rank") || strstr(text, "ERROR: comm-2, rank"));
    ranks_expect(me, !told || (running != NULL && running < first + strcspn(first, "\n")),
        "it does not begin with what ran: %s", text);
    ranks_expect(me, told == found, "the log of a rank that found %s: %s", found ? "an error" : "none", text);
}

Test(recorder, after_an_error)
{
    char directory[] = "/tmp/tutti_test_XXXXXX";
    cr_assert(mkdtemp(directory));
    ranks_run(&(struct ranks_plan){ .n = 3, .run = fail, .context = directory });
    cr_expect_eq(rmdir(directory), 0, "files are left in %s", directory);
}

/* --- Processes that have none, and questions that are none */

static void refuse(struct ranks_me *me)
{
    char text[64], question[64];
    tutti_comm *comm = ranks_join(me, NULL);
    static const char *const bad[] = { "attach", "attach x", "attach -1", "attach 1 xml", "attach 1 json x",
        "attach 99999999999", "recorder", "recorder json" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ranks_expect(
            me, tutti_query(NULL, bad[i], text, sizeof text) == 0, "'%s' was answered: %s", bad[i], text);
        ranks_expect(me, strstr(tutti_get_last_error(NULL), "the form is"), "%s", tutti_get_last_error(NULL));
    }
    ranks_expect(me, tutti_query(comm, "recorder xml", text, sizeof text) == 0, "recorder xml was answered");
    snprintf(question, sizeof question, "attach %d", getppid()); /* the suite: it has no communicator */
    ranks_expect(me, tutti_query(NULL, question, text, sizeof text) == 0, "%s was answered", question);
    ranks_expect(
        me, strstr(tutti_get_last_error(NULL), "no communicator of Tutti"), "%s", tutti_get_last_error(NULL));
    ranks_expect(
        me, tutti_query(NULL, "attach 4194304", text, sizeof text) == 0, "no process, and an answer");
    ranks_expect(me, strstr(tutti_get_last_error(NULL), "No such file"), "%s", tutti_get_last_error(NULL));
    snprintf(question, sizeof question, "attach %d", getpid());
    ranks_part(me, comm);
    ranks_expect(me,
        tutti_query(NULL, question, text, sizeof text) > 0 && strstr(text, "no communicator now"),
        "after destroy: %s", text);
}

Test(recorder, refusals)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = refuse });
}

/* A child of fork() begins anew, and its end leaves its parent's recorder alone. */
static void inherit(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL), *alone;
    float value = 1;
    int ended = 1;
    ranks_ok(me, sum(comm, &value, 1), "all_reduce");
    pid_t child = fork();
    if (child == 0) {
        char question[64];
        bool good = tutti_comm_init_all(1, NULL, NULL, &alone) == TUTTI_OK &&
                    sum(alone, &value, 1) == TUTTI_OK && sum(alone, &value, 1) == TUTTI_OK;
        snprintf(question, sizeof question, "attach %d json", getpid());
        char *json = ask(NULL, question);
        good =
            good && json_is_one(json) && json_number(json, "calls") == 2 && json_number(json, "ranks") == 1;
        _exit(good && tutti_comm_destroy(alone) == TUTTI_OK ? 0 : 1);
    }
    waitpid(child, &ended, 0);
    ranks_expect(me, ended == 0, "the child's recorder is not its own");
    char question[64];
    snprintf(question, sizeof question, "attach %d json", getpid());
    char *json = ask(NULL, question);
    ranks_expect(me, json_is_one(json) && json_number(json, "calls") == 1 && json_number(json, "ranks") == 2,
        "%.300s", json);
    free(json);
    ranks_part(me, comm);
}

Test(recorder, children_of_fork)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = inherit });
}

/* --- Reading while it is written */

static void *call_often(void *argument)
{
    struct asking *a = argument;
    static float values[8];
    for (uint64_t i = 0; !atomic_load(a->seen); i++)
        sum(a->comm, values, 1 + i % 7);
    return NULL;
}

static void race(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    _Atomic bool over = false;
    struct asking asking = { me, comm, &over };
    pthread_t thread;
    uint64_t seen = 0;
    pthread_create(&thread, NULL, call_often, &asking);
    for (int i = 0; i < 1000 || seen < 1000; i++) { /* the thread may begin late */
        char *json = ask(comm, "recorder json");
        ranks_expect(me, json_is_one(json), "not JSON: %.300s", json);
        for (const char *at = strstr(json, "{\"collective\""); at != NULL;
             at = strstr(at + 1, "{\"collective\"")) {
            long long sequence = json_number(at, "sequence"), count = json_number(at, "count");
            ranks_expect(me, count == 1 + sequence % 7 && json_number(at, "call") == sequence,
                "a torn entry: %.400s", at);
            seen++;
        }
        free(json);
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    ranks_part(me, comm);
}

Test(recorder, whole_entries_while_it_is_written)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = race });
}

/* --- Bytes from outside */

static bool is_clean(const char *text)
{
    while (*text == '\n' || (*text >= 32 && *text < 127))
        text++;
    return *text == '\0';
}

Test(recorder, foreign_bytes)
{
    enum { PARTS = 2, BYTES = TT_RECORDER_HEADER_BYTES + PARTS * TT_RECORDER_PART_BYTES, ROUNDS = 400 };
    uint8_t *file = aligned_alloc(64, BYTES + 64), *text = malloc(ROOM);
    struct tt_recorder_header *h = (struct tt_recorder_header *)(void *)file;
    const char *why = "";
    uint64_t random = 7;
    int readable = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BYTES; i += 8) {
            uint64_t word = ranks_random(&random);
            word = word % 3 == 0 ? word >> 32 % (word % 61 + 1) : word % 3 == 1 ? 0 : word;
            memcpy(file + i, &word, sizeof word);
        }
        bool good = round % 8 != 0;
        if (good) {
            *h = (struct tt_recorder_header){ .magic = TT_RECORDER_MAGIC,
                .version = TT_RECORDER_VERSION,
                .header_bytes = TT_RECORDER_HEADER_BYTES,
                .part_bytes = TT_RECORDER_PART_BYTES,
                .begun = { ranks_random(&random), (int64_t)ranks_random(&random) } };
            memset(h->algorithms, round, sizeof h->algorithms);
            memset(h->collectives, round * 7, sizeof h->collectives);
            memcpy(h->collectives[round % 32], "all_reduce", 11);
        }
        for (int p = 0; p < PARTS; p++) { /* most states legal, or nothing would be printed */
            struct tt_recorder_part *part =
                (void *)(file + TT_RECORDER_HEADER_BYTES + p * TT_RECORDER_PART_BYTES);
            part->life |= 1;
            for (int i = 0; i <= TT_RECORDER_RING; i++)
                part->ring[i].words[TT_ENTRY_STATE] = ranks_random(&random) & ~UINT64_C(0xf8);
        }
        cr_assert_eq(tt_recorder_check(file, BYTES, &why), good, "round %d", round);
        cr_assert_not(tt_recorder_check(file, TT_RECORDER_HEADER_BYTES - 1, &why));
        if (!good)
            continue;
        for (int form = TT_RECORDER_TEXT; form <= TT_RECORDER_JSON; form++) {
            struct tt_text t = { (char *)text, ROOM, 0 };
            uint64_t cut = BYTES - ranks_random(&random) % TT_RECORDER_PART_BYTES;
            int parts = tt_recorder_put_file(&t, file, cut, (enum tt_recorder_form)form);
            cr_assert(parts <= PARTS && t.length < ROOM);
            cr_assert(is_clean((char *)text), "round %d", round);
            readable += parts;
            if (form != TT_RECORDER_JSON)
                continue;
            for (char *line = (char *)text, *rest = line; *line != '\0'; line = rest) {
                strsep(&rest, "\n");
                cr_assert(json_is_one(line), "round %d: %s", round, line);
            }
        }
    }
    cr_expect_gt(readable, ROUNDS);
    free(file);
    free(text);
}

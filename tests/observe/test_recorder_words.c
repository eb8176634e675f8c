/* SPDX-License-Identifier: BSD-3-Clause */
/* test_recorder_words.c: what the recorder's text says of a call: its operator, how long it has stood still;
 * and that who asks for a text gets all of it. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "algorithms/algorithms.h"
#include "run/run.h"
#include "tests/rig/json.h"
#include "tests/rig/ranks.h"
#include "observe/recorder.h"
#include "observe/recorder_file.h"

TestSuite(recorder_words, .timeout = 120);

enum { ROOM = 1 << 20 };

/* The answer, to be freed; "" if there is none. */
static char *ask(const tutti_comm *comm, const char *question)
{
    char *text = calloc(1, ROOM);
    if (text != NULL)
        tutti_query(comm, question, text, ROOM);
    return text;
}

static void add_pairs(void *out, const void *left, const void *right, size_t count, void *context)
{
    memcpy(out, count > 0 && context != NULL ? left : right, 16 * count);
}

/* Operators that were created have the number that their rank knows, and say what they are. */
static void created_operators(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    float values[12] = { 1 };
    tutti_op ops[2], factor;
    char names[3][64], value[80];
    if (comm == NULL)
        return;
    for (int before = 0; before < me->rank; before++) /* the numbers differ by rank */
        tutti_op_create(comm, add_pairs, NULL, 8, 1, &ops[0]);
    for (int i = 0; i < 2; i++) {
        ranks_ok(me, tutti_op_create(comm, add_pairs, NULL, 16, i, &ops[i]), "op_create");
        snprintf(names[i], sizeof names[i], "user operator %u (16-byte elements, %s)", ops[i],
            i == 1 ? "commutes" : "does not commute");
    }
    ranks_ok(me, tutti_op_create_pre_mul_sum(comm, values, TUTTI_FLOAT32, 0, &factor), "pre_mul_sum");
    snprintf(names[2], sizeof names[2], "pre-mul-sum %u", factor);
    for (int i = 0; i < 3; i++)
        ranks_ok(me,
            tutti_all_reduce(
                values, values, 12, TUTTI_FLOAT32, i < 2 ? ops[i] : factor, comm, tutti_no_stream()),
            names[i]);
    char *json = ask(comm, "recorder json"), *text = ask(comm, "recorder");
    for (int i = 0; i < 3; i++) {
        const char *o = json_operation(json, 2 - i);
        ranks_expect(me,
            o != NULL && json_member(o, "op", value, sizeof value) &&
                strncmp(value + 1, names[i], strlen(names[i])) == 0,
            "no %s: %s", names[i], json);
        ranks_expect(me, strstr(text, names[i]) != NULL, "no %s: %s", names[i], text);
    }
    free(json);
    free(text);
    ranks_part(me, comm);
}

Test(recorder_words, names_of_created_operators)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = created_operators });
}

/* How long nothing has moved grows on while the rank does not look, as one does that was stopped. */
Test(recorder_words, time_since_the_last_look)
{
    enum { SLEPT_MS = 300, STALLED_MS = 5000 };
    struct tt_call call = { .collective = TT_BARRIER };
    struct tt_recorder *recorder;
    cr_assert_eq(tt_recorder_open(2, 0, "comm", &recorder), TUTTI_OK);
    tt_entry_wait(tt_recorder_start(recorder, &call, 0, 0), 1, STALLED_MS);
    long long stalled[2];
    for (int i = 0; i < 2; i++) {
        char json[1024] = "";
        ranks_sleep_us(SLEPT_MS * 1000);
        tt_recorder_put(&(struct tt_text){ json, sizeof json, 0 }, recorder, true);
        stalled[i] = json_number(json_operation(json, 0), "stalled_ns");
    }
    cr_expect_geq(stalled[0], (STALLED_MS + SLEPT_MS - 1) * 1000000LL);
    cr_expect_geq(stalled[1], stalled[0] + (SLEPT_MS - 1) * 1000000LL);
    tt_recorder_close(recorder);
}

/* Records two calls of one communicator where files may be so long. */
static void record_within(rlim_t bytes)
{
    struct rlimit limit = { bytes, RLIM_INFINITY };
    struct tt_call call = { .collective = TT_BARRIER };
    struct tt_recorder *recorder[2];
    char json[4096] = "";
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        _exit(2);
    for (int i = 0; i < 2; i++) {
        if (tt_recorder_open(2, 0, "comm", &recorder[i]) != TUTTI_OK)
            _exit(3);
        tt_entry_end(tt_recorder_start(recorder[i], &call, 0, 0), true);
    }
    tt_recorder_put(&(struct tt_text){ json, sizeof json, 0 }, recorder[1], true);
    tt_recorder_close(recorder[0]);
    tt_recorder_close(recorder[1]);
    _exit(strstr(json, "barrier") != NULL ? 0 : 4);
}

/* Where no file may be so long, the recorder does without, and no signal (SIGXFSZ) ends the program: no room
 * for the header, for the first communicator, for the second. */
Test(recorder_words, limits_of_file_size)
{
    const rlim_t limits[] = { 0, 4096, TT_RECORDER_HEADER_BYTES, TT_RECORDER_HEADER_BYTES + 1,
        TT_RECORDER_HEADER_BYTES + TT_RECORDER_PART_BYTES, RLIM_INFINITY };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            record_within(limits[i]);
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_expect_eq(status, 0, "limit %llu: %#x", (unsigned long long)limits[i], (unsigned)status);
    }
}

struct caller {
    tutti_comm *comm;
    _Atomic bool over;
};

static void *call_often(void *argument)
{
    struct caller *c = argument;
    while (!atomic_load(&c->over))
        tutti_barrier(c->comm, tutti_no_stream());
    return NULL;
}

/* The length, then as much memory, then the text: it is whole, though calls are made meanwhile. */
static void ask_in_two_steps(struct ranks_me *me)
{
    static const char question[] = "recorder json";
    tutti_comm *comm = ranks_join(me, NULL);
    struct caller caller = { .comm = comm };
    pthread_t thread;
    char small[8];
    pthread_create(&thread, NULL, call_often, &caller);
    for (int i = 0; i < 1000; i++) {
        size_t length = i % 2 == 0 ? tutti_query(comm, question, NULL, 0)
                                   : tutti_query(comm, question, small, sizeof small);
        char *text = malloc(length + 1);
        size_t told = tutti_query(comm, question, text, length + 1);
        ranks_expect(me, told == length && strlen(text) == length, "%zu bytes, then %zu", length, told);
        ranks_expect(me, json_is_one(text), "not JSON: ...%s", text + (length > 60 ? length - 60 : 0));
        free(text);
    }
    atomic_store(&caller.over, true);
    pthread_join(thread, NULL);
    size_t length = tutti_query(comm, question, NULL, 0);
    char *text = malloc(length + 1), *other = ask(NULL, "version");
    ranks_expect(me, strstr(other, "operations") == NULL, "another question got this: %.100s", other);
    tutti_query(comm, question, NULL, 0);
    tutti_query(comm, question, text, length + 1);
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    char *now = ask(comm, question);
    ranks_expect(me, json_number(now, "calls") == json_number(text, "calls") + 1,
        "the text is kept beyond the second step");
    free(now);
    free(other);
    free(text);
    ranks_part(me, comm);
}

/* Where there is no answer there is an empty text, whatever the reason. */
static void ask_what_has_no_answer(struct ranks_me *me)
{
    static const uint64_t none[8] = { 0 };
    const tutti_comm *dead = (const tutti_comm *)(const void *)none;
    for (int i = 0; i < 4; i++) {
        char text[8] = "......";
        ranks_at(me, "question %d", i);
        size_t length = tutti_query(i < 2 ? dead : NULL,
            i == 0   ? "version"
            : i == 2 ? "nothing"
                     : NULL,
            text, 4);
        ranks_expect(
            me, length == 0 && text[0] == '\0' && text[1] == '.', "%zu bytes: \"%.4s\"", length, text);
    }
}

Test(recorder_words, no_answer_is_an_empty_text)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = ask_what_has_no_answer });
}

Test(recorder_words, texts_in_two_steps_are_whole)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = ask_in_two_steps });
}

/* The file has each name as a whole. */
Test(recorder_words, names_fit)
{
    cr_expect_leq(tt_algorithm_count, TT_RECORDER_ALGORITHMS);
    for (int i = 0; i < tt_algorithm_count; i++)
        cr_expect_lt(strlen(tt_algorithms[i].name), TT_RECORDER_NAME_BYTES, "%s", tt_algorithms[i].name);
    for (int c = 0; c < TT_COLLECTIVES; c++)
        cr_expect_lt(strlen(tt_collectives[c].name), TT_RECORDER_NAME_BYTES, "%s", tt_collectives[c].name);
}

/* A call that was made before has its end in the record if it waited, and begins when it was called, also
 * where the executor takes it over from the fast path. */
static void wait_again(struct ranks_me *me)
{
    enum { ROUNDS = 5, LATE_US = 150000, MOST = 65536 };
    static _Thread_local float values[MOST];
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    for (size_t count = 1; count <= MOST; count *= MOST) {
        int waits = 0; /* a busy machine may keep rank 0 from its call until rank 1 is there */
        for (int round = 0; round < ROUNDS; round++) {
            ranks_meet(me);
            if (me->rank == 1)
                ranks_sleep_us(LATE_US);
            ranks_ok(me,
                tutti_all_reduce(values, values, count, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream()),
                "all_reduce");
            char *json = ask(comm, "recorder json");
            const char *o = json_operation(json, 0);
            waits += round > 1 && json_has(o, "state", "\"done\"") &&
                     json_number(o, "ended_ns") - json_number(o, "started_ns") > LATE_US * 500;
            free(json);
        }
        ranks_expect(me, me->rank == 1 || waits > 0, "no call of %zu elements has waited", count);
    }
    ranks_part(me, comm);
}

Test(recorder_words, the_end_of_a_known_call_that_waited)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = wait_again });
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* test_slow_calls.c: a call that waits long says once in the log whom it waits for, whoever serves it. The
 * last rank comes when the log has the lines of the others, so that no time matters. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/device/led_rig.h"
#include "tests/device/spin_rig.h"
#include "tests/rig/patience.h"

TestSuite(slow_calls, .timeout = 240);

enum { N = 3, LATE = N - 1, ROOM = 64 * 1024 };
static char log_path[] = "/tmp/tutti_slow_XXXXXX";

static void read_log(char *text)
{
    int fd = open(log_path, O_RDONLY);
    ssize_t got = fd >= 0 ? read(fd, text, ROOM - 1) : -1;
    text[got > 0 ? got : 0] = '\0';
    close(fd);
}

/* How many lines have all these words, separated by |. */
static int lines_with(const char *words)
{
    char *text = malloc(ROOM), copy[256], *rest_of_text = text;
    int count = 0;
    read_log(text);
    for (char *line; (line = strsep(&rest_of_text, "\n")) != NULL;) {
        bool all = *line != '\0';
        snprintf(copy, sizeof copy, "%s", words);
        for (char *rest = copy, *word; (word = strsep(&rest, "|")) != NULL;)
            all = all && strstr(line, word) != NULL;
        count += all;
    }
    free(text);
    return count;
}

/* Each of the others has said once that it waits for the last rank. */
static void await_lines(struct ranks_me *me, const char *words)
{
    struct patience patience = patience_of(60000);
    while (lines_with(words) < LATE && !patience_is_over(&patience))
        ranks_sleep_us(5000);
    ranks_sleep_us(600000); /* in which nothing more is said */
    ranks_expect(me, lines_with(words) == LATE, "%d lines say \"%s\"", lines_with(words), words);
}

static void log_to_file(const char *interval)
{
    strcpy(log_path + sizeof log_path - 7, "XXXXXX");
    close(mkstemp(log_path));
    setenv("TUTTI_DEBUG_FILE", log_path, 1);
    setenv("TUTTI_DEBUG", "warn", 1);
    setenv("TUTTI_WAIT_WARNING", interval, 1);
}

static void all_said(int lines)
{
    char *text = malloc(ROOM);
    read_log(text);
    cr_expect_eq(lines_with("nothing moved for"), lines, "not %d lines in: %s", lines, text);
    free(text);
    unlink(log_path);
}

/* --- On host memory */

static tutti_status sum(tutti_comm *comm, int64_t *value, tutti_stream on)
{
    return tutti_all_reduce(value, value, 1, TUTTI_INT64, TUTTI_SUM, comm, on);
}

static const char all_reduce_words[] = "WARN|the trainer, rank |: operation |, all_reduce of 1 int64, sum|"
                                       "nothing moved for |ms; not called yet by rank 2";

static void come_late(struct ranks_me *me)
{
    const bool *on_stream = me->context;
    tutti_config config = { .size = sizeof config, .name = "the trainer", .timeout_ms = -1 };
    tutti_comm *comm = ranks_join(me, &config);
    tutti_stream on = tutti_no_stream();
    int64_t value = 1;
    if (comm == NULL || (*on_stream && !ranks_ok(me, tutti_stream_create(&on), "tutti_stream_create")))
        return;
    if (me->rank == LATE)
        await_lines(me, all_reduce_words);
    ranks_ok(me, sum(comm, &value, on), "all_reduce");
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    ranks_expect(me, value == N, "the sum is %lld", (long long)value);
    ranks_part(me, comm);
}

Test(slow_calls, ranks_that_have_not_called_are_named)
{
    static const bool ways[] = { false, true };
    for (int i = 0; i < 2; i++) {
        log_to_file("200");
        ranks_run(&(struct ranks_plan){ .n = N, .run = come_late, .context = &ways[i] });
        all_said(LATE);
    }
}

/* A group says it once, of the first of its calls; a message names its peer, and what that is in. */
static void send_late(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .name = "the trainer", .timeout_ms = -1 };
    tutti_comm *comm = ranks_join(me, &config);
    int64_t values[8] = { 0 };
    if (comm == NULL)
        return;
    if (me->rank == LATE)
        await_lines(me, "WARN|the trainer, rank |: operation |, recv of 1 int64|waiting for rank 2");
    ranks_ok(me, tutti_group_start(), "group_start");
    for (int i = 0; i < 8; i++) {
        if (me->rank != LATE)
            ranks_ok(me, tutti_recv(&values[i], 1, TUTTI_INT64, LATE, comm, tutti_no_stream()), "recv");
        for (int peer = 0; me->rank == LATE && peer < LATE; peer++)
            ranks_ok(me, tutti_send(&values[i], 1, TUTTI_INT64, peer, comm, tutti_no_stream()), "send");
    }
    ranks_ok(me, tutti_group_end(), "group_end");
    ranks_part(me, comm);
}

Test(slow_calls, a_group_says_it_once)
{
    log_to_file("200");
    ranks_run(&(struct ranks_plan){ .n = N, .run = send_late });
    all_said(LATE);
}

/* Each start of a program is a call anew. */
static void start_late(struct ranks_me *me)
{
    const bool *on_stream = me->context;
    tutti_config config = { .size = sizeof config, .name = "the trainer", .timeout_ms = -1 };
    tutti_comm *comm = ranks_join(me, &config);
    tutti_stream on = tutti_no_stream();
    tutti_program *program = NULL;
    int64_t value = 1;
    if (comm == NULL || (*on_stream && !ranks_ok(me, tutti_stream_create(&on), "tutti_stream_create")))
        return;
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, sum(comm, &value, on), "all_reduce");
    ranks_ok(me, tutti_group_keep(&program), "group_keep");
    for (int start = 0; start < 2; start++) {
        char words[sizeof all_reduce_words + 16];
        snprintf(words, sizeof words, "WARN|operation %d, |not called yet by rank 2", start);
        if (me->rank == LATE)
            await_lines(me, words);
        ranks_ok(me, tutti_program_start(program), "program_start");
        ranks_ok(me, tutti_comm_flush(comm, -1), "flush");
        ranks_meet(me);
    }
    ranks_ok(me, tutti_program_destroy(program), "program_destroy");
    ranks_part(me, comm);
}

Test(slow_calls, each_start_of_a_program_says_it)
{
    static const bool ways[] = { false, true };
    for (int i = 0; i < 2; i++) {
        log_to_file("200");
        ranks_run(&(struct ranks_plan){ .n = N, .run = start_late, .context = &ways[i] });
        all_said(2 * LATE);
    }
}

/* With a deadline, which tells in the end, it is info; and 0 is never. */
static void come_late_in_silence(struct ranks_me *me)
{
    const int64_t *timeout_ms = me->context;
    tutti_config config = { .size = sizeof config, .timeout_ms = *timeout_ms };
    tutti_comm *comm = ranks_join(me, &config);
    int64_t value = 1;
    if (comm == NULL)
        return;
    if (me->rank == LATE)
        ranks_sleep_us(700000);
    ranks_ok(me, sum(comm, &value, tutti_no_stream()), "all_reduce");
    ranks_part(me, comm);
}

Test(slow_calls, nothing_is_said_with_a_deadline_or_an_interval_of_0)
{
    static const int64_t deadline = 600000, none = -1;
    log_to_file("100");
    ranks_run(&(struct ranks_plan){ .n = N, .run = come_late_in_silence, .context = &deadline });
    all_said(0);
    log_to_file("0");
    ranks_run(&(struct ranks_plan){ .n = N, .run = come_late_in_silence, .context = &none });
    all_said(0);
}

/* --- On devices */

static const char device_words[] = "WARN|: operation |, all_reduce of 1 int32, sum|not called yet by rank 2";

static void call_late(struct local_desk *d)
{
    int value = d->me->rank;
    local_give(d, GIVEN, &value, sizeof value);
    if (d->me->rank == LATE)
        await_lines(d->me, device_words);
    ranks_ok(d->me,
        tutti_all_reduce(d->areas[GIVEN], d->areas[GOT], 1, TUTTI_INT32, TUTTI_SUM, d->comm, local_on(d)),
        "all_reduce");
    local_drains(d);
    memcpy(&value, local_take(d, GOT, sizeof value), sizeof value);
    ranks_expect(d->me, value == 3, "the sum is %d", value);
    ranks_meet(d->me);
}

static void call_led(struct ranks_me *me)
{
    struct local_desk d;
    if (!led_sit_down(me, &d, -1))
        return;
    call_late(&d);
    led_get_up(&d);
}

static void call_staged(struct ranks_me *me)
{
    struct local_desk d;
    if (!local_prepare(me, &d) || (d.comm = led_join(me, ";executor=host", -1)) == NULL)
        return;
    call_late(&d);
    led_get_up(&d);
}

/* A captured call of a process that has several ranks holds up the worker, which says so all the same. */
static void call_local(struct ranks_me *me)
{
    struct local_desk d;
    if (local_sit_down(me, &d, -1))
        call_late(&d);
}

Test(slow_calls, who_serves_them_on_one_device_is_the_same)
{
    static const ranks_fn ways[] = { call_led, call_staged };
    plugin_must_be_stub();
    for (int i = 0; i < 2; i++) {
        log_to_file("200");
        led_run({ "queues=8", N, 0, ways[i], NULL, 0 });
        all_said(LATE);
    }
    log_to_file("200");
    local_run_threads("queues=8", N, call_local);
    all_said(LATE);
}

static void call_spin(struct ranks_me *me)
{
    struct local_desk d;
    if (!spin_sit_down(me, &d, -1))
        return;
    call_late(&d);
    spin_get_up(&d);
}

static void replay_late(struct ranks_me *me)
{
    struct local_desk d, *desk = &d;
    void *graph = NULL, *runnable = NULL;
    if (!spin_sit_down(me, &d, -1))
        return;
    ranks_meet(me);
    local_fine(desk, d.dev->graph.capture_begin(d.stream));
    ranks_ok(me,
        tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], 1, TUTTI_INT32, TUTTI_SUM, d.comm, local_on(desk)),
        "captured");
    local_fine(desk, d.dev->graph.capture_end(d.stream, &graph));
    ranks_meet(me);
    local_fine(desk, d.dev->graph.instantiate(graph, &runnable));
    local_fine(desk, d.dev->graph.destroy(graph));
    if (me->rank == LATE)
        await_lines(
            me, "WARN|a replay of captured calls waits on device |for rank 2, for |not launched there");
    local_fine(desk, d.dev->graph.launch(runnable, d.stream));
    local_drains(desk);
    local_fine(desk, d.dev->graph.runnable_destroy(runnable));
    ranks_meet(me);
    spin_get_up(&d);
}

Test(slow_calls, kernels_that_meet)
{
    plugin_must_be_stub();
    log_to_file("200");
    spin_run({ "queues=8", N, 1, call_spin, NULL, 0, 0 });
    all_said(LATE);
    log_to_file("200");
    spin_run({ "queues=8", N, 1, replay_late, NULL, 0, 0 });
    cr_expect_eq(lines_with("a replay of captured calls waits"), LATE);
    unlink(log_path);
}

/* While a graph lives a call of a process that has several ranks begins when all of them have called. */
static void call_alone(struct ranks_me *me)
{
    struct local_desk d;
    tutti_comm *comms[2];
    const int devices[2] = { 0 };
    void *graph = NULL;
    tutti_config config = { .size = sizeof config, .timeout_ms = 1000 };
    if (!local_sit_down(me, &d, -1) ||
        !ranks_ok(me, tutti_comm_init_all(2, devices, &config, comms), "tutti_comm_init_all"))
        return;
    local_fine(&d, d.dev->graph.capture_begin(d.stream));
    tutti_group_start();
    for (int r = 0; r < 2; r++)
        tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], 4, TUTTI_INT32, TUTTI_SUM, comms[r], local_on(&d));
    ranks_ok(me, tutti_group_end(), "group");
    local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
    ranks_refused(me,
        tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], 4, TUTTI_INT32, TUTTI_SUM, comms[0], local_on(&d)),
        TUTTI_TIMEOUT, "a call of one rank", "rank 1");
    local_drains(&d);
    local_fine(&d, d.dev->graph.destroy(graph));
    for (int r = 0; r < 2; r++)
        ranks_ok(me, tutti_comm_destroy(comms[r]), "tutti_comm_destroy");
    ranks_part(me, d.comm);
}

Test(slow_calls, ranks_of_a_process_that_have_not_called)
{
    plugin_must_be_stub();
    log_to_file("200");
    setenv("TUTTI_DEBUG", "info", 1); /* they have a deadline */
    local_run_threads("queues=8", 1, call_alone);
    cr_expect_eq(
        lines_with("INFO|, all_reduce of 4 int32, sum|not called yet by all ranks of this process"), 1);
    unlink(log_path);
}

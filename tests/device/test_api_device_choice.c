/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_choice.c: which device a new communicator has: by the field of its config, by the setting,
 * and in a thread that has chosen none; and how many devices there are. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "graph_rig.h"
#include "tests/rig/plugin.h"

TestSuite(api_device_choice, .timeout = 120);

enum { UNUSED = -1 /* a thread that has chosen no device */ };

static const struct choice {
    int64_t field;
    const char *options;
    int current; /* in the thread that makes it */
    int device; /* that the communicator has */
} choices[] = {
    { 0, NULL, UNUSED, -1 },
    { 0, NULL, 1, 1 },
    { 0, "device=0", 1, 0 },
    { 0, "device=none", 1, -1 },
    { 0, "device=current", 1, 1 },
    { 0, "device=current", UNUSED, 0 },
    { TUTTI_DEVICE_NONE, NULL, 1, -1 },
    { TUTTI_DEVICE_NONE, "device=1", 1, -1 }, /* the field beats the options */
    { TUTTI_DEVICE_CURRENT, NULL, 1, 1 },
    { TUTTI_DEVICE_CURRENT, "device=none", UNUSED, 0 },
    { 1 /* tutti_device(0) */, NULL, 1, 0 },
    { 2, "device=0", UNUSED, 1 },
};

/* What it says is what it has, and a call on one of its streams runs, whatever is current. */
static void has(struct ranks_me *me, const struct tt_dev *dev, tutti_comm *comm, const struct choice *c)
{
    int32_t value = me->rank + 1;
    int current = 7;
    ranks_expect(me, tutti_comm_device(comm) == c->device, "it has device %d, expected %d",
        tutti_comm_device(comm), c->device);
    bool told = dev->current(&current) == TT_DEV_OK;
    ranks_expect(
        me, told && current == c->current, "device %d is current now, before it was %d", current, c->current);
    tutti_stream on = c->device >= 0 ? tutti_cuda_stream(NULL) : tutti_no_stream();
    ranks_ok(me, tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, on), "all_reduce");
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    ranks_expect(me, value == 3, "the sum is %d", value);
}

static void choose(struct ranks_me *me)
{
    const struct tt_dev *dev = NULL;
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &dev), "tt_dev_find"))
        return;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        const struct choice *c = &choices[i];
        tutti_config config = { .size = sizeof config, .options = c->options, .device = c->field };
        ranks_at(me, "field %d, options %s, current %d", (int)c->field, c->options != NULL ? c->options : "",
            c->current);
        dev->use(c->current);
        tutti_comm *comm = ranks_join(me, &config);
        if (comm == NULL)
            return;
        has(me, dev, comm, c);
        ranks_part(me, comm);
    }
}

/* By processes, and by threads, each of which has chosen for itself. */
Test(api_device_choice, of_a_new_communicator)
{
    graph_run({ "devices=2", 2, RANKS_PROCESSES, choose, NULL, 0 },
        { "devices=2", 2, RANKS_THREADS, choose, NULL, 0 });
}

/* The thread that a group, or a communicator that is made meanwhile, runs on has the caller's. */
static void elsewhere(struct ranks_me *me)
{
    const struct tt_dev *dev = NULL;
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &dev), "tt_dev_find"))
        return;
    for (int current = UNUSED; current < 2; current++) {
        const struct choice c = { .current = current, .device = current == UNUSED ? 0 : current };
        tutti_config config = { .size = sizeof config, .device = TUTTI_DEVICE_CURRENT };
        dev->use(current);
        for (int group = 0; group < 2; group++) {
            tutti_id id;
            tutti_comm *comm = NULL;
            ranks_at(me, "current %d, %s", current, group ? "in a group" : "without waiting");
            config.flags = group ? 0 : TUTTI_COMM_NONBLOCKING;
            if (!ranks_id(me, &id) || (group && !ranks_ok(me, tutti_group_start(), "group_start")))
                return;
            ranks_ok(me, tutti_comm_init_rank(me->n, me->rank, &id, &config, &comm), "init_rank");
            if (group)
                ranks_ok(me, tutti_group_end(), "group_end");
            while (tutti_comm_state(comm) == TUTTI_IN_PROGRESS)
                ranks_sleep_us(100);
            if (!ranks_ok(me, tutti_comm_state(comm), "state"))
                return;
            has(me, dev, comm, &c);
            ranks_part(me, comm);
        }
    }
}

Test(api_device_choice, on_a_thread_of_the_librarys)
{
    graph_run({ "devices=2", 2, RANKS_PROCESSES, elsewhere, NULL, 0 });
}

/* A program that uses no CUDA yet gets a device where it asks for one, and none where it does not. */
static void first(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config },
                 asks = { .size = sizeof asks, .device = TUTTI_DEVICE_CURRENT };
    tutti_comm *comm = ranks_join(me, &config);
    ranks_expect(me, tutti_comm_device(comm) == -1, "it has a device that nobody asked for");
    ranks_part(me, comm);
    comm = ranks_join(me, &asks);
    ranks_expect(me, tutti_comm_device(comm) == 0, "it has device %d", tutti_comm_device(comm));
    ranks_part(me, comm);
}

Test(api_device_choice, of_a_program_that_used_none)
{
    graph_run({ "queues=8", 2, RANKS_PROCESSES, first, NULL, 0 });
}

/* --- What is refused */

static void refuse(struct ranks_me *me)
{
    static const struct {
        int64_t field;
        tutti_status status;
        const char *names;
    } wrong[] = {
        { -3, TUTTI_INVALID_ARGUMENT, "config.device is -3|tutti_device|TUTTI_DEVICE_CURRENT" },
        { INT64_MIN, TUTTI_INVALID_ARGUMENT, "config.device is -9223372036854775808" },
        { (INT64_C(1) << 31) + 1, TUTTI_INVALID_ARGUMENT, "config.device is 2147483649" },
        { INT64_C(1) << 31, TUTTI_INVALID_ARGUMENT, "device is 2147483647|this process has 2|0 to 1" },
        { 3, TUTTI_INVALID_ARGUMENT, "device is 2|this process has 2|0 to 1, auto, current or none" },
    };
    tutti_comm *comm = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tutti_config config = { .size = sizeof config, .device = wrong[i].field };
        ranks_refused(
            me, tutti_comm_init_all(1, NULL, &config, &comm), wrong[i].status, "init_all", wrong[i].names);
    }
    ranks_expect(me, comm == NULL, "an output is set");
}

Test(api_device_choice, wrong_fields)
{
    graph_run({ "devices=2", 1, RANKS_PROCESSES, refuse, NULL, 0 });
}

/* devices of init_all beat the config. */
static void all(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .device = tutti_device(1) };
    const int devices[] = { 0, -1 };
    tutti_comm *comms[2];
    if (!ranks_ok(me, tutti_comm_init_all(2, devices, &config, comms), "init_all"))
        return;
    ranks_expect(me, tutti_comm_device(comms[0]) == 0 && tutti_comm_device(comms[1]) == -1,
        "they have devices %d and %d", tutti_comm_device(comms[0]), tutti_comm_device(comms[1]));
    for (int r = 0; r < 2; r++)
        tutti_comm_destroy(comms[r]);
    if (!ranks_ok(me, tutti_comm_init_all(2, NULL, &config, comms), "init_all"))
        return;
    ranks_expect(me, tutti_comm_device(comms[0]) == 1 && tutti_comm_device(comms[1]) == 1,
        "they have devices %d and %d", tutti_comm_device(comms[0]), tutti_comm_device(comms[1]));
    for (int r = 0; r < 2; r++)
        tutti_comm_destroy(comms[r]);
}

Test(api_device_choice, of_all_ranks_of_a_process)
{
    graph_run({ "devices=2", 1, RANKS_PROCESSES, all, NULL, 0 });
}

/* Who asks for a device where there is none is told what is missing; who does not has none. */
static void missing(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .device = TUTTI_DEVICE_CURRENT };
    tutti_comm *comm = NULL;
    ranks_refused(me, tutti_comm_init_all(1, NULL, &config, &comm), TUTTI_UNSUPPORTED, "init_all",
        "no device can be used|count");
    config.device = 0;
    ranks_ok(me, tutti_comm_init_all(1, NULL, &config, &comm), "init_all");
    tutti_comm_destroy(comm);
}

Test(api_device_choice, where_there_is_none)
{
    graph_run({ "devices=0", 1, RANKS_PROCESSES, missing, NULL, 0 });
}

/* --- How many there are */

static void counts(struct ranks_me *me)
{
    const int *expected = me->context;
    int count = 77;
    tutti_config config = { .size = sizeof config, .options = "device_library=another.so", .device = 1 };
    tutti_comm *comm;
    ranks_refused(me, tutti_device_count(NULL), TUTTI_INVALID_ARGUMENT, "device_count", "count is NULL");
    ranks_ok(me, tutti_device_count(&count), "device_count");
    ranks_expect(me, count == *expected, "there are %d devices, expected %d", count, *expected);
    ranks_expect(me, *expected > 0 || strstr(tutti_get_last_error(NULL), "no device can be used: ") != NULL,
        "what is missing is told as: %s", tutti_get_last_error(NULL));
    ranks_expect(me, tutti_comm_init_all(1, NULL, &config, &comm) != TUTTI_OK, "another library is found");
}

Test(api_device_choice, how_many_there_are)
{
    static const int none = 0, one = 1, three = 3;
    graph_run({ "devices=3", 1, RANKS_PROCESSES, counts, &three, 0 },
        { "devices=1", 1, RANKS_PROCESSES, counts, &one, 0 },
        { "devices=0", 1, RANKS_PROCESSES, counts, &none, 0 },
        { "fail=count:1", 1, RANKS_PROCESSES, counts, &none, 0 });
}

/* What is no fact about devices is an error, and sets nothing. */
static void count_errors(struct ranks_me *me)
{
    int count = 77;
    setenv("TUTTI_DEVICE", "seven", 1);
    ranks_refused(me, tutti_device_count(&count), TUTTI_INVALID_ARGUMENT, "device_count",
        "TUTTI_DEVICE=\"seven\"|auto, none, current, or a number");
    unsetenv("TUTTI_DEVICE");
    ranks_ok(me, tutti_device_count(&count), "device_count");
    setenv("TUTTI_DEVICE_LIBRARY", "another.so", 1);
    count = 77;
    ranks_refused(me, tutti_device_count(&count), TUTTI_INVALID_USAGE, "device_count", "another.so");
    ranks_expect(me, count == 77, "an output is set");
}

Test(api_device_choice, counting_that_fails)
{
    graph_run({ "devices=3", 1, RANKS_PROCESSES, count_errors, NULL, 0 });
}

/* --- Devices whose streams cannot wait for words, whatever they say of themselves: the host cannot serve
 * calls on those, but kernels can, unless a stream does not end. */

static void cannot_wait(struct ranks_me *me)
{
    tutti_config config = {
        .size = sizeof config, .device = tutti_device(0), .timeout_ms = 500, .options = "executor=host"
    };
    tutti_comm *comm = NULL;
    int value = 4;
    ranks_refused(
        me, tutti_comm_init_all(1, NULL, &config, &comm), TUTTI_UNSUPPORTED, "init_all", me->context);
    uint64_t tried = plugin_stub()->calls("write_word");
    ranks_refused(me, tutti_comm_init_all(1, NULL, &config, &comm), TUTTI_UNSUPPORTED, "init_all",
        "device 0|device none");
    ranks_expect(me, plugin_stub()->calls("write_word") == tried, "it is tried again");
    config.options = NULL;
    bool ends = strstr(me->context, "did not end") == NULL;
    tutti_status status = tutti_comm_init_all(1, NULL, &config, &comm);
    ranks_expect(me, status == (ends ? TUTTI_OK : TUTTI_UNSUPPORTED), "for kernels: status %d", status);
    if (ends)
        ranks_ok(me, tutti_comm_destroy(comm), "tutti_comm_destroy");
    config.device = TUTTI_DEVICE_NONE;
    if (!ranks_ok(me, tutti_comm_init_all(1, NULL, &config, &comm), "init_all"))
        return;
    ranks_ok(
        me, tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()), "host");
    tutti_comm_destroy(comm);
}

Test(api_device_choice, words_that_do_not_work)
{
    graph_run(
        { "devices=1,words=0", 1, RANKS_PROCESSES, cannot_wait, "device 0 (Stub 0)|wait|device none", 0 },
        { "devices=1,words_fault=1", 1, RANKS_PROCESSES, cannot_wait, "device 0|write_word|device none", 0 },
        { "devices=1,words_fault=2", 1, RANKS_PROCESSES, cannot_wait, "was not seen|device none", 0 },
        { "devices=1,words_fault=3", 1, RANKS_PROCESSES, cannot_wait, "was over before|device none", 0 },
        { "devices=1,words_fault=4", 1, RANKS_PROCESSES, cannot_wait, "did not end|device none", 0 });
}

/* A process tries it once for each device, and not for each communicator. */
static void try_once(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config };
    tutti_comm *comm = NULL;
    for (int i = 0; i < 6; i++) {
        config.device = tutti_device(i % 2);
        ranks_ok(me, tutti_comm_init_all(1, NULL, &config, &comm), "init_all");
        ranks_ok(me, tutti_comm_destroy(comm), "destroy");
    }
    ranks_expect(me, plugin_stub()->calls("wait_word") == 2, "%llu words were waited for",
        (unsigned long long)plugin_stub()->calls("wait_word"));
}

Test(api_device_choice, words_are_tried_once)
{
    graph_run({ "devices=2", 1, RANKS_PROCESSES, try_once, NULL, 0 });
}

/* --- Streams that wait make launches slower: who has many communicators is told so, once. */

/* How often the words were logged while so many communicators were there. */
static int open_many(struct ranks_me *me, int count, const char *words)
{
    static char text[1 << 16];
    tutti_comm *comms[32] = { NULL };
    tutti_config config = { .size = sizeof config, .device = tutti_device(0) };
    FILE *said = tmpfile();
    int kept = dup(STDERR_FILENO), found = 0;
    if (!ranks_expect(me, said != NULL && kept >= 0 && dup2(fileno(said), STDERR_FILENO) >= 0, "no file"))
        return -1;
    for (int i = 0; i < count; i++)
        ranks_ok(me, tutti_comm_init_all(1, NULL, &config, &comms[i]), "init_all");
    for (int i = 0; i < count; i++)
        ranks_ok(me, tutti_comm_destroy(comms[i]), "destroy");
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(said);
    text[fread(text, 1, sizeof text - 1, said)] = '\0';
    fclose(said);
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        found++;
    return found;
}

static void tell_of_many(struct ranks_me *me)
{
    static const struct {
        int count, told;
    } rows[] = { { 16, 0 }, { 17, 1 }, { 17, 0 /* it was told before */ } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int told = open_many(me, rows[i].count, "CUDA_DEVICE_MAX_CONNECTIONS=32");
        ranks_expect(me, told == rows[i].told, "with %d communicators it is told %d times, not %d",
            rows[i].count, told, rows[i].told);
    }
}

Test(api_device_choice, many_communicators_are_told_what_helps)
{
    setenv("TUTTI_DEBUG", "warn", 1);
    graph_run({ "devices=1", 1, RANKS_PROCESSES, tell_of_many, NULL, 0 });
}

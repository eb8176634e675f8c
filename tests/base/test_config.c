/* SPDX-License-Identifier: BSD-3-Clause */
/* test_config.c: settings from defaults, environment and options; each bad value; parsing at its edges.
 *
 * Criterion runs each test in a process of its own, so setenv here reaches nobody else and once-only state
 * starts fresh. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/status.h"

/* A developer's own TUTTI_* variables must not decide these tests. */
static void forget_environment(void)
{
    static const char *const names[] = { "TUTTI_ALGO", "TUTTI_SLICE", "TUTTI_TIMEOUT", "TUTTI_FIRST_NUMBER",
        "TUTTI_EXACT", "TUTTI_MAP", "TUTTI_DEBUG", "TUTTI_DEBUG_FILE" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

/* The log of this process goes to a file that has no name any more; this reads it. */
static FILE *log_to_file(void)
{
    char path[] = "/tmp/tutti_test_XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    setenv("TUTTI_DEBUG_FILE", path, 1);
    FILE *file = fdopen(fd, "r");
    cr_assert(file);
    return file;
}

static int lines_with(FILE *file, const char *text)
{
    char line[2048];
    int count = 0;
    rewind(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, text) != NULL;
    return count;
}

static void end_log(FILE *file)
{
    unlink(getenv("TUTTI_DEBUG_FILE"));
    fclose(file);
}

TestSuite(config, .init = forget_environment);

Test(config, defaults)
{
    struct tt_settings s;
    cr_assert_eq(tt_settings_read(&s, NULL), TUTTI_OK);
    cr_expect_str_eq(s.algorithm, "");
    cr_expect_eq(s.slice_bytes, 0);
    cr_expect_eq(s.timeout_ms_or_zero, 0);
    cr_expect_eq(s.first_number, 0);
    cr_expect_not(s.exact);
    cr_expect(s.map);
    cr_expect_eq(s.isa, 0);
    cr_expect_eq(s.wait_warning_ms, 10000);
    for (int i = 0; i < tt_setting_count; i++)
        cr_expect_eq(s.origin[i], TT_FROM_DEFAULT);
}

Test(config, shared_and_local)
{
    static const char *const local[] = { "init_timeout", "map", "pull", "membarrier", "fused", "stream_bytes",
        "isa", "device_library", "device", "wait_warning" };
    for (int i = 0; i < tt_setting_count; i++) {
        const char *name = tt_setting_table[i].name;
        bool is_local = false;
        for (size_t j = 0; j < sizeof local / sizeof local[0]; j++)
            is_local = is_local || strcmp(name, local[j]) == 0;
        cr_expect_eq(tt_setting_table[i].scope, is_local ? TT_LOCAL : TT_SHARED, "%s", name);
    }
}

Test(config, environment)
{
    setenv("TUTTI_ALGO", "all_reduce:ring,broadcast:tree", 1);
    setenv("TUTTI_RULES", "my.rules", 1);
    setenv("TUTTI_SLICE", "64k", 1);
    setenv("TUTTI_TIMEOUT", "1500", 1);
    setenv("TUTTI_INIT_TIMEOUT", "2500", 1);
    setenv("TUTTI_REFUSAL", "250", 1);
    setenv("TUTTI_WAIT_WARNING", "350", 1);
    setenv("TUTTI_FIRST_NUMBER", "9223372036854775808", 1);
    setenv("TUTTI_EXACT", "On", 1);
    setenv("TUTTI_TOPOLOGY", "0,2/1,3", 1);
    setenv("TUTTI_MAP", "0", 1);
    setenv("TUTTI_PULL", "off", 1);
    setenv("TUTTI_MEMBARRIER", "off", 1);
    setenv("TUTTI_FUSED", "off", 1);
    setenv("TUTTI_STREAM_BYTES", "3M", 1);
    setenv("TUTTI_ISA", "generic", 1);
    setenv("TUTTI_DEVICE_LIBRARY", "/my/devices.so", 1);
    setenv("TUTTI_DEVICE", "3", 1);
    setenv("TUTTI_HEARTBEAT", "3000", 1);
    setenv("TUTTI_NETWORK", "ucx", 1);
    setenv("TUTTI_CONGESTION", "reno", 1);
    setenv("TUTTI_PROBE", "1g,wan", 1);
    setenv("TUTTI_EXECUTOR", "host", 1);
    setenv("TUTTI_DEVICE_PAD", "2M", 1);
    setenv("TUTTI_DEVICE_MAPPED", "on", 1);
    setenv("TUTTI_DEVICE_IMPORT", "all", 1);
    struct tt_settings s;
    cr_assert_eq(tt_settings_read(&s, NULL), TUTTI_OK);
    cr_expect_str_eq(s.algorithm, "all_reduce:ring,broadcast:tree");
    cr_expect_str_eq(s.rules, "my.rules");
    cr_expect_eq(s.slice_bytes, 65536);
    cr_expect_eq(s.timeout_ms_or_zero, 1500);
    cr_expect_eq(s.init_timeout_ms_or_zero, 2500);
    cr_expect_eq(s.refusal_ms, 250);
    cr_expect_eq(s.wait_warning_ms, 350);
    cr_expect_eq(s.heartbeat_ms, 3000);
    cr_expect_eq(s.hosts.network, TT_NETWORK_UCX);
    cr_expect_str_eq(tt_congestion_name(s.hosts.congestion), "reno");
    cr_expect_eq(
        s.hosts.probe, TT_PROBE_FIRST + tt_link_number((struct tt_link_class){ TT_RATE_1G, TT_TRIP_WAN }));
    cr_expect_eq(s.executor, TT_EXECUTOR_HOST);
    cr_expect_eq(s.device_pad_bytes, 2 << 20);
    cr_expect(s.device_mapped);
    cr_expect_eq(s.device_import, TT_IMPORT_ALL);
    cr_expect_eq(s.first_number, UINT64_C(1) << 63);
    cr_expect(s.exact);
    cr_expect_str_eq(s.topology, "0,2/1,3");
    cr_expect_not(s.map);
    cr_expect_eq(s.pull, TT_PULL_OFF);
    cr_expect_not(s.membarrier);
    cr_expect_not(s.fused);
    cr_expect_eq(s.stream_bytes, 3 << 20);
    cr_expect_eq(s.isa, 1);
    cr_expect_str_eq(s.device_library, "/my/devices.so");
    cr_expect_eq(s.device, TT_DEVICE_FIRST + 3);
    for (int i = 0; i < tt_setting_count; i++)
        cr_expect_eq(s.origin[i], TT_FROM_ENVIRONMENT);
}

Test(config, options_beat_environment)
{
    setenv("TUTTI_SLICE", "64K", 1);
    setenv("TUTTI_ALGO", "all_reduce:halving", 1);
    setenv("TUTTI_MAP", "off", 1);
    struct tt_settings s;
    cr_assert_eq(tt_settings_read(&s, "slice=1M;;algo=;slice=2M;"), TUTTI_OK);
    cr_expect_eq(s.slice_bytes, 2 << 20);
    cr_expect_str_eq(s.algorithm, "");
    cr_expect_not(s.map);
    cr_assert_eq(tt_settings_read(&s, ""), TUTTI_OK);
    cr_expect_eq(s.slice_bytes, 65536);
}

Test(config, bad_values_are_refused)
{
    static const char *const bad[] = { "slice=", "slice=64Q", "slice=-1", "slice= 1", "slice=1 ", "slice=1KX",
        "slice=0x10", "timeout=-1", "timeout=1.5", "timeout=9223372036855", "timeout=18446744073709551616",
        "first_number=K", "first_number=9223372036854775809", "first_number=18446744073709551612",
        "first_number=18446744073709551616", "first_number=1K", "exact=", "exact=2", "exact=maybe", "map=onn",
        "map=-1", "algo=ring", "algo=all_reduce:", "algo=all_reduce:ring,", "algo=,all_reduce:ring",
        "algo=nothing:ring", "algo=all_reduce:ri ng", "algo=all_reduce:ring:2",
        "algo=all_reduce:ring,all_reduce:tree", "algo=All_reduce:ring" };
    setenv("TUTTI_DEBUG", "none", 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tt_settings s;
        memset(&s, 0x5a, sizeof s);
        struct tt_settings before = s;
        cr_expect_eq(tt_settings_read(&s, bad[i]), TUTTI_INVALID_ARGUMENT, "%s", bad[i]);
        cr_expect_eq(memcmp(&s, &before, sizeof s), 0, "%s: the output was touched", bad[i]);
        char name[32], value[64];
        size_t length = strcspn(bad[i], "=");
        snprintf(name, sizeof name, "%.*s", (int)length, bad[i]);
        snprintf(value, sizeof value, "\"%s\"", bad[i] + length + 1);
        const char *text = tt_last_error();
        cr_expect(strstr(text, name) && strstr(text, value) && strstr(text, "legal: "), "%s", text);

        char variable[64];
        snprintf(variable, sizeof variable, "TUTTI_%s", name);
        for (char *c = variable; *c != 0; c++)
            *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 32 : *c);
        setenv(variable, bad[i] + length + 1, 1);
        cr_expect_eq(tt_settings_read(&s, NULL), TUTTI_INVALID_ARGUMENT, "%s in the environment", bad[i]);
        cr_expect(strstr(tt_last_error(), variable), "%s", tt_last_error());
        cr_expect_eq(tt_settings_read(&s, "slice=1"), TUTTI_INVALID_ARGUMENT, "options hide no bad variable");
        unsetenv(variable);
    }
}

Test(config, each_kind_says_what_is_legal)
{
    static const char *const cases[][2] = { { "exact=x", "on, off" }, { "slice=x", "64K" },
        { "timeout=x", "9223372036854" }, { "first_number=x", "9223372036854775808 (2^63)" },
        { "algo=x", "all_reduce, reduce_scatter" }, { "isa=sse", "auto, generic, avx2, avx512" },
        { "algo=barrier:tree,al_reduce:rnig",
            "there is no collective \"al_reduce\", the nearest is all_reduce" },
        { "algo=ring", "\"ring\" has no collective before it, as all_reduce:ring has; legal: COLLECTIVE:" },
        { "algo=all_reduce:ring,Tree", "\"Tree\" has no collective before it, as all_reduce:ring has" },
        { "algo=all_reduce", "all_reduce lacks its algorithm" },
        { "algo=all_reduce:Ring", "\"Ring\" is no name of an algorithm" },
        { "algo=all_reduce:ring,all_reduce:tree", "all_reduce is there twice" } };
    setenv("TUTTI_DEBUG", "none", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tt_settings s;
        cr_expect_eq(tt_settings_read(&s, cases[i][0]), TUTTI_INVALID_ARGUMENT);
        cr_expect(strstr(tt_last_error(), cases[i][1]), "%s", tt_last_error());
    }
}

Test(config, longest_algorithm_list)
{
    char option[TT_CONFIG_TEXT + 32] = "algo=all_reduce:";
    size_t head = strlen("algo=");
    memset(option + strlen(option), 'a', sizeof option - strlen(option));
    struct tt_settings s;
    option[head + TT_CONFIG_TEXT - 1] = 0;
    cr_assert_eq(tt_settings_read(&s, option), TUTTI_OK);
    cr_expect_str_eq(s.algorithm, option + head);

    setenv("TUTTI_DEBUG", "none", 1);
    option[head + TT_CONFIG_TEXT - 1] = 'a';
    option[head + TT_CONFIG_TEXT] = 0;
    cr_expect_eq(tt_settings_read(&s, option), TUTTI_INVALID_ARGUMENT);
}

Test(config, topologies)
{
    static const char *const illegal[] = { "topology=", "topology=Auto", "topology=0-1/1", "topology=1-2",
        "topology=2x" };
    struct tt_settings s, of_rank_0;
    setenv("TUTTI_DEBUG", "none", 1);
    cr_assert_eq(tt_settings_read(&s, NULL), TUTTI_OK);
    cr_expect_str_eq(s.topology, "auto");
    for (size_t i = 0; i < sizeof illegal / sizeof illegal[0]; i++) {
        cr_expect_eq(tt_settings_read(&s, illegal[i]), TUTTI_INVALID_ARGUMENT, "%s", illegal[i]);
        cr_expect(strstr(tt_last_error(), "topology=\"") && strstr(tt_last_error(), "0-3/4-7"), "%s",
            tt_last_error());
    }
    cr_assert_eq(tt_settings_read(&of_rank_0, "topology=2x2"), TUTTI_OK);
    tt_settings_adopt(&s, &of_rank_0);
    cr_expect_str_eq(s.topology, "2x2");
    memset(of_rank_0.topology, '1', sizeof of_rank_0.topology);
    tt_settings_adopt(&s, &of_rank_0);
    cr_expect_eq(strlen(s.topology), TT_TOPOLOGY_TEXT - 1);
}

Test(config, unknown_option_names_the_nearest)
{
    struct tt_settings s;
    setenv("TUTTI_DEBUG", "none", 1);
    cr_expect_eq(tt_settings_read(&s, "slcie=1"), TUTTI_INVALID_ARGUMENT);
    cr_expect(strstr(tt_last_error(), "\"slcie\"; the nearest is slice; legal: algo, rules, slice, timeout"),
        "%s", tt_last_error());
    cr_expect_eq(tt_settings_read(&s, "TUTTI_SLICE=1"), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(tt_settings_read(&s, "=1"), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(tt_settings_read(&s, "exact"), TUTTI_INVALID_ARGUMENT);
    cr_expect(strstr(tt_last_error(), "\"exact\" has no value"), "%s", tt_last_error());
}

Test(config, unknown_variables_are_warned_about_once)
{
    FILE *file = log_to_file();
    char longest[200];
    memset(longest, 'A', sizeof longest);
    memcpy(longest, "TUTTI_", 6);
    longest[sizeof longest - 1] = 0;
    setenv("TUTTI_SLYCE", "1", 1);
    setenv("TUTTI_RANKS", "1", 1);
    setenv("TUTTI_NCCL_ANYTHING", "1", 1); /* libnccl's own */
    setenv(longest, "1", 1);
    setenv("TUTTI_ID", "1", 1);
    setenv("TUTTI_SLICE", "1", 1);
    struct tt_settings s;
    for (int i = 0; i < 3; i++)
        cr_assert_eq(tt_settings_read(&s, NULL), TUTTI_OK);
    cr_expect_eq(
        lines_with(file, "TUTTI_SLYCE is not a variable that Tutti reads; the nearest one is TUTTI_SLICE"),
        1);
    cr_expect_eq(
        lines_with(file, "TUTTI_RANKS is not a variable that Tutti reads; the nearest one is TUTTI_RANK\n"),
        1);
    cr_expect_eq(lines_with(file, "TUTTI_AAAAA"), 1);
    cr_expect_eq(lines_with(file, "WARN"), 3);
    end_log(file);
}

static void *read_settings(void *unused)
{
    struct tt_settings s;
    (void)unused;
    return tt_settings_read(&s, "slice=4K") == TUTTI_OK ? NULL : (void *)1;
}

Test(config, threads_warn_once)
{
    enum { THREADS = 8 };
    FILE *file = log_to_file();
    setenv("TUTTI_NOBODY", "1", 1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, read_settings, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        cr_assert_eq(pthread_join(threads[i], &failed), 0);
        cr_expect_null(failed);
    }
    cr_expect_eq(lines_with(file, "TUTTI_NOBODY"), 1);
    end_log(file);
}

Test(config, bytes)
{
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = { { "0", 0 }, { "3", 3 }, { "007", 7 }, { "64K", 65536 }, { "64k", 65536 }, { "1M", 1 << 20 },
        { "1G", 1 << 30 }, { "1T", 1ull << 40 }, { "18446744073709551615", UINT64_MAX },
        { "18014398509481983K", UINT64_MAX - 1023 }, { "16777215T", 16777215ull << 40 }, { "1KB", 1024 },
        { "1KiB", 1024 }, { "2mb", 2 << 20 }, { "1.5M", 3 << 19 }, { "0.5K", 512 }, { "1.25TiB", 5ull << 38 },
        { "1.0000000001K", 1024 }, { "3.0", 3 } };
    static const char *const bad[] = { "", "K", "-1", "+1", " 1", "1 ", "1KK", "1P", "0x1", "1.5", "1.M",
        ".5M", "1.5.5M", "1B", "1iB", "1KiBB", "1Ki", "18446744073709551616", "99999999999999999999",
        "18014398509481984K", "16777216T" };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t value = 1234;
        cr_expect(tt_parse_bytes(good[i].text, &value), "%s", good[i].text);
        cr_expect_eq(value, good[i].value, "%s", good[i].text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t value = 1234;
        cr_expect_not(tt_parse_bytes(bad[i], &value), "%s", bad[i]);
        cr_expect_eq(value, 1234, "%s: the output was touched", bad[i]);
    }
}

/* The printed table, turned back into options. */
static void options_of(const char *table, char *options, size_t bytes)
{
    size_t at = 0;
    while (*table != 0) {
        size_t length = strcspn(table, " \n");
        at += (size_t)snprintf(options + at, bytes - at, "%.*s;", (int)length, table);
        table += strcspn(table, "\n") + 1;
    }
}

Test(config, print_round_trip)
{
    static const char *const cases[] = { "", "slice=0;algo=all_reduce:ring,broadcast:tree;exact=yes;map=off",
        "slice=64K;timeout=1024;first_number=4096", "slice=1025;fused=no", "isa=avx2", "slice=3072T",
        "first_number=9223372036854775808;slice=18446744073709551615" };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tt_settings before, after;
        char table[8192], options[512];
        cr_assert_eq(tt_settings_read(&before, cases[i]), TUTTI_OK);
        cr_assert_lt(tt_settings_print(&before, table, sizeof table), sizeof table);
        options_of(table, options, sizeof options);
        cr_assert_eq(tt_settings_read(&after, options), TUTTI_OK, "%s", options);
        memcpy(after.origin, before.origin, sizeof after.origin);
        cr_expect_eq(memcmp(&before, &after, sizeof before), 0, "%s became %s", cases[i], options);
    }
}

Test(config, print_as_snprintf)
{
    struct tt_settings s;
    char whole[8192], part[64], unsliced[8192];
    setenv("TUTTI_MAP", "off", 1);
    cr_assert_eq(tt_settings_read(&s, "slice=64K"), TUTTI_OK);
    size_t length = tt_settings_print(&s, whole, sizeof whole);
    cr_expect_eq(length, strlen(whole));
    s.slice_bytes = 0;
    tt_settings_print(&s, unsliced, sizeof unsliced);
    cr_expect(strstr(unsliced, "slice=0 "), "%s", unsliced);
    s.slice_bytes = 65536;
    cr_expect_eq(tt_settings_print(&s, NULL, 0), length);
    memset(part, 'x', sizeof part);
    cr_expect_eq(tt_settings_print(&s, part, 32), length);
    cr_expect_eq(strlen(part), 31);
    cr_expect_eq(strncmp(part, whole, 31), 0);
    cr_expect_eq(part[32], 'x');
    cr_expect(
        strstr(whole, "slice=64K ") && strstr(whole, "# shared, options: longest message"), "%s", whole);
    cr_expect(strstr(whole, "# local, environment: peers may read"), "%s", whole);
    cr_expect(strstr(whole, "timeout=0 ") && strstr(whole, "# shared, default: milliseconds"), "%s", whole);
}

Test(config, adopt)
{
    struct tt_settings mine, of_rank_0;
    cr_assert_eq(tt_settings_read(&mine, "slice=4K;map=off;exact=on;first_number=7"), TUTTI_OK);
    cr_assert_eq(
        tt_settings_read(&of_rank_0, "slice=8K;fused=off;algo=barrier:tree;first_number=7"), TUTTI_OK);
    of_rank_0.cache_bytes = 768 << 10;
    tt_settings_adopt(&mine, &of_rank_0);
    cr_expect_eq(mine.slice_bytes, 8192);
    cr_expect_eq(mine.cache_bytes, 768 << 10);
    cr_expect_str_eq(mine.algorithm, "barrier:tree");
    cr_expect_not(mine.exact);
    cr_expect_eq(mine.first_number, 7);
    cr_expect_not(mine.map);
    cr_expect(mine.fused);
    char table[8192];
    tt_settings_print(&mine, table, sizeof table);
    cr_expect(strstr(table, "# shared, rank 0: longest"), "%s", table);
    cr_expect(strstr(table, "# shared, options: for tests of counters"), "%s", table);
}

Test(config, adopt_bytes_from_a_wire)
{
    struct tt_settings mine, of_rank_0;
    cr_assert_eq(tt_settings_read(&mine, NULL), TUTTI_OK);
    memset(&of_rank_0, 0xff, sizeof of_rank_0);
    tt_settings_adopt(&mine, &of_rank_0);
    cr_expect_eq(strlen(mine.algorithm), TT_CONFIG_TEXT - 1);
    cr_expect_eq(*(const unsigned char *)&mine.exact, 1);
    cr_expect_eq(*(const unsigned char *)&mine.map, 1);
}

Test(config, variables_say_what_is_in_force)
{
    char table[8192];
    setenv("TUTTI_DEBUG", "info", 1);
    setenv("TUTTI_ID", "0123456789", 1);
    unsetenv("TUTTI_DEBUG_FILE");
    size_t length = tt_variables_print(table, sizeof table);
    cr_expect_eq(length, strlen(table));
    cr_expect(strstr(table, "TUTTI_DEBUG=info ") && strstr(table, "# process, environment: what is logged"),
        "%s", table);
    cr_expect(strstr(table, "TUTTI_DEBUG_FILE= ") && strstr(table, "# process, default: the log's file"),
        "%s", table);
    cr_expect(strstr(table, "TUTTI_ID=(secret)") && !strstr(table, "0123456789"), "%s", table);
}

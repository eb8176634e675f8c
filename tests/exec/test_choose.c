/* SPDX-License-Identifier: BSD-3-Clause */
/* test_choose.c: who decides which algorithm serves, by what, and what is refused on the way: predictions and
 * rules. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "run/comm.h"
#include "run/settings.h"
#include "select/selection.h"

/* --- Choices by the costs that the library is shipped with. */

static struct tt_settings settings_on(uint64_t cores)
{
    struct tt_settings settings;
    cr_assert_eq(tt_settings_read(&settings, NULL), TUTTI_OK);
    settings.costs = tt_costs_default();
    settings.costs.cores = cores;
    settings.cache_bytes = 1 << 20;
    return settings;
}

struct sized {
    uint64_t cache, setting;
    int n;
    uint64_t slot;
};

static void expect_slots(const struct sized *cases, size_t count, bool apart)
{
    for (size_t i = 0; i < count; i++) {
        struct tt_settings settings = settings_on(2);
        settings.cache_bytes = cases[i].cache;
        settings.slice_bytes = cases[i].setting;
        uint64_t slot = tt_comm_slot_bytes(&settings, cases[i].n, apart);
        cr_expect_eq(slot, cases[i].slot, "case %zu: %llu", i, (unsigned long long)slot);
    }
}

/* Where each of several ranks has a host of its own, a small cache makes no short slices; the setting
 * counts. */
Test(choose, slices_by_the_cache)
{
    static const struct sized together[] = { { 1 << 20, 0, 2, 256 << 10 }, { 1 << 20, 0, 3, 128 << 10 },
        { 1 << 20, 0, 8, 128 << 10 }, { 1 << 20, 0, 16, 64 << 10 }, { 2 << 20, 0, 8, 256 << 10 },
        { 2 << 20, 48 << 10, 8, 48 << 10 }, { 256 << 10, 0, 2, 128 << 10 }, { 256 << 10, 0, 3, 64 << 10 },
        { 0, 0, 8, 64 << 10 }, { UINT64_MAX, 0, 2, 512 << 10 }, { UINT64_MAX, 0, 8, 512 << 10 },
        { 1 << 20, 0, 1000, 8 << 10 }, { 1280 << 10, 0, 12, 108 << 10 } },
                              apart[] = { { 512 << 10, 0, 2, 128 << 10 }, { 512 << 10, 0, 3, 256 << 10 },
                                  { 512 << 10, 0, 4, 256 << 10 }, { 0, 0, 8, 256 << 10 },
                                  { 512 << 10, 0, 16, 128 << 10 }, { 4 << 20, 0, 4, 512 << 10 },
                                  { 512 << 10, 48 << 10, 4, 48 << 10 }, { 512 << 10, 0, 1000, 8 << 10 } };
    expect_slots(together, sizeof together / sizeof together[0], false);
    expect_slots(apart, sizeof apart / sizeof apart[0], true);
}

static struct tt_request ask_for(
    const struct tt_settings *settings, enum tt_collective collective, int n, uint64_t bytes)
{
    return (struct tt_request){ .settings = settings,
        .slot_bytes = tt_comm_slot_bytes(settings, n, false),
        .collective = collective,
        .requirements = { .n = n },
        .bytes = bytes };
}

static const char *chosen(const struct tt_request *request, struct tt_choice_cache *cache)
{
    int algorithm;
    cr_assert_eq(tt_choose(request, cache, &algorithm), TUTTI_OK, "%s", tt_last_error());
    return tt_algorithms[algorithm].name;
}

Test(choose, defaults)
{
    static const struct {
        enum tt_collective collective;
        int n;
        uint64_t bytes, cores;
        const char *name;
    } expected[] = {
        { TT_ALL_REDUCE, 2, 8, 2, "one_shot" },
        { TT_ALL_REDUCE, 4, 8, 4, "one_shot" },
        { TT_ALL_REDUCE, 2, 1 << 20, 2, "direct" },
        { TT_ALL_REDUCE, 8, 1 << 20, 8, "direct" },
        { TT_ALL_REDUCE, 8, 64 << 20, 2, "direct" },
        { TT_ALL_REDUCE, 8, 16 << 10, 2, "star" },
        { TT_ALL_REDUCE, 8, 16 << 10, 8, "direct" },
        { TT_REDUCE_SCATTER, 8, 12 << 10, 2, "direct" }, /* circulant took 17.7 us, not 7.4 */
        { TT_REDUCE, 4, 64 << 10, 2, "direct" },
        { TT_BROADCAST, 2, 8, 2, "direct" },
        { TT_BARRIER, 8, 0, 2, "direct" },
        { TT_BARRIER, 4, 0, 4, "direct" },
        { TT_GATHER, 4, 32, 4, "direct" },
        { TT_ALL_GATHER, 4, 1 << 20, 4, "direct" },
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct tt_settings settings = settings_on(expected[i].cores);
        struct tt_request request =
            ask_for(&settings, expected[i].collective, expected[i].n, expected[i].bytes);
        const char *name = chosen(&request, NULL);
        cr_expect_str_eq(name, expected[i].name, "%s of %llu bytes on %d ranks, %llu cores: %s, not %s",
            tt_collectives[request.collective].name, (unsigned long long)request.bytes,
            request.requirements.n, (unsigned long long)expected[i].cores, name, expected[i].name);
    }
}

/* Twice the bytes take at most three times the predicted time: no choice ends in a cliff. */
Test(choose, no_cliff)
{
    for (uint64_t cores = 2; cores <= 16; cores *= 8)
        for (int n = 2; n <= 8; n *= 2)
            for (int c = 0; c < TT_COLLECTIVES; c++) {
                struct tt_settings settings = settings_on(cores);
                uint64_t before[2] = { 0, 0 }; /* two size classes are a doubling */
                for (unsigned size = tt_size_class(8); size <= tt_size_class(16 << 20); size++) {
                    struct tt_request request =
                        ask_for(&settings, (enum tt_collective)c, n, tt_size_of_class(size));
                    struct tt_cost_query query = tt_choose_cost_query(&request);
                    struct tt_prediction prediction;
                    int algorithm;
                    if (tt_collectives[c].p2p || tt_collectives[c].counts != TT_COUNTS_EVEN)
                        continue;
                    cr_assert_eq(tt_choose(&request, NULL, &algorithm), TUTTI_OK);
                    cr_assert_eq(tt_cost_predict(&query, algorithm, &prediction), TUTTI_OK);
                    cr_expect(before[0] == 0 || prediction.total <= 3 * before[0],
                        "%s on %d ranks, %llu cores: %llu fs at %llu bytes, %llu at half of them",
                        tt_collectives[c].name, n, (unsigned long long)cores,
                        (unsigned long long)prediction.total, (unsigned long long)request.bytes,
                        (unsigned long long)before[0]);
                    before[0] = before[1];
                    before[1] = prediction.total;
                }
            }
}

Test(choose, sizes_have_classes)
{
    cr_expect_eq(tt_size_class(0), 0);
    cr_expect_eq(tt_size_class(UINT64_MAX), TT_SIZE_CLASSES - 1);
    for (unsigned size = 0; size < TT_SIZE_CLASSES; size++) {
        uint64_t bytes = tt_size_of_class(size);
        cr_expect_eq(tt_size_class(bytes), size == 3 ? 3 : size, "class %u begins at %llu", size,
            (unsigned long long)bytes);
        cr_expect(size == 0 || bytes > tt_size_of_class(size - 1));
        cr_expect(size == 0 || tt_size_class(bytes - 1) == size - 1);
    }
}

/* What was chosen is kept, by the class of the size. */
Test(choose, once_for_a_class)
{
    static struct tt_choice_cache cache;
    struct tt_settings settings = settings_on(4);
    struct tt_request request = ask_for(&settings, TT_ALL_REDUCE, 4, 4096);
    cr_expect_str_eq(chosen(&request, &cache), chosen(&request, NULL));
    cache.known[tt_choice_of(&request)] = (uint8_t)(1 + tt_algorithm_find(TT_ALL_REDUCE, "ring"));
    request.bytes = 5000;
    cr_expect_str_eq(chosen(&request, &cache), "ring");
    request.bytes = 6144;
    cr_expect_str_neq(chosen(&request, &cache), "ring");
    request.bytes = 4096;
    request.requirements.ordered = true; /* another table */
    cr_expect_str_neq(chosen(&request, &cache), "ring");
    request.requirements = (struct tt_requirements){ .n = 4, .long_elements = true }; /* and one more */
    cr_expect_str_neq(chosen(&request, &cache), "ring");
}

/* What is kept for a class is one choice, whichever of its sizes comes first. */
Test(choose, a_class_is_predicted_by_its_smallest_size)
{
    struct tt_settings settings = settings_on(4);
    for (uint64_t bytes = 4096; bytes < 8192; bytes++) {
        struct tt_request request = ask_for(&settings, TT_ALL_REDUCE, 4, bytes);
        cr_assert_eq(tt_choose_cost_query(&request).bytes, bytes < 6144 ? 4096 : 6144);
    }
}

/* Where not every rank has an element, chunks would be empty and all schedules alike: the choice is that of
 * one element for each. */
Test(choose, as_if_each_rank_had_an_element)
{
    for (int n = 2; n <= 16; n++)
        for (int c = 0; c < TT_COLLECTIVES; c++) {
            struct tt_settings settings = settings_on(2);
            if (tt_collectives[c].p2p || tt_collectives[c].counts != TT_COUNTS_EVEN || c == TT_BARRIER)
                continue;
            for (uint64_t bytes = 0; bytes < 4 * (uint64_t)n; bytes += 4) {
                struct tt_request request = ask_for(&settings, (enum tt_collective)c, n, bytes);
                cr_expect_eq(tt_choose_cost_query(&request).bytes, 4 * (uint64_t)n,
                    "%s of %llu bytes on %d ranks", tt_collectives[c].name, (unsigned long long)bytes, n);
            }
        }
}

/* Elements of a user's operator may fill a slot: then no message carries more than one chunk. */
Test(choose, long_elements)
{
    struct tt_settings settings = settings_on(1024);
    settings.costs.message[TT_NEAR] = settings.costs.latency[TT_NEAR] = 1000000000;
    struct tt_request request = ask_for(&settings, TT_ALL_GATHER, 8, 64);
    cr_expect_str_neq(chosen(&request, NULL), "direct");
    request.requirements.long_elements = true;
    cr_expect_str_eq(chosen(&request, NULL), "direct");
    request.requirements.long_elements = false;
    request.slot_bytes = 16;
    cr_expect_str_eq(chosen(&request, NULL), "direct");
}

/* --- Rules */

static const char *file_with(const char *text)
{
    static char path[] = "/tmp/tutti-rules-XXXXXX";
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    cr_assert_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    return path;
}

static tutti_status read_rules(const char *text, struct tt_settings *settings)
{
    const char *path = file_with(text);
    *settings = settings_on(4);
    snprintf(settings->rules, sizeof settings->rules, "%s", path);
    tutti_status status = tt_rules_read(settings);
    unlink(path);
    return status;
}

Test(choose, a_rule_overrules_predictions)
{
    struct tt_settings settings;
    cr_assert_eq(read_rules("# mine\n\n"
                            "all_reduce 2-4 0-4K ring # comment\n"
                            "all_reduce 2-4\t6K- tree\n"
                            "broadcast 3- 0- split",
                     &settings),
        TUTTI_OK, "%s", tt_last_error());
    static const struct {
        enum tt_collective collective;
        int n;
        uint64_t bytes;
        const char *name;
    } expected[] = { { TT_ALL_REDUCE, 4, 0, "ring" }, { TT_ALL_REDUCE, 4, 6143, "ring" },
        { TT_ALL_REDUCE, 2, 6144, "tree" }, { TT_ALL_REDUCE, 2, UINT64_MAX / 2, "tree" },
        { TT_BROADCAST, 700, 8, "split" } };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct tt_request request =
            ask_for(&settings, expected[i].collective, expected[i].n, expected[i].bytes);
        cr_expect_str_eq(chosen(&request, NULL), expected[i].name);
    }
    struct tt_request request = ask_for(&settings, TT_ALL_REDUCE, 8, 8); /* no rule */
    cr_expect_str_neq(chosen(&request, NULL), "ring");
    request = ask_for(&settings, TT_ALL_REDUCE, 4, 8);
    request.requirements.exact = true; /* the ring cannot: predictions decide */
    cr_expect_str_neq(chosen(&request, NULL), "ring");
    strcpy(settings.algorithm, "all_reduce:doubling"); /* force comes first */
    cr_expect_str_eq(chosen(&request, NULL), "doubling");
}

Test(choose, costs_of_a_file)
{
    struct tt_settings settings;
    cr_assert_eq(
        read_rules("cost latency_away 1500 ns\n# none\ncost byte_away 50 # GB/s\n", &settings), TUTTI_OK);
    cr_expect_eq(settings.costs.latency[TT_AWAY], 1500000000);
    cr_expect_eq(settings.costs.byte[TT_AWAY], 20000);
    cr_expect_eq(settings.nrules, 0);
}

Test(choose, rules_that_are_none)
{
    static const struct {
        const char *text;
        const char *words[3];
    } wrong[] = {
        { "all_reduce 2 0-4K\n", { "line 1", "COLLECTIVE RANKS SIZES ALGORITHM" } },
        { "\nall_reduce 2 0-4K ring fast\n", { "line 2", "ring fast" } },
        { "allreduce 2 0-4K ring\n", { "line 1", "'allreduce'", "all_gather_v" } },
        { "send 2 0-4K point\n", { "line 1", "'send'", "all_reduce" } },
        { "all_reduce 2 0-4K rings\n", { "line 1", "'rings'", "halving" } },
        { "broadcast 2 0-4K ring\n", { "'ring'", "circulant" } },
        { "all_reduce 0 0-4K ring\n", { "'0'", "ranks" } },
        { "all_reduce 4-2 0-4K ring\n", { "'4-2'", "ranks" } },
        { "all_reduce 2x 0-4K ring\n", { "'2x'", "ranks" } },
        { "all_reduce 2 4K-0 ring\n", { "'4K-0'", "bytes" } },
        { "all_reduce 2 0-4Q ring\n", { "'0-4Q'", "bytes" } },
        { "all_reduce 2 -4K ring\n", { "'-4K'", "bytes" } },
        { "cost latency 5\n", { "line 1", "cost NAME VALUE", "cost latency 5" } },
        { "cost latency_away fast\n", { "cost NAME VALUE" } },
        { "cost latency_away\n", { "cost NAME VALUE" } },
        { "all_reduce 2 0-4K ring\nall_reduce 1-9 4K-8K tree\n", { "line 2", "overlap", "line 1" } },
    };
    struct tt_settings settings;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_expect_eq(read_rules(wrong[i].text, &settings), TUTTI_INVALID_ARGUMENT, "%s", wrong[i].text);
        for (int k = 0; k < 3 && wrong[i].words[k] != NULL; k++)
            cr_expect(strstr(tt_last_error(), wrong[i].words[k]) != NULL, "%sdoes not say %s: %s",
                wrong[i].text, wrong[i].words[k], tt_last_error());
    }
    strcpy(settings.rules, "/nowhere/to/be/found");
    cr_expect_eq(tt_rules_read(&settings), TUTTI_INVALID_ARGUMENT);
    cr_expect(strstr(tt_last_error(), "/nowhere/to/be/found") != NULL);
}

/* Without rules the selection is the default costs and this machine's cores; both are within the bounds. */
Test(choose, read_by_rank_0)
{
    struct tt_settings settings = settings_on(0);
    struct tt_costs standard = tt_costs_default();
    cr_assert_eq(tt_selection_read(&settings), TUTTI_OK);
    cr_expect_eq(settings.costs.cores, (uint64_t)tt_cores_machine());
    standard.cores = settings.costs.cores;
    standard.network_from = TT_LINK_AWAITED;
    cr_expect_eq(memcmp(&settings.costs, &standard, sizeof standard), 0);
    tt_costs_bound(&settings.costs);
    cr_expect_eq(memcmp(&settings.costs, &standard, sizeof standard), 0, "a default is out of bounds");
}

/* A link may be as narrow as a megabyte a second, and what is told of it can be read again. */
Test(choose, costs_of_a_narrow_link)
{
    struct tt_settings settings;
    char told[8192] = "";
    struct tt_text text = { told, sizeof told, 0 };
    cr_assert_eq(read_rules("cost link 0.025 GB/s\ncost byte_away 0.001 GB/s\n", &settings), TUTTI_OK, "%s",
        tt_last_error());
    cr_expect_eq(settings.costs.link, 40000000);
    cr_expect_eq(settings.costs.byte[TT_AWAY], 1000000000);
    tt_costs_tell(&settings.costs, &text);
    cr_expect(strstr(told, "link\t0.025 GB/s") != NULL && strstr(told, "byte_away\t0.001 GB/s") != NULL, "%s",
        told);
    cr_expect_eq(read_rules("cost link 0.0001 GB/s\n", &settings), TUTTI_INVALID_ARGUMENT);
}

/* What came from rank 0 by a wire is bounded, whatever it was. */
Test(choose, shared_by_rank_0)
{
    struct tt_settings mine = settings_on(4), theirs;
    cr_assert_eq(read_rules("all_reduce 2 0-4K ring\n", &theirs), TUTTI_OK);
    theirs.costs.context_switch = 77;
    tt_settings_adopt(&mine, &theirs);
    struct tt_request request = ask_for(&mine, TT_ALL_REDUCE, 2, 8);
    cr_expect_str_eq(chosen(&request, NULL), "ring");
    cr_expect_eq(mine.costs.context_switch, 77);
    memset(&theirs.nrules, 0xff, sizeof theirs.nrules);
    memset(theirs.rule, 0xff, sizeof theirs.rule);
    memset(&theirs.costs, 0xff, sizeof theirs.costs);
    tt_settings_adopt(&mine, &theirs);
    cr_expect_leq(mine.nrules, (uint32_t)TT_RULES_MAX);
    cr_expect_lt(mine.costs.context_switch, UINT64_MAX);
    cr_expect_gt(mine.costs.cores, 0);
    chosen(&request, NULL);
}

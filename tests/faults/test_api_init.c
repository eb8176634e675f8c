/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_init.c: ways into a communicator that are wrong: arguments, settings, configs of other sizes,
 * ranks that disagree, ids that are damaged. Nobody crashes or hangs, nothing is half done, and whoever is
 * right gets in afterwards. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/rig/ranks.h"

TestSuite(api_init, .timeout = 120);

static void sum_of_all(struct ranks_me *me, tutti_comm *comm)
{
    int32_t value = 1;
    ranks_ok(me, tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()),
        "all_reduce");
    ranks_expect(me, value == tutti_comm_size(comm), "the sum is %d", value);
}

/* --- Arguments */

static void arguments(struct ranks_me *me)
{
    tutti_comm *comm = NULL, *comms[4] = { 0 };
    const int devices[4] = { 0 };
    tutti_id id;
    ranks_refused(me, tutti_get_id(NULL), TUTTI_INVALID_ARGUMENT, "get_id", "id|NULL");
    if (!ranks_ok(me, tutti_get_id(&id), "get_id"))
        return;
    static const int sizes[] = { 0, -1, INT_MIN, 65537, INT_MAX };
    for (int i = 0; i < 5; i++) {
        ranks_at(me, "n = %d", sizes[i]);
        ranks_refused(me, tutti_comm_init_rank(sizes[i], 0, &id, NULL, &comm), TUTTI_INVALID_ARGUMENT,
            "init_rank", "n is|65536");
        ranks_refused(me, tutti_comm_init_all(sizes[i], NULL, NULL, comms), TUTTI_INVALID_ARGUMENT,
            "init_all", "n is|65536");
    }
    static const int ranks[] = { -1, 4, INT_MAX, INT_MIN };
    for (int i = 0; i < 4; i++) {
        ranks_at(me, "rank = %d", ranks[i]);
        ranks_refused(me, tutti_comm_init_rank(4, ranks[i], &id, NULL, &comm), TUTTI_INVALID_ARGUMENT,
            "init_rank", "rank is|0 to 3");
    }
    ranks_at(me, "pointers");
    ranks_refused(
        me, tutti_comm_init_rank(4, 0, NULL, NULL, &comm), TUTTI_INVALID_ARGUMENT, "init_rank", "id|NULL");
    ranks_refused(
        me, tutti_comm_init_rank(4, 0, &id, NULL, NULL), TUTTI_INVALID_ARGUMENT, "init_rank", "comm|NULL");
    ranks_refused(me, tutti_comm_init_all(4, NULL, NULL, NULL), TUTTI_INVALID_ARGUMENT, "init_all", "comms");
    ranks_refused(
        me, tutti_comm_init_all(4, devices, NULL, comms), TUTTI_UNSUPPORTED, "init_all", "no device");
    ranks_refused(me, tutti_comm_init_env(NULL, NULL), TUTTI_INVALID_ARGUMENT, "init_env", "comm|NULL");
    ranks_refused(me, tutti_comm_init_env(NULL, &comm), TUTTI_INVALID_USAGE, "init_env", "TUTTI_ID");
    ranks_expect(me, comm == NULL && comms[0] == NULL, "an output was set");
    if (ranks_ok(me, tutti_comm_init_rank(1, 0, &id, NULL, &comm), "the right init_rank")) {
        sum_of_all(me, comm);
        ranks_ok(me, tutti_comm_destroy(comm), "destroy");
    }
}

Test(api_init, arguments)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = arguments });
}

/* --- Configs */

struct longer { /* what a later version might be */
    tutti_config known;
    uint64_t later[3];
};

static void refuse_config(struct ranks_me *me, const void *config, tutti_status expected, const char *words)
{
    tutti_comm *comms[2] = { 0 }, *comm = NULL;
    tutti_id id;
    ranks_at(me, "a config that is wrong in %s", words);
    ranks_refused(me, tutti_comm_init_all(2, NULL, config, comms), expected, "init_all", words);
    if (!ranks_ok(me, tutti_get_id(&id), "get_id"))
        return;
    ranks_refused(me, tutti_comm_init_rank(1, 0, &id, config, &comm), expected, "init_rank", words);
    ranks_expect(me, comms[0] == NULL && comms[1] == NULL && comm == NULL, "an output was set");
    if (!ranks_ok(me, tutti_get_id(&id), "get_id")) /* the first has served: its ranks were told */
        return;
    ranks_ok(me, tutti_comm_init_rank(1, 0, &id, NULL, &comm), "init_rank afterwards");
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

static void take_config(struct ranks_me *me, const void *config, const char *what)
{
    tutti_comm *comms[2] = { 0 };
    ranks_at(me, "a config %s", what);
    if (!ranks_ok(me, tutti_comm_init_all(2, NULL, config, comms), "init_all"))
        return;
    for (int r = 0; r < 2; r++)
        ranks_ok(me, tutti_comm_destroy(comms[r]), "destroy");
}

static void configs(struct ranks_me *me)
{
    static const char *const options[] = { "bogus=1", "slice", "slice=", "slice=many", "=", "map=perhaps",
        "algo=all_reduce", "timeout=-5", "first_number=x", "slice=8K;bogus=2;map=on" };
    struct longer l = { .known.size = sizeof l };
    static const size_t sizes[] = { 0, 1, 7, 1 << 20, SIZE_MAX };
    for (int i = 0; i < 5; i++) {
        l.known.size = sizes[i];
        refuse_config(me, &l, TUTTI_INVALID_ARGUMENT, "config.size");
    }
    l.known.size = sizeof l;
    take_config(me, &l, "that is longer, with zeros");
    for (int i = 0; i < 3; i++) {
        l.later[i] = UINT64_C(1) << 63;
        refuse_config(me, &l, TUTTI_UNSUPPORTED, "config|byte");
        l.later[i] = 0;
    }
    l.known.flags = UINT64_MAX; /* beyond a shorter struct: it is not looked at */
    l.known.timeout_ms = -99;
    l.known.options = "bogus";
    l.known.size = offsetof(tutti_config, flags);
    take_config(me, &l, "that ends before the flags");
    tutti_config c = { .size = sizeof c };
    for (int bit = 0; bit < 64; bit += bit == 0 ? 2 : 7) {
        c.flags = UINT64_C(1) << bit | TUTTI_COMM_EXACT;
        if ((c.flags & ~(uint64_t)(TUTTI_COMM_EXACT | TUTTI_COMM_NONBLOCKING)) != 0)
            refuse_config(me, &c, TUTTI_UNSUPPORTED, "config.flags|TUTTI_COMM_EXACT");
    }
    c.flags = 0;
    c.timeout_ms = -2;
    refuse_config(me, &c, TUTTI_INVALID_ARGUMENT, "config.timeout_ms|-2");
    c.timeout_ms = INT64_MIN;
    refuse_config(me, &c, TUTTI_INVALID_ARGUMENT, "config.timeout_ms");
    c.timeout_ms = INT64_MAX;
    take_config(me, &c, "with the longest timeout");
    c.timeout_ms = 0;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        c.options = options[i];
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(options[i], "=;"), options[i]);
        refuse_config(me, &c, TUTTI_INVALID_ARGUMENT, strstr(options[i], "bogus") ? "bogus" : name);
    }
    c.options = "";
    c.name = "a name that is longer than a communicator could ever want for its messages, and longer still";
    take_config(me, &c, "with a long name");
}

Test(api_init, configs)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = configs });
}

/* A forced algorithm that is none, or that cannot serve, is told; other collectives go on. */
static void forced_algorithms(struct ranks_me *me)
{
    static const struct {
        const char *options;
        uint64_t flags;
        const char *words;
    } cases[] = {
        { "algo=all_reduce:nonsense", 0, "nonsense|all_reduce|ring" },
        { "algo=all_reduce:ring", TUTTI_COMM_EXACT, "ring|exact|direct" },
    };
    for (int i = 0; i < 2; i++) {
        tutti_config config = { .size = sizeof config, .options = cases[i].options, .flags = cases[i].flags };
        tutti_comm *comm = NULL;
        tutti_id id;
        int32_t value = 3;
        ranks_at(me, "n %d rank %d: %s", me->n, me->rank, cases[i].options);
        if (!ranks_id(me, &id) ||
            !ranks_ok(me, tutti_comm_init_rank(me->n, me->rank, &id, &config, &comm), "init_rank"))
            return;
        ranks_refused(me,
            tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()),
            TUTTI_INVALID_USAGE, "all_reduce", cases[i].words);
        ranks_expect(me, value == 3, "the refused all_reduce wrote %d", value);
        ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
        ranks_ok(me, tutti_comm_destroy(comm), "destroy");
    }
}

/* A set that this CPU has is taken, and a wider one is refused by name. */
Test(api_init, instruction_sets)
{
    static const char *const names[] = { "generic", "avx2", "avx512" };
    char best[64], options[32], cpu[64];
    tutti_query(NULL, "cpu", best, sizeof best);
    bool legal = true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(options, sizeof options, "isa=%s", names[i]);
        tutti_config config = { .size = sizeof config, .options = options };
        tutti_comm *comm = NULL;
        tutti_status status = tutti_comm_init_all(1, NULL, &config, &comm);
        cr_assert_eq(status, legal ? TUTTI_OK : TUTTI_UNSUPPORTED, "%s", names[i]);
        if (legal) {
            tutti_query(comm, "cpu", cpu, sizeof cpu);
            cr_expect_eq(strncmp(cpu, names[i], strlen(names[i])), 0, "%s: %s", names[i], cpu);
            tutti_comm_destroy(comm);
        } else {
            cr_expect(strstr(tutti_get_last_error(NULL), names[i]), "%s", tutti_get_last_error(NULL));
        }
        legal = legal && strncmp(best, names[i], strlen(names[i])) != 0;
    }
    cr_expect_not(legal, "\"%s\" is none of them", best);
}

Test(api_init, forced_algorithms)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = forced_algorithms });
}

/* --- Ranks that disagree */

static void disagree(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = 200000 };
    tutti_comm *comm = NULL;
    tutti_id id;
    ranks_at(me, "rank %d: rank 1 says another n", me->rank);
    if (!ranks_id(me, &id))
        return;
    tutti_status status =
        tutti_comm_init_rank(me->rank == 1 ? me->n + 1 : me->n, me->rank, &id, &config, &comm);
    ranks_refused(me, status, TUTTI_INVALID_ARGUMENT, "init_rank", "n = 3|n = 4");
    ranks_at(me, "rank %d: rank 2 comes as rank 0", me->rank);
    if (!ranks_id(me, &id))
        return;
    status = tutti_comm_init_rank(me->n, me->rank == 2 ? 0 : me->rank, &id, &config, &comm);
    ranks_refused(me, status, TUTTI_INVALID_ARGUMENT, "init_rank", "rank 0|twice");
    ranks_expect(me, comm == NULL, "an output was set");
    comm = ranks_join(me, &config);
    if (comm != NULL) {
        sum_of_all(me, comm);
        ranks_part(me, comm);
    }
}

Test(api_init, ranks_that_disagree)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = disagree });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_THREADS, .run = disagree });
}

/* --- A rank that cannot take part */

enum way { DIRECTLY, NONBLOCKING, IN_A_GROUP, WITHOUT_FILES };

static tutti_status join_as(
    enum way way, struct ranks_me *me, const tutti_id *id, tutti_config *config, tutti_comm **comm)
{
    struct rlimit none = { 1 << 12, RLIM_INFINITY }, before;
    config->flags |= way == NONBLOCKING ? TUTTI_COMM_NONBLOCKING : 0;
    if (way == IN_A_GROUP)
        tutti_group_start();
    if (way == WITHOUT_FILES &&
        (getrlimit(RLIMIT_FSIZE, &before) != 0 || setrlimit(RLIMIT_FSIZE, &none) != 0))
        abort();
    tutti_status status = tutti_comm_init_rank(me->n, me->rank, id, config, comm);
    if (way == WITHOUT_FILES)
        setrlimit(RLIMIT_FSIZE, &before);
    return way == IN_A_GROUP ? tutti_group_end() : status;
}

/* Rank 1 gets its error, and the others the same words with its rank, long before their patience ends. */
static void expect_all_told(
    struct ranks_me *me, enum way way, const tutti_config *wrong, tutti_status expected, const char *words)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = 200000 };
    tutti_comm *comm = NULL;
    tutti_id id;
    char others[200];
    ranks_at(me, "rank %d: rank 1 cannot take part: %s", me->rank, words);
    if (!ranks_id(me, &id))
        return;
    if (me->rank == 1)
        config = *wrong;
    snprintf(others, sizeof others, "rank 1 cannot take part|%s", words);
    int64_t began = ranks_now_ms();
    tutti_status status = join_as(me->rank == 1 ? way : DIRECTLY, me, &id, &config, &comm);
    ranks_refused(me, status, expected, "init_rank", me->rank == 1 ? words : others);
    ranks_expect(me, ranks_now_ms() - began < 100000, "it took until the timeout");
}

static void cannot_take_part(struct ranks_me *me)
{
    tutti_config wrong = { .size = sizeof wrong, .flags = UINT64_C(1) << 40 };
    for (enum way way = DIRECTLY; way <= IN_A_GROUP; way++)
        expect_all_told(me, way, &wrong, TUTTI_UNSUPPORTED, "config.flags is");
    wrong.flags = 0;
    wrong.timeout_ms = -7;
    expect_all_told(me, DIRECTLY, &wrong, TUTTI_INVALID_ARGUMENT, "config.timeout_ms is -7");
    wrong.timeout_ms = 0;
    wrong.options = "slice=many";
    expect_all_told(me, DIRECTLY, &wrong, TUTTI_INVALID_ARGUMENT, "slice=\"many\" is not legal");
    wrong.options = NULL;
    wrong.size = 3;
    expect_all_told(me, DIRECTLY, &wrong, TUTTI_INVALID_ARGUMENT, "config.size is 3");
    wrong.size = sizeof wrong;
    if (me->kind != RANKS_THREADS) /* a process that has an arena needs no more */
        expect_all_told(me, WITHOUT_FILES, &wrong, TUTTI_SYSTEM_ERROR, "no room for the arena");
    tutti_comm *comm = ranks_join(me, &(tutti_config){ .size = sizeof wrong, .timeout_ms = 200000 });
    if (comm != NULL) {
        sum_of_all(me, comm);
        ranks_part(me, comm);
    }
}

Test(api_init, rank_that_cannot_take_part_tells_all)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = cannot_take_part });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_THREADS, .run = cannot_take_part });
}

/* --- Address spaces of different size */

/* Rank 1 has 16 GiB, and maps 1 GiB of an arena; rank 0 used more before. */
static void little_space(struct ranks_me *me)
{
    enum { COUNT = 100000 };
    struct rlimit space = { (rlim_t)16 << 30, (rlim_t)16 << 30 };
    int32_t *room, *filler = NULL, *values[2];
    if (me->rank == 1 && setrlimit(RLIMIT_AS, &space) != 0)
        abort();
    ranks_ok(me, tutti_mem_alloc(256 << 20, TUTTI_MEM_HOST, (void **)&room), "mem_alloc");
    if (me->rank == 0)
        ranks_ok(me, tutti_mem_alloc((size_t)3 << 29, TUTTI_MEM_HOST, (void **)&filler), "mem_alloc");
    if (!ranks_ok(
            me, tutti_mem_alloc(sizeof(int32_t[COUNT]), TUTTI_MEM_HOST, (void **)&values[0]), "mem_alloc"))
        return;
    ranks_ok(me, tutti_mem_free(room), "mem_free");
    tutti_comm *comm = ranks_join(me, &(tutti_config){ .size = sizeof(tutti_config), .timeout_ms = 200000 });
    if (comm == NULL)
        return;
    ranks_ok(me, tutti_mem_free(filler), "mem_free");
    ranks_ok(me, tutti_mem_alloc(sizeof(int32_t[COUNT]), TUTTI_MEM_HOST, (void **)&values[1]),
        "mem_alloc afterwards");
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < COUNT; j++)
            values[i][j] = j + me->rank;
        ranks_ok(me,
            tutti_all_reduce(values[i], values[i], COUNT, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()),
            "all_reduce");
        for (int j = 0; j < COUNT; j++)
            if (!ranks_expect(me, values[i][j] == 2 * j + 1, "element %d of %d is %d", j, i, values[i][j]))
                break;
        ranks_ok(me, tutti_mem_free(values[i]), "mem_free");
    }
    ranks_part(me, comm);
}

Test(api_init, little_address_space)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const bool may_have_little = false; /* a sanitizer maps terabytes */
#else
    const bool may_have_little = true;
#endif
    if (may_have_little)
        ranks_run(&(struct ranks_plan){ .n = 2, .run = little_space });
}

/* --- Ids that are damaged */

/* The secret lies at bytes 16 to 47 of an id (the layout is in lib/bootstrap/bootstrap_wire.h); what stands
 * before it is the magic, versions and the session. Who has a wrong one is turned away and spoils nothing. */
static void wrong_secret(struct ranks_me *me)
{
    static const int spoiled[] = { 0, 3, 4, 6, 8, 15, 16, 17, 31, 47, 60 };
    tutti_config config = { .size = sizeof config, .timeout_ms = 200000 };
    tutti_comm *comm = NULL;
    tutti_id id, wrong;
    if (!ranks_id(me, &id))
        return;
    for (size_t i = 0; me->rank == 1 && i < sizeof spoiled / sizeof spoiled[0]; i++) {
        wrong = id;
        wrong.bytes[spoiled[i]] ^= 0x10;
        int64_t began = ranks_now_ms();
        ranks_at(me, "byte %d of the id is wrong", spoiled[i]);
        tutti_status status = tutti_comm_init_rank(2, 1, &wrong, &config, &comm);
        const char *text = tutti_get_last_error(NULL);
        ranks_expect(me, status != TUTTI_OK && comm == NULL && strstr(text, "id") != NULL,
            "init_rank returned %d (%s)", status, text);
        ranks_expect(me, ranks_now_ms() - began < 150000, "it took until the timeout");
    }
    ranks_at(me, "rank %d: the right id", me->rank);
    if (!ranks_ok(me, tutti_comm_init_rank(2, me->rank, &id, &config, &comm), "init_rank"))
        return;
    sum_of_all(me, comm);
    ranks_part(me, comm);
}

Test(api_init, wrong_secret)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = wrong_secret });
}

static void used_id(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = 60000 };
    tutti_comm *comm = NULL, *again = NULL;
    tutti_id id, zero;
    memset(&zero, 0, sizeof zero);
    ranks_at(me, "rank %d: an id of zeros", me->rank);
    ranks_refused(me, tutti_comm_init_rank(2, me->rank, &zero, &config, &comm), TUTTI_INVALID_ARGUMENT,
        "init_rank", "id");
    if (!ranks_id(me, &id) ||
        !ranks_ok(me, tutti_comm_init_rank(2, me->rank, &id, &config, &comm), "init_rank"))
        return;
    ranks_at(me, "rank %d: an id that was used", me->rank);
    tutti_status status = tutti_comm_init_rank(2, me->rank, &id, &config, &again);
    /* As soon as nobody waits for such ones any more, it is an id at which nobody answers. */
    bool told = status == TUTTI_INVALID_ARGUMENT && strstr(tutti_get_last_error(NULL), "serves once") != NULL;
    ranks_expect(me, (told || status == TUTTI_PEER_LOST) && again == NULL, "init_rank returned %d (%s)",
        status, tutti_get_last_error(NULL));
    sum_of_all(me, comm);
    ranks_part(me, comm);
}

Test(api_init, ids_that_are_no_more)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = used_id });
}

/* Nobody comes: the deadline, and who is missing. */
static void missing_rank(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = 500 };
    tutti_comm *comm = NULL;
    tutti_id id;
    if (!ranks_id(me, &id))
        return;
    ranks_at(me, "rank %d of 4: ranks 2 and 3 do not come", me->rank);
    int64_t began = ranks_now_ms();
    tutti_status status = tutti_comm_init_rank(4, me->rank, &id, &config, &comm);
    ranks_refused(me, status, TUTTI_TIMEOUT, "init_rank", "2-3|500 ms");
    int64_t took = ranks_now_ms() - began;
    ranks_expect(me, took >= 400 && took < 60000, "it took %lld ms", (long long)took);
}

Test(api_init, ranks_that_do_not_come)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = missing_rank });
}

/* --- The launcher's variables */

static void from_environment(struct ranks_me *me)
{
    tutti_comm *comm = NULL;
    tutti_id id;
    char text[2 * sizeof id.bytes + 1], number[16];
    if (!ranks_id(me, &id))
        return;
    for (size_t i = 0; i < sizeof id.bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", id.bytes[i]);
    setenv("TUTTI_ID", text, 1);
    ranks_at(me, "rank %d: TUTTI_ID alone", me->rank);
    ranks_refused(me, tutti_comm_init_env(NULL, &comm), TUTTI_INVALID_USAGE, "init_env", "TUTTI_RANK");
    snprintf(number, sizeof number, "%d", me->rank);
    setenv("TUTTI_RANK", number, 1);
    snprintf(number, sizeof number, "%d", me->n);
    setenv("TUTTI_SIZE", number, 1);
    text[7] = 'x';
    setenv("TUTTI_ID", text, 1);
    ranks_at(me, "rank %d: TUTTI_ID with an x", me->rank);
    tutti_status status = tutti_comm_init_env(NULL, &comm);
    ranks_expect(me, status < 0 && strstr(tutti_get_last_error(NULL), "TUTTI_ID") != NULL,
        "init_env returned %d (%s)", status, tutti_get_last_error(NULL));
    snprintf(text + 6, 3, "%02x", id.bytes[3]);
    text[8] = "0123456789abcdef"[id.bytes[4] >> 4];
    setenv("TUTTI_ID", text, 1);
    ranks_at(me, "rank %d: TUTTI_ID, TUTTI_RANK and TUTTI_SIZE", me->rank);
    if (!ranks_ok(me, tutti_comm_init_env(NULL, &comm), "init_env"))
        return;
    ranks_expect(me, tutti_comm_rank(comm) == me->rank && tutti_comm_size(comm) == me->n, "another rank");
    sum_of_all(me, comm);
    ranks_part(me, comm);
    if (!ranks_id(me, &id))
        return;
    for (size_t i = 0; i < sizeof id.bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", id.bytes[i]);
    setenv("TUTTI_ID", text, 1);
    if (me->rank == 1)
        setenv("TUTTI_SLICE", "many", 1);
    ranks_at(me, "rank %d: TUTTI_SLICE is not legal for rank 1", me->rank);
    ranks_refused(me, tutti_comm_init_env(NULL, &comm), TUTTI_INVALID_ARGUMENT, "init_env",
        me->rank == 1 ? "TUTTI_SLICE" : "rank 1 cannot take part|TUTTI_SLICE=\"many\"");
    ranks_meet(me); /* whoever made the id is there to tell */
}

Test(api_init, environment)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = from_environment });
}

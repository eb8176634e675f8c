/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_calls.c: communicators whose endpoints are those of the transport by TCP: the public calls,
 * and the executor under them, over links that only send, tell what has arrived, and release; and mixed
 * ones, where the neighbours of a rank are reached by TCP and the others by shared memory. The
 * communicators are the library's own but for that, and each rank is a process. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/handle.h"
#include "comm/lifecycle.h"
#include "run/comm.h"
#include "run/run.h"
#include "run/settings.h"
#include "tests/rig/patience.h"
#include "shm_ranks.h"
#include "transports/tcp.h"

enum { RANKS = 3, AGAIN = 3, POISON = 0x5a };
static const size_t counts[] = { 2, 3, 29, 1021, 16385, 100003, 786431 };
enum { SIZES = sizeof counts / sizeof counts[0], MOST = 786431 };

static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(tcp_calls, .init = limit_time);

static const struct tt_transport *const halves[] = { &shm_half, &tt_tcp, NULL };
static bool mixed;

/* The library's communicator of three ranks, with an endpoint of this transport. */
static tutti_comm *join(struct shm_rank *r, const char *options)
{
    static const int32_t domain_of[RANKS];
    struct tt_settings settings;
    struct tt_comm *comm;
    tutti_comm *handle = NULL;
    uint8_t *all = mixed ? r->stage->mixed_addresses[0] : r->stage->addresses[0];
    uint8_t *address = all + (size_t)r->me * (mixed ? TT_ADDRESS_MAX : TT_ADDRESS_BYTES);
    bool made = tt_settings_read(&settings, options) == TUTTI_OK;
    struct tt_endpoint_params params = { .n = r->n,
        .me = r->me,
        .slot_bytes = tt_comm_slot_bytes(&settings, r->n, true),
        .first_number = settings.first_number,
        .map = true,
        .transports = halves };
    uint8_t unused[TT_ADDRESS_MAX]; /* the endpoint that it opens is closed again */
    made = made && tt_comm_open(r->n, r->me, &settings, NULL, NULL, unused, &comm) == TUTTI_OK;
    if (!suite_expect(&r->suite, made, "%s", tt_last_error()))
        return NULL;
    comm->transport->close(comm->endpoint);
    comm->transport = mixed ? &tt_mixed : &tt_tcp;
    made = comm->transport->open(&params, address, &comm->endpoint) == TUTTI_OK;
    shm_meet(r);
    made = made && tt_comm_connect(comm, all, domain_of) == TUTTI_OK;
    made = made && tt_comm_handle_create(comm, &handle) == TUTTI_OK;
    suite_expect(&r->suite, made, "%s", tt_last_error());
    shm_meet(r);
    return handle;
}

struct rank { /* one rank, and its call */
    struct shm_rank *r;
    tutti_comm *comm;
    uint32_t *send, *recv;
    size_t count;
    unsigned key; /* of what is sent */
};

static uint32_t element(unsigned key, int rank, size_t i)
{
    return (uint32_t)((i + 7) * 2654435761u) ^ (key * 977u + (uint32_t)rank * 65539u);
}

static uint32_t sum(unsigned key, size_t i)
{
    uint32_t all = 0;
    for (int r = 0; r < RANKS; r++)
        all += element(key, r, i);
    return all;
}

static void fill(struct rank *k, size_t elements)
{
    k->key++;
    for (size_t i = 0; i < elements; i++)
        k->send[i] = element(k->key, k->r->me, i);
    memset(k->recv, POISON, (RANKS * MOST + 1) * sizeof *k->recv);
}

/* Element i of what was received was to be `right`. */
static bool check(struct rank *k, const char *call, size_t i, uint32_t right)
{
    return suite_expect(&k->r->suite, k->recv[i] == right, "%s of %zu elements: element %zu is %x, not %x",
        call, k->count, i, k->recv[i], right);
}

static void expect_ok(struct rank *k, const char *call, tutti_status status)
{
    suite_expect(&k->r->suite, status == TUTTI_OK, "%s of %zu elements: %s", call, k->count, tt_last_error());
}

static void all_reduce(struct rank *k, bool in_place)
{
    fill(k, k->count);
    if (in_place)
        memcpy(k->recv, k->send, k->count * sizeof *k->recv);
    expect_ok(k, "all_reduce",
        tutti_all_reduce(in_place ? k->recv : k->send, k->recv, k->count, TUTTI_UINT32, TUTTI_SUM, k->comm,
            tutti_no_stream()));
    for (size_t i = 0; i < k->count && check(k, "all_reduce", i, sum(k->key, i)); i++)
        continue;
}

static void reduce_scatter(struct rank *k)
{
    size_t first = (size_t)k->r->me * k->count;
    fill(k, RANKS * k->count);
    expect_ok(k, "reduce_scatter",
        tutti_reduce_scatter(
            k->send, k->recv, k->count, TUTTI_UINT32, TUTTI_SUM, k->comm, tutti_no_stream()));
    for (size_t i = 0; i < k->count && check(k, "reduce_scatter", i, sum(k->key, first + i)); i++)
        continue;
}

static void all_gather(struct rank *k)
{
    fill(k, k->count);
    expect_ok(k, "all_gather",
        tutti_all_gather(k->send, k->recv, k->count, TUTTI_UINT32, k->comm, tutti_no_stream()));
    for (int from = 0; from < RANKS; from++)
        for (size_t i = 0; i < k->count; i++)
            if (!check(k, "all_gather", (size_t)from * k->count + i, element(k->key, from, i)))
                return;
}

static void all_to_all(struct rank *k)
{
    size_t first = (size_t)k->r->me * k->count;
    fill(k, RANKS * k->count);
    expect_ok(k, "all_to_all",
        tutti_all_to_all(k->send, k->recv, k->count, TUTTI_UINT32, k->comm, tutti_no_stream()));
    for (int from = 0; from < RANKS; from++)
        for (size_t i = 0; i < k->count; i++)
            if (!check(k, "all_to_all", (size_t)from * k->count + i, element(k->key, from, first + i)))
                return;
}

static void broadcast(struct rank *k, int root)
{
    fill(k, k->count);
    expect_ok(k, "broadcast",
        tutti_broadcast(k->send, k->recv, k->count, TUTTI_UINT32, root, k->comm, tutti_no_stream()));
    for (size_t i = 0; i < k->count && check(k, "broadcast", i, element(k->key, root, i)); i++)
        continue;
}

/* To the next rank, from the one before, and to itself, in one group. */
static void pass_on(struct rank *k)
{
    int me = k->r->me, next = (me + 1) % RANKS, before = (me + RANKS - 1) % RANKS;
    fill(k, k->count);
    tutti_group_start();
    tutti_send(k->send, k->count, TUTTI_UINT32, next, k->comm, tutti_no_stream());
    tutti_recv(k->recv, k->count, TUTTI_UINT32, before, k->comm, tutti_no_stream());
    tutti_send(k->send, k->count, TUTTI_UINT32, me, k->comm, tutti_no_stream());
    tutti_recv(k->recv + k->count, k->count, TUTTI_UINT32, me, k->comm, tutti_no_stream());
    expect_ok(k, "a group", tutti_group_end());
    for (size_t i = 0; i < k->count; i++)
        if (!check(k, "recv", i, element(k->key, before, i)) ||
            !check(k, "recv from itself", k->count + i, element(k->key, me, i)))
            return;
}

/* One way, without a group. */
static void send_on(struct rank *k)
{
    fill(k, k->count);
    if (k->r->me == 0)
        expect_ok(k, "send", tutti_send(k->send, k->count, TUTTI_UINT32, 2, k->comm, tutti_no_stream()));
    if (k->r->me != 2)
        return;
    expect_ok(k, "recv", tutti_recv(k->recv, k->count, TUTTI_UINT32, 0, k->comm, tutti_no_stream()));
    for (size_t i = 0; i < k->count && check(k, "recv", i, element(k->key, 0, i)); i++)
        continue;
}

static void call_all(struct rank *k)
{
    all_reduce(k, false);
    all_reduce(k, true);
    reduce_scatter(k);
    all_gather(k);
    all_to_all(k);
    for (int root = 0; root < RANKS; root++)
        broadcast(k, root);
    pass_on(k);
    send_on(k);
}

/* Each call comes again, because one that was made before may take another way. */
static void run_calls(struct shm_rank *r, const char *options)
{
    struct rank k = { .r = r, .comm = join(r, options) };
    k.send = malloc((RANKS * MOST + 1) * sizeof *k.send);
    k.recv = malloc((RANKS * MOST + 1) * sizeof *k.recv);
    for (int size = 0; size < SIZES && r->suite.wrong[0] == '\0'; size++)
        for (int i = 0; i < AGAIN && r->suite.wrong[0] == '\0'; i++) {
            k.count = counts[size];
            call_all(&k);
        }
    if (r->suite.wrong[0] != '\0')
        tutti_comm_abort(k.comm);
    else
        expect_ok(&k, "finalize, after a call", tutti_comm_finalize(k.comm));
    const struct tt_endpoint *e = tt_comm_peek(k.comm)->endpoint;
    for (int path = 0; path < TT_PATHS && !mixed; path++)
        suite_expect(&r->suite, (e->path_bytes[path] > 0) == (path == TT_PATH_COPIED), "path %d", path);
    for (int peer = 0; peer < RANKS && mixed; peer++) {
        const struct tt_endpoint *part = tt_link_to(e, TT_CLASS_COLLECTIVE, peer)->endpoint;
        suite_expect(&r->suite, (part->transport == &tt_tcp) == (peer % 2 != r->me % 2),
            "rank %d is reached by another part", peer);
    }
    suite_expect(&r->suite, tutti_comm_destroy(k.comm) == TUTTI_OK, "destroy: %s", tt_last_error());
    free(k.send);
    free(k.recv);
}

static void call_by_default(struct shm_rank *r)
{
    run_calls(r, NULL);
}

/* Rank 1 is reached by TCP; ranks 0 and 2 share memory. */
static void call_over_both(struct shm_rank *r)
{
    shm_introduce(r);
    run_calls(r, NULL);
}

static void call_exactly(struct shm_rank *r)
{
    run_calls(r, "exact=1");
}

Test(tcp_calls, results_are_right)
{
    shm_stage_run(shm_stage_new(RANKS), call_by_default, -1);
}

Test(tcp_calls, results_are_right_where_neighbours_are_on_different_transports)
{
    mixed = true;
    shm_stage_run(shm_stage_new(RANKS), call_over_both, -1);
}

Test(tcp_calls, results_are_right_if_exact)
{
    shm_stage_run(shm_stage_new(RANKS), call_exactly, -1);
}

/* --- What ends a communicator */

/* All ranks get this status, and one text, in which each of these words stands. */
static void expect_end(
    struct shm_rank *r, tutti_status status, tutti_status expected, const char *const *words)
{
    char *mine = r->stage->causes[r->me].text;
    snprintf(mine, sizeof r->stage->causes[0].text, "%s", tt_last_error());
    suite_expect(&r->suite, status == expected, "status %d: %s", (int)status, mine);
    for (int i = 0; words[i] != NULL; i++)
        suite_expect(&r->suite, strstr(mine, words[i]) != NULL, "\"%s\" is not in: %s", words[i], mine);
    shm_meet(r);
    suite_expect(&r->suite, strcmp(r->stage->causes[0].text, mine) == 0, "another cause: %s", mine);
}
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static tutti_status sum_of(tutti_comm *comm, size_t count, tutti_type type)
{
    static uint64_t from[16], to[16];
    return tutti_all_reduce(from, to, count, type, TUTTI_SUM, comm, tutti_no_stream());
}

static void differ(struct shm_rank *r)
{
    tutti_comm *comm = join(r, NULL);
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < 5; i++)
        suite_expect(&r->suite, sum_of(comm, 3, TUTTI_UINT64) == TUTTI_OK, "%s", tt_last_error());
    shm_meet(r);
    for (int i = 0; i < 2 && status == TUTTI_OK; i++) /* who got what it needs is told by its next call */
        status = sum_of(comm, r->me == 1 ? 4 : 3, TUTTI_UINT64);
    expect_end(
        r, status, TUTTI_MISMATCH, WORDS("operation 5", "all_reduce of 3 uint64", "all_reduce of 4 uint64"));
    tutti_comm_destroy(comm);
}

Test(tcp_calls, a_mismatch_is_told_to_all)
{
    shm_stage_run(shm_stage_new(RANKS), differ, -1);
}

/* One refuses its own call and goes on to nothing; the others wait for it. */
static void refuse(struct shm_rank *r)
{
    tutti_comm *comm = join(r, "refusal=50");
    tutti_status status = sum_of(comm, 3, r->me == 1 ? (tutti_type)77 : TUTTI_UINT64);
    if (r->me == 1) {
        suite_expect(&r->suite, status == TUTTI_INVALID_ARGUMENT, "status %d", (int)status);
        struct tt_comm *c = tt_comm_peek(comm);
        for (status = TUTTI_OK; status == TUTTI_OK; status = tt_comm_check(c))
            tt_sleep_ms(1);
    }
    expect_end(r, status, TUTTI_INVALID_USAGE, WORDS("rank 1 refused its own call", "77"));
    tutti_comm_destroy(comm);
}

Test(tcp_calls, a_refusal_is_told_to_all)
{
    shm_stage_run(shm_stage_new(RANKS), refuse, -1);
}

/* All receive before they would send. */
static void wait_in_a_circle(struct shm_rank *r)
{
    uint64_t to;
    tutti_comm *comm = join(r, NULL);
    tutti_status status =
        tutti_recv(&to, 1, TUTTI_UINT64, (r->me + RANKS - 1) % RANKS, comm, tutti_no_stream());
    expect_end(r, status, TUTTI_INVALID_USAGE, WORDS("wait for each other in a circle"));
    tutti_comm_destroy(comm);
}

Test(tcp_calls, a_circle_is_seen)
{
    shm_stage_run(shm_stage_new(RANKS), wait_in_a_circle, -1);
}

enum { DIES = 1 };

static void lose_one(struct shm_rank *r)
{
    tutti_comm *comm = join(r, NULL);
    if (r->me == DIES)
        raise(SIGKILL);
    tutti_status status = sum_of(comm, 3, TUTTI_UINT64);
    suite_expect(&r->suite, status == TUTTI_PEER_LOST, "status %d: %s", (int)status, tt_last_error());
    bool unmet = strstr(tt_last_error(), "rank 1 refuses connections (process ") != NULL &&
                 strstr(tt_last_error(), "TUTTI_INTERFACE") != NULL;
    bool named = strstr(tt_last_error(), "rank 1 died") != NULL || /* between dialing it and its answer */
                 strstr(tt_last_error(), "rank 1 has ended") != NULL;
    suite_expect(&r->suite, named || unmet, "not named: %s", tt_last_error());
    tutti_comm_destroy(comm);
}

Test(tcp_calls, a_death_ends_calls)
{
    shm_stage_run(shm_stage_new(RANKS), lose_one, DIES);
}

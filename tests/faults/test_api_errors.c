/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_errors.c: bad arguments of calls on a communicator: each is refused with the right status, in
 * words that name the argument, and afterwards the communicator works as before.
 *
 * Each table of wrong calls runs on every rank, alone: nothing of them may reach a peer. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tests/rig/ranks.h"
#include "tests/rig/ranks_values.h"

TestSuite(api_errors, .timeout = 120);

enum { COUNT = 12, HUGE_LOG = 43 }; /* 8 TiB is the most */

/* The communicator goes on: a sum comes out right on all ranks. */
static void still_works(struct ranks_me *me, tutti_comm *comm)
{
    int32_t value = me->rank + 1;
    ranks_at(me, "n %d rank %d: the call after the wrong ones", me->n, me->rank);
    ranks_expect(
        me, tutti_comm_state(comm) == TUTTI_OK, "the communicator ended: %s", tutti_get_last_error(comm));
    ranks_ok(me, tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()),
        "all_reduce");
    ranks_expect(me, value == me->n * (me->n + 1) / 2, "the sum is %d", value);
}

/* One call of each kind, with these arguments where it has them. */
struct wrong {
    const void *send;
    void *recv;
    size_t count;
    tutti_type type;
    tutti_op op;
    int root; /* or peer */
    const size_t *counts, *displs, *others; /* others: what all_to_all_v sends, if not counts */
    tutti_stream stream;
};
enum {
    ALL_REDUCE,
    REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    ALL_GATHER,
    ALL_GATHER_V,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    REDUCE_SCATTER_V,
    ALL_TO_ALL_V,
    GATHER_V,
    SCATTER_V,
    SEND,
    RECV,
    BARRIER,
    CALLS
};
static const char *const names[] = { "all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather",
    "all_gather_v", "all_to_all", "gather", "scatter", "reduce_scatter_v", "all_to_all_v", "gather_v",
    "scatter_v", "send", "recv", "barrier" };

static tutti_status call(int which, const struct wrong *w, tutti_comm *comm)
{
    switch (which) {
    case ALL_REDUCE:
        return tutti_all_reduce(w->send, w->recv, w->count, w->type, w->op, comm, w->stream);
    case REDUCE:
        return tutti_reduce(w->send, w->recv, w->count, w->type, w->op, w->root, comm, w->stream);
    case BROADCAST:
        return tutti_broadcast(w->send, w->recv, w->count, w->type, w->root, comm, w->stream);
    case REDUCE_SCATTER:
        return tutti_reduce_scatter(w->send, w->recv, w->count, w->type, w->op, comm, w->stream);
    case ALL_GATHER:
        return tutti_all_gather(w->send, w->recv, w->count, w->type, comm, w->stream);
    case ALL_GATHER_V:
        return tutti_all_gather_v(w->send, w->count, w->recv, w->counts, w->displs, w->type, comm, w->stream);
    case ALL_TO_ALL:
        return tutti_all_to_all(w->send, w->recv, w->count, w->type, comm, w->stream);
    case GATHER:
        return tutti_gather(w->send, w->recv, w->count, w->type, w->root, comm, w->stream);
    case SCATTER:
        return tutti_scatter(w->send, w->recv, w->count, w->type, w->root, comm, w->stream);
    case REDUCE_SCATTER_V:
        return tutti_reduce_scatter_v(w->send, w->counts, w->recv, w->type, w->op, comm, w->stream);
    case ALL_TO_ALL_V:
        return tutti_all_to_all_v(w->send, w->others != NULL ? w->others : w->counts, NULL, w->recv,
            w->counts, w->displs, w->type, comm, w->stream);
    case GATHER_V:
        return tutti_gather_v(
            w->send, w->count, w->recv, w->counts, w->displs, w->type, w->root, comm, w->stream);
    case SCATTER_V:
        return tutti_scatter_v(
            w->send, w->counts, w->displs, w->recv, w->count, w->type, w->root, comm, w->stream);
    case SEND:
        return tutti_send(w->send, w->count, w->type, w->root, comm, w->stream);
    case RECV:
        return tutti_recv(w->recv, w->count, w->type, w->root, comm, w->stream);
    default:
        return tutti_barrier(comm, w->stream);
    }
}

static int32_t send_space[COUNT * RANKS_MAX], recv_space[COUNT * RANKS_MAX];
static const size_t right_counts[RANKS_MAX] = { COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT };

/* Arguments that are right; tests spoil one. */
static struct wrong right(const struct ranks_me *me)
{
    return (struct wrong){ .send = send_space,
        .recv = recv_space,
        .count = COUNT,
        .type = TUTTI_INT32,
        .op = TUTTI_SUM,
        .root = me->rank == 0 ? 1 : 0,
        .counts = right_counts,
        .stream = tutti_no_stream() };
}

static bool reduces(int which)
{
    return which == ALL_REDUCE || which == REDUCE || which == REDUCE_SCATTER || which == REDUCE_SCATTER_V;
}

static void refuse(struct ranks_me *me, int which, const struct wrong *w, tutti_comm *comm,
    tutti_status expected, const char *words)
{
    char all[256];
    snprintf(all, sizeof all, "%s|%s", names[which], words);
    ranks_at(me, "rank %d: a wrong %s", me->rank, names[which]);
    ranks_refused(me, call(which, w, comm), expected, names[which], all);
}

static void wrong_values(struct ranks_me *me, tutti_comm *comm)
{
    for (int which = 0; which < BARRIER; which++) {
        struct wrong w = right(me);
        for (int i = 0; i < 3; i++) {
            w.type = (tutti_type)((const int[]){ -1, 12, INT_MAX })[i];
            refuse(me, which, &w, comm, TUTTI_INVALID_ARGUMENT, "type|0|11");
        }
        w = right(me);
        for (int i = 0; reduces(which) && i < 3; i++) {
            w.op = ((const tutti_op[]){ 5, 19, UINT32_MAX })[i];
            refuse(me, which, &w, comm, TUTTI_INVALID_ARGUMENT, "op|TUTTI_SUM|_BIT_XOR");
        }
        w = right(me);
        w.op = TUTTI_BIT_XOR;
        for (int i = 0; reduces(which) && i < 6; i++) {
            w.type = ((const tutti_type[]){ TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT32, TUTTI_FLOAT64,
                TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2 })[i];
            refuse(me, which, &w, comm, TUTTI_UNSUPPORTED, "bit_xor|float");
        }
        w = right(me);
        w.stream.kind = TUTTI_STREAM_HOST;
        refuse(me, which, &w, comm, TUTTI_INVALID_ARGUMENT, "stream|NULL");
    }
    struct wrong w = right(me);
    w.stream.kind = -7;
    refuse(me, BARRIER, &w, comm, TUTTI_UNSUPPORTED, "stream|-7");
}

static void wrong_ranks(struct ranks_me *me, tutti_comm *comm)
{
    struct wrong w = right(me);
    const int out[] = { -1, me->n, INT_MAX, INT_MIN };
    for (int i = 0; i < 4; i++) {
        w.root = out[i];
        refuse(me, BROADCAST, &w, comm, TUTTI_INVALID_ARGUMENT, "root|0 to 2");
        refuse(me, REDUCE, &w, comm, TUTTI_INVALID_ARGUMENT, "root|0 to 2");
        refuse(me, GATHER, &w, comm, TUTTI_INVALID_ARGUMENT, "root|0 to 2");
        refuse(me, SCATTER, &w, comm, TUTTI_INVALID_ARGUMENT, "root|0 to 2");
        refuse(me, SEND, &w, comm, TUTTI_INVALID_ARGUMENT, "peer|0 to 2");
        refuse(me, RECV, &w, comm, TUTTI_INVALID_ARGUMENT, "peer|0 to 2");
    }
    w.root = me->rank;
    refuse(me, SEND, &w, comm, TUTTI_INVALID_USAGE, "peer is this rank|outside a group");
    refuse(me, RECV, &w, comm, TUTTI_INVALID_USAGE, "peer is this rank|outside a group");
}

static void wrong_pointers(struct ranks_me *me, tutti_comm *comm)
{
    for (int which = 0; which < BARRIER; which++) {
        struct wrong w = right(me);
        w.root = which == SEND || which == RECV ? w.root : me->rank;
        w.send = NULL;
        if (which != RECV)
            refuse(me, which, &w, comm, TUTTI_INVALID_ARGUMENT, "send|NULL");
        w.send = send_space;
        w.recv = NULL;
        if (which != SEND)
            refuse(me, which, &w, comm, TUTTI_INVALID_ARGUMENT, "recv|NULL");
        if (which == SEND || which == RECV)
            continue;
        w.recv = recv_space + 1; /* one element off, and touching the last of send */
        w.send = recv_space;
        refuse(me, which, &w, comm, TUTTI_INVALID_ARGUMENT, "overlap|send|recv");
        w.send = (const uint8_t *)recv_space + 4;
        w.recv = recv_space;
        refuse(me, which, &w, comm, TUTTI_INVALID_ARGUMENT, "overlap|send|recv");
        w.type = TUTTI_INT32;
        w.send = (const uint8_t *)send_space + 2;
        if (reduces(which))
            refuse(me, which, &w, comm, TUTTI_INVALID_ARGUMENT, "send|multiple of 4");
        w.send = send_space;
        w.recv = (uint8_t *)recv_space + 1;
        if (reduces(which))
            refuse(me, which, &w, comm, TUTTI_INVALID_ARGUMENT, "recv|multiple of 4");
    }
    struct wrong w = right(me);
    w.send = (const void *)(UINTPTR_MAX - 15); /* 16 bytes before the end of all memory */
    refuse(me, ALL_REDUCE, &w, comm, TUTTI_INVALID_ARGUMENT, "send|address space");
    refuse(me, SEND, &w, comm, TUTTI_INVALID_ARGUMENT, "send|address space");
    w.recv = (void *)(UINTPTR_MAX - 15);
    refuse(me, RECV, &w, comm, TUTTI_INVALID_ARGUMENT, "recv|address space");
    w = right(me);
    w.send = (const uint8_t *)recv_space + 4; /* it has no form in place */
    refuse(me, ALL_TO_ALL_V, &w, comm, TUTTI_INVALID_ARGUMENT, "overlap|legal: apart");
    w.send = recv_space;
    refuse(me, ALL_TO_ALL_V, &w, comm, TUTTI_INVALID_ARGUMENT, "overlap|legal: apart");
    w = right(me); /* the place of another rank's block */
    w.recv = (int32_t *)send_space + (me->rank + 1) % me->n * COUNT;
    refuse(me, REDUCE_SCATTER, &w, comm, TUTTI_INVALID_ARGUMENT, "overlap|block");
    w.root = me->rank;
    refuse(me, SCATTER, &w, comm, TUTTI_INVALID_ARGUMENT, "overlap|block");
    w.recv = recv_space;
    w.send = recv_space + (me->rank + 1) % me->n * COUNT;
    refuse(me, ALL_GATHER, &w, comm, TUTTI_INVALID_ARGUMENT, "overlap|block");
    refuse(me, ALL_GATHER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "overlap|block");
    refuse(me, GATHER, &w, comm, TUTTI_INVALID_ARGUMENT, "overlap|block");
    w.send = recv_space + 1;
    refuse(me, ALL_TO_ALL, &w, comm, TUTTI_INVALID_ARGUMENT, "overlap|same pointer");
}

static void wrong_counts(struct ranks_me *me, tutti_comm *comm)
{
    const size_t most = (size_t)1 << (HUGE_LOG - 2); /* of int32 */
    const size_t counts[] = { SIZE_MAX, SIZE_MAX / 4, SIZE_MAX / 4 + 2, SIZE_MAX / 2 + 2, most + 1 };
    size_t shared[RANKS_MAX];
    struct wrong w = right(me);
    for (int i = 0; i < 5; i++)
        for (int which = 0; which < BARRIER; which++) {
            memcpy(shared, right_counts, sizeof shared);
            w.counts = shared;
            w.count = shared[me->rank] = counts[i];
            refuse(me, which, &w, comm, TUTTI_INVALID_ARGUMENT, "count");
        }
    w.count = most / (size_t)me->n + 1; /* all blocks together are too many */
    for (int which = REDUCE_SCATTER; which <= SCATTER; which++)
        if (which != ALL_GATHER_V)
            refuse(me, which, &w, comm, TUTTI_INVALID_ARGUMENT, "count");
    w.root = me->rank;
    w.counts = shared;
    for (int r = 0; r < me->n; r++)
        shared[r] = w.count;
    refuse(me, ALL_GATHER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "recv_counts");
    refuse(me, REDUCE_SCATTER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "recv_counts");
    refuse(me, ALL_TO_ALL_V, &w, comm, TUTTI_INVALID_ARGUMENT, "send_counts");
    refuse(me, GATHER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "recv_counts");
    refuse(me, SCATTER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "send_counts");
}

/* Counts that are missing, or not what this rank gives or gets itself. */
static void wrong_own_counts(struct ranks_me *me, tutti_comm *comm)
{
    struct wrong w = right(me);
    size_t counts[RANKS_MAX];
    w.root = me->rank;
    w.counts = NULL;
    refuse(me, ALL_GATHER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "recv_counts|NULL");
    refuse(me, REDUCE_SCATTER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "recv_counts|NULL");
    refuse(me, ALL_TO_ALL_V, &w, comm, TUTTI_INVALID_ARGUMENT, "send_counts|NULL");
    refuse(me, GATHER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "recv_counts|NULL");
    refuse(me, SCATTER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "send_counts|NULL");
    w.others = right_counts;
    refuse(me, ALL_TO_ALL_V, &w, comm, TUTTI_INVALID_ARGUMENT, "recv_counts|NULL");
    memcpy(counts, right_counts, sizeof counts);
    counts[me->rank]++;
    w.counts = counts;
    refuse(me, ALL_GATHER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "send_count|recv_counts");
    refuse(me, ALL_TO_ALL_V, &w, comm, TUTTI_INVALID_ARGUMENT, "send_counts|recv_counts");
    refuse(me, GATHER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "send_count|recv_counts");
    refuse(me, SCATTER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "recv_count|send_counts");
}

static void wrong_displs(struct ranks_me *me, tutti_comm *comm)
{
    struct wrong w = right(me);
    size_t displs[RANKS_MAX];
    w.root = me->rank;
    w.displs = displs;
    for (int kind = 0; kind < 4; kind++) {
        for (int r = 0; r < me->n; r++)
            displs[r] = (size_t)r * COUNT;
        int other = (me->rank + 1) % me->n;
        if (kind == 0) /* each of these writes where another block is, or beyond all memory */
            displs[other] = displs[me->rank];
        else if (kind == 1)
            displs[0] = COUNT - 1;
        else if (kind == 2)
            displs[other] = SIZE_MAX - 3;
        else
            displs[1] = (size_t)1 << 62;
        refuse(me, ALL_GATHER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "recv_displs");
        refuse(me, ALL_TO_ALL_V, &w, comm, TUTTI_INVALID_ARGUMENT, "recv_displs");
        refuse(me, GATHER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "recv_displs");
        if (kind > 1) /* what is only read may overlap */
            refuse(me, SCATTER_V, &w, comm, TUTTI_INVALID_ARGUMENT, "send_displs");
    }
}

static void wrong_calls(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    memset(send_space, 1, sizeof send_space);
    memset(recv_space, 7, sizeof recv_space);
    wrong_values(me, comm);
    wrong_ranks(me, comm);
    wrong_pointers(me, comm);
    wrong_counts(me, comm);
    wrong_own_counts(me, comm);
    wrong_displs(me, comm);
    for (size_t i = 0; i < sizeof recv_space / sizeof recv_space[0]; i++)
        ranks_expect(me, recv_space[i] == 0x07070707, "a refused call wrote element %zu", i);
    still_works(me, comm);
    ranks_part(me, comm);
}

Test(api_errors, arguments_of_collectives)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = wrong_calls });
}

/* What is legal though it looks odd. */
static void odd_calls(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    struct wrong w = right(me);
    w.count = 0;
    w.send = w.recv = NULL;
    size_t none[RANKS_MAX] = { 0 };
    w.counts = none;
    w.root = 0;
    for (int which = 0; which < SEND; which++) {
        ranks_at(me, "rank %d: %s of nothing, from and to NULL", me->rank, names[which]);
        ranks_ok(me, call(which, &w, comm), names[which]);
    }
    w.root = (me->rank + 1) % me->n;
    ranks_ok(me, call(SEND, &w, comm), "a send of nothing, that nobody receives");
    ranks_ok(me, call(RECV, &w, comm), "a recv of nothing, that nobody sends");
    uint8_t odd[COUNT * 4 + 1] = { 0 }; /* moving needs no alignment */
    ranks_ok(me, tutti_broadcast(odd + 1, odd + 1, COUNT, TUTTI_INT32, 1, comm, tutti_no_stream()),
        "broadcast of misaligned elements");
    still_works(me, comm);
    ranks_part(me, comm);
}

Test(api_errors, odd_but_legal_calls)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = odd_calls });
}

/* --- Communicators that are none */

static void refuse_handle(struct ranks_me *me, tutti_comm *comm, const char *words)
{
    tutti_error error = { .size = sizeof error };
    tutti_comm *child = NULL;
    char text[64] = "untouched";
    struct wrong w = right(me);
    for (int which = 0; which < CALLS; which++) {
        ranks_at(me, "%s on a handle: %s", names[which], words);
        ranks_refused(me, call(which, &w, comm), TUTTI_INVALID_ARGUMENT, names[which], words);
    }
    ranks_at(me, "a handle: %s", words);
    ranks_refused(me, tutti_comm_finalize(comm), TUTTI_INVALID_ARGUMENT, "finalize", words);
    ranks_refused(me, tutti_comm_abort(comm), TUTTI_INVALID_ARGUMENT, "abort", words);
    ranks_refused(me, tutti_comm_abort_local(comm), TUTTI_INVALID_ARGUMENT, "abort_local", words);
    ranks_refused(me, tutti_comm_refuse(comm, -1, "why"), TUTTI_INVALID_ARGUMENT, "refuse", words);
    ranks_refused(me, tutti_comm_state(comm), TUTTI_INVALID_ARGUMENT, "state", words);
    ranks_refused(me, tutti_comm_get_error(comm, &error), TUTTI_INVALID_ARGUMENT, "get_error", words);
    ranks_refused(me, tutti_comm_split(comm, 0, 0, NULL, &child), TUTTI_INVALID_ARGUMENT, "split", words);
    ranks_refused(me, tutti_comm_destroy(comm), TUTTI_INVALID_ARGUMENT, "destroy", words);
    ranks_expect(me, child == NULL && error.status == TUTTI_OK, "an output was set");
    ranks_expect(me, tutti_comm_rank(comm) == -1 && tutti_comm_size(comm) == -1, "it has a rank or size");
    ranks_expect(me, tutti_comm_device(comm) == -1, "it has a device");
    ranks_expect(me, tutti_get_last_error(comm) != NULL, "get_last_error is NULL");
    if (comm != NULL)
        ranks_expect(me, tutti_query(comm, "version", text, sizeof text) == 0, "it answers a query");
}

static void wrong_handles(struct ranks_me *me)
{
    static _Alignas(4096) uint8_t garbage[4096];
    tutti_comm *comms[2], *first;
    refuse_handle(me, NULL, "comm|NULL");
    refuse_handle(me, (tutti_comm *)garbage, "comm|not a communicator");
    memset(garbage, 0xff, sizeof garbage);
    refuse_handle(me, (tutti_comm *)(garbage + 64), "comm|not a communicator");
    refuse_handle(me, (tutti_comm *)(garbage + 1), "comm|not a communicator");
    if (!ranks_ok(me, tutti_comm_init_all(2, NULL, NULL, comms), "init_all"))
        return;
    refuse_handle(me, (tutti_comm *)((uint8_t *)comms[0] + 8), "comm|not a communicator");
    first = comms[0];
    ranks_ok(me, tutti_comm_destroy(comms[0]), "destroy");
    refuse_handle(me, first, "comm|destroyed");
    for (int i = 0; i < 20; i++) { /* a handle is not reused soon */
        tutti_comm *next[2];
        ranks_ok(me, tutti_comm_init_all(2, NULL, NULL, next), "init_all");
        refuse_handle(me, first, "comm|destroyed");
        ranks_ok(me, tutti_comm_destroy(next[0]), "destroy");
        ranks_ok(me, tutti_comm_destroy(next[1]), "destroy");
    }
    ranks_ok(me, tutti_comm_destroy(comms[1]), "destroy");
}

Test(api_errors, handles_that_are_none)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = wrong_handles });
}

/* --- The other functions of a communicator */

static void wrong_split(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL), *child = NULL;
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_NONBLOCKING };
    if (comm == NULL)
        return;
    for (int rank = 0; rank < me->n; rank++) { /* what is wrong at one rank is refused at all */
        bool mine = me->rank == rank;
        ranks_at(me, "rank %d: split, rank %d with colour -2", me->rank, rank);
        tutti_status status = tutti_comm_split(comm, mine ? -2 : 0, 0, NULL, &child);
        ranks_refused(
            me, status, TUTTI_INVALID_ARGUMENT, "split", mine ? "color|-2" : "rank|wrong arguments");
        ranks_at(me, "rank %d: split, rank %d without blocking", me->rank, rank);
        status = tutti_comm_split(comm, 1, 0, mine ? &config : NULL, &child);
        ranks_refused(
            me, status, TUTTI_UNSUPPORTED, "split", mine ? "flags|NONBLOCKING" : "rank|wrong arguments");
        ranks_expect(me, child == NULL, "a refused split has set the child");
    }
    still_works(me, comm);
    if (me->rank == 0) /* local: the others do not wait */
        ranks_refused(me, tutti_comm_split(comm, 0, 0, NULL, NULL), TUTTI_INVALID_ARGUMENT, "split", "child");
    still_works(me, comm);
    ranks_part(me, comm);
}

Test(api_errors, split)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = wrong_split });
}

static void finalized(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL), *child = NULL;
    tutti_error error = { .size = 0 };
    if (comm == NULL)
        return;
    ranks_at(me, "rank %d: get_error", me->rank);
    ranks_refused(me, tutti_comm_get_error(comm, NULL), TUTTI_INVALID_ARGUMENT, "get_error", "error|NULL");
    ranks_refused(me, tutti_comm_get_error(comm, &error), TUTTI_INVALID_ARGUMENT, "get_error", "size");
    error.size = offsetof(tutti_error, peer); /* a program built when the struct was shorter */
    error.peer = 99;
    ranks_ok(me, tutti_comm_get_error(comm, &error), "get_error of a shorter struct");
    ranks_expect(
        me, error.status == TUTTI_OK && error.peer == 99, "status %d, peer %d", error.status, error.peer);
    ranks_expect(me, strcmp(tutti_get_last_error(comm), "") == 0, "there is no sticky error");
    _Atomic int *called = me->shared;
    if (me->rank == 0)
        ranks_sleep_us(100000);
    atomic_fetch_add(called, 1);
    ranks_ok(me, tutti_comm_finalize(comm), "finalize");
    ranks_expect(me, atomic_load(called) == me->n, "finalize returned before all had called it");
    struct wrong w = right(me);
    for (int which = 0; which < CALLS; which++)
        refuse(me, which, &w, comm, TUTTI_INVALID_USAGE, "finalized");
    ranks_refused(me, tutti_comm_split(comm, 0, 0, NULL, &child), TUTTI_INVALID_USAGE, "split", "finalized");
    ranks_refused(me, tutti_comm_finalize(comm), TUTTI_INVALID_USAGE, "finalize", "finalized");
    ranks_expect(me, tutti_comm_rank(comm) == me->rank, "the rank is gone");
    ranks_part(me, comm);
}

Test(api_errors, finalized_communicators)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = finalized });
}

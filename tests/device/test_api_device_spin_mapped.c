/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_spin_mapped.c: kernels of several devices that read each other's buffers where they are:
 * when they do, that all ranks decide alike, and that nobody has a buffer back that a kernel may still read.
 *
 * How a call went is seen by its epochs: in place an all_reduce has three, for ranks meet so often; by pads
 * it has more. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "base/handle.h"
#include "ends_rig.h"
#include "spin/spin.h"
#include "spin_rig.h"

TestSuite(api_device_spin_mapped, .timeout = 240);

enum { COUNT = 50000, BYTES = COUNT * 4, IN_PLACE = 3, TRIES = 200, PATIENCE_MS = 20000 };
enum kind { BY_TUTTI, BY_DEVICE };

struct desk {
    struct local_desk at;
    uint32_t *given, *got; /* of the device */
    uint32_t *host; /* pinned: operands, and results */
};

static void *allocate(struct desk *k, enum kind kind, size_t bytes)
{
    void *memory = NULL;
    local_fine(&k->at, k->at.dev->use(k->at.me->rank));
    if (kind == BY_DEVICE)
        local_fine(&k->at, k->at.dev->memory.alloc(bytes, &memory));
    else
        ranks_ok(k->at.me, tutti_mem_alloc(bytes, TUTTI_MEM_CUDA, &memory), "tutti_mem_alloc");
    return memory;
}

static void give_back(struct desk *k, enum kind kind, void *memory)
{
    if (kind == BY_DEVICE)
        local_fine(&k->at, k->at.dev->memory.free(memory));
    else
        ranks_ok(k->at.me, tutti_mem_free(memory), "tutti_mem_free");
}

static bool sit_down(struct ranks_me *me, struct desk *k, enum kind kind)
{
    void *host = NULL;
    if (!spin_sit_down(me, &k->at, SPIN_LONG_MS))
        return false;
    local_fine(&k->at, k->at.dev->memory.alloc_pinned((size_t)2 * BYTES, &host));
    k->host = host;
    k->given = allocate(k, kind, BYTES);
    k->got = allocate(k, kind, BYTES);
    return k->given != NULL && k->got != NULL;
}

static void get_up(struct desk *k, enum kind kind)
{
    ranks_meet(k->at.me);
    spin_get_up(&k->at);
    give_back(k, kind, k->given);
    give_back(k, kind, k->got);
    local_fine(&k->at, k->at.dev->memory.free_pinned(k->host));
}

static uint32_t value(int rank, int round, int i)
{
    return (uint32_t)(rank + 1) * 1000003u + (uint32_t)round * 65599u + (uint32_t)i * 31u;
}

static uint64_t epoch(const struct desk *k)
{
    return tt_spin_load(&spin_of(k->at.comm)->its.row->words.done);
}

static void fill(const struct desk *k, int round)
{
    for (int i = 0; i < COUNT; i++)
        k->host[i] = value(k->at.me->rank, round, i);
    local_fine(&k->at, k->at.dev->copy(k->given, k->host, BYTES, k->at.stream));
}

static void check(const struct desk *k, const uint32_t *got, int round)
{
    for (int i = 0; i < COUNT; i++) {
        uint32_t sum = 0;
        for (int r = 0; r < k->at.me->n; r++)
            sum += value(r, round, i);
        if (!ranks_expect(
                k->at.me, got[i] == sum, "round %d: element %d is %u, expected %u", round, i, got[i], sum))
            return;
    }
}

static void sum(const struct desk *k, void *got)
{
    ranks_ok(k->at.me,
        tutti_all_reduce(k->given, got, COUNT, TUTTI_UINT32, TUTTI_SUM, k->at.comm, local_on(&k->at)),
        "all_reduce");
}

/* A call, whose result is right. Returns its epochs. */
static uint64_t call(const struct desk *k, int round, uint32_t *got)
{
    uint64_t before = epoch(k);
    fill(k, round);
    sum(k, got);
    local_fine(&k->at, k->at.dev->copy(k->host + COUNT, got, BYTES, k->at.stream));
    local_fine(&k->at, k->at.dev->stream.sync(k->at.stream));
    uint64_t epochs = epoch(k) - before;
    check(k, k->host + COUNT, round);
    ranks_meet(k->at.me);
    return epochs;
}

/* What is handed over is mapped a little later, and calls are right meanwhile. */
static bool comes_to_be_in_place(const struct desk *k, uint32_t *got)
{
    bool all = false;
    for (int round = 0; round < TRIES && !all; round++) {
        all = call(k, round, got) == IN_PLACE;
        ranks_sleep_us(all ? 0 : 2000);
    }
    return ranks_expect(k->at.me, all, "no call goes in place");
}

/* --- When calls go in place */

static void use_given_memory(struct ranks_me *me)
{
    struct desk k;
    if (!sit_down(me, &k, BY_TUTTI))
        return;
    comes_to_be_in_place(&k, k.got);
    ranks_expect(me, call(&k, 7, k.got) == IN_PLACE, "the next one does not");
    comes_to_be_in_place(&k, k.given);
    if (me->rank == 1) /* by the host's memory */
        ranks_expect(me, call(&k, 8, k.host + COUNT) > IN_PLACE, "it goes in place");
    else
        ranks_expect(me, call(&k, 8, k.got) > IN_PLACE, "in place, but rank 1 has its buffer elsewhere");
    ranks_expect(me, call(&k, 9, k.got) == IN_PLACE, "it does not go in place again");
    spin_says(me, k.at.comm, "why all_reduce 200000", "in place");
    get_up(&k, BY_TUTTI);
}

Test(api_device_spin_mapped, memory_of_tutti)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 3, 3, use_given_memory, NULL, 0, 0 },
        { "queues=1,delay=50", 3, 1, use_given_memory, NULL, 0, 0 },
        { "queues=2,one_address=0", 2, 1, use_given_memory, NULL, 0, 0 },
        { "queues=2,one_address=0", 8, 8, use_given_memory, NULL, 0, 0 });
}

/* Each collective whose kernels need more than packets, and how often its ranks meet. */
static tutti_status call_one(const struct desk *k, int which, size_t count)
{
    tutti_comm *comm = k->at.comm;
    tutti_stream on = local_on(&k->at);
    int root = k->at.me->n - 1;
    switch (which) {
    case 0:
        return tutti_all_gather(k->given, k->got, count, TUTTI_UINT32, comm, on);
    case 1:
        return tutti_reduce_scatter(k->given, k->got, count, TUTTI_UINT32, TUTTI_MAX, comm, on);
    case 2:
        return tutti_broadcast(k->given, k->got, count, TUTTI_UINT32, root, comm, on);
    case 3:
        return tutti_reduce(k->given, k->got, count, TUTTI_UINT32, TUTTI_MAX, root, comm, on);
    case 4:
        return tutti_gather(k->given, k->got, count, TUTTI_UINT32, root, comm, on);
    case 5:
        return tutti_scatter(k->given, k->got, count, TUTTI_UINT32, root, comm, on);
    default:
        return tutti_all_to_all(k->given, k->got, count, TUTTI_UINT32, comm, on);
    }
}

static void call_each(struct ranks_me *me)
{
    enum { COLLECTIVES = 7, MEETINGS = 2 };
    struct desk k;
    if (!sit_down(me, &k, BY_TUTTI) || !comes_to_be_in_place(&k, k.got))
        return;
    spin_of(k.at.comm)->its.cell_bytes = 4096; /* no packets */
    ranks_meet(me);
    for (int which = 0; which < COLLECTIVES; which++) {
        uint64_t before = epoch(&k);
        ranks_ok(me, call_one(&k, which, COUNT / 4), "a call");
        local_settle(&k.at);
        ranks_expect(me, epoch(&k) - before == MEETINGS, "number %d has %llu epochs", which,
            (unsigned long long)(epoch(&k) - before));
    }
    get_up(&k, BY_TUTTI);
}

Test(api_device_spin_mapped, each_collective)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 3, 3, call_each, NULL, 0, 0 }, { "queues=8", 3, 1, call_each, NULL, 0, 0 });
}

/* A rank ends it for itself. While its kernel waits, it may have told the others where its buffers are, so
 * they end as well; else they go on, until they need it. Nobody reads its buffers when it has them back. */
static void abort_alone(struct ranks_me *me)
{
    const int *ways =
        me->context; /* a rank whose process has others waits for them before its kernel begins */
    for (int waits = 0; waits < *ways; waits++) {
        struct desk k;
        ranks_at(me, waits ? "a kernel waits" : "no kernel is out");
        if (!sit_down(me, &k, BY_TUTTI) || !comes_to_be_in_place(&k, k.got))
            return;
        const struct tt_direct_words *words = &spin_of(k.at.comm)->its.row->words;
        ranks_meet(me);
        if (me->rank == 0 && waits) {
            sum(&k, k.got);
            for (int ms = 0; ms < 5000 && !tt_spin_is_out(words); ms++)
                ranks_sleep_us(1000);
        }
        if (me->rank == 0) {
            ranks_ok(me, tutti_comm_abort_local(k.at.comm), "abort_local");
            local_fine(&k.at, k.at.dev->stream.sync(k.at.stream));
            ranks_expect(me, !tt_spin_is_out(words), "a kernel is out");
        }
        ranks_meet(me);
        for (int ms = 0; ms < 10000 && waits && tutti_comm_state(k.at.comm) == TUTTI_OK; ms++)
            ranks_sleep_us(1000);
        tutti_status state = tutti_comm_state(k.at.comm);
        ranks_expect(me, state == (me->rank == 0 || waits ? TUTTI_ABORTED : TUTTI_OK), "state %d", state);
        if (me->rank > 0 && !waits) {
            tutti_all_reduce(k.given, k.got, COUNT, TUTTI_UINT32, TUTTI_SUM, k.at.comm, local_on(&k.at));
            ends_await(k.at.comm);
            local_fine(&k.at, k.at.dev->stream.sync(k.at.stream));
            ranks_expect(
                me, tutti_comm_state(k.at.comm) == TUTTI_PEER_LOST, "state %d", tutti_comm_state(k.at.comm));
        }
        get_up(&k, BY_TUTTI);
    }
}

Test(api_device_spin_mapped, a_rank_that_aborts_alone)
{
    static const int ways[] = { 2, 1 };
    plugin_must_be_stub();
    spin_run(
        { "queues=8", 3, 1, abort_alone, &ways[0], 0, 0 }, { "queues=8", 3, 3, abort_alone, &ways[1], 0, 0 });
}

/* Where the others have what a rank registered, which that rank alone can tell them. */
static void reach_each_other(struct desk *k, tutti_registration *in)
{
    struct ranks_me *me = k->at.me;
    void *(*at)[TT_SPIN_RANKS] = me->shared; /* by owner, and by who has it there */
    for (int r = 0; r < me->n; r++)
        ranks_ok(me, tutti_mem_address_at(k->at.comm, in, r, &at[me->rank][r]), "where it is");
    ranks_meet(me);
    for (int r = 0; r < me->n; r++) {
        if (!ranks_expect(me, at[r][me->rank] != NULL, "what rank %d registered is not here", r))
            continue;
        local_fine(&k->at, k->at.dev->copy(k->host, at[r][me->rank], sizeof *k->host, k->at.stream));
        local_fine(&k->at, k->at.dev->stream.sync(k->at.stream));
        ranks_expect(me, k->host[0] == value(r, 1, 0), "it is not what rank %d registered", r);
    }
    ranks_meet(me);
}

/* A rank that has registered nothing is enough for pads; when all have, calls go in place; and no more when
 * one takes it back, who may free it then. */
static void use_registered_memory(struct ranks_me *me)
{
    struct desk k;
    tutti_registration *in = NULL, *out = NULL;
    if (!sit_down(me, &k, BY_DEVICE))
        return;
    ranks_expect(me, call(&k, 0, k.got) > IN_PLACE, "what nobody registered is read in place");
    for (int round = 0; round < 3; round++) {
        ranks_at(me, "round %d", round);
        if (in == NULL)
            ranks_ok(me, tutti_mem_register(k.at.comm, k.given, BYTES, &in), "register");
        if (me->rank != 1 && out == NULL)
            ranks_ok(me, tutti_mem_register(k.at.comm, k.got, BYTES, &out), "register");
        ranks_meet(me);
        ranks_expect(me, call(&k, 1, k.got) > IN_PLACE, "rank 1 has registered its operand only");
        if (out == NULL)
            ranks_ok(me, tutti_mem_register(k.at.comm, k.got, BYTES, &out), "register");
        ranks_meet(me);
        comes_to_be_in_place(&k, k.got);
        call(&k, 1, k.got);
        reach_each_other(&k, in);
        if (me->rank == 1) {
            ranks_ok(me, tutti_mem_deregister(k.at.comm, in), "deregister");
            ranks_ok(me, tutti_mem_deregister(k.at.comm, out), "deregister");
            in = out = NULL;
            give_back(&k, BY_DEVICE, k.given);
            k.given = allocate(&k, BY_DEVICE, BYTES);
        }
        ranks_meet(me);
    }
    get_up(&k, BY_DEVICE);
}

Test(api_device_spin_mapped, registered_memory)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 3, 1, use_registered_memory, NULL, 0, 0 },
        { "queues=1,one_address=0", 2, 1, use_registered_memory, NULL, 0, 0 });
}

/* Memory of the same process that was not made for it, and processes of several ranks: by pads. */
static void use_pads(struct ranks_me *me)
{
    struct desk k;
    const enum kind *kind = me->context;
    tutti_registration *registration;
    if (!sit_down(me, &k, *kind))
        return;
    ranks_ok(me, tutti_mem_register(k.at.comm, k.given, BYTES, &registration), "register");
    ranks_ok(me, tutti_mem_register(k.at.comm, k.got, BYTES, &registration), "register");
    for (int round = 0; round < 5; round++)
        ranks_expect(me, call(&k, round, k.got) > IN_PLACE, "it goes in place");
    get_up(&k, *kind);
}

Test(api_device_spin_mapped, what_goes_by_pads)
{
    static const enum kind given = BY_TUTTI, own = BY_DEVICE;
    plugin_must_be_stub();
    spin_run({ "queues=8", 3, 3, use_pads, &own, 0, 0 }, { "queues=8", 4, 2, use_pads, &given, 0, 0 },
        { "queues=8", 3, 2, use_pads, &given, 0, 0 });
}

/* --- Graphs: what they use stays mapped */

static void replay(struct ranks_me *me)
{
    struct desk k;
    void *graph = NULL, *runnable = NULL;
    if (!sit_down(me, &k, BY_TUTTI))
        return;
    comes_to_be_in_place(&k, k.got);
    ranks_meet(me);
    local_fine(&k.at, k.at.dev->graph.capture_begin(k.at.stream));
    for (int i = 0; i < 2; i++) {
        local_fine(&k.at, k.at.dev->copy(k.given, k.host, BYTES, k.at.stream));
        sum(&k, k.got);
        local_fine(&k.at, k.at.dev->copy(k.host + COUNT, k.got, BYTES, k.at.stream));
    }
    local_fine(&k.at, k.at.dev->graph.capture_end(k.at.stream, &graph));
    ranks_meet(me);
    local_fine(&k.at, k.at.dev->graph.instantiate(graph, &runnable));
    local_fine(&k.at, k.at.dev->graph.destroy(graph));
    for (int round = 0; round < 6; round++) {
        ranks_at(me, "replay %d", round);
        uint64_t before = epoch(&k);
        for (int i = 0; i < COUNT; i++)
            k.host[i] = value(me->rank, round, i);
        ranks_delay(me, 300);
        local_fine(&k.at, k.at.dev->graph.launch(runnable, k.at.stream));
        local_fine(&k.at, k.at.dev->stream.sync(k.at.stream));
        ranks_expect(me, epoch(&k) - before == 2 * IN_PLACE, "it does not go in place");
        check(&k, k.host + COUNT, round);
        ranks_meet(me);
        ranks_expect(me, call(&k, round + 50, k.got) == IN_PLACE, "a call between does not go in place");
    }
    local_fine(&k.at, k.at.dev->graph.runnable_destroy(runnable));
    get_up(&k, BY_TUTTI);
}

Test(api_device_spin_mapped, graphs)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 1, replay, NULL, 0, 0 }, { "queues=1", 3, 3, replay, NULL, 0, 0 });
}

/* Registered memory is let go when its graph is gone, and not before. */
static void replay_and_deregister(struct ranks_me *me)
{
    struct desk k;
    tutti_registration *in = NULL, *out = NULL;
    void *graph = NULL, *runnable = NULL;
    if (!sit_down(me, &k, BY_DEVICE))
        return;
    ranks_ok(me, tutti_mem_register(k.at.comm, k.given, BYTES, &in), "register");
    ranks_ok(me, tutti_mem_register(k.at.comm, k.got, BYTES, &out), "register");
    comes_to_be_in_place(&k, k.got);
    local_fine(&k.at, k.at.dev->graph.capture_begin(k.at.stream));
    sum(&k, k.got);
    local_fine(&k.at, k.at.dev->graph.capture_end(k.at.stream, &graph));
    ranks_meet(me);
    local_fine(&k.at, k.at.dev->graph.instantiate(graph, &runnable));
    local_fine(&k.at, k.at.dev->graph.destroy(graph));
    ranks_meet(me);
    if (me->rank == 0) /* too early */
        ranks_ok(me, tutti_mem_deregister(k.at.comm, out), "deregister");
    ranks_meet(me);
    fill(&k, 3);
    local_fine(&k.at, k.at.dev->graph.launch(runnable, k.at.stream));
    local_fine(&k.at, k.at.dev->copy(k.host + COUNT, k.got, BYTES, k.at.stream));
    local_settle(&k.at);
    check(&k, k.host + COUNT, 3);
    local_fine(&k.at, k.at.dev->graph.runnable_destroy(runnable));
    if (me->rank != 0)
        ranks_ok(me, tutti_mem_deregister(k.at.comm, out), "deregister");
    ranks_ok(me, tutti_mem_deregister(k.at.comm, in), "deregister");
    ranks_expect(me, call(&k, 4, k.got) > IN_PLACE, "what is not registered any more is read in place");
    get_up(&k, BY_DEVICE);
}

Test(api_device_spin_mapped, graphs_of_registered_memory)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 1, replay_and_deregister, NULL, 0, 0 });
}

/* --- Groups, and two communicators */

static void call_in_groups(struct ranks_me *me)
{
    struct desk k;
    if (!sit_down(me, &k, BY_TUTTI))
        return;
    tutti_comm *other = spin_join(me, ";executor=spin", SPIN_LONG_MS);
    uint32_t *more = allocate(&k, BY_TUTTI, BYTES);
    comes_to_be_in_place(&k, k.got);
    for (int round = 0; round < 20; round++) {
        ranks_at(me, "group %d", round);
        fill(&k, round);
        ranks_ok(me, tutti_group_start(), "group_start");
        sum(&k, k.got);
        ranks_ok(me, tutti_all_reduce(k.given, more, COUNT, TUTTI_UINT32, TUTTI_SUM, other, local_on(&k.at)),
            "other");
        sum(&k, k.given);
        ranks_ok(me, tutti_group_end(), "group_end");
        uint32_t *results[] = { k.got, more, k.given };
        for (int i = 0; i < 3; i++) {
            local_fine(&k.at, k.at.dev->copy(k.host + COUNT, results[i], BYTES, k.at.stream));
            local_fine(&k.at, k.at.dev->stream.sync(k.at.stream));
            check(&k, k.host + COUNT, round);
        }
        ranks_meet(me);
    }
    ranks_ok(me, tutti_comm_destroy(other), "tutti_comm_destroy");
    give_back(&k, BY_TUTTI, more);
    get_up(&k, BY_TUTTI);
}

Test(api_device_spin_mapped, groups)
{
    plugin_must_be_stub();
    spin_run(
        { "queues=8", 2, 1, call_in_groups, NULL, 0, 0 }, { "queues=1", 3, 3, call_in_groups, NULL, 0, 0 });
}

/* --- The end: who has its stream back frees at once what others' kernels were reading. A root reads for long
 * what the others have only to give. */

enum { LARGE = 1 << 20 };

static void reduce(const struct desk *k, const void *from, void *to, size_t bytes)
{
    tutti_reduce(from, to, bytes / 4, TUTTI_UINT32, TUTTI_SUM, 0, k->at.comm, local_on(&k->at));
}

static void abort_soon(struct ranks_me *me)
{
    for (int round = 0; round < 8; round++) {
        struct desk k;
        uint64_t epochs = 0;
        ranks_at(me, "abort %d", round);
        if (!sit_down(me, &k, BY_TUTTI))
            return;
        void *from = allocate(&k, BY_TUTTI, LARGE), *to = allocate(&k, BY_TUTTI, LARGE);
        for (int i = 0; i < TRIES && epochs != 2; i++) {
            epochs = epoch(&k);
            reduce(&k, from, to, BYTES); /* by pads a long one takes long here */
            local_settle(&k.at);
            epochs = epoch(&k) - epochs;
        }
        ranks_expect(me, epochs == 2, "it does not go in place");
        ranks_meet(me);
        reduce(&k, from, to, LARGE);
        ranks_sleep_us(500 + (uint32_t)round * 1500);
        if (me->rank == round % me->n)
            ranks_ok(me, tutti_comm_abort(k.at.comm), "tutti_comm_abort");
        local_drains(&k.at);
        give_back(&k, BY_TUTTI, from);
        give_back(&k, BY_TUTTI, to);
        ends_await(k.at.comm);
        get_up(&k, BY_TUTTI);
        ranks_meet(me);
    }
}

Test(api_device_spin_mapped, aborted)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 3, 3, abort_soon, NULL, 0, 0 }, { "queues=8", 3, 1, abort_soon, NULL, 0, 0 });
}

/* A process dies; the others' kernels end, and they are told. */
static void die_soon(struct ranks_me *me)
{
    struct desk k;
    tutti_registration *registration;
    const struct ends_death *death = me->context;
    if (!sit_down(me, &k, BY_DEVICE))
        return;
    ranks_ok(me, tutti_mem_register(k.at.comm, k.given, BYTES, &registration), "register");
    ranks_ok(me, tutti_mem_register(k.at.comm, k.got, BYTES, &registration), "register");
    if (!comes_to_be_in_place(&k, k.got))
        return;
    ends_die_soon(me, death);
    while (tutti_all_reduce(k.given, k.got, COUNT, TUTTI_UINT32, TUTTI_SUM, k.at.comm, local_on(&k.at)) ==
           TUTTI_OK)
        local_fine(&k.at, k.at.dev->stream.sync(k.at.stream));
    local_drains(&k.at);
    ends_await(k.at.comm);
    ranks_expect(me, tutti_comm_state(k.at.comm) == TUTTI_PEER_LOST, "state %d: %s",
        tutti_comm_state(k.at.comm), tutti_get_last_error(k.at.comm));
    spin_get_up(&k.at);
}

Test(api_device_spin_mapped, a_process_dies)
{
    static const struct ends_death deaths[] = { { 1, 3000, 0 }, { 0, 20000, 0 }, { 2, 40000, 0 } };
    plugin_must_be_stub();
    for (int i = 0; i < 3; i++)
        spin_run({ "queues=8", 3, 1, die_soon, &deaths[i], 1U << deaths[i].victim, 0 });
}

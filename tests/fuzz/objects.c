/* SPDX-License-Identifier: BSD-3-Clause */
/* objects.c: what one rank makes and closes: streams, memory, operators, communicators of its own. */
#include "tests/fuzz/fuzz.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static uint32_t below(struct fuzz_rank *me, uint32_t bound)
{
    return ranks_below(&me->random, bound);
}

void fuzz_bury(struct fuzz_rank *me, void *handle)
{
    me->dead[me->dead_count++ % FUZZ_DEAD] = handle;
}

/* --- Streams */

static void stream_create(struct fuzz_rank *me)
{
    fuzz_at(me, "stream_create");
    fuzz_expect(me, "stream_create", tutti_stream_create(NULL), FUZZ_ARGUMENT);
    if (me->stream_count < FUZZ_STREAMS)
        fuzz_expect(me, "stream_create", tutti_stream_create(&me->streams[me->stream_count++]), FUZZ_OK);
}

static void stream_destroy(struct fuzz_rank *me)
{
    tutti_stream last = me->streams[me->stream_count - 1];
    fuzz_at(me, "stream_destroy of %p", last.handle);
    fuzz_settle(me);
    fuzz_expect(me, "stream_destroy", tutti_stream_destroy(last), FUZZ_OK);
    fuzz_bury(me, last.handle);
    me->stream_count--;
    if (me->n == 1) { /* another rank may have made a stream of its handle by now */
        fuzz_at(me, "stream_destroy of %p once more", last.handle);
        fuzz_expect(me, "stream_destroy", tutti_stream_destroy(last), FUZZ_ARGUMENT);
    }
}

/* Points that are there, and one that is beyond what was queued. */
static void stream_points(struct fuzz_rank *me)
{
    tutti_stream a = me->streams[below(me, (uint32_t)me->stream_count)];
    tutti_stream b = me->streams[below(me, (uint32_t)me->stream_count)];
    uint64_t point = 77, beyond;
    int64_t ms = (int64_t)below(me, 3);
    fuzz_at(me, "points of stream %p, after them %p", a.handle, b.handle);
    fuzz_expect(me, "stream_record", tutti_stream_record(a, NULL), FUZZ_ARGUMENT);
    fuzz_expect(me, "stream_record", tutti_stream_record(a, &point), FUZZ_OK);
    beyond = below(me, 2) == 0 ? point + 1 : UINT64_MAX - below(me, 3);
    fuzz_expect(me, "stream_query", tutti_stream_query(a, point), FUZZ_OK | FUZZ_GOING_ON);
    fuzz_expect(me, "stream_query", tutti_stream_query(a, beyond), FUZZ_ARGUMENT);
    fuzz_expect(me, "stream_wait", tutti_stream_wait(a, point, ms), FUZZ_OK | FUZZ_GOING_ON);
    fuzz_expect(me, "stream_wait", tutti_stream_wait(a, beyond, 0), FUZZ_ARGUMENT);
    fuzz_expect(me, "stream_wait", tutti_stream_wait(a, point, -2 - (int64_t)below(me, 9)), FUZZ_ARGUMENT);
    fuzz_expect(me, "stream_after", tutti_stream_after(b, a, point), FUZZ_OK);
    beyond = UINT64_MAX - below(me, 3); /* where b is a, it has one point more by now */
    fuzz_expect(me, "stream_after", tutti_stream_after(b, a, beyond), FUZZ_ARGUMENT);
}

static void stream_junk(struct fuzz_rank *me)
{
    uint64_t point = 77;
    uint32_t may = 0;
    tutti_stream junk = fuzz_junk_stream(me, &may);
    if (below(me, 8) == 0) {
        junk = tutti_no_stream();
        may = FUZZ_ARGUMENT | FUZZ_UNSUPPORTED;
    }
    fuzz_at(me, "streams: kind %d, handle %p", junk.kind, junk.handle);
    fuzz_expect(me, "stream_record", tutti_stream_record(junk, &point), may);
    fuzz_right(me, "stream_record", point == 77);
    fuzz_expect(me, "stream_query", tutti_stream_query(junk, 0), may);
    fuzz_expect(me, "stream_wait", tutti_stream_wait(junk, 0, 0), may);
    fuzz_expect(me, "stream_destroy", tutti_stream_destroy(junk), may);
    if (me->stream_count > 0) {
        fuzz_expect(me, "stream_after", tutti_stream_after(me->streams[0], junk, 0), may);
        fuzz_expect(me, "stream_after", tutti_stream_after(junk, me->streams[0], 0), may);
    }
}

void fuzz_streams(struct fuzz_rank *me)
{
    uint32_t which = below(me, 6);
    if (which == 0)
        stream_junk(me);
    else if (me->stream_count == 0 || which <= 2)
        stream_create(me);
    else if (which == 3)
        stream_destroy(me);
    else
        stream_points(me);
}

/* --- Memory */

void fuzz_memory(struct fuzz_rank *me)
{
    static const size_t sizes[] = { 0, 1, 100, 4096, 5000, 70000, 1 << 20 };
    static const size_t huge[] = { SIZE_MAX, SIZE_MAX - 4095, (size_t)1 << 63, (size_t)1 << 50 };
    size_t bytes = sizes[below(me, 7)];
    uint8_t *memory = NULL;
    void *kept = me;
    fuzz_at(me, "mem_alloc and mem_free, %zu bytes", bytes);
    fuzz_expect(me, "mem_alloc", tutti_mem_alloc(bytes, TUTTI_MEM_HOST, (void **)&memory), FUZZ_OK);
    fuzz_right(me, "mem_alloc", bytes == 0 || (uintptr_t)memory % 4096 == 0);
    for (size_t i = 0; i<bytes; i += bytes> 5000 ? 509 : 1) {
        if (memory[i] != 0)
            fuzz_fail(me, "mem_alloc gave memory that is not 0");
        memory[i] = 1;
    }
    if (bytes > 1)
        fuzz_expect(me, "mem_free", tutti_mem_free(memory + 1 + below(me, 40)), FUZZ_ARGUMENT);
    fuzz_expect(me, "mem_free", tutti_mem_free(me->pools[0].data + below(me, 64)), FUZZ_ARGUMENT);
    fuzz_expect(me, "mem_free", tutti_mem_free(me->pools[1].data + 4096), FUZZ_ARGUMENT);
    fuzz_expect(me, "mem_free", tutti_mem_free(NULL), FUZZ_OK);
    fuzz_expect(me, "mem_free", tutti_mem_free(memory), FUZZ_OK);
    fuzz_at(me, "mem_alloc of what cannot be had");
    fuzz_expect(me, "mem_alloc", tutti_mem_alloc(huge[below(me, 4)], TUTTI_MEM_HOST, &kept),
        FUZZ_MAY(TUTTI_OUT_OF_MEMORY));
    fuzz_expect(me, "mem_alloc", tutti_mem_alloc(16, 2 + (int)below(me, 9), &kept), FUZZ_ARGUMENT);
    fuzz_expect(me, "mem_alloc", tutti_mem_alloc(16, -1, &kept), FUZZ_ARGUMENT);
    fuzz_expect(me, "mem_alloc", tutti_mem_alloc(16, TUTTI_MEM_HOST, NULL), FUZZ_ARGUMENT);
    fuzz_expect(me, "mem_alloc", tutti_mem_alloc(16, TUTTI_MEM_CUDA, &kept), FUZZ_UNSUPPORTED);
    fuzz_right(me, "mem_alloc", kept == me);
}

/* --- Operators */

/* Their bytes are all the operand's: of the first rank, of the last one, or added up. */
static void take_left(void *dst, const void *left, const void *right, size_t count, void *context)
{
    (void)right;
    memmove(dst, left, count * *(const uint32_t *)context);
}

static void take_right(void *dst, const void *left, const void *right, size_t count, void *context)
{
    (void)left;
    memmove(dst, right, count * *(const uint32_t *)context);
}

static void add_bytes(void *dst, const void *left, const void *right, size_t count, void *context)
{
    uint8_t *d = dst;
    const uint8_t *l = left, *r = right;
    for (size_t i = 0; i < count * *(const uint32_t *)context; i++)
        d[i] = (uint8_t)(l[i] + r[i]);
}

static const tutti_reduce_fn functions[] = {
    [FUZZ_LEFT] = take_left, [FUZZ_RIGHT] = take_right, [FUZZ_BYTES] = add_bytes
};
static uint32_t element_sizes[] = { 1, 2, 4, 8, 12, 24, 64 };

static void encode_factor(tutti_type type, int factor, void *scalar)
{
    int64_t whole = factor;
    if (type >= TUTTI_FLOAT16)
        ranks_encode(type, factor, scalar);
    else
        memcpy(scalar, &whole, sizeof whole);
}

static void op_create(struct fuzz_rank *me, struct fuzz_end *end, uint64_t r)
{
    struct fuzz_op *op = &end->ops[end->op_count];
    uint32_t size = ranks_below(&r, 7), kind = FUZZ_LEFT + ranks_below(&r, 4);
    *op = (struct fuzz_op){ .kind = me->episode->forced ? FUZZ_BYTES : (enum fuzz_op_kind)kind,
        .type = (tutti_type)ranks_below(&r, 12),
        .element_bytes = element_sizes[size] };
    if (op->kind == FUZZ_FACTOR) {
        uint8_t scalar[8];
        op->element_bytes = (uint32_t)tutti_type_bytes(op->type);
        for (int i = 0; i < end->n; i++)
            op->factors[i] = 1 + (int)ranks_below(&r, 2);
        encode_factor(op->type, op->factors[end->rank], scalar);
        fuzz_at(me, "op_create_pre_mul_sum, type %d", (int)op->type);
        fuzz_expect(me, "op_create_pre_mul_sum",
            tutti_op_create_pre_mul_sum(end->comm, scalar, op->type, 0, &op->id), FUZZ_OK);
    } else {
        fuzz_at(me, "op_create, elements of %u bytes", op->element_bytes);
        fuzz_expect(me, "op_create",
            tutti_op_create(end->comm, functions[op->kind], &element_sizes[size], op->element_bytes,
                op->kind == FUZZ_BYTES, &op->id),
            FUZZ_OK);
    }
    end->op_count++;
}

void fuzz_op_step(struct fuzz_rank *me, struct fuzz_end *end, uint64_t common)
{
    if (end->op_count < FUZZ_OPS && (end->op_count == 0 || (common & 1) != 0)) {
        op_create(me, end, ranks_mix(common));
        return;
    }
    struct fuzz_op *last = &end->ops[--end->op_count];
    fuzz_settle(me); /* its calls are over */
    fuzz_at(me, "op_destroy of %u", last->id);
    fuzz_expect(me, "op_destroy", tutti_op_destroy(end->comm, last->id), FUZZ_OK);
    fuzz_expect(me, "op_destroy", tutti_op_destroy(end->comm, last->id), FUZZ_ARGUMENT);
    uint8_t byte = 1, sum = 2;
    fuzz_expect(me, "all_reduce",
        tutti_all_reduce(&byte, &sum, 1, TUTTI_UINT8, last->id, end->comm, tutti_no_stream()), FUZZ_ARGUMENT);
    fuzz_right(me, "all_reduce", sum == 2);
}

void fuzz_operators(struct fuzz_rank *me)
{
    static const tutti_op none[] = { 0, 4, 16, 18, 255, UINT32_MAX, 1 << 30 };
    static const size_t sizes[] = { 0, 4097, SIZE_MAX, (size_t)1 << 32 };
    static const int types[] = { -1, 12, 99, 4096 };
    tutti_comm *comm = me->ends[0].comm;
    tutti_op op = 99;
    uint64_t scalar = 1;
    tutti_type type;
    memcpy(&type, &types[below(me, 4)], sizeof type);
    fuzz_at(me, "operators that cannot be");
    fuzz_expect(me, "op_create", tutti_op_create(comm, NULL, NULL, 4, 1, &op), FUZZ_ARGUMENT);
    fuzz_expect(me, "op_create", tutti_op_create(comm, add_bytes, NULL, 4, 1, NULL), FUZZ_ARGUMENT);
    fuzz_expect(
        me, "op_create", tutti_op_create(comm, add_bytes, NULL, sizes[below(me, 4)], 1, &op), FUZZ_ARGUMENT);
    fuzz_expect(me, "op_create", tutti_op_create(fuzz_junk(me), add_bytes, NULL, 4, 1, &op), FUZZ_ARGUMENT);
    fuzz_expect(me, "op_create_pre_mul_sum", tutti_op_create_pre_mul_sum(comm, NULL, TUTTI_INT8, 0, &op),
        FUZZ_ARGUMENT);
    fuzz_expect(
        me, "op_create_pre_mul_sum", tutti_op_create_pre_mul_sum(comm, &scalar, type, 0, &op), FUZZ_ARGUMENT);
    fuzz_expect(me, "op_create_pre_mul_sum", tutti_op_create_pre_mul_sum(comm, &scalar, TUTTI_INT8, 2, &op),
        FUZZ_ARGUMENT);
    fuzz_expect(me, "op_create_pre_mul_sum", tutti_op_create_pre_mul_sum(comm, &scalar, TUTTI_INT8, 1, &op),
        FUZZ_UNSUPPORTED | FUZZ_ARGUMENT);
    fuzz_expect(me, "op_destroy", tutti_op_destroy(comm, none[below(me, 7)]), FUZZ_ARGUMENT);
    fuzz_expect(me, "op_destroy", tutti_op_destroy(fuzz_junk(me), 300), FUZZ_ARGUMENT);
    fuzz_right(me, "op_create", op == 99);
}

/* --- Communicators of this rank alone */

static void refused_init(struct fuzz_rank *me)
{
    static const int sizes[] = { 0, -1, INT_MIN, INT_MAX, 1 << 20 };
    static const int ranks[] = { -1, 1, 2, INT_MAX, INT_MIN };
    tutti_comm *sentinel = (tutti_comm *)(void *)me, *comm = sentinel;
    int device = 2 + (int)below(me, 5) * -3;
    tutti_id id = { { 0 } };
    fuzz_at(me, "initialisations that cannot be");
    fuzz_expect(
        me, "comm_init_all", tutti_comm_init_all(sizes[below(me, 5)], NULL, NULL, &comm), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_init_all", tutti_comm_init_all(1, NULL, NULL, NULL), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_init_all", tutti_comm_init_all(1, &device, NULL, &comm),
        device >= 0    ? FUZZ_UNSUPPORTED
        : device == -1 ? FUZZ_OK
                       : FUZZ_ARGUMENT);
    if (comm != sentinel)
        fuzz_expect(me, "comm_destroy", tutti_comm_destroy(comm), FUZZ_OK);
    comm = sentinel;
    fuzz_expect(
        me, "comm_init_rank", tutti_comm_init_rank(sizes[below(me, 5)], 0, &id, NULL, &comm), FUZZ_ARGUMENT);
    fuzz_expect(
        me, "comm_init_rank", tutti_comm_init_rank(1, ranks[below(me, 5)], &id, NULL, &comm), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_init_rank", tutti_comm_init_rank(1, 0, NULL, NULL, &comm), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_init_rank", tutti_comm_init_rank(1, 0, &id, NULL, NULL), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_init_rank", tutti_comm_init_rank(1, 0, &id, NULL, &comm), FUZZ_ARGUMENT);
    fuzz_expect(me, "get_id", tutti_get_id(NULL), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_init_env", tutti_comm_init_env(NULL, &comm), FUZZ_USAGE);
    fuzz_expect(me, "comm_init_env", tutti_comm_init_env(NULL, NULL), FUZZ_ARGUMENT);
    fuzz_right(me, "comm_init_rank", comm == sentinel);
}

/* Settings that are shorter or longer than this library's, or say what cannot be. */
static void init_settings(struct fuzz_rank *me)
{
    static const char *const wrong[] = { "nothing=1", "slice", "slice=", "slice=-1", "algo=all_reduce",
        ";;=", "algo=nothing:ring", "map=perhaps", "topology=9-", "slice=4K slice=8K", "timeout=1h" };
    union {
        tutti_config config;
        uint8_t bytes[sizeof(tutti_config) + 64];
    } box = { .bytes = { 0 } };
    tutti_comm *sentinel = (tutti_comm *)(void *)me, *comm = sentinel;
    uint32_t may = FUZZ_OK, which = below(me, 8);
    box.config.size = sizeof box.config;
    if (which == 0) {
        box.config.size = below(me, sizeof box.config);
        may = FUZZ_OK | FUZZ_ARGUMENT;
    } else if (which == 1) {
        box.config.size = sizeof box;
        box.bytes[sizeof box.config + below(me, 64)] = (uint8_t)below(me, 2);
        may = FUZZ_OK | FUZZ_ARGUMENT | FUZZ_UNSUPPORTED;
    } else if (which == 2) {
        box.config.flags = UINT64_C(4) << below(me, 62);
        may = FUZZ_UNSUPPORTED;
    } else if (which == 3) {
        box.config.timeout_ms = -2 - (int64_t)below(me, 3) * (INT64_MAX / 2 - 4);
        may = FUZZ_ARGUMENT;
    } else if (which == 4) {
        box.config.options = wrong[below(me, sizeof wrong / sizeof wrong[0])];
        may = FUZZ_ARGUMENT | FUZZ_UNSUPPORTED;
    } else if (which == 5) {
        box.config.size = SIZE_MAX;
        may = FUZZ_ARGUMENT;
    } else if (which == 6) {
        box.config.device = below(me, 2) ? -3 - (int64_t)below(me, 9) : INT64_MAX - (int64_t)below(me, 9);
        may = FUZZ_ARGUMENT;
    } else {
        box.config = (tutti_config){ .size = sizeof box.config,
            .flags = below(me, 4),
            .timeout_ms = INT64_MAX,
            .name = "a name; with = %s",
            .options = "",
            .device = below(me, 2) ? TUTTI_DEVICE_NONE : 0 };
    }
    fuzz_at(me, "init_all with settings of %zu bytes, flags %llx, options \"%s\"", box.config.size,
        (unsigned long long)box.config.flags, box.config.options != NULL ? box.config.options : "");
    fuzz_expect(me, "comm_init_all", tutti_comm_init_all(1, NULL, &box.config, &comm), may);
    if (comm != sentinel)
        fuzz_expect(me, "comm_destroy", tutti_comm_destroy(comm), FUZZ_OK);
}

/* One that lives and ends at once; then its handle is dead, unless another thread made one since. */
static void brief_comm(struct fuzz_rank *me)
{
    tutti_comm *comms[3] = { NULL };
    tutti_id id;
    int n = 1 + (int)below(me, 3);
    fuzz_at(me, "a brief communicator of %d", n);
    if (below(me, 4) == 0) {
        fuzz_expect(me, "get_id", tutti_get_id(&id), FUZZ_OK);
        fuzz_expect(me, "comm_init_rank", tutti_comm_init_rank(n = 1, 0, &id, NULL, &comms[0]), FUZZ_OK);
    } else {
        fuzz_expect(me, "comm_init_all", tutti_comm_init_all(n, NULL, NULL, comms), FUZZ_OK);
    }
    if (below(me, 3) == 0)
        fuzz_expect(me, "comm_abort", tutti_comm_abort(comms[0]), FUZZ_OK);
    for (int i = 0; i < n; i++) {
        fuzz_expect(me, "comm_destroy", tutti_comm_destroy(comms[i]), FUZZ_OK);
        fuzz_bury(me, comms[i]);
    }
    for (int i = 0; i < n && me->n == 1; i++) {
        fuzz_expect(me, "comm_destroy", tutti_comm_destroy(comms[i]), FUZZ_ARGUMENT);
        fuzz_expect(me, "comm_abort", tutti_comm_abort(comms[i]), FUZZ_ARGUMENT);
        fuzz_expect(me, "barrier", tutti_barrier(comms[i], tutti_no_stream()), FUZZ_ARGUMENT);
    }
}

static void junk_comm(struct fuzz_rank *me)
{
    tutti_comm *junk = fuzz_junk(me), *child = (tutti_comm *)(void *)me;
    fuzz_at(me, "the communicator %p, which is none", (void *)junk);
    fuzz_expect(me, "comm_split", tutti_comm_split(junk, 0, 0, NULL, &child), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_finalize", tutti_comm_finalize(junk), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_abort", tutti_comm_abort(junk), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_refuse", tutti_comm_refuse(junk, -1, "why"), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_traffic",
        tutti_comm_traffic(junk, &(tutti_traffic){ .size = sizeof(tutti_traffic) }), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_destroy", tutti_comm_destroy(junk), FUZZ_ARGUMENT);
    fuzz_right(me, "comm_split", child == (tutti_comm *)(void *)me);
}

/* Refusals of a program's own, which its next call takes back. */
static void refuse(struct fuzz_rank *me)
{
    static const int peers[] = { -2, FUZZ_RANKS, INT_MAX, INT_MIN };
    static const char *const why[] = { "", "a reason", "%s%n" };
    tutti_comm *comm = me->ends[0].comm;
    fuzz_at(me, "comm_refuse");
    fuzz_expect(me, "comm_refuse", tutti_comm_refuse(comm, -1, NULL), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_refuse", tutti_comm_refuse(comm, peers[below(me, 4)], "why"), FUZZ_ARGUMENT);
    fuzz_expect(me, "comm_refuse",
        tutti_comm_refuse(comm, (int)below(me, (uint32_t)me->n + 1) - 1, why[below(me, 3)]), FUZZ_OK);
    fuzz_right(me, "comm_state", tutti_comm_state(comm) == TUTTI_OK);
}

void fuzz_communicators(struct fuzz_rank *me)
{
    switch (below(me, 5)) {
    case 0:
        refused_init(me);
        break;
    case 1:
        init_settings(me);
        break;
    case 2:
        brief_comm(me);
        break;
    case 3:
        refuse(me);
        break;
    default:
        junk_comm(me);
    }
}

/* --- Programs and groups that cannot be */

/* What is not for groups is refused in one, and that is the group's error. */
static void not_for_groups(struct fuzz_rank *me)
{
    tutti_comm *comm = me->ends[0].comm;
    tutti_status status;
    fuzz_at(me, "in a group: what is not for groups");
    fuzz_expect(me, "group_start", tutti_group_start(), FUZZ_OK);
    if (below(me, 2) == 0)
        status = fuzz_expect(me, "comm_finalize_within", tutti_comm_finalize_within(comm, 0), FUZZ_USAGE);
    else
        status = fuzz_expect(me, "comm_destroy", tutti_comm_destroy(comm), FUZZ_USAGE);
    fuzz_expect(me, "group_end", tutti_group_end(), FUZZ_MAY(status) | FUZZ_OK);
    fuzz_right(me, "group_end", tutti_comm_state(comm) == TUTTI_OK);
}

void fuzz_programs(struct fuzz_rank *me)
{
    tutti_program *sentinel = (tutti_program *)(void *)me, *program = sentinel;
    void *junk = fuzz_junk(me);
    if (below(me, 3) == 0) {
        not_for_groups(me);
        return;
    }
    fuzz_at(me, "programs that cannot be, the handle %p", junk);
    fuzz_expect(me, "program_start", tutti_program_start(junk), FUZZ_ARGUMENT);
    fuzz_expect(me, "program_destroy", tutti_program_destroy(junk), FUZZ_ARGUMENT);
    fuzz_expect(me, "group_end", tutti_group_end(), FUZZ_USAGE);
    fuzz_expect(me, "group_keep", tutti_group_keep(&program), FUZZ_USAGE);
    fuzz_expect(me, "group_start", tutti_group_start(), FUZZ_OK);
    fuzz_expect(me, "group_keep", tutti_group_keep(NULL), FUZZ_ARGUMENT);
    fuzz_expect(me, "group_end", tutti_group_end(), FUZZ_USAGE);
    fuzz_expect(me, "group_start", tutti_group_start(), FUZZ_OK);
    fuzz_expect(me, "group_start", tutti_group_start(), FUZZ_OK);
    fuzz_expect(me, "group_keep", tutti_group_keep(&program), FUZZ_USAGE);
    fuzz_right(me, "group_keep", program == sentinel);
    for (int i = 0; i < 2; i++)
        fuzz_expect(me, "group_end", tutti_group_end(), FUZZ_USAGE | FUZZ_OK);
    fuzz_expect(me, "group_end", tutti_group_end(), FUZZ_USAGE);
    fuzz_at(me, "an empty program");
    fuzz_expect(me, "group_start", tutti_group_start(), FUZZ_OK);
    fuzz_expect(me, "group_keep", tutti_group_keep(&program), FUZZ_OK);
    fuzz_expect(me, "program_start", tutti_program_start(program), FUZZ_OK);
    fuzz_expect(me, "program_destroy", tutti_program_destroy(program), FUZZ_OK);
}

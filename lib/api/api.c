/* SPDX-License-Identifier: BSD-3-Clause */
/* api.c: the collectives' entry points. Each fills one struct tt_call_args for `call`, which takes a cached
 * call to its end; `submit` is for the others. */
#include "base/status.h"
#include "comm/lifecycle.h"
#include "api/group.h"
#include "base/handle.h"
#include "kernels/kernels.h"
#include "run/call_cache.h"
#include "tutti.h"

static tutti_status queue_call(const struct tt_call *call)
{
    struct tt_position position;
    struct tt_work_item *item = tt_work_item_take(NULL);
    if (item == NULL)
        return TUTTI_OUT_OF_MEMORY;
    tutti_status status = tt_work_item_add(item, call);
    if (status == TUTTI_OK)
        return tt_group_run(item, &position);
    tt_work_item_drop(item);
    return status;
}

/* Checks a call and runs it, or queues it in a group or on a stream. If the handle is none, the error also
 * belongs to the group, if there is one. */
static tutti_status submit(tutti_comm *handle, struct tt_call *call)
{
    call->comm = tt_comm_find(handle);
    if (call->comm == NULL) {
        tutti_status fault = tt_handle_fault(handle);
        return tt_group_open() ? tt_group_note(fault) : fault;
    }
    tutti_status status = tt_call_check(call);
    if (tt_group_open())
        return tt_call_refuse(call, status == TUTTI_OK ? tt_group_add(call) : tt_group_note(status));
    if (status == TUTTI_OK && call->stream.kind != TUTTI_STREAM_NONE)
        return tt_call_refuse(call, queue_call(call));
    struct tt_pending pending = { .call = *call };
    if (status == TUTTI_OK)
        status = tt_comm_turn(call->comm);
    if (status == TUTTI_OK)
        status = tt_call_start(call, &pending.op);
    if (status == TUTTI_OK)
        status = tt_run(&pending, 1);
    if (status == TUTTI_OK)
        tt_cache_store(&pending.call, pending.op);
    return tt_call_refuse(call, status);
}

/* Runs a cached call by the executor. tt_cache_find has checked its pointers, and no more can be wrong. */
static __attribute__((noinline)) tutti_status run_cached(
    const struct tt_call_args *args, const struct tt_cached *cached)
{
    struct tt_pending pending = { .call = cached->call };
    pending.call.send = args->send;
    pending.call.recv = args->recv;
    tutti_status status = tt_call_start(&pending.call, &pending.op);
    return status == TUTTI_OK ? tt_run(&pending, 1) : tt_call_refuse(&pending.call, status);
}

static __attribute__((noinline)) tutti_status add_cached(
    const struct tt_call_args *args, const struct tt_cached *cached)
{
    struct tt_call known;
    tt_cached_call_with(args, cached, &known);
    return tt_call_refuse(&known, tt_group_add(&known));
}

/* Makes a call that is not cached. It is not inlined, since the fast path has no need of so large a frame. */
static __attribute__((noinline)) tutti_status call_uncached(
    const struct tt_call_args *args, const tutti_stream *stream)
{
    struct tt_call whole = { .collective = args->collective,
        .send = args->send,
        .recv = args->recv,
        .count = args->count,
        .type = args->type,
        .op = args->op,
        .root = args->root,
        .stream = *stream };
    if (args->blocks != NULL) {
        whole.blocks[TT_IN] = args->blocks[TT_IN];
        whole.blocks[TT_OUT] = args->blocks[TT_OUT];
        whole.count_in_blocks = args->count_in_blocks;
    }
    return submit(args->comm, &whole);
}

/* Takes the fast path, the executor with a cached call, or the slow path. The stream is copied only where
 * it is needed: the caller has just written its halves, and a read of the whole waits until they have left
 * the store buffer. */
static tutti_status call(const struct tt_call_args *args, const tutti_stream *stream)
{
    struct tt_cached *cached = stream->kind == TUTTI_STREAM_NONE ? tt_cache_find(args) : NULL;
    if (cached == NULL)
        return call_uncached(args, stream);
    if (tt_group_open()) {
        bool message = tt_collectives[args->collective].p2p && tt_group_add_message(args, cached);
        return message ? TUTTI_OK : add_cached(args, cached);
    }
    return tt_cached_is_fast(cached, args) ? tt_fast_run(args, cached) : run_cached(args, cached);
}

tutti_status tutti_barrier(tutti_comm *comm, tutti_stream stream)
{
    return call(&(struct tt_call_args){ .collective = TT_BARRIER,
                    .send = tt_barrier_token(),
                    .count = 1,
                    .type = TUTTI_INT32,
                    .op = TUTTI_MAX,
                    .comm = comm },
        &stream);
}

tutti_status tutti_all_reduce(const void *send, void *recv, size_t count, tutti_type type, tutti_op op,
    tutti_comm *comm, tutti_stream stream)
{
    return call(&(struct tt_call_args){ .collective = TT_ALL_REDUCE,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .op = op,
                    .comm = comm },
        &stream);
}

tutti_status tutti_reduce(const void *send, void *recv, size_t count, tutti_type type, tutti_op op, int root,
    tutti_comm *comm, tutti_stream stream)
{
    return call(&(struct tt_call_args){ .collective = TT_REDUCE,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .op = op,
                    .root = root,
                    .comm = comm },
        &stream);
}

tutti_status tutti_broadcast(const void *send, void *recv, size_t count, tutti_type type, int root,
    tutti_comm *comm, tutti_stream stream)
{
    return call(&(struct tt_call_args){ .collective = TT_BROADCAST,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .root = root,
                    .comm = comm },
        &stream);
}

tutti_status tutti_reduce_scatter(const void *send, void *recv, size_t recv_count, tutti_type type,
    tutti_op op, tutti_comm *comm, tutti_stream stream)
{
    return call(&(struct tt_call_args){ .collective = TT_REDUCE_SCATTER,
                    .send = send,
                    .recv = recv,
                    .count = recv_count,
                    .type = type,
                    .op = op,
                    .comm = comm },
        &stream);
}

tutti_status tutti_all_gather(
    const void *send, void *recv, size_t send_count, tutti_type type, tutti_comm *comm, tutti_stream stream)
{
    return call(&(struct tt_call_args){ .collective = TT_ALL_GATHER,
                    .send = send,
                    .recv = recv,
                    .count = send_count,
                    .type = type,
                    .comm = comm },
        &stream);
}

tutti_status tutti_all_to_all(
    const void *send, void *recv, size_t count, tutti_type type, tutti_comm *comm, tutti_stream stream)
{
    return call(&(struct tt_call_args){ .collective = TT_ALL_TO_ALL,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .comm = comm },
        &stream);
}

tutti_status tutti_gather(const void *send, void *recv, size_t send_count, tutti_type type, int root,
    tutti_comm *comm, tutti_stream stream)
{
    return call(&(struct tt_call_args){ .collective = TT_GATHER,
                    .send = send,
                    .recv = recv,
                    .count = send_count,
                    .type = type,
                    .root = root,
                    .comm = comm },
        &stream);
}

tutti_status tutti_scatter(const void *send, void *recv, size_t recv_count, tutti_type type, int root,
    tutti_comm *comm, tutti_stream stream)
{
    return call(&(struct tt_call_args){ .collective = TT_SCATTER,
                    .send = send,
                    .recv = recv,
                    .count = recv_count,
                    .type = type,
                    .root = root,
                    .comm = comm },
        &stream);
}

tutti_status tutti_send(
    const void *send, size_t count, tutti_type type, int peer, tutti_comm *comm, tutti_stream stream)
{
    return call(&(struct tt_call_args){ .collective = TT_P2P_SEND,
                    .send = send,
                    .count = count,
                    .type = type,
                    .root = peer,
                    .comm = comm },
        &stream);
}

tutti_status tutti_recv(
    void *recv, size_t count, tutti_type type, int peer, tutti_comm *comm, tutti_stream stream)
{
    return call(&(struct tt_call_args){ .collective = TT_P2P_RECV,
                    .recv = recv,
                    .count = count,
                    .type = type,
                    .root = peer,
                    .comm = comm },
        &stream);
}

tutti_status tutti_all_gather_v(const void *send, size_t send_count, void *recv,
    const size_t *recv_counts_shared, const size_t *recv_displs, tutti_type type, tutti_comm *comm,
    tutti_stream stream)
{
    const struct tt_blocks blocks[2] = { [TT_OUT] = { recv_counts_shared, recv_displs } };
    return call(&(struct tt_call_args){ .collective = TT_ALL_GATHER_V,
                    .send = send,
                    .recv = recv,
                    .count = send_count,
                    .type = type,
                    .blocks = blocks,
                    .comm = comm },
        &stream);
}

tutti_status tutti_reduce_scatter_v(const void *send, const size_t *recv_counts_shared, void *recv,
    tutti_type type, tutti_op op, tutti_comm *comm, tutti_stream stream)
{
    const struct tt_blocks blocks[2] = { [TT_IN] = { recv_counts_shared, NULL } };
    return call(&(struct tt_call_args){ .collective = TT_REDUCE_SCATTER_V,
                    .send = send,
                    .recv = recv,
                    .count_in_blocks = true,
                    .type = type,
                    .op = op,
                    .blocks = blocks,
                    .comm = comm },
        &stream);
}

tutti_status tutti_all_to_all_v(const void *send, const size_t *send_counts, const size_t *send_displs,
    void *recv, const size_t *recv_counts, const size_t *recv_displs, tutti_type type, tutti_comm *comm,
    tutti_stream stream)
{
    const struct tt_blocks blocks[2] = {
        [TT_IN] = { send_counts, send_displs }, [TT_OUT] = { recv_counts, recv_displs }
    };
    return call(&(struct tt_call_args){ .collective = TT_ALL_TO_ALL_V,
                    .send = send,
                    .recv = recv,
                    .count_in_blocks = true,
                    .type = type,
                    .blocks = blocks,
                    .comm = comm },
        &stream);
}

tutti_status tutti_gather_v(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
    const size_t *recv_displs, tutti_type type, int root, tutti_comm *comm, tutti_stream stream)
{
    const struct tt_blocks blocks[2] = { [TT_OUT] = { recv_counts, recv_displs } };
    return call(&(struct tt_call_args){ .collective = TT_GATHER_V,
                    .send = send,
                    .recv = recv,
                    .count = send_count,
                    .type = type,
                    .root = root,
                    .blocks = blocks,
                    .comm = comm },
        &stream);
}

tutti_status tutti_scatter_v(const void *send, const size_t *send_counts, const size_t *send_displs,
    void *recv, size_t recv_count, tutti_type type, int root, tutti_comm *comm, tutti_stream stream)
{
    const struct tt_blocks blocks[2] = { [TT_IN] = { send_counts, send_displs } };
    return call(&(struct tt_call_args){ .collective = TT_SCATTER_V,
                    .send = send,
                    .recv = recv,
                    .count = recv_count,
                    .type = type,
                    .root = root,
                    .blocks = blocks,
                    .comm = comm },
        &stream);
}

/* Checks a source, which may be dst, but not a part of it. */
static tutti_status check_source(
    const void *const *sources, int i, const void *dst, uint64_t bytes, size_t element)
{
    uintptr_t source = (uintptr_t)sources[i], to = (uintptr_t)dst;
    if (source == 0 || source % element != 0)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "reduce_local: sources[%d] is %p; legal: a multiple of %zu, not NULL", i, sources[i], element);
    if (source != to && source < to + bytes && to < source + bytes)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "reduce_local: sources[%d] (%p) and dst (%p), of %llu bytes each, overlap; legal: apart, or the "
            "same",
            i, sources[i], dst, (unsigned long long)bytes);
    return TUTTI_OK;
}

tutti_status tutti_reduce_local(
    const void *const *sources, int k, void *dst, size_t count, tutti_type type, tutti_op op)
{
    if (k < 1)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "reduce_local: k is %d; legal: 1 or more", k);
    if (op >= TT_CREATED_OPS)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "reduce_local: op is %u; legal: a built-in one, below %d: created operators serve their "
            "communicator",
            op, TT_CREATED_OPS);
    if (tt_fold_find(type, op, TT_TREE) == NULL)
        return tt_fail(TUTTI_UNSUPPORTED, "reduce_local: no kernel reduces %s by %s", tt_type_name(type),
            tt_op_name(op));
    if (count == 0)
        return TUTTI_OK;
    if (sources == NULL || dst == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "reduce_local: %s is NULL", dst == NULL ? "dst" : "sources");
    uint64_t element = tutti_type_bytes(type);
    if (count > TT_VECTOR_BYTES / element)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "reduce_local: count is %zu; at most %llu elements of %s",
            count, (unsigned long long)(TT_VECTOR_BYTES / element), tt_type_name(type));
    for (int i = 0; i < k; i++) {
        tutti_status status = check_source(sources, i, dst, count * element, (size_t)element);
        if (status != TUTTI_OK)
            return status;
    }
    if ((uintptr_t)dst % element != 0)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "reduce_local: dst is %p; legal: a multiple of %llu", dst,
            (unsigned long long)element);
    return tt_reduce_local(sources, k, dst, count, type, op);
}

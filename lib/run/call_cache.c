/* SPDX-License-Identifier: BSD-3-Clause */
/* call_cache.c: which calls are cached, and how an entry is found again. */
#include "run/call_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/handle.h"

/* Looks at all of them, so that the next call has their fingerprints. */
bool tt_cached_is_rewritten(const struct tt_cached *cached, const struct tt_call_args *args)
{
    bool all = true;
    for (struct tt_move *m = cached->moves; m < cached->moves + cached->nmoves; m++) {
        const uint8_t *base = m->buffer[1] == TT_IN ? args->send : args->recv;
        if (m->verb == TT_VERB_SEND && m->bytes >= TT_LOAN_BYTES && m->buffer[1] != TT_TMP &&
            !tt_move_is_rewritten(m, base + m->at[1]))
            all = false;
    }
    return all;
}

/* Notes the extents of both buffers at this rank, as the check allows them. */
static void note_extents(const struct tt_call *call, struct tt_cached *cached)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    for (int side = 0; side < 2; side++)
        cached->bytes[side] = tt_call_bytes(call, side);
    cached->alignment = row->result == TT_RESULT_REDUCED ? (uint32_t)tutti_type_bytes(call->type) : 1;
    cached->in_place_offset = (int64_t)((uintptr_t)call->recv - (uintptr_t)call->send);
}

/* The count that the key's hash takes: of a v-form the caller's arrays say it. */
static uint64_t signature_count(const struct tt_call *call)
{
    return call->count_in_blocks ? 0 : call->count;
}

/* True if both have the same arrays, as far as this rank reads them. */
static bool same_blocks(const struct tt_cached *cached, const struct tt_blocks *blocks)
{
    size_t bytes = (size_t)cached->call.comm->n * sizeof(size_t);
    for (int side = 0; side < 2; side++) {
        const struct tt_blocks *kept = &cached->call.blocks[side], *given = &blocks[side];
        if (kept->counts == NULL)
            continue; /* this rank does not read them */
        if (given->counts == NULL || memcmp(kept->counts, given->counts, bytes) != 0 ||
            (kept->displs == NULL) != (given->displs == NULL) ||
            (kept->displs != NULL && memcmp(kept->displs, given->displs, bytes) != 0))
            return false;
    }
    return true;
}

/* True if the entry already holds this call, which was found but could not be used this time. */
static bool is_cached(const struct tt_cached *cached, uint64_t key, const struct tt_call *call)
{
    return cached->key == key && cached->count == signature_count(call) &&
           cached->call.in_place == call->in_place && same_blocks(cached, call->blocks);
}

/* A call in which no rank has an element is not cached, since it would gain nothing. Where a rank knows only
 * its own counts, one without elements is cached like the others'. */
void tt_cache_store(const struct tt_call *call, const struct tt_op *op)
{
    if (call->created != NULL || call->met || (call->total == 0 && !tt_call_is_one_sided(call)))
        return;
    if (call->comm->device != NULL) /* each pointer is looked at, each time */
        return;
    uint64_t key = tt_cached_key(&(struct tt_call_args){ .collective = call->collective,
        .type = call->type,
        .op = call->op,
        .root = call->root,
        .send = call->send,
        .recv = call->recv });
    struct tt_cached *cached = tt_cached_at(call->comm, key, signature_count(call));
    if (key == 0 || is_cached(cached, key, call))
        return;
    struct tt_cached fresh = { .key = key,
        .count = signature_count(call),
        .class = (uint8_t)op->messages.class,
        .own_counts = op->one_sided,
        .seen = { (uintptr_t)call->send, (uintptr_t)call->recv },
        .call = *call,
        .arrays = cached->arrays };
    fresh.call.id = ++call->comm->calls.last_id;
    fresh.call.entry = NULL;
    fresh.call.cached = cached;
    tt_cached_compile(call, op, &fresh);
    if (fresh.moves == NULL && cached->moves != NULL) /* a compiled call gains more by the entry */
        return;
    if (!tt_call_keep_arrays(&fresh.call, &fresh.arrays)) {
        free(fresh.moves);
        return;
    }
    note_extents(call, &fresh);
    tt_call_record(call, op, &fresh.record);
    fresh.hash = op->messages.hash;
    fresh.cost = op->observed.cost;
    fresh.signature = op->messages.signature;
    tt_traffic_add(&call->comm->traffic, &cached->cost, cached->fast_calls); /* of what it was before */
    free(cached->moves);
    *cached = fresh;
}

void tt_cached_call_with(
    const struct tt_call_args *args, const struct tt_cached *cached, struct tt_call *call)
{
    *call = cached->call;
    call->send = args->send;
    call->recv = args->recv;
}

void tt_cache_free(struct tt_comm *comm)
{
    for (int i = 0; comm->calls.cached != NULL && i < TT_CACHED_CALLS; i++) {
        free(comm->calls.cached[i].moves);
        free(comm->calls.cached[i].arrays.words);
    }
    free(comm->calls.cached);
}

static bool overlap(const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* True if the slow path would find nothing wrong with these pointers. */
static bool are_legal(const struct tt_cached *cached, const uint8_t *send, const uint8_t *recv)
{
    bool in_place = cached->call.in_place, both = cached->bytes[TT_IN] > 0 && cached->bytes[TT_OUT] > 0;
    if ((cached->bytes[TT_IN] > 0 && send == NULL) || (cached->bytes[TT_OUT] > 0 && recv == NULL))
        return false;
    if ((((uintptr_t)send | (uintptr_t)recv) & (cached->alignment - 1)) != 0)
        return false;
    return in_place ? (int64_t)((uintptr_t)recv - (uintptr_t)send) == cached->in_place_offset
                    : !both || !overlap(send, cached->bytes[TT_IN], recv, cached->bytes[TT_OUT]);
}

/* True if the call may run with these pointers. They are checked only if they differ from the last call's. */
static bool may_run(const struct tt_comm *comm, struct tt_cached *cached, const void *send, void *recv)
{
    if (cached->seen[TT_IN] != (uintptr_t)send || cached->seen[TT_OUT] != (uintptr_t)recv) {
        if (!are_legal(cached, send, recv))
            return false;
        cached->seen[TT_IN] = (uintptr_t)send;
        cached->seen[TT_OUT] = (uintptr_t)recv;
    }
    return tt_cached_may_start(comm);
}

/* True if this is the last call again, with the same pointers, as in a loop. */
static bool is_last(const struct tt_cached *cached, const struct tt_call_args *args)
{
    return cached->seen[TT_IN] == (uintptr_t)args->send && cached->seen[TT_OUT] == (uintptr_t)args->recv &&
           cached->count == args->count && cached->call.collective == args->collective &&
           cached->call.type == args->type && cached->call.op == args->op &&
           cached->call.root == args->root && cached->key != 0;
}

/* The entry of another call than the last one. */
static __attribute__((noinline)) struct tt_cached *find(struct tt_comm *comm, const struct tt_call_args *args)
{
    uint64_t key = tt_cached_key(args);
    struct tt_cached *cached = tt_cached_at(comm, key, args->count);
    if (key == 0 || cached->key != key || cached->count != args->count ||
        !may_run(comm, cached, args->send, args->recv)) /* an empty entry's key is 0, too */
        return NULL;
    comm->calls.last = cached;
    return args->blocks == NULL || same_blocks(cached, args->blocks) ? cached : NULL;
}

struct tt_cached *tt_cache_find(const struct tt_call_args *args)
{
    struct tt_comm *comm = tt_comm_peek(args->comm);
    if (comm == NULL)
        return NULL;
    struct tt_cached *cached = comm->calls.last;
    if (!is_last(cached, args))
        return find(comm, args);
    bool same = args->blocks == NULL || same_blocks(cached, args->blocks);
    return same && tt_cached_may_start(comm) ? cached : NULL;
}

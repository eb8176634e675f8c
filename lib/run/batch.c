/* SPDX-License-Identifier: BSD-3-Clause */
/* batch.c: calls that are kept to run together later: in a group, on a stream, as a program.
 *
 * The caller's arrays are read before its call returns, so a batch has copies, as a cached call has. A batch
 * that is emptied keeps its memory: filled again as before, it allocates nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "run/run.h"

#define WORDS_OF(type) ((sizeof(type) + sizeof(size_t) - 1) / sizeof(size_t))

/* Every array of a call, of one entry per rank; NULL where the collective has none. */
enum { ARRAYS = 4 };
static const size_t **array_of(struct tt_call *call, int i)
{
    struct tt_blocks *sent = &call->blocks[TT_IN], *received = &call->blocks[TT_OUT];
    const size_t **const arrays[ARRAYS] = { &sent->counts, &sent->displs, &received->counts,
        &received->displs };
    return arrays[i];
}

static bool reserve(struct tt_arrays *arrays, size_t words)
{
    if (words <= arrays->room)
        return true;
    size_t *more = realloc(arrays->words, words * sizeof *more);
    if (more == NULL)
        return false;
    *arrays = (struct tt_arrays){ more, words };
    return true;
}

bool tt_call_keep_arrays(struct tt_call *call, struct tt_arrays *arrays)
{
    size_t n = (size_t)call->comm->n, words = 0;
    for (int i = 0; i < ARRAYS; i++)
        words += *array_of(call, i) != NULL ? n : 0;
    words += call->created != NULL ? WORDS_OF(struct tt_operator) : 0;
    words += call->staging != NULL ? WORDS_OF(struct tt_staging) : 0;
    if (!reserve(arrays, words))
        return false;
    size_t *to = arrays->words;
    if (call->created != NULL) { /* its id may be destroyed meanwhile */
        call->created = memcpy(to, call->created, sizeof *call->created);
        to += WORDS_OF(struct tt_operator);
    }
    if (call->staging != NULL) {
        call->staging = memcpy(to, call->staging, sizeof *call->staging);
        to += WORDS_OF(struct tt_staging);
    }
    for (int i = 0; i < ARRAYS; i++) {
        const size_t **array = array_of(call, i);
        if (*array == NULL)
            continue;
        memcpy(to, *array, n * sizeof *to);
        *array = to;
        to += n;
    }
    return true;
}

static bool grow(struct tt_batch *batch)
{
    int capacity = batch->capacity == 0 ? 1 : 2 * batch->capacity;
    struct tt_pending *more = realloc(batch->calls, (size_t)capacity * sizeof *more);
    if (more == NULL)
        return false;
    for (int i = batch->capacity; i < capacity; i++)
        more[i] = (struct tt_pending){ 0 };
    batch->calls = more;
    batch->capacity = capacity;
    return true;
}

tutti_status tt_batch_add(struct tt_batch *batch, const struct tt_call *call)
{
    struct tt_pending kept = { .call = *call };
    bool room = batch->count < batch->capacity || grow(batch);
    if (!room || !tt_call_keep_arrays(&kept.call, &batch->calls[batch->count].arrays))
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to keep call %d of a group or stream", batch->count);
    kept.arrays = batch->calls[batch->count].arrays;
    batch->calls[batch->count++] = kept;
    return TUTTI_OK;
}

static bool is_self(const struct tt_call *call, enum tt_collective collective)
{
    return call->collective == collective && call->root == call->comm->rank;
}

/* The receive copies what the send has: see point.c. */
static tutti_status meet(struct tt_call *send, struct tt_call *recv)
{
    uint64_t bytes = (uint64_t)recv->count * tutti_type_bytes(recv->type);
    uintptr_t from = (uintptr_t)send->send, to = (uintptr_t)recv->recv;
    if (send->count != recv->count || send->type != recv->type)
        return tt_fail(TUTTI_INVALID_USAGE,
            "group: rank %d sends itself %zu %s, but receives %zu %s; legal: the same", recv->root,
            send->count, tt_type_name(send->type), recv->count, tt_type_name(recv->type));
    if (bytes > 0 && from < to + bytes && to < from + bytes)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "group: rank %d sends itself %llu bytes from %p to %p: they overlap; legal: apart", recv->root,
            (unsigned long long)bytes, send->send, recv->recv);
    recv->send = send->send;
    recv->staged[TT_IN] = send->staged[TT_IN];
    send->met = recv->met = true;
    return TUTTI_OK;
}

tutti_status tt_batch_meet(struct tt_batch *batch)
{
    const struct tt_comm *last = NULL;
    tutti_status status = TUTTI_OK;
    int next = 0; /* all sends of `last` before it have met */
    for (int i = 0; i < batch->count && status == TUTTI_OK; i++) {
        struct tt_call *recv = &batch->calls[i].call, *send = NULL;
        if (!is_self(recv, TT_P2P_RECV))
            continue;
        next = recv->comm == last ? next : 0;
        last = recv->comm;
        for (; next < batch->count && send == NULL; next++) {
            struct tt_call *other = &batch->calls[next].call;
            if (other->comm == recv->comm && is_self(other, TT_P2P_SEND) && !other->met)
                send = other;
        }
        status = send != NULL ? meet(send, recv) : TUTTI_OK;
    }
    for (int i = 0; i < batch->count && status == TUTTI_OK; i++) {
        const struct tt_call *call = &batch->calls[i].call;
        bool sends = is_self(call, TT_P2P_SEND);
        if ((sends || is_self(call, TT_P2P_RECV)) && !call->met)
            status = tt_fail(TUTTI_INVALID_USAGE, "group: rank %d %s itself %zu %s, but the group has no %s",
                call->root, sends ? "sends" : "receives from", call->count, tt_type_name(call->type),
                sends ? "recv for it" : "send");
    }
    return status;
}

void tt_batch_free(struct tt_batch *batch)
{
    for (int i = 0; i < batch->capacity; i++)
        free(batch->calls[i].arrays.words);
    free(batch->calls);
    *batch = (struct tt_batch){ 0 };
}

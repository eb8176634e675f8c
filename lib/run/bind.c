/* SPDX-License-Identifier: BSD-3-Clause */
/* bind.c: from a call to a running operation: prepared call, spaces, signature, message numbers.
 *
 * Everything that peers must agree on (slices, algorithm, message numbers) is computed from values that
 * all ranks share; pointers and in_place are this rank's own. */
#include <stdlib.h>

#include "algorithms/algorithms.h"
#include "base/status.h"
#include "run/call_cache.h"
#include "run/call_layout.h"
#include "observe/recorder.h"

enum { LED = 0x6c6564 }; /* who calls what a leader's kernel does does not call what messages do */

static const int32_t barrier_token;

static bool reduces(const struct tt_call *call)
{
    return call->collective == TT_BARRIER || tt_collectives[call->collective].result == TT_RESULT_REDUCED;
}

uint64_t tt_call_hash(const struct tt_call *call, unsigned algorithm, uint32_t slices)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    const size_t *counts = tt_call_shared_counts(call);
    bool p2p = row->p2p, own = tt_call_is_one_sided(call); /* p2p: a send matches a receive */
    uint64_t h = tt_hash_mix(p2p ? 77 : call->collective, (uint64_t)call->type << 32 | (own ? 0 : slices));
    h = tt_hash_mix(h, row->result == TT_RESULT_REDUCED ? (uint64_t)tt_call_shared_op(call) + 1 : 0);
    h = tt_hash_mix(h, own ? 0 : counts != NULL ? call->total : call->count);
    h = tt_hash_mix(h, p2p ? 0 : (uint64_t)algorithm << 32 | (uint64_t)call->comm->exact);
    h = tt_hash_mix(h, row->rooted ? (uint64_t)call->root + 1 : 0);
    for (int r = 0; counts != NULL && r < call->comm->n; r++)
        h = tt_hash_mix(h, counts[r]);
    return tt_call_is_led(call) ? tt_hash_mix(h, LED + call->staging->gate.led.meeting->way) : h;
}

/* Sets what marks the messages of an operation that is bound to a call of this hash. */
static void mark(const struct tt_call *call, struct tt_op *op)
{
    bool p2p = op->messages.class == TT_CLASS_P2P;
    op->messages.signature =
        tt_hash_short(p2p ? op->messages.hash : tt_call_history(call->comm, op->messages.hash));
}

/* Puts IN or OUT in cells like those of TMP, or in one piece, if the call has them staged. */
static void stage(const struct tt_call *call, unsigned buffer, struct tt_op *op)
{
    const struct tt_layout *layout = &op->layout;
    uint64_t stride = op->spaces[TT_TMP].stride, before;
    op->window_bytes[buffer] = 0;
    if (call->staging == NULL || call->staging->cells[buffer] == NULL)
        return;
    struct tt_part chunks = tt_call_chunks(call, op->schedule, buffer);
    bool packed = tt_call_is_packed(call, layout);
    before = packed ? tt_layout_chunk(layout, (uint32_t)chunks.first).first * layout->element_bytes
                    : chunks.first * stride;
    op->spaces[buffer] =
        (struct tt_space){ .base = (uintptr_t)call->staging->cells[buffer] - (uintptr_t)before,
            .stride = packed ? 0 : stride };
    op->window_bytes[buffer] = chunks.count * stride;
}

static void set_spaces(const struct tt_call *call, struct tt_slicing slicing, struct tt_op *op)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    tt_call_set_buffers(call, op->one_sided ? &op->given : &op->layout, &op->layout, op->spaces);
    if (call->in_place && row->out == TT_REACH_OWN) /* the smaller buffer lies in the larger */
        op->spaces[TT_OUT] = op->spaces[TT_IN];
    else if (call->in_place)
        op->spaces[TT_IN] = op->spaces[TT_OUT];
    op->bounce.bytes = tt_call_bounce_bytes(call, op, slicing);
    op->spaces[TT_TMP] = (struct tt_space){ .base = (uintptr_t)call->comm->memory.tmp + op->bounce.bytes,
        .stride = tt_call_stride(call, slicing) };
    for (unsigned buffer = 0; buffer < 2; buffer++)
        stage(call, buffer, op);
    op->window_bytes[TT_TMP] = tt_call_cells(call, op->schedule) * op->spaces[TT_TMP].stride;
    if (tt_call_scales(call)) {
        op->scaling.unscaled = op->spaces[TT_IN];
        op->scaling.window_bytes = op->window_bytes[TT_IN];
        op->spaces[TT_IN] = op->spaces[TT_TMP];
        op->spaces[TT_IN].base += op->schedule->tmp_cells * op->spaces[TT_TMP].stride;
        op->window_bytes[TT_IN] = op->window_bytes[TT_TMP];
    }
}

/* Sends what peers cannot read in place from the bounce buffer, if there is one. */
static void set_bounce(const struct tt_call *call, struct tt_op *op)
{
    const void *buffers[2] = { [TT_IN] = call->send, [TT_OUT] = call->recv };
    const struct tt_endpoint *e = call->comm->endpoint;
    for (unsigned buffer = 0; buffer < 2; buffer++) {
        bool cells = op->window_bytes[buffer] != 0;
        bool shared = (uintptr_t)buffers[buffer] - e->shared_from < e->shared_bytes;
        op->bounce.from[buffer] =
            op->bounce.bytes > 0 && !cells && !shared ? call->comm->memory.bounce_from : UINT64_MAX;
    }
    op->bounce.space =
        (struct tt_space){ (uintptr_t)call->comm->memory.tmp, NULL, op->spaces[TT_TMP].stride };
}

/* Returns how many times the bytes of a call lie in the buffers of all ranks together. */
static uint64_t buffers_of(const struct tt_call *call, bool in_place)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    uint64_t n = (uint64_t)call->comm->n;
    uint64_t in = row->p2p || row->in == TT_REACH_ALL ? n : 1;
    uint64_t out = row->p2p || row->out == TT_REACH_ALL ? n : 1;
    return in_place && in + out > 2 ? n : in + out;
}

/* True if what goes to a peer is stored past the caches, because it does not fit them along with all else: a
 * sum when the buffers of all ranks fill the last cache; what is only copied, and what ranks do that share
 * cores, when they are twice as much (perf/results/README.md, "What fits a cache"). */
static bool overflows(const struct tt_call *call, bool in_place, uint64_t bytes)
{
    const struct tt_comm *comm = call->comm;
    bool soon = reduces(call) && comm->waiting.policy.spins > 0;
    if (comm->settings.stream_bytes != 0)
        return bytes >= comm->settings.stream_bytes;
    return bytes * buffers_of(call, in_place) >=
           (soon ? comm->memory.cached_bytes : 2 * comm->memory.cached_bytes);
}

/* Returns which stores of an operation go past the caches. The own result may still be in this core's cache
 * when the caller reads it, so that goes past them only if it is longer. A reduction in place stores only
 * what has just been read. Where blocks change places, each goes into lines that the peer has read and is
 * about to write: they are not worth a place in this core's cache as soon as its own do not fit, and what
 * comes for them is read at once. */
static uint8_t streams_of(const struct tt_call *call, const struct tt_op *op)
{
    const struct tt_comm *comm = call->comm;
    bool in_place = op->schedule->key.in_place;
    uint64_t bytes = op->layout.count * op->layout.element_bytes, asked = comm->settings.stream_bytes;
    if (in_place && reduces(call))
        return 0;
    if (in_place && tt_collectives[call->collective].result == TT_RESULT_EXCHANGED)
        return bytes < comm->settings.cache_bytes && !overflows(call, true, bytes) ? 0 : TT_STREAM_REMOTE;
    if (!overflows(call, in_place, bytes))
        return 0;
    bool own = asked != 0 ? bytes / (uint64_t)comm->n >= asked : bytes >= comm->memory.cached_bytes / 2;
    return own ? TT_STREAM_REMOTE | TT_STREAM_OWN : TT_STREAM_REMOTE;
}

void tt_call_record(const struct tt_call *call, const struct tt_op *op, struct tt_call_record *record)
{
    *record = (struct tt_call_record){ .count = call->count,
        .signature = tt_hash_short(op->messages.hash),
        .op = tt_call_shared_op(call),
        .root = call->root,
        .slices = op->layout.slices,
        .collective = (uint8_t)call->collective,
        .algorithm = op->schedule->key.algorithm,
        .type = (uint8_t)call->type,
        .exact = op->schedule->key.exact,
        .led = tt_call_is_led(call) };
}

/* Returns the id by which an operation that is bound to this call knows it; 0: the operation is bound anew at
 * the next start, since the call's operands are staged in other cells then, or scaled in memory that may have
 * moved. */
static uint64_t bound_id(const struct tt_call *call)
{
    return call->staging == NULL && !tt_call_scales(call) ? call->id : 0;
}

/* Binds a prepared call to this call. What is not the same each time that a call is made, bind_again() sets,
 * too. */
static tutti_status bind(const struct tt_call *call, struct tt_prepared *prepared)
{
    struct tt_comm *comm = call->comm;
    struct tt_op *op = &prepared->op;
    struct tt_slicing slicing = tt_call_slicing(call, op->schedule);
    tutti_status status = tt_call_reserve(call, op, slicing);
    if (status != TUTTI_OK)
        return status;
    op->one_sided = tt_call_is_one_sided(call);
    tt_call_set_layouts(call, prepared, slicing, &op->given, &op->layout);
    set_spaces(call, slicing, op);
    set_bounce(call, op);
    op->endpoint = comm->endpoint;
    op->messages.class = tt_collectives[call->collective].p2p ? TT_CLASS_P2P : TT_CLASS_COLLECTIVE;
    op->messages.hash = tt_call_hash(call, op->schedule->key.algorithm, slicing.slices);
    mark(call, op);
    op->messages.sequence = comm->numbers.sequence;
    op->messages.next_send = comm->numbers.next_send[op->messages.class];
    op->messages.next_recv = comm->numbers.next_recv[op->messages.class];
    op->messages.next_post = comm->numbers.next_post;
    bool scales = tt_call_scales(call);
    tutti_op combined = scales ? TUTTI_SUM : call->op;
    op->arithmetic.user = scales ? NULL : call->created;
    op->scaling.by = scales ? call->created : NULL;
    /* Under exact every node is rounded, also the one that an average divides. */
    bool tree = op->schedule->key.exact;
    for (int shape = TT_CHAIN; reduces(call) && shape <= TT_TREE; shape++)
        op->arithmetic.folds[shape] = tt_fold_find_isa(
            call->type, combined, tree ? TT_TREE : (enum tt_shape)shape, tt_isa_of(comm->settings.isa));
    bool chain = !tree || call->op != TUTTI_AVG; /* that is what a spread rounds like */
    op->arithmetic.spread =
        reduces(call) && chain ? tt_spread_find(call->type, combined, tt_isa_of(comm->settings.isa)) : NULL;
    op->arithmetic.few =
        reduces(call) ? tt_few_find(call->type, combined, tt_isa_of(comm->settings.isa)) : NULL;
    op->arithmetic.divisor = call->op == TUTTI_AVG ? (uint32_t)comm->n : 1;
    op->bounce.probe = &comm->memory.probe;
    op->streams = streams_of(call, op);
    op->observed.trace = comm->trace;
    op->gate = call->staging != NULL ? &call->staging->gate : NULL;
    op->observed.cost = tt_call_traffic_of(call, op);
    tt_call_record(call, op, &prepared->record);
    prepared->origin[TT_IN] = op->spaces[TT_IN].base - (uintptr_t)call->send;
    prepared->origin[TT_OUT] = op->spaces[TT_OUT].base - (uintptr_t)call->recv;
    prepared->bound_to = bound_id(call);
    if (call->cached != NULL)
        call->cached->prepared = prepared;
    return TUTTI_OK;
}

static bool is_bound(const struct tt_call *call, const struct tt_prepared *prepared)
{
    return prepared != NULL && prepared->bound_to == bound_id(call) && prepared->bound_to != 0;
}

/* Sets what may have moved in what is bound to this call already. */
static void bind_again(const struct tt_call *call, struct tt_prepared *prepared)
{
    struct tt_op *op = &prepared->op;
    op->spaces[TT_IN].base = (uintptr_t)call->send + prepared->origin[TT_IN];
    op->spaces[TT_OUT].base = (uintptr_t)call->recv + prepared->origin[TT_OUT];
    op->spaces[TT_TMP].base = (uintptr_t)call->comm->memory.tmp + op->bounce.bytes;
    if (op->bounce.bytes > 0)
        set_bounce(call, op);
    mark(call, op);
    op->messages.sequence = call->comm->numbers.sequence;
}

struct tt_request tt_call_request(const struct tt_call *call)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    const struct tt_comm *comm = call->comm;
    return (struct tt_request){ .settings = &comm->settings,
        .slot_bytes = comm->endpoint->slot_bytes,
        .collective = call->collective,
        .requirements = { .n = comm->n,
            .exact = comm->exact && !row->p2p,
            .ordered = call->created != NULL && !call->created->commutes,
            .long_elements = call->element_bytes > TT_ELEMENT_BYTES,
            .topology = &comm->topology },
        .bytes = tt_call_is_one_sided(call) ? 0 : call->total * tutti_type_bytes(call->type) };
}

tutti_status tt_call_key(const struct tt_call *call, struct tt_key *key)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    const struct tt_comm *comm = call->comm;
    struct tt_request request = tt_call_request(call);
    int algorithm = 0;
    tutti_status status = tt_choose(&request, comm->choice_cache, &algorithm);
    *key = (struct tt_key){ .collective = (uint8_t)call->collective,
        .algorithm = (uint8_t)algorithm,
        .in_place = call->in_place && !tt_call_scales(call),
        .exact = comm->exact && reduces(call),
        .n = comm->n,
        .me = comm->rank,
        .root = row->rooted || row->p2p ? call->root : 0,
        .topology = &comm->topology };
    return status;
}

tutti_status tt_call_choose(const struct tt_call *call)
{
    struct tt_key key;
    return tt_call_key(call, &key);
}

/* An element of a user's operator is long: of all chunks that a message carries, one must fit. */
static tutti_status check_slot(const struct tt_call *call, const struct tt_prepared *prepared)
{
    uint64_t chunks = prepared->schedule.max_chunks, slot = call->comm->endpoint->slot_bytes;
    if (chunks * call->element_bytes <= slot)
        return TUTTI_OK;
    return tt_fail(TUTTI_UNSUPPORTED,
        "%s: the operator has elements of %u bytes; with algorithm %s legal: up to %llu",
        tt_collectives[call->collective].name, call->element_bytes, prepared->schedule.algorithm,
        (unsigned long long)(slot / chunks));
}

/* Finds an idle prepared call for a message with this peer, or makes one; it stays in the list. */
static tutti_status find_idle(const struct tt_call *call, struct tt_prepared **prepared)
{
    struct tt_prepared **idle = &call->comm->calls.idle[call->collective == TT_P2P_RECV][call->root];
    struct tt_key key;
    tutti_status status = TUTTI_OK;
    if (*idle == NULL) {
        status = tt_call_key(call, &key);
        if (status == TUTTI_OK)
            status = tt_prepared_create(&key, idle);
        if (status == TUTTI_OK)
            (*idle)->home = idle;
    }
    *prepared = *idle;
    return status;
}

/* The prepared call that is to run this one: its own, an idle one, or the cache's. */
static tutti_status find_prepared(const struct tt_call *call, struct tt_prepared **prepared)
{
    struct tt_key key;
    *prepared = call->prepared;
    if (*prepared != NULL)
        return TUTTI_OK;
    if (tt_collectives[call->collective].p2p)
        return find_idle(call, prepared);
    tutti_status status = tt_call_key(call, &key);
    if (status == TUTTI_OK)
        status = tt_prepared_find(&call->comm->calls.prepared, &key, prepared);
    return status == TUTTI_OK && call->created != NULL ? check_slot(call, *prepared) : status;
}

tutti_status tt_call_prepare(const struct tt_call *call)
{
    struct tt_prepared *prepared;
    tutti_status status = find_prepared(call, &prepared);
    if (status == TUTTI_OK && call->prepared != NULL)
        return bind(call, prepared);
    if (status != TUTTI_OK)
        return status;
    return tt_call_reserve(call, &prepared->op, tt_call_slicing(call, &prepared->schedule));
}

tutti_status tt_call_own(struct tt_call *call)
{
    struct tt_key key;
    tutti_status status = tt_call_key(call, &key);
    if (status == TUTTI_OK)
        status = tt_prepared_create(&key, &call->prepared);
    call->cached = NULL; /* which knows another prepared call */
    call->id = 1;
    return status == TUTTI_OK && call->created != NULL ? check_slot(call, call->prepared) : status;
}

void tt_call_release(struct tt_call *call)
{
    tt_prepared_destroy(call->prepared);
    call->prepared = NULL;
}

static void announce(const struct tt_call *call, const struct tt_prepared *prepared)
{
    const struct tt_op *op = &prepared->op;
    op->endpoint->control->publish(op->endpoint, &prepared->record, op->messages.sequence);
    call->comm->numbers.sequence++;
    call->comm->numbers.history = tt_call_history(call->comm, op->messages.hash);
}

static tutti_status start(const struct tt_call *call, struct tt_op **op)
{
    struct tt_prepared *prepared = call->cached != NULL ? call->cached->prepared : call->prepared;
    tutti_status status = TUTTI_OK;
    bool bound = is_bound(call, prepared) && prepared->home == NULL; /* what has one may be in use */
    if (!bound) {
        status = find_prepared(call, &prepared);
        bound = status == TUTTI_OK && is_bound(call, prepared);
    }
    if (bound)
        bind_again(call, prepared);
    else if (status == TUTTI_OK)
        status = bind(call, prepared);
    if (status != TUTTI_OK)
        return status;
    *op = &prepared->op;
    if (prepared->home != NULL)
        *prepared->home = prepared->next;
    if ((*op)->messages.class == TT_CLASS_COLLECTIVE)
        announce(call, prepared);
    return TUTTI_OK;
}

tutti_status tt_call_start(const struct tt_call *call, struct tt_op **op)
{
    struct tt_comm *comm = call->comm;
    if (comm->refusals.told)
        tt_refusals_take_back(comm);
    tutti_status status = tt_endpoint_enter(comm->endpoint) ? TUTTI_OK : tt_comm_check(comm);
    if (status == TUTTI_OK)
        status = start(call, op);
    if (status != TUTTI_OK) {
        tt_endpoint_leave(comm->endpoint);
        return status;
    }
    if ((*op)->observed.trace != NULL)
        tt_exec_trace_begin(*op);
    tt_exec_start(*op);
    (*op)->observed.entry =
        tt_recorder_start(comm->recorder, call, (*op)->schedule->key.algorithm, (*op)->messages.sequence);
    if (call->staging != NULL)
        tt_entry_serve((*op)->observed.entry, tt_gate_served(&call->staging->gate));
    return TUTTI_OK;
}

void tt_call_end(const struct tt_call *call, struct tt_op *op, bool soon)
{
    tt_endpoint_leave(op->endpoint);
    if (op->result.state == TT_DONE)
        tt_traffic_add(&call->comm->traffic, &op->observed.cost, 1);
    if (call->staging != NULL)
        tt_entry_serve(op->observed.entry, tt_gate_served(&call->staging->gate));
    if (soon)
        tt_entry_pass(op->observed.entry);
    else
        tt_entry_end(op->observed.entry, op->result.state == TT_DONE);
    if (op->observed.trace != NULL)
        tt_exec_trace_end(call, op);
    if (op->messages.class == TT_CLASS_COLLECTIVE) {
        if (op->result.state == TT_DONE)
            op->endpoint->control->publish(op->endpoint, NULL, op->messages.sequence);
        return;
    }
    struct tt_prepared *prepared = (struct tt_prepared *)op;
    if (prepared->home == NULL)
        return;
    prepared->next = *prepared->home;
    *prepared->home = prepared;
}

const void *tt_barrier_token(void)
{
    return &barrier_token;
}

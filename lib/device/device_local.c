/* SPDX-License-Identifier: BSD-3-Clause */
/* device_local.c: how ranks of one process on one device meet, and what the last of them enqueues.
 *
 * A rank may leave with an error, because a deadline has passed or somebody has aborted, while the last one
 * is about to enqueue a kernel that stores into its buffers. So `turn` is taken by one of the two: the last
 * rank makes it odd as long as it enqueues, and who leaves makes it `cancelled`; who finds it odd waits. The
 * event at the kernel's end may be recorded anew by the next call, for that is decided when all ranks have
 * called again, and by then all their streams wait for it (models of both: tests/proof). */
#include "device/device_local.h"

#include <string.h>

#include "base/status.h"
#include "base/wait.h"
#include "exec/rectangles.h"
#include "select/choose.h"

#define CANCELLED UINT64_MAX
_Static_assert((int)TT_LOCAL_RANKS == (int)TT_FUSED_RANKS, "a kernel has places for so many");

bool tt_local_decides(const struct tt_comm *comm)
{
    return tt_local_peers_kernel(comm) != NULL;
}

void tt_local_gate(struct tt_device *d, uint64_t number, struct tt_gate *gate)
{
    const struct tt_local_kernel *local = tt_local_peers_kernel(d->comm);
    gate->local = (struct tt_local_gate){ .decision = &local->decisions[number % TT_LOCAL_DECISIONS],
        .over = local->over,
        .call = number,
        .looked = &d->local.looked };
}

/* True if these displacements say the same. */
static bool same_places(const struct tt_blocks *a, const struct tt_blocks *b, int n)
{
    if (a->displs == NULL || b->displs == NULL)
        return a->displs == b->displs;
    return memcmp(a->displs, b->displs, (size_t)n * sizeof *a->displs) == 0;
}

static bool same_layout(const struct tt_call *a, const struct tt_call *b)
{
    return same_places(&a->blocks[TT_IN], &b->blocks[TT_IN], a->comm->n) &&
           same_places(&a->blocks[TT_OUT], &b->blocks[TT_OUT], a->comm->n);
}

/* True if all ranks have called the same, as the signatures of their calls have it. */
static bool all_same(const struct tt_local_call *const *calls, int n)
{
    bool same = true;
    for (int k = 1; k < n; k++)
        same = same && tt_call_hash(calls[k]->call, 0, 0) == tt_call_hash(calls[0]->call, 0, 0);
    return same;
}

/* Kernels read the memory of their device. Pinned memory may have another address there. */
static bool is_reached(const struct tt_dev *dev, const void *pointer)
{
    struct tt_dev_pointer what;
    return dev->memory.classify(pointer, &what) == TT_DEV_OK &&
           (what.kind == TT_DEV_DEVICE || what.kind == TT_DEV_MANAGED);
}

/* True if the device reaches all that this rank has passed. */
static bool all_reached(const struct tt_dev *dev, const struct tt_local_call *c)
{
    const struct tt_call *call = c->call;
    for (unsigned side = 0; side < 2; side++) {
        const void *pointer = side == TT_IN ? call->send : call->recv;
        bool bare = call->collective == TT_BARRIER || pointer == NULL;
        if (!bare && !c->staged[side] && tt_call_bytes(call, side) > 0)
            return false;
    }
    return call->created == NULL || call->created->scalar == NULL || is_reached(dev, call->created->scalar);
}

/* What all ranks know of this call that no kernel does; NULL: nothing. */
static const char *not_by_kernel(const struct tt_call *call)
{
    if (tt_collectives[call->collective].counts == TT_COUNTS_OWN)
        return "no rank knows the counts of all";
    if (call->created != NULL && !tt_call_scales(call))
        return "its operator is a user's";
    return tt_choose_allows(&call->comm->settings, call->collective, "direct")
               ? NULL
               : "the setting algo demands another algorithm than direct";
}

const char *tt_local_why_not(const struct tt_local_call *c)
{
    const char *why = not_by_kernel(c->call);
    if (why == NULL && !all_reached(c->call->comm->device->dev, c))
        why = "a buffer, or its factor, is not memory of the device, nor managed";
    return why;
}

/* Fills in what the kernel needs, if it can do this call. */
static bool describe(const struct tt_local_call *const *calls, int n, struct tt_fused_params *params,
    struct tt_rect_plan *plan)
{
    const struct tt_call *call = calls[0]->call;
    bool scaled = tt_call_scales(call), all = true;
    const struct tt_blocks *blocks = &call->blocks[call->blocks[TT_IN].counts != NULL ? TT_IN : TT_OUT];
    if (not_by_kernel(call) != NULL)
        return false;
    struct tt_rect_call rects = { .collective = call->collective,
        .n = n,
        .root = call->root,
        .type = call->type,
        .op = scaled ? TUTTI_SUM : call->op,
        .exact = call->comm->exact,
        .scaled = scaled,
        .element_bytes = (uint32_t)tutti_type_bytes(call->type),
        .total = call->collective == TT_BARRIER ? 0 : call->total,
        .counts = blocks->counts,
        .displs = blocks->displs };
    for (int k = 0; k < n; k++) {
        rects.in_place |= (uint32_t)calls[k]->in_place << k;
        all = all && calls[k]->reached && same_layout(call, calls[k]->call);
    }
    return all && tt_rectangles(&rects, params, plan);
}

/* The same collective of the group at this rank: as many come before it. */
static const struct tt_call *call_at(const struct tt_batch *batch, int index, int rank)
{
    const struct tt_comm *comm = batch->calls[index].call.comm;
    int before = 0;
    for (int i = 0; i < index; i++)
        before += batch->calls[i].call.comm == comm && !tt_collectives[batch->calls[i].call.collective].p2p;
    for (int i = 0; i < batch->count; i++) {
        const struct tt_call *call = &batch->calls[i].call;
        if (call->comm->identity.id == comm->identity.id && call->comm->rank == rank &&
            !tt_collectives[call->collective].p2p && before-- == 0)
            return call;
    }
    return NULL;
}

bool tt_local_captures(const struct tt_batch *batch, int index)
{
    const struct tt_comm *comm = batch->calls[index].call.comm;
    struct tt_local_call all[TT_FUSED_RANKS];
    const struct tt_local_call *calls[TT_FUSED_RANKS];
    struct tt_fused_params params;
    struct tt_rect_plan plan;
    if (!tt_local_decides(comm) || tt_collectives[batch->calls[index].call.collective].p2p)
        return false;
    for (int r = 0; r < comm->n; r++) {
        const struct tt_call *call = call_at(batch, index, r);
        if (call == NULL)
            return false;
        all[r] = tt_local_call_of(call);
        all[r].reached = all_reached(comm->device->dev, &all[r]);
        calls[r] = &all[r];
    }
    return all_same(calls, comm->n) && describe(calls, comm->n, &params, &plan);
}

static void set_bases(const struct tt_local_kernel *local, struct tt_bases *bases)
{
    *bases = (struct tt_bases){ .call = local->calls[0]->number };
    for (int k = 0; k < local->n; k++) {
        const struct tt_call *call = local->calls[k]->call;
        bases->in[k] = call->send;
        bases->out[k] = call->recv;
        if (call->created == NULL)
            continue;
        bases->scalar[k] = call->created->scalar;
        memcpy(&bases->factor[k], call->created->factor, sizeof call->created->factor);
    }
}

/* Enqueues the kernel behind the events of all ranks, and the one that they wait for. */
static enum tt_dev_error enqueue(
    struct tt_local_kernel *local, int rank, struct tt_fused_params *params, const struct tt_rect_plan *plan)
{
    const struct tt_dev *dev = local->dev;
    void *stream = local->calls[rank]->stream;
    enum tt_dev_error error = TT_DEV_OK;
    set_bases(local, &params->own);
    params->bases = NULL;
    bool told = !local->calls[rank]->captured; /* a replay is no new call, and nobody waits for its word */
    params->blocks_over = told ? local->blocks_over : NULL;
    params->over = told ? (uint32_t *)local->over : NULL;
    params->over_value = local->launches + 1;
    bool idle = plan->kernel == 0; /* there is nothing to do but to tell */
    params->rects = idle ? 0 : params->rects;
    struct tt_dev_launch launch = { .kernel = idle ? tt_kernel_number(TT_KERNEL_MOVE, 0, 0) : plan->kernel,
        .grid = idle ? 1 : plan->grid,
        .grid_y = idle ? 1 : plan->grid_y,
        .block = TT_FUSED_BLOCK,
        .params = params,
        .params_bytes = sizeof *params };
    for (int k = 0; k < local->n && error == TT_DEV_OK; k++)
        if (k != rank)
            error = dev->event.wait(local->ready[k], stream, false);
    if (error == TT_DEV_OK)
        error = dev->launch(&launch, stream);
    return error == TT_DEV_OK ? dev->event.record(local->done, stream, false) : error;
}

static tutti_status fail(const struct tt_comm *comm)
{
    return tt_fail(TUTTI_DEVICE_ERROR, "%s: rank %d, device %d: cannot enqueue: %s", comm->identity.name,
        comm->rank, comm->device->number, comm->device->dev->why());
}

/* Calls that differ are not decided on: the workers, which compare them, tell both, and nothing is stored. */
static tutti_status decide(struct tt_comm *comm, struct tt_local_kernel *local, uint64_t number)
{
    struct tt_fused_params params = { 0 }; /* what is told to a device is all known */
    struct tt_rect_plan plan;
    if (!all_same(local->calls, local->n))
        return TUTTI_OK;
    struct tt_decision *decision = &local->decisions[number % TT_LOCAL_DECISIONS];
    bool by_kernel = describe(local->calls, local->n, &params, &plan);
    if (!by_kernel && comm->device->lacks.words != NULL)
        return tt_device_need_words(comm->device, tt_collectives[local->calls[0]->call->collective].name,
            "ranks have their blocks in different places, or some lie over others' in place");
    if (by_kernel && enqueue(local, comm->rank, &params, &plan) != TT_DEV_OK)
        return fail(comm);
    local->launches += by_kernel && !local->calls[comm->rank]->captured;
    local->last = comm->rank;
    decision->by_kernel = by_kernel;
    decision->over = local->launches;
    atomic_store_explicit(&decision->call, number, memory_order_release);
    return TUTTI_OK;
}

static bool is_decided(const struct tt_local_kernel *local, uint64_t number)
{
    const struct tt_decision *decision = &local->decisions[number % TT_LOCAL_DECISIONS];
    return atomic_load_explicit(&decision->call, memory_order_acquire) == number;
}

tutti_status tt_local_arrive(struct tt_comm *comm, struct tt_local_call *call)
{
    struct tt_local_kernel *local = tt_local_peers_kernel(comm);
    uint64_t open = 2 * call->number;
    call->reached = all_reached(local->dev, call);
    if (local->dev->event.record(local->ready[comm->rank], call->stream, false) != TT_DEV_OK)
        return fail(comm);
    local->calls[comm->rank] = call;
    uint64_t arrived = atomic_fetch_add(&local->arrived, 1) + 1;
    if (arrived != call->number * (uint64_t)local->n)
        return TUTTI_OK;
    if (!atomic_compare_exchange_strong(&local->turn, &open, open + 1))
        return TUTTI_OK; /* somebody has left, and await tells why */
    tutti_status status = decide(comm, local, call->number);
    bool decided = is_decided(local, call->number);
    atomic_store(&local->turn, status != TUTTI_OK ? CANCELLED : decided ? open + 2 : open);
    tt_doorbell_ring(&local->decided);
    return status;
}

/* This rank leaves without the call, if no kernel is being enqueued, and none was: another rank may have
 * cancelled a later call. */
static bool leave(struct tt_local_kernel *local, uint64_t number)
{
    uint64_t turn = 2 * number;
    return (atomic_compare_exchange_strong(&local->turn, &turn, CANCELLED) || turn == CANCELLED) &&
           !is_decided(local, number);
}

tutti_status tt_local_await(struct tt_comm *comm, const struct tt_local_call *call, bool *by_kernel)
{
    struct tt_local_kernel *local = tt_local_peers_kernel(comm);
    tutti_status status = TUTTI_OK;
    struct tt_wait w;
    bool left = false;
    struct tt_doorbell *bell = &local->decided;
    tt_wait_begin(&w, comm->waiting.policy, &bell, 1);
    while (!is_decided(local, call->number) && !left) {
        tt_wait_idle(&w);
        status = tt_comm_check(comm);
        left = status != TUTTI_OK && leave(local, call->number);
    }
    if (left)
        tt_doorbell_ring_always(bell); /* this wait ends for another reason than a ring */
    tt_wait_awake(&w);
    *by_kernel = !left && local->decisions[call->number % TT_LOCAL_DECISIONS].by_kernel;
    if (*by_kernel && local->last != comm->rank &&
        local->dev->event.wait(local->done, call->stream, false) != TT_DEV_OK)
        return fail(comm);
    return left ? status : TUTTI_OK;
}

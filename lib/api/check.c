/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c: everything about a call that can be told from this rank's arguments alone.
 *
 * One row of the collective table says which arguments mean something, which buffers exist at this rank, how
 * long they are and how they may alias (check_buffers.c), so the checks are written once. Each error names
 * the argument, its value and what would be legal; nothing has been done. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "run/run.h"
#include "device/device.h"
#include "api/group.h"
#include "stream/stream.h"

static const char *name_of(const struct tt_call *call)
{
    return tt_collectives[call->collective].name;
}

static tutti_status check_built_in(const struct tt_call *call)
{
    if (!tt_op_is_built_in(call->op))
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: op is %u; legal: TUTTI_SUM, _PROD, _MAX, _MIN, _AVG, _BIT_AND, _BIT_OR, _BIT_XOR, or what "
            "tutti_op_create on this communicator returned and nobody destroyed",
            name_of(call), call->op);
    if (tt_fold_find(call->type, call->op, TT_CHAIN) == NULL)
        return tt_fail(TUTTI_UNSUPPORTED,
            "%s: op is %s, but type is %s; legal: an integer type with it, or TUTTI_SUM, _PROD, _MAX, _MIN, "
            "_AVG",
            name_of(call), tt_op_name(call->op), tt_type_name(call->type));
    return TUTTI_OK;
}

/* Checks that the operator exists and that its elements are whole ones of the type; the call gets a copy
 * of it. */
static tutti_status check_op(struct tt_call *call)
{
    const struct tt_operator *created = tt_operator_find(&call->comm->operators, call->op);
    if (created == NULL)
        return check_built_in(call);
    uint32_t bytes = created->element_bytes, unit = bytes / call->element_bytes;
    if (created->kind == TT_OPERATOR_PRE_MUL_SUM && created->type != call->type)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: type is %s; the factor of the pre-mul-sum is %s: legal: the same", name_of(call),
            tt_type_name(call->type), tt_type_name(created->type));
    if (bytes % call->element_bytes != 0)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: the operator has elements of %u bytes; legal for %s: a multiple of %u", name_of(call), bytes,
            tt_type_name(call->type), call->element_bytes);
    call->created = created;
    call->element_bytes = (uint16_t)bytes;
    call->unit = (uint16_t)unit;
    return TUTTI_OK;
}

/* Checks that each vector, or block, holds whole elements of the operator. */
static tutti_status check_unit(const struct tt_call *call)
{
    size_t count = call->count;
    if (call->unit == 1)
        return TUTTI_OK;
    for (int side = 0; side < 2; side++)
        for (int r = 0; call->blocks[side].counts != NULL && r < call->comm->n; r++)
            if (call->blocks[side].counts[r] % call->unit != 0)
                count = call->blocks[side].counts[r];
    if (count % call->unit != 0)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: count is %zu; legal with an operator of %u bytes on %s: a multiple of %u", name_of(call),
            count, call->element_bytes, tt_type_name(call->type), call->unit);
    return TUTTI_OK;
}

static tutti_status check_values(struct tt_call *call)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    int n = call->comm->n;
    if (tutti_type_bytes(call->type) == 0)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: type is %d; legal: 0 (TUTTI_INT8) to 11 (TUTTI_FLOAT8_E5M2)", name_of(call),
            (int)call->type);
    call->element_bytes = (uint16_t)tutti_type_bytes(call->type);
    call->unit = 1;
    if (row->rooted && (call->root < 0 || call->root >= n))
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "%s: root is %d; legal: 0 to %d", name_of(call), call->root, n - 1);
    if (row->p2p && (call->root < 0 || call->root >= n))
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "%s: peer is %d; legal: 0 to %d", name_of(call), call->root, n - 1);
    if (row->p2p && call->root == call->comm->rank && !tt_group_open())
        return tt_fail(TUTTI_INVALID_USAGE,
            "%s: peer is this rank, %d, outside a group: it would wait for itself; legal: send and recv in "
            "one group",
            name_of(call), call->root);
    return row->result == TT_RESULT_REDUCED ? check_op(call) : TUTTI_OK;
}

/* Checks the stream. For a call that runs later it also chooses the algorithm, for a worker would find out
 * too late that there is none. */
static tutti_status check_stream(struct tt_call *call)
{
    tutti_status status;
    if (call->stream.kind == TUTTI_STREAM_CUDA) {
        status = tt_device_check(call);
        return status == TUTTI_OK ? tt_call_choose(call) : status;
    }
    status = call->comm->device != NULL ? tt_device_check_host(call)
             : call->comm->wary         ? tt_device_check_absent(call)
                                        : TUTTI_OK;
    if (status != TUTTI_OK || call->stream.kind == TUTTI_STREAM_NONE)
        return status;
    return tt_stream_find(name_of(call), call->stream, &status) != NULL ? tt_call_choose(call) : status;
}

tutti_status tt_call_check(struct tt_call *call)
{
    tutti_status status = tt_comm_check(call->comm);
    if (status != TUTTI_OK)
        return status;
    if (call->comm->finalized)
        return tt_fail(
            TUTTI_INVALID_USAGE, "%s: the communicator is finalized; only destroy is left", name_of(call));
    status = check_values(call);
    if (status == TUTTI_OK)
        status = tt_call_check_buffers(call);
    if (status == TUTTI_OK)
        status = check_unit(call);
    return status == TUTTI_OK ? check_stream(call) : status;
}

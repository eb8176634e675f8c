/* SPDX-License-Identifier: BSD-3-Clause */
/* api_op.c: the public functions about operators. */
#include <string.h>

#include "base/status.h"
#include "device/device.h"
#include "base/handle.h"

enum { ELEMENT_BYTES_MAX = 4096 }; /* half of the smallest slot, so that slices stay long */

tutti_status tutti_op_create_pre_mul_sum(
    tutti_comm *comm, const void *scalar, tutti_type type, int on_device, tutti_op *op)
{
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    if (scalar == NULL || op == NULL)
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "op_create_pre_mul_sum: %s is NULL", scalar == NULL ? "scalar" : "op");
    if (on_device != 0 && on_device != 1)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "op_create_pre_mul_sum: on_device is %d; legal: 0, a factor in host memory, or 1, in a device's",
            on_device);
    if (tutti_type_bytes(type) == 0)
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "op_create_pre_mul_sum: type is %d; legal: 0 to 11", (int)type);
    if (tt_fold_find(type, TUTTI_SUM, TT_CHAIN) == NULL)
        return tt_fail(TUTTI_UNSUPPORTED, "op_create_pre_mul_sum: no kernel sums %s", tt_type_name(type));
    tutti_status status = tt_comm_check(c);
    if (status != TUTTI_OK)
        return status;
    struct tt_operator created = { .kind = TT_OPERATOR_PRE_MUL_SUM,
        .element_bytes = (uint32_t)tutti_type_bytes(type),
        .commutes = true,
        .type = type,
        .scalar = on_device ? scalar : NULL };
    if (on_device)
        status = tt_device_check_scalar(c, "op_create_pre_mul_sum", &created);
    else
        memcpy(created.factor, scalar, created.element_bytes);
    return status != TUTTI_OK ? status
                              : tt_operator_add(&c->operators, "op_create_pre_mul_sum", &created, op);
}

tutti_status tutti_op_create(
    tutti_comm *comm, tutti_reduce_fn fn, void *context, size_t element_bytes, int commutes, tutti_op *op)
{
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    if (fn == NULL || op == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "op_create: %s is NULL", fn == NULL ? "fn" : "op");
    if (element_bytes < 1 || element_bytes > ELEMENT_BYTES_MAX)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "op_create: element_bytes is %zu; legal: 1 to %d",
            element_bytes, ELEMENT_BYTES_MAX);
    tutti_status status = tt_comm_check(c);
    if (status != TUTTI_OK)
        return status;
    struct tt_operator created = { .kind = TT_OPERATOR_USER,
        .element_bytes = (uint32_t)element_bytes,
        .commutes = commutes != 0,
        .fn = fn,
        .context = context };
    return tt_operator_add(&c->operators, "op_create", &created, op);
}

tutti_status tutti_op_destroy(tutti_comm *comm, tutti_op op)
{
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    if (!tt_operator_remove(&c->operators, op))
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "op_destroy: op is %u; legal: what was created on this communicator, once", op);
    return TUTTI_OK;
}

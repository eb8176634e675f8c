/* SPDX-License-Identifier: BSD-3-Clause */
/* operators.c: a pre-mul-sum as nccl-tests has it, and a sum by a function of the user's. */
#include "operators.h"

/* Element by element through the code of the check: what is measured is what an operator of one's own costs
 * when nothing about it is fast. */
static void add(void *dst, const void *left, const void *right, size_t count, void *context)
{
    const struct perf_type *type = context;
    for (size_t i = 0; i < count; i++) {
        size_t at = i * type->bytes;
        uint64_t sum = perf_value_sum(type, perf_value_load(type, (const char *)left + at),
            perf_value_load(type, (const char *)right + at));
        perf_value_store(type, (char *)dst + at, sum);
    }
}

tutti_status perf_operator_make(
    const struct perf_op *op, const struct perf_type *type, tutti_comm *comm, tutti_op *code)
{
    uint64_t factor = perf_value_factor(type, tutti_comm_rank(comm));
    switch (op->made) {
    case PERF_PRE_MUL:
        return tutti_op_create_pre_mul_sum(comm, &factor, type->type, 0, code);
    case PERF_USER:
        return tutti_op_create(comm, add, (void *)(uintptr_t)type, type->bytes, 1, code);
    default:
        *code = op->op;
        return TUTTI_OK;
    }
}

void perf_operator_drop(const struct perf_op *op, tutti_comm *comm, tutti_op code)
{
    if (op->made != PERF_BUILT_IN)
        tutti_op_destroy(comm, code);
}

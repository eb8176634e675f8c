/* SPDX-License-Identifier: BSD-3-Clause */
/* operators.h: the operations that must be made before they can be called. */
#ifndef PERF_OPERATORS_H
#define PERF_OPERATORS_H
#include "values.h"

/* *code is `op` for this type and communicator; drop it when it is not called any more. */
tutti_status perf_operator_make(
    const struct perf_op *op, const struct perf_type *type, tutti_comm *comm, tutti_op *code);
void perf_operator_drop(const struct perf_op *op, tutti_comm *comm, tutti_op code);

#endif

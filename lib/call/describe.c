/* SPDX-License-Identifier: BSD-3-Clause */
/* describe.c: a call in words, for messages, the recorder and the trace. */
#include <stdio.h>

#include "call/call.h"

static const char *const type_names[] = { "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16",
    "float32", "float64", "bfloat16", "float8_e4m3", "float8_e5m2" };
static const char *const op_names[] = {
    [TUTTI_SUM] = "sum",
    [TUTTI_PROD] = "prod",
    [TUTTI_MAX] = "max",
    [TUTTI_MIN] = "min",
    [TUTTI_AVG] = "avg",
    [TUTTI_BIT_AND] = "bit_and",
    [TUTTI_BIT_OR] = "bit_or",
    [TUTTI_BIT_XOR] = "bit_xor",
};

const char *tt_type_name(tutti_type type)
{
    return (unsigned)type < sizeof type_names / sizeof type_names[0] ? type_names[type] : "unknown type";
}

bool tt_op_is_built_in(tutti_op op)
{
    return op < sizeof op_names / sizeof op_names[0] && op_names[op] != NULL;
}

const char *tt_op_name(tutti_op op)
{
    return tt_op_is_built_in(op) ? op_names[op] : "unknown op";
}

void tt_record_describe_own(const struct tt_call_record *r, tutti_op op, char *text, size_t bytes)
{
    char combined[64];
    if (r->collective >= TT_COLLECTIVES) {
        snprintf(text, bytes, "an unknown collective");
        return;
    }
    const struct tt_collective_row *row = &tt_collectives[r->collective];
    int length = snprintf(text, bytes, "%s", row->name);
    if (r->collective != TT_BARRIER)
        length += snprintf(text + length, bytes - (size_t)length, " of %llu %s", (unsigned long long)r->count,
            tt_type_name((tutti_type)r->type));
    if (row->result == TT_RESULT_REDUCED) {
        tt_operator_describe(r->op, op, combined, sizeof combined);
        length += snprintf(text + length, bytes - (size_t)length, ", %s", combined);
    }
    if (row->rooted)
        length += snprintf(text + length, bytes - (size_t)length, ", root %d", r->root);
    if (row->p2p)
        snprintf(text + length, bytes - (size_t)length, " %s rank %d",
            r->collective == TT_P2P_SEND ? "to" : "from", r->root);
    if (r->led)
        snprintf(text + length, bytes - (size_t)length, ", on a CUDA stream");
}

void tt_call_describe(const struct tt_call *call, char *text, size_t bytes)
{
    struct tt_call_record record = { .count = call->count,
        .op = tt_call_shared_op(call),
        .root = call->root,
        .collective = (uint8_t)call->collective,
        .type = (uint8_t)call->type };
    tt_record_describe_own(&record, call->op, text, bytes);
}

void tt_record_describe(const struct tt_call_record *record, char *text, size_t bytes)
{
    tt_record_describe_own(record, 0, text, bytes);
}

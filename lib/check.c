/* check.c: everything about a call that can be told from this rank's arguments alone.
 *
 * One row of the collective table says which arguments mean something, which buffers exist at this rank, how
 * long they are and how they may alias (check_buffers.c), so the checks are written once. Each error names
 * the argument, its value and what would be legal; nothing has been done. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "call.h"

static const char *const type_names[] = { "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16",
    "float32", "float64", "bfloat16", "float8_e4m3", "float8_e5m2" };
static const char *const op_names[] = { "sum", "prod", "max", "min", "avg" };

const char *tt_type_name(tutti_type type)
{
    return (unsigned)type < sizeof type_names / sizeof type_names[0] ? type_names[type] : "unknown type";
}

const char *tt_op_name(tutti_op op)
{
    return op < sizeof op_names / sizeof op_names[0] ? op_names[op] : "unknown op";
}

static void describe(
    char *text, size_t bytes, unsigned collective, uint64_t count, unsigned type, tutti_op op, int root)
{
    if (collective >= TT_COLLECTIVES) {
        snprintf(text, bytes, "an unknown collective");
        return;
    }
    const struct tt_collective_row *row = &tt_collectives[collective];
    int length = snprintf(text, bytes, "%s", row->name);
    if (collective != TT_BARRIER)
        length += snprintf(text + length, bytes - (size_t)length, " of %llu %s", (unsigned long long)count,
            tt_type_name((tutti_type)type));
    if (row->result == TT_RESULT_REDUCED)
        length += snprintf(text + length, bytes - (size_t)length, ", %s", tt_op_name(op));
    if (row->rooted)
        length += snprintf(text + length, bytes - (size_t)length, ", root %d", root);
    if (row->p2p)
        snprintf(text + length, bytes - (size_t)length, " %s rank %d",
            collective == TT_P2P_SEND ? "to" : "from", root);
}

void tt_call_describe(const struct tt_call *call, char *text, size_t bytes)
{
    describe(text, bytes, call->collective, call->count, call->type, call->op, call->root);
}

void tt_record_describe(const struct tt_call_record *record, char *text, size_t bytes)
{
    describe(text, bytes, record->collective, record->count, record->type, record->op, record->root);
}

static const char *name_of(const struct tt_call *call)
{
    return tt_collectives[call->collective].name;
}

static tutti_status check_values(const struct tt_call *call)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    int n = call->comm->n;
    if ((unsigned)call->type >= sizeof type_names / sizeof type_names[0])
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: type is %d; legal: 0 (TUTTI_INT8) to 11 (TUTTI_FLOAT8_E5M2)", name_of(call),
            (int)call->type);
    if (row->rooted && (call->root < 0 || call->root >= n))
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "%s: root is %d; legal: 0 to %d", name_of(call), call->root, n - 1);
    if (row->p2p && (call->root < 0 || call->root >= n || call->root == call->comm->rank))
        return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: peer is %d; legal: 0 to %d, but not this rank, %d",
            name_of(call), call->root, n - 1, call->comm->rank);
    if (call->stream.kind != TUTTI_STREAM_NONE)
        return tt_fail(TUTTI_UNSUPPORTED, "%s: stream has kind %d; this version has only tutti_no_stream()",
            name_of(call), call->stream.kind);
    if (row->result != TT_RESULT_REDUCED)
        return TUTTI_OK;
    if (call->op >= sizeof op_names / sizeof op_names[0])
        return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: op is %u; legal: TUTTI_SUM, _PROD, _MAX, _MIN, _AVG",
            name_of(call), call->op);
    if (tt_fold_find(call->type, call->op, TT_CHAIN) == NULL)
        return tt_fail(TUTTI_UNSUPPORTED,
            "%s: no kernel reduces %s by %s; there are int32, uint32, int64, uint64, float16, "
            "bfloat16, float32, float64",
            name_of(call), tt_type_name(call->type), tt_op_name(call->op));
    return TUTTI_OK;
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
    return status == TUTTI_OK ? tt_call_check_buffers(call) : status;
}

/* check.c: everything about a call that can be told from this rank's arguments alone.
 *
 * One row of the collective table says which buffers exist at this rank, how long they are and how they
 * may alias, so the checks are written once. Each error names the argument, its value and what would be
 * legal; nothing has been done. */
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

/* Do the blocks of two ranks lie over each other? */
static bool blocks_meet(const struct tt_call *call, int a, int b)
{
    const size_t *places = call->places, *counts = call->counts;
    return counts[a] > 0 && counts[b] > 0 && places[a] < places[b] + counts[b] &&
           places[b] < places[a] + counts[a];
}

/* In reach, and apart. Blocks that rise with the rank, as most do, take one look each. */
static tutti_status check_places(const struct tt_call *call, uint64_t most)
{
    bool rising = true;
    uint64_t end = 0;
    for (int r = 0; r < call->comm->n; r++) {
        if (call->counts[r] == 0)
            continue;
        if (call->places[r] > most)
            return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: recv_places[%d] is %zu; legal: up to %llu",
                name_of(call), r, call->places[r], (unsigned long long)most);
        rising = rising && call->places[r] >= end;
        end = call->places[r] + call->counts[r];
    }
    for (int r = 1; !rising && r < call->comm->n; r++)
        for (int q = 0; q < r; q++)
            if (blocks_meet(call, q, r))
                return tt_fail(TUTTI_INVALID_ARGUMENT,
                    "%s: recv_places %zu and %zu: the blocks of ranks %d and %d overlap; legal: apart",
                    name_of(call), call->places[q], call->places[r], q, r);
    return TUTTI_OK;
}

/* Elements of the whole vector; refuses what 64-bit byte arithmetic or 31-bit slice numbers cannot hold. */
static tutti_status check_counts(struct tt_call *call)
{
    uint64_t element = tutti_type_bytes(call->type), n = (uint64_t)call->comm->n, total = call->count;
    uint64_t most = (UINT64_C(1) << 43) / element; /* 8 TiB: 2^31 slices of 4 KiB */
    if (call->collective == TT_ALL_GATHER_V) {
        if (call->counts == NULL)
            return tt_fail(
                TUTTI_INVALID_ARGUMENT, "%s: recv_counts is NULL; pass one count per rank", name_of(call));
        if (call->counts[call->comm->rank] != call->count)
            return tt_fail(TUTTI_INVALID_ARGUMENT,
                "%s: send_count is %zu, but recv_counts[%d] of this rank is %zu", name_of(call), call->count,
                call->comm->rank, call->counts[call->comm->rank]);
        total = 0;
        for (uint64_t r = 0; r < n && total <= most; r++) {
            if (call->counts[r] > most)
                return tt_fail(TUTTI_INVALID_ARGUMENT,
                    "%s: recv_counts[%llu] is %zu; at most %llu elements of %s fit", name_of(call),
                    (unsigned long long)r, call->counts[r], (unsigned long long)most,
                    tt_type_name(call->type));
            total += call->counts[r];
        }
    } else if (tt_collectives[call->collective].blocks) {
        total = call->count <= most ? call->count * n : call->count;
    }
    if (total > most)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: count is %zu on %llu ranks; at most %llu elements of %s in all", name_of(call), call->count,
            (unsigned long long)n, (unsigned long long)most, tt_type_name(call->type));
    call->total = total;
    return call->places != NULL ? check_places(call, most) : TUTTI_OK;
}

struct extent { /* the bytes of a buffer at this rank; first == NULL: not there, or empty */
    const uint8_t *first;
    uint64_t bytes;
};

static struct extent extent_of(const struct tt_call *call, enum tt_reach reach, const void *pointer)
{
    uint64_t element = tutti_type_bytes(call->type), elements = 0;
    if (reach == TT_REACH_ALL || (reach == TT_REACH_ROOT && call->comm->rank == call->root))
        elements = call->total;
    else if (reach == TT_REACH_OWN)
        elements = call->counts != NULL ? call->counts[call->comm->rank] : call->count;
    struct extent e = { pointer, elements * element };
    if (reach == TT_REACH_ALL &&
        call->places != NULL) { /* from the first to the last element that is there */
        uint64_t first = UINT64_MAX, end = 0;
        for (int r = 0; r < call->comm->n; r++) {
            uint64_t last = call->places[r] + call->counts[r];
            first = call->counts[r] > 0 && call->places[r] < first ? call->places[r] : first;
            end = call->counts[r] > 0 && last > end ? last : end;
        }
        if (end > 0)
            e = (struct extent){ e.first + first * element, (end - first) * element };
    }
    if (e.bytes == 0)
        e.first = NULL;
    return e;
}

/* Where the smaller buffer stands in the larger one when a call is in place. */
static bool is_in_place(const struct tt_call *call)
{
    uint64_t element = tutti_type_bytes(call->type), own = (uint64_t)call->comm->rank * call->count;
    const uint8_t *send = call->send, *recv = call->recv;
    switch (tt_collectives[call->collective].in_place) {
    case TT_IN_PLACE_SAME:
        return send == recv;
    case TT_IN_PLACE_OWN_BLOCK:
        if (call->collective == TT_REDUCE_SCATTER)
            return recv == send + own * element;
        if (call->counts != NULL) {
            own = 0;
            for (int r = 0; call->places == NULL && r < call->comm->rank; r++)
                own += call->counts[r];
            own = call->places != NULL ? call->places[call->comm->rank] : own;
        }
        return send == recv + own * element;
    default:
        return false;
    }
}

static tutti_status check_pointer(
    const struct tt_call *call, const char *name, const void *pointer, struct extent e)
{
    uint64_t element = tutti_type_bytes(call->type);
    if (e.bytes > 0 && pointer == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: %s is NULL; this rank needs %llu bytes there",
            name_of(call), name, (unsigned long long)e.bytes);
    if (e.bytes > 0 && tt_collectives[call->collective].result == TT_RESULT_REDUCED &&
        (uintptr_t)pointer % element != 0)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: %s is %p; a reduction of %s needs a multiple of %llu",
            name_of(call), name, pointer, tt_type_name(call->type), (unsigned long long)element);
    if ((uintptr_t)pointer + e.bytes < e.bytes)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: %s + %llu bytes is beyond the address space",
            name_of(call), name, (unsigned long long)e.bytes);
    return TUTTI_OK;
}

tutti_status tt_call_check(struct tt_call *call)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    tutti_status status = tt_comm_check(call->comm);
    if (status != TUTTI_OK)
        return status;
    if (call->comm->finalized)
        return tt_fail(
            TUTTI_INVALID_USAGE, "%s: the communicator is finalized; only destroy is left", name_of(call));
    status = check_values(call);
    if (status == TUTTI_OK)
        status = check_counts(call);
    if (status != TUTTI_OK)
        return status;
    struct extent in = extent_of(call, row->in, call->send), out = extent_of(call, row->out, call->recv);
    status = check_pointer(call, "send", call->send, in);
    if (status == TUTTI_OK)
        status = check_pointer(call, "recv", call->recv, out);
    if (status != TUTTI_OK)
        return status;
    call->in_place = in.bytes > 0 && out.bytes > 0 && is_in_place(call);
    if (!call->in_place && in.first != NULL && out.first != NULL && in.first < out.first + out.bytes &&
        out.first < in.first + in.bytes)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: send (%p, %llu bytes) and recv (%p, %llu bytes) overlap; legal: apart, "
            "or in place (%s)",
            name_of(call), (const void *)in.first, (unsigned long long)in.bytes, (const void *)out.first,
            (unsigned long long)out.bytes,
            row->in_place == TT_IN_PLACE_SAME ? "the same pointer"
                                              : "the small one is this rank's block of the large one");
    return TUTTI_OK;
}

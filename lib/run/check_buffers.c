/* SPDX-License-Identifier: BSD-3-Clause */
/* check_buffers.c: counts, displacements and buffers of a call, as far as this rank's arguments tell.
 *
 * A buffer holds one vector, all blocks, or this rank's own block; the row of the collective says which. Only
 * a buffer of all blocks is cut by arrays of counts and displs, and only they can be wrong in more ways than
 * being too long. Arrays of a buffer that this rank does not have are not looked at. */
#include "base/status.h"
#include "run/run.h"

enum { SIDES = 2 }; /* TT_IN, TT_OUT */
static const char *const names[SIDES] = { "send", "recv" };

static const struct tt_collective_row *row_of(const struct tt_call *call)
{
    return &tt_collectives[call->collective];
}

static enum tt_reach reach_of(const struct tt_call *call, int side)
{
    return (enum tt_reach)(side == TT_IN ? row_of(call)->in : row_of(call)->out);
}

/* The whole vector, or all blocks, and not only the own block? */
static bool is_whole(const struct tt_call *call, int side)
{
    enum tt_reach reach = reach_of(call, side);
    return reach == TT_REACH_ALL || (reach == TT_REACH_ROOT && call->comm->rank == call->root);
}

/* Counts that are shared are those of what is received, whichever buffer they cut. */
static const char *array_name(const struct tt_call *call, int side)
{
    return names[row_of(call)->counts == TT_COUNTS_SHARED ? TT_OUT : side];
}

static uint64_t most_of(const struct tt_call *call)
{
    return TT_VECTOR_BYTES / tutti_type_bytes(call->type);
}

static bool blocks_meet(const struct tt_blocks *b, int q, int r)
{
    return b->counts[q] > 0 && b->counts[r] > 0 && b->displs[q] < b->displs[r] + b->counts[r] &&
           b->displs[r] < b->displs[q] + b->counts[q];
}

/* Fails unless all displacements are in reach, and blocks that are written lie apart. Blocks that rise with
 * the rank, as most do, take one look each. */
static tutti_status check_displs(const struct tt_call *call, int side)
{
    const struct tt_blocks *b = &call->blocks[side];
    const char *name = row_of(call)->name, *array = array_name(call, side);
    uint64_t most = most_of(call), end = 0;
    bool rising = true;
    for (int r = 0; r < call->comm->n; r++) {
        if (b->counts[r] == 0)
            continue;
        if (b->displs[r] > most)
            return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: %s_displs[%d] is %zu; legal: up to %llu", name, array,
                r, b->displs[r], (unsigned long long)most);
        rising = rising && b->displs[r] >= end;
        end = b->displs[r] + b->counts[r];
    }
    for (int r = 1; side == TT_OUT && !rising && r < call->comm->n; r++)
        for (int q = 0; q < r; q++)
            if (blocks_meet(b, q, r))
                return tt_fail(TUTTI_INVALID_ARGUMENT,
                    "%s: %s_displs %zu and %zu: the blocks of ranks %d and %d overlap; legal: apart", name,
                    array, b->displs[q], b->displs[r], q, r);
    return TUTTI_OK;
}

/* The own block has one length in both buffers. */
static tutti_status check_own(struct tt_call *call, int side)
{
    const struct tt_collective_row *row = row_of(call);
    int rank = call->comm->rank, other = 1 - side;
    size_t own = call->blocks[side].counts[rank];
    if (reach_of(call, other) == TT_REACH_OWN) {
        if (call->count_in_blocks)
            call->count = own;
        if (call->count != own)
            return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: %s_count is %zu, but %s_counts[%d] is %zu", row->name,
                names[other], call->count, array_name(call, side), rank, own);
    } else if (side == TT_OUT && call->blocks[TT_IN].counts[rank] != own) {
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: send_counts[%d] is %zu and recv_counts[%d] is %zu: what a rank gives itself has one "
            "length",
            row->name, rank, call->blocks[TT_IN].counts[rank], rank, own);
    }
    return TUTTI_OK;
}

/* One buffer of a v-form: *total becomes its elements. */
static tutti_status check_blocks(struct tt_call *call, int side, uint64_t *total)
{
    const struct tt_blocks *b = &call->blocks[side];
    const char *name = row_of(call)->name, *array = array_name(call, side);
    uint64_t most = most_of(call), sum = 0;
    if (b->counts == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: %s_counts is NULL; pass one count per rank", name, array);
    for (int r = 0; r < call->comm->n; r++) {
        if (b->counts[r] > most || sum + b->counts[r] > most)
            return tt_fail(TUTTI_INVALID_ARGUMENT,
                "%s: %s_counts[%d] is %zu, after %llu; at most %llu elements of %s in all", name, array, r,
                b->counts[r], (unsigned long long)sum, (unsigned long long)most, tt_type_name(call->type));
        sum += b->counts[r];
    }
    *total = sum;
    tutti_status status = check_own(call, side);
    return status == TUTTI_OK && b->displs != NULL ? check_displs(call, side) : status;
}

/* Elements of the whole vector, or of what this rank sends. */
static tutti_status check_counts(struct tt_call *call)
{
    const struct tt_collective_row *row = row_of(call);
    uint64_t n = (uint64_t)call->comm->n, most = most_of(call), total[SIDES] = { 0 };
    for (int side = 0; side < SIDES && row->counts != TT_COUNTS_EVEN; side++) {
        if (!is_whole(call, side)) {
            call->blocks[side] = (struct tt_blocks){ 0 };
            continue;
        }
        tutti_status status = check_blocks(call, side, &total[side]);
        if (status != TUTTI_OK)
            return status;
    }
    if (call->count_in_blocks && is_whole(call, TT_IN) && is_whole(call, TT_OUT))
        call->count = (size_t)total[TT_IN];
    call->total = call->count;
    if (row->counts != TT_COUNTS_EVEN && (is_whole(call, TT_IN) || is_whole(call, TT_OUT)))
        call->total = total[is_whole(call, TT_IN) ? TT_IN : TT_OUT];
    else if (row->blocks && call->count <= most)
        call->total = call->count * n;
    if (call->count > most || call->total > most)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: count is %zu on %llu ranks; at most %llu elements of %s in all", row->name, call->count,
            (unsigned long long)n, (unsigned long long)most, tt_type_name(call->type));
    return TUTTI_OK;
}

struct extent { /* the bytes of a buffer at this rank; first == NULL: not there, or empty */
    const uint8_t *first;
    uint64_t bytes;
};

/* Returns the range from the first to the last element of a buffer that is there. */
static struct extent extent_of(const struct tt_call *call, int side)
{
    const struct tt_blocks *b = &call->blocks[side];
    const void *pointer = side == TT_IN ? call->send : call->recv;
    uint64_t element = tutti_type_bytes(call->type), first = 0, end = 0;
    if (call->collective == TT_P2P_RECV && side == TT_IN) { /* its group knows, if this rank is the peer */
        end = 0;
    } else if (b->counts != NULL) {
        uint64_t packed = 0;
        first = UINT64_MAX;
        for (int r = 0; r < call->comm->n; r++) {
            uint64_t start = b->displs != NULL ? b->displs[r] : packed, count = b->counts[r];
            packed += count;
            first = count > 0 && start < first ? start : first;
            end = count > 0 && start + count > end ? start + count : end;
        }
        first = end > 0 ? first : 0;
    } else if (is_whole(call, side)) {
        end = call->total;
    } else if (reach_of(call, side) == TT_REACH_OWN) {
        end = call->count;
    }
    struct extent e = { (const uint8_t *)pointer + first * element, (end - first) * element };
    if (end == first)
        e.first = NULL;
    return e;
}

uint64_t tt_call_bytes(const struct tt_call *call, int side)
{
    struct extent e = extent_of(call, side);
    const void *pointer = side == TT_IN ? call->send : call->recv;
    return e.first == NULL ? 0 : (uint64_t)(e.first - (const uint8_t *)pointer) + e.bytes;
}

/* True if the call is in place: both buffers are one, or the smaller one stands at this rank's block of the
 * larger one. */
static bool is_in_place(const struct tt_call *call)
{
    const struct tt_collective_row *row = row_of(call);
    if (row->in_place != TT_IN_PLACE_OWN_BLOCK)
        return row->in_place == TT_IN_PLACE_SAME && call->send == call->recv;
    int large = row->in == TT_REACH_OWN ? TT_OUT : TT_IN, rank = call->comm->rank;
    const struct tt_blocks *b = &call->blocks[large];
    uint64_t own = (uint64_t)rank * call->count;
    if (b->counts != NULL) {
        own = b->displs != NULL ? b->displs[rank] : 0;
        for (int r = 0; b->displs == NULL && r < rank; r++)
            own += b->counts[r];
    }
    const uint8_t *send = call->send, *recv = call->recv;
    own *= tutti_type_bytes(call->type);
    return large == TT_OUT ? send == recv + own : recv == send + own;
}

static tutti_status check_pointer(const struct tt_call *call, int side, struct extent e)
{
    const struct tt_collective_row *row = row_of(call);
    const void *pointer = side == TT_IN ? call->send : call->recv;
    uint64_t element = tutti_type_bytes(call->type);
    if (e.bytes > 0 && pointer == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: %s is NULL; rank %d needs %llu bytes there", row->name,
            names[side], call->comm->rank, (unsigned long long)e.bytes);
    if (e.bytes > 0 && row->result == TT_RESULT_REDUCED && (uintptr_t)pointer % element != 0)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: %s is %p; a reduction of %s needs a multiple of %llu",
            row->name, names[side], pointer, tt_type_name(call->type), (unsigned long long)element);
    if ((uintptr_t)pointer + e.bytes < e.bytes)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: %s + %llu bytes is beyond the address space", row->name,
            names[side], (unsigned long long)e.bytes);
    return TUTTI_OK;
}

/* The bytes of block r; of a buffer that no arrays cut, block 0 is all of it. `packed` are the elements of
 * the blocks before it. */
static struct extent block_of(const struct tt_call *call, int side, int r, uint64_t packed)
{
    const struct tt_blocks *b = &call->blocks[side];
    const uint8_t *pointer = side == TT_IN ? call->send : call->recv;
    uint64_t element = tutti_type_bytes(call->type);
    if (b->counts == NULL)
        return r == 0 ? extent_of(call, side) : (struct extent){ 0 };
    uint64_t start = b->displs != NULL ? b->displs[r] : packed;
    return (struct extent){ pointer + start * element, b->counts[r] * element };
}

static bool meet(struct extent a, struct extent b)
{
    return a.bytes > 0 && b.bytes > 0 && a.first < b.first + b.bytes && b.first < a.first + a.bytes;
}

/* Some block of send and some block of recv have bytes in common. What lies between blocks is nobody's. */
static bool buffers_meet(const struct tt_call *call)
{
    struct extent whole = extent_of(call, TT_OUT);
    uint64_t sent = 0;
    for (int s = 0; s < call->comm->n; s++) {
        struct extent in = block_of(call, TT_IN, s, sent);
        uint64_t got = 0;
        sent += call->blocks[TT_IN].counts != NULL ? call->blocks[TT_IN].counts[s] : 0;
        for (int r = 0; meet(in, whole) && r < call->comm->n; r++) {
            if (meet(in, block_of(call, TT_OUT, r, got)))
                return true;
            got += call->blocks[TT_OUT].counts != NULL ? call->blocks[TT_OUT].counts[r] : 0;
        }
    }
    return false;
}

static tutti_status refuse_overlap(const struct tt_call *call, struct extent in, struct extent out)
{
    static const char *const in_place[] = {
        [TT_IN_PLACE_NEVER] = "",
        [TT_IN_PLACE_SAME] = ", or in place (the same pointer)",
        [TT_IN_PLACE_OWN_BLOCK] = ", or in place (the small one is the rank's own block of the large one)",
    };
    return tt_fail(TUTTI_INVALID_ARGUMENT,
        "%s: send (%p, %llu bytes) and recv (%p, %llu bytes) overlap; legal: apart%s", row_of(call)->name,
        (const void *)in.first, (unsigned long long)in.bytes, (const void *)out.first,
        (unsigned long long)out.bytes, in_place[row_of(call)->in_place]);
}

tutti_status tt_call_check_buffers(struct tt_call *call)
{
    tutti_status status = check_counts(call);
    if (status != TUTTI_OK)
        return status;
    struct extent in = extent_of(call, TT_IN), out = extent_of(call, TT_OUT);
    status = check_pointer(call, TT_IN, in);
    if (status == TUTTI_OK)
        status = check_pointer(call, TT_OUT, out);
    if (status != TUTTI_OK)
        return status;
    call->in_place = in.bytes > 0 && out.bytes > 0 && is_in_place(call);
    bool overlap = !call->in_place && meet(in, out) && buffers_meet(call);
    return overlap ? refuse_overlap(call, in, out) : TUTTI_OK;
}

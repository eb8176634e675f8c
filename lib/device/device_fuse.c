/* SPDX-License-Identifier: BSD-3-Clause */
/* device_fuse.c: which calls of a group share a gate.
 *
 * A small call by itself is two words more than its copies: one that tells that its operands are in, and one
 * for which the stream waits. Calls that follow each other share them:
 *
 *     stream:  in 0 | in 1 | in 2 | ready | wait done | out 0 | out 1 | out 2
 *     worker:                       call 0, call 1, call 2 ... done
 *
 * For the peers nothing is different: the worker runs one call after the other, and they may fuse other ones,
 * or none. A call joins those before it if it is of one slice, if its cells are beside theirs, and if it
 * reads nothing that they write, for now all operands are read first. */
#include "device/device.h"

static bool reads_results(const struct tt_fuse *f, const struct tt_span *operands)
{
    if (operands->begin >= f->high || operands->end <= f->low)
        return false;
    for (int i = 0; i < f->count; i++)
        if (operands->begin < f->results[i].end && f->results[i].begin < operands->end)
            return true;
    return false;
}

/* The next call has cells of its own line. */
static uint64_t room_of(const struct tt_span *span)
{
    return (span->end - span->begin + 63) / 64 * 64;
}

bool tt_fuse_joins(struct tt_fuse *f, const struct tt_span spans[2], uint64_t room, uint64_t offsets[2])
{
    const struct tt_span *operands = &spans[0], *results = &spans[1];
    bool joins = f->count > 0 && f->count < TT_DEVICE_FUSED && f->used[0] + room_of(operands) <= room &&
                 f->used[1] + room_of(results) <= room && !reads_results(f, operands);
    if (!joins)
        tt_fuse_begin(f);
    for (int side = 0; side < 2; side++) {
        offsets[side] = f->used[side];
        f->used[side] += room_of(&spans[side]);
    }
    f->results[f->count++] = *results;
    if (results->begin < results->end && results->begin < f->low)
        f->low = results->begin;
    if (results->end > f->high)
        f->high = results->end;
    return joins;
}

void tt_fuse_begin(struct tt_fuse *f)
{
    f->count = 0;
    f->used[0] = f->used[1] = 0;
    f->low = UINTPTR_MAX;
    f->high = 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* call_layout.h: how a call is cut on its schedule: slices, where chunks lie in the caller's
 * buffers, cells of TMP.
 *
 * All ranks cut alike: slices and cells follow from counts that all share, or from the slot, where each rank
 * knows only its own counts. */
#ifndef TT_LAY_H
#define TT_LAY_H
#include "run/run.h"

/* Returns how long a slice of all chunks may be: one of a chunk for each rank, of the length of a slot, or
 * this. A schedule that has more chunks has shorter slices. */
enum { TT_SLICE_OF_ALL = 4 << 20 };
static inline uint64_t tt_slice_of_all(uint64_t slot_bytes, int n)
{
    uint64_t bytes = slot_bytes * (uint64_t)n;
    return bytes < TT_SLICE_OF_ALL ? TT_SLICE_OF_ALL : bytes;
}

/* Returns a slicing in which the longest message of a call fits a slot. */
struct tt_slicing tt_call_slicing(const struct tt_call *call, const struct tt_schedule *schedule);

/* Sets the layouts of OUT, and of IN where that is not cut as OUT is. */
void tt_call_set_layouts(const struct tt_call *call, const struct tt_prepared *prepared,
    struct tt_slicing slicing, struct tt_layout *given, struct tt_layout *layout);
/* Sets where the caller's buffers have IN and OUT. */
void tt_call_set_buffers(const struct tt_call *call, const struct tt_layout *in, const struct tt_layout *out,
    struct tt_space *spaces);

/* True if a call of this layout is staged in one piece, as it lies in the buffer: it is one slice of even
 * chunks. */
bool tt_call_is_packed(const struct tt_call *call, const struct tt_layout *layout);

/* Bytes of a cell that holds a slice of any chunk. */
uint64_t tt_call_stride(const struct tt_call *call, struct tt_slicing slicing);
/* The bounce buffer comes first in the arena. It is what an operation touches most, and so all operations
 * touch the same memory. */
uint64_t tt_call_bounce_bytes(const struct tt_call *call, const struct tt_op *op, struct tt_slicing slicing);
/* TMP cells of one slice, behind them those of IN, if it is scaled. */
uint64_t tt_call_cells(const struct tt_call *call, const struct tt_schedule *schedule);
/* Room for the bounce buffer and the TMP cells of all slices in flight. */
tutti_status tt_call_reserve(const struct tt_call *call, const struct tt_op *op, struct tt_slicing slicing);

/* All of it at once; its arrays are in the prepared call. */
struct tt_call_layout {
    struct tt_layout in, out;
    struct tt_space spaces[2]; /* where the buffers have them: [TT_IN], [TT_OUT] */
    uint64_t stride; /* bytes of a cell that holds a slice of any chunk */
};
void tt_lay_out_call(
    const struct tt_call *call, const struct tt_prepared *prepared, struct tt_call_layout *laid);
/* The chunks of IN or OUT that this rank has: `first` and how many. */
struct tt_part tt_call_chunks(
    const struct tt_call *call, const struct tt_schedule *schedule, unsigned buffer);

#endif

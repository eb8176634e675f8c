/* SPDX-License-Identifier: BSD-3-Clause */
/* rectangles.h: a collective as one kernel runs it (kernels/cuda/cuda_kernels.h), where one rank's device
 * reaches the memory of all: what the schedules of `direct` compute, without a message.
 *
 *     n = 2, all_reduce of 8 bytes:        in[0], in[1] + 0 -> out[0], out[1] + 0
 *     n = 2, reduce_scatter of 4 a rank:   in[0], in[1] + 0 -> out[0] + 0;  in[0], in[1] + 4 -> out[1] + 0
 *     n = 2, all_gather of 4 a rank:       in[0] + 0 -> out[0], out[1] + 0; in[1] + 0 -> out[0], out[1] + 4
 *     n = 2, send of 4, or its recv:       in[0] + 0 -> out[1] + 0
 *
 * Rectangles run in any order and at once, so a call is served only if they are independent: no byte that
 * one of them stores is loaded by another. The bits are those of the schedule: rank order, or the canonical
 * tree under `exact`. */
#ifndef TT_RECTANGLES_H
#define TT_RECTANGLES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "kernels/cuda/cuda_kernels.h"
#include "tutti.h"

struct tt_rect_call { /* a collective, as all ranks know it */
    enum tt_collective collective;
    int n, root;
    tutti_type type;
    tutti_op op; /* built in; of a scaled sum TUTTI_SUM */
    bool exact; /* the canonical tree */
    bool scaled; /* operands are multiplied by their ranks' factors first */
    uint32_t element_bytes; /* of the type */
    uint64_t total; /* elements of the whole vector, as in struct tt_call */
    /* v-forms: elements of each rank's block, and where the blocks stand in the larger buffer, in elements
     * (NULL: packed in rank order); the same on all ranks. Else NULL. */
    const size_t *counts, *displs;
    uint32_t in_place; /* bit r: rank r works in place */
    /* Only these bytes of the vector; end 0: all of it. An exchange has no such parts, for a part of what
     * goes to a rank is no part of what it gets. */
    uint64_t begin, end;
};

/* Bytes that rectangles load from, and store to, counted from where each rank's buffers begin; 0: that buffer
 * is not looked at. */
struct tt_rect_extents {
    uint64_t in[TT_FUSED_RANKS], out[TT_FUSED_RANKS];
};

struct tt_rect_plan {
    uint32_t kernel; /* its number; 0: there is nothing to do, as in a barrier, or of no elements */
    uint32_t grid, grid_y; /* without a limit; any smaller grid is right, too */
    struct tt_rect_extents extents;
};

/* Sets the rectangles and the divisor of *params, and nothing else of it, and *plan. False, and both hold
 * nothing of use: the call is not served, because ranks are too many or know their own counts alone, because
 * rectangles are not independent, or because no kernel has the operation. */
bool tt_rectangles(
    const struct tt_rect_call *call, struct tt_fused_params *params, struct tt_rect_plan *plan);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* direct_rig.h: kernels of several devices, emulated: each rank has a thread that makes its calls one after
 * the other, as a stream does, and each block of its kernels has one, too. */
#ifndef TESTS_CUDA_DIRECT_RIG_H
#define TESTS_CUDA_DIRECT_RIG_H
#include <stdbool.h>
#include <stdint.h>

#include "exec/rectangles.h"
#include "kernels/cuda/cuda_direct.h"
#include "kernels/cuda/cuda_emulate.h"

struct direct_rig {
    int n;
    struct tt_pad *pads[TT_FUSED_RANKS];
    struct tt_direct_words words[TT_FUSED_RANKS];
    uint32_t late_us; /* ranks wait up to so long before a call */
    uint32_t absent; /* bit r: rank r makes no call */
    bool leaves; /* kernels may */
};

/* Pads as they are after so many epochs of calls with one block, that took no packet; all zeros for 0. */
struct direct_rig *direct_rig_create(int n, uint64_t epochs);
void direct_rig_free(struct direct_rig *rig);

struct direct_case {
    struct tt_rect_call call; /* element_bytes, and of v-forms total and counts, are set by the rig */
    size_t counts[TT_FUSED_RANKS]; /* of v-forms */
    bool ll; /* if it serves the call; else PADS, */
    bool maps; /* or MAPPED, if nothing is scaled, and all do, */
    uint32_t unmapped; /* bit r: rank r's buffers are not reached by others, */
    uint64_t part; /* or PADS by parts; 0: all at once. */
    uint32_t split; /* bit r: rank r has a kernel for each part */
    uint32_t grid, block;
    uint64_t segment;
    uint32_t in_shift, out_shift; /* elements that buffers lie behind a multiple of 64 */
    uint64_t seed; /* of the operands */
    enum tt_emulation way;
    const void *function; /* NULL: the one that serves the call */
    uint32_t odd_rank; /* 1 + a rank that goes the other way; 0: none does */
    uint32_t listed; /* bit r: rank r has it in a list with the call before */
    const void *list_function; /* NULL: the one that serves the list */
};

/* These calls by all ranks. Operands are drawn, and written just before each call; as soon as a kernel tells
 * that it is over, all that is in the rank's buffers is compared with what the rectangles mean by the
 * processor's kernels. What is wrong is printed; true: nothing is. Where a kernel left, each byte is as it
 * was or as it should be. */
bool direct_rig_run(struct direct_rig *rig, const struct direct_case *cases, int count);
/* The same by one rank alone. */
bool direct_rig_run_rank(struct direct_rig *rig, int rank, const struct direct_case *cases, int count);
/* Draws a call for n ranks that its kernel serves, as the seed says: collective, type, operation, bytes of a
 * block up to `most`, grid, segment, places. */
struct direct_case direct_rig_draw(int n, uint64_t seed, uint32_t most);
/* Draws one that may be listed; those of eight numbers from a multiple of 8 on are of one type, and ranks
 * have several of them in lists, but not the same ones. */
struct direct_case direct_rig_draw_listed(int n, uint64_t seed, uint32_t most);

#endif

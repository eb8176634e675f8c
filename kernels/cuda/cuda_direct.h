/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct.h: kernels of several devices that do one collective together: what they have in common, and
 * their parameters. Plain C, as cuda_kernels.h is, among whose kernels they are.
 *
 * Each rank has a device of its own, on whose stream its kernel runs. The kernels wait for each other by
 * polling, so all of them must run at once: no rank's launch may depend on the end of another's, and each
 * block needs its place on a multiprocessor. A kernel stores into its own rank's buffers, and into pads,
 * which each rank has on its device for all of them. There are three ways to go:
 *
 *   LL    A vector of 16 bytes travels as two packets of 16, each half of which carries 4 bytes and a tag
 *         that tells its call: the data says itself that it is there. The fastest way for few bytes.
 *   PADS  A block of threads has a part of the message, which it cuts into segments. It stores one in its own
 *         pad, meets the same block of all other ranks, and folds or copies from their pads; then they meet
 *         again, and the pad is free for the next segment. An all_reduce is folded by parts: each rank stores
 *         the part that it has folded in its pad, where the others read it after the second meeting.
 *   MAPPED  Each kernel tells the others where they reach its rank's buffers. If they all can, they fold or
 *         copy from there into their own, and meet; an all_reduce is folded by parts, which all collect after
 *         one more meeting. If some rank's buffer cannot be reached, all read so, and go on with PADS.
 *
 * Calls are counted by epochs of 64 bits, which begin as 0 and never wrap: LL takes one, a segment of PADS
 * two, and MAPPED as many as it has meetings. The pad keeps the last one, so a captured kernel counts on
 * when it is run again. All ranks of a communicator run the same calls in the same order, with the same
 * parameters but where a rank is mentioned below. Ranks whose calls differ may wait for each other; then
 * both leave, and say so.
 *
 * One kernel may do several small calls of LL, a list, one after the other: to the others it is as if each
 * had a kernel of its own, so no rank has to know which calls another one lists. But while it runs nothing
 * else of its stream does, so what is listed must follow each other on every rank (tt_direct_list_params).
 *
 * Operands fold in rank order or as the canonical tree: the bits are those of the algorithm `direct`. Where a
 * collective may be done in place, these kernels do it. Pointers are aligned to the element; it is fastest
 * where they are multiples of 16. Results do not depend on the grid, nor on the block. */
#ifndef TT_KERNELS_CUDA_DIRECT_H
#define TT_KERNELS_CUDA_DIRECT_H
#include <stdbool.h>

#include "kernels/cuda/cuda_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TT_DIRECT_BLOCK = 512, /* threads, at most */
    TT_PAD_BLOCKS = 66, /* of a grid, at most; it has one row */
    TT_PAD_OPERANDS = 256 << 10, /* bytes of a block's segment, at most */
    TT_PAD_RESULTS = 64 << 10,
    TT_LL_BYTES = 128 << 10, /* that go from one rank to another, at most */
    TT_LISTED_CALLS = 128, /* of one kernel, at most, */
    TT_LISTED_BYTES = 16 * TT_DIRECT_BLOCK /* and of each: a vector for each thread of one block */
};

/* 16 bytes on their way, as two packets of two halves. The low 32 bits of a half are data, the high ones its
 * tag: of call E the first half has E mod 2^32, the second one that plus E / 2^32. Both tags together are
 * those of no other call. One half alone has an older call's tag only if its packet was last written a
 * multiple of 2^32 epochs ago, to within a few; then it would have to be seen without the other half, which
 * was stored by the same instruction. */
struct tt_ll_vector {
    uint64_t packet[2][2];
};
enum { TT_LL_VECTORS = TT_LL_BYTES / 16 };

struct tt_pad_room { /* of a block */
    uint8_t operands[TT_PAD_OPERANDS], results[TT_PAD_RESULTS];
};

/* What the device of one rank keeps for all of them to store into and load from. It begins as zeros. */
struct tt_pad {
    uint64_t epoch; /* the last that is over; own kernels alone look at it, and at the next two */
    uint32_t blocks_over; /* of the kernel that runs */
    uint32_t is_left; /* 1: a kernel has left, and the pads serve no more */
    uint64_t reserved[6];
    uint64_t
        call[TT_FUSED_RANKS]; /* of each rank: its call's first epoch mod 2^32, and its signature above */
    /* MAPPED: in which epoch each rank has last told where its operand is, and its result. No rank is a call
     * ahead of one that has still to read that: each block meets its fellows once more, whatever follows. */
    uint64_t placed[TT_FUSED_RANKS];
    uint64_t place[TT_FUSED_RANKS][2];
    uint64_t unused[8];
    /* How far block b of rank k has come, stored by itself. 64 bits, and never set back: a block that many
     * calls did without would take a number that wrapped for one of a meeting that is to come. */
    uint64_t flag[TT_PAD_BLOCKS][TT_FUSED_RANKS];
    /* By the parity of the epoch, and by who sends. A rank that is a call ahead finds the other half free: it
     * has heard of all ranks in the last call, so each of them has ended the one before that. */
    struct tt_ll_vector ll[2][TT_FUSED_RANKS][TT_LL_VECTORS];
    struct tt_pad_room room[TT_PAD_BLOCKS];
};

/* Between the kernels of a rank and the host, in pinned memory. */
struct tt_direct_words {
    /* The host stores TT_DIRECT_LEAVE: kernels that wait leave, after at most 1024 looks more. One that has
     * told others where the rank's buffers are then lasts until this is TT_DIRECT_RELEASED: nobody reads them
     * any more. */
    uint32_t abort;
    uint32_t reserved[15];
    uint64_t begun; /* the first epoch of the kernel that began last */
    /* The last epoch of the kernel that ended last, stored after all that it stores, but before `over`. */
    uint64_t done;
    uint64_t left; /* likewise, if it left: its results, and all further calls, are to be given up */
    uint64_t differs; /* why: 1 + a rank that is in another call; else 0 */
    uint64_t entered; /* the number of the last numbered call whose kernel has begun, or that a list has, */
    /* and of the last whose kernel has ended, or left, stored after all that it stores; or, of a list that
     * runs and has not left, of the last call that it has done, without that order */
    uint64_t over;
    uint64_t differs_in; /* the number of the call in which a rank differs; 0: it has none, or nobody does */
    uint64_t unused[1];
};

enum { TT_DIRECT_LEAVE = 1, TT_DIRECT_RELEASED };

enum tt_direct_way { TT_DIRECT_LL, TT_DIRECT_PADS };

/* Bytes from `at` on in the operand or the result; 0 bytes: there is no such block. */
struct tt_direct_block {
    uint64_t at, bytes;
};

struct tt_direct_params { /* 600 bytes */
    const void *in; /* of the own rank, as out, scalar, factor, words, rank, send and receive */
    void *out;
    struct tt_pad *pads[TT_FUSED_RANKS]; /* of all ranks, as this device reaches them */
    struct tt_direct_words *words;
    /* scales: the operand of a sum is multiplied, as tt_scale does it, by one element, at `scalar`, where the
     * device reads it, or, if that is NULL, in the first bytes of `factor`. All ranks do, or none. */
    const void *scalar;
    uint64_t factor;
    uint64_t call; /* for the host: its number; 0: it has none, as a captured one, which runs many times */
    uint64_t longest; /* bytes of the longest block that goes from any rank to any other */
    uint64_t segment; /* PADS: bytes; see tt_direct_segment */
    /* PADS: all ranks do so many bytes of each block at a time, which for each begins as a call of its own,
     * and is a multiple of 16; 0: all of it. So one rank has a kernel for each part, and another one for all:
     * this one does those that begin in [begin, end); end 0: all. */
    uint64_t part, begin, end;
    uint64_t before[2]; /* `in` and `out` have of each block only what comes after so many bytes */
    /* MAPPED, if `maps`, in the kernel that does the first part, on all ranks, of what tt_direct_maps: where
     * each other one, and this one, reaches the operand that it gets, and, if `shares`, the result; see
     * tt_direct_place. */
    uint64_t place[TT_FUSED_RANKS][2];
    uint32_t way; /* enum tt_direct_way */
    uint32_t signature; /* of the call: ranks with another one leave when they have waited for each other */
    uint32_t ranks, rank; /* 2 to TT_FUSED_RANKS */
    uint32_t row, shape; /* of a fold: enum tt_fold_row, enum tt_shape */
    uint32_t scales, divisor; /* as of tt_fold_fn */
    uint32_t blocks; /* that a rank sends: 1, send[0], which goes to all that want it, or one to each rank */
    uint32_t shares; /* each rank wants the whole result, and folds a part of it for all, but for LL */
    uint32_t maps, reserved;
    struct tt_direct_block send[TT_FUSED_RANKS], receive[TT_FUSED_RANKS]; /* of a fold, all alike */
};

/* Sums of one type, of all ranks' vectors, for one block of threads: what TT_KERNEL_DIRECT_LIST does. The
 * fields are as those of tt_direct_params. */
struct tt_direct_listed {
    const void *in;
    void *out;
    uint32_t bytes; /* 1 to TT_LISTED_BYTES */
    uint32_t signature;
};
struct tt_direct_list_params { /* 3184 bytes */
    struct tt_pad *pads[TT_FUSED_RANKS];
    struct tt_direct_words *words;
    uint64_t call; /* the number of the first call, which those of the others follow; or 0 for all */
    uint32_t ranks, rank;
    uint32_t type; /* FLOAT16, FLOAT32 or BFLOAT16 */
    uint32_t row, shape; /* TT_ROW_SUM */
    uint32_t divisor, calls; /* 1 to TT_LISTED_CALLS */
    uint32_t reserved;
    struct tt_direct_listed listed[TT_LISTED_CALLS];
};

/* An address of another device, which who launches must not take for one of this one: so it is no address.
 * 0: it is not reached. */
static inline uint64_t tt_direct_place(uint64_t address)
{
    return ~address;
}

/* Whether MAPPED serves what is folded, or only moved: nothing is multiplied on its way then, and folds of
 * numbers of 8 bits, whose code is long, and needs many registers, have no second form. */
static inline bool tt_direct_maps(bool folds, bool scales, tutti_type type)
{
    bool short_numbers =
        type == TUTTI_INT8 || type == TUTTI_UINT8 || type == TUTTI_FLOAT8_E4M3 || type == TUTTI_FLOAT8_E5M2;
    return !scales && !(folds && short_numbers);
}

/* Bytes of a segment of PADS, as measured where all memory is one device's. */
static inline uint64_t tt_direct_segment(uint32_t ranks)
{
    return ranks > 4 ? TT_PAD_OPERANDS : TT_PAD_OPERANDS / 2;
}

/* Blocks for rectangles of at most so many bytes, where `most` fit; of PADS the same on all ranks. */
static inline uint32_t tt_direct_grid(uint64_t bytes, uint32_t most)
{
    const uint64_t wanted = bytes / (16 * TT_DIRECT_BLOCK) + 1, blocks = TT_PAD_BLOCKS;
    const uint64_t limit = most < blocks ? most : blocks;
    return (uint32_t)(wanted < limit ? wanted : limit);
}

/* Sets what rank p->rank of p->ranks sends and receives in a collective whose rectangles, the same on all
 * ranks, count by so many bytes: send, receive, longest, blocks and shares, and nothing else of *p.
 *
 * True: LL serves it, if `longest` is at most TT_LL_BYTES: each rank receives from each other one, and
 * nothing else keeps a rank from storing where another has not read yet. Without rectangles it is a
 * barrier. */
static inline bool tt_direct_set(
    struct tt_direct_params *p, const struct tt_rect *rect, uint32_t rects, uint32_t unit_bytes)
{
    const uint32_t all = (1U << p->ranks) - 1;
    uint32_t sends[TT_FUSED_RANKS] = { 0 }, reached[TT_FUSED_RANKS] = { 0 }, meets = rects == 0;
    struct tt_direct_block last = { 0, 0 };
    p->longest = 0;
    p->blocks = 1;
    p->shares = 0;
    for (uint32_t k = 0; k < TT_FUSED_RANKS; k++)
        p->send[k] = p->receive[k] = last;
    for (uint32_t i = 0; i < rects; i++) {
        const struct tt_rect *r = &rect[i];
        const uint64_t bytes = r->count * unit_bytes;
        p->longest = bytes > p->longest ? bytes : p->longest;
        p->shares |= (r->sources & (r->sources - 1)) != 0 && (r->dsts & (r->dsts - 1)) != 0;
        for (uint32_t k = 0; k < p->ranks; k++) {
            if (!(r->sources >> k & 1))
                continue;
            reached[k] |= bytes > 0 ? r->dsts : 0;
            p->blocks = ++sends[k] > 1 ? p->ranks : p->blocks;
            if (r->dsts >> p->rank & 1)
                p->receive[k] = (struct tt_direct_block){ r->to, bytes };
            for (uint32_t q = 0; k == p->rank && q < p->ranks; q++)
                if (r->dsts >> q & 1)
                    p->send[q] = last = (struct tt_direct_block){ r->from, bytes };
        }
    }
    if (p->blocks == 1)
        p->send[0] = last;
    for (uint32_t k = 0; k < p->ranks && rects > 0; k++)
        meets += (reached[k] | 1U << k) == all;
    return meets == (rects > 0 ? p->ranks : 1);
}

#ifdef __cplusplus
}
#endif
#endif

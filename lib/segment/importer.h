/* SPDX-License-Identifier: BSD-3-Clause */
/* importer.h: the leader's end: a thread that maps memory of other ranks' processes, when they ask for it.
 *
 * To map memory, and to unmap it, may wait for all that the device does. So a thread does it that nobody
 * waits for but who registers memory, and a call uses what is mapped by the time it runs. What is mapped is
 * found by its rank and key, without a lock, by the one thread that begins the leader's kernels. That thread
 * counts its rounds in the importer; memory is unmapped when no round that may have found it is under way.
 *
 * A rank whose process ends, or that closes its end, takes its memory with it in the same way, unless the
 * importer keeps it. A child of a
 * fork has none of this, and must not use it. */
#ifndef TT_SEGMENT_IMPORTER_H
#define TT_SEGMENT_IMPORTER_H
#include <stdint.h>

#include "base/dev.h"
#include "tutti.h"

/* Where an importer is reached, and a secret: plain bytes, which the ranks of a communicator exchange and
 * nobody else may see. Zeros: nobody imports. */
enum { TT_IMPORT_ADDRESS_BYTES = 64 };
struct tt_import_address {
    uint8_t bytes[TT_IMPORT_ADDRESS_BYTES];
};

struct tt_importer;

/* Starts the thread, which maps memory on `device` for up to n ranks. Errors: SYSTEM_ERROR (no private
 * directory, socket or thread), OUT_OF_MEMORY. */
tutti_status tt_importer_open(const struct tt_dev *dev, int device, int n, struct tt_importer **importer,
    struct tt_import_address *address);
/* Ends the thread and unmaps all. No round is under way. It may wait as cudaFree does. */
void tt_importer_close(struct tt_importer *importer);

/* For kernels that no round counts: what a rank leaves behind stays mapped until the importer is closed. A
 * rank that asks to have memory unmapped knows that no kernel is at it. Before any rank comes. */
void tt_importer_keep(struct tt_importer *importer);

/* By the thread that begins kernels: `begin` before it finds what a round uses, `over` when nothing of that
 * round can touch memory any more, also if it failed. Rounds count up from 1. */
void tt_importer_begin(struct tt_importer *importer, uint64_t round);
void tt_importer_over(struct tt_importer *importer, uint64_t round);
/* Between these two: where the leader has these bytes of what that rank calls `key`; NULL unless all of them
 * are mapped. */
void *tt_importer_find(struct tt_importer *importer, int rank, uint32_t key, uint64_t offset, uint64_t bytes);

#endif

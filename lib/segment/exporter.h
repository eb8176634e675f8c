/* SPDX-License-Identifier: BSD-3-Clause */
/* exporter.h: a rank's end towards its leader: which memory it has handed over, and by which key a call names
 * it.
 *
 * Handed over are whole allocations, or, of memory that was reserved and mapped by parts, whole parts: what a
 * device can export. The leader may read and write all of it. Each has a key, which is never used again.
 *
 *     add, ask     ASKED -> ACKED, found from then on; or REFUSED, and not asked for again
 *     remove, or another allocation is at its address: CLOSING, found no more; the leader is told when no
 *                  call uses it, and the key is over when the leader has unmapped it
 *
 * An exporter belongs to one rank of one communicator, and is used by one thread at a time, but for
 * tt_exporter_release. A leader that is gone is noticed by the next question to it; then nothing is found and
 * nothing is added. No call here fails for that, nor waits. All want the rank's device to be the thread's
 * current one. */
#ifndef TT_SEGMENT_EXPORTER_H
#define TT_SEGMENT_EXPORTER_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "segment/importer.h"

struct tt_exporter;

/* Connects to the importer as this rank. The numbers of calls up to *over, which the caller counts up from 0,
 * use no memory any more; it may count up somewhat later. Errors: TIMEOUT, PEER_LOST (the
 * importer is not there, or does not know the secret), SYSTEM_ERROR, OUT_OF_MEMORY. */
tutti_status tt_exporter_open(const struct tt_dev *dev, int device, const struct tt_import_address *address,
    int rank, const _Atomic uint64_t *over, int64_t timeout_ms, struct tt_exporter **exporter);
/* The leader unmaps all. That is waited for, for some seconds at most, where memory must not be freed before:
 * what was handed over by a handle. No call uses any of it, and nothing is held. */
void tt_exporter_close(struct tt_exporter *exporter);

/* By who enqueues call number `call` on `bytes` bytes at ptr, of which the device says `what`: true if the
 * leader has them all mapped, *offset bytes from the begin of what it knows by *key. Allocates nothing; asks
 * the system for nothing unless an answer is outstanding, and now and then the device what an address is.
 * Call 0 has no number: a captured one, which holds what it found. */
bool tt_exporter_find(struct tt_exporter *exporter, const void *ptr, uint64_t bytes,
    const struct tt_dev_pointer *what, uint64_t call, uint32_t *key, uint64_t *offset);
/* Where the importer's device has the begin of what was just found by that key. */
uint64_t tt_exporter_address(const struct tt_exporter *exporter, uint32_t key);
/* A call in a graph uses what was just found, until that is released as often; by any thread. */
void tt_exporter_hold(struct tt_exporter *exporter, uint32_t key);
void tt_exporter_release(struct tt_exporter *exporter, uint32_t key);

/* Asks the leader to map the memory that `what` tells of, and does not wait; nothing if it was asked before.
 * GIVEN: only what travels as a descriptor, for that lives until its last user is gone, whoever frees it
 * first. REGISTERED: any that can be exported; `add` follows. USED: any, and nobody takes it back: of such
 * memory there is no more than TT_EXPORT_USED_MOST, and for another one that goes which was not found for
 * longest, if that is long. */
enum tt_export_reason { TT_EXPORT_GIVEN, TT_EXPORT_REGISTERED, TT_EXPORT_USED };
enum { TT_EXPORT_USED_MOST = 512 };
void tt_exporter_ask(
    struct tt_exporter *exporter, const struct tt_dev_pointer *what, enum tt_export_reason reason);
/* The same for any memory that can be exported, and waits for the answer, but no longer than this: then it is
 * found when the answer has come. True: it is mapped; else `why` says what is in the way. Adding it
 * again counts. */
enum { TT_EXPORT_WHY = 240 };
bool tt_exporter_add(struct tt_exporter *exporter, const struct tt_dev_pointer *what, int64_t timeout_ms,
    char why[TT_EXPORT_WHY]);
/* Takes back one `add` of this memory; with the last the leader unmaps it. Waits for that, but no longer than
 * this: false, and the memory must not be freed yet, unless it is known to live while others have it. */
bool tt_exporter_remove(struct tt_exporter *exporter, uintptr_t base, uint64_t id, int64_t timeout_ms);

#endif

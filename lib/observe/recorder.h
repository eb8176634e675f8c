/* SPDX-License-Identifier: BSD-3-Clause */
/* recorder.h: the flight recorder: what a rank called last, and how far each call has come.
 *
 * Every communicator has a ring of its last 256 calls in a memory file of the process. It is always on: it
 * is wanted after something went wrong, when it is too late to turn it on. A call costs two readings of a
 * counter and a few stores; no lock, no allocation, no system call. Whoever asks reads the memory as it
 * stands, also while the rank hangs: another thread (tutti_query), or another process of the same user
 * (tutti-info attach), which finds the file among the process's descriptors.
 *
 * A call is entered by the thread that makes it, as queued where it must wait for its turn; the calls of a
 * graph by who runs them, at each replay. The entry of a call that is not over is never given to another. So
 * a queue of more than 256 calls leaves the later ones without; such a call is noted, when it runs, in one
 * spare entry behind the ring. */
#ifndef TT_RECORDER_H
#define TT_RECORDER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "tutti.h"

struct tt_call;
struct tt_cause;
struct tt_entry;
struct tt_recorder;

tutti_status tt_recorder_open(int n, int rank, const char *name, struct tt_recorder **recorder);
/* Opens an entry for a communicator that is being made since that moment; NULL if there is no memory. The
 * entry has no calls. Its owner closes it when the communicator is open, or could not be made. n is 0
 * while n and rank are not known. */
struct tt_recorder *tt_recorder_open_init(int n, int rank, const char *name, uint64_t since_ticks);
void tt_recorder_wait(struct tt_recorder *recorder, const char *what); /* what that waits for */
void tt_recorder_close(struct tt_recorder *recorder);
/* What tells this communicator from others of its name; the same on all ranks. */
void tt_recorder_identify(struct tt_recorder *recorder, uint64_t id);

/* The call is made, and waits for its turn. By the thread that uses the communicator. */
struct tt_entry *tt_recorder_queue(struct tt_recorder *recorder, const struct tt_call *call);
/* The call runs, as this operation. A call that was not queued is entered now. */
struct tt_entry *tt_recorder_start(
    struct tt_recorder *recorder, const struct tt_call *call, unsigned algorithm, uint64_t sequence);
void tt_entry_end(struct tt_entry *entry, bool done);
/* It is done, so soon that the clock is not worth reading. */
void tt_entry_pass(struct tt_entry *entry);
/* A call that was queued will not run; nothing if it did. */
void tt_entry_drop(struct tt_entry *entry);
/* Nothing moved for so long, and this peer is waited for (TT_NONE: nobody). */
void tt_entry_wait(struct tt_entry *entry, int32_t peer, int64_t stalled_ms);

/* From now on calls are also entered by another thread, which runs those of graphs. */
void tt_recorder_share(struct tt_recorder *recorder);

/* The communicator has ended: keep why, and tell the last calls: to the file that TUTTI_RECORDER_FILE names,
 * and to the log; as an error where this rank found the cause. */
void tt_recorder_fail(struct tt_recorder *recorder, const struct tt_cause *cause);

/* Answers in words, or one line of JSON for each communicator. Any thread, any moment. */
void tt_recorder_put(struct tt_text *t, const struct tt_recorder *recorder, bool json);
/* Of all communicators of a process of this user; false, with the thread's last error set, if that cannot be
 * had. */
bool tt_recorder_attach(struct tt_text *t, int64_t pid, bool json);

#endif

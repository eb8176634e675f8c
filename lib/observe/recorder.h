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
/* Writes what that communicator waits for. */
void tt_recorder_wait(struct tt_recorder *recorder, const char *what);
void tt_recorder_close(struct tt_recorder *recorder);
/* Sets the name, which is not known before ranks have met, and the id that tells this communicator from
 * others of its name; it is the same on all ranks. */
void tt_recorder_identify(struct tt_recorder *recorder, uint64_t id, const char *name);

/* Enters a call that is made now and waits for its turn. Called by the thread that uses the communicator. */
struct tt_entry *tt_recorder_queue(struct tt_recorder *recorder, const struct tt_call *call);
/* Notes that the call runs, as this operation. A call that was not queued is entered now. */
struct tt_entry *tt_recorder_start(
    struct tt_recorder *recorder, const struct tt_call *call, unsigned algorithm, uint64_t sequence);
void tt_entry_end(struct tt_entry *entry, bool done);
/* Notes who serves a call on a CUDA stream (enum tt_served), as far as that is known. */
void tt_entry_serve(struct tt_entry *entry, unsigned served);
/* Notes that the call is done, so soon that the clock is not worth reading. */
void tt_entry_pass(struct tt_entry *entry);
/* Notes that a call that was queued will not run; does nothing if it ran. */
void tt_entry_drop(struct tt_entry *entry);
/* Notes that nothing moved for so long, and for which peer the call waits (TT_NONE: none). */
void tt_entry_wait(struct tt_entry *entry, int32_t peer, int64_t stalled_ms);

/* Lets another thread enter calls from now on, too: the one that runs those of graphs. */
void tt_recorder_share(struct tt_recorder *recorder);

/* Keeps the cause for which the communicator has ended, and writes the last calls to the file that
 * TUTTI_RECORDER_FILE names, and to the log: as an error if this rank found the cause. */
void tt_recorder_fail(struct tt_recorder *recorder, const struct tt_cause *cause);

/* Writes the recorder as text, or as one line of JSON for each communicator. Any thread may call it at any
 * moment. */
void tt_recorder_put(struct tt_text *t, const struct tt_recorder *recorder, bool json);
/* Writes the recorders of all communicators of a process of this user; false, with the thread's last error
 * set, if they cannot be read. */
bool tt_recorder_attach(struct tt_text *t, int64_t pid, bool json);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* device.h: collectives on a device's memory, in the order of a device's stream: executor H.
 *
 *     stream:  copy slice 0 in | ready 1 | copy slice 1 in | ready 2 | wait done 1 | copy slice 0 out | ...
 *     worker:           slice 0 with the peers' workers ... done 1 | slice 1 ... done 2 | ...
 *
 * Of a long call `wait` and `copy out` are on a stream of the communicator's, enqueued in the same order; the
 * caller's waits for `done` before it overwrites operands.
 *
 * A communicator of a device has pinned memory that peers can map, and a worker, a host stream of its own. A
 * call takes its place in the worker's queue, its operands and results in cells of the pinned memory (two
 * slices of each at a time, as the executor has in flight), and enqueues the rest on the caller's stream. The
 * worker runs the host's executor, which no GPU is needed for, and never calls CUDA; so what ends a wait of a
 * stream is a thread that waits for no stream, and nothing can deadlock however few hardware queues there
 * are. Host memory is used where it lies. Faults are found where they always are: by who runs the call; every
 * work item of the worker opens its gate at its end, however it ended, and the stream goes on.
 *
 * What is enqueued is bounded: a stream whose queue is full, as CUDA's are of some 1000 pieces of work, makes
 * its caller wait with the driver's lock in hand, and other ranks of the process could not go on. So beyond
 * TT_DEVICE_ENQUEUED pieces the caller waits here, for its own oldest slice. No thread can enqueue the rest
 * later: what the caller enqueues next would have to wait for that, and where streams share a queue that wait
 * would stand before what ends it. So calls are few pieces: slices are long, and small calls of a group share
 * gates and kernels. */
#ifndef TT_DEVICE_H
#define TT_DEVICE_H
#include "base/dev.h"
#include "base/process.h"
#include "base/text.h"
#include "run/run.h"
#include "exec/prepared.h"
#include "spin/spin.h"

enum {
    TT_DEVICE_MARKS = 256,
    TT_DEVICE_ENQUEUED = 896,
    TT_DEVICE_FUSED = TT_DEVICE_ENQUEUED / 2 - 4 /* calls that share a gate, were each a copy each way */
};

struct tt_device_words { /* of a gate; each side that writes has a cache line */
    _Alignas(64) _Atomic uint32_t ready;
    _Atomic uint32_t over; /* by a leader's kernels */
    _Atomic uint32_t drained;
    _Alignas(8) uint8_t factor[8];
    _Alignas(64) _Atomic uint32_t done;
};

struct tt_device_mark { /* so many pieces of work are over when the gate's word has the value */
    uint64_t enqueued;
    const _Atomic uint32_t *done;
    uint32_t value;
};

struct tt_device_marks { /* of which there may be so many */
    uint64_t enqueued, completed; /* pieces of work */
    struct tt_device_mark ring[TT_DEVICE_MARKS];
    uint32_t first, count;
};

struct tt_device { /* of a communicator; used by who calls on it */
    struct tt_comm *comm;
    const struct tt_dev *dev;
    int number;
    void *context; /* of the device: events are of one, as streams are */
    tutti_stream worker;
    uint8_t *pinned, *pinned_seen; /* the host's address of it, and the device's */
    uint64_t
        pinned_bytes; /* first the words of gates, those of captured calls, a name, what is led, the cells */
    struct tt_device_words *words;
    uint32_t *counts; /* per gate: slices so far; behind those, 0s for who counts rounds */
    uint32_t ngates;
    uint8_t *cells;
    uint64_t cells_bytes;
    void *order_event; /* recorded at the end of the last call */
    void *fork_event; /* joins other streams: those of a group, and the next one */
    void *results; /* stream: of the results of long calls */
    struct { /* the last one that has a call of this communicator */
        uint64_t id;
        void *last; /* event: that call, for the next one there */
    } capture;
    bool ordered; /* order_event has been recorded */
    bool launches; /* its kernels are loaded, and no launch has to do that */
    struct tt_replays *replays; /* captured calls */
    struct tt_local_peers *local_peers; /* the ranks of this process */
    struct tt_spin *spin; /* of ranks that have a device each (spin/spin.h); NULL: they are not connected */
    struct tt_led *led; /* NULL: no rank leads (device_led.h) */
    struct { /* why there is none; NULL: there is */
        char *words; /* that its streams can write and wait for (device_words.c) */
        const char *leader;
    } lacks;
    struct tt_exporter **exporters; /* by rank; NULL: that rank, or nobody, maps memory of this one */
    struct {
        uint64_t calls; /* on which those have decided */
        _Atomic uint32_t looked; /* the last one of which the worker knows how it is served */
    } local;
    uint64_t operations; /* collectives so far, from first_number on */
    struct tt_prepared_cache prepared; /* for their schedules: the worker has others */

    struct tt_device_marks marks;
    struct { /* of device_watch.c, behind its lock */
        struct tt_device *next;
        struct tt_spin *spin; /* that serves; NULL: there is none, or not yet */
    } watch;
};

/* What ranks tell each other of their devices when they connect. */
struct tt_device_info {
    uint8_t arena[16]; /* that the pinned memory is in: equal at ranks of one process */
    char address[32]; /* of the device, on the bus */
    uint64_t offset; /* of the pinned memory, in the arena */
    uint64_t seen, context; /* for ranks of one process */
    struct tt_process process;
    uint64_t present; /* 0: this rank has no device */
};

/* Where the system tells which cores are near a device; tests have it elsewhere. */
extern const char *tt_device_sysfs;

/* The device that these settings give a communicator; -1: none. */
tutti_status tt_device_resolve(const struct tt_settings *settings, int *number);
/* A thread that makes a communicator for another one has that one's device: asked for there, and adopted here
 * before anything else. -1: the settings name a device, or no device is current. */
int tt_device_to_adopt(const struct tt_settings *settings);
tutti_status tt_device_adopt(const struct tt_settings *settings, int device);
/* Returns how long slices are where they have to go to a device and back, among n ranks. */
uint64_t tt_device_slice_bytes(int n);
/* Makes slices that long, unless the settings say otherwise. Rank 0 calls it for all. */
tutti_status tt_device_settings(struct tt_settings *settings, int n);
/* Give the communicator its device, if it is to have one. Not while streams of the process wait. */
tutti_status tt_device_open(struct tt_comm *comm);
void tt_device_close(struct tt_comm *comm);
/* Waits until the streams have passed the calls that are enqueued, as long as a call may wait, and a moment
 * for the rest of what the communicator does. False: there is still something: a call that has come to its
 * deadline, a replay that waits, a call on a stream of the host; or the communicator has ended. */
bool tt_device_flush(struct tt_comm *comm);
/* Waits until nothing of the communicator is queued, enqueued or reached by a replay. False: the time has
 * passed, or the communicator has ended, before. */
bool tt_device_await(struct tt_comm *comm, int64_t timeout_ms);

/* The device becomes the thread's current one, which names default streams and what addresses are; and what
 * was current before becomes so again. */
tutti_status tt_device_enter(const struct tt_device *device, int *before);
void tt_device_leave(const struct tt_device *device, int before);

/* Fails unless the device can read the operator's scalar, by INVALID_ARGUMENT, or by UNSUPPORTED if there is
 * no device. */
tutti_status tt_device_check_scalar(
    const struct tt_comm *comm, const char *name, const struct tt_operator *o);
/* What an argument of a call points to, and of what kind it is; fails, by INVALID_ARGUMENT, unless the
 * current device can have all of it, or it is ordinary memory. */
struct tt_device_span {
    const char *call, *argument;
    const void *pointer;
    uint64_t bytes;
};
tutti_status tt_device_classify(
    const struct tt_device *device, struct tt_device_span span, enum tt_dev_kind *kind);
/* The same of memory that calls of the communicator are to have. */
tutti_status tt_device_check_memory(
    const struct tt_device *device, const char *call, const void *ptr, uint64_t bytes);
/* Checks what concerns the device in a call on a CUDA stream. */
tutti_status tt_device_check(struct tt_call *call);
/* Checks a call without a CUDA stream, of a communicator with a device: it may have host memory only. */
tutti_status tt_device_check_host(const struct tt_call *call);
/* Checks a call of a communicator that has no device but is wary: UNSUPPORTED where only a device can
 * read. */
tutti_status tt_device_check_absent(const struct tt_call *call);
/* Checks a call of a program that starts in one of these ways: its buffers are looked at again. */
tutti_status tt_device_check_kept(const struct tt_call *call);
/* Enqueues calls that are checked, all on CUDA streams. */
tutti_status tt_device_submit(const struct tt_batch *batch);
/* Finds the capture that all streams of the batch are in, or none (device_capture.c); fails if they are
 * not in the same, or if a call must not be captured. */
tutti_status tt_device_find_capture(const struct tt_batch *batch, struct tt_dev_capture *capture);

/* "L", "W", "S" or "H": what serves collectives on its streams, where it can; and why, of one of so many
 * bytes. */
const char *tt_device_executor(const struct tt_comm *comm);
/* This rank is about to end it for itself. False: it cannot, as kernels of other devices may read its buffers
 * (tt_spin_goes_alone). */
bool tt_device_goes_alone(const struct tt_comm *comm);
/* What its communicator has of the device's memory, for itself. */
uint64_t tt_device_bytes(const struct tt_comm *comm);
/* Return what a collective of so many bytes, or this call, is predicted to take on streams of the device, in
 * femtoseconds, by the way that would serve it. */
uint64_t tt_device_price(const struct tt_comm *comm, enum tt_collective collective, uint64_t bytes);
uint64_t tt_device_call_price(const struct tt_call *call);
void tt_device_why(
    const struct tt_comm *comm, enum tt_collective collective, uint64_t bytes, struct tt_text *text);

/* The communicator ends with this, and with the thread's last error. */
void tt_device_fail(struct tt_comm *comm, tutti_status status);

/* Find out whether streams of the device, which is current, can write words of its pinned memory and wait for
 * them, and set `lacks.words` if not (device_words.c): by what is known, before anything is made; and by a
 * trial, with memory and events. Fail by UNSUPPORTED where a stream of it has never ended. */
tutti_status tt_device_know_words(struct tt_device *device, const struct tt_dev_facts *facts);
tutti_status tt_device_try_words(struct tt_device *device);
/* Fails by UNSUPPORTED if it cannot serve these ranks without words. */
tutti_status tt_device_check_words(
    const struct tt_comm *comm, const struct tt_device_info *infos, size_t stride);
/* For one that lacks words: the same of a call, as far as this rank knows, with the device current; and fails
 * so, with the reason why no kernel does the call. */
tutti_status tt_device_check_wordless(const struct tt_call *call);
tutti_status tt_device_need_words(const struct tt_device *device, const char *call, const char *why);
/* Enqueues that a word of the pinned memory gets this value: by the stream, or, where that cannot write
 * words, by a kernel, which counts its blocks in `blocks_over`. */
enum tt_dev_error tt_device_tell(const struct tt_device *device, void *stream, _Atomic uint32_t *word,
    uint32_t value, uint32_t *blocks_over);

/* The device has failed: so has the communicator, at all ranks. After the error TT_DEV_BROKEN, or like it. */
tutti_status tt_device_broken(const struct tt_device *device);
/* A thread of the process looks whether that is so, from begin to end (device_watch.c). */
tutti_status tt_watch_begin(struct tt_device *device);
void tt_watch_spin(struct tt_device *device); /* and at its kernels that meet, which serve from now on */
void tt_watch_end(struct tt_device *device);
/* How many places of a device kernels that wait may have, of all communicators of the process; NULL: that is
 * not counted. */
_Atomic uint32_t *tt_watch_places(int device);
/* True if the processor can read both ends of this range, or if nobody may ask. */
bool tt_watch_is_readable(const void *pointer, uint64_t bytes);
/* Fails, and so do the communicators of these calls, if host memory that they use is gone. */
tutti_status tt_watch_memory(const struct tt_batch *batch);

/* Notes that all that was enqueued so far is over when this word has the value. */
void tt_device_mark(struct tt_device *device, const _Atomic uint32_t *done, uint32_t value);
/* Waits while with so many pieces more a device would have more work than it may, or there is no room for so
 * many marks. */
void tt_device_throttle(struct tt_device *device, uint32_t pieces, uint32_t marks);
/* It may have so many pieces more now. */
bool tt_device_has_room(struct tt_device *device, uint32_t pieces);

/* Calls that share a gate (device_fuse.c). */
struct tt_span { /* of addresses; as long as 0: none */
    uintptr_t begin, end;
};
struct tt_fuse {
    int count; /* calls that share the last gate */
    uint64_t used[2]; /* bytes of cells, of operands and of results */
    uintptr_t low, high; /* all results lie between */
    struct tt_span results[TT_DEVICE_FUSED];
};
/* The next call shares its gate with none before it. */
void tt_fuse_begin(struct tt_fuse *fuse);
/* True if this call, of these operands and results, shares the gate of the one before. Sets where its cells
 * begin among `room` bytes for each. */
bool tt_fuse_joins(struct tt_fuse *fuse, const struct tt_span spans[2], uint64_t room, uint64_t offsets[2]);

/* The device's address of what lies in the pinned memory. */
static inline void *tt_device_seen(const struct tt_device *device, const void *at)
{
    return device->pinned_seen + ((const uint8_t *)at - device->pinned);
}

/* Calls in graphs (device_capture.c). `open` makes the worker, and `close` ends it; true: graphs remain that
 * have the worker, this part of the pinned memory and the order event now. `live`: graphs have calls; `run`:
 * the device has reached one, or the worker runs it. */
tutti_status tt_replays_open(struct tt_device *device);
struct tt_arena_share;
bool tt_replays_close(struct tt_device *device, struct tt_arena_share *pinned);
bool tt_replays_live(const struct tt_device *device);
bool tt_replays_run(const struct tt_device *device);
/* Waits until no captured call runs. The worker may still be at the end of one that the stream has passed. */
void tt_replays_await(const struct tt_device *device);
/* The calls of one communicator that are captured together. They belong to the graph once that retains them,
 * and are dropped before, or never. */
struct tt_captured;
tutti_status tt_captured_create(struct tt_comm *comm, uint64_t capture, struct tt_captured **captured);
void tt_captured_drop(struct tt_captured *captured);
/* The gate of the next call that has this one; and whether so many slices are all of these calls there. */
struct tt_gate tt_captured_gate(struct tt_captured *captured, uint32_t gate, uint32_t slices);
bool tt_captured_ends(const struct tt_captured *captured, uint32_t gate, uint32_t slices);
tutti_status tt_captured_add(struct tt_captured *captured, const struct tt_call *call);
enum tt_dev_error tt_captured_retain(struct tt_captured *captured, void *graph);
/* Enqueue on the stream of these calls what comes before the first and after the last of them. */
enum tt_dev_error tt_captured_enter(struct tt_captured *captured, struct tt_device *device, void *stream);
enum tt_dev_error tt_captured_leave(struct tt_captured *captured, struct tt_device *device, void *stream);

/* Zeroed memory of the thread's device, which other processes can be given (device_memory.c); and whether
 * `ptr` is the start of some: then *status tells how freeing it went. */
tutti_status tt_device_memory_alloc(size_t bytes, void **ptr);
bool tt_device_memory_free(void *ptr, tutti_status *status);
/* True if such memory starts there. */
bool tt_device_memory_has(const void *ptr);
/* Zeroes memory of the current device, which has what others left there, and waits until that is done. */
enum tt_dev_error tt_device_memory_clear(const struct tt_dev *dev, void *memory, size_t bytes);

/* Memory of the user's that calls will use (device_memory.c): what can be handed to the leader is. Fails by
 * INVALID_ARGUMENT where a call would. Both may wait as allocation does, but not for good. */
struct tt_device_registration {
    bool counts; /* something was handed over */
    uintptr_t base;
    uint64_t id;
};
tutti_status tt_device_register(
    struct tt_device *device, const void *ptr, size_t bytes, struct tt_device_registration *registration);
void tt_device_deregister(struct tt_device *device, const struct tt_device_registration *registration);
/* Where that rank's device has these bytes, as an address of its process; NULL: it does not. */
void *tt_device_address_at(struct tt_device *device, void *ptr, size_t bytes, int rank);

/* What this rank's kernels of several devices work with (spin/spin.h). */
struct tt_spin_setup tt_device_spin_setup(const struct tt_device *device);

/* Gates: 0 is of collectives, and messages have one for each peer and direction. */
static inline uint32_t tt_device_gate(int peer, bool receives)
{
    return 1 + 2 * (uint32_t)peer + receives;
}

/* Ranks of one process, on whatever devices (device_local_peers.c), behind one lock. Join when connected. */
tutti_status tt_local_peers_join(struct tt_comm *comm);
/* This rank no longer calls; and, when its worker does no more, it no longer has what ranks share. `drained`:
 * nor has its stream. */
void tt_local_peers_leave(struct tt_comm *comm);
void tt_local_peers_free(struct tt_device *device, bool drained);
/* What all ranks of the communicator share, if all are here and on one device (device_local.c); else NULL. */
struct tt_local_kernel *tt_local_peers_kernel(const struct tt_comm *comm);
/* Why there is none of that. */
const char *tt_local_peers_why_not(const struct tt_comm *comm);
/* The place for what ranks of several devices share in this process; NULL: this one has not joined. */
tt_spin_slot *tt_local_peers_slot(const struct tt_device *device);
/* What this rank has for messages with ranks of its process and device (device_pairs.c); NULL: nothing. */
struct tt_pairs *tt_local_peers_pairs(const struct tt_comm *comm);
/* Who waits for what another rank of the process does sleeps on it. */
struct tt_doorbell *tt_local_peers_bell(const struct tt_comm *comm);
struct tt_rendezvous { /* of a call */
    const struct tt_gate *gate;
    uint64_t operation; /* of a collective: its number, from 1 + first_number on */
    int peer; /* of a message; TT_NONE: a collective */
    bool receives;
};
/* `tell` says that so many slices of this rank are in; `await` waits until as many of all others are. */
void tt_local_peers_tell(struct tt_comm *comm, const struct tt_rendezvous *rendezvous, uint32_t slices);
/* True if that rank is in this process, and on this rank's device. */
bool tt_local_peers_share(const struct tt_comm *comm, int rank);
tutti_status tt_local_peers_await(
    struct tt_comm *comm, const struct tt_rendezvous *rendezvous, uint32_t slices);
/* As many of all others are, of a collective. */
bool tt_local_peers_are_there(
    const struct tt_comm *comm, const struct tt_rendezvous *rendezvous, uint32_t slices);
/* `await`, of one rank. */
tutti_status tt_local_peers_await_one(
    struct tt_comm *comm, const struct tt_rendezvous *rendezvous, int rank, uint32_t slices);

/* What is moved of a buffer: IN to its cells, or OUT from its cells. */
struct tt_device_move {
    const struct tt_layout *layout;
    struct tt_space space; /* the user's buffer */
    uint8_t *cells; /* as the device sees them */
    uint64_t stride; /* 0: the cells lie as the chunks do */
    struct tt_part chunks;
    bool back; /* from the cells */
};
/* Where the user's buffer has these chunks, of a call that lies in one piece. */
struct tt_span tt_device_span(const struct tt_device_move *m);

#endif

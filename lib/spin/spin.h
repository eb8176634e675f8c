/* SPDX-License-Identifier: BSD-3-Clause */
/* spin.h: collectives of ranks that have a device each: executor S.
 *
 *     rank 0:  ... | kernel | ...        each on its rank's stream; they wait for each other by polling
 *     rank 1:      ... | kernel | ...    (kernels/cuda/cuda_direct.h)
 *
 * Each rank has a pad on its device, which all others have mapped. A call is one kernel on each rank's
 * stream, or several of a long call, and nothing else: no stream waits for a processor. What ranks do is
 * the same on all, because it follows from what all know: the call, the settings, and what they agreed on
 * when they connected. Memory of the host the stream has copied to pinned cells before the kernel, and from
 * there after it; such a rank has a kernel for each part that fits the cells, and one whose device reaches
 * its buffers has one for all of the call.
 *
 * A call stands in the queue of the rank's worker all the same, which numbers it, records it, compares it
 * with those of the others, and watches the deadline. A captured call is the graph's alone: its kernels
 * count on with each replay, and the thread that watches devices sees whether they move.
 *
 * A kernel stores into its own rank's buffers and into pads, and into nothing else. In calls that do not go
 * by packets it reads the other ranks' buffers where they are, if all ranks' are mapped (spin_places.c): a
 * kernel that has told where its rank's are is over when nobody reads them any more, also where it leaves
 * (tests/proof/model_direct.py). So a rank has its buffers back when its own kernel is over; and a pad is
 * freed when no kernel of another rank can reach it any more: within a process by the last rank that
 * leaves, and else by the last process that has it mapped.
 *
 * This room needs nothing of lib/device: what it works with is handed in (struct tt_spin_setup). */
#ifndef TT_SPIN_H
#define TT_SPIN_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/dev.h"
#include "base/process.h"
#include "kernels/cuda/cuda_direct.h"
#include "run/run.h"
#include "segment/importer.h"

struct tt_exporter;
struct tt_spin_home;

enum { TT_SPIN_RANKS = TT_FUSED_RANKS, TT_SPIN_WHY = 240 };

/* What ranks agree on when they connect, one after the other: each has a pad that can be mapped; each has
 * handed it to all processes; each has found all pads; its kernels are launched, and have met the others'. */
enum tt_spin_phase {
    TT_SPIN_MADE,
    TT_SPIN_HANDED,
    TT_SPIN_FOUND,
    TT_SPIN_LAUNCHED,
    TT_SPIN_TRIED,
    TT_SPIN_PHASES
};

enum { TT_SPIN_UNDECIDED, TT_SPIN_YES, TT_SPIN_NO }; /* votes */

/* What all ranks can read of one, in its pinned memory. */
struct tt_spin_row {
    struct tt_direct_words words; /* of its kernels */
    /* Told before ranks connect. */
    _Atomic uint32_t blocks; /* that a kernel may have; 0: why[] tells what is in the way */
    /* Told while they do. */
    char why[TT_SPIN_WHY]; /* of a vote against */
    struct tt_import_address importer;
    struct {
        uint32_t key; /* by which the importer of each rank of another process knows this one's pad */
        uint64_t offset;
    } handed[TT_SPIN_RANKS];
    _Atomic uint32_t vote[TT_SPIN_PHASES];
    _Atomic uint32_t decided[TT_SPIN_PHASES]; /* of rank 0's row: by whoever is first, */
    _Atomic uint32_t told[TT_SPIN_PHASES]; /* who tells it to each rank in its own row */
    /* The calls that this rank's worker has come to, by the last bit of their numbers: no worker is more than
     * one ahead of another. */
    struct {
        _Alignas(64) _Atomic uint64_t call; /* written last */
        uint64_t signature;
    } here[2];
};

/* A place for what ranks of one communicator and process share, NULL at first. */
typedef _Atomic(struct tt_spin_home *) tt_spin_slot;

/* What lib/device hands in of a rank. */
struct tt_spin_setup {
    struct tt_comm *comm;
    const struct tt_dev *dev;
    int device; /* its number, which is current in all calls but where it says otherwise */
    struct tt_spin_row *row; /* in pinned memory; and by the device's address */
    void *row_seen;
    uint8_t *cells[2], *cells_seen[2]; /* pinned, of IN and of OUT: what no other call uses meanwhile */
    uint64_t cell_bytes; /* of each */
    _Atomic uint32_t *places_taken; /* of the device, by this process; NULL: that is not counted */
    tt_spin_slot *slot; /* when ranks connect */
    bool (*given)(const void *base); /* tutti_mem_alloc's: mapped by all devices of the process */
};
struct tt_spin_peer { /* of each rank, as they told each other */
    bool present; /* it has a device */
    const char *address; /* of that, on the bus */
    const uint8_t *arena; /* tells its process, */
    uint64_t offset; /* and in which its row lies there */
    const struct tt_process *process;
};

/* What a rank hands over to other processes. Graphs have it longer than the communicator. */
struct tt_spin_hands {
    pthread_mutex_t lock;
    int users; /* the communicator, and captured calls */
    struct tt_exporter *exporters[TT_SPIN_RANKS]; /* NULL: there is none, or no more */
};

struct tt_spin {
    struct tt_meeting meeting; /* first */
    struct tt_spin_setup its;
    struct tt_comm *comm;
    const struct tt_dev *dev;
    int n, me; /* n is 0 if it was refused before ranks connected */
    bool serves;
    char why[TT_SPIN_WHY]; /* it does not */
    uint32_t blocks; /* of a kernel, on all ranks */
    struct tt_spin_row *rows[TT_SPIN_RANKS];
    struct tt_arena *arenas[TT_SPIN_RANKS]; /* of other ranks */
    bool same_process[TT_SPIN_RANKS];
    bool one_process, maps; /* all ranks are in one; kernels tell each other where buffers are */
    struct tt_process_watch processes[TT_SPIN_RANKS]; /* of other ranks */
    struct tt_spin_home *home; /* the pads of this process's ranks */
    struct tt_importer *importer; /* of the others' */
    struct tt_spin_hands *hands; /* of the own one, and of buffers, to them */
    struct tt_pad *pads[TT_SPIN_RANKS]; /* as this rank's device reaches them */
    void *scratch; /* of the device: a factor */
    void *trial; /* stream, while ranks connect */
    uint64_t made; /* kernels that have numbers so far */
    _Atomic bool closing; /* the communicator is about to go */
    _Atomic bool placed; /* kernels tell where its buffers are */
    _Atomic uint64_t numbers_over; /* of kernels: what those up to this used, nobody reads any more */

    /* Of the worker, of the call under way: */
    uint64_t calls; /* that it has begun, that one with them */
    bool told;
    uint64_t begun, over; /* as last seen */
    /* Of the thread that watches: the first epoch of a replay that is under way, and since when. */
    struct {
        uint64_t epoch;
        int64_t since_ns, ended_ns; /* and since when its communicator has ended */
        bool told_late; /* the log has said whom it waits for */
    } watched;
};

/* --- Connecting. */

/* Before ranks connect: writes what others need to know. `tt_spin_forget` if they never do. */
void tt_spin_tell(const struct tt_spin_setup *setup);
void tt_spin_forget(const struct tt_spin_setup *setup);
/* When they have exchanged addresses. What comes of it is closed by `tt_spin_free`, also after an error. */
tutti_status tt_spin_connect(
    const struct tt_spin_setup *setup, const struct tt_spin_peer *peers, struct tt_spin **spin);
/* When all are connected: makes, maps and tries what they need, of so many ranks of one communicator that
 * this thread makes. Any failure is all ranks'. It may wait as allocation does. */
void tt_spin_open(struct tt_spin *const *spins, int count);

/* The communicator is about to go: no kernel of this rank waits for others any more. Returns when the one
 * that was under way is over, or after a second. */
void tt_spin_end(struct tt_spin *spin);
/* Nothing is handed over any more, and what was by a handle is unmapped, or some seconds have passed. */
void tt_spin_hand_back(struct tt_spin *spin);
/* `drained`: no kernel of this rank is out, nor comes one; else what those use stays. */
void tt_spin_free(struct tt_spin *spin, bool drained);

/* Blocks of kernels that wait: those of all open communicators fit on a device at once. */
uint32_t tt_spin_take_blocks(const struct tt_spin_setup *setup);

/* What is handed over, by another user; and by one less. */
struct tt_spin_hands *tt_spin_hands_make(void);
void tt_spin_hands_leave(struct tt_spin_hands *hands);

/* The ranks of one communicator in this process; and whoever has the slot. `leave`: the last one frees all
 * pads, unless some rank was not drained. */
struct tt_spin_home *tt_spin_home_join(tt_spin_slot *slot, int n);
void tt_spin_home_leave(struct tt_spin_home *home, const struct tt_dev *dev, bool drained);
struct tt_dev_segment *tt_spin_home_pad(struct tt_spin_home *home, int rank);

/* Sets what its worker does. */
void tt_spin_set_meeting(struct tt_spin *spin);
/* Kernels of all ranks meet, both ways, and bring each other's words: launches this rank's; and, when all
 * ranks have, says whether all came. False: `why`. Then, or without a verdict, `end`. */
bool tt_spin_trial_launch(struct tt_spin *spin, char why[TT_SPIN_WHY]);
bool tt_spin_trial_judge(struct tt_spin *spin, char why[TT_SPIN_WHY]);
void tt_spin_trial_end(struct tt_spin *spin);

/* --- Calls. */

/* True if kernels can do such a collective; and if they do this call, on all ranks alike. */
bool tt_spin_has(enum tt_collective collective);
bool tt_spin_serves(const struct tt_spin *spin, const struct tt_call *call);

struct tt_spin_call {
    const struct tt_call *call;
    bool reached[2]; /* by the device: the buffer */
    uint64_t first; /* the number of its first kernel; 0: it is captured */
};
/* How many kernels it is, of this rank. `begin` gives them numbers, and sets the gate; `take_back` the last
 * call that got some. */
uint32_t tt_spin_kernels(const struct tt_spin *spin, const struct tt_call *call, const bool reached[2]);
void tt_spin_begin(struct tt_spin *spin, uint32_t kernels, struct tt_gate *gate);
void tt_spin_take_back(struct tt_spin *spin, uint32_t kernels);
/* Enqueues one of its kernels, and the copies that it needs; *pieces of work are added. */
enum tt_dev_error tt_spin_enqueue(
    struct tt_spin *spin, const struct tt_spin_call *call, uint32_t kernel, void *stream, uint64_t *pieces);
/* True if its kernel may do other calls of that kind, too, of one type and operation: a small sum. Other
 * ranks may list other ones, or none. `enqueue_list`: that kernel, for so many calls, whose numbers follow
 * each other. */
bool tt_spin_lists(const struct tt_spin *spin, const struct tt_call *call, const bool reached[2]);
enum tt_dev_error tt_spin_enqueue_list(
    struct tt_spin *spin, const struct tt_spin_call *calls, int count, void *stream, uint64_t *pieces);
/* Sets where other ranks reach the buffers of a call that is told so; `last`: the number of its last
 * kernel; 0: it is captured, on this stream. */
enum tt_dev_error tt_spin_place(struct tt_spin *spin, const struct tt_spin_call *call, uint64_t last,
    void *stream, struct tt_direct_params *p);
/* This rank is to leave for itself: its kernels leave from now on. False: one is out that may have told
 * others where the rank's buffers are, so theirs must leave, too: it has to end on all ranks. */
bool tt_spin_goes_alone(struct tt_spin *spin);
/* For people: "in place, where ..." */
const char *tt_spin_says_where(const struct tt_spin *spin);
/* The low half of the number of the last kernel that is over, which the host may watch. */
const _Atomic uint32_t *tt_spin_over(const struct tt_spin *spin);

/* Ten times a second, by a thread that may wait for nothing: lets kernels go whose communicator has ended,
 * and ends one of which a replay has waited too long. */
void tt_spin_watch(struct tt_spin *spin);

/* Of words that kernels of devices write. */
static inline uint64_t tt_spin_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
/* Kernels of this rank may have others wait, and wait for them. */
static inline bool tt_spin_is_out(const struct tt_direct_words *words)
{
    uint64_t done = tt_spin_load(&words->done), left = tt_spin_load(&words->left);
    return tt_spin_load(&words->begun) > (done > left ? done : left);
}

#endif

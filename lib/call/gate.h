/* SPDX-License-Identifier: BSD-3-Clause */
/* gate.h: where a stream of a device and the thread that runs a call meet: two words in pinned memory.
 *
 * The stream copies the operands of slice z to where the thread can read them and then makes `ready` z + 1;
 * the thread runs the slice, makes `done` z + 1, and the stream, which waits for that, copies the results
 * back. Both count on from `base`, call after call, and are compared cyclically, so a gate is never reset.
 * The factor of a pre-mul-sum comes with slice 0, if the stream has it.
 *
 * Where results have a stream of their own, that makes `drained` z + 1 when it has copied slice z back: one
 * slice's results leave while a later one's operands come in. The thread begins a slice when its operands are
 * in, and the slice that had its cells before has left them.
 *
 * Calls of one slice may share a gate. Then they run one after the other, and the last one tells that all are
 * done; the others have no `done`.
 *
 * Replays of captured calls cannot count on: their gates begin at 0 each time. Who waits for a word makes it
 * 0 again: the thread `ready`, when the call is over, and the stream `done`, when it has passed all of what
 * was captured together. So a thread tells the last slice once, as the last that it does with the gate.
 *
 * A call that a kernel does for all ranks (device_local.c) passes the gate by: neither side writes a word,
 * and the thread, which has the call in its queue all the same, waits until the kernel is over. Of a message
 * that is copied (device_pairs.c) the stream makes `ready` what it would be with all slices in.
 *
 * Where ranks have a device each, their kernels meet there, and count themselves (lib/spin): the gate has no
 * words then, and the thread waits for those of the kernels.
 *
 * Where ranks of several processes share a device, their threads meet, and the kernel of one of them does the
 * slice (device_led.c). Such a slice counts two at the gate: `ready` is one more when the operands are there;
 * `done` is one more when the kernel may begin, which only its own stream waits for, and two when the results
 * are there. Of a message the receiver's kernel does it. */
#ifndef TT_GATE_H
#define TT_GATE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ready.h"
#include "tutti.h"

/* How a call of ranks of one process on one device is served: the last of them that calls decides. */
struct tt_decision {
    _Atomic uint64_t call; /* that it is about; written last */
    uint32_t over; /* the word `over`, when the kernel, or copy, that does all of the call has ended */
    bool by_kernel; /* or by a copy */
};

/* Where the thread that has such a call in its queue finds that. */
struct tt_local_gate {
    const struct tt_decision *decision; /* NULL: nothing is decided so. Of a later call only after a look */
    const _Atomic uint32_t *over;
    uint64_t call;
    _Atomic uint32_t *looked; /* of a collective: the low half of `call`, once it has looked */
};

/* Where a rank has the operands, or the results, of a call that a leader's kernel does. */
enum tt_place_kind {
    TT_PLACE_NONE, /* it has none */
    TT_PLACE_DIRECT, /* `offset` is an address in the leader's process */
    TT_PLACE_CELL, /* `offset` counts from the rank's pinned memory */
    TT_PLACE_SEGMENT, /* from what the leader has mapped by `key` */
};
/* What a place has at a time: all slices of a group, where places of all ranks have that, are done at once.
 * */
enum tt_place_holds { TT_HOLDS_SLICE, TT_HOLDS_GROUP, TT_HOLDS_ALL };
struct tt_led_side {
    uint32_t kind, key;
    uint64_t offset; /* of the first byte that it has */
    enum tt_place_holds holds;
    uint64_t start, bytes; /* this side is so many bytes of the collective's vector, from here on */
    uint8_t *staged; /* the stream copies to and from here, by the device's address; NULL: nothing does */
    uint8_t *cell, *host; /* or the thread does, for this is ordinary memory of the host; NULL: it does not */
};

/* The slices of a call that a leader's kernel does, and who runs them. */
struct tt_meeting;
struct tt_gate;
struct tt_led_gate {
    struct tt_meeting *meeting; /* NULL: it is none of those */
    struct tt_led_side sides[2]; /* of IN, of OUT */
    uint64_t slice_bytes; /* of the collective's vector */
    uint32_t group; /* so many slices are one */
    uint64_t call; /* its number among those, from 1 on; 0: it is captured */
    bool has_factor; /* of a scaled sum; else, it comes with `ready` */
    uint8_t factor[8];
    _Atomic uint32_t *over; /* written by the leader's kernels, as `done` is counted */
};

/* A message that its sender has for a kernel of the receiver's, as the receiver can read it. */
struct tt_offer {
    _Atomic uint64_t message; /* its number, from 1 on; written last */
    uint64_t bytes;
};

enum tt_meeting_way { TT_MEET_AT_LEADER, TT_MEET_ON_DEVICES };
struct tt_meeting { /* of a communicator's collectives; or of messages of two ranks, one way */
    enum tt_meeting_way way;
    /* `begin` a call; `advance` it: true, something moved. `over`: it is done; `held`: it waits for a
     * device; `late`: the rank that it waits for, also where a device waits for that; `wrong`: one whose
     * call is another one, or, by the thread's last error, whose memory the leader cannot reach. */
    void (*begin)(struct tt_meeting *meeting);
    bool (*advance)(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature);
    /* This call has ended. If the communicator has, too: returns when no kernel stores into this rank's
     * memory any more. */
    void (*leave)(struct tt_meeting *meeting, const struct tt_gate *gate);
    bool over, held;
    bool served; /* its kernels have ended it well: a rank that has gone since is not missed */
    int32_t late, wrong;
    tutti_status why; /* of `wrong` */
    bool pair; /* messages of two ranks */
    uint64_t message; /* set by who begins one: its number, from 1 on */
    uint64_t wrong_bytes; /* of a message that is another one */
};

/* Kernels of several devices that do a call together (lib/spin): their numbers, of this rank. */
struct tt_spin_gate {
    const uint64_t *entered; /* the number of the last that has begun; NULL: it is no such call */
    uint64_t first, last;
};

struct tt_gate {
    _Atomic uint32_t *ready; /* written by the stream */
    _Atomic uint32_t *done; /* by the thread; NULL: a later call tells */
    _Atomic uint32_t *drained; /* by the stream of the results; NULL: there is one stream, in order */
    uint8_t *factor; /* by the stream, before it writes `ready`; one element */
    uint32_t base;
    uint32_t slices;
    bool captured;
    struct tt_local_gate local;
    struct tt_led_gate led;
    struct tt_spin_gate spin;
    /* Of a message between processes of one device: those of its pair and direction run one by one. A
     * receiver that awaits it by the host's memory finds in `offer` if the sender has it otherwise. */
    bool alone;
    const struct tt_offer *offer; /* NULL: there is none */
};

/* Who serves a call on a CUDA stream: the host's executor, with the bytes staged in its memory (H); one
 * kernel, or copy, for ranks of one process (L); a leader's kernel (W); or a kernel of each device (S). */
enum tt_served {
    TT_SERVED_UNKNOWN,
    TT_SERVED_HOST,
    TT_SERVED_LOCAL,
    TT_SERVED_LED,
    TT_SERVED_DIRECT,
    TT_SERVED
};
static inline char tt_served_letter(enum tt_served served)
{
    return "-HLWS"[served];
}

/* May slice z begin? */
static inline bool tt_gate_is_open(const struct tt_gate *g, uint32_t z)
{
    if (g->spin.entered != NULL)
        return __atomic_load_n(g->spin.entered, __ATOMIC_ACQUIRE) >= g->spin.first;
    if ((int32_t)(atomic_load_explicit(g->ready, memory_order_acquire) - g->base - z) <= 0)
        return false;
    uint32_t left = g->base + z + 1 - TT_WINDOW; /* the slice that had its cells */
    return g->drained == NULL ||
           (int32_t)(atomic_load_explicit(g->drained, memory_order_acquire) - left) >= 0;
}

static inline bool tt_gate_is_decided(const struct tt_gate *g)
{
    const struct tt_decision *d = g->local.decision;
    return d == NULL || atomic_load_explicit(&d->call, memory_order_acquire) == g->local.call;
}

/* Unknown, as long as ranks of the process have not decided. */
static inline enum tt_served tt_gate_served(const struct tt_gate *g)
{
    if (g->led.meeting != NULL)
        return g->led.meeting->way == TT_MEET_AT_LEADER ? TT_SERVED_LED : TT_SERVED_DIRECT;
    if (!tt_gate_is_decided(g))
        return TT_SERVED_UNKNOWN;
    return g->local.decision != NULL && g->local.decision->by_kernel ? TT_SERVED_LOCAL : TT_SERVED_HOST;
}

/* Has a kernel done all of the call? Asked after tt_gate_is_open: that may be of a later call then. */
static inline bool tt_gate_is_over(const struct tt_gate *g)
{
    const struct tt_decision *d = g->local.decision;
    return d != NULL && tt_gate_is_decided(g) && d->by_kernel &&
           (int32_t)(atomic_load_explicit(g->local.over, memory_order_acquire) - d->over) >= 0;
}

/* The first so many slices are done. The fence is for stores past the caches, which no release orders. */
static inline void tt_gate_tell(const struct tt_gate *g, uint32_t slices)
{
    if (g->done == NULL)
        return;
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(g->done, g->base + slices, memory_order_release);
}

/* The call has ended, however it did: the stream goes on. */
static inline void tt_gate_open(const struct tt_gate *g)
{
    if (g->led.meeting != NULL)
        g->led.meeting->leave(g->led.meeting, g);
    tt_gate_tell(g, g->slices);
}

/* All slices are done. */
static inline void tt_gate_end(const struct tt_gate *g)
{
    if (g->captured)
        atomic_store_explicit(g->ready, 0, memory_order_relaxed);
    tt_gate_tell(g, g->slices);
}

#endif

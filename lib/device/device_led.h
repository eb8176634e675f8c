/* SPDX-License-Identifier: BSD-3-Clause */
/* device_led.h: calls of ranks that several processes have on one device: executor W.
 *
 *     follower:  copy in | ready |                        wait | copy out        its own stream
 *     its worker:          ready ... here ............. left, done
 *     leader:    copy in | ready | wait | kernel, over | copy out
 *     its worker:          ready ... all here, done | over, left
 *
 * One rank leads. Its device reaches what each rank has told the leader of: memory of the leader's process,
 * pinned cells, which the leader has pinned as well, and what it has mapped of other processes. Where the
 * bytes of a call lie is each rank's own choice, call by call, and is said in its row, which all can read.
 * The workers meet by the rows; the leader's worker then says to its kernel where everybody's bytes are. So
 * no stream ever waits for another process: it waits for its own worker alone, by the words of its gate
 * (gate.h), and a worker can always let go, which no device can.
 *
 * What a kernel stores into memory that is another rank's must be over before that rank has its memory back,
 * also when something fails. So there is `turn`, which one of them takes: the leader makes it odd while a
 * kernel may be out, and who gives up makes it `cancelled`, or waits while it is odd
 * (tests/proof/model_led.py).
 *
 * A message is such a call of two ranks, which its receiver leads: its kernel fetches the bytes from where
 * the sender has them. For that each rank has its pad mapped by all other processes. A rank has several
 * messages at a time, and kernels of a stream run one after the other, so a receiver's stream says that it
 * is there only when nothing stands before its kernel: what has been let go then ends by itself
 * (tests/proof/model_fetch.py).
 *
 * Which calls go so is decided by what all ranks know, or both ends of a message. */
#ifndef TT_DEVICE_LED_H
#define TT_DEVICE_LED_H
#include "base/process.h"
#include "device/device_stage.h"
#include "exec/rectangles.h"
#include "segment/exporter.h"

enum { TT_LED_RANKS = TT_FUSED_RANKS };
#define TT_LED_CANCELLED UINT64_MAX

/* What all ranks can read of one, in its pinned memory. */
struct tt_led_row {
    /* Written by the rank's worker; `here` last: it has come to this round, the first of which is 1. */
    _Alignas(64) _Atomic uint64_t here;
    uint64_t signature; /* of the call */
    struct tt_offer offer; /* of a message; by its sender */
    uint64_t factor; /* of a scaled sum: one element */
    struct tt_led_place {
        uint32_t kind, key;
        uint64_t base; /* where byte 0 of the operands or results is, or would be */
        uint64_t from, bytes; /* of those, so many are there */
        bool whole; /* those of all slices of the group */
    } places[2];
    /* Of the leader's row: the last round that is over, and whether all of its group was; and `turn`: 2t:
     * round t has not begun; 2t + 1: its kernel may be out. `serves`: once the ranks are connected. */
    _Alignas(64) _Atomic uint64_t left;
    _Atomic uint64_t turn;
    bool whole;
    _Atomic bool serves;
    _Atomic bool handed; /* of each row: the rank has handed over what it does when it connects */
};

/* What the leader's kernels read: copied to the device before each. */
enum tt_led_kernel { TT_LED_SLICE, TT_LED_WHOLE, TT_LED_KERNELS };
struct tt_led_shared { /* in the pinned memory, behind the words */
    struct tt_led_row row;
    struct tt_led_row messages[2][TT_LED_RANKS]; /* to each rank, and from each rank */
    _Alignas(64) struct tt_bases bases[TT_LED_KERNELS];
    struct tt_import_address importer;
};

struct tt_led_pad { /* of a rank of another process than the leader's */
    uint8_t *at;
    uint32_t key; /* 0: the leader has none */
    uint64_t offset; /* in what the leader knows by that */
};

struct tt_led_calls { /* of this rank, but for captured ones: enqueued, and over, counted by the worker */
    uint64_t made;
    _Atomic uint64_t over;
};

/* What a rank has of all others of its communicator, for all that they do together. */
struct tt_led_reach {
    int n;
    uint8_t *memory[TT_LED_RANKS]; /* their pinned memory, as this process has it mapped, */
    uint8_t *seen[TT_LED_RANKS]; /* and its device */
    struct tt_arena *arenas[TT_LED_RANKS]; /* of other ranks */
    bool here[TT_LED_RANKS]; /* they are in this process */
    bool pinned[TT_LED_RANKS]; /* by this rank */
    struct tt_process_watch processes[TT_LED_RANKS]; /* of other ranks */
    struct tt_exporter *exporters[TT_LED_RANKS]; /* to other processes; NULL: there is none, or no more */
    struct tt_dev_segment pad;
    struct tt_led *messages; /* by gate; of two ranks that have no process each no `reach` is set */
    _Atomic bool closing; /* the communicator is about to go, or has gone */
    _Atomic bool broken; /* the device has failed: no kernel is waited for */

    /* Of a rank whose kernels serve others: they are its own stream's, one after the other. */
    struct tt_importer *importer;
    uint64_t rounds, rounds_over; /* of kernels, as the importer counts them */
    struct tt_bases *bases; /* pinned */
    struct tt_bases *bases_there; /* in the device's memory */
    uint32_t *blocks_over;
};

/* Ranks that meet for the kernels of one of them: all of a communicator; or the two ends of messages one way,
 * of which the receiver is the second, and leads. */
struct tt_led {
    struct tt_meeting meeting; /* first */
    struct tt_comm *comm;
    const struct tt_dev *dev;
    struct tt_led_reach *reach;
    int n, me, leader;
    int ranks[TT_LED_RANKS]; /* of the communicator */
    bool same_process[TT_LED_RANKS]; /* as the leader's */
    struct tt_led_row *rows[TT_LED_RANKS];
    uint8_t *cells; /* for operands, and behind them for results */
    uint64_t cell_bytes, pad_bytes; /* for operands, and as much for results */
    struct tt_exporter *exporter; /* to the leader; NULL: in the leader's process, or taken back */
    struct tt_led_pad pad;

    /* Of the worker. */
    const struct tt_gate *gate; /* of the call under way */
    enum { TT_LED_STREAM, TT_LED_ALL, TT_LED_KERNEL, TT_LED_LEFT } phase; /* what it waits for */
    uint32_t slice;
    uint64_t round;
    bool whole; /* the first slice of the group has done all of it */
    struct tt_led_calls calls;
    uint64_t imports; /* of the leader: the last round of the importer's that was this one's */
    _Atomic bool cancelled; /* for good */
    _Atomic uint64_t lost; /* kernels of the leader that will not run: which (tt_led_lose); 0: none */
};

/* What a rank tells the others when they connect. */
void tt_led_tell(const struct tt_device *device, struct tt_device_info *info);
/* Finds out whether these ranks can be led, and by whom. Of a leader it tries that. The ranks may call when
 * all have returned from it. */
tutti_status tt_led_connect(struct tt_comm *comm, const struct tt_device_info *infos, size_t stride);
/* The ranks are connected: hands the leader this rank's pad. Calls do without, if that fails. */
void tt_led_hand_over(struct tt_comm *comm);
/* It waits until all ranks have, or are gone, but not for good. */
void tt_led_await_handed(const struct tt_led *led);
/* A captured call will not be replayed any more, or a message is over: what it holds is let go. */
void tt_led_release(const struct tt_gate *gate);
/* No more is handed over, and what was is taken back. `drained`: no kernel of this rank is out. */
void tt_led_take_back(struct tt_led *led);
/* `drained`: no kernel of this rank is out. */
void tt_led_free(struct tt_led *led, bool drained);
/* The communicator is gone. `kept`: graphs that live have it, whose kernels skip: so they need no memory of
 * other ranks, which may have another communicator's there, pinned by that. `passed`: its stream is
 * through. */
void tt_led_close(struct tt_led *led, bool passed, bool kept);

/* True if leaders' kernels can do such a collective, or messages; */
bool tt_led_has(enum tt_collective collective);
/* who meets for this call: all ranks, or the two of a message; NULL: no kernel serves it, whatever it is; */
struct tt_led *tt_led_of(const struct tt_call *call);
/* and whether it goes so: on all ranks alike. */
bool tt_led_serves(const struct tt_call *call);
struct tt_rect_call tt_led_rects(const struct tt_call *call);
/* The sender's row of messages that this call receives; NULL: no kernel fetches such. */
const struct tt_offer *tt_led_offer(const struct tt_call *call);
/* Sets where the call's bytes are, and returns how many slices it has. */
uint32_t tt_led_place(struct tt_comm_batch *b, struct tt_staged *op);
/* Enqueues the operands of a slice, and what comes after it. */
tutti_status tt_led_enqueue_operands(struct tt_comm_batch *b, struct tt_staged *op, uint32_t slice);
tutti_status tt_led_enqueue_results(struct tt_comm_batch *b, struct tt_staged *op, uint32_t slice);
/* No more of it is enqueued. */
void tt_led_give_up(const struct tt_staged *op);
/* The same of all messages of the round that kernels fetch: the operands of its next slice (*more: another
 * one follows), and what comes after those, where this rank receives, or sends. */
tutti_status tt_led_enqueue_offers(struct tt_comm_batch *b, bool *more);
tutti_status tt_led_enqueue_fetches(struct tt_comm_batch *b, bool receives);

/* The worker's part (device_led.c). */
void tt_led_begin(struct tt_meeting *meeting);
bool tt_led_advance(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature);
void tt_led_leave(struct tt_meeting *meeting, const struct tt_gate *gate);
/* The communicator is about to go: no kernel stores into this rank's memory any more. */
void tt_led_end(struct tt_led *led);
/* The leader's kernels will not run: those of calls that are not captured from the one on that makes `over`
 * this word, for it could not be enqueued. Nobody waits for them then. */
static inline void tt_led_lose(struct tt_led *led, uint32_t word)
{
    atomic_store(&led->lost, UINT64_C(1) << 32 | word);
}

/* Who meets for messages to that rank, or from it; NULL: no kernel fetches them. */
static inline struct tt_led *tt_led_pair(const struct tt_led *led, int peer, bool receives)
{
    struct tt_led *pairs = led->reach->messages;
    struct tt_led *pair = pairs != NULL ? &pairs[tt_device_gate(peer, receives)] : NULL;
    return pair != NULL && pair->reach != NULL ? pair : NULL;
}
static inline struct tt_led *tt_led_of_gate(const struct tt_gate *gate)
{
    return (struct tt_led *)(void *)gate->led.meeting;
}
static inline uint32_t tt_led_slices(const struct tt_gate *gate)
{
    return gate->slices / 2;
}
static inline bool tt_led_is_first(const struct tt_led_gate *led, uint32_t slice)
{
    return slice % led->group == 0;
}
static inline bool tt_led_is_last(const struct tt_gate *gate, uint32_t slice)
{
    return (slice + 1) % gate->led.group == 0 || slice + 1 == tt_led_slices(gate);
}

/* So many bytes of a side are in these slices, from byte *from of the side on. */
static inline uint64_t tt_led_part(const struct tt_led_gate *led, const struct tt_led_side *side,
    uint32_t slice, uint32_t slices, uint64_t *from)
{
    uint64_t begin = slice * led->slice_bytes, end = begin + slices * led->slice_bytes;
    uint64_t most = side->start + side->bytes;
    begin = begin < side->start ? side->start : begin < most ? begin : most;
    end = end > most ? most : end;
    *from = begin - side->start;
    return end > begin ? end - begin : 0;
}

#endif

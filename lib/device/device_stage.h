/* SPDX-License-Identifier: BSD-3-Clause */
/* device_stage.h: the calls of a submission on a device: where each has its cells, its gate and its turn. */
#ifndef TT_DEVICE_STAGE_H
#define TT_DEVICE_STAGE_H
#include "device/device_local.h"
#include "run/call_layout.h"
#include "stream/stream.h"

enum { TT_NO_ROUND = INT32_MAX };

/* How a call is served: by the host; by a kernel or a copy that does all of it, as ranks decide
 * (device_local.h); by the kernels of a leader (device_led.h); or by those of all ranks' devices, which meet
 * (spin/spin.h). */
enum tt_way { TT_BY_HOST, TT_UNDECIDED, TT_ARRIVED, TT_BY_KERNEL, TT_LED, TT_SPIN };

struct tt_staged { /* one call */
    struct tt_call call; /* as the worker runs it */
    struct tt_staging staging;
    struct tt_call_layout laid;
    struct tt_part chunks[2];
    uint64_t offsets[2]; /* of its cells */
    bool packed; /* it is staged in one piece */
    /* It shares the gate of the call before, or of TT_SPIN its kernel; the next one shares its gate. */
    bool joins, followed;
    bool duplex; /* its results have a stream of their own */
    void *stream; /* the caller's */
    struct tt_rendezvous rendezvous;
    struct tt_local_call local; /* what may be one kernel's */
    enum tt_way way;
    uint32_t round;
    uint32_t in; /* slices whose operands are enqueued; */
    uint32_t launched; /* of TT_LED, by the leader: those whose kernels are enqueued, or known to be lost */
    uint32_t kernels; /* of TT_SPIN; */
    bool lists; /* its kernel may do other calls, too */
};

struct tt_comm_batch { /* the calls of one communicator */
    struct tt_comm *comm;
    struct tt_device *device;
    struct tt_work_item *item; /* for the worker */
    struct tt_position position; /* its, once it is in the worker's queue */
    struct tt_captured *captured; /* or for a graph; NULL: it is not one */
    struct tt_staged *ops;
    struct tt_staged **turns; /* the same, by their rounds */
    int calls; /* that it has; */
    int count; /* that are staged, in the end all */
    uint32_t round, slice; /* what comes next; TT_NO_ROUND: nothing */
    int begin, end; /* of the turns: those that the round has */
    struct { /* of which messages that a kernel fetches have their operands enqueued, and no more */
        int begin, end; /* of the turns */
        uint32_t slice;
    } fetched;
    int arrived; /* messages that are not decided on */
    bool forked; /* the stream of results has some that the first stream does not wait for yet */
    uint64_t enqueued; /* of the device, before; a capture is none */
};

/* Prepare a call that stands in b->ops; `by_kernel`: it is the graph's, and a kernel does it. First all calls
 * begin; then it is found which can share gates, and which have a stream of their own for results; and then
 * each gets its cells and its gate and goes into the worker's item, or the graph's. `return` takes that back
 * from one that will not run. */
tutti_status tt_stage_begin(struct tt_comm_batch *b, struct tt_staged *op, bool by_kernel);
void tt_stage_fuse(struct tt_comm_batch *b);
void tt_stage_set_duplex(struct tt_comm_batch *b);
/* True if all of them share one gate, and each is staged by itself. And none of them shares one. */
bool tt_stage_is_one_gate(const struct tt_comm_batch *b);
void tt_stage_unfuse(struct tt_comm_batch *b);
tutti_status tt_stage(struct tt_comm_batch *b, struct tt_staged *op);
/* Lays a call out again, for the arrays of a v-form stand where another one's may have come. */
tutti_status tt_stage_lay(struct tt_comm_batch *b, struct tt_staged *op);
void tt_stage_return(const struct tt_comm_batch *b, const struct tt_staged *op);
/* When all is decided: the gate of collectives counts on from the last call that used it. */
void tt_stage_count_on(const struct tt_comm_batch *b);
/* Set the rounds of all calls, and begin the first one; and begin the next. */
void tt_stage_set_rounds(struct tt_comm_batch *b);
void tt_stage_next_round(struct tt_comm_batch *b);

/* True if the calls of this round share a gate, and are so many that kernels move all of them at once; how
 * many kernels that takes; and moves their operands to the cells, or their results from there. */
bool tt_fuse_has_many(const struct tt_comm_batch *b);
uint32_t tt_fuse_launches(const struct tt_comm_batch *b);
enum tt_dev_error tt_fuse_move(struct tt_comm_batch *b, unsigned side);

/* Finds which calls share kernels of several devices: of a communicator that has the submission to itself.
 * Then enqueues the next step of a round of such calls, and advances b->begin, b->slice and b->round. */
void tt_stage_list(struct tt_comm_batch *b);
tutti_status tt_stage_spin(struct tt_comm_batch *b);

/* The stream of call i is none of the calls before it: each is joined to the first one, and forked, once. */
bool tt_stage_has_new_stream(const struct tt_comm_batch *b, int i);
/* How many events joining or forking the streams takes at most. */
uint32_t tt_stage_count_events(const struct tt_comm_batch *b);
uint32_t tt_stage_gate(const struct tt_staged *op);
/* What is moved of a buffer, but for where its cells are. */
struct tt_device_move tt_stage_move(const struct tt_staged *op, unsigned side);
/* Of the calls that share its gate the last: the one that the worker tells. */
static inline const struct tt_staged *tt_stage_last(const struct tt_staged *op)
{
    while (op->followed)
        op++;
    return op;
}

/* Enqueue the operands of a slice, and its results with the wait for them (device_move.c). */
enum tt_dev_error tt_slice_operands(struct tt_comm_batch *b, struct tt_staged *op, uint32_t slice);
enum tt_dev_error tt_slice_results(struct tt_comm_batch *b, struct tt_staged *op, uint32_t slice);
/* The first stream waits for all results that are on the other one. */
enum tt_dev_error tt_slice_join(struct tt_comm_batch *b);

#endif

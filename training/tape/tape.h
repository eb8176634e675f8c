/* SPDX-License-Identifier: BSD-3-Clause */
/* tape.h: what one rank does in one optimizer step, as a list.
 *
 * It is called a tape since checks, plans of memory and the executor all read it from one end to the other.
 * It is no record that automatic differentiation keeps: the backward part is in the graph before there is
 * one.
 *
 * lower.c writes the list from the placed graph and a pipeline schedule; check.c derives all types from it
 * anew and refuses what is wrong; memory.c gives each value its place; text.c prints it; run.c runs it. A
 * value is what one instruction writes, once, and others read. Those that `last` outlive the step. */
#ifndef TRAINING_TAPE_TAPE_H
#define TRAINING_TAPE_TAPE_H

#include "training/schedule/schedule.h"
#include "training/place/element.h"

enum tr_memory {
    TR_MEM_PARAMETER,
    TR_MEM_GRADIENT,
    TR_MEM_OPTIMIZER,
    TR_MEM_ACTIVATION,
    TR_MEM_BUFFER,
    TR_MEM_SCRATCH, /* of kernels, inside one instruction: as much as any set of them may need */
    TR_MEMORIES
};
extern const char *const tr_memory_names[TR_MEMORIES];

struct tr_value {
    int shard; /* -1: none, as of scratch and of vectors of leaves */
    int micro; /* -1: of the step */
    enum tr_memory memory;
    enum tr_element element;
    int64_t bytes;
    int first, last; /* the instructions that write it first and use it last */
    int64_t offset; /* in the rank's memory */
    int takes; /* the value whose place it takes, as its operation works in place; -1 */
    bool lasts; /* parameters, optimizer states */
    bool host; /* in the host's memory, and not in the device's */
    int within; /* the bucket, a value, that it lies in; -1 */
    int64_t inside; /* bytes from the bucket's begin */
};

struct tr_instr {
    enum tr_code code;
    int op; /* TR_COMPUTE */
    int ins, outs;
    int in[TR_INS], out[TR_OUTS]; /* values */
    int scratch; /* a value, or -1 */
    int stage, micro, part, unit; /* part: of schedule.h; -1 at the end of the step */
    int parameter; /* tensor: COUNT, UPDATE, TIE */
    int axes; /* the group of a collective, a mask */
    enum tr_axis axis; /* PACK, UNPACK: of the all-to-all beside it */
    int shift; /* SHIFT: by how many ranks; attention in parts: keys of the rank so many before */
    int peer; /* edges of a server: its worker, or a worker's server */
    enum tr_edge edge;
    tutti_op fold;
    int64_t count, times; /* elements of a call, calls; LOSSES: leaves of a sequence, sequences; LOAD: -,
                             sequences; COUNT: elements, gradients that the sum has in all */
    int64_t place; /* NORM, LOSSES: of the first leaf in the vector; LOAD: the first sequence in the batch;
                      SCORES: the first column of the vocabulary */
    int64_t first; /* LOAD, SCORES, and what works on tokens by their places: the first of the sequence;
                      LOSSES: the first leaf, of those of a sequence that are here */
    int64_t second; /* where the second half of these tokens begins, if it is elsewhere (zigzag); else 0 */
    bool striped; /* those places are in the order of stripes (parallel/map.h) */
    int64_t valid; /* what works on the vocabulary: columns that are no padding */
    double scale; /* SOFTMAX_DX: of the loss's mean; it enters here, once */
    double flops;
    bool beside; /* a collective: on a host stream, beside the list; TR_WAIT: for such a one */
    int update; /* LOAD, UPDATE: which of the step's updates */
    /* UPDATE reads the gradient, with AdamW m and v, and in an asynchronous pipeline the version that it
     * starts from, which elsewhere is what it overwrites. It writes the values, and their master, if any. */
    struct tr_optimizer optimizer;
};

/* Of each parameter that this rank has: its values. -1: none. */
struct tr_param_state {
    int parameter; /* tensor */
    int values, m, v; /* values of the tape */
    int on_host; /* the host's copy of the values that this rank updates; -1. Of bfloat16 it exists from the
                    update until the copy is up */
    int master; /* the float32 that this rank updates, of which `values` are the bfloat16; -1: none */
    int waiting; /* of what this rank updates: the gradient of the step before, on the host; -1 */
    int gradient; /* after the last micro-batch, then after its reduction */
    int level[32]; /* sums of 2^i micro-batches that wait; in any order the first alone, of all there were */
    int64_t shard_from, shard_count; /* elements of `values` that this rank updates */
    int bucket; /* of its gradient; -1 */
    int64_t inside; /* bytes from the begin of the bucket */
};

/* Gradients that are reduced in one call: neighbours in the order in which the backward pass makes them. */
struct tr_bucket {
    int first, members; /* in tape.bucketed */
    int value; /* in which they lie side by side; -1: one alone, wherever it lies */
};

/* What a memory must have room for: at the peak of each kind, of all kinds, and with gaps between. */
struct tr_room {
    int64_t arena, peak[TR_MEMORIES], peak_total; /* bytes */
};

/* When the norm and the loss are known. */
enum tr_norm_known {
    TR_NORM_BEFORE_UPDATES, /* so that nothing is updated where one of them is no number */
    TR_NORM_AFTER_UPDATES, /* those do not wait for it */
    TR_NORM_OF_EACH_UPDATE, /* at the end of the step, all of them: of an asynchronous pipeline */
    TR_NORM_OF_EACH_PUSH /* a worker's own, by the asynchronous server that takes its push */
};

/* Groups whose ranks talk in a list; and in calls beside it, which have communicators of their own. */
struct tr_needed {
    struct tr_masks groups, beside;
};

struct tr_tape {
    const struct tr_placed *placed;
    const struct tr_mesh *mesh;
    /* What no instruction says alone. */
    struct {
        int updates, sequences; /* of the weights; in each of them, those of all ranks */
        enum tr_norm_known norm;
        bool stochastic; /* rounding of masters */
        bool free_order; /* of sums; else they are canonical */
        int host_threads; /* of updates on the host */
        long staleness; /* at an asynchronous server: the most steps before the slowest worker; -1: any */
    } step;
    int rank, at[TR_AXES];
    int server; /* which parameter server this rank is; -1: none */
    int tickets; /* value: losses of each worker, by which a live server sees who comes first; -1 */
    struct tr_value *values;
    struct tr_instr *instrs;
    int n_values, n_instrs, room_values, room_instrs;
    struct tr_param_state *states;
    int n_states;
    struct tr_bucket *buckets;
    int *bucketed; /* states, in the order of buckets */
    int n_buckets;
    int losses, leaves; /* values: the vectors of all leaves of the loss, and of the norm */
    int64_t arena, peak[TR_MEMORIES], peak_total; /* of the device's memory: as in tr_room */
    struct tr_room host;
    struct tr_needed needed; /* by it, or, once they agree, by any rank */
    enum tr_stage_layout stage_layout;
};

/* An empty list, of this rank, with what its plan says of the whole step. */
void tr_tape_begin(struct tr_tape *t, const struct tr_placed *p, int rank);
void tr_tape_free(struct tr_tape *t);
/* All ranks make a communicator together, so each makes those that any rank needs, in one order: the groups
 * of a tape are added to those of all, and become those of all. */
void tr_need_groups(struct tr_needed *all, const struct tr_tape *t);
void tr_take_groups(struct tr_tape *t, const struct tr_needed *all);
double tr_tape_flops(const struct tr_tape *t); /* of all its instructions */
bool tr_is_masked(const struct tr_instr *i); /* whether it is attention */
/* Offsets, lifetimes and peaks. */
void tr_plan_memory(struct tr_tape *t);
/* Bytes of each kind that the device's memory, or the host's, has at each instruction: TR_MEMORIES numbers of
 * each, and room for one instruction more. The largest are the peaks. */
void tr_memory_over(const struct tr_tape *t, bool host, int64_t *to);

/* For those who write tapes. */
int tr_add_value(struct tr_tape *t, int shard, int micro, enum tr_memory memory, int64_t bytes);
/* The same of so many elements; without it they are float32. */
int tr_add_array(
    struct tr_tape *t, int shard, int micro, enum tr_memory memory, enum tr_element element, int64_t count);
/* Elements of a value. */
int64_t tr_count(const struct tr_tape *t, int value);
struct tr_instr *tr_add_instr(struct tr_tape *t, enum tr_code code);
/* It belongs to this part, of this unit; without one to the end of the step, as at first. */
void tr_put_in_slot(struct tr_instr *i, const struct tr_slot *slot, int unit);
struct tr_instr *tr_add_in_slot(struct tr_tape *t, enum tr_code code, const struct tr_slot *slot, int unit);
/* One call of so many elements on these axes, which sums up if it reduces, or shares what is summed up. */
struct tr_instr *tr_add_call(struct tr_tape *t, enum tr_code code, int axes, int64_t count);
/* How many sums wait at most while so many gradients are added up: of a canonical tree one of each power of
 * two; in any order one, to which each is added. */
int tr_waiting_sums(bool free_order, int gradients);
/* The leaves of a parameter's gradient, as update `update` of the step has it. */
struct tr_instr *tr_add_norm(struct tr_tape *t, const struct tr_param_state *h, int update);
/* An update by the plan's optimizer; what it writes, and an older version that it reads, are to be added. */
struct tr_instr *tr_add_update(struct tr_tape *t, const struct tr_param_state *h, int gradient);
/* Before instruction `at`; the others move up. */
struct tr_instr *tr_insert_instr(struct tr_tape *t, int at, enum tr_code code);
void tr_remove_instr(struct tr_tape *t, int at);
/* Instruction `from` comes to stand at `to`; those between close the gap. */
void tr_move_instr(struct tr_tape *t, int from, int to);
/* The collectives from n on, so many, each of which reads what the one before made, go on a host stream,
 * beside the list; a wait for the last is put behind them. Returns where it stands. The wait names what the
 * calls read, too, so that the places are kept until then. */
int tr_put_beside(struct tr_tape *t, int n, int calls);
struct tr_param_state *tr_param_state_of(struct tr_tape *t, int parameter);
/* Where the leaves of a gradient begin in the vector of the norm. */
int64_t tr_norm_place(const struct tr_tape *t, const struct tr_param_state *h, int update);
/* The same of the loss's leaves, `count` of a sequence, of a run of this rank's tokens. */
int64_t tr_losses_place(const struct tr_tape *t, int micro, int run, int64_t count);
void tr_need_group(struct tr_tape *t, int axes);
int tr_stage_of(const struct tr_placed *p, int unit);
/* Whether this rank has this stage. */
bool tr_has_stage(const struct tr_tape *t, int stage);

/* Whether this rank holds no more than the part of a parameter that it updates. */
bool tr_holds_part(const struct tr_tape *t, const struct tr_tensor *parameter);
/* Where what a rank holds of a parameter, and what it updates of that, begins in the flat padded tensor. */
int64_t tr_held_from(const struct tr_tape *t, const struct tr_param_state *h);
int64_t tr_updated_from(const struct tr_tape *t, const struct tr_param_state *h);
/* The same of `values`. */
int64_t tr_values_from(const struct tr_tape *t, const struct tr_param_state *h);
/* Whether this rank is the first of those that update the same elements. */
bool tr_owns(const struct tr_tape *t, const struct tr_param_state *h);
/* The shard of a parameter as the tables place it. */
int tr_parameter_shard(const struct tr_placed *p, int parameter);
/* The elements of a row of cells, and whether there are neighbours before and behind on this axis. */
void tr_put_halo(const struct tr_tape *t, struct tr_instr *i, enum tr_axis axis);
/* The parameter's place in the list of parameters, which is the golden program's. */
int64_t tr_ordinal(const struct tr_graph *g, int parameter);
int64_t tr_leaf(const struct tr_tensor *w); /* elements of a leaf of the norm */

/* What an instruction does, for people: "column_dw", "all_reduce". */
const char *tr_instr_does(const struct tr_instr *i);
/* What it is about: "layer0.qkv.weight". */
const char *tr_instr_name(const struct tr_tape *t, const struct tr_instr *i);
void tr_tape_print(const struct tr_tape *t, FILE *to);

#endif

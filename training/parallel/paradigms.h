/* SPDX-License-Identifier: BSD-3-Clause */
/* paradigms.h: the plan, which says which paradigms there are in a run and what each was asked for, and what
 * follows from it; registry.h has the paradigms.
 *
 * A table says on which axis of the mesh a paradigm works, and where the pieces of which tensors lie. All
 * else follows: what an operation needs and what it is given differ, and a collective stands between.
 *
 * A pattern names parameters or activations: a leading * stands for anything, "stream" for the residual
 * stream, "inputs" for tokens and targets. Placements are those of placement.h. */
#ifndef TRAINING_PARALLEL_PARADIGMS_H
#define TRAINING_PARALLEL_PARADIGMS_H

#include "training/mesh.h"
#include "training/model/op.h"
#include "training/parallel/map.h"

struct tr_table_row {
    const char *tensors, *placement;
};

struct tr_table {
    const char *name;
    enum tr_axis axis;
    struct tr_table_row rows[16];
};
extern const struct tr_table tr_space_table;

/* All paradigms, in the order of --help; registry.h says what one is. The table of a later one wins. */
#define TR_PARADIGMS(row)                                                                                    \
    row(data_parallel), row(parameter_servers), row(expert_parallel), row(tensor_parallel),                  \
        row(sequence_parallel), row(context_parallel), row(picture_cuts), row(model_parallel),               \
        row(micro_batches), row(pipeline_parallel), row(async_pipelines), row(zero), row(recomputation),     \
        row(offloading), row(mixed_precision)
#define TR_PARADIGM(name) tr_##name
extern const struct tr_paradigm TR_PARADIGMS(TR_PARADIGM);

/* All-reduce; reduce to the first rank and broadcast; reduce-scatter and all-gather. */
enum tr_dp_form { TR_DP_RING, TR_DP_ROOT, TR_DP_SHARDED, TR_DP_FORMS };
extern const char *const tr_dp_form_names[TR_DP_FORMS];

extern const char *const tr_recompute_names[TR_RECOMPUTES];
/* What attention does where cp cuts the tokens. */
enum tr_cp_form {
    TR_CP_GATHER,
    TR_CP_ULYSSES,
    TR_CP_RING,
    TR_CP_LOCAL,
    TR_CP_TWO,
    TR_CP_SCORES,
    TR_CP_FORMS
};
extern const char *const tr_cp_form_names[TR_CP_FORMS];
/* Which tokens a rank has: map.h. */
enum tr_cp_map { TR_CP_CONTIGUOUS, TR_CP_ZIGZAG, TR_CP_STRIPED, TR_CP_MAPS };
extern const char *const tr_cp_map_names[TR_CP_MAPS];

/* What is in the host's memory, and not in the device's: a mask; offload.c. */
enum tr_offload {
    TR_OFFLOAD_NONE,
    TR_OFFLOAD_OPTIMIZER = 1,
    TR_OFFLOAD_ACTIVATIONS = 2,
    TR_OFFLOAD_BOTH,
    TR_OFFLOADS
};
extern const char *const tr_offload_names[TR_OFFLOADS];

/* The most stages of a pipeline that may have different numbers of layers. */
enum { TR_STAGES_MAX = 64 };

/* Which versions of its weights a stage of an asynchronous pipeline keeps: pipeline.c. */
enum tr_async { TR_ASYNC_OFF, TR_ASYNC_STASH, TR_ASYNC_TWO, TR_ASYNC_NEWEST, TR_ASYNCS };
extern const char *const tr_async_names[TR_ASYNCS];

/* How layers are cut over stages: balance.h. */
enum tr_balance { TR_BALANCE_EVEN, TR_BALANCE_AUTO, TR_BALANCE_MEASURED, TR_BALANCES };
extern const char *const tr_balance_names[TR_BALANCES];

/* How many ranks each axis was asked to have. */
struct tr_sizes {
    long pp, cp, tp;
    long dp; /* with those of ep, which are among them; 0: the ranks that are left */
    long ep;
    long ulysses; /* those of cp that exchange tokens for heads, where there are two levels; 0: two */
    long servers;
};

/* How parameters are updated. Biases and norms do not decay. The rate rises over the first `warmup` updates,
 * and then goes along a curve that is at `least` from update `until` on. */
enum tr_rate_curve { TR_CURVE_CONSTANT, TR_CURVE_LINEAR, TR_CURVE_COSINE, TR_CURVES };
extern const char *const tr_curve_names[TR_CURVES];
struct tr_optimizer {
    bool sgd; /* else AdamW */
    double rate, decay;
    double clip; /* of the gradient's norm; 0: none */
    enum tr_rate_curve curve;
    long warmup, until;
    double least;
};

/* Which paradigms there are in a run, and what each was asked for. */
struct tr_plan {
    struct tr_sizes sizes;
    struct tr_mesh mesh; /* which follows */
    int batch, micros; /* sequences of all ranks in a step; micro-batches in a step */
    struct {
        char schedule[256]; /* its name, or a file */
        int chunks; /* stages of a rank */
        char list[128]; /* layers of each stage, as they were asked for */
        enum tr_balance balance;
        bool vee; /* its second one is on the way back */
        bool no_flush; /* ranks update before all have their gradients */
        enum tr_async async;
        int stage_layers[TR_STAGES_MAX]; /* balance.h; 0: all have as many */
    } pipeline;
    struct {
        enum tr_cp_form form;
        enum tr_cp_map map;
        bool space; /* cp cuts pictures, not sequences of tokens */
        bool sp; /* and tp cuts them between its matrices */
    } tokens;
    struct {
        enum tr_conv_split split; /* of the weights, by tp */
        bool columns; /* of the grid, by cp; else rows */
    } pictures;
    /* How gradients become whole: by which collectives, in buckets of how many bytes (0: each alone), and
     * whether beside the backward pass. */
    struct {
        enum tr_dp_form form;
        int64_t bucket;
        bool overlap;
    } reduce;
    /* Level 0: none; 1: optimizer; 2: and gradients; 3: and parameters. Of 3: gathered parameters stay until
     * the backward pass; how many units ahead they are gathered; a tensor of fewer elements stays whole. */
    struct {
        int level;
        bool keep;
        int prefetch;
        int64_t persist;
    } zero;
    struct {
        enum tr_recompute what;
        bool saves; /* the results of collectives are kept */
        bool regathers; /* what sp has cut is gathered again for the gradient of a weight, and not held */
    } recompute;
    struct {
        int what; /* tr_offload; -1: not said, and none or what --host-memory asks for */
        int threads; /* of the update on the host */
        int delay; /* 1: that is made with the gradient of the step before */
    } offload;
    /* Asynchronous: each gradient is applied by itself, and a worker waits while it is more than so many
     * steps before the slowest (-1: never). Live: the server takes whoever comes first; else in the order of
     * `arrivals`, data/push_order.h. */
    struct {
        bool async, live;
        long staleness;
        char arrivals[512], arrivals_log[512]; /* files to read, and to write */
        char workers[32]; /* compare server: numbers of them */
        char slow[32]; /* RANK:FACTOR */
    } servers;
    struct {
        bool bfloat16; /* parameters, gradients and activations; optimizer and sums in float32 */
        bool stochastic; /* rounding of updated parameters */
        bool free_order; /* of sums; canonical without it */
        bool tf32; /* factors of products by cuBLAS */
    } numbers;
    struct tr_optimizer optimizer;
    bool forward; /* nothing is learned: a list ends with the scores of what comes next */
};

/* Of an update, counted from 0; and whether its options fit each other. */
double tr_rate(const struct tr_optimizer *o, int64_t update);
bool tr_rate_check(const struct tr_plan *p, struct tr_error *e);

/* The rank of the pipeline that has a stage. */
int tr_plan_rank(const struct tr_plan *p, int stage);
/* Whether the first stage and the last one are on different ranks, so that a tied embedding has two homes. */
bool tr_ends_apart(const struct tr_plan *p);
/* Updates of the weights in a step, and micro-batches of each: one of all, but for asynchronous pipelines. */
int tr_updates(const struct tr_plan *p);
int tr_update_micros(const struct tr_plan *p);
/* Ranks with other sequences: those of dp, and inside it of ep; and which of them this is. */
int tr_data_ranks(const struct tr_plan *p);
int tr_data_rank(const struct tr_plan *p, const int at[TR_AXES]);
/* The axes, a mask, of those that have the same part of a parameter and add up its gradient: dp and ep, and
 * of an expert dp alone; how many ranks they are, and which of them this is. */
int tr_replica_axes(const struct tr_plan *p, const struct tr_tensor *w);
int tr_replicas(const struct tr_plan *p, const struct tr_tensor *w);
int tr_replica_rank(const struct tr_plan *p, const struct tr_tensor *w, const int at[TR_AXES]);
/* Sequences in a micro-batch of a rank. */
int tr_micro_batch(const struct tr_plan *p);
/* The first sequence, in the batch, of a micro-batch of a data-parallel rank. Where gradients are reduced
 * once, a rank has neighbours (contiguous); where they are reduced for each micro-batch (ZeRO-2, ZeRO-3, ep),
 * the ranks of one micro-batch have neighbours, so that each reduction is a subtree of the sum over the
 * batch. Where a step has several updates, each has neighbours. */
int tr_first_sequence(const struct tr_plan *p, int dp_rank, int micro);
bool tr_reduces_each_micro(const struct tr_plan *p);
/* How the tokens of a sequence are cut; and a placement of a rule or of a table, as that has it: St becomes
 * Zt on the axis of cp, and Pb becomes Pz. */
struct tr_map tr_map_of(const struct tr_plan *p);
void tr_mapped(const struct tr_plan *p, enum tr_axis axis, struct tr_placement *place);
/* Which sizes and options of cp fit pictures. */
bool tr_space_check(const struct tr_plan *p, struct tr_error *e);
/* ZeRO: whether a data-parallel rank updates a part of a parameter; has no more than that part of it. */
bool tr_zero_cuts(const struct tr_plan *p, const struct tr_tensor *parameter);
bool tr_zero_cuts_parameter(const struct tr_plan *p, const struct tr_tensor *parameter);
/* Whether ep divides the ranks of dp. */
bool tr_expert_divides(long dp, long ep, struct tr_error *e);
/* The most rows for the experts of a rank that the tokens of a sequence of each rank of ep may give. */
int64_t tr_most_rows(const struct tr_plan *p, const struct tr_graph *g);

/* Table i of the plan, of all paradigms; NULL: there are no more. */
const struct tr_table *tr_plan_table(const struct tr_plan *p, int i);
/* The placement that the tables give: "R" where none says anything, or the axis has one rank. */
struct tr_placement tr_table_placement(const struct tr_plan *p, const struct tr_tensor *t, enum tr_axis axis);
/* What the paradigms want of the model, before it is made. */
void tr_plan_model(const struct tr_plan *p, struct tr_model_options *to);
/* Whether the plan fits the model, and itself. */
bool tr_plan_check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e);

#endif

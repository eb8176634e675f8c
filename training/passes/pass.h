/* SPDX-License-Identifier: BSD-3-Clause */
/* pass.h: a pass is a row: what a paradigm changes of a rank's list, at the moments at which the list is
 * written. lower.c, hold.c and end.c ask all rows at each of them, in the order of the table (table.c), and
 * know none by its name. */
#ifndef TRAINING_PASSES_PASS_H
#define TRAINING_PASSES_PASS_H

#include "training/tape/tape.h"

/* A shard that one rank makes and another reads: its stages, of which one is here. */
struct tr_border {
    int shard, from, to;
    bool forward;
};

/* A value that is on its way to another stage. */
struct tr_sent {
    int value;
    enum tr_edge edge;
    int stage, micro; /* that sent it */
};

struct tr_lowering;
struct tr_versions;

/* What a rank has of a parameter from step to step, beside its values. */
struct tr_held {
    int ways, way; /* so many ranks update a part each; which of them this is */
    bool part; /* nothing is here but that part */
    bool master; /* in float32, of what it updates */
    bool host; /* what it updates is on the host, with the optimizer */
    bool elsewhere; /* another rank has the optimizer, and updates */
};

/* NULL where a pass does nothing. */
struct tr_pass {
    bool (*on)(const struct tr_plan *p);
    /* What of a parameter is held, before there is anything: hold.c makes the values of it. */
    void (*hold)(const struct tr_lowering *l, const struct tr_tensor *w, struct tr_held *held);
    /* All parameters are held, and no part is written yet. A rank that runs none gives them up here. */
    void (*begin)(struct tr_lowering *l);
    /* The value of a parameter that a part reads, if it is not the one that is held; -1: it is. */
    int (*use)(struct tr_lowering *l, const struct tr_param_state *h, int shard, const struct tr_slot *slot,
        int unit);
    /* Whether a backward part computes again what this step of the forward part gives. */
    bool (*again)(const struct tr_lowering *l, const struct tr_step *s);
    /* A micro-batch's gradient, before it enters the sum over the step; returns what enters. */
    int (*gradient)(struct tr_lowering *l, const struct tr_param_state *h, int value,
        const struct tr_slot *slot, int unit);
    /* A part is written, with what it sends. */
    void (*slot_end)(struct tr_lowering *l, const struct tr_slot *slot);
    /* At the end of the step: the gradients of all ranks become one; true if no further pass is asked. */
    bool (*reduce)(struct tr_lowering *l);
    /* A gradient, over all sequences of the batch; returns the value that is read from then on. */
    int (*whole)(struct tr_lowering *l, const struct tr_param_state *h, int value, const struct tr_slot *slot,
        int unit);
    /* The update of a parameter, if it is another one; then true, and no further pass is asked. */
    bool (*update)(struct tr_lowering *l, struct tr_param_state *h);
    /* This rank has updated a parameter, which has this value now: what its peers are given. */
    void (*shared)(struct tr_lowering *l, const struct tr_param_state *h, int value);
    /* The list is there: what is changed of it, before values are given places. */
    void (*rewrite)(struct tr_lowering *l);
    /* Gives back what it took. */
    void (*end)(struct tr_lowering *l);
};

/* All of them, in the order in which they are asked; each is a file here. */
#define TR_PASSES(row)                                                                                       \
    row(versions), row(server), row(zero), row(precision), row(reduce), row(recompute), row(offload)
#define TR_PASS(name) tr_pass_##name
extern const struct tr_pass TR_PASSES(TR_PASS);

/* The whole value of a parameter, and the part for which it was gathered. */
struct tr_gathered {
    int value;
    const struct tr_slot *slot;
};

struct tr_current {
    int value; /* or -1 */
    bool renewed; /* it was computed again */
};

/* Of a step that computes: what its instruction has in each micro-batch. */
struct tr_site {
    bool known;
    int64_t scratch; /* bytes */
    double flops, scale;
    int64_t first, second, valid, place;
    bool striped;
};

struct tr_lowering {
    struct tr_tape *t;
    const struct tr_placed *p;
    const struct tr_slot *slots; /* the parts that this rank runs, in their order */
    int n_slots;
    struct tr_current **now; /* [shard][micro]; of shards that this rank has nothing to do with NULL */
    int *losses; /* of each micro-batch: a value, or -1 */
    /* lower.c */
    int *producer; /* of each shard: the step that makes it, or -1 */
    int *steps, n_steps; /* those of this rank's stages, in their order */
    struct tr_site *sites; /* of each step */
    bool *again; /* of each step, if it is one of those: what it gives is computed again */
    bool summed_elsewhere; /* another rank sums up the gradients that this one has, and ties them */
    /* versions.c, zero.c */
    struct tr_versions *versions; /* of weights, in an asynchronous pipeline */
    struct tr_gathered *gathered; /* of each shard of a parameter */
    /* borders.c */
    struct tr_border *borders; /* in the order of shards */
    int n_borders;
    struct tr_sent *sent_back; /* values sent backward that nobody has waited for, from `waited` on */
    int n_sent, waited;
    struct tr_sent *sent_ahead; /* and forward */
    int n_ahead, room_ahead;
};

/* ---- table.c: the rows that are on are asked, in their order ---- */

struct tr_held tr_passes_hold(const struct tr_lowering *l, const struct tr_tensor *w);
void tr_passes_begin(struct tr_lowering *l);
int tr_passes_use(
    struct tr_lowering *l, const struct tr_param_state *h, int shard, const struct tr_slot *slot, int unit);
bool tr_passes_again(const struct tr_lowering *l, const struct tr_step *s);
int tr_passes_gradient(
    struct tr_lowering *l, const struct tr_param_state *h, int value, const struct tr_slot *slot, int unit);
void tr_passes_slot_end(struct tr_lowering *l, const struct tr_slot *slot);
void tr_passes_reduce(struct tr_lowering *l);
/* A gradient is whole: in this part of the schedule, or, without one, at the end of the step. */
int tr_passes_whole(
    struct tr_lowering *l, const struct tr_param_state *h, int value, const struct tr_slot *slot, int unit);
void tr_passes_update(struct tr_lowering *l, struct tr_param_state *h);
void tr_passes_share(struct tr_lowering *l, const struct tr_param_state *h, int value);
void tr_passes_rewrite(struct tr_lowering *l);
void tr_passes_end(struct tr_lowering *l);

/* ---- lower.c ---- */

/* Where the value of a shard stands, for a micro-batch; a new one, which stands there from now on. */
int *tr_now(const struct tr_lowering *l, int shard, int micro);
int tr_new_value(struct tr_lowering *l, int shard, int micro);

/* ---- hold.c, end.c ---- */

void tr_hold_parameters(struct tr_lowering *l);
/* The vector of leaves of the norm, which an asynchronous pipeline fills update by update. */
void tr_lower_leaves(struct tr_tape *t);
/* The end of the step: reductions, tied gradients, norm, loss, optimizer. */
void tr_lower_end(struct tr_lowering *l);

/* ---- borders.c: what crosses borders of stages ---- */

void tr_list_borders(struct tr_lowering *l);
/* What comes before a part, and what goes after it. */
void tr_receive(struct tr_lowering *l, const struct tr_slot *slot);
void tr_send(struct tr_lowering *l, const struct tr_slot *slot);
/* After the last part: all that was sent has arrived. */
void tr_wait_for_all(struct tr_lowering *l);

#endif

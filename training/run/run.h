/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h: the executor: it walks a tape, and knows no paradigm. */
#ifndef TRAINING_RUN_RUN_H
#define TRAINING_RUN_RUN_H

#include "training/data/data.h"
#include "training/kernels/kernels.h"
#include "training/resident.h"
#include "training/run/audit.h"
#include "training/account/ledger.h"
#include "training/backend/caller.h"
#include "training/tape/fuse.h"
#include "training/tape/waits.h"

enum { TR_GRAPHS = 4 };

struct tr_result {
    double loss, norm;
};

/* A step as graphs of a device: one for each part of the list, which ends where the processor adds up. They
 * are kept when a step has run without, and what one step has that others have not lies in memory. */
struct tr_replay {
    bool wanted; /* steps are to run so, if tr_replay_not says nothing */
    bool warm; /* a step has run */
    bool keeps; /* what is begun is kept, and not done */
    int n;
    void *graphs[TR_GRAPHS];
    struct tr_adamw *rates, *there; /* of each update of a step: on the host, and on the device */
    struct tr_ledger counted, copies; /* messages and copies of a step */
    double flops;
};

struct tr_runner {
    const struct tr_tape *tape;
    struct tr_context *x; /* where its kernels run */
    struct tr_context host; /* and where those of the second memory do: on the processor */
    struct tr_threads *threads; /* of the update on the host; NULL */
    const struct tr_data *data;
    struct tr_groups groups;
    struct tr_arenas arena;
    /* In the host's memory: what is read of the data, on its way to where it belongs, one load behind the
     * other; and leaves of the loss, and behind them those of the norm, to be added up. */
    struct tr_staged {
        unsigned char *at;
        int64_t bytes, used;
        double *sums;
        unsigned char *operands; /* of one operation that works on elements itself; NULL: there is none */
        int64_t token; /* of a list that is forward alone: behind which of the sequence */
        float *scores; /* all of the vocabulary are wanted */
    } staged;
    tutti_stream own; /* calls in the order of the list */
    struct tr_beside { /* what runs beside the list */
        tutti_stream calls, sends[TR_EDGES]; /* collectives; sends of the pipeline */
        uint64_t *points; /* of each value that is sent, or made there: when that is over */
        /* Where a send waits on the host until its peer receives, as between threads on devices: who makes
         * those of each edge; and of each value which of them its send was. Else NULL. */
        struct tr_caller *callers[TR_EDGES];
        uint64_t *sent;
    } beside;
    int64_t *clock; /* when each instruction of the last step began, and when the last one ended; ns */
    /* On a device that is when they were begun there, unless the step was timed; then marks stand in its
     * streams, and the times are the device's. What ran beside the list has two of its own. */
    struct tr_timed {
        bool wanted, known; /* the next step is; the last one was, or needs it not */
        int64_t *beside; /* of each instruction: when it began and ended there; -1, -1: it was in the list */
    } timed;
    int64_t step; /* below 0: a batch of what is held out, which updates nothing */
    struct tr_result *updates; /* of each update of the last step */
    int n_updates;
    struct tr_result result, before; /* of the last update, and of the one before that */
    struct { /* of an asynchronous server */
        int peer; /* whose push it takes, or to whom it gives */
        const void *ticket; /* what already came of that push; NULL */
    } push;
    struct tr_replay replay;
    double slow; /* a worker takes so many times as long to compute; 0: as long as it takes */
    double flops; /* of what was computed since the step began */
    struct tr_ledger predicted, counted; /* messages of a step; equal after it, or it fails */
    /* Between the memories. On a device they run beside the list, on a stream of their own. */
    struct tr_copying {
        struct tr_ledger predicted, counted; /* the same of copies */
        tutti_stream stream; /* handle NULL: they are in the list's order */
        struct tr_waits waits;
        uint64_t *points; /* of each copy, and of each instruction that one waits for: when it is over */
        uint64_t last; /* of the last copy */
    } copies;
    struct tr_fusions fused;
    struct tr_audit audit;
    struct tr_resident before_groups;
    int64_t *used; /* bytes of each value, of those with room for more; -1: all */
    bool audited; /* the next step is; see audit.h for what it costs and destroys */
};

/* Collective over world (NULL: one rank, or none that it talks to). Initial values are those of the golden
 * program. */
bool tr_runner_open(struct tr_runner *r, const struct tr_tape *t, const struct tr_kernels *k,
    const struct tr_data *d, tutti_comm *world, struct tr_error *e);
/* One step: one update of the weights, or those of an asynchronous pipeline's window. A loss or norm that is
 * not finite is an error; nothing was updated then, but by an asynchronous pipeline. */
bool tr_runner_step(struct tr_runner *r, struct tr_error *e);
/* The mean loss of the first batches of what is held out. Each costs as much as a step, whose list it runs
 * without the updates; the state stays as it is. Not where a gradient waits, or weights have versions. */
bool tr_runner_evaluate(struct tr_runner *r, long batches, double *loss, struct tr_error *e);
/* Runs a list that is forward alone: the scores of what comes behind this token of the sequence. A rank
 * writes to `scores`, one for each token of the vocabulary, what it has of them, and leaves the others alone:
 * each is on one rank. */
bool tr_runner_ask(struct tr_runner *r, int64_t token, float *scores, struct tr_error *e);
/* One instruction of it; and the same without what a step makes of it. (step.c, run.c) */
bool tr_runner_instr(struct tr_runner *r, int n, struct tr_error *e);
bool tr_runner_do(struct tr_runner *r, int n, struct tr_error *e);
/* The calls of a collective; each is counted, if there is where. */
tutti_status tr_runner_calls(const struct tr_runner *r, const struct tr_instr *i, struct tr_ledger *counted);
/* Memory for replays of a step; false: there is none. */
bool tr_replay_open(struct tr_runner *r);
void tr_replay_close(struct tr_runner *r);
/* Why steps of this list cannot be graphs; NULL: they can. */
const char *tr_replay_not(const struct tr_runner *r);
/* What an update of this step multiplies by. */
struct tr_adamw tr_update_rates(const struct tr_runner *r, const struct tr_instr *i);
/* The next step is timed. */
bool tr_runner_time(struct tr_runner *r, struct tr_error *e);
/* In a timed step: what the instruction does on this stream, beside the list, begins here, or ends. */
void tr_mark_beside(const struct tr_runner *r, const struct tr_instr *i, bool ends, tutti_stream on);
void tr_runner_close(struct tr_runner *r);

/* A parameter's values (what = 0) or its gradient of the last step (1) on this rank, at their places in the
 * canonical flat array of the whole tensor: `to` has rows * columns floats, and elements that are not here
 * are left alone. (host.c) */
void tr_runner_read(const struct tr_runner *r, int parameter, int what, float *to);

#endif

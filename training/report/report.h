/* SPDX-License-Identifier: BSD-3-Clause */
/* report.h: what a step did, for people (a line, a chart), for programs (JSON) and for Perfetto (a trace). */
#ifndef TRAINING_REPORT_REPORT_H
#define TRAINING_REPORT_REPORT_H

#include "training/schedule/schedule.h"
#include "training/run/run.h"
#include "training/planning/tapes.h"

/* A step of all ranks. Parts are of 1; NAN: there is none. */
struct tr_report {
    int64_t step; /* number of the last update */
    bool audited; /* the time is that of the audit, too */
    double loss, norm, ms, tokens; /* tokens of a second */
    double formula, simulated, measured; /* bubble: the part of the pipeline's time that ranks wait */
    double exposed; /* the part of a step that ranks spend in collectives and in waits for sends */
    int64_t sent; /* bytes of all ranks */
    int64_t peak; /* bytes of the rank that needs most */
};

/* Collective, after a step. Formula and simulation get the times that the parts of this step took. */
bool tr_report_make(
    struct tr_report *to, const struct tr_runner *r, const struct tr_schedule *s, struct tr_error *e);

/* 110 columns at most. `hex`: the golden program's line, which tells loss and norm to the last bit. */
void tr_line_header(FILE *to);
void tr_line(FILE *to, const struct tr_report *r);
void tr_line_hex(FILE *to, const struct tr_report *r);
/* The updates of an asynchronous pipeline's window but for the last, whose line has the window's figures. */
/* After so many steps, the loss of what is held out. */
void tr_line_evaluation(FILE *to, int64_t steps, double loss, bool in_hex);
void tr_json_evaluation(FILE *to, int64_t steps, double loss);
void tr_line_updates(FILE *to, const struct tr_runner *r, bool in_hex);

/* A file with a line for each update: what it was, how long its step took, and what the loss of the text that
 * is held out was behind it (NAN: none). A run that goes on adds to the file of the one before. */
struct tr_log {
    FILE *to;
    const char *path;
    bool csv;
};
bool tr_log_open(struct tr_log *l, const char *path, bool goes_on, struct tr_error *e);
bool tr_log_step(const struct tr_log *l, const struct tr_report *of_step, const struct tr_runner *r,
    double held_out, struct tr_error *e);

/* The last step of all ranks as JSON for Perfetto. Collective; `to` is rank 0's, NULL elsewhere. */
bool tr_trace_write(FILE *to, const struct tr_runner *r, struct tr_error *e);
/* The pipeline of the last step, for the first rank of each stage. Collective; rank 0 prints. */
bool tr_gantt(FILE *to, const struct tr_runner *r, const struct tr_schedule *s, struct tr_error *e);

/* For each stage of a pipeline: micro-batches in flight at most, and bytes of activations on its first rank:
 * what one micro-batch keeps for its backward part, and the most at a time, as planned, and as measured if
 * there are such. tapes: of all ranks; each line begins with `begin`. */
void tr_stages_say(FILE *to, const char *begin, struct tr_tapes *tapes, const struct tr_schedule *s,
    const int64_t *measured);
/* The same with what the audited step touched. Collective; rank 0 prints. */
bool tr_stages_measured(FILE *to, const struct tr_runner *r, struct tr_tapes *tapes,
    const struct tr_schedule *s, struct tr_error *e);

/* One object, on one line: the run as rank 0 sees it; a step. */
void tr_json_run(FILE *to, const struct tr_tape *t, const struct tr_schedule *s, const char *data, int cores);
void tr_json_step(FILE *to, const struct tr_report *r, const struct tr_runner *runner);
/* A member of an object, after another one. */
void tr_json_number(FILE *to, const char *name, double x);
void tr_json_text(FILE *to, const char *name, const char *s);
void tr_json_memory(FILE *to, const char *name, const int64_t *peak);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* compare.h: configurations side by side: what is made of a number of ranks, what each needs and sends, what
 * came of it, and the tables. */
#ifndef TRAINING_COMPARE_COMPARE_H
#define TRAINING_COMPARE_COMPARE_H

#include "training/compare/timeline.h"
#include "training/verify/tolerances.h"
#include "training/report/report.h"

enum tr_form {
    TR_COMPARE_ALL,
    TR_COMPARE_DP_REDUCE,
    TR_COMPARE_ZERO,
    TR_COMPARE_PARADIGMS,
    TR_COMPARE_SCALING,
    TR_COMPARE_SERVER,
    TR_COMPARE_ASYNC
};

enum { TR_COMPARED = 256, TR_COMPARE_GROUPS = 12, TR_COMPARE_RANKS = 256, TR_COMPARE_WORKERS = 64 };

/* Bytes that come to a rank, and that go from it. */
struct tr_flow {
    int64_t in, out;
};

struct tr_contender {
    char name[40], how[128]; /* how: the options that make it of a run on one device */
    struct tr_options options;
    struct tr_prepared prepared;
    /* known before a step: all ranks' bytes of a step, by tr_comparison.groups; those of the rank that sends
     * most; the rank that needs most memory; whether it fits the limit, and what would make it fit */
    int64_t sent[TR_COMPARE_GROUPS], sent_all, sent_most;
    double flops, extra; /* of all ranks in a step, by the tapes; beyond those of one device */
    int largest;
    bool fits;
    char cure[256];
    /* --inject: the error is in the tapes, and this is what the checks say; `runs`: no rank would hang */
    bool planted, runs;
    struct tr_error found;
    /* measured, on rank 0; NAN: there is none */
    struct tr_report *reports; /* of each step */
    struct tr_verdict verdict;
    double ms, low, high, formula, simulated, measured, exposed; /* medians; quartiles */
    int64_t touched[TR_MEMORIES]; /* memory of the rank `largest`, by the audit; 0: not audited */
    double flops_counted; /* of all ranks in a step */
    struct tr_flow counted; /* by Tutti, in a step, at the rank that has most; without loss and norm */
    struct tr_timeline did, would; /* a step as it ran, and as it would with a core for each rank */
    bool aside; /* in no table of paradigms: a ring, or parameter servers, for the curves of a page */
};

/* One that was left out, and why. */
struct tr_left_out {
    char name[40], why[700];
};

struct tr_comparison {
    struct tr_options base; /* what all have in common */
    enum tr_form form;
    bool by_name; /* there were such words, and not all that are legal are meant */
    int words[8], n_words; /* what was asked for of the form, by number */
    long workers[TR_COMPARE_WORKERS], n_workers, servers; /* of TR_COMPARE_SERVER */
    struct tr_contender *all; /* room for TR_COMPARED */
    struct tr_left_out *left_out; /* room for TR_COMPARED */
    int n, shown, n_left_out; /* shown: without those that are aside, which come last */
    char groups[TR_COMPARE_GROUPS][32];
    int n_groups;
    bool by_turns;
    /* Of --device cuda, on the ranks: what these compute on, and how many of them there are. */
    char device[64];
    int devices;
};

/* The form, and what it compares, from the words before the options. */
bool tr_compare_words(struct tr_comparison *c, char **words, int n, struct tr_error *e);
/* Which configurations, from the form, the ranks and the model. Those that the model cannot have are left
 * out. All are prepared: checked, and their bytes known. */
bool tr_compare_make(struct tr_comparison *c, struct tr_error *e);
void tr_compare_free(struct tr_comparison *c);
/* For who chooses configurations itself: room for them, before tr_compare_add, and after it all prepared. */
void tr_compare_begin(struct tr_comparison *c);
bool tr_compare_prepare(struct tr_comparison *c, struct tr_error *e);
/* Runs those that fit, on as many ranks as c->base.ranks says, and has rank 0 say what came of it; the exit
 * status. */
int tr_compare_run(struct tr_comparison *c, bool (*say)(struct tr_comparison *c, struct tr_error *e));
/* One more of them, unless it is illegal; quiet: a variant of what was left out already need not be named. */
void tr_compare_add(struct tr_comparison *c, const char *name, struct tr_options *o, bool quiet);
/* It is named among those that are left out. */
void tr_compare_leave_out(struct tr_comparison *c, const char *name, const char *why);
/* What each computes, sends and needs, and what would make it fit. */
bool tr_compare_account(struct tr_comparison *c, struct tr_error *e);

/* A is equal to one device because nothing is added in another order; B because sums are canonical trees. C
 * is as near as other orders, or rounding, come; D computes something else, and is equal to a simulator. */
char tr_compare_class(const struct tr_contender *x);
/* Of the times of steps, between their quartiles; NAN where one step alone was timed. */
double tr_compare_spread(const struct tr_contender *x);
/* What it is compared with: the golden program, one rank, a simulator. */
const char *tr_compare_with(const struct tr_contender *x);
bool tr_compare_near(
    const struct tr_comparison *c); /* some are not compared with the golden program's bits */
/* Whether the audit measured what the tapes say, of the rank that needs most. */
bool tr_compare_as_predicted(const struct tr_contender *x);
bool tr_compare_equal(const struct tr_contender *x); /* it ran, and no bit differs, or it is near enough */

/* After the steps, on rank 0: each as it would run with a core for each rank. */
void tr_compare_simulate(struct tr_comparison *c);
/* Whether there is a page to write: --html, or --markdown, which has the same without pictures. */
bool tr_compare_has_page(const struct tr_comparison *c);
void tr_compare_page(const struct tr_comparison *c, bool markdown, FILE *to);
/* Bytes from each rank to each in a step, n * n numbers, to be freed. */
double *tr_compare_sends(const struct tr_contender *x);
/* Of so many columns the most bytes of each kind of memory, TR_MEMORIES numbers a column, while the rank that
 * needs most goes through its list; to be freed. */
enum { TR_COMPARE_COLUMNS = 120 };
double *tr_compare_memory_over(const struct tr_contender *x);

/* What ranks compute on, "core" or "device", and how many there are. */
const char *tr_compare_place(const struct tr_comparison *c);
int tr_compare_places(const struct tr_comparison *c);
/* "2 cores", "1 device, a Stub". */
enum { TR_COMPARE_WHERE = 128 };
const char *tr_compare_where(const struct tr_comparison *c, char text[TR_COMPARE_WHERE]);
void tr_compare_text(const struct tr_comparison *c, FILE *to);
void tr_compare_markdown(const struct tr_comparison *c, FILE *to);
/* What the paradigms that were named are against each other, in six rows. */
void tr_compare_rows(const struct tr_comparison *c, bool markdown, FILE *to);
/* One of these, by number: its name, NULL: there are no more; and what it says of a configuration. */
enum { TR_COMPARE_ROW = 600 };
const char *tr_compare_row_name(int row);
const char *tr_compare_row(
    const struct tr_comparison *c, int row, const struct tr_contender *x, char text[TR_COMPARE_ROW]);
/* The rate of each number of ranks against that of the first. */
void tr_compare_scaling(const struct tr_comparison *c, FILE *to);
void tr_compare_json(const struct tr_comparison *c, FILE *to);
/* Its curves, timelines and matrices, as members of its object. */
void tr_compare_figures_json(const struct tr_contender *x, FILE *to);

/* what_fits.c: whether it fits both limits, and so runs; else which changes would make it fit. */
void tr_compare_what_fits(const struct tr_comparison *c, struct tr_contender *x);

/* async.c: what computes with old weights or gradients, beside what does not. */
void tr_compare_async_options(struct tr_options *o);
void tr_compare_add_async(struct tr_comparison *c);
/* With as many micro-batches as are legal, twice the stages at most. */
void tr_compare_add_pipeline(
    struct tr_comparison *c, const char *name, struct tr_options o, const char *schedule, bool quiet);

/* server.c: parameter servers against a ring, by the numbers of workers of --workers. */
bool tr_compare_workers(struct tr_comparison *c, struct tr_error *e);
void tr_compare_add_servers(struct tr_comparison *c);
/* The same for a page, aside: as many as can run here, and as many again of which the bytes are known. */
void tr_compare_add_aside(struct tr_comparison *c);
/* No such number is legal: an error that tells those that are. */
bool tr_compare_no_workers(const struct tr_comparison *c, struct tr_error *e);
/* What Tutti has counted so far on this rank, without loss and norm. */
bool tr_compare_read(struct tr_flow *to, const struct tr_groups *g, struct tr_error *e);
/* What the rank that has most must take and give in a step: by the formula, and by the tapes' ledgers. */
struct tr_flow tr_compare_formula(const struct tr_plan *p, const struct tr_graph *g);
struct tr_flow tr_compare_ledger(const struct tr_prepared *p);
/* Whether these are equal, and equal to what Tutti counted. */
bool tr_compare_flows_equal(const struct tr_contender *x);
/* Each server against the ring of as many workers. */
void tr_compare_ratios(const struct tr_comparison *c, FILE *to);
void tr_compare_flows_json(const struct tr_contender *x, FILE *to);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* search.h: the best configurations for a model, so many ranks and so much memory; and why others are none.
 *
 * All choices are guessed, and those that guess best are evaluated by their tapes, each mesh once with the
 * first options that fit, until there are some and the guess of the next is far behind. Of each paradigm
 * alone the best is evaluated, too, so that one sees how far it is from the answer. */
#ifndef TRAINING_ADVICE_SEARCH_H
#define TRAINING_ADVICE_SEARCH_H

#include "training/advice/evaluate.h"
#include "training/advice/guess.h"

/* What became of a choice. */
enum tr_fate {
    TR_BEHIND, /* guessed slower than those that were evaluated */
    TR_TOO_LARGE, /* what it needs at least is more than the memory */
    TR_NO_FIT, /* its tapes need more */
    TR_REFUSED, /* the trainer refuses it */
    TR_LIKE, /* another one with the same mesh and ZeRO fits, and is guessed faster */
    TR_SLOWER, /* evaluated, and no winner */
    TR_WON,
    TR_FATES
};
extern const char *const tr_fate_names[TR_FATES];

struct tr_candidate {
    struct tr_choice choice;
    struct tr_estimate estimate;
    enum tr_fate fate;
    bool evaluated;
};

/* A paradigm alone, on all ranks. */
enum tr_alone { TR_ALONE_DP, TR_ALONE_ZERO, TR_ALONE_TP, TR_ALONE_PP, TR_ALONE_CP, TR_ALONE_EP, TR_ALONES };
extern const char *const tr_alone_names[TR_ALONES];

enum { TR_BEST = 5, TR_EVALUATED = 64 };
struct tr_search {
    struct tr_sketch sketch;
    int64_t memory; /* bytes of a rank; 0: any */
    int64_t choices, fates[TR_FATES];
    struct tr_candidate evaluated[TR_EVALUATED];
    int n_evaluated;
    int best[TR_BEST], n_best; /* in `evaluated` */
    int alone[TR_ALONES]; /* the same; -1: there is none */
    bool unlimited; /* the fastest of all by its guess needs more memory than there is */
    double unlimited_seconds; /* that guess */
    struct tr_choice tightest; /* that which needs least */
};
bool tr_search(struct tr_search *s, const struct tr_options *base, const struct tr_machine *m, int64_t memory,
    struct tr_error *e);
/* Which paradigm it is alone; TR_ALONES: several, or none. */
enum tr_alone tr_alone_of(const struct tr_choice *c);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* registry.h: all paradigms in one list. A row is all that a paradigm is: its options, its tables, what it
 * wants of the model, what fits it, what it cuts, and when to take it. Who reads options, plans, lists,
 * compares or tries paradigms asks here, so that a new one is in all of them.
 *
 * The order of rows is that in which --help has options and compare tries paradigms. */
#ifndef TRAINING_PARALLEL_REGISTRY_H
#define TRAINING_PARALLEL_REGISTRY_H

#include "training/parallel/paradigms.h"

/* One option: what it is called, what its value is and where that stands, and what --help says of it. */
enum tr_option_kind { TR_HEADING, TR_FLAG, TR_WHOLE, TR_REAL, TR_TEXT, TR_CHOICE, TR_BYTES };
struct tr_option {
    const char *name;
    enum tr_option_kind kind;
    size_t offset, size; /* of its member: of a paradigm's option, in the plan */
    const char *what;
    long least; /* WHOLE: the smallest that is legal */
    const char *const *names; /* CHOICE: of the values from 0 on */
    int n_names;
    bool bits; /* it says what one rank computes, too */
};
#define TR_NAMES(list) .names = list, .n_names = sizeof list / sizeof *list
#define TR_PLAN(member)                                                                                      \
    .offset = offsetof(struct tr_plan, member), .size = sizeof((struct tr_plan *)0)->member

/* A whole number, a flag or a choice, of whatever width, of the struct that its offset is in. */
int64_t tr_option_value(const struct tr_option *x, const void *in);

struct tr_paradigm {
    const char *word; /* a user names it so to compare; NULL: it is not alone */
    const char *name;
    enum tr_axis axis; /* which it cuts */
    const struct tr_option *options; /* of which the first asks for it */
    int n_options;
    /* What compare tries: a name, and options, with N for the number of ranks. The first is the paradigm
     * alone, if it has a word. */
    struct {
        const char *name, *options;
    } compared[5];
    /* Whether it is in a plan; NULL: if the value of its first option is above the least that is legal. */
    bool (*asked)(const struct tr_plan *p);
    /* Its table, or of several that which is i-th in a plan; NULL: there are no more. */
    const struct tr_table *table, *(*choose)(const struct tr_plan *p, int i);
    /* What it wants of the model. */
    void (*model)(const struct tr_plan *p, struct tr_model_options *to);
    /* Sizes and options that do not fit, and what would. */
    bool (*check)(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e);
    /* What a rank has of what is cut. */
    void (*cuts)(const struct tr_plan *p, const struct tr_graph *g, char *to, size_t room);
    const char *when; /* to take it */
};
#define TR_OPTIONS(list) .options = list, .n_options = sizeof list / sizeof *list

/* They are numbered from 0 on; NULL: there are no more. */
const struct tr_paradigm *tr_paradigm_at(int i);
/* The one that is called so; NULL. */
const struct tr_paradigm *tr_paradigm_word(const char *word);
/* Whether it is in a plan: its options say nothing else. */
bool tr_paradigm_asked(const struct tr_paradigm *x, const struct tr_plan *p);
/* Whether it cuts something in this run. */
bool tr_paradigm_cuts(const struct tr_paradigm *x, const struct tr_plan *p);

#endif

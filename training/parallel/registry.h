/* SPDX-License-Identifier: BSD-3-Clause */
/* registry.h: all paradigms in one list: what each is called, which options ask for it and belong to it, what
 * it cuts, and when to take it. Who lists, compares or tries paradigms asks here, so that a new one is in all
 * of them. Which sizes are legal says tr_plan_check. */
#ifndef TRAINING_PARALLEL_REGISTRY_H
#define TRAINING_PARALLEL_REGISTRY_H

#include "training/parallel/paradigms.h"

/* One option: what it is called, what its value is and where that stands, and what --help says of it. */
enum tr_option_kind { TR_HEADING, TR_FLAG, TR_WHOLE, TR_REAL, TR_TEXT, TR_CHOICE, TR_BYTES };
struct tr_option {
    const char *name;
    enum tr_option_kind kind;
    size_t offset, size; /* of its member */
    const char *what;
    long least; /* WHOLE: the smallest that is legal */
    const char *const *names; /* CHOICE: of the values from 0 on */
    int n_names;
};
#define TR_NAMES(list) .names = list, .n_names = sizeof list / sizeof *list

struct tr_registered {
    const char *word; /* a user names it so to compare; NULL: it is not alone */
    const char *name;
    enum tr_axis axis; /* TR_AXES: it has none of its own */
    const char *alone; /* the options that ask for it alone, with N for the number of ranks; NULL likewise */
    const char *with; /* the option without which the others say nothing; NULL: there is none */
    const char *options[7]; /* those that belong to it; NULL ends them */
    /* What a rank has of what is cut. */
    void (*cuts)(const struct tr_plan *p, const struct tr_graph *g, char *to, size_t room);
    const char *when; /* to take it */
};

/* They are numbered from 0 on; NULL: there are no more. */
const struct tr_registered *tr_registered_at(int i);
/* The one that is called so; NULL. */
const struct tr_registered *tr_registered_word(const char *word);
/* Whether it cuts something in this run. */
bool tr_registered_cuts(const struct tr_registered *x, const struct tr_plan *p);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* prepare.h: from options to tapes of all ranks, checked: what train, explain and verify have in common. */
#ifndef TRAINING_COMMANDS_PREPARE_H
#define TRAINING_COMMANDS_PREPARE_H

#include "training/data/data.h"
#include "training/options.h"
#include "training/planning/tapes.h"

struct tr_prepared {
    struct tr_run run;
    struct tr_placed placed;
    struct tr_tapes *tapes; /* of all ranks */
    int found_by; /* if a check failed: which, of inject.h; -1: none did */
};

/* What commands that take train's options begin with: reads them into o. false: there is no more to do but to
 * exit with *status: --help has printed the usage and, if `list`, the options, or a wrong one was refused. */
bool tr_begin(struct tr_options *o, int argc, char **argv, const char *usage, bool list, int *status);
/* The same where o has defaults of its own already. */
bool tr_begin_with(struct tr_options *o, int argc, char **argv, const char *usage, bool list, int *status);
/* Collective over world (NULL: one rank): all ranks were given the same, which a launcher does not see to. */
bool tr_same_options(const struct tr_options *o, tutti_comm *world, struct tr_error *e);
/* Prints the error, and returns the status. */
int tr_refuse(int status, const struct tr_error *e);

/* Every check has passed when it returns true. The parts refer to each other: none may move. */
bool tr_prepare(struct tr_prepared *p, const struct tr_options *o, struct tr_error *e);
void tr_prepared_free(struct tr_prepared *p);

/* What the model learns: the file of --data; without one, the documents of this project and the licences of
 * the system. "grammar" is made up, and so are the rows of the mlp. */
bool tr_open_data(
    struct tr_data *d, const struct tr_options *o, const struct tr_graph *g, struct tr_error *e);

#endif

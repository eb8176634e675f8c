/* SPDX-License-Identifier: BSD-3-Clause */
/* server_report.h: runs with asynchronous parameter servers, which have no steps that all ranks make
 * together. */
#ifndef TRAINING_COMMANDS_SERVER_REPORT_H
#define TRAINING_COMMANDS_SERVER_REPORT_H

#include "training/commands/prepare.h"
#include "training/run/server.h"

/* What is said of them fits the rest, and their order of arrivals is legal. */
bool tr_server_report_check(const struct tr_options *o, const struct tr_plan *p, struct tr_error *e);
/* --slow, if it is this rank that it means. */
bool tr_slow_down(struct tr_runner *r, const struct tr_options *o, struct tr_error *e);
/* Collective over world: all steps of all workers. Server 0 prints each push that it applies, and at the end
 * how far behind they were. */
bool tr_server_report_run(const struct tr_options *o, const struct tr_prepared *p, struct tr_runner *r,
    tutti_comm *world, struct tr_error *e);

void tr_say_push(FILE *to, const struct tr_options *o, const struct tr_push *p);
/* The checksum of all values (TR_VALUES). */
void tr_say_values(FILE *to, const struct tr_options *o, uint64_t sum);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.h: what a plan is priced for: how fast a rank computes, what memory it has, and what messages cost
 * inside a host and across.
 *
 *     # 8 A100 in each host
 *     peak_bfloat16  312 TFLOP/s   # the data sheet
 *     efficiency     0.52          # of the peak, that products reach
 *     overlap        1             # 0: whoever computes has to copy messages, too
 *     memory         80 GB
 *     ranks_per_host 8
 *     byte_near      235 GB/s
 *
 * The lines of messages have the names and units of tutti-sim's machines, so that a text of one serves the
 * other: `tutti-sim --machine NAME --costs` writes one, to which the first three kinds of lines are added.
 * Lines of tutti-sim that are of no account here are passed over. */
#ifndef TRAINING_ADVICE_MACHINE_H
#define TRAINING_ADVICE_MACHINE_H

#include "training/error.h"

#include <stdint.h>
#include <stdio.h>

enum tr_reach { TR_INSIDE, TR_ACROSS, TR_REACHES }; /* of a message: to the same host, or to another */

struct tr_machine {
    char name[64];
    double peak[2]; /* FLOP/s of float32 and of bfloat16; 0: it is not said */
    double efficiency; /* the part of the peak that a step's operations reach */
    int64_t memory; /* bytes of a rank; 0: it is not said */
    bool covers; /* messages go on beside operations, and cost these nothing */
    int ranks_per_host; /* 0: all are on one */
    double latency[TR_REACHES], message[TR_REACHES]; /* seconds: on the way, and at each end */
    double rate[TR_REACHES]; /* bytes a second of a rank */
    double link; /* bytes a second of all ranks of a host to others; 0: as many as they all can */
};

/* A preset by its name, or a file. An error names the line, and what is legal. */
bool tr_machine_read(struct tr_machine *m, const char *name, struct tr_error *e);
/* The presets, with where their figures come from. */
void tr_machine_list(FILE *to);
/* Its lines, as a file has them. */
void tr_machine_say(const struct tr_machine *m, FILE *to);
/* Bytes a second that a rank sends so far, while all others of its host do so, too. */
double tr_machine_rate(const struct tr_machine *m, enum tr_reach reach);

#endif

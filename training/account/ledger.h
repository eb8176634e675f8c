/* SPDX-License-Identifier: BSD-3-Clause */
/* ledger.h: the messages of one rank in one step, by group, operation and what they carry.
 *
 * The tape tells them before the step: each message carries a value, whose size the memory plan knows. The
 * executor counts what it gives to Tutti. Both must be equal, to the byte. */
#ifndef TRAINING_ACCOUNT_LEDGER_H
#define TRAINING_ACCOUNT_LEDGER_H

#include "training/tape/tape.h"

enum tr_cargo {
    TR_OF_PARAMETERS,
    TR_OF_GRADIENTS, /* of parameters */
    TR_OF_LEAVES, /* the same, one for each sequence of the micro-batch */
    TR_OF_ACTIVATIONS, /* and their gradients */
    TR_OF_SCALARS, /* the vectors of leaves of the loss and of the norm */
    TR_CARGOES
};
extern const char *const tr_cargo_names[TR_CARGOES];

struct tr_entry {
    enum tr_code code;
    int axes; /* the group of a collective; 0: an edge */
    enum tr_edge edge;
    enum tr_cargo cargo;
    int64_t calls;
    int64_t bytes; /* as called: of the whole vector, in all its parts */
    /* Bytes that this rank sends; predicted only. No algorithm can send less than `least`; `wire` is what
     * those send that Tutti chooses, which is known when the groups are there (traffic.h). */
    int64_t least, wire;
};

enum { TR_ENTRIES = 128 };
struct tr_ledger {
    struct tr_entry entries[TR_ENTRIES]; /* in the order of code, axes, edge, cargo */
    int n;
};

void tr_ledger_predict(struct tr_ledger *l, const struct tr_tape *t);
/* What one instruction must send at least; 0 of those that send nothing. */
int64_t tr_least_sent(const struct tr_tape *t, const struct tr_instr *i);
/* The same of copies between the device's memory and the host's: a ledger of their own, as they are no
 * messages. */
void tr_copies_predict(struct tr_ledger *l, const struct tr_tape *t);

/* The entries of `predicted` with nothing in them yet. */
void tr_ledger_begin(struct tr_ledger *counted, const struct tr_ledger *predicted);
/* One call of the instruction; an exchange of tied gradients and a shift are one TR_SEND and one TR_RECV. */
void tr_ledger_count(struct tr_ledger *counted, const struct tr_tape *t, const struct tr_instr *i,
    enum tr_code code, int64_t bytes);
/* The error names the first entry that differs. */
bool tr_ledger_equal(const struct tr_ledger *counted, const struct tr_ledger *predicted,
    const struct tr_tape *t, struct tr_error *e);

/* The entry of the instruction's messages, a new one if there is none. */
struct tr_entry *tr_ledger_entry(
    struct tr_ledger *l, const struct tr_tape *t, const struct tr_instr *i, enum tr_code code);
/* The sum over entries that match; -1 matches all. */
struct tr_entry tr_ledger_sum(const struct tr_ledger *l, int code, int axes, int edge, int cargo);
/* "dp", "world", "to next". */
const char *tr_entry_group(const struct tr_entry *entry, char text[32]);

#endif

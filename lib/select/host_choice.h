/* SPDX-License-Identifier: BSD-3-Clause */
/* host_choice.h: a choice that one rank makes for all ranks of its host.
 *
 * To predict the times of all algorithms among hundreds of ranks takes a core some hundredths of a second.
 * If each rank did that for itself, and they share a few cores, the first call of a kind would take as many
 * seconds. What is chosen hangs only on what all ranks share, so any rank's answer is every rank's: the first
 * that asks claims the question in memory that all of the host have, and answers it there; who comes
 * meanwhile sleeps.
 *
 *     a word:   0, nobody has asked  ->  claimed by a rank  ->  answered, for ever
 *
 * No rank depends on another one. If the one that has claimed a question has died, the next takes the claim
 * over; if it is late (it was stopped, or the host is busy), each of those that wait answers for itself. */
#ifndef TT_HOST_CHOICE_H
#define TT_HOST_CHOICE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long a rank waits for the answer: many times what predictions take, which grow with the ranks. */
enum { TT_HOST_PATIENCE_MS = 1000, TT_HOST_PATIENCE_OF_RANK_MS = 20 };

struct tt_host_choice {
    _Atomic uint32_t *words; /* one for each question; NULL: this rank answers for itself */
    int rank;
    int64_t patience_ms; /* how long this rank waits for another one's answer */
    bool (*in_vain)(void *context, int rank); /* that one will not answer any more */
    void *context;
};

/* Returns the answer to this question, as soon as a rank of this host has given it. -1: this rank is to find
 * it, and then to call tt_host_choice_tell. */
int tt_host_choice_ask(const struct tt_host_choice *host, size_t question);
/* Tells the others the answer; -1: this rank could find none, and the next one is to try. */
void tt_host_choice_tell(const struct tt_host_choice *host, size_t question, int answer);

#endif

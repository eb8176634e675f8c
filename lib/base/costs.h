/* SPDX-License-Identifier: BSD-3-Clause */
/* costs.h: what a machine charges for the parts of a collective, in numbers that all ranks share.
 *
 * A rank is a processor that does one thing at a time; where ranks outnumber the cores, some of them share
 * one. A message costs its sender and its receiver a little work each, can be seen by the other end a latency
 * later, and its bytes cost whoever reads them. Where all ranks of a host share a link to the others,
 * messages pass it one by one, each way. The predicted time of an algorithm (lib/select/cost_model.h) and the
 * simulated time (transports/sim/sim.h) are two evaluations of these numbers.
 *
 * Times are whole femtoseconds, so that sums are exact and equal on all ranks. */
#ifndef TT_BASE_COSTS_H
#define TT_BASE_COSTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Between ranks of one cache domain (topology.h), between domains, and between hosts. */
enum tt_level { TT_NEAR, TT_FAR, TT_AWAY, TT_LEVELS };

struct tt_costs {
    uint64_t latency[TT_LEVELS]; /* from a message's post to when the other end may see it */
    uint64_t byte[TT_LEVELS]; /* per byte read from another rank */
    uint64_t fold; /* per byte of each operand of a reduction, and of its result */
    uint64_t copy; /* per byte copied within a rank */
    uint64_t message[TT_LEVELS]; /* the work at each end of a message */
    /* the time from when a core has nothing more to do for a rank until another one goes on */
    uint64_t context_switch;
    uint64_t eager; /* messages of up to so many bytes are copied by the sender, who is done with them then */
    uint64_t cores; /* that the ranks share, on all hosts together */
    uint64_t hosts; /* of several, each is a domain; up to 1: there is one */
    uint64_t link; /* per byte that all ranks of a host send to others, or receive; 0: they share no link */
};

/* Returns the level of ranks in one domain, or in two. */
static inline enum tt_level tt_costs_level(const struct tt_costs *costs, bool one_domain)
{
    return one_domain ? TT_NEAR : costs->hosts > 1 ? TT_AWAY : TT_FAR;
}

/* The ranks are on so many hosts, and not on as many as before. */
static inline void tt_costs_spread(struct tt_costs *costs, uint64_t hosts)
{
    costs->cores = costs->cores / (costs->hosts > 1 ? costs->hosts : 1) * hosts;
    costs->hosts = hosts;
}

/* Returns what it costs to combine k operands of so many bytes each: they are read, and the result is
 * written. */
static inline uint64_t tt_costs_fold(const struct tt_costs *costs, uint32_t k, uint64_t bytes)
{
    return costs->fold * (k + 1U) * bytes;
}

/* The links of two hosts: until when the sender's is taken, and the receiver's. */
struct tt_link_use {
    uint64_t *out, *in;
};
/* Takes both links at this time, or once they are free, for a message of each of so many ranks. Returns when
 * the last one can begin to be read: no reader overtakes what is still on its way. */
static inline uint64_t tt_costs_pass(
    const struct tt_costs *costs, struct tt_link_use use, uint64_t time, uint64_t bytes, uint64_t ranks)
{
    uint64_t taken = costs->link * bytes * ranks, read = costs->byte[TT_AWAY] * bytes;
    time = time > *use.out ? time : *use.out;
    *use.out = time + taken;
    time = time > *use.in ? time : *use.in;
    *use.in = time + taken;
    return taken > read ? time + (taken - read) : time;
}

/* Returns how long after its post a message can be seen. Where n ranks share cores, the one that waits lets
 * another go on, and so sees the message a context switch later. */
static inline uint64_t tt_costs_latency(const struct tt_costs *costs, enum tt_level level, int n)
{
    return costs->latency[level] + ((uint64_t)n > costs->cores ? costs->context_switch : 0);
}

/* Returns up to how many bytes a sender copies. Where n ranks share cores, a sender that lends waits until
 * its reader runs; so it copies up to 12 KiB there, as the transport does with messages that go both ways. */
static inline uint64_t tt_costs_eager(const struct tt_costs *costs, int n)
{
    return (uint64_t)n > costs->cores ? 12 * costs->eager : costs->eager;
}

/* Sizes in bytes fall into classes, each from a power of two, or one and a half of it, to the next: what a
 * choice depends on. */
enum { TT_SIZE_CLASSES = 128 };
unsigned tt_size_class(uint64_t bytes);
uint64_t tt_size_of_class(unsigned size); /* its smallest */

/* Returns the costs of a machine with two cores (perf/results/README.md, "How good the choices are"). */
struct tt_costs tt_costs_default(void);
/* Puts each cost into the bounds within which predictions cannot overflow: costs may come by a wire. */
void tt_costs_bound(struct tt_costs *costs);

/* Sets a cost by its name, in the unit in which tt_costs_tell tells it. False: there is no such cost, or the
 * value is out of bounds. */
bool tt_costs_set(struct tt_costs *costs, const char *name, double value);
/* A line for each, for people: its name, its value in ns, GB/s or bytes, and its meaning. */
void tt_costs_tell(const struct tt_costs *costs, struct tt_text *text);

#endif

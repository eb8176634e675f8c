/* SPDX-License-Identifier: BSD-3-Clause */
/* costs.h: what a machine charges for the parts of a collective, in numbers that all ranks share.
 *
 * A rank is a processor that does one thing at a time; where ranks outnumber the cores, some of them share
 * one. A message costs its sender and its receiver a little work each, can be seen by the other end a latency
 * later, and its bytes cost whoever reads them. On one host who sends is free meanwhile, since the reader
 * copies. To another host bytes leave a rank no faster than they are read there: its messages go out one by
 * one, while it may work (the gap of LogGP). All ranks of a host share its link, which messages pass one by
 * one, out and in apart. The predicted time of an algorithm (lib/select/cost_model.h) and the simulated
 * time (transports/sim/sim.h) are two evaluations of these numbers.
 *
 * Times are whole femtoseconds, so that sums are exact and equal on all ranks. */
#ifndef TT_BASE_COSTS_H
#define TT_BASE_COSTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/link_class.h"
#include "base/text.h"

/* Between ranks of one cache domain (topology.h), between domains, and between hosts. */
enum tt_level { TT_NEAR, TT_FAR, TT_AWAY, TT_LEVELS };

struct tt_costs {
    uint64_t latency[TT_LEVELS]; /* from a message's post to when the other end may see it */
    uint64_t byte[TT_LEVELS]; /* per byte read from another rank; of another host, per byte sent there, too */
    uint64_t fold; /* per byte of each operand of a reduction, and of its result */
    uint64_t copy; /* per byte copied within a rank */
    uint64_t message[TT_LEVELS]; /* the work at each end of a message */
    /* the time from when a core has nothing more to do for a rank until another one goes on */
    uint64_t context_switch;
    uint64_t eager; /* messages of up to so many bytes are copied by the sender, who is done with them then */
    uint64_t cores; /* that the ranks share, on all hosts together */
    uint64_t hosts; /* of several, each is a domain; up to 1: there is one */
    uint64_t
        link; /* per byte that all ranks of a host send to others, and as much receive; 0: none is shared */
    struct tt_link_class network; /* of the hosts, whose four costs latency, byte, message and link are ... */
    uint64_t network_from; /* ... for this reason: enum tt_link_origin */
    /* Of collectives on CUDA streams, where several processes share a device: a call, and per byte of its
     * vector and rank; where all go by the host's memory, or a leader's kernel reaches the ranks' pinned
     * cells, pads in the device's memory, or the buffers themselves (lib/select/led.h); that of pads is per
     * rank. And where ranks have a device each, and kernels meet (lib/select/spin.h): there a call is per
     * rank, and its bytes are not. */
    struct {
        uint64_t call, byte;
    } staged, cells, pads, mapped, spin;
};

/* Sums and products that stay at the greatest number: a time of five hours and more is told as that. */
static inline uint64_t tt_costs_sum(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
static inline uint64_t tt_costs_product(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

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
    return tt_costs_product(costs->fold * (k + 1U), bytes);
}

/* Takes what one message passes at a time, which is taken until *until, for so long: from this time on, or
 * once it is free. Returns when the message begins to pass. */
static inline uint64_t tt_costs_take(uint64_t *until, uint64_t time, uint64_t duration)
{
    time = time > *until ? time : *until;
    *until = tt_costs_sum(time, duration);
    return time;
}

/* Returns how long a message keeps the way out of its rank, by which it goes to other hosts. Who reads it
 * begins with its first byte, and is as fast. */
static inline uint64_t tt_costs_gap(const struct tt_costs *costs, uint64_t bytes)
{
    return tt_costs_product(costs->byte[TT_AWAY], bytes);
}

/* Returns how long the messages of so many ranks keep the link of their host, or of the other one. */
static inline uint64_t tt_costs_on_link(const struct tt_costs *costs, uint64_t bytes, uint64_t ranks)
{
    return tt_costs_product(tt_costs_product(costs->link, bytes), ranks);
}

/* Returns how long after their first byte the last of these messages can begin to be read, so that no reader
 * overtakes what is still on the link. */
static inline uint64_t tt_costs_lag(const struct tt_costs *costs, uint64_t bytes, uint64_t ranks)
{
    uint64_t passes = tt_costs_on_link(costs, bytes, ranks), read = tt_costs_gap(costs, bytes);
    return passes > read ? passes - read : 0;
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
/* "1g,wan, measured": which class of network those between hosts are of, and why. */
void tt_costs_tell_network(const struct tt_costs *costs, struct tt_text *text);

#endif

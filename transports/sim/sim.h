/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.h: a transport over virtual time, for tests and tutti-sim: a world of any number of ranks in one
 * thread.
 *
 * All that can vary between machines and moments varies by seed: how long a message takes, whether it
 * overtakes another or comes in parts, by which path it travels, when its acknowledgement is seen, which
 * grants are taken and when they are seen, when a rank is late or frozen, when one dies. The same seed gives
 * the same trace everywhere: there is no clock here and no pointer in any decision.
 *
 * The world keeps what transport.h promises and not a bit more: a mapped message is nothing but
 * an address, so whoever reuses that memory before the acknowledgement is seen by the reader; a released
 * slot is poisoned. It also watches the caller: what transport.h forbids is kept as an error. */
#ifndef TT_TRANSPORTS_SIM_H
#define TT_TRANSPORTS_SIM_H
#include <stdbool.h>
#include <stdint.h>

#include "base/costs.h"
#include "transports/transport.h"

struct tt_sim_params {
    int n;
    int slots; /* 1 to TT_SLOTS; 0: all */
    uint64_t seed;
    uint32_t delay_ns; /* of the first byte; of an acknowledgement half of it */
    uint32_t kib_ns; /* more for each KiB */
    uint32_t jitter_ns; /* and up to this much by chance */
    uint8_t reorder_percent; /* of messages that may overtake others of their link */
    uint8_t split_percent; /* of messages that come in two to four parts */
    uint8_t grant_percent; /* of grants that are taken */
    uint8_t freeze_percent; /* of events after which the rank sleeps a while */
    uint32_t freeze_ns; /* at most so long; at the start, all ranks are late by up to this */
    uint64_t death_event; /* death_rank dies just before this event; 0: nobody dies */
    int death_rank;
    /* NULL: ranks take no time, and messages what is said above. Else time is in femtoseconds and all that a
     * rank does costs it, or the core that it shares, what these say; nothing else is left to chance. */
    const struct tt_costs *costs;
    const int *domain; /* of each rank, for the costs; NULL: all in one */
};

/* What has happened: tests demand that it did. */
struct tt_sim_counts {
    uint64_t events, messages, bytes;
    uint64_t full_slots; /* sends refused */
    uint64_t grants, late_grants; /* late: of messages sent before the grant was to be seen */
    uint64_t replies; /* messages stored where another one lay */
    uint64_t out_of_order; /* messages that came after a later one of their link */
    uint64_t splits; /* messages of which a receiver saw a part */
    uint64_t late_acks; /* questions answered "not sent yet" though the receiver had released */
    uint64_t ranks_ahead; /* operations begun while a peer had not ended the one before */
    uint64_t freezes, deaths;
    uint64_t paths[TT_PATHS];
};

struct tt_sim;
extern const struct tt_transport tt_sim_transport;

tutti_status tt_sim_create(const struct tt_sim_params *params, struct tt_sim **sim);
void tt_sim_destroy(struct tt_sim *sim);
/* The world that open() joins from now on. */
void tt_sim_join(struct tt_sim *sim);

/* On to the next event that lets a rank do something, which *rank names: it should be driven until it can do
 * no more. False when nothing will happen any more. Each rank is named once at its start. */
bool tt_sim_step(struct tt_sim *sim, int *rank);
/* This rank sleeps for a while by chance, then is named. */
void tt_sim_pause(struct tt_sim *sim, int rank);
/* With costs: the rank works so long; and the time until which it has worked. */
void tt_sim_spend(struct tt_sim *sim, int rank, uint64_t time);
uint64_t tt_sim_clock(const struct tt_sim *sim, int rank);
bool tt_sim_frozen(const struct tt_sim *sim, int rank);

const struct tt_sim_counts *tt_sim_counts(const struct tt_sim *sim);
uint64_t tt_sim_hash(const struct tt_sim *sim); /* of all that has happened */
const char *tt_sim_error(const struct tt_sim *sim); /* what a caller did wrong first; "" if nothing */
uint64_t tt_sim_occupied(const struct tt_sim *sim); /* slots that are not free */

/* The generator of chance, for tests too: splitmix64. */
uint64_t tt_sim_random(uint64_t *state);

#endif

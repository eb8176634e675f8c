/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.h: which algorithm serves a call.
 *
 * The one that the setting `algo` forces; else the one that a rule of the setting `rules` names; else the one
 * of the lowest predicted time (lib/select/cost_model.h). Sizes fall into classes, two for each power of two,
 * and a communicator keeps what was chosen for a class: times are predicted at the first call of each, by one
 * rank of a host for all (host_choice.h), and after that a choice is a look into a table. All of it reads
 * only what all ranks share. */
#ifndef TT_CHOOSE_H
#define TT_CHOOSE_H
#include <stdint.h>

#include "select/cost_model.h"
#include "select/host_choice.h"
#include "base/config.h"

enum { TT_CHOICES = TT_COLLECTIVES * 4 * TT_SIZE_CLASSES }; /* of collective, what the operator asks, size */

struct tt_choice_cache {
    uint8_t known[TT_CHOICES]; /* 1 + index in the registry; 0: not asked yet */
    uint32_t predicted; /* choices for which this rank has predicted times */
    struct tt_host_choice host; /* TT_CHOICES words, or none */
};

struct tt_request {
    const struct tt_settings *settings;
    uint64_t slot_bytes;
    enum tt_collective collective;
    struct tt_requirements requirements;
    uint64_t bytes; /* of the whole vector */
};

enum tt_decider { TT_BY_FORCE, TT_BY_RULE, TT_BY_COST };

/* Chooses the algorithm of a call, from the cache if it is there; it may wait a while for another rank of
 * this host to do so. An ineligible or unknown forced name is an
 * error that lists the eligible ones. `cache` may be NULL: then nothing is kept. */
tutti_status tt_choose(const struct tt_request *request, struct tt_choice_cache *cache, int *algorithm);
/* Chooses without a cache, and says in *decider what decided. */
tutti_status tt_choose_anew(const struct tt_request *request, int *algorithm, enum tt_decider *decider);

/* True unless the setting algo demands another algorithm for this collective. */
bool tt_choose_allows(
    const struct tt_settings *settings, enum tt_collective collective, const char *algorithm);

/* Returns which of the TT_CHOICES this is. */
size_t tt_choice_of(const struct tt_request *request);
/* Returns the query whose time is predicted for this call: the same with the smallest size of its class. */
struct tt_cost_query tt_choose_cost_query(const struct tt_request *request);
/* Returns the algorithm that the first rule for this call names, -1 if there is none. */
int tt_choose_rule(const struct tt_request *request);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c: the cache. */
#include "exec/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

tutti_status tt_plan_cache_create(struct tt_plan_cache *cache)
{
    cache->clock = 0;
    cache->plans = calloc(TT_PLAN_SETS * TT_PLAN_WAYS, sizeof *cache->plans);
    return cache->plans != NULL ? TUTTI_OK : tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the plan cache");
}

void tt_plan_destroy(struct tt_plan *plan)
{
    tt_op_destroy(&plan->op);
    tt_schedule_free(&plan->schedule);
    *plan = (struct tt_plan){ 0 };
}

void tt_plan_cache_destroy(struct tt_plan_cache *cache)
{
    for (int i = 0; cache->plans != NULL && i < TT_PLAN_SETS * TT_PLAN_WAYS; i++)
        if (cache->plans[i].used)
            tt_plan_destroy(&cache->plans[i]);
    free(cache->plans);
    cache->plans = NULL;
}

static bool same_key(const struct tt_key *a, const struct tt_key *b)
{
    return a->collective == b->collective && a->algorithm == b->algorithm && a->in_place == b->in_place &&
           a->exact == b->exact && a->root == b->root;
}

tutti_status tt_plan_create(const struct tt_key *key, struct tt_plan *plan)
{
    struct tt_plan fresh = { .used = true, .key = *key };
    tutti_status status = tt_schedule_build(&fresh.schedule, key);
    if (status != TUTTI_OK)
        return status;
    *plan = fresh; /* the operation keeps the address of the schedule: it must have its final place */
    status = tt_op_create(&plan->schedule, &plan->op);
    if (status != TUTTI_OK) {
        tt_schedule_free(&plan->schedule);
        *plan = (struct tt_plan){ 0 };
    }
    return status;
}

tutti_status tt_plan_find(struct tt_plan_cache *cache, const struct tt_key *key, struct tt_plan **plan)
{
    uint32_t hash =
        (uint32_t)key->collective * 31 + key->algorithm * 7 + (uint32_t)key->root * 5 + key->in_place;
    struct tt_plan *set = &cache->plans[hash % TT_PLAN_SETS * TT_PLAN_WAYS], *oldest = NULL;
    for (int i = 0; i < TT_PLAN_WAYS; i++) {
        struct tt_plan *p = &set[i];
        if (p->used && same_key(&p->key, key)) {
            p->last_use = ++cache->clock;
            *plan = p;
            return TUTTI_OK;
        }
        if (oldest == NULL || p->last_use < oldest->last_use)
            oldest = p;
    }
    if (oldest->used)
        tt_plan_destroy(oldest);
    tutti_status status = tt_plan_create(key, oldest);
    if (status != TUTTI_OK)
        return status;
    oldest->last_use = ++cache->clock;
    *plan = oldest;
    return TUTTI_OK;
}

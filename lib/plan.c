/* plan.c: the cache and the choice. */
#include "plan.h"

#include <stdio.h>
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

/* The name that `algo` forces for a collective ("all_reduce:ring,broadcast:tree"), copied to name; false
 * if none. */
static bool forced_name(const char *list, const char *collective, char *name, size_t bytes)
{
    size_t length = strlen(collective);
    for (const char *item = list; *item != '\0'; item += strcspn(item, ","), item += *item == ',') {
        if (strncmp(item, collective, length) != 0 || item[length] != ':')
            continue;
        const char *value = item + length + 1;
        snprintf(name, bytes, "%.*s", (int)strcspn(value, ","), value);
        return true;
    }
    return false;
}

static tutti_status refuse(
    enum tt_collective collective, struct tt_demand demand, const char *name, const char *why)
{
    char list[256] = "";
    for (int i = 0; i < tt_algorithm_count; i++) {
        const struct tt_algorithm *a = &tt_algorithms[i];
        if (a->collective == collective && tt_algorithm_refuse(a, demand) == NULL)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", list[0] ? ", " : "", a->name);
    }
    return tt_fail(TUTTI_INVALID_USAGE, "algo: '%s' cannot serve %s on %d ranks%s: %s; eligible: %s", name,
        tt_collectives[collective].name, demand.n, demand.exact ? " under exact" : "", why, list);
}

tutti_status tt_plan_choose(const struct tt_settings *settings, enum tt_collective collective,
    struct tt_demand demand, uint64_t bytes, int *algorithm)
{
    char name[TT_CONFIG_TEXT];
    if (settings->algorithm[0] == '\0' ||
        !forced_name(settings->algorithm, tt_collectives[collective].name, name, sizeof name)) {
        *algorithm = tt_algorithm_choose(collective, demand, bytes);
        return TUTTI_OK;
    }
    int forced = tt_algorithm_find(collective, name);
    if (forced < 0)
        return refuse(collective, demand, name, "there is none of that name");
    const char *why = tt_algorithm_refuse(&tt_algorithms[forced], demand);
    if (why != NULL)
        return refuse(collective, demand, name, why);
    *algorithm = forced;
    return TUTTI_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* prepared.c: the cache. */
#include "exec/prepared.h"

#include <stdlib.h>
#include <string.h>

#include "base/collective.h"
#include "base/status.h"

tutti_status tt_prepared_cache_create(struct tt_prepared_cache *cache)
{
    cache->clock = 0;
    cache->calls = calloc(TT_PREPARED_SETS * TT_PREPARED_WAYS, sizeof *cache->calls);
    return cache->calls != NULL ? TUTTI_OK : tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for prepared calls");
}

/* One allocation. */
static tutti_status create_tables(size_t n, struct tt_tables *tables)
{
    uint64_t *words = calloc(3 * n, sizeof *words);
    if (words == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the blocks of %zu ranks", n);
    *tables = (struct tt_tables){ { words, words + n }, (size_t *)(void *)(words + 2 * n) };
    return TUTTI_OK;
}

static void empty(struct tt_prepared *prepared)
{
    free(prepared->tables.starts[0]);
    tt_op_destroy(&prepared->op);
    tt_schedule_free(&prepared->schedule);
    *prepared = (struct tt_prepared){ 0 };
}

void tt_prepared_destroy(struct tt_prepared *prepared)
{
    if (prepared != NULL)
        empty(prepared);
    free(prepared);
}

void tt_prepared_cache_destroy(struct tt_prepared_cache *cache)
{
    for (int i = 0; cache->calls != NULL && i < TT_PREPARED_SETS * TT_PREPARED_WAYS; i++)
        if (cache->calls[i].used)
            empty(&cache->calls[i]);
    free(cache->calls);
    cache->calls = NULL;
}

static bool same_key(const struct tt_key *a, const struct tt_key *b)
{
    return a->collective == b->collective && a->algorithm == b->algorithm && a->in_place == b->in_place &&
           a->exact == b->exact && a->root == b->root;
}

static tutti_status fill(const struct tt_key *key, struct tt_prepared *prepared)
{
    *prepared = (struct tt_prepared){ 0 };
    tutti_status status = tt_schedule_build(&prepared->schedule, key);
    if (status == TUTTI_OK)
        status = tt_op_create(&prepared->schedule, &prepared->op);
    if (status == TUTTI_OK && tt_collectives[key->collective].counts != TT_COUNTS_EVEN)
        status = create_tables((size_t)key->n, &prepared->tables);
    if (status != TUTTI_OK)
        empty(prepared);
    prepared->used = status == TUTTI_OK;
    return status;
}

tutti_status tt_prepared_create(const struct tt_key *key, struct tt_prepared **prepared)
{
    struct tt_prepared *fresh = malloc(sizeof *fresh);
    if (fresh == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to prepare a call");
    tutti_status status = fill(key, fresh);
    if (status == TUTTI_OK)
        *prepared = fresh;
    else
        free(fresh);
    return status;
}

tutti_status tt_prepared_find(
    struct tt_prepared_cache *cache, const struct tt_key *key, struct tt_prepared **prepared)
{
    uint32_t hash =
        (uint32_t)key->collective * 31 + key->algorithm * 7 + (uint32_t)key->root * 5 + key->in_place;
    struct tt_prepared *set = &cache->calls[hash % TT_PREPARED_SETS * TT_PREPARED_WAYS], *oldest = NULL;
    for (int i = 0; i < TT_PREPARED_WAYS; i++) {
        struct tt_prepared *p = &set[i];
        if (p->used && same_key(&p->schedule.key, key)) {
            p->last_use = ++cache->clock;
            *prepared = p;
            return TUTTI_OK;
        }
        if (oldest == NULL || p->last_use < oldest->last_use)
            oldest = p;
    }
    if (oldest->used)
        empty(oldest);
    tutti_status status = fill(key, oldest);
    if (status != TUTTI_OK)
        return status;
    oldest->last_use = ++cache->clock;
    *prepared = oldest;
    return TUTTI_OK;
}

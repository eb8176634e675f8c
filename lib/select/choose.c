/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.c: a forced name, rules, predicted times, in this order. */
#include "select/choose.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

enum { ELEMENT_BYTES = 4 }; /* predictions do not look at types */

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

bool tt_choose_allows(
    const struct tt_settings *settings, enum tt_collective collective, const char *algorithm)
{
    char name[TT_CONFIG_TEXT];
    return settings->algorithm[0] == '\0' ||
           !forced_name(settings->algorithm, tt_collectives[collective].name, name, sizeof name) ||
           strcmp(name, algorithm) == 0;
}

static tutti_status refuse(const struct tt_request *request, const char *name, const char *why)
{
    char list[256] = "";
    for (int i = 0; i < tt_algorithm_count; i++) {
        const struct tt_algorithm *a = &tt_algorithms[i];
        if (a->collective == request->collective && tt_algorithm_refuse(a, request->requirements) == NULL)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", list[0] ? ", " : "", a->name);
    }
    return tt_fail(TUTTI_INVALID_USAGE, "algo: '%s' cannot serve %s on %d ranks%s: %s; eligible: %s", name,
        tt_collectives[request->collective].name, request->requirements.n,
        request->requirements.exact ? " under exact" : "", why, list);
}

/* Returns the algorithm of this collective whose name is nearest to `name`. */
static const char *nearest_name(const struct tt_request *request, const char *name)
{
    const char *nearest = "";
    int least = INT_MAX;
    for (int i = 0; i < tt_algorithm_count; i++) {
        int far = tt_text_distance(name, tt_algorithms[i].name);
        if (tt_algorithms[i].collective == request->collective && far < least) {
            least = far;
            nearest = tt_algorithms[i].name;
        }
    }
    return nearest;
}

static tutti_status force(const struct tt_request *request, const char *name, int *algorithm)
{
    int forced = tt_algorithm_find(request->collective, name);
    if (forced < 0) {
        char why[96];
        snprintf(
            why, sizeof why, "there is none of that name, the nearest is %s", nearest_name(request, name));
        return refuse(request, name, why);
    }
    const char *why = tt_algorithm_refuse(&tt_algorithms[forced], request->requirements);
    if (why != NULL)
        return refuse(request, name, why);
    *algorithm = forced;
    return TUTTI_OK;
}

struct tt_cost_query tt_choose_cost_query(const struct tt_request *request)
{
    uint64_t bytes = tt_size_of_class(tt_size_class(request->bytes)),
             least = (uint64_t)request->requirements.n * ELEMENT_BYTES;
    if (bytes < least) /* with chunks that are empty a schedule is not what it is meant to be */
        bytes = least;
    return (struct tt_cost_query){ .collective = request->collective,
        .requirements = request->requirements,
        .bytes = request->collective == TT_BARRIER ? ELEMENT_BYTES : bytes,
        .element_bytes = ELEMENT_BYTES,
        .slot_bytes = request->slot_bytes,
        .costs = &request->settings->costs };
}

int tt_choose_rule(const struct tt_request *request)
{
    const struct tt_settings *s = request->settings;
    unsigned size = tt_size_class(request->bytes);
    for (uint32_t i = 0; i < s->nrules; i++) {
        const struct tt_rule *r = &s->rule[i];
        if (r->collective == request->collective && request->requirements.n >= r->ranks_least &&
            request->requirements.n <= r->ranks_most && size >= r->size_least && size <= r->size_most &&
            r->algorithm < tt_algorithm_count && tt_algorithms[r->algorithm].collective == r->collective)
            return r->algorithm;
    }
    return -1;
}

/* What is chosen without a prediction: by force, or by a rule. TT_BY_COST: nothing is. */
static tutti_status choose_as_told(const struct tt_request *request, int *algorithm, enum tt_decider *decider)
{
    char name[TT_CONFIG_TEXT];
    const char *list = request->settings->algorithm;
    *decider = TT_BY_FORCE;
    if (list[0] != '\0' && forced_name(list, tt_collectives[request->collective].name, name, sizeof name))
        return force(request, name, algorithm);
    int rule = tt_choose_rule(request);
    *decider = TT_BY_COST;
    if (rule >= 0 && tt_algorithm_refuse(&tt_algorithms[rule], request->requirements) == NULL) {
        *algorithm = rule;
        *decider = TT_BY_RULE;
    }
    return TUTTI_OK;
}

static tutti_status choose_by_cost(const struct tt_request *request, int *algorithm)
{
    struct tt_cost_query query = tt_choose_cost_query(request);
    return tt_cost_choose(&query, algorithm);
}

tutti_status tt_choose_anew(const struct tt_request *request, int *algorithm, enum tt_decider *decider)
{
    tutti_status status = choose_as_told(request, algorithm, decider);
    return status == TUTTI_OK && *decider == TT_BY_COST ? choose_by_cost(request, algorithm) : status;
}

/* The answer of another rank may come from memory that anything may have written. */
static bool may_serve(const struct tt_request *request, int algorithm)
{
    return algorithm >= 0 && algorithm < tt_algorithm_count &&
           tt_algorithms[algorithm].collective == request->collective &&
           tt_algorithm_refuse(&tt_algorithms[algorithm], request->requirements) == NULL;
}

static tutti_status choose_for_host(
    const struct tt_request *request, struct tt_choice_cache *cache, size_t choice, int *algorithm)
{
    int answer = tt_host_choice_ask(&cache->host, choice);
    if (may_serve(request, answer)) {
        *algorithm = answer;
        return TUTTI_OK;
    }
    tutti_status status = choose_by_cost(request, algorithm);
    cache->predicted++;
    tt_host_choice_tell(&cache->host, choice, status == TUTTI_OK ? *algorithm : -1);
    return status;
}

size_t tt_choice_of(const struct tt_request *request)
{
    size_t needs = request->requirements.ordered + 2U * request->requirements.long_elements;
    return ((size_t)request->collective * 4 + needs) * TT_SIZE_CLASSES + tt_size_class(request->bytes);
}

tutti_status tt_choose(const struct tt_request *request, struct tt_choice_cache *cache, int *algorithm)
{
    enum tt_decider decider;
    size_t choice = tt_choice_of(request);
    if (cache == NULL)
        return tt_choose_anew(request, algorithm, &decider);
    if (cache->known[choice] != 0) {
        *algorithm = cache->known[choice] - 1;
        return TUTTI_OK;
    }
    tutti_status status = choose_as_told(request, algorithm, &decider);
    if (status == TUTTI_OK && decider == TT_BY_COST)
        status = choose_for_host(request, cache, choice, algorithm);
    if (status == TUTTI_OK)
        cache->known[choice] = (uint8_t)(*algorithm + 1);
    return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.c: force, rules, prices, in this order. */
#include "select/choose.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

enum { ELEMENT_BYTES = 4 }; /* prices do not look at types */

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

static tutti_status refuse(const struct tt_ask *ask, const char *name, const char *why)
{
    char list[256] = "";
    for (int i = 0; i < tt_algorithm_count; i++) {
        const struct tt_algorithm *a = &tt_algorithms[i];
        if (a->collective == ask->collective && tt_algorithm_refuse(a, ask->demand) == NULL)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", list[0] ? ", " : "", a->name);
    }
    return tt_fail(TUTTI_INVALID_USAGE, "algo: '%s' cannot serve %s on %d ranks%s: %s; eligible: %s", name,
        tt_collectives[ask->collective].name, ask->demand.n, ask->demand.exact ? " under exact" : "", why,
        list);
}

/* Of the same collective. */
static const char *nearest_name(const struct tt_ask *ask, const char *name)
{
    const char *nearest = "";
    int least = INT_MAX;
    for (int i = 0; i < tt_algorithm_count; i++) {
        int far = tt_text_distance(name, tt_algorithms[i].name);
        if (tt_algorithms[i].collective == ask->collective && far < least) {
            least = far;
            nearest = tt_algorithms[i].name;
        }
    }
    return nearest;
}

static tutti_status force(const struct tt_ask *ask, const char *name, int *algorithm)
{
    int forced = tt_algorithm_find(ask->collective, name);
    if (forced < 0) {
        char why[96];
        snprintf(why, sizeof why, "there is none of that name, the nearest is %s", nearest_name(ask, name));
        return refuse(ask, name, why);
    }
    const char *why = tt_algorithm_refuse(&tt_algorithms[forced], ask->demand);
    if (why != NULL)
        return refuse(ask, name, why);
    *algorithm = forced;
    return TUTTI_OK;
}

struct tt_question tt_choose_question(const struct tt_ask *ask)
{
    uint64_t bytes = tt_size_of_class(tt_size_class(ask->bytes)),
             least = (uint64_t)ask->demand.n * ELEMENT_BYTES;
    if (bytes < least) /* with chunks that are empty a schedule is not what it is meant to be */
        bytes = least;
    return (struct tt_question){ .collective = ask->collective,
        .demand = ask->demand,
        .bytes = ask->collective == TT_BARRIER ? ELEMENT_BYTES : bytes,
        .element_bytes = ELEMENT_BYTES,
        .slot_bytes = ask->slot_bytes,
        .costs = &ask->settings->costs };
}

int tt_choose_rule(const struct tt_ask *ask)
{
    const struct tt_settings *s = ask->settings;
    unsigned size = tt_size_class(ask->bytes);
    for (uint32_t i = 0; i < s->nrules; i++) {
        const struct tt_rule *r = &s->rule[i];
        if (r->collective == ask->collective && ask->demand.n >= r->ranks_least &&
            ask->demand.n <= r->ranks_most && size >= r->size_least && size <= r->size_most &&
            r->algorithm < tt_algorithm_count && tt_algorithms[r->algorithm].collective == r->collective)
            return r->algorithm;
    }
    return -1;
}

tutti_status tt_choose_anew(const struct tt_ask *ask, int *algorithm, enum tt_decider *decider)
{
    char name[TT_CONFIG_TEXT];
    const char *list = ask->settings->algorithm;
    *decider = TT_BY_FORCE;
    if (list[0] != '\0' && forced_name(list, tt_collectives[ask->collective].name, name, sizeof name))
        return force(ask, name, algorithm);
    int rule = tt_choose_rule(ask);
    *decider = TT_BY_RULE;
    if (rule >= 0 && tt_algorithm_refuse(&tt_algorithms[rule], ask->demand) == NULL) {
        *algorithm = rule;
        return TUTTI_OK;
    }
    struct tt_question question = tt_choose_question(ask);
    *decider = TT_BY_PRICE;
    return tt_price_choose(&question, algorithm);
}

tutti_status tt_choose(const struct tt_ask *ask, struct tt_choices *choices, int *algorithm)
{
    enum tt_decider decider;
    unsigned asks = ask->demand.ordered + 2U * ask->demand.long_elements;
    uint8_t *known =
        choices == NULL ? NULL : &choices->known[ask->collective][asks][tt_size_class(ask->bytes)];
    if (known != NULL && *known != 0) {
        *algorithm = *known - 1;
        return TUTTI_OK;
    }
    tutti_status status = tt_choose_anew(ask, algorithm, &decider);
    if (status == TUTTI_OK && known != NULL)
        *known = (uint8_t)(*algorithm + 1);
    return status;
}

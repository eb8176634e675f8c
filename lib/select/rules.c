/* SPDX-License-Identifier: BSD-3-Clause */
/* rules.c: the file of the setting `rules`: a rule a line, read by rank 0, for all.
 *
 *     # collective  ranks  sizes     algorithm
 *     all_reduce    2      0-4K      one_shot
 *     all_reduce    2-8    6K-       direct       # and above
 *     cost latency_away 1500 ns                   # what predictions count with (costs.h)
 *
 * A line that is not a rule is an error with its number: whoever wrote it believes that it is in force. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algorithms/algorithms.h"
#include "base/file.h"
#include "base/status.h"
#include "select/selection.h"

enum { LINE_BYTES = 256, LIST_BYTES = 256 };

struct place { /* of a line, for messages */
    const char *path;
    int line;
};

static tutti_status wrong(const struct place *p, const char *word, const char *legal)
{
    return tt_fail(
        TUTTI_INVALID_ARGUMENT, "rules: %s, line %d: '%.60s'; legal: %s", p->path, p->line, word, legal);
}

/* "2-8", "2", or "6K-" with no end. */
static bool parse_range(const char *word, uint64_t *least, uint64_t *most)
{
    char copy[LINE_BYTES];
    snprintf(copy, sizeof copy, "%s", word);
    char *dash = strchr(copy, '-');
    if (dash != NULL)
        *dash++ = '\0';
    if (!tt_parse_bytes(copy, least))
        return false;
    *most = dash == NULL ? *least : UINT64_MAX;
    return (dash == NULL || *dash == '\0' || tt_parse_bytes(dash, most)) && *least <= *most;
}

static tutti_status parse_names(const struct place *p, char *words[4], struct tt_rule *rule)
{
    char list[LIST_BYTES];
    struct tt_text text = { list, sizeof list, 0 };
    enum tt_collective collective = tt_collective_find(words[0]);
    if (collective == TT_COLLECTIVES || tt_collectives[collective].p2p) {
        for (int i = 0; i < TT_COLLECTIVES; i++)
            if (!tt_collectives[i].p2p)
                tt_put(&text, "%s%s", text.length > 0 ? ", " : "", tt_collectives[i].name);
        return wrong(p, words[0], list);
    }
    int algorithm = tt_algorithm_find(collective, words[3]);
    for (int i = 0; i < tt_algorithm_count && algorithm < 0; i++)
        if (tt_algorithms[i].collective == collective)
            tt_put(&text, "%s%s", text.length > 0 ? ", " : "", tt_algorithms[i].name);
    if (algorithm < 0)
        return wrong(p, words[3], list);
    rule->collective = (uint8_t)collective;
    rule->algorithm = (uint8_t)algorithm;
    return TUTTI_OK;
}

static tutti_status parse_rule(const struct place *p, char *words[4], struct tt_rule *rule)
{
    uint64_t ranks[2], sizes[2];
    tutti_status status = parse_names(p, words, rule);
    if (status != TUTTI_OK)
        return status;
    if (!parse_range(words[1], &ranks[0], &ranks[1]) || ranks[0] < 1 || ranks[0] > UINT16_MAX)
        return wrong(p, words[1], "ranks, as 8, 2-8, or 2- for 2 and more");
    if (!parse_range(words[2], &sizes[0], &sizes[1]))
        return wrong(p, words[2], "bytes of the whole vector, as 0-4K, or 6K- for 6K and more");
    rule->ranks_least = (uint16_t)ranks[0];
    rule->ranks_most = (uint16_t)(ranks[1] < UINT16_MAX ? ranks[1] : UINT16_MAX);
    rule->size_least = (uint8_t)tt_size_class(sizes[0]);
    rule->size_most = (uint8_t)tt_size_class(sizes[1]);
    return TUTTI_OK;
}

static bool overlap(const struct tt_rule *a, const struct tt_rule *b)
{
    return a->collective == b->collective && a->ranks_least <= b->ranks_most &&
           b->ranks_least <= a->ranks_most && a->size_least <= b->size_most && b->size_least <= a->size_most;
}

static tutti_status take_cost(
    const struct place *p, const char *whole, char *words[], int count, struct tt_costs *costs)
{
    char *end = NULL;
    double value = count > 2 ? strtod(words[2], &end) : 0;
    if (count < 3 || count > 4 || *end != '\0' || !tt_costs_set(costs, words[1], value))
        return wrong(p, whole, "cost NAME VALUE, with a name and in the unit of `tutti-sim --costs`");
    return TUTTI_OK;
}

/* One line; lines[i] is where rule i stands. */
static tutti_status take(const struct place *p, char *line, struct tt_settings *settings, int *lines)
{
    static const char form[] =
        "COLLECTIVE RANKS SIZES ALGORITHM, cost NAME VALUE, or a comment that begins with #";
    char *words[5], *rest = NULL, whole[LINE_BYTES];
    int count = 0;
    struct tt_rule rule = { 0 };
    line[strcspn(line, "#\n")] = '\0';
    snprintf(whole, sizeof whole, "%s", line);
    for (char *word = strtok_r(line, " \t\r", &rest); word != NULL && count < 5;
         word = strtok_r(NULL, " \t\r", &rest))
        words[count++] = word;
    if (count == 0)
        return TUTTI_OK;
    if (strcmp(words[0], "cost") == 0)
        return take_cost(p, whole, words, count, &settings->costs);
    if (count != 4)
        return wrong(p, whole, form);
    tutti_status status = parse_rule(p, words, &rule);
    if (status != TUTTI_OK)
        return status;
    for (uint32_t i = 0; i < settings->nrules; i++)
        if (overlap(&settings->rule[i], &rule))
            return tt_fail(TUTTI_INVALID_ARGUMENT,
                "rules: %s, line %d: ranks and sizes overlap those of line %d; legal: one rule for each "
                "(sizes count as the power of two, or one and a half of it, below)",
                p->path, p->line, lines[i]);
    if (settings->nrules == TT_RULES_MAX)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "rules: %s, line %d: legal: at most %d rules", p->path,
            p->line, TT_RULES_MAX);
    lines[settings->nrules] = p->line;
    settings->rule[settings->nrules++] = rule;
    return TUTTI_OK;
}

tutti_status tt_rules_read(struct tt_settings *settings)
{
    char line[LINE_BYTES];
    int lines[TT_RULES_MAX];
    struct place place = { .path = settings->rules };
    tutti_status status = TUTTI_OK;
    settings->nrules = 0;
    if (settings->rules[0] == '\0')
        return TUTTI_OK;
    char why[TT_FILE_WHY];
    int fd = tt_file_open(settings->rules, O_RDONLY, why);
    if (fd < 0)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "rules: '%s' cannot be read (%s); legal: a file of rules",
            settings->rules, why);
    FILE *file = fdopen(fd, "r");
    if (file == NULL) {
        close(fd);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "rules: no memory to read '%s'", settings->rules);
    }
    while (status == TUTTI_OK && fgets(line, sizeof line, file) != NULL) {
        place.line++;
        if (strchr(line, '\n') == NULL && !feof(file))
            status = wrong(&place, line, "lines below 256 bytes");
        else
            status = take(&place, line, settings, lines);
    }
    fclose(file);
    return status;
}

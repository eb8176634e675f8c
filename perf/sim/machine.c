/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.c: how the text of a machine is read, and written. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"

struct reading {
    struct sim_machine *machine;
    struct sim_protocol common, *now; /* now: whose costs the next line says */
};

static bool take_name(char name[SIM_NAME_BYTES], const char *value)
{
    if (value == NULL || strlen(value) >= SIM_NAME_BYTES)
        return false;
    strcpy(name, value);
    return true;
}

/* A protocol begins with what is common. */
static bool take_protocol(struct reading *r, const char *value)
{
    struct sim_machine *m = r->machine;
    if (m->protocols_count == SIM_PROTOCOLS)
        return false;
    if (m->protocols_count == 0)
        r->common = *r->now;
    r->now = &m->protocols[m->protocols_count];
    *r->now = r->common;
    m->protocols_count++;
    return take_name(r->now->name, value);
}

/* "algorithms COLLECTIVE NAME.. [away NAME..]": it has these. */
static bool take_algorithms(struct sim_machine *m, const char *collective, char *names)
{
    int c = 0;
    while (c < TT_COLLECTIVES && (collective == NULL || strcmp(tt_collectives[c].name, collective) != 0))
        c++;
    if (c == TT_COLLECTIVES)
        return false;
    m->limited[c] = true;
    enum sim_where where = SIM_EVERYWHERE;
    char *rest = NULL;
    for (const char *name = strtok_r(names, " \t", &rest); name != NULL;
         name = strtok_r(NULL, " \t", &rest)) {
        bool away = strcmp(name, "away") == 0;
        int a = tt_algorithm_find((enum tt_collective)c, name);
        if (!away && (a < 0 || a >= SIM_ALGORITHMS))
            return false;
        if (away)
            where = SIM_BETWEEN_HOSTS;
        else
            m->has[a] = where;
    }
    return true;
}

static bool take_whole(int *number, double value, int most)
{
    *number = value >= 1 && value <= most ? (int)value : 0;
    return *number > 0 && *number == value;
}

/* In ns, up to a second; in GB/s, down to a millionth. */
static bool take_time(uint64_t *femtoseconds, double ns)
{
    *femtoseconds = ns >= 0 && ns <= 1e9 ? (uint64_t)(1e6 * ns + 0.5) : 0;
    return ns >= 0 && ns <= 1e9;
}
/* What messages between hosts cost in this class; lines behind it may say it better. */
static bool take_network(struct tt_costs *costs, const char *value)
{
    bool known = value != NULL && tt_link_parse(value, &costs->network);
    if (known)
        tt_link_price(costs->network, costs);
    return known;
}

static bool take_rate(uint64_t *femtoseconds, double gb_s)
{
    *femtoseconds = gb_s >= 1e-6 ? (uint64_t)(1e6 / gb_s + 0.5) : 0;
    return gb_s >= 1e-6;
}

/* Reads "name value [unit] [# comment]". */
static bool read_line(char *line, struct reading *r, const char **wrong)
{
    char *rest = NULL, *end = NULL;
    line[strcspn(line, "#\n")] = '\0';
    const char *name = strtok_r(line, " \t", &rest), *value = strtok_r(NULL, " \t", &rest);
    struct sim_machine *m = r->machine;
    if (name == NULL)
        return true;
    *wrong = name;
    if (strcmp(name, "library") == 0)
        return take_name(m->library, value);
    if (strcmp(name, "protocol") == 0)
        return take_protocol(r, value);
    if (strcmp(name, "network") == 0)
        return take_network(&r->now->costs, value);
    if (strcmp(name, "algorithms") == 0)
        return take_algorithms(m, value, rest);
    double number = value != NULL ? strtod(value, &end) : -1;
    if (value == NULL || *end != '\0')
        return false;
    if (strcmp(name, "ranks_per_host") == 0)
        return take_whole(&m->ranks_per_host, number, 65536);
    if (strcmp(name, "meets") == 0)
        return take_whole(&m->meets, number, 65536);
    if (strcmp(name, "launch") == 0)
        return take_time(&r->now->launch, number);
    if (strcmp(name, "proxy") == 0)
        return take_time(&m->proxy, number);
    if (strcmp(name, "staging") == 0)
        return take_rate(&m->staging, number);
    return tt_costs_set(&r->now->costs, name, number);
}

static bool read_text(const char *name, char *text, struct sim_machine *machine, char *why)
{
    struct reading reading = { .machine = machine, .now = &machine->protocols[0] };
    char *rest = NULL;
    int number = 1;
    reading.now->costs = tt_costs_default();
    for (char *line = text; line != NULL; line = rest, number++) {
        const char *wrong = "";
        rest = strchr(line, '\n');
        if (rest != NULL)
            *rest++ = '\0';
        if (!read_line(line, &reading, &wrong)) {
            snprintf(why, SIM_WHY_BYTES,
                "%s, line %d: \"%s\" is no line of a machine, or its value is none; legal are the lines of "
                "`tutti-sim --costs`, and up to %d protocols",
                name, number, wrong, SIM_PROTOCOLS);
            return false;
        }
    }
    machine->protocols_count = machine->protocols_count > 0 ? machine->protocols_count : 1;
    return true;
}

static char *text_of_file(const char *path)
{
    enum { MOST = 1 << 16 };
    FILE *file = fopen(path, "r");
    char *text = file != NULL ? calloc(1, MOST) : NULL;
    if (text != NULL && fread(text, 1, MOST - 1, file) == 0) {
        free(text);
        text = NULL;
    }
    if (file != NULL)
        fclose(file);
    return text;
}

bool sim_machine_read(const char *name, struct sim_machine *machine, char *why)
{
    struct sim_machine read = { 0 };
    const struct sim_preset *preset = sim_preset_find(name);
    char *text = preset != NULL ? strdup(preset->text) : text_of_file(name);
    if (text == NULL) {
        snprintf(why, SIM_WHY_BYTES, "there is no machine, and no file, \"%s\" (tutti-sim --machines)", name);
        return false;
    }
    bool good = read_text(name, text, &read, why);
    free(text);
    if (good)
        *machine = read;
    return good;
}

/* --- Writing */

static void tell_names(
    const struct sim_machine *m, int collective, enum sim_where where, struct tt_text *text)
{
    bool first = where == SIM_BETWEEN_HOSTS;
    for (int a = 0; a < tt_algorithm_count && a < SIM_ALGORITHMS; a++) {
        if (m->has[a] != where || tt_algorithms[a].collective != (uint8_t)collective)
            continue;
        tt_put(text, "%s %s", first ? " away" : "", tt_algorithms[a].name);
        first = false;
    }
}

static void tell_algorithms(const struct sim_machine *m, struct tt_text *text)
{
    for (int c = 0; c < TT_COLLECTIVES; c++) {
        if (!m->limited[c])
            continue;
        tt_put(text, "algorithms     %s", tt_collectives[c].name);
        tell_names(m, c, SIM_EVERYWHERE, text);
        tell_names(m, c, SIM_BETWEEN_HOSTS, text);
        tt_put(text, "\n");
    }
}

static void tell_protocol(const struct sim_protocol *p, struct tt_text *text)
{
    char lines[4096], *rest = NULL;
    struct tt_text costs = { lines, sizeof lines, 0 };
    tt_costs_tell(&p->costs, &costs);
    if (p->name[0] != '\0')
        tt_put(text, "protocol %s\n", p->name);
    tt_put(text, "%-14s %.1f ns # of each call\n", "launch", 1e-6 * (double)p->launch);
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '\t'), *unit;
        *value++ = '\0';
        unit = strchr(value, ' ');
        *unit++ = '\0';
        tt_put(text, "%-14s %s %.*s # %s\n", line, value, (int)strcspn(unit, " "), unit,
            unit + strcspn(unit, " ") + 1);
    }
}

void sim_machine_tell(const struct sim_machine *m, struct tt_text *text)
{
    if (m->library[0] != '\0')
        tt_put(text, "%-14s %s\n", "library", m->library);
    if (m->ranks_per_host > 0)
        tt_put(text, "%-14s %d\n", "ranks_per_host", m->ranks_per_host);
    if (m->meets > 0)
        tt_put(text, "%-14s %d # ranks of one host, by kernels of several devices\n", "meets", m->meets);
    tt_put(text, "%-14s %.1f ns # of a call that goes to other hosts\n", "proxy", 1e-6 * (double)m->proxy);
    if (m->staging > 0)
        tt_put(text, "%-14s %.1f GB/s # of the vector, to the host's memory and back\n", "staging",
            1e6 / (double)m->staging);
    tell_algorithms(m, text);
    for (int p = 0; p < m->protocols_count; p++)
        tell_protocol(&m->protocols[p], text);
}

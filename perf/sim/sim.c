/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.c: tutti-sim, what Tutti would do on machines that one does not have.
 *
 * It asks the cost model of the library (lib/select/), which simulates schedules in virtual time, with the
 * costs of a machine that is a text. So it shows what the library would choose there, and what that takes. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "base/config.h"
#include "executor.h"
#include "places.h"
#include "request.h"

enum {
    EXIT_GOOD,
    EXIT_USAGE = 2,
    EXIT_BROKEN = 3,
    RANKS_MAX = 100000,
    EXECUTED_MAX = 1024,
    EACH_TO_EACH_MAX = 20000,
    SORTED = 2 * TT_COST_SORTED, /* what has more ranks than a communicator is sorted, too */
};
#define EXECUTED_BYTES ((uint64_t)4 << 30)

static const char help[] =
    "tutti-sim: what Tutti would do on machines that you do not have\n"
    "\n"
    "usage: tutti-sim COLLECTIVE SIZE -n RANKS [flags]\n"
    "       tutti-sim --machines               the machines it knows, and where their figures come from\n"
    "       tutti-sim --machine NAME --costs   what a machine charges, line by line\n"
    "\n"
    "  -n N                number of ranks, up to 100000\n"
    "  -m, --machine M     a name of --machines, or a file of such lines (default dgx-h100)\n"
    "      --per-host K    ranks on each host (default: what the machine says)\n"
    "      --hosts FILE    a line for each host: NAME [slots=K]; ranks fill them in turn\n"
    "      --hwloc FILE    one machine, as lstopo writes it in XML: a rank on each core\n"
    "  -a, --algo NAME     this algorithm, in place of the one that the library chooses\n"
    "      --exact         sums in one fixed order (TUTTI_COMM_EXACT)\n"
    "      --slice SIZE    the longest message (default 1M)\n"
    "      --execute       also run the call by the real executor in virtual time, up to 1024 ranks\n"
    "      --svg FILE      draw who does what when\n"
    "      --goal FILE     the schedules of all ranks, for LogGOPSim\n"
    "      --machines      the machines it knows\n"
    "      --costs         what the machine charges, as a file for --machine\n"
    "  -h, --help          this text\n"
    "\n"
    "SIZE is that of the whole vector, in bytes, as 64K; of a barrier it says nothing.\n"
    "\n"
    "Examples\n"
    "  tutti-sim all_reduce 1M -n 100000 --machine dgx-h100\n"
    "  tutti-sim all_reduce 8 -n 64 --svg small.svg      which message does the end wait for?\n"
    "  tutti-sim broadcast 64M -n 512 -m ethernet --algo tree --execute\n"
    "  tutti-sim --machine dgx-h100 --costs >mine; tutti-sim all_gather 1G -n 4096 --machine ./mine\n"
    "\n"
    "Times are predictions: of a network without traffic of others, where a rank sends to other hosts no\n"
    "faster than `byte_away`, and all ranks of a host together no faster than `link`. The machines with "
    "GPUs\n"
    "leave out kernel launches, protocols and proxies, 6 to 12 us a call with NCCL and more between hosts,\n"
    "and have a transport from GPU to GPU across hosts, which Tutti has not: what is below 1M is too fast.\n"
    "\n"
    "Exit codes: 0 good, 2 bad usage, 3 something failed\n";

static const struct option longs[] = { { "machine", required_argument, NULL, 'm' },
    { "per-host", required_argument, NULL, 'p' }, { "hosts", required_argument, NULL, 'H' },
    { "hwloc", required_argument, NULL, 'W' }, { "algo", required_argument, NULL, 'a' },
    { "exact", no_argument, NULL, 'e' }, { "slice", required_argument, NULL, 's' },
    { "execute", no_argument, NULL, 'x' }, { "svg", required_argument, NULL, 'v' },
    { "goal", required_argument, NULL, 'g' }, { "machines", no_argument, NULL, 'M' },
    { "costs", no_argument, NULL, 'c' }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 } };

static int refuse(const char *what, const char *value, const char *legal)
{
    fprintf(stderr, "tutti-sim: %s \"%s\" is not legal; %s\n", what, value, legal);
    return EXIT_USAGE;
}

static int show_machines(void)
{
    for (int i = 0; i < sim_preset_count; i++)
        printf("# %s: %s\n%s%s%s%s\n", sim_presets[i].name, sim_presets[i].about,
            sim_presets[i].omits != NULL ? "# " : "",
            sim_presets[i].omits != NULL ? sim_presets[i].omits : "",
            sim_presets[i].omits != NULL ? "\n" : "", sim_presets[i].text);
    return EXIT_GOOD;
}

static int show_costs(const struct sim_request *r)
{
    char lines[4096], *rest = NULL;
    struct tt_text text = { lines, sizeof lines, 0 };
    tt_costs_tell(&r->machine.costs, &text);
    printf("# what machine %s charges\n", r->machine_name);
    if (r->machine.ranks_per_host > 0)
        printf("%-14s %d\n", "ranks_per_host", r->machine.ranks_per_host);
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '\t'), *unit;
        *value++ = '\0';
        unit = strchr(value, ' ');
        *unit++ = '\0';
        printf("%-14s %s %.*s # %s\n", line, value, (int)strcspn(unit, " "), unit,
            unit + strcspn(unit, " ") + 1);
    }
    return EXIT_GOOD;
}

/* --- The topology */

static int open_topology(struct sim_request *r)
{
    int code = EXIT_GOOD;
    char why[SIM_WHY_BYTES];
    int32_t *host = malloc((size_t)r->n * sizeof *host);
    if (host == NULL)
        return EXIT_BROKEN;
    int per_host = r->per_host > 0 ? r->per_host : r->machine.ranks_per_host;
    for (int i = 0; i < r->n; i++)
        host[i] = per_host > 0 ? i / per_host : 0;
    if (r->hosts != NULL && r->cores != NULL)
        code = refuse("--hwloc", r->cores, "without --hosts it is: the ranks are on one machine");
    const char *name = r->hosts != NULL ? r->hosts : r->cores;
    if (code == EXIT_GOOD && name != NULL && !sim_places_read(name, r->cores != NULL, host, r->n, why))
        code = refuse(r->cores != NULL ? "--hwloc" : "--hosts", name, why);
    if (code == EXIT_GOOD && tt_topology_create(&r->topology, r->n, host) != TUTTI_OK)
        code = EXIT_BROKEN;
    free(host);
    return code;
}

/* --- What is asked */

static int find_collective(struct sim_request *r)
{
    for (int c = 0; c < TT_COLLECTIVES; c++) {
        if (strcmp(tt_collectives[c].name, r->collective) != 0 || tt_collectives[c].p2p)
            continue;
        if (tt_collectives[c].counts != TT_COUNTS_EVEN)
            return refuse(
                "the collective", r->collective, "what has counts of its own for each rank is not simulated");
        r->query.collective = (enum tt_collective)c;
        return EXIT_GOOD;
    }
    return refuse("the collective", r->collective,
        "all_reduce, reduce_scatter, all_gather, broadcast, reduce, barrier, all_to_all, gather and scatter "
        "are");
}

static int check_algorithm(const struct sim_request *r)
{
    if (r->algorithm == NULL)
        return EXIT_GOOD;
    int a = tt_algorithm_find(r->query.collective, r->algorithm);
    if (a < 0)
        return refuse("--algo", r->algorithm, "`tutti-info algorithms COLLECTIVE` lists what is");
    const char *why = tt_algorithm_refuse(&tt_algorithms[a], r->query.requirements);
    return why == NULL ? EXIT_GOOD : refuse("--algo", r->algorithm, why);
}

static int check_execution(const struct sim_request *r)
{
    char number[32];
    snprintf(number, sizeof number, "%d", r->n);
    if (r->execute && r->n > EXECUTED_MAX)
        return refuse("with --execute, -n", number, "1 to 1024 ranks, whom the executor can run, are");
    snprintf(number, sizeof number, "%llu", (unsigned long long)r->bytes);
    if (r->execute && r->bytes > EXECUTED_BYTES / 4 / (uint64_t)r->n)
        return refuse(
            "with --execute, the size", number, "what takes up to 4 GiB with the vectors of all ranks is");
    return EXIT_GOOD;
}

/* Slices are counted in 32 bits, and what takes hours is refused: where each rank has a message for each, the
 * time to simulate one grows as the square of their number. */
static int check_effort(const struct sim_request *r)
{
    char number[32];
    snprintf(number, sizeof number, "%d", r->n);
    if (r->query.collective == TT_ALL_TO_ALL && r->n > EACH_TO_EACH_MAX)
        return refuse(
            "of all_to_all, -n", number, "1 to 20000 ranks, each of which has a message for each, are");
    snprintf(number, sizeof number, "%llu", (unsigned long long)r->slice_bytes);
    if (r->bytes / r->slice_bytes >= UINT32_MAX / 2)
        return refuse("--slice", number, "what cuts the vector into less than two billion slices is");
    return EXIT_GOOD;
}

static int answer(struct sim_request *r, char **words, int count)
{
    if (count < 1 || count > 2)
        return refuse("the question", count > 2 ? words[2] : "", "COLLECTIVE SIZE is (tutti-sim --help)");
    r->collective = words[0];
    int code = find_collective(r);
    if (code != EXIT_GOOD)
        return code;
    bool barrier = r->query.collective == TT_BARRIER;
    r->query.element_bytes = 4;
    r->bytes = r->query.element_bytes;
    if (!barrier && (count != 2 || !tt_parse_bytes(words[1], &r->bytes) || r->bytes > (uint64_t)1 << 40))
        return refuse("the size", count == 2 ? words[1] : "", "0 to 1T bytes, as 64K, are");
    if (r->n < 1)
        return refuse("-n", "", "a number of ranks must be given, 1 to 100000");
    code = open_topology(r);
    if (code != EXIT_GOOD)
        return code;
    r->machine.costs.hosts = r->cores != NULL ? 1 : (uint64_t)r->topology.domains;
    if (r->cores != NULL)
        r->machine.costs.cores = (uint64_t)r->n;
    r->query.bytes = r->bytes;
    r->query.slot_bytes = r->slice_bytes;
    r->query.costs = &r->machine.costs;
    r->query.sorted = SORTED;
    r->query.requirements =
        (struct tt_requirements){ .n = r->n, .exact = r->exact, .topology = &r->topology };
    code = check_effort(r);
    if (code == EXIT_GOOD)
        code = check_algorithm(r);
    if (code == EXIT_GOOD)
        code = check_execution(r);
    if (code == EXIT_GOOD && sim_report(r) != TUTTI_OK)
        code = EXIT_BROKEN;
    tt_topology_free(&r->topology);
    return code;
}

static int take_number(const char *flag, const char *text, int most, int *number)
{
    uint64_t value;
    if (!tt_parse_bytes(text, &value) || value < 1 || value > (uint64_t)most)
        return refuse(flag, text, "a number from 1 to 100000 is");
    *number = (int)value;
    return -1;
}

/* Returns -1: go on. */
static int take_flag(int code, const char *word, struct sim_request *r, bool *costs)
{
    switch (code) {
    case 'n':
        return take_number("-n", optarg, RANKS_MAX, &r->n);
    case 'p':
        return take_number("--per-host", optarg, RANKS_MAX, &r->per_host);
    case 's':
        if (!tt_parse_bytes(optarg, &r->slice_bytes) || r->slice_bytes < 64)
            return refuse("--slice", optarg, "64 bytes or more are");
        return -1;
    case 'm':
        r->machine_name = optarg;
        return -1;
    case 'H':
        r->hosts = optarg;
        return -1;
    case 'W':
        r->cores = optarg;
        return -1;
    case 'a':
        r->algorithm = optarg;
        return -1;
    case 'v':
        r->svg = optarg;
        return -1;
    case 'g':
        r->goal = optarg;
        return -1;
    case 'e':
        r->exact = true;
        return -1;
    case 'x':
        r->execute = true;
        return -1;
    case 'c':
        *costs = true;
        return -1;
    case 'M':
        return show_machines();
    case 'h':
        fputs(help, stdout);
        return EXIT_GOOD;
    default:
        return refuse(
            "the flag", word, code == ':' ? "a value must follow" : "tutti-sim --help lists the flags");
    }
}

int main(int argc, char **argv)
{
    struct sim_request request = { .machine_name = "dgx-h100", .slice_bytes = 1 << 20 };
    char why[SIM_WHY_BYTES];
    bool costs = false;
    int result = -1;
    opterr = 0;
    for (int code; result < 0 && (code = getopt_long(argc, argv, ":n:m:a:h", longs, NULL)) != -1;)
        result = take_flag(code, argv[optind - 1], &request, &costs);
    if (result < 0 && !sim_machine_read(request.machine_name, &request.machine, why)) {
        fprintf(stderr, "tutti-sim: %s\n", why);
        result = EXIT_USAGE;
    }
    if (result < 0)
        result = costs ? show_costs(&request) : answer(&request, argv + optind, argc - optind);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "tutti-sim: the output could not be written\n");
        return EXIT_BROKEN;
    }
    return result;
}

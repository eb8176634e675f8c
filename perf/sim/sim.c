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
#include "counts.h"
#include "places.h"
#include "request.h"

enum {
    EXIT_GOOD,
    EXIT_USAGE = 2,
    EXIT_BROKEN = 3,
    RANKS_MAX = 100000,
    EXECUTED_MAX = 1024,
    SORTED = 2 * TT_COST_SORTED, /* what has more ranks than a communicator is sorted, too */
};
#define EXECUTED_BYTES ((uint64_t)4 << 30)

static const char help[] =
    "tutti-sim: what Tutti would do on machines that you do not have, and what NCCL does\n"
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
    "  -a, --algo NAME     this algorithm, in place of the one that is chosen\n"
    "      --counts W,W..  of a v-form: blocks as long as these, of ranks in turn, for up to 1024 ranks\n"
    "      --exact         sums in one fixed order (TUTTI_COMM_EXACT)\n"
    "      --slice SIZE    the longest message (default 1M)\n"
    "      --execute       also run the call by the real executor in virtual time, up to 1024 ranks\n"
    "      --json          one JSON object in place of the text\n"
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
    "  tutti-sim all_reduce 1M -n 16 --machine dgx-h100-nccl   what NCCL takes there\n"
    "  tutti-sim all_reduce 8 -n 64 --svg small.svg      which message does the end wait for?\n"
    "  tutti-sim broadcast 64M -n 512 -m ethernet --algo tree --execute\n"
    "  tutti-sim all_gather_v 64M -n 64 --counts 1,1,1,5 --json\n"
    "  tutti-sim --machine dgx-h100 --costs >mine; tutti-sim all_gather 1G -n 4096 --machine ./mine\n"
    "\n"
    "Times are predictions: of a network without traffic of others, where a rank sends to other hosts no\n"
    "faster than `byte_away`, and all ranks of a host together no faster than `link`. The first line says\n"
    "whose costs they are: Tutti's, or those of NCCL where a machine's name ends in -nccl.\n"
    "\n"
    "Exit codes: 0 good, 2 bad usage, 3 something failed\n";

enum { JSON = 256, COUNTS };
static const struct option longs[] = { { "machine", required_argument, NULL, 'm' },
    { "per-host", required_argument, NULL, 'p' }, { "hosts", required_argument, NULL, 'H' },
    { "hwloc", required_argument, NULL, 'W' }, { "algo", required_argument, NULL, 'a' },
    { "exact", no_argument, NULL, 'e' }, { "slice", required_argument, NULL, 's' },
    { "execute", no_argument, NULL, 'x' }, { "svg", required_argument, NULL, 'v' },
    { "goal", required_argument, NULL, 'g' }, { "machines", no_argument, NULL, 'M' },
    { "json", no_argument, NULL, JSON }, { "counts", required_argument, NULL, COUNTS },
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
    struct tt_text text = { 0 };
    while (tt_text_begin(&text))
        sim_machine_tell(&r->machine, &text);
    if (text.bytes == NULL)
        return EXIT_BROKEN;
    printf("# what machine %s charges\n%s", r->machine_name, text.bytes);
    free(text.bytes);
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
        r->query.collective = (enum tt_collective)c;
        return EXIT_GOOD;
    }
    return refuse("the collective", r->collective,
        "all_reduce, reduce_scatter, all_gather, broadcast, reduce, barrier, all_to_all, gather and scatter "
        "are, and with _v reduce_scatter, all_gather, all_to_all, gather and scatter");
}

/* A library may lack a collective, or do it as no algorithm here does. */
static int check_library(const struct sim_request *r)
{
    for (int a = 0; a < tt_algorithm_count; a++)
        if (tt_algorithms[a].collective == (uint8_t)r->query.collective && sim_refuse(r, a) == NULL)
            return EXIT_GOOD;
    return refuse("on this machine, the collective", r->collective,
        "those are of which its library has algorithms that Tutti has, too (tutti-sim --machines)");
}

static int check_algorithm(const struct sim_request *r)
{
    if (r->algorithm == NULL)
        return EXIT_GOOD;
    int a = tt_algorithm_find(r->query.collective, r->algorithm);
    if (a < 0)
        return refuse("--algo", r->algorithm, "`tutti-info algorithms COLLECTIVE` lists what is");
    const char *why = sim_refuse(r, a);
    return why == NULL ? EXIT_GOOD : refuse("--algo", r->algorithm, why);
}

static int check_execution(const struct sim_request *r)
{
    char number[32];
    snprintf(number, sizeof number, "%d", r->n);
    if (r->execute && r->counts != NULL)
        return refuse("with --execute, --counts", r->counts, "blocks of one length are");
    if (r->execute && r->n > EXECUTED_MAX)
        return refuse("with --execute, -n", number, "1 to 1024 ranks, whom the executor can run, are");
    snprintf(number, sizeof number, "%llu", (unsigned long long)r->bytes);
    if (r->execute && r->bytes > EXECUTED_BYTES / 4 / (uint64_t)r->n)
        return refuse(
            "with --execute, the size", number, "what takes up to 4 GiB with the vectors of all ranks is");
    return EXIT_GOOD;
}

/* Slices are counted in 32 bits. */
static int check_effort(const struct sim_request *r)
{
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)r->slice_bytes);
    if (r->bytes / r->slice_bytes >= UINT32_MAX / 2)
        return refuse("--slice", number, "what cuts the vector into less than two billion slices is");
    return EXIT_GOOD;
}

/* What writes or runs messages has none where kernels do the call. */
static int check_messages(const struct sim_request *r)
{
    if ((r->execute || r->svg != NULL || r->goal != NULL) && sim_kernels_time(r) < UINT64_MAX)
        return refuse(r->execute       ? "--execute, of"
                      : r->svg != NULL ? "--svg, of"
                                       : "--goal, of",
            r->collective,
            "kernels that meet do this call, of which no message is simulated; --algo names what has "
            "messages");
    return EXIT_GOOD;
}

/* Lays out the blocks of a v-form. */
static int lay_blocks(struct sim_request *r, struct tt_layout *blocks)
{
    const char *legal = NULL;
    bool own = tt_collectives[r->query.collective].counts != TT_COUNTS_EVEN;
    size_t n = (size_t)r->n;
    if (r->counts == NULL)
        return EXIT_GOOD;
    if (!own || r->n > SIM_COUNTS_RANKS)
        return refuse("--counts", r->counts,
            own ? "up to 1024 ranks are with it, who are all simulated" : "it is for collectives with _v");
    size_t *counts = malloc(n * sizeof *counts);
    uint64_t *starts = malloc(n * sizeof *starts);
    int code = counts != NULL && starts != NULL ? EXIT_GOOD : EXIT_BROKEN;
    if (code == EXIT_GOOD &&
        !sim_counts_read(r->counts, r->n, r->bytes / r->query.element_bytes, counts, &legal))
        code = refuse("--counts", r->counts, legal);
    if (code != EXIT_GOOD) {
        free(counts);
        free(starts);
        return code;
    }
    tt_layout_v(blocks, counts, starts, (uint32_t)r->n, 1, r->query.element_bytes);
    r->query.blocks = blocks;
    r->query.subjects = TT_COST_ALL;
    return EXIT_GOOD;
}

static void spread(struct sim_request *r)
{
    for (int p = 0; p < r->machine.protocols_count; p++) {
        struct tt_costs *costs = &r->machine.protocols[p].costs;
        costs->hosts = r->cores != NULL ? 1 : (uint64_t)r->topology.domains;
        if (r->cores != NULL)
            costs->cores = (uint64_t)r->n;
    }
}

static int answer_placed(struct sim_request *r)
{
    struct tt_layout blocks = { 0 };
    r->query.bytes = r->bytes;
    r->query.slot_bytes = r->slice_bytes;
    r->query.sorted = SORTED;
    r->query.requirements =
        (struct tt_requirements){ .n = r->n, .exact = r->exact, .topology = &r->topology };
    spread(r);
    int code = check_library(r);
    if (code == EXIT_GOOD)
        code = check_effort(r);
    if (code == EXIT_GOOD)
        code = check_algorithm(r);
    if (code == EXIT_GOOD)
        code = check_execution(r);
    if (code == EXIT_GOOD)
        code = check_messages(r);
    if (code == EXIT_GOOD)
        code = lay_blocks(r, &blocks);
    if (code == EXIT_GOOD && sim_report(r) != TUTTI_OK)
        code = EXIT_BROKEN;
    free((void *)(uintptr_t)blocks.counts);
    free((void *)(uintptr_t)blocks.starts);
    return code;
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
    code = answer_placed(r);
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
    case JSON:
        r->json = true;
        return -1;
    case COUNTS:
        r->counts = optarg;
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

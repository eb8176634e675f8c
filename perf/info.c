/* SPDX-License-Identifier: BSD-3-Clause */
/* info.c: tutti-info, what the library is, sees and would do here, as text.
 *
 * Everything comes from tutti_query, so that what this prints and what the library does cannot differ. A
 * question that the library does not know is a usage error, explained in the library's words. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "info_merge.h"
#include "machine.h"
#include "tutti.h"

enum { EXIT_GOOD, EXIT_USAGE = 2, EXIT_BROKEN = 3, RANKS_MAX = 4096, QUESTION_BYTES = 256 };

static const char help[] =
    "tutti-info: what Tutti is, sees and would do on this machine\n"
    "\n"
    "usage: tutti-info                            all of the following but schedules\n"
    "       tutti-info cpu                        version, processor, instruction set in use, cores granted\n"
    "       tutti-info config                     every setting and variable: value in force, where it comes "
    "from,\n"
    "                                             meaning\n"
    "       tutti-info transports                 how ranks can reach each other\n"
    "       tutti-info devices                    which GPUs can be used, or why none can\n"
    "       tutti-info topology                   in which cache domain this process is\n"
    "       tutti-info algorithms [COLLECTIVE]    what there is to choose from\n"
    "       tutti-info id                         a fresh id for TUTTI_ID; answers at it until it is ended\n"
    "       tutti-info schedule COLLECTIVE ALGORITHM [flags]\n"
    "                                             what each rank does, step by step\n"
    "       tutti-info merge FILE..               traces that TUTTI_TRACE named, as one, on stdout\n"
    "       tutti-info --why COLLECTIVE SIZE [flags]\n"
    "                                             the price of each algorithm, its parts, and the choice\n"
    "       tutti-info --calibrate                measure this machine's costs, and keep them for later "
    "jobs\n"
    "       tutti-info --attach PID               the last calls of a process, on all its communicators, "
    "also "
    "while\n"
    "                                             it hangs: whom an operation waits for, and how long\n"
    "\n"
    "Flags of schedule and --why\n"
    "  -n N             number of ranks (default 4)\n"
    "  -r, --root R     root of a rooted collective (default 0)\n"
    "      --rank R     only this rank's schedule, or all (default)\n"
    "      --in-place   as when send and recv are one buffer\n"
    "      --exact      under the canonical association\n"
    "      --topology T ranks that share a cache, as 0-3/4-7 or 2x4, for algorithms by cache domains\n"
    "\n"
    "Others\n"
    "      --attach PID what the process called last; it must be this user's\n"
    "      --why COLLECTIVE   of SIZE bytes in all, as 64K; the flags -n, --exact and --topology go with it\n"
    "      --calibrate  in less than a second; the file is ~/.cache/tutti/costs-* (or in XDG_CACHE_HOME)\n"
    "      --json       of --attach: an object in a line for each communicator; of devices: one object\n"
    "  -h, --help       this text\n"
    "      --version    the library's version\n"
    "\n"
    "Examples\n"
    "  tutti-info schedule all_reduce ring -n 3          a ring of three, all ranks\n"
    "  tutti-info schedule broadcast tree -n 8 -r 2 --rank 5\n"
    "  tutti-info schedule all_reduce hierarchical --topology 2x2\n"
    "  tutti-info --why all_reduce 64K -n 8              why this algorithm?\n"
    "  TUTTI_SLICE=64K tutti-info config                 see that a setting arrives\n"
    "  TUTTI_TRACE=t.%r.json mpirun -n 4 ./program; tutti-info merge t.*.json >all.json   for "
    "ui.perfetto.dev\n"
    "  tutti-info --attach $(pgrep -n trainer)           why does it stand still?\n"
    "  tutti-info devices --json                         for a script that starts a rank on each\n"
    "  tutti-info id >id & sleep 1; export TUTTI_ID=$(cat id) TUTTI_SIZE=2\n"
    "  TUTTI_RANK=0 ./program & TUTTI_RANK=1 ./program   two ranks without a launcher; then kill %1\n"
    "\n"
    "Reading a schedule: a step is a verb (send recv recv_reduce reduce copy), a peer, and cells: IN, OUT or "
    "TMP\n"
    "with chunk numbers. Steps that need not wait for each other may run at the same time.\n"
    "\n"
    "Exit codes: 0 good, 2 bad usage, 3 the library failed\n";

static const char *const collectives[] = { "all_reduce", "reduce_scatter", "all_gather", "broadcast",
    "reduce", "barrier", "all_gather_v", "all_to_all", "gather", "scatter", "reduce_scatter_v",
    "all_to_all_v", "gather_v", "scatter_v" };

/* The library's answer, to be freed; NULL if it does not know the question. */
static char *ask(const char *question)
{
    size_t length = tutti_query(NULL, question, NULL, 0);
    char *text = length > 0 ? malloc(length + 1) : NULL;
    if (text != NULL)
        tutti_query(NULL, question, text, length + 1);
    return text;
}

/* Print the answer line by line, a tab as a column; without one, say in the library's words what is legal. */
static int show(const char *question)
{
    char *text = ask(question), *rest = NULL;
    if (text == NULL) {
        fprintf(stderr, "tutti-info: %s: %s\n", question, tutti_get_last_error(NULL));
        return EXIT_USAGE;
    }
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        int name = (int)strcspn(line, "\t");
        if (line[name] == '\t')
            printf("  %-14.*s %s\n", name, line, line + name + 1);
        else
            printf("%s\n", line);
    }
    free(text);
    return EXIT_GOOD;
}

static void show_version(void)
{
    int version = tutti_get_version();
    printf("Tutti %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
}

static int show_cpu(void)
{
    char model[256];
    show_version();
    perf_machine_cpu(model, sizeof model);
    printf("processor: %s\nmemory granted: %.1f GB\nlibrary: ", model, 1e-9 * (double)perf_machine_memory());
    return show("cpu");
}

static int show_config(void)
{
    int code = show("config");
    if (code != EXIT_GOOD)
        return code;
    printf("\n");
    return show("variables");
}

static int show_process(const char *pid, bool json)
{
    char question[QUESTION_BYTES];
    snprintf(question, sizeof question, "attach %.100s%s", pid, json ? " json" : "");
    return show(question);
}

static int show_algorithms(const char *collective)
{
    char question[QUESTION_BYTES];
    int code = EXIT_GOOD;
    if (collective != NULL) {
        snprintf(question, sizeof question, "algorithms %s", collective);
        return show(question);
    }
    for (size_t i = 0; i < sizeof collectives / sizeof collectives[0] && code == EXIT_GOOD; i++) {
        printf("%s%s\n", i > 0 ? "\n" : "", collectives[i]);
        snprintf(question, sizeof question, "algorithms %s", collectives[i]);
        code = show(question);
    }
    return code;
}

static int show_all(void)
{
    int code = show_cpu();
    if (code == EXIT_GOOD) {
        printf("\nSettings\n");
        code = show_config();
    }
    static const char *const parts[][2] = { { "Transports", "transports" }, { "Devices", "devices" },
        { "Topology", "topology" } };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && code == EXIT_GOOD; i++) {
        printf("\n%s\n", parts[i][0]);
        code = show(parts[i][1]);
    }
    if (code == EXIT_GOOD) {
        printf("\nAlgorithms\n");
        code = show_algorithms(NULL);
    }
    return code;
}

struct request {
    const char *words[4]; /* command and its first arguments */
    const char *const *all; /* words, however many */
    int nwords;
    int n, root, rank; /* rank -1: all */
    bool in_place, exact, json, calibrate;
    const char *why; /* a collective; NULL: not asked */
    const char *attach; /* a process; NULL: none */
    const char *topology;
};

static int show_schedule(const struct request *r)
{
    char question[QUESTION_BYTES];
    int code = EXIT_GOOD;
    int first = r->rank < 0 ? 0 : r->rank, last = r->rank < 0 ? r->n - 1 : r->rank;
    for (int rank = first; rank <= last && code == EXIT_GOOD; rank++) {
        snprintf(question, sizeof question, "schedule %s %s %d %d %d %s%s %s", r->words[1], r->words[2], r->n,
            r->root, rank, r->in_place ? "in_place" : "out_of_place", r->exact ? " exact" : "",
            r->topology != NULL ? r->topology : "");
        code = show(question);
    }
    return code;
}

static int show_why(const struct request *r)
{
    char question[QUESTION_BYTES];
    snprintf(question, sizeof question, "why %.40s %.40s %d %s%.120s", r->why, r->words[0], r->n,
        r->exact ? "exact " : "", r->topology != NULL ? r->topology : "");
    return show(question);
}

static int refuse(const char *what, const char *value, const char *legal)
{
    fprintf(stderr, "tutti-info: %s %s: %s\n", what, value, legal);
    return EXIT_USAGE;
}

static bool parse(const char *text, int least, int most, int *value)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end != 0 || number < least || number > most)
        return false;
    *value = (int)number;
    return true;
}

/* The id is answered at by the process that made it, which therefore must stay. */
static int hold_id(void)
{
    tutti_id id;
    if (tutti_get_id(&id) != TUTTI_OK) {
        fprintf(stderr, "tutti-info: %s\n", tutti_get_last_error(NULL));
        return EXIT_BROKEN;
    }
    for (size_t i = 0; i < sizeof id.bytes; i++)
        printf("%02x", id.bytes[i]);
    printf("\n");
    fflush(stdout);
    return pause() == 0 ? EXIT_GOOD : EXIT_BROKEN;
}

static int answer(const struct request *r)
{
    const char *command = r->nwords > 0 ? r->words[0] : "";
    if (r->attach != NULL)
        return r->nwords == 0 ? show_process(r->attach, r->json)
                              : refuse("--attach", command, "no command goes with it");
    if (r->json && (r->nwords != 1 || strcmp(command, "devices") != 0))
        return refuse("--json", command, "it belongs to --attach and to devices");
    if (r->why != NULL)
        return r->nwords == 1 ? show_why(r)
                              : refuse("--why", r->why, "legal is: --why COLLECTIVE SIZE, as all_reduce 64K");
    if (r->calibrate)
        return r->nwords == 0 ? show("calibrate") : refuse("--calibrate", command, "no command goes with it");
    bool schedule = strcmp(command, "schedule") == 0, algorithms = strcmp(command, "algorithms") == 0;
    if (schedule && r->nwords != 3)
        return refuse(command, "", "legal is: schedule COLLECTIVE ALGORITHM, as schedule all_reduce ring");
    if (strcmp(command, "merge") == 0)
        return r->nwords > 1 ? info_merge(r->all + 1, r->nwords - 1)
                             : refuse(command, "", "legal is: merge FILE.., at least one");
    if (r->nwords > (schedule ? 3 : algorithms ? 2 : 1))
        return refuse(command, r->all[r->nwords - 1], "one word too many (tutti-info --help)");
    if (r->nwords == 0)
        return show_all();
    if (schedule)
        return show_schedule(r);
    if (algorithms)
        return show_algorithms(r->words[1]);
    if (strcmp(command, "cpu") == 0)
        return show_cpu();
    if (strcmp(command, "id") == 0)
        return hold_id();
    if (strcmp(command, "config") == 0)
        return show_config();
    if (strcmp(command, "devices") == 0)
        return show(r->json ? "devices json" : "devices");
    if (strcmp(command, "transports") == 0 || strcmp(command, "topology") == 0)
        return show(command);
    return refuse(command, "",
        "not a command; legal are cpu config transports devices topology algorithms schedule id merge");
}

enum { IN_PLACE = 256, EXACT, RANK, TOPOLOGY, VERSION, ATTACH, JSON, WHY, CALIBRATE };

static const struct option longs[] = {
    { "root", required_argument, NULL, 'r' },
    { "rank", required_argument, NULL, RANK },
    { "in-place", no_argument, NULL, IN_PLACE },
    { "exact", no_argument, NULL, EXACT },
    { "topology", required_argument, NULL, TOPOLOGY },
    { "attach", required_argument, NULL, ATTACH },
    { "json", no_argument, NULL, JSON },
    { "why", required_argument, NULL, WHY },
    { "calibrate", no_argument, NULL, CALIBRATE },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, VERSION },
    { 0 },
};

/* One flag into *r; -1 to go on, or the exit code. */
static int take_flag(int code, const char *word, struct request *r)
{
    bool good = true;
    switch (code) {
    case 'n':
        good = parse(optarg, 1, RANKS_MAX, &r->n);
        return good ? -1 : refuse("-n", optarg, "legal are 1 to 4096 ranks");
    case 'r':
        good = parse(optarg, 0, RANKS_MAX - 1, &r->root);
        return good ? -1 : refuse("-r/--root", optarg, "legal is a rank from 0 up");
    case RANK:
        good = strcmp(optarg, "all") == 0 || parse(optarg, 0, RANKS_MAX - 1, &r->rank);
        return good ? -1 : refuse("--rank", optarg, "legal is a rank from 0 up, or all");
    case IN_PLACE:
        r->in_place = true;
        return -1;
    case EXACT:
        r->exact = true;
        return -1;
    case TOPOLOGY:
        r->topology = optarg;
        return -1;
    case ATTACH:
        r->attach = optarg;
        return -1;
    case JSON:
        r->json = true;
        return -1;
    case WHY:
        r->why = optarg;
        return -1;
    case CALIBRATE:
        r->calibrate = true;
        return -1;
    case 'h':
        fputs(help, stdout);
        return EXIT_GOOD;
    case VERSION:
        show_version();
        return EXIT_GOOD;
    default:
        return refuse(word, "", code == ':' ? "a value must follow" : "unknown flag (tutti-info --help)");
    }
}

int main(int argc, char **argv)
{
    struct request request = { .n = 4, .rank = -1 };
    char number[16];
    int result = -1;
    opterr = 0;
    for (int code; result < 0 && (code = getopt_long(argc, argv, ":n:r:h", longs, NULL)) != -1;)
        result = take_flag(code, argv[optind - 1], &request);
    request.all = (const char *const *)&argv[optind]; /* getopt has moved the flags before them */
    request.nwords = argc - optind;
    for (int i = 0; i < request.nwords && i < 4; i++)
        request.words[i] = request.all[i];
    snprintf(number, sizeof number, "%d", request.root);
    if (result < 0 && request.root >= request.n)
        result = refuse("-r/--root", number, "there are fewer ranks (-n)");
    snprintf(number, sizeof number, "%d", request.rank);
    if (result < 0 && request.rank >= request.n)
        result = refuse("--rank", number, "there are fewer ranks (-n)");
    if (result < 0)
        result = answer(&request);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "tutti-info: the output could not be written\n");
        return EXIT_BROKEN;
    }
    return result;
}

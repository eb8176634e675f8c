/* SPDX-License-Identifier: BSD-3-Clause */
/* info.c: tutti-info, what the library is, sees and would do here, as text.
 *
 * Everything comes from tutti_query, so that what this prints and what the library does cannot differ. A
 * question that the library does not know is a usage error, explained in the library's words. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "info_merge.h"
#include "machine.h"
#include "tutti.h"

enum { EXIT_GOOD, EXIT_USAGE = 2, EXIT_BROKEN = 3, RANKS_MAX = 4096, QUESTION_BYTES = 256, FLAG_WORDS = 2 };

static const char help[] =
    "tutti-info: what Tutti is, sees and would do on this machine\n"
    "\n"
    "usage: tutti-info                            all of the following down to algorithms\n"
    "       tutti-info cpu                        version, processor, instruction set in use, cores granted\n"
    "       tutti-info config                     every setting and variable: value in force, where it comes "
    "from,\n"
    "                                             meaning\n"
    "       tutti-info transports                 how ranks can reach each other\n"
    "       tutti-info devices                    which GPUs can be used, or why none can\n"
    "       tutti-info topology                   which cores share a cache: the domain of this process\n"
    "       tutti-info algorithms [COLLECTIVE]    what there is to choose from\n"
    "       tutti-info schedule COLLECTIVE ALGORITHM [flags]\n"
    "                                             what each rank does, step by step\n"
    "       tutti-info why COLLECTIVE SIZE [flags]\n"
    "                                             the predicted time of each algorithm, its parts, the "
    "choice\n"
    "       tutti-info attach PID                 the last calls of a process, on all its communicators, "
    "also\n"
    "                                             while it hangs: whom an operation waits for, how long\n"
    "       tutti-info merge FILE..               traces that TUTTI_TRACE named, as one, on stdout\n"
    "       tutti-info id                         a fresh id for TUTTI_ID; answers at it until it is ended\n"
    "       tutti-info secret FILE                a new file for TUTTI_SECRET_FILE: random digits, for this "
    "user "
    "alone\n"
    "\n"
    "Flags of schedule and why\n"
    "  -n N             number of ranks (default 4)\n"
    "  -r, --root R     root of a rooted collective (default 0)\n"
    "      --rank R     only this rank's schedule, or all (default)\n"
    "      --in-place   as when send and recv are one buffer\n"
    "      --exact      sums in one fixed order (TUTTI_COMM_EXACT); who cannot keep it does not serve\n"
    "      --topology T ranks that share a cache, as 0-3/4-7 or 2x4, for algorithms by cache domains\n"
    "\n"
    "Others\n"
    "      --json       of attach: an object in a line for each communicator; of devices: one object\n"
    "      --force      of secret: replace a file that is there\n"
    "      --attach PID, and the following, are the commands of these names, as flags\n"
    "      --why COLLECTIVE\n"
    "  -h, --help       this text\n"
    "      --version    the library's version\n"
    "\n"
    "SIZE is that of the whole vector, in bytes, as 64K. attach works on processes of this user.\n"
    "\n"
    "Examples\n"
    "  tutti-info schedule all_reduce ring -n 3          a ring of three, all ranks\n"
    "  tutti-info schedule broadcast tree -n 8 -r 2 --rank 5\n"
    "  tutti-info schedule all_reduce hierarchical --topology 2x2\n"
    "  tutti-info why all_reduce 64K -n 8                why this algorithm?\n"
    "  TUTTI_SLICE=64K tutti-info config                 see that a setting arrives\n"
    "  TUTTI_TRACE=t.%r.json mpirun -n 4 ./program; tutti-info merge t.*.json >all.json   for "
    "ui.perfetto.dev\n"
    "  tutti-info attach $(pgrep -n trainer)             why does it stand still?\n"
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
        fprintf(stderr, "tutti-info: %s\n", tutti_get_last_error(NULL));
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
    const char *const *words; /* what the command is given, and how many there are */
    int nwords;
    int n, root, rank; /* rank -1: all */
    bool in_place, exact, json, force;
    const char *topology;
    const char *flag, *value; /* a command that was given as a flag, with its first word; NULL: none */
};

static int run_cpu(const struct request *r)
{
    (void)r;
    return show_cpu();
}

static int run_config(const struct request *r)
{
    (void)r;
    return show_config();
}

static int run_transports(const struct request *r)
{
    (void)r;
    return show("transports");
}

static int run_devices(const struct request *r)
{
    return show(r->json ? "devices json" : "devices");
}

static int run_topology(const struct request *r)
{
    (void)r;
    return show("topology");
}

static int run_algorithms(const struct request *r)
{
    return show_algorithms(r->nwords > 0 ? r->words[0] : NULL);
}

static int run_attach(const struct request *r)
{
    char question[QUESTION_BYTES];
    snprintf(question, sizeof question, "attach %.100s%s", r->words[0], r->json ? " json" : "");
    return show(question);
}

static int run_schedule(const struct request *r)
{
    char question[QUESTION_BYTES];
    int code = EXIT_GOOD;
    int first = r->rank < 0 ? 0 : r->rank, last = r->rank < 0 ? r->n - 1 : r->rank;
    for (int rank = first; rank <= last && code == EXIT_GOOD; rank++) {
        snprintf(question, sizeof question, "schedule %.40s %.40s %d %d %d %s%s%s%.120s", r->words[0],
            r->words[1], r->n, r->root, rank, r->in_place ? "in_place" : "out_of_place",
            r->exact ? " exact" : "", r->topology != NULL ? " " : "", r->topology != NULL ? r->topology : "");
        code = show(question);
    }
    return code;
}

static int run_why(const struct request *r)
{
    char question[QUESTION_BYTES];
    snprintf(question, sizeof question, "why %.40s %.40s %d%s%s%.120s", r->words[0], r->words[1], r->n,
        r->exact ? " exact" : "", r->topology != NULL ? " " : "", r->topology != NULL ? r->topology : "");
    return show(question);
}

static int refuse(const char *what, const char *value, const char *legal)
{
    fprintf(stderr, "tutti-info: %s%s%s: %s\n", what, value[0] != '\0' ? " " : "", value, legal);
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
static int run_id(const struct request *r)
{
    (void)r;
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

/* 32 random bytes as digits. A new file has its mode from the start; one that is there may be in use. */
static int run_secret(const struct request *r)
{
    unsigned char bytes[32];
    char text[2 * sizeof bytes + 2];
    const char *path = r->words[0];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        fprintf(stderr, "tutti-info: no random numbers from the system: %s\n", strerror(errno));
        return EXIT_BROKEN;
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 4, "%02x\n", bytes[i]);
    if (r->force)
        unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST)
        return refuse(
            "secret", path, "it is there already; --force replaces it, and who has the old one is shut out");
    bool written = fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    written = fd >= 0 && close(fd) == 0 && written;
    if (written)
        return EXIT_GOOD;
    fprintf(stderr, "tutti-info: %s: %s\n", path, strerror(errno));
    if (fd >= 0)
        unlink(path);
    return EXIT_BROKEN;
}

static int run_merge(const struct request *r)
{
    return info_merge(r->words, r->nwords);
}

static const struct command {
    const char *name, *form; /* what follows the name */
    int least, most; /* words */
    bool json; /* has a form in JSON */
    int (*run)(const struct request *r);
} commands[] = {
    { "cpu", "", 0, 0, false, run_cpu },
    { "config", "", 0, 0, false, run_config },
    { "transports", "", 0, 0, false, run_transports },
    { "devices", " [--json]", 0, 0, true, run_devices },
    { "topology", "", 0, 0, false, run_topology },
    { "algorithms", " [COLLECTIVE]", 0, 1, false, run_algorithms },
    { "schedule", " COLLECTIVE ALGORITHM [flags], as schedule all_reduce ring", 2, 2, false, run_schedule },
    { "why", " COLLECTIVE SIZE [flags], as why all_reduce 64K", 2, 2, false, run_why },
    { "attach", " PID [--json]", 1, 1, true, run_attach },
    { "merge", " FILE..", 1, INT_MAX, false, run_merge },
    { "id", "", 0, 0, false, run_id },
    { "secret", " FILE [--force]", 1, 1, false, run_secret },
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int refuse_command(const char *name)
{
    fprintf(stderr, "tutti-info: %s: not a command; legal are", name);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(stderr, " %s", commands[i].name);
    fprintf(stderr, "\n");
    return EXIT_USAGE;
}

/* Runs a command. What is wrong with its words the library says, and this says which words it takes. */
static int run_command(const struct command *c, const struct request *r)
{
    char form[QUESTION_BYTES];
    snprintf(form, sizeof form, "the form is: tutti-info %s%s", c->name, c->form);
    if (r->nwords > c->most)
        return refuse("one word too many", r->words[r->nwords - 1], form);
    if (r->nwords < c->least)
        return refuse(c->name, "", form);
    if (r->json && !c->json)
        return refuse("--json", "", "it belongs to attach and to devices");
    if (r->force && c->run != run_secret)
        return refuse("--force", "", "it belongs to secret");
    int code = c->run(r);
    if (code == EXIT_USAGE && c->most > 0 && c->run != run_merge && c->run != run_secret)
        fprintf(stderr, "tutti-info: %s\n", form);
    return code;
}

/* `words` has room before it for the command and the word that a flag gave. */
static int answer(struct request *r, const char **words, int nwords)
{
    if (r->value != NULL)
        *--words = r->value;
    if (r->flag != NULL)
        *--words = r->flag;
    nwords += (r->value != NULL) + (r->flag != NULL);
    if (nwords == 0)
        return r->json ? refuse("--json", "", "it belongs to attach and to devices") : show_all();
    r->words = words + 1;
    r->nwords = nwords - 1;
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, words[0]) == 0)
            return run_command(&commands[i], r);
    return refuse_command(words[0]);
}

enum { IN_PLACE = 256, EXACT, RANK, TOPOLOGY, VERSION, ATTACH, JSON, WHY, FORCE };

static const struct option longs[] = {
    { "root", required_argument, NULL, 'r' },
    { "rank", required_argument, NULL, RANK },
    { "in-place", no_argument, NULL, IN_PLACE },
    { "exact", no_argument, NULL, EXACT },
    { "topology", required_argument, NULL, TOPOLOGY },
    { "attach", required_argument, NULL, ATTACH },
    { "json", no_argument, NULL, JSON },
    { "force", no_argument, NULL, FORCE },
    { "why", required_argument, NULL, WHY },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, VERSION },
    { 0 },
};

/* A command that is given as a flag; -1 to go on, or the exit code. */
static int take_command(struct request *r, const char *name, const char *value)
{
    if (r->flag != NULL)
        return refuse("--", name, "there is one already; legal is one command");
    r->flag = name;
    r->value = value;
    return -1;
}

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
        return take_command(r, "attach", optarg);
    case JSON:
        r->json = true;
        return -1;
    case FORCE:
        r->force = true;
        return -1;
    case WHY:
        return take_command(r, "why", optarg);
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
    const char **words = calloc((size_t)argc + FLAG_WORDS, sizeof *words);
    if (words == NULL)
        return EXIT_BROKEN;
    opterr = 0;
    for (int code; result < 0 && (code = getopt_long(argc, argv, ":n:r:h", longs, NULL)) != -1;)
        result = take_flag(code, argv[optind - 1], &request);
    for (int i = optind; i < argc; i++) /* getopt has moved the flags before them */
        words[FLAG_WORDS + i - optind] = argv[i];
    snprintf(number, sizeof number, "%d", request.root);
    if (result < 0 && request.root >= request.n)
        result = refuse("-r/--root", number, "there are fewer ranks (-n)");
    snprintf(number, sizeof number, "%d", request.rank);
    if (result < 0 && request.rank >= request.n)
        result = refuse("--rank", number, "there are fewer ranks (-n)");
    if (result < 0)
        result = answer(&request, words + FLAG_WORDS, argc - optind);
    free(words);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "tutti-info: the output could not be written\n");
        return EXIT_BROKEN;
    }
    return result;
}

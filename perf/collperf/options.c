/* SPDX-License-Identifier: BSD-3-Clause */
/* options.c: one table of flags; from it come parsing, ranges and error messages.
 *
 * Flags are those of nccl-tests where it has them. A bad value is one line that names the flag, the value and
 * what is legal, and exit code 2; nothing has been started by then. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "suggest.h"
#include "perf/info/machine.h"
#include "origin.h"

enum kind { SIZE, NUMBER, SWITCH, TEXT, TYPE, OP, ROOT, MEMORY, LIST, HELP, VERSION };

enum reading { GOOD, NO_NUMBER, TOO_LARGE };

struct flag {
    const char *name;
    char letter; /* 0: none */
    uint8_t kind;
    size_t offset;
    int64_t least, most;
    const char *legal;
};

#define AT(field) offsetof(struct perf_options, field)
#define SIZES "legal is a number of bytes, as 8, 64K, 1.5M or 1MiB; K, M, G and T are powers of 1024"

enum { SIZE_MAX_SHIFT = 42, GRAPH_CALLS = 256 /* of a communicator at a time: lib/tutti.h */ };
#define LARGEST (INT64_C(1) << SIZE_MAX_SHIFT)

static const struct flag flags[] = {
    { "minbytes", 'b', SIZE, AT(min_bytes), 0, LARGEST, SIZES },
    { "maxbytes", 'e', SIZE, AT(max_bytes), 0, LARGEST, SIZES },
    { "stepfactor", 'f', NUMBER, AT(step_factor), 2, 1 << 30, "legal is a whole number from 2 up" },
    { "stepbytes", 'i', SIZE, AT(step_bytes), 1, LARGEST, SIZES ", at least 1" },
    { "iters", 'n', NUMBER, AT(iterations), 1, 1000000000, "legal is a whole number from 1 up" },
    { "warmup_iters", 'w', NUMBER, AT(warmups), 0, 1000000000, "legal is a whole number from 0 up" },
    { "datatype", 'd', TYPE, 0, 0, 0, "legal are " },
    { "op", 'o', OP, 0, 0, 0, "legal are " },
    { "root", 'r', ROOT, AT(root), 0, PERF_RANKS_MAX - 1, "legal is a rank from 0 up, or all" },
    { "check", 'c', NUMBER, AT(check), 0, 1000000,
        "legal is how many calls are checked at each point, from 0 up" },
    { "blocking", 'z', NUMBER, AT(blocking), 0, 1,
        "legal are 0 (on a host stream) and 1 (blocking calls, which is nccl-tests' 2)" },
    { "program", 'G', NUMBER, AT(program), 0, 4096, "legal are 0 (no program) to 4096 calls" },
    { "ranks", 'g', NUMBER, AT(processes), 1, PERF_RANKS_MAX, "legal are 1 to 1024 rank processes" },
    { "threads", 't', NUMBER, AT(threads), 1, PERF_RANKS_MAX,
        "legal are 1 to 1024 rank threads in a process" },
    { "bind", 0, SWITCH, AT(bind), 0, 0, "" },
    { "memory", 0, MEMORY, 0, 0, 0, "legal are malloc, registered, huge, host, pinned, managed and device" },
    { "device", 0, NUMBER, AT(device), 0, 4095, "legal is the number of a device (tutti-info devices)" },
    { "algo", 0, TEXT, AT(algorithm), 0, 0, "" },
    { "dirty", 0, SWITCH, AT(dirty), 0, 0, "" },
    { "exact", 0, SWITCH, AT(exact), 0, 0, "" },
    { "json", 0, SWITCH, AT(json), 0, 0, "" },
    { "csv", 0, SWITCH, AT(csv), 0, 0, "" },
    { "plot", 0, TEXT, AT(plot), 0, 0, "" },
    { "tune", 0, TEXT, AT(tune), 0, 0, "" },
    { "self-test", 0, SWITCH, AT(self_test), 0, 0, "" },
    { "timeout", 0, NUMBER, AT(timeout_ms), 1, INT64_MAX / 1000000,
        "legal is a number of milliseconds from 1 up" },
    { "output", 0, TEXT, AT(output), 0, 0, "" },
    { "list", 0, LIST, 0, 0, 0, "legal are collectives types ops options" },
    { "help", 'h', HELP, 0, 0, 0, "" },
    { "version", 0, VERSION, 0, 0, 0, "" },
};

/* Long names that nccl-tests has for letters that mean the same here. */
static const struct {
    const char *name;
    char letter;
} synonyms[] = { { "nthreads", 't' }, { "ngpus", 'g' }, { "cudagraph", 'G' } };

enum {
    FLAGS = sizeof flags / sizeof flags[0],
    SYNONYMS = sizeof synonyms / sizeof synonyms[0],
    LONG_ONLY = 256,
    SIMILAR = 60 /* of 100: near enough */
};

/* "-g/--ranks" */
static void spell(const struct flag *flag, char *text, size_t bytes)
{
    if (flag->letter != 0)
        snprintf(text, bytes, "-%c/--%s", flag->letter, flag->name);
    else
        snprintf(text, bytes, "--%s", flag->name);
}

static int refuse(char letter_of_flag, const char *value, const char *why)
{
    for (int i = 0; i < FLAGS; i++) {
        if (flags[i].letter != letter_of_flag)
            continue;
        fprintf(stderr, "collperf: -%c/--%s %s: %s\n", letter_of_flag, flags[i].name, value, why);
        break;
    }
    return PERF_EXIT_USAGE;
}

/* The digits at *text, behind which it moves; TOO_LARGE beyond 64 bits. */
static enum reading read_digits(const char **text, uint64_t *value)
{
    enum reading reading = NO_NUMBER;
    *value = 0;
    for (; **text >= '0' && **text <= '9'; ++*text) {
        uint64_t digit = (uint64_t)(**text - '0');
        reading = reading == TOO_LARGE || *value > (UINT64_MAX - digit) / 10 ? TOO_LARGE : GOOD;
        *value = *value * 10 + digit;
    }
    return reading;
}

/* Millionths of the fraction at *text, ".5"; false if a dot has no digit behind it. */
static bool read_fraction(const char **text, uint64_t *millionths)
{
    *millionths = 0;
    if (**text != '.')
        return true;
    const char *first = ++*text;
    for (uint64_t unit = 100000; **text >= '0' && **text <= '9'; ++*text, unit /= 10)
        *millionths += unit * (uint64_t)(**text - '0');
    return *text > first;
}

/* The rules of the library's settings (TUTTI_SLICE): 64, 64K, 64KB, 64KiB, 1.5M, up to T, either case. */
static enum reading parse_number(const char *text, bool suffixes, int64_t *value)
{
    static const char units[] = "KMGT";
    uint64_t number, millionths = 0;
    enum reading reading = read_digits(&text, &number);
    if (reading == NO_NUMBER || (suffixes && !read_fraction(&text, &millionths)))
        return NO_NUMBER;
    const char *unit = suffixes && *text > ' ' ? strchr(units, *text & ~0x20) : NULL;
    int shift = unit == NULL ? 0 : 10 * (int)(unit - units + 1);
    text += unit != NULL;
    if (unit != NULL && (strcasecmp(text, "B") == 0 || strcasecmp(text, "iB") == 0))
        text += strlen(text);
    if (*text != 0 || (unit == NULL && millionths != 0))
        return NO_NUMBER;
    if (reading == TOO_LARGE || number >= (uint64_t)INT64_MAX >> shift)
        return TOO_LARGE;
    *value = (int64_t)((number << shift) + (millionths << shift) / 1000000);
    return GOOD;
}

static enum reading read_value(const struct flag *flag, const char *value, int64_t *number)
{
    enum reading reading = parse_number(value, flag->kind == SIZE, number);
    return reading == GOOD && *number > flag->most ? TOO_LARGE : reading;
}

static bool set_number(const struct flag *flag, const char *value, struct perf_options *o)
{
    int64_t number;
    if (read_value(flag, value, &number) != GOOD || number < flag->least)
        return false;
    *(int64_t *)((char *)o + flag->offset) = number;
    return true;
}

static bool set_memory(const char *value, struct perf_options *o)
{
    for (int i = 0; i < PERF_MEMORIES; i++) {
        if (strcmp(value, perf_memory_names[i]) != 0)
            continue;
        o->memory = (enum perf_memory)i;
        return true;
    }
    return false;
}

static bool set(const struct flag *flag, const char *value, struct perf_options *o)
{
    bool all = value != NULL && strcmp(value, "all") == 0;
    switch (flag->kind) {
    case SWITCH:
        *(bool *)((char *)o + flag->offset) = true;
        return true;
    case TEXT:
        *(const char **)((char *)o + flag->offset) = value;
        return true;
    case TYPE:
        o->type = all ? NULL : perf_type_find(value);
        return all || o->type != NULL;
    case OP:
        o->op = all ? NULL : perf_op_find(value);
        return all || o->op != NULL;
    case MEMORY:
        return set_memory(value, o);
    case ROOT:
        o->root = PERF_ALL;
        return all || set_number(flag, value, o);
    default:
        return set_number(flag, value, o);
    }
}

static void print_names(FILE *file, enum perf_names which, const char *after)
{
    const char *name;
    for (int i = 0; (name = perf_name(which, i)) != NULL; i++)
        fprintf(file, "%s%s", name, after);
}

static void print_flags(void)
{
    for (int i = 0; i < FLAGS; i++) {
        if (flags[i].letter != 0)
            printf("-%c\n", flags[i].letter);
        printf("--%s\n", flags[i].name);
    }
}

static bool print_list(const char *what)
{
    if (strcmp(what, "options") == 0)
        print_flags();
    else if (strcmp(what, "collectives") == 0)
        print_names(stdout, PERF_NAMES_COLLECTIVES, "\n");
    else if (strcmp(what, "types") == 0)
        print_names(stdout, PERF_NAMES_TYPES, "\n");
    else if (strcmp(what, "ops") == 0)
        print_names(stdout, PERF_NAMES_OPS, "\n");
    else
        return false;
    return true;
}

/* Answers a flag that asks for words instead of a measurement; false: it asks for a list that does not
 * exist. */
static bool answer(const struct flag *flag, const char *value)
{
    char version[16];
    perf_version(version, sizeof version);
    if (flag->kind == LIST)
        return print_list(value);
    if (flag->kind == HELP)
        perf_help_print();
    else
        printf("collperf of Tutti %s\n", version);
    return true;
}

/* One line: the flag, its value, what is legal. */
static int refuse_value(const struct flag *flag, const char *value)
{
    char spelled[32];
    int64_t number;
    bool numeric = flag->kind == SIZE || flag->kind == NUMBER || flag->kind == ROOT;
    spell(flag, spelled, sizeof spelled);
    fprintf(stderr, "collperf: %s %s: ", spelled, value);
    if (numeric && read_value(flag, value, &number) == TOO_LARGE)
        fprintf(stderr, "too large, the most is %" PRId64 "%s; ",
            flag->kind == SIZE ? flag->most >> 40 : flag->most, flag->kind == SIZE ? "T" : "");
    fputs(flag->legal, stderr);
    if (flag->kind == TYPE || flag->kind == OP) {
        print_names(stderr, flag->kind == TYPE ? PERF_NAMES_TYPES : PERF_NAMES_OPS, " ");
        fputs("all", stderr);
    }
    fputs("\n", stderr);
    return PERF_EXIT_USAGE;
}

/* A flag that is not there: what that of nccl-tests or of OSU's benchmarks is here, or which name is near. */
static void complain_unknown(const char *word)
{
    char letter[3] = { '-', (char)optopt, 0 };
    char name[64];
    snprintf(
        name, sizeof name, "%.*s", (int)strcspn(word + strspn(word, "-"), "="), word + strspn(word, "-"));
    struct perf_instead instead = perf_suggest_flag(optopt, name);
    const char *nearest = NULL;
    int best = SIMILAR;
    for (int i = 0; optopt == 0 && i < FLAGS; i++) {
        int similarity = perf_similarity(name, flags[i].name);
        nearest = similarity >= best ? flags[i].name : nearest;
        best = similarity >= best ? similarity : best;
    }
    fprintf(stderr, "collperf: %s: unknown flag", optopt == 0 ? word : letter);
    if (instead.of_nccl != NULL)
        fprintf(stderr, "; instead of nccl-tests': %s", instead.of_nccl);
    if (instead.of_osu != NULL)
        fprintf(stderr, "; instead of OSU's: %s", instead.of_osu);
    if (instead.of_nccl == NULL && instead.of_osu == NULL && nearest != NULL)
        fprintf(stderr, "; the nearest is --%s", nearest);
    fprintf(stderr, " (collperf --help shows the flags)\n");
}

static int complain(int code, const char *word)
{
    if (code == ':')
        fprintf(stderr, "collperf: %s: a value must follow (collperf --help shows the flags)\n", word);
    else if (optopt >= LONG_ONLY)
        fprintf(stderr, "collperf: %s: this flag takes no value\n", word);
    else
        complain_unknown(word);
    return PERF_EXIT_USAGE;
}

/* Reads all flags into *o; -1, or an exit code. `given` has an entry per letter that was seen. */
static int parse_flags(int argc, char **argv, struct perf_options *o, bool given[128])
{
    char letters[2 * FLAGS + 2] = ":", *letter = letters + 1;
    struct option longs[FLAGS + SYNONYMS + 1] = { { 0 } };
    for (int i = 0; i < SYNONYMS; i++)
        longs[FLAGS + i] = (struct option){ synonyms[i].name, required_argument, NULL, synonyms[i].letter };
    for (int i = 0; i < FLAGS; i++) {
        bool valued = flags[i].kind != SWITCH && flags[i].kind != HELP && flags[i].kind != VERSION;
        longs[i] =
            (struct option){ flags[i].name, valued ? required_argument : no_argument, NULL, LONG_ONLY + i };
        if (flags[i].letter != 0)
            *letter++ = flags[i].letter;
        if (flags[i].letter != 0 && valued)
            *letter++ = ':';
    }
    opterr = 0;
    for (int code; (code = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        if (code == ':' || code == '?')
            return complain(code, argv[optind - 1]);
        const struct flag *flag = code >= LONG_ONLY ? &flags[code - LONG_ONLY] : flags;
        while (code < LONG_ONLY && flag->letter != code)
            flag++;
        if (flag->kind == HELP || flag->kind == VERSION || flag->kind == LIST)
            return answer(flag, optarg) ? PERF_EXIT_OK : refuse_value(flag, optarg);
        given[(int)flag->letter] = true;
        if (!set(flag, optarg, o))
            return refuse_value(flag, optarg);
    }
    return -1;
}

/* NULL: none is near enough to name it. */
static const char *nearest_collective(const char *word)
{
    const char *nearest = NULL, *name;
    int best = SIMILAR;
    for (int i = 0; (name = perf_name(PERF_NAMES_COLLECTIVES, i)) != NULL; i++) {
        int similarity = perf_similarity(word, name);
        nearest = similarity > best ? name : nearest;
        best = similarity > best ? similarity : best;
    }
    return nearest;
}

static int parse_collective(int argc, char **argv, struct perf_options *o, const bool given[128])
{
    if (argc > optind + 1) {
        fprintf(stderr, "collperf: %s: one collective at a time, or all\n", argv[optind + 1]);
        return PERF_EXIT_USAGE;
    }
    if (argc == optind || strcmp(argv[optind], "all") == 0) {
        o->collective = argc == optind ? &perf_collectives[0] : NULL;
        return -1;
    }
    o->collective = perf_collective_find(argv[optind]);
    if (o->collective != NULL && given['i'] && perf_is_of_osu(argv[optind])) {
        fprintf(stderr,
            "collperf: -i/--stepbytes %" PRId64
            ": OSU's -i is a number of calls, for which collperf has -n N; "
            "to step from size to size, write %s\n",
            o->step_bytes, o->collective->name);
        return PERF_EXIT_USAGE;
    }
    if (o->collective != NULL)
        return -1;
    const char *nearest = nearest_collective(argv[optind]);
    fprintf(stderr, "collperf: %s: not a collective; ", argv[optind]);
    if (nearest != NULL)
        fprintf(stderr, "the nearest is %s; ", nearest);
    fputs("legal are ", stderr);
    print_names(stderr, PERF_NAMES_COLLECTIVES, " ");
    fputs("all\n", stderr);
    return PERF_EXIT_USAGE;
}

static int settle_sizes(struct perf_options *o, const bool given[128])
{
    char value[32], why[160];
    if (o->self_test && !given['b'] && !given['e'])
        o->min_bytes = o->max_bytes = 4096;
    if (!given['e'] && o->max_bytes < o->min_bytes)
        o->max_bytes = o->min_bytes;
    if (!given['b'] && o->max_bytes < o->min_bytes)
        o->min_bytes = o->max_bytes;
    snprintf(value, sizeof value, "%" PRId64, o->max_bytes);
    if (o->max_bytes < o->min_bytes) {
        snprintf(
            why, sizeof why, "less than -b/--minbytes %" PRId64 "; legal is that much or more", o->min_bytes);
        return refuse('e', value, why);
    }
    if (given['f'] && given['i']) {
        snprintf(value, sizeof value, "%" PRId64, o->step_bytes);
        return refuse('i', value, "sizes grow either by -f/--stepfactor or by -i/--stepbytes, not by both");
    }
    if (given['i'])
        o->step_factor = 0;
    double need = 2e-9 * (double)o->max_bytes * (double)((o->launcher ? 1 : o->processes) * o->threads);
    double have = 1e-9 * (double)perf_machine_memory();
    if (need > have) {
        snprintf(why, sizeof why, "the ranks would need %.1f GB for buffers, %.1f GB are there", need, have);
        return refuse('e', value, why);
    }
    return -1;
}

static int settle_ranks(struct perf_options *o, const bool given[128])
{
    char value[32], why[160];
    if (!given['t'])
        o->threads = 1;
    if (o->launcher != NULL && given['g'] && o->processes != 1) {
        snprintf(value, sizeof value, "%" PRId64, o->processes);
        snprintf(why, sizeof why,
            "this process is one of a launcher's job (%s is set); legal is 1, and -t N for N rank threads in "
            "it",
            o->launcher);
        return refuse('g', value, why);
    }
    if (o->launcher != NULL && o->bind) {
        fprintf(
            stderr, "collperf: --bind: %s is set, and ranks of a launcher are bound by it\n", o->launcher);
        return PERF_EXIT_USAGE;
    }
    if (o->launcher != NULL)
        return -1;
    int64_t cores = perf_machine_cores();
    if (!given['g'])
        o->processes = given['t'] ? 1 : cores < 2 ? 2 : cores > PERF_RANKS_MAX ? PERF_RANKS_MAX : cores;
    int64_t ranks = o->processes * o->threads;
    snprintf(value, sizeof value, "%" PRId64, o->threads);
    if (ranks > PERF_RANKS_MAX)
        return refuse('t', value, "-g times -t may be at most 1024 ranks");
    snprintf(value, sizeof value, "%" PRId64, o->root);
    snprintf(
        why, sizeof why, "legal are all and 0 to %" PRId64 ", there are %" PRId64 " ranks", ranks - 1, ranks);
    return o->root >= ranks ? refuse('r', value, why) : -1;
}

static int settle_mode(const struct perf_options *o)
{
    char value[32];
    snprintf(value, sizeof value, "%" PRId64, o->program);
    return o->dirty && o->program > 1
               ? refuse('G', value, "--dirty rewrites nothing within a program; legal with it are 0 and 1")
               : -1;
}

/* Checks and fills in what goes with calls on a device's stream, and what only without. */
static int settle_device(struct perf_options *o, const bool given[128])
{
    char number[32];
    const char *memory = perf_memory_names[o->memory];
    bool on_stream = perf_memory_on_stream(o->memory);
    if (!on_stream && o->device == PERF_DEVICE_ANY)
        return -1;
    if (!on_stream) {
        fprintf(stderr,
            "collperf: --device %" PRId64 ": --memory %s is of no device; legal are device, managed, pinned "
            "and host\n",
            o->device, memory);
        return PERF_EXIT_USAGE;
    }
    if (o->launcher != NULL && o->device == PERF_DEVICE_ANY) {
        fprintf(stderr, "collperf: --memory %s: under a launcher say which device, by --device\n", memory);
        return PERF_EXIT_USAGE;
    }
    snprintf(number, sizeof number, "%" PRId64, o->program);
    if (o->program > GRAPH_CALLS)
        return refuse('G', number, "on a device it is a graph; legal are 0 (none) to 256 calls");
    if (o->program > 0 && o->threads > 1 && o->device != PERF_DEVICE_ANY)
        return refuse('G', number,
            "on a device it is a graph, and ranks that are threads need a device each; legal without "
            "--device");
    if (given['z'] && o->blocking == 1)
        return refuse('z', "1", "calls on a device's stream are enqueued; legal is 0");
    o->blocking = 0;
    return -1;
}

static int settle_report(const struct perf_options *o)
{
    const char *dot = o->plot != NULL ? strrchr(o->plot, '.') : NULL;
    const char *why = NULL, *flag = "--plot";
    if (o->json && o->csv) {
        flag = "--csv";
        why = "goes without --json: a report has one form";
    } else if (o->plot != NULL && (dot == NULL || (strcmp(dot, ".svg") != 0 && strcmp(dot, ".png") != 0))) {
        why = "legal is a file name that ends in .svg or .png";
    } else if (o->tune != NULL && (o->self_test || o->algorithm != NULL)) {
        flag = "--tune";
        why = "measures all algorithms; it goes without --algo and --self-test";
    } else if (o->plot != NULL && o->self_test) {
        why = "--self-test measures nothing that could be drawn";
    } else if (o->plot != NULL && o->collective != NULL && !o->collective->moves) {
        why = "nothing to draw: this collective has no sizes";
    }
    if (why == NULL)
        return -1;
    bool valued = o->plot != NULL && strcmp(flag, "--plot") == 0;
    fprintf(stderr, "collperf: %s%s%s: %s\n", flag, valued ? " " : "", valued ? o->plot : "", why);
    return PERF_EXIT_USAGE;
}

int perf_options_parse(int argc, char **argv, const char *launcher, struct perf_options *options)
{
    struct perf_options o = {
        .min_bytes = 8,
        .max_bytes = 64 << 20,
        .step_factor = 2,
        .step_bytes = 1 << 20,
        .warmups = 5,
        .type = perf_type_find("float"),
        .op = perf_op_find("sum"),
        .check = 1,
        .blocking = 1,
        .device = PERF_DEVICE_ANY,
        .launcher = launcher,
    };
    bool given[128] = { false };
    int code = parse_flags(argc, argv, &o, given);
    if (code < 0)
        code = parse_collective(argc, argv, &o, given);
    if (code < 0)
        code = settle_ranks(&o, given);
    if (code < 0)
        code = settle_sizes(&o, given);
    if (code < 0 && o.type != NULL && o.op != NULL && !perf_op_fits(o.op, o.type))
        code =
            refuse('o', o.op->name, "bits are of integers; legal with it is an integer -d, as int32, or all");
    if (code < 0)
        code = settle_mode(&o);
    if (code < 0)
        code = settle_device(&o, given);
    if (code < 0)
        code = settle_report(&o);
    if (code < 0 && o.self_test && o.collective != NULL && !o.collective->moves) {
        fprintf(
            stderr, "collperf: --self-test: %s has no result that could be corrupted\n", o.collective->name);
        code = PERF_EXIT_USAGE;
    }
    if (code < 0)
        *options = o;
    return code;
}

int64_t perf_options_next(const struct perf_options *o, int64_t bytes)
{
    int64_t next = o->step_factor == 0 ? bytes + o->step_bytes : bytes == 0 ? 8 : bytes * o->step_factor;
    return next > o->max_bytes ? -1 : next;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* options.c: the table of options, of which those of paradigms are in the registry, and the words of a
 * command line. */
#include "training/options.h"

#include "training/parallel/registry.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 30 };

#define AT(member)                                                                                           \
    .offset = offsetof(struct tr_options, member), .size = sizeof((struct tr_options *)0)->member

static const char *const norms[] = { "none", "group" }, *const optimizers[] = { "adamw", "sgd" },
                         *const orders[] = { "canonical", "free" },
                         *const precisions[] = { "float32", "bfloat16" },
                         *const roundings[] = { "nearest", "stochastic" },
                         *const devices[] = { "host", "cuda" }, *const graphs[] = { "on", "off" },
                         *const ranks_as[] = { "processes", "threads" };

/* Those of paradigms, which are in the registry, stand between these and the last. */
static const struct tr_option first[] = {
    { "The model", .kind = TR_HEADING },
    { "model", TR_TEXT, AT(model.name), TR_MODELS " (sizes below may be changed; gpt:small is not GPT-2's)" },
    { "layers", TR_WHOLE, AT(model.sizes.layers), "layers", .least = 1 },
    { "channels", TR_WHOLE, AT(model.sizes.channels), "channels, a multiple of 64; mlp: of a hidden layer",
        .least = 1 },
    { "heads", TR_WHOLE, AT(model.sizes.heads), "gpt, llama: attention heads", .least = 1 },
    { "kv-heads", TR_WHOLE, AT(model.sizes.kv_heads), "llama: heads of keys and values, each for a group",
        .least = 1 },
    { "hidden", TR_WHOLE, AT(model.sizes.hidden),
        "llama: channels of the feed-forward part, a multiple of 64", .least = 1 },
    { "context", TR_WHOLE, AT(model.sizes.context), "gpt, llama: tokens of a sequence, a multiple of 8",
        .least = 1 },
    { "inputs", TR_WHOLE, AT(model.sizes.inputs), "mlp: numbers of a row; a sequence is 8 rows", .least = 1 },
    { "experts", TR_WHOLE, AT(model.sizes.experts), "moe: experts of a layer", .least = 1 },
    { "top-k", TR_WHOLE, AT(model.sizes.choices),
        "moe: experts that a token goes to; sample: the likeliest tokens", .least = 1 },
    { "capacity-factor", TR_REAL, AT(model.sizes.capacity),
        "moe: an expert takes so many times an equal share; 0: all" },
    { "aux-loss", TR_REAL, AT(model.sizes.balance), "moe: weight of a loss that keeps experts equally busy" },
    { "vocabulary", TR_WHOLE, AT(model.sizes.vocabulary), "tokens there are; mlp, cnn: classes", .least = 1 },
    { "dropout", TR_REAL, AT(model.sizes.dropout),
        "gpt, llama, moe: so much of what enters the residual stream, and of attention's probabilities, "
        "becomes 0, by chance; 0: nothing" },
    { "untied", TR_FLAG, AT(model.sizes.untied), "gpt: the head has values of its own, not the embedding's" },
    { "grid", TR_WHOLE, AT(model.sizes.grid), "cnn: cells a side, a multiple of 8; a cell is 2 x 2 pixels",
        .least = 1 },
    { "planes", TR_WHOLE, AT(model.sizes.planes),
        "cnn: numbers of a pixel: 1, or 3 for coloured pictures in --data", .least = 1 },
    { "norm", TR_CHOICE, AT(model.norm), "cnn: after each convolution none, or group: group norm",
        TR_NAMES(norms) },
    { "norm-groups", TR_WHOLE, AT(model.sizes.groups), "cnn: of the channels, in group norm; 8", .least = 1 },
    { "What is learned", .kind = TR_HEADING },
    { "data", TR_TEXT, AT(files.data),
        "a file: tokens of llm.c (.bin), or bytes; 'grammar' and 'recall' are made up" },
    { "labels", TR_TEXT, AT(files.labels),
        "cnn: an IDX file, the classes of the pictures in the IDX file --data" },
    { "steps", TR_WHOLE, AT(steps), "optimizer steps" },
    { "batch", TR_WHOLE, AT(plan.batch), "sequences of all ranks in a step", .least = 1 },
    { "optimizer", TR_CHOICE, AT(plan.optimizer.sgd), "adamw or sgd", TR_NAMES(optimizers) },
    { "rate", TR_REAL, AT(plan.optimizer.rate),
        "learning rate; --lr is the same, and --lr-min that of --rate-min" },
    { "rate-schedule", TR_CHOICE, AT(plan.optimizer.curve), "how it goes down: constant, linear or cosine",
        TR_NAMES(tr_curve_names) },
    { "warmup", TR_WHOLE, AT(plan.optimizer.warmup), "steps in which it rises to --rate" },
    { "rate-steps", TR_WHOLE, AT(plan.optimizer.until), "when it is down; without it after --steps" },
    { "rate-min", TR_REAL, AT(plan.optimizer.least), "what it goes down to" },
    { "decay", TR_REAL, AT(plan.optimizer.decay), "weight decay of matrices" },
    { "clip", TR_REAL, AT(plan.optimizer.clip), "largest norm of the gradient; 0: any" },
    { "seed", TR_WHOLE, AT(seed), "of initial values and of the choice of sequences" },
    { "eval-every", TR_WHOLE, AT(held_out.every),
        "every N steps, the loss of the last tenth of the text, of which nothing is learned" },
    { "eval-batches", TR_WHOLE, AT(held_out.batches), "over so many batches", .least = 1 },
    { "Ranks", .kind = TR_HEADING },
    { "ranks", TR_WHOLE, AT(ranks), "rank processes, forked here (-n N); without it what the mesh needs",
        .least = 1 },
    { "ranks-as", TR_CHOICE, AT(ranks_as_threads),
        "processes, or threads of one process: several ranks of a GPU have one context of it",
        TR_NAMES(ranks_as) },
};
static const struct tr_option last[] = {
    { "What is kept and compared", .kind = TR_HEADING },
    { "save", TR_TEXT, AT(files.save),
        "a file: the state is written to it at the end; any mesh can read it" },
    { "save-every", TR_WHOLE, AT(files.save_every), "and every N steps" },
    { "save-gradients", TR_TEXT, AT(files.save_gradients),
        "a file: the gradients of the last step are written to it, as safetensors" },
    { "load", TR_TEXT, AT(files.load),
        "go on with the state in this file; --steps counts those done before" },
    { "prompt", TR_TEXT, AT(prompt), "sample: the text that the model goes on with" },
    { "tokens", TR_WHOLE, AT(tokens), "sample: by so many tokens", .least = 1 },
    { "temperature", TR_REAL, AT(temperature), "sample: 0: the likeliest token; 1: as likely as it is" },
    { "tokenizer", TR_TEXT, AT(tokenizer), "sample: a directory with GPT-2's vocab.json and merges.txt" },
    { "check-replicas", TR_WHOLE, AT(files.check_replicas),
        "every N steps, ranks compare what they have alike; 0: never" },
    { "What is shown and done", .kind = TR_HEADING },
    { "memory", TR_BYTES, AT(shown.memory),
        "limit of a rank, as 64M; what does not fit says so before it starts" },
    { "host-memory", TR_BYTES, AT(shown.host_memory),
        "and of the second memory, the host's, that --offload fills" },
    { "order", TR_CHOICE, AT(plan.numbers.free_order),
        "of sums: canonical, or free: OpenBLAS or cuBLAS, faster collectives, other bits", TR_NAMES(orders) },
    { "tf32", TR_FLAG, AT(plan.numbers.tf32),
        "with --device cuda and --order free: factors of products have 10 bits behind the point" },
    { "precision", TR_CHOICE, AT(plan.numbers.bfloat16),
        "float32, or bfloat16 with float32 sums, masters and optimizer", TR_NAMES(precisions) },
    { "rounding", TR_CHOICE, AT(plan.numbers.stochastic),
        "of updated bfloat16 parameters: nearest, or stochastic", TR_NAMES(roundings) },
    { "kernels", TR_TEXT, AT(kernels), "generic, avx2, avx512; without it the best of this machine" },
    { "threads", TR_WHOLE, AT(threads), "of a rank, which compute together, with the same bits", .least = 1 },
    { "device", TR_CHOICE, AT(device), "where ranks compute: host, or cuda: on GPUs, with the same bits",
        TR_NAMES(devices) },
    { "graphs", TR_CHOICE, AT(no_graphs),
        "with --device cuda: on: steps are CUDA graphs where they can be; off: never", TR_NAMES(graphs) },
    { "tune", TR_TEXT, AT(tune),
        "with --device cuda: the fastest tiles are measured in the first step, and kept in this file" },
    { "inject", TR_TEXT, AT(tests.inject),
        "plant an error by name, to see it caught; 'list' tells the names" },
    { "machine", TR_TEXT, AT(shown.machine),
        "plan: what runs it, by name or as a file; 'list' tells the names" },
    { "measure", TR_FLAG, AT(shown.measure),
        "plan: this machine runs it, as it is now; print its lines, too" },
    { "tape", TR_WHOLE, AT(shown.tape), "explain: print the list of this rank" },
    { "json", TR_FLAG, AT(shown.json), "one JSON object a line: the run, then each step, with all messages" },
    { "html", TR_TEXT, AT(shown.html), "compare: write it as a page with pictures to this file" },
    { "markdown", TR_FLAG, AT(shown.markdown), "compare: the tables of that page as Markdown" },
    { "hex", TR_FLAG, AT(shown.hex), "lines of the golden program: loss and norm to the last bit" },
    { "trace", TR_TEXT, AT(shown.trace), "write a step of all ranks to this file, for ui.perfetto.dev" },
    { "log", TR_TEXT, AT(shown.log),
        "write each step's loss, norm, rate and time to this file: JSON lines, or CSV in FILE.csv" },
    { "trace-step", TR_WHOLE, AT(shown.trace_step), "the step of --trace and --gantt; without it the last" },
    { "gantt", TR_FLAG, AT(shown.gantt), "draw the pipeline of a step as it ran" },
    { "stage-memory", TR_FLAG, AT(shown.stage_memory),
        "activations of each stage of a pipeline, planned and measured" },
    { "all", TR_FLAG, AT(tests.all), "verify: every legal product" },
    { "quick", TR_FLAG, AT(tests.quick), "verify: a cut with every paradigm and every pair" },
    { "random", TR_WHOLE, AT(tests.random), "verify: so many option sets drawn by --seed, legal or not",
        .least = 1 },
    { "quiet", TR_FLAG, AT(shown.quiet), "only what is asked for" },
    { "help", TR_FLAG, AT(help), "this text" },
};
enum { FIRST = sizeof first / sizeof *first, LAST = sizeof last / sizeof *last };

/* A paradigm's option, whose member is in the plan, as one of all. */
static struct tr_option in_options(const struct tr_option *of_plan)
{
    struct tr_option x = *of_plan;
    x.offset += offsetof(struct tr_options, plan);
    return x;
}

/* Option i; false: there are no more. */
static bool option_at(struct tr_option *to, int i)
{
    const struct tr_paradigm *p;
    if (i < FIRST) {
        *to = first[i];
        return true;
    }
    i -= FIRST;
    for (int n = 0; (p = tr_paradigm_at(n)); i -= p->n_options, n++)
        if (i < p->n_options) {
            *to = in_options(&p->options[i]);
            return true;
        }
    if (i < LAST)
        *to = last[i];
    return i < LAST;
}

void tr_options_default(struct tr_options *o)
{
    *o = (struct tr_options){ .model = { .name = "gpt:nano" },
        .plan = { .sizes = { .pp = 1, .cp = 1, .tp = 1, .ep = 1 },
            .batch = 8,
            .micros = 1,
            .pipeline = { .schedule = "1f1b", .chunks = 1 },
            .offload = { .what = -1, .threads = 1 },
            .servers = { .staleness = -1, .arrivals = "live" },
            .optimizer = { .rate = 1e-3, .decay = 0.1, .clip = 1 } },
        .steps = 50,
        .seed = 1,
        .threads = 1,
        .tokens = 200,
        .temperature = 0.8,
        .held_out = { .batches = 4 },
        .files = { .check_replicas = -1 },
        .shown = { .trace_step = -1, .tape = -1 } };
}

void tr_options_help(FILE *to)
{
    static const char *const values[] = { "", "", " N", " X", " TEXT", " TEXT", " TEXT" };
    struct tr_option x;
    for (int i = 0; option_at(&x, i); i++) {
        char left[64];
        if (x.kind == TR_HEADING) {
            fprintf(to, "\n%s\n", x.name);
            continue;
        }
        snprintf(left, sizeof left, "--%s%s", x.name, values[x.kind]);
        fprintf(to, "  %-22s %s\n", left, x.what);
    }
}

/* Levenshtein's distance of two short words. */
static int distance(const char *a, const char *b)
{
    int row[64], n = (int)strlen(b);
    if (n > 62)
        return 99;
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int before = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int change = before + (a[i - 1] != b[j - 1]);
            before = row[j];
            int add = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < add ? change : add;
        }
    }
    return row[n];
}

static bool find(struct tr_option *to, const char *name, struct tr_error *e)
{
    const char *nearest = "";
    int best = 100;
    char usual[64];
    if (!strncmp(name, "lr", 2) && (!name[2] || name[2] == '-')) { /* its usual name */
        snprintf(usual, sizeof usual, "rate%s", name + 2);
        name = usual;
    }
    for (int i = 0; option_at(to, i); i++) {
        int far = to->kind == TR_HEADING ? 100 : distance(name, to->name);
        if (far == 0)
            return true;
        if (far < best)
            best = far, nearest = to->name;
    }
    return tr_fail(e, "--%.60s is not an option; the nearest is --%s, and --help lists all", name, nearest);
}

/* ---- values ---- */

static void set_whole(const struct tr_option *x, struct tr_options *o, int64_t value)
{
    void *at = (char *)o + x->offset;
    if (x->size == sizeof(bool))
        *(bool *)at = value != 0;
    else if (x->size == sizeof(int))
        *(int *)at = (int)value;
    else
        *(int64_t *)at = value;
}

static bool is_number(const struct tr_option *x, const char *value, const char *end, struct tr_error *e)
{
    return (*end == 0 && end != value && errno == 0) ||
           tr_fail(e, "--%s %.60s: a%s number is legal", x->name, value, x->kind == TR_WHOLE ? " whole" : "");
}

static bool take_whole(const struct tr_option *x, struct tr_options *o, const char *value, struct tr_error *e)
{
    char *end;
    errno = 0;
    long n = strtol(value, &end, 10);
    if (!is_number(x, value, end, e))
        return false;
    if (n < x->least || n > MOST)
        return tr_fail(e, "--%s %.60s: legal are %ld to %d", x->name, value, x->least, MOST);
    set_whole(x, o, n);
    return true;
}

static bool take_real(const struct tr_option *x, double *to, const char *value, struct tr_error *e)
{
    char *end;
    *to = strtod(value, &end);
    errno = 0; /* what is too small for a double is 0, and what is too large is infinite */
    return is_number(x, value, end, e) &&
           ((*to >= 0 && *to < INFINITY) ||
               tr_fail(
                   e, "--%s %.60s: legal is a number that is not negative, nor infinite", x->name, value));
}

/* No value is guessed. */
static bool take_choice(
    const struct tr_option *x, struct tr_options *o, const char *value, struct tr_error *e)
{
    char legal[200] = "";
    for (int i = 0; i < x->n_names; i++) {
        if (!strcmp(value, x->names[i])) {
            set_whole(x, o, i);
            return true;
        }
        snprintf(legal + strlen(legal), sizeof legal - strlen(legal), "%s%s",
            i == 0                ? ""
            : i + 1 == x->n_names ? " and "
                                  : ", ",
            x->names[i]);
    }
    return tr_fail(e, "--%s %.60s: legal are %s", x->name, value, legal);
}

static bool take(const struct tr_option *x, struct tr_options *o, const char *value, struct tr_error *e)
{
    void *at = (char *)o + x->offset;
    switch (x->kind) {
    case TR_WHOLE:
        return take_whole(x, o, value, e);
    case TR_REAL:
        return take_real(x, at, value, e);
    case TR_CHOICE:
        return take_choice(x, o, value, e);
    case TR_BYTES:
        return tr_parse_bytes(value, at) ||
               tr_fail(e, "--%s %.60s: legal is a number of bytes, with K, M, G or T", x->name, value);
    default:
        if (strlen(value) >= x->size)
            return tr_fail(e, "--%s: at most %zu characters are legal", x->name, x->size - 1);
        strcpy(at, value);
        return true;
    }
}

bool tr_options_parse(struct tr_options *o, int argc, char **argv, struct tr_error *e)
{
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        struct tr_option x;
        if (!strcmp(word, "-n"))
            word = "--ranks";
        if (strncmp(word, "--", 2))
            return tr_fail(e, "%.60s: an option begins with --", word);
        if (!find(&x, word + 2, e))
            return false;
        if (x.kind == TR_FLAG)
            set_whole(&x, o, true);
        else if (i + 1 == argc)
            return tr_fail(e, "%s needs a value: %s", word, x.what);
        else if (!take(&x, o, argv[++i], e))
            return false;
    }
    return true;
}

/* "--optimizer sgd", "no --sp" */
static void value_text(const struct tr_option *x, const struct tr_options *o, char text[TR_OPTION_TEXT])
{
    const void *at = (const char *)o + x->offset;
    char bytes[32];
    const char *value = at;
    if (x->kind == TR_WHOLE) {
        snprintf(text, TR_OPTION_TEXT, "--%s %" PRId64, x->name, tr_option_value(x, o));
        return;
    }
    if (x->kind == TR_REAL) {
        snprintf(text, TR_OPTION_TEXT, "--%s %.17g", x->name, *(const double *)at);
        return;
    }
    if (x->kind == TR_FLAG)
        value = tr_option_value(x, o) ? "" : NULL;
    else if (x->kind == TR_CHOICE)
        value = tr_option_value(x, o) < 0 ? NULL : x->names[tr_option_value(x, o)];
    else if (x->kind == TR_BYTES)
        value = tr_option_value(x, o) ? tr_bytes_text(tr_option_value(x, o), bytes) : NULL;
    else
        value = *value ? value : NULL;
    snprintf(
        text, TR_OPTION_TEXT, value ? "--%s%s%.100s" : "no --%s", x->name, value && *value ? " " : "", value);
}

static bool same(const struct tr_option *x, const struct tr_options *a, const struct tr_options *b)
{
    const char *left = (const char *)a + x->offset, *right = (const char *)b + x->offset;
    return x->kind == TR_TEXT ? !strcmp(left, right) : !memcmp(left, right, x->size);
}

bool tr_options_same(const struct tr_options *a, const struct tr_options *b, char of_a[TR_OPTION_TEXT],
    char of_b[TR_OPTION_TEXT])
{
    struct tr_option x;
    for (int i = 0; option_at(&x, i); i++) {
        if (x.kind == TR_HEADING || same(&x, a, b))
            continue;
        value_text(&x, a, of_a);
        value_text(&x, b, of_b);
        return false;
    }
    return true;
}

bool tr_options_given(const struct tr_options *o, const char *name)
{
    struct tr_options none;
    struct tr_option x;
    struct tr_error ignored;
    tr_options_default(&none);
    return find(&x, name, &ignored) && !same(&x, o, &none);
}

const char *tr_options_other(const struct tr_options *o, const char *const *names)
{
    struct tr_options none;
    struct tr_option x;
    tr_options_default(&none);
    for (int i = 0; option_at(&x, i); i++) {
        const char *const *name = names;
        while (*name && strcmp(*name, x.name))
            name++;
        if (!*name && x.kind != TR_HEADING && !same(&x, o, &none))
            return x.name;
    }
    return NULL;
}

void tr_options_bits(struct tr_options *to, const struct tr_options *from)
{
    struct tr_option x;
    for (int i = 0; option_at(&x, i); i++)
        if (x.bits)
            memcpy((char *)to + x.offset, (const char *)from + x.offset, x.size);
}

/* Adds the option if it differs, and has room. */
static void tell(char *to, size_t room, const struct tr_option *x, const struct tr_options *o,
    const struct tr_options *without)
{
    char text[TR_OPTION_TEXT];
    size_t used = strlen(to);
    if (same(x, o, without))
        return;
    value_text(x, o, text);
    if (used + (used > 0) + strlen(text) < room)
        snprintf(to + used, room - used, "%s%s", used ? " " : "", text);
}

void tr_options_beyond(char *to, size_t room, const struct tr_options *o, const struct tr_options *without,
    const char *const *names)
{
    struct tr_option x;
    struct tr_error ignored;
    *to = 0;
    for (; *names; names++)
        if (find(&x, *names, &ignored))
            tell(to, room, &x, o, without);
}

void tr_options_how(char *to, size_t room, const struct tr_options *o)
{
    struct tr_options one;
    const struct tr_paradigm *p;
    tr_options_default(&one);
    *to = 0;
    for (int n = 0; (p = tr_paradigm_at(n)); n++)
        for (int i = 0; tr_paradigm_asked(p, &o->plan) && i < p->n_options; i++) {
            struct tr_option x = in_options(&p->options[i]);
            tell(to, room, &x, o, &one);
        }
}

bool tr_parse_bytes(const char *text, int64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    double x = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (end == text || (*end && (!unit || end[1])))
        return false;
    for (int i = 0; unit && i <= unit - units; i++)
        x *= 1024;
    if (!(x >= 1 && x < 0x1p63)) /* NaN, too */
        return false;
    *bytes = (int64_t)x;
    return true;
}

const char *tr_bytes_text(int64_t bytes, char text[32])
{
    static const char units[] = " KMGT";
    int unit = 0;
    while (units[unit + 1] && bytes && bytes % 1024 == 0)
        bytes /= 1024, unit++;
    snprintf(text, 32, "%" PRId64 "%.*s", bytes, unit > 0, &units[unit]);
    return text;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* options.c: one table of options, and the words of a command line. */
#include "training/options.h"

#include "training/parallel/registry.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { HEADING, WHOLE, REAL, TEXT, FLAG };

struct option {
    const char *name;
    enum kind kind;
    size_t offset, room;
    const char *what;
    long least; /* WHOLE: the smallest that is legal */
};
enum { MOST = 1 << 30 };

#define WHOLE_OF(name, field, least, what)                                                                   \
    {                                                                                                        \
        name, WHOLE, offsetof(struct tr_options, field), sizeof(long), what, least                           \
    }
#define REAL_OF(name, field, what)                                                                           \
    {                                                                                                        \
        name, REAL, offsetof(struct tr_options, field), sizeof(double), what, 0                              \
    }
#define FLAG_OF(name, field, what)                                                                           \
    {                                                                                                        \
        name, FLAG, offsetof(struct tr_options, field), sizeof(bool), what, 0                                \
    }
#define TEXT_OF(name, field, what)                                                                           \
    {                                                                                                        \
        name, TEXT, offsetof(struct tr_options, field), sizeof((struct tr_options *)0)->field, what, 0       \
    }

static const struct option options[] = {
    { "The model", HEADING, 0, 0, NULL, 0 },
    TEXT_OF("model", model, TR_MODELS " (sizes below may be changed; gpt:small is not GPT-2's)"),
    WHOLE_OF("layers", layers, 1, "layers"),
    WHOLE_OF("channels", channels, 1, "channels, a multiple of 64; mlp: of a hidden layer"),
    WHOLE_OF("heads", heads, 1, "gpt: attention heads"),
    WHOLE_OF("context", context, 1, "gpt: tokens of a sequence, a multiple of 8"),
    WHOLE_OF("inputs", inputs, 1, "mlp: numbers of a row; a sequence is 8 rows"),
    WHOLE_OF("experts", experts, 1, "moe: experts of a layer"),
    WHOLE_OF("top-k", top_k, 1, "moe: experts that a token goes to"),
    REAL_OF("capacity-factor", capacity_factor, "moe: an expert takes so many times an equal share; 0: all"),
    REAL_OF("aux-loss", aux_loss, "moe: weight of a loss that keeps experts equally busy"),
    WHOLE_OF("vocabulary", vocabulary, 1, "tokens there are; mlp, cnn: classes"),
    FLAG_OF("untied", untied, "gpt: the head has values of its own, not the embedding's"),
    WHOLE_OF("grid", grid, 1, "cnn: cells a side, a multiple of 8; a cell is 2 x 2 pixels"),
    WHOLE_OF("planes", planes, 1, "cnn: numbers of a pixel: 1, or 3 for coloured pictures in --data"),
    TEXT_OF("norm", norm, "cnn: after each convolution none, or group: group norm"),
    WHOLE_OF("norm-groups", norm_groups, 1, "cnn: of the channels, in group norm; 8"),
    { "What is learned", HEADING, 0, 0, NULL, 0 },
    TEXT_OF("data", data, "a file: tokens of llm.c (.bin), or bytes; 'grammar' and 'recall' are made up"),
    TEXT_OF("labels", labels, "cnn: an IDX file, the classes of the pictures in the IDX file --data"),
    WHOLE_OF("steps", steps, 0, "optimizer steps"),
    WHOLE_OF("batch", batch, 1, "sequences of all ranks in a step"),
    TEXT_OF("optimizer", optimizer, "adamw or sgd"),
    REAL_OF("rate", rate, "learning rate; --lr is the same"),
    REAL_OF("decay", decay, "weight decay of matrices"),
    REAL_OF("clip", clip, "largest norm of the gradient; 0: any"),
    WHOLE_OF("seed", seed, 0, "of initial values and of the choice of sequences"),
    { "Ranks", HEADING, 0, 0, NULL, 0 },
    WHOLE_OF("ranks", ranks, 1, "rank processes, forked here (-n N); without it what the mesh needs"),
    WHOLE_OF("dp", dp, 0, "data parallel; 0: the ranks that are left"),
    TEXT_OF("dp-reduce", dp_reduce, "gradients: ring (all-reduce), root (reduce, broadcast), sharded"),
    TEXT_OF("bucket", bucket, "gradients are reduced together up to so many bytes, as 64K"),
    FLAG_OF("overlap", overlap, "gradients are reduced beside the backward pass"),
    WHOLE_OF("servers", servers, 0, "parameter servers among the ranks; the others are workers"),
    TEXT_OF("server-mode", server_mode, "sync: all gradients, then one update; async: each as it comes"),
    WHOLE_OF("staleness", staleness, 0, "async: a worker waits while more than N steps before the slowest"),
    TEXT_OF("arrivals", arrivals, "async: live, seed:N (an order by a seed), or a file of workers"),
    TEXT_OF("arrivals-log", arrivals_log, "async: write who came to this file, which --arrivals reads"),
    TEXT_OF("workers", workers, "compare server: numbers of workers, as 1..8, or 2,4"),
    TEXT_OF("slow", slow, "RANK:FACTOR, a worker that takes so many times as long to compute"),
    WHOLE_OF("ep", ep, 1, "moe: so many ranks of dp share the experts of each layer"),
    WHOLE_OF("tp", tp, 1, "tensor parallel"),
    FLAG_OF("sp", sp, "sequence parallel between the matrices of tp"),
    WHOLE_OF("cp", cp, 1, "context parallel: each rank has a part of every sequence, or picture"),
    TEXT_OF("cp-attention", cp_attention,
        "gather (all-gather of keys and values), ulysses (all-to-all), ring (shifts), ulysses+ring, scores, "
        "local"),
    WHOLE_OF("cp-ulysses", cp_ulysses, 0, "ulysses+ring: ranks that exchange tokens for heads; 0: two"),
    TEXT_OF("cp-map", cp_map, "tokens of a rank: contiguous; for equal work of attention zigzag or striped"),
    TEXT_OF("conv-split", conv_split, "cnn: what tp cuts of the weights: pairs, filters, or channels"),
    TEXT_OF("cnn-cut", cnn_cut, "cnn: what cp cuts of a picture's grid: rows, or columns"),
    WHOLE_OF("pp", pp, 1, "pipeline stages"),
    WHOLE_OF("chunks", chunks, 1, "stages of a rank, for --schedule interleaved; dualpipev: 2"),
    WHOLE_OF("micro", micro, 1, "micro-batches of a step"),
    TEXT_OF("stage-layers", stage_layers, "layers of each stage, as 1,1,1,5; without it all alike"),
    TEXT_OF("balance", balance, "layers of the stages: even; auto by FLOPs, or measured by times"),
    TEXT_OF("schedule", schedule, "naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, dualpipev, or a CSV file"),
    TEXT_OF("async", async, "each stage updates its weights at once: stash, two, newest; or off"),
    WHOLE_OF("zero", zero, 0, "ZeRO: 1 shards the optimizer, 2 and gradients, 3 and parameters"),
    FLAG_OF("zero3-keep", zero3_keep, "gathered parameters stay until the backward pass has used them"),
    WHOLE_OF(
        "zero3-prefetch", zero3_prefetch, 0, "parameters are gathered N units ahead, beside the computing"),
    WHOLE_OF(
        "zero3-persist", zero3_persist, 0, "parameters of fewer than N elements stay whole on every rank"),
    TEXT_OF(
        "recompute", recompute, "not kept but computed again: none, gelu, selective (and attention), full"),
    TEXT_OF(
        "recompute-comm", recompute_comm, "full: collectives of a layer are called again (redo), or save"),
    TEXT_OF("wgrad", wgrad, "what --sp has cut is held whole for a weight's gradient (hold), or regather"),
    TEXT_OF(
        "offload", offload, "in the host's memory: none, optimizer (states and update), activations, both"),
    WHOLE_OF("offload-delay", offload_delay, 0, "1: the host updates with the gradient of the step before"),
    WHOLE_OF("optimizer-threads", optimizer_threads, 1, "of the update on the host"),
    { "What is kept and compared", HEADING, 0, 0, NULL, 0 },
    TEXT_OF("save", save, "a file: the state is written to it at the end; any mesh can read it"),
    WHOLE_OF("save-every", save_every, 0, "and every N steps"),
    TEXT_OF("load", load, "go on with the state in this file; --steps counts those done before"),
    WHOLE_OF(
        "check-replicas", check_replicas, 0, "every N steps, ranks compare what they have alike; 0: never"),
    { "What is shown and done", HEADING, 0, 0, NULL, 0 },
    TEXT_OF("memory", memory, "limit of a rank, as 64M; what does not fit says so before it starts"),
    TEXT_OF("host-memory", host_memory, "and of the second memory, the host's, that --offload fills"),
    TEXT_OF("order", order, "of sums: canonical, or free: OpenBLAS and faster collectives, other bits"),
    TEXT_OF("precision", precision, "float32, or bfloat16 with float32 sums, masters and optimizer"),
    TEXT_OF("rounding", rounding, "of updated bfloat16 parameters: nearest, or stochastic"),
    TEXT_OF("kernels", kernels, "generic, avx2, avx512; without it the best of this machine"),
    TEXT_OF("inject", inject, "plant an error by name, to see it caught; 'list' tells the names"),
    WHOLE_OF("tape", tape, 0, "explain: print the list of this rank"),
    FLAG_OF("json", json, "one JSON object a line: the run, then each step, with all messages"),
    FLAG_OF("markdown", markdown, "compare: one table as Markdown"),
    FLAG_OF("hex", hex, "lines of the golden program: loss and norm to the last bit"),
    TEXT_OF("trace", trace, "write a step of all ranks to this file, for ui.perfetto.dev"),
    WHOLE_OF("trace-step", trace_step, 0, "the step of --trace and --gantt; without it the last"),
    FLAG_OF("gantt", gantt, "draw the pipeline of a step as it ran"),
    FLAG_OF("stage-memory", stage_memory, "activations of each stage of a pipeline, planned and measured"),
    FLAG_OF("all", all, "verify: every legal product"),
    FLAG_OF("quick", quick, "verify: a cut with every paradigm and every pair"),
    WHOLE_OF("random", random, 1, "verify: so many option sets drawn by --seed, legal or not"),
    FLAG_OF("quiet", quiet, "only what is asked for"),
    FLAG_OF("help", help, "this text"),
};
enum { OPTIONS = sizeof options / sizeof *options };

void tr_options_default(struct tr_options *o)
{
    *o = (struct tr_options){ .model = "gpt:nano",
        .data = "",
        .steps = 50,
        .batch = 8,
        .seed = 1,
        .rate = 1e-3,
        .decay = 0.1,
        .clip = 1,
        .optimizer = "adamw",
        .pp = 1,
        .dp = 0,
        .cp = 1,
        .ep = 1,
        .tp = 1,
        .micro = 1,
        .chunks = 1,
        .optimizer_threads = 1,
        .staleness = -1,
        .server_mode = "sync",
        .arrivals = "live",
        .dp_reduce = "ring",
        .cp_attention = "gather",
        .cp_map = "contiguous",
        .cnn_cut = "rows",
        .norm = "none",
        .conv_split = "pairs",
        .bucket = "",
        .order = "canonical",
        .precision = "float32",
        .rounding = "nearest",
        .schedule = "1f1b",
        .balance = "even",
        .async = "off",
        .recompute = "none",
        .recompute_comm = "redo",
        .wgrad = "hold",
        .trace_step = -1,
        .check_replicas = -1,
        .tape = -1 };
}

void tr_options_help(FILE *to)
{
    for (int i = 0; i < OPTIONS; i++) {
        static const char *const values[] = { "", " N", " X", " TEXT", "" };
        char left[64];
        if (options[i].kind == HEADING) {
            fprintf(to, "\n%s\n", options[i].name);
            continue;
        }
        snprintf(left, sizeof left, "--%s%s", options[i].name, values[options[i].kind]);
        fprintf(to, "  %-22s %s\n", left, options[i].what);
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

static const struct option *find(const char *name, struct tr_error *e)
{
    const struct option *nearest = NULL;
    int best = 100;
    if (!strcmp(name, "lr")) /* its usual name */
        name = "rate";
    for (int i = 0; i < OPTIONS; i++) {
        if (options[i].kind == HEADING)
            continue;
        int far = distance(name, options[i].name);
        if (far == 0)
            return &options[i];
        if (far < best)
            best = far, nearest = &options[i];
    }
    tr_fail(e, "--%.60s is not an option; the nearest is --%s, and --help lists all", name, nearest->name);
    return NULL;
}

static bool set(struct tr_options *o, const struct option *option, const char *value, struct tr_error *e)
{
    char *at = (char *)o + option->offset, *end = NULL;
    errno = 0;
    if (option->kind == WHOLE)
        *(long *)(void *)at = strtol(value, &end, 10);
    else if (option->kind == REAL)
        *(double *)(void *)at = strtod(value, &end);
    else if (strlen(value) < option->room)
        strcpy(at, value);
    else
        return tr_fail(e, "--%s: at most %zu characters are legal", option->name, option->room - 1);
    if (end && (*end || end == value || errno))
        return tr_fail(
            e, "--%s %.60s: a%s number is legal", option->name, value, option->kind == WHOLE ? " whole" : "");
    if (option->kind == WHOLE && (*(long *)(void *)at < option->least || *(long *)(void *)at > MOST))
        return tr_fail(e, "--%s %.60s: legal are %ld to %d", option->name, value, option->least, MOST);
    if (option->kind == REAL && !(*(double *)(void *)at >= 0 && *(double *)(void *)at < INFINITY))
        return tr_fail(
            e, "--%s %.60s: legal is a number that is not negative, nor infinite", option->name, value);
    return true;
}

bool tr_options_parse(struct tr_options *o, int argc, char **argv, struct tr_error *e)
{
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!strcmp(word, "-n"))
            word = "--ranks";
        if (strncmp(word, "--", 2))
            return tr_fail(e, "%.60s: an option begins with --", word);
        const struct option *option = find(word + 2, e);
        if (!option)
            return false;
        if (option->kind == FLAG)
            *(bool *)((char *)o + option->offset) = true;
        else if (i + 1 == argc)
            return tr_fail(e, "%s needs a value: %s", word, option->what);
        else if (!set(o, option, argv[++i], e))
            return false;
    }
    return true;
}

/* "--optimizer sgd", "no --sp" */
static void value_text(const struct option *option, const struct tr_options *o, char text[TR_OPTION_TEXT])
{
    const char *at = (const char *)o + option->offset;
    if (option->kind == FLAG)
        snprintf(text, TR_OPTION_TEXT, "%s--%s", *(const bool *)at ? "" : "no ", option->name);
    else if (option->kind == WHOLE)
        snprintf(text, TR_OPTION_TEXT, "--%s %ld", option->name, *(const long *)(const void *)at);
    else if (option->kind == REAL)
        snprintf(text, TR_OPTION_TEXT, "--%s %.17g", option->name, *(const double *)(const void *)at);
    else
        snprintf(text, TR_OPTION_TEXT, *at ? "--%s %.100s" : "no --%s", option->name, at);
}

static bool same(const struct option *option, const struct tr_options *a, const struct tr_options *b)
{
    const char *left = (const char *)a + option->offset, *right = (const char *)b + option->offset;
    return option->kind == TEXT ? !strcmp(left, right) : !memcmp(left, right, option->room);
}

bool tr_options_same(const struct tr_options *a, const struct tr_options *b, char of_a[TR_OPTION_TEXT],
    char of_b[TR_OPTION_TEXT])
{
    for (int i = 0; i < OPTIONS; i++) {
        if (options[i].kind == HEADING || same(&options[i], a, b))
            continue;
        value_text(&options[i], a, of_a);
        value_text(&options[i], b, of_b);
        return false;
    }
    return true;
}

size_t tr_options_beyond(char *to, size_t room, const struct tr_options *o, const struct tr_options *without,
    const char *const *names)
{
    size_t used = 0;
    struct tr_error ignored;
    *to = 0;
    for (; *names; names++) {
        const struct option *option = find(*names, &ignored);
        char text[TR_OPTION_TEXT];
        if (same(option, o, without))
            continue;
        value_text(option, o, text);
        size_t more = strlen(text) + (used > 0);
        if (used + more >= room)
            break;
        snprintf(to + used, room - used, "%s%s", used ? " " : "", text);
        used += more;
    }
    return used;
}

void tr_options_how(char *to, size_t room, const struct tr_options *o)
{
    struct tr_options one;
    const struct tr_registered *x;
    size_t used = 0;
    tr_options_default(&one);
    one.dp = o->dp > 0; /* 0: the ranks that are left */
    *to = 0;
    for (int i = 0; (x = tr_registered_at(i)) && used + 2 < room; i++) {
        const char *const with[] = { x->with, NULL };
        char asked[TR_OPTION_TEXT];
        size_t gap = used > 0;
        if (x->with && !tr_options_beyond(asked, sizeof asked, o, &one, with))
            continue;
        size_t more = tr_options_beyond(to + used + gap, room - used - gap, o, &one, x->options);
        if (gap)
            to[used] = more ? ' ' : 0;
        used += more ? gap + more : 0;
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

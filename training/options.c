/* SPDX-License-Identifier: BSD-3-Clause */
/* options.c: one table of options; the words of a command line; the run they describe. */
#include "training/options.h"

#include "training/ops/free.h"

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

#define MODELS "gpt:nano, gpt:nano8, gpt:micro, gpt:small, mlp:nano, mlp:micro, cnn:nano, cnn:micro"

static const struct option options[] = {
    { "The model", HEADING, 0, 0, NULL, 0 },
    TEXT_OF("model", model, MODELS " (sizes below may be changed)"),
    WHOLE_OF("layers", layers, 1, "layers"),
    WHOLE_OF("channels", channels, 1, "channels, a multiple of 64; mlp: of a hidden layer"),
    WHOLE_OF("heads", heads, 1, "gpt: attention heads"),
    WHOLE_OF("context", context, 1, "gpt: tokens of a sequence, a multiple of 8"),
    WHOLE_OF("inputs", inputs, 1, "mlp: numbers of a row; a sequence is 8 rows"),
    WHOLE_OF("vocabulary", vocabulary, 1, "tokens there are; mlp, cnn: classes"),
    FLAG_OF("untied", untied, "gpt: the head has values of its own, not the embedding's"),
    { "What is learned", HEADING, 0, 0, NULL, 0 },
    TEXT_OF("data", data, "a file: tokens of llm.c (.bin), or bytes; 'grammar' is made up"),
    WHOLE_OF("steps", steps, 0, "optimizer steps"),
    WHOLE_OF("batch", batch, 1, "sequences of all ranks in a step"),
    TEXT_OF("optimizer", optimizer, "adamw or sgd"),
    REAL_OF("rate", rate, "learning rate"),
    REAL_OF("decay", decay, "weight decay of matrices"),
    REAL_OF("clip", clip, "largest norm of the gradient"),
    WHOLE_OF("seed", seed, 0, "of initial values and of the choice of sequences"),
    { "Ranks", HEADING, 0, 0, NULL, 0 },
    WHOLE_OF("ranks", ranks, 1, "rank processes, forked here (-n N); without it what the mesh needs"),
    WHOLE_OF("dp", dp, 0, "data parallel; 0: the ranks that are left"),
    TEXT_OF("dp-reduce", dp_reduce, "gradients: ring (all-reduce), root (reduce, broadcast), sharded"),
    TEXT_OF("bucket", bucket, "gradients are reduced together up to so many bytes, as 64K"),
    FLAG_OF("overlap", overlap, "gradients are reduced beside the backward pass"),
    WHOLE_OF("tp", tp, 1, "tensor parallel"),
    FLAG_OF("sp", sp, "sequence parallel between the matrices of tp"),
    WHOLE_OF("cp", cp, 1, "context parallel: each rank has a part of the tokens of every sequence"),
    TEXT_OF("cp-attention", cp_attention,
        "gather (all-gather of keys and values), ulysses (all-to-all), ring (shifts)"),
    WHOLE_OF("pp", pp, 1, "pipeline stages"),
    WHOLE_OF("chunks", chunks, 1, "stages of a rank, for --schedule interleaved"),
    WHOLE_OF("micro", micro, 1, "micro-batches of a step"),
    TEXT_OF("schedule", schedule, "naive, gpipe, 1f1b, interleaved, zb-h1, or a CSV file"),
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
    { "What is kept and compared", HEADING, 0, 0, NULL, 0 },
    TEXT_OF("save", save, "a file: the state is written to it at the end; any mesh can read it"),
    WHOLE_OF("save-every", save_every, 0, "and every N steps"),
    TEXT_OF("load", load, "go on with the state in this file; --steps counts those done before"),
    WHOLE_OF(
        "check-replicas", check_replicas, 0, "every N steps, ranks compare what they have alike; 0: never"),
    { "What is shown and done", HEADING, 0, 0, NULL, 0 },
    TEXT_OF("memory", memory, "limit of a rank, as 64M; what does not fit says so before it starts"),
    TEXT_OF("order", order, "of sums: canonical, or free: OpenBLAS and faster collectives, other bits"),
    TEXT_OF("kernels", kernels, "generic, avx2, avx512; without it the best of this machine"),
    TEXT_OF("inject", inject, "plant an error by name, to see it caught; 'list' tells the names"),
    WHOLE_OF("tape", tape, 0, "explain: print the list of this rank"),
    FLAG_OF("json", json, "one JSON object a line: the run, then each step, with all messages"),
    FLAG_OF("markdown", markdown, "compare: one table as Markdown"),
    FLAG_OF("hex", hex, "lines of the golden program: loss and norm to the last bit"),
    TEXT_OF("trace", trace, "write a step of all ranks to this file, for ui.perfetto.dev"),
    WHOLE_OF("trace-step", trace_step, 0, "the step of --trace and --gantt; without it the last"),
    FLAG_OF("gantt", gantt, "draw the pipeline of a step as it ran"),
    FLAG_OF("all", all, "verify: every legal product"),
    FLAG_OF("quick", quick, "verify: a cut with every paradigm and every pair"),
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
        .dp_reduce = "ring",
        .cp_attention = "gather",
        .bucket = "",
        .order = "canonical",
        .schedule = "1f1b",
        .recompute = "none",
        .recompute_comm = "redo",
        .trace_step = -1,
        .check_replicas = 100,
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
        return tr_fail(e, "--%s: %zu characters are legal", option->name, option->room - 1);
    if (end && (*end || end == value || errno))
        return tr_fail(
            e, "--%s %.60s: a%s number is legal", option->name, value, option->kind == WHOLE ? " whole" : "");
    if (option->kind == WHOLE && (*(long *)(void *)at < option->least || *(long *)(void *)at > MOST))
        return tr_fail(e, "--%s %.60s: legal are %ld to %d", option->name, value, option->least, MOST);
    if (option->kind == REAL && !(*(double *)(void *)at >= 0 && *(double *)(void *)at < INFINITY))
        return tr_fail(e, "--%s %.60s: legal is a number that is not negative", option->name, value);
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

bool tr_options_same(const struct tr_options *a, const struct tr_options *b, char of_a[TR_OPTION_TEXT],
    char of_b[TR_OPTION_TEXT])
{
    for (int i = 0; i < OPTIONS; i++) {
        size_t at = options[i].offset;
        const char *left = (const char *)a + at, *right = (const char *)b + at;
        bool text = options[i].kind == TEXT;
        if (options[i].kind == HEADING ||
            (text ? !strcmp(left, right) : !memcmp(left, right, options[i].room)))
            continue;
        value_text(&options[i], a, of_a);
        value_text(&options[i], b, of_b);
        return false;
    }
    return true;
}

bool tr_parse_bytes(const char *text, int64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    double x = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (end == text || x <= 0 || (*end && (!unit || end[1])))
        return false;
    for (int i = 0; unit && i <= unit - units; i++)
        x *= 1024;
    *bytes = (int64_t)x;
    return true;
}

bool tr_options_free(const struct tr_options *o)
{
    return !strcmp(o->order, "free");
}

const struct tr_kernels *tr_options_kernels(const struct tr_options *o, struct tr_error *e)
{
    const struct tr_kernels *k = *o->kernels ? tr_kernels_named(o->kernels) : tr_kernels_best();
    if (!k)
        tr_fail(e, "--kernels %s: legal are generic, avx2, avx512, where the machine has them", o->kernels);
    return k && tr_options_free(o) ? tr_kernels_free(k) : k;
}

struct model {
    const char *name;
    int64_t layers, channels, heads, context, inputs, vocabulary, grid;
};

static const struct model models[] = {
    { "gpt:nano", 4, 64, 4, 64, 0, 256, 0 },
    { "gpt:nano8", 8, 64, 8, 64, 0, 256, 0 },
    { "gpt:micro", 6, 128, 8, 128, 0, 256, 0 },
    { "gpt:small", 8, 256, 8, 256, 0, 256, 0 },
    { "mlp:nano", 4, 64, 0, 0, 32, 10, 0 },
    { "mlp:micro", 8, 256, 0, 0, 256, 100, 0 },
    { "cnn:nano", 4, 64, 0, 0, 4, 10, 8 },
    { "cnn:micro", 6, 128, 0, 0, 4, 16, 16 },
};

/* An option of the other model would be ignored without a word, so it is refused. */
static bool has_options(const struct model *m, const struct tr_options *o, struct tr_error *e)
{
    const char *foreign = NULL;
    if (m->inputs == 0)
        foreign = o->inputs ? "inputs" : NULL;
    else if (*o->data && strcmp(o->data, "grammar"))
        return tr_fail(e, "--data %s: %s learns %s that are made up; leave --data out", o->data, m->name,
            m->grid ? "digits" : "rows");
    else if (m->grid && o->sp)
        return tr_fail(e, "--sp: %s has no stream of tokens that it could cut; leave --sp out", m->name);
    else
        foreign = o->heads               ? "heads"
                  : o->context           ? "context"
                  : o->untied            ? "untied"
                  : m->grid && o->inputs ? "inputs"
                                         : NULL;
    return !foreign || tr_fail(e, "--%s is no option of %s, which has --layers, --channels, --vocabulary%s",
                           foreign, m->name,
                           m->grid     ? ""
                           : m->inputs ? " and --inputs"
                                       : ", --heads, --context and --untied");
}

static bool make_model(struct tr_graph *g, const struct tr_options *o, struct tr_error *e)
{
    const struct model *m = NULL;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (!strcmp(o->model, models[i].name))
            m = &models[i];
    if (!m)
        return tr_fail(e, "--model %s: legal are " MODELS, o->model);
    struct tr_model_options sizes = { .layers = o->layers ? o->layers : m->layers,
        .channels = o->channels ? o->channels : m->channels,
        .heads = o->heads ? o->heads : m->heads,
        .context = o->context ? o->context : m->context,
        .inputs = o->inputs ? o->inputs : m->inputs,
        .vocabulary = o->vocabulary ? o->vocabulary : m->vocabulary,
        .grid = m->grid,
        .untied = o->untied,
        .leaves = o->cp > 1,
        .apart = o->cp > 1 && !strcmp(o->cp_attention, tr_cp_form_names[TR_CP_GATHER]),
        .parts = o->cp > 1 && o->cp <= TR_BLOCKS && !strcmp(o->cp_attention, tr_cp_form_names[TR_CP_RING])
                     ? (int)o->cp
                     : 0 };
    return has_options(m, o, e) && (m->grid        ? tr_model_cnn
                                       : m->inputs ? tr_model_mlp
                                                   : tr_model_gpt)(g, &sizes, e);
}

/* How many data-parallel ranks there are beside the other axes. */
static bool count_dp(long *dp, const struct tr_options *o, struct tr_error *e)
{
    enum { MOST_RANKS = 1 << 20 };
    bool small = o->pp <= MOST_RANKS && o->cp <= MOST_RANKS && o->tp <= MOST_RANKS;
    long others = small ? o->pp * o->cp * o->ep * o->tp : MOST_RANKS + 1;
    char cp[32] = "", other[32] = "";
    if (others > MOST_RANKS)
        return tr_fail(e, "--pp %ld --cp %ld --tp %ld: legal are 1 and more, and %d in all", o->pp, o->cp,
            o->tp, MOST_RANKS);
    *dp = o->dp ? o->dp : o->ranks > others ? o->ranks / others : 1;
    if (o->ranks == 0 || *dp * others == o->ranks)
        return true;
    if (o->cp > 1)
        snprintf(cp, sizeof cp, " x cp %ld", o->cp);
    if (o->ranks % others == 0)
        snprintf(other, sizeof other, ", or --dp %ld", o->ranks / others);
    return tr_fail(e, "%ld ranks, but dp %ld x tp %ld x pp %ld%s is %ld; legal is --ranks %ld%s", o->ranks,
        *dp, o->tp, o->pp, cp, *dp * others, *dp * others, other);
}

static bool plan(struct tr_plan *p, const struct tr_options *o, struct tr_error *e)
{
    long dp = 1;
    if (!count_dp(&dp, o, e))
        return false;
    int size[TR_AXES] = { (int)o->pp, (int)dp, (int)o->cp, (int)o->ep, (int)o->tp };
    *p = (struct tr_plan){ .zero = (int)o->zero,
        .batch = (int)o->batch,
        .micros = (int)o->micro,
        .chunks = (int)o->chunks,
        .overlap = o->overlap,
        .zero3_keep = o->zero3_keep,
        .zero3_prefetch = (int)o->zero3_prefetch,
        .zero3_persist = o->zero3_persist,
        .rate = o->rate,
        .decay = o->decay,
        .clip = o->clip };
    p->paradigms[p->n_paradigms++] = &tr_data_parallel;
    p->paradigms[p->n_paradigms++] = &tr_tensor_parallel;
    if (o->sp)
        p->paradigms[p->n_paradigms++] = &tr_sequence_parallel;
    while (p->dp_form < TR_DP_FORMS && strcmp(o->dp_reduce, tr_dp_form_names[p->dp_form]))
        p->dp_form++;
    if (p->dp_form == TR_DP_FORMS)
        return tr_fail(e, "--dp-reduce %s: legal are ring, root and sharded", o->dp_reduce);
    while (p->recompute < TR_RECOMPUTES && strcmp(o->recompute, tr_recompute_names[p->recompute]))
        p->recompute++;
    if (p->recompute == TR_RECOMPUTES)
        return tr_fail(e, "--recompute %s: legal are none, gelu, selective and full", o->recompute);
    if (strcmp(o->recompute_comm, "redo") && strcmp(o->recompute_comm, "save"))
        return tr_fail(e, "--recompute-comm %s: legal are redo and save", o->recompute_comm);
    p->recompute_saves = !strcmp(o->recompute_comm, "save");
    while (p->cp_form < TR_CP_FORMS && strcmp(o->cp_attention, tr_cp_form_names[p->cp_form]))
        p->cp_form++;
    if (p->cp_form == TR_CP_FORMS)
        return tr_fail(e, "--cp-attention %s: legal are gather, ulysses and ring", o->cp_attention);
    p->paradigms[p->n_paradigms++] = &tr_context_parallel[p->cp_form];
    if (*o->bucket && !tr_parse_bytes(o->bucket, &p->bucket))
        return tr_fail(e, "--bucket %s: legal is a number of bytes, with K, M, G or T", o->bucket);
    if (strcmp(o->optimizer, "adamw") && strcmp(o->optimizer, "sgd"))
        return tr_fail(e, "--optimizer %s: legal are adamw and sgd", o->optimizer);
    p->sgd = !strcmp(o->optimizer, "sgd");
    if (strcmp(o->order, "canonical") && !tr_options_free(o))
        return tr_fail(e, "--order %s: legal are canonical and free", o->order);
    p->free_order = tr_options_free(o);
    return tr_mesh_make(&p->mesh, size, e);
}

static bool schedule(struct tr_run *r, const struct tr_options *o, struct tr_error *e)
{
    const char *dot = strrchr(o->schedule, '.');
    if (!dot || strcmp(dot, ".csv"))
        return tr_schedule_make(
            &r->schedule, o->schedule, r->plan.mesh.size[TR_PP], r->plan.chunks, r->plan.micros, e);
    FILE *file = fopen(o->schedule, "r");
    if (!file)
        return tr_fail(e, "--schedule %s: the file cannot be read", o->schedule);
    struct tr_error why;
    bool ok =
        tr_schedule_read(&r->schedule, file, o->schedule, &why) && tr_schedule_check(&r->schedule, &why);
    fclose(file);
    return ok || tr_fail(e, "--schedule %s: %.900s", o->schedule, why.text);
}

bool tr_run_make(struct tr_run *r, const struct tr_options *o, struct tr_error *e)
{
    *r = (struct tr_run){ .plan = { .zero = 0 } };
    if (!plan(&r->plan, o, e) || !make_model(&r->graph, o, e))
        return false;
    if (tr_plan_check(&r->plan, &r->graph, e) && schedule(r, o, e))
        return true;
    tr_graph_free(&r->graph);
    return false;
}

void tr_run_free(struct tr_run *r)
{
    tr_graph_free(&r->graph);
    tr_schedule_free(&r->schedule);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule.c: `tutti-train schedule` shows a pipeline schedule and what it costs; no rank runs. */
#include "training/commands/commands.h"
#include "training/options.h"
#include "training/parallel/balance.h"
#include "training/passes/versions.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: tutti-train schedule NAME [options], or tutti-train schedule --file F.csv [options]\n"
    "  NAME        naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2 or dualpipev\n"
    "  --pp P      ranks of the pipeline (4)\n"
    "  --chunks V  stages of each rank (1; interleaved, dualpipev: 2)\n"
    "  --micro M   micro-batches (8)\n"
    "  --file F    read the schedule from a CSV file, and check it\n"
    "  --f, --i, --w, --hop X\n"
    "              how long take: forward (1), the gradient of the input (1), that of the weights (1),\n"
    "              and a message (0)\n"
    "  --stage-layers 1,1,1,5\n"
    "              layers of each stage: a part takes as long for each of them\n"
    "  --model M   a part takes as long as the FLOPs of the model's stages, ends included; a layer forward\n"
    "              is 1\n"
    "  --layers N, --vocabulary N\n"
    "              with --model: sizes of it\n"
    "  --balance B with --model: even (the default), or auto: layers so cut that the dearest stage is\n"
    "              cheapest\n"
    "  --async WAY the weights that it needs without a flush: stash, two or newest; 1f1b only\n"
    "  --csv       print the schedule as CSV, and nothing else\n"
    "  --help      print this\n";

struct request {
    const char *name, *file, *async, *model, *stage_layers, *balance;
    int ranks, chunks, micros, model_layers, vocabulary;
    bool csv, help;
    struct tr_costs costs;
    int layers[TR_STAGES_MAX]; /* of each stage, where they are told or found */
    struct tr_stage_costs stage[TR_STAGES_MAX];
};

static bool take_count(const char *option, const char *text, int *count, struct tr_error *e)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < 1 || value > TR_CELLS_MAX)
        return tr_fail(e, "%s %s: legal is a whole number from 1 to %d", option, text, TR_CELLS_MAX);
    *count = (int)value;
    return true;
}

static bool take_cost(const char *option, const char *text, double *cost, struct tr_error *e)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= 1e100))
        return tr_fail(e, "%s %s: legal is a number from 0 to 1e100", option, text);
    *cost = value;
    return true;
}

/* One option at argv[i]; returns how many words it took, 0 on an error. */
static int take_option(struct request *q, int left, char **words, struct tr_error *e)
{
    const struct {
        const char *name;
        int *count;
        double *cost;
        const char **text;
        bool *flag;
    } options[] = {
        { "--pp", .count = &q->ranks },
        { "--chunks", .count = &q->chunks },
        { "--micro", .count = &q->micros },
        { "--file", .text = &q->file },
        { "--f", .cost = &q->costs.f },
        { "--i", .cost = &q->costs.i },
        { "--w", .cost = &q->costs.w },
        { "--hop", .cost = &q->costs.hop },
        { "--stage-layers", .text = &q->stage_layers },
        { "--model", .text = &q->model },
        { "--layers", .count = &q->model_layers },
        { "--vocabulary", .count = &q->vocabulary },
        { "--balance", .text = &q->balance },
        { "--async", .text = &q->async },
        { "--csv", .flag = &q->csv },
        { "--help", .flag = &q->help },
    };
    char legal[256] = "";
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        strcat(strcat(legal, i ? ", " : ""), options[i].name);
        if (strcmp(words[0], options[i].name))
            continue;
        if (options[i].flag) {
            *options[i].flag = true;
            return 1;
        }
        if (left < 2)
            return tr_fail(e, "%s: a value must follow", words[0]);
        if (options[i].text)
            *options[i].text = words[1];
        else if (options[i].count && !take_count(words[0], words[1], options[i].count, e))
            return 0;
        else if (options[i].cost && !take_cost(words[0], words[1], options[i].cost, e))
            return 0;
        return 2;
    }
    return tr_fail(e, "there is no option %s; legal are %s", words[0], legal);
}

static bool take_words(struct request *q, int argc, char **argv, struct tr_error *e)
{
    for (int i = 1, took; i < argc; i += took) {
        took = 1;
        if (argv[i][0] == '-')
            took = take_option(q, argc - i, argv + i, e);
        else if (!q->name)
            q->name = argv[i];
        else
            return tr_fail(e, "'%s' comes after '%s'; legal is one name", argv[i], q->name);
        if (!took)
            return false;
    }
    if (q->help)
        return true;
    if (!q->name == !q->file)
        return tr_fail(e, "legal is either a name (naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, dualpipev) "
                          "or --file F.csv");
    if (q->model && (q->costs.f != 1 || q->costs.i != 1 || q->costs.w != 1))
        return tr_fail(
            e, "--model %s says how long F, I and W take; --f, --i and --w are legal without it", q->model);
    if (!q->model && (q->model_layers || q->vocabulary))
        return tr_fail(e, "--layers and --vocabulary are sizes of a model; legal with --model");
    if (q->balance && !q->model)
        return tr_fail(
            e, "--balance %s: the price of a layer is that of a model; legal with --model", q->balance);
    if (q->async && (!q->name || strcmp(q->name, "1f1b")))
        return tr_fail(e, "--async %s has the order of 1F1B; legal is it with the name 1f1b", q->async);
    if (q->file && (q->ranks || q->chunks || q->micros))
        return tr_fail(
            e, "--file %s: the file has the sizes; --pp, --chunks and --micro are legal without it", q->file);
    return true;
}

static bool read_schedule(struct tr_schedule *s, const char *path, struct tr_error *e)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return tr_fail(e, "%s: %s; legal is a file that can be read", path, strerror(errno));
    const char *slash = strrchr(path, '/');
    struct tr_error why;
    bool good = tr_schedule_read(s, file, slash ? slash + 1 : path, &why);
    fclose(file);
    return good || tr_fail(e, "%s: %.900s", path, why.text);
}

static bool get_schedule(const struct request *q, struct tr_schedule *s, struct tr_error *e)
{
    if (q->file)
        return read_schedule(s, q->file, e);
    bool two = !strcmp(q->name, "interleaved") || !strcmp(q->name, "dualpipev");
    int chunks = q->chunks ? q->chunks : two ? 2 : 1;
    return tr_schedule_make(s, q->name, q->ranks ? q->ranks : 4, chunks, q->micros ? q->micros : 8, e);
}

/* The plan of an asynchronous pipeline with this schedule. */
static bool plan_async(struct tr_plan *p, const char *way, const struct tr_schedule *s, struct tr_error *e)
{
    *p = (struct tr_plan){
        .mesh.size = { s->ranks, 1, 1, 1, 1, 1 }, .micros = s->micros, .pipeline.chunks = 1
    };
    while (way && p->pipeline.async < TR_ASYNCS && strcmp(way, tr_async_names[p->pipeline.async]))
        p->pipeline.async++;
    if (way && (p->pipeline.async == TR_ASYNC_OFF || p->pipeline.async == TR_ASYNCS))
        return tr_fail(e, "--async %s: legal are stash, two and newest", way);
    return s->micros % tr_update_micros(p) == 0 ||
           tr_fail(
               e, "--async two with --micro %d: legal are multiples of %d", s->micros, tr_update_micros(p));
}

/* Of each stage: versions of its weights, and how old those are that it reads. */
static void print_versions(
    const struct tr_plan *p, const struct tr_schedule *s, const struct tr_costs *c, const struct tr_timing *t)
{
    struct tr_versions v;
    printf("bubble while the pipeline is full ");
    double bubble = tr_bubble_steady(s, c, t);
    if (isnan(bubble))
        printf("none, as it never is\n");
    else
        printf("%.2f %%\n", 100 * bubble);
    printf("updates %d\nversions of weights ", tr_updates(p));
    for (int r = 0; r < s->ranks; r++) {
        tr_versions_make(&v, p, s->slots[r], s->count[r]);
        printf("%s%d", r ? "," : "", v.buffers);
        tr_versions_free(&v);
    }
    printf("\nupdates that they are old ");
    for (int r = 0; r < s->ranks; r++)
        printf("%s%d", r ? "," : "", tr_staleness(p, r));
    printf("\n");
}

/* Stages by a model's FLOPs, in units of its first layer's forward part. */
static bool price_model(struct request *q, int stages, struct tr_error *e)
{
    struct tr_options o;
    struct tr_run run;
    char name[] = "--balance", value[32], *words[] = { name, value };
    tr_options_default(&o);
    snprintf(value, sizeof value, "%s", q->balance ? q->balance : "even");
    snprintf(o.model.name, sizeof o.model.name, "%s", q->model);
    o.model.sizes.layers = q->model_layers, o.model.sizes.vocabulary = q->vocabulary;
    if (!tr_options_parse(&o, 2, words, e))
        return false;
    if (!tr_run_make(&run, &o, e))
        return false;
    const struct tr_graph *g = &run.graph;
    bool good = tr_cut_layers(
        q->layers, g, stages, q->stage_layers ? q->stage_layers : "", o.plan.pipeline.balance, e);
    if (good && !q->layers[0] && g->layers % stages)
        good = tr_fail(e,
            "%lld layers of %s in %d stages: legal are what divides, --stage-layers or --balance auto",
            (long long)g->layers, q->model, stages);
    if (good && !q->layers[0])
        tr_cut_evenly(q->layers, g, stages);
    if (good)
        tr_price_stages(g, q->layers, stages, q->stage);
    double layer = good ? tr_price_layer(g) : 1;
    for (int s = 0; s < stages && good; s++)
        q->stage[s].f /= layer, q->stage[s].i /= layer, q->stage[s].w /= layer;
    tr_run_free(&run);
    return good;
}

/* Stages by their numbers of layers, which are as many as there are told. */
static bool price_list(struct request *q, int stages, struct tr_error *e)
{
    if (!tr_read_cut(q->layers, 0, stages, q->stage_layers, e))
        return false;
    for (int s = 0; s < stages; s++)
        q->stage[s] = (struct tr_stage_costs){ q->layers[s] * q->costs.f, q->layers[s] * q->costs.i,
            q->layers[s] * q->costs.w };
    return true;
}

/* Whether stages differ, and how long their parts take then. */
static bool price(struct request *q, const struct tr_schedule *s, struct tr_error *e)
{
    int stages = s->ranks * s->chunks;
    if (!q->model && !q->stage_layers)
        return true;
    if (stages > TR_STAGES_MAX)
        return tr_fail(e, "%d stages: legal are %d at most where they differ", stages, TR_STAGES_MAX);
    q->costs.stage = q->stage;
    return q->model ? price_model(q, stages, e) : price_list(q, stages, e);
}

static void print_head(const struct request *q, const struct tr_schedule *s)
{
    const struct tr_costs *c = &q->costs;
    char text[200];
    printf("%s: ranks %d, chunks %d, micro-batches %d; ", s->name, s->ranks, s->chunks, s->micros);
    if (!c->stage) {
        printf("F %g, I %g, W %g, B %g, message %g\n", c->f, c->i, c->w, c->i + c->w, c->hop);
        return;
    }
    printf("layers %s, message %g\n", tr_cut_text(q->layers, s->ranks * s->chunks, text), c->hop);
    for (int part = TR_F; part <= TR_B; part++) {
        printf("%s", part == TR_F ? "F of the stages " : "; B ");
        for (int k = 0; k < s->ranks * s->chunks; k++)
            printf("%s%.4g", k ? "," : "", part == TR_F ? c->stage[k].f : c->stage[k].i + c->stage[k].w);
    }
    printf("\n");
}

static void print_report(const struct request *q, const struct tr_schedule *s, const struct tr_timing *t)
{
    const struct tr_costs *c = &q->costs;
    print_head(q, s);
    tr_schedule_draw(s, c, t, stdout);
    double part = tr_bubble(s, t), formula = tr_bubble_formula(s, c);
    if (s->no_flush)
        printf("total %g, a step every %g, bubble %g: %.2f %% of that simulated, ", t->total, t->period,
            part * t->period, 100 * part);
    else
        printf(
            "total %g, bubble %g: %.2f %% of the total simulated, ", t->total, part * t->total, 100 * part);
    if (isnan(formula))
        printf("no formula\n");
    else
        printf("%.2f %% by the formula\n", 100 * formula);
    printf("in-flight ");
    for (int r = 0; r < s->ranks; r++)
        printf("%s%d", r ? "," : "", t->in_flight[r]);
    printf("\n");
}

int tr_command_schedule(int argc, char **argv)
{
    struct request q = { .costs = { .f = 1, .i = 1, .w = 1 } };
    struct tr_schedule s = { 0 };
    struct tr_timing t;
    struct tr_plan async;
    struct tr_error e;
    if (!take_words(&q, argc, argv, &e)) {
        fprintf(stderr, "tutti-train schedule: %s\n", e.text);
        return 2;
    }
    if (q.help) {
        fputs(usage, stdout);
        return 0;
    }
    if (!get_schedule(&q, &s, &e) || !price(&q, &s, &e) || !plan_async(&async, q.async, &s, &e) ||
        !tr_schedule_simulate(&s, &q.costs, &t, &e)) {
        fprintf(stderr, "tutti-train schedule: %s\n", e.text);
        tr_schedule_free(&s);
        return 1;
    }
    if (q.csv)
        tr_schedule_write(&s, stdout);
    else
        print_report(&q, &s, &t);
    if (q.async && !q.csv)
        print_versions(&async, &s, &q.costs, &t);
    tr_timing_free(&t, s.ranks);
    tr_schedule_free(&s);
    return 0;
}

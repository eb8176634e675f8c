/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule.c: `tutti-train schedule` shows a pipeline schedule and what it costs; no rank runs. */
#include "training/commands/commands.h"
#include "training/schedule/schedule.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: tutti-train schedule NAME [options], or tutti-train schedule --file F.csv [options]\n"
    "  NAME        naive, gpipe, 1f1b, interleaved, zb-h1 or dualpipev\n"
    "  --pp P      ranks of the pipeline (4)\n"
    "  --chunks V  stages of each rank (1; interleaved, dualpipev: 2)\n"
    "  --micro M   micro-batches (8)\n"
    "  --file F    read the schedule from a CSV file, and check it\n"
    "  --f, --i, --w, --hop X\n"
    "              how long take: forward (1), the gradient of the input (1), that of the weights (1),\n"
    "              and a message (0)\n"
    "  --csv       print the schedule as CSV, and nothing else\n"
    "  --help      print this\n";

struct request {
    const char *name, *file;
    int ranks, chunks, micros;
    bool csv, help;
    struct tr_costs costs;
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
        { "--csv", .flag = &q->csv },
        { "--help", .flag = &q->help },
    };
    char legal[128] = "";
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
        return tr_fail(
            e, "legal is either a name (naive, gpipe, 1f1b, interleaved, zb-h1, dualpipev) or --file F.csv");
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

static void print_report(const struct tr_schedule *s, const struct tr_costs *c, const struct tr_timing *t)
{
    printf("%s: ranks %d, chunks %d, micro-batches %d; F %g, I %g, W %g, B %g, message %g\n", s->name,
        s->ranks, s->chunks, s->micros, c->f, c->i, c->w, c->i + c->w, c->hop);
    tr_schedule_draw(s, c, t, stdout);
    double part = tr_bubble(s, t), formula = tr_bubble_formula(s, c);
    printf("total %g, bubble %g: %.2f %% of the total simulated, ", t->total, part * t->total, 100 * part);
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
    struct tr_error e;
    if (!take_words(&q, argc, argv, &e)) {
        fprintf(stderr, "tutti-train schedule: %s\n", e.text);
        return 2;
    }
    if (q.help) {
        fputs(usage, stdout);
        return 0;
    }
    if (!get_schedule(&q, &s, &e) || !tr_schedule_simulate(&s, &q.costs, &t, &e)) {
        fprintf(stderr, "tutti-train schedule: %s\n", e.text);
        tr_schedule_free(&s);
        return 1;
    }
    if (q.csv)
        tr_schedule_write(&s, stdout);
    else
        print_report(&s, &q.costs, &t);
    tr_timing_free(&t, s.ranks);
    tr_schedule_free(&s);
    return 0;
}

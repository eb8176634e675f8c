/* SPDX-License-Identifier: BSD-3-Clause */
/* picture.c: a demonstration as textbooks draw it: one SVG, its drawings below each other, each with a
 * sentence. */
#include "training/demo/demo.h"

#include <stdlib.h>
#include <string.h>

#include "training/page/chart.h"
#include "training/page/page.h"
#include "training/page/sketch.h"
#include "training/schedule/schedule.h"

enum { TITLE = 18, BELOW = 20 };

/* A drawing is written to memory first, since the picture's height stands at its begin. */
struct drawing {
    FILE *to; /* what the picture has so far */
    double height;
};

/* What the drawing is written to, until `end`. */
static FILE *begin(char **text, size_t *size)
{
    *text = NULL;
    return open_memstream(text, size);
}

/* Puts it below the others: a drawing says of itself how large it is, and becomes a group of the picture. */
static bool end(struct drawing *d, FILE *drawn, char **text, const char *title)
{
    static const char tail[] = "</svg>\n";
    double width, height;
    bool ok = !fclose(drawn) && sscanf(*text, "<svg viewBox=\"0 0 %lf %lf\"", &width, &height) == 2;
    const char *rest = ok ? strstr(*text, " role=") : NULL;
    if (rest) {
        tr_svg_text(d->to, 0, d->height + TITLE - 4, 's', false, title);
        fprintf(d->to, "\n<g transform=\"translate(0 %g)\"%.*s</g>\n", d->height + TITLE,
            (int)(strlen(rest) - strlen(tail)), rest);
        d->height += TITLE + height + BELOW;
    }
    free(*text);
    return rest != NULL;
}

static bool matmul(struct drawing *d, const struct tr_demo_sizes *s)
{
    static const char *const cuts[] = { "rows of X are cut: each rank has rows of Y",
        "columns of W are cut: each rank has columns of Y",
        "the sum is cut: each rank has a part of every sum" };
    char *text;
    size_t size;
    FILE *to = begin(&text, &size);
    if (!to)
        return false;
    tr_sketch_product(to, s->rows, s->inner, s->columns, s->ranks, (enum tr_sketch_cut)s->split);
    return end(d, to, &text, cuts[s->split]);
}

static bool paradigms(struct drawing *d, const struct tr_demo_sizes *s)
{
    static const char *const shares[] = { "model parallel: a layer on each",
        "data parallel: all layers on each, and a part of the batch",
        "tensor parallel: a part of each layer on each" };
    bool ok = true;
    for (int way = 0; way < 3 && ok; way++) {
        char *text;
        size_t size;
        FILE *to = begin(&text, &size);
        if (!to)
            return false;
        tr_sketch_model(to, 2, s->ranks, (enum tr_sketch_share)way);
        ok = end(d, to, &text, shares[way]);
    }
    return ok;
}

static bool sequence(struct drawing *d, const struct tr_demo_sizes *s)
{
    char *text;
    size_t size;
    FILE *to = begin(&text, &size);
    if (!to)
        return false;
    tr_sketch_sequence(to, s->columns, s->ranks);
    return end(d, to, &text, "sequence parallel: each rank has a part of the tokens");
}

static bool ways(struct drawing *d, int workers, int servers)
{
    char *text;
    size_t size;
    FILE *to = begin(&text, &size);
    if (!to)
        return false;
    tr_sketch_ways(to, workers, servers);
    return end(d, to, &text,
        servers ? "a parameter server: all bytes go in and out of it"
                : "a ring: each rank sends to its right neighbour");
}

static bool ring(struct drawing *d, const struct tr_demo_sizes *s)
{
    return ways(d, s->ranks, 0);
}

/* The server is a rank. */
static bool server(struct drawing *d, const struct tr_demo_sizes *s)
{
    return ways(d, s->ranks - 1, 1) && ways(d, s->ranks - 1, 0);
}

static bool zero(struct drawing *d, const struct tr_demo_sizes *s)
{
    static const char *const names[] = { "values", "gradients", "optimizer's state" }, *const stages[] = {
        "0: all on each rank", "1: the optimizer's state is cut", "2: gradients, too", "3: values, too"
    };
    struct tr_bar bars[4];
    char words[4][48], *text;
    size_t size;
    FILE *to = begin(&text, &size);
    if (!to)
        return false;
    double all = (double)s->columns, part = all / s->ranks;
    for (int stage = 0; stage < 4; stage++) {
        bars[stage] = (struct tr_bar){ .name = stages[stage],
            .words = words[stage],
            .parts = { stage >= 3 ? part : all, stage >= 2 ? part : all, 2 * (stage >= 1 ? part : all) } };
        snprintf(words[stage], sizeof words[stage], "%g numbers",
            bars[stage].parts[0] + bars[stage].parts[1] + bars[stage].parts[2]);
    }
    tr_chart_bars(to, bars, 4, names, 3, "numbers", 4 * all, 0);
    return end(d, to, &text, "stages of ZeRO: values, gradients, Adam's moments of a rank");
}

/* Kinds of the chart: forward, backward. */
static bool draw_schedule(struct drawing *d, const struct tr_schedule *s, const struct tr_costs *c,
    const struct tr_timing *t, const char *title)
{
    static const char *const names[] = { "forward", "backward" };
    struct tr_chart_row rows[TR_DEMO_RANKS];
    char numbers[TR_DEMO_RANKS][12], *text;
    size_t size;
    FILE *to = begin(&text, &size);
    if (!to)
        return false;
    for (int r = 0; r < s->ranks; r++) {
        struct tr_chart_span *spans = tr_new((size_t)s->count[r], sizeof *spans);
        for (int i = 0; i < s->count[r]; i++) {
            bool back = s->slots[r][i].part != TR_F;
            spans[i] =
                (struct tr_chart_span){ back, t->start[r][i], t->start[r][i] + (back ? c->i + c->w : c->f) };
        }
        snprintf(numbers[r], sizeof numbers[r], "%d", r);
        rows[r] = (struct tr_chart_row){ numbers[r], spans, s->count[r] };
    }
    tr_chart_times(to, rows, s->ranks, names, 2, t->total, "units", 96);
    for (int r = 0; r < s->ranks; r++)
        free((void *)(uintptr_t)rows[r].spans);
    return end(d, to, &text, title);
}

static bool pipeline(struct drawing *d, const struct tr_demo_sizes *s)
{
    static const struct {
        const char *name, *title;
        int micros;
    } of[] = { { "naive", "one batch as a whole: each rank waits for the one before", 1 },
        { "gpipe", "8 micro-batches, all forward and then all backward (GPipe)", 8 },
        { "1f1b", "8 micro-batches, one forward and one backward by turns (1F1B)", 8 } };
    bool ok = true;
    for (size_t i = 0; i < sizeof of / sizeof *of && ok; i++) {
        struct tr_schedule schedule;
        struct tr_timing t;
        struct tr_error e;
        double each = 8.0 / of[i].micros;
        struct tr_costs c = { .f = each, .i = each, .w = each };
        ok = tr_schedule_make(&schedule, of[i].name, s->ranks, 1, of[i].micros, &e);
        if (!ok)
            break;
        if ((ok = tr_schedule_simulate(&schedule, &c, &t, &e))) {
            ok = draw_schedule(d, &schedule, &c, &t, of[i].title);
            tr_timing_free(&t, schedule.ranks);
        }
        tr_schedule_free(&schedule);
    }
    return ok;
}

static const struct {
    const char *name;
    bool (*draw)(struct drawing *d, const struct tr_demo_sizes *s);
} pictures[] = { { "matmul", matmul }, { "ring", ring }, { "paradigms", paradigms }, { "sequence", sequence },
    { "server", server }, { "zero", zero }, { "pipeline", pipeline } };

bool tr_demo_picture(const char *path, const char *name, const struct tr_demo_sizes *s, struct tr_error *e)
{
    char *text = NULL;
    size_t size, i = 0;
    struct drawing d = { .to = open_memstream(&text, &size) };
    while (i < sizeof pictures / sizeof *pictures - 1 && strcmp(pictures[i].name, name) != 0)
        i++;
    bool drawn = d.to && pictures[i].draw(&d, s);
    drawn = d.to && !fclose(d.to) && drawn;
    FILE *to = drawn ? fopen(path, "w") : NULL;
    if (to) {
        tr_page_picture(to, d.height, name, text);
        drawn = !ferror(to);
        drawn = !fclose(to) && drawn;
    }
    free(text);
    return (to && drawn) ||
           tr_fail(e, to || drawn ? "--svg %s: it cannot be written" : "--svg %s: there is no memory", path);
}

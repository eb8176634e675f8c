/* SPDX-License-Identifier: BSD-3-Clause */
/* gantt.c: who does what when, as SVG: a row for each simulated rank, time from left to right, what the end
 * had to wait for in a frame. It needs nothing but a browser, which shows what a bar is when asked. */
#include <stdlib.h>

#include "request.h"

enum { ROWS = 64, LEFT = 90, TOP = 64, ROW = 16, WIDTH = 1000, BARS = 20000 };

static const struct {
    const char *name, *color;
} parts[TT_COST_PARTS] = { { "message", "#4878a8" }, { "bytes", "#e49444" }, { "fold", "#6a9f58" },
    { "copy", "#967662" }, { "context switch", "#b07aa1" } };

struct chart {
    FILE *file;
    int32_t ranks[ROWS];
    int rows;
    double end; /* in femtoseconds */
};

static int row_of(struct chart *c, int32_t rank)
{
    for (int i = 0; i < c->rows; i++)
        if (c->ranks[i] == rank)
            return i;
    if (c->rows == ROWS)
        return -1;
    c->ranks[c->rows] = rank;
    return c->rows++;
}

static double x_of(const struct chart *c, uint64_t time)
{
    return LEFT + WIDTH * (double)time / c->end;
}

static void put_legend(const struct chart *c, const char *title)
{
    fprintf(c->file, "<text x=\"8\" y=\"18\" font-weight=\"bold\">%s</text>\n", title);
    for (int i = 0; i < TT_COST_PARTS; i++)
        fprintf(c->file,
            "<rect x=\"%d\" y=\"28\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" "
            "y=\"37\">%s</text>\n",
            LEFT + 130 * i, parts[i].color, LEFT + 130 * i + 14, parts[i].name);
    fprintf(c->file,
        "<text x=\"%d\" y=\"56\">0</text><text x=\"%d\" y=\"56\" text-anchor=\"end\">%.2f us</text>\n", LEFT,
        LEFT + WIDTH, 1e-9 * c->end);
}

static void put_bar(struct chart *c, const struct tt_work *w, bool critical)
{
    int row = row_of(c, w->rank);
    if (row < 0)
        return;
    double x = x_of(c, w->from), width = x_of(c, w->to) - x;
    fprintf(c->file,
        "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"%s><title>rank %d, step %u, slice "
        "%u: "
        "%s, %.3f to %.3f us</title></rect>\n",
        x, TOP + ROW * row + 2, width > 0.3 ? width : 0.3, ROW - 4, parts[w->part].color,
        critical ? " stroke=\"#000\" stroke-width=\"0.8\"" : "", w->rank, w->step, w->slice,
        parts[w->part].name, 1e-9 * (double)w->from, 1e-9 * (double)w->to);
}

void sim_gantt(FILE *file, const struct tt_simulation_log *log, const bool *critical, const char *title)
{
    struct chart c = { .file = file, .end = 1 };
    for (size_t i = 0; i < log->count; i++) {
        row_of(&c, log->work[i].rank);
        c.end = (double)log->work[i].to > c.end ? (double)log->work[i].to : c.end;
    }
    fprintf(file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        LEFT + WIDTH + 20, TOP + ROW * c.rows + 10);
    put_legend(&c, title);
    for (int i = 0; i < c.rows; i++)
        fprintf(file, "<text x=\"8\" y=\"%d\">rank %d</text>\n", TOP + ROW * i + 12, c.ranks[i]);
    size_t most = log->count < BARS ? log->count : BARS;
    for (size_t i = 0; i < log->count; i++)
        if (i < most || critical[i])
            put_bar(&c, &log->work[i], critical[i]);
    fprintf(file, "</svg>\n");
}

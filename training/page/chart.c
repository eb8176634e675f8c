/* SPDX-License-Identifier: BSD-3-Clause */
/* chart.c: charts as SVG. Coordinates are rounded to a tenth of a pixel, and rectangles of one colour are one
 * path, so that a page of many charts stays small. */
#include "training/page/chart.h"

#include "training/error.h"
#include "training/page/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = TR_CHART_WIDTH, LINE = 14 };

double tr_svg_round(double x)
{
    return round(x * 10) / 10;
}

void tr_svg_begin(FILE *to, double height, const char *words)
{
    fprintf(to, "<svg viewBox=\"0 0 %d %g\" role=\"img\" aria-label=\"", WIDTH, height);
    tr_page_escape(to, words);
    fputs("\">", to);
}

void tr_svg_end(FILE *to)
{
    fputs("</svg>\n", to);
}

void tr_svg_text(FILE *to, double x, double y, char anchor, bool soft, const char *text)
{
    fprintf(to, "<text x=\"%g\" y=\"%g\"", tr_svg_round(x), tr_svg_round(y));
    if (soft || anchor != 's')
        fprintf(to, " class=\"%s%s%s\"", soft ? "s" : "", soft && anchor != 's' ? " " : "",
            anchor == 'm'   ? "m"
            : anchor == 'e' ? "e"
                            : "");
    fputs(">", to);
    tr_page_escape(to, text);
    fputs("</text>", to);
}

void tr_svg_box(FILE *to, double x, double y, double w, double h, const char *class, const char *words)
{
    fprintf(to, "<rect class=\"%s\" x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\"", class, tr_svg_round(x),
        tr_svg_round(y), tr_svg_round(w), tr_svg_round(h));
    if (!words) {
        fputs("/>", to);
        return;
    }
    fputs("><title>", to);
    tr_page_escape(to, words);
    fputs("</title></rect>", to);
}

void tr_svg_line(FILE *to, double x0, double y0, double x1, double y1, const char *class, bool arrow)
{
    double length = hypot(x1 - x0, y1 - y0);
    fprintf(to, "<path class=\"%s\" d=\"M%g %gL%g %g", class, tr_svg_round(x0), tr_svg_round(y0),
        tr_svg_round(x1), tr_svg_round(y1));
    if (arrow && length > 0) {
        double x = (x1 - x0) / length * 6, y = (y1 - y0) / length * 6;
        fprintf(to, "M%g %gL%g %gL%g %g", tr_svg_round(x1 - x + y / 2), tr_svg_round(y1 - y - x / 2),
            tr_svg_round(x1), tr_svg_round(y1), tr_svg_round(x1 - x - y / 2), tr_svg_round(y1 - y + x / 2));
    }
    fputs("\"/>", to);
}

/* ---- bars ---- */

void tr_chart_bars(FILE *to, const struct tr_bar *bars, int n, const char *const *names, int parts,
    const char *unit, double most, double limit)
{
    enum { ROW = 32, BAR = 12 };
    double scale = WIDTH / (most > 0 ? most : 1);
    char words[128];
    tr_svg_begin(to, n * ROW, "bars of parts beside each other");
    for (int i = 0; i < n; i++) {
        double x = 0, y = i * ROW;
        tr_svg_text(to, 0, y + LINE - 2, 's', false, bars[i].name);
        tr_svg_text(to, WIDTH, y + LINE - 2, 'e', true, bars[i].words);
        for (int k = 0; k < parts; k++) {
            char class[16];
            double w = bars[i].parts[k] * scale;
            snprintf(class, sizeof class, "k%d", k);
            snprintf(words, sizeof words, "%s: %.17g %s", names[k], bars[i].parts[k], unit);
            if (bars[i].parts[k] > 0)
                tr_svg_box(to, x, y + LINE + 2, w < 0.1 ? 0.1 : w, BAR, class, words);
            x += w;
        }
        if (limit > 0 && limit <= most)
            tr_svg_line(to, limit * scale, y + LINE, limit * scale, y + LINE + BAR + 4, "h", false);
    }
    tr_svg_end(to);
}

/* ---- areas ---- */

/* The border above kind k, from left to right, and the one below it back. */
static void area(FILE *to, const struct tr_areas *a, int k, double bottom, double scale)
{
    double step = (double)WIDTH / a->columns;
    fprintf(to, "<path class=\"k%d\" d=\"M0 %g", k, bottom);
    for (int way = 0; way < 2; way++) {
        double before = -1;
        for (int c = 0; c < a->columns; c++) {
            int column = way ? a->columns - 1 - c : c;
            double sum = 0;
            for (int m = 0; m < k + !way; m++)
                sum += a->values[column * a->kinds + m];
            double y = tr_svg_round(bottom - sum * scale);
            if (y != before) /* a step up or down, and on from there */
                fprintf(to, "%s%g%s%g", c ? "H" : "L", tr_svg_round((column + way) * step), c ? "V" : " ", y);
            before = y;
        }
        fprintf(to, "H%d", way ? 0 : WIDTH);
    }
    fprintf(to, "Z\"><title>%s</title></path>", a->names[k]);
}

void tr_chart_areas(FILE *to, const struct tr_areas *a)
{
    enum { TOP = 18, HEIGHT = 90 };
    double bottom = TOP + HEIGHT, scale = HEIGHT / (a->most > 0 ? a->most : 1);
    tr_svg_begin(to, bottom + LINE + 2, "memory over a step");
    tr_svg_text(to, 0, LINE - 2, 's', true, a->most_words);
    tr_svg_line(to, 0, TOP, WIDTH, TOP, "a", false);
    for (int k = 0; k < a->kinds; k++)
        area(to, a, k, bottom, scale);
    tr_svg_line(to, 0, bottom, WIDTH, bottom, "x", false);
    if (a->limit > 0 && a->limit <= a->most) {
        tr_svg_line(to, 0, bottom - a->limit * scale, WIDTH, bottom - a->limit * scale, "h", false);
        tr_svg_text(to, WIDTH, LINE - 2, 'e', true, a->limit_words);
    }
    tr_svg_text(to, 0, bottom + LINE - 1, 's', true, a->from);
    tr_svg_text(to, WIDTH, bottom + LINE - 1, 'e', true, a->until);
    tr_svg_end(to);
}

/* ---- timelines ---- */

/* Of each cell the kind that has most of it; -1: nothing happens in most of it. */
static void fill_cells(int *cells, int columns, const struct tr_chart_row *row, int kinds, double end)
{
    double *time = tr_new((size_t)columns * (size_t)kinds, sizeof *time), cell = end / columns;
    for (int s = 0; s < row->n; s++) {
        const struct tr_chart_span *x = &row->spans[s];
        for (int c = x->from > 0 ? (int)(x->from / cell) : 0; c < columns && c * cell < x->to; c++) {
            double from = x->from > c * cell ? x->from : c * cell;
            double until = x->to < (c + 1) * cell ? x->to : (c + 1) * cell;
            time[c * kinds + x->kind] += until > from ? until - from : 0;
        }
    }
    for (int c = 0; c < columns; c++) {
        double busy = 0;
        int most = 0;
        for (int k = 0; k < kinds; k++) {
            busy += time[c * kinds + k];
            most = time[c * kinds + k] > time[c * kinds + most] ? k : most;
        }
        cells[c] = busy * 2 < cell ? -1 : most;
    }
    free(time);
}

static double time_of(const struct tr_chart_row *rows, int n, int kind)
{
    double sum = 0;
    for (int r = 0; r < n; r++)
        for (int s = 0; s < rows[r].n; s++)
            sum += rows[r].spans[s].kind == kind ? rows[r].spans[s].to - rows[r].spans[s].from : 0;
    return sum;
}

/* In this unit; NULL: of seconds, as people say them. */
static const char *said(double time, const char *unit, char words[TR_PAGE_TEXT])
{
    if (!unit)
        return tr_page_time(time, words);
    snprintf(words, TR_PAGE_TEXT, "%g %s", time, unit);
    return words;
}

void tr_chart_times(FILE *to, const struct tr_chart_row *rows, int n, const char *const *names, int kinds,
    double end, const char *unit, int columns)
{
    enum { LEFT = 26, ROW = 15, BAR = 12 };
    int *cells = tr_new((size_t)n * (size_t)columns, sizeof *cells);
    double width = (double)(WIDTH - LEFT) / columns;
    char words[TR_PAGE_TEXT];
    for (int r = 0; r < n; r++)
        fill_cells(cells + (ptrdiff_t)r * columns, columns, &rows[r], kinds, end);
    tr_svg_begin(to, n * ROW + LINE + 4, "what ranks do over time");
    for (int r = 0; r < n; r++)
        tr_svg_text(to, 0, r * ROW + BAR - 1, 's', true, rows[r].name);
    for (int k = 0; k < kinds; k++) {
        double all = time_of(rows, n, k);
        if (all <= 0)
            continue;
        fprintf(to, "<path class=\"k%d\" d=\"", k);
        for (int c = 0, run; c < n * columns; c += run) {
            for (run = 1; cells[c] == k && (c + run) % columns && cells[c + run] == k;)
                run++;
            if (cells[c] == k)
                fprintf(to, "M%g %dh%gv%dh-%gz", tr_svg_round(LEFT + c % columns * width), c / columns * ROW,
                    tr_svg_round(run * width), BAR, tr_svg_round(run * width));
        }
        fprintf(to, "\"><title>%s: %s of all ranks</title></path>", names[k], said(all, unit, words));
    }
    tr_svg_line(to, LEFT, n * ROW + 1, WIDTH, n * ROW + 1, "x", false);
    tr_svg_text(to, LEFT, n * ROW + LINE, 's', true, "0");
    tr_svg_text(to, WIDTH, n * ROW + LINE, 'e', true, said(end, unit, words));
    tr_svg_end(to);
    free(cells);
}

/* ---- matrices ---- */

void tr_chart_matrix(FILE *to, const double *of, int n, int each)
{
    enum { LEFT = 34, TOP = 18, MOST_CELL = 46 };
    double cell = (double)(WIDTH - LEFT) / n, most = 0;
    cell = cell > MOST_CELL ? MOST_CELL : cell;
    for (int i = 0; i < n * n; i++)
        most = of[i] > most ? of[i] : most;
    char words[128], text[TR_PAGE_TEXT];
    tr_svg_begin(to, TOP + cell * n + 2, "bytes from each rank to each");
    for (int r = 0; r < n; r++) {
        snprintf(text, sizeof text, "%d", r * each);
        tr_svg_text(to, LEFT - 6, TOP + cell * (r + 0.5) + 4, 'e', true, text);
        tr_svg_text(to, LEFT + cell * (r + 0.5), TOP - 6, 'm', true, text);
    }
    tr_svg_text(to, 0, TOP - 6, 's', true, each > 1 ? "of" : "");
    for (int i = 0; i < n * n; i++) {
        double x = LEFT + i % n * cell, y = TOP + i / n * cell;
        if (of[i] <= 0) {
            tr_svg_box(to, x, y, cell - 1, cell - 1, "a", NULL);
            continue;
        }
        snprintf(words, sizeof words, "%d to %d: %.0f B", i / n * each, i % n * each, of[i]);
        fprintf(to, "<g opacity=\"%.2f\">", 0.25 + 0.75 * of[i] / most);
        tr_svg_box(to, x, y, cell - 1, cell - 1, "k0", words);
        fputs("</g>", to);
    }
    tr_svg_end(to);
}

/* ---- curves ---- */

/* A distance of ticks: 1, 2 or 5 times a power of ten, so that there are four at most. */
static double tick_of(double range)
{
    double power = pow(10, floor(log10(range > 0 ? range : 1))), parts[] = { 0.1, 0.2, 0.5, 1, 2, 5 };
    for (int i = 0; i < 6; i++)
        if (range / (parts[i] * power) <= 5)
            return parts[i] * power;
    return 10 * power;
}

struct frame {
    double left, top, width, height, x0, x1, y0, y1;
};

static double at_x(const struct frame *f, double x)
{
    return f->left + (x - f->x0) / (f->x1 - f->x0) * f->width;
}

static double at_y(const struct frame *f, double y)
{
    return f->top + f->height - (y - f->y0) / (f->y1 - f->y0) * f->height;
}

static void widen(double *low, double *high, double value)
{
    *low = value < *low ? value : *low;
    *high = value > *high ? value : *high;
}

static struct frame frame_of(const struct tr_curve *curves, int n, const struct tr_axes *axes)
{
    struct frame f = { 40, 22, WIDTH - 40 - 12, 130, INFINITY, -INFINITY, INFINITY, -INFINITY };
    for (int c = 0; c < n; c++)
        for (int i = 0; i < curves[c].n; i++)
            if (isfinite(curves[c].y[i])) {
                widen(&f.x0, &f.x1, curves[c].x[i]);
                widen(&f.y0, &f.y1, curves[c].y[i]);
            }
    if (!(f.x1 >= f.x0))
        f.x0 = f.y0 = 0, f.x1 = f.y1 = 1;
    f.y0 = axes->from_zero ? 0 : f.y0;
    f.y1 = f.y1 > f.y0 ? f.y1 : f.y0 + 1;
    f.x1 = f.x1 > f.x0 ? f.x1 : f.x0 + 1;
    double tick = tick_of(f.y1 - f.y0);
    f.y0 = floor(f.y0 / tick + 1e-9) * tick, f.y1 = ceil(f.y1 / tick - 1e-9) * tick;
    return f;
}

static void draw_axes(FILE *to, const struct frame *f, const struct tr_axes *axes)
{
    char text[TR_PAGE_TEXT];
    double tick = tick_of(f->y1 - f->y0), bottom = f->top + f->height;
    for (double y = f->y0; y <= f->y1 + tick / 2; y += tick) {
        tr_svg_line(to, f->left, at_y(f, y), f->left + f->width, at_y(f, y), "a", false);
        snprintf(text, sizeof text, "%.4g", fabs(y) < tick / 2 ? 0 : y);
        tr_svg_text(to, f->left - 5, at_y(f, y) + 4, 'e', true, text);
    }
    tick = axes->whole ? fmax(1, tick_of(f->x1 - f->x0)) : tick_of(f->x1 - f->x0);
    for (double x = ceil(f->x0 / tick - 1e-9) * tick; x <= f->x1 + tick * 1e-9; x += tick) {
        snprintf(text, sizeof text, "%.4g", fabs(x) < tick / 2 ? 0 : x);
        tr_svg_text(to, at_x(f, x), bottom + LINE, 'm', true, text);
    }
    tr_svg_text(to, 0, 11, 's', true, axes->y);
    tr_svg_text(to, f->left + f->width / 2, bottom + 2 * LINE + 1, 'm', true, axes->x);
    tr_svg_line(to, f->left, bottom, f->left + f->width, bottom, "x", false);
}

void tr_chart_curves(FILE *to, const struct tr_curve *curves, int n, const struct tr_axes *axes)
{
    struct frame f = frame_of(curves, n, axes);
    tr_svg_begin(to, f.top + f.height + 2 * LINE + 6, axes->y);
    draw_axes(to, &f, axes);
    for (int c = 0; c < n; c++) {
        const struct tr_curve *x = &curves[c];
        bool begun = false;
        fprintf(to, "<path class=\"l%d\"%s d=\"", x->colour % TR_CHART_KINDS,
            x->dashed ? " stroke-dasharray=\"5 4\"" : "");
        for (int i = 0; i < x->n; i++)
            if (isfinite(x->y[i])) {
                fprintf(to, "%c%g %g", begun ? 'L' : 'M', tr_svg_round(at_x(&f, x->x[i])),
                    tr_svg_round(at_y(&f, x->y[i])));
                begun = true;
            }
        fputs("\"/>", to);
        for (int i = 0; x->marks && i < x->n; i++)
            if (isfinite(x->y[i]))
                fprintf(to,
                    "<circle class=\"k%d\" cx=\"%g\" cy=\"%g\" r=\"3\"><title>%g: %.17g</title></circle>",
                    x->colour % TR_CHART_KINDS, tr_svg_round(at_x(&f, x->x[i])),
                    tr_svg_round(at_y(&f, x->y[i])), x->x[i], x->y[i]);
    }
    tr_svg_end(to);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* chart.h: charts of numbers, as SVG inside a figure of a page. All are as wide, so that a narrow screen has
 * one beside the other's place and never a smaller text. What a pointer stays on tells its exact number. */
#ifndef TRAINING_PAGE_CHART_H
#define TRAINING_PAGE_CHART_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { TR_CHART_WIDTH = 360, TR_CHART_KINDS = 8 };

/* Parts of a sum, beside each other. */
struct tr_bar {
    const char *name, *words; /* above its left and right end */
    double parts[TR_CHART_KINDS];
};
/* names: of the parts, with the unit in which an exact number is told. most: at the right border; limit: a
 * mark across all, 0: there is none. */
void tr_chart_bars(FILE *to, const struct tr_bar *bars, int n, const char *const *names, int parts,
    const char *unit, double most, double limit);

/* Kinds on top of each other, over columns: values[column * kinds + kind]. words: of `most`; of the limit. */
struct tr_areas {
    const double *values;
    int columns, kinds;
    double most, limit;
    const char *most_words, *limit_words, *from, *until; /* the latter two below the first and last column */
    const char *const *names;
};
void tr_chart_areas(FILE *to, const struct tr_areas *a);

/* What rows did when: spans of a kind, in the order of time. A cell of the chart shows what took most of it.
 * unit: of times; NULL: seconds. columns: cells of a row. */
struct tr_chart_span {
    int kind;
    double from, to;
};
struct tr_chart_row {
    const char *name;
    const struct tr_chart_span *spans;
    int n;
};
void tr_chart_times(FILE *to, const struct tr_chart_row *rows, int n, const char *const *names, int kinds,
    double end, const char *unit, int columns);

/* of[from * n + to]: the stronger the colour the more; `each`: so many ranks are one row. */
void tr_chart_matrix(FILE *to, const double *of, int n, int each);

/* Curves through points, with axes. */
struct tr_curve {
    const double *x, *y;
    int n, colour;
    bool marks, dashed;
};
struct tr_axes {
    const char *x, *y; /* what is on them */
    bool from_zero; /* y */
    bool whole; /* x are whole numbers, each of which is named */
};
void tr_chart_curves(FILE *to, const struct tr_curve *curves, int n, const struct tr_axes *axes);

/* For who draws by hand: the begin of such a drawing, so high, what it shows in words, and its end. */
void tr_svg_begin(FILE *to, double height, const char *words);
void tr_svg_end(FILE *to);
/* anchor: what stands at x: its 's'tart, 'm'iddle or 'e'nd; soft: in a paler colour. */
void tr_svg_text(FILE *to, double x, double y, char anchor, bool soft, const char *text);
void tr_svg_box(FILE *to, double x, double y, double w, double h, const char *class, const char *words);
/* With a point at its end; so many units from it, if arrow. */
void tr_svg_line(FILE *to, double x0, double y0, double x1, double y1, const char *class, bool arrow);
/* Of a number, rounded to what one sees. */
double tr_svg_round(double x);

#endif

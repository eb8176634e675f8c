/* SPDX-License-Identifier: BSD-3-Clause */
/* sketch.c: drawings by hand, of a few boxes. Of many ranks the first are drawn. */
#include "training/page/sketch.h"

#include "training/page/chart.h"

#include <math.h>
#include <string.h>

enum { WIDTH = TR_CHART_WIDTH, DRAWN = TR_CHART_KINDS };

static const char *class_of(int rank, char class[16])
{
    snprintf(class, 16, "k%d", rank % TR_CHART_KINDS);
    return class;
}

struct box {
    double x, y, w, h;
};

/* A box in stripes, one for each rank: side by side, or on top of each other. */
static void stripes(FILE *to, const struct box *b, int ranks, int upright, const char *words)
{
    char class[16];
    for (int r = 0; r < ranks; r++) {
        double x = upright ? b->x + b->w * r / ranks : b->x, y = upright ? b->y : b->y + b->h * r / ranks;
        tr_svg_box(to, x, y, upright ? b->w / ranks - 1 : b->w, upright ? b->h : b->h / ranks - 1,
            class_of(r, class), NULL);
    }
    tr_svg_text(to, b->x + b->w / 2, b->y + b->h + 14, 'm', true, words);
}

static void whole(FILE *to, const struct box *b, const char *words)
{
    tr_svg_box(to, b->x, b->y, b->w, b->h, "b", NULL);
    tr_svg_text(to, b->x + b->w / 2, b->y + b->h + 14, 'm', true, words);
}

/* A whole matrix of each rank, one behind the other: parts of a sum. */
static void layers_of_sum(FILE *to, const struct box *b, int ranks, const char *words)
{
    char class[16];
    for (int r = 0; r < ranks; r++)
        tr_svg_box(to, b->x + r * 4, b->y + (ranks - 1 - r) * 4, b->w - (ranks - 1) * 4,
            b->h - (ranks - 1) * 4, class_of(r, class), NULL);
    tr_svg_text(to, b->x + b->w / 2, b->y + b->h + 14, 'm', true, words);
}

void tr_sketch_product(FILE *to, long rows, long inner, long columns, int ranks, enum tr_sketch_cut cut)
{
    const struct box x = { 4, 18, 76, 84 }, w = { 112, 28, 100, 64 }, y = { 246, 18, 108, 84 };
    char of_x[48], of_w[48], of_y[48];
    int n = ranks < DRAWN ? ranks : DRAWN;
    snprintf(of_x, sizeof of_x, "X %ld x %ld", rows, inner);
    snprintf(of_w, sizeof of_w, "W %ld x %ld", inner, columns);
    snprintf(of_y, sizeof of_y, cut == TR_SKETCH_INNER ? "%d sums of %ld x %ld" : "%.0dY %ld x %ld",
        cut == TR_SKETCH_INNER ? ranks : 0, rows, columns);
    tr_svg_begin(to, 126, "a matrix product cut over ranks");
    if (cut == TR_SKETCH_COLUMNS)
        whole(to, &x, of_x);
    else
        stripes(to, &x, n, cut == TR_SKETCH_INNER, of_x);
    if (cut == TR_SKETCH_ROWS)
        whole(to, &w, of_w);
    else
        stripes(to, &w, n, cut == TR_SKETCH_COLUMNS, of_w);
    if (cut == TR_SKETCH_INNER)
        layers_of_sum(to, &y, n, of_y);
    else
        stripes(to, &y, n, cut == TR_SKETCH_COLUMNS, of_y);
    tr_svg_text(to, 96, 64, 'm', false, "\303\227"); /* the sign of a product */
    tr_svg_text(to, 229, 64, 'm', false, "=");
    tr_svg_end(to);
}

void tr_sketch_model(FILE *to, int layers, int ranks, enum tr_sketch_share share)
{
    enum { TOP = 26, ROW = 16, MOST = 6 };
    int n = ranks < 4 ? ranks : 4, all = layers < MOST ? layers : MOST;
    double width = (double)WIDTH / n, height = TOP + all * ROW + 8;
    char class[16], text[32];
    tr_svg_begin(to, height + 4, "the layers of a model on ranks");
    for (int r = 0; r < n; r++) {
        double left = r * width + 8, inside = width - 16;
        snprintf(text, sizeof text, "rank %d", r);
        tr_svg_text(to, left + inside / 2, 12, 'm', false, text);
        tr_svg_box(to, left - 4, 18, inside + 8, height - 20, "b", NULL);
        for (int l = 0; l < all; l++) {
            bool here = share != TR_SKETCH_LAYERS || l * n / all == r;
            double w = share == TR_SKETCH_PARTS ? inside / ranks : inside,
                   x = share == TR_SKETCH_PARTS ? left + r * inside / ranks : left;
            if (here)
                tr_svg_box(to, x, TOP + l * ROW, w, ROW - 4, class_of(r, class), NULL);
        }
        double middle = TOP + all * ROW / 2.0;
        if (r + 1 < n && share == TR_SKETCH_LAYERS)
            tr_svg_line(to, left + inside + 4, middle, left + width - 4, middle, "x", true);
        else if (r + 1 < n) {
            tr_svg_line(to, left + inside + 8, middle, left + width - 4, middle, "x", true);
            tr_svg_line(to, left + inside + 8, middle, left + inside + 4, middle, "x", true);
        }
    }
    tr_svg_end(to);
}

void tr_sketch_sequence(FILE *to, long tokens, int ranks)
{
    enum { MOST_CELLS = 24 };
    int n = ranks < DRAWN ? ranks : DRAWN, cells = tokens < MOST_CELLS ? (int)tokens : MOST_CELLS;
    double cell = (double)WIDTH / cells, width = (double)WIDTH / n;
    char class[16], text[64];
    tr_svg_begin(to, 112, "a sequence cut over ranks");
    snprintf(text, sizeof text,
        n < ranks ? "a sequence of %ld tokens, as %d ranks would cut it" : "a sequence of %ld tokens", tokens,
        n);
    tr_svg_text(to, 0, 12, 's', true, text);
    for (int k = 0; k < cells; k++)
        tr_svg_box(to, k * cell, 18, cell - 1, 14, class_of(k * n / cells, class), NULL);
    for (int r = 0; r < n; r++) {
        double left = r * width + 4;
        tr_svg_line(to, left + width / 2 - 4, 36, left + width / 2 - 4, 52, "x", true);
        tr_svg_box(to, left, 54, width - 8, 28, "b", NULL);
        tr_svg_box(to, left + 4, 58, width - 16, 5, class_of(r, class), NULL);
        snprintf(text, sizeof text, "rank %d", r);
        tr_svg_text(to, left + width / 2 - 4, 77, 'm', false, text);
        if (r + 1 < n)
            tr_svg_line(to, left + width - 8, 68, left + width, 68, "x", true);
    }
    tr_svg_line(to, WIDTH - 8, 90, 8, 90, "x", true);
    tr_svg_text(to, WIDTH / 2.0, 106, 'm', true, "keys and values pass from rank to rank");
    tr_svg_end(to);
}

void tr_sketch_ways(FILE *to, int workers, int servers)
{
    enum { X = WIDTH / 2, Y = 74, A = 120, B = 52, W = 46, H = 18 };
    int n = workers < 8 ? workers : 8;
    double x[8], y[8];
    char class[16], text[32];
    tr_svg_begin(to, 148, servers ? "workers around a server" : "workers in a ring");
    for (int r = 0; r < n; r++) {
        double turn = 2 * M_PI * r / n - M_PI / 2;
        x[r] = X + A * cos(turn), y[r] = Y + B * sin(turn);
    }
    for (int r = 0; r < n; r++) {
        double to_x = servers ? X : x[(r + 1) % n], to_y = servers ? Y : y[(r + 1) % n], dx = to_x - x[r],
               dy = to_y - y[r], length = hypot(dx, dy);
        double part = fmin(W / 2.0 / fmax(fabs(dx), 1), H / 2.0 / fmax(fabs(dy), 1));
        if (length < 1 || n == 1)
            continue;
        part = fmin(part, 0.4);
        tr_svg_line(to, x[r] + dx * part, y[r] + dy * part, to_x - dx * part, to_y - dy * part, "x", true);
        if (servers)
            tr_svg_line(
                to, to_x - dx * part, to_y - dy * part, x[r] + dx * part, y[r] + dy * part, "x", true);
    }
    for (int r = 0; r < n; r++) {
        tr_svg_box(to, x[r] - W / 2.0, y[r] - H / 2.0, W, H, "b", NULL);
        tr_svg_box(to, x[r] - W / 2.0, y[r] - H / 2.0, 5, H, class_of(r, class), NULL);
        snprintf(text, sizeof text, "rank %d", r);
        tr_svg_text(to, x[r] + 3, y[r] + 4, 'm', false, text);
    }
    if (servers) {
        tr_svg_box(to, X - W / 2.0, Y - H / 2.0, W, H, "b", NULL);
        tr_svg_text(to, X, Y + 4, 'm', false, servers > 1 ? "servers" : "server");
    }
    tr_svg_end(to);
}

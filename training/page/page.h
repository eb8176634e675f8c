/* SPDX-License-Identifier: BSD-3-Clause */
/* page.h: what a page consists of: sections, sentences, tables, figures; as HTML, or as Markdown, where a
 * figure is its title and its sentence. */
#ifndef TRAINING_PAGE_PAGE_H
#define TRAINING_PAGE_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { TR_PAGE_COLUMNS = 32, TR_PAGE_TEXT = 64 };

struct tr_page {
    FILE *to;
    bool markdown;
    const char *heads[TR_PAGE_COLUMNS]; /* of the table that is open; they stay valid until it ends */
    bool left[TR_PAGE_COLUMNS]; /* words, not numbers */
    int columns, column;
};

void tr_page_begin(struct tr_page *p, FILE *to, bool markdown, const char *title);
void tr_page_end(struct tr_page *p);

void tr_page_section(struct tr_page *p, const char *title);
void tr_page_say(struct tr_page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A table, cell by cell; a row ends with its last column. A cell has the number that it shows, too, for who
 * reads the page by a program; NAN: there is none. */
void tr_page_head(struct tr_page *p, const char *head, bool left);
void tr_page_table(struct tr_page *p);
void tr_page_cell(struct tr_page *p, const char *text, double value);
void tr_page_table_end(struct tr_page *p);

/* What colours mean, for the figures that follow: classes k0, k1, .. of page.c, or l0, .. of lines. */
void tr_page_key(struct tr_page *p, char kind, const char *const *names, int n);
/* Figures stand beside each other as far as there is room. */
void tr_page_figures(struct tr_page *p);
void tr_page_figures_end(struct tr_page *p);
/* Between these two stands what chart.h or sketch.h draws, unless the page is Markdown. `name` is for who
 * reads the page by a program. */
void tr_page_figure(struct tr_page *p, const char *name, const char *title);
void tr_page_figure_end(struct tr_page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drawings below each other as one file of SVG, so high in all, with the colours of a page. */
void tr_page_picture(FILE *to, double height, const char *title, const char *drawings);

/* Text of a page: what HTML would take for its own is written so that it does not. */
void tr_page_escape(FILE *to, const char *text);

/* "12.7 MB", "1.46 GB", "0 B": powers of 1000. */
const char *tr_page_bytes(double bytes, char text[TR_PAGE_TEXT]);
/* "3.21 ms", "120 us". */
const char *tr_page_time(double seconds, char text[TR_PAGE_TEXT]);

#endif

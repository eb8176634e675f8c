/* SPDX-License-Identifier: BSD-3-Clause */
/* page.h: the parts of the page that compare writes. */
#ifndef TRAINING_COMPARE_PAGE_H
#define TRAINING_COMPARE_PAGE_H

#include "training/compare/compare.h"
#include "training/page/page.h"

/* So many configurations have figures of their own, of so many ranks each: a page is to be a megabyte at
 * most. All are in the tables, and in --json. */
enum { TR_PAGE_DRAWN = 40, TR_PAGE_RANKS = 16 };

void tr_page_times(struct tr_page *p, const struct tr_comparison *c);
void tr_page_memory(struct tr_page *p, const struct tr_comparison *c);
void tr_page_sends(struct tr_page *p, const struct tr_comparison *c);
void tr_page_losses(struct tr_page *p, const struct tr_comparison *c);

/* What textbooks draw, with the numbers of this run. */
void tr_page_textbook(struct tr_page *p, const struct tr_comparison *c);

/* The configuration that runs this paradigm alone on all ranks; NULL. */
const struct tr_contender *tr_page_alone(const struct tr_comparison *c, const char *word);
/* "1f1b (--pp 4 --micro 8)" */
const char *tr_page_title(const struct tr_contender *x, char text[256]);

#endif

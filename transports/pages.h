/* SPDX-License-Identifier: BSD-3-Clause */
/* pages.h: does memory of this process lie on huge pages? What the kernel copies out of another process it
 * looks up page by page, so that this decides what such a copy takes. */
#ifndef TT_TRANSPORTS_PAGES_H
#define TT_TRANSPORTS_PAGES_H
#include <stdbool.h>
#include <stdint.h>

/* What is known so far; one thread at a time. NULL: there is no memory. */
struct tt_pages;
struct tt_pages *tt_pages_open(bool scans);
void tt_pages_close(struct tt_pages *pages);

/* Does what lies in the middle of these bytes, TT_PAGES_LEAST or more, lie on a huge page? Looks again now
 * and then, since the kernel makes and splits huge pages at any time; a wrong answer costs time, no more. */
enum { TT_PAGES_LEAST = 64 << 10 };
bool tt_pages_huge(struct tt_pages *pages, uintptr_t address, uint64_t bytes);

#endif

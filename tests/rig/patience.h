/* SPDX-License-Identifier: BSD-3-Clause */
/* patience.h: how long a test waits before it calls something hung.
 *
 * Such a limit must be short on a quiet machine, so that a hang is told soon, and may not be reached on one
 * where each core is shared by twenty programs. So it is counted in time that this program could have run:
 * where twice as many programs want to run as there are cores, a second counts half. */
#ifndef TUTTI_TESTS_PATIENCE_H
#define TUTTI_TESTS_PATIENCE_H
#include <stdbool.h>
#include <stdint.h>

struct patience {
    double left_ms;
    int64_t looked_ms;
};

struct patience patience_of(int64_t ms);
/* Not more than this is left. */
void patience_shorten(struct patience *p, int64_t ms);
bool patience_is_over(struct patience *p);

/* For alarm(), which cannot look again: by what runs here now. */
unsigned patience_seconds(unsigned seconds);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* joining.h: the initialisation that this thread is in, for whoever wonders why it takes so long.
 *
 * It waits in many places (for a launcher, for rank 0, for the others), and what it waits for is told in
 * two ways: to tutti-info attach at any moment, and in a line of the log after ten seconds, then ever more
 * rarely, at last once a minute. Outside of an initialisation all of this does nothing. */
#ifndef TT_JOINING_H
#define TT_JOINING_H
#include <stdbool.h>
#include <stdint.h>

/* `name` is the communicator's; NULL: it has none. False if this thread is in an initialisation already; then
 * that one goes on, and is ended by who began it. */
bool tt_joining_begin(const char *name);
void tt_joining_know(int n, int rank);
void tt_joining_end(void);

/* What it waits for from now on, as the end of a sentence: "rank 0 has not come". */
void tt_joining_wait(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, from the process that knows; after ten seconds it is worth a line at once. */
void tt_joining_hear(const char *what);
/* Somebody else looks at the time from now on, and is heard unless he falls silent. */
void tt_joining_defer(void);
/* By each turn of a wait: a line, if it is time for one. Returns the moment to look again. */
int64_t tt_joining_look(void);

/* Until the first line, which is ten seconds but for tests. */
extern int tt_joining_patience_ms;
/* From a line, so long after the beginning, to the next one. */
int64_t tt_joining_pause_ns(int64_t elapsed_ns);

#endif

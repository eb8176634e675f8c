/* SPDX-License-Identifier: BSD-3-Clause */
/* init_progress.h: whom the initialisation of this thread waits for, told to a user who wonders why it
 * takes so long.
 *
 * An initialisation waits in several functions (for a launcher, for rank 0, for the others). Whom it waits
 * for is told in two ways: to tutti-info attach at any moment, and in a line of the log after ten seconds,
 * then ever more rarely, at last once a minute. Outside of an initialisation these functions do nothing. */
#ifndef TT_INIT_PROGRESS_H
#define TT_INIT_PROGRESS_H
#include <stdbool.h>
#include <stdint.h>

/* Begins an initialisation of this thread. `name` is the communicator's; NULL: it has none. False if the
 * thread is in an initialisation already: that one goes on, and the caller that began it ends it. */
bool tt_init_progress_begin(const char *name);
void tt_init_progress_know(int n, int rank);
void tt_init_progress_end(void);

/* Says what this initialisation waits for from now on, as the end of a sentence: "rank 0 has not come". */
void tt_init_progress_wait(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Says what it waits for as the root told it. After ten seconds that is worth a line of the log at once. */
void tt_init_progress_hear(const char *what);
/* Leaves the lines of the log to the root's notices; if none comes in time, this thread writes its own. */
void tt_init_progress_defer(void);
/* Writes a line to the log if it is time for one; each turn of a wait calls it. Returns the moment to look
 * again. */
int64_t tt_init_progress_look(void);

/* The time until the first line: ten seconds, but for tests. */
extern int tt_init_progress_patience_ms;
/* Returns the time from a line, written `elapsed_ns` after the beginning, to the next one. */
int64_t tt_init_progress_pause_ns(int64_t elapsed_ns);

#endif

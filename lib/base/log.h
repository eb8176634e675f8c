/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h: one line per event on stderr or TUTTI_DEBUG_FILE, at or below the level of TUTTI_DEBUG (none,
 * error, warn, info or trace; warn if unset). In the file's name %h is the host and %p the process. Never
 * on the hot path. */
#ifndef TT_BASE_LOG_H
#define TT_BASE_LOG_H
#include <stdbool.h>

enum tt_log_level { TT_LOG_NONE, TT_LOG_ERROR, TT_LOG_WARN, TT_LOG_INFO, TT_LOG_TRACE };

bool tt_log_enabled(enum tt_log_level level);
void tt_log(enum tt_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* status.h: errors are decided, recorded and logged once, here; everybody else passes the status on.
 *
 * tt_fail keeps the text for tutti_get_last_error(NULL) of this thread and logs it. Outputs are set only on
 * success. */
#ifndef TT_BASE_STATUS_H
#define TT_BASE_STATUS_H
#include <string.h>

#include "tutti.h"

enum { TT_ERROR_TEXT = 480 };

/* The system's words for an errno: glibc's strerror_r returns them, that of POSIX, as musl's, a number. */
#ifndef __GLIBC__
char *tt_strerror(int number, char *text, size_t bytes);
#define strerror_r tt_strerror
#endif

/* Returns `status`. The text says what was wrong, and what would be legal. What the caller can mend (down to
 * OUT_OF_MEMORY) is logged as information only: the caller has the text, and would see it twice. */
tutti_status tt_fail(tutti_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Fails like tt_fail, with errno's text appended. */
tutti_status tt_fail_errno(tutti_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Set this thread's last text without logging (an error that was logged before). */
void tt_set_last_error(const char *text);
const char *tt_last_error(void);

#endif

/* clock.h: the only place that reads a clock. */
#ifndef TT_BASE_CLOCK_H
#define TT_BASE_CLOCK_H
#include <stdint.h>

int64_t tt_now_ns(void); /* monotonic */
/* The moment `timeout_ms` from now; INT64_MAX for a negative timeout (never). */
int64_t tt_deadline_ns(int64_t timeout_ms);

#endif

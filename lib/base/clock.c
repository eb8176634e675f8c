/* clock.c: the monotonic clock. Deadlines are absolute moments on it, so that a wait that is cut into many
 * sleeps does not stretch; a timeout too long for 64 bits means never, as a negative one does. */
#include "base/clock.h"

#include <time.h>

int64_t tt_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t tt_deadline_ns(int64_t timeout_ms)
{
    int64_t now = tt_now_ns();
    if (timeout_ms < 0 || timeout_ms > (INT64_MAX - now) / 1000000)
        return INT64_MAX;
    return now + timeout_ms * 1000000;
}

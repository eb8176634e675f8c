/* SPDX-License-Identifier: BSD-3-Clause */
/* joining.c: what the initialisation of a thread waits for, in the log and in the recorder.
 *
 * An initialisation is one call of one thread, so its place is the thread: the launchers and the bootstrap
 * say what they wait for without being told about communicators. */
#include "bootstrap/joining.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "observe/recorder.h"

enum { NAME_BYTES = 64 };

struct joining {
    bool under_way;
    int n, rank; /* n is 0 until they are known */
    int64_t began_ns, next_ns;
    uint64_t began_ticks;
    struct tt_recorder *recorder; /* NULL: there was no memory for it */
    char name[NAME_BYTES], what[256];
};

int tt_joining_patience_ms = 10000;

static struct joining *mine(void)
{
    struct joining *j = tt_thread_room_taken(TT_ROOM_JOINING);
    return j != NULL && j->under_way ? j : NULL;
}

static void enter_in_recorder(struct joining *j)
{
    if (j->recorder != NULL)
        tt_recorder_close(j->recorder);
    j->recorder = tt_recorder_join(j->n, j->rank, j->name, j->began_ticks);
    if (j->recorder != NULL)
        tt_recorder_wait(j->recorder, j->what);
}

bool tt_joining_begin(const char *name)
{
    struct joining *j = tt_thread_room(TT_ROOM_JOINING, sizeof *j);
    if (j == NULL || j->under_way)
        return false;
    *j =
        (struct joining){ .under_way = true, .rank = -1, .began_ns = tt_now_ns(), .began_ticks = tt_ticks() };
    j->next_ns = tt_deadline_ns(tt_joining_patience_ms);
    snprintf(j->name, sizeof j->name, "%s", name != NULL ? name : "comm");
    enter_in_recorder(j);
    return true;
}

void tt_joining_know(int n, int rank)
{
    struct joining *j = mine();
    if (j == NULL || j->n == n)
        return;
    j->n = n;
    j->rank = rank;
    enter_in_recorder(j);
}

void tt_joining_end(void)
{
    struct joining *j = mine();
    if (j == NULL)
        return;
    if (j->recorder != NULL)
        tt_recorder_close(j->recorder);
    *j = (struct joining){ .under_way = false };
}

static void set_what(struct joining *j, const char *what)
{
    snprintf(j->what, sizeof j->what, "%s", what);
    if (j->recorder != NULL)
        tt_recorder_wait(j->recorder, j->what);
}

void tt_joining_wait(const char *format, ...)
{
    char what[sizeof((struct joining *)0)->what];
    va_list arguments;
    struct joining *j = mine();
    if (j == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    set_what(j, what);
}

static void say(const struct joining *j, int64_t now_ns)
{
    char who[48] = "";
    if (j->n > 0)
        snprintf(who, sizeof who, ", rank %d of %d", j->rank, j->n);
    tt_log(TT_LOG_WARN, "%s%s: not ready after %.0f s: %s", j->name, who,
        1e-9 * (double)(now_ns - j->began_ns), j->what);
}

int64_t tt_joining_pause_ns(int64_t elapsed_ns)
{
    enum { MOST_S = 60 };
    int64_t most_ns = MOST_S * INT64_C(1000000000);
    return elapsed_ns < most_ns ? elapsed_ns : most_ns;
}

void tt_joining_hear(const char *what)
{
    struct joining *j = mine();
    int64_t now_ns = tt_now_ns();
    if (j == NULL)
        return;
    set_what(j, what);
    if (now_ns - j->began_ns < tt_joining_patience_ms * INT64_C(1000000))
        return;
    say(j, now_ns);
    j->next_ns = now_ns + 2 * tt_joining_pause_ns(now_ns - j->began_ns);
}

void tt_joining_defer(void)
{
    struct joining *j = mine();
    if (j != NULL)
        j->next_ns = tt_deadline_ns((int64_t)tt_joining_patience_ms * 3 / 2);
}

int64_t tt_joining_look(void)
{
    struct joining *j = mine();
    int64_t now_ns = tt_now_ns();
    if (j == NULL)
        return INT64_MAX;
    if (now_ns >= j->next_ns) {
        say(j, now_ns);
        j->next_ns = now_ns + tt_joining_pause_ns(now_ns - j->began_ns);
    }
    return j->next_ns;
}

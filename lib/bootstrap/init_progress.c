/* SPDX-License-Identifier: BSD-3-Clause */
/* init_progress.c: what the initialisation of a thread waits for, in the log and in the recorder.
 *
 * An initialisation is one call of one thread, so its state belongs to the thread: the launchers and the
 * bootstrap say what they wait for, and know nothing of communicators. */
#include "bootstrap/init_progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "observe/recorder.h"

enum { NAME_BYTES = 64 };

struct init_progress {
    bool under_way;
    int n, rank; /* n is 0 until they are known */
    int64_t began_ns, next_ns;
    uint64_t began_ticks;
    struct tt_recorder *recorder; /* NULL: there was no memory for it */
    char name[NAME_BYTES], what[256];
};

int tt_init_progress_patience_ms = 10000;

static struct init_progress *mine(void)
{
    struct init_progress *p = tt_thread_room_taken(TT_ROOM_INIT_PROGRESS);
    return p != NULL && p->under_way ? p : NULL;
}

static void enter_in_recorder(struct init_progress *p)
{
    if (p->recorder != NULL)
        tt_recorder_close(p->recorder);
    p->recorder = tt_recorder_open_init(p->n, p->rank, p->name, p->began_ticks);
    if (p->recorder != NULL)
        tt_recorder_wait(p->recorder, p->what);
}

bool tt_init_progress_begin(const char *name)
{
    struct init_progress *p = tt_thread_room(TT_ROOM_INIT_PROGRESS, sizeof *p);
    if (p == NULL || p->under_way)
        return false;
    *p = (struct init_progress){
        .under_way = true, .rank = -1, .began_ns = tt_now_ns(), .began_ticks = tt_ticks()
    };
    p->next_ns = tt_deadline_ns(tt_init_progress_patience_ms);
    snprintf(p->name, sizeof p->name, "%s", name != NULL ? name : "comm");
    enter_in_recorder(p);
    return true;
}

void tt_init_progress_know(int n, int rank)
{
    struct init_progress *p = mine();
    if (p == NULL || p->n == n)
        return;
    p->n = n;
    p->rank = rank;
    enter_in_recorder(p);
}

void tt_init_progress_end(void)
{
    struct init_progress *p = mine();
    if (p == NULL)
        return;
    if (p->recorder != NULL)
        tt_recorder_close(p->recorder);
    *p = (struct init_progress){ .under_way = false };
}

static void set_what(struct init_progress *p, const char *what)
{
    snprintf(p->what, sizeof p->what, "%s", what);
    if (p->recorder != NULL)
        tt_recorder_wait(p->recorder, p->what);
}

void tt_init_progress_wait(const char *format, ...)
{
    char what[sizeof((struct init_progress *)0)->what];
    va_list arguments;
    struct init_progress *p = mine();
    if (p == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    set_what(p, what);
}

static void say(const struct init_progress *p, int64_t now_ns)
{
    char who[48] = "";
    if (p->n > 0)
        snprintf(who, sizeof who, ", rank %d of %d", p->rank, p->n);
    tt_log(TT_LOG_WARN, "%s%s: not ready after %.0f s: %s", p->name, who,
        1e-9 * (double)(now_ns - p->began_ns), p->what);
}

int64_t tt_init_progress_pause_ns(int64_t elapsed_ns)
{
    enum { MOST_S = 60 };
    int64_t most_ns = MOST_S * INT64_C(1000000000);
    return elapsed_ns < most_ns ? elapsed_ns : most_ns;
}

void tt_init_progress_hear(const char *what)
{
    struct init_progress *p = mine();
    int64_t now_ns = tt_now_ns();
    if (p == NULL)
        return;
    set_what(p, what);
    if (now_ns - p->began_ns < tt_init_progress_patience_ms * INT64_C(1000000))
        return;
    say(p, now_ns);
    p->next_ns = now_ns + 2 * tt_init_progress_pause_ns(now_ns - p->began_ns);
}

void tt_init_progress_defer(void)
{
    struct init_progress *p = mine();
    if (p != NULL)
        p->next_ns = tt_deadline_ns((int64_t)tt_init_progress_patience_ms * 3 / 2);
}

int64_t tt_init_progress_look(void)
{
    struct init_progress *p = mine();
    int64_t now_ns = tt_now_ns();
    if (p == NULL)
        return INT64_MAX;
    if (now_ns >= p->next_ns) {
        say(p, now_ns);
        p->next_ns = now_ns + tt_init_progress_pause_ns(now_ns - p->began_ns);
    }
    return p->next_ns;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_verdict.c: what the root tells the members: whom all wait for, and the verdict.
 *
 * A session that fails does so for every rank, with the first cause, which names the ranks concerned. */
#include "bootstrap/bootstrap_session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/init_progress.h"

void tt_root_decide(struct tt_root_session *session, tutti_status status, const char *format, ...)
{
    if (session->verdict.status != TUTTI_OK)
        return;
    va_list args;
    va_start(args, format);
    session->verdict.status = status;
    vsnprintf(session->verdict.text, sizeof session->verdict.text, format, args);
    va_end(args);
    if (session->maker < 0) /* else that rank is told, and writes it to the log */
        tt_log(TT_LOG_ERROR, "%s", session->verdict.text);
}

void tt_root_tell(
    const struct tt_root_session *session, struct tt_connection *c, const struct tt_verdict *verdict)
{
    uint8_t bytes[TT_VERDICT_BYTES];
    tt_verdict_write(verdict, session->id.session, bytes);
    tt_wire_send(c->socket, bytes, sizeof bytes, NULL, 0);
    if (verdict->status != TUTTI_OK)
        tt_connection_dismiss(c);
    else
        tt_connection_enter(c, TT_STAGE_READY);
}

/* Ranks of this process are told last: once they know, the process may end, and this thread with it. A
 * member in the midst of another frame is not told: it could not tell a verdict from the rest of that
 * frame. */
int tt_root_tell_all(struct tt_root_session *session)
{
    int told = 0;
    for (int ours = 0; ours <= 1; ours++) {
        for (int i = 0; i < session->count; i++) {
            struct tt_connection *c = session->connections[i];
            bool sending = c->stage == TT_STAGE_MEMBERS || c->stage == TT_STAGE_ANSWER;
            if (c->socket < 0 || c->stage < TT_STAGE_ADMITTED || sending || c->ours != ours)
                continue;
            tt_root_tell(session, c, &session->verdict);
            told++;
        }
    }
    return told;
}

void tt_root_give_up(struct tt_root_session *session)
{
    int64_t linger_ns = tt_deadline_ns(TT_ROOT_LINGER_MS);
    session->phase = session->n == 0 || session->hellos < session->n ? TT_PHASE_LINGERING : TT_PHASE_OVER;
    if (linger_ns < session->deadline_ns)
        session->deadline_ns = linger_ns;
    if (session->phase == TT_PHASE_LINGERING) /* before a rank of this process hears of it, and exits */
        tt_listener_linger(session->door);
    tt_root_tell_all(session);
}

void tt_root_give_notice(
    const struct tt_root_session *session, const struct tt_connection *c, const char *text)
{
    uint8_t bytes[TT_NOTICE_BYTES];
    struct tt_notice notice = { .maker = session->maker };
    if (c->socket < 0)
        return;
    snprintf(notice.text, sizeof notice.text, "%s", text);
    tt_notice_write(&notice, session->id.session, bytes);
    tt_wire_send(c->socket, bytes, sizeof bytes, NULL, 0);
}

static bool has_reached(const struct tt_root_session *session, int rank, enum tt_stage stage)
{
    return session->members[rank] && session->members[rank]->stage >= stage;
}

/* "rank 2", "ranks 2, 5-7": those that have not reached a stage, as far as they fit; returns how many. */
static int list_late(const struct tt_root_session *session, enum tt_stage stage, char *text, size_t bytes)
{
    char list[TT_ERROR_TEXT / 2] = "";
    size_t at = 0, room = bytes - 8 < sizeof list ? bytes - 8 : sizeof list;
    int late = 0;
    for (int first = 0, end; first < session->n; first = end) {
        end = first + 1;
        if (has_reached(session, first, stage))
            continue;
        while (end < session->n && !has_reached(session, end, stage))
            end++;
        const char *comma = late > 0 ? ", " : "";
        late += end - first;
        if (room - at < 48) {
            snprintf(list + at, sizeof list - at, "%s...", comma);
            break;
        }
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", comma, first);
        if (end - first > 1)
            at += (size_t)snprintf(list + at, sizeof list - at, "-%d", end - 1);
    }
    snprintf(text, bytes, "%s %s", late > 1 ? "ranks" : "rank", list);
    return late;
}

void tt_root_begin_wait(struct tt_root_session *session)
{
    session->began_ns = tt_now_ns();
    session->notice_ns = tt_deadline_ns(tt_init_progress_patience_ms);
}

/* Describes which ranks all wait for, and for what; false if no rank is late. */
static bool describe_late(const struct tt_root_session *session, char *text, size_t bytes)
{
    static const struct {
        enum tt_stage stage;
        const char *verb[2]; /* of one, of more */
    } phases[] = {
        [TT_PHASE_GATHERING] = { TT_STAGE_ADMITTED, { "has not come", "have not come" } },
        [TT_PHASE_HANDING_OUT] = { TT_STAGE_DONE, { "came, and is silent", "came, and are silent" } },
        [TT_PHASE_EXCHANGES] = { TT_STAGE_WAITING,
            { "does not take part in an exchange", "do not take part in an exchange" } },
    };
    char late[TT_NOTICE_TEXT - 48];
    if (session->n == 0 || session->phase > TT_PHASE_EXCHANGES ||
        (session->phase == TT_PHASE_EXCHANGES && !session->exchange.frame && !session->spread.on))
        return false;
    enum tt_phase phase = session->spread.on ? TT_PHASE_HANDING_OUT : session->phase;
    enum tt_stage stage = session->spread.on ? TT_STAGE_QUEUED : phases[phase].stage;
    int count = list_late(session, stage, late, sizeof late);
    snprintf(text, bytes, "%s of %d %s", late, session->n, phases[phase].verb[count > 1]);
    return true;
}

/* True if the member waits for the root, which is between two frames to it. */
static bool waits(const struct tt_connection *c)
{
    bool passes = c->stage >= TT_STAGE_FETCH && c->stage <= TT_STAGE_HELD;
    return passes || c->stage == TT_STAGE_ADMITTED || c->stage == TT_STAGE_DONE ||
           c->stage == TT_STAGE_WAITING;
}

/* Sends notices only to members that wait, so between two frames. If no rank of this process is a member
 * yet, the root writes to the log itself. */
int64_t tt_root_notify(struct tt_root_session *session)
{
    char text[TT_NOTICE_TEXT];
    int64_t now_ns = tt_now_ns();
    if (!describe_late(session, text, sizeof text))
        return INT64_MAX;
    if (now_ns < session->notice_ns)
        return session->notice_ns;
    for (int r = 0; r < session->n; r++) {
        const struct tt_connection *c = session->members[r];
        if (c && waits(c))
            tt_root_give_notice(session, c, text);
    }
    if (session->maker < 0)
        tt_log(TT_LOG_WARN, "ranks wait at an id that was made here, after %.0f s: %s",
            1e-9 * (double)(now_ns - session->began_ns), text);
    session->notice_ns = now_ns + tt_init_progress_pause_ns(now_ns - session->began_ns);
    return session->notice_ns;
}

void tt_root_expire(struct tt_root_session *session)
{
    static const char *const words[2][2] = { { "", "" },
        { "; rank 0 listens at ", ", which is loopback: no other host reaches that" } };
    const char *const *loopback = words[session->loopback[0] != 0];
    char late[TT_ERROR_TEXT / 2 + 8];
    long long ms = session->limit_ms;
    if (session->phase == TT_PHASE_GATHERING && session->n > 0) {
        list_late(session, TT_STAGE_ADMITTED, late, sizeof late);
        tt_root_decide(session, TUTTI_TIMEOUT, "%s did not come within %lld ms%s%s%s", late, ms, loopback[0],
            session->loopback, loopback[1]);
    } else if (session->phase == TT_PHASE_HANDING_OUT || session->spread.on) {
        list_late(session, session->spread.on ? TT_STAGE_QUEUED : TT_STAGE_DONE, late, sizeof late);
        tt_root_decide(session, TUTTI_TIMEOUT, "%s came, but fell silent for %lld ms", late, ms);
    } else if (session->phase == TT_PHASE_EXCHANGES) {
        list_late(session, TT_STAGE_WAITING, late, sizeof late);
        tt_root_decide(
            session, TUTTI_TIMEOUT, "%s did not hand in what all exchange within %lld ms", late, ms);
    } else if (session->phase == TT_PHASE_GATHERING) {
        tt_log(TT_LOG_INFO, "no rank came to the id within %lld ms", ms);
    }
    tt_root_tell_all(session);
    session->phase = TT_PHASE_OVER;
}

void tt_root_fail(struct tt_root_session *session, const char *what, int number)
{
    char why[128];
    tt_root_decide(session, TUTTI_SYSTEM_ERROR, "%s: %s (its limit of open files, ulimit -n, is %llu)", what,
        strerror_r(number, why, sizeof why), tt_wire_open_files());
    bool again = session->phase >= TT_PHASE_LATE;
    tt_root_give_up(session);
    if (again)
        session->phase = TT_PHASE_OVER;
    tt_root_close_fds(session); /* so that those who are still on their way can be let in, to hear of it */
}

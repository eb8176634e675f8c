/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_job.c: who is let in, what each connection says next, and how a job fails.
 *
 * What comes next is known from a connection's stage, with a known size, so each stage is a row of a table:
 * how many bytes it needs and who hears them.
 *
 * A job that fails does so for every rank, with the first cause, which names the ranks concerned. */
#include "bootstrap/bootstrap_job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/bootstrap_clofork.h"
#include "bootstrap/joining.h"

void tt_visitor_dismiss(struct tt_visitor *v)
{
    for (int i = 0; i < v->nfds; i++)
        tt_clofork_close(v->fds[i]);
    tt_clofork_close(v->socket);
    v->nfds = 0;
    v->socket = -1;
}

void tt_visitor_enter(struct tt_visitor *v, enum tt_stage stage)
{
    v->stage = stage;
    v->have = 0;
}

void tt_job_decide(struct tt_job *job, tutti_status status, const char *format, ...)
{
    if (job->verdict.status != TUTTI_OK)
        return;
    va_list args;
    va_start(args, format);
    job->verdict.status = status;
    vsnprintf(job->verdict.text, sizeof job->verdict.text, format, args);
    va_end(args);
    if (job->maker < 0) /* else that rank is told, and writes it to the log */
        tt_log(TT_LOG_ERROR, "%s", job->verdict.text);
}

/* A failure ends the connection, success begins the session. */
static void tell(const struct tt_job *job, struct tt_visitor *v, const struct tt_verdict *verdict)
{
    uint8_t bytes[TT_VERDICT_BYTES];
    tt_verdict_write(verdict, job->id.session, bytes);
    tt_wire_send(v->socket, bytes, sizeof bytes, NULL, 0);
    if (verdict->status != TUTTI_OK)
        tt_visitor_dismiss(v);
    else
        tt_visitor_enter(v, TT_STAGE_SESSION);
}

/* Ranks of this process come last: once they know, the process may end, and this thread with it. A rank in
 * the midst of another frame could not tell a verdict from the rest of it. */
int tt_job_tell_all(struct tt_job *job)
{
    int told = 0;
    for (int ours = 0; ours <= 1; ours++) {
        for (int i = 0; i < job->count; i++) {
            struct tt_visitor *v = job->visitors[i];
            bool sending = v->stage == TT_STAGE_MEMBERS || v->stage == TT_STAGE_ANSWER;
            if (v->socket < 0 || v->stage < TT_STAGE_SEATED || sending || v->ours != ours)
                continue;
            tell(job, v, &job->verdict);
            told++;
        }
    }
    return told;
}

/* The job cannot succeed. Ranks that are still on their way deserve the same answer. */
static void give_up(struct tt_job *job)
{
    tt_job_tell_all(job);
    int64_t linger_ns = tt_deadline_ns(TT_JOB_LINGER_MS);
    job->phase = job->n == 0 || job->hellos < job->n ? TT_JOB_LINGERING : TT_JOB_OVER;
    if (linger_ns < job->deadline_ns)
        job->deadline_ns = linger_ns;
}

/* A stranger that cannot be admitted, for a reason that is the job's end. */
static void turn_away(struct tt_job *job, struct tt_visitor *v)
{
    job->hellos++;
    tell(job, v, &job->verdict);
    give_up(job);
}

/* All ranks are here, or gone again; who comes now is one too many, and no concern of theirs. */
static bool is_full(const struct tt_job *job)
{
    return job->phase == TT_JOB_SESSION || job->phase == TT_JOB_LATE;
}

void tt_job_lose(struct tt_job *job, struct tt_visitor *v, int number)
{
    if (v->stage < TT_STAGE_SEATED && number == EMFILE && !is_full(job)) {
        tt_job_decide(job, TUTTI_SYSTEM_ERROR,
            "the process that made the id cannot hold the descriptors of all ranks: its limit of open files "
            "(ulimit -n) is %llu",
            tt_wire_open_files());
        turn_away(job, v);
        return;
    }
    /* In a session a rank may leave whenever nobody needs anything of it. */
    bool needed = v->stage >= TT_STAGE_SEATED;
    if (job->phase == TT_JOB_SESSION)
        needed = needed && v->stage != TT_STAGE_WAITING && job->round.frame;
    tt_visitor_dismiss(v);
    if (!needed)
        return;
    tt_job_decide(job, TUTTI_PEER_LOST, "rank %d was lost before all %d ranks had %s", v->challenge.rank,
        job->n, job->phase == TT_JOB_SESSION ? "exchanged their addresses" : "met");
    if (job->phase == TT_JOB_GATHERING)
        give_up(job);
    else if (job->phase == TT_JOB_SESSION)
        tt_job_tell_all(job);
}

static void hear_greeting(struct tt_job *job, struct tt_visitor *v)
{
    uint8_t reply[TT_REPLY_BYTES];
    if (!tt_greeting_read(v->in, &v->challenge) ||
        tt_random_bytes(v->challenge.root_nonce, TT_NONCE_BYTES) != TUTTI_OK) {
        tt_visitor_dismiss(v);
        return;
    }
    memcpy(reply, v->challenge.root_nonce, TT_NONCE_BYTES);
    tt_proof_make(&job->id, TT_ROLE_ROOT, &v->challenge, reply + TT_NONCE_BYTES);
    if (tt_wire_send(v->socket, reply, sizeof reply, NULL, 0) == sizeof reply)
        tt_visitor_enter(v, TT_STAGE_PROOF);
    else
        tt_visitor_dismiss(v);
}

bool tt_job_drop_stranger(struct tt_job *job, bool remote)
{
    for (int i = 0; i < job->count; i++) {
        struct tt_visitor *v = job->visitors[i];
        if (v->socket < 0 || v->stage >= TT_STAGE_FRAME || v->remote != remote)
            continue;
        tt_visitor_dismiss(v);
        return true;
    }
    return false;
}

/* What comes by a rank's hello must find room, for what does not is lost. */
static void make_room(struct tt_job *job, const struct tt_visitor *v)
{
    while (!tt_wire_has_files(v->socket, TT_BLOB_FDS))
        if (!tt_job_drop_stranger(job, true) && !tt_job_drop_stranger(job, false))
            return;
}

static void hear_proof(struct tt_job *job, struct tt_visitor *v)
{
    if (tt_proof_holds(&job->id, TT_ROLE_RANK, &v->challenge, v->in)) {
        tt_visitor_enter(v, TT_STAGE_FRAME);
        make_room(job, v);
        return;
    }
    if (!job->warned)
        tt_log(TT_LOG_WARN, "a process that does not know the id's secret was turned away; so will others "
                            "like it be, without a word");
    job->warned = true;
    tt_visitor_dismiss(v);
}

static void hear_frame(struct tt_job *job, struct tt_visitor *v)
{
    struct tt_frame frame;
    if (!tt_frame_read(v->in, job->id.session, &frame) || frame.kind != TT_FRAME_HELLO) {
        tt_visitor_dismiss(v);
    } else if (is_full(job) && (frame.lowest > TT_WIRE_HIGHEST || frame.highest < TT_WIRE_LOWEST)) {
        tt_visitor_dismiss(v);
    } else if (frame.lowest > TT_WIRE_HIGHEST || frame.highest < TT_WIRE_LOWEST) {
        tt_job_decide(job, TUTTI_MISMATCH,
            "rank %d speaks versions %u to %u of the bootstrap, the process that made the id %d to %d: use "
            "one version of Tutti on all ranks",
            v->challenge.rank, frame.lowest, frame.highest, TT_WIRE_LOWEST, TT_WIRE_HIGHEST);
        turn_away(job, v);
    } else if (frame.length != TT_HELLO_BYTES - TT_FRAME_BYTES) {
        tt_visitor_dismiss(v);
    } else {
        v->version = frame.highest;
        v->stage = TT_STAGE_HELLO; /* and the bytes stay: they are its head */
    }
}

tutti_status tt_round_begin(struct tt_round *round, int n, uint32_t part)
{
    round->frame = malloc(TT_FRAME_BYTES + (size_t)n * part);
    round->part = part;
    return round->frame ? TUTTI_OK : TUTTI_OUT_OF_MEMORY;
}

uint8_t *tt_round_part(const struct tt_round *round, int rank)
{
    return round->frame + TT_FRAME_BYTES + (size_t)rank * round->part;
}

static bool allocate(struct tt_job *job, int n)
{
    tt_wire_need_files(n * (1 + TT_BLOB_FDS)); /* a connection, and what comes by it */
    job->seats = calloc((size_t)n, sizeof *job->seats);
    job->fds = malloc((size_t)n * TT_BLOB_FDS * sizeof *job->fds);
    if (tt_round_begin(&job->round, n, TT_ENTRY_BYTES) != TUTTI_OK || !job->seats || !job->fds)
        return false;
    for (int i = 0; i < n * TT_BLOB_FDS; i++)
        job->fds[i] = -1;
    return true;
}

static void decide_remote(struct tt_job *job, const struct tt_visitor *v)
{
    char from[TT_NET_TEXT] = "an address that is gone";
    struct tt_net net;
    if (tt_net_peer(v->socket, &net))
        tt_net_print(&net, from);
    tt_job_decide(job, TUTTI_UNSUPPORTED,
        "rank %d came by the network, from %s, as it did not find rank 0's socket in /tmp: it runs on "
        "another "
        "machine, in another container or as another user, and ranks of this version share memory",
        v->challenge.rank, from);
}

/* Is there a seat for this rank? If not, why. */
static bool admit(struct tt_job *job, const struct tt_visitor *v, const struct tt_hello *hello)
{
    int rank = v->challenge.rank, n = hello->n;
    if (n < 1 || n > TT_WIRE_RANKS)
        tt_job_decide(
            job, TUTTI_INVALID_ARGUMENT, "rank %d says n = %d; legal: 1 to %d", rank, n, TT_WIRE_RANKS);
    else if (job->n != 0 && n != job->n)
        tt_job_decide(job, TUTTI_INVALID_ARGUMENT, "rank %d says n = %d, rank %d said n = %d", rank, n,
            job->n_from, job->n);
    else if (rank < 0 || rank >= n)
        tt_job_decide(job, TUTTI_INVALID_ARGUMENT, "rank %d is outside 0..%d", rank, n - 1);
    else if (job->n != 0 && job->seats[rank])
        tt_job_decide(job, TUTTI_INVALID_ARGUMENT, "rank %d came twice", rank);
    else if (v->remote)
        decide_remote(job, v);
    else if (__builtin_popcount(hello->fds) != v->nfds || hello->fds >> TT_BLOB_FDS != 0)
        tt_job_decide(job, TUTTI_MISMATCH, "rank %d announced descriptors that did not come", rank);
    else if (job->n == 0 && !allocate(job, n))
        tt_job_decide(job, TUTTI_OUT_OF_MEMORY, "no memory for a job of %d ranks", n);
    return job->verdict.status == TUTTI_OK;
}

static void give_notice(const struct tt_job *job, const struct tt_visitor *v, const char *text)
{
    uint8_t bytes[TT_NOTICE_BYTES];
    struct tt_notice notice = { .maker = job->maker };
    if (v->socket < 0 || v->version < TT_WIRE_NOTICES)
        return;
    snprintf(notice.text, sizeof notice.text, "%s", text);
    tt_notice_write(&notice, job->id.session, bytes);
    tt_wire_send(v->socket, bytes, sizeof bytes, NULL, 0);
}

/* All are to know who made the id, should its end be the job's. */
static void introduce_maker(struct tt_job *job, const struct tt_visitor *v)
{
    bool first = v->ours && job->maker < 0;
    if (first)
        job->maker = v->challenge.rank;
    for (int r = 0; first && r < job->n; r++)
        if (job->seats[r] != NULL)
            give_notice(job, job->seats[r], "");
    if (!first && job->maker >= 0)
        give_notice(job, v, "");
}

static void seat(struct tt_job *job, struct tt_visitor *v, const struct tt_hello *hello)
{
    int rank = v->challenge.rank, next = 0;
    if (job->n == 0) {
        job->n = hello->n;
        job->n_from = rank;
        job->deadline_ns = tt_deadline_ns(job->timeout_ms);
        job->limit_ms = job->timeout_ms;
        tt_job_begin(job);
    }
    job->seats[rank] = v;
    job->round.parts++;
    uint8_t *entry = tt_round_part(&job->round, rank);
    tt_put(entry, hello->fds, 4);
    memcpy(entry + 4, hello->blob, TT_BLOB_BYTES);
    for (int i = 0; i < TT_BLOB_FDS; i++) {
        if (hello->fds >> i & 1)
            job->fds[rank * TT_BLOB_FDS + i] = v->fds[next++];
    }
    v->nfds = 0;
    int64_t deadline_ns = tt_deadline_ns(hello->timeout_ms);
    if (deadline_ns < job->deadline_ns) {
        job->deadline_ns = deadline_ns;
        job->limit_ms = hello->timeout_ms;
    }
    tt_visitor_enter(v, TT_STAGE_SEATED);
    introduce_maker(job, v);
}

static void refuse_late(const struct tt_job *job, struct tt_visitor *v, const struct tt_hello *hello)
{
    struct tt_verdict verdict = job->verdict;
    int rank = v->challenge.rank;
    if (verdict.status == TUTTI_OK) {
        verdict.status = TUTTI_INVALID_ARGUMENT;
        if (hello->n == job->n && rank >= 0 && rank < job->n)
            snprintf(verdict.text, sizeof verdict.text,
                "rank %d came twice: all %d ranks had come by then; an id serves once, and each process is a "
                "rank of "
                "its own",
                rank, job->n);
        else
            snprintf(verdict.text, sizeof verdict.text,
                "rank %d says n = %d, after all ranks of a job of n = %d had come", rank, hello->n, job->n);
    }
    tell(job, v, &verdict);
}

static void hear_hello(struct tt_job *job, struct tt_visitor *v)
{
    struct tt_hello hello;
    tt_hello_read(v->in, &hello);
    if (is_full(job)) {
        refuse_late(job, v, &hello);
        return;
    }
    if (job->phase == TT_JOB_LINGERING || !admit(job, v, &hello)) {
        turn_away(job, v);
        return;
    }
    job->hellos++;
    seat(job, v, &hello);
    if (job->round.parts == job->n)
        tt_job_hand_out(job);
}

static void hear_interruption(struct tt_job *job, struct tt_visitor *v)
{
    tt_job_lose(job, v, EPROTO);
}

static const struct {
    uint32_t needs; /* 0: as many as a part of this exchange has */
    void (*hear)(struct tt_job *job, struct tt_visitor *v);
} stages[] = {
    [TT_STAGE_GREETING] = { TT_GREETING_BYTES, hear_greeting },
    [TT_STAGE_PROOF] = { TT_SHA256_BYTES, hear_proof },
    [TT_STAGE_FRAME] = { TT_FRAME_BYTES, hear_frame },
    [TT_STAGE_HELLO] = { TT_HELLO_BYTES, hear_hello },
    [TT_STAGE_SEATED] = { 1, hear_interruption },
    [TT_STAGE_MEMBERS] = { TT_VERDICT_BYTES, tt_job_hear_report }, /* a failure may be told early */
    [TT_STAGE_REPORT] = { TT_VERDICT_BYTES, tt_job_hear_report },
    [TT_STAGE_DONE] = { 1, hear_interruption },
    [TT_STAGE_ANSWER] = { 1, hear_interruption },
    [TT_STAGE_SESSION] = { TT_FRAME_BYTES, tt_job_hear_exchange },
    [TT_STAGE_PART] = { 0, tt_job_hear_part },
    [TT_STAGE_WAITING] = { 1, hear_interruption },
};

/* Read what this stage needs, and not a byte of the next. True once it is there. */
static bool fill(struct tt_job *job, struct tt_visitor *v)
{
    size_t needs = stages[v->stage].needs > 0 ? stages[v->stage].needs : job->round.part;
    int room = v->stage == TT_STAGE_FRAME || v->stage == TT_STAGE_HELLO ? TT_BLOB_FDS : 0;
    while (v->have < needs) {
        ssize_t got = tt_wire_receive(v->socket, v->in + v->have, needs - v->have, v->fds, room, &v->nfds);
        if (got < 0 && errno == EAGAIN)
            return false;
        if (got <= 0) {
            tt_job_lose(job, v, got < 0 ? errno : 0);
            return false;
        }
        v->have += (size_t)got;
    }
    return true;
}

void tt_job_listen(struct tt_job *job, struct tt_visitor *v)
{
    while (v->socket >= 0 && fill(job, v))
        stages[v->stage].hear(job, v);
}

static bool has_reached(const struct tt_job *job, int rank, enum tt_stage stage)
{
    return job->seats[rank] && job->seats[rank]->stage >= stage;
}

/* "rank 2", "ranks 2, 5-7": those that have not reached a stage, as far as they fit; returns how many. */
static int list_late(const struct tt_job *job, enum tt_stage stage, char *text, size_t bytes)
{
    char list[TT_ERROR_TEXT / 2] = "";
    size_t at = 0, room = bytes - 8 < sizeof list ? bytes - 8 : sizeof list;
    int late = 0;
    for (int first = 0, end; first < job->n; first = end) {
        end = first + 1;
        if (has_reached(job, first, stage))
            continue;
        while (end < job->n && !has_reached(job, end, stage))
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

void tt_job_begin(struct tt_job *job)
{
    job->began_ns = tt_now_ns();
    job->notice_ns = tt_deadline_ns(tt_joining_patience_ms);
}

/* Whom all wait for, and how; false if nobody is late for anything. */
static bool describe_late(const struct tt_job *job, char *text, size_t bytes)
{
    static const struct {
        enum tt_stage stage;
        const char *verb[2]; /* of one, of more */
    } phases[] = {
        [TT_JOB_GATHERING] = { TT_STAGE_SEATED, { "has not come", "have not come" } },
        [TT_JOB_HANDING_OUT] = { TT_STAGE_DONE, { "came, and is silent", "came, and are silent" } },
        [TT_JOB_SESSION] = { TT_STAGE_WAITING,
            { "does not take part in an exchange", "do not take part in an exchange" } },
    };
    char late[TT_NOTICE_TEXT - 48];
    if (job->n == 0 || job->phase > TT_JOB_SESSION || (job->phase == TT_JOB_SESSION && !job->round.frame))
        return false;
    int count = list_late(job, phases[job->phase].stage, late, sizeof late);
    snprintf(text, bytes, "%s of %d %s", late, job->n, phases[job->phase].verb[count > 1]);
    return true;
}

/* Between two frames only, and to who waits. If no rank of this process is one of those, it says so
 * itself. */
int64_t tt_job_notify(struct tt_job *job)
{
    char text[TT_NOTICE_TEXT];
    int64_t now_ns = tt_now_ns();
    if (!describe_late(job, text, sizeof text))
        return INT64_MAX;
    if (now_ns < job->notice_ns)
        return job->notice_ns;
    for (int r = 0; r < job->n; r++) {
        const struct tt_visitor *v = job->seats[r];
        if (v && (v->stage == TT_STAGE_SEATED || v->stage == TT_STAGE_DONE || v->stage == TT_STAGE_WAITING))
            give_notice(job, v, text);
    }
    if (job->maker < 0)
        tt_log(TT_LOG_WARN, "ranks wait at an id that was made here, after %.0f s: %s",
            1e-9 * (double)(now_ns - job->began_ns), text);
    job->notice_ns = now_ns + tt_joining_pause_ns(now_ns - job->began_ns);
    return job->notice_ns;
}

void tt_job_expire(struct tt_job *job)
{
    char late[TT_ERROR_TEXT / 2 + 8];
    long long ms = job->limit_ms;
    if (job->phase == TT_JOB_GATHERING && job->n > 0) {
        list_late(job, TT_STAGE_SEATED, late, sizeof late);
        tt_job_decide(job, TUTTI_TIMEOUT, "%s did not come within %lld ms", late, ms);
    } else if (job->phase == TT_JOB_HANDING_OUT) {
        list_late(job, TT_STAGE_DONE, late, sizeof late);
        tt_job_decide(job, TUTTI_TIMEOUT, "%s came, but fell silent for %lld ms", late, ms);
    } else if (job->phase == TT_JOB_SESSION) {
        list_late(job, TT_STAGE_WAITING, late, sizeof late);
        tt_job_decide(job, TUTTI_TIMEOUT, "%s did not hand in what all exchange within %lld ms", late, ms);
    } else if (job->phase == TT_JOB_GATHERING) {
        tt_log(TT_LOG_INFO, "no rank came to the id within %lld ms", ms);
    }
    tt_job_tell_all(job);
    job->phase = TT_JOB_OVER;
}

void tt_job_fail(struct tt_job *job, const char *what, int number)
{
    char why[128];
    tt_job_decide(job, TUTTI_SYSTEM_ERROR, "%s: %s (its limit of open files, ulimit -n, is %llu)", what,
        strerror_r(number, why, sizeof why), tt_wire_open_files());
    bool again = job->phase >= TT_JOB_LATE;
    give_up(job);
    if (again)
        job->phase = TT_JOB_OVER;
    tt_job_close_fds(job); /* so that those who are still on their way can be let in, to hear of it */
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_rounds.c: what all ranks get from all, once each of them is there.
 *
 * First blobs and descriptors. Each rank reports whether it could take them, and only then all are told to
 * go, or why not: nobody leaves with half a job. Then as many exchanges as the ranks like.
 *
 * What this process has once, it does not need twice: the last rank in it gets the descriptors themselves, a
 * few at a time, each closed here as it goes. So the process that made the id, and is a rank, too, holds no
 * more than a connection and the descriptors of each rank.
 *
 * A rank may be one exchange ahead of another that is still being sent the result of the last, and no more,
 * for the next needs that other's part: so one round is collected while one result is sent. */
#include "bootstrap/bootstrap_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/bootstrap_clofork.h"

enum { FDS_GIVEN_AWAY = 16 }; /* at a time */

static size_t result_bytes(const struct tt_job *job)
{
    return TT_FRAME_BYTES + (size_t)job->n * job->result.part;
}

/* All parts are there: send them to all. */
static void begin_sending(struct tt_job *job, enum tt_frame_kind kind, enum tt_stage stage)
{
    free(job->result.frame);
    job->result = job->round;
    job->round = (struct tt_round){ .frame = NULL };
    struct tt_frame frame = { TT_WIRE_HIGHEST, TT_WIRE_HIGHEST, kind,
        (uint32_t)(result_bytes(job) - TT_FRAME_BYTES), job->id.session };
    tt_frame_write(&frame, job->result.frame);
    for (int r = 0; r < job->n; r++) {
        if (job->seats[r]->socket < 0)
            continue;
        job->seats[r]->sent = 0;
        tt_visitor_enter(job->seats[r], stage);
    }
}

void tt_job_hand_out(struct tt_job *job)
{
    for (int i = 0; i < job->count; i++) {
        struct tt_visitor *v = job->visitors[i];
        if (v->socket >= 0 && v->stage < TT_STAGE_SEATED)
            tt_visitor_dismiss(v);
    }
    begin_sending(job, TT_FRAME_MEMBERS, TT_STAGE_MEMBERS);
    /* The last rank may have come at the last moment; half the grace that the ranks give. */
    job->deadline_ns = tt_wire_later(job->deadline_ns, TT_WIRE_GRACE_MS / 2);
    job->phase = TT_JOB_HANDING_OUT;
    tt_job_begin(job);
}

void tt_job_close_fds(struct tt_job *job)
{
    for (int i = 0; job->fds && i < job->n * TT_BLOB_FDS; i++) {
        if (job->fds[i] >= 0)
            tt_clofork_close(job->fds[i]);
        job->fds[i] = -1;
    }
}

/* Is this the last one that the members are sent to, and of this process? */
static bool is_heir(const struct tt_job *job, const struct tt_visitor *v)
{
    bool last = v->ours;
    for (int r = 0; r < job->n; r++) {
        const struct tt_visitor *other = job->seats[r];
        last = last && (other == v || other->socket < 0 || other->stage != TT_STAGE_MEMBERS);
    }
    return last;
}

/* The next descriptors for this rank, not its own; returns how far in job->fds they reach. */
static int next_fds(const struct tt_job *job, const struct tt_visitor *v, int most, int *fds, int *count)
{
    int at = v->fds_passed;
    *count = 0;
    for (; at < job->n * TT_BLOB_FDS && *count < most; at++) {
        if (job->fds[at] >= 0 && at / TT_BLOB_FDS != v->challenge.rank)
            fds[(*count)++] = job->fds[at];
    }
    return at;
}

/* They are on their way, and what is under way is open. */
static void give_away(struct tt_job *job, const struct tt_visitor *v, int end)
{
    for (int at = v->fds_passed; at < end; at++) {
        if (job->fds[at] < 0 || at / TT_BLOB_FDS == v->challenge.rank)
            continue;
        tt_clofork_close(job->fds[at]);
        job->fds[at] = -1;
    }
}

static bool in_another_process_is_sent(const struct tt_job *job, enum tt_stage what)
{
    bool any = false;
    for (int r = 0; r < job->n; r++) {
        const struct tt_visitor *v = job->seats[r];
        any = any || (v->socket >= 0 && v->stage == what && !v->ours);
    }
    return any;
}

/* Ranks of this process get their part last: it may end then, and this thread with it; and by then
 * nobody else needs the descriptors. */
bool tt_job_may_send(const struct tt_job *job, const struct tt_visitor *v)
{
    if (v->socket < 0 || v->congested)
        return false;
    if (v->stage != TT_STAGE_MEMBERS && v->stage != TT_STAGE_ANSWER)
        return false;
    return !v->ours || !in_another_process_is_sent(job, v->stage);
}

/* All of the result, as much as goes; then the descriptors, if they are wanted. False: not yet all. */
static bool send_more(struct tt_job *job, struct tt_visitor *v)
{
    ssize_t sent = 0;
    while (sent >= 0 && v->sent < result_bytes(job)) {
        sent = tt_wire_send(v->socket, job->result.frame + v->sent, result_bytes(job) - v->sent, NULL, 0);
        v->sent += sent > 0 ? (size_t)sent : 0;
    }
    while (sent >= 0 && v->fds_passed < job->n * TT_BLOB_FDS) {
        int fds[TT_WIRE_FDS], count;
        bool heir = is_heir(job, v);
        int reached = next_fds(job, v, heir ? FDS_GIVEN_AWAY : TT_WIRE_FDS, fds, &count);
        if (count > 0)
            sent = tt_wire_send(v->socket, "", 1, fds, count);
        if (sent >= 0 && heir)
            give_away(job, v, reached);
        if (sent >= 0)
            v->fds_passed = reached;
    }
    /* An unprivileged user may have only ulimit -n descriptors under way, in all sockets together. */
    v->congested = sent < 0 && errno == ETOOMANYREFS;
    /* If the rank is gone, so is the need to send; reading what it says next will show it. */
    return sent >= 0 || (errno != EAGAIN && errno != ETOOMANYREFS);
}

void tt_job_send(struct tt_job *job, struct tt_visitor *v)
{
    if (!send_more(job, v))
        return;
    v->stage = v->stage == TT_STAGE_MEMBERS ? TT_STAGE_REPORT : TT_STAGE_SESSION;
    if (job->phase == TT_JOB_SESSION && job->verdict.status != TUTTI_OK)
        tt_job_tell_all(job);
}

void tt_job_hear_report(struct tt_job *job, struct tt_visitor *v)
{
    struct tt_frame frame;
    struct tt_verdict report;
    if (!tt_frame_read(v->in, job->id.session, &frame) || frame.kind != TT_FRAME_VERDICT) {
        tt_job_lose(job, v, EPROTO);
        return;
    }
    tt_verdict_read(v->in, &report);
    if (report.status != TUTTI_OK)
        tt_job_decide(job, report.status, "%s", report.text);
    tt_visitor_enter(v, TT_STAGE_DONE);
}

/* Has everyone who is still there come to this stage, or gone by it? */
static bool all_reached(const struct tt_job *job, enum tt_stage stage)
{
    bool all = true;
    for (int r = 0; r < job->n; r++)
        all = all && (job->seats[r]->socket < 0 || job->seats[r]->stage >= stage);
    return all;
}

void tt_job_conclude(struct tt_job *job)
{
    if (job->phase == TT_JOB_HANDING_OUT && all_reached(job, TT_STAGE_REPORT))
        tt_job_close_fds(job);
    if (job->phase == TT_JOB_HANDING_OUT && all_reached(job, TT_STAGE_DONE)) {
        job->phase = job->verdict.status == TUTTI_OK ? TT_JOB_SESSION : TT_JOB_OVER;
        job->deadline_ns = INT64_MAX;
        tt_job_tell_all(job);
    }
    bool empty = true;
    for (int r = 0; job->phase == TT_JOB_SESSION && r < job->n; r++)
        empty = empty && job->seats[r]->socket < 0;
    if (job->phase == TT_JOB_SESSION && empty)
        job->phase = TT_JOB_OVER;
}

void tt_job_hear_exchange(struct tt_job *job, struct tt_visitor *v)
{
    struct tt_frame frame;
    int rank = v->challenge.rank;
    bool legal = tt_frame_read(v->in, job->id.session, &frame) && frame.kind == TT_FRAME_EXCHANGE &&
                 frame.length > 0 && frame.length <= TT_BLOB_BYTES;
    if (!legal) {
        tt_job_lose(job, v, EPROTO);
        return;
    }
    tt_visitor_enter(v, TT_STAGE_PART);
    for (int r = 0; r < job->n; r++) {
        if (job->seats[r]->socket < 0)
            tt_job_decide(job, TUTTI_PEER_LOST,
                "rank %d left before all %d ranks had exchanged their addresses", r, job->n);
    }
    if (!job->round.frame) {
        if (tt_round_begin(&job->round, job->n, frame.length) != TUTTI_OK)
            tt_job_decide(job, TUTTI_OUT_OF_MEMORY, "no memory for an exchange of %d ranks", job->n);
        job->deadline_ns = tt_deadline_ns(job->limit_ms);
        tt_job_begin(job);
    }
    if (frame.length != job->round.part)
        tt_job_decide(job, TUTTI_MISMATCH, "rank %d exchanges %u bytes, another rank %u", rank, frame.length,
            job->round.part);
    if (job->verdict.status != TUTTI_OK)
        tt_job_tell_all(job);
}

void tt_job_hear_part(struct tt_job *job, struct tt_visitor *v)
{
    memcpy(tt_round_part(&job->round, v->challenge.rank), v->in, job->round.part);
    job->round.parts++;
    tt_visitor_enter(v, TT_STAGE_WAITING);
    if (job->round.parts < job->n)
        return;
    job->deadline_ns = INT64_MAX;
    begin_sending(job, TT_FRAME_EXCHANGE, TT_STAGE_ANSWER);
}

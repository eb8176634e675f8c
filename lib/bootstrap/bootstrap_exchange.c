/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_exchange.c: exchanges, in which each member hands in a part and gets the parts of all.
 *
 * In the first one all learn which host each is on, and the ranks of the root's host get each other's
 * descriptors. Each rank reports whether it could take them, and only then all are told to go on, or why not:
 * either all ranks go on or none does. Then follow as many exchanges as the ranks like.
 *
 * A descriptor that all ranks of other processes have been sent is needed only once more: the last rank of
 * this process gets it, a few at a time, and each is closed here as it goes. So the process that made the
 * id, if it is a rank too, holds no more than one connection and the descriptors of each rank.
 *
 * A rank may be one exchange ahead of another that is still being sent the last result, and no more, for
 * the next exchange needs that other's part. So one exchange is collected while one result is sent. */
#include "bootstrap/bootstrap_session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clofork.h"
#include "base/clock.h"

enum { FDS_GIVEN_AWAY = 16 }; /* at a time */

static size_t result_bytes(const struct tt_root_session *session)
{
    return TT_FRAME_BYTES + session->result.before + (size_t)session->n * session->result.part;
}

/* Begins to send the exchange, whose parts are all there, to all members. */
static void begin_sending(struct tt_root_session *session, enum tt_frame_kind kind, enum tt_stage stage)
{
    free(session->result.frame);
    session->result = session->exchange;
    session->exchange = (struct tt_exchange){ .frame = NULL };
    struct tt_frame frame = { TT_WIRE_HIGHEST, TT_WIRE_HIGHEST, kind,
        (uint32_t)(result_bytes(session) - TT_FRAME_BYTES), session->id.session };
    tt_frame_write(&frame, session->result.frame);
    tt_root_spread(session, stage);
}

/* The order of two members' hosts; 0: they can pass each other descriptors, for both came by the local
 * socket, or both have the same key. */
static int order_of_hosts(const struct tt_connection *a, const struct tt_connection *b)
{
    if (a->remote != b->remote)
        return a->remote - b->remote;
    return a->remote ? memcmp(a->host, b->host, sizeof a->host) : 0;
}

static int order_of_ranks(const void *a, const void *b)
{
    const struct tt_connection *of_a = *(struct tt_connection *const *)a;
    const struct tt_connection *of_b = *(struct tt_connection *const *)b;
    return of_a->challenge.rank - of_b->challenge.rank;
}

/* By their hosts, and on each by rank. */
static int order_of_members(const void *a, const void *b)
{
    int order = order_of_hosts(*(struct tt_connection *const *)a, *(struct tt_connection *const *)b);
    return order != 0 ? order : order_of_ranks(a, b);
}

/* Numbers the hosts in the order of their lowest ranks, and writes each member's into the frame. The members
 * are sorted for that: to compare each with each would be the square of n. */
static void number_hosts(struct tt_root_session *session)
{
    size_t n = (size_t)session->n;
    uint64_t hosts = 0, lowest = 0;
    qsort(session->members, n, sizeof(struct tt_connection *), order_of_members);
    for (size_t i = 0; i < n; i++) { /* the lowest rank of its host, at first */
        const struct tt_connection *c = session->members[i];
        if (i == 0 || order_of_hosts(session->members[i - 1], c) != 0)
            lowest = (uint64_t)c->challenge.rank;
        tt_put(tt_exchange_part(&session->exchange, c->challenge.rank) + 4, lowest, 4);
    }
    qsort(session->members, n, sizeof(struct tt_connection *), order_of_ranks);
    for (int r = 0; r < session->n; r++) {
        uint8_t *host = tt_exchange_part(&session->exchange, r) + 4;
        lowest = tt_get(host, 4);
        bool known = lowest < (uint64_t)r;
        tt_put(host, known ? tt_get(tt_exchange_part(&session->exchange, (int)lowest) + 4, 4) : hosts++, 4);
    }
}

void tt_root_hand_out(struct tt_root_session *session)
{
    for (int i = 0; i < session->count; i++) {
        struct tt_connection *c = session->connections[i];
        if (c->socket >= 0 && c->stage < TT_STAGE_ADMITTED)
            tt_connection_dismiss(c);
    }
    number_hosts(session);
    begin_sending(session, TT_FRAME_MEMBERS, TT_STAGE_MEMBERS);
    /* The last rank may have come at the last moment; half the grace that the ranks give. */
    session->deadline_ns = tt_wire_later(session->deadline_ns, TT_WIRE_GRACE_MS / 2);
    session->phase = TT_PHASE_HANDING_OUT;
    tt_root_begin_wait(session);
}

void tt_root_close_fds(struct tt_root_session *session)
{
    for (int i = 0; session->fds && i < session->n * TT_BLOB_FDS; i++) {
        if (session->fds[i] >= 0)
            tt_clofork_close(session->fds[i]);
        session->fds[i] = -1;
    }
}

/* True if this rank of our own process is the last one that is still being sent the members. */
static bool is_last_of_ours(const struct tt_root_session *session, const struct tt_connection *c)
{
    bool last = c->ours;
    for (int r = 0; r < session->n; r++) {
        const struct tt_connection *other = session->members[r];
        last = last && (other == c || other->socket < 0 || other->stage != TT_STAGE_MEMBERS);
    }
    return last;
}

/* Lists the next descriptors for this rank, none of its own; returns how far in session->fds they reach. */
static int next_fds(
    const struct tt_root_session *session, const struct tt_connection *c, int most, int *fds, int *count)
{
    int at = c->fds_passed;
    *count = 0;
    for (; at < session->n * TT_BLOB_FDS && *count < most; at++) {
        if (session->fds[at] >= 0 && at / TT_BLOB_FDS != c->challenge.rank)
            fds[(*count)++] = session->fds[at];
    }
    return at;
}

/* Closes the descriptors up to `end`, which were sent to the last rank. Those on their way stay open
 * without us. */
static void give_away(struct tt_root_session *session, const struct tt_connection *c, int end)
{
    for (int at = c->fds_passed; at < end; at++) {
        if (session->fds[at] < 0 || at / TT_BLOB_FDS == c->challenge.rank)
            continue;
        tt_clofork_close(session->fds[at]);
        session->fds[at] = -1;
    }
}

static bool in_another_process_is_sent(const struct tt_root_session *session, enum tt_stage what)
{
    bool any = false;
    for (int r = 0; r < session->n; r++) {
        const struct tt_connection *c = session->members[r];
        any = any || (c->socket >= 0 && c->stage == what && !c->ours);
    }
    return any;
}

/* True if the socket may be written to. Ranks of this process are served last: the process may end when
 * they have all they need, and this thread with it; and by then nobody else needs the descriptors. */
bool tt_root_may_send(const struct tt_root_session *session, const struct tt_connection *c)
{
    if (c->socket < 0 || c->congested)
        return false;
    if (c->stage != TT_STAGE_MEMBERS && c->stage != TT_STAGE_ANSWER)
        return false;
    return !c->ours || !in_another_process_is_sent(session, c->stage);
}

/* Sends the result, then the descriptors if they are wanted, as much as the socket takes. False: not yet
 * all. */
static bool send_more(struct tt_root_session *session, struct tt_connection *c)
{
    ssize_t sent = 0;
    while (sent >= 0 && c->sent < result_bytes(session)) {
        sent = tt_wire_send(
            c->socket, session->result.frame + c->sent, result_bytes(session) - c->sent, NULL, 0);
        c->sent += sent > 0 ? (size_t)sent : 0;
    }
    while (sent >= 0 && !c->remote && c->fds_passed < session->n * TT_BLOB_FDS) {
        int fds[TT_WIRE_FDS], count;
        bool last = is_last_of_ours(session, c);
        int reached = next_fds(session, c, last ? FDS_GIVEN_AWAY : TT_WIRE_FDS, fds, &count);
        if (count > 0)
            sent = tt_wire_send(c->socket, "", 1, fds, count);
        if (sent >= 0 && last)
            give_away(session, c, reached);
        if (sent >= 0)
            c->fds_passed = reached;
    }
    /* An unprivileged user may have only ulimit -n descriptors under way, in all sockets together. */
    c->congested = sent < 0 && errno == ETOOMANYREFS;
    /* If the rank is gone, so is the need to send; reading what it says next will show it. */
    return sent >= 0 || (errno != EAGAIN && errno != ETOOMANYREFS);
}

void tt_root_send(struct tt_root_session *session, struct tt_connection *c)
{
    if (!send_more(session, c))
        return;
    if (tt_root_says_taken(session, c))
        c->stage = TT_STAGE_FETCH;
    else
        c->stage = c->stage == TT_STAGE_MEMBERS ? TT_STAGE_REPORT : TT_STAGE_READY;
    if (session->phase == TT_PHASE_EXCHANGES && session->verdict.status != TUTTI_OK)
        tt_root_tell_all(session);
}

void tt_root_hear_report(struct tt_root_session *session, struct tt_connection *c)
{
    struct tt_frame frame;
    struct tt_verdict report;
    if (!tt_frame_read(c->in, session->id.session, &frame) || frame.kind != TT_FRAME_VERDICT) {
        tt_root_lose(session, c, EPROTO);
        return;
    }
    tt_verdict_read(c->in, &report);
    if (report.status != TUTTI_OK)
        tt_root_decide(session, report.status, "%s", report.text);
    tt_connection_enter(c, TT_STAGE_DONE);
}

/* True if every member that is still connected has reached this stage. */
static bool all_reached(const struct tt_root_session *session, enum tt_stage stage)
{
    bool all = true;
    for (int r = 0; r < session->n; r++)
        all = all && (session->members[r]->socket < 0 || session->members[r]->stage >= stage);
    return all;
}

void tt_root_conclude(struct tt_root_session *session)
{
    tt_root_conclude_spread(session);
    if (session->phase == TT_PHASE_HANDING_OUT && all_reached(session, TT_STAGE_REPORT))
        tt_root_close_fds(session);
    if (session->phase == TT_PHASE_HANDING_OUT && all_reached(session, TT_STAGE_DONE)) {
        session->phase = session->verdict.status == TUTTI_OK ? TT_PHASE_EXCHANGES : TT_PHASE_OVER;
        session->deadline_ns = INT64_MAX;
        tt_root_tell_all(session);
    }
    bool empty = true;
    for (int r = 0; session->phase == TT_PHASE_EXCHANGES && r < session->n; r++)
        empty = empty && session->members[r]->socket < 0;
    if (session->phase == TT_PHASE_EXCHANGES && empty)
        session->phase = TT_PHASE_OVER;
}

void tt_root_hear_exchange(struct tt_root_session *session, struct tt_connection *c)
{
    struct tt_frame frame;
    int rank = c->challenge.rank;
    bool read = tt_frame_read(c->in, session->id.session, &frame);
    bool legal = read && frame.kind == TT_FRAME_EXCHANGE && frame.length <= TT_BLOB_BYTES;
    if (read && frame.kind == TT_FRAME_REFUSAL && frame.length == TT_REFUSAL_BYTES - TT_FRAME_BYTES) {
        c->stage = TT_STAGE_LAST_WORDS; /* and the bytes stay: they are their head */
        return;
    }
    if (!legal) {
        tt_root_lose(session, c, EPROTO);
        return;
    }
    tt_connection_enter(c, TT_STAGE_PART);
    for (int r = 0; session->left && r < session->n; r++) { /* else to look would be the square of n */
        if (session->members[r]->socket < 0)
            tt_root_decide(session, TUTTI_PEER_LOST,
                "rank %d left before all %d ranks had exchanged their addresses", r, session->n);
    }
    if (!session->exchange.frame) {
        if (tt_exchange_begin(&session->exchange, session->n, 0, frame.length) != TUTTI_OK)
            tt_root_decide(session, TUTTI_OUT_OF_MEMORY, "no memory for an exchange of %d ranks", session->n);
        session->deadline_ns = tt_deadline_ns(session->limit_ms);
        tt_root_begin_wait(session);
    }
    if (frame.length != session->exchange.part)
        tt_root_decide(session, TUTTI_MISMATCH, "rank %d exchanges %u bytes, another rank %u", rank,
            frame.length, session->exchange.part);
    if (session->verdict.status != TUTTI_OK)
        tt_root_tell_all(session);
}

void tt_root_hear_part(struct tt_root_session *session, struct tt_connection *c)
{
    memcpy(tt_exchange_part(&session->exchange, c->challenge.rank), c->in, session->exchange.part);
    session->exchange.parts++;
    tt_connection_enter(c, TT_STAGE_WAITING);
    if (session->exchange.parts < session->n)
        return;
    if (session->exchange.part > 0) {
        begin_sending(session, TT_FRAME_EXCHANGE, TT_STAGE_ANSWER);
    } else { /* of nothing: all are told that all have come */
        free(session->exchange.frame);
        session->exchange = (struct tt_exchange){ .frame = NULL };
        tt_root_tell_all(session);
    }
    session->deadline_ns =
        session->spread.on ? tt_wire_later(session->deadline_ns, TT_WIRE_GRACE_MS / 2) : INT64_MAX;
    tt_root_begin_wait(session);
}

void tt_root_hear_last_words(struct tt_root_session *session, struct tt_connection *c)
{
    struct tt_verdict refusal;
    int32_t n;
    tt_refusal_read(c->in, &refusal, &n);
    if (refusal.status == TUTTI_OK) {
        tt_root_lose(session, c, EPROTO);
        return;
    }
    tt_root_decide(session, refusal.status, "rank %d could not make its end of the communicator: %s",
        c->challenge.rank, refusal.text);
    tt_root_tell_all(session);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_spread.c: how what all ranks get comes to many hosts: from rank to rank.
 *
 * What all get grows with their number; sent to each by the root it would grow as the square. So the root
 * sends it to the ranks of its host and to a few of others. Whoever has it says so, and the root has it pass
 * that on to a few more. What a rank is told, where to get it and what has failed, it is told by the root
 * alone: a rank that dies is seen, and named, as it is without this.
 *
 * No rank is needed for another to get it: one that cannot get it where it was sent asks the root, which
 * sends it; and if nobody has got it for a while, the root sends it to a few more. */
#include "bootstrap/bootstrap_session.h"

#include <errno.h>

#include "base/clock.h"

enum { PATIENCE_MS = 1000 };

static enum tt_stage stage_of_sending(const struct tt_root_session *session)
{
    return session->phase == TT_PHASE_EXCHANGES ? TT_STAGE_ANSWER : TT_STAGE_MEMBERS;
}

/* Tells the member where it gets the result; from NULL: the root sends it. */
static void direct(struct tt_root_session *session, struct tt_connection *c, const struct tt_connection *from)
{
    uint8_t bytes[TT_SOURCE_BYTES];
    struct tt_source source = session->spread.source;
    source.rank = from != NULL ? from->challenge.rank : -1;
    if (from != NULL)
        source.net = from->door;
    tt_source_write(&source, session->id.session, bytes);
    tt_wire_send(c->socket, bytes, sizeof bytes, NULL, 0);
    tt_connection_enter(c, from != NULL ? TT_STAGE_FETCH : stage_of_sending(session));
}

/* Directs at most so many of the queue. */
static void direct_next(struct tt_root_session *session, const struct tt_connection *from, int most)
{
    struct tt_spread *spread = &session->spread;
    for (; spread->next < session->n && most > 0; spread->next++) {
        struct tt_connection *c = session->members[spread->next];
        if (c->socket < 0 || c->stage != TT_STAGE_QUEUED)
            continue;
        direct(session, c, from);
        most--;
    }
    spread->look_ns = spread->next < session->n ? tt_deadline_ns(PATIENCE_MS) : INT64_MAX;
}

static bool begin(struct tt_root_session *session)
{
    struct tt_sha256 hash;
    struct tt_source *source = &session->spread.source;
    size_t bytes = session->result.before + (size_t)session->n * session->result.part;
    session->spread = (struct tt_spread){ .on = session->remotes > tt_wire_few };
    if (!session->spread.on || tt_random_bytes(source->token, sizeof source->token) != TUTTI_OK)
        return session->spread.on = false;
    tt_sha256_begin(&hash);
    tt_sha256_add(&hash, session->result.frame + TT_FRAME_BYTES, bytes);
    tt_sha256_end(&hash, source->digest);
    return true;
}

void tt_root_spread(struct tt_root_session *session, enum tt_stage stage)
{
    bool spreads = begin(session);
    for (int r = 0; r < session->n; r++) {
        struct tt_connection *c = session->members[r];
        if (c->socket < 0)
            continue;
        c->sent = 0;
        session->spread.expected += tt_root_says_taken(session, c);
        if (!tt_root_says_taken(session, c))
            tt_connection_enter(c, stage);
        else if (c->remote)
            tt_connection_enter(c, TT_STAGE_QUEUED);
        else
            direct(session, c, NULL);
    }
    if (spreads)
        direct_next(session, NULL, tt_wire_few);
}

void tt_root_hear_taken(struct tt_root_session *session, struct tt_connection *c)
{
    struct tt_frame frame;
    bool read = tt_frame_read(c->in, session->id.session, &frame) && frame.kind == TT_FRAME_TAKEN;
    if (!read || frame.length != TT_TAKEN_BYTES - TT_FRAME_BYTES) {
        tt_root_lose(session, c, EPROTO);
        return;
    }
    if (tt_get(c->in + TT_FRAME_BYTES, 4) == 0) {
        c->sent = 0;
        tt_connection_enter(c, stage_of_sending(session));
        return;
    }
    session->spread.held++;
    tt_connection_enter(c, TT_STAGE_HELD);
    if (session->verdict.status == TUTTI_OK && c->remote)
        direct_next(session, c->door.port != 0 ? c : NULL, c->door.port != 0 ? tt_wire_few : 1);
}

/* Tells the verdict to the members that would wait for others in vain. */
static void stop(struct tt_root_session *session)
{
    for (int r = 0; r < session->n; r++) {
        struct tt_connection *c = session->members[r];
        if (c->socket >= 0 && c->stage >= TT_STAGE_FETCH && c->stage <= TT_STAGE_HELD)
            tt_root_tell(session, c, &session->verdict);
    }
}

/* All have it: those who meet go on to report, and those who exchange are ready. */
static void finish(struct tt_root_session *session)
{
    uint8_t bytes[TT_VERDICT_BYTES];
    session->spread.on = false;
    if (session->phase == TT_PHASE_EXCHANGES) {
        session->deadline_ns = INT64_MAX;
        tt_root_tell_all(session);
        return;
    }
    tt_verdict_write(&session->verdict, session->id.session, bytes);
    for (int r = 0; r < session->n; r++) {
        struct tt_connection *c = session->members[r];
        if (c->socket < 0 || c->stage != TT_STAGE_HELD)
            continue;
        tt_wire_send(c->socket, bytes, sizeof bytes, NULL, 0);
        tt_connection_enter(c, TT_STAGE_REPORT);
    }
}

void tt_root_conclude_spread(struct tt_root_session *session)
{
    if (!session->spread.on)
        return;
    if (session->verdict.status != TUTTI_OK)
        stop(session);
    else if (session->spread.held == session->spread.expected)
        finish(session);
    else if (tt_now_ns() >= session->spread.look_ns)
        direct_next(session, NULL, tt_wire_few);
}

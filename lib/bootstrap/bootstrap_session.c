/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_session.c: who becomes a member, and what each connection says next.
 *
 * The stage of a connection says what it sends next, and of which size. So each stage is a row of a table:
 * how many bytes it needs, and the function that takes them. */
#include "bootstrap/bootstrap_session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clofork.h"
#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/init_progress.h"

void tt_connection_dismiss(struct tt_connection *c)
{
    for (int i = 0; i < c->nfds; i++)
        tt_clofork_close(c->fds[i]);
    tt_clofork_close(c->socket);
    c->nfds = 0;
    c->socket = -1;
}

void tt_connection_enter(struct tt_connection *c, enum tt_stage stage)
{
    c->stage = stage;
    c->have = 0;
}

/* Fails the session because of a stranger that cannot become a member, and tells it so. */
static void turn_away(struct tt_root_session *session, struct tt_connection *c)
{
    session->hellos++;
    tt_root_tell(session, c, &session->verdict);
    tt_root_give_up(session);
}

/* True if all ranks are here, or have gone again. A process that comes now is one too many, and the ranks
 * hear nothing of it. */
static bool is_full(const struct tt_root_session *session)
{
    return session->phase == TT_PHASE_EXCHANGES || session->phase == TT_PHASE_LATE;
}

void tt_root_lose(struct tt_root_session *session, struct tt_connection *c, int number)
{
    if (c->stage < TT_STAGE_ADMITTED && number == EMFILE && !is_full(session)) {
        tt_root_decide(session, TUTTI_SYSTEM_ERROR,
            "the process that made the id cannot hold the descriptors of all ranks: its limit of open files "
            "(ulimit -n) is %llu, and it needs %d for each rank of its host and 1 for each other, besides "
            "what the program has open",
            tt_wire_open_files(), 1 + TT_BLOB_FDS);
        turn_away(session, c);
        return;
    }
    /* Between exchanges a rank may leave whenever nobody needs anything of it. */
    bool needed = c->stage >= TT_STAGE_ADMITTED;
    if (session->phase == TT_PHASE_EXCHANGES)
        needed = needed && (session->spread.on || (c->stage != TT_STAGE_WAITING && session->exchange.frame));
    session->left = session->left || c->stage >= TT_STAGE_ADMITTED;
    tt_connection_dismiss(c);
    if (!needed)
        return;
    tt_root_decide(session, TUTTI_PEER_LOST, "rank %d was lost before all %d ranks had %s%s",
        c->challenge.rank, session->n,
        session->phase == TT_PHASE_EXCHANGES ? "exchanged their addresses" : "met",
        number == ETIMEDOUT ? ": its host " TT_SILENT_HOST : "");
    if (session->phase == TT_PHASE_GATHERING)
        tt_root_give_up(session);
    else if (session->phase == TT_PHASE_EXCHANGES)
        tt_root_tell_all(session);
}

/* Sends a stranger bytes that its empty socket takes at once, or loses it. */
static bool say(struct tt_connection *c, const uint8_t *bytes, size_t size)
{
    bool said = tt_wire_send(c->socket, bytes, size, NULL, 0) == (ssize_t)size;
    if (!said)
        tt_connection_dismiss(c);
    return said;
}

/* Warns, once, of those that are turned away. */
static void warn(struct tt_root_session *session, const char *who)
{
    if (!session->warned)
        tt_log(TT_LOG_WARN, "%s was turned away; so will others like it be, without a word", who);
    session->warned = true;
}

/* A rank of an earlier version waits for a proof of ours, and gives up at once if it does not hold. */
static void turn_earlier_away(struct tt_root_session *session, struct tt_connection *c)
{
    static const uint8_t no_proof[TT_EARLIER_REPLY_BYTES];
    warn(session,
        "a process that speaks an earlier version of the bootstrap (use one version of Tutti on all "
        "ranks)");
    if (say(c, no_proof, sizeof no_proof))
        tt_connection_dismiss(c);
}

static void hear_greeting(struct tt_root_session *session, struct tt_connection *c)
{
    if (tt_greeting_is_earlier(c->in))
        turn_earlier_away(session, c);
    else if (!tt_greeting_read(c->in, &c->challenge) ||
             tt_random_bytes(c->challenge.root_nonce, TT_NONCE_BYTES) != TUTTI_OK)
        tt_connection_dismiss(c);
    else if (say(c, c->challenge.root_nonce, TT_NONCE_BYTES))
        tt_connection_enter(c, TT_STAGE_PROOF);
}

bool tt_root_drop_stranger(struct tt_root_session *session, bool remote)
{
    for (int i = 0; i < session->count; i++) {
        struct tt_connection *c = session->connections[i];
        if (c->socket < 0 || c->stage >= TT_STAGE_FRAME || c->remote != remote)
            continue;
        tt_connection_dismiss(c);
        return true;
    }
    return false;
}

/* Zeros in place of our proof: a rank with another secret need not come again. */
static void hear_proof(struct tt_root_session *session, struct tt_connection *c)
{
    uint8_t proof[TT_SHA256_BYTES] = { 0 };
    bool holds = tt_proof_holds(&session->id, TT_ROLE_RANK, &c->challenge, c->in);
    if (holds)
        tt_proof_make(&session->id, TT_ROLE_ROOT, &c->challenge, proof);
    else
        warn(session, "a process that does not know the id's secret");
    if (!say(c, proof, sizeof proof))
        return;
    if (holds)
        tt_connection_enter(c, TT_STAGE_FRAME);
    else
        tt_connection_dismiss(c);
}

static void hear_frame(struct tt_root_session *session, struct tt_connection *c)
{
    struct tt_frame frame;
    bool known = tt_frame_read(c->in, session->id.session, &frame) &&
                 (frame.kind == TT_FRAME_HELLO || frame.kind == TT_FRAME_REFUSAL);
    uint32_t length = (frame.kind == TT_FRAME_HELLO ? TT_HELLO_BYTES : TT_REFUSAL_BYTES) - TT_FRAME_BYTES;
    if (!known) {
        tt_connection_dismiss(c);
    } else if (is_full(session) && (frame.lowest > TT_WIRE_HIGHEST || frame.highest < TT_WIRE_LOWEST)) {
        tt_connection_dismiss(c);
    } else if (frame.lowest > TT_WIRE_HIGHEST || frame.highest < TT_WIRE_LOWEST) {
        tt_root_decide(session, TUTTI_MISMATCH,
            "rank %d speaks versions %u to %u of the bootstrap, the process that made the id %d to %d: use "
            "one version of Tutti on all ranks",
            c->challenge.rank, frame.lowest, frame.highest, TT_WIRE_LOWEST, TT_WIRE_HIGHEST);
        turn_away(session, c);
    } else if (frame.length != length) {
        tt_connection_dismiss(c);
    } else { /* and the bytes stay: they are its head */
        c->stage = frame.kind == TT_FRAME_HELLO ? TT_STAGE_HELLO : TT_STAGE_REFUSAL;
    }
}

tutti_status tt_exchange_begin(struct tt_exchange *exchange, int n, uint32_t before, uint32_t part)
{
    exchange->frame = malloc(TT_FRAME_BYTES + before + (size_t)n * part);
    exchange->before = before;
    exchange->part = part;
    return exchange->frame ? TUTTI_OK : TUTTI_OUT_OF_MEMORY;
}

uint8_t *tt_exchange_part(const struct tt_exchange *exchange, int rank)
{
    return exchange->frame + TT_FRAME_BYTES + exchange->before + (size_t)rank * exchange->part;
}

static bool allocate(struct tt_root_session *session, int n)
{
    tt_wire_need_files(n * (1 + TT_BLOB_FDS)); /* a connection, and what comes by it */
    session->members = calloc((size_t)n, sizeof *session->members);
    session->fds = malloc((size_t)n * TT_BLOB_FDS * sizeof *session->fds);
    if (tt_exchange_begin(&session->exchange, n, TT_BLOB_BYTES, TT_ENTRY_BYTES) != TUTTI_OK ||
        !session->members || !session->fds)
        return false;
    for (int i = 0; i < n * TT_BLOB_FDS; i++)
        session->fds[i] = -1;
    return true;
}

static void decide_order(struct tt_root_session *session, const struct tt_connection *c)
{
    char from[TT_NET_TEXT] = "this host";
    struct tt_net net;
    if (tt_net_peer(c->socket, &net))
        tt_net_print(&net, from);
    tt_root_decide(session, TUTTI_UNSUPPORTED,
        "rank %d, which came from %s, runs on a processor of another byte order than the process that made "
        "the "
        "id; all must have the same",
        c->challenge.rank, from);
}

/* True if this rank may become a member; if not, the verdict says why. */
static bool admit(
    struct tt_root_session *session, const struct tt_connection *c, const struct tt_hello *hello)
{
    int rank = c->challenge.rank, n = hello->n;
    if (n < 1 || n > TT_WIRE_RANKS)
        tt_root_decide(
            session, TUTTI_INVALID_ARGUMENT, "rank %d says n = %d; legal: 1 to %d", rank, n, TT_WIRE_RANKS);
    else if (session->n != 0 && n != session->n)
        tt_root_decide(session, TUTTI_INVALID_ARGUMENT, "rank %d says n = %d, rank %d said n = %d", rank, n,
            session->n_from, session->n);
    else if (rank < 0 || rank >= n)
        tt_root_decide(session, TUTTI_INVALID_ARGUMENT, "rank %d is outside 0..%d", rank, n - 1);
    else if (session->n != 0 && session->members[rank])
        tt_root_decide(session, TUTTI_INVALID_ARGUMENT, "rank %d came twice", rank);
    else if (!hello->order)
        decide_order(session, c);
    else if (__builtin_popcount(hello->fds) != c->nfds || hello->fds >> TT_BLOB_FDS != 0)
        tt_root_decide(session, TUTTI_MISMATCH, "rank %d announced descriptors that did not come", rank);
    else if (session->n == 0 && !allocate(session, n))
        tt_root_decide(session, TUTTI_OUT_OF_MEMORY, "no memory for a job of %d ranks", n);
    return session->verdict.status == TUTTI_OK;
}

/* Tells all members which rank is of the process that made the id. If that process ends, they can name it. */
static void introduce_maker(struct tt_root_session *session, const struct tt_connection *c)
{
    bool first = c->ours && session->maker < 0;
    if (first)
        session->maker = c->challenge.rank;
    for (int r = 0; first && r < session->n; r++)
        if (session->members[r] != NULL)
            tt_root_give_notice(session, session->members[r], "");
    if (!first && session->maker >= 0)
        tt_root_give_notice(session, c, "");
}

static void add_member(struct tt_root_session *session, struct tt_connection *c, const struct tt_hello *hello)
{
    int rank = c->challenge.rank, next = 0;
    if (session->n == 0) {
        session->n = hello->n;
        session->n_from = rank;
        session->deadline_ns = tt_deadline_ns(session->timeout_ms);
        session->limit_ms = session->timeout_ms;
        tt_root_begin_wait(session);
    }
    session->members[rank] = c;
    session->exchange.parts++;
    memcpy(c->host, hello->host, sizeof c->host);
    tt_put(tt_exchange_part(&session->exchange, rank), hello->fds, 4);
    if (rank == 0)
        memcpy(tt_exchange_part(&session->exchange, 0) - TT_BLOB_BYTES, hello->blob, TT_BLOB_BYTES);
    for (int i = 0; i < TT_BLOB_FDS; i++) {
        if (hello->fds >> i & 1)
            session->fds[rank * TT_BLOB_FDS + i] = c->fds[next++];
    }
    c->nfds = 0;
    int64_t deadline_ns = tt_deadline_ns(hello->timeout_ms);
    if (deadline_ns < session->deadline_ns) {
        session->deadline_ns = deadline_ns;
        session->limit_ms = hello->timeout_ms;
    }
    if (c->remote) {
        session->remotes++;
        tt_net_heartbeat(c->socket, hello->heartbeat_ms);
        c->door.port = tt_net_peer(c->socket, &c->door) ? hello->port : 0;
    }
    tt_connection_enter(c, TT_STAGE_ADMITTED);
    introduce_maker(session, c);
}

static void refuse_late(
    const struct tt_root_session *session, struct tt_connection *c, const struct tt_hello *hello)
{
    struct tt_verdict verdict = session->verdict;
    int rank = c->challenge.rank;
    if (verdict.status == TUTTI_OK) {
        verdict.status = TUTTI_INVALID_ARGUMENT;
        if (hello->n == session->n && rank >= 0 && rank < session->n)
            snprintf(verdict.text, sizeof verdict.text,
                "rank %d came twice: all %d ranks had come by then; an id serves once, and each process is a "
                "rank of "
                "its own",
                rank, session->n);
        else
            snprintf(verdict.text, sizeof verdict.text,
                "rank %d says n = %d, after all ranks of a job of n = %d had come", rank, hello->n,
                session->n);
    }
    tt_root_tell(session, c, &verdict);
}

/* True if it came by the network, and is on this host, where it was to find the local socket. It is told so,
 * and no other rank is: the right one may still come. */
static bool is_lost_here(
    const struct tt_root_session *session, struct tt_connection *c, const struct tt_hello *hello)
{
    uint8_t key[TT_HOST_KEY_BYTES];
    struct tt_verdict verdict = { .status = TUTTI_INVALID_ARGUMENT };
    if (!c->remote)
        return false;
    tt_host_key(key);
    if (memcmp(key, hello->host, sizeof key) != 0)
        return false;
    snprintf(verdict.text, sizeof verdict.text,
        "rank %d came by the network, and is on the host of the process that made the id, where it was to "
        "come "
        "by the local socket: the id is damaged, or $XDG_RUNTIME_DIR is another there",
        c->challenge.rank);
    tt_root_tell(session, c, &verdict);
    return true;
}

static void hear_hello(struct tt_root_session *session, struct tt_connection *c)
{
    struct tt_hello hello;
    tt_hello_read(c->in, &hello);
    if (is_full(session)) {
        refuse_late(session, c, &hello);
        return;
    }
    if (is_lost_here(session, c, &hello))
        return;
    if (session->phase == TT_PHASE_LINGERING || !admit(session, c, &hello)) {
        turn_away(session, c);
        return;
    }
    session->hellos++;
    add_member(session, c, &hello);
    if (session->exchange.parts == session->n)
        tt_root_hand_out(session);
}

/* Fails the session, since this rank can be no part of it. The rank waits until we close the connection: it
 * may end, and this thread with it, when the others know. */
static void hear_refusal(struct tt_root_session *session, struct tt_connection *c)
{
    struct tt_verdict refusal;
    int32_t n;
    tt_refusal_read(c->in, &refusal, &n);
    bool legal = refusal.status != TUTTI_OK && n >= 1 && n <= TT_WIRE_RANKS;
    if (legal && !is_full(session)) {
        tt_root_decide(
            session, refusal.status, "rank %d cannot take part: %s", c->challenge.rank, refusal.text);
        session->n = session->n != 0 ? session->n : n;
        session->hellos++;
        tt_root_give_up(session);
    }
    tt_connection_dismiss(c);
}

static void hear_interruption(struct tt_root_session *session, struct tt_connection *c)
{
    tt_root_lose(session, c, EPROTO);
}

static const struct {
    uint32_t needs; /* 0: as many as a part of this exchange has */
    void (*hear)(struct tt_root_session *session, struct tt_connection *c);
} stages[] = {
    [TT_STAGE_GREETING] = { TT_GREETING_BYTES, hear_greeting },
    [TT_STAGE_PROOF] = { TT_SHA256_BYTES, hear_proof },
    [TT_STAGE_FRAME] = { TT_FRAME_BYTES, hear_frame },
    [TT_STAGE_HELLO] = { TT_HELLO_BYTES, hear_hello },
    [TT_STAGE_REFUSAL] = { TT_REFUSAL_BYTES, hear_refusal },
    [TT_STAGE_ADMITTED] = { 1, hear_interruption },
    [TT_STAGE_MEMBERS] = { TT_VERDICT_BYTES, tt_root_hear_report }, /* a failure may be told early */
    [TT_STAGE_REPORT] = { TT_VERDICT_BYTES, tt_root_hear_report },
    [TT_STAGE_ANSWER] = { 1, hear_interruption },
    [TT_STAGE_FETCH] = { TT_TAKEN_BYTES, tt_root_hear_taken },
    [TT_STAGE_QUEUED] = { 1, hear_interruption },
    [TT_STAGE_HELD] = { 1, hear_interruption },
    [TT_STAGE_DONE] = { 1, hear_interruption },
    [TT_STAGE_READY] = { TT_FRAME_BYTES, tt_root_hear_exchange },
    [TT_STAGE_PART] = { 0, tt_root_hear_part },
    [TT_STAGE_WAITING] = { 1, hear_interruption },
    [TT_STAGE_LAST_WORDS] = { TT_REFUSAL_BYTES, tt_root_hear_last_words },
};

/* Drops strangers until this process can open the descriptors that come by a rank's hello: those for which
 * there is no room would be lost. It is done when the hello is about to be read, and not earlier: until then
 * a further stranger could take the room. */
static void make_room(struct tt_root_session *session, const struct tt_connection *c, int count)
{
    while (!tt_wire_has_files(c->socket, count))
        if (!tt_root_drop_stranger(session, true) && !tt_root_drop_stranger(session, false))
            return;
}

/* Read what this stage needs, and not a byte of the next. True once it is there. */
static bool fill(struct tt_root_session *session, struct tt_connection *c)
{
    size_t needs = stages[c->stage].needs > 0 ? stages[c->stage].needs : session->exchange.part;
    int room = c->stage == TT_STAGE_FRAME || c->stage == TT_STAGE_HELLO ? TT_BLOB_FDS : 0;
    if (room > c->nfds)
        make_room(session, c, room - c->nfds);
    while (c->have < needs) {
        ssize_t got = tt_wire_receive(c->socket, c->in + c->have, needs - c->have, c->fds, room, &c->nfds);
        if (got < 0 && errno == EAGAIN)
            return false;
        if (got <= 0) {
            tt_root_lose(session, c, got < 0 ? errno : 0);
            return false;
        }
        c->have += (size_t)got;
    }
    return true;
}

void tt_root_listen(struct tt_root_session *session, struct tt_connection *c)
{
    while (c->socket >= 0 && fill(session, c))
        stages[c->stage].hear(session, c);
}

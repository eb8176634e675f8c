/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_session.h: a session, that is the ranks that meet at one id, as the root sees it: the helper
 * thread of the process that made the id.
 *
 * Each process that connects is a connection; one that has proven the secret and said hello is a member, at
 * its rank. Five files share the session: bootstrap_root.c has the poll loop, the listening sockets and the
 * time; bootstrap_session.c decides who becomes a member; bootstrap_verdict.c tells them whom all wait for,
 * and how a session fails; bootstrap_exchange.c collects a part from each member and sends all parts to
 * all; bootstrap_spread.c has ranks pass them on. */
#ifndef TT_BOOTSTRAP_SESSION_H
#define TT_BOOTSTRAP_SESSION_H
#include "bootstrap/bootstrap_wire.h"

enum {
    TT_ROOT_STRANGERS = 64, /* connections at once that have not said hello, of each listener */
    TT_ROOT_STRANGER_MS = 5000, /* the time each of them has for that */
    TT_ROOT_HASTE_MS = 200, /* the time it has while others wait to be accepted */
    TT_ROOT_SPARE = 16, /* descriptors that strangers of the network leave to the program */
    TT_ROOT_LINGER_MS = TT_LISTENER_LINGER_MS, /* how long ranks that come late hear of a failure */
    TT_ROOT_LATE_MS = 1000, /* how long, once all ranks have gone, others are told that they are too many */
};

enum tt_stage {
    TT_STAGE_GREETING,
    TT_STAGE_PROOF,
    TT_STAGE_FRAME,
    TT_STAGE_HELLO,
    TT_STAGE_REFUSAL, /* it has something to say in place of a hello; up to here a stranger */
    TT_STAGE_ADMITTED, /* a member from here on; it waits for the others */
    TT_STAGE_MEMBERS, /* it is being sent all blobs and descriptors */
    TT_STAGE_ANSWER, /* it is being sent the result of an exchange */
    TT_STAGE_FETCH, /* it says when it has it, from here or from another rank (bootstrap_spread.c) */
    TT_STAGE_QUEUED, /* it waits until others have it, and is not late */
    TT_STAGE_HELD, /* it has it, and passes it on until all do */
    TT_STAGE_REPORT, /* it is to say whether it took them */
    TT_STAGE_DONE, /* it waits for the reports of the others */
    TT_STAGE_READY, /* it may begin an exchange */
    TT_STAGE_PART, /* its part of an exchange is on its way */
    TT_STAGE_WAITING, /* it waits for the parts of the others */
    TT_STAGE_LAST_WORDS, /* it has something to say in place of its part */
};

struct tt_connection {
    int socket; /* -1: closed */
    enum tt_stage stage;
    bool ours; /* its other end is a thread of this process */
    bool remote; /* it came by the network, which passes no descriptors */
    bool congested; /* too many descriptors are under way: it is sent nothing before the next turn */
    size_t have; /* bytes in `in` */
    size_t sent; /* bytes of session->result */
    int fds_passed; /* entries of session->fds */
    int nfds;
    int fds[TT_BLOB_FDS];
    uint8_t host[TT_HOST_KEY_BYTES]; /* of a member */
    struct tt_net door; /* where it passes on what it has; port 0: nowhere */
    int64_t since_ns; /* when it was accepted */
    struct tt_challenge challenge;
    uint8_t in[TT_HELLO_BYTES];
};

enum tt_phase {
    TT_PHASE_GATHERING,
    TT_PHASE_HANDING_OUT,
    TT_PHASE_EXCHANGES,
    TT_PHASE_LATE, /* all ranks have what they came for, or know why not */
    TT_PHASE_LINGERING, /* not all have come, and the session has failed */
    TT_PHASE_OVER
};

/* An exchange: one part of each rank, in the frame in which all ranks get all parts. */
struct tt_exchange {
    uint8_t *frame;
    uint32_t before; /* bytes before the parts: rank 0's blob, when ranks meet */
    uint32_t part; /* bytes of one rank */
    int parts; /* that have come */
};

/* How the result goes from rank to rank. */
struct tt_spread {
    bool on;
    int next; /* the first rank that may still be in the queue */
    int expected, held; /* of how many members, how many have it */
    int64_t look_ns; /* when the root sends it to a few more, if nobody has got it meanwhile */
    struct tt_source source; /* its token and digest */
};

struct tt_root_session {
    struct tt_id id;
    struct tt_listener *door; /* the local one, of this machine */
    enum tt_phase phase;
    int64_t timeout_ms;
    int64_t deadline_ns, limit_ms; /* the earliest of all ranks, and the timeout that it comes from */
    int64_t began_ns, notice_ns; /* when the present wait began, and when all hear who is late */
    int maker; /* a rank of this process; -1: none has come */
    int n, n_from; /* n is 0 until the first rank came, which was n_from */
    int hellos, remotes; /* how many came; of the members, how many by the network */
    struct tt_connection **members; /* n, by rank; each is among the connections to the end */
    int *fds; /* n * TT_BLOB_FDS */
    struct tt_exchange exchange, result; /* the one that is being collected; the one that is being sent */
    struct tt_spread spread;
    struct tt_connection **connections;
    int count;
    struct tt_verdict verdict; /* the first cause of failure */
    bool warned, left; /* left: some member has gone */
    char loopback[TT_NET_TEXT]; /* where it listens to the network, if no other host reaches that; else "" */
};

/* The poll loop calls these. */

/* Reads what has come by this connection, and acts on it. */
void tt_root_listen(struct tt_root_session *session, struct tt_connection *c);
bool tt_root_may_send(const struct tt_root_session *session, const struct tt_connection *c);
/* Sends of the result as much as the socket takes. */
void tt_root_send(struct tt_root_session *session, struct tt_connection *c);
/* Ends the phase if all that it waits for has come. The loop calls this after each turn. */
void tt_root_conclude(struct tt_root_session *session);
/* Fails the session, whose deadline has passed. */
void tt_root_expire(struct tt_root_session *session);
/* Tells all who wait which ranks are late, if it is time for that; returns when it will be time again. */
int64_t tt_root_notify(struct tt_root_session *session);
/* Fails the session for the reason that errno `number` gives. */
void tt_root_fail(struct tt_root_session *session, const char *what, int number);
/* Closes the connection and the descriptors that came by it. */
void tt_connection_dismiss(struct tt_connection *c);
/* Closes the oldest connection, of the network or of this machine, that has not proven the secret; false:
 * there is none. A rank whose connection was closed so connects again. */
bool tt_root_drop_stranger(struct tt_root_session *session, bool remote);
void tt_root_close_fds(struct tt_root_session *session);

/* Between bootstrap_session.c, bootstrap_verdict.c and bootstrap_exchange.c. */

/* Sets the verdict, unless an earlier cause has set it. */
void tt_root_decide(struct tt_root_session *session, tutti_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Tells the verdict so far to all members that it can be told; returns how many these were. */
int tt_root_tell_all(struct tt_root_session *session);
/* Sends a verdict. A failure closes the connection; after success the member may begin an exchange. */
void tt_root_tell(
    const struct tt_root_session *session, struct tt_connection *c, const struct tt_verdict *verdict);
/* Fails the session by its verdict. It stays for a while, for ranks that are still on their way are told
 * the same. */
void tt_root_give_up(struct tt_root_session *session);
void tt_root_give_notice(
    const struct tt_root_session *session, const struct tt_connection *c, const char *text);
/* Closes a connection that ended (0 or errno `number`), or that said what makes no sense (EPROTO). */
void tt_root_lose(struct tt_root_session *session, struct tt_connection *c, int number);
void tt_connection_enter(struct tt_connection *c, enum tt_stage stage);
/* Starts the clock of what all members wait for from now on. */
void tt_root_begin_wait(struct tt_root_session *session);
tutti_status tt_exchange_begin(struct tt_exchange *exchange, int n, uint32_t before, uint32_t part);
uint8_t *tt_exchange_part(const struct tt_exchange *exchange, int rank);
/* Begins to send all members the blobs and descriptors of all; the last member has come. */
void tt_root_hand_out(struct tt_root_session *session);
/* Enters the stage in which the result is sent, for all members; or, where there are many hosts, has the
 * ranks pass it on. */
void tt_root_spread(struct tt_root_session *session, enum tt_stage stage);
/* True if this member says when it has what it was sent. */
static inline bool tt_root_says_taken(const struct tt_root_session *session, const struct tt_connection *c)
{
    return session->spread.on && (c->remote || session->phase == TT_PHASE_EXCHANGES);
}
void tt_root_hear_taken(struct tt_root_session *session, struct tt_connection *c);
/* Goes on if all have it, or if nobody has got it for a while; the session calls this after each turn. */
void tt_root_conclude_spread(struct tt_root_session *session);
void tt_root_hear_report(struct tt_root_session *session, struct tt_connection *c);
void tt_root_hear_exchange(struct tt_root_session *session, struct tt_connection *c);
void tt_root_hear_part(struct tt_root_session *session, struct tt_connection *c);
void tt_root_hear_last_words(struct tt_root_session *session, struct tt_connection *c);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_relay.c: a rank of another host gets what all get from the root, or from a rank that has it, and
 * then passes it on to others, until the root says that all have it (bootstrap_spread.c).
 *
 * Who comes to the door says the token that the root gave to all; who comes with another, or is silent, gets
 * nothing. Who fetches believes what has the digest that the root told. A rank that cannot get it so asks the
 * root. */
#include "bootstrap/bootstrap_reach.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clofork.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

enum {
    PATIENCE_MS = 2000, /* for the next bytes of another rank */
    GUESTS = 16, /* at once; without the token, each may have to make room for a newer one */
};

/* A rank, or a stranger, that has come to the door. */
struct guest {
    int socket; /* -1: none */
    size_t heard, sent; /* bytes of the token, and of what it gets */
    uint8_t token[TT_PASS_BYTES];
};

void tt_session_open_door(struct tt_session *s)
{
    struct tt_net net;
    if (!s->remote || s->door >= 0 || s->n - 1 <= tt_wire_few || !tt_net_own(s->socket, &net))
        return;
    net.port = 0;
    tt_clofork_lock();
    s->door = tt_net_listen(&net);
    tt_clofork_add(s->door);
    tt_clofork_unlock();
    s->port = s->door >= 0 ? net.port : 0;
}

static void dismiss(struct guest *g)
{
    if (g->socket >= 0)
        tt_clofork_close(g->socket);
    *g = (struct guest){ .socket = -1 };
}

/* Returns a free place, or that of a guest who has not said the token; of these, each newcomer takes the
 * next. NULL: there is none. */
static struct guest *find_place(struct guest *guests, int *turn)
{
    for (int i = 0; i < GUESTS; i++)
        if (guests[i].socket < 0)
            return &guests[i];
    for (int i = 0; i < GUESTS; i++) {
        struct guest *g = &guests[(*turn)++ % GUESTS];
        if (g->heard < TT_PASS_BYTES)
            return g;
    }
    return NULL;
}

/* Lets in who is at the door. If that cannot be, the door is closed: ranks then ask the root. */
static void let_in(struct tt_session *s, struct guest *guests, int *turn)
{
    tt_clofork_lock();
    int socket = accept4(s->door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int number = errno;
    tt_clofork_add(socket);
    tt_clofork_unlock();
    struct guest *g = socket >= 0 ? find_place(guests, turn) : NULL;
    if (g != NULL) {
        dismiss(g);
        g->socket = socket;
    } else if (socket >= 0) {
        tt_clofork_close(socket);
    } else if (number != EAGAIN && number != EINTR && number != ECONNABORTED) {
        tt_clofork_close(s->door);
        s->door = -1;
    }
}

/* Hears more of the guest's token, or sends it more of these bytes. */
static void serve(struct guest *g, const struct tt_source *source, const uint8_t *body, uint64_t length)
{
    bool known = g->heard == TT_PASS_BYTES;
    ssize_t moved =
        known ? tt_wire_send(g->socket, body + g->sent, length - g->sent, NULL, 0)
              : tt_wire_receive(g->socket, g->token + g->heard, TT_PASS_BYTES - g->heard, NULL, 0, NULL);
    if (moved > 0)
        *(known ? &g->sent : &g->heard) += (size_t)moved;
    bool ended = known ? g->sent == length : moved == 0;
    bool stranger = !known && g->heard == TT_PASS_BYTES && !tt_hmac_equal(g->token, source->token);
    if (ended || stranger || (moved < 0 && errno != EAGAIN))
        dismiss(g);
}

/* Passes these bytes on to whoever comes, until the root says that all have them. */
static tutti_status pass_on(struct tt_session *s, const struct tt_source *source, const uint8_t *body,
    uint64_t length, const char *when)
{
    struct guest guests[GUESTS];
    struct pollfd polls[2 + GUESTS];
    struct tt_frame frame = { .kind = TT_FRAME_NOTICE };
    tutti_status status = TUTTI_OK;
    int turn = 0;
    for (int i = 0; i < GUESTS; i++)
        guests[i] = (struct guest){ .socket = -1 };
    while (status == TUTTI_OK && frame.kind == TT_FRAME_NOTICE) {
        polls[0] = (struct pollfd){ s->socket, POLLIN, 0 };
        polls[1] = (struct pollfd){ s->door, POLLIN, 0 };
        for (int i = 0; i < GUESTS; i++)
            polls[2 + i] =
                (struct pollfd){ guests[i].socket, guests[i].heard < TT_PASS_BYTES ? POLLIN : POLLOUT, 0 };
        if (tt_session_poll(s, polls, 2 + GUESTS, INT64_MAX) < 0) {
            status = tt_session_broken(s, when);
            break;
        }
        for (int i = 0; i < GUESTS; i++)
            if (polls[2 + i].revents != 0)
                serve(&guests[i], source, body, length);
        if (polls[1].revents != 0)
            let_in(s, guests, &turn);
        if (polls[0].revents != 0)
            status = tt_session_hear(s, &frame, when);
    }
    for (int i = 0; i < GUESTS; i++)
        dismiss(&guests[i]);
    if (status != TUTTI_OK || frame.kind == TT_FRAME_VERDICT)
        return status;
    errno = EPROTO;
    return tt_session_broken(s, when);
}

/* True if these bytes are what the root has told. */
static bool is_right(const struct tt_source *source, const uint8_t *body, uint64_t length)
{
    struct tt_sha256 hash;
    uint8_t digest[TT_SHA256_BYTES];
    tt_sha256_begin(&hash);
    tt_sha256_add(&hash, body, length);
    tt_sha256_end(&hash, digest);
    return memcmp(digest, source->digest, sizeof digest) == 0;
}

/* Says the token to the other rank, and hears these bytes from it; *taken is whether all came. It fails if
 * the root has a failure to tell meanwhile, and else not. */
static tutti_status fetch(struct tt_session *s, const struct tt_source *source, uint8_t *body,
    uint64_t length, bool *taken, const char *when)
{
    size_t told = 0, got = 0;
    tutti_status status = TUTTI_OK;
    tt_clofork_lock();
    int from = tt_net_dial(&source->net);
    tt_clofork_add(from);
    tt_clofork_unlock();
    bool broken = from < 0;
    int64_t until_ns = tt_deadline_ns(PATIENCE_MS);
    while (status == TUTTI_OK && !broken && got < length) {
        struct pollfd polls[2] = { { s->socket, POLLIN, 0 },
            { from, told < TT_PASS_BYTES ? POLLOUT : POLLIN, 0 } };
        struct tt_frame frame;
        int ready = tt_session_poll(s, polls, 2, until_ns);
        if (ready < 0)
            status = tt_session_broken(s, when);
        broken = ready == 0;
        if (ready > 0 && polls[1].revents != 0) {
            bool tells = told < TT_PASS_BYTES;
            ssize_t moved = tells ? tt_wire_send(from, source->token + told, TT_PASS_BYTES - told, NULL, 0)
                                  : tt_wire_receive(from, body + got, length - got, NULL, 0, NULL);
            broken = moved == 0 || (moved < 0 && errno != EAGAIN);
            *(tells ? &told : &got) += moved > 0 ? (size_t)moved : 0;
            until_ns = moved > 0 ? tt_deadline_ns(PATIENCE_MS) : until_ns;
        }
        if (ready > 0 && polls[0].revents != 0) /* a notice, or why the job has failed */
            status = tt_session_hear(s, &frame, when);
    }
    if (from >= 0)
        tt_clofork_close(from);
    *taken = status == TUTTI_OK && !broken && is_right(source, body, length);
    return status;
}

/* Tells the root whether this rank has it. If the job has failed, its verdict is there to be read. */
static tutti_status tell(struct tt_session *s, bool taken, const char *when)
{
    uint8_t bytes[TT_TAKEN_BYTES];
    tt_taken_write(taken, s->number, bytes);
    if (tt_session_send(s, bytes, sizeof bytes, NULL, 0) || errno == EPIPE || errno == ECONNRESET)
        return TUTTI_OK;
    return tt_session_broken(s, when);
}

tutti_status tt_session_take(
    struct tt_session *s, enum tt_frame_kind kind, uint64_t length, void *body, const char *when)
{
    uint8_t bytes[TT_SOURCE_BYTES];
    struct tt_source source = { .rank = -1 };
    struct tt_frame frame;
    bool taken = false;
    tutti_status status = tt_session_hear_next(s, &frame, when);
    if (status != TUTTI_OK || frame.kind != TT_FRAME_SOURCE)
        return status != TUTTI_OK ? status : tt_session_hear_body(s, &frame, kind, length, body, when);
    status = tt_session_hear_body(
        s, &frame, TT_FRAME_SOURCE, TT_SOURCE_BYTES - TT_FRAME_BYTES, bytes + TT_FRAME_BYTES, when);
    if (status == TUTTI_OK)
        tt_source_read(bytes, &source);
    if (source.rank >= 0) {
        status = fetch(s, &source, body, length, &taken, when);
        if (status == TUTTI_OK && !taken) {
            tt_log(TT_LOG_INFO, "rank %d cannot get from rank %d what all get; it asks rank 0", s->rank,
                (int)source.rank);
            status = tell(s, false, when);
        }
    }
    if (status == TUTTI_OK && !taken)
        status = tt_session_hear_next(s, &frame, when);
    if (status == TUTTI_OK && !taken)
        status = tt_session_hear_body(s, &frame, kind, length, body, when);
    if (status == TUTTI_OK)
        status = tell(s, true, when);
    return status == TUTTI_OK ? pass_on(s, &source, body, length, when) : status;
}

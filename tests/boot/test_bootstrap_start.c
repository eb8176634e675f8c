/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_start.c: what the root of ten thousand ranks says and hears until all have a communicator.
 *
 * The root's session is the library's, and so is all that ranks say. Between them are no sockets: what the
 * root sends is looked at and counted, and not carried, for it would be gigabytes. Sockets of these ranks are
 * numbers that no descriptor has; all other sockets of this program are as ever. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap_session.h"
#include "start_sizes.h"

enum { RANKS_MAX = 10000, FIRST_SOCKET = 1 << 28, PER_HOST = 8 };

enum said { /* the last that a rank said */
    NOTHING,
    GREETING,
    PROOF,
    HELLO,
    TAKEN_MEMBERS, /* if it is told where it gets them */
    REPORT,
    INTRODUCED, /* the exchange of nothing, when it knows the processes of its host */
    ADDRESS, /* the exchange of addresses */
    TAKEN_ADDRESSES, /* the same */
    CONSENT, /* the exchange of nothing, after which all go on */
};

static struct rank {
    struct tt_challenge challenge;
    enum said said;
    bool answered; /* the root has said what the next words wait for */
    bool directed; /* it was told where it gets what all get */
    bool has; /* it has it, and passes it on */
    int passed; /* how often */
} ranks[RANKS_MAX];

static struct {
    struct tt_id id;
    int n, talking; /* the rank whose words are below */
    uint8_t words[TT_HELLO_BYTES];
    size_t length, at; /* of the words, and how much of them was heard */
    uint64_t sent_messages, sent_bytes, tables, heard_messages, heard_bytes, wrong;
    int most_passed;
} world;

ssize_t __real_tt_wire_send(int socket, const void *bytes, size_t size, const int *fds, int nfds);
ssize_t __wrap_tt_wire_send(int socket, const void *bytes, size_t size, const int *fds, int nfds);
ssize_t __real_tt_wire_receive(int socket, void *bytes, size_t size, int *fds, int room, int *nfds);
ssize_t __wrap_tt_wire_receive(int socket, void *bytes, size_t size, int *fds, int room, int *nfds);

/* The part of a rank is full of its number. */
static void check_parts(const uint8_t *frame, uint32_t part)
{
    for (int r = 0; r < world.n; r += world.n / 7 + 1)
        world.wrong += frame[TT_FRAME_BYTES + (size_t)r * part + part - 1] != (uint8_t)r;
}

static void check_verdict(const struct tt_frame *frame, const uint8_t *bytes)
{
    struct tt_verdict verdict;
    tt_verdict_read(bytes, &verdict);
    world.wrong += frame->kind != TT_FRAME_VERDICT || verdict.status != TUTTI_OK;
}

/* The rank gets it from one that has it, at its door. */
static void hear_source(struct rank *me, const uint8_t *bytes)
{
    struct tt_source source;
    tt_source_read(bytes, &source);
    me->directed = true;
    me->answered = source.rank >= 0;
    if (source.rank < 0)
        return;
    struct rank *from = &ranks[source.rank];
    world.wrong += source.rank >= world.n || !from->has || source.net.port != 1000 + source.rank % 1000;
    from->passed++;
    world.most_passed = from->passed > world.most_passed ? from->passed : world.most_passed;
}

static void hear_frame(struct rank *me, const uint8_t *bytes, size_t size)
{
    struct tt_frame frame = { 0 };
    uint64_t n = (uint64_t)world.n;
    bool legal = tt_frame_read(bytes, world.id.session, &frame) && frame.length == size - TT_FRAME_BYTES;
    world.wrong += !legal;
    if (frame.kind == TT_FRAME_NOTICE)
        return;
    me->answered = true;
    if (frame.kind == TT_FRAME_SOURCE) {
        hear_source(me, bytes);
    } else if (me->said == HELLO) {
        world.tables++;
        world.wrong += frame.kind != TT_FRAME_MEMBERS || frame.length != TT_BLOB_BYTES + n * TT_ENTRY_BYTES;
    } else if (me->said != ADDRESS) {
        check_verdict(&frame, bytes);
    } else {
        world.tables++;
        world.wrong += frame.kind != TT_FRAME_EXCHANGE || frame.length != n * start_address_bytes;
        check_parts(bytes, start_address_bytes);
    }
}

ssize_t __wrap_tt_wire_send(int socket, const void *bytes, size_t size, const int *fds, int nfds)
{
    if (socket < FIRST_SOCKET)
        return __real_tt_wire_send(socket, bytes, size, fds, nfds);
    struct rank *me = &ranks[socket - FIRST_SOCKET];
    world.sent_messages++;
    world.sent_bytes += size;
    if (me->said == GREETING) {
        memcpy(me->challenge.root_nonce, bytes, TT_NONCE_BYTES);
        me->answered = size == TT_NONCE_BYTES;
    } else if (me->said == PROOF) {
        me->answered = tt_proof_holds(&world.id, TT_ROLE_ROOT, &me->challenge, bytes);
    } else {
        hear_frame(me, bytes, size);
    }
    return (ssize_t)size;
}

static void say_part(int rank, uint32_t part)
{
    struct tt_frame frame = { TT_WIRE_HIGHEST, TT_WIRE_HIGHEST, TT_FRAME_EXCHANGE, part, world.id.session };
    tt_frame_write(&frame, world.words);
    memset(world.words + TT_FRAME_BYTES, rank, part);
    world.length = TT_FRAME_BYTES + part;
}

static void say_hello(int rank)
{
    uint8_t host[TT_HOST_KEY_BYTES] = { 0 }, blob[TT_BLOB_BYTES] = { 0 };
    struct tt_hello hello = { .n = world.n, .timeout_ms = 60000, .host = host, .blob = blob };
    tt_put(host, (uint64_t)rank / PER_HOST + 1, 8);
    hello.port = (uint16_t)(1000 + rank % 1000);
    tt_hello_write(&hello, world.id.session, world.words);
    world.length = TT_HELLO_BYTES;
}

/* What the rank says next, if it has heard what that waits for. */
static bool say_more(int rank)
{
    struct rank *me = &ranks[rank];
    struct tt_verdict good = { .status = TUTTI_OK };
    if ((me->said != NOTHING && !me->answered) || me->said == CONSENT)
        return false;
    world.talking = rank;
    world.at = 0;
    me->answered = false;
    me->said++;
    if ((me->said == TAKEN_MEMBERS || me->said == TAKEN_ADDRESSES) && !me->directed)
        me->said++;
    me->has = me->said == TAKEN_MEMBERS || me->said == TAKEN_ADDRESSES;
    me->passed = me->has ? 0 : me->passed;
    switch (me->said) {
    case GREETING:
        me->challenge.rank = rank;
        tt_greeting_write(&me->challenge, world.words);
        world.length = TT_GREETING_BYTES;
        break;
    case PROOF:
        tt_proof_make(&world.id, TT_ROLE_RANK, &me->challenge, world.words);
        world.length = TT_SHA256_BYTES;
        break;
    case HELLO:
        say_hello(rank);
        break;
    case TAKEN_MEMBERS:
    case TAKEN_ADDRESSES:
        tt_taken_write(true, world.id.session, world.words);
        world.length = TT_TAKEN_BYTES;
        break;
    case REPORT:
        tt_verdict_write(&good, world.id.session, world.words);
        world.length = TT_VERDICT_BYTES;
        break;
    case ADDRESS:
        say_part(rank, start_address_bytes);
        break;
    default:
        say_part(rank, 0);
        break;
    }
    world.heard_messages++;
    world.heard_bytes += world.length;
    return true;
}

ssize_t __wrap_tt_wire_receive(int socket, void *bytes, size_t size, int *fds, int room, int *nfds)
{
    if (socket < FIRST_SOCKET)
        return __real_tt_wire_receive(socket, bytes, size, fds, room, nfds);
    int rank = socket - FIRST_SOCKET;
    if (world.at == world.length && !say_more(rank)) {
        errno = EAGAIN;
        return -1;
    }
    size_t left = world.length - world.at, got = size < left ? size : left;
    world.wrong += world.talking != rank;
    memcpy(bytes, world.words + world.at, got);
    world.at += got;
    return (ssize_t)got;
}

/* The door of a rank is at its number. */
bool __real_tt_net_peer(int socket, struct tt_net *net);
bool __wrap_tt_net_peer(int socket, struct tt_net *net);
bool __wrap_tt_net_peer(int socket, struct tt_net *net)
{
    *net = (struct tt_net){ .family = TT_FAMILY_IPV4 };
    return socket >= FIRST_SOCKET || __real_tt_net_peer(socket, net);
}

static void add_rank(struct tt_root_session *session, int rank)
{
    struct tt_connection *c = calloc(1, sizeof *c);
    cr_assert_not_null(c);
    c->socket = FIRST_SOCKET + rank;
    c->ours = rank == 0;
    c->remote = rank >= PER_HOST;
    session->connections[session->count++] = c;
    tt_root_listen(session, c);
}

/* The turns of the root's loop, but for poll. */
static int turn_until_all_are_ready(struct tt_root_session *session)
{
    int turns = 0, ready = 0;
    for (; ready < world.n && turns < 100; turns++) {
        ready = 0;
        for (int i = 0; i < session->count; i++) {
            struct tt_connection *c = session->connections[i];
            if (tt_root_may_send(session, c))
                tt_root_send(session, c);
            tt_root_listen(session, c);
            ready += ranks[i].said == CONSENT && ranks[i].answered;
        }
        tt_root_conclude(session);
    }
    return turns;
}

static void start(int n)
{
    struct tt_listener door = { .socket = -1 };
    struct tt_root_session session = { .door = &door, .maker = -1, .timeout_ms = 60000, .limit_ms = 60000 };
    memset(ranks, 0, sizeof ranks);
    memset(&world, 0, sizeof world);
    world.n = n;
    world.id.session = 42;
    memset(world.id.secret, 7, sizeof world.id.secret);
    session.id = world.id;
    session.connections = calloc((size_t)n, sizeof(struct tt_connection *));
    cr_assert_not_null(session.connections);
    for (int r = 0; r < n; r++)
        add_rank(&session, r);
    cr_expect_lt(turn_until_all_are_ready(&session), 100);
    cr_expect_eq(session.verdict.status, TUTTI_OK, "%s", session.verdict.text);
    cr_expect_eq(world.wrong, 0, "%llu", (unsigned long long)world.wrong);
    for (int r = 0; r < n; r++)
        free(session.connections[r]);
    free(session.connections);
    free(session.members);
    free(session.fds);
    free(session.exchange.frame);
    free(session.result.frame);
}

/* Few ranks of other hosts, and no more, get what all get from the root. */
Test(bootstrap_start, the_root_of_ten_thousand_ranks)
{
    static const int sizes[] = { 1, 2, PER_HOST + 8, 100, 1024, RANKS_MAX };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t n = (uint64_t)sizes[i], here = n < PER_HOST ? n : PER_HOST, hosts = n > here + 8;
        start(sizes[i]);
        uint64_t tables = 2 * (hosts ? here + 8 : n), taken = hosts ? 2 * (n - here) + here : 0;
        uint64_t table_bytes = TT_BLOB_BYTES + n * (TT_ENTRY_BYTES + start_address_bytes);
        printf("%llu ranks: the root sends %llu messages, %.4g MB; it hears %llu messages, %.4g MB\n",
            (unsigned long long)n, (unsigned long long)world.sent_messages, 1e-6 * (double)world.sent_bytes,
            (unsigned long long)world.heard_messages, 1e-6 * (double)world.heard_bytes);
        cr_expect_eq(world.tables, tables, "%llu", (unsigned long long)world.tables);
        cr_expect_leq(world.most_passed, tt_wire_few);
        /* nonce, proof, who made the id, members, verdict, and three exchanges; and of those who say that
         * they have it, where from, and that all do */
        cr_expect_leq(world.sent_messages, 8 * n + 2 * taken);
        cr_expect_leq(world.sent_bytes, tables / 2 * table_bytes +
                                            n * (TT_NONCE_BYTES + TT_SHA256_BYTES + TT_NOTICE_BYTES +
                                                    2 * TT_FRAME_BYTES + 3 * TT_VERDICT_BYTES) +
                                            taken * (TT_SOURCE_BYTES + TT_VERDICT_BYTES));
        cr_expect_eq(world.heard_messages, 7 * n + taken);
        cr_expect_eq(world.heard_bytes, n * (TT_GREETING_BYTES + TT_SHA256_BYTES + TT_HELLO_BYTES +
                                                TT_VERDICT_BYTES + 3 * TT_FRAME_BYTES + start_address_bytes) +
                                            taken * TT_TAKEN_BYTES);
    }
}

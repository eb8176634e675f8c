/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap.c: making an id, and the side of a rank that comes to meet the others at it.
 *
 * A rank has one thing to do at a time, so its side is a straight line in which each step has the deadline.
 * The root knows more than a rank does (who is missing, who failed), so a rank that waits for it waits a
 * little longer than its own timeout, and what the root says is the error. */
#include "bootstrap/bootstrap.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clofork.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/wait.h"
#include "bootstrap/bootstrap_directory.h"
#include "bootstrap/bootstrap_host.h"
#include "bootstrap/bootstrap_root.h"
#include "bootstrap/bootstrap_reach.h"
#include "bootstrap/bootstrap_wire.h"
#include "bootstrap/init_progress.h"

enum { PAUSE_MS = 64, DROPS = 2 }; /* between two attempts to enter; so many after the proof are no chance */

tutti_status tt_id_make(enum tt_directory directory, struct tt_id *id)
{
    *id = (struct tt_id){ .directory = directory };
    tutti_status status = tt_random_bytes(&id->session, sizeof id->session);
    if (status == TUTTI_OK)
        status = tt_random_bytes(id->secret, sizeof id->secret);
    if (status == TUTTI_OK)
        status = tt_random_bytes(id->token, sizeof id->token);
    return status;
}

static tutti_status create(
    tutti_id *id, enum tt_directory directory, const struct tt_net *net, int64_t timeout_ms)
{
    struct tt_id made;
    tutti_status status = tt_id_make(directory, &made);
    if (status != TUTTI_OK)
        return status;
    if (net != NULL)
        made.nets[made.count++] = *net;
    status = tt_root_start(&made, NULL, timeout_ms);
    if (status == TUTTI_OK)
        tt_id_write(&made, id);
    explicit_bzero(made.secret, sizeof made.secret);
    return status;
}

tutti_status tt_bootstrap_create(tutti_id *id, int64_t timeout_ms)
{
    enum tt_directory directory;
    tutti_status status = tt_directory_choose(&directory);
    return status == TUTTI_OK ? create(id, directory, NULL, timeout_ms) : status;
}

tutti_status tt_bootstrap_create_for_hosts(tutti_id *id, int64_t timeout_ms)
{
    enum tt_directory directory;
    struct tt_net net;
    bool found;
    tutti_status status = tt_interface_find(&net, &found);
    if (status == TUTTI_OK)
        status = tt_directory_choose(&directory);
    return status == TUTTI_OK ? create(id, directory, found ? &net : NULL, timeout_ms) : status;
}

/* Proves to the root that this rank knows the secret, and has it prove the same. */
static tutti_status prove(struct tt_session *s, const struct tt_id *id)
{
    static const uint8_t zeros[TT_SHA256_BYTES];
    struct tt_challenge challenge = { .rank = s->rank };
    uint8_t greeting[TT_GREETING_BYTES], proof[TT_SHA256_BYTES];
    tutti_status status = tt_random_bytes(challenge.rank_nonce, TT_NONCE_BYTES);
    if (status != TUTTI_OK)
        return status;
    tt_init_progress_wait("the process that made the id does not answer");
    tt_greeting_write(&challenge, greeting);
    if (!tt_session_send(s, greeting, sizeof greeting, NULL, 0) ||
        !tt_session_receive(s, challenge.root_nonce, TT_NONCE_BYTES))
        return tt_session_broken(s, "before it answered");
    tt_proof_make(id, TT_ROLE_RANK, &challenge, proof);
    if (!tt_session_send(s, proof, sizeof proof, NULL, 0) || !tt_session_receive(s, proof, sizeof proof))
        return tt_session_broken(s, "before it proved to know the id's secret");
    if (memcmp(proof, zeros, sizeof proof) == 0)
        return tt_fail(TUTTI_PEER_LOST,
            "rank %d does not know the secret of who answers at this id: the id is damaged, or %s", s->rank,
            id->agreed ? "TUTTI_ROOT, the secret file or the number of communicators before this one differs "
                         "between the ranks"
                       : "it is not the process that made it");
    if (!tt_proof_holds(id, TT_ROLE_ROOT, &challenge, proof))
        return tt_fail(TUTTI_PEER_LOST, "who answers at this id does not know its secret: the id is damaged, "
                                        "or it is not the process that made it");
    return TUTTI_OK;
}

static tutti_status say_hello(struct tt_session *s, const struct tt_newcomer *mine)
{
    uint8_t bytes[TT_HELLO_BYTES], host[TT_HOST_KEY_BYTES] = { 0 };
    struct tt_hello hello = { s->n, s->timeout_ms, 0, host, mine->blob, true, s->heartbeat_ms, 0 };
    int fds[TT_BLOB_FDS], nfds = 0;
    if (s->remote) /* else it is known, and no descriptor can be spared to look */
        tt_host_key(host);
    for (int i = 0; i < TT_BLOB_FDS; i++) {
        if (mine->fds[i] < 0 || s->remote)
            continue;
        hello.fds |= 1u << i;
        fds[nfds++] = mine->fds[i];
    }
    tt_session_open_door(s);
    hello.port = s->port;
    tt_hello_write(&hello, s->number, bytes);
    /* Whoever is turned away in the midst of its hello is also told why. */
    if (tt_session_send(s, bytes, sizeof bytes, fds, nfds) || errno == EPIPE || errno == ECONNRESET)
        return TUTTI_OK;
    return tt_session_broken(s, "when it was told the rank's addresses");
}

/* Receives the descriptors of the others, in rank order, some with each byte. Even if not all came, those
 * that did are in fds. */
static tutti_status receive_fds(struct tt_session *s, int *fds, int expected, int *nfds)
{
    while (*nfds < expected) {
        int before = *nfds;
        uint8_t byte;
        ssize_t got = tt_wire_receive(s->socket, &byte, 1, fds, expected, nfds);
        if (got < 0 && errno == EAGAIN && tt_session_wait(s, POLLIN))
            continue;
        if (got < 0 && errno == EMFILE)
            return tt_fail(TUTTI_SYSTEM_ERROR,
                "rank %d cannot hold the %d descriptors of the others: its limit of open files (ulimit -n) "
                "is %llu",
                s->rank, expected, tt_wire_open_files());
        if (got > 0 && *nfds == before)
            errno = EPROTO;
        else if (got == 0)
            errno = 0;
        if (got <= 0 || *nfds == before)
            return tt_session_broken(s, "in the midst of the others' descriptors");
    }
    return TUTTI_OK;
}

/* Copies the host of each member, and numbers its descriptors, which are still to
 * come; returns how many these are, -1 if the entries make no sense. */
static int read_entries(const struct tt_session *s, const uint8_t *entries, struct tt_member *members)
{
    int expected = 0;
    for (int r = 0; r < s->n; r++) {
        const uint8_t *entry = entries + TT_BLOB_BYTES + (size_t)r * TT_ENTRY_BYTES;
        uint32_t given = (uint32_t)tt_get(entry, 4);
        members[r].host = (int32_t)tt_get(entry + 4, 4);
        if (given >> TT_BLOB_FDS != 0 || members[r].host < 0 || members[r].host >= s->n)
            return -1;
        for (int i = 0; i < TT_BLOB_FDS; i++) {
            bool comes = r != s->rank && !s->remote && (given >> i & 1);
            members[r].fds[i] = comes ? expected++ : -1; /* until they come, their numbers among them */
        }
    }
    return expected;
}

/* Waits until the root has told the other ranks of this rank's failure: the root is a thread of this
 * process, which may end now. It closes this connection when it has told them. */
static void let_others_be_told(const struct tt_session *s)
{
    uint8_t byte;
    while (tt_session_receive(s, &byte, 1))
        ;
}

/* The ranks of a host that came to the root by the network meet at a local socket, where they pass each
 * other their descriptors. The lowest of them is the root there; what the id holds is derived from that of
 * all. */
static tutti_status meet_on_host(
    struct tt_session *s, const struct tt_newcomer *mine, struct tt_member *members)
{
    struct tt_id id = { .session = s->number, .agreed = true, .directory = TT_DIRECTORY_TMP };
    uint8_t code[TT_SHA256_BYTES];
    char text[64];
    int ranks = 0, place = 0;
    tutti_id bytes;
    for (int r = 0; r < s->n; r++) {
        place += r < s->rank && members[r].host == members[s->rank].host;
        ranks += members[r].host == members[s->rank].host;
    }
    if (!s->remote || ranks == 1)
        return TUTTI_OK;
    snprintf(text, sizeof text, "tutti 1 host %d", (int)members[s->rank].host);
    tt_hmac_sha256(s->id.secret, sizeof s->id.secret, text, strlen(text), code);
    memcpy(id.secret, code, sizeof id.secret);
    tt_hmac_sha256(id.secret, sizeof id.secret, text, strlen(text), code);
    memcpy(id.token, code, sizeof id.token);
    struct tt_member *met = calloc((size_t)ranks, sizeof *met);
    struct tt_newcomer here = *mine;
    here.blob_of_0 = NULL; /* it has that of the whole job */
    tutti_status status = met != NULL ? tt_directory_make(id.directory)
                                      : tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for %d ranks", ranks);
    if (status == TUTTI_OK && place == 0)
        status = tt_root_start(&id, NULL, s->timeout_ms);
    tt_id_write(&id, &bytes);
    if (status == TUTTI_OK)
        status = tt_bootstrap_meet(&bytes, ranks, place, &here, s->timeout_ms, met, NULL);
    for (int r = 0, next = 0; r < s->n && status == TUTTI_OK; r++)
        if (members[r].host == members[s->rank].host)
            memcpy(members[r].fds, met[next++].fds, sizeof members[r].fds);
    explicit_bzero(&id, sizeof id);
    explicit_bzero(&bytes, sizeof bytes);
    free(met);
    return status;
}

/* The failure of this thread, as others are told it. */
static struct tt_verdict own_failure(tutti_status status)
{
    struct tt_verdict own = { .status = status };
    snprintf(own.text, sizeof own.text, "%s", tt_last_error());
    return own;
}

static tutti_status receive_members(struct tt_session *s, uint8_t *entries, const struct tt_newcomer *mine,
    int *fds, int *nfds, struct tt_member *members)
{
    tutti_status status = tt_session_take(s, TT_FRAME_MEMBERS,
        TT_BLOB_BYTES + (uint64_t)s->n * TT_ENTRY_BYTES, entries, "when all ranks were about to meet");
    if (status != TUTTI_OK)
        return status;
    tt_init_progress_wait("not all ranks have taken the addresses of the others");
    int expected = read_entries(s, entries, members);
    if (expected < 0) {
        errno = EPROTO;
        return tt_session_broken(s, "in the addresses of the others");
    }
    status = receive_fds(s, fds, expected, nfds);
    if (status == TUTTI_OK)
        status = meet_on_host(s, mine, members);
    /* All go on together or none does: say whether this rank can, and hear whether all can. */
    struct tt_verdict report = own_failure(status);
    uint8_t bytes[TT_VERDICT_BYTES];
    tt_verdict_write(&report, s->number, bytes);
    bool told = tt_session_send(s, bytes, sizeof bytes, NULL, 0);
    if (status != TUTTI_OK) {
        if (s->pid == getpid())
            let_others_be_told(s);
        return status;
    }
    if (!told && errno != EPIPE && errno != ECONNRESET)
        return tt_session_broken(s, "when it was told that this rank is ready");
    return tt_session_hear_consent(s, "when all ranks were about to go on");
}

/* Hands in `mine` and receives the members, after the proof. members is written only if all went well. */
static tutti_status join(struct tt_session *s, const struct tt_newcomer *mine, struct tt_member *members)
{
    size_t n = (size_t)s->n;
    struct tt_member *met = calloc(n, sizeof *met);
    uint8_t *entries = malloc(TT_BLOB_BYTES + n * TT_ENTRY_BYTES);
    int *fds = malloc(n * TT_BLOB_FDS * sizeof *fds), nfds = 0;
    tt_init_progress_wait("not all ranks have come");
    tt_init_progress_defer();
    tutti_status status = met && entries && fds
                              ? say_hello(s, mine)
                              : tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the addresses of %d ranks", s->n);
    if (status == TUTTI_OK)
        status = receive_members(s, entries, mine, fds, &nfds, met);
    if (status == TUTTI_OK) {
        for (int i = 0; i < s->n * TT_BLOB_FDS && !s->remote; i++) {
            int *fd = &met[i / TT_BLOB_FDS].fds[i % TT_BLOB_FDS];
            *fd = *fd >= 0 ? fds[*fd] : -1;
            tt_clofork_release(*fd);
        }
        memcpy(members, met, n * sizeof *met);
        if (mine->blob_of_0 != NULL)
            memcpy(mine->blob_of_0, entries, TT_BLOB_BYTES);
    } else {
        while (nfds > 0)
            tt_clofork_close(fds[--nfds]);
        for (int i = 0; met != NULL && s->remote && i < s->n * TT_BLOB_FDS; i++)
            if (met[i / TT_BLOB_FDS].fds[i % TT_BLOB_FDS] > 0)
                close(met[i / TT_BLOB_FDS].fds[i % TT_BLOB_FDS]);
    }
    free(fds);
    free(entries);
    free(met);
    return status;
}

/* Sends the refusal, and waits until the others know of it. */
static tutti_status say_refusal(struct tt_session *s, const struct tt_verdict *refusal)
{
    uint8_t bytes[TT_REFUSAL_BYTES];
    tt_refusal_write(refusal, s->n, s->number, bytes);
    if (tt_session_send(s, bytes, sizeof bytes, NULL, 0))
        let_others_be_told(s);
    tt_set_last_error(refusal->text);
    return refusal->status;
}

/* Fails, since the root has dropped this rank twice after it proved to know the secret: it did not get the
 * hello, which is longer than what went before. */
static tutti_status hello_is_lost(const struct tt_session *s)
{
    return tt_fail(TUTTI_PEER_LOST,
        "rank %d cannot tell its addresses: the host of the process that made the "
        "id " TT_SILENT_HOST,
        s->rank);
}

/* Connects and joins, or says why it does not; whenever the connection is dropped before this rank is let
 * in, it comes again. A rank that could prove to know the secret and got no further comes once more to say
 * so, since a refusal fits any packet. */
static tutti_status enter(struct tt_session *s, const struct tt_id *id, const struct sockaddr_un *address,
    const struct tt_verdict *refusal, const struct tt_newcomer *mine, struct tt_member *members)
{
    int64_t deadline_ns = tt_deadline_ns(s->timeout_ms), last_ns;
    struct tt_verdict unheard;
    int drops = 0;
    for (int pause_ms = 1;; pause_ms = pause_ms < PAUSE_MS ? 2 * pause_ms : PAUSE_MS) {
        s->dropped = false;
        s->deadline_ns = deadline_ns;
        tutti_status status = tt_session_reach(s, id, address);
        s->reached = true;
        if (status == TUTTI_OK)
            status = prove(s, id);
        bool silent = status == TUTTI_OK && s->remote && refusal == NULL;
        if (status == TUTTI_OK) {
            s->deadline_ns = tt_wire_later(deadline_ns, TT_WIRE_GRACE_MS);
            status = refusal != NULL ? say_refusal(s, refusal) : join(s, mine, members);
        }
        silent = silent && !s->heard && status == TUTTI_PEER_LOST;
        if (silent && s->dropped && ++drops == DROPS) {
            status = hello_is_lost(s);
            s->dropped = false;
        }
        if (refusal == &unheard) {
            tt_set_last_error(unheard.text);
            return unheard.status;
        }
        if (!s->dropped && !silent)
            return status;
        if (!s->dropped) {
            unheard = own_failure(status);
            refusal = &unheard;
            last_ns = tt_deadline_ns(TT_WIRE_GRACE_MS);
            deadline_ns = last_ns < deadline_ns ? last_ns : deadline_ns;
        }
        tt_clofork_close(s->socket);
        s->socket = -1;
        tt_sleep_ms(pause_ms);
    }
}

/* Finds the local socket of an id. A host that has not even a place for it, as another one than that of the
 * root may, has nobody there. */
static tutti_status find_socket(const struct tt_id *id, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (id->count > 0 && id->directory == TT_DIRECTORY_RUNTIME && !tt_directory_is_runtime_here())
        return TUTTI_OK;
    tutti_status status = id->count > 0 ? tt_directory_make(id->directory) : TUTTI_OK;
    return status == TUTTI_OK ? tt_directory_socket(id->directory, id->token, address) : status;
}

/* Meets, or refuses to. */
static tutti_status come(const tutti_id *id, int n, int rank, const struct tt_verdict *refusal,
    const struct tt_newcomer *mine, int64_t timeout_ms, struct tt_member *members,
    struct tt_session **session)
{
    struct tt_id read;
    struct sockaddr_un address;
    if (n < 1 || n > TT_WIRE_RANKS || rank < 0 || rank >= n)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "rank %d of %d; legal: n from 1 to %d, rank from 0 to n - 1",
            rank, n, TT_WIRE_RANKS);
    tutti_status status = tt_id_read(id, &read);
    if (status == TUTTI_OK)
        status = find_socket(&read, &address);
    if (status != TUTTI_OK)
        return status;
    struct tt_session *s = malloc(sizeof *s);
    if (!s)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to meet at an id");
    *s = (struct tt_session){ .socket = -1, .n = n, .rank = rank, .number = read.session, .id = read };
    s->timeout_ms = timeout_ms;
    s->heartbeat_ms = mine != NULL ? mine->heartbeat_ms : 0;
    s->maker = s->door = -1;
    tt_wire_need_files(n * TT_BLOB_FDS);
    status = enter(s, &read, &address, refusal, mine, members);
    explicit_bzero(read.secret, sizeof read.secret);
    explicit_bzero(s->id.secret, sizeof s->id.secret);
    if (status == TUTTI_OK && session)
        *session = s;
    else
        tt_session_close(s);
    return status;
}

tutti_status tt_bootstrap_meet(const tutti_id *id, int n, int rank, const struct tt_newcomer *mine,
    int64_t timeout_ms, struct tt_member *members, struct tt_session **session)
{
    return come(id, n, rank, NULL, mine, timeout_ms, members, session);
}

void tt_bootstrap_refuse(const tutti_id *id, int n, int rank, int64_t timeout_ms, tutti_status status)
{
    struct tt_verdict own = own_failure(status);
    come(id, n, rank, &own, NULL, timeout_ms, NULL, NULL);
    tt_set_last_error(own.text);
}

void tt_session_refuse(struct tt_session *s, tutti_status status)
{
    struct tt_verdict own = own_failure(status);
    s->deadline_ns = tt_wire_later(tt_deadline_ns(s->timeout_ms), TT_WIRE_GRACE_MS);
    say_refusal(s, &own);
}

tutti_status tt_session_exchange(struct tt_session *s, const void *mine, uint64_t bytes, void *all)
{
    uint8_t part[TT_FRAME_BYTES + TT_BLOB_BYTES];
    if (bytes > TT_BLOB_BYTES)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "an exchange of %llu bytes; legal: 0 to %d",
            (unsigned long long)bytes, TT_BLOB_BYTES);
    struct tt_frame frame = { TT_WIRE_HIGHEST, TT_WIRE_HIGHEST, TT_FRAME_EXCHANGE, (uint32_t)bytes,
        s->number };
    tt_frame_write(&frame, part);
    uint8_t *body = malloc((size_t)s->n * bytes);
    if (!body && bytes > 0)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for an exchange of %d ranks", s->n);
    if (bytes > 0)
        memcpy(part + TT_FRAME_BYTES, mine, bytes);
    s->deadline_ns = tt_wire_later(tt_deadline_ns(s->timeout_ms), TT_WIRE_GRACE_MS);
    tt_init_progress_wait("not all ranks have handed in what all exchange");
    tt_init_progress_defer();
    tutti_status status = TUTTI_OK;
    /* If the job has failed, its verdict is there to be read. */
    if (!tt_session_send(s, part, TT_FRAME_BYTES + bytes, NULL, 0) && errno != EPIPE && errno != ECONNRESET)
        status = tt_session_broken(s, "in an exchange");
    if (status == TUTTI_OK)
        status = bytes > 0
                     ? tt_session_take(s, TT_FRAME_EXCHANGE, (uint64_t)s->n * bytes, body, "in an exchange")
                     : tt_session_hear_consent(s, "in an exchange");
    if (status == TUTTI_OK && all != NULL && bytes > 0)
        memcpy(all, body, (size_t)s->n * bytes);
    free(body);
    return status;
}

void tt_session_close(struct tt_session *s)
{
    if (s->socket >= 0) {
        shutdown(s->socket, SHUT_RDWR); /* also for copies in children that came to be without fork() */
        tt_clofork_close(s->socket);
    }
    if (s->door >= 0)
        tt_clofork_close(s->door);
    free(s);
}

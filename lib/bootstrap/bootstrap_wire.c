/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_wire.c: to bytes and back, and descriptors over a socket.
 *
 * Frames are written field by field at fixed offsets, never as structs: the bytes are a promise to other
 * compilers, other machines and later versions. */
#include "bootstrap/bootstrap_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clofork.h"
#include "base/clock.h"

/* The id: "TUID", version, flags, number of addresses, session, secret, four addresses. */
enum {
    ID_VERSION = 1,
    ID_AT_VERSION = 4,
    ID_AT_FLAGS = 6,
    ID_AT_COUNT = 7,
    ID_AT_SESSION = 8,
    ID_AT_SECRET = 16,
    ID_AT_ADDRESSES = 48,
    ID_ADDRESSES = 4,
    ADDRESS_BYTES = 20, /* u16 family, u16 port, 16 bytes */
    ID_AGREED = 1, /* a flag */
};
_Static_assert(ID_ADDRESSES == 1 + TT_NETS, "the local address and those of the network");
_Static_assert(ID_AT_ADDRESSES + ID_ADDRESSES * ADDRESS_BYTES == sizeof(tutti_id), "the id is full");

static const uint8_t id_magic[4] = { 'T', 'U', 'I', 'D' };
static const uint8_t greeting_magic[4] = { 'T', 'U', 'G', '4' }; /* from version 4 on */
static const uint8_t earlier_magic[4] = { 'T', 'U', 'G', 'R' };
static const uint8_t frame_magic[4] = { 'T', 'U', 'F', 'R' };

int tt_wire_few = 8;

static void write_net(const struct tt_net *net, uint8_t *at)
{
    tt_put(at, net->family, 2);
    tt_put(at + 2, net->port, 2);
    memcpy(at + 4, net->address, sizeof net->address);
}

/* False if it is of a family that this version does not know. */
static bool read_net(const uint8_t *at, struct tt_net *net)
{
    unsigned family = (unsigned)tt_get(at, 2);
    *net = (struct tt_net){ (enum tt_family)family, (uint16_t)tt_get(at + 2, 2), { 0 } };
    memcpy(net->address, at + 4, sizeof net->address);
    return family == TT_FAMILY_IPV4 || family == TT_FAMILY_IPV6;
}

void tt_id_write(const struct tt_id *id, tutti_id *out)
{
    uint8_t *bytes = out->bytes, *address = bytes + ID_AT_ADDRESSES;
    memset(bytes, 0, sizeof out->bytes);
    memcpy(bytes, id_magic, sizeof id_magic);
    tt_put(bytes + ID_AT_VERSION, ID_VERSION, 2);
    bytes[ID_AT_FLAGS] = id->agreed ? ID_AGREED : 0;
    bytes[ID_AT_COUNT] = (uint8_t)(1 + id->count);
    tt_put(bytes + ID_AT_SESSION, id->session, 8);
    memcpy(bytes + ID_AT_SECRET, id->secret, sizeof id->secret);
    tt_put(address, TT_FAMILY_LOCAL, 2);
    tt_put(address + 2, id->directory, 2); /* in place of a port */
    memcpy(address + 4, id->token, sizeof id->token);
    for (int i = 0; i < id->count; i++)
        write_net(&id->nets[i], address += ADDRESS_BYTES);
}

/* Reads one address of an id. Those of an unknown family are for other versions, and are left out. */
static void read_address(const uint8_t *at, struct tt_id *id, bool *local)
{
    unsigned family = (unsigned)tt_get(at, 2), number = (unsigned)tt_get(at + 2, 2);
    struct tt_net net;
    if (family == TT_FAMILY_LOCAL && number < TT_DIRECTORIES && !*local) {
        id->directory = (enum tt_directory)number;
        memcpy(id->token, at + 4, sizeof id->token);
        *local = true;
    } else if (read_net(at, &net) && id->count < TT_NETS) {
        id->nets[id->count++] = net;
    }
}

static tutti_status refuse_id(const uint8_t *bytes)
{
    static const uint8_t none[sizeof(tutti_id)];
    if (memcmp(bytes, none, sizeof none) == 0)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "this id is all zeros: the process that was to make one failed, and says why");
    return tt_fail(TUTTI_INVALID_ARGUMENT, "this is not an id: it must come whole from tutti_get_id");
}

tutti_status tt_id_read(const tutti_id *in, struct tt_id *id)
{
    const uint8_t *bytes = in->bytes;
    struct tt_id read = { .session = tt_get(bytes + ID_AT_SESSION, 8) };
    bool local = false;
    if (memcmp(bytes, id_magic, sizeof id_magic) != 0)
        return refuse_id(bytes);
    unsigned version = (unsigned)tt_get(bytes + ID_AT_VERSION, 2);
    unsigned flags = bytes[ID_AT_FLAGS], count = bytes[ID_AT_COUNT];
    if (version != ID_VERSION || (flags & ~(unsigned)ID_AGREED) != 0)
        return tt_fail(TUTTI_UNSUPPORTED,
            "the id has version %u and flags %u, this library knows version %d and flags 0 and 1: use one "
            "version of Tutti on all ranks",
            version, flags, ID_VERSION);
    if (count < 1 || count > ID_ADDRESSES)
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "the id is damaged: %u addresses, legal: 1 to %d", count, ID_ADDRESSES);
    for (unsigned i = 0; i < count; i++)
        read_address(bytes + ID_AT_ADDRESSES + i * ADDRESS_BYTES, &read, &local);
    if (!local)
        return tt_fail(TUTTI_UNSUPPORTED, "the id has no address that this library knows (local sockets)");
    read.agreed = (flags & ID_AGREED) != 0;
    memcpy(read.secret, bytes + ID_AT_SECRET, sizeof read.secret);
    *id = read;
    explicit_bzero(read.secret, sizeof read.secret);
    return TUTTI_OK;
}

tutti_status tt_random_bytes(void *bytes, size_t size)
{
    uint8_t *at = bytes;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno != EINTR)
            return tt_fail_errno(TUTTI_SYSTEM_ERROR, "no random numbers from the system");
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        }
    }
    return TUTTI_OK;
}

void tt_proof_make(
    const struct tt_id *id, enum tt_role role, const struct tt_challenge *challenge, uint8_t *proof)
{
    uint8_t text[16 + 2 * TT_NONCE_BYTES];
    tt_put(text, role, 4);
    tt_put(text + 4, (uint32_t)challenge->rank, 4);
    tt_put(text + 8, id->session, 8);
    memcpy(text + 16, challenge->root_nonce, TT_NONCE_BYTES);
    memcpy(text + 16 + TT_NONCE_BYTES, challenge->rank_nonce, TT_NONCE_BYTES);
    tt_hmac_sha256(id->secret, sizeof id->secret, text, sizeof text, proof);
}

bool tt_proof_holds(
    const struct tt_id *id, enum tt_role role, const struct tt_challenge *challenge, const uint8_t *proof)
{
    uint8_t expected[TT_SHA256_BYTES];
    tt_proof_make(id, role, challenge, expected);
    return tt_hmac_equal(proof, expected);
}

void tt_greeting_write(const struct tt_challenge *challenge, uint8_t *bytes)
{
    memcpy(bytes, greeting_magic, sizeof greeting_magic);
    tt_put(bytes + 4, (uint32_t)challenge->rank, 4);
    memcpy(bytes + 8, challenge->rank_nonce, TT_NONCE_BYTES);
}

bool tt_greeting_read(const uint8_t *bytes, struct tt_challenge *challenge)
{
    challenge->rank = (int32_t)tt_get(bytes + 4, 4);
    memcpy(challenge->rank_nonce, bytes + 8, TT_NONCE_BYTES);
    return memcmp(bytes, greeting_magic, sizeof greeting_magic) == 0;
}

bool tt_greeting_is_earlier(const uint8_t *bytes)
{
    return memcmp(bytes, earlier_magic, sizeof earlier_magic) == 0;
}

void tt_frame_write(const struct tt_frame *frame, uint8_t *bytes)
{
    memcpy(bytes, frame_magic, sizeof frame_magic);
    tt_put(bytes + 4, frame->lowest, 2);
    tt_put(bytes + 6, frame->highest, 2);
    tt_put(bytes + 8, frame->kind, 4);
    tt_put(bytes + 12, frame->length, 4);
    tt_put(bytes + 16, frame->session, 8);
}

bool tt_frame_read(const uint8_t *bytes, uint64_t session, struct tt_frame *frame)
{
    frame->lowest = (uint16_t)tt_get(bytes + 4, 2);
    frame->highest = (uint16_t)tt_get(bytes + 6, 2);
    frame->kind = (uint32_t)tt_get(bytes + 8, 4);
    frame->length = (uint32_t)tt_get(bytes + 12, 4);
    frame->session = tt_get(bytes + 16, 8);
    return memcmp(bytes, frame_magic, sizeof frame_magic) == 0 && frame->session == session;
}

void tt_hello_write(const struct tt_hello *hello, uint64_t session, uint8_t *bytes)
{
    struct tt_frame frame = { TT_WIRE_LOWEST, TT_WIRE_HIGHEST, TT_FRAME_HELLO,
        TT_HELLO_BYTES - TT_FRAME_BYTES, session };
    uint32_t order = TT_WIRE_ORDER;
    tt_frame_write(&frame, bytes);
    bytes += TT_FRAME_BYTES;
    tt_put(bytes, (uint32_t)hello->n, 4);
    tt_put(bytes + 4, (uint64_t)hello->timeout_ms, 8);
    tt_put(bytes + 12, hello->fds, 4);
    memcpy(bytes + 16, &order, 4);
    tt_put(bytes + 20, hello->heartbeat_ms, 8);
    tt_put(bytes + 28, hello->port, 4);
    memcpy(bytes + 32, hello->host, TT_HOST_KEY_BYTES);
    memcpy(bytes + 32 + TT_HOST_KEY_BYTES, hello->blob, TT_BLOB_BYTES);
}

void tt_hello_read(const uint8_t *bytes, struct tt_hello *hello)
{
    uint32_t order;
    bytes += TT_FRAME_BYTES;
    hello->n = (int32_t)tt_get(bytes, 4);
    hello->timeout_ms = (int64_t)tt_get(bytes + 4, 8);
    hello->fds = (uint32_t)tt_get(bytes + 12, 4);
    memcpy(&order, bytes + 16, 4);
    hello->order = order == TT_WIRE_ORDER;
    hello->heartbeat_ms = tt_get(bytes + 20, 8);
    hello->port = (uint16_t)tt_get(bytes + 28, 2);
    hello->host = bytes + 32;
    hello->blob = bytes + 32 + TT_HOST_KEY_BYTES;
}

void tt_verdict_write(const struct tt_verdict *verdict, uint64_t session, uint8_t *bytes)
{
    struct tt_frame frame = { TT_WIRE_LOWEST, TT_WIRE_HIGHEST, TT_FRAME_VERDICT,
        TT_VERDICT_BYTES - TT_FRAME_BYTES, session };
    tt_frame_write(&frame, bytes);
    tt_put(bytes + TT_FRAME_BYTES, (uint32_t)verdict->status, 4);
    memset(bytes + TT_FRAME_BYTES + 4, 0, TT_ERROR_TEXT);
    memcpy(bytes + TT_FRAME_BYTES + 4, verdict->text, strnlen(verdict->text, TT_ERROR_TEXT - 1));
}

void tt_verdict_read(const uint8_t *bytes, struct tt_verdict *verdict)
{
    int32_t status = (int32_t)tt_get(bytes + TT_FRAME_BYTES, 4);
    bool known = status <= 0 && status >= TUTTI_INTERNAL_ERROR;
    verdict->status = known ? (tutti_status)status : TUTTI_INTERNAL_ERROR;
    memcpy(verdict->text, bytes + TT_FRAME_BYTES + 4, TT_ERROR_TEXT);
    verdict->text[TT_ERROR_TEXT - 1] = 0;
}

void tt_refusal_write(const struct tt_verdict *verdict, int32_t n, uint64_t session, uint8_t *bytes)
{
    struct tt_frame frame = { TT_WIRE_LOWEST, TT_WIRE_HIGHEST, TT_FRAME_REFUSAL,
        TT_REFUSAL_BYTES - TT_FRAME_BYTES, session };
    tt_verdict_write(verdict, session, bytes);
    tt_frame_write(&frame, bytes);
    tt_put(bytes + TT_VERDICT_BYTES, (uint32_t)n, 4);
}

void tt_refusal_read(const uint8_t *bytes, struct tt_verdict *verdict, int32_t *n)
{
    tt_verdict_read(bytes, verdict);
    *n = (int32_t)tt_get(bytes + TT_VERDICT_BYTES, 4);
}

void tt_notice_write(const struct tt_notice *notice, uint64_t session, uint8_t *bytes)
{
    struct tt_frame frame = { TT_WIRE_HIGHEST, TT_WIRE_HIGHEST, TT_FRAME_NOTICE,
        TT_NOTICE_BYTES - TT_FRAME_BYTES, session };
    tt_frame_write(&frame, bytes);
    tt_put(bytes + TT_FRAME_BYTES, (uint32_t)notice->maker, 4);
    memset(bytes + TT_FRAME_BYTES + 4, 0, TT_NOTICE_TEXT);
    memcpy(bytes + TT_FRAME_BYTES + 4, notice->text, strnlen(notice->text, TT_NOTICE_TEXT - 1));
}

void tt_notice_read(const uint8_t *bytes, struct tt_notice *notice)
{
    notice->maker = (int32_t)tt_get(bytes + TT_FRAME_BYTES, 4);
    memcpy(notice->text, bytes + TT_FRAME_BYTES + 4, TT_NOTICE_TEXT);
    notice->text[TT_NOTICE_TEXT - 1] = 0;
}

void tt_source_write(const struct tt_source *source, uint64_t session, uint8_t *bytes)
{
    struct tt_frame frame = { TT_WIRE_HIGHEST, TT_WIRE_HIGHEST, TT_FRAME_SOURCE,
        TT_SOURCE_BYTES - TT_FRAME_BYTES, session };
    tt_frame_write(&frame, bytes);
    bytes += TT_FRAME_BYTES;
    tt_put(bytes, (uint32_t)source->rank, 4);
    write_net(&source->net, bytes + 4);
    memcpy(bytes + 24, source->token, TT_PASS_BYTES);
    memcpy(bytes + 24 + TT_PASS_BYTES, source->digest, TT_SHA256_BYTES);
}

void tt_source_read(const uint8_t *bytes, struct tt_source *source)
{
    bytes += TT_FRAME_BYTES;
    source->rank = (int32_t)tt_get(bytes, 4);
    read_net(bytes + 4, &source->net);
    memcpy(source->token, bytes + 24, TT_PASS_BYTES);
    memcpy(source->digest, bytes + 24 + TT_PASS_BYTES, TT_SHA256_BYTES);
}

void tt_taken_write(bool taken, uint64_t session, uint8_t *bytes)
{
    struct tt_frame frame = { TT_WIRE_HIGHEST, TT_WIRE_HIGHEST, TT_FRAME_TAKEN,
        TT_TAKEN_BYTES - TT_FRAME_BYTES, session };
    tt_frame_write(&frame, bytes);
    tt_put(bytes + TT_FRAME_BYTES, taken, 4);
}

ssize_t tt_wire_send(int socket, const void *bytes, size_t size, const int *fds, int nfds)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * TT_WIRE_FDS)];
    struct iovec part = { (void *)(uintptr_t)bytes, size };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    if (nfds > 0) {
        memset(control, 0, sizeof control);
        message.msg_control = control;
        message.msg_controllen = (socklen_t)CMSG_SPACE(sizeof(int) * (size_t)nfds); /* in musl */
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = (socklen_t)CMSG_LEN(sizeof(int) * (size_t)nfds);
        memcpy(CMSG_DATA(head), fds, sizeof(int) * (size_t)nfds);
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent;
}

/* Appends the descriptors of one message to fds while there is room, and closes the rest. */
static void take_fds(struct msghdr *message, int *fds, int room, int *nfds)
{
    int before = *nfds;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            if (*nfds < room)
                fds[(*nfds)++] = fd;
            else
                close(fd);
        }
    }
    for (int i = before; i < *nfds; i++)
        tt_clofork_add(fds[i]);
}

ssize_t tt_wire_receive(int socket, void *bytes, size_t size, int *fds, int room, int *nfds)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * TT_WIRE_FDS)];
    struct iovec part = { bytes, size };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    ssize_t got;
    /* Without room there is no control buffer, and the system itself drops what a stranger sends. */
    if (room > 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
    }
    tt_clofork_lock();
    do
        got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got >= 0 && room > 0)
        take_fds(&message, fds, room, nfds);
    tt_clofork_unlock();
    if (got < 0 || room == 0)
        return got;
    if (message.msg_flags & MSG_CTRUNC) {
        errno = EMFILE;
        return -1;
    }
    return got;
}

unsigned long long tt_wire_open_files(void)
{
    struct rlimit limit = { 0, 0 };
    getrlimit(RLIMIT_NOFILE, &limit);
    return (unsigned long long)limit.rlim_cur;
}

static bool can_copy(int fd, int times)
{
    int copy = times > 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : fd;
    if (copy < 0 || times <= 0)
        return copy >= 0;
    bool can = can_copy(fd, times - 1);
    close(copy);
    return can;
}

bool tt_wire_has_files(int fd, int count)
{
    tt_clofork_lock(); /* and no child gets a copy */
    bool has = can_copy(fd, count);
    tt_clofork_unlock();
    return has;
}

void tt_wire_need_files(int count)
{
    struct rlimit limit;
    rlim_t needed = (rlim_t)count;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || needed <= limit.rlim_cur / 2)
        return;
    rlim_t room = limit.rlim_max - limit.rlim_cur;
    limit.rlim_cur += needed < room ? needed : room;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t tt_wire_later(int64_t deadline_ns, int ms)
{
    int64_t more_ns = (int64_t)ms * 1000000;
    return deadline_ns < INT64_MAX - more_ns ? deadline_ns + more_ns : INT64_MAX;
}

int tt_wire_poll_ms(int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX)
        return -1;
    int64_t left_ns = deadline_ns - tt_now_ns();
    int64_t ms = left_ns <= 0 ? 0 : left_ns / 1000000 + 1;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

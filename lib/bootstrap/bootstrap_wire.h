/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_wire.h: the id and the frames of the bootstrap, byte by byte. Little-endian, fixed offsets.
 *
 *   rank -> root  greeting  magic, rank, nonce                         40 bytes
 *   root -> rank  nonce                                                32
 *   rank -> root  proof     the rank's                                 32
 *   root -> rank  proof     the root's; zeros: that of the rank does not hold
 *   rank -> root  HELLO     n, timeout, descriptors, order, heartbeat, port, host, blob with the descriptors
 *   root -> rank  MEMBERS   the blob of rank 0, of each rank the host and which descriptors it has; then the
 *                           descriptors of the others, 1 to 253 to a byte, if both are of the root's host
 *   root -> rank  NOTICE    who made the id, whom all wait for; as often as the root likes, between frames
 *   root -> rank  SOURCE    in a large job, before MEMBERS and EXCHANGE: which rank passes them on to it
 *   rank -> root  TAKEN     in answer: does this rank have them; if not, the root sends them
 *   root -> rank  VERDICT   in answer: all have them
 *   rank -> root  VERDICT   did it take them
 *   root -> rank  VERDICT   did all take them; at any time after HELLO, why the job has failed
 *   rank -> root  EXCHANGE  the bytes of one, and
 *   root -> rank  EXCHANGE  those of all, as often as the ranks like; a VERDICT in its place if they are none
 *   rank -> root  REFUSAL   in place of HELLO or of EXCHANGE: why this rank can be no part of the job
 *
 *   rank -> rank  token     of SOURCE, to who passes on                32 bytes
 *   rank -> rank  what follows the head of MEMBERS, or of EXCHANGE
 *
 * Who comes proves first: a proof is what guesses of the secret can be tried on, so a stranger who connects
 * gets none. Everything up to the proofs has one size, so nothing that a stranger sends is taken for a
 * length. The form of a frame's head and of VERDICT never changes; the version, in the head, rules the
 * rest. */
#ifndef TT_BOOTSTRAP_WIRE_H
#define TT_BOOTSTRAP_WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/bootstrap_host.h"
#include "base/net.h"
#include "bootstrap/bootstrap_directory.h"
#include "bootstrap/sha256.h"

enum {
    TT_NOTICE_TEXT = 256,
    TT_WIRE_LOWEST = 5, /* the versions this library speaks; from 4 on, the rank proves first */
    TT_WIRE_HIGHEST = 5,
    TT_WIRE_ORDER = 0x01020304, /* as it lies in the memory of the rank that says it */
    TT_NONCE_BYTES = 32,
    TT_GREETING_BYTES = 8 + TT_NONCE_BYTES,
    TT_FRAME_BYTES = 24, /* the head of HELLO and all that follows */
    TT_ENTRY_BYTES = 8, /* of one member: which descriptors it has, its host */
    TT_HELLO_BYTES = TT_FRAME_BYTES + 32 + TT_HOST_KEY_BYTES + TT_BLOB_BYTES,
    TT_VERDICT_BYTES = TT_FRAME_BYTES + 4 + TT_ERROR_TEXT,
    TT_REFUSAL_BYTES = TT_VERDICT_BYTES + 4,
    TT_NOTICE_BYTES = TT_FRAME_BYTES + 4 + TT_NOTICE_TEXT,
    TT_PASS_BYTES = 32, /* the token of who passes on */
    TT_SOURCE_BYTES = TT_FRAME_BYTES + 24 + TT_PASS_BYTES + TT_SHA256_BYTES,
    TT_TAKEN_BYTES = TT_FRAME_BYTES + 4,
    TT_WIRE_FDS = 252, /* in one message: Linux takes 253, musl 1.2.3 one less */
    TT_WIRE_RANKS = 65536,
    /* A rank waits this much longer than its timeout for the verdict: the root knows who is missing. */
    TT_WIRE_GRACE_MS = 5000,
};

/* The contents of an id. */
struct tt_id {
    uint64_t session;
    uint8_t secret[32];
    bool agreed; /* each rank made it for itself, of what all know: who answers may come later */
    enum tt_directory directory;
    uint8_t token[TT_TOKEN_BYTES];
    int count; /* of nets; ranks that find the local socket do not need them */
    struct tt_net nets[TT_NETS];
};
tutti_status tt_id_make(
    enum tt_directory directory, struct tt_id *id); /* a new one, of random bytes (bootstrap.c) */
void tt_id_write(const struct tt_id *id, tutti_id *bytes);
tutti_status tt_id_read(const tutti_id *bytes, struct tt_id *id);
tutti_status tt_random_bytes(void *bytes, size_t size);

/* The proof has the role of its sender in it, so that neither side's proof can be sent back to it. */
enum tt_role { TT_ROLE_ROOT = 1, TT_ROLE_RANK = 2 };
struct tt_challenge {
    int32_t rank;
    uint8_t root_nonce[TT_NONCE_BYTES], rank_nonce[TT_NONCE_BYTES];
};
void tt_proof_make(
    const struct tt_id *id, enum tt_role role, const struct tt_challenge *challenge, uint8_t *proof);
bool tt_proof_holds(
    const struct tt_id *id, enum tt_role role, const struct tt_challenge *challenge, const uint8_t *proof);
void tt_greeting_write(const struct tt_challenge *challenge, uint8_t *bytes);
bool tt_greeting_read(const uint8_t *bytes, struct tt_challenge *challenge);
/* True if it is that of an earlier version, whose ranks wait for so many bytes in answer. */
enum { TT_EARLIER_REPLY_BYTES = TT_NONCE_BYTES + TT_SHA256_BYTES };
bool tt_greeting_is_earlier(const uint8_t *bytes);

enum tt_frame_kind {
    TT_FRAME_HELLO = 1,
    TT_FRAME_MEMBERS = 2,
    TT_FRAME_VERDICT = 3,
    TT_FRAME_EXCHANGE = 4,
    TT_FRAME_NOTICE = 5,
    TT_FRAME_REFUSAL = 6,
    TT_FRAME_SOURCE = 7,
    TT_FRAME_TAKEN = 8
};
struct tt_frame {
    uint16_t lowest, highest; /* versions the sender speaks; from the root, the one it chose */
    uint32_t kind, length; /* bytes that follow */
    uint64_t session;
};
void tt_frame_write(const struct tt_frame *frame, uint8_t *bytes);
/* False if these bytes are no frame of this session. */
bool tt_frame_read(const uint8_t *bytes, uint64_t session, struct tt_frame *frame);

struct tt_hello {
    int32_t n;
    int64_t timeout_ms;
    uint32_t fds; /* bit i: fds[i] is given */
    const uint8_t *host; /* its key */
    const uint8_t *blob;
    bool order; /* the rank's numbers lie in memory as those of this process do; set by the reader */
    uint64_t heartbeat_ms;
    uint16_t port; /* of the rank's address at which it passes on what it has; 0: at none */
};
void tt_hello_write(const struct tt_hello *hello, uint64_t session, uint8_t *bytes);
void tt_hello_read(const uint8_t *bytes, struct tt_hello *hello);

struct tt_verdict {
    tutti_status status;
    char text[TT_ERROR_TEXT];
};
void tt_verdict_write(const struct tt_verdict *verdict, uint64_t session, uint8_t *bytes);
void tt_verdict_read(const uint8_t *bytes, struct tt_verdict *verdict);

/* A rank's verdict of itself, and of how many ranks it is one. */
void tt_refusal_write(const struct tt_verdict *verdict, int32_t n, uint64_t session, uint8_t *bytes);
void tt_refusal_read(const uint8_t *bytes, struct tt_verdict *verdict, int32_t *n);

struct tt_notice {
    int32_t maker; /* the rank of the process that made the id; -1: it is none, or has not come */
    char text[TT_NOTICE_TEXT]; /* "rank 1 has not come"; empty: nothing is late */
};
void tt_notice_write(const struct tt_notice *notice, uint64_t session, uint8_t *bytes);
void tt_notice_read(const uint8_t *bytes, struct tt_notice *notice);

/* Where a rank gets what all get. */
struct tt_source {
    int32_t rank; /* -1: from the root, as the next frame */
    struct tt_net net;
    uint8_t token[TT_PASS_BYTES], digest[TT_SHA256_BYTES]; /* what to say there; of what is to come */
};
void tt_source_write(const struct tt_source *source, uint64_t session, uint8_t *bytes);
void tt_source_read(const uint8_t *bytes, struct tt_source *source);
void tt_taken_write(bool taken, uint64_t session, uint8_t *bytes);

/* The root sends what all get to so many ranks of other hosts, and each of them passes it on to so many.
 * Where there are no more of them, nobody passes anything on. Tests set it. */
extern int tt_wire_few;

/* What is said of a host when a connection fails by the heartbeat. */
#define TT_SILENT_HOST                                                                                       \
    "answers nothing (for as long as the setting heartbeat says): it is gone, or cut off, or long packets "  \
    "do "                                                                                                    \
    "not arrive, as where a switch takes shorter ones than an interface sends (MTU)"

/* Makes one attempt and does not wait; answers as send and recv do, but never with EINTR. A message with
 * descriptors must be so short that all of it goes at once into an empty socket. */
ssize_t tt_wire_send(int socket, const void *bytes, size_t size, const int *fds, int nfds);
/* Appends the descriptors that came to fds[*nfds], of which there may be `room` in all. errno is EMFILE if
 * this process could not take them all. They are marked to be closed in children (clofork.h);
 * those for which there is no room are closed at once. */
ssize_t tt_wire_receive(int socket, void *bytes, size_t size, int *fds, int room, int *nfds);
unsigned long long tt_wire_open_files(void); /* ulimit -n, for errors */
/* True if this process can open `count` more descriptors. `fd` is any that is open. */
bool tt_wire_has_files(int fd, int count);
/* Raises the soft limit of open files, as far as the hard one allows, if `count` descriptors could not fit
 * beside what the program has open. It is not lowered again, since what others open meanwhile may lie
 * beyond. */
void tt_wire_need_files(int count);
/* Returns the time until a deadline as poll takes it. */
int tt_wire_poll_ms(int64_t deadline_ns);
int64_t tt_wire_later(int64_t deadline_ns, int ms); /* never stays never */

static inline void tt_put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static inline uint64_t tt_get(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

#endif

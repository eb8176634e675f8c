/* SPDX-License-Identifier: BSD-3-Clause */
/* sockets_wire.h: what the two halves of the sockets transport share: sockets.c, the operations, which never
 * wait for a socket, and sockets_wire.c, the endpoint's own thread, which alone reads and writes sockets.
 *
 * They hand each other work through memory only. Each word has one writer at a time:
 *
 *     slot of a link       state FREE -> FULL -> DONE -> FREE; who may write next is said at enum slot_state
 *     struct control       of this rank: the caller writes; of a peer: the thread writes what that one told
 *     claim, cause         written once, before the flag that says so
 *
 * The caller wakes the thread by an eventfd; the thread wakes the caller by the endpoint's doorbell. */
#ifndef TT_TESTS_SOCKETS_WIRE_H
#define TT_TESTS_SOCKETS_WIRE_H
#include <pthread.h>
#include <stddef.h>

#include "sockets.h"

#define SOCKETS_MAGIC UINT64_C(0x7374656b636f7374)
enum { SOCKETS_TOKEN_BYTES = 16 };
struct sockets_address {
    uint64_t magic;
    int32_t rank, pid;
    uint32_t ip; /* these two in the byte order of the network */
    uint16_t port;
    uint8_t token[SOCKETS_TOKEN_BYTES];
};
_Static_assert(sizeof(struct sockets_address) <= TT_ADDRESS_BYTES, "an address fits");

/* What each end of a connection says first. The token is that of the other end: only who has its address
 * knows it. */
struct sockets_greeting {
    uint64_t magic;
    int32_t from, to;
    uint8_t token[SOCKETS_TOKEN_BYTES];
};

/* Of a slot to send from: the caller fills a FREE one; the thread makes a FULL one DONE when it is written,
 * and FREE when its release comes. Of a slot to receive into: the thread fills a FREE one, the caller makes
 * it DONE by its release, and the thread FREE again when it tells the sender. A rank's slots to itself need
 * no thread: the caller fills and frees them. */
enum slot_state { SLOT_FREE, SLOT_FULL, SLOT_DONE };
struct slot {
    _Atomic uint32_t state;
    uint32_t signature;
    uint64_t number, bytes;
    uint8_t *payload; /* room for the endpoint's slot_bytes */
};

struct sockets_link {
    struct tt_link head; /* first */
    struct slot out[TT_SLOTS], in[TT_SLOTS]; /* in: also what a rank sends to itself */
};

/* A cell holds a struct that is read while it may be replaced: a version, which is odd meanwhile and 0 before
 * the first time, and the words. One thread at a time writes; any may read. */
typedef _Atomic uint64_t cell_word;
enum {
    RECORD_WORDS = sizeof(struct tt_call_record) / 8,
    TEXT_WORDS = TT_REFUSAL_TEXT / 8,
};
void cell_write(cell_word *cell, const void *bytes, size_t words);
/* Returns the version that was read; 0 if there is none, or if it is being replaced. */
uint64_t cell_read(const cell_word *cell, void *bytes, size_t words);

/* What one rank tells all others. A record's `sequence` is 1 + the number of its operation; that of the wait
 * is 1, or 0 if the rank waits for nothing. */
struct control {
    _Atomic uint64_t begun; /* 1 + the last operation of this rank; 0: none */
    _Atomic uint64_t completed; /* all operations below are over */
    cell_word calls[TT_CALLS_KEPT][1 + RECORD_WORDS];
    cell_word wait[1 + RECORD_WORDS];
    cell_word *refusals; /* 1 + the number of what was refused: a collective, a receive from each rank, a send
                          * to each; 0: nothing. Then the last text */
};

enum frame_kind {
    FRAME_MESSAGE,
    FRAME_RELEASE,
    FRAME_CALL,
    FRAME_COMPLETED,
    FRAME_WAIT,
    FRAME_REFUSALS,
    FRAME_CLAIM, /* "this is the cause, if it is the first": to the rank that decides */
    FRAME_CAUSE, /* of the end, as decided: to all */
    FRAME_GOODBYE /* the last one: this rank closes its endpoint */
};
struct frame { /* as on the wire; `bytes` of payload follow */
    uint8_t kind, class;
    uint8_t reserved[2];
    uint32_t signature;
    uint64_t number; /* of a message, a release, an operation; of a cause: who found it */
    uint64_t bytes;
};

struct transfer { /* of a frame that is being read, or written */
    struct frame frame;
    uint64_t at, size; /* frame and payload; size 0: no frame is under way */
    uint8_t *payload;
    uint8_t *staging; /* room for the payload of a frame that is no message */
};

struct peer {
    int fd; /* -1: there is no connection any more */
    long process;
    _Atomic int state; /* enum tt_peer_state */
    struct control control; /* of this rank itself: what it tells */
    struct transfer in, out;
    /* What the peer has been told. */
    uint64_t call, completed, wait, refusals;
    bool claim, cause, goodbye;
};

struct sockets_endpoint {
    struct tt_endpoint head; /* first */
    struct tt_endpoint_params params;
    struct peer *peers; /* n */
    struct sockets_link *ends; /* [class][n] */
    uint8_t *memory; /* all payloads of the slots */
    uint64_t memory_bytes;
    cell_word *refusals; /* all cells for refusals */
    uint8_t *staging;
    size_t refusal_words;
    uint64_t refused_numbers, *refused; /* of this rank: what its cell holds */

    int listener, wake; /* wake: an eventfd */
    uint8_t token[SOCKETS_TOKEN_BYTES];
    pthread_t thread;
    bool connected;
    _Atomic bool woken, closing;
    int64_t close_ns; /* when it waits no more for peers that do not take what was sent */

    pthread_mutex_t aborting;
    struct tt_cause claim, cause;
    _Atomic bool claimed; /* by this rank */
    _Atomic bool impatient; /* it has waited long enough for the rank that decides */
    struct tt_cause first_claim; /* of any rank, the first that came here */
    int first_claimer; /* TT_NONE: nobody */
    _Atomic uint32_t ended; /* 1 + the rank that found the cause */

    _Atomic uint32_t inside;
    struct tt_doorbell bell;
};

/* Starts the thread; all peers are connected. */
tutti_status wire_start(struct sockets_endpoint *e);
/* Lets the thread say all that is still to be said, and goodbye; returns when each peer has taken it, or has
 * gone, at the latest at close_ns. */
void wire_stop(struct sockets_endpoint *e);
/* Tells the thread that there is something new to say. */
void wire_wake(struct sockets_endpoint *e);

#endif

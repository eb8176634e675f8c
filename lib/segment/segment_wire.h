/* SPDX-License-Identifier: BSD-3-Clause */
/* segment_wire.h: what an exporter and its importer say to each other, and how keys are made.
 *
 *     exporter                               importer
 *     HELLO    rank, secret                  WELCOME; or it hangs up
 *     IMPORT   key, bytes, and a descriptor, or a handle      MAPPED, with the address, or REFUSED
 *     CLOSE    key                           CLOSED, with the key, when nothing is mapped any more
 *
 * Both ends are processes of one host that have agreed on their version before. All frames have one length,
 * so that nothing of what a stranger sends is taken for one; a frame with a descriptor leaves at once. */
#ifndef TT_SEGMENT_WIRE_H
#define TT_SEGMENT_WIRE_H
#include <sys/un.h>

#include "bootstrap/bootstrap_directory.h"
#include "bootstrap/sha256.h"
#include "segment/exporter.h"

enum { TT_SEGMENT_MAGIC = 0x31535454, TT_SEGMENT_SECRET_BYTES = TT_SHA256_BYTES /* for tt_hmac_equal */ };
enum tt_segment_kind {
    TT_SEGMENT_HELLO = 1,
    TT_SEGMENT_IMPORT,
    TT_SEGMENT_CLOSE,
    TT_SEGMENT_WELCOME,
    TT_SEGMENT_MAPPED,
    TT_SEGMENT_REFUSED,
    TT_SEGMENT_CLOSED
};
struct tt_segment_frame {
    uint32_t magic, kind, key;
    int32_t rank; /* HELLO */
    uint64_t bytes; /* IMPORT */
    uint64_t by_descriptor;
    union {
        uint8_t secret[TT_SEGMENT_SECRET_BYTES]; /* HELLO */
        uint8_t handle[TT_DEV_HANDLE_BYTES]; /* IMPORT */
        uint64_t address; /* MAPPED: where the importer's device has it */
        char why[TT_EXPORT_WHY]; /* REFUSED */
    };
};

/* A key is a place among those of its rank, and which use of that place it is, from 1 on: it is never 0, and
 * no place is used so often that a key would come again. */
enum { TT_SEGMENT_PLACES = 4096, TT_SEGMENT_USES = (1 << 20) - 1 };
static inline uint32_t tt_segment_key(uint32_t place, uint32_t use)
{
    return use * TT_SEGMENT_PLACES + place;
}
static inline uint32_t tt_segment_place(uint32_t key)
{
    return key % TT_SEGMENT_PLACES;
}
static inline uint32_t tt_segment_use(uint32_t key)
{
    return key / TT_SEGMENT_PLACES;
}

/* An address from inside; the first byte of one that is there is 1. */
struct tt_segment_address {
    uint8_t there;
    uint8_t token[TT_TOKEN_BYTES]; /* of the socket's name */
    uint8_t secret[TT_SEGMENT_SECRET_BYTES];
};
_Static_assert(sizeof(struct tt_segment_address) <= sizeof(struct tt_import_address), "it fits an address");

/* Sends a frame of this kind, with a descriptor unless that is -1; false: the other end is gone, or does not
 * read what it is sent. */
bool tt_segment_send(int socket, struct tt_segment_frame *frame, enum tt_segment_kind kind, int fd);

/* A frame on its way in. */
struct tt_segment_inbox {
    struct tt_segment_frame frame;
    size_t have;
    int fd; /* that came with it; -1: none. Closed in a child of fork (clofork.h) */
    bool lost; /* one came, and this process has no room for it */
};
enum tt_segment_came { TT_SEGMENT_NOTHING, TT_SEGMENT_FRAME, TT_SEGMENT_END };
/* Takes what has come, without waiting: a whole frame is given once, and the next call overwrites it. END:
 * the other end is gone, or sends something else. `fds`: descriptors are taken. */
enum tt_segment_came tt_segment_receive(int socket, struct tt_segment_inbox *inbox, bool fds);

/* True if who is at the other end runs as this user. */
bool tt_segment_is_ours(int socket);

#endif

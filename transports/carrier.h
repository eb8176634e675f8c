/* SPDX-License-Identifier: BSD-3-Clause */
/* carrier.h: what carries the messages of a tcp endpoint in place of its connections: a plugin for a faster
 * network (transports/ucx/). It knows bytes and ranks; slots, releases, how peers live and how a communicator
 * ends stay with the endpoint, whose connections go on beside it.
 *
 * One thread at a time uses a carrier. Nothing here waits, but for close. */
#ifndef TT_TRANSPORTS_CARRIER_H
#define TT_TRANSPORTS_CARRIER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_CARRIER_VERSION = 1 };

struct tt_carrier_head { /* what goes before the bytes of each message */
    uint64_t token; /* of the receiver's endpoint */
    uint64_t number;
    uint32_t signature;
    int32_t from;
    uint8_t kind, class;
    uint8_t released[2];
    uint8_t reserved[4];
};
_Static_assert(sizeof(struct tt_carrier_head) == 32, "it goes over a network");

struct tt_carrier_params {
    int n; /* ranks */
    /* Which transports and devices to use, as the carrier calls them; NULL: as its own settings say. */
    const char *transports, *devices;
    int64_t (*now_ms)(void);

    /* What the carrier tells its endpoint, from within `progress`, `send` and `close`. */
    void *endpoint;
    /* Where do the bytes of this message go? NULL: no peer sends such a one, and it is dropped. */
    void *(*place)(void *endpoint, const struct tt_carrier_head *head, uint64_t bytes);
    void (*arrived)(void *endpoint, const struct tt_carrier_head *head, uint64_t bytes, void *place);
    /* The bytes of a send are not read any more, well or not. */
    void (*sent)(void *endpoint, void *send);
};

struct tt_carrier;

struct tt_carrier_table {
    uint32_t version;
    const char *name;

    /* Opens a carrier. NULL if it cannot; then `why`, of so many bytes, has the reason. */
    struct tt_carrier *(*open)(const struct tt_carrier_params *params, char *why, size_t why_bytes);
    /* Returns how long the address is; it is written if there is room. */
    size_t (*address)(struct tt_carrier *c, void *address, size_t room);
    /* Sends to a peer, at this address the first time. 1: done; 0: under way, `sent` will be called with
     * `send`, and until then head and payload must stay; -1: it cannot. */
    int (*send)(struct tt_carrier *c, int peer, const void *address, const struct tt_carrier_head *head,
        const void *payload, uint64_t bytes, void *send);
    bool (*progress)(struct tt_carrier *c); /* true if something happened */
    /* The descriptor becomes readable when there is something to progress, if arm said true before. */
    int (*descriptor)(struct tt_carrier *c);
    bool (*arm)(struct tt_carrier *c);
    /* The peer is gone: all sends to it end. -1: all are dropped, and what is under way ends, so that nothing
     * of the caller's memory is used any more. */
    void (*drop)(struct tt_carrier *c, int peer);
    /* Lets peers take what was sent, for so many milliseconds at most. */
    void (*close)(struct tt_carrier *c, int patience_ms);
};

/* A plugin exports this; NULL if it is of another version. */
typedef const struct tt_carrier_table *tt_carrier_find_fn(uint32_t version);
#define TT_CARRIER_SYMBOL "tutti_carrier_table"

#endif

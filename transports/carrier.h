/* SPDX-License-Identifier: BSD-3-Clause */
/* carrier.h: what carries the messages of a tcp endpoint in place of its connections: a plugin for a faster
 * network (transports/ucx/). It knows bytes and ranks; slots, releases, how peers live and how a communicator
 * ends stay with the endpoint, whose connections go on beside it.
 *
 * One thread at a time uses a carrier, but for `release`. Nothing here waits, but for drop and close. */
#ifndef TT_TRANSPORTS_CARRIER_H
#define TT_TRANSPORTS_CARRIER_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_CARRIER_VERSION = 4, TT_CARRIER_ADDRESS = 184 };

struct tt_carrier_address {
    uint16_t bytes; /* 0: there is no carrier */
    uint8_t at[TT_CARRIER_ADDRESS];
};

struct tt_carrier_head { /* what goes before the bytes of each message */
    uint64_t token; /* of the receiver's endpoint */
    uint64_t number;
    uint32_t signature;
    int32_t from;
    uint8_t kind, class;
    uint8_t reserved[6];
    uint64_t released[2];
};
_Static_assert(sizeof(struct tt_carrier_head) == 48, "it goes over a network");

struct tt_carrier_params {
    int n; /* ranks */
    uint64_t token; /* of messages to this endpoint */
    /* Which transports and devices to use, as the carrier calls them; NULL: as its own settings say. */
    const char *transports, *devices;
    const char *rendezvous; /* from how many bytes on a receiver fetches them: "inf": never; NULL: as above */
    int64_t (*now_ms)(void);
    pthread_mutex_t *lock; /* of what the carriers of the process share: a fork waits for it */

    /* What the carrier tells its endpoint, from within what the endpoint calls. */
    void *endpoint;
    /* Where do the bytes of this message go? NULL: no peer sends such a one, and it is dropped. *keeps: they
     * may as well stay with the carrier until they are released. */
    void *(*place)(void *endpoint, const struct tt_carrier_head *head, uint64_t bytes, bool *keeps);
    /* They are at that place, or, `kept`, elsewhere. */
    void (*arrived)(
        void *endpoint, const struct tt_carrier_head *head, uint64_t bytes, void *payload, bool kept);
    /* The bytes of a send are not read any more, well or not. */
    void (*sent)(void *endpoint, void *send);

    /* There is something to progress: from any thread. */
    void (*wake)(void *endpoint);
};

struct tt_carrier;

struct tt_carrier_table {
    uint32_t version;
    const char *name;

    /* Opens a carrier. NULL if it cannot; then `why`, of so many bytes, has the reason. */
    struct tt_carrier *(*open)(const struct tt_carrier_params *params, char *why, size_t why_bytes);
    /* Returns how long the address is; it is written if there is room. */
    size_t (*address)(struct tt_carrier *c, struct tt_carrier_address *address);
    /* Sends to a peer, at this address the first time. 1: done; 0: under way, `sent` will be called with
     * `send`, and until then head and payload must stay; -1: it cannot. */
    int (*send)(struct tt_carrier *c, int peer, const struct tt_carrier_address *address,
        const struct tt_carrier_head *head, const void *payload, uint64_t bytes, void *send);
    bool (*progress)(struct tt_carrier *c); /* true if something happened */
    /* Before the endpoint's thread sleeps. Returns a descriptor that will be readable when there is something
     * to progress; -1: the thread of another endpoint looks, and wakes this one. `drove`: the endpoint's
     * caller was at work since the thread last slept, so its thread is the one that had better look. *busy:
     * there is something now. */
    int (*sleep_on)(struct tt_carrier *c, bool drove, bool *busy);
    void (*release)(struct tt_carrier *c, void *payload); /* that was kept: from any thread */
    /* The peer is gone: nothing more is sent to it. `silent`: so is its host, and what is under way there
     * ends. -1: all peers are dropped, and what is under way ends, so that nothing of the caller's memory is
     * used any more. */
    void (*drop)(struct tt_carrier *c, int peer, bool silent);
    /* Lets peers take what was sent, for so many milliseconds at most. What was kept has been released. */
    void (*close)(struct tt_carrier *c, int patience_ms);
};

/* A plugin exports this; NULL if it is of another version. */
typedef const struct tt_carrier_table *tt_carrier_find_fn(uint32_t version);
#define TT_CARRIER_SYMBOL "tutti_carrier_table"

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* transport.h: what the executor asks of a transport, and what it may rely on.
 *
 * A transport moves numbered messages between the ranks of one communicator and knows nothing of
 * communicators, schedules or types. Each rank holds one endpoint; an endpoint is used by one thread at a
 * time (abort excepted). No call but wait-free memory work (pull and tidy ask the system): nothing here
 * blocks, sleeps, allocates or logs after connect, and each call returns in time bounded by the bytes of
 * one message.
 *
 * Messages. (class, peer, direction) has its own space of 64-bit numbers, counted on both sides alike;
 * matching is by number, never by arrival. A number may be skipped (an empty message is neither sent nor
 * awaited).
 *
 * Slots. Each (class, pair, direction) has `slots` slots; message m uses slot m mod slots and may be
 * posted once the previous message *posted in that slot* has been released by its receiver. Messages
 * inside that window may be posted and released in any order. Classes never share a slot, so an unmatched
 * send cannot starve a collective. This is the rule the verifier's second mode assumes. A transport may let
 * messages pass that leave no bytes in their slot: then it has more lines than slots for them, and the same
 * rule for lines.
 *
 * Paths. The sender alone chooses how a message travels, names it in the message, and the receiver obeys.
 * A send is complete when nobody reads the sender's memory any more: at release for mapped and pulled, at
 * once for the others.
 *
 * Grants. Before a message has arrived its receiver may say where its bytes are to be put, in memory that
 * the sender can write. A sender that finds the grant may put them there itself, before or when it sends, and
 * then sends no more than that they are there (`placed`). A grant binds nobody: it may be found too late, or
 * never. It ends when the message is released. */
#ifndef TT_TRANSPORTS_TRANSPORT_H
#define TT_TRANSPORTS_TRANSPORT_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/layout.h"
#include "base/wait.h"
#include "tutti.h"

enum tt_class { TT_CLASS_COLLECTIVE, TT_CLASS_P2P, TT_CLASSES };

enum tt_path {
    TT_PATH_INLINE, /* the payload lies in the line of its flag */
    TT_PATH_MAPPED, /* the receiver reads the sender's buffer in place */
    TT_PATH_PULLED, /* the receiver copies out of the sender's process by system call */
    TT_PATH_COPIED, /* the sender copies into a slot that the receiver reads */
    TT_PATH_PLACED, /* the sender stored it where the receiver granted */
    TT_PATHS
};

enum tt_peek { TT_PEEK_NOTHING, TT_PEEK_THERE, TT_PEEK_PLACED, TT_PEEK_ODD };

/* Calls kept: more than a rank can be ahead of one that does not take its messages. */
enum { TT_SLOTS = 8, TT_ADDRESS_BYTES = 128, TT_CALLS_KEPT = 128 };

struct tt_message {
    int32_t peer;
    uint8_t class; /* enum tt_class */
    bool reduced; /* the receiver may combine it with others: it is not to be PULLED */
    bool placed; /* the bytes are where granted() said */
    uint64_t reads; /* of granted(): 1 + the receiver's message that is read element by element as this one is
                     * stored; 0: none */
    /* The receiver may overwrite the source once it is read: nobody else reads it, and this rank writes it
     * before its next use. */
    bool single_reader;
    uint32_t signature; /* hash of what was called */
    uint64_t number;
    uint64_t bytes; /* never 0; at most the endpoint's slot_bytes */
    struct tt_view source;
};

/* A message that has arrived, at least in part. Bytes [0, available) may be read; later there may be more. */
struct tt_arrival {
    uint8_t
        path; /* enum tt_path; PULLED: addresses are the sender's, read them with pull(); PLACED: the bytes
                   * are where they were to go, and nothing below tells where that is */
    bool packed; /* one run at `base`; else `view` */
    uint32_t signature;
    uint64_t bytes, available;
    uintptr_t base;
    struct tt_view view;
};

/* What a rank called: one of a ring of TT_CALLS_KEPT that its peers read when they wait long, to tell a
 * mismatch. */
struct tt_call_record {
    _Atomic uint64_t sequence; /* 0: never written; else 1 + the operation's number. Written last */
    uint64_t count;
    uint32_t signature;
    uint32_t op;
    int32_t root;
    uint32_t slices;
    uint8_t collective, algorithm, type, exact;
    uint8_t alone; /* of a wait: nothing else of this communicator is under way at that rank */
    uint8_t reserved[3];
    uint32_t looks, wait; /* of a wait: how often it has been looked at, and which one it is */
    uint8_t more[16];
};
_Static_assert(sizeof(struct tt_call_record) == 64, "one cache line");

/* A call that a rank refused for what its arguments were. */
enum { TT_REFUSAL_TEXT = 320 };
struct tt_refusal {
    int32_t peer; /* of a message: whom it was to go to, or come from; TT_NONE: a collective */
    bool sends; /* of a message: it was to go there */
    uint64_t number; /* that the operation, or the message, would have had */
    char text[TT_REFUSAL_TEXT];
};

/* Why a communicator ended. Each rank has one to write; the first to claim the abort word decides for all. */
struct tt_cause {
    int32_t status; /* tutti_status */
    int32_t rank; /* who found it */
    int32_t peer; /* whom it concerns, TT_NONE if nobody */
    uint32_t reserved;
    uint64_t sequence;
    char operation[32];
    char text[480];
};

enum tt_peer_state {
    TT_PEER_ALIVE,
    TT_PEER_LEFT, /* destroyed its end */
    TT_PEER_EXITED, /* its process has ended by itself */
    TT_PEER_DEAD /* it has ended, and did not say so */
};

struct tt_endpoint_params {
    int n, me;
    uint64_t slot_bytes; /* shared: the longest message */
    uint64_t first_number; /* shared: numbers of all spaces start here (tests start just below 2^32) */
    bool pull; /* may use PULLED where a self-test passes */
    bool map; /* may use MAPPED */
    uint64_t pull_from; /* the shortest message that goes PULLED; 0: as is fast */
    bool membarrier; /* may fence lightly (fence.h) where all ranks may */
    void (*copy)(void *dst, const void *src, size_t bytes); /* into lines that are here; NULL: memcpy */
};

struct tt_transport;
struct tt_link;

/* The head of every endpoint. */
struct tt_endpoint {
    const struct tt_transport *transport;
    int n, me;
    uint64_t slot_bytes;
    uint64_t path_bytes[TT_PATHS]; /* counted by the sender */
    const _Atomic uint32_t *ended; /* not 0: the communicator has */
    uint64_t post_bytes; /* the longest message that post takes */
    uint64_t copy_bytes; /* up to here a copy is faster than the wait for who reads the source */
    uintptr_t shared_from; /* memory that peers can map */
    uint64_t shared_bytes;
    struct tt_doorbell
        *doorbell; /* rung by peers whenever something changed for this rank; NULL: never sleep */
};

struct tt_transport {
    const char *name;

    /* Life. open fills address[TT_ADDRESS_BYTES]; the caller exchanges addresses; connect takes n of them,
     * in rank order. After connect on all ranks and one exchange more (the caller's), every call below is
     * legal. close is local, and any time: peers that still read keep what they read. */
    tutti_status (*open)(
        const struct tt_endpoint_params *params, uint8_t *address, struct tt_endpoint **endpoint);
    tutti_status (*connect)(struct tt_endpoint *e, const uint8_t *addresses);
    void (*close)(struct tt_endpoint *e);

    /* Sending. send: false if the slot is not free yet. sent: true once nobody reads the source. */
    bool (*send)(struct tt_endpoint *e, const struct tt_message *message);
    bool (*sent)(struct tt_endpoint *e, int peer, enum tt_class class, uint64_t number);

    /* Granting; all may be NULL. grant: the bytes may be put at `place`, which nobody else uses until the
     * message is released; false if it was, or the transport would not have it so (now: another grant may
     * have to end first). granted: a view like the message's source, of what its receiver granted; false if
     * there is nothing, or nothing that fits. `in_place`: or where the receiver can as well read the source.
     * grant_after: the same for a place from which the peer is still to read this rank's message `after`: it
     * may be stored there once that is released, or by the unit that reads it, element by element
     * (message->reads). reply_in_place: the message may be stored, and sent as `placed`, where the one lies
     * that the unit reads, until then and after its release, and granted is false for it from now on; false:
     * the one that is read does not change hands. */
    bool (*grant)(struct tt_endpoint *e, int peer, enum tt_class class, uint64_t number, uint32_t signature,
        const struct tt_view *place);
    bool (*grant_after)(struct tt_endpoint *e, int peer, enum tt_class class, uint64_t number,
        uint32_t signature, const struct tt_view *place, uint64_t after);
    bool (*granted)(
        struct tt_endpoint *e, const struct tt_message *message, bool in_place, struct tt_view *place);
    bool (*reply_in_place)(struct tt_endpoint *e, const struct tt_message *message, struct tt_view *place);

    /* Receiving. arrived: false if nothing of it is there. `like` is a view with the receiver's layout,
     * chunk count and slice. pull copies bytes [at, at + bytes) of the message; release frees the slot:
     * nothing of it is read any more. */
    bool (*arrived)(struct tt_endpoint *e, int peer, enum tt_class class, uint64_t number,
        const struct tt_view *like, struct tt_arrival *arrival);
    tutti_status (*pull)(struct tt_endpoint *e, int peer, const struct tt_arrival *arrival, uint64_t at,
        void *dst, uint64_t bytes);
    void (*release)(struct tt_endpoint *e, int peer, enum tt_class class, uint64_t number);

    /* The same for messages that are one run, are copied, and have come in full; they go by a link, which is
     * all of one class between this rank and one peer, and lives as long as the endpoint. post: as send, and
     * complete at once. lend: the same of shared memory, and the peer reads it in place: sent() tells when it
     * has. peek: *payload are the bytes, until done, which is release, if they are `bytes` that were copied
     * with this signature, or lent while this rank is inside (below). PLACED: they lie where they were
     * granted, and *payload is as it was; ODD: it is NULL, and arrived tells. offer: as grant, or, where
     * `after` is 1 + a message, as grant_after. offered: where a message may be put, NULL if nowhere; then
     * post it with `src` NULL. kept: where the message lies that peek found, if that stays this rank's memory
     * once it is released, so that the answer can be written there, element by element as it is read, and
     * posted without a copy; else NULL. NULL: this transport has none of them. */
    struct tt_link *(*link)(struct tt_endpoint *e, int peer, enum tt_class class);
    bool (*post)(struct tt_link *link, uint64_t number, uint32_t signature, const void *src, uint32_t bytes);
    bool (*lend)(struct tt_link *link, uint64_t number, uint32_t signature, const void *src, uint32_t bytes);
    enum tt_peek (*peek)(
        struct tt_link *link, uint64_t number, uint32_t signature, uint32_t bytes, const void **payload);
    void (*done)(struct tt_link *link, uint64_t number);
    bool (*offer)(struct tt_link *link, uint64_t number, uint32_t signature, void *place, uint32_t bytes,
        uint64_t after);
    void *(*offered)(
        struct tt_link *link, uint64_t number, uint32_t signature, uint32_t bytes, uint64_t reads);
    void *(*kept)(struct tt_link *link, uint64_t number);

    /* Ranks that are threads of one process read each other's private memory, and any rank may store where
     * another one granted, or spoil what it sent once. So a rank that gives an operation up must not return
     * while a peer may still be at it. enter and leave stand around everything that uses peers' memory, and
     * nest; enter is false, and nothing must be used, once the communicator has ended. quiet: no peer is
     * between the two, and what this rank granted is granted no more, nor is anything spoilt; `patient`: no
     * peer of another process is either, if it lives. inside: this rank is between the two; any thread may
     * ask. */
    bool (*enter)(struct tt_endpoint *e);
    void (*leave)(struct tt_endpoint *e);
    bool (*inside)(struct tt_endpoint *e);
    bool (*quiet)(struct tt_endpoint *e, bool patient);

    /* This rank waits anyway: memory of slots that no message has used since the last call of this may
     * return to the system. That takes a while here, and once more when a slot is used again; the caller sees
     * to it that it is rare. NULL: nothing returns. */
    void (*tidy)(struct tt_endpoint *e);

    /* The control plane: any number of ranks may read, each writes its own. `publish` announces the
     * operation that begins, `complete` that all operations below `sequence` are over at this rank. */
    void (*publish)(struct tt_endpoint *e, const struct tt_call_record *call, uint64_t sequence);
    void (*complete)(struct tt_endpoint *e, uint64_t sequence);
    bool (*call_of)(struct tt_endpoint *e, int peer, uint64_t sequence, struct tt_call_record *call);
    uint64_t (*completed_by)(struct tt_endpoint *e, int peer);
    /* Of messages, which no ring tells: a rank that has waited long says in which one, and by NULL that it
     * waits no more. wait_of: what that rank said; false: nothing. Both may be NULL. */
    void (*tell_wait)(struct tt_endpoint *e, const struct tt_call_record *call);
    bool (*wait_of)(struct tt_endpoint *e, int rank, struct tt_call_record *call);
    /* refuse: this rank has refused a call; NULL: it takes back all that it said so far. The last text stands
     * for all. refused: has `rank` said so of a collective, or, as `sends` says, of a message to or from
     * `peer`; then which one was it, and with which text? Both may be NULL. One thread at a time refuses. */
    void (*refuse)(struct tt_endpoint *e, const struct tt_refusal *refusal);
    bool (*refused)(struct tt_endpoint *e, int rank, struct tt_refusal *refusal);
    enum tt_peer_state (*peer_state)(struct tt_endpoint *e, int peer); /* may make a system call */
    long (*process_of)(const struct tt_endpoint *e, int peer); /* its number; NULL: ranks are no processes */

    /* The first cause wins; true if it is this one. Wakes every rank. Any thread. `cause` is one load when
     * there is none. */
    bool (*abort)(struct tt_endpoint *e, const struct tt_cause *cause);
    bool (*cause)(struct tt_endpoint *e, struct tt_cause *cause);
};

extern const struct tt_transport tt_shm;

/* A view of as much as this one, in one run at `address`; false if its chunks do not stand in a row. */
static inline bool tt_view_pack(const struct tt_view *like, uintptr_t address, struct tt_view *view)
{
    uint64_t count;
    *view = (struct tt_view){ like->layout, { 0 }, like->chunk % like->layout->chunks, like->nchunks,
        like->slice };
    if ((uint64_t)view->chunk + view->nchunks > view->layout->chunks)
        return false;
    view->space.base = address - tt_view_run(view, 0, &count);
    return true;
}

/* The contiguous bytes at byte `at` of an arrival: address (the sender's for PULLED) and length. */
static inline uintptr_t tt_arrival_run(const struct tt_arrival *a, uint64_t at, uint64_t *bytes)
{
    if (a->packed) {
        *bytes = a->bytes - at;
        return a->base + at;
    }
    uint64_t element = a->view.layout->element_bytes;
    uintptr_t address = tt_view_run(&a->view, at / element, bytes);
    *bytes *= element;
    return address;
}

#endif

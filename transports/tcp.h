/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp.h: messages between hosts by TCP, and what ranks of other hosts tell each other besides; what its files
 * share. tcp.c has the endpoint and its links, tcp_control.c the control table, tcp_wire.c what goes over a
 * connection, tcp_sleep.c the sleep of a caller; tcp_thread.h the thread of the process, and connections.
 *
 *     rank 0                        rank 2
 *     fd <---- messages, words ----> fd         a connection goes both ways, and is made by the first that
 *                                               has something to say
 *
 * So a rank has connections to those that it talks with, and no others. They go both ways because what comes
 * back then acknowledges what went: two packets for two messages, not four. Who is dialed answers the
 * greeting before either says more. Where two dial each other at once, the lower rank leaves the greeting of
 * the other without an answer, and its own gets one.
 *
 * Whoever needs something drives: the caller, when what it looks for is not there, reads and writes by
 * itself, and where it has peers on other hosts alone it sleeps in poll; else the thread does. One of them at
 * a time (`driving`). While the caller drives, or sleeps so, the thread leaves the endpoint alone.
 *
 * Each word has one writer at a time:
 *
 *     slot of a link       state FREE -> FULL -> DONE -> FREE; who may write next is said at enum tcp_state
 *     struct tcp_control   of this rank: the caller writes; of a peer: who drives writes what that one told
 *     claim, cause         written once, before the flag that says so
 *
 * Of its own accord a rank tells nothing but messages, how a communicator ends, and that it leaves. A peer
 * that has waited long asks for the rest (TCP_ASK), and finds the answer when it looks again. */
#ifndef TT_TRANSPORTS_TCP_H
#define TT_TRANSPORTS_TCP_H
#include <pthread.h>
#include <stddef.h>

#include "base/clofork.h"
#include "base/net.h"
#include "transports/carrier.h"
#include "transports/transport.h"

#define TCP_MAGIC UINT64_C(0x0009706374747574) /* "tuttcp", and the version of what follows */
enum { TCP_TOKEN_BYTES = 16, TCP_COPY_BYTES = 8 << 10, TCP_BUFFER_BYTES = 16 << 10, TCP_PAGE = 4096 };
enum { TCP_FEW_BYTES = 512 }; /* so few go as one part with their head, and lie close together */
enum { TCP_PATH_BYTES = 4096 };
enum { TCP_CLOSE_MS = 2000 }; /* so long a rank that closes waits for peers to take what it sent */
/* Slots are many, so that who only sends few bytes need not wait for its peer after each few of them. Long
 * messages have room for TT_SLOTS: the slots that are so many apart share it, and one of them may be long. */
enum { TCP_SLOTS = 64, TCP_ROOMS = TT_SLOTS };
_Static_assert(TCP_SLOTS % TCP_ROOMS == 0 && TCP_SLOTS <= 64, "a frame has a bit for each");
/* Releases that a peer is told of by themselves: so many, or so many of long messages. */
enum { TCP_TOLD_AT = TCP_SLOTS / 2, TCP_LONG_TOLD_AT = TCP_ROOMS / 2 };

struct tcp_address {
    uint64_t magic;
    int32_t rank, pid;
    struct tt_net net;
    uint8_t token[TCP_TOKEN_BYTES]; /* only who has this address knows it */
    uint64_t loopback; /* ranks that have the same one reach each other by it */
    struct tt_carrier_address carrier;
};
_Static_assert(sizeof(struct tcp_address) <= TT_ADDRESS_BYTES, "an address fits");
_Static_assert((int)TT_HOST_TEXT == (int)TT_NET_TEXT, "so does what is printed of it");

struct tcp_greeting { /* the first bytes of a connection, and of the answer */
    uint64_t magic;
    int32_t from, to;
    uint8_t token[TCP_TOKEN_BYTES]; /* of `to` */
};
struct tcp_heard { /* as much of one as has come */
    struct tcp_greeting words;
    size_t have;
};

/* Of a slot to send from: the caller fills a FREE one; who drives makes a FULL one DONE when it is written,
 * and FREE when the peer tells of its release. Of a slot to receive into: who drives fills a FREE one, the
 * caller makes it DONE by its release, and who drives FREE again when it tells the sender. A rank's slots to
 * itself need nobody who drives: the caller fills and frees them. CARRIED: a carrier has it, and makes it
 * DONE. */
enum tcp_state { TCP_FREE, TCP_FULL, TCP_CARRIED, TCP_DONE };
struct tcp_slot {
    _Atomic uint32_t state;
    uint32_t signature;
    uint64_t number, bytes;
    uint8_t *memory; /* the slot's own room for this message (tt_tcp_make_room) */
    uint8_t *payload; /* memory, or the caller's bytes, or what it has granted, or what the carrier keeps */
    bool kept; /* the carrier is to be told of the release */
    uint64_t granted; /* 1 + the number of the message that may be put at `place`; 0: none. With `driving` */
    uint64_t place_bytes;
    uint8_t *place;
    struct tt_carrier_head carried;
    bool early; /* the peer has released it, and the carrier does not know yet that it is sent */
};

struct tcp_link {
    struct tt_link head; /* first */
    struct tcp_slot *out, *in; /* TCP_SLOTS, and behind them as many; in: also what a rank sends to itself */
    /* TCP_ROOMS for out, as many for in, of slot_bytes each; then TCP_COPY_BYTES a slot; then few */
    uint8_t *rooms;
    _Atomic uint64_t full; /* a bit for each slot of `out` that is FULL; set after its state */
    _Atomic uint32_t releases; /* DONE slots of `in`, of which the peer has not been told */
    _Atomic uint32_t long_releases; /* of them, those of long messages */
};

/* A cell holds a struct that is read while it may be replaced: a version, which is odd meanwhile and 0 before
 * the first time, and the words. One thread at a time writes; any may read. */
typedef _Atomic uint64_t tcp_word;
enum {
    TCP_RECORD_WORDS = sizeof(struct tt_call_record) / 8,
    TCP_TEXT_WORDS = TT_REFUSAL_TEXT / 8,
    TCP_NOTE_WORDS = sizeof(struct tt_note) / 8,
    /* What a rank is told that another one refused: 1 + the numbers of a collective, of a receive from it,
     * and of a send to it, or 0; and the last text. */
    TCP_REFUSED_NUMBERS = 3,
    TCP_REFUSED_WORDS = TCP_REFUSED_NUMBERS + TCP_TEXT_WORDS
};
void tt_tcp_cell_write(tcp_word *cell, const void *bytes, size_t words);
/* Returns the version that was read; 0 if there is none, or if it is being replaced. */
uint64_t tt_tcp_cell_read(const tcp_word *cell, void *bytes, size_t words);
struct tcp_endpoint;
/* The same of what this rank refused, as a peer is told: TCP_REFUSED_WORDS. */
uint64_t tt_tcp_refused(const struct tcp_endpoint *e, int rank, uint8_t *told);

/* What one rank tells others when they ask. A record's `sequence` is 1 + the number of its operation; that of
 * the wait is 1, or 0 if the rank waits for nothing. */
struct tcp_control {
    tcp_word calls[TT_CALLS_KEPT][1 + TCP_RECORD_WORDS];
    tcp_word wait[1 + TCP_RECORD_WORDS];
    tcp_word note[1 + TCP_NOTE_WORDS];
    tcp_word refusals[1 + TCP_REFUSED_WORDS]; /* by a peer; of this rank: tcp_endpoint.refused */
};

enum tcp_kind {
    TCP_MESSAGE,
    TCP_RELEASE, /* only what every frame has: which slots are free again */
    TCP_WANT, /* no slot is free: tell of releases, however few */
    TCP_ASK, /* tell of calls, the wait, the note and refusals; ends with COMPLETED */
    TCP_CALL,
    TCP_COMPLETED,
    TCP_WAIT,
    TCP_NOTE,
    TCP_REFUSALS,
    TCP_CLAIM, /* "this is the cause, if it is the first": to the rank that decides */
    TCP_CAUSE, /* of the end, as decided: to all */
    TCP_GOODBYE, /* the last one: this rank closes its endpoint, or has aborted it alone */
    TCP_KINDS
};
struct tcp_frame { /* as on the wire; `bytes` of payload follow */
    uint8_t kind, class;
    uint16_t aborted; /* of a goodbye: this rank has aborted its end alone; else 0 */
    uint32_t signature;
    uint64_t released[TT_CLASSES]; /* a bit for each slot */
    uint64_t number; /* of a message, an operation; of a claim, a cause: who found it; else: completed */
    uint64_t bytes;
};

struct tcp_transfer { /* of a frame that is being read, or written */
    struct tcp_frame frame;
    uint64_t at, size; /* frame and payload; size 0: no frame is under way */
    uint8_t *payload;
    uint8_t *staging; /* room for the payload of a frame that is no message */
};
enum { TCP_STAGING_BYTES = sizeof(struct tt_cause) };
_Static_assert(8 * TCP_REFUSED_WORDS <= TCP_STAGING_BYTES && sizeof(struct tt_note) <= TCP_STAGING_BYTES &&
                   sizeof(struct tt_call_record) <= TCP_STAGING_BYTES,
    "the longest");

enum tcp_want { TCP_ENOUGH, TCP_WANTS, TCP_TOLD }; /* what a rank does of slots; the peer was told so */
enum tcp_connection { TCP_NOT_DIALED, TCP_DIALING, TCP_GREETED, TCP_OPEN, TCP_CLOSED };

struct tcp_carried { /* what a carrier has to do with one peer */
    uint32_t sent, received; /* messages and words */
    int64_t refused_ns; /* since when it takes no more; 0: it does */
    bool greet; /* it has spoken for the first time, and is to be answered before either leaves */
    bool speaking; /* `word` is under way */
    struct tt_carrier_head word;
    /* An answer that counts when so many have been received. */
    bool promised, leaves, aborted;
    int64_t leaves_ns; /* since when */
    uint32_t count;
    uint64_t completed;
};

struct tcp_peer {
    struct tcp_address address;
    _Atomic int state; /* enum tt_peer_state */
    _Atomic bool awaited; /* this rank has looked for a message of it, or for room for one to it */
    _Atomic uint64_t completed; /* all its operations below are over */
    struct tcp_control *control; /* of this rank itself: what it tells */

    _Atomic int connection; /* enum tcp_connection */
    int fd; /* -1: there is none, or none any more */
    int theirs_fd; /* what the peer, a higher rank, dials while this one does; -1: it does not */
    struct tcp_heard answer;
    unsigned turned_away; /* so often */
    int64_t since_ns; /* of dialing; 0: it has an answer, or nobody dials */
    int64_t began_ns; /* of the first of several times */
    bool paced; /* what is written goes at the rate that the system has seen */
    _Atomic bool met; /* it has dialed, or said something */
    _Atomic bool known; /* it is in the list of peers that there is something with */
    struct tcp_transfer in, to;
    uint8_t *buffer; /* bytes that have come, and are no payload of a message */
    size_t have, used;

    /* What is to be told, and what the peer has been told. */
    _Atomic bool ask; /* this rank asks */
    int64_t ask_ns; /* not before, it asks again; of the caller */
    struct {
        _Atomic int want; /* enum tcp_want */
        _Atomic bool wanted; /* the peer wants some */
        int64_t lacking_ns; /* since when the caller lacks one; 0: it does not */
    } slots;
    bool asked; /* the peer asks */
    bool answering; /* an answer of the peer is awaited */
    struct { /* of what the peer was told last: a number, and versions of cells */
        uint64_t call, wait, note, refusals;
    } told;
    bool claim, cause, goodbye;
    struct tcp_carried carried;
};

struct tcp_end { /* how the communicator ends */
    pthread_mutex_t aborting;
    struct tt_cause claim, cause;
    _Atomic bool claimed; /* by this rank */
    _Atomic bool impatient; /* it has waited long enough for the rank that decides */
    struct tt_cause first_claim; /* of any rank, the first that came here */
    int first_claimer; /* TT_NONE: nobody */
    bool by_any; /* this rank makes no connection: any that it has one with is to pass its claim on */
    _Atomic uint32_t decided; /* 1 + the rank that found the cause */
    int64_t decided_ns; /* since when; of the rank that decides */
    _Atomic uint32_t ended; /* the same, once the caller is to know */
    struct tt_cause alone; /* of this rank's local abort */
    _Atomic uint32_t local_aborts, seen;
};

/* What only ranks that talk need of each other. */
struct tcp_talk {
    struct tcp_slot slots[TT_CLASSES][2][TCP_SLOTS];
    struct tcp_control control;
    uint8_t staging[2][TCP_STAGING_BYTES], buffer[TCP_BUFFER_BYTES];
};

struct tcp_endpoint {
    struct tt_endpoint head; /* first */
    struct tt_endpoint_params params;
    struct tcp_peer *peers; /* n */
    struct tcp_link *ends; /* [class][n] */
    struct { /* the peers that there was ever something with, so that nobody looks at all of them */
        _Atomic int count;
        _Atomic int *ranks; /* n; 1 + the rank, or 0: it is just being written */
    } known;
    /* What it has with each peer: a tcp_talk, and, behind all of these, the rooms of its slots. The system
     * gives what is touched, so peers that a rank never talks with take none of it. */
    uint8_t *memory;
    uint64_t memory_bytes;
    _Atomic uint64_t begun; /* 1 + the last operation of this rank; 0: none */
    tcp_word *refused; /* what this rank refused: a cell with 1 + the numbers, or 0, of a collective, and of a
                        * receive from each rank and a send to it; and the last text */

    int listener;
    uint8_t token[TCP_TOKEN_BYTES];
    struct tcp_server *server; /* the thread of this process; tcp_thread.h */
    struct tcp_watch *watch; /* what it has of this endpoint */
    pthread_mutex_t driving;
    bool connected, deaf; /* deaf: buffers are given back, so no message is read or written any more */
    _Atomic uint32_t looks; /* connections that were made only to ask */
    struct { /* how often the caller drove, and how many of these turns the thread has seen */
        _Atomic uint32_t taken;
        uint32_t seen, watched; /* watched: when it last looked for the carrier */
        struct tcp_sleep *asleep; /* what the caller polls when it sleeps */
        _Atomic bool stopped; /* the thread waits for its own turn: the caller takes none */
    } turns;
    _Atomic bool woken, closing;
    int64_t close_ns; /* when it waits no more for peers that do not take what was sent */

    struct tcp_end end;
    const struct tt_carrier_table *carries;
    struct tt_carrier *carrier; /* NULL: connections carry messages, too */

    _Atomic uint32_t inside;
    struct tt_doorbell bell;
};

static inline struct tcp_link *tt_tcp_link_of(struct tcp_endpoint *e, unsigned class, int rank)
{
    return &e->ends[class * (unsigned)e->head.n + (unsigned)rank];
}

static inline bool tt_tcp_is_long(uint64_t bytes)
{
    return bytes > TCP_COPY_BYTES;
}
static inline uint64_t tt_tcp_room_bytes(const struct tt_endpoint *e)
{
    return (e->slot_bytes + TCP_PAGE - 1) / TCP_PAGE * TCP_PAGE;
}
/* A message of so many bytes is to lie in this slot. */
static inline uint8_t *tt_tcp_make_room(const struct tcp_link *link, struct tcp_slot *slot, uint64_t bytes)
{
    uint64_t room_bytes = tt_tcp_room_bytes(link->head.endpoint), i = (uint64_t)(slot - link->out);
    uint64_t room = i / TCP_SLOTS * TCP_ROOMS + i % TCP_ROOMS;
    uint64_t copies = 2 * TCP_ROOMS * room_bytes, few = copies + (uint64_t)2 * TCP_SLOTS * TCP_COPY_BYTES;
    uint64_t at = tt_tcp_is_long(bytes)    ? room * room_bytes
                  : bytes <= TCP_FEW_BYTES ? few + i * TCP_FEW_BYTES
                                           : copies + i * TCP_COPY_BYTES;
    slot->memory = link->rooms + at;
    return slot->memory;
}
/* A FULL slot of `out` comes into another state. */
static inline void tt_tcp_take_full(struct tcp_link *link, struct tcp_slot *slot, enum tcp_state state)
{
    atomic_fetch_and(&link->full, ~(UINT64_C(1) << (slot - link->out)));
    atomic_store(&slot->state, state);
}

/* There is something with this peer, from now on: who has something for it says so before. */
void tt_tcp_know(struct tcp_endpoint *e, int rank);
/* Walks through the peers that there is something with, from *at on, or through `all`. TT_NONE: no more. */
int tt_tcp_next(const struct tcp_endpoint *e, bool all, int *at);
/* A peer has dialed, or said something. */
static inline void tt_tcp_meet(struct tcp_peer *p)
{
    if (!atomic_load_explicit(&p->met, memory_order_relaxed))
        atomic_store(&p->met, true);
}

extern const struct tt_control_ops tt_tcp_control_ops;

/* Opens a carrier, and writes its address. False if there is none: `why` says why. */
bool tt_tcp_carrier_open(struct tcp_endpoint *e, struct tcp_address *mine, char *why, size_t bytes);
void tt_tcp_carrier_close(struct tcp_endpoint *e);
/* What was received in a slot is not read any more: the carrier has it back, if it kept it. */
static inline void tt_tcp_let_go(struct tcp_endpoint *e, struct tcp_slot *slot)
{
    if (slot->kept)
        e->carries->release(e->carrier, slot->payload);
    slot->kept = false;
}
/* With `driving`: hands the carrier what is to be said to this peer. */
void tt_tcp_carry(struct tcp_endpoint *e, int rank);
/* The same, for a caller: a message goes at once, since the peer waits for it; else what has come is taken
 * before. */
void tt_tcp_carry_first(struct tcp_endpoint *e, int rank, bool news);
/* The peer has said goodbye, and what it sent before by a carrier is not all here: its connections stay. */
static inline bool tt_tcp_is_leaving(const struct tcp_peer *p)
{
    return p->carried.promised && p->carried.leaves;
}
/* A peer is still to hear by the carrier that this rank has heard it. */
bool tt_tcp_is_greeting(const struct tcp_peer *p);
/* With `driving`: an answer of this peer counts, if all that it sent before is here. */
void tt_tcp_keep_promises(struct tcp_endpoint *e, int rank);

/* Tells the thread that there is something to do. */
void tt_tcp_wake(struct tcp_endpoint *e);
/* The caller drives the connections with one peer, if nobody drives. `news`: there is something that the peer
 * is to be told, now or soon. */
void tt_tcp_drive(struct tcp_endpoint *e, int rank, bool news);

/* Sleeps in place of the caller, by poll. */
tutti_status tt_tcp_sleep_open(struct tcp_endpoint *e);
void tt_tcp_sleep_close(struct tcp_endpoint *e);

/* With `driving`: read what has come; write what is to be said. */
void tt_tcp_read(struct tcp_endpoint *e, int rank);
void tt_tcp_write(struct tcp_endpoint *e, int rank);
/* Parts of that, which a carrier shares. */
struct tcp_slot *tt_tcp_find_full(struct tcp_endpoint *e, int rank, uint8_t *class);
bool tt_tcp_releases_are_news(struct tcp_endpoint *e, int rank);
void tt_tcp_collect_releases(struct tcp_endpoint *e, int rank, uint64_t released[TT_CLASSES]);
bool tt_tcp_take_releases(struct tcp_endpoint *e, int rank, const struct tcp_frame *f);
/* Returns where the bytes of a message go that comes; NULL: its slot is not free. */
uint8_t *tt_tcp_place_of(struct tcp_endpoint *e, int rank, unsigned class, uint64_t number, uint64_t bytes);
void tt_tcp_fill(struct tcp_endpoint *e, int rank, const struct tcp_frame *f, uint8_t *payload);
/* Ends the communicator because this rank has no descriptor left (EMFILE, or ENFILE). */
void tt_tcp_claim_lack(struct tcp_endpoint *e, int number);
/* Ends the communicator because this peer cannot be reached. */
void tt_tcp_claim_unreachable(struct tcp_endpoint *e, int rank, const char *why);

/* True if there is something that this peer is to be told. */
bool tt_tcp_has_news(struct tcp_endpoint *e, int rank);
/* Decides which cause ends the communicator, if this rank is to and one is known. */
void tt_tcp_decide(struct tcp_endpoint *e);
/* Lets the caller of the rank that decided know, once all others have been told. */
void tt_tcp_end_when_told(struct tcp_endpoint *e);
/* Closes a descriptor, if there is one. */
static inline void tt_tcp_hang_up(int *fd)
{
    if (*fd >= 0)
        tt_clofork_close(*fd);
    *fd = -1;
}
/* Closes the connection with a peer, if there is one. */
void tt_tcp_part(struct tcp_endpoint *e, int rank);
/* The peer is in this state from now on; the connection with it is closed. */
void tt_tcp_lose(struct tcp_endpoint *e, int rank, enum tt_peer_state state);

/* From here to `leave` the process has a thread for its endpoints, or is to have one. */
tutti_status tt_tcp_server_join(struct tcp_endpoint *e);
void tt_tcp_server_leave(struct tcp_endpoint *e);
/* From now on the thread serves this endpoint. */
tutti_status tt_tcp_thread_start(struct tcp_endpoint *e);
tutti_status tt_tcp_server_begin(struct tcp_endpoint *e);
/* Lets the thread say all that is still to be said, and goodbye; returns when each peer has taken it, or has
 * gone, at the latest at close_ns. */
void tt_tcp_server_end(struct tcp_endpoint *e);
void tt_tcp_thread_free(struct tcp_endpoint *e);

extern const struct tt_transport tt_tcp;

#endif

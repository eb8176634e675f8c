/* SPDX-License-Identifier: BSD-3-Clause */
/* transport.h: what the executor asks of a transport, and what it may rely on.
 *
 * A transport moves numbered messages between the ranks of one communicator and knows nothing of
 * communicators, schedules or types. Each rank holds one endpoint, and a link for each class and peer; both
 * are used by one thread at a time, but for abort. After connect nothing here allocates or logs, nothing but
 * abort blocks, and only tidy and what moves long messages ask the system; each call returns in time bounded
 * by the bytes of a message in each slot.
 *
 * Messages. Each direction of a link has its own space of 64-bit numbers, counted on both sides alike;
 * matching is by number, never by arrival. A number may be skipped (an empty message is neither sent nor
 * awaited).
 *
 * Slots. Each direction of a link has TT_SLOTS slots; message m uses slot m mod TT_SLOTS and may be posted
 * once the previous message *posted in that slot* has been released by its receiver. Messages inside that
 * window may be posted and released in any order. Classes never share a slot, so an unmatched send cannot
 * starve a collective. This is the rule the verifier's second mode assumes. A transport may let messages
 * pass that leave no bytes in their slot: then it has more lines than slots for them, and the same rule for
 * lines.
 *
 * Paths. The sender alone chooses how a message travels, names it in the message, and the receiver obeys. A
 * send is complete when nobody reads the sender's memory any more: at release for mapped and pulled (or when
 * sent() has copied what could not be pulled), when it is written for what goes over a network from where it
 * lies, at once for the others.
 *
 * Grants. Before a message has arrived its receiver may say where its bytes are to be put. A sender that can
 * write there and finds the grant may put them there itself, before or when it sends, and then sends no more
 * than that they are there (`placed`); or the receiver's own transport puts them there as they come. A grant
 * binds nobody: it may be found too late, or never. It ends when the message is released.
 *
 * A transport is three tables: what a link does with messages (tt_link_ops), what ranks know of each other
 * besides messages (tt_control_ops), and what it does with memory and descriptors (tt_memory_ops). The links
 * of a communicator may be of different transports. */
#ifndef TT_TRANSPORTS_TRANSPORT_H
#define TT_TRANSPORTS_TRANSPORT_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fence.h"
#include "base/layout.h"
#include "base/wait.h"
#include "tutti.h"

enum tt_class { TT_CLASS_COLLECTIVE, TT_CLASS_P2P, TT_CLASSES };

enum tt_path {
    TT_PATH_INLINE, /* the payload lies in the line of its flag */
    TT_PATH_MAPPED, /* the receiver reads the sender's buffer in place */
    TT_PATH_COPIED, /* the sender copies into a slot that the receiver reads */
    TT_PATH_PLACED, /* it was stored where the receiver granted */
    TT_PATH_PULLED, /* the receiver reads it by system call, to where it granted: it arrives PLACED */
    TT_PATHS
};

enum tt_peek { TT_PEEK_NOTHING, TT_PEEK_THERE, TT_PEEK_PLACED, TT_PEEK_ODD };

/* Calls kept: more than a rank can be ahead of one that does not take its messages. */
enum { TT_SLOTS = 8, TT_ADDRESS_BYTES = 256, TT_CALLS_KEPT = 128, TT_MEMORY_FDS = 2 };
/* An endpoint over several transports has room for so many, and an address of each (mixed.c). */
enum { TT_PARTS_MAX = 2, TT_ADDRESS_MAX = TT_PARTS_MAX * TT_ADDRESS_BYTES };
#define TT_WAIT UINT64_MAX /* in place of an operation's number: a message */
#define TT_ALL_OVER (UINT64_MAX - 1) /* completed by a rank that makes no calls any more */

struct tt_message {
    bool placed; /* the bytes are where target() said */
    uint64_t reads; /* of target(): 1 + the receiver's message that is read element by element as this one is
                     * stored; 0: none */
    bool halves; /* both ends have time: the sender may do what else its receiver would */
    uint64_t whole; /* bytes of the chunk of which it is the first slice, in one run, if it may stand for all
                     * of them: none of them changes until it is sent; else 0 */
    bool goes_on; /* the receiver is in the call if it has released, or granted, what this one follows */
    /* The receiver may overwrite the source once it is read: nobody else reads it, and this rank writes it
     * before its next use. */
    bool single_reader;
    uint32_t signature; /* hash of what was called */
    uint64_t number;
    uint64_t bytes; /* never 0; at most the endpoint's slot_bytes */
    struct tt_view source; /* its layout must live until the message is sent() */
};

/* The places where the bytes of a message may be put. */
enum tt_target {
    TT_TARGET_NONE, /* nowhere but where they are */
    TT_TARGET_GRANTED, /* where its receiver granted */
    TT_TARGET_REPLY /* where the message lies that the unit reads, which goes back with the answer */
};
/* How a message stands that may be one for its whole chunk. */
enum tt_whole {
    TT_WHOLE_NOT, /* it is one of its own slice */
    TT_WHOLE_IDLE, /* nobody could do anything */
    TT_WHOLE_MOVED, /* some of it was moved */
    TT_WHOLE_DONE /* all is at the receiver's */
};
enum { TT_ALLOW_REPLY = 1, TT_UNLESS_READABLE = 2 }; /* flags of target() */

/* A message that has arrived, at least in part. Bytes [0, available) may be read; later there may be more. */
struct tt_arrival {
    uint8_t path; /* enum tt_path; of PLACED nothing below tells where the bytes are */
    bool packed; /* one run at `base`; else `view` */
    uint32_t signature;
    uint64_t bytes, available;
    uintptr_t base;
    struct tt_view view;
};

/* The record of a call: one of a ring of TT_CALLS_KEPT that peers of a rank read when they wait long, to tell
 * a mismatch. */
struct tt_call_record {
    _Atomic uint64_t sequence; /* 0: never written; else 1 + the operation's number. Written last */
    uint64_t count;
    uint32_t signature;
    uint32_t op;
    int32_t root;
    uint32_t slices;
    uint8_t collective, algorithm, type, exact;
    uint8_t alone; /* of a wait: nothing else of this communicator is under way at that rank */
    uint8_t led; /* a kernel of one rank does it, for calls on streams of a device */
    uint8_t reserved[2];
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

/* What a rank has for peers that look for it. */
struct tt_note {
    uint64_t about; /* who writes it says what it means; 0: nothing */
    uint8_t bytes[128];
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
    TT_PEER_ABORTED, /* aborted its end alone */
    TT_PEER_EXITED, /* its process has ended by itself */
    TT_PEER_DEAD, /* it has ended, and did not say so */
    TT_PEER_GONE, /* it ended, or destroyed its end, before this rank had met it: nobody can say which */
    TT_PEER_REFUSES, /* its address refuses connections: it is GONE, or that is not where it is */
    TT_PEER_SILENT /* its host has not answered for so long that it is taken to be gone */
};

enum { TT_HOST_TEXT = 64 };
struct tt_peer_place { /* where a peer runs */
    long process; /* its number; 0: ranks are no processes */
    char host[TT_HOST_TEXT]; /* how that is reached; "": it is this rank's own */
    char from[TT_HOST_TEXT]; /* how this rank is reached by it; "": likewise */
};

struct tt_endpoint_params {
    int n, me;
    uint64_t slot_bytes; /* shared: the longest message */
    uint64_t first_number; /* shared: numbers of all spaces start here (tests start just below 2^32) */
    bool map; /* may use MAPPED */
    uint64_t pull; /* enum tt_pull (config.h): may use PULLED */
    bool membarrier; /* may fence lightly (fence.h) where all ranks may */
    uint64_t network; /* enum tt_network */
    const char *congestion; /* shared: control of connections; NULL: the system's */
    uint32_t words; /* shared: how many words the ranks of a host are to have in common; see tt_endpoint */
    uint64_t heartbeat_ms; /* a host that answers nothing for so long is gone; 0: as the system has it */
    void (*copy)(void *dst, const void *src, size_t bytes); /* into lines that are here; NULL: memcpy */
    const struct tt_transport *const *transports; /* of a mixed endpoint; NULL: those of the registry */
};

struct tt_transport;
struct tt_endpoint;
struct tt_link;

/* The data part of a transport: what a link does with messages. */
struct tt_link_ops {
    /* send: false if the slot is not free yet. post: a short form of send for one run that is copied, and
     * complete at once; at most the endpoint's post_bytes. `src` NULL: the bytes are where target() said.
     * sent: true once nobody reads the source. */
    bool (*send)(struct tt_link *link, const struct tt_message *message);
    bool (*post)(struct tt_link *link, uint64_t number, uint32_t signature, const void *src, uint32_t bytes);
    bool (*sent)(struct tt_link *link, uint64_t number);

    /* arrived: false if nothing of it is there. `like` is a view with the receiver's layout, chunk count and
     * slice. peek: a short form of arrived for one run. *payload are the bytes, until release, if all of
     * these `bytes` are there with this signature, in one run, copied or (while this rank is inside, below)
     * mapped. PLACED: they lie where they were granted, and *payload is as it was; ODD: it is NULL, and
     * arrived tells. release frees the slot: nothing of it is read any more. post and peek may be NULL, both.
     */
    bool (*arrived)(
        struct tt_link *link, uint64_t number, const struct tt_view *like, struct tt_arrival *arrival);
    enum tt_peek (*peek)(
        struct tt_link *link, uint64_t number, uint32_t signature, uint32_t bytes, const void **payload);
    void (*release)(struct tt_link *link, uint64_t number);

    /* Both may be NULL. grant: the bytes may be put at `place`, which nobody else uses until the message is
     * released; false if it was, or the transport would not have it so (now: another grant may have to end
     * first). `after`: 1 + this rank's message that the peer is still to read from that place; it may be
     * stored there once that is released, or by the unit that reads it, element by element
     * (message->reads). 0: there is none. */
    bool (*grant)(struct tt_link *link, uint64_t number, uint32_t signature, const struct tt_view *place,
        uint64_t after);
    /* Where may the message be put, as a view like its source, while this rank is inside? UNLESS_READABLE:
     * not where its receiver can as well read the source. ALLOW_REPLY: if nothing is granted, and the
     * message that the unit reads came in a buffer that changes hands, there: until that one is released and
     * after; the message then is sent as `placed`, and target says the same of it until it is. */
    enum tt_target (*target)(
        struct tt_link *link, const struct tt_message *message, unsigned flags, struct tt_view *place);

    /* Would the message go PULLED, if it is sent now, so that its bytes need not be moved to where the
     * receiver can read them? May be NULL. */
    bool (*pulls)(struct tt_link *link, const struct tt_message *message);

    /* A message may stand for all slices of its chunk (message->whole), of which the others are not sent
     * then. give: at the sender, after send, until it is NOT or DONE; sent() tells when that slice is sent
     * that is NOT. `helps`: the sender has nothing else to do, and may move some of it. take: at a receiver
     * that has room for all of it from the first slice on; NOT: arrived() tells. What is DONE is released;
     * and so is, of the slices that follow, a message that was granted: it never comes. Both may be NULL. */
    enum tt_whole (*give)(struct tt_link *link, uint64_t number, bool helps);
    enum tt_whole (*take)(struct tt_link *link, uint64_t number, uint32_t signature,
        const struct tt_view *first, uint64_t whole);
};

/* The control part of a transport: what ranks know of each other besides messages. Any number of ranks may
 * read, each writes its own. */
struct tt_control_ops {
    /* publish: the operation with this number begins at this rank; `call` NULL: it is over, as all before it
     * are. Nobody is woken by that: only who has waited long looks, and that by itself. In place of a number,
     * TT_WAIT: the message that this rank has waited long for; NULL: it waits no more. call_of reads what a
     * peer has published, as long as that keeps it; completed_by: all operations below are over there. A rank
     * that has a peer's message sees what that one published before it sent it; of a peer on another host it
     * asks, and finds that when it looks again. */
    void (*publish)(struct tt_endpoint *e, const struct tt_call_record *call, uint64_t sequence);
    bool (*call_of)(struct tt_endpoint *e, int peer, uint64_t sequence, struct tt_call_record *call);
    uint64_t (*completed_by)(struct tt_endpoint *e, int peer);

    /* refuse: this rank has refused a call; NULL: it takes back all that it said so far. The last text stands
     * for all. refused: has `rank` said so of a collective, or, as `sends` says, of a message to or from
     * `peer`; then which one was it, and with which text? Both may be NULL. One thread at a time refuses. */
    void (*refuse)(struct tt_endpoint *e, const struct tt_refusal *refusal);
    bool (*refused)(struct tt_endpoint *e, int rank, struct tt_refusal *refusal);

    /* note: this rank leaves a note, in place of the last, for any peer that asks, also when the communicator
     * has ended. note_of: false if there is none; of a peer on another host that asks, and is true when it
     * looks again. Both may be NULL. */
    void (*note)(struct tt_endpoint *e, const struct tt_note *note);
    bool (*note_of)(struct tt_endpoint *e, int peer, struct tt_note *note);

    /* May make a system call. */
    enum tt_peer_state (*peer_state)(struct tt_endpoint *e, int peer, struct tt_peer_place *place);

    /* The first cause wins; true if it is this one. Wakes every rank. Any thread. One rank decides which is
     * the first, so `abort` alone of all these may wait: for that one's answer, or until it counts as gone.
     * `cause` is one load when there is none. */
    bool (*abort)(struct tt_endpoint *e, const struct tt_cause *cause);
    bool (*cause)(struct tt_endpoint *e, struct tt_cause *cause);

    /* Ends it at this rank alone, unless it has ended: from now on `cause` tells this here, and peers find
     * this rank ABORTED. True if so. Waits for nobody; any thread. NULL: it cannot. */
    bool (*abort_local)(struct tt_endpoint *e, const struct tt_cause *cause);

    /* Ranks that are threads of one process read each other's private memory, and any rank may store where
     * another one granted, or spoil what it sent once. So a rank that gives an operation up must not return
     * while a peer may still be at it, which is between tt_endpoint_enter and tt_endpoint_leave. quiet: no
     * peer is, and what this rank granted is granted no more, nor is anything spoilt; `patient`: no peer of
     * another process is either, if it lives. Where this rank alone has ended, peers go on, and stay inside:
     * then those count as outside that have seen it (tt_endpoint_look), and what they could read in place is
     * there no more. */
    bool (*quiet)(struct tt_endpoint *e, bool patient);

    /* Wakes a peer that shares memory with this rank, for that has something new there. Else NULL. */
    void (*ring)(struct tt_endpoint *e, int peer);
};

/* The memory part of a transport: what it does with memory and descriptors. */
struct tt_arena_share;
struct tt_memory_ops {
    /* Before endpoints connect, their processes hand each other descriptors (over a local socket, once).
     * present: new ones of this process, for a peer. introduce: a peer's, which it takes, also when it fails;
     * they are known until settle, and longer while an endpoint is connected to that process. settle: the
     * introductions of this thread are over; connect settles, too. */
    tutti_status (*present)(int fds[TT_MEMORY_FDS]);
    tutti_status (*introduce)(const int fds[TT_MEMORY_FDS]);
    void (*settle)(void);

    /* This rank waits anyway: memory of slots that no message has used since the last call of this may
     * return to the system. That takes a while here, and once more when a slot is used again; the caller sees
     * to it that it is rare. */
    void (*tidy)(struct tt_endpoint *e);

    /* Drops this memory, which peers may read and write, when all of them have closed their endpoints, or are
     * gone. Once, before close. NULL: no peer does. */
    void (*bequeath)(struct tt_endpoint *e, struct tt_arena_share *memory);
};

struct tt_transport {
    const char *name;
    uint32_t address_bytes; /* TT_ADDRESS_BYTES, or TT_ADDRESS_MAX */

    /* open fills address[address_bytes]; the caller exchanges addresses; connect takes n of them, in rank
     * order, and makes links to the ranks that this transport reaches: by shared memory, those of its host.
     * Two ranks that reach a third reach each other. After connect on all ranks and one exchange more (the
     * caller's), every call is legal. close is local, and any time: peers that still read keep what they
     * read. */
    tutti_status (*open)(
        const struct tt_endpoint_params *params, uint8_t *address, struct tt_endpoint **endpoint);
    tutti_status (*connect)(struct tt_endpoint *e, const uint8_t *addresses);
    void (*close)(struct tt_endpoint *e);

    const struct tt_memory_ops *memory; /* NULL: it has none */
};

/* The head of every link. */
struct tt_link {
    const struct tt_link_ops *ops;
    struct tt_endpoint *endpoint;
    int32_t peer;
};

/* The head of every endpoint. */
struct tt_endpoint {
    const struct tt_transport *transport;
    const struct tt_control_ops *control;
    int n, me;
    struct tt_link **links; /* [class][n], once connected; NULL: that rank is not reached */
    uint64_t slot_bytes;
    uint64_t own_bytes; /* of memory that it has for messages, whether they have used it or not */
    uint64_t path_bytes[TT_PATHS]; /* counted by the sender */
    const _Atomic uint32_t *ended; /* not 0: the communicator has */
    _Atomic bool gone; /* at this rank alone it has */
    const _Atomic uint32_t *local_aborts; /* how often a rank that shares memory with this one said so */
    _Atomic uint32_t *seen; /* of them; only who uses the endpoint writes */
    _Atomic uint32_t *inside; /* operations of this rank that may use its peers' memory; it alone writes */
    bool light; /* all ranks may fence lightly (fence.h) */
    uint64_t post_bytes; /* the longest message that post takes */
    uint32_t poll_ns; /* what a look for a message takes that is not there; 0: as one of memory */
    uint64_t copy_bytes; /* up to here a copy is faster than the wait for who reads the source */
    uintptr_t shared_from; /* memory that all peers can map */
    uint64_t shared_bytes;
    /* The words that this rank has in common with all others of its host, once connected: zeros at first. Who
     * writes them says what they mean. They are there until this rank closes. NULL: there are none. */
    _Atomic uint32_t *words;
    /* Rung whenever something changed for this rank: by peers, or by a thread of the transport, which rings
     * the one that stands here when it is connected. NULL: this rank must never sleep. */
    struct tt_doorbell *doorbell;
    /* How a rank may sleep at its bell, once connected, where nothing comes but what it can read by itself
     * (wait.h); it takes the endpoint. NULL: it sleeps at the bell alone. */
    tt_park_fn *park;
};

static inline struct tt_link *tt_link_to(const struct tt_endpoint *e, enum tt_class class, int peer)
{
    return e->links[(unsigned)class * (unsigned)e->n + (unsigned)peer];
}

/* True unless there is something to see: the communicator has ended, or a rank has aborted its end alone. */
static inline bool tt_endpoint_is_calm(const struct tt_endpoint *e)
{
    return atomic_load_explicit(e->ended, memory_order_acquire) == 0 &&
           atomic_load_explicit(e->local_aborts, memory_order_acquire) ==
               atomic_load_explicit(e->seen, memory_order_relaxed);
}

/* True if it has ended, for all or for this rank. */
static inline bool tt_endpoint_is_over(const struct tt_endpoint *e)
{
    return atomic_load_explicit(e->ended, memory_order_acquire) != 0 ||
           atomic_load_explicit(&e->gone, memory_order_acquire);
}

/* Between two uses of peers' memory, none of which is held any more: who has aborted by now is not read from,
 * and not stored to, from here on, and may know that. False if it was this rank. */
static inline bool tt_endpoint_look(struct tt_endpoint *e)
{
    uint32_t now = atomic_load_explicit(e->local_aborts, memory_order_acquire);
    if (now == atomic_load_explicit(e->seen, memory_order_relaxed))
        return true;
    if (atomic_load_explicit(&e->gone, memory_order_acquire))
        return false;
    atomic_store_explicit(e->seen, now, memory_order_release);
    return true;
}

/* Enter and leave stand around everything that uses peers' memory, and nest; enter is false, and nothing must
 * be used, once the communicator has ended, for all or for this rank. The fence is against the one of who
 * gives up (`quiet`): either this rank sees that, or that one sees that this rank is inside. */
static inline bool tt_endpoint_enter(struct tt_endpoint *e)
{
    uint32_t inside = atomic_load_explicit(e->inside, memory_order_relaxed);
    atomic_store_explicit(e->inside, inside + 1, memory_order_relaxed);
    if (inside == 0)
        tt_fence_light(e->light);
    return atomic_load_explicit(e->ended, memory_order_acquire) == 0 && tt_endpoint_look(e);
}

static inline void tt_endpoint_leave(struct tt_endpoint *e)
{
    uint32_t inside = atomic_load_explicit(e->inside, memory_order_relaxed);
    atomic_store_explicit(e->inside, inside - 1, memory_order_release);
}

/* True between tt_endpoint_enter and tt_endpoint_leave; any thread may ask. */
static inline bool tt_endpoint_inside(const struct tt_endpoint *e)
{
    return atomic_load_explicit(e->inside, memory_order_acquire) != 0;
}

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

/* The contiguous bytes at byte `at` of an arrival: address and length. */
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

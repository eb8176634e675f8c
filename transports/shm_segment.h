/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_segment.h: the layout of the control segment, which one rank of a communicator shows the others, and
 * what the rank keeps for itself.
 *
 * Every endpoint has one control segment in its process's arena. Each word in it has one writer: its owner,
 * but for the doorbell, `holders`, `upto` of a line, which both of its ends raise, and three things of the
 * lowest rank that is reached, mostly rank 0: the abort word (the first to claim it decides), the count of
 * local aborts, and the words that all have in common. A message line is written by its sender in the
 * sender's segment, its acknowledgement and its grant by the receiver in the receiver's. What was read is the
 * receiver's until it acknowledges that.
 *
 * A flag is the low 32 bits of number + 1 and is compared for equality only. Lines and acknowledgements
 * start with the flags of the lap before the first number, so that memory of zeros matches nothing.
 *
 * A segment is freed when its owner and all who connected to it have closed: a slow reader keeps what it
 * reads. Who may connect is told by `holders`: a word for each rank that holds a random token until that
 * rank connects. */
#ifndef TT_TRANSPORTS_SHM_SEGMENT_H
#define TT_TRANSPORTS_SHM_SEGMENT_H
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "transports/arena.h"
#include "transports/pages.h"
#include "transports/shm_shuttle.h"
#include "transports/transport.h"

enum { TT_SHM_VERSION = 12, TT_SHM_INLINE_BYTES = 48 };

/* A line costs little, so there are more of them than slots for payloads: who sends a message of a line runs
 * that far ahead. */
enum { TT_SHM_LINES = 64, TT_SHM_ACKS_AT_ONCE = 16 };

/* The place where the bytes of a message lie or may be put, in the memory of the rank that writes this. */
struct tt_shm_place {
    uint64_t at; /* an address; to be used by another process: from the start of the arena */
    uint64_t stride;
    uint32_t chunk;
};

struct tt_shm_line {
    _Alignas(64) _Atomic uint32_t flag; /* written last */
    uint32_t signature;
    uint32_t bytes;
    uint8_t path; /* enum tt_path */
    uint8_t packed;
    uint8_t taken; /* written by the receiver when it releases, see claim_lines */
    /* MAPPED: the receiver may overwrite the source; a sender that gives up clears it. PULLED: its receiver
     * could not, and it is COPIED now. */
    _Atomic uint8_t single_reader;
    union {
        uint8_t payload[TT_SHM_INLINE_BYTES];
        struct {
            /* MAPPED; and PULLED: an address, and `chunk` is 1 if the sender has time to write some. */
            struct tt_shm_place source;
            /* PULLED: bytes of the chunk for which it may stand, 0 if for its own slice alone; up to where
             * that is taken, by both sides; and what the sender has written of it (shm_whole.c). */
            uint64_t whole;
            _Atomic uint64_t upto, written;
        };
        uint32_t shuttle; /* COPIED: 0: into the slot of its number; else 1 + the shuttle */
    };
};
_Static_assert(sizeof(struct tt_shm_line) == 64, "one cache line");

/* Who reaches the place of a grant, and how. */
enum tt_shm_memory {
    TT_SHM_MAPPED, /* the sender maps it */
    TT_SHM_PRIVATE, /* nobody but the receiver, which may read the sender's memory into it */
    TT_SHM_WRITABLE /* or else the sender writes it by system call, which is as fast */
};

struct tt_shm_grant {
    _Alignas(64) _Atomic uint64_t number; /* 1 + the message's, written last; 0: none */
    struct tt_shm_place place;
    uint32_t signature;
    uint32_t bytes;
    uint8_t packed;
    uint8_t memory; /* enum tt_shm_memory */
    uint64_t after; /* 1 + the message of the way back that is to be read from there; 0: none */
    _Atomic uint64_t answer; /* to a message that was to be pulled (tt_shm_answer); 0: none */
};
_Static_assert(sizeof(struct tt_shm_grant) == 64, "one cache line");

struct tt_shm_acks {
    _Alignas(64) _Atomic uint32_t flag[TT_SHM_LINES];
};
_Static_assert(TT_SHM_ACKS_AT_ONCE * sizeof(uint32_t) == 64, "acknowledgements of one cache line");
_Static_assert((TT_SLOTS & (TT_SLOTS - 1)) == 0 && (TT_SHM_LINES & (TT_SHM_LINES - 1)) == 0 &&
                   TT_SHM_LINES <= 64 && (int)TT_SHM_LINES >= (int)TT_SLOTS,
    "slots and lines are found by masks, and a line is a bit of a word");

_Static_assert(
    (int)TT_CALLS_KEPT > (int)TT_SHM_LINES, "a call is kept until who waits for its message has looked");

enum {
    TT_SHM_CALL_WORDS = sizeof(struct tt_call_record) / 8,
    TT_SHM_REFUSAL_WORDS = TT_REFUSAL_TEXT / 8,
    TT_SHM_NOTE_WORDS = sizeof(struct tt_note) / 8
};

/* The fixed part; shape says where the rest lies. */
struct tt_shm_control {
    uint64_t magic;
    uint32_t version, token;
    int32_t n, rank;
    uint64_t bytes, slot_bytes, first_number;
    uint32_t fences; /* lightly, where all do (fence.h) */
    struct tt_doorbell bell;
    /* Of the lowest rank: 1 + the rank whose cause is everybody's; and what was said of local aborts. */
    _Alignas(64) _Atomic uint32_t aborted;
    _Atomic uint32_t local_aborts;
    _Alignas(64) _Atomic uint32_t left; /* enum tt_shm_left */
    _Alignas(64) _Atomic uint32_t inside; /* operations of this rank that may use its peers' memory */
    _Atomic uint32_t seen; /* of local_aborts */
    _Alignas(64) _Atomic uint64_t completed;
    _Alignas(64) _Atomic uint64_t calls[TT_CALLS_KEPT][TT_SHM_CALL_WORDS];
    _Alignas(64) _Atomic uint64_t wait[TT_SHM_CALL_WORDS]; /* in a message, which has lasted long */
    _Alignas(64) _Atomic uint64_t refusals; /* told so far, twice; odd: one is being written */
    _Atomic uint64_t refused; /* 1 + the collective's number; 0: none */
    _Atomic uint64_t refusal[TT_SHM_REFUSAL_WORDS]; /* the text of the last */
    _Alignas(64) _Atomic uint64_t notes; /* left so far, twice; odd: one is being written */
    _Atomic uint64_t note[TT_SHM_NOTE_WORDS];
    _Alignas(64) struct tt_cause cause;
};

/* Offsets in a segment; equal for all ranks. */
struct tt_shm_shape {
    uint64_t holders; /* _Atomic uint32_t[n]: the token, TT_SHM_HELD, or TT_SHM_GONE */
    uint64_t refused; /* _Atomic uint64_t[2][n]: 1 + the message refused from, to that rank; 0: none */
    uint64_t lines; /* struct tt_shm_line[class][n][TT_SHM_LINES] */
    uint64_t acks; /* struct tt_shm_acks[class][n] */
    uint64_t grants; /* struct tt_shm_grant[class][n][TT_SLOTS] */
    uint64_t words; /* _Atomic uint32_t[]: what an endpoint has in common with its host; 0: none */
    uint64_t payload; /* [class][n][TT_SLOTS + TT_SHM_SHUTTLES] slots, on pages of their own */
    uint64_t slot_stride;
    uint64_t bytes;
};

enum { TT_SHM_GONE = 0, TT_SHM_HELD = 1 };

enum tt_shm_left { TT_SHM_STAYS, TT_SHM_CLOSED, TT_SHM_ABORTED };

/* What one end of a channel knows of private memory (shm_pull.c). */
struct tt_shm_pulls {
    uintptr_t place[TT_SLOTS]; /* of what this rank granted in private memory */
    uint32_t bytes[TT_SLOTS]; /* of that message; 0: the grant is none in private memory */
    uint32_t signature[TT_SLOTS];
    uint8_t done; /* a bit for each slot: its message lies at its place */
    uint8_t asked; /* likewise: its sender was asked for a copy */
    uint8_t declined; /* likewise: it is taken for its own slice alone; */
    uint8_t taking; /* or it is accepted for its whole chunk, */
    uint64_t got[TT_SLOTS]; /* of which this rank has read so much */
    bool unreadable, unwritable; /* the system refused it once */
    uint64_t awaited; /* 1 + the message for whose grant this rank waits until then */
    int64_t until_ns;
    uint64_t found; /* 1 + the highest number whose grant was found; 0: none */
};
_Static_assert(TT_SLOTS <= 8, "a slot is a bit of a byte");

/* Messages of one class between me and one peer, in both directions. A tt_link is one of these. */
struct tt_shm_channel {
    struct tt_link head; /* first */
    struct tt_shm_endpoint *endpoint;
    const struct tt_shm_peer *peer;
    bool came_last; /* of the messages both ways, one of the peer's */
    uint32_t next_line; /* of what is posted next */
    struct tt_shm_line *out;
    const struct tt_shm_acks *acks_in;
    struct tt_shm_line *in;
    struct tt_shm_acks *acks_out;
    const struct tt_shm_grant *grants_in; /* of what I send */
    struct tt_shm_grant *grants_out;
    uint8_t *payload_out;
    uint8_t *payload_in;
    struct tt_shuttles shuttles;
    uint64_t reading; /* a bit for each line: what was posted last is read from the sender's memory */
    uint64_t offered; /* likewise: for its whole chunk, and not answered yet */
    uint32_t posted[TT_SHM_LINES]; /* the flag posted last */
    uint32_t acked[TT_SHM_LINES]; /* what was seen of acks_in */
    uint64_t copied[TT_SLOTS]; /* 1 + the message whose payload was copied there last; 0: none */
    uint64_t seen[TT_SLOTS]; /* the same, as tidy found it */
    uint8_t replies[TT_SLOTS]; /* 1 + the shuttle in which the message of this slot lies already; 0: none */
    uint64_t granted[TT_SLOTS]; /* what was written last to grants_out, 0 once it has ended */
    struct tt_shm_pulls pulls;
};

struct tt_shm_peer {
    struct tt_shm_control *control;
    struct tt_arena *arena;
    struct tt_doorbell *bell;
    pid_t pid;
    bool same; /* process, so addresses mean the same */
    bool held; /* its segment waits for me */
    bool open; /* this process may read and write that one's memory by system calls */
};

/* An endpoint that is closed leaves this until its peers have closed theirs. */
struct tt_shm_deferred_free {
    struct tt_deferred_free head; /* first */
    const _Atomic uint32_t *holders;
    struct tt_arena_share *bequeathed; /* NULL: nothing is */
    int n;
    struct tt_arena *arenas[];
};

struct tt_shm_endpoint {
    struct tt_endpoint head; /* first */
    bool map;
    uint64_t slot_stride;
    const struct tt_arena *own;
    struct tt_shm_peer *peers; /* n */
    struct tt_shm_channel *channels; /* [class][n]; head.links are these */
    _Atomic uint32_t *aborted; /* the lowest rank's; my own until connected */
    struct tt_shm_control *control;
    struct tt_shm_shape shape;
    struct tt_doorbell **bells; /* all but mine, once connected */
    int nbells;
    bool connected;
    uint64_t probe; /* a random value that peers try to read */
    uint64_t pull; /* enum tt_pull */
    uint32_t awaited; /* messages that this rank has granted and not released */
    uint32_t offers; /* its messages that may stand for their whole chunk, and are not answered yet */
    struct tt_pages *pages;
    pthread_mutex_t aborting;
    struct { /* a local abort of this rank: why; and, of who waits until it is quiet, which one it is */
        struct tt_cause cause;
        _Atomic uint32_t *count; /* the lowest rank's local_aborts; my own until connected */
        bool withdrawn;
        uint32_t number;
    } alone;
    struct tt_shm_deferred_free *deferred;
    void (*copy)(void *dst, const void *src, size_t bytes);
};

static inline void *tt_shm_at(const struct tt_shm_control *control, uint64_t offset)
{
    return (uint8_t *)control + offset;
}

static inline struct tt_shm_channel *tt_shm_channel(struct tt_shm_endpoint *e, unsigned class, int peer)
{
    return &e->channels[class * (unsigned)e->head.n + (unsigned)peer];
}

static inline struct tt_shm_channel *tt_shm_channel_of(struct tt_link *link)
{
    return (struct tt_shm_channel *)(void *)link;
}

static inline unsigned tt_shm_line_of(uint64_t number)
{
    return number & (TT_SHM_LINES - 1);
}

static inline uint32_t tt_shm_flag(uint64_t number)
{
    return (uint32_t)number + 1;
}

/* The segment (shm_segment.c). */
void tt_shm_shape(struct tt_shm_shape *shape, int n, uint64_t slot_bytes, uint32_t words);
tutti_status tt_shm_segment_create(const struct tt_endpoint_params *params, const struct tt_shm_shape *shape,
    struct tt_shm_control **control, struct tt_shm_deferred_free **deferred);
void tt_shm_segment_free_later(struct tt_shm_endpoint *e);
void tt_shm_channel_init(struct tt_shm_endpoint *e, unsigned class, int peer);

/* The path of a message (shm_path.c, shm_grant.c). */
extern const struct tt_link_ops tt_shm_link_ops;
void tt_shm_measure_posts(struct tt_shm_endpoint *e);
uint32_t tt_shm_came_by(const struct tt_shm_channel *c, uint64_t number);
bool tt_shm_grant(
    struct tt_link *link, uint64_t number, uint32_t signature, const struct tt_view *place, uint64_t after);
enum tt_target tt_shm_target(
    struct tt_link *link, const struct tt_message *message, unsigned flags, struct tt_view *place);
void tt_shm_tidy(struct tt_endpoint *head);

/* Private memory that goes by system calls (shm_pull.c). */
bool tt_shm_probe(pid_t pid, uint64_t at, uint64_t expected);
enum tt_shm_memory tt_shm_grant_private(
    struct tt_shm_channel *c, uint64_t number, uint32_t signature, uintptr_t place, uint64_t bytes);
enum tt_path tt_shm_long_path(struct tt_shm_channel *c, const struct tt_message *message, uintptr_t address);
bool tt_shm_pull(struct tt_shm_channel *c, uint64_t number);
bool tt_shm_pulls(struct tt_link *link, const struct tt_message *message);
bool tt_shm_is_fast(const struct tt_shm_endpoint *e, uintptr_t address, uint64_t bytes);
void tt_shm_ask_for_copy(struct tt_shm_channel *c, uint64_t number);
bool tt_shm_released(struct tt_shm_channel *c, uint64_t number);
static inline uint8_t tt_shm_bit(uint64_t number)
{
    return (uint8_t)(1u << (number & (TT_SLOTS - 1)));
}
/* The word for what a receiver says of a message that it was to read. */
enum tt_shm_said {
    TT_SHM_COPY_IT,
    TT_SHM_ALL_OF_IT, /* it is accepted for its whole chunk, */
    TT_SHM_ONE_SLICE /* or for its own slice alone */
};
static inline uint64_t tt_shm_answer(uint64_t number, enum tt_shm_said answer)
{
    return (number + 1) << 2 | (uint64_t)answer;
}

/* Messages that stand for their whole chunk (shm_whole.c). */
bool tt_shm_offers(const struct tt_shm_channel *c, const struct tt_message *message, uintptr_t address);
void tt_shm_offer(struct tt_shm_channel *c, const struct tt_message *message, struct tt_shm_line *line);
void tt_shm_decline(struct tt_shm_channel *c, uint64_t number);
enum tt_whole tt_shm_give(struct tt_link *link, uint64_t number, bool helps);
enum tt_whole tt_shm_take(
    struct tt_link *link, uint64_t number, uint32_t signature, const struct tt_view *first, uint64_t whole);

/* True if the message is none of what this rank granted. */
static inline bool tt_shm_pull_odd(
    const struct tt_shm_channel *c, const struct tt_shm_line *line, unsigned slot)
{
    const struct tt_shm_pulls *p = &c->pulls;
    return p->bytes[slot] != 0 && (line->bytes != p->bytes[slot] || line->signature != p->signature[slot]);
}

/* The control part of the transport (shm_control.c). */
extern const struct tt_control_ops tt_shm_control_ops;

#endif

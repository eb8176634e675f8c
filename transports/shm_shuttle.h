/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_shuttle.h: whose the shuttles of a pair of ranks are, as one of the two knows it.
 *
 * Shuttles are buffers of both ranks that change hands with the messages that lie in them. Who has read one
 * writes the answer there: into cache lines that this core just had, which then are back where the next
 * message is written. What goes one way only leaves them all with its reader, and takes slots.
 *
 *                 arrive             release          leave
 *      AWAY ---------------> READING -------> OWNED -----------> AWAY
 *                               | reserve
 *                               v     release          leave as reply
 *                            RESERVED ------> REPLY -----------> AWAY
 *
 * Each rank keeps a table of its own, and a shuttle that is not AWAY at one is AWAY at the other: the two
 * change in this order, for it is the message that carries the right to write. A build with checks
 * (base/check.h) ends where a shuttle would go another way. */
#ifndef TT_TRANSPORTS_SHM_SHUTTLE_H
#define TT_TRANSPORTS_SHM_SHUTTLE_H
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

/* Each rank of a pair begins with so many. */
enum { TT_SHM_SHUTTLES = 2, TT_SHM_SHUTTLES_OF_PAIR = 2 * TT_SHM_SHUTTLES };

enum tt_shuttle_state {
    TT_SHUTTLE_AWAY, /* the peer's, or on its way */
    TT_SHUTTLE_OWNED, /* free for this rank's next message */
    TT_SHUTTLE_READING, /* holds a message that is not released */
    TT_SHUTTLE_RESERVED, /* the same, and the reply is being stored over what is read */
    TT_SHUTTLE_REPLY /* holds nothing but that reply */
};

struct tt_shuttles {
    uint8_t *at[TT_SHM_SHUTTLES_OF_PAIR]; /* those of the lower rank first */
    uint8_t state[TT_SHM_SHUTTLES_OF_PAIR]; /* enum tt_shuttle_state */
    uint8_t read_last; /* the shuttle whose lines this core's cache has */
    bool used[TT_SHM_SHUTTLES_OF_PAIR]; /* it came since tidy looked last */
    bool full[TT_SHM_SHUTTLES_OF_PAIR]; /* or before, and its memory is still there */
    uint32_t read_bytes[TT_SHM_SHUTTLES_OF_PAIR]; /* of the message that it brought last */
};

/* The shuttle that this rank's next message leaves by; -1: none is here. */
static inline int tt_shuttle_leave(struct tt_shuttles *s)
{
    int shuttle = s->read_last;
    for (int i = 0; s->state[shuttle] != TT_SHUTTLE_OWNED; i++) {
        if (i == TT_SHM_SHUTTLES_OF_PAIR)
            return -1;
        shuttle = i;
    }
    s->state[shuttle] = TT_SHUTTLE_AWAY;
    return shuttle;
}

static inline void tt_shuttle_leave_as_reply(struct tt_shuttles *s, uint32_t shuttle)
{
    tt_check(s->state[shuttle] == TT_SHUTTLE_REPLY, "a reply leaves when what it answers is released");
    s->state[shuttle] = TT_SHUTTLE_AWAY;
}

/* A message says that it lies there; false if that cannot be, since the shuttle is this rank's. Whoever asks
 * again of a message that is not released gets the same answer. */
static inline bool tt_shuttle_arrive(struct tt_shuttles *s, uint32_t shuttle)
{
    if (s->state[shuttle] == TT_SHUTTLE_AWAY)
        s->state[shuttle] = TT_SHUTTLE_READING;
    return s->state[shuttle] == TT_SHUTTLE_READING || s->state[shuttle] == TT_SHUTTLE_RESERVED;
}

static inline bool tt_shuttle_is_read(const struct tt_shuttles *s, uint32_t shuttle)
{
    return s->state[shuttle] == TT_SHUTTLE_READING || s->state[shuttle] == TT_SHUTTLE_RESERVED;
}

static inline void tt_shuttle_reserve(struct tt_shuttles *s, uint32_t shuttle)
{
    tt_check(tt_shuttle_is_read(s, shuttle), "a reply is stored where a message is read");
    s->state[shuttle] = TT_SHUTTLE_RESERVED;
}

/* The message of `bytes` that came by it has been read. */
static inline void tt_shuttle_release(struct tt_shuttles *s, uint32_t shuttle, uint32_t bytes)
{
    tt_check(tt_shuttle_is_read(s, shuttle), "a shuttle that is released was read");
    s->used[shuttle] = s->full[shuttle] = true;
    s->read_bytes[shuttle] = bytes;
    if (s->state[shuttle] == TT_SHUTTLE_RESERVED) {
        s->state[shuttle] = TT_SHUTTLE_REPLY;
        return;
    }
    s->state[shuttle] = TT_SHUTTLE_OWNED;
    s->read_last = (uint8_t)shuttle;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* ends_rig.h: how calls on one device come to a bad end, whoever serves them: ranks that call different
 * things, and a process that dies while calls are under way. */
#ifndef TT_TESTS_ENDS_RIG_H
#define TT_TESTS_ENDS_RIG_H
#include "local_rig.h"

/* What a rank calls; the others call the first of these. */
struct ends_difference {
    bool gathers;
    size_t count;
    tutti_type type;
    tutti_op op;
    int root;
    const char *words; /* of it, in the error */
};
enum { ENDS_DIFFERENCES = 7 };
extern const struct ends_difference ends_differences[ENDS_DIFFERENCES];
void ends_call(const struct local_desk *d, const struct ends_difference *difference);
/* All ranks are told of this one. */
void ends_differ(struct ranks_me *me, tutti_comm *comm, const struct ends_difference *difference);

/* The communicator has ended. Of a call of nothing the stream may have passed before. */
void ends_await(const tutti_comm *comm);

/* Each rank calls on this communicator and on another one, on a stream each; rank 0 in one order and the
 * others in the opposite one. `passes`: that is legal here; else the deadline ends it, which is short from
 * now on, for one of the two, or for both. No stream is left waiting. */
void ends_cross(const struct local_desk *d, tutti_comm *other, bool passes);

struct ends_death {
    int victim; /* a rank: its process dies */
    uint32_t after_us;
    size_t count; /* of elements, in calls that are under way then */
};
/* Meets, and goes on; the victim dies when its time has come. */
void ends_die_soon(struct ranks_me *me, const struct ends_death *death);

#endif

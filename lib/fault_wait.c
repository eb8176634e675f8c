/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_wait.c: in which message a rank waits, for its peers to see, and what theirs tell.
 *
 * The records of calls (transport.h) are of collectives. A message is recorded when its wait has become long,
 * so none that is quick pays for it. With these a rank that waits can say what the other one is in, and sees
 * when ranks wait for each other in a circle, as two do that send first and receive then: nothing will ever
 * move there, and what is missing is a group. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "call.h"

enum { DESCRIPTION = 128, CIRCLE_LOOKS = 20 /* of TT_TICK_MS: a rank that is slow is in none so long */ };

static int count_left(const struct tt_pending *pending, int count)
{
    int left = 0;
    for (int i = 0; i < count; i++)
        left += !pending[i].over;
    return left;
}

static void tell(const struct tt_pending *p, bool alone)
{
    const struct tt_endpoint *e = p->op->endpoint;
    struct tt_call_record record;
    tt_call_record(&p->call, p->op, &record);
    record.alone = alone;
    e->transport->tell_wait(p->op->endpoint, &record);
}

/* The ranks from this one on, each of which waits in a message for the next, and the last for this one.
 * Returns how many there are; 0: there is no circle. A send and a receive between two ranks are none. */
static int find_circle(const struct tt_op *op)
{
    const struct tt_transport *transport = op->endpoint->transport;
    int me = op->endpoint->me, rank = me;
    unsigned kind = TT_COLLECTIVES;
    for (int length = 1; length <= op->endpoint->n; length++) {
        struct tt_call_record record;
        if (!transport->wait_of(op->endpoint, rank, &record) || !record.alone || record.root < 0 ||
            record.root >= op->endpoint->n)
            return 0;
        if (length == 1)
            kind = record.collective;
        rank = record.root;
        if (rank == me)
            return length == 1 || (length == 2 && record.collective != kind) ? 0 : length;
    }
    return 0;
}

/* A circle of two is said in full; of a longer one whom this rank waits for tells the next. */
static void describe_circle(const struct tt_pending *p, char *text, size_t bytes)
{
    int length = find_circle(p->op);
    text[0] = '\0';
    if (length == 2)
        snprintf(text, bytes, ": a pair that exchanges must group its send and its recv");
    else if (length > 2)
        snprintf(text, bytes, ": %d ranks wait in a circle; each must group its send and its recv", length);
}

void tt_fault_name_call(const struct tt_pending *p, int peer, char *text, size_t bytes)
{
    const struct tt_op *op = p->op;
    const struct tt_transport *transport = op->endpoint->transport;
    bool p2p = op->class == TT_CLASS_P2P;
    struct tt_call_record record;
    char call[DESCRIPTION], circle[DESCRIPTION] = "";
    text[0] = '\0';
    if (peer < 0 || peer >= p->call.comm->n || transport->wait_of == NULL)
        return;
    uint64_t sequence = transport->completed_by(op->endpoint, peer);
    if (transport->wait_of(op->endpoint, peer, &record) && (p2p || record.alone)) {
        tt_record_describe(&record, call, sizeof call);
        describe_circle(p, circle, sizeof circle);
        snprintf(text, bytes, ", which waits in %s%s", call, circle);
    } else if ((p2p || sequence != op->sequence) &&
               transport->call_of(op->endpoint, peer, sequence, &record)) {
        tt_record_describe(&record, call, sizeof call);
        snprintf(text, bytes, ", which is in operation %llu, %s", (unsigned long long)sequence, call);
    }
}

static void warn_of_circle(const struct tt_pending *p)
{
    const struct tt_comm *comm = p->call.comm;
    char mine[DESCRIPTION], theirs[3 * DESCRIPTION];
    tt_call_describe(&p->call, mine, sizeof mine);
    tt_fault_name_call(p, p->call.root, theirs, sizeof theirs);
    tt_log(TT_LOG_WARN, "%s, rank %d: %s waits for rank %d%s", comm->name, comm->rank, mine, p->call.root,
        theirs);
}

void tt_fault_tell_waits(const struct tt_pending *pending, int count, int *circles)
{
    const struct tt_comm *seen = NULL;
    bool alone = count_left(pending, count) == 1;
    for (int i = 0; i < count; i++) {
        const struct tt_pending *p = &pending[i];
        if (p->over || p->op == NULL || p->op->class != TT_CLASS_P2P || p->call.comm == seen ||
            p->op->endpoint->transport->tell_wait == NULL)
            continue;
        tell(p, alone);
        seen = p->call.comm;
        *circles = alone && find_circle(p->op) > 0 ? *circles + 1 : 0;
        if (*circles == CIRCLE_LOOKS)
            warn_of_circle(p);
    }
}

void tt_fault_tell_moved(const struct tt_pending *pending, int count)
{
    const struct tt_comm *seen = NULL;
    for (int i = 0; i < count; i++) {
        const struct tt_comm *comm = pending[i].call.comm;
        if (comm != seen && comm->transport->tell_wait != NULL)
            comm->transport->tell_wait(comm->endpoint, NULL);
        seen = comm;
    }
}

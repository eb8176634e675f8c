/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_wait.c: in which message a rank waits, for its peers to see, and what theirs tell.
 *
 * The records of calls (transport.h) are of collectives. A message is recorded when its wait has become long,
 * so none that is quick pays for it. With these a rank that waits can say what the other one is in, and sees
 * when ranks wait for each other in a circle, as two do that send first and receive then: nothing will ever
 * move there, and what is missing is a group.
 *
 * Such a circle ends the communicator, but only if it is certain. A record may be old: its rank was not run
 * since its message had come. So three looks are taken. The first finds the circle: at its end, all its ranks
 * were in these waits, if none has left its own by the third. The second notes how many looks each rank has
 * taken by then. At the third each rank has taken two more: before the last one, and after all were in the
 * circle, it has polled its call, which did not move. Nothing else can move it: of one communicator the calls
 * run in one order, and what each rank is in is the last call of its group. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "run/run.h"

enum { DESCRIPTION = 128, NAMED_AT_MOST = 16, LOOKS = 2 };

static int count_left(const struct tt_pending *pending, int count)
{
    int left = 0;
    for (int i = 0; i < count; i++)
        left += !pending[i].over;
    return left;
}

static void tell(const struct tt_pending *p, bool alone)
{
    struct tt_endpoint *e = p->op->endpoint;
    struct tt_comm *comm = p->call.comm;
    struct tt_call_record record;
    tt_call_record(&p->call, p->op, &record);
    record.alone = alone;
    record.wait = comm->waiting.waits;
    record.looks = ++comm->waiting.looks;
    e->control->publish(e, &record, TT_WAIT);
}

/* The ranks from this one on, each of which waits in a message for the next, and the last for this one.
 * Returns how many there are; 0: there is no circle. A send and a receive between two ranks are none. */
static int find_circle(const struct tt_op *op, struct tt_mark *marks)
{
    const struct tt_control_ops *control = op->endpoint->control;
    int me = op->endpoint->me, rank = me;
    unsigned kind = TT_COLLECTIVES;
    for (int length = 1; length <= op->endpoint->n; length++) {
        struct tt_call_record record;
        if (!control->call_of(op->endpoint, rank, TT_WAIT, &record) || !record.alone || record.root < 0 ||
            record.root >= op->endpoint->n)
            return 0;
        if (length == 1)
            kind = record.collective;
        marks[length - 1] = (struct tt_mark){ .rank = rank, .wait = record.wait };
        rank = record.root;
        if (rank == me)
            return length == 1 || (length == 2 && record.collective != kind) ? 0 : length;
    }
    return 0;
}

void tt_fault_name_call(const struct tt_pending *p, int peer, char *text, size_t bytes)
{
    const struct tt_op *op = p->op;
    const struct tt_control_ops *control = op->endpoint->control;
    bool p2p = op->messages.class == TT_CLASS_P2P;
    struct tt_call_record record;
    char call[DESCRIPTION];
    text[0] = '\0';
    if (peer < 0 || peer >= p->call.comm->n)
        return;
    uint64_t sequence = control->completed_by(op->endpoint, peer);
    if (control->call_of(op->endpoint, peer, TT_WAIT, &record) && (p2p || record.alone)) {
        tt_record_describe(&record, call, sizeof call);
        snprintf(text, bytes, ", which waits in %s", call);
    } else if ((p2p || sequence != op->messages.sequence) &&
               control->call_of(op->endpoint, peer, sequence, &record)) {
        tt_record_describe(&record, call, sizeof call);
        snprintf(text, bytes, ", which is in operation %llu, %s", (unsigned long long)sequence, call);
    }
}

/* True if the circle is still the same. *certain: all its ranks have looked LOOKS times since the marks were
 * set; they are set now, if they were not. */
static bool follow_circle(const struct tt_pending *p, struct tt_circle *circle, bool *certain)
{
    const struct tt_op *op = p->op;
    struct tt_mark *mark = p->call.comm->waiting.circle;
    int rank = op->endpoint->me;
    *certain = circle->marked;
    for (int i = 0; i < circle->length; i++, mark++) {
        struct tt_call_record record;
        if (rank != mark->rank || !op->endpoint->control->call_of(op->endpoint, rank, TT_WAIT, &record) ||
            !record.alone || record.wait != mark->wait)
            return false;
        if (!circle->marked)
            mark->looks = record.looks;
        *certain = *certain && record.looks - mark->looks >= LOOKS;
        rank = record.root;
    }
    circle->marked = true;
    return rank == op->endpoint->me;
}

static void end_circle(const struct tt_pending *p, int length)
{
    struct tt_comm *comm = p->call.comm;
    struct tt_cause cause = { .status = TUTTI_INVALID_USAGE,
        .rank = comm->rank,
        .peer = p->call.root,
        .sequence = p->op->messages.sequence };
    char mine[DESCRIPTION], ranks[NAMED_AT_MOST * 16] = "";
    struct tt_text list = { ranks, sizeof ranks, 0 };
    tt_call_describe(&p->call, mine, sizeof mine);
    for (int i = 0; i < length && i < NAMED_AT_MOST; i++)
        tt_put(&list, "%d -> ", comm->waiting.circle[i].rank);
    tt_put(&list, "%s%d", length > NAMED_AT_MOST ? "... -> " : "", comm->rank);
    snprintf(cause.operation, sizeof cause.operation, "%s", tt_collectives[p->call.collective].name);
    tt_cause_say(&cause,
        "%s, found by rank %d: %s: ranks wait for each other in a circle, %s, each in a send or recv; "
        "each must group its sends and recvs (tutti_group_start), or another order of them is needed",
        comm->identity.name, comm->rank, mine, ranks);
    tt_comm_fail(comm, &cause);
}

static void look_at_circle(const struct tt_pending *p, struct tt_circle *circle)
{
    bool certain;
    if (circle->length == 0 || !follow_circle(p, circle, &certain))
        *circle = (struct tt_circle){ .length = find_circle(p->op, p->call.comm->waiting.circle) };
    else if (certain)
        end_circle(p, circle->length);
}

void tt_fault_tell_waits(const struct tt_pending *pending, int count, struct tt_circle *circle)
{
    const struct tt_comm *seen = NULL;
    bool last = count_left(pending, count) == 1;
    for (int i = 0; i < count; i++) {
        const struct tt_pending *p = &pending[i];
        if (p->over || p->op == NULL || p->op->messages.class != TT_CLASS_P2P || p->call.comm == seen)
            continue;
        bool alone = last && p->call.staging == NULL; /* a device takes its time */
        tell(p, alone);
        seen = p->call.comm;
        if (alone)
            look_at_circle(p, circle);
    }
}

void tt_fault_tell_moved(const struct tt_pending *pending, int count)
{
    const struct tt_comm *seen = NULL;
    for (int i = 0; i < count; i++) {
        struct tt_comm *comm = pending[i].call.comm;
        if (comm != seen) {
            comm->endpoint->control->publish(comm->endpoint, NULL, TT_WAIT);
            comm->waiting.waits++;
        }
        seen = comm;
    }
}

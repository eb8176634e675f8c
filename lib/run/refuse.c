/* SPDX-License-Identifier: BSD-3-Clause */
/* refuse.c: a call that this rank refuses, told to those who would wait for it.
 *
 * A call with wrong arguments takes no number, and this rank may make it right and go on. But its peers may
 * be in theirs, and would wait for it until the deadline. So the rank leaves word of it, and takes the word
 * back when it starts another call: who waits for this rank meanwhile, waits for one that refused a call and
 * has made none since (fault.c). The word has the number that the call would have had, for ranks that all
 * refuse the same call have nothing to reproach each other with.
 *
 * Calls that are known (call_cache.h) start without a look at this, so the word closes their way. While
 * streams have calls to run, the number is not known: the word waits until they are over, and is dropped if
 * another call is queued before. */
#include <stdio.h>

#include "base/status.h"
#include "run/run.h"

pthread_mutex_t tt_streams_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_local(tutti_status status)
{
    return status < TUTTI_OK && status > TUTTI_SYSTEM_ERROR;
}

/* Tells the peers of a refusal that waits for that. The lock is held, and no call of the communicator is
 * under way. */
static void tell(struct tt_comm *comm, int peer, bool sends)
{
    struct tt_refused *refused = tt_refused_of(comm, peer, sends);
    struct tt_refusal refusal = { .peer = peer, .sends = sends, .number = comm->numbers.sequence };
    if (!refused->waits)
        return;
    if (peer != TT_NONE)
        refusal.number = (sends ? comm->numbers.next_send : comm->numbers.next_recv)[TT_CLASS_P2P][peer];
    refused->waits = false;
    refused->last = refusal.number + 1;
    snprintf(refusal.text, sizeof refusal.text, "%s", comm->refusals.text);
    comm->endpoint->control->refuse(comm->endpoint, &refusal);
}

void tt_refusals_tell(struct tt_comm *comm)
{
    if (!comm->refusals.waits)
        return;
    tell(comm, TT_NONE, false);
    for (int peer = 0; peer < comm->n; peer++) {
        tell(comm, peer, false);
        tell(comm, peer, true);
    }
    comm->refusals.waits = false;
    comm->refusals.told = true;
    comm->known = false;
}

void tt_refusals_drop(struct tt_comm *comm)
{
    for (int i = 0; comm->refusals.waits && i < 1 + 2 * comm->n; i++)
        comm->refusals.calls[i].waits = false;
    comm->refusals.waits = false;
}

void tt_refusals_take_back(struct tt_comm *comm)
{
    pthread_mutex_lock(&tt_streams_lock);
    comm->refusals.told = false;
    comm->known = !comm->finalized;
    comm->endpoint->control->refuse(comm->endpoint, NULL);
    pthread_mutex_unlock(&tt_streams_lock);
}

/* True if other ranks are to hear of a refusal: there are others, and the communicator is not over. */
static bool concerns_others(struct tt_comm *comm)
{
    struct tt_cause cause;
    return comm->endpoint->control->refuse != NULL && comm->n > 1 && !comm->finalized &&
           !comm->endpoint->control->cause(comm->endpoint, &cause);
}

static void refuse(struct tt_comm *comm, int peer, bool sends, const char *what, const char *why)
{
    struct tt_refusals *r = &comm->refusals;
    pthread_mutex_lock(&tt_streams_lock);
    snprintf(r->text, sizeof r->text, "%s%s%s", what, what[0] != '\0' ? ": " : "", why);
    r->waits = tt_refused_of(comm, peer, sends)->waits = true;
    if (atomic_load_explicit(&comm->streams.queued, memory_order_acquire) == 0)
        tt_refusals_tell(comm);
    pthread_mutex_unlock(&tt_streams_lock);
}

tutti_status tt_call_refuse(const struct tt_call *call, tutti_status status)
{
    char what[128];
    bool p2p = tt_collectives[call->collective].p2p;
    bool nobody = p2p && (call->root < 0 || call->root >= call->comm->n || call->root == call->comm->rank);
    if (!is_local(status) || nobody || !concerns_others(call->comm))
        return status;
    tt_call_describe(call, what, sizeof what);
    refuse(call->comm, p2p ? call->root : TT_NONE, call->collective == TT_P2P_SEND, what, tt_last_error());
    return status;
}

tutti_status tt_comm_refuse(struct tt_comm *comm, tutti_status status)
{
    if (is_local(status))
        tt_comm_tell_refusal(comm, TT_NONE, tt_last_error());
    return status;
}

void tt_comm_tell_refusal(struct tt_comm *comm, int peer, const char *why)
{
    if (!concerns_others(comm) || peer == comm->rank)
        return;
    refuse(comm, peer, false, "", why);
    if (peer != TT_NONE)
        refuse(comm, peer, true, "", why);
}

tutti_status tt_batch_refuse(const struct tt_batch *batch, tutti_status status)
{
    for (int i = 0; i < batch->count; i++)
        tt_call_refuse(&batch->calls[i].call, status);
    return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* ends.c: how communicators end.
 *
 * Of a communicator that has failed, destroy and abort free all and are successes: a program that cleans up
 * after a failure has nothing left to do about it. */
#include "nccl/shim.h"

ncclResult_t tt_nccl_finalize_now(ncclComm_t comm)
{
    ncclResult_t result = tt_nccl_check("ncclCommFinalize", comm);
    if (result != ncclSuccess)
        return result;
    if (comm->finalized)
        return tt_nccl_fail(
            ncclInvalidArgument, "ncclCommFinalize: comm was finalized before; legal: ncclCommDestroy");
    comm->finalized = true;
    if (comm->blocking && tt_nccl_siblings(comm->family) == 1)
        return tt_nccl_answer(tutti_comm_finalize(comm->tutti));
    /* Who has several ranks in one process may call for one after the other. */
    ncclResult_t begun = tt_nccl_answer(tutti_comm_finalize_within(comm->tutti, 0));
    return begun == ncclInProgress && comm->blocking ? ncclSuccess : begun;
}

/* Of several ranks of a thread: blocking ones wait for each other at the end of the group. */
static ncclResult_t finalize_later(ncclComm_t comm)
{
    struct tt_nccl_later later = { .kind = TT_NCCL_FINALIZE, .comm = comm };
    if (comm->blocking && comm->finalized)
        return tt_nccl_finalize_now(comm); /* which says so */
    ncclResult_t result = comm->blocking ? tt_nccl_answer(tutti_comm_finalize(comm->tutti)) : ncclSuccess;
    if (result == ncclSuccess && tt_nccl_group_add(&later) == NULL)
        result = ncclSystemError;
    return result;
}

PUBLIC(ncclResult_t, CommFinalize, (ncclComm_t comm))
{
    ncclResult_t result = tt_nccl_check("ncclCommFinalize", comm);
    if (result != ncclSuccess)
        return result;
    if (tt_nccl_is_revoked(comm))
        return tt_nccl_fail(ncclInvalidUsage, "ncclCommFinalize: comm was revoked; legal: ncclCommDestroy");
    return tt_nccl_group != NULL ? finalize_later(comm) : tt_nccl_finalize_now(comm);
}

static ncclResult_t destroy_later(ncclComm_t comm)
{
    struct tt_nccl_later later = { .kind = TT_NCCL_DESTROY, .comm = comm };
    return tt_nccl_group_add(&later) != NULL ? ncclSuccess : ncclSystemError;
}

/* A child that a thread still makes is that thread's to end; one that could not be made is nobody's. */
static bool give_up_child(ncclComm_t comm)
{
    int making = TT_NCCL_IS_MADE;
    if (comm->magic != TT_NCCL_LIVE)
        return false;
    if (atomic_compare_exchange_strong(&comm->making, &making, TT_NCCL_NOT_WANTED))
        return true;
    return making == TT_NCCL_NOT_MADE && tt_nccl_retire(comm);
}

ncclResult_t tt_nccl_destroy_now(ncclComm_t comm)
{
    ncclResult_t result = tt_nccl_check("ncclCommDestroy", comm);
    if (result != ncclSuccess)
        return result;
    tutti_comm *tutti = comm->tutti;
    bool healthy = tutti_comm_state(tutti) == TUTTI_OK && !tt_nccl_is_revoked(comm);
    if (healthy && !comm->finalized)
        tutti_comm_flush(tutti, -1);
    if (!tt_nccl_close(comm))
        return tt_nccl_fail(ncclInternalError, "ncclCommDestroy: another thread has been in a call on comm "
                                               "for ten seconds; it is left as it is");
    if (!tt_nccl_retire(comm))
        return tt_nccl_refuse("ncclCommDestroy", comm);
    if (!healthy || tutti_comm_release(tutti, TT_NCCL_LINGER_MS) != TUTTI_OK)
        tutti_comm_destroy(tutti);
    return ncclSuccess;
}

PUBLIC(ncclResult_t, CommDestroy, (ncclComm_t comm))
{
    if (comm == NULL || give_up_child(comm))
        return ncclSuccess;
    ncclResult_t result = tt_nccl_check("ncclCommDestroy", comm);
    if (result != ncclSuccess)
        return result;
    return tt_nccl_group != NULL ? destroy_later(comm) : tt_nccl_destroy_now(comm);
}

/* Partly: on all ranks, while a kernel runs whose buffers other GPUs may read in place. */
PUBLIC(ncclResult_t, CommAbort, (ncclComm_t comm))
{
    if (comm == NULL || give_up_child(comm))
        return ncclSuccess;
    ncclResult_t result = tt_nccl_check("ncclCommAbort", comm);
    if (result != ncclSuccess)
        return result;
    /* Every call on it returns, and none enters any more. */
    atomic_fetch_or(&comm->users, TT_NCCL_ENDING | TT_NCCL_REVOKED);
    tutti_comm_abort_local(comm->tutti);
    return tt_nccl_group != NULL ? destroy_later(comm) : tt_nccl_destroy_now(comm);
}

/* Calls on it return, and none enters any more; children can be made of it. */
/* Partly: on all ranks; ncclCommSplit and ncclCommShrink make new ones of it, ncclCommGrow does not. */
PUBLIC(ncclResult_t, CommRevoke, (ncclComm_t comm, int flags))
{
    if (comm == NULL)
        return ncclSuccess;
    ncclResult_t result = tt_nccl_check("ncclCommRevoke", comm);
    if (result != ncclSuccess)
        return result;
    if (flags != NCCL_REVOKE_DEFAULT)
        return tt_nccl_fail(
            ncclInvalidArgument, "ncclCommRevoke: revokeFlags is %d; legal: NCCL_REVOKE_DEFAULT", flags);
    if (comm->finalized)
        return tt_nccl_fail(
            ncclInvalidArgument, "ncclCommRevoke: comm was finalized before; legal: ncclCommDestroy");
    atomic_fetch_or(&comm->users, TT_NCCL_REVOKED);
    tutti_comm_abort(comm->tutti);
    return ncclSuccess;
}

PUBLIC(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t *error))
{
    if (error == NULL)
        return tt_nccl_fail(ncclInvalidArgument, "ncclCommGetAsyncError: asyncError is NULL");
    bool live = comm != NULL && comm->magic == TT_NCCL_LIVE;
    if (live && comm->making == TT_NCCL_NOT_MADE) {
        *error = comm->failure;
        return ncclSuccess;
    }
    if (live && (comm->tutti == NULL || (comm->users & TT_NCCL_BUSY) != 0)) {
        *error = ncclInProgress;
        return ncclSuccess;
    }
    ncclResult_t result = tt_nccl_check("ncclCommGetAsyncError", comm);
    if (result != ncclSuccess)
        return result;
    if (tt_nccl_is_revoked(comm)) /* on purpose */
        *error = ncclSuccess;
    else if (comm->finalized && tt_nccl_enter("ncclCommGetAsyncError", comm) == ncclSuccess) {
        *error = tt_nccl_result(tutti_comm_finalize_within(comm->tutti, 0));
        tt_nccl_leave(comm);
    } else {
        *error = tt_nccl_result(tutti_comm_state(comm->tutti));
    }
    return ncclSuccess;
}

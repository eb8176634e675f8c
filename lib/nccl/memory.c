/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c: allocation, registration and windows. A window is a registration with its addresses: where all
 * ranks have it, as far as it is mapped at the one that asks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/shim.h"

enum { WINDOW = 0x71d0e };
struct ncclWindow_vidmem {
    uint32_t magic;
    ncclComm_t comm;
    void *ptr;
    size_t bytes;
    tutti_registration *registration;
    int n, rank;
    /* By rank: where each has this memory; then where this rank has theirs, once all have registered. 0: it
     * is not there. */
    uint64_t at[];
};

PUBLIC(ncclResult_t, MemAlloc, (void **ptr, size_t size))
{
    int count = 0;
    tt_nccl_start();
    if (ptr == NULL || size == 0)
        return tt_nccl_fail(ncclInvalidArgument, "ncclMemAlloc: %s",
            ptr == NULL ? "ptr is NULL" : "size is 0; legal: 1 and more");
    tutti_status status = tutti_device_count(&count);
    if (status == TUTTI_OK)
        status = tutti_mem_alloc(size, count > 0 ? TUTTI_MEM_CUDA : TUTTI_MEM_HOST, ptr);
    return tt_nccl_answer(status);
}

PUBLIC(ncclResult_t, MemFree, (void *ptr))
{
    return tt_nccl_answer(tutti_mem_free(ptr));
}

static ncclResult_t register_memory(
    const char *call, ncclComm_t comm, void *buffer, size_t size, tutti_registration **registration)
{
    if (buffer == NULL || size == 0)
        return tt_nccl_fail(ncclInvalidArgument, "%s: %s", call,
            buffer == NULL ? "buff is NULL" : "size is 0; legal: 1 and more");
    return tt_nccl_answer(tutti_mem_register(comm->tutti, buffer, size, registration));
}

PUBLIC(ncclResult_t, CommRegister, (const ncclComm_t comm, void *buffer, size_t size, void **handle))
{
    tutti_registration *registration = NULL;
    ncclResult_t result = tt_nccl_enter("ncclCommRegister", comm);
    if (result != ncclSuccess)
        return result;
    result = handle == NULL ? tt_nccl_fail(ncclInvalidArgument, "ncclCommRegister: handle is NULL")
                            : register_memory("ncclCommRegister", comm, buffer, size, &registration);
    if (result == ncclSuccess)
        *handle = registration;
    tt_nccl_leave(comm);
    return result;
}

PUBLIC(ncclResult_t, CommDeregister, (const ncclComm_t comm, void *handle))
{
    ncclResult_t result = tt_nccl_check("ncclCommDeregister", comm);
    if (result != ncclSuccess || handle == NULL)
        return result;
    return tt_nccl_answer(tutti_mem_deregister(comm->tutti, handle));
}

/* Ranks of this process reach each other's memory of the host at its own address, and that of one device. */
static uint64_t where_it_is(const struct ncclWindow_vidmem *w, int rank)
{
    ncclComm_t sibling = tt_nccl_sibling(w->comm->family, rank);
    void *there = NULL;
    bool same_device = sibling != NULL && sibling->tutti != NULL &&
                       tutti_comm_device(sibling->tutti) == tutti_comm_device(w->comm->tutti);
    if (same_device || tutti_mem_address_at(w->comm->tutti, w->registration, rank, &there) != TUTTI_OK)
        there = same_device ? w->ptr : NULL;
    return (uintptr_t)there;
}

/* All ranks register: each tells each other one where that has its memory. In a group they do at its end. */
static ncclResult_t meet(struct ncclWindow_vidmem *w)
{
    for (int r = 0; r < w->n; r++)
        w->at[r] = where_it_is(w, r);
    return tt_nccl_answer(
        tutti_all_to_all(w->at, w->at + w->n, 1, TUTTI_UINT64, w->comm->tutti, tutti_no_stream()));
}

static ncclResult_t check_arguments(const void *buffer, size_t size, const ncclWindow_t *win, int flags)
{
    if (win == NULL || buffer == NULL || size == 0)
        return tt_nccl_fail(ncclInvalidArgument, "ncclCommWindowRegister: %s",
            win == NULL      ? "win is NULL"
            : buffer == NULL ? "buff is NULL"
                             : "size is 0; legal: 1 and more");
    if ((flags & ~0xf) != 0) /* those of 2.32 */
        return tt_nccl_fail(
            ncclInvalidArgument, "ncclCommWindowRegister: winFlags is %#x; legal: NCCL_WIN_...", flags);
    return ncclSuccess;
}

static ncclResult_t make_window(ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *win)
{
    struct ncclWindow_vidmem *made = calloc(1, sizeof *made + 2 * (size_t)comm->n * sizeof made->at[0]);
    if (made == NULL)
        return tt_nccl_fail(ncclSystemError, "ncclCommWindowRegister: no memory");
    *made = (struct ncclWindow_vidmem){
        .magic = WINDOW, .comm = comm, .ptr = buffer, .bytes = size, .n = comm->n, .rank = comm->rank
    };
    ncclResult_t result = tt_nccl_answer(tutti_mem_register(comm->tutti, buffer, size, &made->registration));
    if (result == ncclSuccess && (result = meet(made)) != ncclSuccess)
        tutti_mem_deregister(comm->tutti, made->registration);
    if (result == ncclSuccess)
        *win = made;
    else
        free(made);
    return result;
}

/* Partly: kernels of the program can use the pointers that it gives, and not the window itself. */
PUBLIC(ncclResult_t, CommWindowRegister,
    (ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *win, int flags))
{
    ncclResult_t result = tt_nccl_enter("ncclCommWindowRegister", comm);
    if (result != ncclSuccess)
        return result;
    result = check_arguments(buffer, size, win, flags);
    if (result == ncclSuccess)
        result = make_window(comm, buffer, size, win);
    if (result == ncclInvalidArgument) /* peers may be in it, and wait for this rank */
        tutti_comm_refuse(comm->tutti, -1, "a window that cannot be registered");
    tt_nccl_leave(comm);
    return result;
}

static ncclResult_t check_window(const char *call, ncclWindow_t win)
{
    return win != NULL && win->magic == WINDOW
               ? ncclSuccess
               : tt_nccl_fail(ncclInvalidArgument, "%s: window is %s", call,
                     win == NULL ? "NULL" : "none that ncclCommWindowRegister of this library made");
}

PUBLIC(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))
{
    ncclResult_t result = tt_nccl_check("ncclCommWindowDeregister", comm);
    if (result != ncclSuccess || win == NULL)
        return result;
    if ((result = check_window("ncclCommWindowDeregister", win)) != ncclSuccess)
        return result;
    if (win->comm != comm)
        return tt_nccl_fail(ncclInvalidArgument, "ncclCommWindowDeregister: win is another communicator's");
    result = tt_nccl_answer(tutti_mem_deregister(comm->tutti, win->registration));
    if (result == ncclSuccess) {
        win->magic = 0;
        free(win);
    }
    return result;
}

PUBLIC(ncclResult_t, WinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void **ptr))
{
    ncclResult_t result = tt_nccl_check("ncclWinGetUserPtr", comm);
    if (result == ncclSuccess)
        result = check_window("ncclWinGetUserPtr", win);
    if (result == ncclSuccess && ptr == NULL)
        return tt_nccl_fail(ncclInvalidArgument, "ncclWinGetUserPtr: outUserPtr is NULL");
    if (result == ncclSuccess)
        *ptr = win->ptr;
    return result;
}

/* NULL, as NCCL answers, of a peer whose memory is not mapped here. */
static ncclResult_t pointer_of(const char *call, ncclWindow_t win, size_t offset, int rank, void **ptr)
{
    ncclResult_t result = check_window(call, win);
    if (result == ncclSuccess && (ptr == NULL || offset >= win->bytes || rank < 0 || rank >= win->n))
        return tt_nccl_fail(ncclInvalidArgument, "%s: %s", call,
            ptr == NULL            ? "outPtr is NULL"
            : offset >= win->bytes ? "offset is beyond the window"
                                   : "peer is no rank of the window's communicator");
    if (result != ncclSuccess)
        return result;
    uint64_t at = rank == win->rank ? (uintptr_t)win->ptr : win->at[win->n + rank];
    *ptr = at != 0 ? (char *)(uintptr_t)at + offset : NULL;
    return ncclSuccess;
}

/* Partly: of ranks of this process, and where processes map each other's memory; NULL of others. */
PUBLIC(ncclResult_t, GetPeerDevicePointer, (ncclWindow_t win, size_t offset, int peer, void **ptr))
{
    return pointer_of("ncclGetPeerDevicePointer", win, offset, peer, ptr);
}

/* Partly: of this rank itself, which is the whole team. */
PUBLIC(ncclResult_t, GetLsaDevicePointer, (ncclWindow_t win, size_t offset, int lsa_rank, void **ptr))
{
    ncclResult_t result = check_window("ncclGetLsaDevicePointer", win);
    if (result == ncclSuccess && lsa_rank != 0)
        return tt_nccl_fail(ncclInvalidArgument,
            "ncclGetLsaDevicePointer: lsaRank is %d; legal: 0, for the team of ncclTeamLsa is this rank "
            "alone; "
            "what works: ncclGetPeerDevicePointer",
            lsa_rank);
    return result == ncclSuccess ? pointer_of("ncclGetLsaDevicePointer", win, offset, win->rank, ptr)
                                 : result;
}

/* Nothing is given back, and ncclCommMemStats says that there is nothing to give. */
/* Partly: it gives nothing back. */
PUBLIC(ncclResult_t, CommSuspend, (ncclComm_t comm, int flags))
{
    ncclResult_t result = tt_nccl_check("ncclCommSuspend", comm);
    if (result == ncclSuccess && flags != NCCL_SUSPEND_MEM)
        return tt_nccl_fail(
            ncclInvalidArgument, "ncclCommSuspend: flags is %d; legal: NCCL_SUSPEND_MEM", flags);
    if (result == ncclSuccess && comm->suspended)
        return tt_nccl_fail(ncclInvalidUsage, "ncclCommSuspend: comm is suspended; legal: ncclCommResume");
    if (result == ncclSuccess)
        comm->suspended = true;
    return result;
}

PUBLIC(ncclResult_t, CommResume, (ncclComm_t comm))
{
    ncclResult_t result = tt_nccl_check("ncclCommResume", comm);
    if (result == ncclSuccess && !comm->suspended)
        return tt_nccl_fail(ncclInvalidUsage, "ncclCommResume: comm is not suspended");
    if (result == ncclSuccess)
        comm->suspended = false;
    return result;
}

PUBLIC(ncclResult_t, CommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value))
{
    ncclResult_t result = tt_nccl_check("ncclCommMemStats", comm);
    if (result != ncclSuccess)
        return result;
    if (value == NULL || (unsigned int)stat > ncclStatGpuMemTotal)
        return tt_nccl_fail(ncclInvalidArgument, "ncclCommMemStats: %s",
            value == NULL ? "value is NULL"
                          : "stat is none; legal: ncclStatGpuMemSuspend to ncclStatGpuMemTotal");
    if (stat == ncclStatGpuMemPersist || stat == ncclStatGpuMemTotal) {
        char text[128] = "";
        unsigned long long device = 0;
        tutti_query(comm->tutti, "memory", text, sizeof text);
        const char *found = strstr(text, "device=");
        if (found != NULL)
            sscanf(found, "device=%llu", &device);
        *value = device;
        return ncclSuccess;
    }
    *value = stat == ncclStatGpuMemSuspended && comm->suspended;
    return ncclSuccess;
}

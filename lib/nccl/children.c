/* SPDX-License-Identifier: BSD-3-Clause */
/* children.c: communicators that are made of others: split, shrink and grow. In a group they are made at its
 * end, those of several ranks of a thread side by side. */
#include <stdlib.h>
#include <string.h>

#include "nccl/shim.h"

/* What a child has of its parent where its config says nothing. */
static struct tt_nccl_setting of_parent(ncclComm_t parent)
{
    return (struct tt_nccl_setting){ .blocking = parent->blocking };
}

/* Now, or at the end of the group; the excluded are freed then. */
static ncclResult_t make(struct tt_nccl_later *later)
{
    later->kind = TT_NCCL_CHILD;
    if (tt_nccl_group != NULL) {
        *later->out = NULL;
        ncclResult_t queued = tt_nccl_group_add(later);
        if (queued != ncclSuccess)
            free(later->excluded);
        return queued;
    }
    ncclResult_t result = later->make(later);
    free(later->excluded);
    return result;
}

static ncclResult_t split(struct tt_nccl_later *later)
{
    ncclComm_t parent = later->comm;
    tutti_comm *child = NULL;
    tutti_config config = { .size = sizeof config,
        .name = later->setting.name[0] != 0 ? later->setting.name : NULL };
    /* Ranks of one child have the same family, in all processes; two splits of one parent have not. */
    uint64_t family = tt_nccl_hash(parent->family, &later->color, sizeof later->color);
    family += ++parent->splits;
    tutti_status status = tutti_comm_split(parent->tutti, later->color, later->key, &config, &child);
    if (status != TUTTI_OK)
        return tt_nccl_answer(status);
    *later->out = NULL;
    if (child == NULL)
        return ncclSuccess;
    ncclComm_t made = tt_nccl_new(tutti_comm_size(child), tutti_comm_rank(child), &later->setting, family);
    if (made == NULL) {
        tutti_comm_destroy(child);
        return tt_nccl_fail(ncclSystemError, "ncclCommSplit: no memory");
    }
    made->tutti = child;
    tt_nccl_list(made);
    *later->out = made;
    tt_nccl_hello(made);
    return ncclSuccess;
}

PUBLIC(ncclResult_t, CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config))
{
    ncclResult_t result = tt_nccl_enter("ncclCommSplit", comm);
    if (result != ncclSuccess)
        return result;
    struct tt_nccl_setting fallback = of_parent(comm);
    struct tt_nccl_later later = { .comm = comm, .out = out, .make = split, .color = color, .key = key };
    if (out == NULL)
        result = tt_nccl_fail(ncclInvalidArgument, "ncclCommSplit: newcomm is NULL");
    else if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
        result = tt_nccl_fail(
            ncclInvalidArgument, "ncclCommSplit: color is %d; legal: 0 and more, NCCL_SPLIT_NOCOLOR", color);
    else
        result = tt_nccl_read_config("ncclCommSplit", config, &fallback, &later.setting);
    if (result == ncclSuccess)
        result = make(&later);
    tt_nccl_leave(comm);
    return result;
}

/* The rank in the child, and how many it has. */
static int place_among(const char *excluded, int n, int rank, int *count)
{
    int place = 0;
    *count = 0;
    for (int r = 0; r < n; r++) {
        place += r < rank && !excluded[r];
        *count += !excluded[r];
    }
    return place;
}

static ncclResult_t shrink(struct tt_nccl_later *later)
{
    tutti_id id;
    int n, rank = place_among(later->excluded, later->comm->n, later->comm->rank, &n);
    tutti_status status = tt_nccl_agree_on_id(later->comm, later->excluded, &id);
    if (status != TUTTI_OK)
        return tt_nccl_answer(status);
    ncclUniqueId meeting;
    memcpy(&meeting, &id, sizeof meeting);
    return tt_nccl_join("ncclCommShrink", later->out, n, &meeting, rank, &later->setting);
}

static ncclResult_t read_excluded(ncclComm_t comm, const int *list, int count, char **excluded)
{
    char *each = calloc((size_t)comm->n, 1);
    if (each == NULL)
        return tt_nccl_fail(ncclSystemError, "ncclCommShrink: no memory");
    for (int i = 0; i < count; i++) {
        if (list[i] < 0 || list[i] >= comm->n || each[list[i]]) {
            int wrong = list[i];
            free(each);
            return tt_nccl_fail(ncclInvalidArgument,
                "ncclCommShrink: excludeRanksList has rank %d; legal: 0 to %d, each once", wrong,
                comm->n - 1);
        }
        each[list[i]] = 1;
    }
    if (each[comm->rank]) {
        free(each);
        return tt_nccl_fail(ncclInvalidUsage,
            "ncclCommShrink: rank %d is in its own excludeRanksList; legal: ranks that stay call, others do "
            "not",
            comm->rank);
    }
    *excluded = each;
    return ncclSuccess;
}

static ncclResult_t check_shrink(ncclComm_t comm, const int *list, int count, ncclComm_t *out, int flags)
{
    if (out == NULL || list == NULL)
        return tt_nccl_fail(
            ncclInvalidArgument, "ncclCommShrink: %s is NULL", out == NULL ? "newcomm" : "excludeRanksList");
    if (count < 1 || count >= comm->n)
        return tt_nccl_fail(ncclInvalidArgument,
            "ncclCommShrink: excludeRanksCount is %d; legal: 1 to %d, so that a rank stays", count,
            comm->n - 1);
    if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
        return tt_nccl_fail(ncclInvalidArgument,
            "ncclCommShrink: shrinkFlags is %d; legal: NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT", flags);
    if (flags == NCCL_SHRINK_ABORT || tutti_comm_state(comm->tutti) < 0)
        return tt_nccl_fail(ncclInvalidUsage, "ncclCommShrink: Tutti ends a communicator on all ranks, and "
                                              "those that are left have no way to meet "
                                              "by it yet; what works: ncclCommAbort, then ncclCommInitRank "
                                              "of those that are left, with an id that "
                                              "one of them makes and hands around");
    return ncclSuccess;
}

/* Partly: not after a failure, nor with NCCL_SHRINK_ABORT: make a new communicator of those that are left. */
PUBLIC(ncclResult_t, CommShrink,
    (ncclComm_t comm, int *list, int count, ncclComm_t *out, ncclConfig_t *config, int flags))
{
    ncclResult_t result = tt_nccl_enter("ncclCommShrink", comm);
    if (result != ncclSuccess)
        return result;
    struct tt_nccl_setting fallback = of_parent(comm);
    struct tt_nccl_later later = { .comm = comm, .out = out, .make = shrink };
    result = check_shrink(comm, list, count, out, flags);
    if (result == ncclSuccess)
        result = tt_nccl_read_config("ncclCommShrink", config, &fallback, &later.setting);
    if (result == ncclSuccess)
        result = read_excluded(comm, list, count, &later.excluded);
    if (result == ncclSuccess)
        result = make(&later);
    tt_nccl_leave(comm);
    return result;
}

PUBLIC(ncclResult_t, CommGetUniqueId, (ncclComm_t comm, ncclUniqueId *id))
{
    ncclResult_t result = tt_nccl_check("ncclCommGetUniqueId", comm);
    return result == ncclSuccess ? pncclGetUniqueId(id) : result;
}

/* Ranks of the old communicator keep their numbers; the root has the id, and tells the others. */
static ncclResult_t grow(
    ncclComm_t comm, int n, const ncclUniqueId *id, ncclComm_t *out, const ncclConfig_t *config)
{
    struct tt_nccl_setting setting, fallback = of_parent(comm);
    ncclUniqueId meeting;
    struct {
        uint8_t has;
        ncclUniqueId id;
    } mine = { .has = id != NULL }, *all = calloc((size_t)comm->n, sizeof *all);
    ncclResult_t result = tt_nccl_read_config("ncclCommGrow", config, &fallback, &setting);
    int holders = 0;
    if (all == NULL)
        return tt_nccl_fail(ncclSystemError, "ncclCommGrow: no memory");
    if (id != NULL)
        mine.id = *id;
    if (result == ncclSuccess)
        result = tt_nccl_answer(
            tutti_all_gather(&mine, all, sizeof mine, TUTTI_UINT8, comm->tutti, tutti_no_stream()));
    for (int r = 0; result == ncclSuccess && r < comm->n; r++) {
        holders += all[r].has;
        if (all[r].has)
            meeting = all[r].id;
    }
    free(all);
    if (result == ncclSuccess && holders != 1)
        return tt_nccl_fail(ncclInvalidArgument,
            "ncclCommGrow: %d ranks of comm give a uniqueId; legal: the one that made it gives it, others "
            "NULL",
            holders);
    return result == ncclSuccess ? tt_nccl_join("ncclCommGrow", out, n, &meeting, comm->rank, &setting)
                                 : result;
}

/* Partly: not in a group. */
PUBLIC(ncclResult_t, CommGrow,
    (ncclComm_t comm, int n, const ncclUniqueId *id, int rank, ncclComm_t *out, ncclConfig_t *config))
{
    if (out == NULL)
        return tt_nccl_fail(ncclInvalidArgument, "ncclCommGrow: newcomm is NULL");
    if (comm == NULL)
        return id != NULL ? pncclCommInitRankConfig(out, n, *id, rank, config)
                          : tt_nccl_fail(
                                ncclInvalidArgument, "ncclCommGrow: a new rank (comm NULL) has no uniqueId");
    ncclResult_t result = tt_nccl_enter("ncclCommGrow", comm);
    if (result != ncclSuccess)
        return result;
    if (rank != -1 || n <= comm->n)
        result = tt_nccl_fail(ncclInvalidArgument,
            "ncclCommGrow: %s is %d; legal: rank -1 of a rank of comm, nRanks above %d",
            rank != -1 ? "rank" : "nRanks", rank != -1 ? rank : n, comm->n);
    else if (tt_nccl_group != NULL)
        result =
            tt_nccl_fail(ncclInvalidUsage, "ncclCommGrow: in a group; legal with Tutti: outside of groups");
    else
        result = grow(comm, n, id, out, config);
    tt_nccl_leave(comm);
    return result;
}

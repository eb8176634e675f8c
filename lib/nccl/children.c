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

/* A handle for a child that Tutti has made. */
static ncclResult_t take(struct tt_nccl_later *later, const char *call, tutti_comm *child, uint64_t family)
{
    ncclComm_t made = tt_nccl_new(tutti_comm_size(child), tutti_comm_rank(child), &later->setting, family);
    if (made == NULL) {
        tutti_comm_destroy(child);
        return tt_nccl_fail(ncclSystemError, "%s: no memory", call);
    }
    made->tutti = child;
    tt_nccl_list(made);
    *later->out = made;
    tt_nccl_hello(made);
    return ncclSuccess;
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
    return take(later, "ncclCommSplit", child, family);
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

static ncclResult_t shrink(struct tt_nccl_later *later)
{
    ncclComm_t parent = later->comm;
    tutti_comm *child = NULL;
    tutti_config config = { .size = sizeof config,
        .name = later->setting.name[0] != 0 ? later->setting.name : NULL };
    uint64_t flags = later->flags == NCCL_SHRINK_ABORT ? TUTTI_SHRINK_ABORT : 0;
    uint64_t family =
        tt_nccl_hash(parent->family, later->excluded, (size_t)later->excluded_count * sizeof(int));
    family += ++parent->splits;
    tutti_status status =
        tutti_comm_shrink(parent->tutti, later->excluded, later->excluded_count, flags, &config, &child);
    return status == TUTTI_OK ? take(later, "ncclCommShrink", child, family) : tt_nccl_answer(status);
}

/* A copy, for the end of a group. */
static ncclResult_t read_excluded(ncclComm_t comm, const int *list, int count, struct tt_nccl_later *later)
{
    for (int i = 0; i < count; i++)
        if (list[i] == comm->rank)
            return tt_nccl_fail(ncclInvalidUsage,
                "ncclCommShrink: rank %d is in its own excludeRanksList; legal: ranks that stay call, others "
                "do "
                "not",
                comm->rank);
    for (int i = 0; i < count; i++) {
        bool twice = false;
        for (int k = 0; k < i; k++)
            twice = twice || list[k] == list[i];
        if (list[i] < 0 || list[i] >= comm->n || twice)
            return tt_nccl_fail(ncclInvalidArgument,
                "ncclCommShrink: excludeRanksList has rank %d; legal: 0 to %d, each once", list[i],
                comm->n - 1);
    }
    later->excluded = malloc((size_t)count * sizeof *list);
    if (later->excluded == NULL)
        return tt_nccl_fail(ncclSystemError, "ncclCommShrink: no memory");
    memcpy(later->excluded, list, (size_t)count * sizeof *list);
    later->excluded_count = count;
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
    return ncclSuccess;
}

PUBLIC(ncclResult_t, CommShrink,
    (ncclComm_t comm, int *list, int count, ncclComm_t *out, ncclConfig_t *config, int flags))
{
    ncclResult_t result = tt_nccl_enter("ncclCommShrink", comm);
    if (result != ncclSuccess)
        return result;
    struct tt_nccl_setting fallback = of_parent(comm);
    struct tt_nccl_later later = { .comm = comm, .out = out, .make = shrink, .flags = flags };
    result = check_shrink(comm, list, count, out, flags);
    if (result == ncclSuccess)
        result = tt_nccl_read_config("ncclCommShrink", config, &fallback, &later.setting);
    if (result == ncclSuccess)
        result = read_excluded(comm, list, count, &later);
    if (result == ncclSuccess)
        result = make(&later);
    tt_nccl_leave(comm);
    return result;
}

PUBLIC(ncclResult_t, CommGetUniqueId, (ncclComm_t comm, ncclUniqueId *id))
{
    tutti_id mine;
    ncclResult_t result = tt_nccl_check("ncclCommGetUniqueId", comm);
    if (result == ncclSuccess && id == NULL)
        return tt_nccl_fail(ncclInvalidArgument, "ncclCommGetUniqueId: uniqueId is NULL");
    tutti_status status = result == ncclSuccess ? tutti_comm_get_id(comm->tutti, &mine) : TUTTI_OK;
    if (result == ncclSuccess && status == TUTTI_OK)
        memcpy(id, &mine, sizeof *id);
    return result == ncclSuccess ? tt_nccl_answer(status) : result;
}

static ncclResult_t join_grown(
    ncclComm_t comm, int n, const ncclUniqueId *id, ncclComm_t *out, const struct tt_nccl_setting *setting)
{
    struct tt_nccl_later later = { .comm = comm, .out = out, .setting = *setting };
    tutti_config config = { .size = sizeof config, .name = setting->name[0] != 0 ? setting->name : NULL };
    tutti_comm *grown = NULL;
    tutti_id meeting;
    memcpy(&meeting, id, sizeof meeting);
    tutti_status status = tutti_comm_grow(comm->tutti, n, &meeting, -1, &config, &grown);
    return status == TUTTI_OK ? take(&later, "ncclCommGrow", grown, tt_nccl_hash(0, id, sizeof *id))
                              : tt_nccl_answer(status);
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
    return result == ncclSuccess ? join_grown(comm, n, &meeting, out, &setting) : result;
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c: groups. Calls are queued by Tutti's own group; here is what that does not know: failures of
 * this library's own checks, communicators that are in use until the end, handles of those that are made
 * there, and what NCCL allows in a group and Tutti does not: destroy and abort. */
#include <stdlib.h>
#include <string.h>

#include "nccl/shim.h"

enum { SIM_MAGIC = 0x74685283 };

struct tt_nccl_group {
    int depth;
    ncclResult_t first; /* failure */
    ncclComm_t *held; /* are left at the end */
    int held_count, held_room;
    struct tt_nccl_later **later;
    int later_count, later_room;
};
_Thread_local struct tt_nccl_group *tt_nccl_group;

/* Room for one more. */
static bool grow(void **array, int count, int *room, size_t bytes)
{
    if (count < *room)
        return true;
    int wanted = *room == 0 ? 16 : 2 * *room;
    void *bigger = realloc(*array, (size_t)wanted * bytes);
    if (bigger == NULL)
        return false;
    *array = bigger;
    *room = wanted;
    return true;
}

void tt_nccl_group_note(ncclResult_t failure)
{
    if (tt_nccl_group != NULL && tt_nccl_group->first == ncclSuccess)
        tt_nccl_group->first = failure;
}

void tt_nccl_group_hold(ncclComm_t comm)
{
    struct tt_nccl_group *g = tt_nccl_group;
    if (g->held_count > 0 && g->held[g->held_count - 1] == comm) {
        tt_nccl_give_back(comm); /* it is held */
        return;
    }
    if (grow((void **)&g->held, g->held_count, &g->held_room, sizeof *g->held)) {
        g->held[g->held_count++] = comm;
        return;
    }
    tt_nccl_fail(ncclSystemError, "no memory for a call in a group");
    tt_nccl_give_back(comm);
}

struct tt_nccl_later *tt_nccl_group_add(const struct tt_nccl_later *later)
{
    struct tt_nccl_group *g = tt_nccl_group;
    struct tt_nccl_later *copy = malloc(sizeof *copy);
    if (copy == NULL || !grow((void **)&g->later, g->later_count, &g->later_room, sizeof *g->later)) {
        free(copy);
        tt_nccl_fail(ncclSystemError, "no memory for a call in a group");
        return NULL;
    }
    *copy = *later;
    g->later[g->later_count++] = copy;
    return copy;
}

PUBLIC(ncclResult_t, GroupStart, (void))
{
    tt_nccl_start();
    if (tt_nccl_group == NULL && (tt_nccl_group = calloc(1, sizeof *tt_nccl_group)) == NULL)
        return tt_nccl_fail(ncclSystemError, "ncclGroupStart: no memory");
    tt_nccl_group->depth++;
    return tt_nccl_answer(tutti_group_start());
}

/* New communicators that there are not, after all. Returns InProgress if one is not ready yet. */
static ncclResult_t look_at_new(struct tt_nccl_later **all, int count)
{
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < count; i++) {
        struct tt_nccl_later *l = all[i];
        if (l->kind != TT_NCCL_INIT)
            continue;
        if (l->comm->tutti == NULL) {
            *l->out = NULL;
            tt_nccl_retire(l->comm);
        } else if (tutti_comm_state(l->comm->tutti) == TUTTI_IN_PROGRESS) {
            result = ncclInProgress;
        } else {
            tt_nccl_hello(l->comm);
        }
    }
    return result;
}

/* The first failure of what was put off. */
static ncclResult_t first_failure(struct tt_nccl_later *const *all, int count)
{
    for (int i = 0; i < count; i++)
        if (all[i]->result != ncclSuccess && all[i]->result != ncclInProgress)
            return all[i]->result;
    return ncclSuccess;
}

/* Takes those out of the list whose children threads make, with those of the same communicator behind
 * each; returns the first. */
static struct tt_nccl_later *take_those_behind(struct tt_nccl_group *g)
{
    struct tt_nccl_later *first = NULL, **end = &first;
    int left = 0;
    for (int i = 0; i < g->later_count; i++) {
        struct tt_nccl_later *l = g->later[i];
        bool takes = l->kind == TT_NCCL_CHILD_BEHIND && (first == NULL || l->comm == first->comm);
        if (!takes) {
            g->later[left++] = l;
            continue;
        }
        *end = l;
        end = &l->next;
    }
    g->later_count = left;
    return first;
}

/* Threads make children, or, if `drop`, nobody does. Returns InProgress if one does. */
static ncclResult_t begin_children(struct tt_nccl_group *g, bool drop)
{
    ncclResult_t result = ncclSuccess;
    for (struct tt_nccl_later *first; (first = take_those_behind(g)) != NULL;) {
        if (drop)
            tt_nccl_drop_children(first);
        ncclResult_t begun = drop ? ncclSuccess : tt_nccl_begin_to_make(first);
        if (result == ncclSuccess || result == ncclInProgress)
            result = begun != ncclSuccess ? begun : result;
    }
    return result;
}

/* The group has been started, and did well: what Tutti has made and finalized at its end. */
static void take_what_is_done(struct tt_nccl_later **all, int count)
{
    for (int i = 0; i < count; i++) {
        if (all[i]->kind == TT_NCCL_CHILD)
            all[i]->result = tt_nccl_take_child(all[i]);
        else if (all[i]->kind == TT_NCCL_FINALIZE && all[i]->comm->blocking)
            all[i]->comm->finalized = true;
    }
}

static void run_ends(struct tt_nccl_later **all, int count)
{
    for (int i = 0; i < count; i++) {
        if (all[i]->kind == TT_NCCL_FINALIZE && !all[i]->comm->blocking)
            all[i]->result = tt_nccl_finalize_now(all[i]->comm);
        else if (all[i]->kind == TT_NCCL_DESTROY)
            all[i]->result = tt_nccl_destroy_now(all[i]->comm);
    }
}

/* The end of a group; with `cancel` nothing is started. Communicators are in use until their children are
 * made, and only then end. */
static ncclResult_t end(const char *call, bool cancel)
{
    struct tt_nccl_group *g = tt_nccl_group;
    if (g == NULL)
        return tt_nccl_fail(
            ncclInvalidUsage, "%s: there is no open group; legal: after ncclGroupStart", call);
    if (g->depth > 1) {
        g->depth--;
        ncclResult_t inner = tt_nccl_answer(tutti_group_end());
        return g->first != ncclSuccess ? g->first : inner;
    }
    tt_nccl_group = NULL;
    ncclResult_t result = g->first;
    tutti_status status = cancel || result != ncclSuccess ? tutti_group_cancel() : tutti_group_end();
    if (result == ncclSuccess)
        result = tt_nccl_answer(status);
    ncclResult_t made = look_at_new(g->later, g->later_count);
    ncclResult_t begun = begin_children(g, cancel || result != ncclSuccess);
    if (begun == ncclInProgress)
        made = begun;
    if (result == ncclSuccess && !cancel)
        result = tt_nccl_answer(tt_nccl_split_revoked(g->later, g->later_count));
    if (result == ncclSuccess && !cancel)
        take_what_is_done(g->later, g->later_count);
    if (result == ncclSuccess && begun != ncclInProgress)
        result = begun;
    for (int i = 0; i < g->held_count; i++)
        tt_nccl_give_back(g->held[i]);
    run_ends(g->later, g->later_count);
    if (result == ncclSuccess)
        result = first_failure(g->later, g->later_count);
    for (int i = 0; i < g->later_count; i++)
        free(g->later[i]);
    free(g->held);
    free(g->later);
    free(g);
    return result != ncclSuccess ? result : made;
}

PUBLIC(ncclResult_t, GroupEnd, (void))
{
    return end("ncclGroupEnd", false);
}

/* What Tutti predicts for the calls of the group, in microseconds. */
static float estimate(void)
{
    char text[64];
    bool known = tutti_query(NULL, "price group", text, sizeof text) > 0;
    return known ? strtof(text, NULL) : NCCL_UNDEF_FLOAT;
}

PUBLIC(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * info))
{
    size_t size = 0;
    if (info != NULL)
        memcpy(&size, info, sizeof size); /* of its own version, which may be longer */
    if (info != NULL && (size < offsetof(ncclSimInfo_t, estimatedTime) || info->magic != SIM_MAGIC))
        tt_nccl_fail(ncclInvalidArgument,
            "ncclGroupSimulateEnd: simInfo does not begin as NCCL_SIM_INFO_INITIALIZER sets it");
    float time = estimate();
    ncclResult_t result = end("ncclGroupSimulateEnd", true);
    if (result == ncclSuccess && info != NULL && size >= sizeof *info)
        info->estimatedTime = time;
    return result;
}

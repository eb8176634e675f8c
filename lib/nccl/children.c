/* SPDX-License-Identifier: BSD-3-Clause */
/* children.c: communicators that are made of others: split, shrink and grow. In a group Tutti makes them at
 * its end. Of a communicator without blocking a thread makes them, and the call, or the end of the group,
 * returns at once; until they are made, that communicator takes no calls but ncclCommGetAsyncError and
 * ncclCommAbort, as with NCCL. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/shim.h"

/* What a child has of its parent where its config says nothing. */
static struct tt_nccl_setting of_parent(ncclComm_t parent)
{
    return (struct tt_nccl_setting){ .blocking = parent->blocking };
}

/* A handle for a child that Tutti has made; there may be none. */
ncclResult_t tt_nccl_take_child(struct tt_nccl_later *later)
{
    *later->out = NULL;
    if (later->child == NULL)
        return ncclSuccess;
    ncclComm_t made = tt_nccl_new(
        tutti_comm_size(later->child), tutti_comm_rank(later->child), &later->setting, later->family);
    if (made == NULL) {
        tutti_comm_destroy(later->child);
        return tt_nccl_fail(ncclSystemError, "%s: no memory", later->call);
    }
    made->tutti = later->child;
    tt_nccl_list(made);
    *later->out = made;
    tt_nccl_hello(made);
    return ncclSuccess;
}

/* The call of Tutti's, which reads what is excluded now. */
static tutti_status start(struct tt_nccl_later *later)
{
    later->config = (tutti_config){ .size = sizeof later->config,
        .name = later->setting.name[0] != 0 ? later->setting.name : NULL };
    tutti_status status = later->start(later);
    free(later->excluded);
    later->excluded = NULL;
    return status;
}

/* Of a communicator that was revoked nothing is left but that its ranks can meet: all of them meet anew, and
 * what they have then is split. Several of these ranks may be this thread's. */
tutti_status tt_nccl_split_revoked(struct tt_nccl_later *const *all, int count)
{
    int revoked = 0;
    for (int i = 0; i < count; i++)
        revoked += all[i]->of_revoked;
    if (revoked == 0)
        return TUTTI_OK;
    tutti_group_start();
    for (int i = 0; i < count; i++)
        if (all[i]->of_revoked)
            tutti_comm_shrink(all[i]->comm->tutti, NULL, 0, TUTTI_SHRINK_ABORT, NULL, &all[i]->whole);
    tutti_status status = tutti_group_end();
    if (status == TUTTI_OK) {
        tutti_group_start();
        for (int i = 0; i < count; i++)
            if (all[i]->of_revoked)
                start(all[i]);
        status = tutti_group_end();
    }
    for (int i = 0; i < count; i++)
        if (all[i]->whole != NULL && tutti_comm_release(all[i]->whole, TT_NCCL_LINGER_MS) != TUTTI_OK)
            tutti_comm_destroy(all[i]->whole);
    return status;
}

/* Outside of groups. */
static tutti_status start_now(struct tt_nccl_later *later)
{
    return later->of_revoked ? tt_nccl_split_revoked(&later, 1) : start(later);
}

/* --- Of communicators without blocking: a thread makes the child, which is a handle meanwhile. */

/* Who made the call may have given up the child. */
static void hand_over(struct tt_nccl_later *later, ncclComm_t child)
{
    int making = TT_NCCL_IS_MADE;
    if (later->result == ncclSuccess) {
        child->n = tutti_comm_size(later->child);
        child->rank = tutti_comm_rank(later->child);
        child->tutti = later->child;
    }
    child->failure = later->result;
    bool wanted = atomic_compare_exchange_strong(
        &child->making, &making, later->result == ncclSuccess ? TT_NCCL_MADE : TT_NCCL_NOT_MADE);
    if (wanted && later->result == ncclSuccess)
        tt_nccl_hello(child);
    if (wanted)
        return;
    tt_nccl_retire(child);
    if (later->child != NULL)
        tutti_comm_destroy(later->child);
}

static void *make_behind(void *argument)
{
    struct tt_nccl_later *later = argument;
    ncclComm_t parent = later->comm;
    for (struct tt_nccl_later *next; later != NULL; later = next) {
        next = later->next;
        later->result = tt_nccl_answer(start_now(later));
        if (later->made != NULL)
            hand_over(later, later->made);
        free(later);
    }
    atomic_fetch_and(&parent->users, ~(uint32_t)TT_NCCL_BUSY);
    tt_nccl_give_back(parent);
    return NULL;
}

/* Deaf to signals: those of the program are for its own threads. */
static bool start_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, run, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_detach(thread);
    return started;
}

void tt_nccl_drop_children(struct tt_nccl_later *first)
{
    for (struct tt_nccl_later *next; first != NULL; first = next) {
        next = first->next;
        if (first->made != NULL)
            tt_nccl_retire(first->made);
        *first->out = NULL;
        free(first->excluded);
        free(first);
    }
}

/* Handles for children that are not there yet. */
static bool make_handles(struct tt_nccl_later *first)
{
    for (struct tt_nccl_later *l = first; l != NULL; l = l->next) {
        if (l->wanted && (l->made = tt_nccl_new(0, -1, &l->setting, l->family)) == NULL)
            return false;
        if (l->made != NULL) {
            l->made->making = TT_NCCL_IS_MADE;
            tt_nccl_list(l->made);
        }
        *l->out = l->made;
    }
    return true;
}

/* The thread has entered the parent as well. */
ncclResult_t tt_nccl_begin_to_make(struct tt_nccl_later *first)
{
    ncclComm_t parent = first->comm;
    const char *call = first->call;
    atomic_fetch_add(&parent->users, TT_NCCL_BUSY + 1);
    bool has_memory = make_handles(first);
    if (has_memory && start_thread(make_behind, first))
        return ncclInProgress;
    atomic_fetch_sub(&parent->users, TT_NCCL_BUSY + 1);
    tt_nccl_drop_children(first);
    return tt_nccl_fail(ncclSystemError, "%s: no %s", call, has_memory ? "thread" : "memory");
}

static ncclResult_t begin_a_copy(const struct tt_nccl_later *later)
{
    struct tt_nccl_later *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        free(later->excluded);
        return tt_nccl_fail(ncclSystemError, "%s: no memory", later->call);
    }
    *copy = *later;
    return tt_nccl_begin_to_make(copy);
}

/* Now, or at the end of the group, and, of a communicator without blocking, on a thread. `wanted`: this rank
 * gets a child. */
static ncclResult_t make(struct tt_nccl_later *later, bool wanted)
{
    later->kind = later->comm->blocking ? TT_NCCL_CHILD : TT_NCCL_CHILD_BEHIND;
    later->wanted = wanted;
    if (tt_nccl_group == NULL && !later->comm->blocking)
        return begin_a_copy(later);
    if (tt_nccl_group == NULL) {
        tutti_status status = start_now(later);
        return status == TUTTI_OK ? tt_nccl_take_child(later) : tt_nccl_answer(status);
    }
    struct tt_nccl_later *copy = tt_nccl_group_add(later);
    if (copy == NULL) {
        free(later->excluded);
        return ncclSystemError;
    }
    *later->out = NULL;
    bool now = copy->kind == TT_NCCL_CHILD && !copy->of_revoked;
    return now ? tt_nccl_answer(start(copy)) : ncclSuccess;
}

/* Ranks of one child have the same family, in all processes; two children of one parent have not. */
static uint64_t family_of(ncclComm_t parent, const void *what, size_t bytes)
{
    return tt_nccl_hash(parent->family, what, bytes) + ++parent->splits;
}

static tutti_status split(struct tt_nccl_later *l)
{
    tutti_comm *parent = l->of_revoked ? l->whole : l->comm->tutti;
    return tutti_comm_split(parent, l->color, l->key, &l->config, &l->child);
}

PUBLIC(ncclResult_t, CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config))
{
    ncclResult_t result = tt_nccl_enter_parent("ncclCommSplit", comm);
    if (result != ncclSuccess)
        return result;
    struct tt_nccl_setting fallback = of_parent(comm);
    struct tt_nccl_later later = { .comm = comm,
        .out = out,
        .call = "ncclCommSplit",
        .start = split,
        .color = color,
        .key = key,
        .of_revoked = tt_nccl_is_revoked(comm) };
    if (out == NULL)
        result = tt_nccl_fail(ncclInvalidArgument, "ncclCommSplit: newcomm is NULL");
    else if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
        result = tt_nccl_fail(
            ncclInvalidArgument, "ncclCommSplit: color is %d; legal: 0 and more, NCCL_SPLIT_NOCOLOR", color);
    else
        result = tt_nccl_read_config("ncclCommSplit", config, &fallback, &later.setting);
    if (result == ncclSuccess) {
        later.family = family_of(comm, &color, sizeof color);
        result = make(&later, color >= 0);
    }
    tt_nccl_leave(comm);
    return result;
}

static tutti_status shrink(struct tt_nccl_later *l)
{
    bool has_ended = l->flags == NCCL_SHRINK_ABORT || tt_nccl_is_revoked(l->comm);
    uint64_t flags = has_ended ? TUTTI_SHRINK_ABORT : 0;
    return tutti_comm_shrink(l->comm->tutti, l->excluded, l->excluded_count, flags, &l->config, &l->child);
}

/* A copy, for a thread. */
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
    ncclResult_t result = tt_nccl_enter_parent("ncclCommShrink", comm);
    if (result != ncclSuccess)
        return result;
    struct tt_nccl_setting fallback = of_parent(comm);
    struct tt_nccl_later later = {
        .comm = comm, .out = out, .call = "ncclCommShrink", .start = shrink, .flags = flags
    };
    result = check_shrink(comm, list, count, out, flags);
    if (result == ncclSuccess)
        result = tt_nccl_read_config("ncclCommShrink", config, &fallback, &later.setting);
    if (result == ncclSuccess)
        result = read_excluded(comm, list, count, &later);
    if (result == ncclSuccess) {
        later.family = family_of(comm, list, (size_t)count * sizeof *list);
        result = make(&later, true);
    }
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

static tutti_status grow(struct tt_nccl_later *l)
{
    return tutti_comm_grow(l->comm->tutti, l->n, l->has_id ? &l->id : NULL, -1, &l->config, &l->child);
}

/* Ranks of the old communicator keep their numbers. One of them has the id: outside of groups that is known
 * before they wait for each other, and the child's family is the id's. */
static ncclResult_t find_id(ncclComm_t comm, struct tt_nccl_later *later)
{
    struct {
        uint8_t has;
        tutti_id id;
    } mine = { .has = later->has_id, .id = later->id }, *all = calloc((size_t)comm->n, sizeof *all);
    int holders = 0;
    if (all == NULL)
        return tt_nccl_fail(ncclSystemError, "ncclCommGrow: no memory");
    ncclResult_t result = tt_nccl_answer(
        tutti_all_gather(&mine, all, sizeof mine, TUTTI_UINT8, comm->tutti, tutti_no_stream()));
    for (int r = 0; result == ncclSuccess && r < comm->n; r++) {
        holders += all[r].has;
        if (all[r].has)
            later->id = all[r].id;
    }
    free(all);
    later->has_id = true;
    return result != ncclSuccess || holders == 1
               ? result
               : tt_nccl_fail(ncclInvalidArgument,
                     "ncclCommGrow: %d ranks of comm give a uniqueId; legal: the one that made it gives it, "
                     "others NULL",
                     holders);
}

static ncclResult_t grow_old(
    ncclComm_t comm, int n, const ncclUniqueId *id, ncclComm_t *out, const ncclConfig_t *config)
{
    struct tt_nccl_setting fallback = of_parent(comm);
    struct tt_nccl_later later = {
        .comm = comm, .out = out, .call = "ncclCommGrow", .start = grow, .n = n, .has_id = id != NULL
    };
    ncclResult_t result = tt_nccl_read_config("ncclCommGrow", config, &fallback, &later.setting);
    if (id != NULL)
        memcpy(&later.id, id, sizeof later.id);
    if (result == ncclSuccess && tt_nccl_group == NULL)
        result = find_id(comm, &later);
    later.family =
        tt_nccl_group == NULL ? tt_nccl_hash(0, &later.id, sizeof later.id) : family_of(comm, &n, sizeof n);
    return result == ncclSuccess ? make(&later, true) : result;
}

PUBLIC(ncclResult_t, CommGrow,
    (ncclComm_t comm, int n, const ncclUniqueId *id, int rank, ncclComm_t *out, ncclConfig_t *config))
{
    if (out == NULL)
        return tt_nccl_fail(ncclInvalidArgument, "ncclCommGrow: newcomm is NULL");
    if (comm == NULL)
        return id != NULL ? tt_nccl_init("ncclCommGrow", out, n, id, rank, config, true)
                          : tt_nccl_fail(
                                ncclInvalidArgument, "ncclCommGrow: a new rank (comm NULL) has no uniqueId");
    ncclResult_t result = tt_nccl_enter("ncclCommGrow", comm);
    if (result != ncclSuccess)
        return result;
    if (rank != -1 || n <= comm->n)
        result = tt_nccl_fail(ncclInvalidArgument,
            "ncclCommGrow: %s is %d; legal: rank -1 of a rank of comm, nRanks above %d",
            rank != -1 ? "rank" : "nRanks", rank != -1 ? rank : n, comm->n);
    else
        result = grow_old(comm, n, id, out, config);
    tt_nccl_leave(comm);
    return result;
}

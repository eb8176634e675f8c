/* SPDX-License-Identifier: BSD-3-Clause */
/* group_later.c: runs what a group has put off to its end.
 *
 * Ranks of one thread wait for each other there, so each communicator needs a thread. The caller's own is one
 * of these, and so what its on_wait is for goes on; threads of the library run none. */
#include "api/group_later.h"

#include <stdlib.h>
#include <string.h>

#include "api/child.h"
#include "base/handle.h"
#include "base/thread.h"
#include "comm/lifecycle.h"
#include "device/device.h"
#include "run/run.h"

struct tt_later *tt_later_copy(const struct tt_later *later)
{
    const struct tt_comm *comm = later->comm != NULL ? tt_comm_find(later->comm) : NULL;
    struct tt_later *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        free(later->excluded);
        tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to queue a call in a group");
        return NULL;
    }
    *copy = *later;
    copy->device = tt_child_device_to_adopt(comm, later->config);
    return copy;
}

/* Runs those of one communicator, up to the first that fails. */
static void run_those_of(struct tt_later *first)
{
    tutti_status status = TUTTI_OK;
    for (struct tt_later *l = first; l != NULL && status == TUTTI_OK; l = l->next) {
        if (l != first && (l->comm == NULL || l->comm != first->comm))
            continue;
        l->status = status = l->run(l);
        if (status != TUTTI_OK)
            strncpy(l->text, tt_last_error(), sizeof l->text - 1);
        if (status != TUTTI_OK && l->joins != NULL)
            tt_joins_give_up(l->joins, &l->join, status);
        atomic_store(&l->join.over, true);
    }
}

/* The caller's device, where that matters. A config that is wrong is for the call itself to tell, for its
 * peers wait in it. */
static tutti_status adopt(const struct tt_later *later)
{
    const struct tt_comm *comm = later->comm != NULL ? tt_comm_find(later->comm) : NULL;
    struct tt_settings settings;
    bool legal = tt_child_settings_of(comm, later->config, &settings) == TUTTI_OK;
    return legal ? tt_device_adopt(&settings, later->device) : TUTTI_OK;
}

static void *run_on_thread(void *argument)
{
    struct tt_later *first = argument;
    tt_run_for_another();
    first->status = adopt(first);
    if (first->status == TUTTI_OK)
        run_those_of(first);
    else
        strncpy(first->text, tt_last_error(), sizeof first->text - 1);
    return NULL;
}

static bool is_first_of_its(const struct tt_later *first, const struct tt_later *later)
{
    while (first != later && (later->comm == NULL || first->comm != later->comm))
        first = first->next;
    return first == later;
}

/* Sets the outputs, or takes back what was made; returns the first failure. */
static tutti_status settle(struct tt_later *first, tutti_status status)
{
    for (struct tt_later *l = first; l != NULL; l = l->next) {
        if (status == TUTTI_OK && l->status != TUTTI_OK) {
            status = l->status;
            tt_set_last_error(l->text);
        }
    }
    for (struct tt_later *l = first; l != NULL; l = l->next) {
        if (l->out != NULL && status == TUTTI_OK)
            *l->out = l->made;
        else if (l->made != NULL)
            tt_comm_destroy(tt_comm_take(l->made));
    }
    return status;
}

/* Lists those that meet others at ids: new ranks, and those that communicators have, of which the id is known
 * if a rank has left it. */
static void list_joins(struct tt_later *first)
{
    struct tt_join *joins = NULL;
    for (struct tt_later *l = first; l != NULL; l = l->next) {
        struct tt_comm *comm = l->comm != NULL ? tt_comm_find(l->comm) : NULL;
        if (l->n == 0 || (l->comm != NULL && comm == NULL))
            continue;
        l->join = (struct tt_join){
            .next = joins, .n = l->n, .rank = comm != NULL ? comm->rank : l->rank, .id = l->id
        };
        l->join.known = l->has_id || (comm != NULL && tt_growth_finds_id(comm, &l->join.id));
        joins = &l->join;
    }
    for (struct tt_later *l = first; l != NULL; l = l->next)
        l->joins = l->n != 0 ? joins : NULL;
}

tutti_status tt_laters_run(struct tt_later *first)
{
    tutti_status status = TUTTI_OK;
    list_joins(first);
    for (struct tt_later *l = first; l != NULL; l = l->next)
        l->leads = l != first && is_first_of_its(first, l);
    for (struct tt_later *l = first; l != NULL; l = l->next) {
        if (l->leads && status == TUTTI_OK)
            status = tt_thread_start("of a communicator in a group", run_on_thread, l, &l->thread);
        l->leads = l->leads && status == TUTTI_OK;
    }
    if (status == TUTTI_OK)
        run_those_of(first);
    else /* those that run wait for those that do not */
        tt_laters_refuse(first, status);
    for (struct tt_later *l = first; l != NULL; l = l->next)
        if (l->leads)
            pthread_join(l->thread, NULL);
    return settle(first, status);
}

void tt_laters_refuse(const struct tt_later *first, tutti_status status)
{
    for (const struct tt_later *l = first; l != NULL; l = l->next) {
        struct tt_comm *comm = l->collective ? tt_comm_find(l->comm) : NULL;
        if (comm != NULL && !l->leads && is_first_of_its(first, l))
            tt_comm_refuse(comm, status);
    }
}

void tt_laters_free(struct tt_later *first)
{
    for (struct tt_later *next; first != NULL; first = next) {
        next = first->next;
        free(first->excluded);
        free(first);
    }
}

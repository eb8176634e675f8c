/* SPDX-License-Identifier: BSD-3-Clause */
/* split.c: communicators from another: ranks of one colour make one, ordered by key, then by rank.
 *
 * All ranks of the parent take part in three all_gathers on it, also those that get no child: one of their
 * requests (colour, key, settings), and the two exchanges of establishing; and in one more after one in
 * which a rank failed, of the reasons. The processes know each other already, and in which cache domains
 * they are. What a child's config does not set is its parent's; of its shared settings, those of its rank 0
 * hold. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "api/child.h"
#include "api/group.h"
#include "base/handle.h"
#include "comm/lifecycle.h"
#include "device/device.h"
#include "run/settings.h"

struct request {
    int32_t color, key, status;
    struct tt_settings settings;
};

struct part { /* what a rank hands in when it establishes a child */
    int32_t status;
    uint8_t bytes[TT_ENDPOINT_INFO_BYTES];
};
enum { STATUS_BYTES = offsetof(struct part, bytes) };

struct split {
    struct tt_comm *parent;
    struct request *requests;
    int *members; /* ranks of the parent, in the order of the child */
    int count, place;
    int32_t *world; /* of the child's ranks; becomes the child's */
    int32_t *host; /* of the child's ranks */
    int exchanges; /* of establishing, that were made */
    uint8_t *room; /* for one exchange of the parent */
    char *words; /* of each of its ranks that failed */
    void *child_room; /* for those of the child */
};

static struct tt_call gather_of(struct tt_comm *parent, const void *mine, uint64_t bytes, void *all)
{
    return (struct tt_call){ .collective = TT_ALL_GATHER,
        .comm = parent,
        .send = mine,
        .recv = all,
        .count = bytes,
        .type = TUTTI_UINT8 };
}

/* Runs an all_gather on the parent. The other ranks are in it too, so a failure to start, once it was
 * prepared, ends the parent. */
static tutti_status gather(struct tt_comm *parent, const void *mine, uint64_t bytes, void *all)
{
    struct tt_pending pending = { .call = gather_of(parent, mine, bytes, all) };
    tutti_status status = tt_call_check(&pending.call);
    if (status == TUTTI_OK)
        status = tt_comm_turn(parent);
    return status == TUTTI_OK ? tt_run(&pending, 1) : status;
}

/* Allocates before the first exchange what all need: a rank without memory for a later one would leave the
 * others waiting in it. They differ in length, so each may have an algorithm of its own. */
static tutti_status prepare(const struct split *s, const struct request *mine)
{
    static const uint64_t lengths[] = { sizeof *mine, sizeof(struct part), STATUS_BYTES, TT_ERROR_TEXT };
    tutti_status status = tt_comm_turn(s->parent);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0] && status == TUTTI_OK; i++) {
        struct tt_call call = gather_of(s->parent, mine, lengths[i], s->requests);
        status = tt_call_check(&call);
        if (status == TUTTI_OK)
            status = tt_call_prepare(&call);
    }
    return status;
}

/* After an exchange in which a rank of the parent failed, all of these gather the words of each. This rank's
 * stay the thread's last error. */
static tutti_status gather_words(struct split *s, tutti_status mine)
{
    char words[TT_ERROR_TEXT] = "";
    if (mine != TUTTI_OK)
        snprintf(words, sizeof words, "%s", tt_last_error());
    tutti_status status = gather(s->parent, words, sizeof words, s->words);
    if (mine != TUTTI_OK)
        tt_set_last_error(words);
    return status;
}

static const char *words_of(const struct split *s, int rank)
{
    return s->words + (size_t)rank * TT_ERROR_TEXT;
}

static tutti_status status_of(const struct split *s, int rank, uint64_t stride)
{
    int32_t status;
    memcpy(&status, s->room + (uint64_t)rank * stride, sizeof status);
    return (tutti_status)status;
}

/* Exchanges among the child's ranks, by an all_gather of the parent (a tt_exchange_fn). */
static tutti_status exchange_by_parent(
    void *context, tutti_status mine_status, const void *mine, uint64_t bytes, void *all)
{
    struct split *s = context;
    struct part part = { .status = mine_status };
    uint64_t stride = STATUS_BYTES + bytes;
    bool failed = false;
    s->exchanges++;
    if (bytes > 0)
        memcpy(part.bytes, mine, bytes);
    tutti_status status = gather(s->parent, &part, stride, s->room);
    for (int r = 0; r < s->parent->n && status == TUTTI_OK; r++)
        failed = failed || status_of(s, r, stride) != TUTTI_OK;
    if (failed)
        status = gather_words(s, mine_status);
    for (int i = 0; i < s->count && status == TUTTI_OK && mine_status == TUTTI_OK; i++) {
        int rank = s->members[i];
        if (status_of(s, rank, stride) != TUTTI_OK)
            status = tt_fail(status_of(s, rank, stride), TT_FAILURE_OF, i, words_of(s, rank));
        else if (bytes > 0)
            memcpy((uint8_t *)all + (uint64_t)i * bytes, s->room + (uint64_t)rank * stride + STATUS_BYTES,
                bytes);
    }
    return mine_status != TUTTI_OK ? mine_status : status;
}

/* Takes part in the exchanges of the others that are still to come; this rank gets no child. */
static tutti_status stand_by(struct split *s)
{
    static const uint8_t nothing[TT_ENDPOINT_INFO_BYTES];
    tutti_status status = TUTTI_OK;
    s->count = 0;
    while (s->exchanges < 2 && status == TUTTI_OK)
        status =
            exchange_by_parent(s, TUTTI_OK, nothing, s->exchanges == 0 ? TT_ENDPOINT_INFO_BYTES : 0, NULL);
    return status;
}

/* Lists the parent's ranks that have this rank's colour, by key and rank. */
static void find_members(struct split *s)
{
    const struct request *requests = s->requests;
    int me = s->parent->rank;
    for (int r = 0; r < s->parent->n; r++) {
        if (requests[r].color != requests[me].color)
            continue;
        int at = s->count++;
        for (; at > 0 && requests[s->members[at - 1]].key > requests[r].key; at--)
            s->members[at] = s->members[at - 1];
        s->members[at] = r;
    }
    for (int i = 0; i < s->count; i++)
        s->world[i] = tt_in_world(s->parent, s->members[i]);
    while (s->members[s->place] != me)
        s->place++;
    for (int i = 0; i < s->count; i++)
        s->host[i] = s->parent->identity.host != NULL ? s->parent->identity.host[s->members[i]] : 0;
}

static struct request request_of(const struct tt_comm *parent, int color, int key, const tutti_config *config)
{
    struct request request = { .color = color, .key = key };
    request.status = tt_child_settings("split", parent, config, &request.settings);
    if (color < -1)
        request.status =
            tt_fail(TUTTI_INVALID_ARGUMENT, "split: color is %d; legal: 0 and up, or -1 for no child", color);
    return request;
}

/* Exchanges the requests of all ranks. If one of them is not legal, all ranks fail before anything is
 * made. */
static tutti_status exchange_requests(struct split *s, const struct request *mine)
{
    tutti_status status = gather(s->parent, mine, sizeof *mine, s->requests);
    bool failed = false;
    for (int r = 0; r < s->parent->n && status == TUTTI_OK; r++)
        failed = failed || s->requests[r].status != TUTTI_OK;
    if (failed)
        status = gather_words(s, (tutti_status)mine->status);
    for (int r = 0; r < s->parent->n && status == TUTTI_OK && mine->status == TUTTI_OK; r++)
        if (s->requests[r].status != TUTTI_OK)
            status = tt_fail((tutti_status)s->requests[r].status,
                "split: rank %d called it with wrong arguments: %s", r, words_of(s, r));
    return mine->status != TUTTI_OK ? (tutti_status)mine->status : status;
}

static tutti_status make_child(struct split *s, const tutti_config *config, tutti_comm **child)
{
    struct tt_settings settings = s->requests[s->parent->rank].settings;
    char name[TT_NAME_BYTES];
    tutti_config own;
    snprintf(name, sizeof name, "split %u of %.40s", s->parent->identity.splits, s->parent->identity.name);
    tt_child_config(s->parent, config, name, &own);
    find_members(s);
    const struct tt_settings *first = &s->requests[s->members[0]].settings;
    bool places = tt_setting_origin(first, &first->topology) == TT_FROM_OPTIONS;
    tt_settings_adopt(&settings, first);
    if (settings.slice_bytes == 0 && first->device >= TT_DEVICE_FIRST)
        settings.slice_bytes = tt_device_slice_bytes(s->count);
    if (own.timeout_ms == 0 && tt_setting_origin(first, &first->timeout_ms_or_zero) != TT_FROM_OPTIONS)
        own.timeout_ms = s->parent->waiting.timeout_ms;
    int32_t domain = s->parent->topology.domain[s->parent->rank];
    tutti_status status = tt_comm_establish(s->count, s->place, &settings, &own, places ? NULL : &domain,
        s->host, exchange_by_parent, s, s->child_room, child);
    if (status == TUTTI_OK) {
        tt_comm_peek(*child)->identity.world = s->world;
        s->world = NULL;
    } else { /* the other children's ranks exchange once more, with all of the parent's */
        char words[TT_ERROR_TEXT];
        snprintf(words, sizeof words, "%s", tt_last_error());
        stand_by(s);
        tt_set_last_error(words);
    }
    return status;
}

static tutti_status split_later(struct tt_later *later)
{
    return tutti_comm_split(later->comm, later->color, later->key, later->config, &later->made);
}

tutti_status tutti_comm_split(
    tutti_comm *comm, int color, int key, const tutti_config *config, tutti_comm **child)
{
    struct split s = { .parent = tt_comm_find(comm) };
    if (s.parent == NULL)
        return tt_group_note(tt_handle_fault(comm));
    if (child == NULL)
        return tt_comm_refuse(
            s.parent, tt_group_note(tt_fail(TUTTI_INVALID_ARGUMENT, "split: child is NULL")));
    if (tt_group_open())
        return tt_group_add_later(&(struct tt_later){ .comm = comm,
            .run = split_later,
            .out = child,
            .config = config,
            .collective = true,
            .color = color,
            .key = key });
    size_t n = (size_t)s.parent->n;
    struct request mine = request_of(s.parent, color, key, config);
    tutti_comm *made = NULL;
    s.requests = calloc(n, sizeof *s.requests);
    s.members = calloc(n, sizeof *s.members);
    s.world = calloc(n, sizeof *s.world);
    s.host = calloc(n, sizeof *s.host);
    s.room = calloc(n, sizeof(struct part));
    s.words = calloc(n, TT_ERROR_TEXT);
    s.child_room = tt_comm_room(s.parent->n);
    tutti_status status = TUTTI_OK;
    if (s.requests == NULL || s.members == NULL || s.world == NULL || s.host == NULL || s.room == NULL ||
        s.words == NULL || s.child_room == NULL)
        status = tt_fail(TUTTI_OUT_OF_MEMORY, "split: no memory for %zu ranks", n);
    if (status == TUTTI_OK)
        status = prepare(&s, &mine);
    if (status != TUTTI_OK)
        tt_comm_refuse(s.parent, status);
    if (status == TUTTI_OK)
        status = exchange_requests(&s, &mine);
    s.parent->identity.splits += status == TUTTI_OK;
    if (status == TUTTI_OK)
        status = color >= 0 ? make_child(&s, config, &made) : stand_by(&s);
    if (status == TUTTI_OK)
        *child = made;
    free(s.requests);
    free(s.members);
    free(s.world);
    free(s.host);
    free(s.room);
    free(s.words);
    free(s.child_room);
    return status;
}

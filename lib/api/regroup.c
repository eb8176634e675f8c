/* SPDX-License-Identifier: BSD-3-Clause */
/* regroup.c: communicators of other ranks than one that there is: of fewer, also after a failure, or of more.
 *
 * They are made as any other, from an id. What is new is how ranks get it that have nothing left but a
 * communicator, which may have ended: one of them makes the id and leaves it where the others can look, as
 * a note of its transport (transport.h), and they wait until it is there.
 *
 *     shrink:   rank 0 is dead | rank 1 makes an id and leaves it | ranks 2 and 3 find it | all three join
 *
 * To shrink, all ranks know who is left, and the lowest of them makes the id. Its note says of which ranks
 * it is, so that those who think otherwise of who is left do not meet by mistake; it is taken back at the
 * end. To grow, whoever was asked for the id has left it, and the note counts how often the communicator was
 * to grow. A note that was followed once is an old one. A rank that looks for the id leaves a note of that:
 * if all do, nobody has it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/child.h"
#include "api/group.h"
#include "base/clock.h"
#include "base/handle.h"
#include "base/status.h"
#include "base/text.h"
#include "base/topology.h"
#include "base/wait.h"
#include "bootstrap/bootstrap.h"
#include "comm/lifecycle.h"
#include "run/settings.h"

enum { LOOK_MS = 2 };

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001b3);
}

static void leave_note(struct tt_comm *comm, uint64_t about, const tutti_id *id)
{
    struct tt_note note = { .about = about };
    _Static_assert(sizeof note.bytes == sizeof id->bytes, "a note holds an id");
    if (id != NULL)
        memcpy(note.bytes, id->bytes, sizeof note.bytes);
    comm->endpoint->control->note(comm->endpoint, &note);
}

/* True if this peer has left such a note, which this rank has not followed yet. */
static bool finds_note(struct tt_comm *comm, int peer, uint64_t about, tutti_id *id)
{
    struct tt_note note;
    bool found = comm->endpoint->control->note_of(comm->endpoint, peer, &note) && note.about == about &&
                 memcmp(note.bytes, comm->identity.met.bytes, sizeof note.bytes) != 0;
    if (found) {
        memcpy(id->bytes, note.bytes, sizeof id->bytes);
        comm->identity.met = *id;
    }
    return found;
}

/* What the note of an id is about, when the communicator is to grow for that time, from 1 on; and the note of
 * who looks for it. */
static uint64_t about_growth(uint32_t time)
{
    return mix(UINT64_C(0x9e3779b97f4a7c15), time);
}

static uint64_t about_lack(uint32_t time)
{
    return mix(UINT64_C(0x7f4a7c159e3779b9), time);
}

/* True if this peer had no id when the communicator was to grow for that time; it may have come to the next
 * one. */
static bool lacks_id(const struct tt_comm *comm, int peer, uint32_t time)
{
    struct tt_note note;
    return comm->endpoint->control->note_of(comm->endpoint, peer, &note) &&
           (note.about == about_lack(time) || note.about == about_lack(time + 1) ||
               note.about == about_growth(time + 1));
}

/* Waits for a note of one of the ranks `from` to `end` - 1; who is dead leaves none. `time`: the communicator
 * is to grow for that time; 0: it is to shrink. */
static tutti_status await_note(struct tt_comm *comm, const char *function, int from, int end, uint64_t about,
    uint32_t time, int64_t timeout_ms, tutti_id *id)
{
    int64_t until_ns = tt_deadline_ns(timeout_ms);
    struct tt_peer_place place;
    for (;; tt_sleep_ms(LOOK_MS)) {
        int alive = 0, lack = 0;
        for (int peer = from; peer < end; peer++) {
            if (peer != comm->rank && finds_note(comm, peer, about, id))
                return TUTTI_OK;
            if (peer != comm->rank && time > 0 && lacks_id(comm, peer, time))
                lack++;
            else
                alive += peer != comm->rank &&
                         comm->endpoint->control->peer_state(comm->endpoint, peer, &place) == TT_PEER_ALIVE;
        }
        if (alive == 0 && (lack > 0 || comm->n == 1))
            return tt_fail(TUTTI_INVALID_ARGUMENT,
                "%s: %s: no rank has an id; legal: one of the communicator's ranks has made it by "
                "tutti_comm_get_id",
                comm->identity.name, function);
        if (alive == 0)
            return tt_fail(TUTTI_PEER_LOST,
                "%s: %s: rank %d, who is to say where all meet, has ended, or destroyed its communicator; "
                "exclude "
                "it, too",
                comm->identity.name, function, from);
        if (tt_now_ns() >= until_ns)
            return tt_fail(TUTTI_TIMEOUT,
                "%s: %s: no rank has said within %lld ms where all meet: rank %d has not called it, or with "
                "other ranks",
                comm->identity.name, function, (long long)timeout_ms, from);
    }
}

/* --- Fewer */

struct survivors {
    struct tt_comm *parent;
    int *members; /* of the parent's ranks, in order */
    int count, place; /* place: of this rank among them */
    uint64_t about;
    uint8_t *is_excluded;
};

static tutti_status exclude(struct survivors *s, const int *excluded, int count)
{
    const struct tt_comm *parent = s->parent;
    for (int i = 0; i < count; i++) {
        if (excluded[i] < 0 || excluded[i] >= parent->n || excluded[i] == parent->rank)
            return tt_fail(TUTTI_INVALID_ARGUMENT,
                "shrink: excluded[%d] is %d; legal: ranks from 0 to %d, but not this one, %d", i, excluded[i],
                parent->n - 1, parent->rank);
        if (s->is_excluded[excluded[i]])
            return tt_fail(TUTTI_INVALID_ARGUMENT, "shrink: excluded names rank %d twice", excluded[i]);
        s->is_excluded[excluded[i]] = 1;
    }
    for (int r = 0; r < parent->n; r++) {
        if (s->is_excluded[r])
            continue;
        if (r == parent->rank)
            s->place = s->count;
        s->members[s->count++] = r;
        s->about = mix(s->about, (uint64_t)r + 1);
    }
    return TUTTI_OK;
}

/* Which ranks share a cache was said of all of the parent's: what is left of that. */
static void keep_domains(const struct survivors *s, struct tt_settings *settings)
{
    struct tt_topology domains;
    int32_t *of = malloc((size_t)s->count * sizeof *of);
    struct tt_text text = { settings->topology, sizeof settings->topology, 0 };
    bool said = strcmp(settings->topology, "auto") != 0 &&
                tt_setting_origin(settings, &settings->topology) != TT_FROM_OPTIONS;
    for (int i = 0; of != NULL && i < s->count; i++)
        of[i] = s->parent->topology.domain[s->members[i]];
    if (said && of != NULL && tt_topology_create(&domains, s->count, of) == TUTTI_OK) {
        tt_topology_put(&domains, &text);
        tt_topology_free(&domains);
    }
    if (said && (of == NULL || text.length == 0 || text.length >= sizeof settings->topology))
        snprintf(settings->topology, sizeof settings->topology, "auto");
    free(of);
}

/* The lowest rank makes the id, the others find it. */
static tutti_status agree_on_id(const struct survivors *s, int64_t timeout_ms, tutti_id *id)
{
    if (s->place > 0)
        return await_note(s->parent, "shrink", s->members[0], s->members[0] + 1, s->about, 0, timeout_ms, id);
    tutti_status status = s->parent->identity.host != NULL ? tt_bootstrap_create_for_hosts(id, timeout_ms)
                                                           : tt_bootstrap_create(id, timeout_ms);
    if (status == TUTTI_OK)
        leave_note(s->parent, s->about, id);
    return status;
}

static tutti_status join(const struct survivors *s, const tutti_config *config,
    const struct tt_settings *settings, tutti_comm **child)
{
    char name[TT_NAME_BYTES];
    tutti_config own;
    tutti_id id;
    int32_t *world = malloc((size_t)s->count * sizeof *world);
    if (world == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "shrink: no memory for %d ranks", s->count);
    for (int i = 0; i < s->count; i++)
        world[i] = tt_in_world(s->parent, s->members[i]);
    snprintf(name, sizeof name, "rest of %.48s", s->parent->identity.name);
    tt_child_config(s->parent, config, name, &own);
    if (own.timeout_ms == 0)
        own.timeout_ms = s->parent->waiting.timeout_ms;
    tutti_status status = agree_on_id(s, tt_comm_init_timeout(settings, &own), &id);
    if (status == TUTTI_OK)
        status = tt_init_rank_with(s->count, s->place, &id, settings, &own, child);
    if (s->place == 0)
        leave_note(s->parent, 0, NULL);
    if (status == TUTTI_OK)
        tt_comm_peek(*child)->identity.world = world;
    else
        free(world);
    return status;
}

static tutti_status shrink_later(struct tt_later *later)
{
    return tutti_comm_shrink(
        later->comm, later->excluded, later->count, later->flags, later->config, &later->made);
}

static tutti_status add_shrink(tutti_comm *comm, const int *excluded, int count, uint64_t flags,
    const tutti_config *config, tutti_comm **child)
{
    size_t bytes = (size_t)count * sizeof *excluded;
    int *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL)
        return tt_group_note(tt_fail(TUTTI_OUT_OF_MEMORY, "shrink: no memory for %d ranks", count));
    if (bytes > 0)
        memcpy(copy, excluded, bytes);
    return tt_group_add_later(&(struct tt_later){ .comm = comm,
        .run = shrink_later,
        .out = child,
        .config = config,
        .excluded = copy,
        .count = count,
        .flags = flags });
}

tutti_status tutti_comm_shrink(tutti_comm *comm, const int *excluded, int count, uint64_t flags,
    const tutti_config *config, tutti_comm **child)
{
    struct survivors s = { .parent = tt_comm_find(comm), .about = UINT64_C(0xcbf29ce484222325) };
    struct tt_settings settings;
    tutti_comm *made = NULL;
    if (s.parent == NULL)
        return tt_group_note(tt_handle_fault(comm));
    if (child == NULL || count < 0 || (count > 0 && excluded == NULL))
        return tt_group_note(tt_fail(TUTTI_INVALID_ARGUMENT, "shrink: %s",
            child == NULL ? "child is NULL" : "count is below 0, or excluded is NULL"));
    if ((flags & ~(uint64_t)TUTTI_SHRINK_ABORT) != 0)
        return tt_group_note(tt_fail(TUTTI_INVALID_ARGUMENT,
            "shrink: flags is 0x%llx; legal: 0, or TUTTI_SHRINK_ABORT", (unsigned long long)flags));
    if (atomic_load(&s.parent->endpoint->gone))
        return tt_group_note(tt_fail(TUTTI_INVALID_USAGE,
            "shrink: this rank, %d, has left %s by tutti_comm_abort_local; legal: the others call it, and "
            "exclude this rank; or all call tutti_comm_abort, or pass TUTTI_SHRINK_ABORT, in its place",
            s.parent->rank, s.parent->identity.name));
    if (tt_group_open())
        return add_shrink(comm, excluded, count, flags, config, child);
    s.members = calloc((size_t)s.parent->n, sizeof *s.members);
    s.is_excluded = calloc((size_t)s.parent->n, 1);
    tutti_status status = s.members == NULL || s.is_excluded == NULL
                              ? tt_fail(TUTTI_OUT_OF_MEMORY, "shrink: no memory for %d ranks", s.parent->n)
                              : exclude(&s, excluded, count);
    if (status == TUTTI_OK)
        status = tt_child_settings("shrink", s.parent, config, &settings);
    if (status == TUTTI_OK && (flags & TUTTI_SHRINK_ABORT) != 0)
        tutti_comm_abort(comm);
    else if (status == TUTTI_OK && (status = tt_comm_turn(s.parent)) == TUTTI_OK)
        status = tt_comm_check(s.parent);
    if (status == TUTTI_OK) {
        keep_domains(&s, &settings);
        status = join(&s, config, &settings, &made);
    }
    if (status == TUTTI_OK)
        *child = made;
    free(s.members);
    free(s.is_excluded);
    return status;
}

/* --- More */

tutti_status tutti_comm_get_id(tutti_comm *comm, tutti_id *id)
{
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    if (id == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "comm_get_id: id is NULL");
    tutti_status status = tt_comm_check(c);
    if (status == TUTTI_OK)
        status = tt_bootstrap_create_for_hosts(id, tt_comm_timeout(&c->settings, NULL));
    if (status == TUTTI_OK)
        leave_note(c, about_growth(c->identity.grown + 1), id);
    return status;
}

bool tt_growth_finds_id(struct tt_comm *comm, tutti_id *id)
{
    struct tt_note note;
    for (int peer = 0; peer < comm->n; peer++) {
        if (!comm->endpoint->control->note_of(comm->endpoint, peer, &note) ||
            note.about != about_growth(comm->identity.grown + 1))
            continue;
        memcpy(id->bytes, note.bytes, sizeof id->bytes);
        return true;
    }
    return false;
}

/* Finds the id that a rank has made. All ranks give up alike where none has, and the next time is another. */
static tutti_status find_id(struct tt_comm *comm, int64_t timeout_ms, tutti_id *id)
{
    uint32_t time = comm->identity.grown + 1;
    if (finds_note(comm, comm->rank, about_growth(time), id))
        return TUTTI_OK;
    leave_note(comm, about_lack(time), NULL);
    tutti_status status = await_note(comm, "grow", 0, comm->n, about_growth(time), time, timeout_ms, id);
    comm->identity.grown += status == TUTTI_INVALID_ARGUMENT;
    return status;
}

/* Of a rank that the communicator has already. */
static tutti_status grow(
    struct tt_comm *parent, int n, const tutti_id *id, const tutti_config *config, tutti_comm **grown)
{
    struct tt_settings settings;
    char name[TT_NAME_BYTES];
    tutti_config own;
    tutti_id found;
    tutti_status status = tt_child_settings("grow", parent, config, &settings);
    if (status != TUTTI_OK)
        return status;
    if (tt_setting_origin(&settings, &settings.topology) != TT_FROM_OPTIONS)
        snprintf(
            settings.topology, sizeof settings.topology, "auto"); /* the new ranks are in none of those */
    snprintf(name, sizeof name, "more of %.48s", parent->identity.name);
    tt_child_config(parent, config, name, &own);
    if (own.timeout_ms == 0)
        own.timeout_ms = parent->waiting.timeout_ms;
    if (id == NULL)
        status = find_id(parent, tt_comm_init_timeout(&settings, &own), &found);
    if (status == TUTTI_OK)
        status = tt_init_rank_with(n, parent->rank, id != NULL ? id : &found, &settings, &own, grown);
    parent->identity.grown += status == TUTTI_OK;
    return status;
}

static tutti_status grow_later(struct tt_later *later)
{
    return tutti_comm_grow(
        later->comm, later->n, later->has_id ? &later->id : NULL, later->rank, later->config, &later->made);
}

static tutti_status add_grow(
    tutti_comm *comm, int n, const tutti_id *id, int rank, const tutti_config *config, tutti_comm **grown)
{
    struct tt_later later = { .comm = comm,
        .run = grow_later,
        .out = grown,
        .config = config,
        .n = n,
        .rank = rank,
        .has_id = id != NULL };
    if (id != NULL)
        later.id = *id;
    return tt_group_add_later(&later);
}

tutti_status tutti_comm_grow(
    tutti_comm *comm, int n, const tutti_id *id, int rank, const tutti_config *config, tutti_comm **grown)
{
    if (comm == NULL && (id == NULL || rank < 0))
        return tt_group_note(tt_fail(TUTTI_INVALID_ARGUMENT,
            "grow: comm is NULL, so this rank is new, and %s; legal: the id of tutti_comm_get_id, and the "
            "new "
            "rank",
            id == NULL ? "id is NULL" : "rank is below 0"));
    /* In a group with ranks that comm has, which join after the calls. */
    if (comm == NULL && tt_group_open() && grown != NULL && !tt_comm_nonblocking(config))
        return add_grow(NULL, n, id, rank, config, grown);
    if (comm == NULL)
        return tutti_comm_init_rank(n, rank, id, config, grown);
    struct tt_comm *parent = tt_comm_find(comm);
    if (parent == NULL)
        return tt_group_note(tt_handle_fault(comm));
    if (grown == NULL)
        return tt_group_note(tt_fail(TUTTI_INVALID_ARGUMENT, "grow: grown is NULL"));
    if (n <= parent->n || n > 65536 || (rank != -1 && rank != parent->rank))
        return tt_group_note(tt_fail(TUTTI_INVALID_ARGUMENT,
            "grow: n is %d, rank is %d; legal: more ranks than %d, 65536 at most, and -1, for a rank keeps "
            "its "
            "number, %d",
            n, rank, parent->n, parent->rank));
    if (tt_group_open())
        return add_grow(comm, n, id, rank, config, grown);
    tutti_comm *made = NULL;
    tutti_status status = tt_comm_turn(parent);
    if (status == TUTTI_OK)
        status = tt_comm_check(parent);
    if (status == TUTTI_OK)
        status = grow(parent, n, id, config, &made);
    if (status == TUTTI_OK)
        *grown = made;
    return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* ends_rig.c: how calls on one device come to a bad end, whoever serves them. */
#include "ends_rig.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "base/handle.h"
#include "run/comm.h"

const struct ends_difference ends_differences[ENDS_DIFFERENCES] = {
    { false, 1024, TUTTI_INT32, TUTTI_SUM, 0, "reduce of 1024 int32, sum" },
    { false, 1000, TUTTI_INT32, TUTTI_SUM, 0, "reduce of 1000 int32, sum" },
    { false, 1024, TUTTI_FLOAT32, TUTTI_SUM, 0, "reduce of 1024 float32, sum" },
    { false, 1024, TUTTI_INT32, TUTTI_MAX, 0, "reduce of 1024 int32, max" },
    { false, 1024, TUTTI_INT32, TUTTI_SUM, 1, "root 1" },
    { false, 0, TUTTI_INT32, TUTTI_SUM, 0, "reduce of 0 int32, sum" },
    { true, 300, TUTTI_INT32, TUTTI_SUM, 0, "all_gather of 300 int32" },
};

void ends_call(const struct local_desk *d, const struct ends_difference *c)
{
    if (c->gathers)
        tutti_all_gather(d->areas[GIVEN], d->areas[GOT], c->count, c->type, d->comm, local_on(d));
    else
        tutti_reduce(d->areas[GIVEN], d->areas[GOT], c->count, c->type, c->op, c->root, d->comm, local_on(d));
}

void ends_differ(struct ranks_me *me, tutti_comm *comm, const struct ends_difference *difference)
{
    char words[128];
    snprintf(words, sizeof words, "called %s|%s", ends_differences[0].words, difference->words);
    ends_await(comm);
    ranks_same_error(me, comm, TUTTI_MISMATCH, words);
}

void ends_await(const tutti_comm *comm)
{
    while (tutti_comm_state(comm) == TUTTI_OK)
        ranks_sleep_us(1000);
}

static void has_ended(struct ranks_me *me, tutti_comm *comm)
{
    char words[128];
    snprintf(words, sizeof words, "%s|all_reduce of 1024 int32, sum", tt_comm_find(comm)->identity.name);
    tutti_error error = ranks_same_error(me, comm, TUTTI_TIMEOUT, words);
    ranks_expect(me, error.peer != TT_NONE, "nobody is late");
}

void ends_cross(const struct local_desk *d, tutti_comm *other, bool passes)
{
    enum { SHORT_MS = 500 };
    struct local_desk desks[2] = { *d, *d };
    int ended = 0;
    desks[1].comm = other;
    local_fine(d, d->dev->stream.create(&desks[1].stream));
    for (int k = 0; k < 2 && !passes; k++)
        local_hurry(desks[k].comm, SHORT_MS);
    ranks_meet(d->me);
    for (int k = 0; k < 2; k++) {
        const struct local_desk *on = &desks[d->me->rank == 0 ? k : 1 - k];
        int area = on == &desks[0] ? 0 : 2;
        tutti_all_reduce(
            d->areas[area], d->areas[area + 1], 1024, TUTTI_INT32, TUTTI_SUM, on->comm, local_on(on));
    }
    for (int k = 0; k < 2; k++)
        local_drains(&desks[k]);
    ranks_meet(d->me);
    for (int k = 0; k < 2; k++) {
        if (tutti_comm_state(desks[k].comm) == TUTTI_OK)
            continue;
        has_ended(d->me, desks[k].comm);
        ended++;
    }
    ranks_expect(d->me, (ended == 0) == passes, "%d communicators have ended", ended);
    ranks_meet(d->me);
    local_fine(d, d->dev->stream.destroy(desks[1].stream));
}

static void *die(void *argument)
{
    const struct ends_death *death = argument;
    ranks_sleep_us(death->after_us);
    raise(SIGKILL);
    return NULL;
}

void ends_die_soon(struct ranks_me *me, const struct ends_death *death)
{
    pthread_t thread;
    ranks_at(me, "rank %d is to die after %u us, %zu elements", death->victim, death->after_us, death->count);
    ranks_meet(me);
    if (me->rank == death->victim && pthread_create(&thread, NULL, die, (void *)death) != 0)
        ranks_fail(me, "there is no thread to die");
}

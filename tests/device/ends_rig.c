/* SPDX-License-Identifier: BSD-3-Clause */
/* ends_rig.c: how calls on one device come to a bad end, whoever serves them. */
#include "ends_rig.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

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

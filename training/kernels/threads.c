/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.c: threads that sleep until there is an update.
 *
 * More ranks than cores is a normal case here, so a thread that has nothing to do leaves its core: OpenMP's
 * threads spin between two regions, which takes a whole core from other ranks. An update of few elements is
 * over before a thread is awake, and so the caller does it alone. */
#include "training/kernels/threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE = 16, /* floats of a line of the cache: no two threads write into one */
    LEAST = 4096 /* elements of a thread that are worth its waking */
};

struct tr_threads {
    pthread_mutex_t lock;
    pthread_cond_t begun, over;
    int n, parts; /* with the caller; those of this update */
    int started, working; /* without */
    long round; /* of updates that were handed out */
    bool ends;
    struct tr_context *x;
    const struct tr_update *u;
    struct helper {
        struct tr_threads *all;
        int number; /* the caller is 0 */
        pthread_t thread;
    } * helpers;
};

static void part(struct tr_context *x, const struct tr_update *u, int64_t from, int64_t count)
{
    struct tr_update some = *u;
    some.p += from, some.count = count;
    if (u->m)
        some.m += from, some.v += from;
    if (u->g)
        some.g += from;
    else
        some.narrow += from;
    x->k->update(x, &some);
}

/* What thread number i of n updates. */
static void part_of(struct tr_context *x, const struct tr_update *u, int i, int n)
{
    int64_t lines = (u->count + LINE - 1) / LINE, each = (lines + n - 1) / n * LINE, from = i * each;
    int64_t count = u->count - from < each ? u->count - from : each;
    if (count > 0)
        part(x, u, from, count);
}

static void *help(void *argument)
{
    struct helper *h = argument;
    struct tr_threads *t = h->all;
    pthread_mutex_lock(&t->lock);
    for (long done = 0;; done++) {
        while (!t->ends && t->round == done)
            pthread_cond_wait(&t->begun, &t->lock);
        if (t->ends)
            break;
        pthread_mutex_unlock(&t->lock);
        if (h->number < t->parts)
            part_of(t->x, t->u, h->number, t->parts);
        pthread_mutex_lock(&t->lock);
        if (--t->working == 0)
            pthread_cond_signal(&t->over);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* Signals are for the thread that computes the step, so those that are started take none. */
static int start(struct tr_threads *t)
{
    sigset_t all, before;
    int status = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (t->started < t->n - 1 && status == 0) {
        struct helper *h = &t->helpers[t->started];
        *h = (struct helper){ .all = t, .number = t->started + 1 };
        status = pthread_create(&h->thread, NULL, help, h);
        t->started += status == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

struct tr_threads *tr_threads_start(int n, struct tr_error *e)
{
    struct tr_threads *t = tr_new(1, sizeof *t);
    t->n = n;
    t->helpers = tr_new((size_t)n, sizeof *t->helpers);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->begun, NULL);
    pthread_cond_init(&t->over, NULL);
    int status = start(t);
    if (status == 0)
        return t;
    tr_fail(e, "--optimizer-threads %d: thread %d cannot be started: %s; fewer may do", n, t->started + 2,
        strerror(status));
    tr_threads_stop(t);
    return NULL;
}

void tr_threads_stop(struct tr_threads *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->ends = true;
    pthread_cond_broadcast(&t->begun);
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < t->started; i++)
        pthread_join(t->helpers[i].thread, NULL);
    pthread_cond_destroy(&t->over);
    pthread_cond_destroy(&t->begun);
    pthread_mutex_destroy(&t->lock);
    free(t->helpers);
    free(t);
}

void tr_update(struct tr_context *x, const struct tr_update *u, struct tr_threads *t)
{
    int64_t parts = u->count / LEAST;
    if (!t || parts < 2) {
        part(x, u, 0, u->count);
        return;
    }
    pthread_mutex_lock(&t->lock);
    t->x = x, t->u = u, t->parts = parts < t->n ? (int)parts : t->n;
    t->working = t->n - 1;
    t->round++;
    pthread_cond_broadcast(&t->begun);
    pthread_mutex_unlock(&t->lock);
    part_of(x, u, 0, t->parts);
    pthread_mutex_lock(&t->lock);
    while (t->working > 0)
        pthread_cond_wait(&t->over, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

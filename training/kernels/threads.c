/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.c: threads that sleep until there is work.
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
    int n, parts; /* with the caller; those of this work */
    int started, working; /* without */
    long round; /* of works that were handed out */
    bool ends;
    void (*work)(void *what, int part);
    void *what;
    struct helper {
        struct tr_threads *all;
        int number; /* the caller is 0 */
        pthread_t thread;
    } * helpers;
};

void tr_threads_part(int64_t lines, int part, int parts, int64_t *first, int64_t *count)
{
    *first = lines * part / parts;
    *count = lines * (part + 1) / parts - *first;
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
            t->work(t->what, h->number);
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

struct tr_threads *tr_threads_start(int n, const char *option, struct tr_error *e)
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
    tr_fail(e, "--%s %d: thread %d cannot be started: %s; fewer may do", option, n, t->started + 2,
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

void tr_threads_share(struct tr_threads *t, int parts, void (*work)(void *what, int part), void *what)
{
    pthread_mutex_lock(&t->lock);
    t->work = work, t->what = what, t->parts = parts < t->n ? parts : t->n;
    t->working = t->n - 1;
    t->round++;
    pthread_cond_broadcast(&t->begun);
    pthread_mutex_unlock(&t->lock);
    work(what, 0);
    pthread_mutex_lock(&t->lock);
    while (t->working > 0)
        pthread_cond_wait(&t->over, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* ---- updates ---- */

struct update {
    struct tr_context *x;
    const struct tr_update *u;
    int parts;
};

static void update_part(void *what, int part)
{
    const struct update *all = what;
    int64_t first, lines;
    tr_threads_part((all->u->count + LINE - 1) / LINE, part, all->parts, &first, &lines);
    struct tr_update some = *all->u;
    int64_t from = first * LINE, until = (first + lines) * LINE;
    some.p += from;
    some.count = (until < all->u->count ? until : all->u->count) - from;
    if (some.m)
        some.m += from, some.v += from;
    if (some.g)
        some.g += from;
    else
        some.narrow += from;
    if (some.count > 0)
        all->x->k->update(all->x, &some);
}

void tr_update(struct tr_context *x, const struct tr_update *u, struct tr_threads *t)
{
    int64_t parts = u->count / LEAST;
    if (!t || parts < 2) {
        x->k->update(x, u);
        return;
    }
    struct update all = { x, u, parts < t->n ? (int)parts : t->n };
    tr_threads_share(t, all.parts, update_part, &all);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* caller.c: the calls of a caller lie in a ring, from where its thread takes them. */
#include "training/backend/caller.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 32 };

struct tr_caller {
    void (*begin)(void *context);
    void (*call)(void *context, void *what);
    void *context;
    unsigned char *ring;
    int64_t bytes;
    uint64_t given, made;
    bool ends;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved;
};

static void *slot_of(const struct tr_caller *c, uint64_t number)
{
    return c->ring + (int64_t)(number % CALLS) * c->bytes;
}

static void *work(void *caller)
{
    struct tr_caller *c = caller;
    c->begin(c->context);
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (c->made == c->given && !c->ends)
            pthread_cond_wait(&c->moved, &c->lock);
        if (c->made == c->given)
            break;
        void *what = slot_of(c, c->made + 1); /* nobody writes there before it is made */
        pthread_mutex_unlock(&c->lock);
        c->call(c->context, what);
        pthread_mutex_lock(&c->lock);
        c->made++;
        pthread_cond_broadcast(&c->moved);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void give_back(struct tr_caller *c)
{
    pthread_cond_destroy(&c->moved);
    pthread_mutex_destroy(&c->lock);
    free(c->ring);
    free(c);
}

struct tr_caller *tr_caller_start(void (*begin)(void *context), void (*call)(void *context, void *what),
    void *context, int64_t bytes, struct tr_error *e)
{
    struct tr_caller *c = tr_new(1, sizeof *c);
    *c = (struct tr_caller){ .begin = begin, .call = call, .context = context, .bytes = bytes };
    c->ring = tr_new(CALLS, (size_t)bytes);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->moved, NULL);
    int status = pthread_create(&c->thread, NULL, work, c);
    if (status == 0)
        return c;
    give_back(c);
    tr_fail(e, "a thread that sends beside the list cannot be started: %s; legal is --ranks-as processes",
        strerror(status));
    return NULL;
}

uint64_t tr_caller_give(struct tr_caller *c, const void *what)
{
    pthread_mutex_lock(&c->lock);
    while (c->given - c->made == CALLS)
        pthread_cond_wait(&c->moved, &c->lock);
    memcpy(slot_of(c, c->given + 1), what, (size_t)c->bytes);
    uint64_t number = ++c->given;
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
    return number;
}

void tr_caller_wait(struct tr_caller *c, uint64_t number)
{
    pthread_mutex_lock(&c->lock);
    while (c->made < number)
        pthread_cond_wait(&c->moved, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

void tr_caller_stop(struct tr_caller *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->ends = true;
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    give_back(c);
}

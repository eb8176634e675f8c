/* SPDX-License-Identifier: BSD-3-Clause */
/* async_init.c: the thread that makes a communicator, and what may happen to it meanwhile.
 *
 * One lock guards all asynchronous initialisations: every function that looks at one holds it, and the
 * thread takes it only for the moment in which its outcome becomes known. The lock of the handles
 * (handle.h) is taken after it. */
#include "comm/async_init.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/thread.h"
#include "base/fork.h"
#include "base/handle.h"
#include "bootstrap/init_progress.h"
#include "launch/launch.h"
#include "comm/lifecycle.h"
#include "device/device.h"
#include "run/settings.h"

struct async_init {
    int n, rank;
    bool launched; /* the launcher says n, rank and id */
    int device; /* that is current in the thread that asked */
    tutti_id id;
    tutti_config config;
    char *name, *options;
    void *handle;
    tutti_status refused; /* before it began: it is only to tell the other ranks */

    /* Behind the lock. */
    bool running; /* its thread will look at it again */
    bool dropped; /* the handle is dead; whoever sees that last frees the struct */
    tutti_status status; /* IN_PROGRESS until it failed or was aborted */
    char text[TT_ERROR_TEXT];
};

static pthread_mutex_t inits_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_ASYNC_INITS, &inits_lock, NULL);
}

static void free_init(struct async_init *init)
{
    if (init == NULL)
        return;
    free(init->name);
    free(init->options);
    free(init);
}

/* Makes the communicator, or tells the other ranks of the failure with which this one began. */
static tutti_status make(struct async_init *init, struct tt_comm **made)
{
    const tutti_id *id = init->launched ? NULL : &init->id;
    tutti_comm *handle;
    struct tt_settings settings;
    tutti_status status = init->refused;
    if (status != TUTTI_OK)
        tt_set_last_error(init->text);
    else
        status = tt_comm_settings(&init->config, &settings);
    if (status == TUTTI_OK)
        status = tt_device_adopt(&settings, init->device);
    if (status != TUTTI_OK)
        return tt_init_refuse(init->n, init->rank, id, &init->config, status);
    tt_init_begin(&init->config);
    if (init->launched)
        status =
            tt_launch_find(tt_comm_init_timeout(&settings, &init->config), &init->n, &init->rank, &init->id);
    if (status == TUTTI_OK)
        status = tt_init_rank(init->n, init->rank, &init->id, &init->config, &handle);
    tt_init_progress_end();
    if (status == TUTTI_OK)
        *made = tt_comm_take(handle);
    return status;
}

static void fail(struct async_init *init, tutti_status status, const char *text)
{
    if (init->status != TUTTI_IN_PROGRESS)
        return;
    init->status = status;
    snprintf(init->text, sizeof init->text, "%s", text);
}

static void *run(void *argument)
{
    struct async_init *init = argument;
    struct tt_comm *made = NULL;
    tutti_status status = make(init, &made);
    pthread_mutex_lock(&inits_lock);
    init->running = false;
    bool over = init->dropped;
    if (status != TUTTI_OK) {
        fail(init, status, tt_last_error());
    } else if (!init->dropped && init->status == TUTTI_IN_PROGRESS) {
        made->handle = init->handle;
        tt_handle_turn(init->handle, TT_HANDLE_COMM, made);
        made = NULL;
        over = true;
    }
    pthread_mutex_unlock(&inits_lock);
    if (made != NULL)
        tt_comm_destroy(made);
    if (over)
        free_init(init);
    return NULL;
}

/* Returns NULL if there is no memory. */
static struct async_init *create(int n, int rank, const tutti_id *id, const tutti_config *config)
{
    struct async_init *init = calloc(1, sizeof *init);
    if (init == NULL)
        return NULL;
    *init = (struct async_init){ .n = n, .rank = rank, .launched = id == NULL, .config = *config };
    if (id != NULL)
        init->id = *id;
    init->running = true;
    init->status = TUTTI_IN_PROGRESS;
    init->config.name = init->name = config->name != NULL ? strdup(config->name) : NULL;
    init->config.options = init->options = config->options != NULL ? strdup(config->options) : NULL;
    if ((config->name != NULL) == (init->name != NULL) &&
        (config->options != NULL) == (init->options != NULL))
        return init;
    free_init(init);
    return NULL;
}

static tutti_status start_thread(struct async_init *init)
{
    pthread_t thread;
    tutti_status status = tt_thread_start("that makes a communicator", run, init, &thread);
    if (status == TUTTI_OK)
        pthread_detach(thread);
    return status;
}

tutti_status tt_async_init_refuse(
    int n, int rank, const tutti_id *id, const tutti_config *config, tutti_status status)
{
    tutti_config legal = { .size = sizeof legal, .timeout_ms = tt_comm_refused_timeout(config) };
    char words[TT_ERROR_TEXT];
    struct async_init *init = create(n, rank, id, &legal);
    snprintf(words, sizeof words, "%s", tt_last_error());
    if (init != NULL) {
        init->refused = status;
        init->dropped = true;
        snprintf(init->text, sizeof init->text, "%s", words);
        if (start_thread(init) != TUTTI_OK)
            free_init(init);
    }
    tt_set_last_error(words);
    return status;
}

tutti_status tt_async_init_start(
    int n, int rank, const tutti_id *id, const tutti_config *config, tutti_comm **comm)
{
    tutti_config known;
    struct tt_settings settings;
    void *handle = NULL;
    tutti_status status = tt_comm_config(config, &known);
    if (status == TUTTI_OK)
        status = tt_comm_settings(config, &settings);
    if (status != TUTTI_OK)
        return tt_async_init_refuse(n, rank, id, config, status);
    struct async_init *init = create(n, rank, id, &known);
    status = init != NULL ? tt_handle_create(TT_HANDLE_PENDING, init, &handle)
                          : tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to begin a communicator");
    if (status == TUTTI_OK) {
        init->device = tt_device_to_adopt(&settings);
        init->handle = handle;
        *comm = handle; /* before the thread can turn it into a communicator */
        status = start_thread(init);
    }
    if (status == TUTTI_OK)
        return TUTTI_OK;
    if (handle != NULL)
        tt_handle_take(TT_HANDLE_PENDING, handle);
    free_init(init);
    return status;
}

/* Returns the initialisation behind a pending handle with the lock held; NULL, without the lock, if the
 * handle is not pending. */
static struct async_init *look(const tutti_comm *comm)
{
    if (!tt_handle_is(TT_HANDLE_PENDING, comm))
        return NULL;
    pthread_mutex_lock(&inits_lock);
    if (tt_handle_is(TT_HANDLE_PENDING, comm))
        return tt_handle_find(TT_HANDLE_PENDING, comm);
    pthread_mutex_unlock(&inits_lock);
    return NULL;
}

bool tt_async_init_state(const tutti_comm *comm, tutti_error *error)
{
    struct async_init *init = look(comm);
    if (init == NULL)
        return false;
    error->status = init->status;
    error->rank = init->launched ? -1 : init->rank;
    snprintf(error->operation, sizeof error->operation, "init");
    snprintf(error->text, sizeof error->text, "%s", init->text);
    pthread_mutex_unlock(&inits_lock);
    return true;
}

bool tt_async_init_abort(tutti_comm *comm)
{
    struct async_init *init = look(comm);
    if (init == NULL)
        return false;
    fail(init, TUTTI_ABORTED, "aborted while it was being made");
    pthread_mutex_unlock(&inits_lock);
    return true;
}

bool tt_async_init_destroy(tutti_comm *comm)
{
    struct async_init *init = look(comm);
    if (init == NULL)
        return false;
    tt_handle_take(TT_HANDLE_PENDING, comm);
    init->dropped = true;
    bool over = !init->running;
    pthread_mutex_unlock(&inits_lock);
    if (over)
        free_init(init);
    return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* attempt.c: the thread that makes a communicator, and what may happen to it meanwhile.
 *
 * One lock guards all attempts: whoever looks at one holds it, and the thread takes it only for the moment in
 * which the outcome becomes known. Who needs the lock of the handles (handle.h) as well takes that second. */
#include "comm/attempt.h"

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
#include "run/settings.h"

struct attempt {
    int n, rank;
    bool launched; /* n, rank and id are the launcher's to say */
    tutti_id id;
    tutti_config config;
    char *name, *options;
    void *handle;

    /* Behind the lock. */
    bool running; /* its thread will look at it again */
    bool dropped; /* the handle is dead: who comes last frees it */
    tutti_status status; /* IN_PROGRESS until it failed or was aborted */
    char text[TT_ERROR_TEXT];
};

static pthread_mutex_t attempts_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_ATTEMPTS, &attempts_lock, NULL);
}

static void free_attempt(struct attempt *a)
{
    if (a == NULL)
        return;
    free(a->name);
    free(a->options);
    free(a);
}

static tutti_status make(struct attempt *a, struct tt_comm **made)
{
    tutti_comm *handle;
    struct tt_settings settings;
    tutti_status status = tt_comm_settings(&a->config, &settings);
    tt_init_begin(&a->config);
    if (status == TUTTI_OK && a->launched)
        status = tt_launch_find(tt_comm_init_timeout(&settings, &a->config), &a->n, &a->rank, &a->id);
    if (status == TUTTI_OK)
        status = tt_init_rank(a->n, a->rank, &a->id, &a->config, &handle);
    tt_init_progress_end();
    if (status == TUTTI_OK)
        *made = tt_handle_take(handle);
    return status;
}

static void fail(struct attempt *a, tutti_status status, const char *text)
{
    if (a->status != TUTTI_IN_PROGRESS)
        return;
    a->status = status;
    snprintf(a->text, sizeof a->text, "%s", text);
}

static void *run(void *argument)
{
    struct attempt *a = argument;
    struct tt_comm *made = NULL;
    tutti_status status = make(a, &made);
    pthread_mutex_lock(&attempts_lock);
    a->running = false;
    bool over = a->dropped;
    if (status != TUTTI_OK) {
        fail(a, status, tt_last_error());
    } else if (!a->dropped && a->status == TUTTI_IN_PROGRESS) {
        made->handle = a->handle;
        tt_shell_turn(a->handle, TT_SHELL_COMM, made);
        made = NULL;
        over = true;
    }
    pthread_mutex_unlock(&attempts_lock);
    if (made != NULL)
        tt_comm_destroy(made);
    if (over)
        free_attempt(a);
    return NULL;
}

/* NULL: no memory. */
static struct attempt *create(int n, int rank, const tutti_id *id, const tutti_config *config)
{
    struct attempt *a = calloc(1, sizeof *a);
    if (a == NULL)
        return NULL;
    *a = (struct attempt){ .n = n, .rank = rank, .launched = id == NULL, .config = *config };
    if (id != NULL)
        a->id = *id;
    a->running = true;
    a->status = TUTTI_IN_PROGRESS;
    a->config.name = a->name = config->name != NULL ? strdup(config->name) : NULL;
    a->config.options = a->options = config->options != NULL ? strdup(config->options) : NULL;
    if ((config->name != NULL) == (a->name != NULL) && (config->options != NULL) == (a->options != NULL))
        return a;
    free_attempt(a);
    return NULL;
}

tutti_status tt_attempt_start(
    int n, int rank, const tutti_id *id, const tutti_config *config, tutti_comm **comm)
{
    tutti_config known;
    struct tt_settings settings;
    void *handle = NULL;
    pthread_t thread;
    tutti_status status = tt_comm_config(config, &known);
    if (status == TUTTI_OK)
        status = tt_comm_settings(config, &settings);
    if (status != TUTTI_OK)
        return status;
    struct attempt *a = create(n, rank, id, &known);
    status = a != NULL ? tt_shell_create(TT_SHELL_COMING, a, &handle)
                       : tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to begin a communicator");
    if (status == TUTTI_OK) {
        a->handle = handle;
        *comm = handle; /* before the thread can turn it into a communicator */
        status = tt_thread_start("that makes a communicator", run, a, &thread);
    }
    if (status == TUTTI_OK) {
        pthread_detach(thread);
        return TUTTI_OK;
    }
    if (handle != NULL)
        tt_shell_take(TT_SHELL_COMING, handle);
    free_attempt(a);
    return status;
}

/* With the lock held; NULL, and the lock given back, if it is none. */
static struct attempt *look(const tutti_comm *comm)
{
    if (!tt_shell_is(TT_SHELL_COMING, comm))
        return NULL;
    pthread_mutex_lock(&attempts_lock);
    if (tt_shell_is(TT_SHELL_COMING, comm))
        return tt_shell_find(TT_SHELL_COMING, comm);
    pthread_mutex_unlock(&attempts_lock);
    return NULL;
}

bool tt_attempt_state(const tutti_comm *comm, tutti_error *error)
{
    struct attempt *a = look(comm);
    if (a == NULL)
        return false;
    error->status = a->status;
    error->rank = a->launched ? -1 : a->rank;
    snprintf(error->operation, sizeof error->operation, "init");
    snprintf(error->text, sizeof error->text, "%s", a->text);
    pthread_mutex_unlock(&attempts_lock);
    return true;
}

bool tt_attempt_abort(tutti_comm *comm)
{
    struct attempt *a = look(comm);
    if (a == NULL)
        return false;
    fail(a, TUTTI_ABORTED, "aborted while it was being made");
    pthread_mutex_unlock(&attempts_lock);
    return true;
}

bool tt_attempt_destroy(tutti_comm *comm)
{
    struct attempt *a = look(comm);
    if (a == NULL)
        return false;
    tt_shell_take(TT_SHELL_COMING, comm);
    a->dropped = true;
    bool over = !a->running;
    pthread_mutex_unlock(&attempts_lock);
    if (over)
        free_attempt(a);
    return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c: the queue of one thread, and its end. */
#include "api/group.h"
#include "api/group_joins.h"

#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/device.h"
#include "base/handle.h"
#include "comm/async_init.h"
#include "comm/lifecycle.h"
#include "run/settings.h"

struct init {
    int n, rank;
    tutti_id id;
    struct tt_join join, *all; /* of the group's end */
    const tutti_config *config;
    int device; /* that is current as the call is made */
    tutti_comm **comm;
    tutti_comm *made;
    tutti_status status;
    char text[TT_ERROR_TEXT];
    pthread_t thread;
};

/* The messages of a group that are cached (call_cache.h). A group that has nothing else needs no work
 * item. */
enum { MESSAGES_MAX = 16 };
struct messages {
    struct tt_call_args args[MESSAGES_MAX];
    struct tt_cached *cached[MESSAGES_MAX];
    int count;
};

struct queue {
    int depth, calls; /* levels; calls that wait for the end of the outermost */
    bool watched; /* the end of this thread is told */
    tutti_status status;
    struct messages *messages; /* NULL: no message yet */
    struct tt_work_item *item; /* the calls; NULL: none yet */
    struct init *inits;
    int ninits, init_capacity;
    struct tt_later *laters; /* in the order of their calls */
};
/* The queue lies in the static block of the thread, because every call looks at it. */
static _Thread_local struct queue queue __attribute__((tls_model("initial-exec")));

bool tt_group_open(void)
{
    return queue.depth > 0;
}

/* Puts a child of fork() outside of all groups. */
static void after_fork_in_child(void)
{
    if (queue.messages != NULL)
        queue.messages->count = 0;
    queue = (struct queue){ 0 };
}

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_GROUP, NULL, after_fork_in_child);
}

tutti_status tt_group_note(tutti_status status)
{
    if (queue.depth > 0 && queue.status == TUTTI_OK)
        queue.status = status;
    return status;
}

tutti_status tt_group_refuse(const char *call)
{
    return tt_group_note(tt_fail(TUTTI_INVALID_USAGE,
        "%s: this thread is inside a group (is a tutti_group_end missing?); legal: outside of groups", call));
}

/* Warns of a group that was not ended: its calls succeed and do nothing. */
static void warn_of_open_group(const struct queue *q, const char *who)
{
    if (q->depth > 0)
        tt_log(TT_LOG_WARN,
            "%s ends inside a group: a tutti_group_end is missing, and %d call%s never started", who,
            q->calls, q->calls == 1 ? "" : "s");
}

static void __attribute__((destructor)) end_process(void)
{
    warn_of_open_group(&queue, "the process");
}

static void end_thread(void *q)
{
    warn_of_open_group(q, "a thread");
}

static pthread_key_t ends;
static bool ends_are_told;

static void tell_ends(void)
{
    ends_are_told = pthread_key_create(&ends, end_thread) == 0;
}

/* Watches for the end of this thread; called once for each thread that has groups. */
static void watch_thread(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, tell_ends);
    queue.watched = true;
    if (ends_are_told)
        pthread_setspecific(ends, &queue);
}

static bool grow(void **items, int count, int *capacity, size_t bytes)
{
    if (count < *capacity)
        return true;
    int wanted = *capacity == 0 ? 16 : 2 * *capacity;
    void *bigger = realloc(*items, (size_t)wanted * bytes);
    if (bigger == NULL)
        return false;
    *items = bigger;
    *capacity = wanted;
    return true;
}

static tutti_status add(struct tt_work_item **item, const struct tt_call *call)
{
    if (*item == NULL)
        *item = tt_work_item_take(NULL);
    return *item != NULL ? tt_work_item_add(*item, call) : TUTTI_OUT_OF_MEMORY;
}

/* Turns the messages into whole calls of the work item. */
static tutti_status add_as_calls(struct messages *q, struct tt_work_item **item)
{
    tutti_status status = TUTTI_OK;
    struct tt_call call;
    for (int i = 0; q != NULL && i < q->count && status == TUTTI_OK; i++) {
        tt_cached_call_with(&q->args[i], q->cached[i], &call);
        status = add(item, &call);
    }
    if (q != NULL)
        q->count = 0;
    return status;
}

tutti_status tt_group_add(const struct tt_call *call)
{
    tutti_status status = add_as_calls(queue.messages, &queue.item);
    queue.calls++;
    return tt_group_note(status == TUTTI_OK ? add(&queue.item, call) : status);
}

bool tt_group_add_message(const struct tt_call_args *message, struct tt_cached *cached)
{
    struct messages *q = queue.messages;
    if (q == NULL)
        q = queue.messages = tt_thread_room(TT_ROOM_GROUP, sizeof *q);
    if (q == NULL || queue.item != NULL || q->count == MESSAGES_MAX)
        return false;
    queue.calls++;
    q->args[q->count] = *message;
    q->cached[q->count++] = cached;
    return true;
}

tutti_status tt_group_add_init(
    int n, int rank, const tutti_id *id, const tutti_config *config, tutti_comm **comm)
{
    struct queue *q = &queue;
    struct tt_settings settings;
    tutti_status status = tt_comm_settings(config, &settings);
    if (status != TUTTI_OK)
        tt_async_init_refuse(n, rank, id, config, status); /* the group will run none */
    if (status == TUTTI_OK && !grow((void **)&q->inits, q->ninits, &q->init_capacity, sizeof *q->inits))
        status = tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to queue an initialisation in a group");
    if (status != TUTTI_OK)
        return tt_group_note(status);
    q->calls++;
    q->inits[q->ninits++] = (struct init){ .n = n,
        .rank = rank,
        .id = *id,
        .config = config,
        .device = tt_device_to_adopt(&settings),
        .comm = comm };
    return TUTTI_OK;
}

tutti_status tt_group_add_later(const struct tt_later *later)
{
    struct tt_later **end = &queue.laters, *copy = tt_later_copy(later);
    if (copy == NULL)
        return tt_group_note(TUTTI_OUT_OF_MEMORY);
    while (*end != NULL)
        end = &(*end)->next;
    *end = copy;
    queue.calls++;
    return TUTTI_OK;
}

tutti_status tutti_group_start(void)
{
    if (!queue.watched)
        watch_thread();
    queue.depth++;
    return TUTTI_OK;
}

static void *run_init(void *argument)
{
    struct init *i = argument;
    struct tt_settings settings;
    i->status = tt_comm_settings(i->config, &settings);
    if (i->status == TUTTI_OK)
        i->status = tt_device_adopt(&settings, i->device);
    i->status = i->status == TUTTI_OK ? tt_init_rank(i->n, i->rank, &i->id, i->config, &i->made)
                                      : tt_init_refuse(i->n, i->rank, &i->id, i->config, i->status);
    if (i->status != TUTTI_OK) {
        strncpy(i->text, tt_last_error(), sizeof i->text - 1);
        tt_joins_give_up(i->all, &i->join, i->status);
    }
    atomic_store(&i->join.over, true);
    return NULL;
}

/* Runs the initialisations of a group. Outputs are set only if all of them succeeded. */
static tutti_status run_inits(struct queue *q)
{
    tutti_status status = TUTTI_OK;
    int started = 0;
    for (int i = 0; i < q->ninits; i++) {
        struct init *init = &q->inits[i];
        init->join = (struct tt_join){ .n = init->n, .rank = init->rank, .id = init->id, .known = true };
        init->join.next = i + 1 < q->ninits ? &q->inits[i + 1].join : NULL;
        init->all = &q->inits[0].join;
    }
    while (status == TUTTI_OK && started < q->ninits) {
        struct init *i = &q->inits[started];
        status = tt_thread_start("of an initialisation in a group", run_init, i, &i->thread);
        started += status == TUTTI_OK;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(q->inits[i].thread, NULL);
        if (q->inits[i].status != TUTTI_OK && status == TUTTI_OK) {
            status = q->inits[i].status;
            tt_set_last_error(q->inits[i].text);
        }
    }
    for (int i = 0; i < started; i++) {
        if (q->inits[i].made != NULL && status != TUTTI_OK)
            tt_comm_destroy(tt_comm_take(q->inits[i].made));
        else if (status == TUTTI_OK)
            *q->inits[i].comm = q->inits[i].made;
    }
    return status;
}

/* Frees what is left of a group that is over. */
static void forget(struct queue *ended)
{
    tt_laters_free(ended->laters);
    free(ended->inits);
}

/* Refuses calls[0] to calls[count - 1], none of which has begun. */
static tutti_status refuse_calls(struct tt_pending *calls, int count, tutti_status status)
{
    struct tt_batch batch = { .calls = calls, .count = count };
    return tt_batch_refuse(&batch, status);
}

/* Runs calls without streams on this thread. A call that is made again is prepared already. */
static tutti_status run_calls(struct tt_pending *calls, int count)
{
    for (int i = 0; i < count; i++) {
        const struct tt_call *call = &calls[i].call;
        tutti_status status = tt_comm_turn(call->comm);
        if (status == TUTTI_OK && call->cached == NULL)
            status = tt_call_prepare(call);
        if (status != TUTTI_OK)
            return refuse_calls(calls, count, status);
    }
    tutti_status status = tt_run(calls, count);
    for (int i = 0; i < count && status == TUTTI_OK; i++)
        if (tt_collectives[calls[i].call.collective].p2p && calls[i].op != NULL &&
            calls[i].call.cached == NULL)
            tt_cache_store(&calls[i].call, calls[i].op);
    return status;
}

/* Runs the sends, which wait for nobody, then the receives, whose peers may be here as well. From the
 * first message on that cannot be done at once, all that are left run together. */
static tutti_status run_messages(struct messages *q)
{
    bool done = true;
    int left = q->count;
    for (int sends = 1; sends >= 0 && done; sends--) {
        int count = left;
        left = 0;
        for (int i = 0; i < count; i++) {
            bool turn = (q->args[i].collective == TT_P2P_SEND) == (sends == 1);
            if (turn && done)
                done = tt_fast_message(&q->args[i], q->cached[i]);
            if (turn && done)
                continue;
            q->args[left] = q->args[i];
            q->cached[left++] = q->cached[i];
        }
    }
    q->count = 0;
    if (left == 0)
        return TUTTI_OK;
    struct tt_pending calls[MESSAGES_MAX];
    for (int i = 0; i < left; i++) {
        tt_cached_call_with(&q->args[i], q->cached[i], &calls[i].call);
        calls[i].skip = 0;
        tt_pending_renew(&calls[i]);
    }
    return run_calls(calls, left);
}

/* Queues the calls. If all have a stream, it returns at once; if only some have one, it waits for all. */
static tutti_status queue_calls(struct tt_work_item *item, bool wait, struct tt_position *position)
{
    struct tt_report report;
    struct tt_comm *comm = item->batch->calls[0].call.comm;
    for (int i = 1; i < item->batch->count && comm->waiting.on_wait == NULL; i++)
        comm = item->batch->calls[i].call.comm;
    item->report = wait ? &report : NULL;
    tutti_status status = tt_work_item_submit(item, position);
    if (status != TUTTI_OK) {
        tt_batch_refuse(item->batch, status);
        tt_work_item_drop(item);
    }
    if (status != TUTTI_OK || !wait)
        return status;
    tt_position_await(*position, comm, -1);
    if (report.status != TUTTI_OK)
        tt_set_last_error(report.text);
    return report.status;
}

/* Runs calls that have streams of devices. Either all have, or it is an error: a call elsewhere has no
 * place in their order. */
static tutti_status run_on_devices(const struct tt_batch *batch, int on_devices)
{
    if (on_devices == batch->count)
        return tt_device_submit(batch);
    return tt_fail(TUTTI_INVALID_USAGE,
        "group: %d of %d calls are on CUDA streams; legal: all of them, or none", on_devices, batch->count);
}

tutti_status tt_group_run(struct tt_work_item *item, struct tt_position *position)
{
    int queued = 0, on_devices = 0, count = item->batch->count;
    for (int i = 0; i < count; i++) {
        int32_t kind = item->batch->calls[i].call.stream.kind;
        queued += kind != TUTTI_STREAM_NONE;
        on_devices += kind == TUTTI_STREAM_CUDA;
    }
    if (on_devices > 0) {
        tutti_status status = run_on_devices(item->batch, on_devices);
        tt_batch_refuse(item->batch, status);
        *position = (struct tt_position){ 0 };
        tt_work_item_drop(item);
        return status;
    }
    if (queued > 0)
        return queue_calls(item, queued < count, position);
    tutti_status status = run_calls(item->batch->calls, count);
    *position = (struct tt_position){ 0 };
    tt_work_item_drop(item);
    return status;
}

/* Leaves a group and sets *ended to what it has collected; false if an outer group goes on. */
static bool leave(struct queue *ended)
{
    if (--queue.depth > 0)
        return false;
    *ended = queue;
    queue = (struct queue){ .watched = true };
    return true;
}

static tutti_status not_started(const char *call)
{
    return tt_fail(TUTTI_INVALID_USAGE, "%s without tutti_group_start on this thread", call);
}

/* Drops the calls of a group that was cancelled: nobody hears of them, for they may be made again. Who waits
 * for this rank in an initialisation is told that it does not come. */
static void forget_calls(struct queue *ended)
{
    if (ended->messages != NULL)
        ended->messages->count = 0;
    if (ended->item != NULL)
        tt_work_item_drop(ended->item);
    for (int i = 0; i < ended->ninits; i++) {
        const struct init *init = &ended->inits[i];
        tt_async_init_refuse(init->n, init->rank, &init->id, init->config,
            tt_fail(TUTTI_INVALID_USAGE, "the group of its tutti_comm_init_rank was cancelled"));
    }
}

/* Drops the calls of a group that was refused, and refuses each of them. */
static void drop_calls(struct queue *ended, tutti_status status)
{
    struct messages *q = ended->messages;
    struct tt_call call;
    for (int i = 0; q != NULL && i < q->count; i++) {
        tt_cached_call_with(&q->args[i], q->cached[i], &call);
        tt_call_refuse(&call, status);
    }
    if (q != NULL)
        q->count = 0;
    if (ended->item != NULL) {
        tt_batch_refuse(ended->item->batch, status);
        tt_work_item_drop(ended->item);
    }
}

tutti_status tutti_group_end(void)
{
    struct queue ended;
    struct tt_position position;
    if (queue.depth == 0)
        return not_started("tutti_group_end");
    if (!leave(&ended))
        return TUTTI_OK;
    tutti_status status = ended.status;
    if (status == TUTTI_OK && ended.ninits > 0)
        status = run_inits(&ended);
    if (status == TUTTI_OK && ended.item != NULL)
        status = tt_batch_meet(ended.item->batch);
    if (status != TUTTI_OK)
        drop_calls(&ended, status);
    else if (ended.item != NULL)
        status = tt_group_run(ended.item, &position);
    else if (ended.messages != NULL && ended.messages->count > 0)
        status = run_messages(ended.messages);
    if (status == TUTTI_OK && ended.laters != NULL)
        status = tt_laters_run(ended.laters);
    else
        tt_laters_refuse(ended.laters, status);
    forget(&ended);
    return status;
}

bool tt_group_price(uint64_t *price)
{
    *price = 0;
    if (queue.depth == 0 || add_as_calls(queue.messages, &queue.item) != TUTTI_OK)
        return false;
    for (int i = 0; queue.item != NULL && i < queue.item->batch->count; i++) {
        const struct tt_call *call = &queue.item->batch->calls[i].call;
        bool on_device = call->stream.kind == TUTTI_STREAM_CUDA && call->comm->device != NULL;
        *price = tt_costs_sum(*price, on_device ? tt_device_call_price(call) : tt_call_price(call));
    }
    return true;
}

tutti_status tutti_group_cancel(void)
{
    struct queue ended;
    if (queue.depth == 0)
        return not_started("tutti_group_cancel");
    queue.depth = 1;
    leave(&ended);
    forget_calls(&ended);
    forget(&ended);
    return TUTTI_OK;
}

tutti_status tt_group_take(struct tt_work_item **item)
{
    struct queue ended;
    if (queue.depth == 0)
        return not_started("tutti_group_keep");
    if (!leave(&ended))
        return tt_group_note(
            tt_fail(TUTTI_INVALID_USAGE, "group_keep ends an inner group; legal: the outermost"));
    tutti_status status = ended.status;
    if (status == TUTTI_OK && ended.ninits > 0)
        status = tt_fail(TUTTI_INVALID_USAGE, "group_keep: the group has an initialisation; legal: calls");
    if (status == TUTTI_OK && ended.laters != NULL)
        status = tt_fail(TUTTI_INVALID_USAGE,
            "group_keep: the group has a split, shrink, grow or finalize; legal: calls that can be repeated");
    if (status == TUTTI_OK)
        status = add_as_calls(ended.messages, &ended.item);
    if (status == TUTTI_OK && ended.item == NULL && (ended.item = tt_work_item_take(NULL)) == NULL)
        status = TUTTI_OUT_OF_MEMORY;
    if (status == TUTTI_OK)
        status = tt_batch_meet(ended.item->batch);
    if (status == TUTTI_OK)
        *item = ended.item;
    else
        drop_calls(&ended, status);
    tt_laters_refuse(ended.laters, status);
    forget(&ended);
    return status;
}

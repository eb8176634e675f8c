/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_graph.c: graphs, and their replay.
 *
 * A launch makes work of all nodes at once: those of one captured stream go to one queue, those of the next
 * to the next queue, in the order of the capture. The roots come after what is in the stream, and after the
 * last launch of the same runnable; a mark after all nodes is what the stream goes on from. So with one queue
 * the graph runs in the order in which it was captured. External records count as done by the launch: a wait
 * that is enqueued later is for this replay. External waits are for what was recorded before the launch, and
 * for nothing that the graph itself records.
 *
 * A graph, what was made of it and its replays under way hold it together; then what it retained is released,
 * on a thread of the runtime. */
#include <stdlib.h>

#include "stub_internal.h"

static void release_retained(struct stub_graph *graph)
{
    for (int i = 0; i < graph->nretained; i++) {
        struct stub_task task = { .kind = STUB_HOST,
            .host = { graph->retained[i].release, graph->retained[i].argument } };
        struct stub_work *work = tt_stub_work_new(&task);
        tt_stub_work_push(&tt_stub_runtime.backstage.queues[0], work);
        tt_stub_work_drop(work);
    }
    free(graph->retained);
}

void tt_stub_graph_drop(struct stub_graph *graph)
{
    if (graph == NULL || --graph->references > 0)
        return;
    release_retained(graph);
    for (int i = 0; i < graph->n; i++) {
        tt_stub_task_free(&graph->nodes[i].task);
        tt_stub_front_clear(&graph->nodes[i].after);
    }
    free(graph->nodes);
    free(graph);
}

/* A graph that was captured, or (for graph_retain) that is being captured. */
static struct stub_graph *find(void *handle, bool captured)
{
    struct stub_graph *graph = tt_stub_runtime.graphs;
    while (graph != NULL && graph != handle)
        graph = graph->next;
    const struct stub_capture *capture = captured ? NULL : tt_stub_runtime.captures;
    for (; graph == NULL && capture != NULL; capture = capture->next)
        graph = capture->graph == handle ? capture->graph : NULL;
    return graph;
}

static enum tt_dev_error unknown(enum stub_function function, const void *handle)
{
    return tt_stub_fail(TT_DEV_INVALID, function, "%p is none, or is gone", handle);
}

enum tt_dev_error tt_stub_graph_retain(void *handle, void (*release)(void *), void *argument)
{
    enum tt_dev_error error = tt_stub_enter(STUB_graph_retain);
    if (error != TT_DEV_OK)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    struct stub_graph *graph = find(handle, false);
    if (graph != NULL) {
        graph->retained = tt_stub_grow(graph->retained, graph->nretained, sizeof *graph->retained);
        graph->retained[graph->nretained++] = (struct stub_retained){ release, argument };
    }
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return graph != NULL ? TT_DEV_OK : unknown(STUB_graph_retain, handle);
}

enum tt_dev_error tt_stub_graph_destroy(void *handle)
{
    enum tt_dev_error error = tt_stub_enter(STUB_graph_destroy);
    if (error != TT_DEV_OK)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    struct stub_graph **at = &tt_stub_runtime.graphs, *graph;
    while (*at != NULL && *at != handle)
        at = &(*at)->next;
    graph = *at;
    if (graph != NULL) {
        *at = graph->next;
        tt_stub_graph_drop(graph);
    }
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return graph != NULL ? TT_DEV_OK : unknown(STUB_graph_destroy, handle);
}

enum tt_dev_error tt_stub_graph_instantiate(void *handle, void **out)
{
    enum tt_dev_error error = tt_stub_enter(STUB_graph_instantiate);
    if (error != TT_DEV_OK)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    struct stub_graph *graph = find(handle, true);
    if (graph != NULL) {
        struct stub_runnable *runnable = tt_stub_new(sizeof *runnable);
        runnable->graph = graph;
        graph->references++;
        runnable->next = tt_stub_runtime.runnables;
        tt_stub_runtime.runnables = runnable;
        *out = runnable;
    }
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return graph != NULL ? TT_DEV_OK : unknown(STUB_graph_instantiate, handle);
}

/* What is under way is done all the same. */
enum tt_dev_error tt_stub_runnable_destroy(void *handle)
{
    enum tt_dev_error error = tt_stub_enter(STUB_runnable_destroy);
    if (error != TT_DEV_OK)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    struct stub_runnable **at = &tt_stub_runtime.runnables, *runnable;
    while (*at != NULL && *at != handle)
        at = &(*at)->next;
    runnable = *at;
    if (runnable != NULL) {
        *at = runnable->next;
        tt_stub_work_drop(runnable->last);
        tt_stub_graph_drop(runnable->graph);
        free(runnable);
    }
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return runnable != NULL ? TT_DEV_OK : unknown(STUB_runnable_destroy, handle);
}

static struct stub_queue *queue_of_branch(const struct stub_stream *stream, int branch)
{
    int first = (int)(stream->queue - stream->device->queues);
    return &stream->device->queues[(first + branch) % tt_stub_runtime.config.queues];
}

static void replay(struct stub_runnable *runnable, struct stub_stream *stream)
{
    struct stub_graph *graph = runnable->graph;
    struct stub_work **works = tt_stub_new((size_t)(graph->n + 1) * sizeof *works);
    struct stub_work *end = tt_stub_work_new(&(struct stub_task){ .kind = STUB_MARK });
    for (int i = 0; i < graph->n; i++) {
        const struct stub_node *node = &graph->nodes[i];
        works[i] = tt_stub_work_new(&node->task);
        tt_stub_work_after(end, works[i]);
        for (int k = 0; k < node->after.n; k++)
            tt_stub_work_after(works[i], works[node->after.nodes[k]]);
        if (node->after.n == 0) {
            tt_stub_work_after(works[i], runnable->last);
            tt_stub_stream_order(stream, works[i]);
        }
        tt_stub_event_wait_order(works[i]);
        tt_stub_work_push(queue_of_branch(stream, node->branch), works[i]);
    }
    end->graph = graph;
    graph->references++;
    tt_stub_stream_order(stream, end);
    tt_stub_stream_push(stream, end);
    tt_stub_work_drop(runnable->last);
    runnable->last = tt_stub_work_hold(end);
    for (int i = 0; i < graph->n; i++) {
        tt_stub_event_record_order(works[i]);
        tt_stub_work_drop(works[i]);
    }
    free(works);
}

enum tt_dev_error tt_stub_graph_launch(void *handle, void *stream_handle)
{
    enum tt_dev_error error;
    struct stub_stream *stream = tt_stub_stream_enter(stream_handle, STUB_graph_launch, &error);
    if (stream == NULL)
        return error;
    tt_stub_api_lock(stream->device);
    pthread_mutex_lock(&tt_stub_runtime.lock);
    tt_stub_stream_room(stream);
    struct stub_runnable *runnable = tt_stub_runtime.runnables;
    while (runnable != NULL && runnable != handle)
        runnable = runnable->next;
    if (runnable == NULL) {
        error = unknown(STUB_graph_launch, handle);
    } else if (stream->capture != NULL) {
        stream->capture->broken = true;
        error = tt_stub_fail(TT_DEV_CAPTURE, STUB_graph_launch, "the stream is being captured");
    } else {
        replay(runnable, stream);
    }
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    tt_stub_api_unlock(stream->device);
    return error;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_capture.c: capture. What is enqueued on a stream that is being captured becomes a node of a graph.
 *
 * A stream knows the nodes that its next one comes after, its front. An event recorded there keeps the front;
 * a stream that waits for the event takes part from then on, with that front added to its own:
 *
 *     origin   a  record(e) ------------ wait(f)  c        a -> c,  a -> b -> c
 *     other          wait(e)  b  record(f)
 *
 * At the end all nodes must come before the origin's front, else a branch was not joined. Calls that ask or
 * wait for anything, or allocate, break all captures, whichever thread makes them: that is the strictest
 * mode, and a user may have chosen it. What is broken stays so until capture_end, which then fails. */
#include <stdlib.h>
#include <string.h>

#include "stub_internal.h"

static uint64_t captures_begun;

static struct stub_capture *capture_of_event(const struct stub_event *event)
{
    struct stub_capture *capture = tt_stub_runtime.captures;
    while (capture != NULL && capture->id != event->capture_id)
        capture = capture->next;
    return capture;
}

bool tt_stub_captures_break(void)
{
    bool any = tt_stub_runtime.captures != NULL;
    for (struct stub_capture *capture = tt_stub_runtime.captures; capture != NULL; capture = capture->next)
        capture->broken = true;
    return any;
}

/* --- Fronts: sets of nodes. */

static void front_add(struct stub_front *front, int node)
{
    for (int i = 0; i < front->n; i++)
        if (front->nodes[i] == node)
            return;
    front->nodes = tt_stub_grow(front->nodes, front->n, sizeof *front->nodes);
    front->nodes[front->n++] = node;
}

static void front_join(struct stub_front *front, const struct stub_front *other)
{
    for (int i = 0; i < other->n; i++)
        front_add(front, other->nodes[i]);
}

void tt_stub_front_clear(struct stub_front *front)
{
    free(front->nodes);
    *front = (struct stub_front){ 0 };
}

/* --- What is enqueued meanwhile. */

static void add_node(struct stub_stream *stream, const struct stub_task *task)
{
    struct stub_graph *graph = stream->capture->graph;
    graph->nodes = tt_stub_grow(graph->nodes, graph->n, sizeof *graph->nodes);
    struct stub_node *node = &graph->nodes[graph->n];
    *node = (struct stub_node){ .branch = stream->branch, .after = stream->front };
    tt_stub_task_copy(&node->task, task);
    stream->front = (struct stub_front){ 0 };
    front_add(&stream->front, graph->n++);
}

static enum tt_dev_error refuse(struct stub_capture *capture, enum stub_function function, const char *what)
{
    if (capture != NULL)
        capture->broken = true;
    return tt_stub_fail(TT_DEV_CAPTURE, function, "%s", what);
}

static enum tt_dev_error wait_inside(
    struct stub_stream *stream, const struct stub_event *event, enum stub_function function)
{
    struct stub_capture *from = capture_of_event(event);
    if (from == NULL)
        return refuse(
            stream->capture, function, "the event was not recorded in this capture, nor is it external");
    if (stream->capture != NULL && from != stream->capture) {
        from->broken = true;
        return refuse(stream->capture, function, "the event was recorded in another capture");
    }
    if (tt_stub_stream_is_legacy(stream))
        return refuse(from, function, "the legacy stream cannot be captured");
    if (stream->capture == NULL) {
        stream->capture = from;
        stream->branch = ++from->branches;
    }
    front_join(&stream->front, &event->front);
    return TT_DEV_OK;
}

/* A call on the legacy stream would have to wait for what is only being captured. */
static struct stub_capture *captured_by_implication(const struct stub_stream *legacy)
{
    for (const struct stub_stream *s = tt_stub_runtime.streams; s != NULL; s = s->next)
        if (tt_stub_stream_blocks(s, legacy) && s->capture != NULL)
            return s->capture;
    return NULL;
}

bool tt_stub_capture_takes(struct stub_stream *stream, const struct stub_task *task,
    enum stub_function function, enum tt_dev_error *error)
{
    bool mark = task->kind == STUB_MARK && !task->event.external;
    struct stub_event *record = mark ? task->event.record : NULL, *wait = mark ? task->event.wait : NULL;
    struct stub_capture *implied = tt_stub_stream_is_legacy(stream) ? captured_by_implication(stream) : NULL;
    *error = TT_DEV_OK;
    if (implied != NULL) {
        *error = refuse(implied, function, "the legacy stream waits for a stream that is being captured");
    } else if (stream->capture != NULL && stream->capture->broken) {
        *error = refuse(stream->capture, function, "the capture of this stream is broken");
    } else if (wait != NULL && (stream->capture != NULL || wait->capture_id != 0)) {
        *error = wait_inside(stream, wait, function);
    } else if (stream->capture != NULL && record != NULL) {
        tt_stub_front_clear(&record->front);
        front_join(&record->front, &stream->front);
        record->capture_id = stream->capture->id;
    } else if (stream->capture != NULL) {
        add_node(stream, task);
    } else {
        return false;
    }
    return true;
}

/* --- Begin, end, and what a stream is in. */

enum tt_dev_error tt_stub_capture_begin(void *handle)
{
    enum tt_dev_error error;
    struct stub_stream *stream = tt_stub_stream_enter(handle, STUB_capture_begin, &error);
    if (stream == NULL)
        return error;
    if (tt_stub_stream_is_legacy(stream))
        return tt_stub_fail(TT_DEV_CAPTURE, STUB_capture_begin, "the legacy stream cannot be captured");
    pthread_mutex_lock(&tt_stub_runtime.lock);
    bool right = stream->capture == NULL;
    if (right) {
        struct stub_capture *capture = tt_stub_new(sizeof *capture);
        capture->id = ++captures_begun;
        capture->origin = stream;
        capture->graph = tt_stub_new(sizeof *capture->graph);
        capture->graph->references = 1;
        capture->thread = pthread_self();
        capture->next = tt_stub_runtime.captures;
        tt_stub_runtime.captures = capture;
        stream->capture = capture;
        stream->branch = 0;
    }
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return right ? TT_DEV_OK
                 : tt_stub_fail(TT_DEV_INVALID, STUB_capture_begin, "the stream is being captured");
}

/* Does every node come before the origin's front, or is in it? Nodes come after lower numbers only. */
static bool all_joined(const struct stub_capture *capture)
{
    const struct stub_graph *graph = capture->graph;
    bool *before = tt_stub_new((size_t)graph->n + 1), all = true;
    for (int i = 0; i < capture->origin->front.n; i++)
        before[capture->origin->front.nodes[i]] = true;
    for (int i = graph->n - 1; i >= 0; i--) {
        all = all && before[i];
        for (int k = 0; k < graph->nodes[i].after.n; k++)
            before[graph->nodes[i].after.nodes[k]] |= before[i];
    }
    free(before);
    return all;
}

static void capture_close(struct stub_capture *capture)
{
    struct stub_capture **at = &tt_stub_runtime.captures;
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    for (struct stub_stream *s = tt_stub_runtime.streams; s != NULL; s = s->next)
        if (s->capture == capture) {
            s->capture = NULL;
            tt_stub_front_clear(&s->front);
        }
    free(capture);
}

enum tt_dev_error tt_stub_capture_end(void *handle, void **graph)
{
    enum tt_dev_error error;
    struct stub_stream *stream = tt_stub_stream_enter(handle, STUB_capture_end, &error);
    if (stream == NULL)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    struct stub_capture *capture = stream->capture;
    const char *wrong = NULL;
    if (capture == NULL || capture->origin != stream)
        wrong = "no capture began on this stream";
    else if (!pthread_equal(capture->thread, pthread_self()))
        wrong = "another thread began this capture";
    if (wrong != NULL) {
        error = refuse(capture, STUB_capture_end, wrong);
    } else if (capture->broken || !all_joined(capture)) {
        wrong = capture->broken ? "something that cannot be captured was done meanwhile"
                                : "a stream was not joined to the one on which the capture began";
        tt_stub_graph_drop(capture->graph);
        error = refuse(capture, STUB_capture_end, wrong);
        capture_close(capture);
    } else {
        *graph = capture->graph;
        capture->graph->next = tt_stub_runtime.graphs;
        tt_stub_runtime.graphs = capture->graph;
        capture_close(capture);
    }
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return error;
}

enum tt_dev_error tt_stub_stream_capture(void *handle, struct tt_dev_capture *out)
{
    enum tt_dev_error error;
    const struct stub_stream *stream = tt_stub_stream_enter(handle, STUB_stream_capture, &error);
    if (stream == NULL)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    const struct stub_capture *capture = stream->capture;
    if (tt_stub_stream_is_legacy(stream) && captured_by_implication(stream) != NULL)
        error = tt_stub_fail(TT_DEV_CAPTURE, STUB_stream_capture, "a stream that it waits for is captured");
    else if (capture == NULL || capture->broken)
        *out = (struct tt_dev_capture){ .broken = capture != NULL };
    else
        *out = (struct tt_dev_capture){ .active = true, .id = capture->id, .graph = capture->graph };
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return error;
}

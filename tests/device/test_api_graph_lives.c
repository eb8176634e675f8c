/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_graph_lives.c: how long staging memory and captured calls live: until the stream, the graph and
 * the worker are done with them, whoever was done before.
 *
 * Here a word that nobody writes holds up the stream, or the transport the worker, so that who is late is so
 * for certain. Of memory that is given back too early the stub has a broken device, or waits for the stream,
 * which hangs. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/comm.h"
#include "base/handle.h"
#include "device/device.h"
#include "graph_rig.h"
#include "tests/rig/plugin.h"

TestSuite(api_graph_lives, .timeout = 120);

enum { TRIES = 5000, HANGS_S = 30, SEVERAL = 20 };

static bool begin(struct ranks_me *me, struct graph_rig *rig)
{
    return graph_rig_make(me, rig) && graph_rig_join(rig);
}

static void hold_up(const struct graph_rig *rig, void *stream)
{
    graph_fine(rig, rig->dev->wait_word(stream, rig->word, 1));
}

/* And the stream comes to its end, whole. */
static void let_go(const struct graph_rig *rig, void *stream)
{
    __atomic_store_n(rig->word, 1, __ATOMIC_RELEASE);
    graph_fine(rig, rig->dev->stream.sync(stream));
}

static void run_alone(ranks_fn run, const char *stub)
{
    plugin_must_be_stub();
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    setenv("STUB_GPU", stub, 1);
    ranks_run(&(struct ranks_plan){ .n = 1, .run = run, .limit_s = HANGS_S });
}

/* --- The staging memory of a communicator whose stream is busy with the user's own work before a call. */

static char log_path[] = "/tmp/tutti_lives_XXXXXX";

static bool log_has(const char *words)
{
    char text[4096] = "";
    FILE *file = fopen(log_path, "r");
    text[file != NULL ? fread(text, 1, sizeof text - 1, file) : 0] = '\0';
    if (file != NULL)
        fclose(file);
    return strstr(text, words) != NULL;
}

static void leave_busy(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!begin(me, &rig))
        return;
    uint64_t unpinned = plugin_stub()->calls("unpin");
    hold_up(&rig, rig.streams[0]);
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    ranks_ok(me, tutti_comm_abort(rig.comm), "tutti_comm_abort"); /* else the stream is waited for */
    ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
    ranks_expect(me, log_has("its stream is still busy on device 0;") && log_has("pinned bytes stay"),
        "the log does not say that the stream is busy");
    ranks_expect(me, plugin_stub()->calls("unpin") == unpinned, "what the stream has was given back");
    let_go(&rig, rig.streams[0]);
}

Test(api_graph_lives, a_busy_stream_keeps_its_staging_memory)
{
    int fd = mkstemp(log_path);
    setenv("TUTTI_DEBUG_FILE", log_path, 1);
    setenv("TUTTI_DEBUG", "warn", 1);
    run_alone(leave_busy, "queues=8");
    close(fd);
    unlink(log_path);
}

/* --- Staging memory that was left for a graph: the graph is gone, and a call is still in the stream. */

static uint64_t pinned(void)
{
    return plugin_stub()->calls("pin") - plugin_stub()->calls("unpin");
}

/* What was left is looked at whenever a communicator comes or goes. On another device, for the runtime waits
 * for all streams of this one. */
static void come_and_go(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "device=1" };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm != NULL)
        ranks_part(me, comm);
}

static void leave_for_graph(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!begin(me, &rig))
        return;
    uint64_t left = pinned();
    void *runnable = graph_capture_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
    graph_settle(&rig);
    hold_up(&rig, rig.streams[0]);
    graph_reduce(&rig, GIVEN, EAGER, rig.streams[0]);
    ranks_ok(me, tutti_comm_abort(rig.comm), "tutti_comm_abort");
    ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
    graph_fine(&rig, rig.dev->graph.runnable_destroy(runnable));
    for (int i = 0; i < SEVERAL; i++) { /* the runtime tells the end of a graph in its own time */
        come_and_go(me);
        ranks_expect(me, pinned() == left, "what the stream has was given back");
        ranks_sleep_us(1000);
    }
    let_go(&rig, rig.streams[0]);
    for (int i = 0; i < TRIES && pinned() == left; i++)
        come_and_go(me);
    ranks_expect(me, pinned() == left - 1, "what was left was never given back");
}

Test(api_graph_lives, staging_memory_that_was_left_stays_for_the_stream)
{
    run_alone(leave_for_graph, "devices=2,queues=8");
}

/* --- Captured calls whose graph is gone while the worker is still at their end. */

static struct tt_control_ops slow; /* the communicator's own, but for what follows */
static const struct tt_control_ops *its_own;
static atomic_bool is_at_end, may_end;

static void end_late(struct tt_endpoint *e, const struct tt_call_record *call, uint64_t sequence)
{
    if (call == NULL && sequence != TT_WAIT) {
        atomic_store(&is_at_end, true);
        while (!atomic_load(&may_end))
            ranks_sleep_us(100);
    }
    its_own->publish(e, call, sequence);
}

/* Captured calls that nobody has any more are freed when the next ones are captured. */
static bool still_live(struct ranks_me *me, struct tt_comm *comm)
{
    struct tt_captured *next = NULL;
    ranks_sleep_us(1000);
    if (ranks_ok(me, tt_captured_create(comm, UINT64_MAX, &next), "tt_captured_create"))
        tt_captured_drop(next);
    return tt_replays_live(comm->device);
}

static void end_in_worker(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!begin(me, &rig))
        return;
    struct tt_comm *comm = tt_comm_find(rig.comm);
    void *runnable = graph_capture_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    its_own = comm->endpoint->control;
    slow = *its_own;
    slow.publish = end_late;
    comm->endpoint->control = &slow;
    graph_give(&rig, 1, rig.streams[0]);
    graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
    graph_fetch(&rig, 1, REDUCED, rig.streams[0]);
    graph_settle(&rig);
    graph_fine(&rig, rig.dev->graph.runnable_destroy(runnable));
    for (int i = 0; i < TRIES && !atomic_load(&is_at_end); i++)
        ranks_sleep_us(1000);
    for (int i = 0; i < SEVERAL; i++)
        ranks_expect(me, still_live(me, comm), "calls that the worker runs were freed");
    atomic_store(&may_end, true);
    bool live = true;
    for (int i = 0; i < TRIES && live; i++)
        live = still_live(me, comm);
    ranks_expect(me, !live, "calls whose graph is gone were never freed");
    graph_is_sum(&rig, 1, REDUCED, 1);
    ranks_part(me, rig.comm);
}

Test(api_graph_lives, calls_stay_until_the_worker_is_done)
{
    run_alone(end_in_worker, "queues=8");
}

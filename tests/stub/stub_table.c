/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_table.c: the table itself, and the table of controls. */
#include "stub_internal.h"

static const char *describe(void)
{
    return "stub";
}

static const struct tt_dev table = {
    .version = TT_DEV_VERSION,
    .describe = describe,
    .why = tt_stub_why,
    .count = tt_stub_count,
    .facts = tt_stub_facts,
    .current = tt_stub_current_device,
    .use = tt_stub_use,
    .reaches = tt_stub_reaches,
    .memory.alloc = tt_stub_alloc,
    .memory.free = tt_stub_free,
    .memory.alloc_managed = tt_stub_alloc_managed,
    .memory.alloc_pinned = tt_stub_alloc_pinned,
    .memory.free_pinned = tt_stub_free_pinned,
    .memory.pin = tt_stub_pin,
    .memory.unpin = tt_stub_unpin,
    .memory.classify = tt_stub_classify,
    .copy = tt_stub_copy,
    .copy_rows = tt_stub_copy_rows,
    .fill = tt_stub_fill,
    .stream.create = tt_stub_stream_create,
    .stream.destroy = tt_stub_stream_destroy,
    .stream.query = tt_stub_stream_query,
    .stream.sync = tt_stub_stream_sync,
    .stream.device = tt_stub_stream_device,
    .stream.capture = tt_stub_stream_capture,
    .event.create = tt_stub_event_create,
    .event.destroy = tt_stub_event_destroy,
    .event.record = tt_stub_event_record,
    .event.wait = tt_stub_event_wait,
    .event.query = tt_stub_event_query,
    .event.elapsed = tt_stub_event_elapsed,
    .write_word = tt_stub_write_word,
    .wait_word = tt_stub_wait_word,
    .host_call = tt_stub_host_call,
    .range.begin = tt_stub_range_begin,
    .range.end = tt_stub_range_end,
    .preload = tt_stub_preload,
    .occupancy = tt_stub_occupancy,
    .launch = tt_stub_launch,
    .segment.alloc = tt_stub_segment_alloc,
    .segment.export = tt_stub_segment_export,
    .segment.export_of = tt_stub_segment_export_of,
    .segment.import = tt_stub_segment_import,
    .segment.free = tt_stub_segment_free,
    .graph.capture_begin = tt_stub_capture_begin,
    .graph.capture_end = tt_stub_capture_end,
    .graph.retain = tt_stub_graph_retain,
    .graph.destroy = tt_stub_graph_destroy,
    .graph.instantiate = tt_stub_graph_instantiate,
    .graph.launch = tt_stub_graph_launch,
    .graph.runnable_destroy = tt_stub_runnable_destroy,
};

const struct tt_dev *tutti_device_table(uint32_t version)
{
    return version == TT_DEV_VERSION ? &table : NULL;
}

static const struct tt_stub controls = {
    .configure = tt_stub_configure,
    .calls = tt_stub_calls,
    .fail = tt_stub_fail_call,
    .stream_create_blocking = tt_stub_stream_create_blocking,
    .own_context = tt_stub_own_context,
    .map_parts = tt_stub_map_parts,
    .kernels = tt_stub_set_kernels,
    .pause = tt_stub_pause,
    .reach = tt_stub_reach,
    .look = tt_stub_look,
};

const struct tt_stub *tt_stub(void)
{
    return &controls;
}

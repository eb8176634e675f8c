/* SPDX-License-Identifier: BSD-3-Clause */
/* trace_internal.h: what trace.c, which notes events, and trace_file.c, which writes them, share. */
#ifndef TT_TRACE_INTERNAL_H
#define TT_TRACE_INTERNAL_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/trace.h"
#include "transports/transport.h"

enum { TT_TRACE_EVENTS = 32768, TT_TRACE_TRACKS = 64, TT_TRACE_NAME_BYTES = 64 };

/* A track of the viewer, on which slices are nested or side by side. */
struct tt_trace_track {
    int64_t operation_end, step_end;
    uint64_t serial; /* of the operation that stood here last */
    bool named;
};

struct tt_trace {
    struct tt_trace_event *events;
    _Atomic size_t count;
    size_t written; /* of them: at exit a communicator may still be in use */
    uint64_t operations, dropped; /* dropped: events for which there was no room */
    uint64_t seen[TT_PATHS];
    uint64_t id;
    int n, rank;
    uint32_t first_track; /* the number of its first track in the file */
    char name[TT_TRACE_NAME_BYTES];
    struct tt_trace_track tracks[TT_TRACE_TRACKS];
    struct tt_trace *next; /* of the process */
};

/* Opens the file for the first communicator, whose rank becomes that of the process; true if there is a
 * file. */
bool tt_trace_file_open(int rank);
void tt_trace_file_add(struct tt_trace *trace);
void tt_trace_file_remove(struct tt_trace *trace);
/* Writes the events that were noted, whose memory is free again then. Called by the thread that uses the
 * communicator. */
void tt_trace_file_write(struct tt_trace *trace);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* call_mode.h: how the calls of a loop are made: blocking, queued on a host stream, or enqueued on the stream
 * of a device; each by itself, or bound once as a program that is started again and again.
 *
 * A unit is what one step of a loop issues: a call, or a start of the program (on a device, of the graph). */
#ifndef PERF_CALL_MODE_H
#define PERF_CALL_MODE_H
#include <stdbool.h>
#include <stdint.h>

#include "check.h"
#include "device.h"
#include "table.h"

struct perf_call_mode {
    bool streamed; /* on a host stream */
    struct perf_device *device; /* NULL unless calls go to its stream */
    tutti_stream stream; /* of every call */
    tutti_program *program; /* from bind to unbind; NULL: a unit is a call */
    const struct perf_point *point; /* the call that is made */
    const struct perf_pointers *at; /* its buffers */
    tutti_comm *comm;
};

/* Sets *mode to blocking calls, or to calls on a host stream, which it creates. */
tutti_status perf_call_mode_open(struct perf_call_mode *mode, bool blocking);
/* Sets *mode to calls on the stream of `device`, which must stay open. */
void perf_call_mode_open_device(struct perf_call_mode *mode, struct perf_device *device);
void perf_call_mode_close(struct perf_call_mode *mode);

/* Makes a program of `calls` calls of mode->point (on a device, a graph), which is the unit until unbind;
 * with 0 the unit remains one call. What *mode points to must not change until unbind. */
tutti_status perf_call_mode_bind(struct perf_call_mode *mode, long calls);
void perf_call_mode_unbind(struct perf_call_mode *mode);

/* Issues `units` units. Blocking ones are done when it returns. On a stream they are queued; of a host stream
 * *end is then the point after the last one. */
tutti_status perf_call_mode_issue(struct perf_call_mode *mode, long units, uint64_t *end);
/* Waits until a host stream has reached `end`, or a device's stream is empty. Returns the error of a call
 * that failed meanwhile. */
tutti_status perf_call_mode_wait(struct perf_call_mode *mode, uint64_t end);

#endif

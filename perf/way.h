/* way.h: how the calls of a loop are made: blocking, or queued on a host stream. */
#ifndef PERF_WAY_H
#define PERF_WAY_H
#include <stdbool.h>
#include <stdint.h>

#include "check.h"
#include "table.h"

struct perf_way {
    bool streamed;
    tutti_stream stream; /* of every call */
    const struct perf_point *point; /* what is called, */
    const struct perf_pointers *at; /* with which pointers, */
    tutti_comm *comm; /* and where */
};

tutti_status perf_way_open(struct perf_way *way, bool blocking);
void perf_way_close(struct perf_way *way);

/* Call `calls` times. On a stream they are queued, and *end is the point behind them; else they are done. */
tutti_status perf_way_call(struct perf_way *way, long calls, uint64_t *end);
/* Wait until all up to `end` is done. */
tutti_status perf_way_wait(struct perf_way *way, uint64_t end);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.h: how fast this core moves memory, for the limit that a collective is compared with.
 *
 * It stands beside the library's kernels and not on them, for it judges them. */
#ifndef PERF_STREAM_H
#define PERF_STREAM_H
#include <stdint.h>

#include "table.h"

enum { PERF_STREAM_LINE = 64 }; /* streams begin and end at multiples of it */

enum perf_stream_kind { PERF_STREAM_PLAIN, PERF_STREAM_AROUND, PERF_STREAM_KINDS };

/* Make the pass with streams that lie one behind another at `from` and at `to`, which are the same memory in
 * place, both aligned to a line. PERF_STREAM_AROUND stores around the caches where the processor can. */
void perf_stream_run(
    const struct perf_pass *pass, const uint8_t *from, uint8_t *to, enum perf_stream_kind kind);

#endif

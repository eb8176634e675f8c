/* SPDX-License-Identifier: BSD-3-Clause */
/* transport_threads.h: ranks that are threads of this process. Also for the runner
 * under ThreadSanitizer, so without Criterion: each returns an empty text, or what was wrong (valid until
 * the next call). */
#ifndef TT_TESTS_TRANSPORT_THREADS_H
#define TT_TESTS_TRANSPORT_THREADS_H
#include <stdbool.h>

#include "transports/transport.h"

/* Everybody sends all kinds of messages to the next and gets them from the one before. */
const char *threads_exchange(const struct tt_transport *transport, int n, int batches, bool map);
/* These go by shm. Everybody aborts at once, round after round; all must see one cause. */
const char *threads_abort(int n, int rounds);
/* Each opens and closes as soon as it may, while others still read what it sent. */
const char *threads_close(int n, int rounds);
/* One publishes calls and completes them, the others read them all the while. */
const char *threads_calls(int n, int rounds);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* tsan_segments.h: memory of a device that is handed from process to process, under ThreadSanitizer. */
#ifndef TT_TESTS_TSAN_SEGMENTS_H
#define TT_TESTS_TSAN_SEGMENTS_H
#include <stdbool.h>

/* Before anything has used the stub in this process. */
bool tsan_segments(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* tsan_stub.h: the stub of a GPU's runtime under ThreadSanitizer. */
#ifndef TT_TESTS_TSAN_STUB_H
#define TT_TESTS_TSAN_STUB_H
#include <stdbool.h>

bool tsan_stub(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* tsan_device.h: calls on a device's stream under ThreadSanitizer. */
#ifndef TT_TESTS_TSAN_DEVICE_H
#define TT_TESTS_TSAN_DEVICE_H
#include <stdbool.h>

bool tsan_device(void);

#endif

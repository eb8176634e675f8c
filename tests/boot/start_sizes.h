/* SPDX-License-Identifier: BSD-3-Clause */
/* start_sizes.h: what ranks exchange when they make a communicator, in bytes of each rank. */
#ifndef TT_TESTS_START_SIZES_H
#define TT_TESTS_START_SIZES_H
#include <stdint.h>

extern const uint32_t start_address_bytes;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* start_sizes.c: see start_sizes.h. It sees the communicators, whose headers cannot stand beside those of the
 * bootstrap's wire: both have a tt_put. */
#include "start_sizes.h"

#include "comm/lifecycle.h"

const uint32_t start_address_bytes = TT_ENDPOINT_INFO_BYTES;

/* SPDX-License-Identifier: BSD-3-Clause */
/* convert_table.h: fp32 to a narrow float and back, as one instruction set does it; see convert.h. */
#ifndef TESTS_CONVERT_TABLE_H
#define TESTS_CONVERT_TABLE_H
#include <stdbool.h>
#include <stdint.h>

#include "tutti.h"

/* x and what widen returns are bits of an fp32. *equal becomes false if elements of one vector differ. NULL:
 * the compiler has no such instructions. */
struct conversions {
    uint32_t (*narrow)(tutti_type type, uint32_t x, bool *equal);
    uint32_t (*widen)(tutti_type type, uint32_t code, bool *equal);
};
extern const struct conversions convert_generic, convert_avx2, convert_avx512;

#endif

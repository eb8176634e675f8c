/* SPDX-License-Identifier: BSD-3-Clause */
/* alike.h: what somebody meant who wrote a name that collperf does not have.
 *
 * Most wrong names are right ones of somewhere else: nccl-tests' programs and flags, or spelling without an
 * underscore. One who is told the right one does not look for it in a list. */
#ifndef PERF_ALIKE_H
#define PERF_ALIKE_H
#include <stddef.h>

/* How much two names have in common, 0 to 100; case, '_', '-' and nccl-tests' "_perf" do not count. */
int perf_alike(const char *one, const char *other);

/* What a flag of nccl-tests is here: of a letter, or of a name where `letter` is 0; NULL: there is none. */
const char *perf_alike_flag(int letter, const char *name);

#endif

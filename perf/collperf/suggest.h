/* SPDX-License-Identifier: BSD-3-Clause */
/* suggest.h: what somebody meant who wrote a name that collperf does not have.
 *
 * Most wrong names are right ones of somewhere else: nccl-tests' programs and flags, or spelling without an
 * underscore. One who is told the right one does not look for it in a list. */
#ifndef PERF_SUGGEST_H
#define PERF_SUGGEST_H
#include <stddef.h>

/* Returns how much two names have in common, 0 to 100; case, '_', '-' and nccl-tests' "_perf" do not
 * count. */
int perf_similarity(const char *one, const char *other);

/* Returns what to use here for a flag of nccl-tests: of a letter, or of a name where `letter` is 0; NULL:
 * there is none. */
const char *perf_suggest_flag(int letter, const char *name);

#endif

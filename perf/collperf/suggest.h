/* SPDX-License-Identifier: BSD-3-Clause */
/* suggest.h: what somebody meant who wrote a name that collperf does not have.
 *
 * Most wrong names are right ones of somewhere else: programs, types and flags of nccl-tests, of OSU's
 * benchmarks or of PyTorch, or a spelling without an underscore. A name whose meaning is clear is taken; of a
 * flag one is told what to write, and does not look for it in a list. */
#ifndef PERF_SUGGEST_H
#define PERF_SUGGEST_H
#include <stdbool.h>

/* Returns whether `word` is a way to write `name`, which collperf has: case, '_', '-', a prefix as "nccl",
 * "MPI_" or "osu_", and nccl-tests' "_perf" do not count, and some names of elsewhere are known. */
bool perf_names_same(const char *word, const char *name);

bool perf_is_of_osu(const char *word); /* "osu_allreduce" */

/* Returns how much two names have in common, 0 to 100; what does not count above does not count here. */
int perf_similarity(const char *one, const char *other);

/* What to use here for a flag of nccl-tests, and of OSU's benchmarks; NULL: they have none. */
struct perf_instead {
    const char *of_nccl, *of_osu;
};

/* Looks up a flag by its letter, or by its name where `letter` is 0. */
struct perf_instead perf_suggest_flag(int letter, const char *name);

#endif

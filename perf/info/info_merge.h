/* SPDX-License-Identifier: BSD-3-Clause */
/* info_merge.h: tutti-info merge. */
#ifndef PERF_INFO_MERGE_H
#define PERF_INFO_MERGE_H

/* Print the events of these files, at least one, as one trace; the exit code. */
int info_merge(const char *const *names, int n);

#endif

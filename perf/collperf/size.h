/* SPDX-License-Identifier: BSD-3-Clause */
/* size.h: how many elements a size in bytes is, and how ranks share them.
 *
 * Both collperf and the MPI program it is compared with ask here, so that a size means the same bytes. */
#ifndef PERF_SIZE_H
#define PERF_SIZE_H
#include <stdint.h>

/* Never none, unless `bytes` is 0. */
uint64_t perf_size_elements(uint64_t bytes, uint64_t element_bytes);

/* The block of each of n ranks: never none, unless there are no elements. */
uint64_t perf_size_block(uint64_t elements, int n);

/* The elements before rank r's block where rank r has a share that grows with r: uneven, and empty where few.
 * Of rank n it is all of them. */
uint64_t perf_size_first(uint64_t elements, int r, int n);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* size.c: see size.h; all sums fit 64 bits for any vector that fits memory. */
#include "size.h"

uint64_t perf_size_elements(uint64_t bytes, uint64_t element_bytes)
{
    uint64_t elements = bytes / element_bytes;
    return elements == 0 && bytes > 0 ? 1 : elements;
}

uint64_t perf_size_block(uint64_t elements, int n)
{
    return elements > 0 && elements < (uint64_t)n ? 1 : elements / (uint64_t)n;
}

uint64_t perf_size_first(uint64_t elements, int r, int n)
{
    uint64_t weight = (uint64_t)r * (uint64_t)(r + 1), all = (uint64_t)n * (uint64_t)(n + 1);
    return elements / all * weight + elements % all * weight / all;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* price.h: what messages between ranks cost here, in the numbers of the library's cost model. */
#ifndef PERF_PRICE_H
#define PERF_PRICE_H
#include "launch.h"

enum { PERF_LEVELS = 3 };
struct perf_prices {
    struct {
        double latency_ns, message_ns, byte_gb_s; /* latency_ns below 0: no pair of ranks has this level */
    } of[PERF_LEVELS];
    double link_gb_s; /* of all ranks of a host together; 0: there is one host */
};
/* "near": in one cache domain; "far": in two; "away": on two hosts. */

/* All ranks call it. At rank 0, which measures with one other rank of each level, *prices is set. */
tutti_status perf_price(struct perf_rank_group *group, struct perf_prices *prices);

/* What the links between hosts carry. */
struct perf_link {
    int hosts; /* 1: there is no link */
    double bytes_s; /* out of a host, and into it at once, by messages of all its ranks to the next */
};
/* All ranks call it, and get the same. An error of the library is printed and returned. */
tutti_status perf_link_measure(struct perf_rank_group *group, struct perf_link *link);

#endif

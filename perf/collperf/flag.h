/* SPDX-License-Identifier: BSD-3-Clause */
/* flag.h: how long a flag needs from one rank to another and back, which is the class of the machine at this
 * moment.
 *
 * The same two virtual cores are neighbours in one minute and far apart in the next; figures compare only
 * within a class, so a run measures it around each point and says when it changed. */
#ifndef PERF_FLAG_H
#define PERF_FLAG_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct perf_flag { /* in memory that both ranks see; zero whenever they begin */
    _Alignas(128) _Atomic uint32_t ping;
    _Alignas(128) _Atomic uint32_t pong;
};

/* One rank leads and gets the median round trip in seconds, another follows; both return after about 2 ms.
 * Where the other side is gone they return after half a minute, and the leader gets a negative value. */
double perf_flag_lead(struct perf_flag *flag);
void perf_flag_follow(struct perf_flag *flag);

bool perf_flag_undisturbed(double round_trip); /* measured, and between two cores */
const char *perf_flag_class(double round_trip);
const char *perf_flag_hint(double round_trip); /* what a reader of the figures must know; "" if nothing */

#endif

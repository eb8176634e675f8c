/* SPDX-License-Identifier: BSD-3-Clause */
/* led_rig.h: ranks of several processes on one device, whose collectives the first one leads. */
#ifndef TT_TESTS_LED_RIG_H
#define TT_TESTS_LED_RIG_H
#include "local_rig.h"

enum { LED_LONG_MS = 100000 };

struct led_plan {
    const char *stub; /* what the device is like */
    int n, per_process; /* 0: one */
    ranks_fn run;
    const void *context;
    uint32_t may_die;
};
void led_run_all(const struct led_plan *plans, size_t count);
#define led_run(...)                                                                                         \
    led_run_all((const struct led_plan[]){ __VA_ARGS__ },                                                    \
        sizeof((const struct led_plan[]){ __VA_ARGS__ }) / sizeof(struct led_plan))

/* One communicator of all ranks, with these options, from a semicolon on. */
tutti_comm *led_join(struct ranks_me *me, const char *more, int64_t timeout_ms);
/* Before its first call: what is led goes in short slices, two of which fill a pad, as long calls do
 * otherwise. */
void led_shorten(tutti_comm *comm);
/* And what is led of messages in shorter ones. */
void led_shorten_messages(tutti_comm *comm);
/* With a communicator that is led. */
bool led_sit_down(struct ranks_me *me, struct local_desk *d, int64_t timeout_ms);
/* Destroys it, and gives back what the desk has: for tests that sit down many times. */
void led_get_up(struct local_desk *d);

struct tt_device *led_device(const struct local_desk *d);
/* Results of so many bytes, and the cell by which they come: a stream that is let go copies what lies there.
 * Fill both, now; and see that nothing was stored there since. */
enum { LED_POISONED = 4096 };
uint8_t *led_cell(const struct local_desk *d);
void led_poison(const struct local_desk *d);
void led_is_poisoned(const struct local_desk *d);
/* Whoever gave up, did so when no kernel was out. */
void led_is_cancelled(const struct local_desk *d);

/* In the leader's process: what it launches from now on does not begin until it is let go. */
void led_hold(const struct local_desk *d);
void led_let_go(const struct local_desk *d);
/* A kernel of this rank's leader has been told to begin. */
void led_await_kernel(const struct local_desk *d);

/* The first rank leads. */
static inline bool led_leads(const struct local_desk *d)
{
    return d->me->rank == 0;
}

enum { LED_SLICE = 16 * 1024, LED_PART = 4 * 1024 /* of a message */ }; /* bytes */

#endif

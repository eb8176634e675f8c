/* SPDX-License-Identifier: BSD-3-Clause */
/* campaign.h: ranks are killed by the hundred, and what the others say is judged and counted.
 *
 * A trial follows from a seed and its number, but for the moment of a kill, which is a time on a machine that
 * does other things. Ranks are processes; they share one mapping with the parent, which kills, waits for the
 * survivors and judges. What a survivor was doing stands there when it hangs. */
#ifndef TT_TESTS_CAMPAIGN_H
#define TT_TESTS_CAMPAIGN_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/rig/ranks_values.h"
#include "tutti.h"

enum {
    CAMPAIGN_RANKS = 8,
    CAMPAIGN_VICTIMS = 2,
    CAMPAIGN_TIMEOUT_MS = 120000,
    CAMPAIGN_INIT_TIMEOUT_MS = 10000
};
enum campaign_phase { CAMPAIGN_RUN, CAMPAIGN_INIT, CAMPAIGN_DESTROY, CAMPAIGN_PHASES };

struct trial {
    uint64_t seed;
    enum campaign_phase phase;
    int n;
    size_t bytes; /* of each buffer */
    bool registered;
    int victim_count, victims[CAMPAIGN_VICTIMS];
    uint32_t delay_us[CAMPAIGN_VICTIMS]; /* from when all have begun, or from the kill before */
};

struct record { /* what one rank says */
    _Atomic bool over;
    bool joined;
    tutti_status status; /* of what failed, or of all */
    tutti_error error; /* of the communicator */
    int64_t ended_ns;
    uint64_t calls;
    int threads_left, descriptors_left;
    char wrong[256]; /* "": nothing */
    char at[64];
};

struct scene {
    _Atomic bool id_made;
    tutti_id id;
    _Atomic int begun;
    _Atomic int pids[CAMPAIGN_RANKS]; /* of ranks that have gone to a host; 0: it is the forked process */
    struct record ranks[CAMPAIGN_RANKS];
};

bool campaign_is_victim(const struct trial *trial, int rank);
int64_t campaign_now_ns(void);
/* The process goes on as that rank on one of so many hosts. */
void campaign_go_to_host(struct scene *scene, int rank, int hosts);
/* What the process of a rank does, until it is killed or has recorded. */
void campaign_rank(const struct trial *trial, struct scene *scene, int rank);

#endif

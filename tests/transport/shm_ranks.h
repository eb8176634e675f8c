/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_ranks.h: ranks of the shm transport, or of another one, that are processes: forked by a test,
 * introduced to each other, and judged by what they leave in memory that they share with the test. */
#ifndef TT_TESTS_SHM_RANKS_H
#define TT_TESTS_SHM_RANKS_H
#include <stdatomic.h>
#include <sys/types.h>

#include "transport_suite.h"

enum { SHM_RANKS_MAX = 8, SHM_GATES = 16 };

struct shm_stage { /* shared by the test and its ranks */
    int n;
    struct tt_endpoint_params params;
    _Atomic int gates[SHM_GATES]; /* how many have come to each */
    _Atomic int failed; /* ranks */
    pid_t pids[SHM_RANKS_MAX];
    int fds[SHM_RANKS_MAX], lives[SHM_RANKS_MAX];
    uint8_t addresses[SHM_RANKS_MAX][TT_ADDRESS_BYTES];
    uint8_t mixed_addresses[SHM_RANKS_MAX][TT_ADDRESS_MAX];
    struct tt_cause causes[SHM_RANKS_MAX];
    uint64_t path_bytes[SHM_RANKS_MAX][TT_PATHS];
    _Atomic uint64_t numbers[SHM_RANKS_MAX];
    char wrong[SHM_RANKS_MAX][256];
};

struct shm_rank { /* of one process */
    struct shm_stage *stage;
    int n, me, gate;
    struct transport_suite suite;
};

struct shm_stage *shm_stage_new(int n);
/* Fork all ranks, run them to their end, free the stage. Rank `killed` (-1: none) ends by SIGKILL; all
 * others must end well, with nothing wrong and no wake-up lost. */
void shm_stage_run(struct shm_stage *stage, void (*run)(struct shm_rank *r), int killed);

/* By a rank: wait for all. */
void shm_meet(struct shm_rank *r);
/* By a rank: get and give descriptors. */
/* Shared memory that reaches only every second rank. */
extern const struct tt_transport shm_half;

void shm_introduce(struct shm_rank *r);
/* By a rank: a new endpoint of suite.transport (tt_shm, unless the rank sets another), connected; all are
 * introduced, where the transport has introductions. */
struct tt_endpoint *shm_join(struct shm_rank *r);

/* A message of class P2P, of `bytes` made from `key`. */
bool shm_post(struct tt_endpoint *e, int peer, uint64_t number, uint64_t key, uint8_t *from, uint64_t bytes);
/* How much memory the arena of this process has. */
uint64_t shm_resident(void);
/* Await it, check it, release it. */
void shm_take(
    struct shm_rank *r, struct tt_endpoint *e, int peer, uint64_t number, uint64_t key, uint64_t bytes);

#endif

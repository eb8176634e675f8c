/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks.h: n ranks for a test, as processes or as threads, that end whatever happens.
 *
 * A test's own process never calls the library: ranks are forked (threads all in one forked process), so a
 * crash or a hang of the library costs a message and not the suite. Ranks share one mapping, where they
 * leave what they are doing and their first failure; the parent watches, kills all if they take too long,
 * and fails the test with what each rank said. Children die with their parent. */
#ifndef TT_TESTS_RANKS_H
#define TT_TESTS_RANKS_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tutti.h"

enum ranks_kind {
    RANKS_PROCESSES, /* joined by tutti_comm_init_rank; of several ranks each, threads */
    RANKS_THREADS, /* of one process, joined by tutti_comm_init_rank */
    RANKS_TOGETHER, /* threads whose communicators come from tutti_comm_init_all */
};

enum { RANKS_MAX = 9, RANKS_TEXT = 1024, RANKS_SHARED_BYTES = 1 << 16, RANKS_GUARD = 256, RANKS_IDS = 8 };

struct ranks_slot {
    _Atomic pid_t pid;
    _Atomic int failures;
    _Atomic bool over;
    char at[RANKS_TEXT / 2]; /* what it is doing */
    char failure[RANKS_TEXT]; /* its first */
};

struct ranks_world { /* seen by the parent and all ranks */
    pthread_barrier_t meeting;
    _Atomic uint32_t ids; /* how many ids rank 0 made */
    tutti_id
        id[RANKS_IDS]; /* the last ones: a rank that failed early makes the next before others read this */
    tutti_comm *together[RANKS_MAX];
    struct ranks_slot slots[RANKS_MAX];
    _Alignas(64) uint8_t shared[RANKS_SHARED_BYTES]; /* the test's own, zeroed */
};

struct ranks_me {
    int n, rank;
    enum ranks_kind kind;
    uint32_t joined;
    uint64_t random; /* this rank's own stream */
    const void *context;
    void *shared;
    struct ranks_world *world;
};
typedef void (*ranks_fn)(struct ranks_me *me);

struct ranks_plan {
    int n;
    enum ranks_kind kind;
    ranks_fn run; /* what each rank does */
    const void *context; /* the same for all */
    uint64_t seed;
    int limit_s; /* 0: 60; on a quiet machine (patience.h) */
    uint32_t may_die; /* bit r: rank r may be ended by a signal */
    int per_process; /* ranks of a process, of RANKS_PROCESSES; 0: one */
    void (*meddle)(struct ranks_world *world, const struct ranks_plan *plan); /* in the parent, meanwhile */
};

/* Run the ranks to their end; fails the test (Criterion) unless every rank ended well. */
void ranks_run(const struct ranks_plan *plan);
/* To meddle: one process after the other is stopped now and then, long enough for its peers to notice; when
 * that is over, the first byte of `shared` is 1. */
void ranks_stop_in_turn(struct ranks_world *world, const struct ranks_plan *plan);

/* A context of ranks that are by turns on so many hosts, which each says before it joins; 0, or no context:
 * as the environment says. */
struct ranks_hosts {
    int count;
};
void ranks_go_to_host(const struct ranks_me *me);

/* Of a rank: say what comes next; note a failure (the test goes on); the same unless `right`. */
void ranks_at(struct ranks_me *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ranks_fail(struct ranks_me *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool ranks_expect(struct ranks_me *me, bool right, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The call must have succeeded; else the failure has the library's own words. */
bool ranks_ok(struct ranks_me *me, tutti_status status, const char *call);
/* The call must have failed so, in words that name all of `names` (separated by |). */
bool ranks_refused(
    struct ranks_me *me, tutti_status status, tutti_status expected, const char *call, const char *names);

/* A communicator of all ranks, as plan->kind says; NULL with a failure noted. Its end must be well, too. */
tutti_comm *ranks_join(struct ranks_me *me, const tutti_config *config);
void ranks_part(struct ranks_me *me, tutti_comm *comm);
/* The id that rank 0 makes for all, without joining. */
bool ranks_id(struct ranks_me *me, tutti_id *id);
/* Wait for all ranks, not through the library. */
void ranks_meet(struct ranks_me *me);
/* All ranks have recorded the same sticky error of this status; call on every rank while all communicators
 * are there. Names as of ranks_refused. Returns the error. */
tutti_error ranks_same_error(
    struct ranks_me *me, const tutti_comm *comm, tutti_status expected, const char *names);

/* The k-th name of a collective's algorithms, round and round (comm NULL: those that serve every
 * communicator); returns how many. */
int ranks_algorithm(const tutti_comm *comm, const char *collective, int k, char *name, size_t bytes);
/* Appends ";algo=..." with the k-th of every collective that has a choice; false if k is beyond all. */
bool ranks_algorithms(int k, char *options, size_t bytes);

/* How many bytes this rank has sent by each path, as tutti_query tells; `text`: in its words. */
struct ranks_paths {
    unsigned long long line, mapped, copied, placed, pulled;
    char text[256];
};
struct ranks_paths ranks_paths(struct ranks_me *me, const tutti_comm *comm);
/* How many calls of this communicator may take the fast path by now (lib/run/fast_path.c). */
int ranks_cached(tutti_comm *comm);

/* Pseudo-random numbers (splitmix64). */
uint64_t ranks_mix(uint64_t value);
uint64_t ranks_random(uint64_t *state);
uint32_t ranks_below(uint64_t *state, uint32_t bound);
void ranks_sleep_us(uint32_t us);
void ranks_spin_ns(uint32_t ns);
/* Of 0 to most_us, half the time none. */
void ranks_delay(struct ranks_me *me, uint32_t most_us);
int64_t ranks_now_ms(void);

/* Memory with guard zones around the bytes that a test uses; all of it is poisoned when placed. */
struct ranks_buffer {
    uint8_t *memory, *data;
    size_t room, bytes;
    bool registered; /* from tutti_mem_alloc */
};
bool ranks_buffer_create(struct ranks_me *me, struct ranks_buffer *buffer, size_t room, bool registered);
void ranks_buffer_free(struct ranks_me *me, struct ranks_buffer *buffer);
/* `bytes` bytes, `offset` bytes behind an aligned address. */
void *ranks_buffer_place(struct ranks_buffer *buffer, size_t bytes, size_t offset);
/* The guards are as they were; with `untouched`, so are the bytes [from, end) of the data. */
bool ranks_buffer_check(struct ranks_me *me, const struct ranks_buffer *buffer, const char *name);
bool ranks_buffer_untouched(
    struct ranks_me *me, const struct ranks_buffer *buffer, const char *name, size_t from, size_t end);

#endif

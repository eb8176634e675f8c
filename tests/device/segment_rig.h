/* SPDX-License-Identifier: BSD-3-Clause */
/* segment_rig.h: a leader in a process of its own, which does what a test tells it; the test itself is a
 * follower. Each has the stub for itself, for a process imports nothing that it has allocated. */
#ifndef TT_TESTS_SEGMENT_RIG_H
#define TT_TESTS_SEGMENT_RIG_H
#include "segment/exporter.h"
#include "stub_rig.h"

enum { LEADER_RANKS = 8, FOLLOWER = 1 };

struct leader {
    pid_t pid;
    int channel;
    struct tt_import_address address;
};

/* Starts it, and this process's stub, with the same configuration. */
struct leader leader_start(const char *configuration);
struct leader leader_start_alone(const char *configuration); /* and this process's stub not yet */
/* By the thread that begins kernels. `find`: whether the leader has it; `peek` and `poke`: a byte of it, by
 * what a kernel does, and after a time as well if the place was found before. */
void leader_begin(const struct leader *leader, uint64_t round);
void leader_over(const struct leader *leader, uint64_t round);
bool leader_find(const struct leader *leader, int rank, uint32_t key, uint64_t offset, uint64_t bytes);
int leader_peek(
    const struct leader *leader, int rank, uint32_t key, uint64_t offset); /* -1: it is not there */
bool leader_poke(const struct leader *leader, int rank, uint32_t key, uint64_t offset, int byte);
int leader_peek_again(
    const struct leader *leader); /* where it found something last; -1: nothing is there now */
/* How many segments it has mapped, by its stub. */
int leader_mapped(const struct leader *leader);
bool leader_comes_to_map(const struct leader *leader, int n);
bool leader_comes_to_lose(const struct leader *leader, int rank, uint32_t key);
int leader_descriptors(const struct leader *leader); /* that are open */
/* It can open so many descriptors more; -1: as many as before. */
void leader_leave_descriptors(const struct leader *leader, int more);
void leader_close_importer(const struct leader *leader);
/* It exits, without closing anything: by itself, which must go well. */
void leader_exit(struct leader *leader);
void leader_kill(struct leader *leader);
void leader_stop(const struct leader *leader);
void leader_go_on(const struct leader *leader);

/* This process's exporter, as rank FOLLOWER. */
extern _Atomic uint64_t calls_over;
struct tt_exporter *follow(const struct leader *leader);
struct tt_dev_pointer what_is(const void *ptr);
bool found(struct tt_exporter *exporter, const void *ptr, uint64_t bytes, uint32_t *key, uint64_t *offset);
/* It is found after a while; false: it is not, for that long. */
bool comes_to_be_found(struct tt_exporter *exporter, const void *ptr, uint32_t *key, uint64_t *offset);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_pull.c: long messages between private buffers, which the kernel copies once: the bytes are right
 * for every length and place, for memory that cannot be written, or read by the kernel, or that a child has
 * a copy of; and wherever the system refuses, at once or later, copies serve. Most tests ask for it whatever
 * the pages are (pull=always). */
#include <asm/unistd.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/handle.h"
#include "run/comm.h"
#include "tests/rig/ranks.h"
#include "transports/shm_segment.h"

enum { SLICE = 128 << 10, ROOM = 4 << 20, HUGEPAGE = 2 << 20 };

static uint8_t value(int rank, uint64_t i, int round)
{
    return (uint8_t)(i * 2654435761u >> 13) ^ (uint8_t)(rank * 37 + round * 11);
}

static void fill(uint8_t *to, uint64_t bytes, int rank, int round)
{
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = value(rank, i, round);
}

static void check(struct ranks_me *me, const uint8_t *from, uint64_t bytes, int rank, int round)
{
    uint64_t wrong = 0, first = 0;
    for (uint64_t i = bytes; i-- > 0;)
        if (from[i] != value(rank, i, round)) {
            wrong++;
            first = i;
        }
    ranks_expect(me, wrong == 0, "round %d: %llu of %llu bytes of rank %d are wrong, the first at %llu",
        round, (unsigned long long)wrong, (unsigned long long)bytes, rank, (unsigned long long)first);
}

/* May this rank read its neighbour's memory by system call? Containers forbid it. */
static bool is_open(const struct ranks_me *me, const tutti_comm *comm)
{
    const struct tt_shm_endpoint *e = (const struct tt_shm_endpoint *)tt_comm_find(comm)->endpoint;
    return e->peers[(me->rank + 1) % me->n].open;
}

static tutti_comm *join(struct ranks_me *me, const char *options)
{
    tutti_config config = { .size = sizeof config, .options = options };
    return ranks_join(me, &config);
}

static uint8_t *map_area(int advice)
{
    uint8_t *memory = mmap(NULL, ROOM + HUGEPAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory += (HUGEPAGE - (uintptr_t)memory % HUGEPAGE) % HUGEPAGE;
    madvise(memory, ROOM, advice);
    memset(memory, 1, ROOM);
    return memory;
}

/* From each rank to the next, at the same time. */
static void around(struct ranks_me *me, tutti_comm *comm, const void *send, void *recv, uint64_t bytes)
{
    int next = (me->rank + 1) % me->n, last = (me->rank + me->n - 1) % me->n;
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, tutti_send(send, bytes, TUTTI_UINT8, next, comm, tutti_no_stream()), "send");
    ranks_ok(me, tutti_recv(recv, bytes, TUTTI_UINT8, last, comm, tutti_no_stream()), "recv");
    ranks_ok(me, tutti_group_end(), "group_end");
}

/* From rank 0 to rank 1. */
static void one_way(struct ranks_me *me, tutti_comm *comm, void *buffer, uint64_t bytes)
{
    if (me->rank == 0)
        ranks_ok(me, tutti_send(buffer, bytes, TUTTI_UINT8, 1, comm, tutti_no_stream()), "send");
    if (me->rank == 1)
        ranks_ok(me, tutti_recv(buffer, bytes, TUTTI_UINT8, 0, comm, tutti_no_stream()), "recv");
}

/* --- Every length and place */

static const uint64_t lengths[] = { 1, 65535, 65536, 65537, SLICE - 1, SLICE, SLICE + 1, 2 * SLICE,
    2 * SLICE + 1, 4 * SLICE, 5 * SLICE - 3, 1234567, ROOM - 4096 };
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void each_call(struct ranks_me *me, tutti_comm *comm, struct ranks_buffer *send,
    struct ranks_buffer *recv, uint64_t bytes, int round)
{
    int n = me->n, last = (me->rank + n - 1) % n;
    uint64_t block = bytes / (uint64_t)n;
    size_t offset = (size_t)round % 3 * 31;
    uint8_t *from = ranks_buffer_place(send, bytes, offset), *to = ranks_buffer_place(recv, bytes, offset);
    ranks_at(me, "round %d of %llu bytes", round, (unsigned long long)bytes);
    fill(from, bytes, me->rank, round);
    ranks_delay(me, 200);
    around(me, comm, from, to, bytes);
    check(me, to, bytes, last, round);
    fill(from, bytes, me->rank, round + 1);
    if (me->rank > 1 || me->rank == 0)
        memcpy(to, from, bytes);
    one_way(me, comm, to, bytes);
    check(me, to, bytes, me->rank == 1 ? 0 : me->rank, round + 1);
    ranks_ok(me, tutti_broadcast(from, to, bytes, TUTTI_UINT8, n - 1, comm, tutti_no_stream()), "broadcast");
    check(me, to, bytes, n - 1, round + 1);
    ranks_ok(me, tutti_all_gather(from, to, block, TUTTI_UINT8, comm, tutti_no_stream()), "all_gather");
    for (int r = 0; r < n; r++)
        check(me, to + (uint64_t)r * block, block, r, round + 1);
    for (int r = 0; r < n; r++)
        fill(from + (uint64_t)r * block, block, me->rank * n + r, round);
    ranks_ok(me, tutti_all_to_all(from, to, block, TUTTI_UINT8, comm, tutti_no_stream()), "all_to_all");
    for (int r = 0; r < n; r++)
        check(me, to + (uint64_t)r * block, block, r * n + me->rank, round);
    ranks_buffer_check(me, send, "send");
    ranks_buffer_check(me, recv, "recv");
}

static void every_length(struct ranks_me *me)
{
    struct ranks_buffer send, recv;
    tutti_comm *comm = join(me, "pull=always;slice=128K");
    if (comm == NULL || !ranks_buffer_create(me, &send, ROOM, false) ||
        !ranks_buffer_create(me, &recv, ROOM, false))
        return;
    for (int i = 0; i < 2 * LENGTHS; i++)
        each_call(me, comm, &send, &recv, lengths[i % LENGTHS], i);
    struct ranks_paths p = ranks_paths(me, comm);
    ranks_expect(me, p.pulled > 0 || !is_open(me, comm), "nothing was pulled: %s", p.text);
    ranks_buffer_free(me, &send);
    ranks_buffer_free(me, &recv);
    ranks_part(me, comm);
}

Test(api_pull, every_length_and_place)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = every_length });
    ranks_run(&(struct ranks_plan){ .n = 3, .run = every_length });
}

/* What was said of the message of this class that was sent to a peer last; *any: something was. */
static enum tt_shm_said said_by(const tutti_comm *comm, enum tt_class class, int peer, bool *any)
{
    struct tt_shm_endpoint *e = (struct tt_shm_endpoint *)tt_comm_find(comm)->endpoint;
    const struct tt_shm_channel *c = tt_shm_channel(e, class, peer);
    uint64_t latest = 0;
    for (int slot = 0; slot < TT_SLOTS; slot++) {
        uint64_t answer = atomic_load(&c->grants_in[slot].answer);
        latest = answer > latest ? answer : latest;
    }
    *any = latest != 0;
    return (enum tt_shm_said)(latest & 3);
}

/* Each algorithm of each collective, of which some pass on what they get. */
static void every_algorithm(struct ranks_me *me)
{
    struct ranks_buffer send, recv;
    char options[4096] = "";
    if (!ranks_buffer_create(me, &send, ROOM, false) || !ranks_buffer_create(me, &recv, ROOM, false))
        return;
    for (int k = 0; snprintf(options, sizeof options, "pull=always;slice=64K") > 0 &&
                    ranks_algorithms(k, options, sizeof options);
         k++) {
        tutti_comm *comm = join(me, options);
        for (int i = 0; comm != NULL && i < 2; i++)
            each_call(me, comm, &send, &recv, i == 0 ? ROOM / 4 + 3 : ROOM / 2, 2 * k + i);
        if (comm != NULL)
            ranks_part(me, comm);
    }
    ranks_buffer_free(me, &send);
    ranks_buffer_free(me, &recv);
}

Test(api_pull, every_algorithm_passes_on_what_is_right)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .run = every_algorithm });
    ranks_run(&(struct ranks_plan){ .n = 5, .run = every_algorithm });
}

/* Long and short messages of one pair, and others both ways, in one group: each finds its own. */
static void in_one_group(struct ranks_me *me)
{
    enum { MESSAGES = 6 };
    static const uint64_t bytes[MESSAGES] = { 1 << 20, 5, 700000, SLICE, 3, 2 * SLICE + 1 };
    tutti_comm *comm = join(me, "pull=always;slice=128K");
    uint8_t *send = malloc(ROOM), *recv = malloc(ROOM);
    for (int round = 0; comm != NULL && round < 8; round++) {
        uint64_t at = 0;
        fill(send, ROOM, me->rank, round);
        memset(recv, 0, ROOM);
        ranks_delay(me, 300);
        ranks_ok(me, tutti_group_start(), "group_start");
        for (int i = 0; i < MESSAGES; at += bytes[i++]) {
            int peer = 1 - me->rank;
            bool sends = me->rank == 0 || round % 2 == 0, receives = me->rank == 1 || round % 2 == 0;
            if (sends)
                ranks_ok(
                    me, tutti_send(send + at, bytes[i], TUTTI_UINT8, peer, comm, tutti_no_stream()), "send");
            if (receives)
                ranks_ok(
                    me, tutti_recv(recv + at, bytes[i], TUTTI_UINT8, peer, comm, tutti_no_stream()), "recv");
        }
        ranks_ok(me, tutti_group_end(), "group_end");
        if (me->rank == 1 || round % 2 == 0)
            check(me, recv, at, 1 - me->rank, round);
    }
    free(send);
    free(recv);
    if (comm != NULL)
        ranks_part(me, comm);
}

/* A message goes at once, but to a rank that passes all of it on. */
static void whole(struct ranks_me *me)
{
    tutti_comm *tree = join(me, "pull=always;slice=128K;algo=broadcast:tree");
    tutti_comm *split = join(me, "pull=always;slice=128K;algo=broadcast:split");
    uint8_t *send = map_area(MADV_HUGEPAGE), *recv = map_area(MADV_HUGEPAGE);
    bool any;
    if (tree == NULL || split == NULL || !is_open(me, tree))
        return;
    fill(send, ROOM, me->rank, 0);
    around(me, tree, send, recv, ROOM);
    check(me, recv, ROOM, (me->rank + me->n - 1) % me->n, 0);
    enum tt_shm_said said = said_by(tree, TT_CLASS_P2P, (me->rank + 1) % me->n, &any);
    ranks_expect(me, any && said == TT_SHM_ALL_OF_IT, "of a message was said %d", said);
    ranks_ok(me, tutti_broadcast(send, recv, ROOM, TUTTI_UINT8, 0, tree, tutti_no_stream()), "broadcast");
    ranks_ok(me, tutti_broadcast(send, recv, ROOM, TUTTI_UINT8, 0, split, tutti_no_stream()), "broadcast");
    check(me, recv, ROOM, 0, 0);
    for (int peer = 1; peer < me->n; peer++) { /* in the tree rank 0 sends to 1, and to 2, which has 3 */
        said = said_by(tree, TT_CLASS_COLLECTIVE, peer, &any);
        ranks_expect(me, me->rank > 0 || (any == (peer < 3)), "in the tree rank %d said %d", peer, said);
        ranks_expect(me, me->rank > 0 || !any || said == (peer == 1 ? TT_SHM_ALL_OF_IT : TT_SHM_ONE_SLICE),
            "in the tree rank %d said %d", peer, said);
        said = said_by(split, TT_CLASS_COLLECTIVE, peer, &any);
        ranks_expect(me, peer == me->rank || (any && said == TT_SHM_ALL_OF_IT), "rank %d said %d of its part",
            peer, said);
    }
    const struct tt_shm_endpoint *e = (const struct tt_shm_endpoint *)tt_comm_find(tree)->endpoint;
    ranks_expect(me, e->awaited == 0, "%d messages are granted still", (int)e->awaited);
    ranks_part(me, tree);
    ranks_part(me, split);
}

Test(api_pull, each_of_a_group_finds_its_own_and_long_ones_go_at_once)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = in_one_group });
    ranks_run(&(struct ranks_plan){ .n = 4, .run = whole });
}

/* The transport's `sent`, for a sender that is not on a core between its message and this question. */
static const struct tt_link_ops *real;
static bool sent_late(struct tt_link *link, uint64_t number)
{
    for (int ms = 0; ms < 500 && !tt_shm_released(tt_shm_channel_of(link), number); ms++)
        usleep(1000);
    return real->sent(link, number);
}

/* The transport's `take`, for a receiver that is not on a core when its message comes. */
static enum tt_whole take_late(
    struct tt_link *link, uint64_t number, uint32_t signature, const struct tt_view *first, uint64_t whole)
{
    static int64_t until_ns;
    until_ns = until_ns == 0 ? tt_deadline_ns(700) : until_ns;
    return tt_now_ns() < until_ns ? TT_WHOLE_IDLE : real->take(link, number, signature, first, whole);
}

/* The receiver takes all of it before the sender looks for the first time; or looks, before it takes it, whom
 * it waits for, which does not decide that it goes by slices. */
static void slow_side(struct ranks_me *me)
{
    const bool *receiver = me->context;
    tutti_comm *comm = join(me, "pull=always;slice=128K");
    uint8_t *buffer = map_area(MADV_HUGEPAGE);
    if (comm == NULL || !is_open(me, comm))
        return;
    struct tt_shm_endpoint *e = (struct tt_shm_endpoint *)tt_comm_find(comm)->endpoint;
    struct tt_link *link = &tt_shm_channel(e, TT_CLASS_COLLECTIVE, 1 - me->rank)->head;
    struct tt_link_ops late = *link->ops;
    real = link->ops;
    if (*receiver)
        late.take = take_late;
    else
        late.sent = sent_late;
    link->ops = &late;
    fill(buffer, ROOM, me->rank, 0);
    ranks_ok(me, tutti_broadcast(buffer, buffer, ROOM, TUTTI_UINT8, 0, comm, tutti_no_stream()), "broadcast");
    check(me, buffer, ROOM, 0, 0);
    bool any;
    enum tt_shm_said said = said_by(comm, TT_CLASS_COLLECTIVE, 1 - me->rank, &any);
    ranks_expect(me, me->rank > 0 || (any && said == TT_SHM_ALL_OF_IT), "it said %d", said);
    link->ops = real;
    ranks_part(me, comm);
}

Test(api_pull, a_side_that_is_slow)
{
    static const bool receiver[] = { false, true };
    for (int i = 0; i < 2; i++)
        ranks_run(&(struct ranks_plan){ .n = 2, .run = slow_side, .context = &receiver[i] });
}

/* Of eight blocks each goes at once, though it is passed on; unless a rank looks for it before its turn. */
static void blocks(struct ranks_me *me)
{
    tutti_comm *comm = join(me, "pull=always;slice=64K;algo=broadcast:circulant");
    uint8_t *memory = map_area(MADV_HUGEPAGE);
    int32_t cut, all = 1;
    bool any;
    for (int round = 0; comm != NULL && is_open(me, comm) && all > 0 && round < 30; round++) {
        fill(memory, ROOM, me->rank, round);
        ranks_ok(me, tutti_broadcast(memory, memory, ROOM, TUTTI_UINT8, 0, comm, tutti_no_stream()), "call");
        check(me, memory, ROOM, 0, round);
        cut = 0;
        for (int peer = 0; peer < me->n; peer++)
            cut += said_by(comm, TT_CLASS_COLLECTIVE, peer, &any) != TT_SHM_ALL_OF_IT && any;
        ranks_ok(me, tutti_all_reduce(&cut, &all, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()), "sum");
        ranks_expect(me, all == 0 || round < 29, "each time some block went by slices");
    }
    ranks_part(me, comm);
}

/* Sums are folded from what was copied, and their results may be pulled. */
static void sums(struct ranks_me *me)
{
    enum { COUNT = 300000 };
    static int32_t send[COUNT], recv[COUNT];
    tutti_comm *comm = join(me, "pull=always;slice=128K");
    for (int round = 0; comm != NULL && round < 6; round++) {
        for (int i = 0; i < COUNT; i++)
            send[i] = i * (me->rank + 1) + round;
        ranks_ok(me, tutti_all_reduce(send, recv, COUNT, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()),
            "all_reduce");
        int wrong = 0;
        for (int i = 0; i < COUNT; i++)
            wrong += recv[i] != i * (me->n * (me->n + 1) / 2) + me->n * round;
        ranks_expect(me, wrong == 0, "round %d: %d sums are wrong", round, wrong);
    }
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_pull, small_blocks_go_at_once_and_sums_are_right)
{
    ranks_run(&(struct ranks_plan){ .n = 9, .run = blocks });
    ranks_run(&(struct ranks_plan){ .n = 2, .run = sums });
    ranks_run(&(struct ranks_plan){ .n = 4, .run = sums });
}

/* --- The choice */

static bool has_huge(uint8_t *memory)
{
    struct tt_pages *pages = tt_pages_open(true);
    bool huge = pages != NULL && tt_pages_huge(pages, (uintptr_t)memory, ROOM);
    tt_pages_close(pages);
    return huge;
}

static void chooses_by_pages(struct ranks_me *me)
{
    tutti_comm *comm = join(me, "slice=128K");
    if (comm == NULL)
        return;
    for (int huge = 0; huge < 2; huge++) {
        uint8_t *send = map_area(huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        uint8_t *recv = map_area(huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        struct ranks_paths before = ranks_paths(me, comm);
        for (int round = 0; round < 4; round++) {
            fill(send, ROOM, me->rank, round);
            around(me, comm, send, recv, ROOM);
            check(me, recv, ROOM, 1 - me->rank, round);
        }
        struct ranks_paths p = ranks_paths(me, comm);
        unsigned long long went = p.pulled + p.placed - before.pulled - before.placed;
        ranks_expect(me, huge || went == 0, "small pages were pulled: %s", p.text);
        ranks_expect(me, !huge || went > 0 || !has_huge(send) || !is_open(me, comm),
            "huge pages were copied: %s", p.text);
    }
    ranks_part(me, comm);
}

static void off(struct ranks_me *me)
{
    tutti_comm *comm = join(me, "pull=off;slice=128K");
    if (comm == NULL)
        return;
    uint8_t *send = map_area(MADV_HUGEPAGE), *recv = map_area(MADV_HUGEPAGE);
    fill(send, ROOM, me->rank, 0);
    around(me, comm, send, recv, ROOM);
    check(me, recv, ROOM, 1 - me->rank, 0);
    struct ranks_paths p = ranks_paths(me, comm);
    ranks_expect(me, p.pulled + p.placed == 0 && p.copied >= ROOM, "%s", p.text);
    ranks_part(me, comm);
}

Test(api_pull, huge_pages_are_pulled_and_small_ones_copied_and_off_is_off)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = chooses_by_pages });
    ranks_run(&(struct ranks_plan){ .n = 2, .run = off });
}

/* --- Memory of other kinds */

/* A private mapping of a file, that may only be read. */
static void read_only(struct ranks_me *me)
{
    tutti_comm *comm = join(me, "pull=always;slice=128K");
    uint8_t *recv = malloc(ROOM);
    int fd = memfd_create("source", 0);
    if (comm == NULL || fd < 0 || ftruncate(fd, ROOM) != 0)
        return;
    uint8_t *write = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    fill(write, ROOM, me->rank, 0);
    const uint8_t *send = mmap(NULL, ROOM, PROT_READ, MAP_PRIVATE, fd, 0);
    around(me, comm, send, recv, ROOM);
    check(me, recv, ROOM, 1 - me->rank, 0);
    free(recv);
    ranks_part(me, comm);
}

/* Memory that the processor may read and the kernel may not; NULL: there is none. */
static uint8_t *secret_area(void)
{
    int fd = (int)syscall(__NR_memfd_secret, 0); /* mmap refuses what is none */
    bool is_long = ftruncate(fd, ROOM) == 0;
    uint8_t *memory = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return is_long && memory != MAP_FAILED ? memory : NULL;
}

/* What cannot be pulled is copied after all; both from there, and to there. */
static void secret(struct ranks_me *me)
{
    tutti_comm *comm = join(me, "pull=always;slice=128K");
    bool from = *(const bool *)me->context;
    if (comm == NULL)
        return;
    uint8_t *area = secret_area(), *other = malloc(ROOM), *open = malloc(ROOM);
    uint8_t *hidden = area != NULL ? area : other;
    for (int round = 0; round < 4; round++) {
        uint8_t *buffer = (me->rank == 0) == from ? hidden : open;
        if (me->rank == 0)
            fill(buffer, ROOM, 0, round);
        one_way(me, comm, buffer, ROOM);
        check(me, buffer, ROOM, 0, round);
    }
    ranks_part(me, comm);
    if (area != NULL)
        munmap(area, ROOM);
    free(other);
    free(open);
}

Test(api_pull, memory_that_the_kernel_refuses)
{
    static const bool from[] = { true, false };
    for (int i = 0; i < 2; i++)
        ranks_run(&(struct ranks_plan){ .n = 2, .run = secret, .context = &from[i] });
}

/* A child has a copy of the buffers, and keeps what was in them. */
static void forked(struct ranks_me *me)
{
    tutti_comm *comm = join(me, "pull=always;slice=128K");
    if (comm == NULL)
        return;
    uint8_t *buffer = map_area(MADV_HUGEPAGE);
    int pipes[2];
    ranks_expect(me, pipe(pipes) == 0, "no pipe");
    fill(buffer, ROOM, me->rank, 7);
    pid_t child = fork();
    if (child == 0) {
        char word;
        int wrong = read(pipes[0], &word, 1) != 1;
        for (uint64_t i = 0; i < ROOM; i++)
            wrong |= buffer[i] != value(me->rank, i, 7);
        _exit(wrong);
    }
    for (int round = 0; round < 4; round++) {
        if (me->rank == 0)
            fill(buffer, ROOM, 0, round);
        one_way(me, comm, buffer, ROOM);
        check(me, buffer, ROOM, 0, round);
    }
    int status = 1;
    ranks_expect(me, write(pipes[1], "x", 1) == 1, "no word for the child");
    ranks_expect(me, waitpid(child, &status, 0) == child && status == 0, "the child's copy changed");
    ranks_part(me, comm);
}

Test(api_pull, sources_that_are_read_only_and_buffers_of_which_a_child_has_a_copy)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = read_only });
    ranks_run(&(struct ranks_plan){ .n = 2, .run = forked });
}

/* --- Refusals */

/* From now on both system calls fail in this process. */
static bool forbid(void)
{
    struct sock_filter filter[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
    struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, 2, &program, 0, 0) == 0;
}

struct refusal {
    int round, ranks; /* when, and of which ranks (bits) */
};

static void refused(struct ranks_me *me)
{
    const struct refusal *r = me->context;
    uint8_t *send = malloc(ROOM), *recv = malloc(ROOM);
    if (r->round == 0 && (r->ranks >> me->rank & 1) != 0 && !forbid())
        return;
    tutti_comm *comm = join(me, "pull=always;slice=128K");
    if (comm == NULL)
        return;
    for (int round = 1; round < 7; round++) {
        ranks_meet(me);
        if (round == r->round && (r->ranks >> me->rank & 1) != 0)
            ranks_expect(me, forbid(), "no filter: %s", strerror(errno));
        ranks_meet(me);
        fill(send, ROOM, me->rank, round);
        around(me, comm, send, recv, ROOM);
        check(me, recv, ROOM, 1 - me->rank, round);
        if (me->rank == 0)
            memcpy(recv, send, ROOM);
        one_way(me, comm, recv, ROOM);
        check(me, recv, ROOM, 0, round);
    }
    struct ranks_paths p = ranks_paths(me, comm);
    ranks_expect(me, r->round > 0 || p.pulled + p.placed == 0, "what is forbidden was done: %s", p.text);
    bool by_copies = r->round == 0 || (r->ranks >> (1 - me->rank) & 1) != 0; /* its peer can read nothing */
    ranks_expect(me, !by_copies || p.copied > 0, "after the refusal nothing was copied: %s", p.text);
    free(send);
    free(recv);
    ranks_part(me, comm);
}

Test(api_pull, where_the_system_refuses_copies_serve)
{
    static const struct refusal cases[] = { { 0, 1 }, { 0, 2 }, { 0, 3 }, { 3, 1 }, { 3, 2 }, { 3, 3 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ranks_run(&(struct ranks_plan){ .n = 2, .run = refused, .context = &cases[i] });
}

/* --- Deaths */

/* Rank `victim` dies at any moment of long messages; the other is told so. */
static void dies(struct ranks_me *me)
{
    int victim = *(const int *)me->context;
    uint8_t *send = calloc(1, 16 * ROOM), *recv = calloc(1, 16 * ROOM);
    tutti_comm *comm = join(me, "pull=always;slice=128K");
    if (comm == NULL)
        return;
    tutti_status status = TUTTI_OK;
    struct itimerval soon = { .it_value.tv_usec = 3000 + (long)(me->random % 30000) };
    if (me->rank == victim)
        setitimer(ITIMER_REAL, &soon, NULL); /* SIGALRM ends it */
    while (status == TUTTI_OK) {
        tutti_group_start();
        tutti_send(send, 16 * ROOM, TUTTI_UINT8, 1 - me->rank, comm, tutti_no_stream());
        tutti_recv(recv, 16 * ROOM, TUTTI_UINT8, 1 - me->rank, comm, tutti_no_stream());
        status = tutti_group_end();
    }
    ranks_expect(me, status == TUTTI_PEER_LOST, "the status is %s", tutti_status_string(status));
    tutti_comm_destroy(comm);
}

Test(api_pull, a_peer_that_dies_in_the_middle)
{
    static const int victims[] = { 0, 1 };
    for (int i = 0; i < 6; i++)
        ranks_run(&(struct ranks_plan){ .n = 2,
            .run = dies,
            .context = &victims[i % 2],
            .seed = (uint64_t)i + 1,
            .may_die = 1u << victims[i % 2] });
}

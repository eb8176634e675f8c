/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_ranks.c: forks, gates, and the exchange of descriptors. A rank opens the arenas of others through
 * /proc, which stands for the local socket that the library uses. */
#include "shm_ranks.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/rig/patience.h"
#include "transports/arena.h"

enum { PATIENCE_S = 30 };

struct shm_stage *shm_stage_new(int n)
{
    void *pages =
        mmap(NULL, sizeof(struct shm_stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(pages, MAP_FAILED);
    struct shm_stage *stage = pages;
    stage->n = n;
    stage->params = (struct tt_endpoint_params){
        .n = n, .slot_bytes = SUITE_SLOT_BYTES, .first_number = 0xfffffff5u, .map = true, .membarrier = true
    };
    return stage;
}

static _Noreturn void end_rank(struct shm_rank *r)
{
    bool right = r->suite.wrong[0] == '\0';
    memcpy(r->stage->wrong[r->me], r->suite.wrong, sizeof r->suite.wrong);
    if (!right)
        atomic_store(&r->stage->failed, 1);
    _exit(right ? 0 : 1);
}

static _Noreturn void run_rank(struct shm_stage *stage, int me, void (*run)(struct shm_rank *r))
{
    struct shm_rank r = { .stage = stage, .n = stage->n, .me = me, .suite = { .transport = &tt_shm } };
    alarm(2 * patience_seconds(PATIENCE_S)); /* a rank that hangs must not outlive its test */
    run(&r);
    suite_expect(&r.suite, tt_wait_lost() == 0, "%d wake-ups were lost", (int)tt_wait_lost());
    end_rank(&r);
}

void shm_stage_run(struct shm_stage *stage, void (*run)(struct shm_rank *r), int killed)
{
    int status;
    for (int me = 0; me < stage->n; me++) {
        pid_t pid = fork();
        if (pid == 0)
            run_rank(stage, me, run);
        cr_assert_geq(pid, 0);
        stage->pids[me] = pid;
    }
    for (int i = 0; i < stage->n; i++) {
        pid_t pid = wait(&status);
        int me = 0;
        while (me < stage->n && stage->pids[me] != pid)
            me++;
        cr_assert_lt(me, stage->n);
        if (me == killed)
            cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "rank %d was not killed", me);
        else
            cr_expect(status == 0, "rank %d ended with %x: %s", me, (unsigned)status, stage->wrong[me]);
        if (me != killed && status != 0)
            atomic_store(&stage->failed, 1);
    }
    munmap(stage, sizeof *stage);
}

void shm_meet(struct shm_rank *r)
{
    _Atomic int *gate = &r->stage->gates[r->gate++ % SHM_GATES];
    int came = atomic_fetch_add(gate, 1) + 1, all = (came + r->n - 1) / r->n * r->n;
    int64_t deadline = tt_deadline_ns(1000 * (int64_t)patience_seconds(PATIENCE_S));
    struct tt_wait wait;
    tt_wait_begin(&wait, tt_wait_policy_for(r->n), NULL, 0);
    while (atomic_load(gate) < all)
        if (tt_wait_idle(&wait) && (atomic_load(&r->stage->failed) || tt_now_ns() > deadline))
            _exit(99);
}

static int open_of(pid_t pid, int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

void shm_introduce(struct shm_rank *r)
{
    int mine[TT_MEMORY_FDS] = { -1, -1 };
    suite_expect(&r->suite, tt_shm.memory->present(mine) == TUTTI_OK, "nothing to present");
    r->stage->pids[r->me] = getpid();
    r->stage->fds[r->me] = mine[0];
    r->stage->lives[r->me] = mine[1];
    shm_meet(r);
    for (int peer = 0; peer < r->n; peer++) {
        int theirs[TT_MEMORY_FDS] = { open_of(r->stage->pids[peer], r->stage->fds[peer]),
            open_of(r->stage->pids[peer], r->stage->lives[peer]) };
        suite_expect(&r->suite, tt_shm.memory->introduce(theirs) == TUTTI_OK, "rank %d is not known", peer);
    }
    shm_meet(r);
    close(mine[0]);
    close(mine[1]);
}

struct tt_endpoint *shm_join(struct shm_rank *r)
{
    struct tt_endpoint_params params = r->stage->params;
    struct tt_endpoint *e = NULL;
    params.me = r->me;
    suite_expect(&r->suite, r->suite.transport->open(&params, r->stage->addresses[r->me], &e) == TUTTI_OK,
        "no endpoint");
    shm_meet(r);
    suite_expect(
        &r->suite, r->suite.transport->connect(e, r->stage->addresses[0]) == TUTTI_OK, "not connected");
    shm_meet(r);
    return e;
}

bool shm_post(struct tt_endpoint *e, int peer, uint64_t number, uint64_t key, uint8_t *from, uint64_t bytes)
{
    struct tt_layout layout;
    tt_layout_even(&layout, bytes, 1, 1, 1);
    struct tt_message m = { .number = number,
        .bytes = bytes,
        .source = { .layout = &layout, .nchunks = 1, .space = { .base = (uintptr_t)from } } };
    for (uint64_t i = 0; i < bytes; i++)
        from[i] = suite_byte(key, i);
    return link_send(tt_link_to(e, TT_CLASS_P2P, peer), &m);
}

uint64_t shm_resident(void)
{
    const struct tt_arena *own;
    struct stat file;
    tt_arena_get(&own);
    fstat(own->fd, &file);
    return (uint64_t)file.st_blocks * 512;
}

void shm_take(
    struct shm_rank *r, struct tt_endpoint *e, int peer, uint64_t number, uint64_t key, uint64_t bytes)
{
    struct tt_layout layout;
    struct tt_arrival a;
    struct tt_wait wait;
    struct tt_view like = { .layout = &layout, .nchunks = 1 };
    int64_t deadline = tt_deadline_ns(1000 * (int64_t)patience_seconds(PATIENCE_S));
    tt_layout_even(&layout, bytes, 1, 1, 1);
    tt_wait_begin(&wait, tt_wait_policy_for(r->n), &e->doorbell, 1);
    tt_wait_park_by(&wait, e->park, e);
    while (!link_arrived(tt_link_to(e, TT_CLASS_P2P, peer), number, &like, &a))
        if (tt_wait_idle(&wait) && !suite_expect(&r->suite, tt_now_ns() < deadline, "nothing comes"))
            return;
    tt_wait_awake(&wait);
    suite_read(&r->suite, &a, key, bytes);
    link_release(tt_link_to(e, TT_CLASS_P2P, peer), number);
}

/* As if the ranks of the other half were on another host: their process is one that nobody knows. */
static tutti_status connect_half(struct tt_endpoint *e, const uint8_t *addresses)
{
    enum { UUID_AT = 16 }; /* in shm.c's address */
    uint8_t *copy = malloc((size_t)e->n * TT_ADDRESS_BYTES);
    if (copy == NULL)
        return TUTTI_OUT_OF_MEMORY;
    memcpy(copy, addresses, (size_t)e->n * TT_ADDRESS_BYTES);
    for (int r = 0; r < e->n; r++)
        if (r % 2 != e->me % 2)
            memset(copy + (size_t)r * TT_ADDRESS_BYTES + UUID_AT, 0xee, TT_UUID_BYTES);
    tutti_status status = tt_shm.connect(e, copy);
    free(copy);
    return status;
}

static tutti_status open_half(
    const struct tt_endpoint_params *params, uint8_t *address, struct tt_endpoint **endpoint)
{
    return tt_shm.open(params, address, endpoint);
}

static void close_half(struct tt_endpoint *e)
{
    tt_shm.close(e);
}

const struct tt_transport shm_half = {
    .name = "half",
    .address_bytes = TT_ADDRESS_BYTES,
    .open = open_half,
    .connect = connect_half,
    .close = close_half,
};

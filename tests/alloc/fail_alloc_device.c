/* SPDX-License-Identifier: BSD-3-Clause */
/* fail_alloc_device.c: calls on a device's streams, when what they ask for is refused.
 *
 * Both ends of a message count its gates, and ranks of one device meet by those counts. So a group that was
 * refused must leave no count behind, or the next one waits for slices that nobody sends. The device is the
 * stub's, which asks the system by itself and is not refused. */
#include "device/dev.h"
#include "fail_alloc.h"
#include "tests/rig/plugin.h"

enum { RANKS = 2, WORDS = 4, TIMEOUT_MS = 5000 };

struct bench { /* two ranks of one thread, on one device */
    const struct tt_dev *dev;
    tutti_comm *comms[RANKS];
    void *streams[RANKS], *managed[RANKS];
    int32_t *v[RANKS];
};

static bool fine(const struct bench *b, enum tt_dev_error error)
{
    return error == TT_DEV_OK || fail("the stub: %s", b->dev->why());
}

static void take_down(struct bench *b)
{
    for (int r = 0; r < RANKS; r++) {
        if (b->comms[r] != NULL)
            tutti_comm_destroy(b->comms[r]);
        if (b->streams[r] != NULL)
            fine(b, b->dev->stream.destroy(b->streams[r]));
        if (b->managed[r] != NULL)
            fine(b, b->dev->memory.free(b->managed[r]));
    }
}

static tutti_status set_up(struct bench *b, int ranks)
{
    tutti_config config = { .size = sizeof config, .options = "device=0", .timeout_ms = TIMEOUT_MS };
    *b = (struct bench){ 0 };
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 1);
    tutti_status status = tt_dev_find(PLUGIN_STUB, &b->dev);
    if (status != TUTTI_OK || !fine(b, b->dev->use(0)))
        return status != TUTTI_OK ? status : TUTTI_DEVICE_ERROR;
    status = tutti_comm_init_all(ranks, NULL, &config, b->comms);
    for (int r = 0; r < RANKS && status == TUTTI_OK; r++) {
        if (!fine(b, b->dev->stream.create(&b->streams[r])) ||
            !fine(b, b->dev->memory.alloc_managed(WORDS * sizeof(int32_t), &b->managed[r])))
            status = TUTTI_DEVICE_ERROR;
        else
            b->v[r] = b->managed[r];
    }
    if (status != TUTTI_OK)
        take_down(b);
    return status;
}

/* A message each way, and a sum. */
static tutti_status exchange(struct bench *b, long refusal)
{
    for (int r = 0; r < RANKS; r++) {
        b->v[r][0] = r + 1;
        b->v[r][1] = 10 * (r + 1);
        b->v[r][2] = 0;
    }
    atomic_store(&countdown, refusal);
    tutti_group_start();
    for (int r = 0; r < RANKS; r++) {
        tutti_stream stream = tutti_cuda_stream(b->streams[r]);
        tutti_send(b->v[r] + 1, 1, TUTTI_INT32, 1 - r, b->comms[r], stream);
        tutti_recv(b->v[r] + 2, 1, TUTTI_INT32, 1 - r, b->comms[r], stream);
        tutti_all_reduce(b->v[r], b->v[r], 1, TUTTI_INT32, TUTTI_SUM, b->comms[r], stream);
    }
    tutti_status status = tutti_group_end();
    atomic_store(&countdown, atomic_load(&countdown) > 0 ? -1 : 0);
    for (int r = 0; r < RANKS; r++)
        fine(b, b->dev->stream.sync(b->streams[r]));
    for (int r = 0; r < RANKS; r++) /* kernels may be through before a worker finds no memory for its part */
        tutti_comm_flush(b->comms[r], -1);
    return status;
}

static bool is_right(const struct bench *b)
{
    const int32_t *const *v = (const int32_t *const *)b->v;
    return v[0][0] == 3 && v[1][0] == 3 && v[0][2] == 20 && v[1][2] == 10;
}

static bool is_untouched(const struct bench *b)
{
    return b->v[0][0] == 1 && b->v[1][0] == 2 && b->v[0][2] == 0 && b->v[1][2] == 0;
}

tutti_status try_device(long refusal)
{
    struct bench b;
    tutti_status status = set_up(&b, RANKS);
    if (status != TUTTI_OK)
        return status;
    status = exchange(&b, refusal);
    tutti_status state = tutti_comm_state(b.comms[0]); /* what had begun may have ended it */
    bool over = state != TUTTI_OK;
    if (!over && !(status == TUTTI_OK ? is_right(&b) : is_untouched(&b)))
        fail("a group on a device, status %d, gave %d, %d, %d and %d", status, b.v[0][0], b.v[1][0],
            b.v[0][2], b.v[1][2]);
    long left = atomic_load(&countdown);
    for (int again = 0; again < TRIES_AGAIN && !over; again++) {
        tutti_status now = exchange(&b, 0);
        over = tutti_comm_state(b.comms[0]) != TUTTI_OK;
        if (now != TUTTI_OK || over || !is_right(&b))
            fail("a group on a device fails after one was refused: %s", tutti_get_last_error(NULL));
    }
    atomic_store(&countdown, left);
    take_down(&b);
    return status == TUTTI_OK ? state : status;
}

/* Small calls of a group share a gate, which is given back once. */
static tutti_status call_three(const struct bench *b, long refusal)
{
    tutti_stream stream = tutti_cuda_stream(b->streams[0]);
    int32_t *in = b->v[0], *out = b->v[1];
    for (int i = 0; i < WORDS; i++)
        in[i]++;
    atomic_store(&countdown, refusal);
    tutti_group_start();
    for (int i = 0; i < WORDS; i++)
        tutti_all_reduce(in + i, out + i, 1, TUTTI_INT32, TUTTI_SUM, b->comms[0], stream);
    tutti_status status = tutti_group_end();
    atomic_store(&countdown, atomic_load(&countdown) > 0 ? -1 : 0);
    fine(b, b->dev->stream.sync(b->streams[0]));
    tutti_comm_flush(b->comms[0], -1);
    for (int i = 0; i < WORDS && status == TUTTI_OK && tutti_comm_state(b->comms[0]) == TUTTI_OK; i++)
        if (out[i] != in[i])
            fail("small calls of a group on a device: result %d is %d, not %d", i, out[i], in[i]);
    return status;
}

tutti_status try_device_alone(long refusal)
{
    struct bench b;
    tutti_status status = set_up(&b, 1);
    if (status != TUTTI_OK)
        return status;
    for (int i = 0; i < WORDS; i++)
        b.v[0][i] = 10 * i;
    status = call_three(&b, refusal);
    tutti_status state = tutti_comm_state(b.comms[0]);
    long left = atomic_load(&countdown);
    for (int again = 0; again < TRIES_AGAIN && state == TUTTI_OK; again++)
        if (call_three(&b, 0) != TUTTI_OK)
            fail("a group on a device fails after one was refused: %s", tutti_get_last_error(NULL));
    atomic_store(&countdown, left);
    take_down(&b);
    return status == TUTTI_OK ? state : status;
}

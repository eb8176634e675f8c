/* SPDX-License-Identifier: BSD-3-Clause */
/* device_led_open.c: who leads the ranks that several processes have on one device, and what a leader needs.
 *
 * All ranks tell each other where their pinned memory is, and of which device, with their addresses. Whoever
 * reads that comes to the same end. Then the one who leads pins the others' memory, which it has mapped, and
 * tries whether its device reaches all of it; what came of that stands in its row before any rank may call.
 * */
#include "device/device_led.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "select/led.h"
#include "select/spin.h"
#include "transports/arena.h"

enum { TRIAL_BYTES = 64, PAD_MOST = 32 << 20, PAD_SHARE = 2000 };

static struct tt_led_shared *shared_of(const struct tt_device *d)
{
    return (struct tt_led_shared *)(void *)(d->cells - sizeof(struct tt_led_shared));
}

/* What rank r says in a trial. */
static uint64_t trial_word(int rank)
{
    return UINT64_C(0x7475747469000000) + (uint64_t)rank;
}

void tt_led_tell(const struct tt_device *d, struct tt_device_info *info)
{
    const struct tt_arena *own;
    struct tt_dev_facts facts;
    uint64_t offset;
    *info = (struct tt_device_info){ 0 };
    if (d == NULL || d->dev->facts(d->number, &facts) != TT_DEV_OK || tt_arena_get(&own) != TUTTI_OK ||
        !tt_arena_offset(own, (uintptr_t)d->pinned, d->pinned_bytes, &offset))
        return;
    memcpy(info->arena, own->uuid, sizeof info->arena);
    memcpy(info->address, facts.address, sizeof info->address);
    info->offset = offset;
    info->seen = (uintptr_t)d->pinned_seen;
    info->context = (uintptr_t)d->context;
    info->process = getpid();
    info->present = 1;
    struct tt_led_row *row = &shared_of(d)->row;
    memset(row, 0, sizeof *row);
    atomic_init(&row->turn, 2);
    *(uint64_t *)(void *)d->cells = trial_word(d->comm->rank);
}

static const struct tt_device_info *info_of(const struct tt_device_info *infos, size_t stride, int rank)
{
    return (const struct tt_device_info *)(const void *)((const uint8_t *)infos + (size_t)rank * stride);
}

static bool same_process(const struct tt_device_info *a, const struct tt_device_info *b)
{
    return memcmp(a->arena, b->arena, sizeof a->arena) == 0;
}

/* Several processes on one device of one host: NULL. Else what is in the way. */
static const char *not_led(const struct tt_comm *comm, const struct tt_device_info *infos, size_t stride)
{
    bool processes = false;
    if (comm->settings.executor == TT_EXECUTOR_HOST)
        return "the setting executor is host";
    if (comm->n < 2 || comm->n > TT_LED_RANKS)
        return "it serves 2 to 8 ranks";
    if (comm->identity.host != NULL || comm->endpoint->control->ring == NULL)
        return "not all ranks are on one host";
    for (int r = 0; r < comm->n; r++) {
        const struct tt_device_info *info = info_of(infos, stride, r);
        if (!info->present || memcmp(info->address, infos->address, sizeof info->address) != 0)
            return "not all ranks are on one device";
        if (same_process(info, infos) && info->context != infos->context)
            return "ranks of one process are in several contexts";
        processes = processes || !same_process(info, infos);
    }
    return processes ? NULL : "all ranks are in one process";
}

/* Where a rank's pinned memory is in this process. */
static uint8_t *find_memory(struct tt_led *led, const struct tt_device_info *info, int rank)
{
    if (rank == led->me)
        return led->comm->device->pinned;
    led->arenas[rank] = tt_arena_find(info->arena);
    if (led->arenas[rank] != NULL)
        return led->arenas[rank]->base + info->offset;
    return NULL;
}

static tutti_status find_rows(struct tt_led *led, const struct tt_device_info *infos, size_t stride)
{
    const struct tt_device *d = led->comm->device;
    size_t at = (size_t)((uint8_t *)shared_of(d) - d->pinned);
    for (int r = 0; r < led->n; r++) {
        const struct tt_device_info *info = info_of(infos, stride, r);
        uint8_t *memory = find_memory(led, info, r);
        if (memory == NULL)
            return tt_fail(TUTTI_SYSTEM_ERROR, "the memory of rank %d is not mapped at rank %d", r, led->me);
        led->memory[r] = memory;
        led->seen[r] = (uint8_t *)(uintptr_t)info->seen; /* of this process */
        led->rows[r] = &((struct tt_led_shared *)(void *)(memory + at))->row;
        led->same_process[r] = same_process(info, infos);
    }
    return TUTTI_OK;
}

/* --- The leader */

/* Of ranks of this process the memory is pinned already, by themselves. */
static enum tt_dev_error pin_all(struct tt_led *led)
{
    const struct tt_device *d = led->comm->device;
    enum tt_dev_error error = TT_DEV_OK;
    for (int r = 0; r < led->n && error == TT_DEV_OK; r++) {
        void *seen = NULL;
        if (led->same_process[r])
            continue;
        error = led->dev->memory.pin(led->memory[r], d->pinned_bytes, &seen);
        led->seen[r] = seen;
        led->pinned[r] = error == TT_DEV_OK;
    }
    return error;
}

static enum tt_dev_error allocate(struct tt_led *led)
{
    void *bases = NULL, *counted = NULL;
    size_t bytes = TT_LED_KERNELS * sizeof *led->bases_there;
    enum tt_dev_error error = led->dev->memory.alloc(bytes, &bases);
    led->bases_there = bases;
    if (error == TT_DEV_OK)
        error = led->dev->memory.alloc(TRIAL_BYTES, &counted);
    led->blocks_over = counted;
    if (error == TT_DEV_OK)
        error = tt_device_memory_clear(led->dev, bases, bytes);
    return error == TT_DEV_OK ? tt_device_memory_clear(led->dev, counted, TRIAL_BYTES) : error;
}

/* A kernel fetches what each rank has said, and each gets the leader's word back. */
static enum tt_dev_error launch_trial(struct tt_led *led, void *stream)
{
    const struct tt_device *d = led->comm->device;
    size_t cells = (size_t)(d->cells - d->pinned);
    struct tt_fused_params params = { .rects = (uint32_t)led->n, .divisor = 1 };
    for (int r = 0; r < led->n; r++) {
        params.own.in[r] = led->seen[r] + cells;
        params.own.out[r] = led->seen[r] + cells + TRIAL_BYTES;
        params.rect[r] = (struct tt_rect){ .to = (uint64_t)r * sizeof(uint64_t),
            .count = sizeof(uint64_t),
            .sources = (uint8_t)(1U << r),
            .dsts = (uint8_t)((1U << led->n) - 1) };
    }
    struct tt_dev_launch launch = { .kernel = tt_kernel_number(TT_KERNEL_MOVE, 0, 0),
        .grid = 1,
        .grid_y = (uint32_t)led->n,
        .block = TT_FUSED_BLOCK,
        .params = &params,
        .params_bytes = sizeof params };
    enum tt_dev_error error = led->dev->launch(&launch, stream);
    return error == TT_DEV_OK ? led->dev->stream.sync(stream) : error;
}

static bool has_all_words(const struct tt_led *led)
{
    const struct tt_device *d = led->comm->device;
    size_t cells = (size_t)(d->cells - d->pinned);
    bool all = true;
    for (int r = 0; r < led->n; r++) {
        const uint64_t *words = (const uint64_t *)(const void *)(led->memory[r] + cells + TRIAL_BYTES);
        for (int k = 0; k < led->n; k++)
            all = all && words[k] == trial_word(k);
    }
    return all;
}

static tutti_status try(struct tt_led *led)
{
    const struct tt_device *d = led->comm->device;
    void *stream = NULL;
    enum tt_dev_error error = pin_all(led);
    if (error == TT_DEV_OK)
        error = allocate(led);
    if (error == TT_DEV_OK)
        error = led->dev->preload();
    if (error == TT_DEV_OK)
        error = led->dev->stream.create(&stream);
    if (error == TT_DEV_OK)
        error = launch_trial(led, stream);
    if (stream != NULL)
        led->dev->stream.destroy(stream);
    if (error != TT_DEV_OK)
        return tt_fail(TUTTI_DEVICE_ERROR, "%s", led->dev->why());
    if (!has_all_words(led))
        return tt_fail(TUTTI_DEVICE_ERROR, "its kernels do not reach the pinned memory of all ranks");
    return tt_importer_open(led->dev, d->number, led->n, &led->importer, &shared_of(d)->importer);
}

/* If it cannot, all go by the host's memory, for it is the leader's row that says so. */
static tutti_status lead(struct tt_led *led)
{
    struct tt_device *d = led->comm->device;
    int before;
    led->bases = shared_of(d)->bases;
    memset(led->bases, 0, TT_LED_KERNELS * sizeof *led->bases);
    tutti_status status = tt_device_enter(d, &before);
    if (status != TUTTI_OK)
        return status;
    status = try(led);
    tt_device_leave(d, before);
    if (status != TUTTI_OK)
        tt_log(TT_LOG_WARN,
            "%s: device %d cannot lead ranks of several processes: %s; their calls go by the "
            "host's memory",
            led->comm->identity.name, d->number, tt_last_error());
    atomic_store(&led->rows[led->me]->serves, status == TUTTI_OK);
    return TUTTI_OK;
}

/* Whole slices, on all ranks as many, for it is one device. */
static uint64_t pad_bytes(const struct tt_led *led)
{
    const struct tt_comm *comm = led->comm;
    struct tt_dev_facts facts;
    uint64_t bytes = comm->settings.device_pad_bytes;
    if (bytes == 0 && led->dev->facts(comm->device->number, &facts) == TT_DEV_OK)
        bytes = facts.bytes / PAD_SHARE < PAD_MOST ? facts.bytes / PAD_SHARE : PAD_MOST;
    return bytes / led->cell_bytes * led->cell_bytes;
}

tutti_status tt_led_connect(struct tt_comm *comm, const struct tt_device_info *infos, size_t stride)
{
    const char *why = comm->device != NULL ? not_led(comm, infos, stride) : NULL;
    if (comm->device == NULL)
        return TUTTI_OK;
    comm->device->not_led = why;
    if (why != NULL)
        return TUTTI_OK;
    struct tt_led *led = calloc(1, sizeof *led);
    if (led == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the ranks of device %d", comm->device->number);
    comm->device->led = led;
    led->meeting =
        (struct tt_meeting){ .begin = tt_led_begin, .advance = tt_led_advance, .leave = tt_led_leave };
    led->comm = comm;
    led->dev = comm->device->dev;
    led->n = comm->n;
    led->me = comm->rank;
    led->cell_bytes = UINT64_C(1) << (63 - __builtin_clzll(comm->device->cells_bytes / 2)); /* as calls are */
    led->pad_bytes = pad_bytes(led);
    led->leader_pidfd = -1;
    tutti_status status = find_rows(led, infos, stride);
    if (status == TUTTI_OK && led->me == led->leader)
        return lead(led);
    if (status == TUTTI_OK && !led->same_process[led->me])
        led->leader_pidfd = (int)syscall(SYS_pidfd_open, (pid_t)infos->process, 0);
    return status;
}

void tt_led_free(struct tt_led *led, bool drained)
{
    for (int r = 0; r < led->n; r++) {
        if (drained && led->pinned[r])
            led->dev->memory.unpin(led->memory[r]);
        if (drained && led->arenas[r] != NULL)
            tt_arena_release(led->arenas[r]);
    }
    if (drained && led->bases_there != NULL)
        led->dev->memory.free(led->bases_there);
    if (drained && led->blocks_over != NULL)
        led->dev->memory.free(led->blocks_over);
    if (drained && led->pad.segment.base != NULL)
        led->dev->segment.free(&led->pad.segment);
    if (led->leader_pidfd >= 0)
        close(led->leader_pidfd);
    free(led);
}

/* --- For people */

static bool serves(const struct tt_comm *comm)
{
    const struct tt_led *led = comm->device->led;
    return led != NULL && atomic_load(&led->rows[led->leader]->serves);
}

uint64_t tt_device_bytes(const struct tt_comm *comm)
{
    const struct tt_led *led = comm->device->led;
    return led != NULL ? led->pad.segment.bytes : 0;
}

const char *tt_device_executor(const struct tt_comm *comm)
{
    const struct tt_spin *spin = comm->device->spin;
    return tt_local_decides(comm) ? "L" : serves(comm) ? "W" : spin != NULL && spin->serves ? "S" : "H";
}

void tt_device_why(
    const struct tt_comm *comm, enum tt_collective collective, uint64_t bytes, struct tt_text *a)
{
    const struct tt_led *led = comm->device->led;
    const struct tt_settings *settings = &comm->settings;
    if (tt_local_decides(comm)) {
        tt_put(a, "on CUDA streams: L, one kernel for all ranks, where it reaches their buffers; else H\n");
        tt_put(a, "not W, a leader's kernel: %s\n", comm->device->not_led);
        return;
    }
    tt_put(a, "not L, one kernel: %s\n", tt_local_peers_why_not(comm));
    if (comm->device->spin->serves) {
        bool spins = tt_spin_has(collective) && tt_spin_pays(settings, comm->n, bytes);
        tt_put(a, "on CUDA streams: %s%s\n",
            spins ? "S, kernels of several devices" : "H, by the host's memory",
            tt_spin_has(collective) ? "" : "; kernels of several devices do not do this collective");
        tt_spin_put(settings, comm->n, bytes, a);
        return;
    }
    tt_put(a, "not S, kernels of several devices: %s\n", comm->device->spin->why);
    if (!serves(comm)) {
        tt_put(a, "not W, a leader's kernel: %s\non CUDA streams: H, by the host's memory\n",
            led != NULL ? "the leader's device did not pass its trial, as the log says"
                        : comm->device->not_led);
        return;
    }
    bool pays = tt_led_has(collective) && tt_led_pays(settings, comm->n, bytes, led->pad_bytes);
    tt_put(a, "on CUDA streams: %s%s\n", pays ? "W, a leader's kernel" : "H, by the host's memory",
        tt_led_has(collective) ? "" : "; a leader's kernel does not do this collective");
    tt_led_put(settings, comm->n, bytes, led->pad_bytes, a);
}

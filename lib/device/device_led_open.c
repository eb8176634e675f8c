/* SPDX-License-Identifier: BSD-3-Clause */
/* device_led_open.c: who leads the ranks that several processes have on one device, and what a leader needs.
 *
 * All ranks tell each other where their pinned memory is, and of which device, with their addresses. Whoever
 * reads that comes to the same end. One rank leads all, and each leads the messages that it receives: so each
 * pins the others' memory, which it has mapped, and tries whether its device reaches all of it; what came of
 * that stands in its row before any rank may call. */
#include "device/device_led.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "device/device_local.h"
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
    info->process = tt_process_self();
    info->present = 1;
    struct tt_led_shared *shared = shared_of(d);
    memset(shared, 0, sizeof *shared);
    atomic_init(&shared->row.turn, 2);
    for (int r = 0; r < 2 * TT_LED_RANKS; r++)
        atomic_init(&shared->messages[r % 2][r / 2].turn, 2);
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
    struct tt_arena **arena = &led->reach->arenas[rank];
    if (rank == led->me)
        return led->comm->device->pinned;
    *arena = tt_arena_find(info->arena);
    return *arena != NULL ? (*arena)->base + info->offset : NULL;
}

/* What the rank at that memory shares. */
static struct tt_led_shared *shared_at(const struct tt_led *led, uint8_t *memory)
{
    const struct tt_device *d = led->comm->device;
    return (struct tt_led_shared *)(void *)(memory + ((uint8_t *)shared_of(d) - d->pinned));
}

static tutti_status find_rows(struct tt_led *led, const struct tt_device_info *infos, size_t stride)
{
    struct tt_led_reach *reach = led->reach;
    for (int r = 0; r < led->n; r++) {
        const struct tt_device_info *info = info_of(infos, stride, r);
        uint8_t *memory = find_memory(led, info, r);
        if (memory == NULL)
            return tt_fail(TUTTI_SYSTEM_ERROR, "the memory of rank %d is not mapped at rank %d", r, led->me);
        reach->memory[r] = memory;
        reach->seen[r] = (uint8_t *)(uintptr_t)info->seen; /* of this process */
        reach->here[r] = same_process(info, info_of(infos, stride, led->me));
        if (!reach->here[r])
            tt_process_watch(&reach->processes[r], &info->process);
        led->ranks[r] = r;
        led->rows[r] = &shared_at(led, memory)->row;
        led->same_process[r] = same_process(info, infos);
    }
    return TUTTI_OK;
}

/* --- Messages of two processes */

static const struct tt_meeting workers_part = {
    .begin = tt_led_begin, .advance = tt_led_advance, .leave = tt_led_leave
};

/* As collectives: cells as messages by the host have, and a part of the sender's pad. */
static void set_pair(struct tt_led *pair, const struct tt_led *led, int peer, bool receives)
{
    const struct tt_device *d = led->comm->device;
    struct tt_led_shared *mine = shared_of(d), *theirs = shared_at(led, led->reach->memory[peer]);
    uint64_t cell = d->cells_bytes / (d->ngates - 1) / 64 * 64, part = 2 * led->pad_bytes / (uint64_t)led->n;
    *pair = (struct tt_led){ .meeting = workers_part,
        .comm = led->comm,
        .dev = led->dev,
        .reach = led->reach,
        .n = 2,
        .me = receives,
        .leader = 1,
        .same_process = { false, true },
        .cells = d->cells + 2 * (uint64_t)peer * cell,
        .cell_bytes = cell,
        .pad_bytes = part / cell * cell };
    pair->meeting.pair = true;
    pair->ranks[receives] = led->me;
    pair->ranks[!receives] = peer;
    pair->rows[receives] = &mine->messages[receives][peer];
    pair->rows[!receives] = &theirs->messages[!receives][led->me];
}

/* It is the only rank of its process. Others of a process meet on the host (device_local_peers.c), and may
 * share a queue: what one awaits from another process could stand before what the other one sends there. */
static bool is_single(const struct tt_led *led, const struct tt_device_info *infos, size_t stride, int rank)
{
    int here = 0;
    for (int r = 0; r < led->n; r++)
        here += same_process(info_of(infos, stride, r), info_of(infos, stride, rank));
    return here == 1;
}

static tutti_status open_messages(struct tt_led *led, const struct tt_device_info *infos, size_t stride)
{
    struct tt_led_reach *reach = led->reach;
    bool single = is_single(led, infos, stride, led->me);
    reach->messages = calloc(led->comm->device->ngates, sizeof *reach->messages);
    if (reach->messages == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for messages on device %d", led->comm->device->number);
    for (int r = 0; r < led->n; r++)
        for (int receives = 0; receives < 2 && single && r != led->me && is_single(led, infos, stride, r);
             receives++)
            set_pair(&reach->messages[tt_device_gate(r, receives)], led, r, receives);
    return TUTTI_OK;
}

/* --- The leader */

/* Of ranks of this process the memory is pinned already, by themselves. */
static enum tt_dev_error pin_all(struct tt_led *led)
{
    const struct tt_device *d = led->comm->device;
    enum tt_dev_error error = TT_DEV_OK;
    struct tt_led_reach *reach = led->reach;
    for (int r = 0; r < led->n && error == TT_DEV_OK; r++) {
        void *seen = NULL;
        if (reach->here[r])
            continue;
        error = led->dev->memory.pin(reach->memory[r], d->pinned_bytes, &seen);
        reach->seen[r] = seen;
        reach->pinned[r] = error == TT_DEV_OK;
    }
    return error;
}

static enum tt_dev_error allocate(struct tt_led *led)
{
    void *bases = NULL, *counted = NULL;
    struct tt_led_reach *reach = led->reach;
    size_t bytes = TT_LED_KERNELS * sizeof *reach->bases_there;
    enum tt_dev_error error = led->dev->memory.alloc(bytes, &bases);
    reach->bases_there = bases;
    if (error == TT_DEV_OK)
        error = led->dev->memory.alloc(TRIAL_BYTES, &counted);
    reach->blocks_over = counted;
    if (error == TT_DEV_OK)
        error = tt_device_memory_clear(led->dev, bases, bytes);
    return error == TT_DEV_OK ? tt_device_memory_clear(led->dev, counted, TRIAL_BYTES) : error;
}

/* Where the words of this rank's trial come back. */
static size_t trial_at(const struct tt_led *led)
{
    const struct tt_device *d = led->comm->device;
    return (size_t)(d->cells - d->pinned) + TRIAL_BYTES * (1 + (size_t)led->me);
}

/* A kernel fetches what each rank has said, and each gets all of it back. */
static enum tt_dev_error launch_trial(struct tt_led *led, void *stream)
{
    const struct tt_device *d = led->comm->device;
    size_t cells = (size_t)(d->cells - d->pinned);
    struct tt_fused_params params = { .rects = (uint32_t)led->n, .divisor = 1 };
    for (int r = 0; r < led->n; r++) {
        params.own.in[r] = led->reach->seen[r] + cells;
        params.own.out[r] = led->reach->seen[r] + trial_at(led);
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
    bool all = true;
    for (int r = 0; r < led->n; r++) {
        const uint64_t *words = (const uint64_t *)(const void *)(led->reach->memory[r] + trial_at(led));
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
    return tt_importer_open(led->dev, d->number, led->n, &led->reach->importer, &shared_of(d)->importer);
}

/* All ranks, or messages. */
static bool leads_some(const struct tt_led *led)
{
    bool leads = led->me == led->leader;
    for (int r = 0; r < led->n; r++)
        leads = leads || tt_led_pair(led, r, true) != NULL;
    return leads;
}

/* If it cannot, what it would lead goes by the host's memory, for it is its row that says so. */
static tutti_status lead(struct tt_led *led)
{
    struct tt_device *d = led->comm->device;
    int before;
    tutti_status status = tt_device_enter(d, &before);
    if (status != TUTTI_OK)
        return status;
    status = try(led);
    tt_device_leave(d, before);
    if (status != TUTTI_OK)
        tt_log(TT_LOG_WARN,
            "%s, rank %d: device %d cannot lead ranks of several processes: %s; %s go by the host's memory",
            led->comm->identity.name, led->me, d->number, tt_last_error(),
            led->me == led->leader ? "their calls" : "messages to this rank");
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

static void warn_of_imports(const struct tt_comm *comm)
{
    if (comm->rank == 0 && comm->settings.device_import == TT_IMPORT_ALL)
        tt_log(TT_LOG_WARN,
            "%s: device_import is all: the ranks on device %d map all memory of it that calls use, as a "
            "whole, and "
            "may read and write it (docs/settings.md)",
            comm->identity.name, comm->device->number);
}

static tutti_status make(struct tt_comm *comm)
{
    struct tt_device *d = comm->device;
    struct tt_led *led = calloc(1, sizeof *led);
    struct tt_led_reach *reach = calloc(1, sizeof *reach);
    if (led == NULL || reach == NULL) {
        free(led);
        free(reach);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the ranks of device %d", d->number);
    }
    reach->n = comm->n;
    reach->bases = shared_of(d)->bases;
    d->exporters = reach->exporters;
    d->led = led;
    *led = (struct tt_led){ .meeting = workers_part,
        .comm = comm,
        .dev = d->dev,
        .reach = reach,
        .n = comm->n,
        .me = comm->rank,
        .cells = d->cells,
        .cell_bytes = UINT64_C(1) << (63 - __builtin_clzll(d->cells_bytes / 2)) }; /* as calls are */
    led->pad_bytes = pad_bytes(led);
    return TUTTI_OK;
}

tutti_status tt_led_connect(struct tt_comm *comm, const struct tt_device_info *infos, size_t stride)
{
    const char *why = comm->device != NULL ? not_led(comm, infos, stride) : NULL;
    if (comm->device == NULL)
        return TUTTI_OK;
    comm->device->lacks.leader = why;
    if (why != NULL)
        return TUTTI_OK;
    warn_of_imports(comm);
    tutti_status status = make(comm);
    if (status == TUTTI_OK)
        status = find_rows(comm->device->led, infos, stride);
    if (status == TUTTI_OK)
        status = open_messages(comm->device->led, infos, stride);
    return status == TUTTI_OK && leads_some(comm->device->led) ? lead(comm->device->led) : status;
}

static void unpin_all(struct tt_led *led)
{
    struct tt_led_reach *reach = led->reach;
    for (int r = 0; r < led->n; r++) {
        if (reach->pinned[r])
            led->dev->memory.unpin(reach->memory[r]);
        reach->pinned[r] = false;
    }
}

void tt_led_free(struct tt_led *led, bool drained)
{
    struct tt_led_reach *reach = led->reach;
    if (drained)
        unpin_all(led);
    for (int r = 0; r < led->n; r++) {
        if (drained && reach->arenas[r] != NULL)
            tt_arena_release(reach->arenas[r]);
        tt_process_unwatch(&reach->processes[r]);
    }
    if (drained && reach->bases_there != NULL)
        led->dev->memory.free(reach->bases_there);
    if (drained && reach->blocks_over != NULL)
        led->dev->memory.free(reach->blocks_over);
    if (drained && reach->pad.base != NULL)
        led->dev->segment.free(&reach->pad);
    free(reach->messages);
    free(reach);
    free(led);
}

void tt_led_close(struct tt_led *led, bool passed, bool kept)
{
    if (!kept)
        tt_led_free(led, passed);
    else if (passed)
        unpin_all(led);
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
    return led != NULL ? led->reach->pad.bytes : 0;
}

const char *tt_device_executor(const struct tt_comm *comm)
{
    const struct tt_spin *spin = comm->device->spin;
    return tt_local_decides(comm) ? "L" : serves(comm) ? "W" : spin != NULL && spin->serves ? "S" : "H";
}

bool tt_device_goes_alone(const struct tt_comm *comm)
{
    return comm->device == NULL || comm->device->spin == NULL || tt_spin_goes_alone(comm->device->spin);
}

/* Who would meet for such a call, of any of this rank's messages; NULL: nobody does. */
static const struct tt_led *find_led(const struct tt_comm *comm, enum tt_collective collective)
{
    const struct tt_led *led = comm->device->led, *pair = NULL;
    if (!tt_collectives[collective].p2p)
        return led;
    for (int r = 0; r < led->n && pair == NULL; r++)
        pair = tt_led_pair(led, r, collective == TT_P2P_RECV);
    return pair;
}

void tt_device_why(
    const struct tt_comm *comm, enum tt_collective collective, uint64_t bytes, struct tt_text *a)
{
    const struct tt_led *led = comm->device->led;
    const struct tt_settings *settings = &comm->settings;
    if (tt_local_decides(comm)) {
        const char *wordless = comm->device->lacks.words;
        tt_put(a, "on CUDA streams: L, one kernel for all ranks, where it reaches their buffers; else %s\n",
            wordless == NULL ? "H" : "refused");
        if (wordless != NULL)
            tt_put(a,
                "not H, by the host's memory: streams of device %d cannot wait for words of memory: %s\n",
                comm->device->number, wordless);
        tt_put(a, "not W, a leader's kernel: %s\n", comm->device->lacks.leader);
        return;
    }
    tt_put(a, "not L, one kernel: %s\n", tt_local_peers_why_not(comm));
    if (comm->device->spin->serves) {
        bool spins = tt_spin_has(collective) && tt_spin_pays(settings, comm->n, bytes);
        tt_put(a, "on CUDA streams: %s%s\n",
            spins ? "S, kernels of several devices" : "H, by the host's memory",
            tt_spin_has(collective) ? "" : "; kernels of several devices do not do this collective");
        tt_put(a, "  long calls read all ranks' buffers %s\n", tt_spin_says_where(comm->device->spin));
        tt_spin_put(settings, comm->n, bytes, a);
        return;
    }
    tt_put(a, "not S, kernels of several devices: %s\n", comm->device->spin->why);
    if (!serves(comm)) {
        tt_put(a, "not W, a leader's kernel: %s\non CUDA streams: H, by the host's memory\n",
            led != NULL ? "the leader's device did not pass its trial, as the log says"
                        : comm->device->lacks.leader);
        return;
    }
    led = find_led(comm, collective);
    if (led == NULL) {
        tt_put(a,
            "on CUDA streams: H, by the host's memory; not W, a kernel of the receiver's, which serves ranks "
            "that have a process each\n");
        return;
    }
    bool pays = tt_led_has(collective) && tt_led_pays(settings, led->n, bytes, led->pad_bytes);
    tt_put(a, "on CUDA streams: %s%s\n",
        !pays               ? "H, by the host's memory"
        : led->meeting.pair ? "W, a kernel of the receiver's"
                            : "W, a leader's kernel",
        tt_led_has(collective) ? "" : "; a leader's kernel does not do this collective");
    tt_led_put(settings, led->n, bytes, led->pad_bytes, a);
}

/* A copy, if both ends are in this process; else a kernel of the receiver's, if that pays. */
static uint64_t price_of_message(const struct tt_comm *comm, int peer, bool receives, uint64_t bytes)
{
    const struct tt_settings *settings = &comm->settings;
    const struct tt_pairs *pairs = tt_local_peers_pairs(comm);
    const struct tt_led *pair = serves(comm) ? tt_led_pair(comm->device->led, peer, receives) : NULL;
    if (pairs != NULL && atomic_load(&pairs->pairs[tt_device_gate(peer, receives)]) != NULL)
        return tt_mapped_time(&settings->costs, 2, bytes);
    if (pair != NULL && tt_led_pays(settings, pair->n, bytes, pair->pad_bytes))
        return tt_led_time(settings, pair->n, bytes, pair->pad_bytes);
    return tt_staged_time(&settings->costs, 2, bytes);
}

uint64_t tt_device_price(const struct tt_comm *comm, enum tt_collective collective, uint64_t bytes)
{
    const struct tt_settings *settings = &comm->settings;
    const struct tt_costs *costs = &settings->costs;
    const struct tt_spin *spin = comm->device->spin;
    const struct tt_led *led = comm->device->led;
    int n = comm->n;
    if (tt_local_decides(comm)) /* which reaches them without having mapped them */
        return tt_mapped_time(costs, n, bytes);
    if (spin != NULL && spin->serves && tt_spin_has(collective) && tt_spin_pays(settings, n, bytes))
        return tt_spin_time(costs, n, bytes);
    if (serves(comm) && tt_led_has(collective) && tt_led_pays(settings, n, bytes, led->pad_bytes))
        return tt_led_time(settings, n, bytes, led->pad_bytes);
    return tt_staged_time(costs, n, bytes);
}

uint64_t tt_device_call_price(const struct tt_call *call)
{
    uint64_t bytes = call->collective == TT_BARRIER ? 0 : call->total * tutti_type_bytes(call->type);
    if (!tt_collectives[call->collective].p2p)
        return tt_device_price(call->comm, call->collective, bytes);
    return price_of_message(call->comm, call->root, call->collective == TT_P2P_RECV, bytes);
}

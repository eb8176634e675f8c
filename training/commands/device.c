/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c: which rank has which device. CUDA is touched here, by ranks, and not before they were forked. */
#include "training/commands/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What ranks tell each other. */
struct place {
    char machine[64];
    struct tr_cuda_facts facts;
};

static bool gather(struct place *all, const struct place *mine, tutti_comm *world, struct tr_error *e)
{
    all[0] = *mine;
    return !world ||
           tutti_all_gather(mine, all, sizeof *mine, TUTTI_UINT8, world, tutti_no_stream()) == TUTTI_OK ||
           tr_fail(e, "the devices of all ranks: %s", tr_why(world));
}

static bool same_machine(const struct place *a, const struct place *b)
{
    return !strncmp(a->machine, b->machine, sizeof a->machine);
}

/* Of the ranks of this machine the one after the other. */
static bool choose(const struct place *all, int rank, int *number, struct tr_error *e)
{
    int count = 0, before = 0;
    if (tutti_device_count(&count) != TUTTI_OK || count == 0)
        return tr_fail(
            e, "rank %d has no device: %s; legal is --device host", rank, tutti_get_last_error(NULL));
    for (int r = 0; r < rank; r++)
        before += same_machine(&all[r], &all[rank]);
    *number = before % count;
    return true;
}

static bool same_device(const struct place *a, const struct place *b)
{
    return same_machine(a, b) && !strcmp(a->facts.address, b->facts.address);
}

static int count_devices(const struct place *all, int n)
{
    int devices = 0;
    for (int r = 0; r < n; r++) {
        int before = 0;
        while (!same_device(&all[before], &all[r]))
            before++;
        devices += before == r;
    }
    return devices;
}

/* Equal devices, and how many ranks have this one. */
static bool alike(const struct place *all, int rank, int n, int *sharing, struct tr_error *e)
{
    *sharing = 0;
    for (int r = 0; r < n; r++) {
        const struct tr_cuda_facts *a = &all[0].facts, *b = &all[r].facts;
        if (strcmp(a->name, b->name) || a->multiprocessors != b->multiprocessors)
            return tr_fail(e,
                "rank 0 has a device %s of %d multiprocessors, and rank %d a %s of %d; legal are devices of "
                "one kind",
                a->name, a->multiprocessors, r, b->name, b->multiprocessors);
        *sharing += same_device(&all[r], &all[rank]);
    }
    return true;
}

/* A communicator of the same ranks whose calls take the device's memory. */
static bool join(struct tr_seat *s, tutti_comm *world, struct tr_error *e)
{
    char options[32];
    snprintf(options, sizeof options, "device=%d", s->device.number);
    tutti_config config = { .size = sizeof config, .name = "devices", .options = options };
    s->own = tutti_comm_split(world, 0, tutti_comm_rank(world), &config, &s->ranks) == TUTTI_OK;
    return s->own || tr_fail(e, "%s", tr_why(world));
}

static bool sit_down(
    struct tr_seat *s, const struct tr_options *o, struct place *all, tutti_comm *world, struct tr_error *e)
{
    int rank = world ? tutti_comm_rank(world) : 0, n = world ? tutti_comm_size(world) : 1;
    int number = 0, sharing = 0;
    struct place mine = { .machine = "" };
    const struct tr_cuda_library *library = tr_cuda_load(e);
    gethostname(mine.machine, sizeof mine.machine - 1);
    if (!library || !gather(all, &mine, world, e) || !choose(all, rank, &number, e) ||
        !tr_device_use(&s->device, library, number, e))
        return false;
    const struct tr_plan *p = &o->plan;
    if (p->numbers.free_order)
        tr_device_free_order(&s->device, p->numbers.bfloat16 ? TR_CUBLAS_BFLOAT16
                                         : p->numbers.tf32   ? TR_CUBLAS_TF32
                                                             : TR_CUBLAS_FLOAT32);
    if (*o->tune)
        tr_device_tune(&s->device, o->tune);
    mine.facts = s->device.facts;
    if (!gather(all, &mine, world, e) || !alike(all, rank, n, &sharing, e))
        return false;
    s->kernels = &s->device.set;
    s->bytes = all[rank].facts.free / sharing;
    s->devices = count_devices(all, n);
    return !world || join(s, world, e);
}

bool tr_seat_take(struct tr_seat *s, const struct tr_options *o, tutti_comm *world, struct tr_error *e)
{
    *s = (struct tr_seat){ .ranks = world };
    if (!o->device) {
        s->kernels = tr_options_kernels(o, e);
        return s->kernels;
    }
    struct place *all = tr_new(world ? (size_t)tutti_comm_size(world) : 1, sizeof *all);
    bool ok = sit_down(s, o, all, world, e);
    free(all);
    return ok;
}

void tr_seat_leave(struct tr_seat *s)
{
    if (s->own)
        tutti_comm_destroy(s->ranks);
    s->own = false;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* spin_home.c: what ranks and communicators of a process share: the pads of ranks, and how many blocks of
 * kernels that wait its devices have room for.
 *
 * Two kernels that wait on one device at once must both be there as a whole: else blocks of one would hold
 * the places that the other needs to end its peers' wait. So each communicator has some of the device's
 * places for itself as long as it is open: a quarter of the multiprocessors, as long as that leaves as
 * much again, and half of what is left after that. */
#include <stdlib.h>

#include "spin/spin.h"

struct tt_spin_home {
    int n;
    _Atomic int users; /* the slot, and ranks */
    _Atomic bool busy; /* a kernel of a rank that has left may still come */
    struct tt_dev_segment pads[TT_SPIN_RANKS];
};

struct tt_spin_home *tt_spin_home_join(tt_spin_slot *slot, int n)
{
    struct tt_spin_home *home = atomic_load(slot), *made = NULL;
    if (home == NULL && (made = calloc(1, sizeof *made)) == NULL)
        return NULL;
    if (made != NULL) {
        made->n = n;
        atomic_init(&made->users, 1);
        if (atomic_compare_exchange_strong(slot, &home, made))
            home = made;
        else
            free(made);
    }
    atomic_fetch_add(&home->users, 1);
    return home;
}

struct tt_dev_segment *tt_spin_home_pad(struct tt_spin_home *home, int rank)
{
    return &home->pads[rank];
}

void tt_spin_home_leave(struct tt_spin_home *home, const struct tt_dev *dev, bool drained)
{
    if (home == NULL)
        return;
    if (!drained)
        atomic_store(&home->busy, true);
    if (atomic_fetch_sub(&home->users, 1) > 1)
        return;
    for (int r = 0; r < home->n && !atomic_load(&home->busy); r++)
        if (home->pads[r].base != NULL)
            dev->segment.free(&home->pads[r]);
    free(home);
}

/* --- Blocks. */

/* How many blocks of the kernel that has room for the fewest are on a device at once. */
static uint32_t places_of(const struct tt_dev *dev, uint32_t sms)
{
    int least = 1 << 20;
    for (uint32_t kernel = TT_KERNEL_FIRST_DIRECT; kernel < TT_KERNEL_NUMBERS; kernel++) {
        int fits = 0;
        if (dev->occupancy(kernel, TT_DIRECT_BLOCK, 0, &fits) != TT_DEV_OK)
            return 0;
        least = fits < least ? fits : least;
    }
    return sms * (uint32_t)least;
}

uint32_t tt_spin_take_blocks(const struct tt_spin_setup *s)
{
    struct tt_dev_facts facts;
    const struct tt_dev *dev = s->dev;
    if (s->places_taken == NULL || dev->facts(s->device, &facts) != TT_DEV_OK)
        return 0;
    uint32_t all = places_of(dev, (uint32_t)facts.sms), most = (uint32_t)facts.sms / 4;
    uint32_t used = atomic_load(s->places_taken), blocks;
    most = most < TT_PAD_BLOCKS ? most : TT_PAD_BLOCKS;
    do {
        uint32_t half = used < all ? (all - used) / 2 : 0;
        blocks = most < half ? most : half;
    } while (!atomic_compare_exchange_weak(s->places_taken, &used, used + blocks));
    return blocks;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_meet.cuh: how kernels of several devices begin, meet, and end (cuda_direct.h). */
#ifndef TT_KERNELS_CUDA_MEET_CUH
#define TT_KERNELS_CUDA_MEET_CUH
#include "kernels/cuda/cuda_direct.h"
#include "kernels/cuda/cuda_primitives.cuh"

static_assert(sizeof(tt_ll_vector) == 32 && offsetof(tt_pad, flag) == 384 &&
                  offsetof(tt_pad, ll) % 128 == 0 && offsetof(tt_pad, room) % 128 == 0 &&
                  sizeof(tt_pad_room) % 128 == 0,
    "");
static_assert(sizeof(tt_direct_words) == 128 && offsetof(tt_direct_words, begun) == 64 &&
                  sizeof(tt_direct_params) == 600 && sizeof(tt_direct_list_params) == 3184,
    "");

#if defined(__CUDACC__)
enum { POLLS_PER_LOOK = 1024 };
#else
enum { POLLS_PER_LOOK = 4 }; /* emulated, a poll takes as long as other threads run */
#endif

/* Functions of `Params` serve a call that has a kernel, and a list. */

/* A thread's waits: they end by what they wait for, because the host says so, or because a rank calls
 * something else. */
struct patience {
    uint64_t epoch; /* the first of this call */
    uint32_t signature; /* of the call */
    uint32_t polls;
    bool is_over;
};

INLINE uint64_t call_word(uint32_t signature, uint64_t epoch)
{
    return static_cast<uint32_t>(epoch) | static_cast<uint64_t>(signature) << 32;
}

/* For the host, the number of the call with this epoch; 0: it has none. */
INLINE uint64_t number_of_call(const tt_direct_params &p, uint64_t)
{
    return p.call;
}
INLINE uint64_t number_of_call(const tt_direct_list_params &p, uint64_t epoch)
{
    return p.call != 0 ? p.call + (epoch - load_relaxed_64(&p.pads[p.rank]->epoch) - 1) : 0;
}

/* A rank that has not begun this call, or has ended it, shows another epoch. */
template <class Params> INLINE bool calls_differ(const Params &p, const patience &waits)
{
    const uint64_t own = call_word(waits.signature, waits.epoch);
    for (uint32_t k = 0; k < p.ranks; k++) {
        const uint64_t other = k != p.rank ? load_relaxed_64(&p.pads[p.rank]->call[k]) : own;
        if (other != own && static_cast<uint32_t>(other) == static_cast<uint32_t>(own)) {
            store_relaxed_64(&p.words->differs, k + 1);
            store_relaxed_64(&p.words->differs_in, number_of_call(p, waits.epoch));
            return true;
        }
    }
    return false;
}

/* Is asked in each round of a loop that polls; true: the loop is to end, and so are all waits to come. */
template <class Params> INLINE bool gives_up(const Params &p, patience &waits)
{
    poll_pause();
    if (waits.is_over || ++waits.polls % POLLS_PER_LOOK != 0)
        return waits.is_over;
    waits.is_over = load_relaxed(&p.words->abort) != 0 || calls_differ(p, waits);
    if (waits.is_over)
        store_relaxed(&p.pads[p.rank]->is_left, 1);
    return waits.is_over;
}

/* A part of a call begins with this epoch, of which all ranks are told. */
template <class Params> INLINE void begin_part(const Params &p, uint32_t signature, uint64_t epoch)
{
    if (block_index() != 0)
        return;
    for (uint32_t k = thread_index(); k < p.ranks; k += block_threads())
        store_relaxed_64(&p.pads[k]->call[p.rank], call_word(signature, epoch));
    if (thread_index() == 0)
        store_relaxed_64(&p.words->begun, epoch);
}

/* The first epoch of this call. */
INLINE uint64_t begin_direct(const tt_direct_params &p)
{
    const uint64_t epoch = load_relaxed_64(&p.pads[p.rank]->epoch) + 1;
    begin_part(p, p.signature, epoch);
    if (block_index() == 0 && thread_index() == 0 && p.call != 0)
        store_relaxed_64(&p.words->entered, p.call);
    return epoch;
}

/* Of each rank, whether this block waited for it in vain; shared by its threads, and set back before the
 * block meets others. */
struct meeting {
    uint8_t missed[TT_FUSED_RANKS];
    const uint8_t *source[TT_FUSED_RANKS], *result[TT_FUSED_RANKS]; /* MAPPED */
    uint32_t stays; /* of the first block: the host has not told it to leave */
};

/* True: the block is to leave, as a kernel of this rank, or another block of this one, has done. That may
 * happen at this moment, so threads tell each other, for all have to be at the same meetings. */
INLINE bool begin_meetings(const tt_direct_params &p, meeting &m)
{
    for (uint32_t k = thread_index(); k < TT_FUSED_RANKS; k += block_threads())
        m.missed[k] = 0;
    return any_in_block(load_relaxed(&p.pads[p.rank]->is_left) != 0);
}

/* True: this block has heard of all ranks. All threads take part. */
INLINE bool heard_all(const meeting &m)
{
    bool all = true;
    sync_block();
    for (uint32_t k = 0; k < TT_FUSED_RANKS; k++)
        all = all && m.missed[k] == 0;
    return all;
}

/* This block meets its fellows of all other ranks: what their threads stored before they came is seen by all
 * threads here, and the reverse. False: some did not come, and the block is to end. All threads take part.
 * `releases` is false in a test only. */
template <bool releases = true>
INLINE bool meet(const tt_direct_params &p, meeting &m, patience waits, uint64_t epoch)
{
    sync_block();
    for (uint32_t k = thread_index(); k < p.ranks; k += block_threads())
        if (k != p.rank) {
            uint64_t *flag = &p.pads[k]->flag[block_index()][p.rank];
            if (releases)
                store_release_64(flag, epoch);
            else
                store_relaxed_64(flag, epoch);
        }
    for (uint32_t k = thread_index(); k < p.ranks; k += block_threads())
        while (k != p.rank && load_acquire_64(&p.pads[p.rank]->flag[block_index()][k]) < epoch)
            if (gives_up(p, waits)) {
                m.missed[k] = 1;
                break;
            }
    return heard_all(m);
}

/* Tells all ranks where they reach this one's buffers, its own blocks with them. From then on others may
 * read there, and this one reads theirs; so the host, which has said that kernels are to leave and then has
 * looked whether one is out, knows: either it has seen this one, or this one sees that. */
INLINE void tell_places(const tt_direct_params &p, meeting &m, uint64_t epoch)
{
    if (thread_index() == 0) {
        fence_system();
        m.stays = load_relaxed(&p.words->abort) == 0;
    }
    sync_block();
    for (uint32_t k = thread_index(); k < p.ranks && m.stays != 0; k += block_threads()) {
        store_relaxed_halves(p.pads[k]->place[p.rank], halves{ p.place[k][0], p.place[k][1] });
        store_release_64(&p.pads[k]->placed[p.rank], epoch);
    }
}

/* What another rank has told. Where nothing is taken from it, any address will do, if it reaches all. */
INLINE const uint8_t *address_of(const tt_direct_params &p, uint64_t place, bool is_taken)
{
    const void *any = p.pads[p.rank];
    const void *address = is_taken && place != 0 ? reach(reinterpret_cast<const uint8_t *>(~place)) : any;
    return place != 0 ? static_cast<const uint8_t *>(address) : nullptr;
}

/* This block finds where it reaches the buffers of all ranks, which so have come. False: some did not, and
 * the block is to end. `mapped`: all of them are reached, the same at all ranks. */
INLINE bool find_places(const tt_direct_params &p, meeting &m, patience waits, uint64_t epoch, bool &mapped)
{
    tt_pad *own = p.pads[p.rank];
    if (block_index() == 0)
        tell_places(p, m, epoch);
    for (uint32_t k = thread_index(); k < p.ranks; k += block_threads()) {
        while (m.missed[k] == 0 && load_acquire_64(&own->placed[k]) < epoch)
            m.missed[k] = gives_up(p, waits);
        if (m.missed[k] != 0)
            continue;
        const halves h = load_relaxed_halves(own->place[k]);
        m.source[k] = address_of(p, h.first, p.receive[k].bytes > 0);
        m.result[k] = address_of(p, h.second, p.shares != 0);
    }
    const bool all = heard_all(m);
    mapped = all;
    for (uint32_t k = 0; k < p.ranks && all; k++)
        mapped = mapped && m.source[k] != nullptr && m.result[k] != nullptr;
    return all;
}

/* Sets how far its rank is, and tells it; of the block that ends last. Returns whether a kernel has left. */
template <bool releases = true, class Params>
INLINE bool tell_end(const Params &p, uint64_t epoch, uint64_t call)
{
    tt_pad *own = p.pads[p.rank];
    store_relaxed(&own->blocks_over, 0);
    store_relaxed_64(&own->epoch, epoch);
    const bool left = load_relaxed(&own->is_left) != 0;
    uint64_t *told = left ? &p.words->left : &p.words->done;
    if (call == 0) {
        store_release_64(told, epoch);
        return left;
    }
    store_relaxed_64(told, epoch);
    if (releases)
        store_release_64(&p.words->over, call);
    else
        store_relaxed_64(&p.words->over, call);
    return left;
}

/* The block that ends last tells that the call is over: all others have read the epoch and count themselves
 * after all that they stored. Where it has told the others of its rank's buffers in its first epoch, and
 * left, they may still read there. */
INLINE void end_direct(const tt_direct_params &p, uint64_t epoch)
{
    tt_pad *own = p.pads[p.rank];
    sync_block();
    if (thread_index() != 0 || add_acquire_release(&own->blocks_over, 1) + 1 != grid_blocks())
        return;
    const uint64_t begun = load_relaxed_64(&own->epoch) + 1;
    const bool left = tell_end(p, epoch, p.call);
    const bool placed = p.maps != 0 && load_relaxed_64(&own->placed[p.rank]) == begun;
    while (left && placed && load_acquire(&p.words->abort) != TT_DIRECT_RELEASED)
        poll_pause();
}

#endif

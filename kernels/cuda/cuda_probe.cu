/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_probe.cu: kernels that use each word of cuda_primitives.cuh that orders something, for tests of the
 * emulator and of what the compiler makes of these words. */
#include "kernels/cuda/cuda_probe.h"
#include "kernels/cuda/cuda_list.cuh"
#include "kernels/cuda/cuda_rect.cuh"

struct exchange_shared {
    uint32_t number[1024];
};

/* PTX of probe_exchange: bar.sync shfl.sync bar.warp.sync */
template <uint32_t missing> KERNEL void AT_MOST_THREADS(1024) probe_exchange(tt_probe_params p)
{
    SHARED(exchange_shared, shared);
    const uint32_t me = thread_index(), threads = block_threads(), first = me - lane_index();
    const uint32_t lanes = threads - first < 32 ? threads - first : 32;
    uint32_t sum = 0;
    for (uint32_t round = 0; round < p.rounds; round++) {
        shared.number[me] = me + round;
        if (missing != 1)
            sync_block();
        sum += shared.number[(me + p.distance) % threads] - round;
        if (missing != 2)
            sync_block();
        if (lanes == 32)
            sum += shuffle(me, (lane_index() + 1) % 32);
        sync_warp();
    }
    p.result[grid_index()] = sum;
}

/* PTX of probe_any: bar.red.or.pred */
KERNEL void AT_MOST_THREADS(1024) probe_any(tt_probe_params p)
{
    const uint32_t asked[3] = { 0, block_threads(), block_threads() - 1 };
    uint32_t answers = 0;
    for (uint32_t round = 0; round < 3; round++)
        answers |= static_cast<uint32_t>(any_in_block(thread_index() == asked[round])) << round;
    p.result[grid_index()] = answers;
}

/* PTX of probe_hand_over: ld.acquire.sys.global.u32 ld.global.v4.u32 st.global.v4.u32
 * PTX of probe_hand_overILb1: st.release.sys.global.u32 */
template <bool releases> KERNEL void probe_hand_over(tt_probe_params p)
{
    if (block_index() == 0 && thread_index() == 0) {
        store_packet(p.data, packet{ { 1, 2, 3, 4 } });
        if (releases)
            store_release(p.flag, 1);
        else
            store_relaxed(p.flag, 1);
    }
    if (block_index() != 1)
        return;
    while (load_acquire(p.flag) == 0)
        poll_pause();
    const packet got = load_packet(p.data);
    p.result[grid_index()] = got.word[0] + got.word[1] + got.word[2] + got.word[3];
}

/* PTX of probe_count: red.release.sys.global.add.u32 ld.relaxed.sys.global.u32 ld.acquire.sys.global.u32 */
KERNEL void probe_count(tt_probe_params p)
{
    p.data[grid_index()] = 1;
    add_release(p.flag, 1);
    if (block_index() != 0)
        return;
    while (load_relaxed(p.flag) != grid_threads())
        poll_pause();
    uint32_t sum = load_acquire(p.flag);
    for (uint64_t i = 0; i < grid_threads(); i++)
        sum += p.data[i];
    p.result[grid_index()] = sum;
}

/* PTX of probe_turn: red.release.sys.global.add.u32 ld.relaxed.sys.global.u32 bar.sync */
KERNEL void probe_turn(tt_probe_params p)
{
    add_release(p.flag, 1);
    p.result[grid_index()] = load_relaxed(p.flag);
    sync_block();
    add_release(p.flag, 1);
    p.data[grid_index()] = load_relaxed(p.flag);
}

/* PTX of probe_follow: ld.relaxed.sys.global.u32 */
template <bool reaches> KERNEL void probe_follow(tt_probe_params p)
{
    uint32_t *address = reinterpret_cast<uint32_t *const *>(p.data)[0];
    const uint32_t *word = reaches ? reach(address) : address;
    uint32_t value = 0;
    while ((value = load_relaxed(word)) == 0)
        poll_pause();
    p.result[grid_index()] = value;
}

/* PTX of probe_stuck: bar.sync bar.warp.sync */
KERNEL void probe_stuck(tt_probe_params p)
{
    if (thread_index() % 2 == 0)
        sync_warp();
    else
        sync_block();
    p.result[grid_index()] = 1;
}

/* PTX of probe_over: bar.sync atom.acq_rel.gpu.global.add.u32
 * PTX of probe_overILb1: st.release.sys.global.u32 */
template <bool releases> KERNEL void probe_over(const PARAMS tt_fused_params p)
{
    SHARED(block_rect, b);
    begin_rect<uint8_t, false>(p, b);
    for (uint64_t at = grid_index(); at < b.count; at += grid_threads())
        for (uint32_t j = 0; j < b.dsts; j++)
            b.dst[j][at] = b.source[0][at];
    end_rect<releases>(p);
}

const void *const tt_probe_direct_relaxed =
    KERNEL_FUNCTION(tt_direct_params, direct_kernel<uint8_number, no_operations, false>);
const void *const tt_probe_list_relaxed = KERNEL_FUNCTION(tt_direct_list_params, list_kernel<1>);
const void *const tt_probe_list_apart = KERNEL_FUNCTION(tt_direct_list_params, list_kernel<2>);
const void *const tt_probe_exchange = KERNEL_FUNCTION(tt_probe_params, probe_exchange<0>);
const void *const tt_probe_exchange_unwritten = KERNEL_FUNCTION(tt_probe_params, probe_exchange<1>);
const void *const tt_probe_exchange_overwritten = KERNEL_FUNCTION(tt_probe_params, probe_exchange<2>);
const void *const tt_probe_any = KERNEL_FUNCTION(tt_probe_params, probe_any);
const void *const tt_probe_hand_over = KERNEL_FUNCTION(tt_probe_params, probe_hand_over<true>);
const void *const tt_probe_hand_over_relaxed = KERNEL_FUNCTION(tt_probe_params, probe_hand_over<false>);
const void *const tt_probe_count = KERNEL_FUNCTION(tt_probe_params, probe_count);
const void *const tt_probe_turn = KERNEL_FUNCTION(tt_probe_params, probe_turn);
const void *const tt_probe_over = KERNEL_FUNCTION(tt_fused_params, probe_over<true>);
const void *const tt_probe_over_relaxed = KERNEL_FUNCTION(tt_fused_params, probe_over<false>);
const void *const tt_probe_follow = KERNEL_FUNCTION(tt_probe_params, probe_follow<true>);
const void *const tt_probe_follow_as_it_is = KERNEL_FUNCTION(tt_probe_params, probe_follow<false>);
const void *const tt_probe_stuck = KERNEL_FUNCTION(tt_probe_params, probe_stuck);

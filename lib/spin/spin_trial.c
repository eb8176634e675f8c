/* SPDX-License-Identifier: BSD-3-Clause */
/* spin_trial.c: do kernels of these devices meet? Each rank's brings a word of its own to all others, by
 * packets and by pads. So what links, mappings and the driver say is believed only when it has been seen. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/wait.h"
#include "spin/spin.h"

enum { TRIAL_MS = 5000, LEAVE_MS = 1000, BLOCK = 32, WAYS = 2, WORD = sizeof(uint64_t) };

static uint64_t word_of(int rank, int way)
{
    return UINT64_C(0x7475747469000000) + (uint64_t)(way * TT_SPIN_RANKS + rank);
}

/* An all_gather of a word. */
static enum tt_dev_error launch(struct tt_spin *spin, int way, void *stream)
{
    struct tt_direct_params p = { .in = spin->its.cells_seen[0] + way * WORD,
        .out = spin->its.cells_seen[1] + way * spin->n * WORD,
        .words = spin->its.row_seen,
        .call = ++spin->made,
        .segment = tt_direct_segment((uint32_t)spin->n),
        .way = (uint32_t)way,
        .ranks = (uint32_t)spin->n,
        .rank = (uint32_t)spin->me };
    struct tt_rect rects[TT_SPIN_RANKS];
    for (int r = 0; r < spin->n; r++)
        rects[r] = (struct tt_rect){ .to = (uint64_t)r * WORD,
            .count = WORD,
            .sources = (uint8_t)(1U << r),
            .dsts = (uint8_t)((1U << spin->n) - 1) };
    tt_direct_set(&p, rects, (uint32_t)spin->n, 1);
    memcpy(p.pads, spin->pads, sizeof p.pads);
    struct tt_dev_launch what = { .kernel = tt_kernel_number(TT_KERNEL_DIRECT_MOVE, 0, 0),
        .grid = 1,
        .grid_y = 1,
        .block = BLOCK,
        .params = &p,
        .params_bytes = sizeof p };
    return spin->dev->launch(&what, stream);
}

/* Waits until the kernels are over, so long; then they are told to leave, and waited for a little more. */
static enum tt_dev_error await(struct tt_spin *spin, int64_t ms)
{
    struct tt_wait w;
    enum tt_dev_error error;
    int64_t until = tt_deadline_ns(ms), end = tt_deadline_ns(ms + LEAVE_MS);
    tt_wait_begin(&w, tt_wait_policy_for(1), NULL, 0);
    while ((error = spin->dev->stream.query(spin->trial)) == TT_DEV_NOT_READY && tt_now_ns() < end) {
        if (tt_now_ns() >= until || tt_comm_check(spin->comm) != TUTTI_OK)
            __atomic_store_n(&spin->its.row->words.abort, 1, __ATOMIC_RELEASE);
        tt_wait_idle(&w);
    }
    tt_wait_awake(&w);
    return error;
}

static bool has_all(const struct tt_spin *spin)
{
    bool all = tt_spin_load(&spin->its.row->words.over) == spin->made;
    for (int way = 0; way < WAYS; way++)
        for (int r = 0; r < spin->n; r++) {
            uint64_t word;
            memcpy(&word, spin->its.cells[1] + (way * spin->n + r) * WORD, sizeof word);
            all = all && word == word_of(r, way);
        }
    return all;
}

bool tt_spin_trial_launch(struct tt_spin *spin, char why[TT_SPIN_WHY])
{
    for (int way = 0; way < WAYS; way++) {
        uint64_t word = word_of(spin->me, way);
        memcpy(spin->its.cells[0] + way * WORD, &word, sizeof word);
    }
    memset(spin->its.cells[1], 0, (size_t)(WAYS * spin->n * WORD));
    enum tt_dev_error error = spin->dev->stream.create(&spin->trial);
    for (int way = 0; way < WAYS && error == TT_DEV_OK; way++)
        error = launch(spin, way, spin->trial);
    if (error != TT_DEV_OK)
        snprintf(why, TT_SPIN_WHY, "%.200s", spin->dev->why());
    return error == TT_DEV_OK;
}

bool tt_spin_trial_judge(struct tt_spin *spin, char why[TT_SPIN_WHY])
{
    enum tt_dev_error error = await(spin, TRIAL_MS);
    const char *wrong = NULL;
    if (error == TT_DEV_NOT_READY)
        wrong = "a kernel of the trial does not end";
    else if (error != TT_DEV_OK)
        wrong = spin->dev->why();
    else if (tt_spin_load(&spin->its.row->words.left) != 0)
        wrong = "kernels of the trial waited for each other in vain";
    else if (!has_all(spin))
        wrong = "what kernels of the trial sent did not arrive";
    if (wrong != NULL)
        snprintf(why, TT_SPIN_WHY, "%.200s", wrong);
    return wrong == NULL;
}

void tt_spin_trial_end(struct tt_spin *spin)
{
    if (spin->trial != NULL && await(spin, 0) != TT_DEV_NOT_READY)
        spin->dev->stream.destroy(spin->trial);
    spin->trial = NULL;
}

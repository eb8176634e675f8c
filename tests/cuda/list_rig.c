/* SPDX-License-Identifier: BSD-3-Clause */
/* list_rig.c: runs both ranks of the chain on threads, and adds up what they should have. */
#include "tests/cuda/list_rig.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dev_kernel.h"
#include "tests/cuda/direct_rig.h"

enum { CALLS = 6, COUNT = 60, RANKS = 2 };

struct rank {
    struct tt_direct_list_params list;
    struct tt_emulated_launch launch;
    _Alignas(64) float memory[CALLS + 1][COUNT + 4];
    pthread_t thread;
};

static void *run(void *of)
{
    struct rank *rank = of;
    tt_emulate_block(&rank->launch, 0);
    return NULL;
}

static void prepare(struct rank *rank, struct direct_rig *rig, uint32_t me)
{
    rank->list = (struct tt_direct_list_params){ .words = &rig->words[me],
        .call = 1,
        .ranks = RANKS,
        .rank = me,
        .type = TUTTI_FLOAT32,
        .row = TT_ROW_SUM,
        .shape = TT_CHAIN,
        .calls = CALLS };
    memcpy(rank->list.pads, rig->pads, sizeof rank->list.pads);
    for (int i = 0; i < COUNT; i++)
        rank->memory[0][i] = (float)(i + 100 * (int)me);
    for (uint32_t i = 0; i < CALLS; i++) /* one element less each time */
        rank->list.listed[i] = (struct tt_direct_listed){ rank->memory[i] + (i > 0), rank->memory[i + 1],
            (COUNT - i) * (uint32_t)sizeof(float), i };
}

bool list_rig_chain(const void *function, uint32_t threads, enum tt_emulation way, uint32_t order)
{
    struct rank *ranks = aligned_alloc(64, RANKS * sizeof *ranks);
    struct direct_rig *rig = direct_rig_create(RANKS, 0);
    struct tt_dev_kernel found = { function, 0 };
    bool right = ranks != NULL;
    if (function == NULL)
        tt_dev_kernel_find(tt_kernel_number(TT_KERNEL_DIRECT_LIST, TUTTI_FLOAT32, TUTTI_SUM), &found);
    for (uint32_t me = 0; me < RANKS && right; me++) {
        prepare(&ranks[me], rig, me);
        ranks[me].launch = (struct tt_emulated_launch){ found.function, &ranks[me].list, 1, 1, threads, way,
            (order + me) % 5 };
        right = pthread_create(&ranks[me].thread, NULL, run, &ranks[me]) == 0;
    }
    for (uint32_t me = 0; me < RANKS && right; me++) {
        while (__atomic_load_n(&rig->words[me].over, __ATOMIC_ACQUIRE) != CALLS)
            usleep(100);
        float factor = (float)(1 << (CALLS - 1));
        for (int i = 0; i < COUNT - CALLS + 1; i++) /* element i + CALLS - 1 of both operands */
            right = right && ranks[me].memory[CALLS][i] == (float)(2 * (i + CALLS - 1) + 100) * factor;
    }
    for (uint32_t me = 0; me < RANKS && ranks != NULL; me++)
        pthread_join(ranks[me].thread, NULL);
    direct_rig_free(rig);
    free(ranks);
    return right;
}

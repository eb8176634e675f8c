/* SPDX-License-Identifier: BSD-3-Clause */
/* single_reader.c: counts the readers of each cell. A bounce cell, of which IN and OUT have one for each
 * chunk, is read by sends alone; a cell of TMP is read by any step that has it as an operand. */
#include "base/single_reader.h"

#include <string.h>

static uint32_t *count_of(const struct tt_schedule *s, uint32_t *readers, unsigned buffer, uint32_t chunk)
{
    return &readers[buffer * s->chunks + chunk];
}

static void count(const struct tt_schedule *s, uint32_t *readers, const struct tt_step *step)
{
    bool sends = step->verb == TT_VERB_SEND;
    bool left = sends || (step->src_buffer == TT_TMP && step->verb != TT_VERB_RECV);
    bool right = step->verb == TT_VERB_REDUCE && step->right_buffer == TT_TMP;
    for (uint32_t i = 0; i < step->nchunks; i++) {
        if (left)
            ++*count_of(s, readers, step->src_buffer, step->src_chunk + i);
        if (right)
            ++*count_of(s, readers, TT_TMP, step->right_chunk + i);
    }
}

static bool is_only_reader(const struct tt_schedule *s, uint32_t *readers, const struct tt_step *send)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < send->nchunks; i++) {
        uint32_t n = *count_of(s, readers, send->src_buffer, send->src_chunk + i);
        most = n > most ? n : most;
    }
    return most == 1;
}

void tt_mark_single_readers(const struct tt_schedule *schedule, bool *marks, uint32_t *readers)
{
    _Static_assert(TT_IN == 0 && TT_OUT == 1 && TT_TMP == 2, "TMP has the last counts");
    memset(readers, 0, (2 * (size_t)schedule->chunks + schedule->tmp_cells) * sizeof *readers);
    for (uint32_t i = 0; i < schedule->nsteps; i++)
        count(schedule, readers, &schedule->steps[i]);
    for (uint32_t i = 0; i < schedule->nsteps; i++) {
        const struct tt_step *step = &schedule->steps[i];
        marks[i] = step->verb == TT_VERB_SEND && is_only_reader(schedule, readers, step);
    }
}

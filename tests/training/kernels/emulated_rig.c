/* SPDX-License-Identifier: BSD-3-Clause */
/* emulated_rig.c: the kernels for a device, on the processor: the same text, and threads as fibers.
 *
 * What must not matter is drawn: the order in which the threads of a block take turns, so that a barrier that
 * is missing is seen; how many multiprocessors the device has, and how large the workspace is, so that trees
 * are split in many ways. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_emulate.h"
#include "tests/training/kernels/kernels_rig.h"
#include "training/kernels/cuda/cuda_set.h"

enum { MOST_MULTIPROCESSORS = 140, LEAST_WORKSPACE = 1 << 12, MOST_WORKSPACE = 1 << 20 };

static struct {
    struct tr_cuda cuda;
    uint32_t order;
} emulated;

static int launch(struct tr_cuda *c, const struct tr_cuda_launch *l)
{
    (void)c;
    tt_emulate_grid(&(struct tt_emulated_launch){ .function = l->function,
        .params = l->params,
        .grid = l->grid,
        .grid_y = 1,
        .block = l->block,
        .way = TT_EMULATE_FIBERS,
        .order = emulated.order });
    return 0;
}

const char *tr_cuda_words(int status)
{
    (void)status;
    return "no emulated kernel fails";
}

void rig_emulate(struct tr_context *x)
{
    static float *workspace;
    if (!workspace)
        workspace = aligned_alloc(64, MOST_WORKSPACE * sizeof *workspace);
    memset(workspace, 0xA5, MOST_WORKSPACE * sizeof *workspace);
    emulated.order = (uint32_t)rig_between(TT_EMULATE_ASCENDING, TT_EMULATE_DRAWN + 9);
    emulated.cuda = (struct tr_cuda){ .launch = launch,
        .workspace = workspace,
        .workspace_floats =
            rig_between(0, 1) ? rig_between(LEAST_WORKSPACE, MOST_WORKSPACE) : LEAST_WORKSPACE,
        .multiprocessors = (int32_t)rig_between(1, MOST_MULTIPROCESSORS) };
    x->k = &tr_kernels_cuda;
    x->self = &emulated.cuda;
}

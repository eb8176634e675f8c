/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_emulated.c: the kernels of the module: those of a plugin, compiled for the processor
 * (kernels/cuda/cuda_emulate.h). The threads of each block come in another order, as a device promises none.
 * Tests that link the stub bring kernels of their own. */
#include <string.h>

#include "base/dev_kernel.h"
#include "kernels/cuda/cuda_emulate.h"
#include "kernels/cuda/cuda_kernels.h"
#include "stub_internal.h"

enum { THREADS_OF_SM = 2048 };

static int blocks_per_sm(uint32_t number, uint32_t block, uint32_t shared_bytes)
{
    struct tt_dev_kernel kernel;
    return shared_bytes == 0 && tt_dev_kernel_find(number, &kernel) ? THREADS_OF_SM / (int)block : 0;
}

static void *seen(const void *address, bool *right)
{
    const struct stub_memory *m = tt_stub_memory_find(address);
    *right = *right && (m == NULL || m->twin == NULL);
    return (void *)tt_stub_memory_alias((uintptr_t)address);
}

/* Addresses among the parameters are the stub's own; those in bases that lie in memory are not, yet. False:
 * one is of pinned memory, and devices do not know that by it. */
static bool replace(struct tt_bases *bases)
{
    bool right = true;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    for (int k = 0; k < TT_FUSED_RANKS && bases->skip == 0; k++) {
        bases->in[k] = seen(bases->in[k], &right);
        bases->out[k] = seen(bases->out[k], &right);
        bases->scalar[k] = seen(bases->scalar[k], &right);
    }
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return right;
}

static void run(const struct tt_dev_launch *launch, uint32_t block)
{
    struct tt_fused_params params;
    struct tt_bases bases;
    struct tt_dev_kernel kernel;
    const void *used = launch->params; /* of kernels of several devices: all addresses are replaced */
    if (!tt_dev_kernel_find(launch->kernel, &kernel))
        return;
    if (launch->kernel < TT_KERNEL_FIRST_DIRECT) {
        memcpy(&params, launch->params, sizeof params);
        if (params.bases != NULL) {
            bases = *params.bases;
            if (!replace(&bases)) {
                tt_stub_reach(NULL); /* which breaks the device */
                return;
            }
            params.bases = &bases;
        }
        used = &params;
    }
    struct tt_emulated_launch emulated = { .function = kernel.function,
        .params = used,
        .grid = launch->grid,
        .grid_y = launch->grid_y,
        .block = launch->block,
        .way = TT_EMULATE_FIBERS,
        .order = block };
    tt_emulate_block(&emulated, block);
}

__attribute__((constructor)) static void give_kernels(void)
{
    static const struct tt_stub_kernels kernels = { blocks_per_sm, run };
    static const struct tt_emulated_runtime runtime = { tt_stub_reach, tt_stub_pause };
    tt_emulate_for(&runtime);
    tt_stub_set_kernels(&kernels);
}

/* cuda_kernels.cu: which kernel runs, and in how many blocks. */
#include "kernels/cuda_table.cuh"

/* A thread takes four packets of 16 bytes at a time, and two blocks keep a multiprocessor busy. */
enum { BLOCK = 512, THREAD_BYTES = 64, BLOCKS_OF_ONE = 2 };

static uint32_t grid_for(uint64_t bytes, uint32_t multiprocessors)
{
    const uint64_t block_bytes = static_cast<uint64_t>(BLOCK) * THREAD_BYTES;
    const uint64_t wanted = bytes / block_bytes + 1;
    const uint64_t most = static_cast<uint64_t>(multiprocessors) * BLOCKS_OF_ONE;
    return static_cast<uint32_t>(wanted < most ? wanted : most);
}

int tt_kernel_find(enum tt_kernel kernel, tutti_type, tutti_op, uint64_t bytes, uint32_t multiprocessors,
    struct tt_kernel_launch *launch)
{
    if (kernel != TT_KERNEL_COPY)
        return 0;
    launch->function = tt_kernel_copy;
    launch->grid = grid_for(bytes, multiprocessors);
    launch->block = BLOCK;
    launch->params_bytes = sizeof(tt_copy_params);
    return 1;
}

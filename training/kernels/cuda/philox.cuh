/* SPDX-License-Identifier: BSD-3-Clause */
/* philox.cuh: the generator of training/kernels/dropout.h, on a device. */
#ifndef TRAINING_KERNELS_CUDA_PHILOX_CUH
#define TRAINING_KERNELS_CUDA_PHILOX_CUH
#include "training/kernels/cuda/launch.cuh"

/* A counter, and then the four words that follow from it and a key. */
struct philox_words {
    uint32_t word[4];

    MEMBER void draw(uint32_t key, uint32_t other)
    {
        for (int round = 0; round < 10; round++, key += 0x9E3779B9u, other += 0xBB67AE85u) {
            const uint64_t first = static_cast<uint64_t>(word[0]) * 0xD2511F53u;
            const uint64_t second = static_cast<uint64_t>(word[2]) * 0xCD9E8D57u;
            word[0] = static_cast<uint32_t>(second >> 32) ^ word[1] ^ key;
            word[1] = static_cast<uint32_t>(second);
            word[2] = static_cast<uint32_t>(first >> 32) ^ word[3] ^ other;
            word[3] = static_cast<uint32_t>(first);
        }
    }
};

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c: a program of a user's, in the manner of NCCL's documentation, for C and C++: one process,
 * several ranks, host memory. It knows nccl.h only, and so is built against any that there is. */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 3, COUNT = 1000 };
#define CHECK(call)                                                                                          \
    if ((result = (call)) != ncclSuccess) {                                                                  \
        fprintf(stderr, "%s: %s: %s\n", #call, ncclGetErrorString(result), ncclGetLastError(NULL));          \
        return 1;                                                                                            \
    }

int main(void)
{
    static float send[RANKS][COUNT], recv[RANKS][COUNT];
    ncclComm_t comms[RANKS];
    ncclUniqueId id;
    static const ncclConfig_t as_set = NCCL_CONFIG_INITIALIZER;
    union { /* of a header that is newer, and has more */
        ncclConfig_t known;
        char bytes[sizeof(ncclConfig_t) + 40];
    } config;
    ncclResult_t result;
    int version, i, k;
    config.known = as_set;
    config.known.blocking = 1;
    if (getenv("PROGRAM_IS_NEWER") != NULL) {
        config.known.size = sizeof config;
        config.known.version = 23207;
    }
    CHECK(ncclGetVersion(&version))
    CHECK(ncclGetUniqueId(&id))
    CHECK(ncclGroupStart())
    for (i = 0; i < RANKS; i++)
        CHECK(ncclCommInitRankConfig(&comms[i], RANKS, id, i, &config.known))
    CHECK(ncclGroupEnd())
    for (i = 0; i < RANKS; i++)
        for (k = 0; k < COUNT; k++)
            send[i][k] = (float)(i + k);
    CHECK(ncclGroupStart())
    for (i = 0; i < RANKS; i++)
        CHECK(ncclAllReduce(send[i], recv[i], COUNT, ncclFloat, ncclSum, comms[i], (cudaStream_t)NULL))
    CHECK(ncclGroupEnd())
    for (i = 0; i < RANKS; i++)
        CHECK(ncclCommDestroy(comms[i]))
    for (i = 0; i < RANKS; i++)
        for (k = 0; k < COUNT; k++)
            if (recv[i][k] != (float)(RANKS * (RANKS - 1) / 2 + RANKS * k))
                return 2;
    if (getenv("PROGRAM_IS_WRONG") != NULL && ncclCommInitRank(&comms[0], 2, id, 5) == ncclSuccess)
        return 3;
    printf("version %d, %d ranks: right\n", version, RANKS);
    return 0;
}

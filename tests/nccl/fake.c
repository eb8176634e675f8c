/* SPDX-License-Identifier: BSD-3-Clause */
/* fake.c: a library of NVIDIA's library's name, to which a program is linked before Tutti's comes in its
 * place. Whoever calls it is told that it was the wrong one. */
#include <stdio.h>
#include <stdlib.h>

static int wrong(const char *name)
{
    fprintf(stderr, "%s of the fake library was called\n", name);
    exit(9);
}
#define FAKE(name)                                                                                           \
    int name(void);                                                                                          \
    int name(void)                                                                                           \
    {                                                                                                        \
        return wrong(#name);                                                                                 \
    }
FAKE(ncclGetVersion)
FAKE(ncclGetUniqueId)
FAKE(ncclGetErrorString)
FAKE(ncclGetLastError)
FAKE(ncclGroupStart)
FAKE(ncclGroupEnd)
FAKE(ncclCommInitRank)
FAKE(ncclCommInitRankConfig)
FAKE(ncclAllReduce)
FAKE(ncclCommDestroy)

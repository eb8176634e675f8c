/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_range.c: ranges for profilers (NVTX), such as Nsight Systems: in which of Tutti's calls a thread is.
 *
 * The header finds out, once, whether a profiler is there; without one a range costs a look at a pointer. */
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

#include "cuda_driver.h"

static nvtxDomainHandle_t domain;

static void make_domain(void)
{
    domain = nvtxDomainCreateA("tutti");
}

void tt_cuda_range_begin(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    nvtxEventAttributes_t range = { .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = name };
    pthread_once(&once, make_domain);
    nvtxDomainRangePushEx(domain, &range);
}

void tt_cuda_range_end(void)
{
    nvtxDomainRangePop(domain);
}

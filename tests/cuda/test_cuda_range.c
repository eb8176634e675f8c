/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cuda_range.c: a profiler that is there sees Tutti's ranges: one that is linked in, as NVTX allows. */
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <criterion/criterion.h>
#include <string.h>

#include "table_rig.h"

static char seen[128];

static nvtxDomainHandle_t NVTX_API create(const char *name)
{
    strcat(strcat(seen, "domain "), name);
    return (nvtxDomainHandle_t)(void *)seen;
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range)
{
    bool right = (void *)domain == (void *)seen && range->messageType == NVTX_MESSAGE_TYPE_ASCII;
    strcat(strcat(seen, right ? ", in " : ", wrong "), range->message.ascii);
    return 0;
}

static int NVTX_API pop(nvtxDomainHandle_t domain)
{
    strcat(seen, (void *)domain == (void *)seen ? ", out" : ", out of another domain");
    return 0;
}

/* Called once, before the first function of NVTX does anything. */
static int inject(NvtxGetExportTableFunc_t table_of)
{
    const NvtxExportTableCallbacks *callbacks = table_of(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable functions;
    unsigned count;
    if (callbacks == NULL || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count) == 0)
        return 0;
    *functions[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *functions[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *functions[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
int (*InitializeInjectionNvtx2_fnptr)(NvtxGetExportTableFunc_t) = inject;

Test(cuda_range, profilers_see_calls)
{
    table_begin();
    dev->range.begin("all_reduce");
    dev->range.begin("group");
    dev->range.end();
    dev->range.end();
    cr_expect_str_eq(seen, "domain tutti, in all_reduce, in group, out, out");
}

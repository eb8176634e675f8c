/* SPDX-License-Identifier: BSD-3-Clause */
/* absent.c: functions of NCCL that Tutti has nothing for. They are there because one missing name keeps a
 * program from starting; each says that it is not supported, and what works. docs/nccl.md is made of
 * these lines. */
#include "nccl/shim.h"

/* Arguments are not looked at, so a function without any serves. */
#define ABSENT(name, since, instead)                                                                         \
    ncclResult_t pnccl##name(void);                                                                          \
    __attribute__((weak, alias("pnccl" #name))) ncclResult_t nccl##name(void);                               \
    ncclResult_t pnccl##name(void)                                                                           \
    {                                                                                                        \
        return tt_nccl_fail(                                                                                 \
            ncclInvalidUsage, "nccl" #name " is not supported by Tutti's libnccl; what works: " instead);    \
    }

#define KERNELS "collectives, sends and receives on streams, instead of kernels that communicate"
#define MESSAGES "ncclSend and ncclRecv"
#define VARIABLES "getenv; tutti-info config shows the settings of Tutti"

/* clang-format off */
ABSENT(DevCommCreate, 2.28, KERNELS)
ABSENT(DevCommDestroy, 2.28, KERNELS)
ABSENT(LsaBarrierCreateRequirement, 2.28, KERNELS)
ABSENT(GinBarrierCreateRequirement, 2.28, KERNELS)
ABSENT(LLA2ACreateRequirement, 2.28, KERNELS)
ABSENT(GinInboxA2ACreateRequirement, 2.29, KERNELS)
ABSENT(GinOutboxCreateRequirement, 2.29, KERNELS)
ABSENT(GetLsaMultimemDevicePointer, 2.29, KERNELS)
ABSENT(GetMultimemDevicePointer, 2.29, KERNELS)
ABSENT(PutSignal, 2.29, MESSAGES)
ABSENT(Signal, 2.29, MESSAGES)
ABSENT(WaitSignal, 2.29, MESSAGES)
ABSENT(ParamBind, 2.30, VARIABLES)
ABSENT(ParamGetI8, 2.30, VARIABLES)
ABSENT(ParamGetI16, 2.30, VARIABLES)
ABSENT(ParamGetI32, 2.30, VARIABLES)
ABSENT(ParamGetI64, 2.30, VARIABLES)
ABSENT(ParamGetU8, 2.30, VARIABLES)
ABSENT(ParamGetU16, 2.30, VARIABLES)
ABSENT(ParamGetU32, 2.30, VARIABLES)
ABSENT(ParamGetU64, 2.30, VARIABLES)
ABSENT(ParamGetStr, 2.30, VARIABLES)
ABSENT(ParamGet, 2.30, VARIABLES)
ABSENT(ParamGetParameter, 2.30, VARIABLES)
ABSENT(ParamGetAllParameterKeys, 2.30, VARIABLES)
ABSENT(ParamDumpAll, 2.30, VARIABLES)
ABSENT(SetEncryption, 2.32, "an encrypted network between the hosts")
ABSENT(GetCftDeviceLeInfo, 2.32, KERNELS)
ABSENT(GetMultimemDeviceLeInfo, 2.32, KERNELS)
ABSENT(GetPeerDeviceLeInfo, 2.32, KERNELS)
/* clang-format on */

/* Teams are numbers. Local ones are for kernels of the device API, which is not here: each rank is alone. */
typedef struct {
    int nRanks, rank, stride;
} ncclTeam_t;
ncclTeam_t ncclTeamWorld(ncclComm_t comm), pncclTeamWorld(ncclComm_t comm);
ncclTeam_t ncclTeamLsa(ncclComm_t comm), pncclTeamLsa(ncclComm_t comm);
ncclTeam_t ncclTeamRail(ncclComm_t comm), pncclTeamRail(ncclComm_t comm);
ncclTeam_t ncclTeamCft(ncclComm_t comm), pncclTeamCft(ncclComm_t comm);
ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm), pncclTeamCftMultimem(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
int ncclLLA2ACalcSlots(int elements, int bytes);
int pncclLLA2ACalcSlots(int elements, int bytes);

PUBLIC(ncclTeam_t, TeamWorld, (ncclComm_t comm))
{
    if (tt_nccl_check("ncclTeamWorld", comm) != ncclSuccess)
        return (ncclTeam_t){ 0 };
    return (ncclTeam_t){ comm->n, comm->rank, 1 };
}

PUBLIC(ncclTeam_t, TeamLsa, (ncclComm_t comm))
{
    (void)tt_nccl_check("ncclTeamLsa", comm);
    return (ncclTeam_t){ 1, 0, 1 };
}

PUBLIC(ncclTeam_t, TeamRail, (ncclComm_t comm))
{
    return pncclTeamWorld(comm);
}

PUBLIC(ncclTeam_t, TeamCft, (ncclComm_t comm))
{
    return pncclTeamLsa(comm);
}

PUBLIC(ncclTeam_t, TeamCftMultimem, (ncclComm_t comm))
{
    return pncclTeamLsa(comm);
}

PUBLIC(int, TeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank))
{
    if (tt_nccl_check("ncclTeamRankToWorld", comm) != ncclSuccess)
        return -1;
    return comm->rank + (rank - team.rank) * team.stride;
}

PUBLIC(int, TeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank))
{
    if (tt_nccl_check("ncclTeamRankToLsa", comm) != ncclSuccess)
        return -1;
    return (rank - team.rank) * team.stride;
}

/* Of a buffer that no kernel here uses. */
PUBLIC(int, LLA2ACalcSlots, (int elements, int bytes))
{
    return elements * ((bytes + 7) / 8);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c: how communicators are made: ids, all ways of init, and what a config says, whatever version of
 * NCCL's header it comes from. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "nccl/shim.h"

enum { CONFIG_MAGIC = (int)0xcafebeef };

/* Fields of ncclConfig_t by the version that brought them: what an older header has there is padding. */
static const struct {
    unsigned int since;
    size_t offset;
    int least, most;
    const char *name;
} fields[] = {
#define FIELD(since, name, least, most)                                                                      \
    {                                                                                                        \
        since, offsetof(ncclConfig_t, name), least, most, #name                                              \
    }
    FIELD(21400, blocking, 0, 1),
    FIELD(21700, cgaClusterSize, 0, 8),
    FIELD(21700, minCTAs, 1, INT_MAX),
    FIELD(21700, maxCTAs, 1, INT_MAX),
    FIELD(21800, splitShare, 0, 1),
    FIELD(22500, trafficClass, INT_MIN, INT_MAX),
    FIELD(22700, collnetEnable, 0, 1),
    FIELD(22700, CTAPolicy, 0, 3),
    FIELD(22700, shrinkShare, 0, 1),
    FIELD(22700, nvlsCTAs, 1, INT_MAX),
    FIELD(22800, nChannelsPerNetPeer, 1, INT_MAX),
    FIELD(22800, nvlinkCentricSched, 0, 1),
#undef FIELD
};

/* A copy of the part that this library knows; what the caller's version lacks is not set. */
static ncclResult_t copy_config(const char *call, const ncclConfig_t *config, ncclConfig_t *full)
{
    size_t size;
    memcpy(&size, config, sizeof size);
    if (size < offsetof(ncclConfig_t, cgaClusterSize))
        return tt_nccl_fail(ncclInvalidArgument,
            "%s: config.size is %zu; legal: a ncclConfig_t that NCCL_CONFIG_INITIALIZER has set", call, size);
    memcpy(full, config, size < sizeof *full ? size : sizeof *full);
    if ((int)full->magic != CONFIG_MAGIC)
        return tt_nccl_fail(ncclInvalidArgument,
            "%s: config.magic is %#x; legal: a ncclConfig_t that NCCL_CONFIG_INITIALIZER has set", call,
            full->magic);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        int *field = (int *)((char *)full + fields[i].offset);
        if (full->version < fields[i].since)
            *field = NCCL_CONFIG_UNDEF_INT;
        if (*field != NCCL_CONFIG_UNDEF_INT && (*field < fields[i].least || *field > fields[i].most))
            return tt_nccl_fail(ncclInvalidArgument, "%s: config.%s is %d; legal: %d to %d, and not set",
                call, fields[i].name, *field, fields[i].least, fields[i].most);
    }
    if (full->version < 22700)
        full->commName = NULL;
    if (full->version > NCCL_VERSION_CODE && size > sizeof *full)
        tt_nccl_tell(TT_NCCL_INFO, "%s: config is of NCCL %u.%u.%u: what it has beyond %d.%d.%d is not read",
            call, full->version / 10000, full->version / 100 % 100, full->version % 100, NCCL_MAJOR,
            NCCL_MINOR, NCCL_PATCH);
    return ncclSuccess;
}

ncclResult_t tt_nccl_read_config(const char *call, const ncclConfig_t *config,
    const struct tt_nccl_setting *fallback, struct tt_nccl_setting *to)
{
    const char *variable = tt_nccl_variable("NCCL_COMM_BLOCKING");
    ncclConfig_t full = NCCL_CONFIG_INITIALIZER;
    *to = *fallback;
    ncclResult_t result = config != NULL ? copy_config(call, config, &full) : ncclSuccess;
    if (result != ncclSuccess)
        return result;
    if (full.minCTAs != NCCL_CONFIG_UNDEF_INT && full.maxCTAs != NCCL_CONFIG_UNDEF_INT &&
        full.minCTAs > full.maxCTAs)
        return tt_nccl_fail(ncclInvalidArgument, "%s: config.minCTAs is %d, and maxCTAs %d; legal: not less",
            call, full.minCTAs, full.maxCTAs);
    if (full.blocking != NCCL_CONFIG_UNDEF_INT)
        to->blocking = full.blocking;
    if (variable != NULL && (strcmp(variable, "0") == 0 || strcmp(variable, "1") == 0))
        to->blocking = *variable == '1';
    if (full.commName != NULL)
        snprintf(to->name, sizeof to->name, "%s", full.commName);
    return ncclSuccess;
}

static const struct tt_nccl_setting defaults = { .blocking = true };

/* Of what the process has loaded: another libnccl beside this one, which `mine` is a function of. */
static int tell_of_another(struct dl_phdr_info *loaded, size_t bytes, void *mine)
{
    const char *name = strrchr(loaded->dlpi_name, '/');
    (void)bytes;
    if (name != NULL && strncmp(name, "/libnccl.so", 11) == 0 && loaded->dlpi_addr != (uintptr_t)mine)
        tt_nccl_tell(TT_NCCL_INFO,
            "another libnccl is loaded, too, and serves who asks for it by its path: %s", loaded->dlpi_name);
    return 0;
}

static void tell_who_serves(void)
{
    Dl_info info;
    if (!tt_nccl_tells(TT_NCCL_INFO) || dladdr(__func__, &info) == 0)
        return;
    tt_nccl_tell(TT_NCCL_INFO, "NCCL is served by Tutti, by %s", info.dli_fname);
    dl_iterate_phdr(tell_of_another, info.dli_fbase);
}

void tt_nccl_hello(ncclComm_t comm)
{
    static _Atomic bool said;
    char name[TT_NCCL_NAME] = "";
    int version = tutti_get_version();
    if (!tt_nccl_tells(TT_NCCL_VERSION))
        return;
    if (!atomic_exchange(&said, true)) {
        if (comm->rank == 0)
            tt_nccl_tell(TT_NCCL_VERSION, "NCCL version %d.%d.%d+tutti%d.%d.%d", NCCL_MAJOR, NCCL_MINOR,
                NCCL_PATCH, version / 10000, version / 100 % 100, version % 100);
        tell_who_serves();
        tt_nccl_tell_variables();
    }
    tutti_query(comm->tutti, "name", name, sizeof name);
    tt_nccl_tell(TT_NCCL_INFO,
        "ncclCommInit comm %p rank %d nranks %d cudaDev %d commId 0x%llx \"%s\" - Init COMPLETE",
        (void *)comm, comm->rank, comm->n, tutti_comm_device(comm->tutti), (unsigned long long)comm->family,
        name);
}

/* The device of a new communicator, as NCCL means it: that of cudaGetDevice. */
static tutti_status choose_device(int64_t *device)
{
    int count = 0;
    *device = 0;
    if (tt_nccl_variable("TUTTI_DEVICE") != NULL)
        return TUTTI_OK;
    tutti_status status = tutti_device_count(&count);
    *device = count > 0 ? TUTTI_DEVICE_CURRENT : TUTTI_DEVICE_NONE;
    return status;
}

/* NCCL has no deadline; Tutti's variable gives one. */
static int64_t deadline(void)
{
    const char *variable = tt_nccl_variable("TUTTI_TIMEOUT");
    return variable != NULL && *variable != 0 ? 0 : -1;
}

static tutti_status configure(ncclComm_t comm)
{
    comm->config = (tutti_config){ .size = sizeof comm->config,
        .flags = comm->blocking ? 0 : TUTTI_COMM_NONBLOCKING,
        .timeout_ms = deadline(),
        .name = comm->name[0] != 0 ? comm->name : NULL };
    return choose_device(&comm->config.device);
}

PUBLIC(ncclResult_t, GetUniqueId, (ncclUniqueId * id))
{
    _Static_assert(sizeof(ncclUniqueId) == sizeof(tutti_id), "an id of Tutti is one of NCCL");
    tutti_id mine;
    tt_nccl_start();
    if (id == NULL)
        return tt_nccl_fail(ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
    tutti_status status = tutti_get_id(&mine);
    if (status == TUTTI_OK)
        memcpy(id, &mine, sizeof *id);
    return tt_nccl_answer(status);
}

/* Tutti refuses it. NVIDIA's has the address of a socket behind eight random bytes. */
static ncclResult_t refuse_id(const char *call, const ncclUniqueId *id, tutti_status status)
{
    sa_family_t family;
    memcpy(&family, id->internal + 8, sizeof family);
    if (status == TUTTI_INVALID_ARGUMENT && (family == AF_INET || family == AF_INET6))
        return tt_nccl_fail(ncclInvalidUsage,
            "%s: the rank that made commId runs with NVIDIA's libnccl, and this one with Tutti's; legal: all "
            "ranks with one of them (tutti-nccl COMMAND, on each)",
            call);
    return tt_nccl_answer(status);
}

static ncclResult_t join(const char *call, ncclComm_t *out, int n, const ncclUniqueId *id, int rank,
    const struct tt_nccl_setting *setting, bool grows)
{
    tutti_id meeting;
    if (n < 1 || rank < 0 || rank >= n)
        return tt_nccl_fail(
            ncclInvalidArgument, "%s: rank is %d, nranks %d; legal: 0 to nranks - 1", call, rank, n);
    memcpy(&meeting, id, sizeof meeting);
    ncclComm_t comm = tt_nccl_new(n, rank, setting, tt_nccl_hash(0, id, sizeof *id));
    if (comm == NULL)
        return tt_nccl_fail(ncclSystemError, "%s: no memory", call);
    tutti_status status = configure(comm);
    if (status == TUTTI_OK && grows) /* in a group with old ranks it joins when they do */
        status = tutti_comm_grow(NULL, n, &meeting, rank, &comm->config, &comm->tutti);
    else if (status == TUTTI_OK)
        status = tutti_comm_init_rank(n, rank, &meeting, &comm->config, &comm->tutti);
    if (status != TUTTI_OK && status != TUTTI_IN_PROGRESS) {
        tt_nccl_retire(comm);
        return refuse_id(call, id, status);
    }
    *out = comm;
    tt_nccl_list(comm);
    struct tt_nccl_later later = { .kind = TT_NCCL_INIT, .comm = comm, .out = out };
    if (tt_nccl_group != NULL)
        return tt_nccl_group_add(&later) != NULL ? ncclSuccess : ncclSystemError;
    if (comm->blocking || tutti_comm_state(comm->tutti) == TUTTI_OK)
        tt_nccl_hello(comm);
    return comm->blocking ? ncclSuccess : tt_nccl_result(tutti_comm_state(comm->tutti));
}

ncclResult_t tt_nccl_init(const char *call, ncclComm_t *out, int n, const ncclUniqueId *id, int rank,
    const ncclConfig_t *config, bool grows)
{
    struct tt_nccl_setting setting;
    tt_nccl_start();
    if (out == NULL || id == NULL)
        return tt_nccl_fail(ncclInvalidArgument, "%s: %s is NULL", call, out == NULL ? "comm" : "commId");
    ncclResult_t result = tt_nccl_read_config(call, config, &defaults, &setting);
    return result == ncclSuccess ? join(call, out, n, id, rank, &setting, grows) : result;
}

PUBLIC(ncclResult_t, CommInitRank, (ncclComm_t * comm, int n, ncclUniqueId id, int rank))
{
    return tt_nccl_init("ncclCommInitRank", comm, n, &id, rank, NULL, false);
}

PUBLIC(ncclResult_t, CommInitRankConfig,
    (ncclComm_t * comm, int n, ncclUniqueId id, int rank, ncclConfig_t *config))
{
    return tt_nccl_init("ncclCommInitRankConfig", comm, n, &id, rank, config, false);
}

/* Partly: the first id serves, and is enough. */
PUBLIC(ncclResult_t, CommInitRankScalable,
    (ncclComm_t * comm, int n, int rank, int ids, ncclUniqueId *id, ncclConfig_t *config))
{
    if (ids < 1 || ids > n)
        return tt_nccl_fail(
            ncclInvalidArgument, "ncclCommInitRankScalable: nId is %d; legal: 1 to nranks, %d", ids, n);
    return tt_nccl_init("ncclCommInitRankScalable", comm, n, id, rank, config, false);
}

/* Without a list they are on the first n devices; without a GPU, on host memory. */
static tutti_status init_all(int n, const int *devices, tutti_comm **made)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = deadline() };
    tutti_status status = choose_device(&config.device);
    int *numbers = NULL;
    if (devices == NULL && config.device == TUTTI_DEVICE_CURRENT) {
        config.device = 0;
        if ((numbers = calloc((size_t)n, sizeof *numbers)) == NULL)
            return TUTTI_OUT_OF_MEMORY;
    }
    for (int i = 0; numbers != NULL && i < n; i++)
        numbers[i] = i;
    if (status == TUTTI_OK)
        status = tutti_comm_init_all(n, devices != NULL ? devices : numbers, &config, made);
    free(numbers);
    return status;
}

PUBLIC(ncclResult_t, CommInitAll, (ncclComm_t * comms, int n, const int *devices))
{
    static _Atomic uint64_t count;
    uint64_t number = atomic_fetch_add(&count, 1);
    tt_nccl_start();
    if (comms == NULL || n < 1)
        return tt_nccl_fail(ncclInvalidArgument, "ncclCommInitAll: %s",
            comms == NULL ? "comm is NULL" : "ndev is below 1; legal: 1 and more");
    tutti_comm **made = calloc((size_t)n, sizeof(tutti_comm *));
    tutti_status status = made != NULL ? init_all(n, devices, made) : TUTTI_OUT_OF_MEMORY;
    for (int i = 0; status == TUTTI_OK && i < n; i++) {
        comms[i] = tt_nccl_new(n, i, &defaults, tt_nccl_hash(1, &number, sizeof number));
        if (comms[i] == NULL) {
            status = TUTTI_OUT_OF_MEMORY;
            break;
        }
        comms[i]->tutti = made[i];
        tt_nccl_list(comms[i]);
        tt_nccl_hello(comms[i]);
    }
    free(made);
    return tt_nccl_answer(status);
}

PUBLIC(ncclResult_t, CommCount, (const ncclComm_t comm, int *count))
{
    ncclResult_t result = tt_nccl_check("ncclCommCount", comm);
    if (result == ncclSuccess && count == NULL)
        return tt_nccl_fail(ncclInvalidArgument, "ncclCommCount: count is NULL");
    if (result == ncclSuccess)
        *count = comm->n;
    return result;
}

PUBLIC(ncclResult_t, CommUserRank, (const ncclComm_t comm, int *rank))
{
    ncclResult_t result = tt_nccl_check("ncclCommUserRank", comm);
    if (result == ncclSuccess && rank == NULL)
        return tt_nccl_fail(ncclInvalidArgument, "ncclCommUserRank: rank is NULL");
    if (result == ncclSuccess)
        *rank = comm->rank;
    return result;
}

PUBLIC(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int *device))
{
    ncclResult_t result = tt_nccl_check("ncclCommCuDevice", comm);
    if (result == ncclSuccess && device == NULL)
        return tt_nccl_fail(ncclInvalidArgument, "ncclCommCuDevice: device is NULL");
    if (result == ncclSuccess)
        *device = tutti_comm_device(comm->tutti);
    return result;
}

/* What programs ask before they use windows and kernels of their own: none of that is here. */
/* Partly: there is nothing of what it asks for. */
PUBLIC(ncclResult_t, CommQueryProperties, (ncclComm_t comm, ncclCommProperties_t *to))
{
    size_t size = 0;
    ncclResult_t result = tt_nccl_check("ncclCommQueryProperties", comm);
    if (result != ncclSuccess)
        return result;
    if (to != NULL)
        memcpy(&size, to, sizeof size);
    if (to == NULL || (int)to->magic != CONFIG_MAGIC || size < offsetof(ncclCommProperties_t, rank))
        return tt_nccl_fail(ncclInvalidArgument,
            "ncclCommQueryProperties: props is not as NCCL_COMM_PROPERTIES_INITIALIZER sets it");
    ncclCommProperties_t mine = { .size = size,
        .magic = to->magic,
        .version = to->version,
        .rank = comm->rank,
        .nRanks = comm->n,
        .cudaDev = tutti_comm_device(comm->tutti),
        .nvmlDev = -1,
        .nLsaTeams = comm->n };
    memset(to, 0, size);
    memcpy(to, &mine, size < sizeof mine ? size : sizeof mine);
    return ncclSuccess;
}

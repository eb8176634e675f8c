/* SPDX-License-Identifier: BSD-3-Clause */
/* variables.c: the environment: what NCCL's users set, and what of it becomes a setting of Tutti.
 *
 * A variable that Tutti can honour is set as its own, unless the user has set that. One that only
 * concerns kernels, channels or plugins of NCCL is accepted. NCCL_DEBUG=INFO tells of each that is set
 * what came of it, once: who sets a variable wants to know. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "nccl/shim.h"

enum { LINE = 1024, INTERFACE = 32 };

/* What becomes of a variable. docs/nccl.md has these lines. */
static const struct {
    const char *name, *what;
} rows[] = {
    { "NCCL_DEBUG",
        "VERSION, WARN, INFO, TRACE: what is printed, by Tutti (TUTTI_DEBUG), too; unset: nothing" },
    { "NCCL_DEBUG_FILE", "where to, with %h and %p; TUTTI_DEBUG_FILE" },
    { "NCCL_CONF_FILE",
        "lines NAME=VALUE, in place of ~/.nccl.conf; then /etc/nccl.conf; the environment beats both" },
    { "NCCL_COMM_BLOCKING", "0 or 1, beats config.blocking" },
    { "NCCL_SOCKET_IFNAME",
        "the first interface of the list that is there: TUTTI_INTERFACE; ^ excludes, and has "
        "no effect: loopback and bridges of containers are passed over anyway" },
    { "NCCL_NET", "Socket: TUTTI_NETWORK=tcp" },
    { "NCCL_IB_DISABLE", "1: TUTTI_NETWORK=tcp" },
    { "NCCL_MULTI_RANK_GPU_ENABLE", "no effect: several ranks may always share a GPU" },
    { "NCCL_ALGO", "no effect; TUTTI_ALGO=all_reduce:ring names algorithms of Tutti" },
    { "NCCL_PROTO", "no effect: there are no protocols to choose from" },
    { "NCCL_BUFFSIZE", "no effect; TUTTI_SLICE is the longest message" },
    { "NCCL_COMM_ID", "no effect: ids come from ncclGetUniqueId" },
    { "NCCL_DEBUG_SUBSYS", "no effect" },
    { "NCCL_DEBUG_TIMESTAMP_FORMAT", "no effect" },
    { "NCCL_DEBUG_TIMESTAMP_LEVELS", "no effect" },
    { "NCCL_CHECK_POINTERS", "no effect: buffers are always checked" },
    { "NCCL_CHECK_MODE", "no effect: ranks that call different things are always told" },
    { "NCCL_P2P_DISABLE", "no effect" },
    { "NCCL_P2P_LEVEL", "no effect" },
    { "NCCL_P2P_DIRECT_DISABLE", "no effect" },
    { "NCCL_SHM_DISABLE", "no effect: ranks of a host always share memory" },
    { "NCCL_SOCKET_FAMILY", "no effect" },
    { "NCCL_SOCKET_NTHREADS", "no effect" },
    { "NCCL_NSOCKS_PERTHREAD", "no effect" },
    { "NCCL_SOCKET_RETRY_CNT", "no effect; TUTTI_INIT_TIMEOUT bounds the wait" },
    { "NCCL_SOCKET_RETRY_SLEEP_MSEC", "no effect" },
    { "NCCL_IB_HCA", "no effect; UCX_NET_DEVICES" },
    { "NCCL_IB_GID_INDEX", "no effect; UCX_IB_GID_INDEX" },
    { "NCCL_IB_TIMEOUT", "no effect" },
    { "NCCL_IB_RETRY_CNT", "no effect" },
    { "NCCL_IB_SL", "no effect" },
    { "NCCL_IB_TC", "no effect" },
    { "NCCL_IB_CUDA_SUPPORT", "no effect" },
    { "NCCL_IB_PCI_RELAXED_ORDERING", "no effect" },
    { "NCCL_IB_QPS_PER_CONNECTION", "no effect" },
    { "NCCL_IB_ADAPTIVE_ROUTING", "no effect" },
    { "NCCL_IB_MERGE_NICS", "no effect" },
    { "NCCL_CROSS_NIC", "no effect" },
    { "NCCL_NET_GDR_LEVEL", "no effect" },
    { "NCCL_NET_GDR_READ", "no effect" },
    { "NCCL_NET_PLUGIN", "no effect: there are no plugins" },
    { "NCCL_NET_SHARED_BUFFERS", "no effect" },
    { "NCCL_TUNER_PLUGIN", "no effect; TUTTI_RULES names a file of collperf --tune" },
    { "NCCL_PROFILER_PLUGIN", "no effect; TUTTI_TRACE writes a trace" },
    { "NCCL_COLLNET_ENABLE", "no effect" },
    { "NCCL_NVLS_ENABLE", "no effect" },
    { "NCCL_MNNVL_ENABLE", "no effect" },
    { "NCCL_NTHREADS", "no effect" },
    { "NCCL_MIN_NCHANNELS", "no effect" },
    { "NCCL_MAX_NCHANNELS", "no effect" },
    { "NCCL_MIN_CTAS", "no effect" },
    { "NCCL_MAX_CTAS", "no effect" },
    { "NCCL_CGA_CLUSTER_SIZE", "no effect" },
    { "NCCL_MIN_P2P_NCHANNELS", "no effect" },
    { "NCCL_MAX_P2P_NCHANNELS", "no effect" },
    { "NCCL_NCHANNELS_PER_NET_PEER", "no effect" },
    { "NCCL_P2P_NET_CHUNKSIZE", "no effect" },
    { "NCCL_P2P_NVL_CHUNKSIZE", "no effect" },
    { "NCCL_LL_BUFFSIZE", "no effect" },
    { "NCCL_LL128_BUFFSIZE", "no effect" },
    { "NCCL_LAUNCH_MODE", "no effect" },
    { "NCCL_LAUNCH_ORDER_IMPLICIT", "no effect" },
    { "NCCL_GRAPH_REGISTER", "no effect" },
    { "NCCL_GRAPH_MIXING_SUPPORT", "no effect: graphs and other calls may always be mixed" },
    { "NCCL_LOCAL_REGISTER", "no effect" },
    { "NCCL_CUMEM_ENABLE", "no effect" },
    { "NCCL_CUMEM_HOST_ENABLE", "no effect" },
    { "NCCL_WIN_ENABLE", "no effect" },
    { "NCCL_DMABUF_ENABLE", "no effect" },
    { "NCCL_PXN_DISABLE", "no effect" },
    { "NCCL_P2P_PXN_LEVEL", "no effect" },
    { "NCCL_RUNTIME_CONNECT", "no effect" },
    { "NCCL_COMM_SPLIT_SHARE_RESOURCES", "no effect" },
    { "NCCL_COMM_SHRINK_SHARE_RESOURCES", "no effect" },
    { "NCCL_TOPO_FILE", "no effect; TUTTI_TOPOLOGY says which ranks share a cache" },
    { "NCCL_TOPO_DUMP_FILE", "no effect" },
    { "NCCL_GRAPH_FILE", "no effect" },
    { "NCCL_GRAPH_DUMP_FILE", "no effect" },
    { "NCCL_IGNORE_CPU_AFFINITY", "no effect" },
    { "NCCL_SET_STACK_SIZE", "no effect" },
    { "NCCL_SET_THREAD_NAME", "no effect" },
    { "NCCL_RAS_ENABLE", "no effect; tutti-info attach PID asks a process that hangs" },
    { "NCCL_RAS_ADDR", "no effect" },
    { "NCCL_HOSTID", "no effect; TUTTI_HOSTID is for tests" },
    { "NCCL_TESTS_DEVICE", "read by nccl-tests" },
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* One "NAME = VALUE" of a file; what the environment has already stays. */
static void read_line(const char *line)
{
    char name[LINE], value[LINE];
    if (line[0] != '#' && sscanf(line, " %1023[^= \t\r\n] = %1023[^\r\n]", name, value) == 2)
        setenv(name, value, 0);
}

static void read_file(const char *path)
{
    char line[LINE];
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        read_line(line);
    if (file != NULL)
        fclose(file);
}

static void read_files(void)
{
    char path[LINE];
    const char *named = secure_getenv("NCCL_CONF_FILE"), *home = secure_getenv("HOME");
    if (named != NULL && *named != 0)
        read_file(named);
    else if (home != NULL && snprintf(path, sizeof path, "%s/.nccl.conf", home) < (int)sizeof path)
        read_file(path);
    read_file("/etc/nccl.conf");
}

/* Whether NCCL's list of interfaces (prefixes, or whole names after =) has this one. */
static bool is_listed(const char *list, const char *name)
{
    bool whole = *list == '=';
    for (list += whole; *list != 0; list += strcspn(list, ",") + (list[strcspn(list, ",")] == ',')) {
        size_t length = strcspn(list, ",");
        if (length > 0 && strncmp(name, list, length) == 0 && (!whole || name[length] == 0))
            return true;
    }
    return false;
}

static void take_interface(const char *list)
{
    struct if_nameindex *all = *list != '^' && *list != 0 ? if_nameindex() : NULL;
    for (struct if_nameindex *each = all; each != NULL && each->if_index != 0; each++) {
        if (!is_listed(list, each->if_name))
            continue;
        setenv("TUTTI_INTERFACE", each->if_name, 0);
        break;
    }
    if (all != NULL)
        if_freenameindex(all);
}

static void tell_tutti(void)
{
    const char *debug = secure_getenv("NCCL_DEBUG"), *file = secure_getenv("NCCL_DEBUG_FILE");
    const char *interface = secure_getenv("NCCL_SOCKET_IFNAME"), *net = secure_getenv("NCCL_NET");
    const char *no_ib = secure_getenv("NCCL_IB_DISABLE");
    const char *level = debug == NULL                     ? "none"
                        : strcasecmp(debug, "WARN") == 0  ? "warn"
                        : strcasecmp(debug, "INFO") == 0  ? "info"
                        : strcasecmp(debug, "TRACE") == 0 ? "trace"
                                                          : "none";
    setenv("TUTTI_DEBUG", level, 0);
    if (file != NULL && *file != 0)
        setenv("TUTTI_DEBUG_FILE", file, 0);
    if (interface != NULL)
        take_interface(interface);
    if ((net != NULL && strcasecmp(net, "Socket") == 0) || (no_ib != NULL && strcmp(no_ib, "1") == 0))
        setenv("TUTTI_NETWORK", "tcp", 0);
}

static void start(void)
{
    read_files();
    tell_tutti();
}

void tt_nccl_start(void)
{
    pthread_once(&once, start);
}

const char *tt_nccl_variable(const char *name)
{
    tt_nccl_start();
    return secure_getenv(name);
}

/* What became of an NCCL_... that is set. */
static const char *meaning(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].what;
    return strncmp(name, "NCCL_TESTS_", 11) == 0 ? "read by nccl-tests" : "not known to this library";
}

void tt_nccl_tell_variables(void)
{
    char name[LINE];
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, "NCCL_", 5) != 0 || length >= sizeof name)
            continue;
        memcpy(name, *entry, length);
        name[length] = 0;
        tt_nccl_tell(TT_NCCL_INFO, "%s is set: %s", name, meaning(name));
    }
}

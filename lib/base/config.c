/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c: the table of settings, and strict parsing of what users write.
 *
 * A value that is not exactly legal is refused with the setting's name, the value and what would be legal: a
 * typo that is silently ignored costs its author an afternoon. For the same reason a TUTTI_* variable that
 * nobody reads is named, once per process, with the known name nearest to it.
 *
 * Adding a setting is a field, a row, and nothing else; adding a variable is a row. */
#include "base/config.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/collective.h"
#include "base/log.h"
#include "base/status.h"
#include "base/topology.h"
#include "base/text.h"

enum { NAME_BYTES = 64, LEGAL_BYTES = 256, DEVICES_MAX = 1 << 16 };
/* Numbers of messages never wrap: number + 1 of one is not 0, which means none. */
#define NUMBER_MOST (UINT64_C(1) << 63)

#define FIELD(name) offsetof(struct tt_settings, name)
const struct tt_setting tt_setting_table[] = {
    { "algo", TT_SHARED, TT_KIND_CHOICES, FIELD(algorithm), "",
        "algorithms to use, as all_reduce:ring,broadcast:tree; for other collectives one is chosen" },
    { "rules", TT_SHARED, TT_KIND_PATH, FIELD(rules), "",
        "file that says which algorithm serves which sizes (collperf --tune writes one); rank 0 reads it" },
    { "slice", TT_SHARED, TT_KIND_BYTES, FIELD(slice_bytes), "0",
        "longest message, in bytes; 0: an eighth of rank 0's level 2 cache, of 2 ranks a quarter" },
    { "timeout", TT_SHARED, TT_KIND_MS, FIELD(timeout_ms_or_zero), "0",
        "milliseconds without progress until a call fails, where the program sets none; 0: ten minutes" },
    { "refusal", TT_SHARED, TT_KIND_MS, FIELD(refusal_ms), "1000",
        "milliseconds that a rank has to make the call right which it refused, before its peers, who wait in "
        "it, end the communicator; 0: they wait on" },
    { "network", TT_SHARED, TT_KIND_NETWORK, FIELD(hosts.network), "auto",
        "what carries messages between hosts: ucx, tcp, or auto: UCX where all ranks have it, and InfiniBand "
        "or RoCE" },
    { "congestion", TT_SHARED, TT_KIND_CONGESTION, FIELD(hosts.congestion), "system",
        "congestion control of connections between hosts: system, or a name that all hosts allow" },
    { "probe", TT_SHARED, TT_KIND_PROBE, FIELD(hosts.probe), "auto",
        "class of the network between hosts, by which algorithms are chosen: auto, which measures it once; "
        "off, which takes it for 10g,lan; or a class, as 1g or 1g,wan" },
    { "heartbeat", TT_SHARED, TT_KIND_MS, FIELD(heartbeat_ms), "10000",
        "milliseconds after which a host that answers nothing is taken to be gone; 0: when the system gives "
        "up, after some 15 minutes" },
    { "first_number", TT_SHARED, TT_KIND_NUMBER, FIELD(first_number), "0",
        "for tests of counters that wrap: the number of the first operation and message, up to 2^63" },
    { "exact", TT_SHARED, TT_KIND_BOOL, FIELD(exact), "off",
        "floats are summed in one fixed tree over the ranks, so that no algorithm changes a bit" },
    { "topology", TT_SHARED, TT_KIND_TOPOLOGY, FIELD(topology), "auto",
        "which ranks share a cache, as 0-3/4-7 or 2x4; auto: by the cores that processes are bound to" },
    { "executor", TT_SHARED, TT_KIND_EXECUTOR, FIELD(executor), "auto",
        "how calls on CUDA streams are served: host, by staging through the host's memory, or auto: by "
        "one kernel, where all ranks are in one process and on one device, and also where they are in "
        "several processes and it is faster (led: there always), and by kernels that meet, where each has a "
        "device of its own and it is faster (spin: there always)" },
    { "device_pad", TT_SHARED, TT_KIND_BYTES, FIELD(device_pad_bytes), "0",
        "bytes of device memory that a rank has for its operands, and as many for its results, where a "
        "kernel serves several processes of a device; 0: a two-thousandth of the device's, up to 32 MiB" },
    { "device_mapped", TT_SHARED, TT_KIND_BOOL, FIELD(device_mapped), "off",
        "all device memory of collectives is of tutti_mem_alloc or tutti_mem_register, and choices of the "
        "executor count on that" },
    { "device_import", TT_SHARED, TT_KIND_IMPORT, FIELD(device_import), "given",
        "which device memory other ranks' processes may map: given, by tutti_mem_alloc or "
        "tutti_mem_register; or all that calls use" },
    { "init_timeout", TT_LOCAL, TT_KIND_MS, FIELD(init_timeout_ms_or_zero), "0",
        "milliseconds that a rank waits for the others to come, if timeout is not shorter; 0: five minutes" },
    { "wait_warning", TT_LOCAL, TT_KIND_MS, FIELD(wait_warning_ms), "10000",
        "milliseconds until the log says whom a call waits for, a warning if it has no deadline; 0: never" },
    { "map", TT_LOCAL, TT_KIND_BOOL, FIELD(map), "on",
        "peers may read and write memory from tutti_mem_alloc where it lies, without a copy" },
    { "pull", TT_LOCAL, TT_KIND_PULL, FIELD(pull), "huge",
        "other memory that the kernel copies between processes, in long messages: huge: on huge pages" },
    { "membarrier", TT_LOCAL, TT_KIND_BOOL, FIELD(membarrier), "on",
        "who goes to sleep pays for the fences of all messages (membarrier), where all ranks can" },
    { "fused", TT_LOCAL, TT_KIND_BOOL, FIELD(fused), "on",
        "a small call that was made before takes a shorter way through the library, to the same results" },
    { "stream_bytes", TT_LOCAL, TT_KIND_BYTES, FIELD(stream_bytes), "0",
        "from this size on, an operation stores past the caches what other ranks read; 0: when the buffers "
        "of all ranks together fill the last level cache" },
    { "device", TT_LOCAL, TT_KIND_DEVICE, FIELD(device), "auto",
        "CUDA device of the communicator: a number, none, auto (the thread's current device, if the process "
        "uses CUDA), or current (that, and device 0 where the thread has none)" },
    { "isa", TT_LOCAL, TT_KIND_ISA, FIELD(isa), "auto",
        "instruction set of the reductions; all give the same bits; auto: the widest of this CPU" },
    { "device_library", TT_LOCAL, TT_KIND_PATH, FIELD(device_library), "",
        "path of the library that serves devices; empty: libtutti_cuda.so, beside libtutti or installed" },
};
#undef FIELD
const int tt_setting_count = sizeof tt_setting_table / sizeof tt_setting_table[0];
_Static_assert(sizeof tt_setting_table / sizeof tt_setting_table[0] <= TT_SETTINGS_MAX, "an origin each");

/* What settings of one of several words may be, in the order of their values; after those of device there are
 * numbers. */
static const char *const words_of[][6] = { [TT_KIND_ISA] = { "auto", "generic", "avx2", "avx512" },
    [TT_KIND_NETWORK] = { "auto", "tcp", "ucx" },
    [TT_KIND_PROBE] = { "auto", "off" },
    [TT_KIND_CONGESTION] = { "system", "reno", "cubic", "dctcp", "bbr" },
    [TT_KIND_EXECUTOR] = { "auto", "host", "led", "spin" },
    [TT_KIND_IMPORT] = { "given", "all" },
    [TT_KIND_PULL] = { "huge", "off", "always" },
    [TT_KIND_DEVICE] = { "auto", "none", "current" } };

/* Known to the library, but not settings: where this process stands, and what it tells of itself. */
static const struct {
    const char *name, *default_text, *help;
    bool secret; /* its value is not printed */
} variables[] = {
    { "TUTTI_ID", "", "where the ranks of a job meet, and their secret: an id of tutti-info id", true },
    { "TUTTI_RANK", "", "this process's rank in its job", false },
    { "TUTTI_SIZE", "", "number of ranks of the job", false },
    { "TUTTI_ROOT", "", "host:port where the ranks of a job meet without an id", false },
    { "TUTTI_SECRET_FILE", "", "the file with the secret of TUTTI_ROOT", false },
    { "TUTTI_DIRECTORY", "",
        "where ranks of a host meet: a directory in which this user may make one of its own; unset: "
        "$XDG_RUNTIME_DIR, /tmp, or $TMPDIR",
        false },
    { "TUTTI_INTERFACE", "",
        "how other hosts reach this one: the name of a network interface (eth0), an address, or a network "
        "(10.1.0.0/16); unset: the first that is up, and neither loopback nor a bridge of containers",
        false },
    { "TUTTI_HOSTID", "",
        "for tests: ranks of one machine that have different ones talk by the network, as on several hosts",
        false },
    { "TUTTI_LIBRARY", "", "the library that the Python package loads, if it has none of its own", false },
    { "TUTTI_DEBUG", "warn", "what is logged: none, error, warn, info or trace", false },
    { "TUTTI_DEBUG_FILE", "", "the log's file, if not stderr; %h is the host, %p the process", false },
    { "TUTTI_RECORDER_FILE", "",
        "file to which a communicator that ends by an error appends its last calls as JSON; %h, %p, %r: rank",
        false },
    { "TUTTI_TRACE", "", "file to which each process writes a trace for ui.perfetto.dev; %h, %p, %r: rank",
        false },
};
enum { VARIABLES = sizeof variables / sizeof variables[0] };

const char *tt_environment(const char *name)
{
    return secure_getenv(name);
}

bool tt_environment_is_ignored(void)
{
    return getauxval(AT_SECURE) != 0;
}

static bool parse_bool(const char *text, bool *value)
{
    static const char *const words[2][4] = { { "off", "0", "no", "false" }, { "on", "1", "yes", "true" } };
    for (int truth = 0; truth < 2; truth++) {
        for (int i = 0; i < 4; i++) {
            if (strcasecmp(text, words[truth][i]) == 0) {
                *value = truth;
                return true;
            }
        }
    }
    return false;
}

static bool is_word(const char *text)
{
    if (*text == 0)
        return false;
    for (; *text != 0; text++) {
        if (!islower((unsigned char)*text) && !isdigit((unsigned char)*text) && *text != '_')
            return false;
    }
    return true;
}

/* "collective:algorithm,...", each collective once; else *wrong says which word is wrong. Only the
 * registry, which stands above this layer, knows the algorithms. */
static bool parse_choices(const char *text, char *value, struct tt_text *wrong)
{
    char copy[TT_CONFIG_TEXT];
    bool seen[TT_COLLECTIVES] = { false };
    if (strlen(text) >= sizeof copy)
        return false;
    strcpy(copy, text);
    char *rest = copy[0] != 0 ? copy : NULL;
    while (rest) {
        char *choice = strsep(&rest, ",");
        char *algorithm = strchr(choice, ':');
        if (algorithm)
            *algorithm++ = 0;
        enum tt_collective collective = tt_collective_find(choice);
        if (collective == TT_COLLECTIVES && !algorithm) /* as NCCL_ALGO has it */
            tt_put(wrong, ": \"%.40s\" has no collective before it, as all_reduce:%.40s has", choice,
                is_word(choice) ? choice : "ring");
        else if (collective == TT_COLLECTIVES)
            tt_put(wrong, ": there is no collective \"%.40s\", the nearest is %s", choice,
                tt_collective_nearest(choice));
        else if (!algorithm || !is_word(algorithm))
            tt_put(wrong,
                algorithm ? ": \"%.40s\" is no name of an algorithm" : ": %.40s lacks its algorithm",
                algorithm ? algorithm : choice);
        else if (seen[collective])
            tt_put(wrong, ": %s is there twice", choice);
        if (wrong->length > 0)
            return false;
        seen[collective] = true;
    }
    memset(value, 0, TT_CONFIG_TEXT);
    memcpy(value, text, strlen(text));
    return true;
}

static bool parse_topology(const char *text, char *value)
{
    if (strlen(text) >= TT_TOPOLOGY_TEXT || (strcmp(text, "auto") != 0 && tt_topology_ranks(text) < 0))
        return false;
    memset(value, 0, TT_TOPOLOGY_TEXT);
    memcpy(value, text, strlen(text));
    return true;
}

static bool parse_path(const char *text, char *value)
{
    if (strlen(text) >= TT_PATH_TEXT)
        return false;
    memset(value, 0, TT_PATH_TEXT);
    memcpy(value, text, strlen(text));
    return true;
}

static bool parse_word(const char *text, enum tt_kind kind, uint64_t *value)
{
    uint64_t i = 0;
    while (words_of[kind][i] != NULL && strcmp(text, words_of[kind][i]) != 0)
        i++;
    if (words_of[kind][i] != NULL)
        *value = i;
    return words_of[kind][i] != NULL;
}

static bool parse_device(const char *text, uint64_t *value)
{
    uint64_t number;
    if (parse_word(text, TT_KIND_DEVICE, value))
        return true;
    if (!tt_parse_number(text, &number) || number > DEVICES_MAX)
        return false;
    *value = TT_DEVICE_FIRST + number;
    return true;
}

static bool parse_probe(const char *text, uint64_t *value)
{
    struct tt_link_class c;
    if (parse_word(text, TT_KIND_PROBE, value))
        return true;
    if (!tt_link_parse(text, &c))
        return false;
    *value = TT_PROBE_FIRST + tt_link_number(c);
    return true;
}

/* Parses the value of a setting. *wrong may tell more of what is wrong than that it is not legal. */
static bool parse_value(
    const struct tt_setting *row, const char *text, struct tt_settings *settings, struct tt_text *wrong)
{
    void *field = (char *)settings + row->offset;
    uint64_t number;
    switch (row->kind) {
    case TT_KIND_BOOL:
        return parse_bool(text, field);
    case TT_KIND_BYTES:
        return tt_parse_bytes(text, field);
    case TT_KIND_NUMBER:
    case TT_KIND_MS:
        if (!tt_parse_number(text, &number) ||
            number > (row->kind == TT_KIND_MS ? INT64_MAX / 1000000 : NUMBER_MOST))
            return false;
        *(uint64_t *)field = number;
        return true;
    case TT_KIND_CHOICES:
        return parse_choices(text, field, wrong);
    case TT_KIND_TOPOLOGY:
        return parse_topology(text, field);
    case TT_KIND_PATH:
        return parse_path(text, field);
    case TT_KIND_DEVICE:
        return parse_device(text, field);
    case TT_KIND_PROBE:
        return parse_probe(text, field);
    default:
        return parse_word(text, row->kind, field);
    }
}

static void describe_legal(enum tt_kind kind, struct tt_text *t)
{
    switch (kind) {
    case TT_KIND_BOOL:
        tt_put(t, "on, off, 1, 0, yes, no, true, false");
        break;
    case TT_KIND_BYTES:
        tt_put(t, "bytes below 2^64, as 3, 64K, 1.5M or 1MiB; K, M, G and T are powers of 1024");
        break;
    case TT_KIND_NUMBER:
        tt_put(t, "a number from 0 to %llu (2^63)", (unsigned long long)NUMBER_MOST);
        break;
    case TT_KIND_MS:
        tt_put(t, "milliseconds from 0 to %lld", (long long)(INT64_MAX / 1000000));
        break;
    case TT_KIND_TOPOLOGY:
        tt_put(t, "auto, or all ranks from 0 up, in domains: 0-3/4-7, 0,2,4/1,3,5, or 2x4; below %d bytes",
            TT_TOPOLOGY_TEXT);
        break;
    case TT_KIND_PATH:
        tt_put(t, "the path of a file, below %d bytes", TT_PATH_TEXT);
        break;
    case TT_KIND_CHOICES:
        tt_put(t, "COLLECTIVE:ALGORITHM,..., each collective once, below %d bytes, of", TT_CONFIG_TEXT);
        for (int i = 0; i < TT_COLLECTIVES; i++)
            tt_put(t, "%s %s", i > 0 ? "," : "", tt_collectives[i].name);
        break;
    case TT_KIND_DEVICE:
        tt_put(t, "auto, none, current, or a number from 0 to %d", DEVICES_MAX);
        break;
    case TT_KIND_PROBE:
        tt_put(t, "auto, off, ");
        tt_link_put_legal(t);
        break;
    default:
        for (int i = 0; words_of[kind][i] != NULL; i++)
            tt_put(t, "%s%s", i > 0 ? ", " : "", words_of[kind][i]);
        break;
    }
}

static tutti_status set(
    struct tt_settings *settings, int index, const char *where, const char *value, enum tt_origin origin)
{
    const struct tt_setting *row = &tt_setting_table[index];
    char why[LEGAL_BYTES] = "";
    struct tt_text wrong = { why, sizeof why, 0 };
    if (!parse_value(row, value, settings, &wrong)) {
        char legal[LEGAL_BYTES];
        describe_legal(row->kind, &(struct tt_text){ legal, sizeof legal, 0 });
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "%s=\"%.100s\" is not legal%s; legal: %s", where, value, why, legal);
    }
    settings->origin[index] = (uint8_t)origin;
    return TUTTI_OK;
}

static int find(const char *name)
{
    for (int i = 0; i < tt_setting_count; i++) {
        if (strcmp(tt_setting_table[i].name, name) == 0)
            return i;
    }
    return -1;
}

static void variable_name(const char *setting, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "TUTTI_%s", setting);
    for (; *name != 0; name++)
        *name = (char)toupper((unsigned char)*name);
}

static void known_variable(int index, char name[NAME_BYTES])
{
    if (index < tt_setting_count)
        variable_name(tt_setting_table[index].name, name);
    else
        snprintf(name, NAME_BYTES, "%s", variables[index - tt_setting_count].name);
}

static void warn_of_unknown(void)
{
    for (char **entry = environ; entry && *entry; entry++) {
        size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, "TUTTI_", 6) != 0 || strncmp(*entry, "TUTTI_NCCL_", 11) == 0) /* libnccl's own */
            continue;
        char name[NAME_BYTES + 1], known[NAME_BYTES], nearest[NAME_BYTES] = "";
        snprintf(name, sizeof name, "%.*s", (int)length, *entry);
        int least = 3 * NAME_BYTES;
        for (int i = 0; i < tt_setting_count + VARIABLES; i++) {
            known_variable(i, known);
            int far = tt_text_distance(name, known);
            if (far < least) {
                least = far;
                memcpy(nearest, known, sizeof known);
            }
        }
        if (least > 0)
            tt_log(
                TT_LOG_WARN, "%s is not a variable that Tutti reads; the nearest one is %s", name, nearest);
    }
}

static tutti_status read_environment(struct tt_settings *settings)
{
    static pthread_once_t warned = PTHREAD_ONCE_INIT;
    pthread_once(&warned, warn_of_unknown);
    for (int i = 0; i < tt_setting_count; i++) {
        char name[NAME_BYTES];
        variable_name(tt_setting_table[i].name, name);
        const char *value = tt_environment(name);
        tutti_status status = value ? set(settings, i, name, value, TT_FROM_ENVIRONMENT) : TUTTI_OK;
        if (status != TUTTI_OK)
            return status;
    }
    return TUTTI_OK;
}

static tutti_status refuse_name(const char *name)
{
    char legal[LEGAL_BYTES];
    struct tt_text known_names = { legal, sizeof legal, 0 };
    int nearest = 0;
    for (int i = 0; i < tt_setting_count; i++) {
        const char *known = tt_setting_table[i].name;
        tt_put(&known_names, "%s%s", i > 0 ? ", " : "", known);
        if (tt_text_distance(name, known) < tt_text_distance(name, tt_setting_table[nearest].name))
            nearest = i;
    }
    return tt_fail(TUTTI_INVALID_ARGUMENT, "there is no setting \"%.60s\"; the nearest is %s; legal: %s",
        name, tt_setting_table[nearest].name, legal);
}

/* One "name=value" of the options; nothing between two semicolons is nothing. */
static tutti_status read_option(struct tt_settings *settings, char *option)
{
    if (*option == 0)
        return TUTTI_OK;
    char *value = strchr(option, '=');
    if (!value)
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "option \"%.100s\" has no value; legal: name=value;name=value", option);
    *value++ = 0;
    int index = find(option);
    return index < 0 ? refuse_name(option) : set(settings, index, option, value, TT_FROM_OPTIONS);
}

static tutti_status read_options(struct tt_settings *settings, const char *options)
{
    size_t bytes = strlen(options) + 1;
    char *copy = malloc(bytes);
    if (!copy)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to read the options");
    memcpy(copy, options, bytes);
    tutti_status status = TUTTI_OK;
    char *rest = copy;
    while (rest && status == TUTTI_OK)
        status = read_option(settings, strsep(&rest, ";"));
    free(copy);
    return status;
}

tutti_status tt_settings_read(struct tt_settings *settings, const char *options)
{
    struct tt_settings result;
    memset(&result, 0, sizeof result);
    result.costs = tt_costs_default();
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < tt_setting_count && status == TUTTI_OK; i++) {
        const struct tt_setting *row = &tt_setting_table[i];
        status = set(&result, i, row->name, row->default_text, TT_FROM_DEFAULT);
    }
    if (status == TUTTI_OK)
        status = read_environment(&result);
    if (status == TUTTI_OK && options)
        status = read_options(&result, options);
    if (status == TUTTI_OK)
        *settings = result;
    return status;
}

tutti_status tt_settings_inherit(
    struct tt_settings *settings, const struct tt_settings *parent, const char *options)
{
    struct tt_settings result = *parent;
    for (int i = 0; i < tt_setting_count; i++)
        if (result.origin[i] != TT_FROM_DEFAULT)
            result.origin[i] = TT_FROM_PARENT;
    tutti_status status = options != NULL ? read_options(&result, options) : TUTTI_OK;
    if (status == TUTTI_OK)
        *settings = result;
    return status;
}

static int index_of(const struct tt_settings *settings, const void *member)
{
    int i = 0;
    while (i < tt_setting_count - 1 && (const char *)settings + tt_setting_table[i].offset != member)
        i++;
    return i;
}

const char *tt_setting_word(enum tt_kind kind, uint64_t value)
{
    return words_of[kind][value];
}

const char *tt_congestion_name(uint64_t congestion)
{
    return congestion == 0 ? NULL : tt_setting_word(TT_KIND_CONGESTION, congestion);
}

enum tt_origin tt_setting_origin(const struct tt_settings *settings, const void *member)
{
    return (enum tt_origin)settings->origin[index_of(settings, member)];
}

void tt_settings_take_device(struct tt_settings *settings, uint64_t device)
{
    settings->device = device;
    settings->origin[index_of(settings, &settings->device)] = TT_FROM_CONFIG;
}

static size_t value_bytes(enum tt_kind kind)
{
    switch (kind) {
    case TT_KIND_BOOL:
        return sizeof(bool);
    case TT_KIND_CHOICES:
        return TT_CONFIG_TEXT;
    case TT_KIND_TOPOLOGY:
        return TT_TOPOLOGY_TEXT;
    case TT_KIND_PATH:
        return TT_PATH_TEXT;
    default:
        return sizeof(uint64_t);
    }
}

void tt_settings_adopt(struct tt_settings *settings, const struct tt_settings *of_rank_0)
{
    for (int i = 0; i < tt_setting_count; i++) {
        const struct tt_setting *row = &tt_setting_table[i];
        char *mine = (char *)settings + row->offset;
        const char *theirs = (const char *)of_rank_0 + row->offset;
        size_t bytes = value_bytes(row->kind);
        if (row->scope == TT_LOCAL || memcmp(mine, theirs, bytes) == 0)
            continue;
        memcpy(mine, theirs, bytes);
        settings->origin[i] = TT_FROM_RANK_0;
        /* They came by a wire: whatever the bytes were, a bool is 0 or 1 and a text ends. */
        if (row->kind == TT_KIND_BOOL)
            *mine = *mine != 0;
        else if (bytes > sizeof(uint64_t))
            mine[bytes - 1] = 0;
    }
    settings->nrules = of_rank_0->nrules < TT_RULES_MAX ? of_rank_0->nrules : TT_RULES_MAX;
    memcpy(settings->rule, of_rank_0->rule, sizeof settings->rule);
    settings->costs = of_rank_0->costs;
    settings->cache_bytes = of_rank_0->cache_bytes;
    tt_costs_bound(&settings->costs);
}

size_t tt_variables_print(char *text, size_t bytes)
{
    struct tt_text t = { text, bytes, 0 };
    for (int i = 0; i < VARIABLES; i++) {
        const char *value = tt_environment(variables[i].name);
        bool given = value != NULL;
        if (given && variables[i].secret)
            value = "(secret)";
        int width = 24 - (int)strlen(variables[i].name);
        tt_put(&t, "%s=%-*s # process, %s: %s\n", variables[i].name, width,
            given ? value : variables[i].default_text, given ? "environment" : "default", variables[i].help);
    }
    return t.length;
}

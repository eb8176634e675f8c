/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h: every setting in one declared table; the only file that calls getenv.
 *
 * A setting comes from its default, the environment (TUTTI_NAME), or the options string of tutti_config
 * ("name=value;name=value"), the later beating the earlier. `shared` settings must be equal on all ranks:
 * rank 0's are distributed at init. `local` ones may differ. */
#ifndef TT_BASE_CONFIG_H
#define TT_BASE_CONFIG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/costs.h"
#include "tutti.h"

enum tt_scope { TT_LOCAL, TT_SHARED };
enum tt_kind {
    TT_KIND_BOOL,
    TT_KIND_BYTES, /* 64K, 1M */
    TT_KIND_NUMBER, /* from which there are as many more to count on */
    TT_KIND_MS, /* milliseconds that fit a deadline in nanoseconds */
    TT_KIND_CHOICES, /* collective:algorithm,... */
    TT_KIND_TOPOLOGY, /* auto, or domains of ranks (topology.h) */
    TT_KIND_ISA, /* the name of an instruction set, or auto */
    TT_KIND_DEVICE, /* auto, none, current, or a number */
    TT_KIND_NETWORK, /* auto, tcp or ucx */
    TT_KIND_PROBE, /* auto, off, or a class of networks (link_class.h) */
    TT_KIND_CONGESTION, /* system, or the name of a congestion control */
    TT_KIND_EXECUTOR, /* auto, host, led or spin */
    TT_KIND_IMPORT, /* given or all */
    TT_KIND_PULL, /* huge, off or always */
    TT_KIND_PATH, /* of a file; empty: none */
};
enum tt_network { TT_NETWORK_AUTO, TT_NETWORK_TCP, TT_NETWORK_UCX };
enum tt_executor { TT_EXECUTOR_AUTO, TT_EXECUTOR_HOST, TT_EXECUTOR_LED, TT_EXECUTOR_SPIN };
enum tt_import { TT_IMPORT_GIVEN, TT_IMPORT_ALL };
enum tt_pull { TT_PULL_HUGE, TT_PULL_OFF, TT_PULL_ALWAYS };
enum { TT_PROBE_AUTO, TT_PROBE_OFF, TT_PROBE_FIRST /* and on: the class of that number */ };
enum { TT_DEVICE_AUTO, TT_DEVICE_NONE, TT_DEVICE_CURRENT, TT_DEVICE_FIRST };
enum tt_origin {
    TT_FROM_DEFAULT,
    TT_FROM_ENVIRONMENT,
    TT_FROM_OPTIONS,
    TT_FROM_RANK_0,
    TT_FROM_PARENT,
    TT_FROM_CONFIG, /* a field of it */
};

enum {
    TT_CONFIG_TEXT = 512,
    TT_TOPOLOGY_TEXT = 248,
    TT_PATH_TEXT = 160,
    TT_SETTINGS_MAX = 28,
    TT_RULES_MAX = 64
};

/* "all_reduce of so many ranks and bytes by this algorithm": a line of the file that `rules` names. */
struct tt_rule {
    uint8_t collective, algorithm; /* enum tt_collective; index in the registry */
    uint8_t size_least, size_most; /* size classes (costs.h) */
    uint16_t ranks_least, ranks_most;
};

/* The values, fixed size so that rank 0's can be sent as they are. */
struct tt_settings {
    /* shared */
    char algorithm[TT_CONFIG_TEXT]; /* "all_reduce:ring,broadcast:tree": forced by name */
    char topology[TT_TOPOLOGY_TEXT]; /* "0-3/4-7": which ranks share a cache; or "auto" */
    char rules[TT_PATH_TEXT]; /* a file with rules; "": none */
    uint64_t slice_bytes; /* 0: by the cache and the number of ranks */
    uint64_t timeout_ms_or_zero; /* tutti_config.timeout_ms when that is 0 */
    uint64_t refusal_ms; /* how long a refused call may be made right; 0: no limit of its own */
    uint64_t executor; /* enum tt_executor */
    uint64_t device_pad_bytes; /* of a rank's operands, and as many of its results; 0: as the device is */
    bool device_mapped; /* all memory that calls use is handed over (led.h) */
    uint64_t device_import; /* enum tt_import: which memory of a device other processes are given */
    struct { /* of messages between hosts */
        uint64_t network; /* enum tt_network */
        uint64_t congestion; /* 0: as the system has it; else tt_congestion_name tells */
        uint64_t probe; /* TT_PROBE_AUTO, _OFF, or TT_PROBE_FIRST + the number of a class */
    } hosts;
    uint64_t heartbeat_ms; /* a host that is silent for so long is gone; 0: as the system has it */
    uint64_t first_number; /* message and sequence numbers start here */
    bool exact;
    /* shared, and no settings: what rank 0 knows of the machine, and the rules of its file (selection.h) */
    uint32_t nrules;
    struct tt_rule rule[TT_RULES_MAX];
    struct tt_costs costs;
    uint64_t cache_bytes; /* of a core's level 2 cache; 0: nobody looked */
    /* local */
    uint64_t init_timeout_ms_or_zero; /* how long a rank waits for the others to come */
    uint64_t wait_warning_ms; /* after which the log says whom a call waits for; 0: never */
    bool map;
    uint64_t pull; /* enum tt_pull: which private memory goes by a system call */
    bool membarrier;
    bool fused;
    uint64_t stream_bytes; /* 0: as the caches are */
    uint64_t device; /* TT_DEVICE_AUTO, _NONE, _CURRENT, or TT_DEVICE_FIRST + its number */
    uint64_t isa; /* 0: the widest; else 1 + enum tt_isa */
    char device_library[TT_PATH_TEXT]; /* "": Tutti's own plugin (dev.h) */
    uint8_t origin[TT_SETTINGS_MAX]; /* enum tt_origin of each row of the table */
};

struct tt_setting {
    const char *name; /* "slice"; the environment has TUTTI_SLICE */
    enum tt_scope scope;
    enum tt_kind kind;
    size_t offset;
    const char *default_text;
    const char *help;
};
extern const struct tt_setting tt_setting_table[];
extern const int tt_setting_count;

/* Defaults, then the environment, then `options` (may be NULL). A bad value or unknown name in options is an
 * error that lists what is legal; a bad value in the environment too. Unknown TUTTI_* variables are warned
 * about once. */
tutti_status tt_settings_read(struct tt_settings *settings, const char *options);
/* The settings of a child of the communicator that has `parent`: that one's, but for what `options` say (may
 * be NULL). */
tutti_status tt_settings_inherit(
    struct tt_settings *settings, const struct tt_settings *parent, const char *options);
/* The word of a value, of a setting that is one of several. */
const char *tt_setting_word(enum tt_kind kind, uint64_t value);
/* How the system calls what this value of `congestion` means; NULL: whatever the system has. */
const char *tt_congestion_name(uint64_t congestion);
/* Where a member of the struct that is a setting comes from. */
enum tt_origin tt_setting_origin(const struct tt_settings *settings, const void *member);
/* A field of the config says the device. */
void tt_settings_take_device(struct tt_settings *settings, uint64_t device);
/* Keep this process's local settings, take rank 0's shared ones. */
void tt_settings_adopt(struct tt_settings *settings, const struct tt_settings *of_rank_0);
/* The table with values in force and where they come from, one line each, as snprintf. What stands before
 * the blanks and the # of a line is a legal option. */
size_t tt_settings_print(const struct tt_settings *settings, char *text, size_t bytes);

/* Prints in the same way the variables that belong to the process and are no settings. */
size_t tt_variables_print(char *text, size_t bytes);

/* The environment is read from here only: those variables, and others' (PMIX_RANK, XDG_RUNTIME_DIR). NULL if
 * unset, and for each where the process has rights that who started it lacks (setuid, setgid, capabilities
 * of the file): they name files and a library. */
const char *tt_environment(const char *name);
/* Is it so? For the words of an error. */
bool tt_environment_is_ignored(void);

/* "3", "64K", "1.5M", "1MB", "1MiB": bytes, with K, M, G or T for powers of 1024. False if it is not one.
 * collperf reads its sizes by the same rules. */
bool tt_parse_bytes(const char *text, uint64_t *value);
/* Digits and nothing else. */
bool tt_parse_number(const char *text, uint64_t *value);

#endif

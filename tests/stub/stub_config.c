/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_config.c: what the stub's devices are like, from a text of key=value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub_internal.h"

#define STUB_NAME(name) #name
const char *const tt_stub_names[STUB_FUNCTION_COUNT] = { STUB_FUNCTIONS(STUB_NAME) };
#undef STUB_NAME

static bool read_number(struct stub_config *config, const char *key, long long value)
{
    const struct {
        const char *key;
        long long low, high;
        int *field;
    } numbers[] = {
        { "devices", 0, STUB_DEVICES, &config->devices },
        { "queues", 1, STUB_QUEUES, &config->queues },
        { "depth", 1, 1 << 20, &config->depth },
        { "sms", 1, 1024, &config->sms },
        { "blocks_per_sm", 1, 32, &config->blocks_per_sm },
        { "slice", 0, 1000000, &config->slice_us },
        { "words_fault", 0, STUB_WAITS_HANG, &config->words_fault },
    };
    const struct {
        const char *key;
        bool *field;
    } flags[] = { { "words", &config->words }, { "managed", &config->managed }, { "fds", &config->fds },
        { "exports", &config->exports }, { "launch_blocking", &config->launch_blocking },
        { "yield", &config->yield }, { "one_address", &config->one_address }, { "peers", &config->peers } };
    static const struct {
        const char *key;
        enum stub_kind kind;
    } delays[] = { { "copy_delay", STUB_COPY }, { "copy_delay", STUB_FILL }, { "word_delay", STUB_WRITE },
        { "word_delay", STUB_WAIT }, { "host_delay", STUB_HOST }, { "event_delay", STUB_MARK },
        { "launch_delay", STUB_LAUNCH } };
    bool found = false;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(key, numbers[i].key) == 0 && value >= numbers[i].low && value <= numbers[i].high) {
            *numbers[i].field = (int)value;
            found = true;
        }
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strcmp(key, flags[i].key) == 0 && (value == 0 || value == 1)) {
            *flags[i].field = value == 1;
            found = true;
        }
    for (size_t i = 0; i < sizeof delays / sizeof delays[0]; i++)
        if ((strcmp(key, delays[i].key) == 0 || strcmp(key, "delay") == 0) && value >= 0) {
            config->delay_us[delays[i].kind] = value;
            found = true;
        }
    if (strcmp(key, "memory") == 0 && value > 0) {
        config->memory_bytes = (uint64_t)value << 20;
        found = true;
    }
    if (strcmp(key, "seed") == 0) {
        config->seed = (uint64_t)value;
        found = true;
    }
    return found;
}

static bool read_failure(const char *value)
{
    static const struct {
        const char *name;
        enum tt_dev_error error;
    } errors[] = { { "invalid", TT_DEV_INVALID }, { "no_memory", TT_DEV_NO_MEMORY },
        { "unsupported", TT_DEV_UNSUPPORTED }, { "broken", TT_DEV_BROKEN } };
    char function[32], name[32] = "invalid";
    unsigned long long k;
    if (sscanf(value, "%31[a-z_]:%llu:%31s", function, &k, name) < 2)
        return false;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (strcmp(name, errors[i].name) == 0)
            return tt_stub_fail_call(function, k, errors[i].error);
    return false;
}

bool tt_stub_config_read(struct stub_config *config, const char *text, char *why, size_t why_bytes)
{
    char copy[512], *rest = copy, *part;
    if (strlen(text) >= sizeof copy) {
        snprintf(why, why_bytes, "STUB_GPU is longer than %zu", sizeof copy - 1);
        return false;
    }
    strcpy(copy, text);
    while ((part = strsep(&rest, ",")) != NULL) {
        char *value = strchr(part, '='), *end = NULL;
        if (*part == '\0')
            continue;
        if (value != NULL)
            *value++ = '\0';
        bool right = value != NULL && *value != '\0';
        if (right && strcmp(part, "fail") == 0) {
            right = read_failure(value);
        } else if (right && strcmp(part, "share") == 0) {
            right = strlen(value) < sizeof config->share;
            if (right)
                strcpy(config->share, value);
        } else if (right && strcmp(part, "lock") == 0) {
            config->one_lock = strcmp(value, "process") == 0;
            right = config->one_lock || strcmp(value, "device") == 0;
        } else if (right) {
            long long number = strtoll(value, &end, 10);
            right = *end == '\0' && read_number(config, part, number);
        }
        if (!right) {
            snprintf(why, why_bytes,
                "STUB_GPU: %s=%s; legal are the keys of tests/stub/stub.h, in their bounds", part,
                value != NULL ? value : "");
            return false;
        }
    }
    return true;
}

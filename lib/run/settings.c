/* SPDX-License-Identifier: BSD-3-Clause */
/* settings.c: what a tutti_config and the environment say of a communicator. */
#include "run/settings.h"

#include <stddef.h>
#include <string.h>

#include "base/schedule.h"
#include "base/status.h"
#include "base/text.h"
#include "kernels/kernels.h"

/* Returns the length of a slot. A unit reads a slice of each of up to eight operands, and what it reads and
 * stores should stay in the level 2 cache; with two ranks, who read two operands and store one, slices are
 * twice as long. Slots shrink as ranks grow, so that what a rank may touch for staging stays in the tens of
 * megabytes. Where ranks are apart, each on a host of its own, a message costs system calls and a sleep, more
 * than that cache saves: slices are as long as with one of 2 MiB. Those of two ranks are long enough: with
 * 512 KiB one would wait while the other copies. */
uint64_t tt_comm_slot_bytes(const struct tt_settings *settings, int n, bool apart)
{
    enum { CACHE_LEAST = 512 << 10, CACHE_APART = 2 << 20, SLOT_LEAST = 8 << 10, PAGE = 4 << 10 };
    uint64_t cache = settings->cache_bytes, cache_most = n > 2 ? 4 << 20 : 2 << 20;
    uint64_t parts = n > TT_FOLD_MAX ? (uint64_t)n : n > 2 ? TT_FOLD_MAX : TT_FOLD_MAX / 2;
    uint64_t cache_least = apart && n > 2 ? CACHE_APART : CACHE_LEAST;
    cache = cache < cache_least ? cache_least : cache > cache_most ? cache_most : cache;
    uint64_t bytes = settings->slice_bytes != 0 ? settings->slice_bytes : cache / parts;
    bytes = bytes < SLOT_LEAST ? SLOT_LEAST : bytes;
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* The sizes at which a struct of an earlier release may have ended: behind a field. */
static const uint16_t config_ends[] = { offsetof(tutti_config, flags), offsetof(tutti_config, timeout_ms),
    offsetof(tutti_config, name), offsetof(tutti_config, options), offsetof(tutti_config, on_wait),
    offsetof(tutti_config, on_wait_context), offsetof(tutti_config, device), sizeof(tutti_config) };

_Static_assert(sizeof(tutti_config) == offsetof(tutti_config, device) + sizeof(int64_t),
    "each field is in the list above");

static tutti_status check_config_size(size_t size)
{
    char list[96] = "";
    struct tt_text legal = { list, sizeof list, 0 };
    for (size_t i = 0; i < sizeof config_ends / sizeof config_ends[0]; i++) {
        if (size == config_ends[i] || size > sizeof(tutti_config))
            return TUTTI_OK;
        tt_put(&legal, "%s%u", i > 0 ? ", " : "", config_ends[i]);
    }
    return tt_fail(TUTTI_INVALID_ARGUMENT,
        "config.size is %zu, which is the end of no field; set it to sizeof(tutti_config), %zu here; legal "
        "are "
        "also %s",
        size, sizeof(tutti_config), list);
}

/* openat2's rule: a shorter struct reads as zeros, a longer one is refused if what we do not know is not
 * zero. */
tutti_status tt_comm_config(const tutti_config *config, tutti_config *known)
{
    *known = (tutti_config){ .size = sizeof *known };
    if (config == NULL)
        return TUTTI_OK;
    if (config->size > 4096)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "config.size is %zu; a tutti_config has %zu bytes",
            config->size, sizeof *known);
    tutti_status status = check_config_size(config->size);
    if (status != TUTTI_OK)
        return status;
    const uint8_t *bytes = (const uint8_t *)config;
    for (size_t i = sizeof *known; i < config->size; i++)
        if (bytes[i] != 0)
            return tt_fail(TUTTI_UNSUPPORTED,
                "config sets a field at byte %zu that this library (version %d) does not know", i,
                TUTTI_VERSION);
    memcpy(known, config, config->size < sizeof *known ? config->size : sizeof *known);
    return TUTTI_OK;
}

bool tt_comm_nonblocking(const tutti_config *config)
{
    tutti_config known;
    return tt_comm_config(config, &known) == TUTTI_OK && (known.flags & TUTTI_COMM_NONBLOCKING) != 0;
}

/* 0 leaves it to the setting. */
static tutti_status take_device(int64_t device, struct tt_settings *settings)
{
    if (device < TUTTI_DEVICE_CURRENT || device > tutti_device(INT32_MAX))
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "config.device is %lld; legal: tutti_device(K) of a number from 0 up, TUTTI_DEVICE_CURRENT, "
            "TUTTI_DEVICE_NONE, or 0, which leaves it to the setting",
            (long long)device);
    if (device > 0)
        tt_settings_take_device(settings, TT_DEVICE_FIRST + (uint64_t)(device - 1));
    else if (device < 0)
        tt_settings_take_device(settings, device == TUTTI_DEVICE_NONE ? TT_DEVICE_NONE : TT_DEVICE_CURRENT);
    return TUTTI_OK;
}

/* parent NULL: there is none. */
static tutti_status read_settings(
    const tutti_config *config, const struct tt_settings *parent, struct tt_settings *settings)
{
    tutti_config c;
    tutti_status status = tt_comm_config(config, &c);
    if (status != TUTTI_OK)
        return status;
    if ((c.flags & ~(uint64_t)(TUTTI_COMM_EXACT | TUTTI_COMM_NONBLOCKING)) != 0)
        return tt_fail(TUTTI_UNSUPPORTED,
            "config.flags is 0x%llx; legal: TUTTI_COMM_EXACT, TUTTI_COMM_NONBLOCKING, or both",
            (unsigned long long)c.flags);
    if (c.timeout_ms < -1)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "config.timeout_ms is %lld; legal: -1 (never), 0 (default), or more", (long long)c.timeout_ms);
    status = parent != NULL ? tt_settings_inherit(settings, parent, c.options)
                            : tt_settings_read(settings, c.options);
    if (status == TUTTI_OK && tt_isa_of(settings->isa) > tt_isa_best())
        return tt_fail(TUTTI_UNSUPPORTED, "isa is %s, but this CPU, or compiler, has no more than %s",
            tt_isa_name(tt_isa_of(settings->isa)), tt_isa_name(tt_isa_best()));
    if (status == TUTTI_OK && (c.flags & TUTTI_COMM_EXACT))
        settings->exact = true;
    return status == TUTTI_OK ? take_device(c.device, settings) : status;
}

tutti_status tt_comm_settings(const tutti_config *config, struct tt_settings *settings)
{
    return read_settings(config, NULL, settings);
}

tutti_status tt_comm_settings_of_child(
    const tutti_config *config, const struct tt_settings *parent, struct tt_settings *settings)
{
    return read_settings(config, parent, settings);
}

int64_t tt_comm_timeout(const struct tt_settings *settings, const tutti_config *config)
{
    tutti_config known;
    if (tt_comm_config(config, &known) == TUTTI_OK && known.timeout_ms != 0)
        return known.timeout_ms;
    return settings->timeout_ms_or_zero != 0 ? (int64_t)settings->timeout_ms_or_zero : 600000;
}

/* A rank that dies before it comes is seen by nobody, so this is less than what a call may wait, where a
 * death is seen. Ranks of one machine start seconds apart, but a program may read its data first, which takes
 * minutes. Who said that he waits for ever means it here, too. */
int64_t tt_comm_init_timeout(const struct tt_settings *settings, const tutti_config *config)
{
    enum { DEFAULT_MS = 300000 };
    int64_t run_ms = tt_comm_timeout(settings, config), init_ms = (int64_t)settings->init_timeout_ms_or_zero;
    if (init_ms == 0)
        init_ms = run_ms < 0 ? -1 : DEFAULT_MS;
    return run_ms >= 0 && run_ms < init_ms ? run_ms : init_ms;
}

static uint64_t variable_ms(const char *name)
{
    const char *text = tt_environment(name);
    uint64_t ms;
    return text != NULL && tt_parse_number(text, &ms) && ms <= INT64_MAX / 1000000 ? ms : 0;
}

int64_t tt_comm_refused_timeout(const tutti_config *config)
{
    const struct tt_settings settings = { .timeout_ms_or_zero = variable_ms("TUTTI_TIMEOUT"),
        .init_timeout_ms_or_zero = variable_ms("TUTTI_INIT_TIMEOUT") };
    tutti_config legal = { .size = sizeof legal };
    bool reaches = config != NULL && config->size >= offsetof(tutti_config, timeout_ms) + sizeof(int64_t);
    if (reaches && config->timeout_ms >= -1)
        legal.timeout_ms = config->timeout_ms;
    return tt_comm_init_timeout(&settings, &legal);
}

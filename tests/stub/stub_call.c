/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_call.c: how each call of the table begins: it is counted, it may have been told to fail, and it may be
 * made where no runtime allows it: in a child of fork, on a device that is broken, in a function of the host
 * that a stream calls. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub_internal.h"

struct stub_runtime tt_stub_runtime = { .lock = PTHREAD_MUTEX_INITIALIZER,
    .api = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .host = PTHREAD_MUTEX_INITIALIZER };

static struct {
    _Atomic uint64_t calls, fail_at;
    _Atomic int error;
} functions[STUB_FUNCTION_COUNT];

static _Thread_local char last_why[256];
static _Thread_local int current_device = -1, current_context;
static _Thread_local bool calls_host;
static atomic_bool forked, begun;
static pthread_once_t config_once = PTHREAD_ONCE_INIT, begin_once = PTHREAD_ONCE_INIT;
static char config_why[160]; /* what was wrong with STUB_GPU */

void *tt_stub_new(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory == NULL) {
        fprintf(stderr, "stub: no memory for %zu bytes\n", bytes);
        abort();
    }
    return memory;
}

void *tt_stub_grow(void *array, int n, size_t bytes)
{
    array = realloc(array, (size_t)(n + 1) * bytes);
    if (array == NULL) {
        fprintf(stderr, "stub: no memory for %d times %zu bytes\n", n + 1, bytes);
        abort();
    }
    return array;
}

static void mark_forked(void)
{
    atomic_store(&forked, true);
    tt_stub_context_forked();
}

static void read_config(void)
{
    struct stub_config *config = &tt_stub_runtime.config;
    *config = (struct stub_config){ .devices = 2,
        .queues = 8,
        .depth = 1024,
        .memory_bytes = 1ull << 30,
        .seed = 1,
        .sms = 8,
        .blocks_per_sm = 2,
        .slice_us = 2000,
        .yield = true,
        .words = true,
        .managed = true,
        .fds = true,
        .exports = true,
        .one_address = true,
        .peers = true,
        .one_lock = true };
    const char *text = getenv("STUB_GPU");
    if (text != NULL)
        tt_stub_config_read(config, text, config_why, sizeof config_why);
}

static void begin(void)
{
    pthread_once(&config_once, read_config);
    if (config_why[0] == '\0' && !tt_stub_memory_open())
        snprintf(config_why, sizeof config_why, "there are no addresses for device memory");
    if (config_why[0] == '\0' && !tt_stub_context_open())
        snprintf(config_why, sizeof config_why, "the file of share= cannot be opened");
    tt_stub_streams_open();
    for (int i = 0; i < tt_stub_runtime.config.devices; i++) {
        struct stub_device *device = &tt_stub_runtime.devices[i];
        device->number = i;
        pthread_mutex_init(&device->own_api, NULL);
        for (int q = 0; q < STUB_QUEUES; q++)
            tt_stub_queue_open(&device->queues[q], device);
        tt_stub_legacy_open(device, 0);
    }
    tt_stub_queue_open(&tt_stub_runtime.backstage.queues[0], &tt_stub_runtime.backstage);
    pthread_atfork(NULL, NULL, mark_forked);
    atomic_store(&begun, true);
}

bool tt_stub_configure(const char *text)
{
    char why[160];
    pthread_once(&config_once, read_config);
    return !atomic_load(&begun) && tt_stub_config_read(&tt_stub_runtime.config, text, why, sizeof why);
}

static enum stub_function function_number(const char *name)
{
    int i = 0;
    while (i < STUB_FUNCTION_COUNT && strcmp(name, tt_stub_names[i]) != 0)
        i++;
    return (enum stub_function)i;
}

uint64_t tt_stub_calls(const char *function)
{
    enum stub_function f = function_number(function);
    return f < STUB_FUNCTION_COUNT ? atomic_load(&functions[f].calls) : UINT64_MAX;
}

bool tt_stub_fail_call(const char *function, uint64_t k, enum tt_dev_error error)
{
    enum stub_function f = function_number(function);
    if (f == STUB_FUNCTION_COUNT)
        return false;
    atomic_store(&functions[f].error, (int)error);
    atomic_store(&functions[f].fail_at, k == 0 ? 0 : atomic_load(&functions[f].calls) + k);
    return true;
}

enum tt_dev_error tt_stub_fail(enum tt_dev_error error, enum stub_function function, const char *format, ...)
{
    va_list arguments;
    int n = snprintf(last_why, sizeof last_why, "%s: ", tt_stub_names[function]);
    va_start(arguments, format);
    vsnprintf(last_why + n, sizeof last_why - (size_t)n, format, arguments);
    va_end(arguments);
    return error;
}

const char *tt_stub_why(void)
{
    return last_why;
}

struct stub_device *tt_stub_current(void)
{
    if (current_device < 0)
        current_device = 0;
    return &tt_stub_runtime.devices[current_device];
}

int tt_stub_used(void)
{
    return current_device;
}

int tt_stub_context(void)
{
    return current_context;
}

void tt_stub_calling_host(bool calling)
{
    calls_host = calling;
}

static void break_device(struct stub_device *device)
{
    pthread_mutex_lock(&tt_stub_runtime.lock);
    device->broken = true;
    tt_stub_work_changed();
    pthread_mutex_unlock(&tt_stub_runtime.lock);
}

static bool is_broken(int device)
{
    pthread_mutex_lock(&tt_stub_runtime.lock);
    bool broken = device >= 0 && tt_stub_runtime.devices[device].broken;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return broken;
}

/* What waits, asks or allocates cannot be done while anything is captured, by any thread. Events may be
 * asked: the table promises that this disturbs nobody. Segments are mapped and unmapped by threads of Tutti's
 * own, and their functions see to it that captures do not mind. */
static bool breaks_captures(enum stub_function function)
{
    static const bool unsafe[STUB_FUNCTION_COUNT] = { [STUB_alloc] = true,
        [STUB_free] = true,
        [STUB_alloc_managed] = true,
        [STUB_alloc_pinned] = true,
        [STUB_free_pinned] = true,
        [STUB_pin] = true,
        [STUB_unpin] = true,
        [STUB_stream_query] = true,
        [STUB_stream_sync] = true,
        [STUB_event_elapsed] = true,
        [STUB_preload] = true,
        [STUB_segment_alloc] = true };
    pthread_mutex_lock(&tt_stub_runtime.lock);
    bool breaks = unsafe[function] && tt_stub_captures_break();
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return breaks;
}

/* A thread that has used no device is given number 0 by whatever the runtime is asked; only questions that go
 * to the driver leave it as it is. */
static bool is_of_the_runtime(enum stub_function function)
{
    static const bool asks_the_driver[STUB_FUNCTION_COUNT] = { [STUB_count] = true,
        [STUB_facts] = true,
        [STUB_current] = true,
        [STUB_use] = true,
        [STUB_reaches] = true,
        [STUB_classify] = true,
        [STUB_stream_device] = true,
        [STUB_segment_export_of] = true,
        [STUB_segment_free] = true };
    return !asks_the_driver[function];
}

void tt_stub_count_call(enum stub_function function)
{
    atomic_fetch_add(&functions[function].calls, 1);
}

enum tt_dev_error tt_stub_enter(enum stub_function function)
{
    if (atomic_load(&forked))
        return tt_stub_fail(
            TT_DEV_INVALID, function, "this process was forked after its parent's first call");
    if (calls_host)
        return tt_stub_fail(
            TT_DEV_INVALID, function, "a function that a stream calls must not use the table");
    pthread_once(&begin_once, begin);
    uint64_t call = atomic_fetch_add(&functions[function].calls, 1) + 1;
    if (config_why[0] != '\0')
        return tt_stub_fail(TT_DEV_ABSENT, function, "%s", config_why);
    if (tt_stub_runtime.config.devices == 0)
        return tt_stub_fail(TT_DEV_ABSENT, function, "there is no device: STUB_GPU has devices=0");
    if (call == atomic_load(&functions[function].fail_at)) {
        enum tt_dev_error error = (enum tt_dev_error)atomic_load(&functions[function].error);
        if (error == TT_DEV_BROKEN)
            break_device(tt_stub_current());
        return tt_stub_fail(error, function, "told to fail at its call %llu", (unsigned long long)call);
    }
    bool harmless = function == STUB_count || function == STUB_facts || function == STUB_current ||
                    function == STUB_use || function == STUB_stream_capture;
    if (!harmless && is_broken(current_device))
        return tt_stub_fail(TT_DEV_BROKEN, function, "device %d is broken", current_device);
    if (breaks_captures(function))
        return tt_stub_fail(
            TT_DEV_CAPTURE, function, "a stream is being captured; that capture is broken now");
    if (is_of_the_runtime(function))
        tt_stub_current();
    return TT_DEV_OK;
}

/* --- The functions of the table that choose a device. */

enum tt_dev_error tt_stub_count(int *n)
{
    enum tt_dev_error error = tt_stub_enter(STUB_count);
    if (error == TT_DEV_OK)
        *n = tt_stub_runtime.config.devices;
    return error;
}

enum tt_dev_error tt_stub_facts(int device, struct tt_dev_facts *facts)
{
    const struct stub_config *config = &tt_stub_runtime.config;
    enum tt_dev_error error = tt_stub_enter(STUB_facts);
    if (error != TT_DEV_OK)
        return error;
    if (device < 0 || device >= config->devices)
        return tt_stub_fail(TT_DEV_ABSENT, STUB_facts, "device is %d; there are %d", device, config->devices);
    *facts = (struct tt_dev_facts){ .capability = 90,
        .sms = config->sms,
        .bytes = config->memory_bytes,
        .words = config->words,
        .managed = config->managed,
        .fds = config->fds,
        .shared_context = config->share[0] == '\0' };
    snprintf(facts->name, sizeof facts->name, "Stub %d", device);
    snprintf(facts->address, sizeof facts->address, "stub:%02x.0", device);
    return TT_DEV_OK;
}

enum tt_dev_error tt_stub_current_device(int *device)
{
    enum tt_dev_error error = tt_stub_enter(STUB_current);
    if (error == TT_DEV_OK)
        *device = current_device;
    return error;
}

enum tt_dev_error tt_stub_use(int device)
{
    enum tt_dev_error error = tt_stub_enter(STUB_use);
    int n = tt_stub_runtime.config.devices;
    if (error != TT_DEV_OK)
        return error;
    if (device < -1 || device >= n)
        return tt_stub_fail(TT_DEV_ABSENT, STUB_use, "device is %d; there are %d", device, n);
    if (device != current_device)
        current_context = 0;
    current_device = device;
    return TT_DEV_OK;
}

enum tt_dev_error tt_stub_reaches(int device, const char *address, bool *reaches)
{
    int n = tt_stub_runtime.config.devices, other = -1;
    enum tt_dev_error error = tt_stub_enter(STUB_reaches);
    if (error != TT_DEV_OK)
        return error;
    if (device < 0 || device >= n || sscanf(address, "stub:%x.0", (unsigned *)&other) != 1 || other >= n)
        return tt_stub_fail(
            TT_DEV_ABSENT, STUB_reaches, "device is %d, address \"%s\"; there are %d", device, address, n);
    *reaches = device != other && tt_stub_runtime.config.peers;
    return TT_DEV_OK;
}

/* The device has it from the first time on. */
void tt_stub_own_context(bool own)
{
    current_context = own;
    tt_stub_legacy_open(tt_stub_current(), current_context);
}

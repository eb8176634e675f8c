/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c: the one file of perf/ that knows the device table.
 *
 * The library has loaded its plugin by the time it has said where that is, so the module that is opened here
 * is the same one. A table of another build is refused by its version. */
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dev.h"

const char *const perf_memory_names[PERF_MEMORIES] = { "malloc", "registered", "huge", "host", "pinned",
    "managed", "device" };

enum { ANSWER_BYTES = 8192 };

static tutti_status complain(int rank, tutti_status status, const char *what, const char *why)
{
    fprintf(stderr, "collperf: rank %d: %s: %s\n", rank, what, why);
    return status;
}

static tutti_status check(struct perf_device *d, enum tt_dev_error error, const char *what)
{
    if (error == TT_DEV_OK)
        return TUTTI_OK;
    return complain(
        d->rank, error == TT_DEV_NO_MEMORY ? TUTTI_OUT_OF_MEMORY : TUTTI_DEVICE_ERROR, what, d->dev->why());
}

/* "library\tPATH (runtime)" is the first line of the answer where there are devices; else it says why not. */
static tutti_status find_table(struct perf_device *d)
{
    char answer[ANSWER_BYTES] = "", *path = answer, *runtime;
    static const char head[] = "library\t";
    size_t length = tutti_query(NULL, "devices", answer, sizeof answer);
    if (length >= sizeof answer)
        return complain(d->rank, TUTTI_UNSUPPORTED, "--memory", "the list of the devices is too long");
    answer[strcspn(answer, "\n")] = '\0';
    runtime = strrchr(answer, '(');
    if (strncmp(answer, head, sizeof head - 1) != 0 || runtime == NULL)
        return complain(d->rank, TUTTI_UNSUPPORTED, "--memory", answer);
    path += sizeof head - 1;
    runtime[-1] = '\0';
    void *module = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    void *symbol = module != NULL ? dlsym(module, "tutti_device_table") : NULL;
    if (symbol == NULL)
        return complain(d->rank, TUTTI_UNSUPPORTED, path, dlerror());
    tt_dev_table_fn table;
    memcpy(&table, &symbol, sizeof table);
    d->dev = table(TT_DEV_VERSION);
    if (d->dev == NULL)
        return complain(d->rank, TUTTI_UNSUPPORTED, path, "it is of another version than collperf");
    return check(d, d->dev->count(&d->count), "devices");
}

static tutti_status make_stream(struct perf_device *d)
{
    struct tt_dev_facts facts;
    tutti_status status = check(d, d->dev->use(d->number), "device");
    if (status == TUTTI_OK)
        status = check(d, d->dev->facts(d->number, &facts), "device");
    if (status == TUTTI_OK)
        status = check(d, d->dev->stream.create(&d->stream), "stream");
    for (int i = 0; i < PERF_DEVICE_MARKS && status == TUTTI_OK; i++)
        status = check(d, d->dev->event.create(true, &d->marks[i]), "event");
    if (status == TUTTI_OK)
        snprintf(d->name, sizeof d->name, "%s", facts.name);
    return status;
}

tutti_status perf_device_open(struct perf_device *d, int rank, int64_t asked)
{
    char what[48], why[48];
    *d = (struct perf_device){ .rank = rank };
    tutti_status status = find_table(d);
    if (status != TUTTI_OK)
        return status;
    if (asked >= d->count) {
        snprintf(what, sizeof what, "--device %lld", (long long)asked);
        snprintf(why, sizeof why, "legal are 0 to %d", d->count - 1);
        return complain(rank, TUTTI_UNSUPPORTED, what, why);
    }
    d->number = asked == PERF_DEVICE_ANY ? rank % d->count : (int)asked;
    return make_stream(d);
}

void perf_device_close(struct perf_device *d)
{
    for (int i = 0; i < PERF_DEVICE_MARKS; i++)
        if (d->marks[i] != NULL)
            d->dev->event.destroy(d->marks[i]);
    if (d->stream != NULL)
        d->dev->stream.destroy(d->stream);
    *d = (struct perf_device){ 0 };
}

/* The memory is written once: a limit is found by copies, and they may come before any value does. */
tutti_status perf_device_alloc(struct perf_device *d, enum perf_memory memory, uint64_t bytes, void **block)
{
    enum { SOMETHING = 0x3d };
    const struct tt_dev *dev = d->dev;
    tutti_status status = check(d,
        memory == PERF_PINNED    ? dev->memory.alloc_pinned(bytes, block)
        : memory == PERF_MANAGED ? dev->memory.alloc_managed(bytes, block)
                                 : dev->memory.alloc(bytes, block),
        "memory for the buffers");
    return status == TUTTI_OK ? check(d, dev->fill(*block, SOMETHING, bytes, d->stream), "fill") : status;
}

void perf_device_free(struct perf_device *d, enum perf_memory memory, void *block)
{
    if (memory == PERF_PINNED)
        d->dev->memory.free_pinned(block);
    else
        d->dev->memory.free(block);
}

tutti_status perf_device_copy(struct perf_device *d, void *to, const void *from, uint64_t bytes)
{
    return check(d, d->dev->copy(to, from, bytes, d->stream), "copy");
}

tutti_status perf_device_sync(struct perf_device *d)
{
    return check(d, d->dev->stream.sync(d->stream), "synchronise");
}

tutti_status perf_device_mark(struct perf_device *d, int mark)
{
    return check(d, d->dev->event.record(d->marks[mark], d->stream, false), "event");
}

tutti_status perf_device_between(struct perf_device *d, int from, int to, double *seconds)
{
    float ms = 0;
    tutti_status status = check(d, d->dev->event.elapsed(d->marks[from], d->marks[to], &ms), "event");
    *seconds = 1e-3 * (double)ms;
    return status;
}

tutti_status perf_device_record(struct perf_device *d)
{
    return check(d, d->dev->graph.capture_begin(d->stream), "graph");
}

tutti_status perf_device_keep(struct perf_device *d)
{
    tutti_status status = check(d, d->dev->graph.capture_end(d->stream, &d->graph), "graph");
    return status == TUTTI_OK ? check(d, d->dev->graph.instantiate(d->graph, &d->runnable), "graph") : status;
}

tutti_status perf_device_replay(struct perf_device *d)
{
    return check(d, d->dev->graph.launch(d->runnable, d->stream), "graph");
}

void perf_device_drop(struct perf_device *d)
{
    if (d->runnable != NULL)
        d->dev->graph.runnable_destroy(d->runnable);
    if (d->graph != NULL)
        d->dev->graph.destroy(d->graph);
    d->graph = d->runnable = NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* dev.c: finds and loads the plugin that fills the device table, and tells what devices there are.
 *
 * There is no lock: a driver that starts may fork a helper, and a fork must not meet one. Two threads that
 * look at once both load the library, which the loader counts, and the first to be done is believed. What was
 * found stays as long as the process. */
#include "device/dev.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/load.h"
#include "base/log.h"
#include "base/status.h"
#include "base/fork.h"

enum { PATH_BYTES = 512, RUNTIME_BYTES = 64 };

struct found {
    pid_t process;
    char asked[TT_PATH_TEXT];
    char path[PATH_BYTES]; /* "": there was nothing to load */
    char runtime[RUNTIME_BYTES];
    char missing[TT_ERROR_TEXT]; /* why there is no table */
    const struct tt_dev *dev;
    int n; /* devices */
};
static _Atomic(struct found *) known;

/* Load it, and see that it is one of ours, of this build, with a device. */
static void load(struct found *found)
{
    struct tt_text missing = { found->missing, sizeof found->missing, 0 };
    const char *why = NULL;
    void *library = tt_load(found->path, &why);
    void *symbol = library != NULL ? dlsym(library, "tutti_device_table") : NULL;
    if (symbol == NULL) {
        tt_put(&missing, "%s", library != NULL ? dlerror() : why);
        return;
    }
    tt_dev_table_fn table;
    memcpy(&table, &symbol, sizeof table);
    const struct tt_dev *dev = table(TT_DEV_VERSION);
    if (dev == NULL || dev->version != TT_DEV_VERSION) {
        tt_put(&missing, "%s is of another version of Tutti", found->path);
        return;
    }
    snprintf(found->runtime, sizeof found->runtime, "%s", dev->describe());
    if (dev->count(&found->n) != TT_DEV_OK)
        tt_put(&missing, "%s: %s", found->path, dev->why());
    else if (found->n == 0)
        tt_put(&missing, "%s: there is no device", found->path);
    else
        found->dev = dev;
}

static void load_own(struct found *found)
{
    struct tt_text missing = { found->missing, sizeof found->missing, 0 };
    tt_put(&missing, "Tutti was built without CUDA, or its plugin is not installed; looked for");
    if (tt_find_own("libtutti_cuda.so", found->path, sizeof found->path, &missing))
        load(found);
    else
        found->path[0] = '\0';
}

static const struct found *look(const char *library)
{
    struct found *found = calloc(1, sizeof *found), *first = NULL;
    if (found == NULL)
        return NULL;
    found->process = getpid();
    snprintf(found->asked, sizeof found->asked, "%s", library);
    snprintf(found->path, sizeof found->path, "%s", library);
    if (library[0] != '\0')
        load(found);
    else
        load_own(found);
    if (!atomic_compare_exchange_strong_explicit(
            &known, &first, found, memory_order_acq_rel, memory_order_acquire)) {
        free(found);
        return first;
    }
    if (found->dev != NULL)
        tt_log(TT_LOG_INFO, "%d devices by %s (%s)", found->n, found->path, found->runtime);
    return found;
}

/* The loader of a child that was forked while another thread was in it must not be asked. */
static bool is_mapped(const char *name)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL)
        found = strstr(line, name) != NULL;
    if (maps != NULL)
        fclose(maps);
    return found;
}

bool tt_dev_is_used(void)
{
    if (atomic_load_explicit(&known, memory_order_acquire) != NULL)
        return true;
    if (tt_fork_is_child())
        return is_mapped("/libcuda.so");
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver != NULL)
        dlclose(driver);
    return driver != NULL;
}

tutti_status tt_dev_find(const char *library, const struct tt_dev **dev)
{
    const struct found *found = atomic_load_explicit(&known, memory_order_acquire);
    if (found == NULL)
        found = look(library);
    if (found == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no device can be used: there is no memory to look for one");
    if (library[0] != '\0' && strcmp(library, found->asked) != 0 && strcmp(library, found->path) != 0)
        return tt_fail(TUTTI_INVALID_USAGE,
            "device_library is \"%s\", but this process looked for devices in %s before; legal: one library "
            "for a process",
            library, found->path[0] != '\0' ? found->path : "the default places");
    if (found->dev == NULL)
        return tt_fail(TUTTI_UNSUPPORTED, "no device can be used: %s", found->missing);
    if (found->process != getpid())
        return tt_fail(TUTTI_INVALID_USAGE,
            "no device can be used: process %ld forked this one after it had found devices; legal: to fork "
            "before, or to start a program",
            (long)found->process);
    *dev = found->dev;
    return TUTTI_OK;
}

tutti_status tt_dev_count(const char *library, int *count)
{
    const struct tt_dev *dev;
    tutti_status status = tt_dev_find(library, &dev);
    if (status == TUTTI_UNSUPPORTED)
        *count = 0;
    else if (status == TUTTI_OK)
        *count = atomic_load_explicit(&known, memory_order_acquire)->n;
    return status == TUTTI_UNSUPPORTED ? TUTTI_OK : status;
}

/* --- What there is, for people and for programs. */

static const struct {
    const char *name;
    size_t offset;
} abilities[] = { { "words", offsetof(struct tt_dev_facts, words) },
    { "fds", offsetof(struct tt_dev_facts, fds) }, { "managed", offsetof(struct tt_dev_facts, managed) },
    { "shared_context", offsetof(struct tt_dev_facts, shared_context) } };
enum { ABILITIES = sizeof abilities / sizeof abilities[0] };

static bool able(const struct tt_dev_facts *facts, int ability)
{
    return *(const bool *)((const char *)facts + abilities[ability].offset);
}

static void put_line(struct tt_text *t, const struct tt_dev *dev, int device)
{
    struct tt_dev_facts facts;
    tt_put(t, "device %d\t", device);
    if (dev->facts(device, &facts) != TT_DEV_OK) {
        tt_put(t, "%s\n", dev->why());
        return;
    }
    tt_put(t, "%s at %s, sm_%d, %d multiprocessors, %.1f GB", facts.name, facts.address, facts.capability,
        facts.sms, 1e-9 * (double)facts.bytes);
    for (int i = 0; i < ABILITIES; i++)
        if (able(&facts, i))
            tt_put(t, ", %s", abilities[i].name);
    tt_put(t, "\n");
}

static void put_object(struct tt_text *t, const struct tt_dev *dev, int device)
{
    struct tt_dev_facts facts;
    tt_put(t, "%s{\"device\": %d, ", device > 0 ? ", " : "", device);
    if (dev->facts(device, &facts) != TT_DEV_OK) {
        tt_put(t, "\"missing\": ");
        tt_put_json(t, dev->why());
        tt_put(t, "}");
        return;
    }
    tt_put(t, "\"name\": ");
    tt_put_json(t, facts.name);
    tt_put(t, ", \"address\": ");
    tt_put_json(t, facts.address);
    tt_put(t, ", \"capability\": %d, \"multiprocessors\": %d, \"bytes\": %llu", facts.capability, facts.sms,
        (unsigned long long)facts.bytes);
    for (int i = 0; i < ABILITIES; i++)
        tt_put(t, ", \"%s\": %s", abilities[i].name, able(&facts, i) ? "true" : "false");
    tt_put(t, "}");
}

static void put_missing(struct tt_text *t, bool json)
{
    if (!json) {
        tt_put(t, "%s\n", tt_last_error());
        return;
    }
    tt_put(t, "{\"devices\": [], \"missing\": ");
    tt_put_json(t, tt_last_error());
    tt_put(t, "}\n");
}

void tt_dev_put(struct tt_text *t, const char *library, bool json)
{
    const struct tt_dev *dev;
    if (tt_dev_find(library, &dev) != TUTTI_OK) {
        put_missing(t, json);
        return;
    }
    const struct found *found = atomic_load_explicit(&known, memory_order_acquire);
    if (!json) {
        tt_put(t, "library\t%s (%s)\n", found->path, found->runtime);
        for (int i = 0; i < found->n; i++)
            put_line(t, dev, i);
        return;
    }
    tt_put(t, "{\"library\": ");
    tt_put_json(t, found->path);
    tt_put(t, ", \"runtime\": ");
    tt_put_json(t, found->runtime);
    tt_put(t, ", \"devices\": [");
    for (int i = 0; i < found->n; i++)
        put_object(t, dev, i);
    tt_put(t, "]}\n");
}

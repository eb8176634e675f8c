/* SPDX-License-Identifier: BSD-3-Clause */
/* cache_domain_hwloc.c: the caches of this process, as hwloc sees the machine.
 *
 * hwloc takes milliseconds to look at a machine, many times what a communicator takes to begin. So it is
 * loaded only when there may be something to learn: the process is bound to a part of the machine, and the
 * kernel's own lists do not say that one cache of level 3 serves all of it. What it cannot tell is no
 * error. */
#include "base/cache_domain.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/load.h"
#include "base/log.h"

/* The functions used, by the declarations of the header. */
static struct {
    __typeof__(hwloc_topology_init) *init;
    __typeof__(hwloc_topology_set_all_types_filter) *set_all_types;
    __typeof__(hwloc_topology_set_type_filter) *set_type;
    __typeof__(hwloc_topology_load) *load;
    __typeof__(hwloc_topology_destroy) *destroy;
    __typeof__(hwloc_get_type_depth) *depth_of;
    __typeof__(hwloc_get_obj_by_depth) *object;
    __typeof__(hwloc_bitmap_isset) *has;
} hwloc;

static bool load(const char **why)
{
    static const struct {
        const char *name;
        void *function;
    } wanted[] = { { "hwloc_topology_init", &hwloc.init },
        { "hwloc_topology_set_all_types_filter", &hwloc.set_all_types },
        { "hwloc_topology_set_type_filter", &hwloc.set_type }, { "hwloc_topology_load", &hwloc.load },
        { "hwloc_topology_destroy", &hwloc.destroy }, { "hwloc_get_type_depth", &hwloc.depth_of },
        { "hwloc_get_obj_by_depth", &hwloc.object }, { "hwloc_bitmap_isset", &hwloc.has } };
    void *library = tt_load("libhwloc.so.15", why);
    for (size_t i = 0; library != NULL && i < sizeof wanted / sizeof wanted[0]; i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (symbol == NULL) {
            *why = wanted[i].name;
            return false;
        }
        memcpy(wanted[i].function, &symbol, sizeof symbol);
    }
    return library != NULL;
}

/* The number of the one cache that serves all these cores, -1 if there is none. */
static int cache_of(hwloc_topology_t machine, const cpu_set_t *cores)
{
    int depth = hwloc.depth_of(machine, HWLOC_OBJ_L3CACHE), found = -1;
    if (depth < 0)
        return -1;
    for (unsigned c = 0;; c++) {
        hwloc_obj_t cache = hwloc.object(machine, depth, c);
        bool serves = false;
        for (unsigned core = 0; cache != NULL && core < CPU_SETSIZE && !serves; core++)
            serves = CPU_ISSET(core, cores) && hwloc.has(cache->cpuset, core);
        if (cache == NULL)
            return found;
        if (serves && found >= 0)
            return -1;
        if (serves)
            found = (int)c;
    }
}

/* The machine with its caches of one kind; false if there is no telling. */
static bool look(hwloc_obj_type_t kind, hwloc_topology_t *machine)
{
    const char *why;
    if (!load(&why)) {
        tt_log(TT_LOG_INFO, "libhwloc.so.15 cannot be loaded (%s): caches are not known", why);
        return false;
    }
    if (hwloc.init(machine) != 0)
        return false;
    if (hwloc.set_all_types(*machine, HWLOC_TYPE_FILTER_KEEP_NONE) == 0 &&
        hwloc.set_type(*machine, kind, HWLOC_TYPE_FILTER_KEEP_ALL) == 0 && hwloc.load(*machine) == 0)
        return true;
    hwloc.destroy(*machine);
    return false;
}

int tt_cache_domain_of(const cpu_set_t *cores)
{
    hwloc_topology_t machine;
    if (!look(HWLOC_OBJ_L3CACHE, &machine))
        return -1;
    int domain = cache_of(machine, cores);
    hwloc.destroy(machine);
    return domain;
}

uint64_t tt_cache_bytes(void)
{
    hwloc_topology_t machine;
    if (!look(HWLOC_OBJ_L2CACHE, &machine))
        return 0;
    int depth = hwloc.depth_of(machine, HWLOC_OBJ_L2CACHE);
    hwloc_obj_t cache = depth < 0 ? NULL : hwloc.object(machine, depth, 0);
    uint64_t bytes = cache != NULL && cache->attr != NULL ? cache->attr->cache.size : 0;
    hwloc.destroy(machine);
    return bytes;
}

/* The first line of a file, "" if there is none. */
static void read_line(const char *path, char *line, int bytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(line, bytes, file) == NULL)
        line[0] = '\0';
    if (file != NULL)
        fclose(file);
}

static bool one_cache_serves_all(void)
{
    char online[256], sharing[256];
    read_line("/sys/devices/system/cpu/online", online, sizeof online);
    read_line("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", sharing, sizeof sharing);
    return strcmp(online, sharing) == 0;
}

int tt_cache_domain(void)
{
    cpu_set_t cores;
    bool bound =
        sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) < sysconf(_SC_NPROCESSORS_ONLN);
    return bound && !one_cache_serves_all() ? tt_cache_domain_of(&cores) : -1;
}

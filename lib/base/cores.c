/* SPDX-License-Identifier: BSD-3-Clause */
/* cores.c: how many cores this process was granted, by its affinity and by the cgroups it lives in.
 *
 * The number of cores of the machine says nothing inside a container: one with a quota of two cores sees all
 * of them, and ranks that spin on that promise are throttled together. A quota of any ancestor binds, so
 * the path of the cgroup is walked up to the root; within a namespace of its own, or where only a part of the
 * tree is mounted, the part that is not there is skipped. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/wait.h"

enum { PATH_BYTES = 4096, FILE_BYTES = 8192, CPUS_MAX = 1 << 20 };
#define FNV_BASIS 2166136261u /* FNV-1a */
#define FNV_PRIME 16777619u

static bool read_text(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t got = fread(text, 1, bytes - 1, file);
    fclose(file);
    text[got] = '\0';
    return got > 0;
}

static int smaller_quota(int cores, long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return cores;
    long long granted = (quota + period - 1) / period;
    return granted < cores ? (int)granted : cores;
}

/* The quota of one directory, in either version's words. */
static int quota_of(const char *directory, int cores)
{
    char path[PATH_BYTES + 32], text[128];
    long long quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", directory);
    if (read_text(path, text, sizeof text) && sscanf(text, "%lld %lld", &quota, &period) == 2)
        cores = smaller_quota(cores, quota, period);
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", directory);
    if (!read_text(path, text, sizeof text) || sscanf(text, "%lld", &quota) != 1)
        return cores;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", directory);
    if (read_text(path, text, sizeof text) && sscanf(text, "%lld", &period) == 1)
        cores = smaller_quota(cores, quota, period);
    return cores;
}

static int quota_up_from(const char *mount, const char *group, int cores)
{
    char path[PATH_BYTES];
    size_t base = strlen(mount);
    int length = snprintf(path, sizeof path, "%s%s", mount, group);
    if (length < 0 || (size_t)length >= sizeof path)
        return cores;
    for (;;) {
        cores = quota_of(path, cores);
        char *cut = strrchr(path + base, '/');
        if (cut == NULL)
            return cores;
        *cut = '\0';
    }
}

/* One line "id:controllers:path"; version 2 names no controllers. */
static int quota_of_line(const char *root, char *line, int cores)
{
    char mount[PATH_BYTES];
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL)
        return cores;
    *group++ = '\0';
    controllers++;
    if (*controllers == '\0')
        return quota_up_from(root, group, cores);
    char list[PATH_BYTES];
    snprintf(list, sizeof list, ",%s,", controllers);
    if (strstr(list, ",cpu,") == NULL)
        return cores;
    snprintf(mount, sizeof mount, "%s/%s", root, controllers);
    cores = quota_up_from(mount, group, cores);
    snprintf(mount, sizeof mount, "%s/cpu", root);
    return quota_up_from(mount, group, cores);
}

int tt_cores_quota(const char *root, const char *groups, int cores)
{
    char text[FILE_BYTES], *rest = text;
    snprintf(text, sizeof text, "%s", groups);
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n"))
        cores = quota_of_line(root, line, cores);
    return cores;
}

/* The kernel refuses a set that is too short for its machine, so the set grows until it fits. */
struct tt_cores tt_cores_mine(void)
{
    for (int cpus = 1024; cpus <= CPUS_MAX; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        if (set == NULL)
            break;
        CPU_ZERO_S(bytes, set);
        struct tt_cores mine = { 0, FNV_BASIS };
        if (sched_getaffinity(0, bytes, set) == 0)
            mine.count = (uint32_t)CPU_COUNT_S(bytes, set);
        for (int cpu = 0; mine.count > 0 && cpu < cpus; cpu++)
            if (CPU_ISSET_S((size_t)cpu, bytes, set))
                mine.which = (mine.which ^ (uint32_t)cpu) * FNV_PRIME;
        CPU_FREE(set);
        if (mine.count > 0)
            return mine;
    }
    return (struct tt_cores){ .count = 1 };
}

static int within_quota(int cores)
{
    char groups[FILE_BYTES];
    return read_text("/proc/self/cgroup", groups, sizeof groups)
               ? tt_cores_quota("/sys/fs/cgroup", groups, cores)
               : cores;
}

int tt_cores_granted(void)
{
    static _Atomic int known;
    int cores = atomic_load_explicit(&known, memory_order_relaxed);
    if (cores > 0)
        return cores;
    cores = within_quota((int)tt_cores_mine().count);
    atomic_store_explicit(&known, cores, memory_order_relaxed);
    return cores;
}

int tt_cores_machine(void)
{
    static _Atomic int known;
    int cores = atomic_load_explicit(&known, memory_order_relaxed);
    if (cores > 0)
        return cores;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cores = within_quota(online > 0 && online < CPUS_MAX ? (int)online : 1);
    atomic_store_explicit(&known, cores, memory_order_relaxed);
    return cores;
}

static bool is_new(const struct tt_cores *cores, int i)
{
    for (int before = 0; before < i; before++)
        if (cores[before].which == cores[i].which)
            return false;
    return true;
}

/* Reads a list as "0-3,8,10-11". */
static bool read_cores(const char *list, cpu_set_t *cores)
{
    CPU_ZERO(cores);
    for (const char *at = list; *at >= '0' && *at <= '9';) {
        char *end;
        long first = strtol(at, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long core = first; core <= last && core < CPU_SETSIZE; core++)
            CPU_SET((size_t)core, cores);
        at = *end == ',' ? end + 1 : end;
    }
    return CPU_COUNT(cores) > 0;
}

bool tt_cores_bind_near(const char *root, const char *address, struct tt_cores_kept *before)
{
    char path[PATH_BYTES], list[FILE_BYTES];
    cpu_set_t near, both;
    int length = (int)strcspn(address, "/"); /* what follows tells parts of one device apart */
    snprintf(path, sizeof path, "%s/bus/pci/devices/%.*s/local_cpulist", root, length, address);
    if (!read_text(path, list, sizeof list) || !read_cores(list, &near) ||
        sched_getaffinity(0, sizeof before->cores, &before->cores) != 0)
        return false;
    CPU_AND(&both, &near, &before->cores);
    return CPU_COUNT(&both) > 0 && sched_setaffinity(0, sizeof both, &both) == 0;
}

void tt_cores_unbind(const struct tt_cores_kept *before)
{
    sched_setaffinity(0, sizeof before->cores, &before->cores);
}

int tt_cores_together(const struct tt_cores *cores, int n)
{
    uint64_t sum = 0, machine = (uint64_t)tt_cores_machine();
    for (int i = 0; i < n; i++)
        sum += is_new(cores, i) ? cores[i].count : 0;
    return (int)(sum < machine ? sum : machine);
}

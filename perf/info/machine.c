/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.c: cores and memory as granted, not as built in.
 *
 * In a container the affinity mask is that of the machine while a quota grants less, and memory is what the
 * cgroup allows. Only the second version of cgroups is read; elsewhere the mask and the machine decide. */
#include "machine.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The first line of a file of this process's cgroup: seen from inside a container it is the root of the tree.
 */
static int read_cgroup(const char *name, char *line, int bytes)
{
    char group[256] = "", path[512];
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file != NULL) {
        if (fscanf(file, "0::%255[^\n]", group) != 1)
            group[0] = 0;
        fclose(file);
    }
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group, name);
    file = fopen(path, "re");
    if (file == NULL) {
        snprintf(path, sizeof path, "/sys/fs/cgroup/%s", name);
        file = fopen(path, "re");
    }
    if (file == NULL)
        return 0;
    int found = fgets(line, bytes, file) != NULL;
    fclose(file);
    return found;
}

int perf_machine_cores(void)
{
    cpu_set_t set;
    int cores =
        sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    char line[128];
    long quota, period;
    if (read_cgroup("cpu.max", line, sizeof line) && sscanf(line, "%ld %ld", &quota, &period) == 2 &&
        period > 0 && (quota + period - 1) / period < cores)
        cores = (int)((quota + period - 1) / period);
    return cores < 1 ? 1 : cores;
}

bool perf_machine_bind(int place)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return false;
    int core = -1;
    for (int left = place % CPU_COUNT(&all); left >= 0; left -= CPU_ISSET(core, &all) != 0)
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

uint64_t perf_machine_memory(void)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), limit;
    char line[128];
    if (read_cgroup("memory.max", line, sizeof line) && sscanf(line, "%" SCNu64, &limit) == 1 &&
        limit < memory)
        memory = limit;
    return memory;
}

int64_t perf_machine_held(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    if (file == NULL)
        return -1;
    char line[128];
    int64_t kib = -1, part;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Pss: %" SCNd64 " kB", &part) == 1)
            kib = part;
    fclose(file);
    return kib < 0 ? -1 : kib * 1024;
}

/* Reads what stands behind "name:" on a line of a file of /proc. */
static void read_value(const char *path, const char *name, char *text, size_t bytes)
{
    snprintf(text, bytes, "unknown");
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    char line[512];
    while (fgets(line, sizeof line, file) != NULL) {
        char *value = strchr(line, ':');
        if (strncmp(line, name, strlen(name)) != 0 || value == NULL)
            continue;
        line[strcspn(line, "\n")] = 0;
        value++;
        snprintf(text, bytes, "%s", value + strspn(value, " \t"));
        break;
    }
    fclose(file);
}

void perf_machine_cpu(char *text, size_t bytes)
{
    read_value("/proc/cpuinfo", "model name", text, bytes);
}

void perf_machine_places(char *text, size_t bytes)
{
    read_value("/proc/thread-self/status", "Cpus_allowed_list", text, bytes);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* selection.c: what is measured on a machine is kept for the next time, a file for each kind of machine.
 *
 * The file is named after a hash of the machine's signature (processor, cores) and begins with that
 * signature. It is read only if it is this user's alone to write, and believed only as a whole; otherwise the
 * defaults hold, and a line in the log says why. It is written beside its place and renamed. */
#include "select/selection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "base/caches.h"

enum { PATH_BYTES = 1024, FILE_BYTES = 2048, SIGNATURE_BYTES = 256 };

/* "tutti costs 1: AMD EPYC 9R14, 2 cores\n" */
static void sign(char *text, size_t bytes)
{
    char line[SIGNATURE_BYTES] = "", model[128] = "unknown";
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL) {
            snprintf(model, sizeof model, "%s", strchr(line, ':') + 1 + strspn(strchr(line, ':') + 1, " "));
            break;
        }
    if (file != NULL)
        fclose(file);
    model[strcspn(model, "\n")] = '\0';
    snprintf(text, bytes, "tutti costs 1: %s, %d cores\n", model, tt_cores_machine());
}

/* The directory of this user's caches; false if nobody says where. */
static bool find_directory(char *path, size_t bytes)
{
    const char *cache = tt_environment("XDG_CACHE_HOME"), *home = tt_environment("HOME");
    int length = -1;
    if (cache != NULL && cache[0] == '/')
        length = snprintf(path, bytes, "%s", cache);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, bytes, "%s/.cache", home);
    return length > 0 && (size_t)length + 64 < bytes;
}

static bool find_file(const char *signature, char *path, size_t bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    if (!find_directory(path, bytes))
        return false;
    for (const char *c = signature; *c != '\0'; c++)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    size_t length = strlen(path);
    snprintf(path + length, bytes - length, "/tutti/costs-%016llx", (unsigned long long)hash);
    return true;
}

/* The whole file, if nobody else could have written it; else why not. */
static const char *read_own(const char *path, char *text, size_t bytes)
{
    struct stat about;
    const char *why = NULL;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return errno == ENOENT ? "" : strerror(errno);
    ssize_t got = -1;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
        why = "it is no file";
    else if (about.st_uid != geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        why = "others may write it";
    else if (about.st_size >= (off_t)bytes || (got = read(file, text, bytes - 1)) != about.st_size)
        why = "it is too long";
    close(file);
    if (why == NULL)
        text[got] = '\0';
    return why;
}

bool tt_costs_load(struct tt_costs *costs)
{
    char signature[SIGNATURE_BYTES], path[PATH_BYTES], text[FILE_BYTES];
    sign(signature, sizeof signature);
    if (!find_file(signature, path, sizeof path))
        return false;
    const char *why = read_own(path, text, sizeof text);
    size_t length = strlen(signature);
    if (why == NULL && strncmp(text, signature, length) != 0)
        why = "it is of another machine";
    if (why == NULL && !tt_costs_parse(text + length, costs))
        why = "its numbers are not legal";
    if (why != NULL && why[0] != '\0')
        tt_log(TT_LOG_INFO, "%s is ignored: %s", path, why);
    return why == NULL;
}

static bool write_all(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t bytes = strlen(text);
    bool good = file >= 0 && write(file, text, bytes) == (ssize_t)bytes;
    if (file >= 0)
        good = close(file) == 0 && good;
    return good;
}

tutti_status tt_costs_save(const struct tt_costs *costs, char *path, size_t bytes)
{
    char text[FILE_BYTES], beside[PATH_BYTES + 32];
    struct tt_text t = { text, sizeof text, 0 };
    if (bytes < PATH_BYTES)
        return tt_fail(TUTTI_INTERNAL_ERROR, "costs: %zu bytes for a path", bytes);
    if (!find_directory(path, bytes))
        return tt_fail(
            TUTTI_SYSTEM_ERROR, "costs: neither XDG_CACHE_HOME nor HOME says where this user's caches are");
    sign(text, sizeof text);
    t.length = strlen(text);
    mkdir(path, 0700);
    find_file(text, path, bytes);
    *strrchr(path, '/') = '\0';
    mkdir(path, 0700);
    find_file(text, path, bytes);
    tt_costs_put(costs, &t);
    snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    if (write_all(beside, text) && rename(beside, path) == 0)
        return TUTTI_OK;
    int error = errno;
    unlink(beside);
    return tt_fail(TUTTI_SYSTEM_ERROR, "costs: %s cannot be written: %s", path, strerror(error));
}

tutti_status tt_selection_read(struct tt_settings *settings)
{
    settings->cache_bytes = tt_cache_own_bytes();
    settings->costs = tt_costs_default();
    tt_costs_load(&settings->costs);
    settings->costs.cores = (uint64_t)tt_cores_machine();
    return tt_rules_read(settings);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_host.c: the identity of a host.
 *
 * Boot id and PID namespace tell kernels and containers apart. Two containers may still have the same of
 * both (a pod), or none of their own: whether they share the directory of local sockets, which is where they
 * would pass descriptors, decides. */
#include "bootstrap/bootstrap_host.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "bootstrap/bootstrap_directory.h"
#include "bootstrap/sha256.h"

static void add_file(struct tt_sha256 *hash, const char *path)
{
    char bytes[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, bytes, sizeof bytes) : 0;
    if (fd >= 0)
        close(fd);
    tt_sha256_add(hash, bytes, got > 0 ? (size_t)got : 0);
}

static void add_inode(struct tt_sha256 *hash, const char *path)
{
    struct stat s;
    uint64_t numbers[2] = { 0, 0 };
    if (stat(path, &s) == 0) {
        numbers[0] = (uint64_t)s.st_dev;
        numbers[1] = (uint64_t)s.st_ino;
    }
    tt_sha256_add(hash, numbers, sizeof numbers);
}

static const char *host_id(void)
{
    const char *text = tt_environment("TUTTI_HOSTID");
    return text != NULL ? text : "";
}

void tt_host_key(uint8_t key[TT_HOST_KEY_BYTES])
{
    struct tt_sha256 hash;
    uint8_t digest[TT_SHA256_BYTES];
    char directory[TT_DIRECTORY_PATH];
    tt_sha256_begin(&hash);
    add_file(&hash, "/proc/sys/kernel/random/boot_id");
    add_inode(&hash, "/proc/self/ns/pid");
    tt_directory_file(TT_DIRECTORY_TMP, ".", directory);
    add_inode(&hash, directory);
    tt_sha256_add(&hash, host_id(), strlen(host_id()));
    tt_sha256_end(&hash, digest);
    memcpy(key, digest, TT_HOST_KEY_BYTES);
}

void tt_host_mix(uint8_t token[TT_HOST_KEY_BYTES])
{
    struct tt_sha256 hash;
    uint8_t digest[TT_SHA256_BYTES];
    if (host_id()[0] == 0)
        return;
    tt_sha256_begin(&hash);
    tt_sha256_add(&hash, host_id(), strlen(host_id()));
    tt_sha256_end(&hash, digest);
    for (int i = 0; i < TT_HOST_KEY_BYTES; i++)
        token[i] ^= digest[i];
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_id_file.c: an id in a file, for ranks of one machine and user that know no secret.
 *
 * The directory is private, so every file in it is this user's. The name of the file is made of public
 * values, which an earlier job may have had, too. So a file counts only while somebody answers at its id:
 * else the ranks that look it up go on waiting, and the next rank 0 replaces it. Rank 0 publishes with the
 * directory locked, so that of two jobs with one name the second is refused, and not mixed with the first.
 *
 * The file is there before the socket listens, and goes with it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/wait.h"
#include "bootstrap/bootstrap_root.h"
#include "bootstrap/init_progress.h"

enum { PAUSE_MS = 64, LOCK_MS = 10000 };

static const char prefix[] = "id-";

enum found { NOTHING, DEAD, ALIVE, FOREIGN };

/* Reads the id file. Only a file that nobody else could have written or read is believed. */
static enum found read_id_file(const char *path, tutti_id *id)
{
    struct stat s;
    struct tt_id read_id;
    struct sockaddr_un address;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? NOTHING : FOREIGN;
    bool ours = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() && (s.st_mode & 077) == 0;
    bool whole = ours && s.st_size == sizeof *id && read(fd, id, sizeof *id) == sizeof *id;
    close(fd);
    if (!ours)
        return FOREIGN;
    if (!whole || tt_id_read(id, &read_id) != TUTTI_OK)
        return DEAD;
    explicit_bzero(read_id.secret, sizeof read_id.secret);
    bool found = tt_directory_socket(read_id.directory, read_id.token, &address) == TUTTI_OK;
    return found && !tt_socket_is_dead(&address) ? ALIVE : DEAD;
}

static tutti_status refuse(const char *path)
{
    return tt_fail(TUTTI_SYSTEM_ERROR,
        "%s is not a file of user %lu with mode 0600: refusing to read an id from it", path,
        (unsigned long)geteuid());
}

static void make_path(const char *name, char path[TT_DIRECTORY_PATH])
{
    char leaf[64];
    snprintf(leaf, sizeof leaf, "%s%s", prefix, name);
    tt_directory_file(TT_DIRECTORY_TMP, leaf, path);
}

/* Locks the directory; closing the descriptor that this returns unlocks it. */
static int lock_directory(const char *path)
{
    int64_t deadline_ns = tt_deadline_ns(LOCK_MS);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || tt_now_ns() >= deadline_ns) {
            int number = errno;
            close(fd);
            errno = number;
            return -1;
        }
        tt_sleep_ms(1);
    }
    return fd;
}

/* Removes id files that killed jobs left. */
static void sweep(const char *directory)
{
    char path[TT_DIRECTORY_PATH];
    tutti_id id;
    DIR *d = opendir(directory);
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (strncmp(e->d_name, prefix, sizeof prefix - 1) != 0 || strlen(e->d_name) > 63)
            continue;
        tt_directory_file(TT_DIRECTORY_TMP, e->d_name, path);
        if (read_id_file(path, &id) == DEAD)
            unlink(path);
    }
    explicit_bzero(&id, sizeof id);
    if (d)
        closedir(d);
}

static tutti_status write_id_file(const char *path, const tutti_id *id)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool written = fd >= 0 && write(fd, id, sizeof *id) == sizeof *id;
    int number = errno;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !written)
        unlink(path);
    errno = number;
    return written ? TUTTI_OK : tt_fail_errno(TUTTI_SYSTEM_ERROR, "cannot write %s", path);
}

/* Makes an id, writes the id file and starts the root. With the directory locked. */
static tutti_status publish(const char *path, int64_t timeout_ms, tutti_id *id)
{
    struct tt_id made;
    tutti_id published;
    enum found found = read_id_file(path, &published);
    if (found == FOREIGN)
        return refuse(path);
    if (found == ALIVE)
        return tt_fail(TUTTI_INVALID_USAGE,
            "another job of the same name is starting on this machine (%s): give each its own MASTER_PORT",
            path);
    tutti_status status = tt_id_make(TT_DIRECTORY_TMP, &made);
    if (status != TUTTI_OK)
        return status;
    tt_id_write(&made, &published);
    status = write_id_file(path, &published);
    if (status == TUTTI_OK) {
        status = tt_root_start(&made, path, timeout_ms);
        if (status != TUTTI_OK)
            unlink(path);
    }
    if (status == TUTTI_OK)
        *id = published;
    explicit_bzero(&made, sizeof made);
    explicit_bzero(&published, sizeof published);
    return status;
}

tutti_status tt_bootstrap_publish(const char *name, int64_t timeout_ms, tutti_id *id)
{
    char path[TT_DIRECTORY_PATH], directory[TT_DIRECTORY_PATH];
    tutti_status status = tt_directory_make(TT_DIRECTORY_TMP);
    if (status != TUTTI_OK)
        return status;
    make_path(name, path);
    tt_directory_file(TT_DIRECTORY_TMP, ".", directory);
    int lock = lock_directory(directory);
    if (lock < 0)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "cannot lock %s", directory);
    sweep(directory);
    status = publish(path, timeout_ms, id);
    close(lock);
    return status;
}

tutti_status tt_bootstrap_look_up(const char *name, int64_t timeout_ms, tutti_id *id)
{
    char path[TT_DIRECTORY_PATH];
    int64_t deadline_ns = tt_deadline_ns(timeout_ms);
    tutti_status status = tt_directory_make(TT_DIRECTORY_TMP);
    if (status != TUTTI_OK)
        return status;
    make_path(name, path);
    for (int pause_ms = 1;; pause_ms = pause_ms < PAUSE_MS ? 2 * pause_ms : PAUSE_MS) {
        tutti_id published;
        enum found found = read_id_file(path, &published);
        if (found == ALIVE) {
            *id = published;
            explicit_bzero(&published, sizeof published);
            return TUTTI_OK;
        }
        if (found == FOREIGN)
            return refuse(path);
        if (tt_now_ns() >= deadline_ns)
            return tt_fail(TUTTI_TIMEOUT, "rank 0 of this job did not start on this machine within %lld ms",
                (long long)timeout_ms);
        tt_init_progress_wait("rank 0 has not come, or not on this machine");
        tt_init_progress_look();
        tt_sleep_ms(pause_ms);
    }
}

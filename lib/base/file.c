/* SPDX-License-Identifier: BSD-3-Clause */
/* file.c: look at what was opened, not at what a name stood for a moment ago; of a link only its owner
 * counts, who alone can turn it where a directory is shared (/tmp is sticky). */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum { MEMORY_DEVICES = 1, DEV_NULL = 3, DEV_ZERO = 5, DEV_FULL = 7, MODE = 0600 };

static bool trusted(const struct stat *s)
{
    return s->st_uid == geteuid() || s->st_uid == 0;
}

static bool writes(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY;
}

/* The number of a descriptor that this name stands for; -1: it is a name like others. */
static int named_descriptor(const char *path)
{
    static const char prefix[] = "/dev/fd/";
    const char *digits = path + sizeof prefix - 1;
    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    if (strncmp(path, prefix, sizeof prefix - 1) != 0)
        return -1;
    size_t length = strlen(digits);
    return length > 0 && length < 8 && strspn(digits, "0123456789") == length ? atoi(digits) : -1;
}

static int fail(char why[TT_FILE_WHY], const char *what, int flags)
{
    if (writes(flags))
        snprintf(why, TT_FILE_WHY,
            "it is %s; legal: a regular file of user %lu or of root, a terminal, /dev/null, /dev/stdout, "
            "/dev/stderr",
            what, (unsigned long)geteuid());
    else
        snprintf(why, TT_FILE_WHY, "it is %s; legal: a regular file", what);
    return -1;
}

static bool harmless_device(int fd, const struct stat *s)
{
    unsigned number = minor(s->st_rdev);
    bool discards = major(s->st_rdev) == MEMORY_DEVICES &&
                    (number == DEV_NULL || number == DEV_ZERO || number == DEV_FULL);
    return S_ISCHR(s->st_mode) && (discards || isatty(fd));
}

static int refuse(const struct stat *s, int flags, char why[TT_FILE_WHY])
{
    char owned[48];
    snprintf(owned, sizeof owned, "a file of user %lu", (unsigned long)s->st_uid);
    return fail(why,
        S_ISREG(s->st_mode)    ? owned
        : S_ISFIFO(s->st_mode) ? "a pipe"
        : S_ISDIR(s->st_mode)  ? "a directory"
        : S_ISSOCK(s->st_mode) ? "a socket"
                               : "a device",
        flags);
}

/* Keeps fd or closes it. */
static int judge(int fd, int flags, char why[TT_FILE_WHY])
{
    struct stat s;
    bool known = fstat(fd, &s) == 0;
    bool good = known && (S_ISREG(s.st_mode) ? !writes(flags) || trusted(&s) : harmless_device(fd, &s));
    if (good && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0)
        return fd;
    if (known && !good)
        refuse(&s, flags, why);
    else
        snprintf(why, TT_FILE_WHY, "%s", strerror(errno));
    close(fd);
    return -1;
}

int tt_file_open(const char *path, int flags, char why[TT_FILE_WHY])
{
    const int safely = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    int number = named_descriptor(path), fd;
    struct stat s;
    if (number >= 0) {
        fd = fcntl(number, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            snprintf(why, TT_FILE_WHY, "%s", strerror(errno));
        return fd;
    }
    fd = open(path, flags | safely | (writes(flags) ? O_NOFOLLOW : 0), MODE);
    if (fd < 0 && errno == ELOOP && writes(flags) && lstat(path, &s) == 0 && S_ISLNK(s.st_mode)) {
        if (!trusted(&s)) {
            char link[48];
            snprintf(link, sizeof link, "a link of user %lu", (unsigned long)s.st_uid);
            return fail(why, link, flags);
        }
        fd = open(path, flags | safely, MODE);
    }
    if (fd >= 0)
        return judge(fd, flags, why);
    int wrong = errno;
    if (stat(path, &s) == 0 && !S_ISREG(s.st_mode) && (wrong == ENXIO || wrong == EISDIR))
        return refuse(&s, flags, why);
    snprintf(why, TT_FILE_WHY, "%s", strerror(wrong));
    return -1;
}

static bool is_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

void tt_file_guard(struct tt_file_guard *guard)
{
    sigset_t signal;
    sigemptyset(&signal);
    sigaddset(&signal, SIGXFSZ);
    guard->pending = is_pending();
    pthread_sigmask(SIG_BLOCK, &signal, &guard->before);
}

/* Takes back the signal that came meanwhile: the system sends it to the thread that writes. */
void tt_file_unguard(const struct tt_file_guard *guard)
{
    int number = errno;
    const struct timespec at_once = { 0, 0 };
    sigset_t signal;
    sigemptyset(&signal);
    sigaddset(&signal, SIGXFSZ);
    if (!guard->pending && is_pending())
        sigtimedwait(&signal, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    errno = number;
}

bool tt_file_grow(int fd, uint64_t bytes)
{
    struct tt_file_guard guard;
    tt_file_guard(&guard);
    bool grown = ftruncate(fd, (off_t)bytes) == 0;
    tt_file_unguard(&guard);
    return grown;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_directory.c: private directories, and sockets that leave no file behind.
 *
 * A socket's own mode is not honoured everywhere, so the directory guards it: owned by this user, mode
 * 0700, or refused. $XDG_RUNTIME_DIR is preferred because the system empties it; in /tmp, the sticky bit
 * keeps others from replacing a directory once its owner was checked. $TUTTI_DIRECTORY beats both.
 *
 * Another user may have made the directory in /tmp first. Then the first of 16 names that is not taken is
 * used. Where nothing can be made in /tmp, as in a container whose root is read-only, $TMPDIR is next, and
 * $XDG_RUNTIME_DIR after all. Ranks that agree on /tmp look at the same names in the same order, so they find
 * the same directory; a later name that is there already is preferred to an earlier one.
 *
 * Open listeners are in one list, for two events that nobody announces: exit waits for those that linger and
 * removes the files of all, and a fork closes the child's copies, so that a child neither answers for its
 * parent nor removes its files. A process that is killed leaves its file, and the next one that makes an id
 * removes it. A socket gets its name only when it listens, so a named one that refuses is dead. */
#include "bootstrap/bootstrap_host.h"
#include "bootstrap/bootstrap_directory.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/fork.h"
#include "base/status.h"
#include "base/wait.h"

enum { PATH_BYTES = sizeof((struct sockaddr_un *)0)->sun_path, TOKEN_TEXT = 2 * TT_TOKEN_BYTES };
enum { SWEPT_AT_ONCE = 256, TMP_NAMES = 16, PLACES = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t watched = PTHREAD_ONCE_INIT;
static struct tt_listener *open_listeners;

/* True if this is a directory of our own that no one else can enter. A link is none: another user may turn
 * it. */
static bool is_private(const char *path, bool *exists)
{
    struct stat s;
    *exists = lstat(path, &s) == 0;
    return *exists && S_ISDIR(s.st_mode) && s.st_uid == geteuid() && (s.st_mode & 0777) == 0700;
}

static bool is_foreign(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0 && s.st_uid != geteuid();
}

/* Makes the path of the directory below $XDG_RUNTIME_DIR. False if that is not set, or too long for the
 * name of a socket behind it. */
static bool runtime_path(char *path)
{
    const char *runtime = tt_environment("XDG_RUNTIME_DIR");
    int length = PATH_BYTES;
    if (runtime && runtime[0] == '/')
        length = snprintf(path, PATH_BYTES, "%s/tutti", runtime);
    return length + 1 + TOKEN_TEXT < PATH_BYTES;
}

/* True if this process can make files in the directory, which also a read-only file system may forbid. */
static bool is_writable(const char *path)
{
    return access(path, W_OK | X_OK) == 0;
}

bool tt_directory_is_runtime_here(void)
{
    char path[PATH_BYTES];
    struct stat s;
    if (!runtime_path(path))
        return false;
    const char *runtime = tt_environment("XDG_RUNTIME_DIR");
    return stat(runtime, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() && (s.st_mode & 0077) == 0 &&
           is_writable(runtime);
}

/* Returns where private directories may lie, in order; NULL: there is no such place. */
static const char *place(int i)
{
    const char *chosen = tt_environment("TUTTI_DIRECTORY");
    if (chosen != NULL)
        return i == 0 ? chosen : NULL;
    return i == 0 ? "/tmp" : tt_environment("TMPDIR");
}

/* Makes "/tmp/tutti-1000", or that with ".1" to ".15" behind it. False if the place is no absolute path, or
 * too long for the name of a socket behind it. */
static bool private_path(const char *where, int number, char *path)
{
    char suffix[16] = "";
    if (number > 0)
        snprintf(suffix, sizeof suffix, ".%d", number);
    int length = snprintf(path, PATH_BYTES, "%s/tutti-%lu%s", where, (unsigned long)geteuid(), suffix);
    return where[0] == '/' && length + 1 + TOKEN_TEXT < PATH_BYTES;
}

/* Makes the path of the first directory that is there, can be written to and is this user's alone; of the
 * first that can be made; or of the first, if none can. False if that is too long. */
static bool choose_path(char *path)
{
    bool exists;
    for (int i = 0; i < PLACES && place(i) != NULL; i++)
        for (int number = 0; number < TMP_NAMES; number++)
            if (private_path(place(i), number, path) && is_private(path, &exists) && is_writable(path))
                return true;
    for (int i = 0; i < PLACES && place(i) != NULL; i++)
        for (int number = 0; is_writable(place(i)) && number < TMP_NAMES; number++)
            if (private_path(place(i), number, path) && !is_foreign(path))
                return true;
    if (tt_environment("TUTTI_DIRECTORY") == NULL && tt_directory_is_runtime_here())
        return runtime_path(path);
    return private_path(place(0), 0, path);
}

/* Makes the path of a directory; false as runtime_path and choose_path say. */
static bool directory_path(enum tt_directory directory, char *path)
{
    return directory == TT_DIRECTORY_RUNTIME ? runtime_path(path) : choose_path(path);
}

static tutti_status refuse_path(enum tt_directory directory)
{
    static const char longest[] = "/tutti-4294967295.15/";
    if (directory == TT_DIRECTORY_RUNTIME)
        return tt_fail(TUTTI_SYSTEM_ERROR,
            "the id's socket lies below $XDG_RUNTIME_DIR, which is unset here or "
            "has another value than in the process that made the id");
    return tt_fail(TUTTI_INVALID_USAGE,
        "TUTTI_DIRECTORY is \"%.100s\"; legal: an absolute path of at most %d bytes", place(0),
        PATH_BYTES - 1 - TOKEN_TEXT - (int)strlen(longest));
}

static tutti_status refuse(const char *path)
{
    return tt_fail(TUTTI_SYSTEM_ERROR,
        "%s must be a directory of user %lu with mode 0700, and it is not%s: refusing to meet there", path,
        (unsigned long)geteuid(),
        is_foreign(path) ? " (another user made it first; TUTTI_DIRECTORY or $XDG_RUNTIME_DIR may name a "
                           "directory that is used instead)"
                         : "");
}

/* Says why a directory that the environment names, and that is to be this user's alone if `alone`, is not
 * used. */
static void describe_unused(const char *name, bool alone, char *text, size_t bytes)
{
    const char *path = tt_environment(name), *why = "is no absolute path, or too long";
    struct stat s;
    char number[64], owner[96];
    if (path == NULL) {
        snprintf(text, bytes, "%s is not set", name);
        return;
    }
    bool found = path[0] == '/' && stat(path, &s) == 0;
    if (found && alone && (s.st_uid != geteuid() || (s.st_mode & 0077) != 0)) {
        snprintf(owner, sizeof owner, "is of user %lu with mode %04o, legal: %lu and 0700",
            (unsigned long)s.st_uid, (unsigned)s.st_mode & 07777, (unsigned long)geteuid());
        why = owner;
    } else if (path[0] == '/' && (!found || !is_writable(path))) {
        why = strerror_r(errno, number, sizeof number);
    }
    snprintf(text, bytes, "%s, %.40s, %s", name, path, why);
}

/* Fails with errno, since there is no place for a private directory. */
static tutti_status fail_to_make(const char *path)
{
    int number = errno;
    char other[160], runtime[160], text[64];
    const char *why = strerror_r(number, text, sizeof text);
    if (tt_environment("TUTTI_DIRECTORY") != NULL)
        return tt_fail(TUTTI_SYSTEM_ERROR, "cannot make the directory %s, in TUTTI_DIRECTORY: %s", path, why);
    describe_unused("TMPDIR", false, other, sizeof other);
    describe_unused("XDG_RUNTIME_DIR", true, runtime, sizeof runtime);
    return tt_fail(TUTTI_SYSTEM_ERROR,
        "cannot make the directory %s, for the sockets by which ranks of a host meet: %s; %s; %s; "
        "TUTTI_DIRECTORY "
        "may name a place, the same for all ranks of a host",
        path, why, other, runtime);
}

bool tt_socket_is_dead(const struct sockaddr_un *address)
{
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool dead = s >= 0 && connect(s, (const struct sockaddr *)address, sizeof *address) != 0 &&
                (errno == ECONNREFUSED || errno == ENOENT);
    if (s >= 0)
        close(s);
    return dead;
}

/* Removes what killed processes left in our directory. */
static void sweep(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    for (int i = 0; directory && i < SWEPT_AT_ONCE && (entry = readdir(directory)) != NULL; i++) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        if (entry->d_name[0] == '.' || strlen(entry->d_name) != TOKEN_TEXT)
            continue;
        snprintf(address.sun_path, PATH_BYTES, "%.*s/%.*s", PATH_BYTES - TOKEN_TEXT - 2, path, TOKEN_TEXT,
            entry->d_name);
        if (tt_socket_is_dead(&address))
            unlink(address.sun_path);
    }
    if (directory)
        closedir(directory);
}

tutti_status tt_directory_make(enum tt_directory directory)
{
    char path[PATH_BYTES];
    bool exists, private = false;
    for (int i = 0; i < TMP_NAMES && !private; i++) { /* another may take a name that was free a moment ago */
        if (!directory_path(directory, path))
            return refuse_path(directory);
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return fail_to_make(path);
        private = is_private(path, &exists);
        if (private && !is_writable(path))
            return fail_to_make(path);
    }
    if (!private)
        return refuse(path);
    sweep(path);
    return TUTTI_OK;
}

tutti_status tt_directory_choose(enum tt_directory *directory)
{
    bool runtime = tt_environment("TUTTI_DIRECTORY") == NULL && tt_directory_is_runtime_here();
    enum tt_directory chosen = runtime ? TT_DIRECTORY_RUNTIME : TT_DIRECTORY_TMP;
    tutti_status status = tt_directory_make(chosen);
    if (status == TUTTI_OK)
        *directory = chosen;
    return status;
}

tutti_status tt_directory_socket(
    enum tt_directory directory, const uint8_t *token, struct sockaddr_un *address)
{
    char path[PATH_BYTES];
    bool exists;
    if (!directory_path(directory, path))
        return refuse_path(directory);
    if (!is_private(path, &exists)) {
        if (exists)
            return refuse(path);
        return tt_fail(TUTTI_PEER_LOST,
            "nobody answers at this id: %s is not there; the id was made on another machine, in another "
            "container or by another user",
            path);
    }
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    size_t at = strlen(path);
    memcpy(address->sun_path, path, at);
    address->sun_path[at++] = '/';
    uint8_t name[TT_TOKEN_BYTES];
    memcpy(name, token, sizeof name);
    tt_host_mix(name);
    for (int i = 0; i < TT_TOKEN_BYTES; i++)
        at += (size_t)snprintf(address->sun_path + at, PATH_BYTES - at, "%02x", name[i]);
    return TUTTI_OK;
}

void tt_directory_file(enum tt_directory directory, const char *name, char path[TT_DIRECTORY_PATH])
{
    char folder[PATH_BYTES];
    directory_path(directory, folder);
    snprintf(path, TT_DIRECTORY_PATH, "%s/%s", folder, name);
}

static void remove_file(const struct tt_listener *listener)
{
    if (listener->id_file[0] != 0)
        unlink(listener->id_file);
    if (listener->address.sun_path[0] != 0)
        unlink(listener->address.sun_path);
}

static void remove_files(void)
{
    pthread_mutex_lock(&lock);
    for (struct tt_listener *l = open_listeners; l; l = l->next)
        remove_file(l);
    pthread_mutex_unlock(&lock);
}

static bool anybody_lingers(void)
{
    bool any = false;
    pthread_mutex_lock(&lock);
    for (const struct tt_listener *l = open_listeners; l; l = l->next)
        any = any || l->lingers;
    pthread_mutex_unlock(&lock);
    return any;
}

/* A rank that comes after its job has failed finds nobody who could say so once this process is gone, and
 * would wait until its time is up. */
static void leave(void)
{
    int64_t deadline_ns = tt_deadline_ns(TT_LISTENER_LINGER_MS);
    while (anybody_lingers() && tt_now_ns() < deadline_ns)
        tt_sleep_ms(5);
    remove_files();
}

static void after_fork_in_child(void)
{
    for (struct tt_listener *l = open_listeners; l; l = l->next)
        close(l->socket);
    open_listeners = NULL;
}

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_LISTENERS, &lock, after_fork_in_child);
}

static void watch_exit(void)
{
    atexit(leave);
}

/* Gives a listening socket its name, unless a socket that is alive has it. A dead one loses it. */
static bool take_name(const char *unnamed, const struct sockaddr_un *address)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        if (link(unnamed, address->sun_path) == 0)
            return true;
        if (errno != EEXIST || !tt_socket_is_dead(address))
            break;
        unlink(address->sun_path);
    }
    if (errno != EEXIST)
        return false;
    errno = EADDRINUSE;
    return false;
}

/* Adds a listener to the list. With the lock held. */
static void add(
    struct tt_listener *listener, int socket, const struct sockaddr_un *address, const char *id_file)
{
    *listener = (struct tt_listener){ .socket = socket, .address = *address, .next = open_listeners };
    if (id_file)
        snprintf(listener->id_file, sizeof listener->id_file, "%s", id_file);
    open_listeners = listener;
}

tutti_status tt_listener_open(
    struct tt_listener *listener, const struct sockaddr_un *address, const char *id_file)
{
    struct sockaddr_un unnamed = *address; /* it has another name until it listens */
    unsigned long long random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "no random name for a local socket");
    snprintf(strrchr(unnamed.sun_path, '/') + 1, TOKEN_TEXT + 1, ".%016llx", random);
    pthread_once(&watched, watch_exit);
    pthread_mutex_lock(&lock);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool bound = s >= 0 && bind(s, (const struct sockaddr *)&unnamed, sizeof unnamed) == 0;
    bool done = bound && listen(s, SOMAXCONN) == 0 && take_name(unnamed.sun_path, address);
    int number = errno;
    if (bound)
        unlink(unnamed.sun_path);
    if (done)
        add(listener, s, address, id_file);
    else if (s >= 0)
        close(s);
    pthread_mutex_unlock(&lock);
    errno = number;
    return done
               ? TUTTI_OK
               : tt_fail_errno(TUTTI_SYSTEM_ERROR, "cannot listen at the local socket %s", address->sun_path);
}

void tt_listener_adopt(struct tt_listener *listener, int socket)
{
    struct sockaddr_un none = { .sun_family = AF_UNSPEC };
    pthread_once(&watched, watch_exit);
    pthread_mutex_lock(&lock);
    add(listener, socket, &none, NULL);
    pthread_mutex_unlock(&lock);
}

void tt_listener_linger(struct tt_listener *listener)
{
    pthread_mutex_lock(&lock);
    listener->lingers = true;
    pthread_mutex_unlock(&lock);
}

void tt_listener_close(struct tt_listener *listener)
{
    pthread_mutex_lock(&lock);
    if (listener->socket >= 0) {
        remove_file(listener);
        close(listener->socket);
        listener->socket = -1;
        struct tt_listener **at = &open_listeners;
        while (*at != listener)
            at = &(*at)->next;
        *at = listener->next;
    }
    pthread_mutex_unlock(&lock);
}

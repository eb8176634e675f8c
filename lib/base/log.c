/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c: one write() per line.
 *
 * The descriptor is open for appending, so lines of many ranks in one terminal or file never mix and need no
 * lock. Level and destination are read once; a forked child keeps both, and its lines carry its own process
 * number. Texts may hold bytes from outside: control characters become spaces, so a line stays a line. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/config.h"
#include "base/file.h"
#include "base/text.h"

enum { LINE_BYTES = 1024, PATH_BYTES = 512 };

static const char *const level_names[] = { "none", "error", "warn", "info", "trace" };
static const char *const level_tags[] = { "NONE", "ERROR", "WARN", "INFO", "TRACE" };

static pthread_once_t opened = PTHREAD_ONCE_INIT;
static enum tt_log_level threshold = TT_LOG_WARN;
static int destination = STDERR_FILENO;

static void write_line(enum tt_log_level level, const char *text)
{
    char line[LINE_BYTES];
    int number = errno;
    int head = snprintf(line, sizeof line, "tutti[%ld] %s: ", (long)getpid(), level_tags[level]);
    size_t end = (size_t)head;
    for (; *text != 0 && end < sizeof line - 1; text++) {
        unsigned char c = (unsigned char)*text;
        line[end++] = c < 32 || c == 127 ? ' ' : *text;
    }
    line[end++] = '\n';
    /* A log that cannot be written has nowhere to say so. */
    struct tt_file_guard guard;
    tt_file_guard(&guard);
    ssize_t written = write(destination, line, end);
    (void)written;
    tt_file_unguard(&guard);
    errno = number;
}

static void read_level(void)
{
    const char *name = tt_environment("TUTTI_DEBUG");
    if (!name)
        return;
    for (int level = TT_LOG_NONE; level <= TT_LOG_TRACE; level++) {
        if (strcasecmp(name, level_names[level]) == 0) {
            threshold = (enum tt_log_level)level;
            return;
        }
    }
    char text[LINE_BYTES];
    snprintf(text, sizeof text,
        "TUTTI_DEBUG=\"%.60s\" is not a level; legal: none, error, warn, info, trace. Using warn", name);
    write_line(TT_LOG_WARN, text);
}

static void open_log(void)
{
    const char *pattern = tt_environment("TUTTI_DEBUG_FILE");
    char path[PATH_BYTES], text[LINE_BYTES];
    if (pattern && !tt_expand_name(pattern, -1, path, sizeof path)) {
        snprintf(text, sizeof text, "TUTTI_DEBUG_FILE is empty or too long; logging to stderr");
        write_line(TT_LOG_WARN, text);
    } else if (pattern) {
        char why[TT_FILE_WHY];
        int fd = tt_file_open(path, O_WRONLY | O_CREAT | O_APPEND, why);
        if (fd >= 0) {
            destination = fd;
        } else {
            snprintf(text, sizeof text, "cannot open TUTTI_DEBUG_FILE %s: %s; logging to stderr", path, why);
            write_line(TT_LOG_WARN, text);
        }
    }
    read_level();
}

bool tt_log_enabled(enum tt_log_level level)
{
    pthread_once(&opened, open_log);
    return level != TT_LOG_NONE && level <= threshold;
}

void tt_log(enum tt_log_level level, const char *format, ...)
{
    if (!tt_log_enabled(level))
        return;
    char text[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    write_line(level, text);
}

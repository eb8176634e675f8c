/* SPDX-License-Identifier: BSD-3-Clause */
/* launch_root.c: an id that nobody hands out: each rank makes it of a secret that all of them can read.
 *
 * The secret is a file of the user's. What the id holds is derived from it and from the public name of the
 * job (RFC 5869 in spirit: one code of HMAC-SHA256 for each use), so neither the file nor another job's id
 * can be had from an id. The file must be one that others cannot read, and hold hexadecimal digits: whoever
 * answers in rank 0's place hears a proof, on which guesses can be tried, so the secret must be random, and
 * what a person makes up is not. White space counts for nothing, as editors and hosts differ in it.
 *
 * The name is TUTTI_ROOT as it is written, what a launcher says of the job, and the number of the call, so
 * that a second communicator gets an id of its own. Of an address, no two jobs can use one at a time. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "bootstrap/bootstrap_root.h"
#include "launch/launch.h"
#include "bootstrap/sha256.h"

enum { DIGITS_LEAST = 32, DIGITS_MOST = 4096, FILE_MOST = 2 * DIGITS_MOST };
#define LEGAL "legal: %d to %d random hexadecimal digits, as `tutti-info secret FILE` makes them"

struct secret {
    size_t digits;
    uint8_t digit[DIGITS_MOST]; /* in lower case */
};

/* Fails unless only this user can read this open file. What was opened is asked, not the path, so that
 * nobody can replace the file in between. */
static tutti_status check_file(int fd, const char *path)
{
    struct stat s;
    const char *wrong = NULL;
    if (fstat(fd, &s) != 0)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "TUTTI_SECRET_FILE, %s", path);
    if (!S_ISREG(s.st_mode))
        wrong = "is no regular file";
    else if (s.st_uid != geteuid())
        wrong = "belongs to another user";
    else if ((s.st_mode & 077) != 0)
        wrong = "can be read or written by others";
    if (!wrong)
        return TUTTI_OK;
    return tt_fail(TUTTI_INVALID_USAGE,
        "TUTTI_SECRET_FILE, %s, %s; legal: a regular file of user %lu with mode 0600 or 0400", path, wrong,
        (unsigned long)geteuid());
}

/* Keeps the digits of what was read. False if there is anything else in it, or too much. */
static bool take_digits(const uint8_t *bytes, size_t size, struct secret *secret)
{
    for (size_t i = 0; i < size; i++) {
        if (isspace(bytes[i]))
            continue;
        if (!isxdigit(bytes[i]) || secret->digits == DIGITS_MOST)
            return false;
        secret->digit[secret->digits++] = (uint8_t)tolower(bytes[i]);
    }
    return true;
}

static tutti_status read_digits(int fd, const char *path, struct secret *secret)
{
    uint8_t bytes[FILE_MOST + 1];
    size_t size = 0;
    ssize_t got = 1;
    while (got != 0 && size < sizeof bytes) {
        got = read(fd, bytes + size, sizeof bytes - size);
        if (got < 0 && errno != EINTR)
            return tt_fail_errno(TUTTI_SYSTEM_ERROR, "TUTTI_SECRET_FILE, %s", path);
        size += got > 0 ? (size_t)got : 0;
    }
    bool legal = size <= FILE_MOST && take_digits(bytes, size, secret);
    explicit_bzero(bytes, sizeof bytes);
    if (!legal)
        return tt_fail(TUTTI_INVALID_USAGE,
            "TUTTI_SECRET_FILE, %s, holds more than hexadecimal digits, or too many; words that a person "
            "made "
            "up can be guessed; " LEGAL,
            path, DIGITS_LEAST, DIGITS_MOST);
    if (secret->digits < DIGITS_LEAST)
        return tt_fail(TUTTI_INVALID_USAGE,
            "TUTTI_SECRET_FILE, %s, holds %zu hexadecimal digits, so few that all can be tried; " LEGAL, path,
            secret->digits, DIGITS_LEAST, DIGITS_MOST);
    return TUTTI_OK;
}

static tutti_status read_secret(const char *path, struct secret *secret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a pipe must not keep us waiting */
    if (fd < 0)
        return tt_fail_errno(TUTTI_INVALID_USAGE, "TUTTI_SECRET_FILE, %s", path);
    secret->digits = 0;
    tutti_status status = check_file(fd, path);
    if (status == TUTTI_OK)
        status = read_digits(fd, path, secret);
    close(fd);
    return status;
}

static void derive(const struct secret *secret, const char *use, const char *name, void *key, size_t bytes)
{
    uint8_t code[TT_SHA256_BYTES];
    char text[512];
    snprintf(text, sizeof text, "tutti 1 %s of %s", use, name);
    tt_hmac_sha256(secret->digit, secret->digits, text, strlen(text), code);
    memcpy(key, code, bytes);
    explicit_bzero(code, sizeof code);
}

tutti_status tt_launch_root(
    const char *root, const char *secret_file, const char *job, int rank, int64_t timeout_ms, tutti_id *id)
{
    struct tt_id made = { .agreed = true, .directory = TT_DIRECTORY_TMP };
    struct secret secret;
    char name[400];
    tutti_status status = tt_net_resolve("TUTTI_ROOT", root, made.nets, &made.count);
    if (status == TUTTI_OK)
        status = tt_directory_make(made.directory);
    if (status == TUTTI_OK)
        status = read_secret(secret_file, &secret);
    if (status != TUTTI_OK)
        return status;
    snprintf(name, sizeof name, "%s call %u of %s", root, tt_launch_count(), job);
    derive(&secret, "secret", name, made.secret, sizeof made.secret);
    derive(&secret, "session", name, &made.session, sizeof made.session);
    derive(&secret, "socket", name, made.token, sizeof made.token);
    if (rank == 0)
        status = tt_root_start(&made, NULL, timeout_ms);
    if (status == TUTTI_OK)
        tt_id_write(&made, id);
    explicit_bzero(&secret, sizeof secret);
    explicit_bzero(&made, sizeof made);
    return status;
}

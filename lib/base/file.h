/* SPDX-License-Identifier: BSD-3-Clause */
/* file.h: opening the files that a setting or the environment names.
 *
 * The names are often in /tmp and easily guessed, so another user may have been there first: with a link to a
 * file of this user's, with a file that he can read, or with a pipe, at which a program would wait for ever
 * for somebody at its other end. */
#ifndef TT_BASE_FILE_H
#define TT_BASE_FILE_H
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum { TT_FILE_WHY = 160 };

/* `flags` as of open(2), O_RDONLY or O_WRONLY and more; a new file has mode 0600, and the descriptor is
 * closed at an exec. Never waits. -1: `why` says what is wrong, and what would be legal.
 *
 * To be read: a regular file. To be written: a regular file of this user or of root, whose name, if it is a
 * link, is one of theirs, too. Both: a terminal, and what discards all. "/dev/stdout", "/dev/stderr" and
 * "/dev/fd/N" are this process's own descriptors, whatever they are. */
int tt_file_open(const char *path, int flags, char why[TT_FILE_WHY]);

/* Between these two calls of a thread, what would make a file longer than RLIMIT_FSIZE allows fails with
 * EFBIG, and no signal (SIGXFSZ) ends the program. errno stays. */
struct tt_file_guard {
    sigset_t before;
    bool pending;
};
void tt_file_guard(struct tt_file_guard *guard);
void tt_file_unguard(const struct tt_file_guard *guard);
/* Makes a file so long. False, with errno: it could not. */
bool tt_file_grow(int fd, uint64_t bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_directory.h: the directory of an id's local socket, and the removal of that socket.
 *
 * The path is not in the id, which has 16 bytes for an address. The id says which of two directories, and
 * each process finds its path for itself; the file in it has a random token as its name. */
#ifndef TT_BOOTSTRAP_DIRECTORY_H
#define TT_BOOTSTRAP_DIRECTORY_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tutti.h"

/* The numbers are part of the id. */
enum tt_directory {
    TT_DIRECTORY_RUNTIME, /* $XDG_RUNTIME_DIR/tutti */
    TT_DIRECTORY_TMP, /* /tmp/tutti-UID, or what stands in for it where that cannot be, or for all */
    TT_DIRECTORIES
};
enum { TT_TOKEN_BYTES = 16 };

/* Chooses a directory that is private to this user, and makes it if it is not there. */
tutti_status tt_directory_choose(enum tt_directory *directory);
/* True if this process has an $XDG_RUNTIME_DIR that can be used. */
bool tt_directory_is_runtime_here(void);
/* Makes this one. */
tutti_status tt_directory_make(enum tt_directory directory);
/* Sets *address to that of a socket in the directory. Fails if the directory is not there or not private. */
tutti_status tt_directory_socket(
    enum tt_directory directory, const uint8_t *token, struct sockaddr_un *address);

/* The size of a path of a file in the directory. */
enum { TT_DIRECTORY_PATH = 160 };
void tt_directory_file(enum tt_directory directory, const char *name, char path[TT_DIRECTORY_PATH]);
/* True if nobody answers at this socket any more. */
bool tt_socket_is_dead(const struct sockaddr_un *address);

/* A listening socket, and the files that others find it by. tt_listener_close removes these, and exit does
 * if the listener is still open; a forked child owns neither. The struct must stay where it is until it is
 * closed. */
struct tt_listener {
    int socket; /* -1: closed */
    struct sockaddr_un address; /* no path: it is one of the network */
    char id_file[TT_DIRECTORY_PATH]; /* the file that holds the id; empty: none */
    bool lingers; /* ranks that are still to come are to be told of a failure */
    struct tt_listener *next;
};
/* Opens the socket at this address. Fails if somebody answers there already. `id_file` may be NULL. */
tutti_status tt_listener_open(
    struct tt_listener *listener, const struct sockaddr_un *address, const char *id_file);
/* Makes a listener of a socket that listens already. */
void tt_listener_adopt(struct tt_listener *listener, int socket);
/* The exit of the process waits for this listener from now on, until it is closed, but no longer than
 * TT_LISTENER_LINGER_MS. */
enum { TT_LISTENER_LINGER_MS = 5000 };
void tt_listener_linger(struct tt_listener *listener);
void tt_listener_close(struct tt_listener *listener);

#endif

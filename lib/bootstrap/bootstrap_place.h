/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_place.h: where the local socket of an id lies, and that it goes away again.
 *
 * The path is not in the id, which has 16 bytes for an address: it is a directory that each process finds for
 * itself (the id says which of the two) and a random token as the name of the file. */
#ifndef TT_BOOTSTRAP_PLACE_H
#define TT_BOOTSTRAP_PLACE_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tutti.h"

/* The numbers are part of the id. */
enum tt_place {
    TT_PLACE_RUNTIME, /* $XDG_RUNTIME_DIR/tutti */
    TT_PLACE_TMP, /* /tmp/tutti-UID, or where that is another user's what stands in for it */
    TT_PLACES
};
enum { TT_TOKEN_BYTES = 16 };

/* Choose a directory, private to this user, and make it if it is not there. */
tutti_status tt_place_choose(enum tt_place *place);
tutti_status tt_place_make(enum tt_place place); /* this one */
/* The path of a socket in it. Fails if the directory is not there or not private. */
tutti_status tt_place_address(enum tt_place place, const uint8_t *token, struct sockaddr_un *address);

/* The path of a file in it. */
enum { TT_PLACE_PATH = 160 };
void tt_place_file(enum tt_place place, const char *name, char path[TT_PLACE_PATH]);
/* Nobody answers at this socket any more. */
bool tt_place_is_dead(const struct sockaddr_un *address);

/* A socket that listens, and the files that others find it by. They are removed by close, and at exit if it
 * is still open then; a forked child owns neither. The struct must stay where it is until it is closed. */
struct tt_listener {
    int socket; /* -1: closed */
    struct sockaddr_un address; /* no path: it is one of the network */
    char posted[TT_PLACE_PATH]; /* a file in which others find the address; empty: none */
    struct tt_listener *next;
};
/* Fails if somebody answers there already. `posted` may be NULL. */
tutti_status tt_listener_open(
    struct tt_listener *listener, const struct sockaddr_un *address, const char *posted);
/* Takes a socket that listens. */
void tt_listener_adopt(struct tt_listener *listener, int socket);
void tt_listener_close(struct tt_listener *listener);

#endif

/* bootstrap_place.h: where the local socket of an id lies, and that it goes away again.
 *
 * The path is not in the id, which has 16 bytes for an address: it is a directory that each process finds for
 * itself (the id says which of the two) and a random token as the name of the file. */
#ifndef TT_BOOTSTRAP_PLACE_H
#define TT_BOOTSTRAP_PLACE_H
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tutti.h"

/* The numbers are part of the id. */
enum tt_place {
    TT_PLACE_RUNTIME, /* $XDG_RUNTIME_DIR/tutti */
    TT_PLACE_TMP, /* /tmp/tutti-UID */
    TT_PLACES
};
enum { TT_TOKEN_BYTES = 16 };

/* Choose a directory, private to this user, and make it if it is not there. */
tutti_status tt_place_choose(enum tt_place *place);
/* The path of a socket in it. Fails if the directory is not there or not private. */
tutti_status tt_place_address(enum tt_place place, const uint8_t *token, struct sockaddr_un *address);

/* A socket that listens. Its file is removed by close, and at exit if it is still open then; a forked child
 * owns neither. The struct must stay where it is until it is closed. */
struct tt_listener {
    struct sockaddr_un address;
    int socket; /* -1: closed */
    struct tt_listener *next;
};
tutti_status tt_listener_open(struct tt_listener *listener, const struct sockaddr_un *address);
void tt_listener_close(struct tt_listener *listener);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_reach.h: a rank's end of a session: its connection to the root (bootstrap_reach.c), what it hears
 * by that (bootstrap_hear.c), and how it meets the others so (bootstrap.c). */
#ifndef TT_BOOTSTRAP_REACH_H
#define TT_BOOTSTRAP_REACH_H
#include <poll.h>
#include <sys/un.h>

#include "bootstrap/bootstrap_wire.h"

struct tt_session {
    int socket; /* -1: not open */
    int n, rank;
    uint64_t number; /* of the id */
    int64_t timeout_ms, deadline_ns;
    int maker; /* the rank of the process that made the id; -1: it is none, or not known */
    pid_t pid; /* that process; 0: not known */
    struct tt_id id; /* its secret is wiped when all have met */
    bool remote; /* this rank came by the network */
    bool reached; /* the root answers, or did */
    bool heard; /* the root let this rank in */
    bool dropped; /* the root closed the connection before that, as it does with too many */
    uint64_t heartbeat_ms; /* of a connection of the network */
    int door; /* listens for ranks that this one passes on to; -1: none comes */
    uint16_t port; /* of the door */
    int why; /* errno of the last attempt by the network */
};

/* Fails because the root has closed the connection. */
tutti_status tt_session_lost(const struct tt_session *s, const char *when);
/* Fails with what errno says of the connection; 0: it was closed. If it was dropped before this rank was let
 * in, no error is set yet: the rank comes again. */
tutti_status tt_session_broken(struct tt_session *s, const char *when);
/* Waits until poll finds one of these ready, and returns how many are; 0: that moment has passed; -1, with
 * errno: the deadline has. */
int tt_session_poll(const struct tt_session *s, struct pollfd *polls, int count, int64_t until_ns);
/* Waits until the socket can be read, or written; false, with errno, if the deadline has passed. */
bool tt_session_wait(const struct tt_session *s, short events);
/* Sends all bytes; the descriptors go with the first one. False, with errno: it could not. */
bool tt_session_send(const struct tt_session *s, const void *bytes, size_t size, const int *fds, int nfds);
/* Receives all bytes. False, with errno: it could not; 0: the connection was closed. */
bool tt_session_receive(const struct tt_session *s, void *bytes, size_t size);
/* Receives the head of the next frame, and of a notice or a verdict all of it (bootstrap_hear.c). Fails with
 * a verdict that is a failure. */
tutti_status tt_session_hear(struct tt_session *s, struct tt_frame *frame, const char *when);
/* The same of the next frame that is no notice. */
tutti_status tt_session_hear_next(struct tt_session *s, struct tt_frame *frame, const char *when);
/* Receives what follows the head of a frame, which must be of this kind and length. */
tutti_status tt_session_hear_body(struct tt_session *s, const struct tt_frame *frame, enum tt_frame_kind kind,
    uint64_t length, void *body, const char *when);
/* Receives the verdict that all go on. */
tutti_status tt_session_hear_consent(struct tt_session *s, const char *when);
/* Opens the door of a rank that came by the network, if there are so many ranks that they pass on what all
 * get (bootstrap_relay.c). Without a door it passes nothing on. */
void tt_session_open_door(struct tt_session *s);
/* Receives what follows the head of a frame of this kind and length, which all ranks get, from the root or
 * from another rank, and passes it on until all have it. */
tutti_status tt_session_take(
    struct tt_session *s, enum tt_frame_kind kind, uint64_t length, void *body, const char *when);
/* Connects to the root, by the local socket, or by the network if nobody listens there. At an id that all
 * ranks agreed on, the root may come later than this rank. */
tutti_status tt_session_reach(
    struct tt_session *s, const struct tt_id *id, const struct sockaddr_un *address);

#endif

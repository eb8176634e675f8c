/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap.h: how ranks that share nothing but a 128-byte id find each other.
 *
 * The process that makes the id answers at it, by a helper thread (the root), until n ranks came or the
 * deadline has passed. Every connection proves knowledge of the secret both ways, who comes first
 * (HMAC-SHA256 over fresh challenges, roles inside the MAC so that no proof can be reflected), before any
 * length is parsed. Each rank then hands in one blob and a few file descriptors, and gets rank 0's blob, the
 * descriptors of the ranks of its host, and who is on which host. Either all ranks get them, or all get the
 * same error. By the same connections they may exchange more before they close them.
 *
 * The first address of an id is a local socket in a private 0700 directory, by which the ranks of the root's
 * host come. Those of other hosts come by its network address; they then meet once more, the ranks of each
 * host at a local socket, where descriptors can be passed. */
#ifndef TT_BOOTSTRAP_H
#define TT_BOOTSTRAP_H
#include <stdint.h>

#include "tutti.h"

enum { TT_BLOB_BYTES = 2048, TT_BLOB_FDS = 2 };

/* Makes an id and starts the root, which answers at it. The root gives up `timeout_ms` (-1: never) after
 * now, or after the first rank came, or when the timeout of any rank that came has passed. */
tutti_status tt_bootstrap_create(tutti_id *id, int64_t timeout_ms);
/* Makes an id that ranks of other hosts can come to, too (bootstrap_host.h says by which interface). A host
 * without a network gets an id for itself. */
tutti_status tt_bootstrap_create_for_hosts(tutti_id *id, int64_t timeout_ms);

/* These are for ranks of one machine that share nothing secret, only a name (of at most 60 letters, digits
 * and dashes). Rank 0 publishes: it makes an id and leaves it in the id file, in this user's private
 * directory. The others look up: they wait until the file is there. The file is gone once they have met. A
 * file that a killed job left is not taken for an id; if a job of the same name lives, publishing fails
 * with INVALID_USAGE. */
tutti_status tt_bootstrap_publish(const char *name, int64_t timeout_ms, tutti_id *id);
tutti_status tt_bootstrap_look_up(const char *name, int64_t timeout_ms, tutti_id *id);

struct tt_newcomer { /* what a rank hands in */
    uint8_t blob[TT_BLOB_BYTES];
    uint8_t *blob_of_0; /* where that of rank 0 goes, if all meet; NULL: nowhere */
    int fds[TT_BLOB_FDS]; /* -1: none */
    uint64_t heartbeat_ms; /* a host that is silent for so long is gone; 0: as the system has it */
};
struct tt_member { /* what it gets of each */
    /* Its own descriptors, close-on-exec; -1 where none was given, and of ranks of other hosts. */
    int fds[TT_BLOB_FDS];
    int32_t host; /* hosts are numbered in the order of their lowest ranks */
};

/* Meets the n - 1 others at the id. `mine` is copied; members[n] is filled in rank order on success (the
 * caller closes the descriptors; those at its own rank are -1). Errors name the rank that is missing, that
 * disagrees on n, or that came twice. *session is this rank's end of the session, for further exchanges;
 * session is NULL if there are none. */
struct tt_session;
tutti_status tt_bootstrap_meet(const tutti_id *id, int n, int rank, const struct tt_newcomer *mine,
    int64_t timeout_ms, struct tt_member *members, struct tt_session **session);

/* In place of meeting: tells the others that this rank can be no part of the job, by `status` and the
 * thread's last error, which stays. They fail in the meeting, with that. It waits for who made the id as the
 * meeting would. */
void tt_bootstrap_refuse(const tutti_id *id, int n, int rank, int64_t timeout_ms, tutti_status status);

/* Hands in `mine` and gets what all ranks handed in, in rank order: the same number of bytes on all ranks, at
 * most TT_BLOB_BYTES. Of 0 bytes it only waits for all, and `mine` may be NULL; `all` may be NULL. It waits
 * as long as the meeting did. After a failure the session can only be closed. */
tutti_status tt_session_exchange(struct tt_session *session, const void *mine, uint64_t bytes, void *all);
/* In place of an exchange: tells all ranks that this one failed, by `status` and the thread's last error,
 * which stays. They fail in the exchange, with that. */
void tt_session_refuse(struct tt_session *session, tutti_status status);
void tt_session_close(struct tt_session *session);

/* Finds rank, n and id as a launcher gives them: TUTTI_ID (hex) with TUTTI_RANK and TUTTI_SIZE, or PMIx
 * under mpirun and srun. If there is no launcher: INVALID_USAGE, with what would be legal. */
tutti_status tt_launch_find(int64_t timeout_ms, int *n, int *rank, tutti_id *id);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* segment_wire.c: frames over a local socket. */
#include "segment/segment_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/bootstrap_wire.h"

bool tt_segment_send(int socket, struct tt_segment_frame *frame, enum tt_segment_kind kind, int fd)
{
    frame->magic = TT_SEGMENT_MAGIC;
    frame->kind = kind;
    return tt_wire_send(socket, frame, sizeof *frame, &fd, fd >= 0) == sizeof *frame;
}

/* A frame with a descriptor was sent by one call, and Linux gives what was sent with descriptors to no call
 * that began before it: so where descriptors did not fit, what came is the whole of it. */
static bool is_lost(const struct tt_segment_inbox *inbox, ssize_t got)
{
    return got < 0 && errno == EMFILE && inbox->have == 0;
}

enum tt_segment_came tt_segment_receive(int socket, struct tt_segment_inbox *inbox, bool fds)
{
    struct tt_segment_frame *frame = &inbox->frame;
    if (inbox->have == sizeof *frame)
        inbox->have = 0;
    if (inbox->have == 0) {
        memset(frame, 0, sizeof *frame);
        inbox->fd = -1;
    }
    int nfds = inbox->fd >= 0;
    ssize_t got = tt_wire_receive(
        socket, (uint8_t *)frame + inbox->have, sizeof *frame - inbox->have, &inbox->fd, fds ? 1 : 0, &nfds);
    inbox->lost = is_lost(inbox, got);
    if (inbox->lost)
        got = sizeof *frame;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return TT_SEGMENT_NOTHING;
    if (got <= 0)
        return TT_SEGMENT_END;
    inbox->have += (size_t)got;
    if (inbox->have < sizeof *frame)
        return TT_SEGMENT_NOTHING;
    return frame->magic == TT_SEGMENT_MAGIC ? TT_SEGMENT_FRAME : TT_SEGMENT_END;
}

bool tt_segment_is_ours(int socket)
{
    struct ucred peer = { .uid = (uid_t)-1 };
    socklen_t bytes = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

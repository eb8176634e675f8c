/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_hear.c: what a rank hears from the root: the frame that it waits for, notices before it, or in
 * its place the verdict that says why the job has failed. */
#include "bootstrap/bootstrap_reach.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "bootstrap/init_progress.h"

/* Receives the rest of a notice, whose head is there. */
static bool receive_notice(struct tt_session *s, uint8_t *bytes)
{
    struct tt_notice notice;
    if (!tt_session_receive(s, bytes + TT_FRAME_BYTES, TT_NOTICE_BYTES - TT_FRAME_BYTES))
        return false;
    tt_notice_read(bytes, &notice);
    s->maker = notice.maker;
    if (notice.text[0] != 0)
        tt_init_progress_hear(notice.text);
    return true;
}

/* Fails with the verdict. Many ranks hear it, and one writes it to its log as an error: the rank in whose
 * process the root is. If there was none yet, the root has written it. */
static tutti_status fail_as_told(const struct tt_session *s, const struct tt_verdict *verdict)
{
    if (s->pid == 0 || (s->pid == getpid() && s->maker == s->rank))
        return tt_fail(verdict->status, "%s", verdict->text);
    tt_set_last_error(verdict->text);
    tt_log(TT_LOG_INFO, "%s", verdict->text);
    return verdict->status;
}

tutti_status tt_session_hear(struct tt_session *s, struct tt_frame *frame, const char *when)
{
    uint8_t bytes[TT_VERDICT_BYTES > TT_NOTICE_BYTES ? TT_VERDICT_BYTES : TT_NOTICE_BYTES];
    struct tt_verdict verdict;
    if (!tt_session_receive(s, bytes, TT_FRAME_BYTES))
        return tt_session_broken(s, when);
    s->heard = true;
    bool read = tt_frame_read(bytes, s->number, frame);
    bool notice = frame->kind == TT_FRAME_NOTICE, whole = frame->length == TT_NOTICE_BYTES - TT_FRAME_BYTES;
    if (!read || (notice && !whole)) {
        errno = EPROTO;
        return tt_session_broken(s, when);
    }
    if (notice)
        return receive_notice(s, bytes) ? TUTTI_OK : tt_session_broken(s, when);
    if (frame->kind != TT_FRAME_VERDICT || frame->length != TT_VERDICT_BYTES - TT_FRAME_BYTES)
        return TUTTI_OK;
    if (!tt_session_receive(s, bytes + TT_FRAME_BYTES, frame->length))
        return tt_session_broken(s, when);
    tt_verdict_read(bytes, &verdict);
    return verdict.status == TUTTI_OK ? TUTTI_OK : fail_as_told(s, &verdict);
}

tutti_status tt_session_hear_next(struct tt_session *s, struct tt_frame *frame, const char *when)
{
    tutti_status status;
    do
        status = tt_session_hear(s, frame, when);
    while (status == TUTTI_OK && frame->kind == TT_FRAME_NOTICE);
    return status;
}

tutti_status tt_session_hear_body(struct tt_session *s, const struct tt_frame *frame, enum tt_frame_kind kind,
    uint64_t length, void *body, const char *when)
{
    if (frame->kind != kind || frame->length != length) {
        errno = EPROTO;
        return tt_session_broken(s, when);
    }
    return tt_session_receive(s, body, length) ? TUTTI_OK : tt_session_broken(s, when);
}

tutti_status tt_session_hear_consent(struct tt_session *s, const char *when)
{
    struct tt_frame frame;
    tutti_status status = tt_session_hear_next(s, &frame, when);
    if (status != TUTTI_OK || frame.kind == TT_FRAME_VERDICT)
        return status;
    errno = EPROTO;
    return tt_session_broken(s, when);
}

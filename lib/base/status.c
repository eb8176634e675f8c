/* SPDX-License-Identifier: BSD-3-Clause */
/* status.c: the one place where an error becomes a text.
 *
 * Whoever decides that something is wrong calls tt_fail and returns its value; everybody above passes the
 * status on. The text is kept per thread, so that tutti_get_last_error needs no lock and no communicator. */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"

static _Thread_local bool unsaid __attribute__((tls_model("initial-exec"))); /* for want of memory */

tutti_status tt_fail(tutti_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    /* By way of a copy: an argument may be the last text itself. */
    char text[TT_ERROR_TEXT];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tt_set_last_error(text);
    tt_log(status >= TUTTI_OUT_OF_MEMORY ? TT_LOG_INFO : TT_LOG_ERROR, "%s", text);
    return status;
}

tutti_status tt_fail_errno(tutti_status status, const char *format, ...)
{
    int number = errno;
    char text[TT_ERROR_TEXT], why[128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return tt_fail(status, "%s: %s", text, strerror_r(number, why, sizeof why));
}

void tt_set_last_error(const char *text)
{
    char *mine = tt_thread_room(TT_ROOM_ERROR, TT_ERROR_TEXT);
    unsaid = mine == NULL;
    if (mine != NULL && mine != text)
        snprintf(mine, TT_ERROR_TEXT, "%s", text);
}

const char *tt_last_error(void)
{
    const char *mine = tt_thread_room_taken(TT_ROOM_ERROR);
    return unsaid ? "there was no memory to say what went wrong" : mine != NULL ? mine : "";
}

const char *tutti_status_string(tutti_status status)
{
    switch (status) {
    case TUTTI_OK:
        return "TUTTI_OK: success";
    case TUTTI_IN_PROGRESS:
        return "TUTTI_IN_PROGRESS: in progress";
    case TUTTI_INVALID_ARGUMENT:
        return "TUTTI_INVALID_ARGUMENT: invalid argument";
    case TUTTI_INVALID_USAGE:
        return "TUTTI_INVALID_USAGE: invalid usage";
    case TUTTI_UNSUPPORTED:
        return "TUTTI_UNSUPPORTED: unsupported";
    case TUTTI_OUT_OF_MEMORY:
        return "TUTTI_OUT_OF_MEMORY: out of memory";
    case TUTTI_SYSTEM_ERROR:
        return "TUTTI_SYSTEM_ERROR: system error";
    case TUTTI_DEVICE_ERROR:
        return "TUTTI_DEVICE_ERROR: device error";
    case TUTTI_MISMATCH:
        return "TUTTI_MISMATCH: ranks called different operations";
    case TUTTI_PEER_LOST:
        return "TUTTI_PEER_LOST: a rank was lost";
    case TUTTI_TIMEOUT:
        return "TUTTI_TIMEOUT: nothing moved for too long";
    case TUTTI_ABORTED:
        return "TUTTI_ABORTED: aborted";
    case TUTTI_INTERNAL_ERROR:
        return "TUTTI_INTERNAL_ERROR: internal error";
    }
    return "unknown status";
}

int tutti_get_version(void)
{
    return TUTTI_VERSION;
}

size_t tutti_type_bytes(tutti_type type)
{
    switch (type) {
    case TUTTI_INT8:
    case TUTTI_UINT8:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2:
        return 1;
    case TUTTI_FLOAT16:
    case TUTTI_BFLOAT16:
        return 2;
    case TUTTI_INT32:
    case TUTTI_UINT32:
    case TUTTI_FLOAT32:
        return 4;
    case TUTTI_INT64:
    case TUTTI_UINT64:
    case TUTTI_FLOAT64:
        return 8;
    }
    return 0;
}

#ifndef __GLIBC__
#undef strerror_r
char *tt_strerror(int number, char *text, size_t bytes)
{
    if (strerror_r(number, text, bytes) != 0)
        snprintf(text, bytes, "error %d of the system", number);
    return text;
}
#endif

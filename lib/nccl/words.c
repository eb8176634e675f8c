/* SPDX-License-Identifier: BSD-3-Clause */
/* words.c: results and what is said: the last error, and the lines that NCCL_DEBUG asks for.
 *
 * As with NCCL nothing is printed unless NCCL_DEBUG is set, and lines go to the standard output, or to
 * NCCL_DEBUG_FILE: a program that is known to be silent stays so when its library is exchanged. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nccl/shim.h"

enum { HOST = 64, PATH = 512 };

static pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_text[TT_NCCL_TEXT]; /* of the process, as NCCL's */
static _Atomic int level = -1; /* not read yet */
static FILE *output;

/* %h and %p in the name of the file. */
static void expand(const char *pattern, const char *host, char *path, size_t bytes)
{
    size_t at = 0;
    path[0] = 0;
    for (; *pattern != 0 && at + 1 < bytes; pattern++) {
        if (pattern[0] == '%' && (pattern[1] == 'h' || pattern[1] == 'p')) {
            int added = pattern[1] == 'h' ? snprintf(path + at, bytes - at, "%s", host)
                                          : snprintf(path + at, bytes - at, "%d", (int)getpid());
            at += (size_t)added < bytes - at ? (size_t)added : bytes - at - 1;
            pattern++;
        } else {
            path[at++] = *pattern;
            path[at] = 0;
        }
    }
}

static void name_of_host(char host[HOST])
{
    if (gethostname(host, HOST) != 0)
        snprintf(host, HOST, "?");
    host[HOST - 1] = 0;
    host[strcspn(host, ".")] = 0;
}

static void open_output(void)
{
    char host[HOST], path[PATH];
    const char *pattern = tt_nccl_variable("NCCL_DEBUG_FILE");
    output = stdout;
    if (pattern == NULL || *pattern == 0)
        return;
    name_of_host(host);
    expand(pattern, host, path, sizeof path);
    FILE *file = fopen(path, "a");
    if (file != NULL) {
        setvbuf(file, NULL, _IOLBF, 0);
        output = file;
    }
}

static int read_level(void)
{
    static const char *const words[] = { "", "VERSION", "WARN", "INFO", "TRACE" };
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *word = tt_nccl_variable("NCCL_DEBUG");
    int found = TT_NCCL_NOTHING;
    for (int i = TT_NCCL_VERSION; word != NULL && i <= TT_NCCL_TRACE; i++)
        if (strcasecmp(word, words[i]) == 0)
            found = i;
    pthread_once(&once, open_output);
    level = found;
    return found;
}

bool tt_nccl_tells(enum tt_nccl_level wanted)
{
    int known = level;
    return (known >= 0 ? known : read_level()) >= (int)wanted;
}

void tt_nccl_tell(enum tt_nccl_level wanted, const char *form, ...)
{
    char text[TT_NCCL_TEXT + 160], host[HOST];
    va_list list;
    if (!tt_nccl_tells(wanted))
        return;
    va_start(list, form);
    vsnprintf(text, sizeof text, form, list);
    va_end(list);
    name_of_host(host);
    if (wanted == TT_NCCL_VERSION)
        fprintf(output, "%s\n", text);
    else
        fprintf(output, "%s:%d:%ld NCCL %s %s\n", host, (int)getpid(), syscall(SYS_gettid),
            wanted == TT_NCCL_WARN ? "WARN" : "INFO", text);
    fflush(output);
}

ncclResult_t tt_nccl_fail(ncclResult_t result, const char *form, ...)
{
    va_list list;
    char text[TT_NCCL_TEXT];
    va_start(list, form);
    vsnprintf(text, sizeof text, form, list);
    va_end(list);
    pthread_mutex_lock(&text_lock);
    memcpy(last_text, text, sizeof last_text);
    pthread_mutex_unlock(&text_lock);
    tt_nccl_tell(TT_NCCL_WARN, "%s", text);
    tt_nccl_group_note(result);
    return result;
}

ncclResult_t tt_nccl_result(tutti_status status)
{
    switch (status) {
    case TUTTI_OK:
        return ncclSuccess;
    case TUTTI_IN_PROGRESS:
        return ncclInProgress;
    case TUTTI_INVALID_ARGUMENT:
        return ncclInvalidArgument;
    case TUTTI_INVALID_USAGE:
    case TUTTI_UNSUPPORTED:
    case TUTTI_MISMATCH:
        return ncclInvalidUsage;
    case TUTTI_OUT_OF_MEMORY:
    case TUTTI_SYSTEM_ERROR:
        return ncclSystemError;
    case TUTTI_DEVICE_ERROR:
        return ncclUnhandledCudaError;
    case TUTTI_PEER_LOST:
    case TUTTI_TIMEOUT:
    case TUTTI_ABORTED:
        return ncclRemoteError;
    default:
        return ncclInternalError;
    }
}

ncclResult_t tt_nccl_answer(tutti_status status)
{
    if (status == TUTTI_OK || status == TUTTI_IN_PROGRESS)
        return tt_nccl_result(status);
    return tt_nccl_fail(
        tt_nccl_result(status), "%s: %s", tutti_status_string(status), tutti_get_last_error(NULL));
}

PUBLIC(const char *, GetErrorString, (ncclResult_t result))
{
    switch ((int)result) {
    case ncclSuccess:
        return "no error";
    case ncclUnhandledCudaError:
        return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
        return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
        return "internal error of Tutti's libnccl (run with NCCL_DEBUG=INFO for details)";
    case ncclInvalidArgument:
        return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
        return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
        return "remote process exited or there was a network error";
    case ncclInProgress:
        return "NCCL operation in progress";
    default:
        return "unknown result code";
    }
}

PUBLIC(const char *, GetLastError, (ncclComm_t comm))
{
    static _Thread_local char copy[TT_NCCL_TEXT];
    if (comm != NULL && comm->magic == TT_NCCL_LIVE && comm->tutti != NULL &&
        tutti_comm_state(comm->tutti) < 0) {
        snprintf(copy, sizeof copy, "%s", tutti_get_last_error(comm->tutti));
        return copy;
    }
    pthread_mutex_lock(&text_lock);
    memcpy(copy, last_text, sizeof copy);
    pthread_mutex_unlock(&text_lock);
    return copy;
}

PUBLIC(ncclResult_t, GetVersion, (int *version))
{
    if (version == NULL)
        return tt_nccl_fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

PUBLIC(void, ResetDebugInit, (void))
{
    level = -1;
}

/* NCCL exports this one without being told to. */
void ncclResetDebugInitInternal(void);
void ncclResetDebugInitInternal(void)
{
    level = -1;
}

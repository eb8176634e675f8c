/* SPDX-License-Identifier: BSD-3-Clause */
/* trace_file.c: events as JSON, in the form of Chrome's trace events.
 *
 * The viewer wants slices of a track to stand in one another or side by side, but steps of one operation
 * overlap. So each communicator has tracks: a step goes to the first track where nothing overlaps it, its own
 * operation's if it can.
 *
 * One event is one line, so that files are merged by lines, and one of a process that was killed is good up
 * to its last whole line: viewers do not ask for the closing bracket. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/config.h"
#include "base/file.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/text.h"
#include "call/call.h"
#include "call/op.h"
#include "observe/trace_internal.h"

enum { PATH_BYTES = 512, LINE_BYTES = 768 };

static struct {
    pthread_mutex_t lock;
    FILE *file;
    bool asked; /* whether there is to be one */
    bool watched; /* the exit is */
    pid_t pid; /* whose it is */
    uint32_t tracks;
    struct tt_trace *traces;
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* --- The file */

static void write_events(struct tt_trace *t);

/* Ends the file; there is no comma after the last event. */
static void end_file(void)
{
    struct tt_file_guard guard;
    pthread_mutex_lock(&process.lock);
    tt_file_guard(&guard);
    if (process.file != NULL && process.pid == getpid()) {
        for (struct tt_trace *t = process.traces; t != NULL; t = t->next)
            write_events(t);
        fprintf(process.file,
            "{\"name\": \"end\", \"ph\": \"M\", \"pid\": %d, \"tid\": 0, \"args\": {}}\n]\n",
            (int)process.pid);
        fclose(process.file);
        process.file = NULL;
    }
    tt_file_unguard(&guard);
    pthread_mutex_unlock(&process.lock);
}

/* Leaves the parent's file in a child of fork. The buffer has nothing of the parent's: it is flushed
 * before the lock is given back. */
static void after_fork_in_child(void)
{
    if (process.file != NULL)
        fclose(process.file);
    process.file = NULL;
    process.traces = NULL;
    process.asked = false;
}

/* Opens the file for this process alone: if a lock tells that another process writes to this name, the
 * number of this process is added. A name below /dev is opened as it is. */
static int open_alone(const char *name, char why[TT_FILE_WHY])
{
    char path[PATH_BYTES + 16];
    bool device = strncmp(name, "/dev/", 5) == 0;
    snprintf(path, sizeof path, "%s", name);
    for (int i = 0; i < 2; i++) {
        int fd = tt_file_open(path, device ? O_WRONLY : O_WRONLY | O_CREAT, why);
        if (fd < 0)
            return -1;
        if (device || (flock(fd, LOCK_EX | LOCK_NB) == 0 && ftruncate(fd, 0) == 0)) {
            tt_log(TT_LOG_INFO, "the trace goes to %s", path);
            return fd;
        }
        snprintf(why, TT_FILE_WHY, "%s", strerror(errno));
        close(fd);
        snprintf(path, sizeof path, "%s.%d", name, (int)getpid());
    }
    return -1;
}

static void begin_file(int rank)
{
    const char *pattern = tt_environment("TUTTI_TRACE");
    char path[PATH_BYTES], host[256] = "", why[TT_FILE_WHY] = "it is empty or too long";
    if (pattern == NULL)
        return;
    int fd = tt_expand_name(pattern, rank, path, sizeof path) ? open_alone(path, why) : -1;
    process.file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (process.file == NULL) {
        tt_log(TT_LOG_WARN, "TUTTI_TRACE=%.200s cannot be written (%s); there is no trace", pattern, why);
        if (fd >= 0)
            close(fd);
        return;
    }
    process.pid = getpid();
    process.tracks = 1;
    gethostname(host, sizeof host - 1);
    fprintf(process.file,
        "[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": 0, \"args\": {\"name\": \"rank "
        "%d, "
        "host %s\"}},\n",
        (int)process.pid, rank, host);
    fflush(process.file);
}

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_TRACE, &process.lock, after_fork_in_child);
}

bool tt_trace_file_open(int rank)
{
    struct tt_file_guard guard;
    pthread_mutex_lock(&process.lock);
    tt_file_guard(&guard);
    if (!process.asked)
        begin_file(rank);
    tt_file_unguard(&guard);
    process.asked = true;
    if (process.file != NULL && !process.watched) {
        atexit(end_file);
        process.watched = true;
    }
    bool open = process.file != NULL;
    pthread_mutex_unlock(&process.lock);
    return open;
}

void tt_trace_file_add(struct tt_trace *t)
{
    pthread_mutex_lock(&process.lock);
    t->first_track = process.tracks;
    process.tracks += TT_TRACE_TRACKS;
    t->next = process.traces;
    process.traces = t;
    pthread_mutex_unlock(&process.lock);
}

void tt_trace_file_remove(struct tt_trace *t)
{
    pthread_mutex_lock(&process.lock);
    struct tt_trace **at = &process.traces;
    while (*at != NULL && *at != t)
        at = &(*at)->next;
    if (*at == t)
        *at = t->next;
    pthread_mutex_unlock(&process.lock);
}

/* --- Events */

/* Orders events by their beginnings; an operation stands before its steps. */
static int compare(const void *a, const void *b)
{
    const struct tt_trace_event *x = a, *y = b;
    if (x->began != y->began)
        return x->began < y->began ? -1 : 1;
    return x->step - y->step;
}

static uint32_t find_track(struct tt_trace *t, const struct tt_trace_event *e)
{
    for (uint32_t i = 0; i < TT_TRACE_TRACKS - 1; i++) {
        struct tt_trace_track *track = &t->tracks[i];
        bool free = track->step_end <= e->began && track->operation_end <= e->began;
        bool inside = e->step && track->step_end <= e->began && track->serial == e->serial;
        if (!free && !inside)
            continue;
        if (e->step) {
            track->step_end = e->ended;
        } else {
            track->operation_end = e->ended;
            track->serial = e->serial;
        }
        return i;
    }
    return TT_TRACE_TRACKS - 1;
}

static void write_name(struct tt_trace *t, uint32_t track)
{
    char line[LINE_BYTES], name[2 * TT_TRACE_NAME_BYTES];
    struct tt_text text = { line, sizeof line, 0 };
    t->tracks[track].named = true;
    snprintf(name, sizeof name, "%s, rank %d of %d%s", t->name, t->rank, t->n,
        track > 0 ? ": what runs at the same time" : "");
    tt_put_json(&text, name);
    fprintf(process.file,
        "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %u, \"args\": {\"name\": %s}},\n",
        (int)process.pid, t->first_track + track, line);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Returns the number of the arrow of a message, which is the same on both ends. */
static uint64_t arrow_of(const struct tt_trace *t, const struct tt_trace_event *e)
{
    bool sends = e->verb == TT_VERB_SEND;
    uint64_t hash = mix(mix(t->id, e->class), (uint64_t)(sends ? t->rank : e->peer));
    return mix(mix(hash, (uint64_t)(sends ? e->peer : t->rank)), e->number);
}

/* Writes a label like "send to 1": without the peer, all names would be alike in a viewer. */
static void write_label(const char *name, int peer, bool sends)
{
    if (peer == TT_NONE)
        fprintf(process.file, "\"name\": \"%s\", ", name);
    else
        fprintf(process.file, "\"name\": \"%s %s %d\", ", name, sends ? "to" : "from", peer);
}

static void write_operation(const struct tt_trace_event *e)
{
    const struct tt_collective_row *row = &tt_collectives[e->verb];
    char op[64];
    tt_operator_describe(e->op, e->operator, op, sizeof op);
    write_label(row->name, row->p2p ? e->peer : TT_NONE, e->verb == TT_P2P_SEND);
    fprintf(process.file,
        "\"cat\": \"operation\", \"args\": {\"number\": %llu, \"count\": %llu, \"type\": "
        "\"%s\", \"bytes\": %llu, \"algorithm\": \"%s\", \"slices\": %u",
        (unsigned long long)e->number, (unsigned long long)e->count, tt_type_name((tutti_type)e->type),
        (unsigned long long)e->bytes, e->algorithm, e->slice);
    if (e->served > TT_SERVED_UNKNOWN && e->served < TT_SERVED)
        fprintf(process.file, ", \"executor\": \"%c\"", tt_served_letter((enum tt_served)e->served));
    if (row->result == TT_RESULT_REDUCED)
        fprintf(process.file, ", \"op\": \"%s\"", op);
    if (row->rooted || row->p2p)
        fprintf(process.file, ", \"%s\": %d", row->p2p ? "peer" : "root", e->peer);
    fprintf(process.file, "}},\n");
}

static void write_step(struct tt_trace *t, const struct tt_trace_event *e, uint32_t tid)
{
    static const char *const verbs[TT_VERBS] = { "send", "recv", "recv_reduce", "reduce", "copy" };
    static const char *const paths[TT_PATHS] = { "line", "mapped", "copied", "placed", "pulled" };
    bool sends = e->verb == TT_VERB_SEND;
    write_label(verbs[e->verb], e->peer, sends);
    fprintf(process.file,
        "\"cat\": \"step\", \"args\": {\"chunk\": %u, \"chunks\": %u, \"slice\": %u, "
        "\"bytes\": %llu",
        e->chunk, e->nchunks, e->slice, (unsigned long long)e->bytes);
    if (e->peer == TT_NONE) {
        fprintf(process.file, "}},\n");
        return;
    }
    fprintf(process.file, ", \"peer\": %d, \"message\": %llu", e->peer, (unsigned long long)e->number);
    if (sends)
        fprintf(process.file, ", \"path\": \"%s\"", paths[e->path % TT_PATHS]);
    fprintf(process.file,
        "}},\n{\"ph\": \"%s\", \"pid\": %d, \"tid\": %u, \"ts\": %.3f, \"id\": \"%016llx\", \"name\": "
        "\"message\", \"cat\": \"message\"%s},\n",
        sends ? "s" : "f", (int)process.pid, tid, 1e-3 * (double)(sends ? e->began : e->ended),
        (unsigned long long)arrow_of(t, e), sends ? "" : ", \"bp\": \"e\"");
}

/* Writes the events that are not written yet. With the lock held. */
static void write_events(struct tt_trace *t)
{
    size_t count = atomic_load_explicit(&t->count, memory_order_acquire);
    qsort(t->events + t->written, count - t->written, sizeof *t->events, compare);
    for (; t->written < count; t->written++) {
        const struct tt_trace_event *e = &t->events[t->written];
        uint32_t track = find_track(t, e), tid = t->first_track + track;
        if (!t->tracks[track].named)
            write_name(t, track);
        fprintf(process.file, "{\"ph\": \"X\", \"pid\": %d, \"tid\": %u, \"ts\": %.3f, \"dur\": %.3f, ",
            (int)process.pid, tid, 1e-3 * (double)e->began, 1e-3 * (double)(e->ended - e->began));
        if (e->step)
            write_step(t, e, tid);
        else
            write_operation(e);
    }
    if (t->dropped > 0)
        tt_log(TT_LOG_WARN, "%s, rank %d: the trace lacks %llu events, for which there was no room", t->name,
            t->rank, (unsigned long long)t->dropped);
    t->dropped = 0;
    fflush(process.file);
}

void tt_trace_file_write(struct tt_trace *t)
{
    struct tt_file_guard guard;
    pthread_mutex_lock(&process.lock);
    tt_file_guard(&guard);
    if (process.file != NULL)
        write_events(t);
    tt_file_unguard(&guard);
    t->written = 0;
    atomic_store_explicit(&t->count, 0, memory_order_relaxed);
    pthread_mutex_unlock(&process.lock);
}

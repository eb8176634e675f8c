/* SPDX-License-Identifier: BSD-3-Clause */
/* recorder.c: the recorder's memory, and the writing of entries.
 *
 * One memory file holds the parts of all communicators of the process; it grows by whole parts and can never
 * shrink, so that no reader faults. Where the system allows no file, or none so long, a part is memory of
 * this process alone: all works but that other processes see it. A child of fork() begins a file of its own,
 * for its entries must not appear as its parent's. */
#include "base/few.h"
#include "observe/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "algorithms/algorithms.h"
#include "base/config.h"
#include "base/file.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/status.h"
#include "call/call.h"
#include "observe/recorder_file.h"
#include "transports/arena.h"

#define SHARED UINT64_MAX
#define NOT_IN_FILE UINT32_MAX
enum { TOLD_ON_ERROR = 8, PATH_BYTES = 512 };

struct tt_recorder {
    struct tt_recorder_part *part;
    uint64_t calls; /* SHARED: two threads enter them, and count in `part` alone */
    uint32_t index; /* in the file, or NOT_IN_FILE */
    uint32_t generation; /* of the process that made it */
};

static struct {
    pthread_mutex_t lock;
    struct tt_recorder_header *header; /* NULL: not made yet */
    int fd; /* -1: there is no file */
    bool warned; /* that others see not all */
    bool *used; /* per part of the file */
    uint32_t parts, room;
    uint32_t generation; /* one more in each child of fork() */
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* --- The file */

static void after_fork_in_child(void)
{
    if (process.header != NULL) {
        munmap(process.header, TT_RECORDER_HEADER_BYTES);
        if (process.fd >= 0)
            close(process.fd);
    }
    process.header = NULL;
    process.parts = 0;
    process.generation++;
}

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_RECORDER, &process.lock, after_fork_in_child);
}

static void write_header(struct tt_recorder_header *h)
{
    for (int c = 0; c < TT_COLLECTIVES && c < TT_RECORDER_COLLECTIVES; c++)
        snprintf(h->collectives[c], TT_RECORDER_NAME_BYTES, "%s", tt_collectives[c].name);
    for (int i = 0; i < tt_algorithm_count && i < TT_RECORDER_ALGORITHMS; i++)
        snprintf(h->algorithms[i], TT_RECORDER_NAME_BYTES, "%s", tt_algorithms[i].name);
    h->version = TT_RECORDER_VERSION;
    h->header_bytes = TT_RECORDER_HEADER_BYTES;
    h->part_bytes = TT_RECORDER_PART_BYTES;
    h->tutti_version = TUTTI_VERSION;
    h->pid = getpid();
    h->begun = tt_moment_now();
    h->magic = TT_RECORDER_MAGIC;
}

/* Says once, with errno, that there is no file for what is recorded now. */
static void warn(void)
{
    char why[128];
    if (!process.warned)
        tt_log(TT_LOG_WARN,
            "the recorder has no file, so tutti-info attach will not see all of process %d: %s",
            (int)getpid(), strerror_r(errno, why, sizeof why));
    process.warned = true;
}

/* Returns memory of the file, or of this process if fd is -1; NULL, with errno, if it cannot. */
static void *map(int fd, off_t at, size_t bytes)
{
    int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, at);
    return memory != MAP_FAILED ? memory : NULL;
}

static tutti_status begin(void)
{
    int fd = tt_arena_file(TT_RECORDER_NAME);
    if (fd < 0 || !tt_file_grow(fd, TT_RECORDER_HEADER_BYTES) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        warn();
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    void *header = map(fd, 0, TT_RECORDER_HEADER_BYTES);
    if (header == NULL) {
        tutti_status status = tt_fail_errno(TUTTI_SYSTEM_ERROR, "no memory for the recorder");
        if (fd >= 0)
            close(fd);
        return status;
    }
    write_header(header);
    process.header = header;
    process.fd = fd;
    return TUTTI_OK;
}

/* Finds the first free part of the file, and makes the file longer if there is none. */
static tutti_status find_part(uint32_t *index)
{
    uint32_t i = 0;
    while (i < process.parts && process.used[i])
        i++;
    if (i == process.room) {
        uint32_t room = process.room > 0 ? 2 * process.room : 16;
        bool *used = realloc(process.used, room * sizeof *used);
        if (used == NULL)
            return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the recorder");
        process.used = used;
        process.room = room;
    }
    if (i == process.parts) {
        if (!tt_file_grow(
                process.fd, TT_RECORDER_HEADER_BYTES + (uint64_t)(i + 1) * TT_RECORDER_PART_BYTES)) {
            warn();
            *index = NOT_IN_FILE;
            return TUTTI_OK;
        }
        process.used[process.parts++] = false;
    }
    *index = i;
    return TUTTI_OK;
}

/* Maps the part into memory. With the lock held. */
static tutti_status map_part(struct tt_recorder *r)
{
    tutti_status status = process.header != NULL ? TUTTI_OK : begin();
    r->index = NOT_IN_FILE;
    if (status == TUTTI_OK && process.fd >= 0)
        status = find_part(&r->index);
    if (status != TUTTI_OK)
        return status;
    bool in_file = r->index != NOT_IN_FILE;
    off_t at = in_file ? TT_RECORDER_HEADER_BYTES + (off_t)r->index * TT_RECORDER_PART_BYTES : 0;
    r->part = map(in_file ? process.fd : -1, at, TT_RECORDER_PART_BYTES);
    if (r->part == NULL)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "no room for the recorder");
    r->generation = process.generation;
    if (in_file)
        process.used[r->index] = true;
    return TUTTI_OK;
}

/* Begins a part without calls, which nobody reads yet. */
static tutti_status begin_part(int n, int rank, const char *name, struct tt_recorder **recorder)
{
    struct tt_recorder *r = calloc(1, sizeof *r);
    if (r == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the recorder");
    pthread_mutex_lock(&process.lock);
    tutti_status status = map_part(r);
    pthread_mutex_unlock(&process.lock);
    if (status != TUTTI_OK) {
        free(r);
        return status;
    }
    struct tt_recorder_part *part = r->part;
    part->n = n;
    part->rank = rank;
    part->id = 0;
    snprintf(part->name, sizeof part->name, "%s", name);
    atomic_store_explicit(&part->calls, 0, memory_order_relaxed);
    atomic_store_explicit(&part->failed, 0, memory_order_relaxed);
    atomic_store_explicit(&part->init_began, 0, memory_order_relaxed);
    atomic_store_explicit(&part->ring[TT_RECORDER_RING].words[TT_ENTRY_STATE], 0, memory_order_relaxed);
    *recorder = r;
    return TUTTI_OK;
}

tutti_status tt_recorder_open(int n, int rank, const char *name, struct tt_recorder **recorder)
{
    tutti_status status = begin_part(n, rank, name, recorder);
    if (status != TUTTI_OK)
        return status;
    struct tt_recorder_part *part = (*recorder)->part;
    for (int i = 0; i < TT_RECORDER_RING; i++)
        atomic_store_explicit(&part->ring[i].words[TT_ENTRY_STATE], 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&part->life, 1, memory_order_release);
    return TUTTI_OK;
}

/* Opens the entry without touching its ring, whose pages take no memory so. */
struct tt_recorder *tt_recorder_open_init(int n, int rank, const char *name, uint64_t since_ticks)
{
    struct tt_recorder *r;
    if (begin_part(n, rank, name, &r) != TUTTI_OK)
        return NULL;
    atomic_store_explicit(&r->part->init_began, since_ticks | 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->part->life, 1, memory_order_release);
    return r;
}

void tt_recorder_wait(struct tt_recorder *r, const char *what)
{
    uint64_t words[TT_RECORDER_WAIT_WORDS] = { 0 };
    memcpy(words, what, strnlen(what, sizeof words - 1));
    atomic_fetch_add_explicit(&r->part->wait_number, 1, memory_order_acq_rel);
    for (int i = 0; i < TT_RECORDER_WAIT_WORDS; i++)
        atomic_store_explicit(&r->part->wait[i], words[i], memory_order_relaxed);
    atomic_fetch_add_explicit(&r->part->wait_number, 1, memory_order_release);
}

void tt_recorder_close(struct tt_recorder *r)
{
    pthread_mutex_lock(&process.lock);
    if (r->generation == process.generation) { /* a child of fork() has no part in its parent's file */
        atomic_fetch_add_explicit(&r->part->life, 1, memory_order_release);
        if (r->index != NOT_IN_FILE)
            process.used[r->index] = false;
    }
    pthread_mutex_unlock(&process.lock);
    munmap(r->part, TT_RECORDER_PART_BYTES);
    free(r);
}

void tt_recorder_identify(struct tt_recorder *r, uint64_t id, const char *name)
{
    atomic_fetch_add_explicit(
        &r->part->life, 1, memory_order_acq_rel); /* who reads it now drops what he has */
    r->part->id = id;
    snprintf(r->part->name, sizeof r->part->name, "%s", name);
    atomic_fetch_add_explicit(&r->part->life, 1, memory_order_release);
}

/* --- Entries */

static void set(struct tt_entry *e, enum tt_entry_word word, uint64_t value)
{
    atomic_store_explicit(&e->words[word], value, memory_order_release);
}

static uint64_t get(const struct tt_entry *e, enum tt_entry_word word)
{
    return atomic_load_explicit(&e->words[word], memory_order_acquire);
}

static enum tt_entry_state state_of(const struct tt_entry *e)
{
    return (enum tt_entry_state)(get(e, TT_ENTRY_STATE) & 0xff);
}

static void set_state(struct tt_entry *e, enum tt_entry_state state)
{
    set(e, TT_ENTRY_STATE, (get(e, TT_ENTRY_STATE) & ~UINT64_C(0xff)) | state);
}

/* Writes what is known when the call is made. It takes the state away; the caller of this writes the new
 * state last. */
TT_INLINE void describe(struct tt_entry *e, const struct tt_call *call, unsigned algorithm, uint64_t now)
{
    set(e, TT_ENTRY_STATE, TT_ENTRY_NONE);
    set(e, TT_ENTRY_COUNT, call->count);
    set(e, TT_ENTRY_CALLED, now);
    set(e, TT_ENTRY_ENDED, 0);
    set(e, TT_ENTRY_WHAT, tt_entry_what(call->collective, algorithm, call->type, call->total));
    set(e, TT_ENTRY_WHO, (uint64_t)call->op << 32 | (uint32_t)call->root);
    if (call->op >= TT_CREATED_OPS)
        set(e, TT_ENTRY_OPERATOR, tt_call_shared_op(call));
}

/* Writes that the call runs. */
TT_INLINE void start(struct tt_entry *e, const struct tt_call *call, unsigned algorithm, uint64_t sequence,
    uint64_t number, uint64_t called, uint64_t now)
{
    describe(e, call, algorithm, called);
    set(e, TT_ENTRY_SEQUENCE, sequence);
    set(e, TT_ENTRY_STARTED, now);
    set(e, TT_ENTRY_STATE, number << 8 | TT_ENTRY_RUNNING);
}

/* Returns the entry of the next call and its number; if the call 256 calls ago is not over, the spare
 * entry and 0. */
static inline struct tt_entry *next_entry(struct tt_recorder *r, uint64_t *number)
{
    uint64_t before = r->calls;
    if (before != SHARED)
        atomic_store_explicit(&r->part->calls, r->calls = before + 1, memory_order_relaxed);
    else
        before = atomic_fetch_add_explicit(&r->part->calls, 1, memory_order_relaxed);
    struct tt_entry *e = &r->part->ring[before % TT_RECORDER_RING];
    enum tt_entry_state state = state_of(e);
    *number = before + 1;
    if (state != TT_ENTRY_QUEUED && state != TT_ENTRY_RUNNING)
        return e;
    *number = 0;
    return &r->part->ring[TT_RECORDER_RING];
}

void tt_recorder_share(struct tt_recorder *r)
{
    r->calls = SHARED;
}

struct tt_entry *tt_recorder_queue(struct tt_recorder *r, const struct tt_call *call)
{
    uint64_t number;
    struct tt_entry *e = next_entry(r, &number);
    if (number == 0) /* the spare one belongs to who runs now */
        return e;
    describe(e, call, 0, tt_ticks());
    set(e, TT_ENTRY_STATE, number << 8 | TT_ENTRY_QUEUED);
    return e;
}

/* Starts a call that has an entry already: it was queued, or goes on where the fast path has left it. It is
 * not inlined, so that the path of other calls saves no registers. */
static __attribute__((noinline)) struct tt_entry *start_queued(
    const struct tt_recorder *r, const struct tt_call *call, unsigned algorithm, uint64_t sequence)
{
    struct tt_entry *e = call->entry;
    uint64_t started = tt_ticks(), called = started, number = 0;
    if (e != &r->part->ring[TT_RECORDER_RING]) {
        number = get(e, TT_ENTRY_STATE) >> 8;
        called = get(e, TT_ENTRY_CALLED);
        if (state_of(e) == TT_ENTRY_RUNNING) /* the fast path has begun it */
            started = get(e, TT_ENTRY_STARTED);
    }
    start(e, call, algorithm, sequence, number, called, started);
    return e;
}

struct tt_entry *tt_recorder_start(
    struct tt_recorder *r, const struct tt_call *call, unsigned algorithm, uint64_t sequence)
{
    if (call->entry != NULL)
        return start_queued(r, call, algorithm, sequence);
    uint64_t now = tt_ticks(), number;
    struct tt_entry *e = next_entry(r, &number);
    start(e, call, algorithm, sequence, number, now, now);
    return e;
}

void tt_entry_end(struct tt_entry *e, bool done)
{
    set(e, TT_ENTRY_ENDED, tt_ticks());
    set_state(e, done ? TT_ENTRY_DONE : TT_ENTRY_FAILED);
}

void tt_entry_serve(struct tt_entry *e, unsigned served)
{
    set(e, TT_ENTRY_WHAT, tt_entry_served_set(get(e, TT_ENTRY_WHAT), served));
}

void tt_entry_pass(struct tt_entry *e)
{
    set_state(e, TT_ENTRY_DONE);
}

void tt_entry_drop(struct tt_entry *e)
{
    if (state_of(e) != TT_ENTRY_QUEUED)
        return;
    set(e, TT_ENTRY_STARTED, get(e, TT_ENTRY_CALLED));
    tt_entry_end(e, false);
}

void tt_entry_wait(struct tt_entry *e, int32_t peer, int64_t stalled_ms)
{
    set(e, TT_ENTRY_WAITS_FOR, peer != TT_NONE ? (uint64_t)peer + 1 : 0);
    set(e, TT_ENTRY_STALLED, (uint64_t)stalled_ms);
    set(e, TT_ENTRY_LOOKED, tt_ticks());
}

/* --- The end of a communicator */

static bool write_all(int fd, const struct tt_text *line)
{
    struct tt_file_guard guard;
    tt_file_guard(&guard);
    bool written = write(fd, line->bytes, line->length) == (ssize_t)line->length;
    tt_file_unguard(&guard);
    return written;
}

/* Appends one line of JSON to the file. Returns what went wrong, NULL if nothing did. */
static const char *append_line(const struct tt_recorder *r, const char *path, char why[TT_FILE_WHY])
{
    struct tt_text line = { 0 };
    const char *wrong = NULL;
    int fd = tt_file_open(path, O_WRONLY | O_CREAT | O_APPEND, why);
    while (fd >= 0 && tt_text_begin(&line)) /* entries may change meanwhile */
        tt_recorder_put(&line, r, true);
    if (fd < 0 || line.bytes == NULL)
        wrong = fd < 0 ? why : "there is no memory for them";
    else if (!write_all(fd, &line))
        wrong = "they cannot be written";
    free(line.bytes);
    if (fd >= 0)
        close(fd);
    return wrong;
}

void tt_recorder_fail(struct tt_recorder *r, const struct tt_cause *cause)
{
    struct tt_recorder_part *part = r->part;
    const char *pattern = tt_environment("TUTTI_RECORDER_FILE");
    char path[PATH_BYTES], why[TT_FILE_WHY];
    part->status = cause->status;
    snprintf(part->error, sizeof part->error, "%s", cause->text);
    atomic_store_explicit(&part->failed, 1, memory_order_release);
    bool mine = cause->rank == part->rank && cause->status != TUTTI_ABORTED;
    enum tt_log_level level = mine ? TT_LOG_ERROR : TT_LOG_INFO;
    int last = tt_log_enabled(TT_LOG_TRACE) ? TT_RECORDER_RING : TOLD_ON_ERROR;
    if (tt_log_enabled(level))
        tt_recorder_log(level, process.header, part, last);
    if (pattern == NULL)
        return;
    const char *wrong = tt_expand_name(pattern, part->rank, path, sizeof path) ? append_line(r, path, why)
                                                                               : "it is empty or too long";
    if (wrong != NULL)
        tt_log(TT_LOG_WARN, "the last calls are lost: TUTTI_RECORDER_FILE=%.200s: %s", pattern, wrong);
    else
        tt_log(level, "%s, rank %d: the last calls are in %s", part->name, part->rank, path);
}

void tt_recorder_put(struct tt_text *t, const struct tt_recorder *r, bool json)
{
    enum tt_recorder_form form = json ? TT_RECORDER_JSON : TT_RECORDER_TEXT;
    tt_recorder_put_part(t, process.header, r->part, form);
}

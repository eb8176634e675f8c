/* SPDX-License-Identifier: BSD-3-Clause */
/* meeting.h: ranks for the tests of the bootstrap, as threads and as forked processes.
 *
 * Every rank hands in a blob and descriptors that name it, and looks at what all the others handed in: that
 * the right bytes came, and that each descriptor is open on the right file. */
#ifndef TT_TESTS_MEETING_H
#define TT_TESTS_MEETING_H
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/wait.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/bootstrap_wire.h"

enum { PATIENCE_MS = 600000 };

static inline int make_file(int rank, int i)
{
    char text[64];
    int fd = memfd_create("tutti-test", 0);
    int bytes = snprintf(text, sizeof text, "rank %d file %d", rank, i);
    if (fd < 0 || write(fd, text, (size_t)bytes) != bytes)
        abort();
    return fd;
}

/* Of eight ranks one gives no descriptor, one only the second. */
static inline bool gives(int rank, int i)
{
    return rank % 8 < 6 || (rank % 8 == 6 && i == 1);
}

static inline void make_newcomer(int rank, struct tt_newcomer *mine)
{
    for (int i = 0; i < TT_BLOB_BYTES; i++)
        mine->blob[i] = (uint8_t)(i * 7 + rank * 3);
    for (int i = 0; i < TT_BLOB_FDS; i++)
        mine->fds[i] = gives(rank, i) ? make_file(rank, i) : -1;
    mine->blob_of_0 = NULL;
    mine->heartbeat_ms = 0;
}

static inline bool is_blob_of_0(const uint8_t *blob)
{
    bool right = true;
    for (int i = 0; i < TT_BLOB_BYTES; i++)
        right = right && blob[i] == (uint8_t)(i * 7);
    return right;
}

static inline void close_fds(const int fds[TT_BLOB_FDS])
{
    for (int i = 0; i < TT_BLOB_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static inline bool is_file(int fd, int rank, int i)
{
    char expected[64], text[64] = "";
    snprintf(expected, sizeof expected, "rank %d file %d", rank, i);
    return pread(fd, text, sizeof text - 1, 0) > 0 && strcmp(text, expected) == 0 &&
           (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}

static inline bool members_right(const struct tt_member *members, int n, int me)
{
    bool right = true;
    for (int r = 0; r < n; r++) {
        right = right && members[r].host == 0;
        for (int i = 0; i < TT_BLOB_FDS; i++) {
            int fd = members[r].fds[i];
            right = right && (r != me && gives(r, i) ? is_file(fd, r, i) : fd == -1);
        }
    }
    return right;
}

/* One rank's call, and how it ended. */
struct call {
    const tutti_id *id;
    int n, rank, exchanges; /* after the meeting */
    int64_t timeout_ms;
    tutti_status status;
    char text[TT_ERROR_TEXT];
    bool right; /* what it got from the others */
    pthread_t thread;
};

/* Rounds of growing parts; the last is as large as can be. */
static inline tutti_status exchange(struct call *c, struct tt_session *session)
{
    static const uint64_t sizes[] = { 1, 132, 0, TT_BLOB_BYTES };
    for (int round = 0; round < c->exchanges; round++) {
        uint64_t bytes = sizes[round % 4];
        uint8_t mine[TT_BLOB_BYTES], *all = malloc((size_t)c->n * bytes + 1);
        memset(mine, round * 31 + c->rank, sizeof mine);
        tutti_status status = tt_session_exchange(session, mine, bytes, all);
        for (size_t i = 0; status == TUTTI_OK && i < (size_t)c->n * bytes; i++)
            c->right = c->right && all[i] == (uint8_t)(round * 31 + (int)(i / bytes));
        free(all);
        if (status != TUTTI_OK)
            return status;
    }
    return TUTTI_OK;
}

static inline void *run_call(void *argument)
{
    struct call *c = argument;
    struct tt_member *members = calloc((size_t)c->n, sizeof *members);
    struct tt_session *session = NULL;
    struct tt_newcomer mine;
    uint8_t blob[TT_BLOB_BYTES];
    make_newcomer(c->rank, &mine);
    mine.blob_of_0 = blob;
    c->status = tt_bootstrap_meet(
        c->id, c->n, c->rank, &mine, c->timeout_ms, members, c->exchanges > 0 ? &session : NULL);
    if (c->status == TUTTI_OK) {
        c->right = members_right(members, c->n, c->rank) && is_blob_of_0(blob);
        for (int r = 0; r < c->n; r++)
            close_fds(members[r].fds);
    }
    if (c->status == TUTTI_OK && session) {
        c->status = exchange(c, session);
        tt_session_close(session);
    }
    if (c->status != TUTTI_OK)
        snprintf(c->text, sizeof c->text, "%s", tt_last_error());
    close_fds(mine.fds);
    free(members);
    return NULL;
}

static inline struct call call_for(const tutti_id *id, int n, int rank)
{
    return (struct call){ .id = id, .n = n, .rank = rank, .timeout_ms = PATIENCE_MS };
}

static inline void start_call(struct call *c)
{
    if (pthread_create(&c->thread, NULL, run_call, c) != 0)
        abort();
}

static inline void run_threads(struct call *calls, int count)
{
    for (int i = 0; i < count; i++)
        start_call(&calls[i]);
    for (int i = 0; i < count; i++)
        pthread_join(calls[i].thread, NULL);
}

/* Run a rank in a process of its own, which ends with 0 if all was right. */
static inline pid_t fork_call(struct call c)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    run_call(&c);
    if (c.status != TUTTI_OK)
        fprintf(stderr, "rank %d: %s\n", c.rank, c.text);
    _exit(c.status == TUTTI_OK && c.right ? 0 : 1);
}

static inline bool ended_well(pid_t child)
{
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A connection in the hands of the test, which may say what it likes. */
static inline int stranger_connect(const tutti_id *id)
{
    struct tt_id read;
    struct sockaddr_un address;
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || tt_id_read(id, &read) != TUTTI_OK ||
        tt_directory_socket(read.directory, read.token, &address) != TUTTI_OK ||
        connect(s, (const struct sockaddr *)&address, sizeof address) != 0)
        abort();
    return s;
}

/* All of it, or as much as is taken before the other side closes. */
static inline bool stranger_say(int socket, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

static inline bool stranger_hear(int socket, void *bytes, size_t size)
{
    return recv(socket, bytes, size, MSG_WAITALL) == (ssize_t)size;
}

/* Greet as a rank, and get the root's challenge. */
static inline bool stranger_greet(int socket, int rank, struct tt_challenge *challenge)
{
    uint8_t greeting[TT_GREETING_BYTES];
    challenge->rank = rank;
    memset(challenge->rank_nonce, 0x77, TT_NONCE_BYTES);
    tt_greeting_write(challenge, greeting);
    return stranger_say(socket, greeting, sizeof greeting) &&
           stranger_hear(socket, challenge->root_nonce, TT_NONCE_BYTES);
}

/* Connect and prove, as a rank does. */
static inline int stranger_enter(const tutti_id *id, int rank)
{
    struct tt_id read;
    struct tt_challenge challenge;
    uint8_t proof[TT_SHA256_BYTES];
    int s = stranger_connect(id);
    if (tt_id_read(id, &read) != TUTTI_OK || !stranger_greet(s, rank, &challenge))
        abort();
    tt_proof_make(&read, TT_ROLE_RANK, &challenge, proof);
    if (!stranger_say(s, proof, sizeof proof) || !stranger_hear(s, proof, sizeof proof) ||
        !tt_proof_holds(&read, TT_ROLE_ROOT, &challenge, proof))
        abort();
    return s;
}

static inline void stranger_hello(int socket, const tutti_id *id, int n)
{
    struct tt_id read;
    static const uint8_t blob[TT_BLOB_BYTES];
    uint8_t bytes[TT_HELLO_BYTES];
    if (tt_id_read(id, &read) != TUTTI_OK)
        abort();
    tt_hello_write(&(struct tt_hello){ n, PATIENCE_MS, 0, blob, blob, true, 0, 0 }, read.session, bytes);
    stranger_say(socket, bytes, sizeof bytes);
}

/* What the root has to say, after its notices; INTERNAL_ERROR if that is no verdict. */
static inline struct tt_verdict stranger_verdict(int socket, const tutti_id *id)
{
    struct tt_id read;
    struct tt_frame frame;
    struct tt_verdict verdict = { .status = TUTTI_INTERNAL_ERROR, .text = "no verdict" };
    uint8_t bytes[TT_VERDICT_BYTES];
    if (tt_id_read(id, &read) != TUTTI_OK)
        return verdict;
    while (stranger_hear(socket, bytes, TT_FRAME_BYTES) && tt_frame_read(bytes, read.session, &frame) &&
           frame.length <= sizeof bytes - TT_FRAME_BYTES &&
           stranger_hear(socket, bytes + TT_FRAME_BYTES, frame.length)) {
        if (frame.kind == TT_FRAME_NOTICE)
            continue;
        if (frame.kind == TT_FRAME_VERDICT && frame.length == TT_VERDICT_BYTES - TT_FRAME_BYTES)
            tt_verdict_read(bytes, &verdict);
        break;
    }
    return verdict;
}

/* The other side closes without a word, within half a minute. */
static inline bool turned_away(int socket)
{
    struct timeval patience = { .tv_sec = 30 };
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    uint8_t byte;
    ssize_t got = recv(socket, &byte, 1, 0);
    return got == 0 || (got < 0 && errno != EAGAIN);
}

static inline int count_entries(const char *directory)
{
    int count = 0;
    DIR *d = opendir(directory);
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        count += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return count;
}

/* The helper thread ends by itself: wait until it has. True if the directory has come to `count` entries. */
static inline bool settles(const char *directory, int count)
{
    int64_t deadline_ns = tt_deadline_ns(PATIENCE_MS);
    while (count_entries(directory) != count && tt_now_ns() < deadline_ns)
        tt_sleep_ms(5);
    return count_entries(directory) == count;
}

/* The verdict for one that has entered and said hello. */
static inline struct call call_of(const tutti_id *id, int socket)
{
    struct call c = { .right = false };
    struct tt_verdict verdict = stranger_verdict(socket, id);
    c.status = verdict.status;
    memcpy(c.text, verdict.text, sizeof c.text);
    close(socket);
    return c;
}

/* All failed with this status and the same text, in which each of these words stands. */
static inline void expect_failure(
    const struct call *calls, int count, tutti_status status, const char *const *words)
{
    for (int i = 0; i < count; i++) {
        cr_expect_eq(calls[i].status, status, "call %d: %d, %s", i, calls[i].status, calls[i].text);
        cr_expect_str_eq(calls[i].text, calls[0].text);
        for (int w = 0; words[w]; w++)
            cr_expect(strstr(calls[i].text, words[w]), "\"%s\" is not in \"%s\"", words[w], calls[i].text);
    }
}
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* A private $XDG_RUNTIME_DIR for one test; `sockets` is where the sockets will lie. */
struct scratch {
    char runtime[64], sockets[96];
    int threads; /* of this process, before */
};
static inline void scratch_open(struct scratch *scratch)
{
    snprintf(scratch->runtime, sizeof scratch->runtime, "/tmp/tutti_test_XXXXXX");
    if (!mkdtemp(scratch->runtime))
        abort();
    snprintf(scratch->sockets, sizeof scratch->sockets, "%s/tutti", scratch->runtime);
    setenv("XDG_RUNTIME_DIR", scratch->runtime, 1);
    scratch->threads = count_entries("/proc/self/task");
}
/* Also of what killed processes left. */
static inline void scratch_close(const struct scratch *scratch)
{
    char path[400];
    DIR *d = opendir(scratch->sockets);
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        snprintf(path, sizeof path, "%s/%s", scratch->sockets, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(scratch->sockets);
    rmdir(scratch->runtime);
}

/* A process that asks its launcher, and meets, so many times in a row: an exit status. Set the environment
 * first. */
static inline int meet_by_launcher(int n, int me, int64_t timeout_ms, int meetings)
{
    for (int i = 0; i < meetings; i++) {
        tutti_id id;
        int found_n, found_rank;
        if (tt_launch_find(timeout_ms, &found_n, &found_rank, &id) != TUTTI_OK)
            return 1;
        struct call c = call_for(&id, found_n, found_rank);
        run_call(&c);
        if (c.status != TUTTI_OK || !c.right || found_n != n || found_rank != me)
            return 2;
    }
    return 0;
}

#endif

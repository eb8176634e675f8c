/* SPDX-License-Identifier: BSD-3-Clause */
/* test_segments_ends.c: a leader or a follower that is killed, stopped, forks or has no descriptors left
 * while memory is handed over, and strangers who connect. Nothing hangs, and nobody else is disturbed. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "segment/segment_wire.h"
#include "segment_rig.h"

TestSuite(segments_ends, .init = rig_limit_time);

enum { BYTES = 100000, SHORT_MS = 50 };

static uint8_t *allocate(void)
{
    void *memory;
    cr_assert_eq(dev->memory.alloc(BYTES, &memory), TT_DEV_OK);
    return memory;
}

/* Whether it is handed over, and what is in the way. */
static bool add(struct tt_exporter *exporter, const void *ptr, int64_t timeout_ms, char why[TT_EXPORT_WHY])
{
    struct tt_dev_pointer what = what_is(ptr);
    return tt_exporter_add(exporter, &what, timeout_ms, why);
}

static void expect_added(struct tt_exporter *exporter, const void *ptr)
{
    char why[TT_EXPORT_WHY] = "?";
    cr_assert(add(exporter, ptr, ENOUGH_MS, why), "%s", why);
    cr_assert_str_eq(why, "");
}

static void expect_refused(struct tt_exporter *exporter, const void *ptr, const char *part)
{
    char why[TT_EXPORT_WHY] = "?";
    cr_assert_not(add(exporter, ptr, ENOUGH_MS, why));
    cr_expect_not_null(strstr(why, part), "%s", why);
}

static bool removed(struct tt_exporter *exporter, const void *ptr, int64_t timeout_ms)
{
    struct tt_dev_pointer what = what_is(ptr);
    return tt_exporter_remove(exporter, what.base, what.id, timeout_ms);
}

/* --- Ends */

Test(segments_ends, leader_is_killed)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory = allocate(), *other = allocate();
    uint32_t key;
    uint64_t offset;
    expect_added(exporter, memory);
    expect_added(exporter, other);
    leader_kill(&leader);
    expect_refused(exporter, allocate(), "the leader's process is gone");
    cr_expect_not(found(exporter, memory, 1, &key, &offset));
    cr_expect(removed(exporter, memory, ENOUGH_MS));
    struct tt_dev_pointer what = what_is(memory);
    tt_exporter_ask(exporter, &what, TT_EXPORT_GIVEN);
    cr_expect_not(found(exporter, memory, 1, &key, &offset));
    cr_expect_eq(dev->memory.free(memory), TT_DEV_OK, "%s", dev->why());
    tt_exporter_close(exporter);
}

/* Its end is seen in the middle of a wait, too. */
static void *kill_soon(void *argument)
{
    rig_sleep();
    kill(*(pid_t *)argument, SIGKILL);
    return NULL;
}

Test(segments_ends, leader_is_killed_while_it_is_asked)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory = allocate();
    pthread_t killer;
    leader_stop(&leader);
    cr_assert_eq(pthread_create(&killer, NULL, kill_soon, &leader.pid), 0);
    expect_refused(exporter, memory, "the leader's process is gone");
    pthread_join(killer, NULL);
}

/* Who registers waits for a while, and the memory is found when the leader has come to it. */
Test(segments_ends, leader_is_slow)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory = allocate(), *other = allocate();
    uint32_t key;
    uint64_t offset;
    char why[TT_EXPORT_WHY] = "";
    leader_stop(&leader);
    cr_expect(add(exporter, memory, SHORT_MS, why), "it counts");
    cr_expect_str_eq(why, "the leader has not answered yet");
    cr_expect(add(exporter, other, SHORT_MS, why));
    cr_expect_not(found(exporter, memory, 1, &key, &offset));
    cr_expect_not(removed(exporter, other, SHORT_MS), "the leader will map it all the same");
    leader_go_on(&leader);
    cr_expect(comes_to_be_found(exporter, memory, &key, &offset));
    cr_expect_not(found(exporter, other, 1, &key, &offset));
    for (int ms = 0; ms < ENOUGH_MS && leader_mapped(&leader) != 1; ms++) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        cr_expect(found(exporter, memory, 1, &key, &offset)); /* which tells the leader */
    }
    cr_expect(leader_comes_to_map(&leader, 1));
}

Test(segments_ends, importer_is_closed)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory = allocate();
    uint32_t key;
    uint64_t offset;
    expect_added(exporter, memory);
    leader_begin(&leader, 1); /* whatever began: who closes knows that nothing is under way */
    leader_close_importer(&leader);
    cr_expect_eq(leader_mapped(&leader), 0);
    cr_expect(removed(exporter, memory, ENOUGH_MS));
    cr_expect_not(found(exporter, memory, 1, &key, &offset));
    cr_expect_eq(dev->memory.free(memory), TT_DEV_OK, "%s", dev->why());
    tt_exporter_close(exporter);
    leader_exit(&leader);
}

/* Memory that went by a handle may be freed when the exporter is closed, that of a descriptor at any time. */
static void *go_on_soon(void *argument)
{
    rig_sleep();
    leader_go_on(argument);
    return NULL;
}

Test(segments_ends, exporter_is_closed)
{
    pthread_t helper;
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory[20];
    struct tt_dev_segment segment;
    for (int i = 0; i < 20; i++) {
        memory[i] = allocate();
        expect_added(exporter, memory[i]);
    }
    cr_assert_eq(dev->segment.alloc(BYTES, &segment), TT_DEV_OK);
    expect_added(exporter, segment.base);
    leader_stop(&leader);
    cr_assert_eq(pthread_create(&helper, NULL, go_on_soon, &leader), 0);
    tt_exporter_close(exporter);
    for (int i = 0; i < 20; i++)
        cr_expect_eq(dev->memory.free(memory[i]), TT_DEV_OK, "%s", dev->why());
    cr_expect_eq(dev->segment.free(&segment), TT_DEV_OK, "%s", dev->why());
    cr_expect(leader_comes_to_map(&leader, 0));
    pthread_join(helper, NULL);
}

/* A process that exits with all open exits. */
Test(segments_ends, leader_exits)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    expect_added(exporter, allocate());
    leader_exit(&leader);
    expect_refused(exporter, allocate(), "the leader's process is gone");
}

/* A follower in a process of its own, for this one is to live; it hands over one piece of memory, by a handle
 * (0) or a descriptor, and says its key. */
static pid_t start_follower(const struct leader *leader, int channel[2])
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel), 0);
    pid_t pid = rig_fork();
    if (pid != 0) {
        close(channel[1]);
        return pid;
    }
    close(channel[0]);
    struct tt_exporter *exporter;
    struct tt_dev_pointer what;
    char why[TT_EXPORT_WHY];
    void *memory;
    uint32_t key;
    uint64_t offset;
    rig_open();
    if (dev->use(0) != TT_DEV_OK ||
        tt_exporter_open(dev, 0, &leader->address, 2, &calls_over, ENOUGH_MS, &exporter) != TUTTI_OK ||
        dev->memory.alloc(BYTES, &memory) != TT_DEV_OK || dev->memory.classify(memory, &what) != TT_DEV_OK ||
        !tt_exporter_add(exporter, &what, ENOUGH_MS, why) ||
        !tt_exporter_find(exporter, memory, 1, &what, 0, &key, &offset))
        _exit(1);
    pid_t grandchild = fork(); /* it has none of that, and outlives its parent */
    if (grandchild == 0) {
        alarm(55);
        for (;;)
            pause();
    }
    uint32_t said[2] = { key, (uint32_t)grandchild };
    if (write(channel[1], said, sizeof said) != sizeof said)
        _exit(2);
    for (;;)
        pause();
}

Test(segments_ends, follower_is_killed)
{
    struct leader leader = leader_start_alone("");
    int channel[2];
    uint32_t said[2];
    pid_t pid = start_follower(&leader, channel);
    cr_assert_eq(read(channel[0], said, sizeof said), sizeof said);
    cr_expect(leader_find(&leader, 2, said[0], 0, BYTES));
    leader_begin(&leader, 4);
    leader_peek(&leader, 2, said[0], 0);
    kill(pid, SIGKILL);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    cr_expect(leader_comes_to_lose(&leader, 2, said[0]), "a child of the follower keeps its connection");
    rig_sleep();
    cr_expect(leader_comes_to_map(&leader, 1), "a round is under way");
    leader_over(&leader, 4);
    cr_expect(leader_comes_to_map(&leader, 0));
    kill((pid_t)said[1], SIGKILL);
    rig_start("");
    dev->use(0);
    struct tt_exporter *exporter = follow(&leader); /* another rank */
    expect_added(exporter, allocate());
}

/* --- Descriptors */

/* The one that came is lost, and nothing else. */
Test(segments_ends, leader_has_no_descriptors)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    struct tt_dev_segment segment;
    uint32_t key;
    uint64_t offset;
    cr_assert_eq(dev->segment.alloc(BYTES, &segment), TT_DEV_OK);
    uint8_t *memory = allocate();
    expect_added(exporter, memory);
    leader_leave_descriptors(&leader, 0);
    expect_refused(exporter, segment.base, "no free descriptor");
    cr_expect(found(exporter, memory, 1, &key, &offset));
    cr_expect(removed(exporter, memory, ENOUGH_MS));
    leader_leave_descriptors(&leader, -1);
    expect_added(exporter, segment.base);
    cr_expect(leader_find(&leader, FOLLOWER, key, 0, 1) == false && leader_comes_to_map(&leader, 1));
}

/* Who comes while there is none waits until there is. */
Test(segments_ends, leader_has_no_descriptor_for_who_comes)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = NULL;
    leader_leave_descriptors(&leader, 0);
    cr_expect_eq(
        tt_exporter_open(dev, 0, &leader.address, FOLLOWER, &calls_over, SHORT_MS, &exporter), TUTTI_TIMEOUT);
    cr_expect_null(exporter);
    leader_leave_descriptors(&leader, -1);
    cr_expect_eq(
        tt_exporter_open(dev, 0, &leader.address, FOLLOWER + 1, &calls_over, ENOUGH_MS, &exporter), TUTTI_OK);
    expect_added(exporter, allocate());
}

Test(segments_ends, follower_has_no_descriptors)
{
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    struct tt_dev_segment segment;
    struct rlimit limit;
    cr_assert_eq(dev->segment.alloc(BYTES, &segment), TT_DEV_OK);
    getrlimit(RLIMIT_NOFILE, &limit);
    int next = dup(0);
    close(next);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)next;
    setrlimit(RLIMIT_NOFILE, &limit);
    expect_refused(exporter, segment.base, "no descriptor is left");
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
    expect_added(exporter, segment.base);
}

/* --- Strangers */

static int connect_to(const struct leader *leader)
{
    struct tt_segment_address address;
    struct sockaddr_un name;
    memcpy(&address, &leader->address, sizeof address);
    cr_assert_eq(tt_directory_socket(TT_DIRECTORY_TMP, address.token, &name), TUTTI_OK);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(s >= 0 && connect(s, (struct sockaddr *)&name, sizeof name) == 0);
    return s;
}

static bool is_hung_up_on(int socket)
{
    struct tt_segment_frame frame;
    ssize_t got = recv(socket, &frame, sizeof frame, 0);
    close(socket);
    return got <= 0;
}

static struct tt_segment_frame hello_of(const struct leader *leader, int rank)
{
    struct tt_segment_address address;
    struct tt_segment_frame hello = { .rank = rank };
    memcpy(&address, &leader->address, sizeof address);
    memcpy(hello.secret, address.secret, sizeof hello.secret);
    return hello;
}

Test(segments_ends, strangers_are_hung_up_on)
{
    struct leader leader = leader_start("");
    struct tt_segment_frame frame = hello_of(&leader, FOLLOWER);
    int s = connect_to(&leader);
    frame.secret[31] ^= 1;
    cr_assert(tt_segment_send(s, &frame, TT_SEGMENT_HELLO, -1));
    cr_expect(is_hung_up_on(s), "another secret");
    s = connect_to(&leader);
    cr_assert(tt_segment_send(s, &frame, TT_SEGMENT_IMPORT, -1));
    cr_expect(is_hung_up_on(s), "no hello");
    s = connect_to(&leader);
    memset(&frame, 'x', sizeof frame);
    cr_assert_eq(write(s, &frame, sizeof frame), sizeof frame);
    cr_expect(is_hung_up_on(s), "nonsense");
    for (int rank = -1; rank <= LEADER_RANKS; rank += LEADER_RANKS + 1) {
        s = connect_to(&leader);
        frame = hello_of(&leader, rank);
        cr_assert(tt_segment_send(s, &frame, TT_SEGMENT_HELLO, -1));
        cr_expect(is_hung_up_on(s), "rank %d", rank);
    }
    expect_added(follow(&leader), allocate());
    s = connect_to(&leader);
    frame = hello_of(&leader, FOLLOWER);
    cr_assert(tt_segment_send(s, &frame, TT_SEGMENT_HELLO, -1));
    cr_expect(is_hung_up_on(s), "a rank that is there");
}

/* Those that say nothing do not keep a rank from coming. */
Test(segments_ends, strangers_are_many)
{
    enum { MANY = 100 };
    struct leader leader = leader_start("");
    int sockets[MANY];
    for (int i = 0; i < MANY; i++)
        sockets[i] = connect_to(&leader);
    struct tt_exporter *exporter = follow(&leader);
    for (int i = 0; i < MANY; i++)
        close(sockets[i]);
    expect_added(exporter, allocate());
}

/* What is sent by bits is read when it is whole. */
Test(segments_ends, frames_in_parts)
{
    struct leader leader = leader_start("");
    struct tt_segment_frame frame = hello_of(&leader, 0);
    int s = connect_to(&leader);
    frame.magic = TT_SEGMENT_MAGIC;
    frame.kind = TT_SEGMENT_HELLO;
    for (size_t at = 0; at < sizeof frame; at += 8) {
        cr_assert_eq(write(s, (char *)&frame + at, 8), 8);
        if (at % 64 == 0)
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    cr_assert_eq(recv(s, &frame, sizeof frame, MSG_WAITALL), sizeof frame);
    cr_expect_eq(frame.kind, TT_SEGMENT_WELCOME);
    close(s);
}

/* A member that talks nonsense, to be sent in place of what an exporter sends. */
static void expect_nonsense(const struct leader *leader, int rank, uint32_t kind, const uint32_t *keys, int n)
{
    struct tt_segment_frame frame = hello_of(leader, rank);
    int s = connect_to(leader);
    cr_assert(tt_segment_send(s, &frame, TT_SEGMENT_HELLO, -1));
    cr_assert_eq(recv(s, &frame, sizeof frame, MSG_WAITALL), sizeof frame);
    for (int i = 0; i < n; i++) {
        frame = (struct tt_segment_frame){ .key = keys[i], .bytes = 4096 };
        cr_assert(tt_segment_send(s, &frame, i < n - 1 ? TT_SEGMENT_IMPORT : kind, -1));
        if (i < n - 1) {
            cr_assert_eq(recv(s, &frame, sizeof frame, MSG_WAITALL), sizeof frame);
            cr_expect(frame.kind == TT_SEGMENT_REFUSED && frame.key == keys[i] && frame.why[0] != '\0');
        }
    }
    cr_expect(is_hung_up_on(s), "keys of rank %d", rank);
}

Test(segments_ends, members_that_talk_nonsense)
{
    const uint32_t first = tt_segment_key(5, 1), second = tt_segment_key(5, 2), none = tt_segment_key(5, 0);
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = follow(&leader);
    uint8_t *memory = allocate();
    uint32_t key;
    uint64_t offset;
    expect_added(exporter, memory);
    cr_assert(found(exporter, memory, 1, &key, &offset));
    expect_nonsense(&leader, 0, TT_SEGMENT_IMPORT, (const uint32_t[]){ second, first }, 2);
    expect_nonsense(&leader, 2, TT_SEGMENT_CLOSE, (const uint32_t[]){ first, first }, 2);
    cr_expect(leader_find(&leader, FOLLOWER, key, 0, 1));
    expect_nonsense(&leader, 3, TT_SEGMENT_IMPORT, &none, 1);
    expect_nonsense(&leader, 4, TT_SEGMENT_MAPPED, &first, 1);
    expect_nonsense(&leader, 5, TT_SEGMENT_CLOSE, &none, 1);
    cr_expect(leader_find(&leader, FOLLOWER, key, 0, 1));
    leader_close_importer(&leader);
    leader_exit(&leader);
}

/* Another user finds the directory closed; where it is open by mistake, he is told by the system. */
static int connect_as_another(const struct sockaddr_un *name, const struct tt_segment_frame *hello)
{
    struct tt_segment_frame frame = *hello;
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 77;
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || connect(s, (const struct sockaddr *)name, sizeof *name) != 0)
        return 1;
    tt_segment_send(s, &frame, TT_SEGMENT_HELLO, -1);
    return is_hung_up_on(s) ? 0 : 2;
}

static int as_another(const struct leader *leader, const struct sockaddr_un *name)
{
    struct tt_segment_frame hello = hello_of(leader, FOLLOWER);
    int status = -1;
    pid_t pid = rig_fork();
    if (pid == 0)
        _exit(connect_as_another(name, &hello));
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(segments_ends, another_user_is_hung_up_on)
{
    char directory[sizeof((struct sockaddr_un *)0)->sun_path], place[] = "/tmp/tutti-segments-XXXXXX";
    struct tt_segment_address address;
    struct sockaddr_un name;
    if (geteuid() != 0)
        cr_skip_test("only root can be another user");
    cr_assert_not_null(mkdtemp(place)); /* for nobody else's directory is to be opened */
    setenv("TUTTI_DIRECTORY", place, 1);
    chmod(place, 0755);
    struct leader leader = leader_start("");
    memcpy(&address, &leader.address, sizeof address);
    cr_assert_eq(tt_directory_socket(TT_DIRECTORY_TMP, address.token, &name), TUTTI_OK);
    cr_expect_eq(as_another(&leader, &name), 1, "the directory is open");
    strcpy(directory, name.sun_path);
    *strrchr(directory, '/') = '\0';
    chmod(directory, 0755);
    chmod(name.sun_path, 0777);
    cr_expect_eq(as_another(&leader, &name), 0, "he is let in");
    chmod(directory, 0700);
    expect_added(follow(&leader), allocate());
    leader_close_importer(&leader);
    leader_exit(&leader);
    cr_expect(rmdir(directory) == 0 && rmdir(place) == 0, "the socket is there still");
}

Test(segments_ends, nobody_imports)
{
    const struct tt_import_address none = { { 0 } };
    struct leader leader = leader_start("");
    struct tt_exporter *exporter = NULL;
    cr_expect_eq(tt_exporter_open(dev, 0, &none, 1, &calls_over, ENOUGH_MS, &exporter), TUTTI_PEER_LOST);
    leader_close_importer(&leader);
    cr_expect_eq(
        tt_exporter_open(dev, 0, &leader.address, 1, &calls_over, ENOUGH_MS, &exporter), TUTTI_PEER_LOST);
    cr_expect_null(exporter);
    leader_exit(&leader);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* segment_rig.c: the leader is a child that answers one command at a time. */
#include "segment_rig.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

_Atomic uint64_t calls_over;

enum command { BEGIN, OVER, FIND, PEEK, POKE, AGAIN, DESCRIPTORS, CLOSE, EXIT };

struct order {
    enum command command;
    int rank, byte;
    uint32_t key;
    uint64_t offset, bytes;
};

struct answer {
    int number;
    struct tt_import_address address; /* of the first */
};

/* --- The leader */

static struct tt_importer *importer;
static void *last;

/* Descriptors are given from the lowest number on, so the limit is a bit above what is open. */
static void leave_descriptors(int more)
{
    static rlim_t before;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    before = before > 0 ? before : limit.rlim_cur;
    int next = dup(0);
    close(next);
    limit.rlim_cur = more < 0 ? before : (rlim_t)(next + more);
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int obey(const struct order *order)
{
    uint8_t *at;
    void *found_at;
    switch (order->command) {
    case BEGIN:
        tt_importer_begin(importer, order->offset);
        return 0;
    case OVER:
        tt_importer_over(importer, order->offset);
        return 0;
    case FIND:
        return tt_importer_find(importer, order->rank, order->key, order->offset, order->bytes) != NULL;
    case PEEK:
    case POKE:
        found_at = tt_importer_find(importer, order->rank, order->key, order->offset, 1);
        if (found_at == NULL)
            return -1;
        last = found_at;
        at = stub->look(last);
        *at = order->command == POKE ? (uint8_t)order->byte : *at;
        return *at;
    case AGAIN:
        at = stub->look(last);
        return at != NULL ? *at : -1;
    case DESCRIPTORS:
        leave_descriptors(order->byte);
        return 0;
    case CLOSE:
        tt_importer_close(importer);
        return 0;
    case EXIT:
        exit(0);
    }
    return -1;
}

static _Noreturn void lead(int channel, const char *configuration)
{
    struct order order;
    struct answer answer = { .number = -1 };
    rig_open();
    if (stub->configure(configuration) && dev->use(0) == TT_DEV_OK &&
        tt_importer_open(dev, 0, LEADER_RANKS, &importer, &answer.address) == TUTTI_OK)
        answer.number = 0;
    dev->use(-1);
    while (write(channel, &answer, sizeof answer) == sizeof answer &&
           read(channel, &order, sizeof order) == sizeof order)
        answer.number = obey(&order);
    _exit(0);
}

/* --- What a test tells it */

static int tell(const struct leader *leader, const struct order *order)
{
    struct answer answer = { .number = -1 };
    cr_assert_eq(write(leader->channel, order, sizeof *order), sizeof *order);
    cr_assert_eq(read(leader->channel, &answer, sizeof answer), sizeof answer, "the leader is gone");
    return answer.number;
}

struct leader leader_start_alone(const char *configuration)
{
    struct leader leader;
    struct answer answer;
    int channel[2];
    signal(SIGPIPE, SIG_IGN);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel), 0);
    leader.pid = rig_fork();
    if (leader.pid == 0) {
        close(channel[0]);
        lead(channel[1], configuration);
    }
    close(channel[1]);
    leader.channel = channel[0];
    cr_assert_eq(read(channel[0], &answer, sizeof answer), sizeof answer);
    cr_assert_eq(answer.number, 0, "there is no importer");
    leader.address = answer.address;
    return leader;
}

struct leader leader_start(const char *configuration)
{
    struct leader leader = leader_start_alone(configuration);
    rig_start(configuration);
    cr_assert_eq(dev->use(0), TT_DEV_OK);
    return leader;
}

void leader_begin(const struct leader *leader, uint64_t round)
{
    tell(leader, &(struct order){ .command = BEGIN, .offset = round });
}

void leader_over(const struct leader *leader, uint64_t round)
{
    tell(leader, &(struct order){ .command = OVER, .offset = round });
}

bool leader_find(const struct leader *leader, int rank, uint32_t key, uint64_t offset, uint64_t bytes)
{
    struct order order = { .command = FIND, .rank = rank, .key = key, .offset = offset, .bytes = bytes };
    return tell(leader, &order) == 1;
}

int leader_peek(const struct leader *leader, int rank, uint32_t key, uint64_t offset)
{
    return tell(leader, &(struct order){ .command = PEEK, .rank = rank, .key = key, .offset = offset });
}

bool leader_poke(const struct leader *leader, int rank, uint32_t key, uint64_t offset, int byte)
{
    struct order order = { .command = POKE, .rank = rank, .key = key, .offset = offset, .byte = byte };
    return tell(leader, &order) == byte;
}

int leader_peek_again(const struct leader *leader)
{
    return tell(leader, &(struct order){ .command = AGAIN });
}

/* Of those whose target begins so; "": all. */
static int count_descriptors(const struct leader *leader, const char *begin)
{
    char name[64], target[64];
    int n = 0;
    snprintf(name, sizeof name, "/proc/%ld/fd", (long)leader->pid);
    DIR *open_ones = opendir(name);
    cr_assert_not_null(open_ones);
    for (const struct dirent *each; (each = readdir(open_ones)) != NULL;) {
        ssize_t length = readlinkat(dirfd(open_ones), each->d_name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        n += length > 0 && strncmp(target, begin, strlen(begin)) == 0;
    }
    closedir(open_ones);
    return n;
}

/* Its stub has a file open for each, and one for its own memory. */
int leader_mapped(const struct leader *leader)
{
    return count_descriptors(leader, "/memfd:stub ") - 1;
}

int leader_descriptors(const struct leader *leader)
{
    return count_descriptors(leader, "");
}

static void wait_a_moment(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

bool leader_comes_to_map(const struct leader *leader, int n)
{
    for (int ms = 0; ms < ENOUGH_MS; ms++, wait_a_moment())
        if (leader_mapped(leader) == n)
            return true;
    return false;
}

void leader_leave_descriptors(const struct leader *leader, int more)
{
    tell(leader, &(struct order){ .command = DESCRIPTORS, .byte = more });
}

void leader_close_importer(const struct leader *leader)
{
    tell(leader, &(struct order){ .command = CLOSE });
}

bool leader_comes_to_lose(const struct leader *leader, int rank, uint32_t key)
{
    for (int ms = 0; ms < ENOUGH_MS; ms++, wait_a_moment())
        if (!leader_find(leader, rank, key, 0, 1))
            return true;
    return false;
}

static int wait_for(struct leader *leader)
{
    int status = -1;
    cr_assert_eq(waitpid(leader->pid, &status, 0), leader->pid);
    close(leader->channel);
    return status;
}

void leader_exit(struct leader *leader)
{
    struct order order = { .command = EXIT };
    cr_assert_eq(write(leader->channel, &order, sizeof order), sizeof order);
    int status = wait_for(leader);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

void leader_stop(const struct leader *leader)
{
    int status;
    kill(leader->pid, SIGSTOP);
    cr_assert_eq(waitpid(leader->pid, &status, WUNTRACED), leader->pid);
}

void leader_go_on(const struct leader *leader)
{
    kill(leader->pid, SIGCONT);
}

void leader_kill(struct leader *leader)
{
    kill(leader->pid, SIGKILL);
    wait_for(leader);
}

/* --- The follower */

struct tt_exporter *follow(const struct leader *leader)
{
    struct tt_exporter *exporter = NULL;
    cr_assert_eq(
        tt_exporter_open(dev, 0, &leader->address, FOLLOWER, &calls_over, ENOUGH_MS, &exporter), TUTTI_OK);
    return exporter;
}

struct tt_dev_pointer what_is(const void *ptr)
{
    struct tt_dev_pointer what;
    cr_assert_eq(dev->memory.classify(ptr, &what), TT_DEV_OK);
    return what;
}

bool found(struct tt_exporter *exporter, const void *ptr, uint64_t bytes, uint32_t *key, uint64_t *offset)
{
    struct tt_dev_pointer what = what_is(ptr);
    return tt_exporter_find(exporter, ptr, bytes, &what, 0, key, offset);
}

bool comes_to_be_found(struct tt_exporter *exporter, const void *ptr, uint32_t *key, uint64_t *offset)
{
    for (int ms = 0; ms < ENOUGH_MS; ms++, wait_a_moment())
        if (found(exporter, ptr, 1, key, offset))
            return true;
    return false;
}

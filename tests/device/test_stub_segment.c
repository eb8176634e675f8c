/* SPDX-License-Identifier: BSD-3-Clause */
/* test_stub_segment.c: device memory of the stub that two processes map. The other process is a child that
 * was forked before the first call; descriptors reach it as messages. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/export.h"
#include "stub_rig.h"

TestSuite(stub_segment, .init = rig_limit_time);

enum { BYTES = 100000, ROUNDED = 131072 };

/* The child: imports, finds the parent's bytes, and answers by a word in the segment. Its number of failures
 * is how it exits. */
static int child(int channel, const char *configuration)
{
    struct tt_dev_export export;
    struct tt_dev_segment segment;
    struct tt_dev_pointer what;
    uint32_t *pinned;
    int wrong = 0;
    rig_open();
    wrong += !stub->configure(configuration);
    wrong += !export_receive(channel, &export);
    wrong += dev->use(0) != TT_DEV_OK;
    wrong += dev->segment.import(&export, &segment) != TT_DEV_OK;
    if (wrong != 0)
        return wrong;
    wrong += !segment.imported || segment.bytes != ROUNDED || segment.device != 0;
    wrong += dev->memory.classify((char *)segment.base + 5, &what) != TT_DEV_OK;
    wrong += what.kind != TT_DEV_DEVICE || what.device != 0 || what.bytes != ROUNDED;
    wrong += dev->memory.alloc_pinned(64, (void **)&pinned) != TT_DEV_OK;
    wrong += dev->wait_word(NULL, segment.base, 1) != TT_DEV_OK;
    wrong += dev->copy(pinned, (char *)segment.base + ROUNDED - 4, 4, NULL) != TT_DEV_OK;
    wrong += dev->write_word(NULL, (uint32_t *)segment.base + 1, 77) != TT_DEV_OK;
    wrong += dev->stream.sync(NULL) != TT_DEV_OK || pinned[0] != 0x09090909;
    wrong += dev->segment.export(&segment, &export) != TT_DEV_INVALID; /* it is not its own */
    wrong += dev->segment.free(&segment) != TT_DEV_OK;
    wrong += dev->segment.free(&segment) != TT_DEV_INVALID;
    return wrong;
}

static void exchange(const char *configuration)
{
    struct tt_dev_segment segment;
    struct tt_dev_export export;
    int channel[2], status = -1;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel), 0);
    pid_t pid = rig_fork();
    if (pid == 0)
        _exit(child(channel[1], configuration));
    rig_start(configuration);
    cr_assert_eq(dev->use(1), TT_DEV_OK);
    void *stream = rig_stream();
    cr_assert_eq(dev->segment.alloc(BYTES, &segment), TT_DEV_OK);
    cr_expect(segment.bytes == ROUNDED && segment.device == 1 && !segment.imported);
    cr_expect_eq(dev->fill(segment.base, 0, 8, stream), TT_DEV_OK);
    cr_expect_eq(dev->fill((char *)segment.base + 8, 9, ROUNDED - 8, stream), TT_DEV_OK);
    cr_assert_eq(dev->segment.export(&segment, &export), TT_DEV_OK);
    cr_assert(export_send(channel[0], &export));
    cr_expect_eq(dev->write_word(stream, segment.base, 1), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(stream, (uint32_t *)segment.base + 1, 77), TT_DEV_OK);
    rig_ends(stream);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

Test(stub_segment, exported_by_descriptor)
{
    exchange("fds=1");
}

Test(stub_segment, exported_by_handle)
{
    exchange("fds=0");
}

static int child_of_stale_handle(int channel)
{
    struct tt_dev_export export;
    struct tt_dev_segment segment;
    rig_open();
    return !stub->configure("fds=0") || !export_receive(channel, &export) ||
           dev->segment.import(&export, &segment) != TT_DEV_INVALID;
}

/* A handle of memory that was freed is not one of what was allocated next. */
Test(stub_segment, handle_of_freed_memory)
{
    struct tt_dev_segment first, second;
    struct tt_dev_export export;
    int channel[2], status = -1;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel), 0);
    pid_t pid = rig_fork();
    if (pid == 0)
        _exit(child_of_stale_handle(channel[1]));
    rig_start("fds=0");
    cr_assert_eq(dev->segment.alloc(BYTES, &first), TT_DEV_OK);
    cr_assert_eq(dev->segment.export(&first, &export), TT_DEV_OK);
    cr_assert_eq(dev->segment.free(&first), TT_DEV_OK);
    cr_assert_eq(dev->segment.alloc(BYTES, &second), TT_DEV_OK);
    cr_assert(export_send(channel[0], &export));
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

static void own_export(const char *configuration)
{
    struct tt_dev_segment segment, again;
    struct tt_dev_export export;
    rig_start(configuration);
    cr_assert_eq(dev->segment.alloc(BYTES, &segment), TT_DEV_OK);
    cr_assert_eq(dev->segment.export(&segment, &export), TT_DEV_OK);
    cr_expect_eq(export.fd >= 0, strcmp(configuration, "fds=1") == 0);
    cr_expect_eq(dev->segment.import(&export, &again), TT_DEV_INVALID);
    cr_expect_not_null(strstr(dev->why(), "allocated in this process"), "%s", dev->why());
    cr_expect_eq(dev->memory.free(segment.base), TT_DEV_INVALID, "it is a segment");
    cr_expect_eq(dev->segment.free(&segment), TT_DEV_OK);
    cr_expect_eq(dev->segment.export(&segment, &export), TT_DEV_INVALID);
}

Test(stub_segment, ones_own_descriptor)
{
    own_export("fds=1");
}

Test(stub_segment, ones_own_handle)
{
    own_export("fds=0");
}

Test(stub_segment, what_is_no_segment)
{
    struct tt_dev_segment segment;
    struct tt_dev_export export = { .bytes = 4096, .fd = -1 };
    rig_start("memory=1");
    cr_expect_eq(dev->segment.import(&export, &segment), TT_DEV_INVALID);
    export.fd = 0;
    cr_expect_eq(dev->segment.import(&export, &segment), TT_DEV_INVALID);
    cr_expect_eq(dev->segment.alloc(0, &segment), TT_DEV_INVALID);
    cr_expect_eq(dev->segment.alloc(2 << 20, &segment), TT_DEV_NO_MEMORY);
}

/* --- Memory that a program allocated. */

/* Runs `child` in another process on the devices; `parent` has the other end of its channel. */
static void beside(const char *configuration, int (*run)(int channel), void (*parent)(int channel))
{
    int channel[2], status = -1;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel), 0);
    pid_t pid = rig_fork();
    if (pid == 0) {
        close(channel[0]);
        rig_open();
        _exit(!stub->configure(configuration) || dev->use(0) != TT_DEV_OK ? 99 : run(channel[1]));
    }
    close(channel[1]);
    rig_start(configuration);
    cr_assert_eq(dev->use(0), TT_DEV_OK);
    parent(channel[0]);
    close(channel[0]);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

static void say(int channel)
{
    cr_assert_eq(write(channel, "!", 1), 1);
}

static bool hear(int channel)
{
    char said;
    return read(channel, &said, 1) == 1;
}

/* Maps what the parent has, finds its byte at both ends, and puts its own there. */
static int change(int channel)
{
    struct tt_dev_export export;
    struct tt_dev_segment segment;
    int wrong = !export_receive(channel, &export) || dev->segment.import(&export, &segment) != TT_DEV_OK;
    if (wrong != 0)
        return wrong;
    uint8_t *first = stub->look(segment.base), *last = stub->look((char *)segment.base + BYTES - 1);
    wrong += segment.bytes != BYTES || !segment.imported || *first != 3 || *last != 4;
    *first = 5;
    *last = 6;
    wrong += write(channel, "!", 1) != 1 || !hear(channel);
    wrong += dev->segment.free(&segment) != TT_DEV_OK;
    return wrong + (write(channel, "!", 1) != 1);
}

static void lend(int channel)
{
    char *memory, *other;
    struct tt_dev_export export;
    uintptr_t base = 0;
    cr_assert_eq(dev->memory.alloc(1000, (void **)&other), TT_DEV_OK);
    cr_assert_eq(dev->memory.alloc(BYTES, (void **)&memory), TT_DEV_OK);
    uint8_t *first = stub->look(memory), *last = stub->look(memory + BYTES - 1);
    *first = 3;
    *last = 4;
    cr_assert_eq(dev->segment.export_of(memory + 777, &export, &base), TT_DEV_OK, "%s", dev->why());
    cr_expect(base == (uintptr_t)memory && export.bytes == BYTES && export.fd == -1);
    cr_assert(export_send(channel, &export));
    cr_assert(hear(channel));
    cr_expect(*first == 5 && *last == 6);
    cr_expect_eq(dev->memory.free(other), TT_DEV_OK, "nobody has that");
    say(channel);
    cr_assert(hear(channel));
    cr_expect_eq(dev->memory.free(memory), TT_DEV_OK, "%s", dev->why());
}

Test(stub_segment, memory_that_is_lent)
{
    beside("fds=1", change, lend);
}

static int find_it_spoilt(int channel)
{
    struct tt_dev_export export;
    struct tt_dev_segment segment;
    int wrong = !export_receive(channel, &export) || dev->segment.import(&export, &segment) != TT_DEV_OK ||
                write(channel, "!", 1) != 1 || !hear(channel);
    if (wrong != 0)
        return wrong;
    uint8_t *last = stub->look((char *)segment.base + BYTES - 1);
    return *last != 0xdb || dev->segment.free(&segment) != TT_DEV_OK;
}

static void free_too_early(int channel)
{
    void *memory;
    struct tt_dev_export export;
    uintptr_t base;
    cr_assert_eq(dev->memory.alloc(BYTES, &memory), TT_DEV_OK);
    cr_assert_eq(dev->segment.export_of(memory, &export, &base), TT_DEV_OK);
    cr_assert(export_send(channel, &export));
    cr_assert(hear(channel));
    cr_expect_eq(dev->memory.free(memory), TT_DEV_INVALID);
    cr_expect_not_null(strstr(dev->why(), "another process has it mapped"), "%s", dev->why());
    say(channel);
}

Test(stub_segment, memory_that_is_freed_too_early)
{
    beside("fds=1", find_it_spoilt, free_too_early);
}

static void free_segment_too_early(int channel)
{
    struct tt_dev_segment segment;
    struct tt_dev_export export;
    uintptr_t base = 0;
    cr_assert_eq(dev->segment.alloc(BYTES, &segment), TT_DEV_OK);
    cr_assert_eq(dev->segment.export_of((char *)segment.base + BYTES, &export, &base), TT_DEV_OK);
    cr_expect(export.fd == -1 && base == (uintptr_t)segment.base);
    cr_assert(export_send(channel, &export));
    cr_assert(hear(channel));
    cr_expect_eq(dev->segment.free(&segment), TT_DEV_INVALID);
    say(channel);
}

Test(stub_segment, segment_that_is_freed_too_early)
{
    beside("fds=0", find_it_spoilt, free_segment_too_early);
}

static int find_it_there(int channel)
{
    struct tt_dev_export export;
    struct tt_dev_segment segment;
    int wrong = !export_receive(channel, &export) || dev->segment.import(&export, &segment) != TT_DEV_OK;
    close(export.fd);
    if (wrong != 0 || write(channel, "!", 1) != 1 || !hear(channel))
        return 1;
    uint8_t *last = stub->look((char *)segment.base + BYTES - 1);
    return *last != 8;
}

static void free_what_is_counted(int channel)
{
    struct tt_dev_segment segment;
    struct tt_dev_export export;
    uintptr_t base;
    cr_assert_eq(dev->segment.alloc(BYTES, &segment), TT_DEV_OK);
    cr_assert_eq(dev->segment.export_of(segment.base, &export, &base), TT_DEV_OK);
    cr_assert(export.fd >= 0 && export_send(channel, &export));
    close(export.fd);
    *(uint8_t *)stub->look((char *)segment.base + BYTES - 1) = 8;
    cr_assert(hear(channel));
    cr_expect_eq(dev->segment.free(&segment), TT_DEV_OK);
    say(channel);
}

/* What travels as a descriptor lives until its last user is gone. */
Test(stub_segment, descriptors_are_counted)
{
    beside("fds=1", find_it_there, free_what_is_counted);
}

static int map_and_end(int channel)
{
    struct tt_dev_export export;
    struct tt_dev_segment segment;
    return !export_receive(channel, &export) || dev->segment.import(&export, &segment) != TT_DEV_OK;
}

static void free_after_the_other(int channel)
{
    void *memory;
    struct tt_dev_export export;
    uintptr_t base;
    cr_assert_eq(dev->memory.alloc(BYTES, &memory), TT_DEV_OK);
    cr_assert_eq(dev->segment.export_of(memory, &export, &base), TT_DEV_OK);
    cr_assert(export_send(channel, &export));
    cr_expect_not(hear(channel)); /* it has ended */
    rig_sleep();
    cr_expect_eq(dev->memory.free(memory), TT_DEV_OK, "%s", dev->why());
}

Test(stub_segment, who_ends_has_nothing_mapped)
{
    beside("", map_and_end, free_after_the_other);
}

static int refuse_stale(int channel)
{
    struct tt_dev_export export;
    struct tt_dev_segment segment;
    return !export_receive(channel, &export) || dev->segment.import(&export, &segment) != TT_DEV_INVALID;
}

static void send_stale(int channel)
{
    void *memory, *again;
    struct tt_dev_export export;
    uintptr_t base;
    cr_assert_eq(dev->memory.alloc(BYTES, &memory), TT_DEV_OK);
    cr_assert_eq(dev->segment.export_of(memory, &export, &base), TT_DEV_OK);
    cr_assert_eq(dev->memory.free(memory), TT_DEV_OK);
    cr_assert_eq(dev->memory.alloc(BYTES, &again), TT_DEV_OK);
    cr_expect_eq(again, memory, "else this shows nothing");
    struct tt_dev_export new;
    cr_assert_eq(dev->segment.export_of(again, &new, &base), TT_DEV_OK);
    cr_assert(export_send(channel, &export));
}

Test(stub_segment, handle_of_what_is_there_no_more)
{
    beside("", refuse_stale, send_stale);
}

static void refused(const void *ptr, enum tt_dev_error error, const char *why)
{
    struct tt_dev_export export = { .bytes = 5 };
    uintptr_t base = 5;
    cr_expect_eq(dev->segment.export_of(ptr, &export, &base), error, "%s", why);
    cr_expect_not_null(strstr(dev->why(), why), "%s", dev->why());
    cr_expect(export.bytes == 5 && base == 5);
}

static int map_and_export(int channel)
{
    struct tt_dev_export export;
    struct tt_dev_segment segment;
    uintptr_t base;
    return !export_receive(channel, &export) || dev->segment.import(&export, &segment) != TT_DEV_OK ||
           dev->segment.export_of(segment.base, &export, &base) != TT_DEV_UNSUPPORTED ||
           strstr(dev->why(), "imported") == NULL;
}

static void refuse_kinds(int channel)
{
    void *memory, *managed, *pinned;
    struct tt_dev_export export;
    uintptr_t base;
    int local = 0;
    cr_assert_eq(dev->memory.alloc(BYTES, &memory), TT_DEV_OK);
    cr_assert_eq(dev->memory.alloc_managed(BYTES, &managed), TT_DEV_OK);
    cr_assert_eq(dev->memory.alloc_pinned(BYTES, &pinned), TT_DEV_OK);
    refused(managed, TT_DEV_UNSUPPORTED, "no memory of a device alone");
    refused(pinned, TT_DEV_UNSUPPORTED, "no memory of a device alone");
    refused(&local, TT_DEV_UNSUPPORTED, "no memory of a device alone");
    refused(stub->map_parts(4096, 3, -1), TT_DEV_UNSUPPORTED, "mapped in a range");
    cr_assert_eq(dev->segment.export_of(memory, &export, &base), TT_DEV_OK);
    cr_assert(export_send(channel, &export));
}

Test(stub_segment, what_cannot_be_exported)
{
    beside("", map_and_export, refuse_kinds);
}

Test(stub_segment, what_is_of_a_pool)
{
    void *memory;
    struct tt_dev_segment segment;
    struct tt_dev_export export;
    uintptr_t base;
    rig_start("exports=0");
    cr_assert_eq(dev->segment.alloc(BYTES, &segment), TT_DEV_OK);
    dev->use(-1);
    refused(segment.base, TT_DEV_INVALID, "uses no device");
    dev->use(0);
    cr_assert_eq(dev->memory.alloc(BYTES, &memory), TT_DEV_OK);
    refused(memory, TT_DEV_UNSUPPORTED, "of a pool");
    cr_expect_eq(dev->segment.export_of(segment.base, &export, &base), TT_DEV_OK);
    cr_expect_eq(dev->segment.import(&export, &segment), TT_DEV_INVALID, "it is its own");
}

Test(stub_segment, ones_own_memory)
{
    void *memory;
    struct tt_dev_segment segment;
    struct tt_dev_export export;
    uintptr_t base;
    rig_start("");
    dev->use(0);
    cr_assert_eq(dev->memory.alloc(BYTES, &memory), TT_DEV_OK);
    cr_assert_eq(dev->segment.export_of(memory, &export, &base), TT_DEV_OK);
    cr_expect_eq(dev->segment.import(&export, &segment), TT_DEV_INVALID);
    cr_expect_not_null(strstr(dev->why(), "allocated in this process"), "%s", dev->why());
}

/* Devices are named by their addresses, for processes may count them differently. */
static void reach(const char *configuration, bool expected)
{
    struct tt_dev_facts facts;
    bool reaches = !expected;
    rig_start(configuration);
    cr_assert_eq(dev->facts(1, &facts), TT_DEV_OK);
    cr_expect(dev->reaches(0, facts.address, &reaches) == TT_DEV_OK && reaches == expected);
    reaches = true;
    cr_expect(dev->reaches(1, facts.address, &reaches) == TT_DEV_OK && !reaches, "itself");
    reaches = true;
    cr_expect(dev->reaches(0, "stub:07.0", &reaches) == TT_DEV_ABSENT && reaches, "of none there is");
}

Test(stub_segment, devices_that_reach_each_other)
{
    reach("devices=2", true);
}

Test(stub_segment, devices_that_do_not_reach_each_other)
{
    reach("devices=2,peers=0", false);
}

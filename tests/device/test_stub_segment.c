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

/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_rig.c: what tests of the stub begin with, and how they show that a stream hangs. */
#include "stub_rig.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "tests/rig/patience.h"

const struct tt_dev *dev;
const struct tt_stub *stub;
uint32_t *rig_words;

void rig_limit_time(void)
{
    alarm(patience_seconds(60));
}

pid_t rig_fork(void)
{
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(patience_seconds(60)); /* a child has none of its parent's */
    }
    return pid;
}

void rig_open(void)
{
    dev = tutti_device_table(TT_DEV_VERSION);
    stub = tt_stub();
}

void rig_start(const char *configuration)
{
    rig_open();
    cr_assert(stub->configure(configuration));
    cr_assert_eq(dev->memory.alloc_pinned(4096, (void **)&rig_words), TT_DEV_OK);
    memset(rig_words, 0, 4096);
}

void *rig_stream(void)
{
    void *stream;
    cr_assert_eq(dev->stream.create(&stream), TT_DEV_OK);
    return stream;
}

static bool ready_within(void *stream, int ms)
{
    for (; ms > 0 && dev->stream.query(stream) == TT_DEV_NOT_READY; ms--)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return dev->stream.query(stream) == TT_DEV_OK;
}

void rig_hangs(void *stream)
{
    cr_expect_not(ready_within(stream, LONG_MS), "it ends, and should hang");
}

void rig_ends(void *stream)
{
    cr_expect(ready_within(stream, ENOUGH_MS), "it hangs, and should end: %s", dev->why());
}

void rig_sleep(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = LONG_MS * 1000000 }, NULL);
}

static void *call_run(void *argument)
{
    struct rig_call *call = argument;
    call->call(call->stream);
    atomic_store(&call->done, true);
    return NULL;
}

void rig_call(struct rig_call *call, void (*function)(void *stream), void *stream)
{
    call->call = function;
    call->stream = stream;
    atomic_init(&call->done, false);
    cr_assert_eq(pthread_create(&call->thread, NULL, call_run, call), 0);
}

void rig_call_hangs(struct rig_call *call)
{
    rig_sleep();
    cr_expect_not(atomic_load(&call->done), "it returns, and should hang");
}

void rig_call_ends(struct rig_call *call)
{
    pthread_join(call->thread, NULL);
}

void rig_open_word(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* test_call_mode.c: how collperf makes its calls. That it waits for a stream before it looks at results
 * cannot be seen in a benchmark, whose checks take longer than the calls; here the peer comes late on
 * purpose. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "perf/collperf/call_mode.h"
#include "tests/rig/plugin.h"

enum { VALUE = 4711 };

static tutti_status receive(const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    (void)send;
    return tutti_recv(recv, p->count, p->type->type, 0, comm, p->stream);
}

static void *send_late(void *comm)
{
    int32_t value = VALUE;
    nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 * 1000 }, NULL);
    return (void *)(intptr_t)tutti_send(&value, 1, TUTTI_INT32, 1, comm, tutti_no_stream());
}

static void receive_from_late_peer(bool blocking)
{
    const struct perf_collective collective = { .name = "receive", .call = receive };
    const struct perf_type type = { .type = TUTTI_INT32, .bytes = 4 };
    tutti_comm *comms[2];
    struct perf_call_mode mode;
    cr_assert_eq(tutti_comm_init_all(2, NULL, NULL, comms), TUTTI_OK);
    cr_assert_eq(perf_call_mode_open(&mode, blocking), TUTTI_OK);
    cr_assert_eq(mode.stream.kind, blocking ? TUTTI_STREAM_NONE : TUTTI_STREAM_HOST);

    struct perf_point point = { .collective = &collective, .type = &type, .stream = mode.stream, .count = 1 };
    int32_t got = 0;
    struct perf_pointers at = { .recv = (uint8_t *)&got };
    mode.point = &point;
    mode.at = &at;
    mode.comm = comms[1];
    pthread_t peer;
    void *sent;
    uint64_t end = 0;
    cr_assert_eq(pthread_create(&peer, NULL, send_late, comms[0]), 0);
    cr_assert_eq(perf_call_mode_issue(&mode, 1, &end), TUTTI_OK);
    cr_assert_eq(perf_call_mode_wait(&mode, end), TUTTI_OK);
    cr_assert_eq(got, VALUE, "waited for, but not there");
    pthread_join(peer, &sent);
    cr_assert_eq((intptr_t)sent, TUTTI_OK);

    point.count = 0; /* nothing is there to wait for */
    cr_assert_eq(perf_call_mode_issue(&mode, 1, &end), TUTTI_OK);
    cr_assert_eq(perf_call_mode_wait(&mode, end), TUTTI_OK);
    perf_call_mode_close(&mode);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(tutti_comm_destroy(comms[i]), TUTTI_OK);
}

Test(call_mode, a_blocking_call_is_done_when_it_returns)
{
    receive_from_late_peer(true);
}

Test(call_mode, a_queued_call_is_done_when_its_end_is_waited_for)
{
    receive_from_late_peer(false);
}

/* A device's stream goes on when the communicator has failed, so its wait alone ends well. */
Test(call_mode, a_device_that_goes_on_hides_no_error)
{
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 1);
    tutti_config config = { .size = sizeof config, .options = "device=0" };
    struct perf_device device;
    struct perf_call_mode mode;
    tutti_comm *comm;
    cr_assert_eq(perf_device_open(&device, 0, PERF_DEVICE_ANY), TUTTI_OK);
    cr_assert_eq(tutti_comm_init_all(1, NULL, &config, &comm), TUTTI_OK);
    perf_call_mode_open_device(&mode, &device);
    mode.comm = comm;
    cr_expect_eq(perf_call_mode_wait(&mode, 0), TUTTI_OK);
    cr_assert_eq(tutti_comm_abort(comm), TUTTI_OK);
    cr_expect_eq(perf_call_mode_wait(&mode, 0), TUTTI_ABORTED);
    perf_call_mode_close(&mode);
    tutti_comm_destroy(comm);
    perf_device_close(&device);
}

# SPDX-License-Identifier: BSD-3-Clause
"""Streams: calls that return at once, arrays that live as long as they must, failures that the points
tell."""

import gc
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from ranks import threads

import tutti


def test_order_and_points():
    def run(comm):
        with tutti.Stream() as one, tutti.Stream() as two:
            x = np.ones(1000)
            comm.all_reduce(x, out=x, stream=one)
            point = one.record()
            two.after(point)
            comm.all_reduce(x, out=x, stream=two)
            last = two.record()
            assert last.wait() and last.query() and point.query() and point.wait(0)
            assert x.tolist() == [4] * 1000
            found = comm.all_gather(x[:2], stream=one)
            comm.barrier(stream=one)
        assert found.tolist() == [4] * 4  # the `with` has waited

    threads(2, run)


def test_a_wait_may_be_short():
    one, two = tutti.init_all(2)
    stream = tutti.Stream()
    x = one.all_reduce(np.ones(3), stream=stream)
    point = stream.record()
    assert not point.wait(30) and not point.query() and not stream.wait(0)
    two.all_reduce(np.ones(3))
    assert point.wait() and x.tolist() == [2, 2, 2]
    with pytest.raises(tutti.InvalidArgument, match="timeout_ms"):
        point.wait(-2)
    stream.close()


def test_arrays_live_until_the_call_is_over():
    one, two = tutti.init_all(2)
    stream = tutti.Stream()
    x, out = np.ones(50000), np.zeros(50000)
    seen, gone = weakref.ref(out), threading.Event()
    weakref.finalize(x, gone.set)
    one.all_reduce(x, out, stream=stream)
    del x, out
    gc.collect()
    assert not gone.is_set() and seen() is not None
    two.all_reduce(np.ones(50000))
    stream.wait()
    assert seen().tolist() == [2] * 50000
    one.barrier(stream=stream)
    two.barrier()
    stream.wait()
    one.barrier(stream=stream)  # a later call lets go of what is over
    two.barrier()
    gc.collect()
    assert gone.is_set() and seen() is None
    stream.close()


@pytest.mark.parametrize("how", ["group", "program"])
def test_arrays_of_what_is_grouped_live_until_it_is_over(how):
    one, two = tutti.init_all(2)
    stream = tutti.Stream()
    x, gone = np.ones(50000), threading.Event()
    weakref.finalize(x, gone.set)
    with tutti.group() if how == "group" else tutti.group_keep() as group:
        found = one.all_reduce(x, stream=stream)
    if how == "program":
        group.start()
    del x, group
    gc.collect()  # and this waits for nobody
    assert not gone.is_set()
    two.all_reduce(np.ones(50000))
    stream.wait()
    assert found.tolist() == [2] * 50000
    stream.close()
    gc.collect()
    assert gone.is_set()


def test_a_failure_is_told_by_the_point():
    def run(comm):
        with tutti.Stream() as stream:
            comm.all_reduce(np.zeros(3 + comm.rank), stream=stream)
            with pytest.raises(tutti.Mismatch) as caught:
                stream.wait()
            assert caught.value.operation == "all_reduce" and caught.value.rank is not None
            with pytest.raises(tutti.Mismatch):
                comm.barrier(stream=stream)

    threads(2, run)


def test_wrong_arguments_are_refused_at_once():
    (comm,) = tutti.init_all(1)
    with tutti.Stream() as stream:
        with pytest.raises(tutti.InvalidArgument, match="not C-contiguous"):
            comm.all_reduce(np.zeros(6)[::2], stream=stream)
        assert stream.wait()
    with pytest.raises(tutti.InvalidUsage, match="this stream is over"):
        stream.record()
    stream.close()


def test_a_stream_that_is_dropped_with_calls_waits_for_nobody():
    one, two = tutti.init_all(2)
    stream = tutti.Stream()
    x = np.ones(50000)
    gone = threading.Event()
    weakref.finalize(x, gone.set)
    one.all_reduce(x, stream=stream)
    del stream, x
    gc.collect()
    assert not gone.is_set()  # the library may still read it
    one.close()  # this waits for nobody either: the stream's thread may not have begun the call yet
    end = time.monotonic() + 20
    while not gone.is_set() and time.monotonic() < end:
        tutti.Stream().close()  # whoever closes something lets go of what is over
    assert gone.is_set()
    with pytest.raises(tutti.Error):
        two.all_reduce(np.ones(50000))


def test_one_stream_and_many_threads():
    stream = tutti.Stream()
    failures = []
    comms = [tutti.init_all(1)[0] for _ in range(2)]

    def alone(comm):
        results = [comm.all_reduce(np.full(10, i), stream=stream) for i in range(200)]
        stream.wait()
        failures.extend(i for i, x in enumerate(results) if not (x == i).all())

    running = [threading.Thread(target=alone, args=(comm,)) for comm in comms]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert stream.wait() and failures == []
    stream.close()


def test_threads_close_streams_at_a_time():
    def run():
        (comm,) = tutti.init_all(1)
        for _ in range(200):
            with tutti.Stream() as stream:
                comm.all_reduce(np.ones(3), stream=stream)
            closed.append(1)

    closed = []
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns as often as they can
    try:
        running = [threading.Thread(target=run) for _ in range(4)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert len(closed) == 800

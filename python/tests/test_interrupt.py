# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C ends a wait: KeyboardInterrupt at the rank that got the signal, Aborted at the others.

By default a wait would go on for ten minutes, so to come within one is to be ended by the signal. What it
took is printed. """

import os
import signal
import threading
import time

import numpy as np
import pytest
from ranks import Processes, threads

import tutti

LATE_S = 60


def barrier(comm):
    comm.barrier()


def all_reduce(comm):
    comm.all_reduce(np.zeros(100000))


def recv(comm):
    comm.recv(np.zeros(3), 1)


def group(comm):
    with tutti.group():
        comm.all_reduce(np.zeros(3))
        comm.barrier()


def program(comm):
    with tutti.group_keep() as step:
        comm.barrier()
    step.start()


def split(comm):
    comm.split(0)


def child(comm):
    comm.child.barrier()


def finalize(comm):
    comm.finalize()


def point(comm):
    with tutti.Stream() as stream:
        comm.all_reduce(np.zeros(3), stream=stream)
        stream.wait()


def close_of_a_stream(comm):
    with tutti.Stream() as stream:
        comm.all_reduce(np.zeros(3), stream=stream)


def behind_a_stream(comm):
    comm.held = tutti.Stream()
    comm.all_reduce(np.zeros(3), stream=comm.held)
    comm.barrier()


CALLS = [
    all_reduce,
    barrier,
    recv,
    group,
    program,
    split,
    child,
    finalize,
    point,
    close_of_a_stream,
    behind_a_stream,
]


def wait_alone(comm, call):
    """Rank 0 makes a call that rank 1 never makes."""
    comm.child = comm.split(0)
    if comm.rank == 1:
        comm.tell("here")
        while comm.state == comm.child.state == tutti.Status.OK:
            time.sleep(0.01)
        return comm.error or comm.child.error
    comm.tell(os.getpid())
    try:
        with comm:
            call(comm)
    except KeyboardInterrupt:
        return time.monotonic()


@pytest.mark.parametrize("call", CALLS)
def test_a_wait_ends(call, capsys):
    with Processes(2, wait_alone, call) as job:
        pid = job.hear(0)
        job.hear(1)
        time.sleep(
            0.2
        )  # mostly it waits by now; if not, the signal comes before the wait, which is legal, too
        begin = time.monotonic()
        os.kill(pid, signal.SIGINT)
        end = job.hear(0)
        assert isinstance(end, float), f"no KeyboardInterrupt, but {end!r}"
        assert end - begin < LATE_S
        assert isinstance(job.hear(1), tutti.Aborted)
    with capsys.disabled():
        print(
            f"\n  Ctrl-C in {call.__name__}: KeyboardInterrupt after {(end - begin) * 1e3:.1f} ms", end=""
        )


def in_one_process_group(comm, pids):
    comm.tell(os.getpid())
    comm.barrier()
    try:
        try:
            while True:
                comm.all_reduce(np.zeros(100))
        except tutti.Aborted:  # another rank was quicker; the own signal is on its way
            time.sleep(LATE_S)
    except KeyboardInterrupt:
        return "interrupted"


def test_every_rank_of_a_process_group_is_interrupted():
    with Processes(3, in_one_process_group, None) as job:
        pids = [job.hear(rank) for rank in range(3)]
        for pid in pids:
            os.kill(pid, signal.SIGINT)
        assert [job.hear(rank) for rank in range(3)] == ["interrupted"] * 3


def handle_and_go_on(comm):
    """A handler that raises nothing ends nothing."""
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(threading.current_thread().name))
    comm.barrier()
    comm.tell(os.getpid())
    if comm.rank == 0:
        comm.barrier()
        return seen
    while not comm.query("recorder"):
        pass
    time.sleep(1)
    comm.barrier()
    return seen


def test_other_handlers_run_in_a_wait():
    with Processes(2, handle_and_go_on) as job:
        pid = job.hear(0)
        job.hear(1)
        os.kill(pid, signal.SIGUSR1)
        assert job.hear(0) == ["MainThread"]
        assert job.hear(1) == []


class Weary(Exception):
    pass


def raise_weary(comm):
    def handler(*_):
        raise Weary("enough")

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        if comm.rank == 0:
            comm.barrier()
        else:
            time.sleep(LATE_S)
    except Weary as error:
        return str(error)


def test_what_a_handler_raises_is_what_the_call_raises():
    with Processes(2, raise_weary) as job:
        assert job.hear(0) == "enough"


def combine_slowly(comm):
    """Signals come while Python's main thread is in an operator: nothing is lost there, either."""

    def slowly(left, right):
        time.sleep(0.001)
        return left + right

    op = comm.op_create(slowly, commutes=True)
    comm.tell(os.getpid())
    try:
        with comm:
            while True:
                comm.all_reduce(np.ones(20000), op=op)
    except KeyboardInterrupt:
        return "interrupted"
    except tutti.Aborted:
        return "aborted"


def test_an_operator_is_interrupted():
    with Processes(2, combine_slowly) as job:
        pids = [job.hear(rank) for rank in range(2)]
        time.sleep(0.3)
        os.kill(pids[0], signal.SIGINT)
        assert job.hear(0) == "interrupted"
        assert job.hear(1) == "aborted"


def join_alone(id, to):
    to.send(os.getpid())
    try:
        tutti.init_rank(2, 0, id)
    except KeyboardInterrupt:
        to.send(time.monotonic())


def test_joining_is_interrupted():
    from ranks import _context

    receiver, sender = _context.Pipe(duplex=False)
    process = _context.Process(target=join_alone, args=(tutti.get_id(), sender))
    process.start()
    pid = receiver.recv()
    time.sleep(0.2)
    os.kill(pid, signal.SIGINT)
    assert receiver.poll(LATE_S) and isinstance(receiver.recv(), float)
    process.join()


def test_a_thread_is_woken_by_abort():
    """Python runs handlers on the main thread only; from there others are woken."""
    comms = tutti.init_all(2)
    raised = []

    def run():
        try:
            comms[0].barrier()
        except tutti.Aborted as error:
            raised.append(error.status)

    thread = threading.Thread(target=run)
    thread.start()
    comms[1].abort()
    thread.join(LATE_S)
    assert raised == [tutti.Status.ABORTED]

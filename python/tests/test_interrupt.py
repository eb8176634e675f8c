# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C ends a wait: KeyboardInterrupt at the rank that got the signal, Aborted at the others.

By default a wait would go on for ten minutes, so to come within one is to be ended by the signal. What it
took is printed."""

import contextlib
import os
import signal
import subprocess
import sys
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


JOB = """
import multiprocessing, numpy, sys, time, tutti

def train(n, rank, id, started):
    try:
        try:
            with tutti.init_rank(n, rank, id) as comm:
                comm.barrier()
                started.release()
                while True:
                    comm.all_reduce(numpy.zeros(1000))
        except tutti.Aborted:  # another rank was quicker, and the own signal is on its way
            time.sleep({late})
    except KeyboardInterrupt:
        sys.exit(7)

if __name__ == "__main__":
    processes = multiprocessing.get_context("spawn")
    id, started = tutti.get_id(), processes.Semaphore(0)
    ranks = [processes.Process(target=train, args=(3, rank, id, started)) for rank in range(3)]
    for each in ranks:
        each.start()
    try:
        for each in ranks:
            started.acquire()
        print("started", flush=True)
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        for each in ranks:
            each.join()
        print([each.exitcode for each in ranks])
"""


def test_every_process_of_a_terminal_is_interrupted(tmp_path):
    """What a terminal does: the signal goes to the launcher and to all ranks."""
    script = tmp_path / "job.py"
    script.write_text(JOB.format(late=LATE_S))
    with subprocess.Popen(
        [sys.executable, script],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        try:
            assert job.stdout.readline() == "started\n"
            os.killpg(job.pid, signal.SIGINT)
            out, err = job.communicate(timeout=LATE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
    assert out == "[7, 7, 7]\n" and "ignored" not in err


def handle_and_go_on(comm):
    """A handler that raises nothing ends nothing. Rank 1 makes its call after rank 0's handler has run."""
    seen = []

    def handler(*_):
        seen.append(threading.current_thread().name)
        comm.tell("handled")

    signal.signal(signal.SIGUSR1, handler)
    comm.barrier()
    comm.tell(os.getpid())
    while comm.rank == 1 and not seen:
        time.sleep(0.01)
    comm.barrier()
    return seen


def test_other_handlers_run_in_a_wait():
    with Processes(2, handle_and_go_on) as job:
        for pid, rank in [(job.hear(rank), rank) for rank in range(2)]:
            os.kill(pid, signal.SIGUSR1)
            assert job.hear(rank) == "handled"
        assert [job.hear(rank) for rank in range(2)] == [["MainThread"]] * 2


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
    time.sleep(10 * LATE_S)  # it is alive, but not a rank


def test_joining_is_interrupted():
    from ranks import _context

    receiver, sender = _context.Pipe(duplex=False)
    id = tutti.get_id()
    process = _context.Process(target=join_alone, args=(id, sender))
    process.start()
    pid = receiver.recv()
    time.sleep(0.2)
    os.kill(pid, signal.SIGINT)
    assert receiver.poll(LATE_S) and isinstance(receiver.recv(), float)
    with pytest.raises(tutti.PeerLost):  # whoever comes now does not wait for that rank
        tutti.init_rank(2, 1, id, timeout_ms=5000 * LATE_S).barrier()
    process.kill()
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

# SPDX-License-Identifier: BSD-3-Clause
"""A child of fork() cannot use what its parent made, is told so, and harms nobody by cleaning up."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
from ranks import HANG_S, processes

import tutti


def in_child(function):
    """The exit code of a child of fork() that runs this; it never gets back to the test."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            import faulthandler

            faulthandler.dump_traceback_later(HANG_S, exit=True)
            code = function()
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def refused(call):
    try:
        call()
    except tutti.InvalidUsage as error:
        return "fork" in str(error)
    return False


def with_a_child(comm):
    memory = tutti.empty(1000)
    memory[:] = comm.rank + 1
    stream = tutti.Stream()
    comm.all_reduce(memory, out=memory, stream=stream)
    point = stream.record()
    point.wait()
    op = comm.op_create(np.add)
    with tutti.group_keep() as step:
        comm.all_reduce(memory, out=memory)
    kept = {"comm": comm, "stream": stream, "step": step, "op": op, "memory": memory}

    def child():
        c = kept["comm"]
        calls = [
            c.barrier,
            lambda: c.all_reduce(np.zeros(3)),
            lambda: c.all_reduce(np.zeros(3), op=op),
            lambda: c.split(0),
            lambda: c.op_create(np.add),
            lambda: c.rank,
            lambda: c.size,
            c.finalize,
            c.abort,
            c.close,
            stream.record,
            stream.wait,
            stream.close,
            point.query,
            point.wait,
            step.start,
            lambda: c.all_reduce(np.zeros(3), stream=stream),
        ]
        for number, call in enumerate(calls):
            if not refused(call):
                print(f"call {number} of a forked child was not refused", file=sys.stderr)
                return number + 1
        calls.clear()
        kept.clear()
        gc.collect()
        (own,) = tutti.init_all(1)  # it may make its own
        return 0 if own.all_reduce(np.ones(2)).tolist() == [1, 1] else 98

    assert in_child(child) == 0
    # The parent, and the other ranks, go on; so does the memory.
    step.start()
    assert (memory == 3 * comm.size).all() and comm.size == 2
    step.close()
    stream.close()
    comm.finalize()
    return "well"


def test_a_child_is_refused_and_harms_nobody():
    assert processes(2, with_a_child) == ["well"] * 2


def drop_memory_in_a_child(comm):
    kept = [tutti.empty(100000)]
    kept[0][:] = 7

    def child():
        kept.clear()
        gc.collect()
        return 0

    assert in_child(child) == 0
    found = comm.all_gather(kept[0])  # which the peer reads in place
    return bool((kept[0] == 7).all() and (found == 7).all())


def test_a_child_does_not_free_memory():
    assert processes(2, drop_memory_in_a_child) == [True, True]


def fork_while_a_thread_is_busy(comm):
    """Locks of threads that the child has not stay taken in it."""
    stream, taken = tutti.Stream(), threading.Event()
    point = stream.record()

    def take():
        with stream._lock:
            taken.set()
            threading.Event().wait()

    threading.Thread(target=take, daemon=True).start()
    taken.wait()
    return in_child(lambda: 0 if refused(point.query) and refused(point.wait) else 1)


def test_a_child_is_told_though_a_thread_was_busy():
    assert processes(1, fork_while_a_thread_is_busy) == [0]


END = """
import os, sys, threading, numpy, tutti
comms = tutti.init_all(2)
memory, stream = tutti.empty(1000), tutti.Stream()
memory[:] = 1
comms[0].barrier(stream=stream)
pid = os.fork()
if pid > 0:
    assert os.waitpid(pid, 0)[1] == 0
    comms[1].barrier()
    stream.wait()
    with tutti.group():
        for comm in comms:
            comm.all_reduce(memory, numpy.empty(1000))
    print("well", memory[0], int(comms[0].state))
"""


def test_a_child_ends_as_python_ends():
    """With all that it has inherited alive, and a call on its way in a stream."""
    done = subprocess.run([sys.executable, "-c", END], capture_output=True, text=True, timeout=HANG_S)
    assert done.stdout == "well 1.0 0\n" and "Traceback" not in done.stderr and "ignored" not in done.stderr

# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that disagree, die or do not come: an exception that says which rank, which peer, which operation."""

import os
import pickle
import signal
import time

import numpy as np
import pytest
from ranks import Processes, processes, threads

import tutti


def disagree(comm):
    try:
        comm.barrier()  # which may be told of it, too, where this rank has not yet left it
        comm.all_reduce(np.zeros(4 if comm.rank == 1 else 3))
    except tutti.Error as error:
        return error, comm.error, comm.state


def test_mismatch():
    results = processes(3, disagree)
    found, _, state = results[0]
    assert isinstance(found, tutti.Mismatch) and found.status == state == tutti.Status.MISMATCH
    assert found.operation == "all_reduce" and found.sequence == 1 and found.is_sticky
    assert 1 in (found.rank, found.peer)
    assert "of 4 float64" in str(found) and "of 3 float64" in str(found)
    for error, known, _ in results:  # the same first cause on every rank, and it has pickled
        assert str(error) == str(found) == str(known)
        assert (error.rank, error.peer, error.sequence) == (found.rank, found.peer, found.sequence)


def wait_for_a_peer(comm):
    comm.barrier()
    comm.tell(os.getpid())
    if comm.rank == 2:
        signal.pause()
    try:
        comm.all_reduce(np.zeros(3))
    except tutti.PeerLost as error:
        return error


def test_peer_lost():
    with Processes(3, wait_for_a_peer) as job:
        pids = [job.hear(rank) for rank in range(3)]
        os.kill(pids[2], signal.SIGKILL)
        for rank in range(2):
            error = job.hear(rank)
            assert isinstance(error, tutti.PeerLost) and error.status == tutti.Status.PEER_LOST
            assert (error.peer, error.operation, error.sequence) == (2, "all_reduce", 1)
            assert error.rank in (0, 1) and "rank 2" in str(error)


def go_on_without_the_dead(comm):
    comm.barrier()
    comm.tell(os.getpid())
    if comm.rank == 0:
        signal.pause()
    try:
        comm.all_reduce(np.zeros(3))
    except tutti.PeerLost:
        rest = comm.shrink([0], abort=True, name="rest")
    old = comm.rank
    comm.close()
    return rest.rank, rest.size, rest.all_reduce(np.array([old + 1.0])).item()


def test_survivors_go_on():
    with Processes(3, go_on_without_the_dead) as job:
        pids = [job.hear(rank) for rank in range(3)]
        os.kill(pids[0], signal.SIGKILL)
        assert [job.hear(rank) for rank in (1, 2)] == [(0, 2, 5.0), (1, 2, 5.0)]


def wrong_dtype(comm):
    comm.all_reduce(np.zeros(3), np.zeros(3, "f4"))


def wrong_send(comm):
    comm.send(np.zeros((3, 3)).T, peer=0)


def wrong_in_a_group(comm):
    with tutti.group():
        comm.all_reduce(np.zeros(3))
        comm.all_reduce([1.0])


@pytest.mark.parametrize(
    "wrong, reason",
    [
        (wrong_dtype, "out is of float32"),
        (wrong_send, "not C-contiguous"),
        (wrong_in_a_group, "send is of type list"),
    ],
)
def test_the_peers_hear_of_what_this_package_refuses(wrong, reason):
    def run(comm):
        try:
            if comm.rank == 0:
                comm.recv(np.zeros(3), 1) if wrong is wrong_send else comm.all_reduce(np.zeros(3))
            wrong(comm)
        except tutti.InvalidArgument:  # rank 1, which leaves it at that
            while comm.state == tutti.Status.OK:
                time.sleep(0.01)
        except tutti.InvalidUsage as error:
            return error
        return comm.error

    for error in threads(2, run, options="refusal=100"):
        assert isinstance(error, tutti.InvalidUsage) and error.is_sticky
        assert error.peer == 1 and "rank 1 refused" in str(error) and reason in str(error)


def test_timeout():
    def run(comm):
        if comm.rank == 0:  # rank 1 makes no call
            with pytest.raises(tutti.Timeout) as caught:
                comm.all_reduce(np.zeros(3))
            assert (caught.value.rank, caught.value.operation) == (0, "all_reduce")
            assert "rank 1" in str(caught.value)

    threads(2, run, timeout_ms=300)


def test_a_rank_that_leaves_by_an_exception_ends_the_others():
    def run(comm):
        try:
            with comm:
                if comm.rank == 1:
                    raise ZeroDivisionError
                comm.barrier()
        except (ZeroDivisionError, tutti.Aborted) as error:
            return type(error)

    assert threads(2, run) == [tutti.Aborted, ZeroDivisionError]


def test_every_error_pickles():
    for each in tutti.Error.__subclasses__():
        error = each("it failed", 1, 2, "all_reduce", 3)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is each and again.status == each.status and str(again) == "it failed"
        assert (again.rank, again.peer, again.operation, again.sequence) == (1, 2, "all_reduce", 3)
    assert len({each.status for each in tutti.Error.__subclasses__()}) == 11 == len(tutti.Status) - 2

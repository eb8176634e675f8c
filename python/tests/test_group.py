# SPDX-License-Identifier: BSD-3-Clause
"""Groups and programs."""

import gc
import weakref

import numpy as np
import pytest
from ranks import threads

import tutti


def test_one_thread_has_all_ranks():
    comms = tutti.init_all(3)
    x = [np.full(4, rank) for rank in range(3)]
    with tutti.group():
        for comm, each in zip(comms, x):
            comm.all_reduce(each, out=each)
        with tutti.group():
            found = [comm.all_gather(np.array([comm.rank])) for comm in comms]
    assert [each.tolist() for each in x] == [[3] * 4] * 3
    assert [each.tolist() for each in found] == [[0, 1, 2]] * 3


def test_a_rank_sends_to_itself():
    (comm,) = tutti.init_all(1)
    with tutti.group():
        comm.send(np.arange(3), 0)
        y = comm.recv(np.zeros(3, int), 0)
    assert y.tolist() == [0, 1, 2]


def test_an_exception_in_a_group_starts_nothing():
    def run(comm):
        x = np.ones(3)
        with pytest.raises(tutti.InvalidArgument, match="not C-contiguous"):
            with tutti.group():
                comm.all_reduce(x, out=x)
                comm.all_reduce(np.ones(6)[::2])
        with pytest.raises(KeyError):
            with tutti.group():
                comm.all_reduce(x, out=x)
                with tutti.group():
                    {}["nothing"]
        with pytest.raises(tutti.InvalidUsage, match="an exception left an inner group"):
            with tutti.group():
                comm.all_reduce(x, out=x)
                try:
                    with tutti.group():
                        {}["nothing"]
                except KeyError:
                    pass
        with pytest.raises(tutti.InvalidArgument, match="peer is 9"):
            with tutti.group():
                comm.all_reduce(x, out=x)
                comm.send(x, 9)
        assert x.tolist() == [1, 1, 1]
        assert comm.all_reduce(x).tolist() == [2, 2, 2]

    threads(2, run)


def test_arrays_of_a_group_live_until_its_end():
    def run(comm):
        with tutti.group():
            out = comm.all_reduce(np.full(50000, comm.rank + 1.0))
            gc.collect()
            comm.all_reduce(np.full(50000, 7.0))
        assert (out == 3).all()

    threads(2, run)


def test_a_mismatch_in_a_group():
    def run(comm):
        with pytest.raises(tutti.Mismatch) as caught:
            with tutti.group():
                comm.barrier()
                comm.all_reduce(np.zeros(3 + comm.rank))
        assert caught.value.operation == "all_reduce" and caught.value.rank is not None

    threads(2, run)


def test_streams_in_a_group():
    def run(comm):
        with tutti.Stream() as one, tutti.Stream() as two:
            x, y = np.ones(1000), np.ones(1000)
            with tutti.group():
                comm.all_reduce(x, out=x, stream=one)
                comm.all_reduce(y, out=y, stream=two)
            assert one.wait() and two.wait()
            assert x[0] == y[-1] == 2

    threads(2, run)


def test_program():
    def run(comm):
        x = np.ones(5)
        with tutti.group_keep() as step:
            comm.all_reduce(x, out=x)
            y = comm.all_gather(x[:1])
        assert x[0] == 1  # nothing has run
        for _ in range(10):
            step.start()
        assert x.tolist() == [1024] * 5 and y.tolist() == [1024] * 2
        alive = weakref.ref(x)
        del x
        gc.collect()
        step.start()
        assert alive()[0] == 2048
        step.close()
        step.close()
        with pytest.raises(tutti.InvalidUsage, match="this program is over"):
            step.start()
        del step
        gc.collect()
        assert alive() is None

    threads(2, run)


def test_program_on_a_stream():
    def run(comm):
        with tutti.Stream() as stream:
            x = np.ones(5)
            with tutti.group_keep() as step:
                comm.all_reduce(x, out=x, stream=stream)
            for _ in range(5):
                step.start()
            del step  # its last start may still run
            gc.collect()
            stream.wait()
            assert x.tolist() == [32] * 5

    threads(2, run)


def test_program_that_outlives_its_communicator():
    (comm,) = tutti.init_all(1)
    with tutti.group_keep() as step:
        comm.barrier()
    comm.close()
    with pytest.raises(tutti.InvalidUsage):
        step.start()
    step.close()


def test_no_program():
    (comm,) = tutti.init_all(1)
    with pytest.raises(ZeroDivisionError):
        with tutti.group_keep() as step:
            comm.barrier()
            1 / 0
    with pytest.raises(tutti.InvalidUsage, match="this program is over"):
        step.start()
    with tutti.group():
        with pytest.raises(tutti.InvalidUsage, match="inside a group"):
            with tutti.group_keep():
                pass
    with pytest.raises(tutti.InvalidUsage, match="inside a group"):
        with tutti.group():
            tutti.init_rank(1, 0, tutti.get_id())
    for call in (lambda: comm.split(0), lambda: comm.shrink([]), lambda: comm.grow(2), comm.finalize):
        with pytest.raises(tutti.InvalidUsage, match="inside a group"):
            with tutti.group():
                call()
    comm.barrier()

# SPDX-License-Identifier: BSD-3-Clause
"""Operators of the caller's own, in Python."""

import gc
import time

import numpy as np
import pytest
from ranks import threads

import tutti


@pytest.mark.parametrize("count", [1, 100, 100000])
def test_function_of_numpy(count):
    def run(comm):
        op = comm.op_create(np.logaddexp, commutes=True)
        x = np.linspace(0, 1, count) + comm.rank
        expected = np.logaddexp.reduce([np.linspace(0, 1, count) + rank for rank in range(3)])
        np.testing.assert_allclose(comm.all_reduce(x, op=op), expected)
        with tutti.Stream() as stream:  # on a thread that is not Python's
            found = comm.all_reduce(x, op=op, stream=stream)
        np.testing.assert_allclose(found, expected)
        found = comm.reduce(x, op=op, root=1)
        assert found is None if comm.rank != 1 else np.allclose(found, expected)
        op.close()
        with pytest.raises(tutti.InvalidUsage, match="this operator is over"):
            comm.all_reduce(x, op=op)
        comm.barrier()

    threads(3, run)


def test_matrices_keep_the_order_of_ranks():
    matrix = np.dtype(("f8", (2, 2)))
    element = np.dtype([("m", matrix)])

    def times(left, right):
        out = np.empty(len(left), element)
        out["m"] = left["m"] @ right["m"]
        return out

    def of(rank):
        x = np.empty(50, element)
        x["m"] = np.arange(4).reshape(2, 2) % (rank + 2) + 1
        return x

    def run(comm):
        op = comm.op_create(times, element)
        found = comm.all_reduce(of(comm.rank), op=op)
        expected = times(times(of(0), of(1)), of(2))
        assert found["m"].tolist() == expected["m"].tolist()

    threads(3, run)


@pytest.mark.parametrize(
    "dtype", [np.int16, np.bool_, [("a", "u1"), ("b", "i2")], "f4", complex, np.complex64]
)
def test_elements_of_any_size(dtype):
    def run(comm):
        op = comm.op_create(lambda left, right: left, dtype)
        x = np.frombuffer(bytes([comm.rank + 1] * 48), dtype)
        assert comm.all_reduce(x, op=op).tobytes() == bytes([1] * 48)

    threads(2, run)


def test_a_function_that_raises_ends_the_communicator():
    def fail(left, right):
        raise ZeroDivisionError

    def broken(comm):
        op = comm.op_create(fail if comm.rank == 0 else np.add)
        try:
            comm.all_reduce(np.ones(100), op=op)
            comm.barrier()
        except (ZeroDivisionError, tutti.Aborted) as error:
            return type(error)

    assert threads(2, broken) == [ZeroDivisionError, tutti.Aborted]


def test_a_wrong_result_is_a_failure():
    results = []

    def both(comm):
        op = comm.op_create(lambda left, right: np.ones(5))
        try:
            comm.all_reduce(np.ones(3), op=op)
            comm.barrier()
        except (ValueError, tutti.Aborted) as error:
            results.append(type(error))

    threads(2, both)
    assert len(results) == 2 and ValueError in results


def test_failure_on_a_stream():
    """It is raised by the wait, at whatever rank has combined."""

    def fail(left, right):
        raise ZeroDivisionError

    def run(comm):
        with tutti.Stream() as stream:
            for _ in range(2):
                comm.all_reduce(np.ones(3), op=comm.op_create(fail), stream=stream)
                time.sleep(0.1)  # by now it has raised somewhere, mostly
            try:
                stream.wait()
            except (ZeroDivisionError, tutti.Aborted) as error:
                return type(error)

    assert ZeroDivisionError in threads(2, run)


def test_operands_are_not_the_functions_to_write():
    def add(left, right):
        left += right
        return left

    def run(comm):
        try:
            comm.all_reduce(np.ones(3), op=comm.op_create(add))
            comm.barrier()
        except (ValueError, tutti.Aborted) as error:
            return type(error)

    assert ValueError in threads(2, run)


def test_an_operator_lives_as_long_as_its_calls():
    def run(comm):
        with tutti.Stream() as stream:
            found = [
                comm.all_reduce(np.ones(10), op=comm.op_create(lambda a, b: a + b), stream=stream)
                for _ in range(20)
            ]
            gc.collect()
        assert all((each == 2).all() for each in found)

    threads(2, run)


def test_pre_mul_sum():
    def run(comm):
        op = comm.op_create_pre_mul_sum(10**comm.rank, float)
        assert comm.all_reduce(np.full(5, 2.0), op=op).tolist() == [222] * 5
        with pytest.raises(
            tutti.InvalidArgument, match="op combines elements of float64, and send is of float32"
        ):
            comm.all_reduce(np.zeros(3, "f4"), op=op)
        comm.barrier()

    threads(3, run)


def test_an_operator_belongs_to_one_communicator():
    (one,), (two,) = tutti.init_all(1), tutti.init_all(1)
    with pytest.raises(tutti.InvalidArgument, match="another communicator"):
        two.all_reduce(np.ones(3), op=one.op_create(np.add))
    with pytest.raises(tutti.InvalidArgument, match="belongs to a communicator"):
        tutti.reduce_local([np.ones(3)], op=one.op_create(np.add))


def test_operators_that_are_dropped_are_given_back():
    def run(comm):
        for _ in range(5000):  # the library has room for 4096
            op = comm.op_create_pre_mul_sum(2, float)
        assert comm.all_reduce(np.ones(2), op=op).tolist() == [4, 4]

    threads(2, run)

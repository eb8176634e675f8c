# SPDX-License-Identifier: BSD-3-Clause
"""What is wrong with an argument is said before the library is called, and the communicator goes on."""

import numpy as np
import pytest
from ranks import threads

import tutti

X = np.arange(6.0)


def frozen(x):
    x = x.copy()
    x.flags.writeable = False
    return x


WRONG = {
    "list": (lambda c: c.all_reduce([1.0]), "send is of type list; legal: a numpy array"),
    "number": (lambda c: c.all_reduce(1.0), "send is of type float"),
    "None": (lambda c: c.all_reduce(None), "send is None"),
    "strided": (lambda c: c.all_reduce(X[::2]), r"send is not C-contiguous: .*ascontiguousarray\(send\)"),
    "transposed": (lambda c: c.all_gather(X.reshape(2, 3).T), "send is not C-contiguous"),
    "strided out": (
        lambda c: c.all_reduce(X[:3], X[::2]),
        r"out is not C-contiguous: .*ascontiguousarray\(out\)",
    ),
    "read-only out": (lambda c: c.all_reduce(X, frozen(X)), "out is read-only"),
    "read-only in place": (lambda c: c.all_reduce(frozen(X), out=bytes(48)), "out is read-only"),
    "read-only scalar": (lambda c: c.recv(np.float64(1), 0), "out is read-only"),
    "other dtype": (lambda c: c.all_reduce(X, np.zeros(6, "f4")), "out is of float32, and send of float64"),
    "other size": (lambda c: c.all_reduce(X, np.zeros(7)), "out has 7 elements, .*; legal: 6"),
    "small out": (lambda c: c.all_gather(X, np.zeros(6)), "out has 6 elements, .*; legal: 12"),
    "no type": (
        lambda c: c.all_reduce(np.zeros(2, bool)),
        "elements of bool cannot be combined; legal: int8, ",
    ),
    "complex": (lambda c: c.all_reduce(np.zeros(2, complex)), "elements of complex128 cannot be combined"),
    "swapped": (
        lambda c: c.all_reduce(np.zeros(2, ">f8")),
        r"bytes are swapped, so x.astype\('float64'\) is legal",
    ),
    "objects": (lambda c: c.broadcast(np.array([{}, None])), "hold Python objects"),
    "blocks": (lambda c: c.reduce_scatter(np.zeros(5)), "send has 5 elements, .*; legal: a multiple of 2"),
    "blocks of axis 0": (
        lambda c: c.reduce_scatter(np.zeros((3, 2))),
        "first axis .* cannot be cut into 2",
    ),
    "root": (lambda c: c.reduce(X, root=2), "root is 2; legal: 0 to 1"),
    "negative root": (lambda c: c.broadcast(X, root=-1), "root is -1"),
    "peer": (lambda c: c.send(X, 2), "peer is 2"),
    "own peer": (lambda c: c.send(X, c.rank), "outside a group"),
    "overlap": (lambda c: c.all_reduce(X[:4], X[2:]), "overlap"),
    "op": (lambda c: c.all_reduce(X, op=99), "op is 99"),
    "bits of floats": (lambda c: c.all_reduce(X, op=tutti.BIT_AND), "float64"),
    "too few counts": (lambda c: c.all_gather_v(X, [6]), "counts has 1 numbers; legal: 2"),
    "wrong count": (lambda c: c.all_gather_v(X, [5, 5]), r"send has 6 elements, but counts\[[01]\] is 5"),
    "negative count": (lambda c: c.all_gather_v(X, [6, -1]), r"counts\[1\] is -1"),
    "float count": (lambda c: c.all_gather_v(X, [6, 1.5]), "whole numbers"),
    "no counts": (lambda c: c.gather_v(X, root=c.rank), "counts is None"),
    "blocks beyond out": (
        lambda c: c.all_gather_v(X, [6, 6], np.zeros(11)),
        "end at element 12, but it has 11",
    ),
    "displs beyond out": (lambda c: c.all_gather_v(X, [6, 6], np.zeros(12), [0, 7]), "end at element 13"),
    "blocks beyond send": (lambda c: c.all_to_all_v(X, [4, 4], [4, 4]), "blocks of send end at element 8"),
    "displs without out": (lambda c: c.all_gather_v(X, [6, 6], displs=[0, 6]), "out= is needed"),
    "closed stream": (lambda c: c.all_reduce(X, stream=closed_stream()), "this stream is over"),
    "factor": (lambda c: c.op_create_pre_mul_sum("x", float), "factor is 'x'"),
    "function": (lambda c: c.op_create(7), "7 cannot be called"),
    "split": (lambda c: c.split(0, options="slise=64K"), "slice"),
}


def closed_stream():
    stream = tutti.Stream()
    stream.close()
    return stream


@pytest.mark.parametrize("case", WRONG)
def test_refused(case):
    call, words = WRONG[case]
    local = case not in ("split",)  # all ranks take part in that one

    def run(comm):
        if local and comm.rank == 1:
            comm.barrier()
        else:
            with pytest.raises(tutti.Error, match=words) as caught:
                call(comm)
            assert not caught.value.is_sticky and caught.value.peer is None
            if local:
                comm.barrier()
        assert comm.all_reduce(np.ones(3)).tolist() == [2, 2, 2]
        assert comm.state == tutti.Status.OK and comm.error is None

    threads(2, run)


def test_read_only_memory_is_sent():
    def run(comm):
        assert comm.all_reduce(frozen(X)).tolist() == (2 * X).tolist()
        y = frozen(X) if comm.rank == 0 else np.zeros(6)
        assert comm.broadcast(y).tolist() == X.tolist()

    threads(2, run)


def test_errors_are_what_python_expects():
    assert issubclass(tutti.InvalidArgument, ValueError)
    assert issubclass(tutti.InvalidUsage, RuntimeError)
    assert issubclass(tutti.OutOfMemory, MemoryError)
    (comm,) = tutti.init_all(1)
    with pytest.raises(tutti.InvalidArgument) as caught:
        comm.all_reduce(X[::2])
    assert (caught.value.operation, caught.value.status) == ("all_reduce", tutti.Status.INVALID_ARGUMENT)
    comm.finalize()
    with pytest.raises(tutti.InvalidUsage, match="finalized"):
        comm.barrier()
    comm.close()
    comm.close()
    with pytest.raises(tutti.InvalidUsage, match="this communicator is over"):
        comm.barrier()


@pytest.mark.parametrize("n", [0, -1, 1 << 20])
def test_wrong_number_of_ranks(n):
    with pytest.raises(tutti.InvalidArgument, match=f"n is {n}"):
        tutti.init_all(n)


def test_wrong_shapes():
    for shape, words in (((2, -1), "from 0 on"), ("x", "shape is 'x'"), ((1.5,), "a number of elements")):
        with pytest.raises(tutti.InvalidArgument, match=words):
            tutti.empty(shape)
    with pytest.raises(tutti.InvalidArgument, match="dtype"):
        tutti.empty(3, "nonsense")
    with pytest.raises(tutti.InvalidArgument, match="objects"):
        tutti.empty(3, object)


def test_question_that_is_none():
    with pytest.raises(tutti.InvalidArgument, match="whither"):
        tutti.query("whither")
    assert "slice" in tutti.query("config")

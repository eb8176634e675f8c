# SPDX-License-Identifier: BSD-3-Clause
"""Every collective against what numpy computes, on 1, 2 and 3 ranks."""

import numpy as np
import pytest
from ranks import processes, threads

import tutti

SIZES = [1, 2, 3]
COUNTS = [1, 7, 30000]
OPS = {tutti.SUM: np.add, tutti.PROD: np.multiply, tutti.MAX: np.maximum, tutti.MIN: np.minimum}


def data(rank, count, dtype=np.int64, n=1):
    """What a rank gives: (n * count, 2) small numbers, different on each rank."""
    x = np.arange(2 * n * count, dtype=np.int64).reshape(n * count, 2)
    return ((x * (rank + 3) + rank) % 7 + 1).astype(dtype)


def all_of(n, count, dtype=np.int64, blocks=1):
    return [data(rank, count, dtype, blocks) for rank in range(n)]


def reduced(n, count, op=np.add, blocks=1):
    return op.reduce(np.stack(all_of(n, count, blocks=blocks)), axis=0)


def same(found, expected):
    np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype


def every_call(comm, count):
    n, me = comm.size, comm.rank
    x, blocks = data(me, count), data(me, count, n=n)
    comm.barrier()
    for op, function in OPS.items():
        same(comm.all_reduce(x, op=op), reduced(n, count, function))
    same(comm.all_reduce(x.astype(float), op=tutti.AVG), reduced(n, count) / n)
    out = np.empty_like(x)
    assert comm.all_reduce(x, out) is out
    same(out, reduced(n, count))
    same(comm.all_reduce(out, out=out), n * reduced(n, count))
    for root in range(n):
        found = comm.reduce(x, root=root)
        same(found, reduced(n, count)) if me == root else None
        assert (found is None) == (me != root)
        y = data(root, count) if me == root else np.zeros_like(x)
        same(comm.broadcast(y, root=root), data(root, count))
        same(comm.broadcast(x if me == root else None, out, root), data(root, count))
        found = comm.gather(x, root=root)
        same(found, np.concatenate(all_of(n, count))) if me == root else None
        assert (found is None) == (me != root)
        found = comm.scatter(blocks if me == root else None, None if me == root else out, root)
        same(found, np.split(data(root, count, n=n), n)[me])
    same(comm.reduce_scatter(blocks), np.split(reduced(n, count, blocks=n), n)[me])
    same(comm.all_gather(x), np.concatenate(all_of(n, count)))
    sent = [np.split(each, n)[me] for each in all_of(n, count, blocks=n)]
    same(comm.all_to_all(blocks), np.concatenate(sent))
    next_, last = (me + 1) % n, (me - 1) % n
    with tutti.group():
        comm.send(x, next_)
        got = comm.recv(np.empty_like(x), last)
    same(got, data(last, count))
    return True


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("n", SIZES)
def test_threads(n, count):
    assert all(threads(n, every_call, count))


@pytest.mark.parametrize("n", SIZES)
def test_processes(n):
    assert all(processes(n, several_counts))


def several_counts(comm):
    return all(every_call(comm, count) for count in COUNTS)


def test_shapes():
    def run(comm):
        assert comm.all_gather(np.array(comm.rank)).tolist() == [0, 1]
        assert comm.all_gather(np.zeros((3, 4))).shape == (6, 4)
        assert comm.reduce_scatter(np.zeros((6, 4))).shape == (3, 4)
        assert comm.reduce_scatter(np.zeros((3, 4)), np.zeros(6)).shape == (6,)
        assert comm.all_reduce(np.float32(2)) == 4
        assert comm.all_reduce(np.zeros((0, 3))).shape == (0, 3)

    threads(2, run)


def v_forms(comm, count):
    n, me = comm.size, comm.rank
    counts = [count + rank for rank in range(n)]
    starts = np.cumsum([0] + counts)
    gap = 5
    displs = [int(start) + gap * (rank + 1) for rank, start in enumerate(starts[:-1])]
    mine = np.arange(counts[me]) + 1000 * me
    whole = np.concatenate([np.arange(each) + 1000 * rank for rank, each in enumerate(counts)])
    room = sum(counts) + gap * (n + 1)

    same(comm.all_gather_v(mine, counts), whole)
    out = comm.all_gather_v(mine, counts, np.full(room, -1), displs)
    expected = np.full(room, -1)
    for rank in range(n):
        expected[displs[rank] : displs[rank] + counts[rank]] = whole[starts[rank] : starts[rank + 1]]
    same(out, expected)
    spread = expected
    same(comm.reduce_scatter_v(whole, counts), n * whole[starts[me] : starts[me + 1]])
    for root in range(n):
        found = comm.gather_v(mine, counts if me == root else None, root=root)
        same(found, whole) if me == root else None
        assert (found is None) == (me != root)
        found = comm.gather_v(mine, counts, np.full(room, -1), root, displs)
        same(found, spread) if me == root else None
        for x, at in (whole, None), (spread, displs):
            if me == root:
                same(comm.scatter_v(x, counts, root=root, displs=at), mine)
            else:
                same(comm.scatter_v(out=np.empty(counts[me], int), root=root), mine)
    # Rank r sends s + 1 elements, r * 10 + s each, to rank s.
    x = np.concatenate([np.full(s + 1, me * 10 + s) for s in range(n)])
    found = comm.all_to_all_v(x, range(1, n + 1), [me + 1] * n)
    same(found, np.concatenate([np.full(me + 1, r * 10 + me) for r in range(n)]))
    behind = [(n - 1 - r) * (me + 1) for r in range(n)]
    found = comm.all_to_all_v(x, range(1, n + 1), [me + 1] * n, np.empty_like(found), recv_displs=behind)
    same(found, np.concatenate([np.full(me + 1, r * 10 + me) for r in reversed(range(n))]))


@pytest.mark.parametrize("count", [0, 1, 5000])
@pytest.mark.parametrize("n", SIZES)
def test_v_forms(n, count):
    threads(n, v_forms, count)


def test_blocks_of_elements_that_only_move():
    def run(comm):
        mine = np.full(comm.rank + 1, 10 + comm.rank + 1j)
        whole = np.array([10 + 1j, 11 + 1j, 11 + 1j])
        same(comm.all_gather_v(mine, [1, 2]), whole)
        out = comm.all_gather_v(mine, [1, 2], np.zeros(5, complex), [4, 1])
        same(out, np.array([0, 11 + 1j, 11 + 1j, 0, 10 + 1j]))

    threads(2, run)


def test_a_block_of_no_elements_is_nowhere():
    def run(comm):
        mine = np.arange(3.0)[: 3 * comm.rank]
        same(comm.all_gather_v(mine, [0, 3], np.zeros(3), [99, 0]), np.arange(3.0))

    threads(2, run)


@pytest.mark.parametrize("name", "int8 uint8 int32 uint32 int64 uint64 float16 float32 float64".split())
def test_types_of_numpy(name):
    def run(comm):
        for n_elements in (3, 5000):
            x = data(comm.rank, n_elements, name)
            found = comm.all_reduce(x)
            same(found, data(0, n_elements, name) + data(1, n_elements, name))
            same(comm.all_gather(x), np.concatenate(all_of(2, n_elements, name)))
        if np.dtype(name).kind in "iu":
            same(
                comm.all_reduce(x, op=tutti.BIT_XOR), data(0, n_elements, name) ^ data(1, n_elements, name)
            )
        else:
            with pytest.raises(tutti.Unsupported):
                comm.all_reduce(x, op=tutti.BIT_XOR)

    threads(2, run)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_types_of_ml_dtypes(name):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))

    def run(comm):
        x = (data(comm.rank, 9, np.float32) / 4).astype(dtype)
        ours = comm.all_reduce(x)
        exact = (data(0, 9, np.float32) + data(1, 9, np.float32)) / 4  # no type here rounds these
        same(ours, exact.astype(dtype))

    threads(2, run)


@pytest.mark.parametrize(
    "dtype", [bool, np.int16, complex, "M8[s]", "S3", [("a", "u1"), ("b", "f8")], ">f4"]
)
def test_any_type_is_moved(dtype):
    def run(comm):
        x = np.arange(1, 7, dtype="u8").view("u1")[: 3 * np.dtype(dtype).itemsize].view(dtype)
        assert comm.all_gather(x).tobytes() == 2 * x.tobytes()
        y = x.copy() if comm.rank == 0 else np.zeros_like(x)
        assert comm.broadcast(y).tobytes() == x.tobytes()

    threads(2, run)


def test_objects_with_the_buffer_protocol():
    import array
    import ctypes

    def run(comm):
        x = array.array("d", [1, 2])
        assert comm.all_reduce(x).tolist() == [2, 4]
        out = bytearray(8)
        comm.all_gather(bytes([comm.rank] * 4), out)
        assert out == bytes([0] * 4 + [1] * 4)
        y = (ctypes.c_int * 2)(3, 4)
        comm.all_reduce(y, y)
        assert list(y) == [6, 8]

    threads(2, run)


def test_reduce_local_has_the_bits_of_exact_ranks():
    parts = np.random.default_rng(7).standard_normal((3, 1000)).astype(np.float32)
    found = threads(3, lambda comm: comm.all_reduce(parts[comm.rank]), exact=True)
    local = tutti.reduce_local(list(parts))
    assert all(each.tobytes() == local.tobytes() for each in found)
    out = parts[0]
    assert tutti.reduce_local(parts, out, tutti.MAX) is out

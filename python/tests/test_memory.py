# SPDX-License-Identifier: BSD-3-Clause
"""tutti.empty: arrays in memory that peers read in place, which goes with the last view."""

import gc
import pathlib
import weakref

import numpy as np
import pytest
from ranks import processes

import tutti
from tutti import memory

MIB = 1 << 20


def mapped(x):
    """Is the memory of this address still this process's?"""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(each, 16) for each in line.split()[0].split("-"))
        if first <= x < last and "tutti" in line:
            return True
    return False


@pytest.mark.parametrize("shape", [(), 0, 5, (2, 3), (0, 4), np.int64(3), [2, 2]])
@pytest.mark.parametrize("dtype", ["f8", bool, "i2", [("a", "u1"), ("b", "f8")]])
def test_shape_and_dtype(shape, dtype):
    x, like = tutti.empty(shape, dtype), np.zeros(shape, dtype)
    assert x.shape == like.shape and x.dtype == like.dtype
    assert x.tobytes() == like.tobytes()
    assert x.flags.c_contiguous and x.flags.writeable and x.flags.aligned
    assert x.ctypes.data % 4096 == 0


def test_memory_goes_with_the_last_view(monkeypatch):
    freed = []
    real = memory._Memory.__del__

    def tell(self):
        freed.append(self.address)
        real(self)

    monkeypatch.setattr(memory._Memory, "__del__", tell)
    x = tutti.empty(MIB)
    address = x.ctypes.data
    view, bytes_ = x[5:10].reshape(5, 1), memoryview(x)
    view[:] = 7
    del x
    gc.collect()
    assert freed == [] and (view == 7).all()
    del view
    gc.collect()
    assert freed == [] and bytes_[5] == 7
    del bytes_
    gc.collect()
    assert freed == [address]


def test_many_arrays_one_after_the_other():
    """Memory that is not given back would be 64 GiB."""
    for _ in range(1024):
        tutti.empty(8 * MIB)[-1] = 1


def use_it(comm):
    x = tutti.empty(MIB)
    x[:] = comm.rank
    found = comm.all_reduce(x)
    comm.all_reduce(x, out=x)
    assert (found == 3).all() and (x == 3).all()
    kept = weakref.ref(x)
    with tutti.Stream() as stream:
        comm.all_gather(x, stream=stream)
        del x
        gc.collect()
        assert kept() is not None
    return comm.query("paths")


def test_peers_read_it():
    for paths in processes(3, use_it):
        assert "mapped" in paths

# SPDX-License-Identifier: BSD-3-Clause
"""Communicators: how they begin, how they end, and what becomes of those that are forgotten."""

import copy
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from ranks import HANG_S, processes, threads

import tutti


def run_python(code, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=HANG_S
    )


def test_an_id_pickles_and_hides_its_secret():
    id = tutti.get_id()
    again = pickle.loads(pickle.dumps(id))
    assert again == id and type(again) is tutti.Id and len(id) == 128
    assert tutti.Id.fromhex(id.hex()) == id
    assert id.hex()[:16] not in repr(id) + str(id) and "secret" in repr(id)
    with pytest.raises(tutti.InvalidArgument, match="128 bytes, not 3"):
        tutti.Id(b"abc")
    with pytest.raises(tutti.InvalidArgument):
        tutti.init_rank(1, 0, b"abc")


def test_handles_do_not_pickle():
    (comm,) = tutti.init_all(1)
    for each in (comm, tutti.Stream(), comm.op_create(np.add)):
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="belongs to its process"):
                use(each)


ENVIRONMENT = """
import numpy, tutti
with tutti.init_env(name="job") as comm:
    print(comm.rank, comm.size, comm.device, comm.all_reduce(numpy.array([comm.rank + 1])).tolist())
"""


def test_environment():
    id = tutti.get_id()
    variables = [
        dict(os.environ, TUTTI_ID=id.hex(), TUTTI_SIZE="3", TUTTI_RANK=str(rank)) for rank in range(3)
    ]
    ranks = [
        subprocess.Popen([sys.executable, "-c", ENVIRONMENT], env=each, stdout=subprocess.PIPE, text=True)
        for each in variables
    ]
    assert [rank.communicate(timeout=HANG_S)[0] for rank in ranks] == [
        f"{rank} 3 -1 [6]\n" for rank in range(3)
    ]


def test_half_an_environment():
    done = run_python("import tutti; tutti.init_env()", TUTTI_RANK="0", TUTTI_SIZE="2")
    assert done.returncode == 1 and "tutti.errors.InvalidUsage" in done.stderr and "TUTTI_ID" in done.stderr


def test_an_id_of_nobody():
    id = bytearray(tutti.get_id())
    id[-1] ^= 1
    with pytest.raises(tutti.Error) as caught:
        tutti.init_rank(2, 0, bytes(id), timeout_ms=2000)
    assert str(caught.value)


def test_whoever_does_not_come_is_named():
    with pytest.raises(tutti.Timeout, match="rank"):
        tutti.init_rank(3, 0, tutti.get_id(), timeout_ms=300)


def test_split():
    def run(comm):
        child = comm.split(comm.rank % 2, -comm.rank)
        none = comm.split(0 if comm.rank == 1 else -1)
        assert (none is None) == (comm.rank != 1)
        exact = comm.split(0, comm.rank, exact=True, name="exact", timeout_ms=500000)
        assert exact.size == 3
        heir, other = exact.split(0, name="heir"), exact.split(0, exact=False, options="slice=64K")
        assert "exact=on " in heir.query("config") and "exact=off " in other.query("config")
        assert "slice=64K " in other.query("config")
        return child.rank, child.size, child.all_reduce(np.array(comm.rank)).item()

    assert threads(3, run) == [(1, 2, 2), (0, 1, 1), (0, 2, 2)]


def test_more_ranks_and_fewer():
    met = threading.Barrier(3)
    ids = []

    def run(comm):
        old = comm.split(0 if comm.rank < 2 else -1)
        if comm.rank == 0:
            ids.append(old.get_id())
        met.wait()
        grown = old.grow(3) if old else tutti.init_rank(3, 2, ids[0])
        total = grown.all_reduce(np.array(comm.rank)).item()
        rest = grown.shrink([1]) if comm.rank != 1 else None
        assert rest is None or (rest.size, rest.rank) == (2, comm.rank // 2)
        return total

    assert threads(3, run) == [3, 3, 3]
    with pytest.raises(tutti.InvalidArgument, match="excluded"):
        tutti.init_all(1)[0].shrink([0])


def test_flush():
    def run(comm):
        with tutti.Stream() as stream:
            buffer = np.array([comm.rank + 1.0])
            comm.all_reduce(buffer, buffer, stream=stream)
            while not comm.flush(10):
                pass
            return buffer.item()

    assert threads(2, run) == [3.0, 3.0]


def test_settings():
    (comm,) = tutti.init_all(1, name="alone", options="slice=64K")
    assert "alone" in repr(comm.query("recorder")) or comm.query("recorder") == ""
    with pytest.raises(tutti.InvalidArgument, match="slice"):
        tutti.init_all(1, options="slise=64K")
    with pytest.raises(tutti.InvalidArgument, match="slice"):
        tutti.init_rank(1, 0, tutti.get_id(), options="slise=64K")


def finalize_in_with(comm):
    with comm:
        comm.barrier()
    with pytest.raises(tutti.InvalidUsage, match="over"):
        comm.barrier()
    assert "over" in repr(comm)
    return "well"


def test_with():
    assert processes(2, finalize_in_with) == ["well"] * 2


def test_with_waits_for_the_other_ranks():
    late = []

    def run(comm):
        with comm:
            if comm.rank == 1:
                time.sleep(0.2)
                late.append(1)
        return list(late)

    assert threads(2, run) == [[1], [1]]


def test_a_rank_that_forgets_its_communicator_is_missed():
    comms = tutti.init_all(2)
    comms.pop()
    with pytest.raises(tutti.PeerLost) as caught:
        comms[0].barrier()
    assert caught.value.peer == 1


FORGET = """
import gc, sys, threading, numpy, tutti
comms = tutti.init_all(2)
kept = tutti.empty(1000)
stream = tutti.Stream()
op = comms[0].op_create(numpy.add)
{}
"""


@pytest.mark.parametrize(
    "last",
    [
        "pass",
        "sys.exit(0)",
        "comms.append(comms); del comms; gc.collect()",  # a circle
        "comms[0].all_reduce(kept, stream=stream)",  # which waits for the other rank
        "comms[0].all_reduce(kept, op=op, stream=stream); del comms, stream",
        "threading.Thread(target=comms[0].barrier, daemon=True).start()",
        "tutti.group().__enter__(); comms[0].all_reduce(kept)",
    ],
)
def test_the_end_of_the_interpreter_waits_for_nobody(last):
    done = run_python(FORGET.format(last))
    assert (
        done.returncode == 0 and "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    )


def test_python_goes_on_while_a_rank_waits():
    comms = tutti.init_all(2)
    thread = threading.Thread(target=comms[0].barrier)
    thread.start()
    assert (
        sum(range(1000000)) == 499999500000
    )  # this needs the interpreter's lock, which the wait has given back
    comms[1].barrier()
    thread.join()


def test_no_library():
    for path, named in (("/nowhere/libtutti.so.0", "/nowhere/libtutti.so.0"), ("", "libtutti.so.0")):
        done = run_python("import tutti", TUTTI_LIBRARY=path, LD_LIBRARY_PATH="")
        if done.returncode == 0:
            pytest.skip("the package has a library of its own, or the loader finds one")
        assert f"ImportError: tutti cannot load {named}: {named}: cannot open" in done.stderr
        assert "set TUTTI_LIBRARY" in done.stderr


@pytest.mark.parametrize(
    "code, words",
    [
        ("int tutti_get_version(void) { return 99; }", "is of version 99; legal are 100 to 9999"),
        ("int other;", "undefined symbol: tutti_get_version"),
    ],
)
def test_a_library_that_is_another(tmp_path, code, words):
    other = tmp_path / "libother.so"
    if (
        subprocess.run(["cc", "-shared", "-o", other, "-x", "c", "-"], input=code, text=True).returncode
        != 0
    ):
        pytest.skip("no C compiler")
    done = run_python("import tutti", TUTTI_LIBRARY=str(other))
    if done.returncode == 0:
        pytest.skip("the package has a library of its own")
    assert "ImportError: tutti cannot load" in done.stderr and words in done.stderr


def test_version():
    import pathlib
    import re

    project = pathlib.Path(__file__).parents[1] / "pyproject.toml"
    assert re.search('^version = "(.*)"$', project.read_text(), re.M).group(1) == tutti.__version__


DEVICES = """
import tutti
print(tutti.device_count())
for device in (None, tutti.CURRENT, 1, -1):
    (comm,) = tutti.init_all(1, device=device)
    print(comm.device, comm.split(0, device=0).device)
    comm.close()
"""


def test_devices():
    stub = "tests/.libs/libtutti_stub.so"  # of the build folder, where tests run
    if not os.path.exists(stub):
        pytest.skip("there is no stub here")
    found = run_python(DEVICES, TUTTI_DEVICE_LIBRARY=stub, STUB_GPU="devices=2")
    assert found.stdout.split() == ["2", "-1", "0", "0", "0", "1", "0", "-1", "0"], found.stderr

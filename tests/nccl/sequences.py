# SPDX-License-Identifier: BSD-3-Clause
"""What Python programs do with libnccl.so.2 by ctypes: the sequences of vLLM's and of CuPy's communicators;
and what becomes of a job when a rank dies, or comes late.

usage: python3 sequences.py LIBRARY [killed | late]     four processes, host memory, the default stream"""

import ctypes
import multiprocessing
import os
import signal
import sys
import time

POINTER, INT, SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
FLOAT, SUM, N, COUNT = 7, 0, 4, 1024
REMOTE_ERROR, LATE_SECONDS = 6, 3


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


FUNCTIONS = {
    "ncclGetErrorString": (ctypes.c_char_p, [INT]),
    "ncclGetVersion": (INT, [ctypes.POINTER(INT)]),
    "ncclGetUniqueId": (INT, [ctypes.POINTER(UniqueId)]),
    "ncclCommInitRank": (INT, [ctypes.POINTER(POINTER), INT, UniqueId, INT]),
    "ncclAllReduce": (INT, [POINTER, POINTER, SIZE, INT, INT, POINTER, POINTER]),
    "ncclReduce": (INT, [POINTER, POINTER, SIZE, INT, INT, INT, POINTER, POINTER]),
    "ncclAllGather": (INT, [POINTER, POINTER, SIZE, INT, POINTER, POINTER]),
    "ncclReduceScatter": (INT, [POINTER, POINTER, SIZE, INT, INT, POINTER, POINTER]),
    "ncclSend": (INT, [POINTER, SIZE, INT, INT, POINTER, POINTER]),
    "ncclRecv": (INT, [POINTER, SIZE, INT, INT, POINTER, POINTER]),
    "ncclBroadcast": (INT, [POINTER, POINTER, SIZE, INT, INT, POINTER, POINTER]),
    "ncclBcast": (INT, [POINTER, SIZE, INT, INT, POINTER, POINTER]),
    "ncclCommDestroy": (INT, [POINTER]),
    "ncclCommAbort": (INT, [POINTER]),
    "ncclCommCount": (INT, [POINTER, ctypes.POINTER(INT)]),
    "ncclCommUserRank": (INT, [POINTER, ctypes.POINTER(INT)]),
    "ncclCommCuDevice": (INT, [POINTER, ctypes.POINTER(INT)]),
    "ncclCommGetAsyncError": (INT, [POINTER, ctypes.POINTER(INT)]),
    "ncclGroupStart": (INT, []),
    "ncclGroupEnd": (INT, []),
    "ncclCommWindowRegister": (INT, [POINTER, POINTER, SIZE, ctypes.POINTER(POINTER), INT]),
    "ncclCommWindowDeregister": (INT, [POINTER, POINTER]),
}


class Library:
    """Every function checked, as the wrappers of these programs do."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments

    def __getattr__(self, name: str):
        function = getattr(self.library, "nccl" + name)

        def checked(*arguments):
            result = function(*arguments)
            assert result == 0, (name, result, self.library.ncclGetErrorString(result))

        return checked


def vllm(nccl: Library, comm: POINTER, rank: int) -> None:
    a = (ctypes.c_float * COUNT)(*([rank + 1.0] * COUNT))
    b = (ctypes.c_float * (COUNT * N))()
    window = POINTER()
    nccl.AllReduce(a, b, 1, FLOAT, SUM, comm, None)  # it warms up
    nccl.AllReduce(a, b, COUNT, FLOAT, SUM, comm, None)
    assert b[COUNT - 1] == N * (N + 1) / 2
    nccl.AllGather(a, b, COUNT, FLOAT, comm, None)
    assert [b[COUNT * k] for k in range(N)] == [k + 1.0 for k in range(N)]
    nccl.ReduceScatter(b, a, COUNT, FLOAT, SUM, comm, None)
    assert a[0] == N * (rank + 1)
    nccl.Broadcast(a, a, COUNT, FLOAT, 0, comm, None)
    assert a[0] == N
    nccl.GroupStart()
    nccl.Send(a, 8, FLOAT, (rank + 1) % N, comm, None)
    nccl.Recv(b, 8, FLOAT, (rank - 1) % N, comm, None)
    nccl.GroupEnd()
    assert b[7] == N
    nccl.Reduce(a, b, COUNT, FLOAT, SUM, 0, comm, None)
    nccl.CommWindowRegister(comm, a, 4096, ctypes.byref(window), 1)
    nccl.CommWindowDeregister(comm, window)


def cupy(nccl: Library, comm: POINTER, rank: int) -> None:
    number = INT(-7)
    nccl.CommCount(comm, ctypes.byref(number))
    assert number.value == N
    nccl.CommUserRank(comm, ctypes.byref(number))
    assert number.value == rank
    nccl.CommCuDevice(comm, ctypes.byref(number))
    assert number.value == -1
    a = (ctypes.c_float * COUNT)(*([float(rank)] * COUNT))
    nccl.Bcast(a, COUNT, FLOAT, 2, comm, None)
    assert a[COUNT - 1] == 2
    nccl.CommGetAsyncError(comm, ctypes.byref(number))
    assert number.value == 0


def killed(nccl: Library, comm: POINTER, rank: int) -> None:
    """The last rank dies; the others are told, and destroy what they have."""
    a, number = (ctypes.c_float * COUNT)(), INT(-7)
    nccl.AllReduce(a, a, COUNT, FLOAT, SUM, comm, None)
    if rank == N - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    result = nccl.library.ncclAllReduce(a, a, COUNT, FLOAT, SUM, comm, None)
    assert result == REMOTE_ERROR, result
    nccl.CommGetAsyncError(comm, ctypes.byref(number))
    assert number.value == REMOTE_ERROR, number.value


def late(nccl: Library, comm: POINTER, rank: int) -> None:
    """A rank comes late to a call; with a deadline (TUTTI_TIMEOUT) the others give up before."""
    a = (ctypes.c_float * COUNT)()
    if rank == N - 1:
        time.sleep(LATE_SECONDS)
    result = nccl.library.ncclAllReduce(a, a, COUNT, FLOAT, SUM, comm, None)
    assert result == (REMOTE_ERROR if "TUTTI_TIMEOUT" in os.environ else 0), result


SEQUENCES = {"": (vllm, cupy), "killed": (killed,), "late": (late,)}


def run(path: str, rank: int, ids: list[bytes], what: str) -> None:
    nccl = Library(path)
    for unique_id, sequence in zip(ids, SEQUENCES[what]):
        comm = POINTER()
        nccl.CommInitRank(ctypes.byref(comm), N, UniqueId.from_buffer_copy(unique_id), rank)
        sequence(nccl, comm, rank)
        nccl.CommDestroy(comm)


def main() -> int:
    path, version, ids = sys.argv[1], INT(), []
    what = sys.argv[2] if len(sys.argv) > 2 else ""
    os.environ["TUTTI_DEVICE"] = "none"
    nccl = Library(path)
    nccl.GetVersion(ctypes.byref(version))
    assert version.value == 22809
    for _ in range(2):
        unique_id = UniqueId()
        nccl.GetUniqueId(ctypes.byref(unique_id))
        ids.append(bytes(unique_id))
    start = multiprocessing.get_context("spawn").Process
    processes = [start(target=run, args=(path, rank, ids, what)) for rank in range(N)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    codes = [process.exitcode for process in processes]
    print("sequences: exit codes", codes)
    right = [0] * (N - 1) + [-signal.SIGKILL if what == "killed" else 0]
    return 0 if codes == right else 1


if __name__ == "__main__":
    sys.exit(main())

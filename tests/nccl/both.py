# SPDX-License-Identifier: BSD-3-Clause
"""Both libraries in one process: an id and a communicator of one that come to the other are refused.

usage: python3 both.py TUTTIS NVIDIAS"""

import ctypes
import sys

from sequences import INT, POINTER, UniqueId

INVALID_ARGUMENT, INVALID_USAGE = 4, 5


def load(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    library.ncclGetLastError.restype = ctypes.c_char_p
    library.ncclGetLastError.argtypes = [POINTER]
    library.ncclCommInitRank.argtypes = [ctypes.POINTER(POINTER), INT, UniqueId, INT]
    library.ncclCommCount.argtypes = [POINTER, ctypes.POINTER(INT)]
    library.ncclCommDestroy.argtypes = [POINTER]
    return library


def main() -> int:
    mine, theirs = load(sys.argv[1]), load(sys.argv[2])
    unique_id, comm, number = UniqueId(), POINTER(), INT()
    if theirs.ncclGetUniqueId(ctypes.byref(unique_id)) == 0:
        result = mine.ncclCommInitRank(ctypes.byref(comm), 1, unique_id, 0)
        words = mine.ncclGetLastError(None)
        assert result == INVALID_USAGE and b"NVIDIA" in words and comm.value is None, (result, words)
    assert mine.ncclGetUniqueId(ctypes.byref(unique_id)) == 0
    assert mine.ncclCommInitRank(ctypes.byref(comm), 1, unique_id, 0) == 0
    assert theirs.ncclCommCount(comm, ctypes.byref(number)) == INVALID_ARGUMENT
    assert mine.ncclCommCount(comm, ctypes.byref(number)) == 0 and number.value == 1
    assert mine.ncclCommDestroy(comm) == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

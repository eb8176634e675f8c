# SPDX-License-Identifier: BSD-3-Clause
"""Finding the C library, and declaring what of tutti.h this package calls.

The copy beside this file comes first, for a wheel has its own; then what TUTTI_LIBRARY names; then the
loader's search. ctypes gives the interpreter free while a call of the library runs, so other threads of
Python go on."""

from __future__ import annotations

import ctypes
import os
from ctypes import CFUNCTYPE, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

NAME = "libtutti.so.0"
OLDEST, NEWEST = 100, 9999  # versions of the library that these declarations fit: 0.1.0 until 1.0.0


class tutti_stream(ctypes.Structure):
    """16 bytes, by value. tutti_no_stream() is inline in the header, so it is made here."""

    _fields_ = [("handle", c_void_p), ("kind", c_int32), ("device", c_int32)]


NO_STREAM = tutti_stream(None, 0, -1)

ON_WAIT = CFUNCTYPE(c_int)  # it has no use for its context, so it does not look at it
REDUCE_FN = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p)


class tutti_config(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint64),
        ("timeout_ms", c_int64),
        ("name", c_char_p),
        ("options", c_char_p),
        ("on_wait", ON_WAIT),
        ("on_wait_context", c_void_p),
        ("device", c_int64),
    ]


class tutti_error(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("status", c_int),
        ("rank", c_int32),
        ("peer", c_int32),
        ("sequence", c_uint64),
        ("operation", ctypes.c_char * 32),
        ("text", ctypes.c_char * 480),
    ]


COMM_NONBLOCKING, COMM_EXACT = 1, 2
SHRINK_ABORT = 1
MEM_HOST = 0  # of tutti_mem_kind

# Arguments by one letter each, so that the table below can be read beside the header.
_LETTERS = {
    "p": c_void_p,  # a buffer, an array, a communicator or a program
    "z": c_size_t,
    "i": c_int,
    "o": c_uint32,  # tutti_op
    "l": c_int64,
    "u": c_uint64,
    "s": c_char_p,
    "S": tutti_stream,
    "f": REDUCE_FN,
}

_FUNCTIONS = {
    # name: (result, arguments)
    "get_version": ("i", ""),
    "status_string": ("s", "i"),
    "get_last_error": ("s", "p"),
    "query": ("z", "pspz"),
    "get_id": ("i", "p"),
    "comm_init_rank": ("i", "iippp"),
    "comm_init_env": ("i", "pp"),
    "comm_init_all": ("i", "ippp"),
    "comm_split": ("i", "piipp"),
    "comm_shrink": ("i", "ppiupp"),
    "comm_get_id": ("i", "pp"),
    "comm_grow": ("i", "pipipp"),
    "comm_rank": ("i", "p"),
    "comm_size": ("i", "p"),
    "comm_device": ("i", "p"),
    "device_count": ("i", "p"),
    "comm_state": ("i", "p"),
    "comm_get_error": ("i", "pp"),
    "comm_flush": ("i", "pl"),
    "comm_finalize": ("i", "p"),
    "comm_abort": ("i", "p"),
    "comm_abort_local": ("i", "p"),
    "comm_refuse": ("i", "pis"),
    "comm_destroy": ("i", "p"),
    "mem_alloc": ("i", "zip"),
    "mem_free": ("i", "p"),
    "stream_create": ("i", "p"),
    "stream_destroy": ("i", "S"),
    "stream_record": ("i", "Sp"),
    "stream_query": ("i", "Su"),
    "stream_wait": ("i", "Sul"),
    "stream_after": ("i", "SSu"),
    "group_start": ("i", ""),
    "group_end": ("i", ""),
    "group_keep": ("i", "p"),
    "program_start": ("i", "p"),
    "program_destroy": ("i", "p"),
    "op_create": ("i", "pfpzip"),
    "op_create_pre_mul_sum": ("i", "ppiip"),
    "op_destroy": ("i", "po"),
    "barrier": ("i", "pS"),
    "all_reduce": ("i", "ppziopS"),
    "reduce": ("i", "ppzioipS"),
    "broadcast": ("i", "ppziipS"),
    "reduce_scatter": ("i", "ppziopS"),
    "all_gather": ("i", "ppzipS"),
    "all_gather_v": ("i", "pzpppipS"),
    "all_to_all": ("i", "ppzipS"),
    "gather": ("i", "ppziipS"),
    "scatter": ("i", "ppziipS"),
    "reduce_scatter_v": ("i", "pppiopS"),
    "all_to_all_v": ("i", "ppppppipS"),
    "gather_v": ("i", "pzpppiipS"),
    "scatter_v": ("i", "ppppziipS"),
    "send": ("i", "pziipS"),
    "recv": ("i", "pziipS"),
    "reduce_local": ("i", "pipzio"),
}


def _load() -> ctypes.CDLL:
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), NAME)
    path = beside if os.path.exists(beside) else os.environ.get("TUTTI_LIBRARY") or NAME
    try:
        found = ctypes.CDLL(path)
        version = int(found.tutti_get_version())
    except (OSError, AttributeError) as error:
        why = str(error)
    else:
        if OLDEST <= version <= NEWEST:
            return found
        why = f"{path} is of version {version}; legal are {OLDEST} to {NEWEST}"
    raise ImportError(
        f"tutti cannot load {path}: {why}. Install a wheel, which has its own library; or set TUTTI_LIBRARY "
        "to the path of one; or install it where the loader looks (LD_LIBRARY_PATH)",
        name="tutti",
    )


library = _load()
for _name, (_result, _arguments) in _FUNCTIONS.items():
    _function = getattr(library, "tutti_" + _name)
    _function.restype = _LETTERS[_result]
    _function.argtypes = [_LETTERS[letter] for letter in _arguments]

__all__ = [
    "COMM_EXACT",
    "COMM_NONBLOCKING",
    "SHRINK_ABORT",
    "MEM_HOST",
    "NO_STREAM",
    "ON_WAIT",
    "REDUCE_FN",
    "library",
    "tutti_config",
    "tutti_error",
    "tutti_stream",
]

# SPDX-License-Identifier: BSD-3-Clause
"""import tutti.nccl, before torch, cupy or jax: from then on NCCL is Tutti's libnccl.so.2 in this process.

The library is loaded for all others to see, so what loads NCCL later finds it loaded. One line on the
standard error says which library serves; TUTTI_NCCL_QUIET=1 keeps it away. Where another one came first
there is a warning, for it is too late then: `tutti-nccl COMMAND` comes before everything."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings

from ._library import library as _tutti

NAME = "libnccl.so.2"
_CLIENTS = ("torch", "cupy", "jaxlib")  # which load NCCL as they are imported


class _DlInfo(ctypes.Structure):
    _fields_ = [
        ("fname", ctypes.c_char_p),
        ("fbase", ctypes.c_void_p),
        ("sname", ctypes.c_char_p),
        ("saddr", ctypes.c_void_p),
    ]


def _file_of(function: ctypes._FuncPointer) -> str:
    """The file that a function of C was loaded from."""
    info = _DlInfo()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_DlInfo)]
    found = dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(info))
    return os.path.realpath(os.fsdecode(info.fname)) if found and info.fname else ""


def _look_for() -> str:
    """The library beside this file, as in a wheel; the one that TUTTI_NCCL_LIBRARY names; or where it is
    installed, or built, as seen from libtutti."""
    named = os.environ.get("TUTTI_NCCL_LIBRARY")
    folder = os.path.dirname(_file_of(_tutti.tutti_get_version))
    places = [
        os.path.join(os.path.dirname(os.path.abspath(__file__)), NAME),
        *([named] if named else []),
        os.path.join(folder, "tutti", "nccl", NAME),
        os.path.join(folder, NAME),
    ]
    for place in places:
        if os.path.exists(place):
            return os.path.realpath(place)
    raise ImportError(f"tutti.nccl: there is no {NAME} in {', '.join(places)}", name="tutti.nccl")


def _load() -> str:
    """Its path."""
    path = _look_for()
    too_late = [client for client in _CLIENTS if client in sys.modules]
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
    serves = _file_of(ctypes.CDLL(None).ncclGetVersion)
    if serves != path:
        warnings.warn(f"tutti.nccl: {serves} was loaded first and serves, not {path}", stacklevel=3)
    elif too_late:
        warnings.warn(
            f"tutti.nccl: {', '.join(too_late)} was imported first and has the NCCL that it found then; "
            "import tutti.nccl before, or run the program by tutti-nccl",
            stacklevel=3,
        )
    os.environ.setdefault("VLLM_NCCL_SO_PATH", path)
    if not too_late and os.environ.get("TUTTI_NCCL_QUIET", "") in ("", "0"):
        print(f"tutti.nccl: NCCL is {serves}", file=sys.stderr)
    return path


path = _load()

__all__ = ["path"]

# SPDX-License-Identifier: BSD-3-Clause
"""Tutti, collective communication between processes or threads, on numpy arrays.

import numpy, tutti

with tutti.init_env() as comm:  # rank and size from mpirun, srun, torchrun or TUTTI_ID
    print(comm.rank, comm.all_reduce(numpy.ones(3)))
"""

from . import _library
from .comm import CURRENT, Comm, Id, device_count, get_id, init_all, init_env, init_rank, query
from .errors import (
    Aborted,
    DeviceError,
    Error,
    InternalError,
    InvalidArgument,
    InvalidUsage,
    Mismatch,
    OutOfMemory,
    PeerLost,
    Status,
    SystemFailure,
    Timeout,
    Unsupported,
)
from .group import Program, group, group_keep
from .memory import empty
from .operators import AVG, BIT_AND, BIT_OR, BIT_XOR, MAX, MIN, PROD, SUM, Op, Operator, reduce_local
from .stream import Point, Stream

_version = _library.library.tutti_get_version()
__version__ = (
    f"{_version // 10000}.{_version // 100 % 100}.{_version % 100}"  #: of the library that is loaded
)

__all__ = [
    "AVG",
    "Aborted",
    "BIT_AND",
    "BIT_OR",
    "BIT_XOR",
    "CURRENT",
    "Comm",
    "DeviceError",
    "Error",
    "Id",
    "InternalError",
    "InvalidArgument",
    "InvalidUsage",
    "MAX",
    "MIN",
    "Mismatch",
    "Op",
    "Operator",
    "OutOfMemory",
    "PROD",
    "PeerLost",
    "Point",
    "Program",
    "SUM",
    "Status",
    "Stream",
    "SystemFailure",
    "Timeout",
    "Unsupported",
    "device_count",
    "empty",
    "get_id",
    "group",
    "group_keep",
    "init_all",
    "init_env",
    "init_rank",
    "query",
    "reduce_local",
]

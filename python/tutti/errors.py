# SPDX-License-Identifier: BSD-3-Clause
"""What can go wrong, as exceptions: one class for each status of the library.

The first four are this rank's own: nothing was done, and the communicator goes on. The others end it, with
the same cause on every rank."""

from __future__ import annotations

import ctypes
import enum
from typing import NoReturn

from ._library import library, tutti_error


class Status(enum.IntEnum):
    """tutti_status."""

    OK = 0
    IN_PROGRESS = 1
    INVALID_ARGUMENT = -1
    INVALID_USAGE = -2
    UNSUPPORTED = -3
    OUT_OF_MEMORY = -4
    SYSTEM_ERROR = -5
    DEVICE_ERROR = -6
    MISMATCH = -7
    PEER_LOST = -8
    TIMEOUT = -9
    ABORTED = -10
    INTERNAL_ERROR = -11


class Error(Exception):
    """A call that failed. str() is the library's text: what was wrong, and what would be legal."""

    status: Status = Status.INTERNAL_ERROR
    rank: int | None  #: the rank that found it
    peer: int | None  #: the rank that it concerns, such as one that died; None: no single one
    operation: str  #: the call in which it was found, such as "all_reduce"
    sequence: int | None  #: the number of that operation on the communicator; None: it has none

    def __init__(
        self,
        text: str,
        rank: int | None = None,
        peer: int | None = None,
        operation: str = "",
        sequence: int | None = None,
    ) -> None:
        super().__init__(text)
        self.rank, self.peer, self.operation, self.sequence = rank, peer, operation, sequence

    @property
    def is_sticky(self) -> bool:
        """The communicator is over, on all ranks: so is one where a rank refused its call (InvalidUsage)."""
        return self.status <= Status.SYSTEM_ERROR or self.sequence is not None


class InvalidArgument(Error, ValueError):
    status = Status.INVALID_ARGUMENT


class InvalidUsage(Error, RuntimeError):
    status = Status.INVALID_USAGE


class Unsupported(Error, NotImplementedError):
    status = Status.UNSUPPORTED


class OutOfMemory(Error, MemoryError):
    status = Status.OUT_OF_MEMORY


class SystemFailure(Error):
    """TUTTI_SYSTEM_ERROR; SystemError is a name of Python's own."""

    status = Status.SYSTEM_ERROR


class DeviceError(Error):
    status = Status.DEVICE_ERROR


class Mismatch(Error):
    """Ranks called different things."""

    status = Status.MISMATCH


class PeerLost(Error):
    """A rank died, or ended its communicator too early: `peer`."""

    status = Status.PEER_LOST


class Timeout(Error):
    status = Status.TIMEOUT


class Aborted(Error):
    status = Status.ABORTED


class InternalError(Error):
    status = Status.INTERNAL_ERROR


_CLASSES: dict[int, type[Error]] = {
    int(each.status): each
    for each in (
        InvalidArgument,
        InvalidUsage,
        Unsupported,
        OutOfMemory,
        SystemFailure,
        DeviceError,
        Mismatch,
        PeerLost,
        Timeout,
        Aborted,
        InternalError,
    )
}


def last_text() -> str:
    """What the library says of this thread's last failure."""
    return str(library.tutti_get_last_error(None).decode("utf-8", "replace"))


def sticky_error(handle: int) -> Error | None:
    """What ended a communicator; None: nothing did."""
    known = tutti_error(size=ctypes.sizeof(tutti_error))
    if library.tutti_comm_get_error(handle, ctypes.byref(known)) != Status.OK or known.status == Status.OK:
        return None
    return _CLASSES[known.status](
        known.text.decode("utf-8", "replace"),
        known.rank if known.rank >= 0 else None,
        known.peer if known.peer >= 0 else None,
        known.operation.decode("utf-8", "replace"),
        known.sequence,
    )


def failure(status: int, operation: str, handle: int | None = None, rank: int | None = None) -> Error:
    """The exception for what a call has returned. Ask at once: the text is this thread's last one."""
    text = last_text()
    known = sticky_error(handle) if handle is not None else None
    if known is not None and known.status == status:
        return known
    return _CLASSES.get(status, InternalError)(text or f"status {status}", rank, None, operation)


def refuse(operation: str, text: str, rank: int | None = None) -> NoReturn:
    """An argument that this package finds wrong, before the library is called."""
    raise InvalidArgument(f"{operation}: {text}", rank, None, operation)

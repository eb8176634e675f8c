# SPDX-License-Identifier: BSD-3-Clause
"""Groups, which start several calls together, and programs, which are groups that are started again and
again."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any, Iterable

from ._handle import Handle
from ._interrupt import raise_first, waiting
from ._library import NO_STREAM, library
from ._refusal import tell
from .errors import InvalidUsage, failure, sticky_error

if TYPE_CHECKING:
    from .comm import Comm
    from .stream import Stream


def settle(status: int, operation: str, comms: Iterable[Comm]) -> None:
    """After a call on several communicators: raise what went wrong, with all that one of them knows of it."""
    if waiting.raised and not status:
        for comm in comms:
            comm.abort()
    raise_first(waiting.raised)
    for comm in comms:
        comm._raise_own()
    if not status:
        return
    known = failure(status, operation)
    for comm in comms:
        sticky = sticky_error(comm._handle) if comm._handle is not None else None
        if sticky is not None and sticky.status == status:
            raise sticky
    raise known


class _Calls:
    """What the calls of a group need until they are over."""

    def __init__(self) -> None:
        self.comms: list[Comm] = []
        self.streams: list[Stream] = []
        self.held: list[Any] = []
        self.broken = False  # an inner group was left by an exception

    def add(self, comm: Comm, stream: Stream | None, held: Any) -> None:
        if comm not in self.comms:
            self.comms.append(comm)
        if stream is not None and stream not in self.streams:
            self.streams.append(stream)
        self.held.append(held)

    def hold(self, also: Any = None) -> None:
        for stream in self.streams:
            stream._hold(self.comms, (self.held, also))


class _Thread(threading.local):
    calls: _Calls | None = None  # of the outermost group that is open in this thread


open_group = _Thread()


def _start() -> _Calls:
    status = library.tutti_group_start()
    if status:
        raise failure(status, "group")
    return _Calls()


def _cancel(calls: _Calls, why: BaseException | None) -> None:
    """End the group without starting it: of a group in which a call was wrong nothing is started. The peers
    of its calls hear why."""
    library.tutti_barrier(None, NO_STREAM)
    library.tutti_group_end()
    open_group.calls = None
    for comm in calls.comms:
        tell(comm, f"its group was left by {why!r}" if why is not None else "its inner group was left")


class group:
    """Calls in this `with` are checked at once, and start together at its end, which returns when all are
    done. If an exception leaves it, none of them is started. Groups belong to a thread; an inner one is
    part of the outer."""

    _calls: _Calls | None = None  # None: an inner group

    def __enter__(self) -> group:
        calls = _start()
        if open_group.calls is None:
            open_group.calls = self._calls = calls
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None = None, _: object = None
    ) -> None:
        calls = self._calls
        if calls is None:
            status = library.tutti_group_end()
            assert open_group.calls is not None
            open_group.calls.broken |= kind is not None
            if status and kind is None:
                raise failure(status, "group")
            return
        if kind is not None or calls.broken:
            _cancel(calls, why)
            if kind is None:
                raise InvalidUsage(
                    "group: an exception left an inner group, so none of its calls was started"
                )
            return
        open_group.calls = None
        status = library.tutti_group_end()
        calls.hold()
        settle(status, "group", calls.comms)


class Program(Handle):
    """A group that was kept. Its arrays are those of its calls, and live as long as it does."""

    _what = "program"
    _calls: _Calls

    def start(self) -> None:
        """Run the group once more: returns when all is done, or at once if all its calls have a stream."""
        status = library.tutti_program_start(self._opened("program_start"))
        self._calls.hold(self)
        settle(status, "program_start", self._calls.comms)

    def close(self) -> None:
        """Wait until its last start is over; then the program is over."""
        if self._handle is None:
            return
        for stream in self._calls.streams:
            if stream._handle is not None:
                stream._idle()
        handle, self._handle = self._handle, None
        library.tutti_program_destroy(handle)

    def __enter__(self) -> Program:
        self._opened("program")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    def __del__(self) -> None:
        if self._handle is not None:  # a stream that may still run it would hold it
            library.tutti_program_destroy(self._handle)


class group_keep:
    """Calls in this `with` are not run, but kept: `with tutti.group_keep() as step: ...`, then
    step.start()."""

    def __enter__(self) -> Program:
        if open_group.calls is not None:
            raise InvalidUsage("group_keep: this thread is inside a group; legal: as the outermost one")
        self._program = Program()
        self._program._calls = open_group.calls = _start()
        return self._program

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None = None, _: object = None
    ) -> None:
        calls = self._program._calls
        if kind is not None or calls.broken:
            _cancel(calls, why)
            if kind is None:
                raise InvalidUsage("group_keep: an exception left an inner group, so nothing was kept")
            return
        open_group.calls = None
        handle = ctypes.c_void_p()
        status = library.tutti_group_keep(ctypes.byref(handle))
        settle(status, "group_keep", calls.comms)
        self._program._handle = handle.value

# SPDX-License-Identifier: BSD-3-Clause
"""Streams: calls that return at once and run later, in order, on a thread of the library's own.

Until such a call is over its arrays belong to the library, so the stream holds them.
"""

from __future__ import annotations

import collections
import ctypes
import threading
import weakref
from typing import TYPE_CHECKING, Any, Iterable

from ._handle import Handle
from ._library import library, tutti_stream
from .errors import Status, failure, refuse, sticky_error

if TYPE_CHECKING:
    from .comm import Comm

_SLICE_MS = 20  # Python runs its signal handlers between two slices of a wait


class Point:
    """All that was given to a stream until Stream.record()."""

    def __init__(self, stream: Stream, number: int) -> None:
        self.stream, self.number = stream, number

    def __repr__(self) -> str:
        return f"<tutti.Point {self.number} of {self.stream!r}>"

    def query(self) -> bool:
        """Is it over? Raises if something up to here failed."""
        status = library.tutti_stream_query(self.stream._opened("query"), self.number)
        return self.stream._tell(status, "query")

    def wait(self, timeout_ms: int = -1) -> bool:
        """Wait until it is over; -1: as long as it takes. False: timeout_ms have passed, and one may wait
        again. Raises if something up to here failed. Ctrl-C interrupts the wait, and what was queued goes
        on."""
        stream, left = self.stream._opened("wait"), timeout_ms
        if timeout_ms < -1:
            refuse(
                "wait", f"timeout_ms is {timeout_ms}; legal: milliseconds, or -1 for as long as it takes"
            )
        while True:
            now = _SLICE_MS if left < 0 else min(left, _SLICE_MS)
            status = library.tutti_stream_wait(stream, self.number, now)
            left -= now if left > 0 else 0
            if status != Status.IN_PROGRESS or left == 0:
                return self.stream._tell(status, "wait")


class Stream(Handle):
    """A queue of calls: give it to them as stream=. Use it in a `with`, which waits for what is queued."""

    _what = "stream"

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held: collections.deque[tuple[int, Any]] = (
            collections.deque()
        )  # (point, what lives until then)
        self._comms: weakref.WeakSet[Comm] = weakref.WeakSet()  # whose calls it has had
        made = tutti_stream()
        status = library.tutti_stream_create(ctypes.byref(made))
        if status:
            raise failure(status, "stream_create")
        self._handle = made

    def record(self) -> Point:
        """A point: all that this stream was given so far, but for calls of a group that is still open."""
        return Point(self, self._record())

    def after(self, point: Point) -> None:
        """What this stream is given from now on runs after a point of another one."""
        other = point.stream._opened("after")
        status = library.tutti_stream_after(self._opened("after"), other, point.number)
        if status:
            raise failure(status, "after")

    def wait(self, timeout_ms: int = -1) -> bool:
        """Wait for all that was queued so far, as Point.wait does."""
        return self.record().wait(timeout_ms)

    def close(self) -> None:
        """Wait for what is queued; then the stream is over. How that went only its points tell."""
        if self._handle is None:
            return
        self._idle()
        self._leave()

    def __enter__(self) -> Stream:
        self._opened("stream")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._leave()  # whom a call here waits for may never come

    def __del__(self) -> None:
        if self._handle is not None:
            self._leave()

    def _record(self) -> int:
        number = ctypes.c_uint64()
        status = library.tutti_stream_record(self._opened("record"), ctypes.byref(number))
        if status:
            raise failure(status, "record")
        return number.value

    def _idle(self) -> None:
        """Wait for what is queued, however that ends."""
        last = self._record()
        while library.tutti_stream_wait(self._handle, last, _SLICE_MS) == Status.IN_PROGRESS:
            pass

    def _hold(self, comms: Iterable[Comm], what: Any) -> None:
        """After a call on this stream: `what` must live until that is over."""
        with self._lock:
            self._comms.update(comms)
            self._release()
            self._held.append((self._record(), what))

    def _release(self) -> None:
        while (
            self._held and library.tutti_stream_query(self._handle, self._held[0][0]) != Status.IN_PROGRESS
        ):
            self._held.popleft()

    def _tell(self, status: int, operation: str) -> bool:
        """What a query or a wait has found; the communicator knows more of a failure than its text."""
        if status == Status.IN_PROGRESS:
            return False
        known = failure(status, operation) if status else None
        if known is not None and not known.is_sticky:
            raise known  # before the lock, which may be taken in a child of fork()
        with self._lock:
            comms = list(self._comms)
        for comm in comms:
            comm._raise_own()
            sticky = sticky_error(comm._handle) if known is not None and comm._handle is not None else None
            if sticky is not None and sticky.status == status:
                raise sticky
        if known is not None:
            raise known
        return True

    def _leave(self) -> None:
        """Destroy it, which waits for nothing if nothing is queued; else it is left until that is over."""
        handle, self._handle = self._handle, None
        _left.append((handle, self._held))
        reap()


# Streams that nobody has any more. Several threads may look through them, so each takes what it looks at.
_left: collections.deque[tuple[Any, collections.deque[tuple[int, Any]]]] = collections.deque()


def reap() -> None:
    """Destroy the streams that were left and have come to their end, as when their communicator was
    destroyed."""
    for _ in range(len(_left)):
        try:
            handle, held = _left.popleft()
        except IndexError:
            return
        if held and library.tutti_stream_query(handle, held[-1][0]) == Status.IN_PROGRESS:
            _left.append((handle, held))
        else:
            held.clear()
            library.tutti_stream_destroy(handle)

# SPDX-License-Identifier: BSD-3-Clause
"""Communicators: how they are made, of others too, and how they end."""

from __future__ import annotations

import ctypes
import time
from typing import Any, Callable, Iterable

from numpy.typing import DTypeLike

from . import operators
from ._buffers import Array
from ._interrupt import on_wait, raise_first, waiting
from ._library import COMM_EXACT, COMM_NONBLOCKING, SHRINK_ABORT, library, tutti_config
from .blocks import Blocks
from .errors import Error, InvalidArgument, InvalidUsage, Status, failure, refuse, sticky_error
from .group import open_group, settle
from .stream import reap


class Id(bytes):
    """Where ranks meet, and a secret that proves they may: 128 bytes, to be handed on by a channel that is
    private. It pickles. hex() is what the variable TUTTI_ID holds."""

    SIZE = 128

    def __new__(cls, value: bytes) -> Id:
        if len(value) != cls.SIZE:
            raise InvalidArgument(f"an id has {cls.SIZE} bytes, not {len(value)}", operation="Id")
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return "<tutti.Id, a secret>"

    __str__ = __repr__


def get_id() -> Id:
    """Make an id. This process answers at it until all ranks have come, so it must stay that long."""
    room = (ctypes.c_uint8 * Id.SIZE)()
    status = library.tutti_get_id(room)
    if status:
        raise failure(status, "get_id")
    return Id(bytes(room))


CURRENT = -2  #: as a device: the current one, and device 0 where the thread has chosen none


def device_count() -> int:
    """How many CUDA devices this process can use; 0 where there is no plugin, driver or device, which
    query("devices") tells. Starts CUDA, so that children that are forked later can use no device."""
    found = ctypes.c_int()
    status = library.tutti_device_count(ctypes.byref(found))
    if status:
        raise failure(status, "device_count")
    return found.value


def _config(
    flags: int, timeout_ms: int, name: str | None, options: str | None, device: int | None
) -> tutti_config:
    return tutti_config(
        size=ctypes.sizeof(tutti_config),
        flags=flags,
        timeout_ms=timeout_ms,
        name=None if name is None else name.encode(),
        options=None if options is None else options.encode(),
        on_wait=on_wait,
        device=0 if device is None else device + 1 if device >= 0 else device,
    )


def _config_of_child(
    name: str | None,
    timeout_ms: int | None,
    options: str | None,
    exact: bool | None,
    device: int | None,
) -> Any:
    """What is None a communicator has of the one that it is made of."""
    if exact is False:
        options = "exact=off" if options is None else f"exact=off;{options}"
    if (name, timeout_ms, options, exact, device) == (None,) * 5:
        return None
    return ctypes.byref(_config(COMM_EXACT if exact else 0, timeout_ms or 0, name, options, device))


class Comm(Blocks):
    """One rank's end of a communicator. In a `with`, it is finalized at the end, or aborted by an
    exception."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._raised = []
        self._unused: list[int] = []  # operators that nobody has any more
        self._rank, self._size = library.tutti_comm_rank(handle), library.tutti_comm_size(handle)

    def __repr__(self) -> str:
        return f"<tutti.Comm, rank {self._rank} of {self._size}{', over' if self._handle is None else ''}>"

    def _fact(self, found: int, operation: str) -> int:
        if found < 0:
            raise failure(Status.INVALID_USAGE, operation)
        return found

    @property
    def rank(self) -> int:
        return self._fact(library.tutti_comm_rank(self._opened("rank")), "rank")

    @property
    def size(self) -> int:
        return self._fact(library.tutti_comm_size(self._opened("size")), "size")

    @property
    def device(self) -> int:
        """The CUDA device; -1: memory of the host only."""
        return int(library.tutti_comm_device(self._opened("device")))

    @property
    def state(self) -> Status:
        """Status.OK, or what ended it, here or on another rank. Any thread may ask."""
        return Status(library.tutti_comm_state(self._opened("state")))

    @property
    def error(self) -> Error | None:
        """What ended it; None: nothing did. Any thread may ask."""
        return sticky_error(self._opened("error"))

    def query(self, what: str) -> str:
        """Ask the library about this communicator in words, as tutti.query does."""
        return query(what, self)

    def split(
        self,
        color: int,
        key: int = 0,
        *,
        name: str | None = None,
        timeout_ms: int | None = None,
        options: str | None = None,
        exact: bool | None = None,
        device: int | None = None,
    ) -> Comm | None:
        """Ranks of one colour form a communicator, in the order of (key, rank); colour -1: none, and None.
        What is not set here it has of this one."""
        _outside_groups("split")
        config = _config_of_child(name, timeout_ms, options, exact, device)
        child = ctypes.c_void_p()
        status = library.tutti_comm_split(self._opened("split"), color, key, config, ctypes.byref(child))
        if status or waiting.raised:
            settle(status, "split", (self,))
        return None if child.value is None else Comm(child.value)

    def shrink(
        self,
        excluded: Iterable[int],
        *,
        abort: bool = False,
        name: str | None = None,
        timeout_ms: int | None = None,
        options: str | None = None,
        exact: bool | None = None,
        device: int | None = None,
    ) -> Comm:
        """A communicator of the ranks that are not excluded; all of them call it, the others do not. With
        abort this one is over, or was already, as when an excluded rank has died; close it then."""
        _outside_groups("shrink")
        ranks = list(excluded)
        child = ctypes.c_void_p()
        status = library.tutti_comm_shrink(
            self._opened("shrink"),
            (ctypes.c_int * len(ranks))(*ranks),
            len(ranks),
            SHRINK_ABORT if abort else 0,
            _config_of_child(name, timeout_ms, options, exact, device),
            ctypes.byref(child),
        )
        if status or waiting.raised:
            settle(status, "shrink", (self,))
        return Comm(child.value or 0)

    def get_id(self) -> Id:
        """An id for new ranks, who join by tutti.init_rank, while the ranks of this one call grow."""
        room = (ctypes.c_uint8 * Id.SIZE)()
        status = library.tutti_comm_get_id(self._opened("get_id"), room)
        if status:
            raise failure(status, "get_id")
        return Id(bytes(room))

    def grow(
        self,
        n: int,
        *,
        name: str | None = None,
        timeout_ms: int | None = None,
        options: str | None = None,
        exact: bool | None = None,
        device: int | None = None,
    ) -> Comm:
        """A communicator of n ranks: those of this one, which keep their numbers, and new ones, which call
        tutti.init_rank with the id that a rank of this one got by get_id."""
        _outside_groups("grow")
        grown = ctypes.c_void_p()
        config = _config_of_child(name, timeout_ms, options, exact, device)
        status = library.tutti_comm_grow(self._opened("grow"), n, None, -1, config, ctypes.byref(grown))
        if status or waiting.raised:
            settle(status, "grow", (self,))
        return Comm(grown.value or 0)

    def op_create(
        self, function: Callable[[Array, Array], Any], dtype: DTypeLike = float, commutes: bool = False
    ) -> operators.Operator:
        """An operator from an associative function(left, right) of two arrays, which returns the array of
        what they make, element by element; any function of numpy's that does so will do. It sees arrays of
        this dtype, which may be a structure, and must neither keep them nor call tutti. Without commutes
        operands stay in rank order. If the function raises, the exception is raised at its rank and the
        communicator ends; the others may have got a wrong result of that call by then, and are told in the
        next."""
        return operators.create(self, function, dtype, commutes)

    def op_create_pre_mul_sum(self, factor: Any, dtype: DTypeLike) -> operators.Operator:
        """The sum of all ranks' arrays, each multiplied by its own rank's factor first."""
        return operators.create_pre_mul_sum(self, factor, dtype)

    def finalize(self) -> None:
        """Returns when all ranks have called it; then all that was issued is done, and only close is left."""
        _outside_groups("finalize")
        status = library.tutti_comm_finalize(self._opened("finalize"))
        if status or waiting.raised:
            settle(status, "finalize", (self,))

    def flush(self, timeout_ms: int = -1) -> bool:
        """True when this rank's calls on streams are over; False if timeout_ms have passed first."""
        status = library.tutti_comm_flush(self._opened("flush"), timeout_ms)
        if status == Status.IN_PROGRESS:
            return False
        if status or waiting.raised:
            settle(status, "flush", (self,))
        return True

    def abort(self, *, local: bool = False) -> None:
        """End the communicator on all ranks, now; wakes every wait. Any thread may do so. local: for this
        rank alone; peers go on until they need it, and get PeerLost then."""
        end = library.tutti_comm_abort_local if local else library.tutti_comm_abort
        status = end(self._opened("abort"))
        if status:
            raise failure(status, "abort")

    def close(self) -> None:
        """tutti_comm_destroy: waits for calls on CUDA streams; others that need this rank get PeerLost."""
        if self._handle is None:
            return
        status = library.tutti_comm_destroy(self._handle)
        if status == Status.INVALID_USAGE:  # inside a group, or made before a fork
            raise failure(status, "close")
        self._handle = None
        reap()

    def __enter__(self) -> Comm:
        self._opened("comm")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._handle is None:
            return
        try:
            if kind is None:
                self.finalize()
            else:
                library.tutti_comm_abort(self._handle)
        finally:
            self.close()

    def __del__(self, destroy: Any = library.tutti_comm_destroy, reap: Callable[[], None] = reap) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            destroy(handle)  # a child of fork() is refused this
            reap()

    def _raise_own(self) -> None:
        """What an operator in Python has raised: the result is wrong, so the communicator is over."""
        if self._raised:
            if self._handle is not None:
                library.tutti_comm_abort(self._handle)
            raise_first(self._raised)


def query(what: str, comm: Comm | None = None) -> str:
    """Ask in words, as `tutti-info` does: "config", "cpu", "transports", "why all_reduce 65536", ..."""
    handle = None if comm is None else comm._opened("query")
    length = library.tutti_query(handle, what.encode(), None, 0)
    if length == 0:
        raise failure(Status.INVALID_ARGUMENT, "query")
    text = ctypes.create_string_buffer(length + 1)
    library.tutti_query(handle, what.encode(), text, length + 1)
    return text.value.decode("utf-8", "replace")


def _outside_groups(operation: str) -> None:
    """In a group the library would put this off, and there would be nothing yet that could be returned."""
    if open_group.calls is not None:
        raise InvalidUsage(f"{operation}: inside a group; legal: outside", operation=operation)


def _join(operation: str, config: tutti_config, start: Callable[[Any, Any], int]) -> Comm:
    """The library joins on a thread of its own, for then Ctrl-C can end the wait for the others."""
    _outside_groups(operation)
    config.flags |= COMM_NONBLOCKING
    made = ctypes.c_void_p()
    status = start(ctypes.byref(config), ctypes.byref(made))
    if status:
        raise failure(status, operation)
    handle, pause = made.value, 0.0001
    assert handle is not None
    try:
        while library.tutti_comm_state(handle) == Status.IN_PROGRESS:
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        known = sticky_error(handle)
        if known is not None:
            raise known
        return Comm(handle)
    except BaseException:
        library.tutti_comm_destroy(handle)
        raise


def init_env(
    *,
    name: str | None = None,
    timeout_ms: int = 0,
    exact: bool = False,
    options: str | None = None,
    device: int | None = None,
) -> Comm:
    """Join with rank and size from the environment: TUTTI_RANK, TUTTI_SIZE and TUTTI_ID, or mpirun's,
    srun's or torchrun's. timeout_ms: how long nothing may move before a wait fails; 0: ten minutes, -1: for
    ever. device: a number of CUDA's, -1 for none, CURRENT; else as the setting `device` says."""
    config = _config(COMM_EXACT if exact else 0, timeout_ms, name, options, device)
    return _join("init_env", config, library.tutti_comm_init_env)


def init_rank(
    n: int,
    rank: int,
    id: bytes,
    *,
    name: str | None = None,
    timeout_ms: int = 0,
    exact: bool = False,
    options: str | None = None,
    device: int | None = None,
) -> Comm:
    """Join n ranks that have the same id: this one is `rank`."""
    config = _config(COMM_EXACT if exact else 0, timeout_ms, name, options, device)
    room = (ctypes.c_uint8 * Id.SIZE)(*Id(id))
    return _join(
        "init_rank", config, lambda c, made: int(library.tutti_comm_init_rank(n, rank, room, c, made))
    )


def init_all(
    n: int,
    *,
    name: str | None = None,
    timeout_ms: int = 0,
    exact: bool = False,
    options: str | None = None,
    device: int | None = None,
) -> list[Comm]:
    """All n ranks in this process: one for each of n threads, or for one thread that groups its calls."""
    if not 0 < n < 1 << 16:
        refuse("init_all", f"n is {n}; legal: the number of ranks, from 1 on")
    made = (ctypes.c_void_p * n)()
    config = _config(COMM_EXACT if exact else 0, timeout_ms, name, options, device)
    status = library.tutti_comm_init_all(n, None, ctypes.byref(config), made)
    if status:
        raise failure(status, "init_all")
    return [Comm(int(each)) for each in made if each is not None]

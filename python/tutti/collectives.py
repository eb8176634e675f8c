# SPDX-License-Identifier: BSD-3-Clause
"""The calls of a communicator whose blocks are of one length. Each checks its arrays, then calls the library.

Blocks lie one behind another along the first axis: with n ranks, all_gather makes an array of shape (3, 4)
one of shape (3 * n, 4), and reduce_scatter makes that (3, 4) again. `out` is the array of the result;
without it, a new one. A call returns `out`, or None at a rank that gets nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Union

import numpy

from ._buffers import Array, Buffer, check, check_like, movable, reducible
from ._handle import Handle
from ._interrupt import waiting
from ._library import NO_STREAM, library
from ._refusal import told
from .errors import refuse
from .group import open_group, settle
from .operators import SUM, Op, Operator

if TYPE_CHECKING:
    from .comm import Comm
    from .stream import Stream

AnyOp = Union[Op, Operator]


class Collectives(Handle):
    _what = "communicator"
    _rank: int
    _size: int
    _raised: list[BaseException]  # by operators in Python

    def _call(self: Any, operation: str, stream: Stream | None, held: Any, *arguments: Any) -> None:
        """Call tutti_<operation>(*arguments, comm, stream). What the call needs is held until it is over."""
        handle = self._opened(operation)
        where = NO_STREAM if stream is None else stream._opened(operation)
        status = getattr(library, "tutti_" + operation)(*arguments, handle, where)
        if status or (stream is None and (waiting.raised or self._raised)):
            settle(status, operation, (self,))  # of a queued call its point tells: until then all is held
        if open_group.calls is not None:
            open_group.calls.add(self, stream, held)
        elif stream is not None:
            stream._hold((self,), held)

    def _operands(self, operation: str, x: Array, op: AnyOp) -> tuple[int, int, int]:
        """The type in which x is combined, how many of it an element is, and tutti_op."""
        if isinstance(op, Operator):
            return op._fit(operation, self, x.dtype)
        return reducible(operation, x.dtype), 1, op

    def _share(self, operation: str, what: str, x: Array) -> int:
        if x.size % self._size != 0:
            refuse(
                operation,
                f"{what} has {x.size} elements, shape {x.shape}; legal: a multiple of {self._size}, the "
                "number of ranks",
            )
        return x.size // self._size

    def _check_root(self, operation: str, root: int) -> bool:
        if not 0 <= root < self._size:
            refuse(operation, f"root is {root}; legal: 0 to {self._size - 1}", self._rank)
        return root == self._rank

    def _part(self, operation: str, send: Array) -> tuple[int, ...]:
        """The shape of one of n blocks along the first axis."""
        if send.ndim == 0 or send.shape[0] % self._size != 0:
            refuse(
                operation,
                f"the first axis of send, of shape {send.shape}, cannot be cut into {self._size} equal "
                "blocks; legal: a multiple of that, or an out= of the right size",
            )
        return (send.shape[0] // self._size, *send.shape[1:])

    def _whole(self, send: Array) -> tuple[int, ...]:
        return (self._size * (send.shape[0] if send.ndim else 1), *send.shape[1:])

    @staticmethod
    def _out(operation: str, out: Buffer | None, shape: tuple[int, ...], dtype: numpy.dtype[Any]) -> Array:
        """The caller's array for the result, or a new one."""
        if out is None:
            return numpy.empty(shape, dtype)
        x = check(operation, "out", out, writable=True)
        check_like(operation, x, math.prod(shape), dtype)
        return x

    @told
    def barrier(self, *, stream: Stream | None = None) -> None:
        """Returns when all ranks have called it."""
        self._call("barrier", stream, None)

    @told
    def all_reduce(
        self, send: Buffer, out: Buffer | None = None, op: AnyOp = SUM, *, stream: Stream | None = None
    ) -> Array:
        """Combine the arrays of all ranks, element by element; every rank gets the result. In place:
        out=send."""
        x = check("all_reduce", "send", send)
        type_, unit, number = self._operands("all_reduce", x, op)
        y = self._out("all_reduce", out, x.shape, x.dtype)
        self._call(
            "all_reduce", stream, (x, y, op), x.ctypes.data, y.ctypes.data, x.size * unit, type_, number
        )
        return y

    @told
    def reduce(
        self,
        send: Buffer,
        out: Buffer | None = None,
        op: AnyOp = SUM,
        root: int = 0,
        *,
        stream: Stream | None = None,
    ) -> Array | None:
        """The same for `root` only; elsewhere out is not looked at. In place at root: out=send."""
        x = check("reduce", "send", send)
        type_, unit, number = self._operands("reduce", x, op)
        y = self._out("reduce", out, x.shape, x.dtype) if self._check_root("reduce", root) else None
        to = None if y is None else y.ctypes.data
        self._call("reduce", stream, (x, y, op), x.ctypes.data, to, x.size * unit, type_, number, root)
        return y

    @told
    def broadcast(
        self, send: Buffer | None, out: Buffer | None = None, root: int = 0, *, stream: Stream | None = None
    ) -> Array:
        """Every rank gets root's array. With one array, it is read at root and written elsewhere. With
        `out`, send is read at root only, and may be None elsewhere."""
        is_root = self._check_root("broadcast", root)
        if out is None:
            x = y = check("broadcast", "send", send, writable=not is_root)
        else:
            y = check("broadcast", "out", out, writable=True)
            x = check("broadcast", "send", send) if is_root else y
            check_like("broadcast", y, x.size, x.dtype)
        type_, unit = movable("broadcast", y.dtype)
        self._call("broadcast", stream, (x, y), x.ctypes.data, y.ctypes.data, y.size * unit, type_, root)
        return y

    @told
    def reduce_scatter(
        self, send: Buffer, out: Buffer | None = None, op: AnyOp = SUM, *, stream: Stream | None = None
    ) -> Array:
        """Combine as all_reduce does; rank r gets block r of n. In place: out is block `rank` of send."""
        x = check("reduce_scatter", "send", send)
        type_, unit, number = self._operands("reduce_scatter", x, op)
        share = self._share("reduce_scatter", "send", x)
        y = self._out(
            "reduce_scatter", out, self._part("reduce_scatter", x) if out is None else (share,), x.dtype
        )
        self._call(
            "reduce_scatter", stream, (x, y, op), x.ctypes.data, y.ctypes.data, share * unit, type_, number
        )
        return y

    @told
    def all_gather(self, send: Buffer, out: Buffer | None = None, *, stream: Stream | None = None) -> Array:
        """Every rank gets the arrays of all, in rank order. In place: send is block `rank` of out."""
        x = check("all_gather", "send", send)
        type_, unit = movable("all_gather", x.dtype)
        y = self._out("all_gather", out, self._whole(x), x.dtype)
        self._call("all_gather", stream, (x, y), x.ctypes.data, y.ctypes.data, x.size * unit, type_)
        return y

    @told
    def all_to_all(self, send: Buffer, out: Buffer | None = None, *, stream: Stream | None = None) -> Array:
        """Block r of send goes to rank r, block r of the result comes from rank r. In place: out=send."""
        x = check("all_to_all", "send", send)
        type_, unit = movable("all_to_all", x.dtype)
        share = self._share("all_to_all", "send", x)
        y = self._out("all_to_all", out, x.shape, x.dtype)
        self._call("all_to_all", stream, (x, y), x.ctypes.data, y.ctypes.data, share * unit, type_)
        return y

    @told
    def gather(
        self, send: Buffer, out: Buffer | None = None, root: int = 0, *, stream: Stream | None = None
    ) -> Array | None:
        """Root gets the arrays of all ranks, in rank order. In place at root: send is block `root` of out."""
        x = check("gather", "send", send)
        type_, unit = movable("gather", x.dtype)
        y = self._out("gather", out, self._whole(x), x.dtype) if self._check_root("gather", root) else None
        to = None if y is None else y.ctypes.data
        self._call("gather", stream, (x, y), x.ctypes.data, to, x.size * unit, type_, root)
        return y

    @told
    def scatter(
        self, send: Buffer | None, out: Buffer | None = None, root: int = 0, *, stream: Stream | None = None
    ) -> Array:
        """Rank r gets block r of root's array; send is read at root only, and may be None elsewhere, where
        out is needed: nobody else knows the shape. In place at root: out is block `root` of send."""
        x = None
        if self._check_root("scatter", root):
            x = check("scatter", "send", send)
            share = self._share("scatter", "send", x)
            y = self._out("scatter", out, self._part("scatter", x) if out is None else (share,), x.dtype)
        else:
            y = check("scatter", "out", out, writable=True)
        type_, unit = movable("scatter", y.dtype)
        start = None if x is None else x.ctypes.data
        self._call("scatter", stream, (x, y), start, y.ctypes.data, y.size * unit, type_, root)
        return y

    @told
    def send(self, send: Buffer, peer: int, *, stream: Stream | None = None) -> None:
        """One message to rank `peer`. It may return only when peer receives: a pair that exchanges must
        group."""
        x = check("send", "send", send)
        type_, unit = movable("send", x.dtype)
        self._call("send", stream, (x,), x.ctypes.data, x.size * unit, type_, peer)

    @told
    def recv(self, out: Buffer, peer: int, *, stream: Stream | None = None) -> Array:
        """One message from rank `peer`, which has as many elements of the same dtype."""
        y = check("recv", "out", out, writable=True)
        type_, unit = movable("recv", y.dtype)
        self._call("recv", stream, (y,), y.ctypes.data, y.size * unit, type_, peer)
        return y

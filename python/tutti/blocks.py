# SPDX-License-Identifier: BSD-3-Clause
"""The v-forms: blocks of different length. Counts are elements, one for each rank; displs (displacements) are
elements from the start of the array, and None means one behind another in rank order. New results are arrays
of one axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._buffers import Array, Buffer, Counts, c_array, check, check_blocks, check_like, movable, numbers
from ._refusal import told
from .collectives import AnyOp, Collectives
from .errors import refuse
from .operators import SUM

if TYPE_CHECKING:
    from .stream import Stream


class Blocks(Collectives):
    def _counts(self, operation: str, what: str, given: Counts | None, unit: int) -> list[int]:
        found = numbers(operation, what, given, self._size, unit)
        if found is None:
            refuse(operation, f"{what} is None; legal: {self._size} numbers of elements, one for each rank")
        return found

    def _blocks_out(
        self,
        operation: str,
        out: Buffer | None,
        like: Array,
        unit: int,
        counts: list[int],
        displs: list[int] | None,
    ) -> Array:
        """The array that all blocks go to."""
        if out is None and displs is not None:
            refuse(operation, "with displs an out= is needed: nobody else knows its size")
        y = (
            self._out(operation, out, (sum(counts) // unit,), like.dtype)
            if out is None
            else check(operation, "out", out, writable=True)
        )
        if y.dtype != like.dtype:
            check_like(operation, y, y.size, like.dtype)
        check_blocks(operation, "out", y.size, unit, counts, displs)
        return y

    @told
    def all_gather_v(
        self,
        send: Buffer,
        counts: Counts,
        out: Buffer | None = None,
        displs: Counts | None = None,
        *,
        stream: Stream | None = None,
    ) -> Array:
        """Rank r gives counts[r] elements; every rank gets them all. The counts are equal on all ranks."""
        x = check("all_gather_v", "send", send)
        type_, unit = movable("all_gather_v", x.dtype)
        c = self._counts("all_gather_v", "counts", counts, unit)
        p = numbers("all_gather_v", "displs", displs, self._size, unit)
        if x.size * unit != c[self._rank]:
            refuse(
                "all_gather_v",
                f"send has {x.size} elements, but counts[{self._rank}] is {c[self._rank] // unit}; "
                "legal: the same",
            )
        y = self._blocks_out("all_gather_v", out, x, unit, c, p)
        arrays = (c_array(c), c_array(p))
        self._call(
            "all_gather_v",
            stream,
            (x, y, arrays),
            x.ctypes.data,
            x.size * unit,
            y.ctypes.data,
            *arrays,
            type_,
        )
        return y

    @told
    def reduce_scatter_v(
        self,
        send: Buffer,
        counts: Counts,
        out: Buffer | None = None,
        op: AnyOp = SUM,
        *,
        stream: Stream | None = None,
    ) -> Array:
        """Combine as all_reduce does; rank r gets counts[r] elements, its block. Equal counts on all
        ranks."""
        x = check("reduce_scatter_v", "send", send)
        type_, unit, number = self._operands("reduce_scatter_v", x, op)
        c = self._counts("reduce_scatter_v", "counts", counts, unit)
        if x.size * unit != sum(c):
            refuse(
                "reduce_scatter_v",
                f"send has {x.size} elements, but the counts add up to {sum(c) // unit}; legal: the same",
            )
        y = self._out("reduce_scatter_v", out, (c[self._rank] // unit,), x.dtype)
        array = c_array(c)
        self._call(
            "reduce_scatter_v",
            stream,
            (x, y, op, array),
            x.ctypes.data,
            array,
            y.ctypes.data,
            type_,
            number,
        )
        return y

    @told
    def all_to_all_v(
        self,
        send: Buffer,
        send_counts: Counts,
        recv_counts: Counts,
        out: Buffer | None = None,
        send_displs: Counts | None = None,
        recv_displs: Counts | None = None,
        *,
        stream: Stream | None = None,
    ) -> Array:
        """send_counts[r] elements go to rank r, recv_counts[r] come from it. Not in place."""
        name = "all_to_all_v"
        x = check(name, "send", send)
        type_, unit = movable(name, x.dtype)
        sc, rc = self._counts(name, "send_counts", send_counts, unit), self._counts(
            name, "recv_counts", recv_counts, unit
        )
        sp = numbers(name, "send_displs", send_displs, self._size, unit)
        rp = numbers(name, "recv_displs", recv_displs, self._size, unit)
        check_blocks(name, "send", x.size, unit, sc, sp)
        y = self._blocks_out(name, out, x, unit, rc, rp)
        sent, received = (c_array(sc), c_array(sp)), (c_array(rc), c_array(rp))
        held = (x, y, sent, received)
        self._call(name, stream, held, x.ctypes.data, *sent, y.ctypes.data, *received, type_)
        return y

    @told
    def gather_v(
        self,
        send: Buffer,
        counts: Counts | None = None,
        out: Buffer | None = None,
        root: int = 0,
        displs: Counts | None = None,
        *,
        stream: Stream | None = None,
    ) -> Array | None:
        """Root gets counts[r] elements from rank r. counts, displs and out are looked at there only."""
        x = check("gather_v", "send", send)
        type_, unit = movable("gather_v", x.dtype)
        y, arrays, to = None, (None, None), None
        if self._check_root("gather_v", root):
            c = self._counts("gather_v", "counts", counts, unit)
            p = numbers("gather_v", "displs", displs, self._size, unit)
            y = self._blocks_out("gather_v", out, x, unit, c, p)
            arrays, to = (c_array(c), c_array(p)), y.ctypes.data
        held = (x, y, arrays)
        self._call("gather_v", stream, held, x.ctypes.data, x.size * unit, to, *arrays, type_, root)
        return y

    @told
    def scatter_v(
        self,
        send: Buffer | None = None,
        counts: Counts | None = None,
        out: Buffer | None = None,
        root: int = 0,
        displs: Counts | None = None,
        *,
        stream: Stream | None = None,
    ) -> Array:
        """Rank r gets counts[r] elements of root's array. send, counts and displs are looked at there only;
        out is needed elsewhere."""
        x: Array | None = None
        arrays: tuple[Any, Any] = (None, None)
        if self._check_root("scatter_v", root):
            x = check("scatter_v", "send", send)
            unit = movable("scatter_v", x.dtype)[1]
            c = self._counts("scatter_v", "counts", counts, unit)
            p = numbers("scatter_v", "displs", displs, self._size, unit)
            check_blocks("scatter_v", "send", x.size, unit, c, p)
            y = self._out("scatter_v", out, (c[self._rank] // unit,), x.dtype)
            arrays = (c_array(c), c_array(p))
        else:
            y = check("scatter_v", "out", out, writable=True)
        type_, unit = movable("scatter_v", y.dtype)
        start = None if x is None else x.ctypes.data
        held = (x, y, arrays)
        self._call("scatter_v", stream, held, start, *arrays, y.ctypes.data, y.size * unit, type_, root)
        return y

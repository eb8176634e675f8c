# SPDX-License-Identifier: BSD-3-Clause
"""How elements are combined: the library's operations, and operators of the caller's own."""

from __future__ import annotations

import ctypes
import enum
from typing import TYPE_CHECKING, Any, Callable, Sequence

import numpy
from numpy.typing import DTypeLike

from ._buffers import Array, Buffer, as_dtype, check, check_like, reducible, word_of
from ._handle import Handle
from ._interrupt import make_reduce_fn
from ._library import library
from .errors import failure, refuse

if TYPE_CHECKING:
    from .comm import Comm


class Op(enum.IntEnum):
    """tutti_op: what is built in."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4
    BIT_AND = 16
    BIT_OR = 17
    BIT_XOR = 18


SUM, PROD, MAX, MIN, AVG = Op.SUM, Op.PROD, Op.MAX, Op.MIN, Op.AVG
BIT_AND, BIT_OR, BIT_XOR = Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR


class Operator(Handle):
    """An operator of one communicator, by Comm.op_create or Comm.op_create_pre_mul_sum."""

    _what = "operator"

    def __init__(self, comm: Comm, dtype: numpy.dtype[Any], handle: int, function: Any = None) -> None:
        self.comm, self.dtype = comm, dtype
        self._handle, self._function = (
            handle,
            function,
        )  # the library calls the latter; calls hold this object

    def _fit(self, operation: str, comm: Any, dtype: numpy.dtype[Any]) -> tuple[int, int, int]:
        number = self._opened(operation)
        if comm is not self.comm:
            refuse(operation, "op was created for another communicator; legal: one of this communicator")
        if dtype != self.dtype:
            refuse(
                operation, f"op combines elements of {self.dtype}, and send is of {dtype}; legal: the same"
            )
        return (*word_of(dtype), number)

    def close(self) -> None:
        """The operator is over; calls that were made with it go on. It ends with its communicator, too."""
        handle, self._handle = self._handle, None
        if handle is not None and self.comm._handle is not None:
            status = library.tutti_op_destroy(self.comm._handle, handle)
            if status:
                raise failure(status, "op_destroy")

    def __del__(self) -> None:
        if self._handle is not None:
            self.comm._unused.append(self._handle)  # another thread may be using the communicator now


def _clear_up(comm: Comm) -> int:
    """Destroy operators that nobody has any more; the communicator's handle."""
    handle = comm._opened("op_create")
    while comm._unused:
        library.tutti_op_destroy(handle, comm._unused.pop())
    return int(handle)


def create(
    comm: Comm, function: Callable[[Array, Array], Any], dtype: DTypeLike, commutes: bool
) -> Operator:
    if not callable(function):
        refuse("op_create", f"{function!r} cannot be called; legal: function(left, right), of two arrays")
    element = as_dtype("op_create", dtype)
    if element.hasobject:
        refuse("op_create", f"elements of {element} hold Python objects; legal: other dtypes")
    called = make_reduce_fn(function, element, comm._raised)
    number = ctypes.c_uint32()
    handle = _clear_up(comm)
    status = library.tutti_op_create(
        handle, called, None, element.itemsize, int(commutes), ctypes.byref(number)
    )
    if status:
        raise failure(status, "op_create", handle, comm._rank)
    return Operator(comm, element, number.value, called)


def create_pre_mul_sum(comm: Comm, factor: Any, dtype: DTypeLike) -> Operator:
    element = as_dtype("op_create_pre_mul_sum", dtype)
    type_ = reducible("op_create_pre_mul_sum", element)
    try:
        scalar = numpy.array(factor).astype(element).reshape(())
    except (TypeError, ValueError) as error:
        refuse("op_create_pre_mul_sum", f"factor is {factor!r}: {error}; legal: one number")
    number = ctypes.c_uint32()
    handle = _clear_up(comm)
    status = library.tutti_op_create_pre_mul_sum(handle, scalar.ctypes.data, type_, 0, ctypes.byref(number))
    if status:
        raise failure(status, "op_create_pre_mul_sum", handle, comm._rank)
    return Operator(comm, element, number.value)


def reduce_local(sources: Sequence[Buffer], out: Buffer | None = None, op: Op = SUM) -> Array:
    """Combine arrays without ranks, in the order in which as many exact ranks would: the same bits."""
    arrays = [check("reduce_local", f"sources[{i}]", each) for i, each in enumerate(sources)]
    if not arrays:
        refuse("reduce_local", "there are no sources; legal: one array or more")
    if isinstance(op, Operator):
        refuse("reduce_local", "op belongs to a communicator; legal: SUM and the others that are built in")
    first = arrays[0]
    for i, each in enumerate(arrays):
        if each.dtype != first.dtype or each.size != first.size:
            refuse(
                "reduce_local",
                f"sources[{i}] has {each.size} elements of {each.dtype}, and sources[0] {first.size} of "
                f"{first.dtype}; legal: the same",
            )
    type_ = reducible("reduce_local", first.dtype)
    y = (
        numpy.empty(first.shape, first.dtype)
        if out is None
        else check("reduce_local", "out", out, writable=True)
    )
    check_like("reduce_local", y, first.size, first.dtype)
    pointers = (ctypes.c_void_p * len(arrays))(*[each.ctypes.data for each in arrays])
    status = library.tutti_reduce_local(pointers, len(arrays), y.ctypes.data, first.size, type_, op)
    if status:
        raise failure(status, "reduce_local")
    return y

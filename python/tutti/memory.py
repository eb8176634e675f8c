# SPDX-License-Identifier: BSD-3-Clause
"""Arrays in memory that the other ranks read and write in place, without a copy."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Sequence, SupportsIndex, Union

import numpy
from numpy.typing import DTypeLike

from ._buffers import Array, as_dtype
from ._library import MEM_HOST, library
from .errors import failure, refuse

Shape = Union[SupportsIndex, Sequence[SupportsIndex]]


class _Memory:
    """Memory of tutti_mem_alloc. Arrays on it have it as their base, so it goes with the last of them."""

    def __init__(self, size: int) -> None:
        address = ctypes.c_void_p()
        status = library.tutti_mem_alloc(size, MEM_HOST, ctypes.byref(address))
        if status:
            raise failure(status, "empty")
        self.address = address.value
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (self.address, False),
        }

    # At the end of the interpreter modules are emptied before the last objects go, hence the argument.
    def __del__(self, free: Any = library.tutti_mem_free) -> None:
        free(getattr(self, "address", None))  # a child of fork() is refused this


def empty(shape: Shape, dtype: DTypeLike = float) -> Array:
    """A new array, as of numpy.empty, in memory that peers read and write without a copy. (Messages of less
    than 4 KiB are copied all the same.) It is zeroed, and given back when the last view of it is gone."""
    element = as_dtype("empty", dtype)
    if element.hasobject:
        refuse("empty", f"elements of {element} hold Python objects; legal: other dtypes")
    try:
        axes = (
            (int(shape.__index__()),)
            if isinstance(shape, SupportsIndex)
            else tuple(int(each.__index__()) for each in shape)
        )
    except (TypeError, AttributeError):
        refuse("empty", f"shape is {shape!r}; legal: a number of elements, or a sequence of some")
    if any(each < 0 for each in axes):
        refuse("empty", f"shape is {shape!r}; legal: lengths from 0 on")
    size = math.prod(axes) * element.itemsize
    memory = _Memory(max(size, 1))
    return numpy.asarray(memory)[:size].view(element).reshape(axes)

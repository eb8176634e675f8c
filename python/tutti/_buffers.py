# SPDX-License-Identifier: BSD-3-Clause
"""Arrays and element types: what a caller gives, checked before the library sees an address.

A buffer is a numpy array, or anything else with the buffer protocol (bytes, memoryview, array.array,
ctypes), which is looked at through a numpy array. What is combined has one of the library's twelve types.
What is only moved may have any dtype without Python objects: it travels as bytes."""

from __future__ import annotations

import array
import ctypes
import mmap
from typing import Any, Iterable, Sequence, Union

import numpy
from numpy.typing import DTypeLike, NDArray

from .errors import refuse

Array = NDArray[Any]
Buffer = Union[
    Array, "numpy.generic", bytes, bytearray, memoryview, "array.array[Any]", "ctypes.Array[Any]", mmap.mmap
]
Counts = Union[Sequence[int], Iterable[int], Array]

UINT8 = 1
# tutti_type by the name of the dtype; the last three are of the package ml_dtypes, if the user has it.
_TYPES = {
    "int8": 0,
    "uint8": UINT8,
    "int32": 2,
    "uint32": 3,
    "int64": 4,
    "uint64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
    "float8_e4m3fn": 10,
    "float8_e5m2": 11,
}
_known: dict[numpy.dtype[Any], int] = {}  # what _TYPES has answered, by dtype, which is quicker


def type_of(dtype: numpy.dtype[Any]) -> int | None:
    """The tutti_type of a dtype; None: it has none."""
    found = _known.get(dtype)
    if found is None and dtype.isnative:
        found = _TYPES.get(dtype.name)
        if found is not None:
            _known[dtype] = found
    return found


def word_of(dtype: numpy.dtype[Any]) -> tuple[int, int]:
    """How elements of a dtype of the caller's own travel: as a type, and how many of it make up one."""
    own = type_of(dtype)
    if own is not None:
        return own, 1
    for name in ("uint64", "uint32"):
        size = numpy.dtype(name).itemsize
        if dtype.itemsize % size == 0 and dtype.alignment % size == 0:
            return _TYPES[name], dtype.itemsize // size
    return UINT8, dtype.itemsize


def look(operation: str, what: str, given: Any) -> Array:
    """A numpy array on the memory of what was given."""
    if given is None:
        refuse(operation, f"{what} is None, but this rank needs one; legal: a numpy array, or a buffer")
    if isinstance(given, numpy.generic):
        x = numpy.asarray(given)
        x.flags.writeable = False  # it is a copy, and what is written there nobody sees
        return x
    try:
        view = memoryview(given)
    except TypeError:
        refuse(
            operation,
            f"{what} is of type {type(given).__name__}; legal: a numpy array, or an object with the buffer "
            "protocol (a list or a number has none: numpy.array(x) makes one)",
        )
    except (
        ValueError,
        BufferError,
    ) as error:  # a dtype that the buffer protocol cannot say, or a closed one
        refuse(operation, f"{what} cannot be looked at: {error}")
    return numpy.asarray(view)


def check(operation: str, what: str, given: Any, writable: bool = False) -> Array:
    """An array that the library may read, or write: its elements lie one behind another."""
    x = given if isinstance(given, numpy.ndarray) else look(operation, what, given)
    flags = x.flags
    if not flags.c_contiguous:
        refuse(
            operation,
            f"{what} is not C-contiguous: shape {x.shape}, strides {x.strides}; legal: elements one behind "
            f"another, as numpy.ascontiguousarray({what}) has them",
        )
    if writable and not flags.writeable:
        refuse(
            operation, f"{what} is read-only, and would be written; legal: a writable array, or a copy()"
        )
    return x


def check_like(operation: str, out: Array, size: int, dtype: numpy.dtype[Any]) -> None:
    """The array of a result fits what the call is about to write."""
    if out.dtype != dtype:
        refuse(operation, f"out is of {out.dtype}, and send of {dtype}; legal: the same dtype")
    if out.size != size:
        refuse(operation, f"out has {out.size} elements, shape {out.shape}; legal: {size}")


def reducible(operation: str, dtype: numpy.dtype[Any]) -> int:
    """The type in which elements are combined."""
    found = type_of(dtype)
    if found is None:
        hint = ""
        if not dtype.isnative:
            hint = f"; its bytes are swapped, so x.astype({dtype.newbyteorder('=').name!r}) is legal"
        elif dtype.name.startswith("float8_e4m3"):
            hint = "; of the float8 with four exponent bits float8_e4m3fn is the one"
        refuse(operation, f"elements of {dtype} cannot be combined; legal: {', '.join(_TYPES)}{hint}")
    return found


def movable(operation: str, dtype: numpy.dtype[Any]) -> tuple[int, int]:
    """The type in which elements travel, and how many of it each is. Structures may hold what a peer's
    differ in, so all that is no type of the library goes as bytes."""
    found = type_of(dtype)
    if found is not None:
        return found, 1
    if dtype.hasobject:
        refuse(
            operation,
            f"elements of {dtype} hold Python objects, which mean nothing elsewhere; legal: other dtypes",
        )
    return UINT8, dtype.itemsize


def as_dtype(operation: str, dtype: DTypeLike) -> numpy.dtype[Any]:
    try:
        return numpy.dtype(dtype)
    except TypeError as error:
        refuse(operation, f"dtype {dtype!r}: {error}")


def numbers(operation: str, what: str, given: Counts | None, n: int, unit: int) -> list[int] | None:
    """Counts or displacements of n blocks; in elements of the call's type, of which `unit` make up one of the
    array's."""
    if given is None:
        return None
    try:
        found = [int(each.__index__()) for each in given]
    except (TypeError, AttributeError):
        refuse(operation, f"{what} is {given!r}; legal: {n} whole numbers of elements, one for each rank")
    if len(found) != n:
        refuse(operation, f"{what} has {len(found)} numbers; legal: {n}, one for each rank")
    for rank, each in enumerate(found):
        if not 0 <= each < 1 << 48:
            refuse(operation, f"{what}[{rank}] is {each}; legal: elements, from 0 on")
    return [each * unit for each in found]


def check_blocks(
    operation: str, what: str, size: int, unit: int, counts: list[int], displs: list[int] | None
) -> None:
    """All blocks lie inside a buffer of `size` elements of the array."""
    end = (
        sum(counts)
        if displs is None
        else max((displ + count for displ, count in zip(displs, counts) if count > 0), default=0)
    )
    if end > size * unit:
        refuse(operation, f"the blocks of {what} end at element {end // unit}, but it has {size}")


def c_array(values: list[int] | None) -> Any:
    """An array of size_t; None stays."""
    return None if values is None else (ctypes.c_size_t * len(values))(*values)

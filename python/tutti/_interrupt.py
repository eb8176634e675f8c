# SPDX-License-Identifier: BSD-3-Clause
"""Ctrl-C while the library waits, and Python functions that the library calls.

A call that has waited for a millisecond runs the communicator's on_wait, again and again. There Python
takes the interpreter back and, if this is the main thread, runs its signal handlers. When one raises, as
Ctrl-C does, that ends the communicator, the call returns, and the exception is raised from it.

An exception that leaves a callback of ctypes is printed and lost, and Python may run signal handlers as
soon as it enters a function, before its first `try`. So what the library calls here is no function, but the
`send` of a generator that stands in a `try` already; and what lies between ctypes and that `send` is
written in C."""

from __future__ import annotations

import ctypes
import functools
import operator
import threading
from typing import Any, Callable, Generator

import numpy

from ._library import ON_WAIT, REDUCE_FN

Combine = Callable[[Any, Any], Any]


def _look(raised: list[BaseException]) -> Generator[int, None, None]:
    answer = 0
    while True:
        try:
            while True:
                yield answer  # as it goes on from here, Python runs its signal handlers
                answer = 0
        except GeneratorExit:
            return
        except BaseException as exception:
            raised.append(exception)
            answer = 1


class Waiting(threading.local):
    """What a thread needs for its waits. A generator cannot be entered twice, so each thread has its own."""

    def __init__(self) -> None:
        self.raised: list[BaseException] = (
            []
        )  #: by signal handlers, while this thread waited in the library
        look = _look(self.raised)
        next(look)
        self.look = look.send


waiting = Waiting()
on_wait = ON_WAIT(functools.partial(operator.methodcaller("look", None), waiting))  #: for all communicators


def raise_first(raised: list[BaseException]) -> None:
    if raised:
        first = raised[0]
        raised.clear()
        raise first


def _vector(address: int, count: int, dtype: numpy.dtype[Any], writable: bool) -> numpy.ndarray[Any, Any]:
    memory = memoryview((ctypes.c_char * (count * dtype.itemsize)).from_address(address))
    vector: numpy.ndarray[Any, Any] = numpy.frombuffer(memory, dtype)
    vector.flags.writeable = writable
    return vector


def _combine(
    function: Combine, dtype: numpy.dtype[Any], failures: list[BaseException]
) -> Generator[int, Any, None]:
    try:
        while True:
            dst, left, right = (yield 0), (yield 0), (yield 0)
            count = yield 0
            yield 0  # the context, which is none; and the answer to that is the next first one
            result = function(_vector(left, count, dtype, False), _vector(right, count, dtype, False))
            _vector(dst, count, dtype, True)[:] = result
    except GeneratorExit:
        return
    except BaseException as exception:
        failures.append(exception)
    while True:
        yield 0  # it combines no more, for its communicator is about to end


def make_reduce_fn(function: Combine, dtype: numpy.dtype[Any], failures: list[BaseException]) -> Any:
    """A tutti_reduce_fn that runs function(left, right) on arrays of this dtype. What it raises is put into
    `failures`, and it combines no more. The five arguments go into the generator one by one, by `max`, which
    calls `send` for each without a function of Python's in between."""
    combine = _combine(function, dtype, failures)
    next(combine)
    return REDUCE_FN(functools.partial(max, key=combine.send))

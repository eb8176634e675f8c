# SPDX-License-Identifier: BSD-3-Clause
"""What communicators, streams and programs have in common: a handle that belongs to this process."""

from __future__ import annotations

from typing import Any, NoReturn

from .errors import InvalidUsage


class Handle:
    """An object of the library. Its address is an int, so without this it could be copied and pickled."""

    _what = "object"
    _handle: Any = None  # None: not made, or over

    def _opened(self, operation: str) -> Any:
        if self._handle is None:
            raise InvalidUsage(
                f"{operation}: this {self._what} is over; legal: one that is open", operation=operation
            )
        return self._handle

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {self._what} of tutti belongs to its process: it cannot be pickled or copied; an Id can"
        )

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__reduce__()

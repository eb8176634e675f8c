# SPDX-License-Identifier: BSD-3-Clause
"""Calls that this package refuses before the library sees them. The peers may be in theirs, and would wait
for this rank until the deadline; so they are told, as the library tells them of what it refuses itself. """

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

from ._library import library

Call = TypeVar("Call", bound=Callable[..., Any])
COLLECTIVE = -1


def tell(comm: Any, why: str, peer: int = COLLECTIVE) -> None:
    """This rank does not make the call that its peers are in."""
    if comm._handle is not None:
        library.tutti_comm_refuse(comm._handle, peer, why.encode())


def _peer(operation: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Of send(send, peer) and recv(out, peer)."""
    if operation not in ("send", "recv"):
        return COLLECTIVE
    return named.get("peer", arguments[1] if len(arguments) > 1 else None)


def told(call: Call) -> Call:
    """A call of a communicator, whose peers hear of it when its arguments are wrong."""

    @functools.wraps(call)
    def checked(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return call(self, *arguments, **named)
        except (ValueError, TypeError, NotImplementedError) as error:
            peer = _peer(call.__name__, arguments, named)
            if isinstance(peer, int) and peer >= COLLECTIVE:
                tell(self, str(error), peer)
            raise

    return checked  # type: ignore[return-value]

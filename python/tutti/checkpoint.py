# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of tutti-train, as arrays that are read from the file when they are looked at.

from tutti import checkpoint

state = checkpoint.read("state")
print(state.model, state.step, state["layer0.qkv.weight"].values.shape)

docs/training-models.md has the format, and how a parameter lies."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Union

import numpy
import numpy.typing

Floats = numpy.typing.NDArray[numpy.float32]

_HEAD = struct.Struct("<8sIIqq24s12q4dQ")  # what all versions have
_ENTRY = struct.Struct("<40s3q4Q")
_REST = {2: 0, 3: 112, 4: 144, 5: 152}  # bytes of the head behind that, by version


class Parameter(NamedTuple):
    """Of shape (rows, columns), or (rows,) if there is one column. m and v are AdamW's; None: it was SGD.
    waiting: the gradient of the last step, with --offload-delay 1."""

    values: Floats
    m: Floats | None
    v: Floats | None
    waiting: Floats | None


class Checkpoint(Mapping[str, Parameter]):
    """The parameters by name, in the order of the file, and what the run was."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        with open(path, "rb") as file:
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size or head[:8] != b"TUTTICKP":
                raise ValueError(f"{path} is no checkpoint of tutti-train: it does not begin with TUTTICKP")
            _, version, count, size, _, model, *numbers = _HEAD.unpack(head)
            if version not in _REST:
                raise ValueError(f"{path} is of version {version}; legal are 2 to 5")
            if size != os.fstat(file.fileno()).st_size:
                raise ValueError(f"{path} is cut: its head says {size} bytes")
            head += file.read(_REST[version])
            table = file.read(count * _ENTRY.size)
        if len(table) != count * _ENTRY.size or _sum(head, table) != numbers[-1]:
            raise ValueError(f"{path} is damaged: the checksum of its head is wrong")
        (self.layers, self.channels, self.heads, self.context, self.vocabulary, self.inputs, tied, adamw) = (
            numbers[:8]
        )
        waits, self.seed, self.step, self.batch, self.rate, self.decay, self.clip, self.norm = numbers[8:16]
        self.model: str = model.rstrip(b"\0").decode()
        self.tied, self.adamw = bool(tied), bool(adamw)
        self._found: dict[str, Parameter] = {}
        for name, rows, columns, at, *_ in _ENTRY.iter_unpack(table):
            shape = (3 if adamw else 1) + (1 if waits else 0), *((rows, columns) if columns > 1 else (rows,))
            arrays: Floats = numpy.memmap(path, numpy.dtype("<f4"), "r", at, shape)
            m, v = (arrays[1], arrays[2]) if adamw else (None, None)
            waiting = arrays[-1] if waits else None
            self._found[name.rstrip(b"\0").decode()] = Parameter(arrays[0], m, v, waiting)

    def __getitem__(self, name: str) -> Parameter:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def read(path: Union[str, os.PathLike[str]]) -> Checkpoint:
    """Opens a checkpoint. ValueError: the file is none, is cut, or its head is damaged. What lies in the
    arrays is not checked, for that would read all of it: tutti-train does, with --load."""
    return Checkpoint(path)


def _mixed(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def _sum(head: bytes, table: bytes) -> int:
    """Of both by their 32-bit words, the sum itself as 0."""
    at = _HEAD.size - 8
    data = head[:at] + bytes(8) + head[_HEAD.size :] + table
    words = struct.unpack(f"<{len(data) // 4}I", data)
    return sum(_mixed((i << 32) + word) for i, word in enumerate(words)) % 2**64

# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of tutti-train: one that it wrote is in tests/training."""

import pathlib

import pytest

from tutti import checkpoint

WRITTEN = pathlib.Path(__file__).parents[2] / "tests" / "training" / "checkpoint_v2.bin"


def test_what_was_run():
    state = checkpoint.read(WRITTEN)
    assert (state.model, state.layers, state.channels, state.step) == ("mlp", 1, 64, 2)
    assert (state.seed, state.batch, state.rate, state.adamw, state.tied) == (1, 8, 0.1, False, False)
    assert {name: p.values.shape for name, p in state.items()} == {
        "layer0.fc.weight": (64, 2),
        "layer0.fc.bias": (64,),
        "head.weight": (2, 64),
    }
    head = state["head.weight"]
    assert head.m is None and head.v is None and head.waiting is None
    assert head.values.tobytes() == WRITTEN.read_bytes()[-2 * 64 * 4 :]
    with pytest.raises(ValueError, match="read-only"):
        head.values[0] = 0


def test_a_damaged_file_is_refused(tmp_path):
    data = bytearray(WRITTEN.read_bytes())
    for at, words in ((0, "no checkpoint"), (8, "version"), (60, "damaged"), (210, "damaged")):
        hurt = bytearray(data)
        hurt[at] ^= 4
        path = tmp_path / "hurt"
        path.write_bytes(hurt)
        with pytest.raises(ValueError, match=words):
            checkpoint.read(path)
    path.write_bytes(data[:-1])
    with pytest.raises(ValueError, match="cut"):
        checkpoint.read(path)
    path.write_bytes(data[:100])
    with pytest.raises(ValueError, match="no checkpoint"):
        checkpoint.read(path)

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What llm.c's train_gpt2_fp32.cu reads: a GPT-2 of 124 million parameters, and tokens.

Only its time is wanted, so weights are a short block of small numbers, repeated; but norms begin at one.

usage: llmc_files.py FOLDER [small]     small: one layer, for who only looks whether files are written
"""
import array
import os
import random
import sys

FOLDER = sys.argv[1]
LAYERS = 1 if len(sys.argv) > 2 else 12
CHANNELS, WORDS, CONTEXT, PADDED = 768, 50257, 1024, 50304
draw = random.Random(1)
block = array.array("f", (draw.gauss(0, 0.02) for _ in range(16 * CHANNELS)))
one, zero = array.array("f", [1]) * CHANNELS, array.array("f", [0]) * CHANNELS


def header(*numbers):
    return array.array("i", numbers + (0,) * (256 - len(numbers)))


def save(name, *parts):
    with open(os.path.join(FOLDER, name), "wb") as to:
        for part, times in parts:
            for _ in range(times):
                part.tofile(to)


def weights(rows):
    """So many rows of CHANNELS, of which each block has 16."""
    return block, rows // 16


save("gpt2_124M.bin", (header(20240326, 3, CONTEXT, WORDS, LAYERS, 12, CHANNELS, PADDED), 1),
     weights(PADDED), weights(CONTEXT), (one, LAYERS), (zero, LAYERS),
     weights(LAYERS * 3 * CHANNELS), (zero, LAYERS * 3), weights(LAYERS * CHANNELS), (zero, LAYERS),
     (one, LAYERS), (zero, LAYERS), weights(LAYERS * 4 * CHANNELS), (zero, LAYERS * 4),
     weights(LAYERS * 4 * CHANNELS), (zero, LAYERS), (one, 1), (zero, 1))
for file, steps in (("train.bin", 12), ("val.bin", 2)):
    count = 8 * CONTEXT * steps + 1
    tokens = array.array("H", (draw.randrange(WORDS) for _ in range(count)))
    save(file, (header(20240520, 1, count), 1), (tokens, 1))

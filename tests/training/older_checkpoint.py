# SPDX-License-Identifier: BSD-3-Clause
"""older_checkpoint.py NEW OLD VERSION: writes what a checkpoint of version 5 was as version 2, 3 or 4.

After docs/training-models.md: a head without its last bytes, and arrays at the next multiple of 4,096 behind
the shorter table.
"""
import struct
import sys


def mixed(x):
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


data = open(sys.argv[1], "rb").read()
version, entries, length, first = struct.unpack_from("<IIqq", data, 8)
assert version == 5
older = int(sys.argv[3])
size = {2: 192, 3: 304, 4: 336}[older]
table = bytearray(data[344 : 344 + 96 * entries])
moved = (size + len(table) + 4095) // 4096 * 4096
for at in range(56, len(table), 96):
    struct.pack_into("<q", table, at, struct.unpack_from("<q", table, at)[0] + moved - first)
head = bytearray(data[:size])
struct.pack_into("<IIqq", head, 8, older, entries, length + moved - first, moved)
struct.pack_into("<Q", head, 184, 0)
words = struct.unpack("<%dI" % ((size + len(table)) // 4), head + table)
struct.pack_into("<Q", head, 184, sum(mixed((i << 32) + word) for i, word in enumerate(words)) % 2**64)
with open(sys.argv[2], "wb") as old:
    old.write((head + table).ljust(moved, b"\0") + data[first:])
print("arrays moved by", first - moved)

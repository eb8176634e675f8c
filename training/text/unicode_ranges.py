# SPDX-License-Identifier: BSD-3-Clause
"""unicode_ranges.py: writes unicode_ranges.h: which code points are letters, numbers and white space.

The classes are asked of the module `regex`, by which GPT-2's own program splits a text; a newer one knows
letters that are newer than ours, and nothing else differs.

    python3 training/text/unicode_ranges.py | clang-format >training/text/unicode_ranges.h
"""
import importlib.metadata

import regex

CLASSES = [(1, r"\p{L}"), (2, r"\p{N}"), (3, r"\s")]

starts, before = [], 0
for code in range(0x110000):
    now = next((number for number, class_ in CLASSES if regex.fullmatch(class_, chr(code))), 0)
    if now != before:
        starts.append(hex(code << 2 | now))
    before = now

print(f"""/* SPDX-License-Identifier: BSD-3-Clause */
/* unicode_ranges.h: made by unicode_ranges.py with regex {importlib.metadata.version("regex")}: where another
 * class of code points begins, times 4, and which one: enum tr_class. */
static const uint32_t ranges[] = {{ {", ".join(starts)} }};""")

# SPDX-License-Identifier: BSD-3-Clause
"""What compare --json wrote is JSON, an object a line, and each has all that the tables have.

usage: compare_json.py FILE"""
import ctypes
import json
import sys

NEEDED = """event cores name options device pp dp cp cu ep tp ran equal class loss differing_losses
differing_norms differing_gradients differing_parameters off ms ms_low ms_high tokens_per_second
bubble_formula bubble_simulated bubble_measured exposed flops flops_extra flops_counted sent sent_all
sent_most rank arena host_arena compared_with off_losses off_losses_legal off_gradients
off_gradients_legal memory memory_measured fits what_to_do found""".split()


def has_openblas():
    """Without it a free order of two ranks is the only one that there is, and nothing is off."""
    try:
        ctypes.CDLL("libopenblas.so.0")
    except OSError:
        return False
    return True


LEAST = sys.float_info.min if has_openblas() else 0


def wrong_with(row):
    """Words for what is wrong with a row of a run without planted errors; None: nothing."""
    missing = [key for key in NEEDED if key not in row]
    if missing:
        return f"there is no {', '.join(missing)}"
    if row["sent_all"] != sum(row["sent"].values()):
        return "what is sent by group is not what is sent"
    if not row["ran"]:
        return None if row["what_to_do"] and not row["fits"] else "it did not run, and nothing says why"
    if row["class"] == "C":
        if not LEAST <= row["off_losses"] <= row["off_losses_legal"]:
            return f"losses are off by {row['off_losses']}"
        if not LEAST <= row["off_gradients"] <= row["off_gradients_legal"]:
            return f"gradients are off by {row['off_gradients']}"
    elif row["off"] != 0 or row["off_losses_legal"] != 0:
        return f"numbers are off by {row['off']}"
    if row["flops"] != row["flops_counted"]:
        return f"{row['flops']} FLOPs, and {row['flops_counted']} were counted"
    if not row["flops"] > row["flops_extra"]:
        return "all that is computed is extra"
    apart = "--server-mode async" in row["options"]
    if apart and not any(row["memory_measured"].values()):
        return None  # the rank that needs most is a server, which has no step to audit
    for kind, predicted in row["memory"].items():
        measured = row["memory_measured"][kind]
        if measured != predicted and not (kind == "kernel scratch" and measured <= predicted):
            return f"{predicted} bytes of {kind}, and {measured} were measured"
    if not (row["ms"] > 0 and row["ms_low"] <= row["ms"] <= row["ms_high"] and row["tokens_per_second"] > 0):
        return "no time"
    return None


def main():
    """Prints a line for each row that is wrong."""
    with open(sys.argv[1], encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    complaints = [f"{row.get('name')}: {wrong}" for row in rows if (wrong := wrong_with(row))]
    if any(list(row) != list(rows[0]) for row in rows):
        complaints.append("rows have different members")
    print("\n".join(complaints))
    sys.exit(bool(complaints) or not rows)


main()

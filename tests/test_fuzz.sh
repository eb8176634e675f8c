#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_fuzz.sh: 10^4 public calls at random, as this directory was configured; `make fuzz` makes ten times as
# many, under sanitizers. FUZZ_SEED is another seed than 1.
set -u
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

tests/fuzz/api --calls 10000 --seed "${FUZZ_SEED:-1}" --table >"$scratch/first" || exit 1
tail -n 1 "$scratch/first"

# All follows from the seed, so what failed can be repeated.
tests/fuzz/api --calls 10000 --seed "${FUZZ_SEED:-1}" --table >"$scratch/second" || exit 1
for run in first second; do
    sort "$scratch/$run" >"$scratch/$run.sorted"
done
if ! diff "$scratch/first.sorted" "$scratch/second.sorted"; then
    echo "fuzz: one seed made other calls the second time"
    exit 1
fi

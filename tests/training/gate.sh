#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2034 # gates use what is set here
# gate.sh: how each gate of the trainer begins, read by it in a build directory: a folder for what it writes,
# which goes when the gate ends, and a count of what failed.
train=$PWD/tutti-train
gate=$(basename "$0" .sh)
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

fail()
{
    echo "$gate: $1"
    failures=$((failures + 1))
}

# fails_with WORDS BEGUN PROGRAM OPTIONS...: the program fails with these words, and before it printed no
# line of this form, which tells that something had begun.
fails_with()
{
    words=$1 begun=$2 program=$3
    shift 3
    "$program" "$@" >"$scratch/out" 2>"$scratch/said" && fail "$*: taken"
    grep -Fq -- "$words" "$scratch/said" || fail "$*: not \"$words\" but: $(cat "$scratch/said")"
    grep -q "$begun" "$scratch/out" && fail "$*: it had begun: $(grep "$begun" "$scratch/out")"
}

# numpy: a python3 that has numpy; here: the root of the sources. Without one there is nothing to be done.
find_numpy()
{
    export PYTHONDONTWRITEBYTECODE=1
    here=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
    [ -d "$here/tests/training" ] || here=$(dirname "$(dirname "$here")")
    for numpy in python3 /usr/bin/python3; do
        "$numpy" -c 'import numpy' 2>/dev/null && return
    done
    echo "$gate: no python3 with numpy"
    exit 77
}

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# plan.sh: what plan says that fits does train within that memory, and in a byte less is refused; what it
# prints of this machine another plan reads.
#
# usage: sh plan.sh [CASES]; 20 without. .ci/nightly runs 60.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
cases=${1:-20}

if ! command -v python3 >/dev/null 2>&1; then
    echo "skipped: plans (no python3)"
    exit 0
fi

# A case: a configuration of plan's, with the options of its run and the bytes that it is said to need. They
# come from models, ranks and memories that ask for different paradigms, those that win and each alone.
cat >"$scratch/cases.py" <<'END'
import json, subprocess, sys

train, wanted = sys.argv[1], int(sys.argv[2])
asked = [("gpt:nano", 2, None), ("moe:nano", 4, None), ("gpt:nano", 4, "4M"), ("cnn:nano", 2, None),
         ("gpt:nano", 8, "2M"), ("mlp:nano", 4, None), ("gpt:nano --optimizer sgd", 4, None),
         ("gpt:nano --precision bfloat16", 2, "8M"), ("gpt:micro", 2, "24M"), ("moe:nano", 8, "8M"),
         ("gpt:nano --context 128", 4, "8M"), ("gpt:nano", 1, "10M")]
found = {}
for model, ranks, memory in asked:
    words = ("--model %s -n %d" % (model, ranks)).split() + (["--memory", memory] if memory else [])
    said = json.loads(subprocess.run([train, "plan", "--json"] + words, stdout=subprocess.PIPE).stdout)
    for x in said["best"] + list(said["alone"].values()):
        if x["fits"] and x["host_bytes"] == 0:
            options = "" if x["options"] == "one rank" else x["options"]
            run = "--model %s -n %d --batch %d %s" % (model, ranks, said["batch"], options)
            found.setdefault(model + str(ranks), {})[run] = x["bytes"]
by_turns = [x for k in range(20) for f in found.values() for x in list(f.items())[k:k + 1]]
for run, bytes in by_turns[:wanted]:
    print(bytes, run)
END
python3 "$scratch/cases.py" "$train" "$cases" >"$scratch/cases" || fail "plan --json cannot be read"
found=0
while read -r bytes options; do
    found=$((found + 1))
    # shellcheck disable=SC2086 # words
    "$train" $options --steps 1 --data grammar --memory "$bytes" >"$scratch/said" 2>&1 </dev/null ||
        fail "$options fits $bytes bytes by plan: $(cat "$scratch/said")"
    # shellcheck disable=SC2086
    "$train" $options --steps 1 --data grammar --memory $((bytes - 1)) >"$scratch/said" 2>&1 </dev/null &&
        fail "$options runs in less than the $bytes bytes that plan says"
    grep -q "needs $bytes bytes" "$scratch/said" || fail "$options: $(cat "$scratch/said")"
done <"$scratch/cases"
[ "$found" -ge "$cases" ] || fail "$found cases of $cases"

# This machine, as it was measured: each line is read again, and says the same.
"$train" plan --measure -n 2 --batch 8 >"$scratch/said" 2>&1 || fail "plan --measure: $(cat "$scratch/said")"
sed '/^$/q' "$scratch/said" >"$scratch/machine"
for line in peak_float32 peak_bfloat16 efficiency latency_near byte_near memory; do
    grep -q "^$line [0-9.]*[1-9]" "$scratch/machine" || fail "plan --measure says nothing of $line"
done
"$train" plan --machine "$scratch/machine" -n 2 --batch 8 >"$scratch/again" 2>&1 ||
    fail "a machine that was measured is not read: $(cat "$scratch/again")"
best()
{
    sed -n '/^1\. /,/^2\. /p' "$1"
}
best "$scratch/said" >"$scratch/first"
best "$scratch/again" | diff "$scratch/first" - >&2 ||
    fail "a machine that was measured is read as another one"
[ -s "$scratch/first" ] || fail "plan --measure has no answer"

[ "$failures" -eq 0 ] && echo "plan: $found configurations fit exactly where it says"
exit "$failures"

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# plans.sh: what planning decides is what plans.txt says, for every case of `verify --all`, every planted
# error and 5,000 drawn option sets; and so is what explain prints.
#
# usage: plans.sh [--accept]     in a build directory
#
# plans.txt has hashes (plans.c). A change that moves, renames or simplifies leaves them as they are. For one
# that means to change plans: print the text of some cases that differ by `tests/training/plans -t OPTIONS`,
# here and in a build of the commit before; read the difference; then --accept writes plans.txt anew.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
here=${srcdir:-.}
wanted=$here/tests/training/plans.txt
LC_ALL=C
export LC_ALL

explained='
--ranks 1
--tp 2 --tape 1
--dp 2 --tp 2 --pp 2 --micro 4 --sp --zero 3 --schedule zb-h1
--pp 4 --micro 8 --chunks 1 --schedule 1f1b --recompute full --tape 2
--cp 4 --cp-attention ring --cp-map zigzag --tape 3
--dp 4 --zero 2 --micro 2 --offload both --tape 0
--dp 2 --servers 2 --tape 3
--precision bfloat16 --tp 2 --micro 2 --tape 1
--model moe:nano --dp 4 --ep 2 --zero 3 --micro 2 --tape 3
--model cnn:nano --cp 2 --dp 2 --tape 0
--model mlp:nano --dp 2 --tp 2 --pp 2 --micro 2 --sp --zero 2
--model llama:nano --dp 2 --tp 2 --cp 2 --micro 2 --sp --tape 5
--pp 16 --dp 4 --tp 4 --layers 16 --micro 16 --batch 64
'
tests/training/plans >"$scratch/plans" || fail "tests/training/plans failed"
while read -r options; do
    [ -n "$options" ] || continue
    # shellcheck disable=SC2086 # words
    "$train" explain $options >"$scratch/text" 2>&1
    echo "$(cksum <"$scratch/text" | tr ' ' '-') explain $options" >>"$scratch/plans"
done <<EOF
$explained
EOF
if [ "${1:-}" = --accept ]; then
    cp "$scratch/plans" "$wanted"
    exit
fi
if ! diff "$wanted" "$scratch/plans" >"$scratch/difference"; then
    grep '^[<>]' "$scratch/difference" | head -n 20
    fail "$(grep -c '^>' "$scratch/difference") lines of plans.txt are others now; its script says what to do"
fi
[ "$failures" -eq 0 ] && echo "plans: $(wc -l <"$wanted") lines are as they were"
exit "$failures"

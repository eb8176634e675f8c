#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_collperf_check.sh: collperf's check counts what is wrong, and its rates are those of nccl-tests.
#
# usage: COLLPERF=path test_collperf_check.sh   (default: ./collperf)
#
# A benchmark that cannot fail is worth nothing. --self-test damages what the check watches, one kind at a
# time; the factors between algbw and busbw are written down here once more, for four ranks, from nccl-tests'
# manual.
set -u
LC_ALL=C
export LC_ALL
unset TUTTI_ID TUTTI_RANK TUTTI_SIZE PMIX_RANK PMI_RANK
collperf=${COLLPERF:-./collperf}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

fail()
{
    echo "FAILED: $*"
    sed 's/^/    /' "$scratch/out" "$scratch/err" | tail -n 20
    failures=$((failures + 1))
}

run() # code arguments..: the exit code of collperf; output is kept in out and err
{
    code=$1
    shift
    timeout 900 "$collperf" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "exit code $got, expected $code: $*"
}

found() # collective how what wrong
{
    grep -q "^collperf: --self-test: $1, $2: $3 was corrupted at rank [0-2]: found ($4 wrong of $4)\$" \
        "$scratch/err" || fail "--self-test of $1, $2: $3 is not counted as $4"
}

# --- Every kind of damage is counted exactly. Of 4096 bytes of float a rank has 1024 elements; 341 are its
# share where three ranks share evenly, and 512 the largest share where they do not.
while read -r collective elements in_place without; do
    run 1 "$collective" --self-test -g 3
    for what in 'the first element' 'the last element' 'the middle element' 'the byte before recv' \
        'the byte after recv' 'an element of send' 'the byte before send' 'the byte after send'; do
        found "$collective" 'out of place' "$what" 1
    done
    found "$collective" 'out of place' 'every element' "$elements"
    [ "$without" = no ] || found "$collective" 'out of place' 'recv of a rank without result' 1
    lines=$(grep -c ', in place: .*: found (' "$scratch/err")
    [ "$lines" -eq "$([ "$in_place" = no ] && echo 0 || echo 4)" ] ||
        fail "$collective: $lines lines in place"
    if [ "$in_place" = yes ]; then
        for what in 'the last element' 'the byte before the buffer' 'the byte after the buffer'; do
            found "$collective" 'in place' "$what" 1
        done
        found "$collective" 'in place' 'every element' "$elements"
    fi
    tail -n 1 "$scratch/err" | grep -q '^collperf: --self-test: all that was corrupted was found, so' ||
        fail "--self-test of $collective does not end with a verdict"
done <<TABLE
all_reduce 1024 yes no
reduce_scatter 341 yes no
all_gather 1023 yes no
broadcast 1024 yes no
reduce 1024 yes yes
all_gather_v 1024 yes no
all_to_all 1023 yes no
gather 1023 yes yes
scatter 341 yes no
reduce_scatter_v 512 yes no
all_to_all_v 1024 no no
gather_v 1024 yes yes
scatter_v 512 yes no
sendrecv 1024 no no
reduce+broadcast 1024 yes no
reduce_scatter+all_gather 1024 yes no
TABLE
run 1 all --self-test -g 3 -b 12 -e 12

# --- Also beyond one period of the contributions, which is 65521 elements.
run 1 --self-test -d int64 -b 1M -e 1M
found all_reduce 'out of place' 'every element' 131072
found all_reduce 'in place' 'every element' 131072

# --- algbw is size by time; busbw is algbw by the factor of nccl-tests' PERFORMANCE.md, at four ranks.
cat >"$scratch/factors" <<TABLE
all_reduce 1.5
reduce_scatter 0.75
all_gather 0.75
broadcast 1
reduce 1
barrier 1
all_gather_v 0.75
all_to_all 0.75
gather 0.75
scatter 0.75
reduce_scatter_v 0.75
all_to_all_v 0.75
gather_v 0.75
scatter_v 0.75
sendrecv 1
reduce+broadcast 1.5
reduce_scatter+all_gather 1.5
TABLE
cat >"$scratch/rates.awk" <<'AWK'
function near(one, other)
{
    return one - other <= 1e-3 * other && other - one <= 1e-3 * other
}
FNR == NR { factor[$1] = $2; next }
FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
{
    name = $at["collective"]
    seen[name]++
    algbw = $at["bytes"] / $at["time_us"] / 1e3
    if (!(name in factor) || !near($at["algbw"], algbw) || !near($at["busbw"], algbw * factor[name]) ||
        (name != "barrier" && !($at["busbw"] > 0)))
        print name ": " $at["bytes"] " bytes in " $at["time_us"] " us: " $at["algbw"] ", " $at["busbw"]
}
END { for (name in factor) if (!(name in seen)) print name ": not measured" }
AWK
run 0 all -g 4 -b 1M -e 4M -f 4 -n 2 -w 1 -c 0 --csv
cp "$scratch/out" "$scratch/rows"
for composed in reduce+broadcast reduce_scatter+all_gather; do
    run 0 $composed -g 4 -b 1M -e 1M -n 2 -w 1 -c 0 --csv
    tail -n +2 "$scratch/out" >>"$scratch/rows"
done
awk -F, -f "$scratch/rates.awk" FS=' ' "$scratch/factors" FS=, "$scratch/rows" >"$scratch/bad"
[ ! -s "$scratch/bad" ] || fail "rates: $(cat "$scratch/bad")"

# The table prints the same three, with fewer digits.
run 0 all_reduce -g 4 -b 16M -e 16M -n 2 -w 1 -c 0
awk '!/^#/ { rows++; out = $8 / $7; in_place = $12 / $11 }
    END { exit !(rows == 1 && out > 1.45 && out < 1.55 && in_place > 1.45 && in_place < 1.55) }' \
    "$scratch/out" || fail "the table's busbw of all_reduce is 1.5 times its algbw"

[ "$failures" -eq 0 ] && echo "collperf's check and rates: all good"
[ "$failures" -eq 0 ]

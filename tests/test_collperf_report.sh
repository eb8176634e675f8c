#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_collperf_report.sh: a report of collperf says where its figures come from: machine, ranks, day.
#
# usage: COLLPERF=path test_collperf_report.sh   (default: ./collperf)
#
# No figure is compared with anything: this runs on loaded machines.
set -u
LC_ALL=C
export LC_ALL
unset TUTTI_ID TUTTI_RANK TUTTI_SIZE PMIX_RANK PMI_RANK
collperf=${COLLPERF:-./collperf}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0
few="-b 8 -e 8 -n 3 -w 1"

fail()
{
    echo "FAILED: $*"
    sed 's/^/    /' "$scratch/out" "$scratch/err" | tail -n 20
    failures=$((failures + 1))
}

expect() # code command..: the exit code; output is kept in out and err
{
    code=$1
    shift
    timeout 900 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "exit code $got, expected $code: $*"
}

says() # where pattern what
{
    grep -q -e "$2" "$scratch/$1" || fail "$3: no '$2' on $1"
}

# --- The table begins with the machine and with a line for each rank: as many processes as there are.
expect 0 "$collperf" $few -g 1
says out "^# collperf: Tutti [^ ]*, 1 rank (" "the header of one rank"
host=$(uname -n | tr ',"\\' '   ')
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1 | tr ',"\\' '   ' | cut -c 1-63)
version=$("$collperf" --version | sed 's/.* //')
day='20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z'
for ranks in '-g 3' '-t 3' '-g 2 -t 2'; do
    expect 0 "$collperf" $few $ranks
    says out "^# collperf: Tutti $version, [34] ranks" "the header, $ranks"
    grep -q "^# $day on $host, ${cpu:-unknown}, $(uname -s) $(uname -r)\$" "$scratch/out" ||
        fail "the header does not name day, host, processor and kernel"
    sed -n 's/^#  Rank *\([0-9]*\) Pid *\([0-9]*\) on .* cores [0-9].*/\1 \2/p' \
        "$scratch/out" >"$scratch/ranks"
    processes=$(awk '{ print $2 }' "$scratch/ranks" | sort -u | wc -l)
    [ "$(awk '$1 == NR - 1' "$scratch/ranks" | wc -l)/$processes" = \
        "$(case $ranks in '-g 3') echo 3/3 ;; '-t 3') echo 3/1 ;; *) echo 4/2 ;; esac)" ] ||
        fail "the lines of ranks, $ranks"
done
grep -q "^#  Rank .* on $host cores" "$scratch/out" || fail "a rank's line has the host's name"
for ranks in -g -t; do
    [ "$(nproc)" -ge 2 ] || break
    expect 0 "$collperf" $few $ranks 2 --bind
    [ "$(sed -n 's/^#  Rank .* cores \([0-9]*\)$/\1/p' "$scratch/out" | sort -u | wc -l)" -eq 2 ] ||
        fail "$ranks 2: two bound ranks have a core each"
done

# --- Records say the same, in fields that come last, and one day for all rows of a run.
expect 0 "$collperf" $few -g 2 --json
last="\"bound\": false, \"version\": \"$version\", \"host\": \"$host\", \"cpu\": \"${cpu:-unknown}\", "
last="$last\"kernel\": \"$(uname -s) $(uname -r)\", \"date\": \"$day\", \"pulled_bytes\": 0}\$"
[ "$(grep -c "$last" "$scratch/out")" -eq 2 ] || fail "--json does not end with: $last"
expect 0 "$collperf" all $few -g 2 --csv
head -n 1 "$scratch/out" | grep -q ',bound,version,host,cpu,kernel,date,pulled_bytes$' ||
    fail "the last fields of --csv"
awk -F, 'NR == 1 { names = NF } NF != names { bad = 1 } END { exit bad || NR < 10 }' "$scratch/out" ||
    fail "a row of --csv has as many fields as there are names"
[ "$(awk -F, 'NR > 1 { print $(NF - 1) }' "$scratch/out" | sort -u | wc -l)" -eq 1 ] ||
    fail "one run, two days"
if command -v python3 >/dev/null 2>&1; then
    "$collperf" $few -g 2 --json >"$scratch/rows" 2>"$scratch/err" || fail "collperf --json"
    expect 0 python3 -c 'import json, sys
assert all(json.loads(line)["host"] for line in open(sys.argv[1]))' "$scratch/rows"
fi

# --- Under a launcher start-up and class are known as well, and ranks 0 and 1 leave nothing behind.
launched() # command..
{
    expect 0 "$@"
    says out "^# collperf: Tutti $version, [0-9]* ranks of a launcher's job" "$1"
    says out '^# start-up [0-9.]* ms; ' "$1: start-up"
    says out '^# flag round trip before [0-9.]* us: \(NEAR\|FAR\|ONE CORE\)' "$1: class"
    [ "$(sed -n 's/^#  Rank .* Pid *\([0-9]*\) .*/\1/p' "$scratch/out" | sort -u | wc -l)" -eq 3 ] ||
        fail "$1: three ranks are three processes"
}
root=
[ "$(id -u)" -ne 0 ] || root=--allow-run-as-root
for mpirun in mpirun.openmpi mpiexec.hydra; do
    if ! command -v $mpirun >/dev/null 2>&1; then
        echo "skipped: collperf under $mpirun, which is not here"
    elif [ $mpirun = mpirun.openmpi ] && "$mpirun" $root --oversubscribe -n 1 true >/dev/null 2>&1; then
        launched $mpirun $root --oversubscribe -n 3 "$collperf" $few
    elif [ $mpirun = mpiexec.hydra ]; then
        launched $mpirun -n 3 "$collperf" $few
    fi
done

[ "$failures" -eq 0 ] && echo "collperf's report: all good"
[ "$failures" -eq 0 ]

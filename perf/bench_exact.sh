#!/bin/sh
# bench_exact.sh: what TUTTI_COMM_EXACT costs: all_reduce with the canonical tree beside the default.
#
# usage: bench_exact.sh [COLLPERF]
#   COLLPERF  the program to measure (default: ./collperf)
# The environment changes what is measured: BENCH_ROUNDS (5), BENCH_RANKS ("2 8"), BENCH_TYPES ("float
# bfloat16"), BENCH_FROM (64K) and BENCH_TO (8M): each size is four times the one before.
#
# Default and exact alternate within each round, and the medians of all rounds are compared.
set -u
LC_ALL=C
export LC_ALL

collperf=${1:-./collperf}
if [ $# -gt 1 ] || [ ! -x "$collperf" ]; then
    echo "usage: bench_exact.sh [COLLPERF]; $collperf must be a program" >&2
    exit 2
fi
rounds=${BENCH_ROUNDS:-5}

# The words of a command are split on purpose.
failed=$(mktemp) || exit 2
trap 'rm -f "$failed"' EXIT
for round in $(seq 1 "$rounds"); do
    for n in ${BENCH_RANKS:-2 8}; do
        for type in ${BENCH_TYPES:-float bfloat16}; do
            for exact in '' --exact; do
                [ ! -t 2 ] || printf '\r\033[Kround %s: %s ranks, %s' "$round" "$n" "$type" >&2
                "$collperf" all_reduce -g "$n" -d "$type" -b "${BENCH_FROM:-64K}" -e "${BENCH_TO:-8M}" -f 4 \
                    $exact --json </dev/null || echo "$n $type $exact" >>"$failed"
            done
        done
    done
done | awk '
function field(name,    value)
{
    if (!match($0, "\"" name "\": [^,}]*"))
        return ""
    value = substr($0, RSTART, RLENGTH)
    sub(/^[^:]*: /, "", value)
    gsub(/"/, "", value)
    return value
}
function median(key,    i, j, n, t, v)
{
    n = count[key]
    for (i = 1; i <= n; i++) {
        t = value[key, i]
        for (j = i - 1; j > 0 && v[j] > t; j--)
            v[j + 1] = v[j]
        v[j + 1] = t
    }
    return n == 0 ? 0 : n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
field("in_place") == "false" {
    point = field("ranks") SUBSEP field("type") SUBSEP field("bytes")
    key = point SUBSEP field("exact")
    value[key, ++count[key]] = field("time_us") + 0
    if (!(point in seen))
        points[++n_points] = point
    seen[point] = 1
}
END {
    printf "%5s %9s %9s | %11s %11s | %s\n", "ranks", "type", "bytes", "default us", "exact us",
        "exact / default"
    for (i = 1; i <= n_points; i++) {
        split(points[i], p, SUBSEP)
        plain = median(points[i] SUBSEP "false")
        exact = median(points[i] SUBSEP "true")
        ratio = plain > 0 ? sprintf("%.2f", exact / plain) : "-"
        printf "%5s %9s %9s | %11.1f %11.1f | %s\n", p[1], p[2], p[3], plain, exact, ratio
    }
}'
[ ! -t 2 ] || printf '\r\033[K' >&2
[ ! -s "$failed" ] || {
    echo "bench_exact.sh: these failed:" >&2
    cat "$failed" >&2
    exit 1
}

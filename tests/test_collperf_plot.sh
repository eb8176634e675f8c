#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_collperf_plot.sh: what collperf --plot has gnuplot draw, read from the script and from the picture.
#
# usage: COLLPERF=path test_collperf_plot.sh   (default: ./collperf)
#
# A gnuplot of ours keeps the script, so that this needs no gnuplot; where there is one it draws, too.
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

plot() # code picture arguments..
{
    code=$1 picture=$2
    shift 2
    timeout 900 "$collperf" "$@" -n 3 -w 1 --plot "$picture" >"$scratch/out" 2>"$scratch/err" </dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "exit code $got, expected $code: --plot $picture $*"
}

scripted() # pattern what
{
    grep -q -e "$1" "$scratch/script" || fail "$2: the script has no $1"
}

real_path=$PATH
mkdir "$scratch/bin"
gnuplot_that() # commands: what our gnuplot does with its script
{
    printf '#!/bin/sh\n[ "$1" != --version ] || exit 0\n%s\n' "$1" >"$scratch/bin/gnuplot"
    chmod +x "$scratch/bin/gnuplot"
    PATH=$scratch/bin:$real_path
}

# --- A script: every algorithm has a pair of colour and point of its own, in place it is dashed, and each
# stands in the legend once.
gnuplot_that "cat >'$scratch/script'"
plot 0 "$scratch/a.svg" --algo all -g 2 -b 8 -e 4M -f 64
series=$(grep -c 'algorithm: ' "$scratch/out")
[ "$series" -gt 8 ] || fail "there are more than 8 algorithms for all_reduce"
grep '^plot' "$scratch/script" | head -n 1 | tr ',' '\n' >"$scratch/lines"
grep ' dt 1 ' "$scratch/lines" | sed 's/.* lc rgb \([^ ]*\) .* pt \([0-9]*\) .*/\1 \2/' |
    sort -u >"$scratch/pairs"
[ "$(wc -l <"$scratch/pairs")" -eq "$series" ] || fail "$series algorithms, other pairs of colour and point"
[ "$(grep ' dt 2 .* notitle$' "$scratch/lines" | wc -l)" -eq "$series" ] || fail "a dashed line for each"
[ "$(grep -o "title '[^']*'" "$scratch/lines" | sort | uniq -d | wc -l)" -eq 0 ] || fail "a label twice"
scripted "title 'one_shot' noenhanced" 'a label is the algorithm alone'
! grep "title '[^']*all_reduce" "$scratch/script" >/dev/null || fail 'a label repeats the collective'
[ "$(grep -c '^set key' "$scratch/script")" -eq 1 ] || fail 'one legend for both panes'

# --- The same picture names what was measured, and where.
scripted "^set label 1 'all_reduce, 2 ranks, malloc memory, float, sum (dashed: in place)'" 'the title'
scripted "^set label 2 'Tutti [0-9.]* on $(uname -n), .*, $(uname -s) .*, 20[0-9-]*T[0-9:]*Z, " 'the origin'
scripted "^set label 2 .*, \(NEAR\|FAR\|ONE CORE\|class changed\)'" 'the class'
scripted "set xtics ('8 B' 8, .*'2 MiB' 2097152" 'ticks'
! grep -q '%B' "$scratch/script" || fail 'ticks are written by gnuplot'
plot 0 "$scratch/a.svg" all_gather -g 3 -b 6K -e 6K --dirty --memory registered -d int32
scripted "^set label 1 'all_gather, 3 ranks, registered memory, int32, sum, dirty (dashed" 'another title'
scripted "title 'all_gather' noenhanced" 'a label where nothing differs'

# --- A gnuplot that has another PNG terminal, or none; and one that fails.
gnuplot_that "cat >'$scratch/script'; ! grep -q 'terminal pngcairo' '$scratch/script'"
plot 0 "$scratch/a.png" -g 2 -b 8 -e 8
scripted '^set terminal png size' 'a gnuplot without cairo'
gnuplot_that "! grep -q 'terminal png'"
plot 2 "$scratch/a.png" -g 2 -b 8 -e 8
grep -q '^collperf: --plot .*/a.png: this gnuplot cannot write PNG; legal is .* in .svg$' "$scratch/err" ||
    fail 'a gnuplot without PNG'
[ ! -s "$scratch/out" ] || fail 'measured before PNG was missed'
gnuplot_that 'cat >/dev/null; exit 1'
plot 3 "$scratch/a.svg" -g 2 -b 8 -e 8
grep -q 'gnuplot did not draw it' "$scratch/err" || fail 'a gnuplot that fails'

# --- What a gnuplot makes of it.
PATH=$real_path
if gnuplot --version >/dev/null 2>&1; then
    plot 0 "$scratch/real's.svg" all -g 2 -b 8 -e 64K -f 64
    grep -q '</svg>' "$scratch/real's.svg" || fail '--plot draws an SVG file to its end'
    [ ! -s "$scratch/err" ] || fail 'gnuplot complains'
    for label in '>all_reduce<' '>sendrecv<' '>bus bandwidth' '>time of one call' 'dashed: in place'; do
        grep -q "$label" "$scratch/real's.svg" || fail "the picture says nothing of $label"
    done
    ! grep -q '>barrier<' "$scratch/real's.svg" || fail 'a barrier has no place over sizes'
    plot 0 "$scratch/one.svg" -g 2 -b 1M -e 1M
    [ ! -s "$scratch/err" ] || fail 'gnuplot complains of a single size'
    if echo 'set terminal png' | gnuplot - >/dev/null 2>&1; then
        plot 0 "$scratch/real.png" -g 2 -b 8 -e 64K -f 64
        [ "$(head -c 4 "$scratch/real.png" | tail -c 3)" = PNG ] || fail 'a .png is a PNG file'
    else
        echo "skipped: a PNG picture (this gnuplot makes none)"
    fi
else
    echo "skipped: pictures (there is no gnuplot)"
fi

[ "$failures" -eq 0 ] && echo "collperf's plots: all good"
[ "$failures" -eq 0 ]

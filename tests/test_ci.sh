#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_ci.sh: .ci/run ends with an error where a check is missing, and not only where one fails.
#
# Both scripts run in a small tree where everything they call is played.
set -u
here=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
if ! command -v bash >/dev/null; then
    echo "skipped: what CI runs (there is no bash)"
    exit 0
fi
failures=0

fail()
{
    echo "FAILED: $1"
    sed 's/^/    /' "$scratch/said"
    failures=$((failures + 1))
}

play() # FILE LINE..
{
    file=$1
    shift
    { echo '#!/bin/sh' && printf '%s\n' "$@"; } >"$file"
    chmod +x "$file"
}

built='tutti-train training/reference/gpt training/reference/mlp training/reference/cnn' # by clang, to run

# A tree in which all is well. apt-get installs nothing, and notes what it was asked for.
plant()
{
    rm -rf "$scratch/tree" "$scratch/bin"
    mkdir -p "$scratch/tree/build/tests/training" "$scratch/tree/tests/training" "$scratch/bin"
    cp -r "$here/.ci" "$scratch/tree/.ci"
    for command in $(sed -n "/^needs='/,/^'/p" "$here/.ci/run" | awk 'NF == 2 { print $2 }'); do
        play "$scratch/bin/$command" 'exit 0'
    done
    play "$scratch/bin/apt-get" "echo \"\$*\" >>$scratch/asked" 'exit 100'
    play "$scratch/bin/pkg-config" "[ \$2 != \"\${WITHOUT:-}\" ]"
    : >"$scratch/asked"
    play "$scratch/tree/start" 'exit 0'
    play "$scratch/tree/configure" "printf '$built compiled:\n' >Makefile"
    play "$scratch/tree/tests/training/same_bits.sh" 'exit 0'
    echo 'checking' >"$scratch/tree/build/tests/a.log"
    echo 'checking' >"$scratch/tree/build/tests/training/c.log"
    echo 'skipped: srun --mpi=pmix (it starts nothing here)' >"$scratch/tree/build/tests/b.log"
}

run() # CODE WHAT
{
    PATH="$scratch/bin:$PATH" "$scratch/tree/.ci/run" >"$scratch/said" 2>&1
    [ $? -eq "$1" ] || fail "$2: .ci/run does not end with $1"
}

says()
{
    grep -q -e "$1" "$scratch/said" || fail "$2: it does not say $1"
}

plant
run 0 'all is well'
[ ! -s "$scratch/asked" ] || fail 'something was installed, and all was there'

plant
WITHOUT=ompi-c
export WITHOUT
run 1 'a package that is not to be had'
says 'cannot be installed .*: libopenmpi-dev$' 'a package that is not to be had'
grep -q '^install .*libopenmpi-dev' "$scratch/asked" || fail 'it was not installed'
unset WITHOUT

# An older Makefile would build in spite of it.
plant
play "$scratch/tree/configure" 'exit 1'
mkdir "$scratch/tree/build-clang"
echo 'compiled:' >"$scratch/tree/build-clang/Makefile"
run 1 'configure fails with clang'
says 'the build with clang failed' 'configure fails with clang'

plant
play "$scratch/tree/configure" "printf '$built:\ncompiled:\n\tfalse\n' >Makefile"
run 1 'clang fails'

plant
play "$scratch/tree/configure" "printf 'compiled:\n$built:\n\tfalse\n' >Makefile"
run 1 'clang fails with the trainer'

plant
play "$scratch/tree/tests/training/same_bits.sh" 'exit 1'
run 1 "clang's trainer has other bits"

plant
play "$scratch/tree/start" '[ $# -eq 2 ]'
run 1 'a check fails'

# --- What may be skipped.
refuse() # LINE
{
    plant
    echo "$1" >>"$scratch/tree/build/tests/a.log"
    run 1 "$1"
    says "${1#skipped: }" "$1"
    grep -q 'srun' "$scratch/said" && fail 'srun may be skipped'
}

refuse 'skipped: the form of the code (there is no clang-format 14)'
refuse 'skipped: --plot (there is no gnuplot)'
refuse 'skipped: mpirun of MPICH (it is not here)'
refuse 'skipped: something_new/of_a_suite (it did not feel like it)'

plant
echo 'skipped: libtutti_cuda (configured without CUDA)' >>"$scratch/tree/build/tests/a.log"
run 0 'no CUDA'
echo 'skipped: pages/both_ways_agree (what lies on huge pages is not read in half the time here)' \
    >>"$scratch/tree/build/tests/a.log"
run 0 'a machine on which huge pages cannot be told by time'
rm "$scratch/tree/build/tests/"*.log
run 2 'no log at all'

[ "$failures" -eq 0 ]

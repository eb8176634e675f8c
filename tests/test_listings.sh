#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_listings.sh: the programs that the documents show compile without a warning and print what is shown;
# those of the tutorial are the files of examples/.
#
# usage: test_listings.sh [FILE..]   (default: tutorial, numerics and README; run in the build directory)
#
# A block "```c NAME" or "```python NAME" is a file. A block "```console" is a session: lines that begin with
# "$ " are run, one shell for the block, and all other lines are what must appear on stdout. Ranks print when
# they like, so lines are compared in sorted order, and without what differs from run to run (see steady). cc,
# pkg-config, mpirun, tutti-info and tutti-train of a session are those of this build; where Open MPI is not
# here, ranks meet by TUTTI_ID instead.
set -u
LC_ALL=C
export LC_ALL
unset TUTTI_ID TUTTI_RANK TUTTI_SIZE PMIX_RANK
unset PYTHONUNBUFFERED # with it a line is two writes, and those of several ranks mix
build=$(pwd)
sources=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -f "$sources/README.md" ] || sources=$(dirname "$sources")
[ $# -gt 0 ] || set -- "$sources/docs/tutorial.md" "$sources/docs/numerics.md" "$sources/README.md"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0
sessions=0

fail()
{
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# --- The tools of a session.
tool() # name; its body is read from stdin
{
    { echo '#!/bin/sh'; cat; } >"$scratch/bin/$1"
    chmod +x "$scratch/bin/$1"
}
mkdir "$scratch/bin"
set_cc() # words of CC: the first by its full path, for a session's cc is found first
{
    cc=$(command -v "$1")
    shift
    cc="$cc $*"
}
set_cc ${CC:-cc}
tool cc <<END
exec $cc -std=gnu11 -Wall -Wextra -Wshadow -Wconversion -Werror ${SANITIZE:-} "\$@"
END
tool pkg-config <<END
[ "\$*" = "--cflags --libs tutti" ] && echo "-I$sources/lib -L$build/.libs -ltutti"
END
tool tutti-info <<END
exec "$build/tutti-info" "\$@"
END
tool tutti-train <<END
exec "$build/tutti-train" "\$@"
END
mpirun=$(command -v mpirun.openmpi)
if [ -n "$mpirun" ] && [ "${PMIX:-yes}" = yes ]; then
    [ "$(id -u)" -ne 0 ] || mpirun="$mpirun --allow-run-as-root"
    # Its ranks write to a terminal of its own, from which it may read half a line; so each has a file.
    tool mpirun <<END
[ "\$1 \$2" = "--oversubscribe -n" ] || exit 2
n=\$3
said=\$(mktemp -d) || exit 1
shift 3
$mpirun --oversubscribe -n "\$n" sh -c '"\$@" >"\$0/\$PMIX_RANK"' "\$said" "\$@"
code=\$?
cat "\$said"/*
rm -r "\$said"
exit \$code
END
else
    echo "listings: ranks meet by TUTTI_ID (no Open MPI, or no PMIx in this build)"
    tool mpirun <<'END'
[ "$1 $2" = "--oversubscribe -n" ] || exit 2
TUTTI_SIZE=$3
shift 3
tutti-info id >.id &
holder=$!
until [ -s .id ]; do sleep 0.1; done
TUTTI_ID=$(cat .id)
export TUTTI_ID TUTTI_SIZE
rank=0
ranks=
while [ $rank -lt "$TUTTI_SIZE" ]; do
    TUTTI_RANK=$rank "$@" &
    ranks="$ranks $!"
    rank=$((rank + 1))
done
wait $ranks
kill $holder
rm .id
END
fi
PATH=$scratch/bin:$PATH
LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH LD_LIBRARY_PATH

# --- Take a document apart: its files, and session.N with shown.N.
take_apart() # document
{
    awk '
        /^```/ && inside { inside = 0; close(file); close(shown); next }
        /^```(c|python) [a-z_.]+$/ { inside = 1; file = $2; printf "" >file; next }
        /^```console$/ {
            inside = 2
            file = "session." ++count
            shown = "shown." count
            printf "" >shown
            next
        }
        /^```/ { inside = 3; next }
        inside == 2 && /^\$ / { print substr($0, 3) >file; next }
        inside == 2 { print >shown }
        inside == 1 { print >file }' "$1"
}

# The tutorial's files are those of examples/, but for the two lines that each of these begins with.
same_as_examples()
{
    (cd "$sources/examples" && ls ./*.[ch]) >"$scratch/examples"
    ls ./*.[ch] | diff "$scratch/examples" - || fail "examples/ has <, the tutorial has >"
    for listing in *.[ch]; do
        tail -n +3 "$sources/examples/$listing" | diff - "$listing" ||
            fail "examples/$listing is not the tutorial's"
    done
}

# Without the times of tutti-train's steps and what follows them, places in its lists, and blanks at the end.
steady() # file
{
    sed -e 's/^\(step [0-9]* loss .*\) ms [0-9.]* tokens.*/\1/' \
        -e 's/instruction [0-9][0-9]*/instruction N/g' -e 's/ *$//' "$1" | sort
}

run_document() # document
{
    name=$(basename "$1" .md)
    mkdir "$scratch/$name"
    cd "$scratch/$name" || exit 1
    take_apart "$1"
    [ "$name" != tutorial ] || same_as_examples
    for program in *.c *.py; do
        [ ! -f "$program" ] || grep -qE "^cc $program |python3 $program( |$)" session.* ||
            fail "$name: no session runs $program"
    done
    count=1
    while [ -f "session.$count" ]; do
        timeout 600 sh -e "session.$count" >printed 2>said </dev/null
        code=$?
        steady printed >printed.sorted
        steady "shown.$count" >shown.sorted
        diff shown.sorted printed.sorted >difference
        if [ $code -ne 0 ] || [ -s difference ]; then
            fail "$name, session $count, exit code $code; shown are <, printed >:"
            sed 's/^/    /' "session.$count" difference said
        fi
        count=$((count + 1))
        sessions=$((sessions + 1))
    done
}

for document; do
    [ -f "$document" ] || fail "$document: no such file"
    (cd "$(dirname "$document")" && echo "$(pwd)/$(basename "$document")") >"$scratch/path"
    run_document "$(cat "$scratch/path")"
    cd "$build" || exit 1
done
[ "$sessions" -gt 0 ] || fail "no document has a session"
[ "$failures" -eq 0 ] && echo "listings: $sessions sessions print what is shown"
[ "$failures" -eq 0 ]

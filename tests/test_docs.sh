#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_docs.sh: what the documents name exists, and docs/settings.md is what the library says of its settings.
#
# usage: COLLPERF=path INFO=path TRAIN=path test_docs.sh [SOURCES]
#        (default: ./collperf, ./tutti-info, ./tutti-train, the tree here)
#
# A table of names is worth reading as long as each of them can be typed. So each tutti_* and TUTTI_* in the
# documents is looked for in the header, the settings and the programs, each collperf flag in --list options,
# each flag of tutti-train in its help.
set -u
LC_ALL=C
export LC_ALL
collperf=${COLLPERF:-./collperf}
info=${INFO:-./tutti-info}
train=${TRAIN:-./tutti-train}
sources=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -d "$sources/docs/man" ] || sources=$(dirname "$sources")
docs=${1:-$sources} # where the documents are: a test of this test has others
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

fail() # text [file]
{
    echo "FAILED: $1"
    [ $# -lt 2 ] || sed 's/^/    /' "$2"
    failures=$((failures + 1))
}

# The settings as the library has them without any variable: name, variable, scope, default.
env -i PATH="$PATH" "$info" config >"$scratch/config" || fail "tutti-info config"
awk '/^[A-Za-z_]+=.* # / {
        name = $0; sub(/=.*/, "", name)
        value = $0; sub(/^[^=]*=/, "", value); sub(/ *# .*/, "", value)
        scope = $0; sub(/^[^#]*# /, "", scope); sub(/,.*/, "", scope)
        variable = name ~ /^TUTTI_/ ? name : "TUTTI_" toupper(name)
        print name, variable, scope, value == "" ? "empty" : value
    }' "$scratch/config" >"$scratch/settings"
[ "$(wc -l <"$scratch/settings")" -ge 20 ] || fail "tutti-info config lists the settings" "$scratch/config"

# --- Names.
grep -o 'tutti_[a-z_0-9]*[a-z0-9]' "$sources/lib/tutti.h" "$sources/lib/mpi/tutti_mpi.h" |
    sed 's/.*://' | sort -u >"$scratch/functions"
{
    grep -o 'TUTTI_[A-Z_0-9]*[A-Z0-9]' "$sources/lib/tutti.h" | sort -u
    awk '{ print $2 }' "$scratch/settings"
} >"$scratch/constants"
"$collperf" --list options >"$scratch/flags"
for command in train schedule data demo; do
    "$train" $command --help | tr ' ,[' '\n\n\n' | grep -x -e '--*[a-z]*'
done | sort -u >"$scratch/train"
named() # file
{
    sed 's/libtutti_[a-z]*//g; s/pkg-config tutti_mpi//g; s/tutti_mpi\.[a-z]*//g' "$1" >"$scratch/text"
    grep -o '\<tutti_[a-z_0-9]*[a-z0-9]' "$scratch/text" | sort -u |
        grep -vxF -f "$scratch/functions" >"$scratch/unknown"
    grep -o '\<TUTTI_[A-Z_0-9]*[A-Z0-9]' "$scratch/text" | sort -u |
        grep -vxF -f "$scratch/constants" >>"$scratch/unknown"
    grep -o 'collperf [^`|#]*' "$scratch/text" | tr ' ' '\n' | grep -o -e '^--*[a-z-]*$' | sort -u |
        grep -vxF -f "$scratch/flags" >>"$scratch/unknown"
    grep -o 'tutti-train [^`|#]*' "$scratch/text" | tr ' ' '\n' | grep -o -e '^--*[a-z-]*$' | sort -u |
        grep -vxF -f "$scratch/train" >>"$scratch/unknown"
    [ ! -s "$scratch/unknown" ] || fail "$(basename "$1") names what does not exist:" "$scratch/unknown"
    [ "$(grep -c '\<\(tutti\|TUTTI\)_[a-zA-Z]' "$scratch/text")" -ge 3 ] ||
        fail "$(basename "$1") names nothing"
}
for file in "$docs/docs/porting.md" "$docs/docs/settings.md" "$docs/docs/tutorial.md" "$docs/README.md"; do
    named "$file"
done

# --- docs/settings.md: a section for each setting, and none for others, each with variable, scope, default,
# two sentences of meaning and an example.
awk '/^### / { name = $2; n = 0; next }
    name != "" && /^`TUTTI_/ { n++; gsub(/`/, ""); print name, $1, $3, $6 }' "$docs/docs/settings.md" |
    sort >"$scratch/described"
sort "$scratch/settings" >"$scratch/there"
diff "$scratch/there" "$scratch/described" >"$scratch/difference" ||
    fail "settings.md (>) is not what the library says (<)" "$scratch/difference"
awk 'function end_section() { if (name != "" && !(words > 5 && example)) print name }
    /^#/ { end_section(); name = /^### / ? $2 : ""; words = example = 0; next }
    /^    / && name != "" { example = example || index($0, variable "=") > 0; next }
    /^`TUTTI_[A-Z_]*` - / { variable = $1; gsub(/`/, "", variable); next }
    { words += NF }
    END { end_section() }' "$docs/docs/settings.md" >"$scratch/poor"
[ ! -s "$scratch/poor" ] || fail "settings without a meaning or an example in settings.md" "$scratch/poor"

# --- An example of a setting is taken by the library, and arrives.
sed -n 's/^    \(TUTTI_[A-Z_]*=[^ ]*\)$/\1/p' "$docs/docs/settings.md" >"$scratch/examples"
while read -r example; do
    name=$(awk -v variable="${example%%=*}" '$2 == variable { print $1 }' "$scratch/settings")
    env -i PATH="$PATH" "$example" "$info" config >"$scratch/config" 2>&1 ||
        fail "the example $example is refused" "$scratch/config"
    grep -q "^$name=${example#*=} *# [a-z]*, environment: " "$scratch/config" ||
        fail "the example $example does not arrive"
done <"$scratch/examples"
[ "$(wc -l <"$scratch/examples")" -ge 20 ] || fail "there are examples" "$scratch/examples"

# --- docs/porting.md: every function of the header that a program calls is named, so a table stays whole.
grep -o 'tutti_[a-z_0-9]*' "$docs/docs/porting.md" "$docs/docs/tutorial.md" | sed 's/.*://' | sort -u \
    >"$scratch/told"
grep -o '^tutti_status tutti_[a-z_0-9]*(\{0,1\}' "$sources/lib/tutti.h" | sed 's/.* //; s/(//' | sort -u |
    grep -vxF -f "$scratch/told" >"$scratch/untold"
[ ! -s "$scratch/untold" ] || fail "neither porting.md nor tutorial.md names" "$scratch/untold"

# --- debian/control describes each program that the package of the programs installs.
for program in $(sed -n 's,^usr/bin/,,p' "$sources/debian/tutti-tools.install"); do
    sed -n '/^Package: tutti-tools$/,$p' "$sources/debian/control" | grep -q "\<$program\>" ||
        fail "debian/control does not say what $program is"
done

# --- The maps for who works on Tutti: each file and folder that they name is there, a bare name anywhere.
endings='c\|h\|cu\|cuh\|sh\|md\|txt\|py\|map\|symbols'
(cd "$sources" && find . -path ./.git -prune -o -name 'build*' -prune -o -type f -print -o -type d -print) |
    sed 's,^\.,,' >"$scratch/files"
for map in ARCHITECTURE.md CONTRIBUTING.md algorithms/README.md kernels/README.md perf/README.md \
    tests/README.md training/README.md training/*/README.md transports/README.md lib/*/README.md; do
    for file in "$docs"/$map; do
        [ -e "$file" ] || continue
        grep -o '`[A-Za-z_0-9./]*\(/\|\.\('"$endings"'\)\)`' "$file" | tr -d '`' | sed 's,/$,,' |
            grep -v -x -e build -e '.*NAME.*' | sort -u >"$scratch/named"
        awk 'NR == FNR { there[$0]; n = split($0, part, "/"); for (i = n; i > 1; i--) {
                tail = (i == n) ? part[i] : part[i] "/" tail; there[tail] } next }
            !($0 in there)' "$scratch/files" "$scratch/named" >"$scratch/unknown"
        [ ! -s "$scratch/unknown" ] || fail "${file#"$docs"/} names what is not there:" "$scratch/unknown"
    done
done

# --- README's program tells what went wrong, also where the library logs nothing: of a wrong argument.
sed -n '/^```c hello.c$/,/^```$/p' "$docs/README.md" | sed '/^```/d; s/all_reduce(&one/all_reduce(NULL/' \
    >"$scratch/hello.c"
grep -q 'all_reduce(NULL' "$scratch/hello.c" || fail "README's program calls all_reduce with &one"
${CC:-cc} ${SANITIZE:-} -I"$sources/lib" "$scratch/hello.c" -o "$scratch/hello" -L.libs -ltutti \
    -Wl,-rpath,"$(pwd)/.libs" || fail "README's program does not compile"
"$info" id >"$scratch/id" &
holder=$!
tries=0
while [ ! -s "$scratch/id" ] && [ $tries -lt 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
env -u TUTTI_DEBUG TUTTI_ID="$(cat "$scratch/id")" TUTTI_RANK=0 TUTTI_SIZE=1 timeout 600 "$scratch/hello" \
    >"$scratch/out" 2>&1
code=$?
kill $holder
wait $holder 2>/dev/null
[ $code -eq 1 ] || fail "README's program with a wrong argument ends with $code" "$scratch/out"
grep -q 'send' "$scratch/out" || fail "README's program is mute on a wrong argument" "$scratch/out"

[ "$failures" -eq 0 ] && echo "documents: all good"
[ "$failures" -eq 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tidy.sh: the laws of the house that a script can check; part of `make check`, alone by `make tidy`.
#
# usage: tidy.sh [SOURCE_DIRECTORY [BUILD_DIRECTORY]]
#
# A violation is one line, "file:line: [rule] what". tests/test_tidy.sh plants one of each and demands that it
# is found here. POSIX tools only, so that it runs on a bare machine. Words that may stand in no file are
# spelled here with a bracket in them.
set -u
LC_ALL=C
export LC_ALL

source_dir=${1:-${srcdir:-$(dirname "$0")/..}}
build_dir=$(cd "${2:-.}" && pwd) && cd "$source_dir" && scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

# --- What is looked at: code and scripts in the rooms; the words in them and in the files around them.
{
    for room in lib algorithms transports kernels perf examples tests training python; do
        [ ! -d "$room" ] || find "$room" -type f
    done | grep -E '\.(c|h|cu|cuh|sh|py)$'
    ls start autogen.sh .ci/nightly .ci/run .ci/skips 2>/dev/null
} | sort >"$scratch/code"
{
    cat "$scratch/code"
    ls configure.ac Makefile.am tutti.pc.in lib/tutti.map *.md 2>/dev/null
    for room in docs cmake debian examples; do
        [ ! -d "$room" ] || find "$room" -type f
    done
} >"$scratch/texts"

# --- Code, line by line. `plain` is the line without comments and without what stands between quotes.
cat >"$scratch/code.awk" <<'AWK'
function report(line, rule, what)
{
    printf "%s:%d: [%s] %s\n", FILENAME, line, rule, what
}

function strip(s,    plain, i, n, c, two, quote)
{
    n = length(s)
    for (i = 1; i <= n; i++) {
        c = substr(s, i, 1)
        two = substr(s, i, 2)
        if (commented) {
            if (two == "*/") {
                commented = 0
                i++
            }
        } else if (quote != "") {
            if (c == "\\")
                i++
            else if (c == quote)
                quote = ""
        } else if (two == "/*") {
            commented = 1
            i++
        } else if (two == "//") {
            break
        } else {
            plain = plain c
            if (c == "\"" || c == "'")
                quote = c
        }
    }
    return plain
}

# The room of a file of the house: a folder at the top, or of lib/ or training/; tutti.h is open to all. The
# files beside the rooms of training/ are three rooms by their names.
function room_of(path)
{
    if (path == "lib/tutti.h")
        return "public"
    if (path ~ /^training\/(error|launch|mesh|resident)\.[ch]$/)
        return "training/base"
    if (path ~ /^training\/(options|configure(_[a-z]+)?)\.[ch]$/)
        return "training/options"
    if (path == "training/main.c")
        return "training/main"
    if (path ~ /^training\/kernels\/cuda\//)
        return "training/kernels/cuda"
    if (match(path, /^(lib|training)\/[^\/]*\//))
        return substr(path, 1, RLENGTH - 1)
    sub(/\/.*/, "", path)
    return path
}

function include_target(name,    own)
{
    own = FILENAME
    sub(/[^\/]*$/, name, own)
    if (own in known)
        return room_of(own)
    if (name in known)
        return room_of(name)
    return ("lib/" name) in known ? room_of("lib/" name) : ""
}

function check_include(line,    name, target)
{
    name = line
    sub(/^[ \t]*#[ \t]*include[ \t]*[<"]/, "", name)
    sub(/[>"].*/, "", name)
    if (name ~ /\.\./)
        report(FNR, "include", name ": no path goes up")
    target = include_target(name)
    if (place[room] && place[target] && name !~ /\//)
        report(FNR, "include", name ": a header of lib/ is named with its room")
    if (target == "" || target == room || target == "public" || room == "tests")
        return
    if (room == "training/kernels/cuda" && name == "kernels/cuda/cuda_primitives.cuh") # words for a device
        return
    if (target == "lib/base" && room ~ /^(algorithms|transports|kernels)$/)
        return
    if (FILENAME ~ /^perf\/sim\//) # it shows what the library would do, and looks inside as tests do
        return
    if (FILENAME == "perf/collperf/device.c" && name == "base/dev.h") # memory of a device: not in tutti.h
        return
    if (place[target] && place[target] < place[room])
        return
    if (level[target] && level[target] < level[room] && !((room, target) in hidden))
        return
    if (place[room] > 1 && target ~ /^(algorithms|transports|kernels)$/)
        return
    report(FNR, "include", name ": from " room " to " target " is against the arrows")
}

# perf/, training/ and lib/nccl/ see tutti.h only, so each has one file of its own for what lib/base keeps
# in one.
function is_the_one(what)
{
    if (room !~ /^(perf|training\/.*|lib\/nccl)$/)
        return 0
    if (!((house, what) in the_one))
        the_one[house, what] = FILENAME
    return the_one[house, what] == FILENAME
}

function check_names(plain)
{
    if (FILENAME !~ /^((training\/)?kernels|transports|tests)\/cuda\// && FILENAME !~ /nccl/ && plain ~ cuda)
        report(FNR, "cuda", "CUDA names stand in cuda/ of kernels, transports and tests, and the NCCL shim")
    if (room == "training/run" && plain ~ planned)
        report(FNR, "plan", "who runs a list asks no plan: an instruction says it, or the list")
    if (FILENAME ~ /^training\/passes\/(lower|borders|hold|end)\.c$/ && plain ~ paradigm)
        report(FNR, "pass", "who writes a list knows no paradigm: it asks the rows of pass.h")
    if (room ~ /^(tests|examples)$/)
        return
    if (room ~ /^training\/(ops|run)$/ && plain ~ copying)
        report(FNR, "memory", "values may lie on a device: a kernel copies and fills, or the back end")
    if (place[room] > 1 && plain ~ waiting &&
        FILENAME !~ /^lib\/device\/device(_memory|_capture|_words|_local_open|_led_open|_places)?\.c$/ &&
        FILENAME !~ /^lib\/(segment\/importer|spin\/spin_(home|open|trial))\.c$/)
        report(FNR, "enqueue", "what may wait for all streams is called where devices are opened and closed")
    if (FILENAME != "lib/base/config.c" && plain ~ environment && !is_the_one("environment"))
        report(FNR, "getenv", "the environment is read in lib/base/config.c, and in one file of a program")
    if (FILENAME != "lib/base/wait.c" && plain ~ sleeping)
        report(FNR, "wait", "only lib/base/wait.c sleeps, yields or calls futex")
    if (FILENAME !~ /(^|\/)fork\.c$/ && plain ~ forking)
        report(FNR, "fork", "handlers of a fork are called by fork.c, in the order of the locks")
    if (FILENAME != "lib/base/clock.c" && plain ~ clocks && !is_the_one("clock"))
        report(FNR, "clock", "clocks are read in lib/base/clock.c, and in one file of a program")
}

function check_goto(plain,    name)
{
    if (plain ~ /^[ \t]*[A-Za-z_][A-Za-z_0-9]*:([^:]|$)/) {
        name = plain
        sub(/:.*/, "", name)
        gsub(/[ \t]/, "", name)
        labels = labels " " name " "
    }
    if (plain ~ /(^|[^A-Za-z0-9_])goto[ \t]/) {
        name = plain
        sub(/^.*goto[ \t]+/, "", name)
        sub(/[ \t]*;.*/, "", name)
        if (name !~ /^[A-Za-z_][A-Za-z_0-9]*$/ || index(labels, " " name " "))
            report(FNR, "goto", "goto " name ": only forward, to a label of this function")
    }
}

# A declaration of a variable that may change while the program runs, of a file or static in a function. Locks
# and once-flags are known by their types.
function note_variable(text,    name, at)
{
    gsub(/\[[^]]*\]/, "", text)
    gsub(/@/, " @ ", text)
    at = index(text, "_Atomic(")
    if (at > 0) {
        sub(/_Atomic\(/, "_Atomic ", text)
        name = substr(text, at)
        sub(/\)/, " ", name)
        text = substr(text, 1, at - 1) name
    }
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    if (text ~ /^(typedef|extern|_Static_assert)([^A-Za-z0-9_]|$)|[A-Za-z0-9_]\(/ || text !~ /[ *]/)
        return
    if (depth > 0 && text !~ /(^| )static /)
        return
    if (text ~ /^(struct|union|enum) [A-Za-z0-9_]* ?$|@ $/ || text ~ /(^| )pthread_(mutex|once)_t /)
        return
    if (text ~ /\*/ ? text ~ /\* ?const[^*]*$/ : text ~ /(^| )const /)
        return
    name = text
    sub(/\).*/, "", name)
    sub(/ $/, "", name)
    sub(/.*[^A-Za-z0-9_]/, "", name)
    if (name != "")
        print FILENAME, name, FNR >>variables
}

# What stands between the brackets that are open now: "struct", "code", or something else.
function open_bracket()
{
    kind[++depth] = "code"
    if (pending ~ /(^|[^A-Za-z0-9_])(struct|union)([ \t]+[A-Za-z0-9_]+)?[ \t]*$/)
        kind[depth] = "struct"
    else if (pending ~ /(^|[^A-Za-z0-9_])enum([ \t]+[A-Za-z0-9_]+)?[ \t]*$/)
        kind[depth] = "enum"
    else if (valued)
        kind[depth] = "value"
    was_valued[depth] = valued
    valued = 0
    members[depth] = 0
    opened[depth] = FNR
    before[depth] = pending
    pending = ""
}

# A struct without a name counts as its members: they are members of what is around it. "@" stands for it.
function close_bracket()
{
    if (kind[depth] == "struct" && members[depth] > 30)
        report(opened[depth], "members", members[depth] " members; a struct of 30 is legal")
    valued = was_valued[depth]
    unnamed = kind[depth] == "struct" ? members[depth] : 1
    pending = kind[depth] ~ /struct|enum/ ? before[depth] "@" : ""
    depth--
}

# Reads on in the declarations of a file: `plain` is its next line.
function read_declarations(plain,    c)
{
    gsub(/__attribute__[ \t]*\(\(.*\)\)|_Alignas[ \t]*\([^()]*\)/, "", plain)
    while (match(plain, /[][{}(),;=]/)) {
        c = substr(plain, RSTART, 1)
        pending = pending substr(plain, 1, RSTART - 1)
        plain = substr(plain, RSTART + 1)
        if (c ~ /[[(]/) {
            nest++
        } else if (c ~ /[])]/) {
            nest--
        } else if (c == "{" && nest == 0) {
            open_bracket()
            continue
        } else if (c == "}" && nest == 0) {
            close_bracket()
            continue
        } else if (c ~ /[,;=]/ && nest == 0) {
            if (!valued && kind[depth] == "code" && keeps_state)
                note_variable(pending)
            valued = c == "=" || (valued && c == ",")
            if (c == "=")
                continue
            members[depth] += pending ~ /@[ \t]*$/ ? unnamed : 1
            pending = ""
            continue
        }
        pending = pending c
    }
    pending = pending plain " "
}

BEGIN {
    # The rooms of lib/: each includes itself and those before it, and all but the first what is beside lib/.
    rooms = split("base call observe bootstrap launch select exec run stream segment spin device comm api", \
        order, " ")
    for (i = 1; i <= rooms; i++)
        place["lib/" order[i]] = i
    # Those of training/, likewise. Kernels know no graph, and the golden programs nothing of the rest.
    rooms = split("base page kernels kernels/cuda backend schedule data text model parallel ops place tape " \
        "passes check account run planning errors checkpoint weights report options translate commands " \
        "advice verify compare demo exercise sample main", order, " ")
    for (i = 1; i <= rooms; i++)
        level["training/" order[i]] = i
    hidden["training/demo", "training/compare"] = hidden["training/exercise", "training/demo"] = 1
    # What a pass noted is not believed, and who runs a list asks nobody how it came about.
    hidden["training/check", "training/passes"] = hidden["training/errors", "training/passes"] = 1
    hidden["training/run", "training/passes"] = hidden["training/run", "training/check"] = 1
    hidden["training/run", "training/parallel"] = 1
    hidden["training/account", "training/passes"] = hidden["training/account", "training/check"] = 1
    while ((getline path <list) > 0)
        known[path] = 1
    b = "(^|[^A-Za-z0-9_])"
    cuda = b "(cuda[A-Z]|cu[A-Z][a-z]+[A-Za-z]*[ \t]*\\(|CU[a-z]+[ \t*]|CU_[A-Z]|CUDA_[A-Z]" \
        "|__(global|device|shared|syncthreads)(__|\\())|<<<|include[ \t]*<cuda"
    environment = b "(secure_getenv|getenv|environ)([^A-Za-z0-9_]|$)"
    sleeping = b "((clock_)?nanosleep|u?sleep|thrd_(sleep|yield)|(sched|pthread)_yield|(SYS_)?futex[a-z_]*)" \
        "[ \t]*[(,]"
    waiting = "dev->(memory\\.((alloc|free)(_(managed|pinned))?|pin|unpin)|preload" \
        "|stream\\.(sync|create|destroy)|event\\.(create|destroy)|segment\\.(alloc|free|import))[ \t]*\\("
    planned = "(->|\\.)plan([^A-Za-z0-9_]|$)|struct tr_plan([^A-Za-z0-9_]|$)"
    paradigm = "(->|\\.)(zero|recompute|offload|reduce|servers?|numbers|async|no_flush)([^A-Za-z0-9_]|$)" \
        "|" b "tr_pass_"
    copying = b "mem(cpy|move|set)[ \t]*\\("
    forking = b "pthread_atfork[ \t]*\\("
    clocks = b "(clock_gettime|gettimeofday|timespec_get|time|clock|__rdtscp?)[ \t]*\\("
}

FNR == 1 {
    script = FILENAME !~ /\.(c|h|cu|cuh)$/
    manual = FILENAME == "lib/tutti.h" # has the words of each function
    golden = FILENAME ~ /^training\/reference\// # stands alone, to be read from top to bottom
    program = script && (/^#!/ || FILENAME !~ /\.py$/) # what is imported names no interpreter
    room = room_of(FILENAME)
    house = room
    sub(/^training\/.*/, "training", house)
    if (room == "lib" || room == "training")
        report(1, "room", "a file of " room "/ stands in one of its rooms")
    if (house == "training" && !level[room] && room != "training" && !golden)
        report(1, "room", room " has no place among the rooms of training/, which tests/tidy.sh lists")
    if ((place[room] > 1 || house == "training") && ++files[room] == 26)
        report(1, "room", room " has more than 25 files")
    commented = inside = depth = nest = directive = valued = 0
    kind[0] = "code"
    keeps_state = room ~ /^(lib\/.*|training\/.*|algorithms|transports|kernels|perf)$/ && !golden &&
        FILENAME ~ /\.[ch]$/
    pending = ""
    if (program && !/^#!/)
        report(1, "opening", "a script opens with the program that runs it")
}
FNR == 1 + program && !/^(#|\/\*) SPDX-License-Identifier: BSD-3-Clause( \*\/)?$/ {
    report(FNR, "licence", "first comes a line that names the licence, as in every file")
}
FNR == 2 + program && !(script ? /^(# |""")/ : /^\/\*/) {
    report(FNR, "opening", "a file opens with a comment: what it is, and why it is so")
}
length($0) > 110 {
    report(FNR, "columns", length($0) " columns; 110 are legal")
}
FNR == (golden ? 1162 : manual ? 902 : 602) { # with the line of the licence
    report(FNR, "file length", (golden ? 1160 : manual ? 900 : 600) " lines a file are legal")
}
script {
    next
}
{
    begun = commented
    plain = strip($0)
}
!begun && /^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    check_include($0)
}
{
    check_names(plain)
}
directive || plain ~ /^[ \t]*#/ {
    directive = plain ~ /\\$/
    plain = ""
}
room ~ /^(lib\/.*|training\/.*|algorithms|transports|kernels|perf)$/ {
    read_declarations(plain)
}
/^\{/ {
    begin = FNR
    inside = 1
    labels = ""
}
inside {
    check_goto(plain)
}
/^\}/ && inside {
    inside = 0
    if (FNR - begin + 1 > 70)
        report(begin, "function length", FNR - begin + 1 " lines; 70 are legal")
}
AWK
xargs awk -v list="$scratch/code" -v variables="$scratch/variables" \
    -f "$scratch/code.awk" <"$scratch/code" >"$scratch/found"

# --- Variables that may change are those of the table in CONTRIBUTING.md, at most 24 of a library's state.
if [ -f CONTRIBUTING.md ]; then
    touch "$scratch/variables"
    awk -F'|' '
        FNR == NR {
            if ($0 ~ /^\| `[A-Za-z0-9_]+` \|/) {
                gsub(/[ `]/, "", $2)
                gsub(/ /, "", $3)
                listed[$3 " " $2] = FNR
                library = $3 ~ /^lib\/nccl\// ? "libnccl" : "libtutti"
                if ($3 ~ /^(training|perf|transports\/sim)\//)
                    library = $3
                states[library] += $4 ~ /^ state/
                if (states[library] == 25 && $4 ~ /^ state/)
                    print "CONTRIBUTING.md:" FNR ": [variable] " $2 ": more than 24 keep state"
            }
            next
        }
        {
            split($0, word, " ")
            there[word[1] " " word[2]] = 1
            if (!(word[1] " " word[2] in listed))
                print word[1] ":" word[3] ": [variable] " word[2] ": CONTRIBUTING.md does not list it"
        }
        END {
            for (each in listed)
                if (!(each in there))
                    print "CONTRIBUTING.md:" listed[each] ": [variable] " each ": there is none"
        }' CONTRIBUTING.md "$scratch/variables" >>"$scratch/found"
fi

# --- Words that may stand nowhere.
cat >"$scratch/words.awk" <<'AWK'
function report(rule, what)
{
    printf "%s:%d: [%s] %s\n", FILENAME, FNR, rule, what
}
/(^|[^A-Za-z0-9_])([T]ODO|[F]IXME|[X]XX)([^A-Za-z0-9_]|$)/ {
    report("unfinished", "finish it, or say in a sentence why it is so")
}
/(^|[^A-Za-z0-9_.}])\/([h]ome|[w]ork|[r]oot|[U]sers)\// {
    report("path", "a path of somebody's machine")
}
AWK
xargs awk -f "$scratch/words.awk" <"$scratch/texts" >>"$scratch/found"

# --- A file that no rule of the build names is not built, not tested and not shipped. A room of training/
# that it names has a README.md that is shipped.
if [ -f Makefile.am ]; then
    find training -mindepth 2 -name README.md >"$scratch/rooms" 2>/dev/null
    cat Makefile.am training/*.am 2>/dev/null | awk '
        FNR == NR { for (i = 1; i <= NF; i++) named[$i] = named["training/" $i "/README.md"] = 1; next }
        !($0 in named) { print $0 ":1: [makefile] Makefile.am does not name this file" }' \
        - "$scratch/code" "$scratch/rooms" >>"$scratch/found"
fi

# --- Form, where the version that defines it is here.
form=$(command -v clang-format-14 || echo clang-format)
if "$form" --version 2>/dev/null | grep -q 'version 14\.'; then
    grep -E '\.(c|h|cu|cuh)$' "$scratch/code" | xargs "$form" --dry-run --style=file 2>&1 |
        awk -F: '/clang-format-violations/ && !seen[$1]++ {
            print $1 ":" $2 ": [format] clang-format would change this file" }' >>"$scratch/found"
else
    echo "skipped: the form of the code (there is no clang-format 14)"
fi

# --- Names that the linker sees.
archive=$build_dir/.libs/libtutti_core.a
if [ -f "$archive" ]; then
    ${NM:-nm} -g --defined-only "$archive" |
        awk '
            NF == 3 && $3 !~ /^(tt_|tutti_)/ && $3 !~ /^__(odr_)?(asan|tsan|ubsan)/ {
                print $3 ":1: [symbol] an extern name starts with tt_, or tutti_ if it is public"
            }' >>"$scratch/found"
else
    echo "skipped: extern names (nothing is built here)"
fi

sort -t: -k1,1 -k2,2n "$scratch/found"
violations=$(wc -l <"$scratch/found")
echo "tidy: $((violations)) violations in $(($(wc -l <"$scratch/code"))) files"
[ "$violations" -eq 0 ]

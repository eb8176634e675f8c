#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_tidy.sh: tidy.sh must find one planted violation of each rule, and nothing in a tidy tree: a check
# that cannot fail is worse than none. The tree is a small one, so that this takes seconds whatever the house
# holds.
set -u
here=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -f "$here/tests/tidy.sh" ] || here=$(dirname "$here")
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
trap 'exit 1' HUP INT TERM
failures=0
cases=0
rooms='base call observe bootstrap launch select exec run stream segment device comm api' # by includes
licence='SPDX-License-Identifier: BSD-3-Clause'

tidy()
{
    sh "$here/tests/tidy.sh" "$tree/source" "$tree/build" >"$tree/said" 2>&1
}

fail()
{
    echo "test_tidy: $1"
    sed 's/^/    /' "$tree/said"
    failures=$((failures + 1))
}

# A fresh tree that breaks no rule.
plant()
{
    rm -rf "$tree/source" "$tree/build"
    cp -r "$tree/fresh" "$tree/source" && mkdir -p "$tree/build/.libs" && cd "$tree/source" || exit 1
}

# One file for each room, and the words that only look like violations.
sow()
{
    mkdir -p "$tree/fresh" && cd "$tree/fresh" || exit 1
    for room in $rooms; do
        mkdir -p lib/$room
    done
    mkdir -p lib/nccl algorithms transports/cuda kernels/cuda perf/collperf tests/api tests/cuda docs
    mkdir -p training/verify training/compare training/demo training/model training/ops training/parallel \
        training/passes training/run
    mkdir -p training/kernels/cuda
    cp "$here/.clang-format" .
    printf '#!/bin/sh\n# %s\n# start: a script.\n' "$licence" >start
    for each in lib/api/api.c lib/base/clock.c lib/base/config.c lib/base/wait.c lib/base/log.c \
        algorithms/ring.c transports/shm.c transports/cuda_ipc.c transports/cuda/cuda_ipc.c \
        kernels/cuda/cuda_fold.cu kernels/cuda/cuda_fold.cuh \
        kernels/fold.c lib/base/dev.h perf/collperf/clock.c perf/collperf/device.c perf/collperf/run.c \
        lib/nccl/calls.c lib/nccl/words.c perf/collperf/run.h \
        tests/api/test_x.c tests/cuda/test_x.c training/verify/train.c \
        training/verify/verify.h training/compare/compare.h training/demo/demo.c training/model/graph.c \
        training/ops/site.c training/parallel/map.h training/passes/lower.c \
        training/passes/zero.c training/run/run.c \
        training/error.h training/mesh.h training/options.h training/options.c training/main.c \
        training/kernels/set.c training/kernels/cuda/train_set.cu kernels/cuda/cuda_primitives.cuh \
        lib/tutti.h lib/base/log.h algorithms/ring.h \
        $(printf 'lib/%s/room.h ' $rooms); do
        printf '/* %s */\n' "$licence" >"$each"
        printf '/* %s: a file. It may speak of getenv(), time() and cudaMalloc. */\n' "$each" >>"$each"
        echo "$each"
    done >names
    { printf 'all = start '; tr '\n' ' ' <names; } >Makefile.am
    rm names
    cat >>lib/api/api.c <<'END'
#include "algorithms/ring.h"
#include "base/log.h"
#include "tutti.h"

int tutti_api(int a)
{
    const char *text = "getenv() and // time() and cudaMalloc";
    if (a)
        goto out;
    a = text[0];
out:
    return a;
}

void tutti_second(int real_time, int a)
{
    if (a)
        goto out;
    real_time++;
out:
    return;
}
END
    printf '#include "run.h"\n#include "tutti.h"\n' >>perf/collperf/run.c
    printf '#include "base/dev.h"\n' >>perf/collperf/device.c
    printf '#include "training/error.h"\n#include "training/mesh.h"\n' |
        tee -a training/model/graph.c >>training/options.h
    printf '#include "training/options.h"\n' | tee -a training/options.c >>training/verify/verify.h
    printf '#include "training/verify/verify.h"\n' | tee -a training/demo/demo.c >>training/compare/compare.h
    printf '#include "training/compare/compare.h"\n' >>training/main.c
    printf '#include "base/log.h"\n' >>algorithms/ring.c
    before=
    for room in $rooms; do
        for above in $before; do
            printf '#include "%s/room.h"\n' "$above"
        done >>lib/$room/room.h
        before="$before $room"
    done
    printf 'long f(void)\n{\n    return time(0);\n}\n' | tee -a lib/base/clock.c >>perf/collperf/clock.c
    printf 'char *f(void)\n{\n    return getenv("A");\n}\n' >>lib/base/config.c
    printf 'void f(void)\n{\n    sched_yield();\n}\n' | tee -a lib/base/wait.c >>tests/api/test_x.c
    printf 'void f(void)\n{\n    cudaFree(0);\n}\n' | tee -a transports/cuda/cuda_ipc.c >>tests/cuda/test_x.c
    printf '#include "kernels/cuda/cuda_primitives.cuh"\nvoid f(void)\n{\n    cudaFree(0);\n}\n' \
        >>training/kernels/cuda/train_set.cu
}

# add FILE: one more, that breaks no rule.
add()
{
    mkdir -p "$(dirname "$1")"
    printf '/* %s */\n/* %s: a file. */\n' "$licence" "$1" >"$1"
    printf ' %s' "$1" >>Makefile.am
}

golden_program()
{
    add training/reference/x.c
}

# refuse RULE FILE: what was planted since `plant` must be found, in that file, by that rule, and alone.
refuse()
{
    cases=$((cases + 1))
    if tidy; then
        fail "[$1] in $2 was not refused"
    elif ! grep -q "^$2:[0-9]*: \[$1\]" "$tree/said"; then
        fail "[$1] in $2 was not found"
    elif [ "$(grep -c ': \[' "$tree/said")" -ne 1 ]; then
        fail "[$1] in $2 was not found alone"
    fi
}

body()
{
    printf 'void f(void)\n{\n    %s\n}\n' "$1"
}

lines()
{
    awk -v n="$1" -v text="$2" 'BEGIN { while (n-- > 0) print text }'
}

sow
plant
tidy || fail "a tidy tree was refused"

plant; lines 600 'extern int tutti_a;' >>lib/base/log.c; refuse 'file length' lib/base/log.c
plant; lines 599 'extern int tutti_a;' >>lib/base/log.c; tidy || fail "600 lines a file were refused"
plant; lines 899 'extern int tutti_a;' >>lib/tutti.h; tidy || fail "900 lines of tutti.h were refused"
plant; lines 900 'extern int tutti_a;' >>lib/tutti.h; refuse 'file length' lib/tutti.h
plant; golden_program
lines 1159 'extern int tutti_a;' >>training/reference/x.c; tidy || fail "a golden program of 1160 lines"
echo 'extern int tutti_a;' >>training/reference/x.c; refuse 'file length' training/reference/x.c
plant; { echo 'void f(void)'; echo '{'; lines 69 '    f();'; echo '}'; } >>lib/base/log.c
refuse 'function length' lib/base/log.c
plant; { echo 'void f(void)'; echo '{'; lines 68 '    f();'; echo '}'; } >>lib/base/log.c
tidy || fail "70 lines a function were refused"
# Variables: what is listed in no table, what is listed and gone, and more than 24 that keep state.
while read -r code declaration; do
    plant; echo '# Contributing' >CONTRIBUTING.md
    printf '%s\n' "$declaration" >>$code; refuse variable $code
    printf '| `a` | %s | fact | x |\n' $code >>CONTRIBUTING.md
    tidy || fail "a variable of the table was refused"
done <<'END'
lib/base/log.c static int a;
algorithms/ring.h static int a;
transports/shm.c static int a;
kernels/fold.c static int a;
lib/base/log.c int a = 3;
algorithms/ring.h static int a[] = { 1, 2 };
transports/shm.c static const char *a = "";
kernels/fold.c static struct tt_b *const *a;
lib/base/log.c static struct tt_b a = { .c = 1, .d = f(1, 2) };
algorithms/ring.h static _Atomic(const char *) a;
transports/shm.c static void (*a)(int b);
kernels/fold.c static enum tt_b a;
lib/base/log.c static _Thread_local bool a;
END
for form in '    static int a = 1;' '    if (b) {\n        static struct tt_b *a;\n    }'; do
    plant; echo '# Contributing' >CONTRIBUTING.md
    printf "void f(int b)\n{\n$form\n    int c;\n}\n" >>lib/base/log.c; refuse variable lib/base/log.c
done
plant; echo '# Contributing' >CONTRIBUTING.md
printf 'static struct {\n    int b, c;\n} a;\n' >>lib/base/log.c; refuse variable lib/base/log.c
plant; echo '# Contributing' >CONTRIBUTING.md
cat >>lib/base/log.c <<'END'
struct tt_a;
struct tt_b {
    int c;
};
enum tt_c { TT_D = 1, TT_E = 2 };
typedef int tt_f;
extern int tt_g;
static const int h = 1;
static const char *const i[] = { "a", "b" };
static const struct {
    const char *j;
} k[] = { { "a" }, { "b" } };
static pthread_mutex_t l = PTHREAD_MUTEX_INITIALIZER;
static int m(int n, void (*o)(int p));
END
tidy || fail "what is no variable was refused"
plant; { echo; echo '| `a` | lib/base/log.c | fact | x |'; } >CONTRIBUTING.md; refuse variable CONTRIBUTING.md
for most in 24 25; do
    plant; echo >CONTRIBUTING.md
    for i in $(lines $most i | awk '{ print $1 NR }'); do
        echo "| \`$i\` | lib/base/log.c | state | x |" >>CONTRIBUTING.md
        echo "static int $i;" >>lib/base/log.c
    done
    if [ $most -eq 24 ]; then
        echo '| `a_nccl` | lib/nccl/words.c | state | x |' >>CONTRIBUTING.md
        echo 'static int a_nccl;' >>lib/nccl/words.c
        tidy || fail "24 variables, and one of another library, were refused"
    else
        refuse variable CONTRIBUTING.md
    fi
done

for code in training/verify/train.c perf/collperf/run.c; do
    plant; echo '# Contributing' >CONTRIBUTING.md; echo 'static int a;' >>$code; refuse variable $code
    printf '| `a` | %s | state | x |\n' $code >>CONTRIBUTING.md
    tidy || fail "a variable of a program, in the table, was refused"
done
plant; echo '# Contributing' >CONTRIBUTING.md; golden_program; echo 'static int a;' >>training/reference/x.c
tidy || fail "a variable of a golden program was refused"

members()
{
    printf 'struct __attribute__((packed)) tt_a {\n'
    lines "$1" '    int (*a)(int b, int c); /* one; not two */'
    printf '    int b[2], c;\n    struct {\n        int d;\n        enum { X, Y } e;\n    }%s;\n};\n' "$2"
}
for code in lib/base/log.h algorithms/ring.h transports/shm.c kernels/fold.c perf/collperf/run.h \
    training/verify/verify.h; do
    plant; members 28 ' d' >>$code; refuse members $code
    plant; members 27 '' >>$code; refuse members $code
    plant; { members 27 ' d'; members 26 ''; } >>$code; tidy || fail "30 members of a struct were refused"
done
plant; { echo 'enum {'; lines 31 '    A,'; printf '    B,\n};\nextern int a;\n'; } >>lib/base/log.h
tidy || fail "what is no member was counted"
for code in kernels/cuda/cuda_fold.cu kernels/cuda/cuda_fold.cuh; do
    plant; lines 600 'extern int tutti_a;' >>$code; refuse 'file length' $code
    plant; printf '#include "algorithms/ring.h"\n' >>$code; refuse include $code
    plant; printf '/* %s */\nint a;\n' "$licence" >$code; refuse opening $code
    plant; sed -i 1d $code; refuse licence $code
done
plant; printf '/* %105s */\n' . >>lib/base/log.h; refuse columns lib/base/log.h
plant; printf '/* %104s */\n' . >>lib/base/log.h; tidy || fail "110 columns were refused"
plant; printf '/* %s */\nint a;\n' "$licence" >algorithms/ring.h; refuse opening algorithms/ring.h
plant; printf '/* %s */\n' 'a file.' 'a file' >algorithms/ring.h; refuse licence algorithms/ring.h
plant; printf '#!/bin/sh\n# %s\necho\n' "$licence" >start; refuse opening start
plant; printf '#!/bin/sh\n# a script.\n# a script.\n' >start; refuse licence start
plant; printf '# %s\n# a script.\n' "$licence" | sed 1i. >start; refuse opening start
plant; printf '#!/bin/sh\n# %s\necho\n' "$licence" >tests/x.sh; printf ' tests/x.sh' >>Makefile.am
refuse opening tests/x.sh
for form in '' '#!/usr/bin/env python3'; do
    for opening in '"""It is a module."""' '# It is a module.'; do
        plant; mkdir python; printf ' python/x.py' >>Makefile.am
        printf '%s\n' "${form:-# $licence}" "${form:+# $licence}" "$opening" | sed '/^$/d' >python/x.py
        tidy || fail "a module of Python was refused"
        printf '#%110s\n' . >>python/x.py; refuse columns python/x.py
    done
    plant; mkdir python; printf ' python/x.py' >>Makefile.am
    printf '%s\n' "${form:-# $licence}" "${form:+# $licence}" 'import os' | sed '/^$/d' >python/x.py
    refuse opening python/x.py
    plant; mkdir python; printf ' python/x.py' >>Makefile.am
    printf '%s\n' "$form" '# no licence' '# no licence' | sed '/^$/d' >python/x.py; refuse licence python/x.py
done

# The arrows. The first word is a file, the second what it must not include.
while read -r from to; do
    plant
    case "$from $to" in *reference/x.c*) golden_program ;; esac
    printf '#include "%s"\n' "$to" >>"$from"
    refuse include "$from"
done <<'END'
lib/base/log.c algorithms/ring.h
lib/base/log.h lib/api/api.c
algorithms/ring.c api/room.h
transports/shm.c call/room.h
lib/base/room.h api/room.h
lib/base/room.h kernels/fold.c
lib/api/api.c room.h
algorithms/ring.c transports/shm.c
transports/shm.c kernels/fold.c
kernels/fold.c algorithms/ring.h
perf/collperf/run.c base/log.h
perf/collperf/run.h algorithms/ring.h
training/verify/train.c perf/collperf/run.h
training/verify/train.c training/compare/compare.h
training/model/graph.c training/options.h
training/error.h training/options.h
training/options.c training/verify/verify.h
training/demo/demo.c training/compare/compare.h
training/demo/demo.c training/main.c
training/run/run.c training/parallel/map.h
training/reference/x.c training/error.h
training/verify/train.c training/reference/x.c
training/verify/train.c base/log.h
lib/api/api.c perf/collperf/run.h
lib/api/api.c tests/api/test_x.c
lib/api/api.c ../lib/tutti.h
END
above=
for room in $rooms; do
    if [ -n "$above" ]; then
        plant; printf '#include "%s/room.h"\n' "$room" >>lib/$above/room.h; refuse include lib/$above/room.h
    fi
    above=$room
done
plant; mkdir lib/mpi; printf ' lib/mpi/x.c' >>Makefile.am
printf '/* %s */\n' "$licence" 'x.c: a file.' >lib/mpi/x.c; tidy || fail "lib/mpi was refused"
printf '#include "base/log.h"\n' >>lib/mpi/x.c; refuse include lib/mpi/x.c
plant; printf ' lib/x.c' >>Makefile.am
printf '/* %s */\n' "$licence" 'x.c: a file.' >lib/x.c; refuse room lib/x.c
for wide in lib/run training/model; do # each has one file
    plant
    for i in $(lines 25 x | awk '{ print NR }'); do
        add $wide/x$i.c
        [ $i -ne 24 ] || tidy || fail "25 files of a room were refused"
    done
    refuse room $wide/x9.c
done
for stray in training/x.c training/odd/x.c; do
    plant; add $stray; refuse room $stray
done

plant; printf '#include <base/log.h>\n' >>perf/collperf/run.c; refuse include perf/collperf/run.c
plant; printf '#include "base/log.h"\n' >>perf/collperf/device.c; refuse include perf/collperf/device.c
plant; printf '#include "base/dev.h"\n' >>perf/collperf/run.c; refuse include perf/collperf/run.c
plant; printf '#include "kernels/cuda/cuda_primitives.cuh"\n' >>training/kernels/set.c
refuse include training/kernels/set.c
plant; printf '#include "kernels/cuda/cuda_fold.cuh"\n' >>training/kernels/cuda/train_set.cu
refuse include training/kernels/cuda/train_set.cu

# Names that have one room. A statement, then the files where it is refused.
while IFS='|' read -r rule statement files; do
    for file in $files; do
        plant
        body "$statement" >>"$file"
        refuse "$rule" "$file"
    done
done <<'END'
cuda|cudaStreamSynchronize(0);|lib/api/api.c transports/shm.c kernels/fold.c tests/api/test_x.c
cuda|cudaDeviceReset();|perf/collperf/run.c training/kernels/set.c
cuda|cuMemFree(0);|lib/api/api.c transports/cuda_ipc.c
cuda|CUresult r;|lib/base/log.c
cuda|f<<<1, 2>>>();|training/verify/train.c
enqueue|d->dev->stream.sync(s);|lib/api/api.c
enqueue|dev->event.create(0, &e);|lib/api/api.c
getenv|getenv("A");|lib/api/api.c lib/base/log.c algorithms/ring.c transports/shm.c kernels/fold.c
getenv|char **e = environ;|lib/api/api.c
wait|nanosleep(0, 0);|lib/api/api.c lib/base/clock.c transports/shm.c perf/collperf/run.c
wait|nanosleep(0, 0);|training/verify/train.c
wait|usleep(1);|lib/api/api.c
wait|sched_yield();|algorithms/ring.c
wait|syscall(SYS_futex, 0);|transports/shm.c
wait|futex(0);|kernels/fold.c
fork|pthread_atfork(0, 0, 0);|lib/api/api.c transports/shm.c
clock|clock_gettime(0, 0);|lib/api/api.c lib/base/wait.c transports/shm.c algorithms/ring.c
clock|clock_gettime(0, 0);|perf/collperf/run.c
clock|gettimeofday(0, 0);|lib/api/api.c
clock|long t = time(0);|lib/base/log.c
memory|memcpy(a, b, 4);|training/ops/site.c training/run/run.c
memory|memset(a, 0, 4);|training/run/run.c
memory|memmove(a, b, 4);|training/ops/site.c
goto|goto *p;|lib/api/api.c
plan|f(t->placed->plan);|training/run/run.c
plan|f(placed.plan->mesh.n);|training/run/run.c
plan|const struct tr_plan *p = f();|training/run/run.c
pass|f(plan->zero.level);|training/passes/lower.c
pass|f(t->server >= 0);|training/passes/lower.c
pass|f(&tr_pass_zero);|training/passes/lower.c
END
plant; body 'f(plan->zero.level, plan->mesh.servers, &tr_pass_zero);' >>training/passes/zero.c
tidy || fail "a pass may know its own paradigm"
plant; body 'f(t->plan_of, x.planned, plan);' >>training/run/run.c
tidy || fail "a word that begins as plan does was refused"
plant; body 'memcpy(a, b, 4);' >>training/model/graph.c; tidy || fail "a model may copy"
plant; body 'time(0);' >>training/verify/train.c; tidy || fail "one file of training/ may read a clock"
plant; body 'getenv("A");' >>perf/collperf/run.c; tidy || fail "one file of perf/ may read the environment"
plant; body 'getenv("A");' | tee -a perf/collperf/clock.c >>perf/collperf/run.c
refuse getenv perf/collperf/run.c
plant; body 'getenv("A");' | tee -a training/options.c >>training/verify/train.c
refuse getenv training/verify/train.c
plant; body 'getenv("A");' >>lib/nccl/words.c; tidy || fail "one file of lib/nccl/ may read the environment"
plant; body 'getenv("A");' | tee -a lib/nccl/calls.c >>lib/nccl/words.c
refuse getenv lib/nccl/words.c

plant; printf 'void f(void)\n{\nagain:\n    f();\n    goto again;\n}\n' >>transports/shm.c
refuse goto transports/shm.c

for word in 'TO''DO' 'FIX''ME' 'X''XX'; do
    plant; printf '/* %s: later */\n' "$word" >>kernels/fold.c; refuse unfinished kernels/fold.c
done
for path in '/ho''me/me' '/wo''rk/x' '/ro''ot/x'; do
    plant; printf 'see %s\n' "$path" >docs/a.md; refuse path docs/a.md
done
plant; printf '/* %s */\n' "$licence" 'y.c: forgotten.' >tests/api/test_y.c
refuse makefile tests/api/test_y.c
plant; mkdir python; printf '# %s\n' "$licence" 'y.py: forgotten.' >python/y.py; refuse makefile python/y.py
plant; echo '# training/demo' >training/demo/README.md; refuse makefile training/demo/README.md
plant; echo '# training/demo' >training/demo/README.md; echo 'ROOMS = demo' >>Makefile.am
tidy || fail "a room that the build names was refused"

if { clang-format-14 --version || clang-format --version; } 2>/dev/null | grep -q 'version 14\.'; then
    for code in lib/base/log.h kernels/cuda/cuda_fold.cu kernels/cuda/cuda_fold.cuh; do
        plant; printf 'int  a;\n' >>$code; refuse format $code
    done
else
    echo "skipped: [format] (there is no clang-format 14)"
fi

# Extern names, in an archive of the three kinds that are legal and one that is not.
plant
echo 'int tt_a, tutti_b; static int c; int *tt_d(void) { return &c; }' >"$tree/a.c"
${CC:-cc} -c "$tree/a.c" -o "$tree/a.o" && ar rc "$tree/build/.libs/libtutti_core.a" "$tree/a.o"
tidy || fail "legal extern names were refused"
echo 'int helper(void) { return 0; }' >"$tree/b.c"
${CC:-cc} -c "$tree/b.c" -o "$tree/b.o" && ar rc "$tree/build/.libs/libtutti_core.a" "$tree/b.o"
refuse symbol helper

echo "test_tidy: $cases violations planted, $failures wrong answers"
[ "$failures" -eq 0 ]

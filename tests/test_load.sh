#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_load.sh: libtutti.so is loaded late, by an interpreter and by a program whose plugins use thread-local
# variables. The C library keeps a few hundred bytes for the thread-local variables of all that comes late, so
# this library may have a few dozen of them.
set -u
library=$(pwd)/.libs/libtutti.so.0
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

fail()
{
    echo "load: $1"
    failures=$((failures + 1))
}

if [ -n "${SANITIZE:-}" ] || [ ! -f "$library" ]; then
    echo "skipped: the library loaded late (it is built static, or with a sanitizer, which comes first)"
    exit 0
fi

most=64
bytes=$(readelf -lW "$library" | awk '$1 == "TLS" { print $6 }')
[ $((${bytes:-0})) -le $most ] ||
    fail "the library has $((bytes)) bytes of thread-local variables; legal: $most"

# Eight plugins that take what is left for others, then the library, then a call on each of two threads.
cat >"$scratch/plugin.c" <<'END'
__thread char taken[48] __attribute__((tls_model("initial-exec")));
char *mine(void) { return taken; }
END
cat >"$scratch/host.c" <<'END'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static void *library;

static void *one_rank(void *argument)
{
    int (*init_all)(int, void *, void *, void **) = (int (*)(int, void *, void *, void **))dlsym(library,
        "tutti_comm_init_all");
    int (*destroy)(void *) = (int (*)(void *))dlsym(library, "tutti_comm_destroy");
    const char *(*last)(void *) = (const char *(*)(void *))dlsym(library, "tutti_get_last_error");
    void *comm = NULL;
    int wrong = init_all(0, NULL, NULL, &comm) == 0 || last(NULL)[0] == '\0';
    return wrong || init_all(1, NULL, NULL, &comm) != 0 || destroy(comm) != 0 ? argument : NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *failed = NULL;
    for (int i = 1; i < argc; i++)
        if ((library = dlopen(argv[i], RTLD_NOW)) == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return i + 1 < argc ? 2 : 1; /* 2: it is a plugin, so this says nothing of the library */
        }
    if (pthread_create(&thread, NULL, one_rank, &library) != 0 || pthread_join(thread, &failed) != 0)
        return 3;
    return failed != NULL || one_rank(&library) != NULL ? 4 : 0;
}
END
plugins=
for i in 1 2 3 4 5 6 7 8; do
    ${CC:-cc} -shared -fPIC "$scratch/plugin.c" -o "$scratch/plugin$i.so" || exit 1
    plugins="$plugins $scratch/plugin$i.so"
done
${CC:-cc} "$scratch/host.c" -o "$scratch/host" -ldl -lpthread || exit 1
"$scratch/host" $plugins "$library" >"$scratch/said" 2>&1
case $? in
0) ;;
2) echo "skipped: a program with many plugins (this system has no room for theirs)" ;;
*) fail "a program with plugins cannot use the library: $(cat "$scratch/said")" ;;
esac

if command -v python3 >/dev/null 2>&1; then
    python3 - "$library" >"$scratch/said" 2>&1 <<'END' || fail "python3: $(tail -n 1 "$scratch/said")"
import ctypes, sys
tutti = ctypes.CDLL(sys.argv[1])

class Stream(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_void_p), ("kind", ctypes.c_int32), ("device", ctypes.c_int32)]

comm, result = ctypes.c_void_p(), ctypes.c_float()
assert tutti.tutti_comm_init_all(1, None, None, ctypes.byref(comm)) == 0
status = tutti.tutti_all_reduce(ctypes.byref(ctypes.c_float(3)), ctypes.byref(result), ctypes.c_size_t(1),
    7, 0, comm, Stream(None, 0, -1))
assert status == 0 and result.value == 3
assert tutti.tutti_comm_destroy(comm) == 0
END
else
    echo "skipped: the library in python3 (it is not here)"
fi

echo "load: $failures failures"
[ "$failures" -eq 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_python.sh: the Python package: its tests, its types, its page, its example, and its wheel.
#
# Run in the build directory. The interpreter is the first one that has numpy and pytest: a python3 that the
# user has put first may be without, where the system's has them. What is not there is named; under CI that is
# a failure. Nothing is fetched.
set -u
LC_ALL=C
export LC_ALL
unset TUTTI_ID TUTTI_RANK TUTTI_SIZE TUTTI_ROOT TUTTI_SECRET_FILE PMIX_RANK PMI_RANK RANK
build=$(pwd)
sources=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -f "$sources/README.md" ] || sources=$(dirname "$sources")
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

fail()
{
    echo "FAILED: $*"
    failures=$((failures + 1))
}

lacks() # what
{
    echo "skipped: Python ($1)"
    [ "${CI:-false}" != true ] || fail "$1, and CI wants it"
}

if [ -n "${SANITIZE:-}" ]; then
    echo "skipped: Python (it cannot load a library that needs the runtime of a sanitizer)"
    exit 0
fi
python=
for each in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! "$each" -c 'import numpy, pytest' 2>/dev/null || python=$(command -v "$each")
done
if [ -z "$python" ]; then
    lacks "no python3 with numpy and pytest"
    exit $failures
fi
TUTTI_LIBRARY=$build/.libs/libtutti.so.0
PYTHONPATH=$sources/python
PYTHONDONTWRITEBYTECODE=1
export TUTTI_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE

# --- Its tests. What the library logs of failures that they want is not of interest.
TUTTI_DEBUG=none "$python" -m pytest -q "$sources/python/tests" || fail "tests of the package"

# --- The types that it promises.
if "$python" -c 'import mypy' 2>/dev/null; then
    (cd "$sources/python" && "$python" -m mypy --strict --cache-dir="$scratch/mypy" tutti) || fail "types"
else
    echo "skipped: the types of the Python package (no mypy)"
fi

# --- What the tables for users of torch.distributed name is there.
"$python" - "$sources/docs/porting.md" <<'END' || fail "porting.md names what the package has not"
import pathlib, re, sys, tutti
text = pathlib.Path(sys.argv[1]).read_text()
names = re.findall(r"`(?:with )?(tutti|comm|point|stream)\.([a-zA-Z_]+)", text)
kinds = {"tutti": tutti, "comm": tutti.Comm, "point": tutti.Point, "stream": tutti.Stream}
unknown = [".".join(name) for name in names if name[0] != "tutti" or name[1] != "h"]
unknown = [name for name in unknown if not hasattr(kinds[name.split(".")[0]], name.split(".")[1])]
sys.exit(f"{unknown}" if unknown or len(names) < 20 else 0)
END

# --- Its page, with this interpreter as python3.
mkdir "$scratch/bin"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$scratch/bin/python3"
chmod +x "$scratch/bin/python3"
page=$sources/docs/python.md
PATH=$scratch/bin:$PATH sh "$sources/tests/test_listings.sh" "$page" || fail "$page"

# --- The wheel, in a venv that has nothing but it and numpy.
in_venv()
{
    (cd "$scratch" && env -u TUTTI_LIBRARY -u PYTHONPATH -u LD_LIBRARY_PATH "$@")
}

trains() # what command..: the example learns, and all its ranks have the same bits
{
    what=$1
    shift
    if ! in_venv "$@" >"$scratch/out" 2>&1 ||
        ! grep -qx 'step 50: loss 0.00.*' "$scratch/out" ||
        ! grep -qx '4 ranks: weights are equal to the bit' "$scratch/out"; then
        fail "$what"
        sed 's/^/    /' "$scratch/out" | tail -n 20
    fi
}

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    lacks "no venv"
    exit $failures
fi
wheel=$("$python" "$sources/python/wheel.py" .libs/libtutti.so.0 "$scratch") || fail "the wheel"
echo "wheel: $(basename "$wheel"), $(($(wc -c <"$wheel") / 1024)) KiB"
"$python" "$sources/python/wheel.py" .libs/libtutti.so.0 "$scratch/none" >"$scratch/out" 2>&1 &&
    fail "a wheel into a directory that is not there"
grep -qx "wheel.py: $scratch/none: legal is a directory that is there, .*" "$scratch/out" ||
    fail "wheel.py does not say that its directory is not there: $(tail -n 1 "$scratch/out")"
"$python" -m venv "$scratch/venv" || fail "venv"
mine=$scratch/venv/bin/python
site=$(in_venv "$mine" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$python" -c 'import pathlib, numpy; print(pathlib.Path(numpy.__file__).parents[1])' >"$site/numpy.pth"
in_venv "$mine" -m pip -q --disable-pip-version-check install --no-index "$wheel" || fail "pip install"
loaded=$(in_venv "$mine" -c 'import tutti; print(tutti._library.library._name)' 2>&1)
[ "$loaded" = "$site/tutti/libtutti.so.0" ] || fail "the wheel's own library was not loaded, but $loaded"
if [ -f .libs/libnccl.so.2 ]; then
    loaded=$(in_venv env TUTTI_NCCL_QUIET=1 "$mine" -c 'import tutti.nccl; print(tutti.nccl.path)' 2>&1)
    [ "$loaded" = "$site/tutti/libnccl.so.2" ] || fail "not the wheel's libnccl.so.2, but $loaded"
fi
in_venv "$mine" - >"$scratch/out" <<'END' || fail "the wheel's metadata"
import importlib.metadata
told = importlib.metadata.metadata("tutti")
print(told["Name"], told["Requires-Python"], told["Description-Content-Type"])
print("classifiers", len(told.get_all("Classifier")))
text = told.get_payload()
print("page", "comm.all_reduce(x" in text, "](../" in text)
END
printf '%s\n' 'tutti >=3.9 text/markdown' 'classifiers 9' 'page True False' | diff - "$scratch/out" ||
    fail "the wheel's metadata (>)"

# What the tag says of glibc is what the dynamic symbols of the library need, by another reader.
needed=$(nm -D --undefined-only .libs/libtutti.so.0 | sed -n 's/.*@GLIBC_2\.\([0-9]*\).*/\1/p' |
    sort -n | tail -n 1)
case $wheel in
*manylinux_2_"$needed"_*) ;;
*) fail "the library needs glibc 2.$needed, and the wheel is $wheel" ;;
esac

# --- pip from the sources: the same wheel, or words where there is no library to put in.
from_sources() # library
{
    "$mine" -m pip -q --disable-pip-version-check uninstall -y tutti
    env -u PYTHONPATH -u LD_LIBRARY_PATH TUTTI_LIBRARY="$1" "$mine" -m pip -q --disable-pip-version-check \
        install --no-index "$sources/python" >"$scratch/out" 2>&1
}
from_sources "$scratch/none/libtutti.so.0" && fail "pip installs a package that cannot be imported"
grep -q "there is no $scratch/none/libtutti.so.0. Build it first" "$scratch/out" ||
    fail "pip does not say that there is no library: $(cat "$scratch/out")"
from_sources "$build/.libs/libtutti.so.0" || fail "pip install ./python: $(cat "$scratch/out")"
loaded=$(in_venv "$mine" -c 'import tutti; print(tutti._library.library._name)' 2>&1)
[ "$loaded" = "$site/tutti/libtutti.so.0" ] || fail "after pip install ./python: $loaded"
[ -z "$(ls -d "$sources"/python/build "$sources"/python/*.egg-info 2>/dev/null)" ] ||
    fail "pip install ./python leaves something in the sources"

cp "$sources/python/examples/linear.py" "$scratch"
trains "the example" "$mine" linear.py 4
mpirun=$(command -v mpirun.openmpi)
if [ -n "$mpirun" ] && [ "${PMIX:-yes}" = yes ]; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
    trains "the example, by mpirun" "$mpirun" --oversubscribe -n 4 "$mine" linear.py
fi

[ "$failures" -eq 0 ] && echo "python: all is well with $("$python" --version)"
[ "$failures" -eq 0 ]

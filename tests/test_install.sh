#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_install.sh: what `make install` puts into a folder works wherever that folder is moved to: programs,
# pkg-config, CMake, documents, examples. Then uninstall leaves nothing. The packages themselves are made by
# `make deb`; here debian/ is only compared with what is installed and exported. Run in the build directory.
set -u
LC_ALL=C
export LC_ALL
unset PKG_CONFIG_PATH LD_LIBRARY_PATH DESTDIR MAKEFLAGS MAKELEVEL TUTTI_ID TUTTI_RANK TUTTI_SIZE
sources=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -f "$sources/README.md" ] || sources=$(dirname "$sources")
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

# works WHAT command..
works()
{
    what=$1
    shift
    if "$@" >"$scratch/said" 2>&1 </dev/null; then
        echo "install: $what"
    else
        echo "FAILED: $what:"
        sed 's/^/    /' "$scratch/said" | tail -n 20
        failures=$((failures + 1))
    fi
}

# --- Install, remember what there is, and move it.
prefix=$(sed -n 's/^prefix = //p' Makefile)
if ! make -s install DESTDIR="$scratch/staged" >"$scratch/said" 2>&1; then
    cat "$scratch/said"
    exit 1
fi
tree=$scratch/staged$prefix
(cd "$tree" && find . ! -type d | sed 's,^\./,,' | sort) >"$scratch/installed"
moved=$scratch/moved
cp -R "$tree" "$moved"
case $prefix:$(sed -n 's/^libdir = //p' Makefile) in
/?*:'${exec_prefix}/lib') ;;
*)
    echo "skipped: a moved tree (it is for a prefix with lib/, and this build has other folders)"
    exit 0
    ;;
esac

# --- Programs find the library from where they are; a sanitizer's runtime is not looked for.
ldd_finds() # file
{
    ldd "$1" | grep "libtutti.so.0 => $moved/bin/../lib/libtutti.so.0 "
}
works "collperf, moved, finds the library" ldd_finds "$moved/bin/collperf"
works "tutti-info, moved, finds the library" ldd_finds "$moved/bin/tutti-info"
works "tutti-info, moved, runs" "$moved/bin/tutti-info" cpu
works "tutti-train, moved, finds the library" ldd_finds "$moved/bin/tutti-train"
works "tutti-train, moved, runs" "$moved/bin/tutti-train" -n 2 --steps 1
if [ -f "$moved/lib/tutti/libtutti_train_cuda.so" ]; then
    works "tutti-train, moved, finds the kernels for devices" "$moved/bin/tutti-train" explain --device cuda
fi
if [ -f "$moved/lib/libtutti_mpi.so" ]; then
    mpi_finds() { ldd "$moved/lib/libtutti_mpi.so" | grep "libtutti.so.0 => $moved/lib/libtutti.so.0 "; }
    works "libtutti_mpi, moved, finds the library" mpi_finds
fi
if [ -f "$moved/bin/tutti-nccl" ]; then
    nccl=$moved/lib/tutti/nccl
    nccl_finds() { ldd "$nccl/libnccl.so.2" | grep "libtutti.so.0 => $nccl/../../libtutti.so.0 "; }
    works "libnccl.so.2, moved, finds the library" nccl_finds
    nccl_apart() { ! ls "$moved"/lib/libnccl* "$moved/include/nccl.h" 2>/dev/null; }
    works "libnccl.so.2 is where no program finds it unasked" nccl_apart
    nccl_path() { [ "$("$moved/bin/tutti-nccl" --path)" = "$(cd "$nccl" && pwd)/libnccl.so.2" ]; }
    works "tutti-nccl, moved, finds libnccl.so.2" nccl_path
    by_nccl_pc()
    {
        # shellcheck disable=SC2046
        ${CC:-cc} ${SANITIZE:-} -Werror "$sources/tests/nccl/program.c" -o "$scratch/nccl" \
            $(PKG_CONFIG_PATH=$nccl/pkgconfig pkg-config --cflags --libs nccl) &&
            TUTTI_DEVICE=none "$scratch/nccl" | grep -qx 'version 22809, 3 ranks: right'
    }
    if command -v pkg-config >/dev/null 2>&1; then
        works "a program of NCCL's by pkg-config" by_nccl_pc
    fi
fi
no_old_path() { ! grep -l -r -e "$scratch/staged" "$moved"; }
works "no file names the folder it was staged in" no_old_path

# --- A program of the user: by pkg-config, by CMake, and all examples.
thrice() # program: of three ranks, which are threads
{
    [ "$(LD_LIBRARY_PATH=$moved/lib "$1")" = '4 4 4' ]
}
if command -v pkg-config >/dev/null 2>&1; then
    pc() { PKG_CONFIG_PATH=$moved/lib/pkgconfig pkg-config "$@"; }
    by_pkg_config()
    {
        # shellcheck disable=SC2046
        ${CC:-cc} ${SANITIZE:-} -Werror "$moved/share/doc/tutti/examples/threads.c" -o "$scratch/threads" \
            $(pc --cflags --libs tutti) && thrice "$scratch/threads"
    }
    works "a program by pkg-config" by_pkg_config
    variables() { [ "$(cd "$(pc --variable=prefix tutti)" && pwd -P)" = "$(cd "$moved" && pwd -P)" ]; }
    works "tutti.pc tells the prefix it was moved to" variables
    by_make()
    {
        cp -R "$moved/share/doc/tutti/examples" "$scratch/examples"
        PKG_CONFIG_PATH=$moved/lib/pkgconfig make -s -C "$scratch/examples" CC="${CC:-cc} ${SANITIZE:-}" \
            CFLAGS='-Wall -Wextra -Werror' && thrice "$scratch/examples/threads"
    }
    works "the examples by make" by_make
else
    echo "skipped: what pkg-config gives (it is not here)"
fi
if command -v cmake >/dev/null 2>&1; then
    by_cmake()
    {
        CC=${CC:-cc} CFLAGS="${SANITIZE:-}" cmake -S "$moved/share/doc/tutti/examples" -B "$scratch/cmake" \
            -DCMAKE_PREFIX_PATH="$moved" &&
            cmake --build "$scratch/cmake" && thrice "$scratch/cmake/threads" &&
            grep "^tutti_DIR:PATH=$moved/lib/cmake/tutti" "$scratch/cmake/CMakeCache.txt"
    }
    works "the examples by CMake" by_cmake
    too_new()
    {
        printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(p C)' 'find_package(tutti 9 QUIET)' \
            'if(tutti_FOUND)' 'message(FATAL_ERROR "found a version 9")' 'endif()' \
            'find_package(tutti 0.1 REQUIRED COMPONENTS nothing)' >"$scratch/CMakeLists.txt"
        cmake -S "$scratch" -B "$scratch/cmake-new" -DCMAKE_PREFIX_PATH="$moved" >"$scratch/cmake.log" 2>&1
        grep -q 'built without nothing' "$scratch/cmake.log" || { cat "$scratch/cmake.log"; return 1; }
    }
    works "CMake is refused a version and a part that are not there" too_new
else
    echo "skipped: find_package of CMake (it is not here)"
fi

# --- ./start tells how far a build is that takes its time; here "two seconds" are short.
progress()
{
    for name in say fail tell_progress quietly; do
        eval "$(sed -n "/^$name()/,/^}/p" "$sources/start")"
    done
    log=$scratch/log
    sleep() { command sleep 0.1; }
    slow() # ends when it has been told of, or after a minute
    {
        printf '  CC       lib/some.lo\n'
        for try in $(seq 600); do
            ! grep 'file 1, lib/some.lo' "$scratch/told" || return 0
            sleep
        done
        return 1
    }
    : >"$log"
    quietly slow >"$scratch/told"
}
told_in_time() { (progress); }
works "./start tells how far it is" told_in_time

# --- The last words of `./start install` can be pasted, and add to what the user had.
eval "$(sed -n '/^tell_paths()/,/^}/p' "$sources/start")"
pasted()
{
    tell_paths "$moved" >"$scratch/words" && (
        PKG_CONFIG_PATH=/user/pkgconfig LD_LIBRARY_PATH=/user/lib
        export PKG_CONFIG_PATH LD_LIBRARY_PATH
        eval "$(grep '^ ' "$scratch/words")"
        [ "$(command -v collperf)" = "$moved/bin/collperf" ] || exit 1
        sh -c 'echo $PKG_CONFIG_PATH $LD_LIBRARY_PATH' |
            grep "^$moved/lib/pkgconfig:/user/pkgconfig $moved/lib:/user/lib$"
    ) && (
        unset PKG_CONFIG_PATH LD_LIBRARY_PATH
        eval "$(grep '^ ' "$scratch/words")"
        [ "$PKG_CONFIG_PATH $LD_LIBRARY_PATH" = "$moved/lib/pkgconfig $moved/lib" ]
    )
}
works "the installer's last words can be pasted" pasted

# --- Links of the installed documents lead somewhere.
links()
{
    for document in "$moved"/share/doc/tutti/*.md; do
        awk '/^```/ { fenced = !fenced } !fenced' "$document" | grep -o '](\([^()#]*\)' | sed 's/](//' |
            grep -v -e '^[a-z]*:' -e '^$' >"$scratch/links"
        while read -r link; do
            [ -e "${document%/*}/$link" ] || echo "${document##*/}: $link is not there"
        done <"$scratch/links"
    done >"$scratch/dead"
    grep '](tutorial.md)' "$moved/share/doc/tutti/README.md" && ! grep . "$scratch/dead"
}
works "links of the installed documents" links

# --- distcheck is for the same options.
same_options()
{
    ./config.status --config | tr ' ' '\n' |
        grep -o -e '--\(enable\|disable\|with\|without\)-[-a-z]*' >"$scratch/options"
    sed -n 's/^AM_DISTCHECK_CONFIGURE_FLAGS =//p' Makefile >"$scratch/distcheck"
    while read -r option; do
        grep -q -e "'$option[='$]" "$scratch/distcheck" || { echo "distcheck lacks $option"; return 1; }
    done <"$scratch/options"
}
works "make distcheck takes this build's options" same_options

# --- What debian/ packs is what is installed and exported. Its folders, as they are called here:
as_here() { sed 's,^usr/lib/\*/,lib/,; s,^usr/share/doc/libtutti-dev,share/doc/tutti,; s,^usr/,,' "$@"; }
packed()
{
    as_here "$sources"/debian/*.install "$sources/debian/not-installed" >"$scratch/patterns"
    # What no package has.
    grep -v -e 'tutti_mpi' -e 'tutti_\(train_\)\?cuda' -e 'tutti_ucx' "$scratch/installed" >"$scratch/rest"
    ls "$moved"/lib/*.a >/dev/null 2>&1 || echo lib/libtutti.a >>"$scratch/rest" # with --enable-static only
    while read -r pattern; do
        : >"$scratch/kept"
        used=
        while read -r file; do
            # shellcheck disable=SC2254
            case $file in
            $pattern | $pattern/*) used=yes ;;
            *) echo "$file" >>"$scratch/kept" ;;
            esac
        done <"$scratch/rest"
        [ -n "$used" ] || echo "debian/ names $pattern, which is not installed, or is in two packages"
        mv "$scratch/kept" "$scratch/rest"
    done <"$scratch/patterns" >"$scratch/wrong"
    sed 's/.*/debian: & is in no package/' "$scratch/rest" >>"$scratch/wrong"
    ! grep . "$scratch/wrong"
}
works "debian/ packs what is installed" packed
symbols()
{
    ${NM:-nm} -D --defined-only "$moved/lib/libtutti.so" |
        awk '$2 == "T" { sub(/@@/, "@", $3); print $3 }' | sort >"$scratch/exported"
    sed -n 's/^ \(tutti_[^ ]*\) .*/\1/p' "$sources/debian/libtutti0.symbols" | sort >"$scratch/promised"
    diff "$scratch/exported" "$scratch/promised" && return
    echo 'exported is <, debian/libtutti0.symbols has >'
    false
}
works "debian/libtutti0.symbols names what is exported" symbols
versions()
{
    version=$("$moved/bin/tutti-info" cpu | sed -n 's/^Tutti //p')
    head -n 1 "$sources/debian/changelog" | grep -F "($version)"
}
works "debian/changelog is of this version" versions

# --- A prefix that is said to make instead of configure counts for all that is installed, or for nothing.
together()
{
    make -n install prefix=/elsewhere 2>&1 | sed -n "s/.*mkdir -p '\(.*\)'.*/\1/p" >"$scratch/folders"
    grep -q '^/elsewhere/lib$' "$scratch/folders" && ! grep -v '^/elsewhere/' "$scratch/folders"
}
works "make install prefix=DIR installs nowhere else" together

# --- Nothing is left.
make -s uninstall DESTDIR="$scratch/staged" >"$scratch/said" 2>&1 || cat "$scratch/said"
nothing() { ! find "$tree" ! -type d -o -name '*tutti*' | grep .; }
works "uninstall leaves nothing" nothing

[ "$failures" -eq 0 ]

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_cuda_plugin.sh: what libtutti_cuda.so and libtutti_train_cuda.so ask of a machine, and what they show:
# any process may load them, with or without a driver, beside any other copy of the CUDA runtime. Run in the
# build directory.
set -u
if [ "${CUDA:-no}" != yes ]; then
    echo "skipped: libtutti_cuda (configured without CUDA)"
    exit 0
fi
failures=0

fail()
{
    echo "test_cuda_plugin: $*"
    failures=$((failures + 1))
}

# look_at LIBRARY NAME...: it exports these names alone.
look_at()
{
    plugin=.libs/$1.so
    shift
    [ -f "$plugin" ] || fail "$plugin was not built"

    # What it needs is in every system; the driver is asked for at run time.
    for needed in $(readelf -d "$plugin" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p'); do
        case $needed in
        libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | ld-linux-*.so.*) ;;
        *) fail "$plugin needs $needed" ;;
        esac
    done

    # nm knows nothing of versions here: a name, its type, and no more.
    exported=$(${NM:-nm} -D --defined-only "$plugin" | awk '{ print $NF }' | sort | xargs)
    [ "$exported" = "$*" ] || fail "$plugin exports $exported; legal is $*"

    bytes=$(wc -c <"$plugin")
    [ "$bytes" -lt 4000000 ] || fail "$plugin has $bytes bytes; less than 4000000 are legal"

    # No code of it asks for the driver's library by linking, or for NVML at all.
    undefined=$(${NM:-nm} -D --undefined-only "$plugin" |
        awk '$NF ~ /^(cu[A-Z]|nvml|_Z|__cxa_throw)/ { print $NF }')
    [ -z "$undefined" ] || fail "$plugin leaves open" $undefined
}
look_at libtutti_train_cuda tr_cuda_offer
look_at libtutti_cuda tutti_device_table

# The library finds it beside itself, and says what there is, or that there is no driver; nothing crashes.
out=$(./tutti-info devices) || fail "tutti-info devices fails"
case $out in
*"library "*"libtutti_cuda.so (CUDA "*"device 0"*) ;;
"no device can be used: "*"libtutti_cuda.so: cudaGetDeviceCount: there is no CUDA driver here ("*", 35)") ;;
"no device can be used: "*"libtutti_cuda.so: cudaGetDeviceCount: no CUDA-capable device"*) ;;
*) fail "tutti-info devices says: $out" ;;
esac

# A driver older than the plugin is told with both versions: here is one that knows nothing but its own.
old=$(mktemp -d) || exit 1
trap 'rm -rf "$old"' EXIT
printf '%s\n' 'int cuInit(unsigned flags) { return (int)flags; }' \
    'int cuDriverGetVersion(int *version) { *version = 12040; return 0; }' >"$old/driver.c"
if ${CC:-cc} -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$old/libcuda.so.1" "$old/driver.c"; then
    out=$(LD_LIBRARY_PATH=$old ./tutti-info devices)
    case $out in
    *"up to 12.4, this plugin was built with CUDA 13."*"built with CUDA 12.2 to 12.4 ("*) ;;
    *"this plugin was built with CUDA 13."*) fail "with an old driver, tutti-info devices says: $out" ;;
    *"the driver serves CUDA up to 12.4"*) fail "a plugin of CUDA 12 refuses such a driver: $out" ;;
    *) ;; # a plugin of CUDA 12 takes the driver, which here has no functions, as it is
    esac
fi

echo "test_cuda_plugin: $bytes bytes, $failures failures"
[ "$failures" -eq 0 ]

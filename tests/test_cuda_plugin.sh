#!/bin/sh
# test_cuda_plugin.sh: what libtutti_cuda.so asks of a machine, and what it shows: a library that any process
# may load, with or without a driver, beside any other copy of the CUDA runtime. Run in the build directory.
set -u
if [ "${CUDA:-no}" != yes ]; then
    echo "skipped: libtutti_cuda (configured without CUDA)"
    exit 0
fi
plugin=.libs/libtutti_cuda.so
failures=0

fail()
{
    echo "test_cuda_plugin: $*"
    failures=$((failures + 1))
}

[ -f "$plugin" ] || fail "$plugin was not built"

# What it needs is in every system; the driver is asked for at run time.
for needed in $(readelf -d "$plugin" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p'); do
    case $needed in
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | ld-linux-*.so.*) ;;
    *) fail "it needs $needed" ;;
    esac
done

# nm knows nothing of versions here: a name, its type, and no more.
exported=$(${NM:-nm} -D --defined-only "$plugin" | awk '{ print $NF }')
[ "$exported" = tt_kernel_find ] || fail "it exports" $exported "; tt_kernel_find alone is legal"

bytes=$(wc -c <"$plugin")
[ "$bytes" -lt 3000000 ] || fail "it has $bytes bytes; less than 3000000 are legal"

# No code of it asks for the driver's library by linking, or for NVML at all.
undefined=$(${NM:-nm} -D --undefined-only "$plugin" |
    awk '$NF ~ /^(cu[A-Z]|nvml|_Z|__cxa_throw)/ { print $NF }')
[ -z "$undefined" ] || fail "it leaves open" $undefined

echo "test_cuda_plugin: $bytes bytes, $failures failures"
[ "$failures" -eq 0 ]

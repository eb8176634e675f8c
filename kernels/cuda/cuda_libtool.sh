#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# cuda_libtool.sh: nvcc as libtool calls a compiler: what libtool adds for the host's compiler is handed on.
#
# usage: cuda_libtool.sh NVCC ARGUMENTS
n=$#
while [ "$n" -gt 0 ]; do
    case $1 in
    -fPIC | -DPIC | -pthread) set -- "$@" -Xcompiler "$1" ;;
    *) set -- "$@" "$1" ;;
    esac
    shift
    n=$((n - 1))
done
exec "$@"

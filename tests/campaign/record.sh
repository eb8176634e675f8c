#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# record.sh: runs a campaign, or the fuzzer, and keeps what it says with where and when that was.
#
# usage: record.sh FILE SOURCE_DIRECTORY COMMAND...
#
# What is there in FILE stays, so that one file may hold both.
set -u
file=$1
source_dir=$2
shift 2
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
part=$(mktemp "$file.XXXXXX") || exit 1 # two may record at once
{
    echo "# date: $(date -u '+%Y-%m-%d %H:%M') UTC"
    echo "# machine: $(nproc) cores of ${cpu:-$(uname -m)}, Linux $(uname -r | sed 's/[^0-9.].*//')"
    echo "# load: $(cut -d' ' -f1-3 /proc/loadavg)"
    echo "# commit: $(git -C "$source_dir" describe --always --dirty 2>/dev/null || echo unknown)"
    echo "# command: $*"
} >"$part"
begun=$(date +%s)
"$@" >>"$part"
result=$?
echo "# $(($(date +%s) - begun)) s, exit status $result" >>"$part"
cat "$part"
{ cat "$part" && echo; } >>"$file"
rm -f "$part"
exit "$result"

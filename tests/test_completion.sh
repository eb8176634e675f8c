#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_completion.sh: what bash offers after a few letters, asked the way bash asks. Run in the build
# directory, whose programs answer.
set -u
sources=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -d "$sources/perf/completion" ] || sources=$(dirname "$sources")
if ! command -v bash >/dev/null 2>&1; then
    echo "skipped: completion (there is no bash)"
    exit 0
fi
SOURCES=$sources exec bash -u -s <<'END'
failures=0
checks=0
for file in "$SOURCES"/perf/completion/*; do
    source "$file"
done

# offers LINE WORDS..: the last word of LINE, which may be empty, is completed. WORDS are offered, words
# after NOT are not.
offers()
{
    local line=$1 word wanted=yes function
    shift
    read -r -a COMP_WORDS <<<"$line"
    [[ $line != *' ' ]] || COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    function=$(complete -p "${COMP_WORDS[0]##*/}" | sed 's/.*-F \([^ ]*\) .*/\1/')
    "$function" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    if [[ $(printf '%s\n' "${COMPREPLY[@]}" | sort | uniq -d) != '' ]]; then
        echo "FAILED: '$line': offered twice: $(printf '%s\n' "${COMPREPLY[@]}" | sort | uniq -d)"
        failures=$((failures + 1))
    fi
    for word; do
        if [[ $word == NOT ]]; then
            wanted=no
        elif [[ " ${COMPREPLY[*]} " == *" $word "* && $wanted == yes ]]; then
            checks=$((checks + 1))
        elif [[ " ${COMPREPLY[*]} " != *" $word "* && $wanted == no ]]; then
            checks=$((checks + 1))
        else
            echo "FAILED: '$line': $word wanted: $wanted; offered: ${COMPREPLY[*]}"
            failures=$((failures + 1))
        fi
    done
}

offers './collperf ' all all_reduce sendrecv NOT --json float
offers './collperf all_r' all_reduce NOT all broadcast
offers './collperf --m' --memory --minbytes --maxbytes NOT --json all
offers './collperf -' -b -h --list
offers './collperf -d ' all float bfloat16 NOT sum
offers './collperf --datatype u' uint32 uint64 NOT float
offers './collperf -o m' min max NOT sum
offers './collperf broadcast --algo ' all tree split NOT one_shot
offers './collperf --algo ' one_shot ring NOT dissemination
offers './collperf --memory r' registered NOT malloc
offers './collperf --memory = r' registered NOT malloc
offers './collperf --memory =' registered malloc
offers './collperf --check ' 0 1
offers './collperf -z ' 0 1 NOT all
offers './collperf --list t' types NOT ops
offers './collperf -b ' NOT all all_reduce
offers './collperf --output Make' Makefile NOT all
offers './tutti-info ' cpu config schedule id NOT -n all_reduce
offers './tutti-info --' --rank --version NOT cpu
offers './tutti-info schedule ' all_reduce broadcast NOT ring
offers './tutti-info schedule all_reduce ' ring one_shot NOT split
offers './tutti-info schedule broadcast tree -n 8 --rank ' all
offers './tutti-info algorithms b' broadcast barrier NOT ring
offers './tutti-info config ' NOT all_reduce
offers './tutti-info ' why attach merge
offers './tutti-info --why ' all_reduce broadcast NOT ring
offers './tutti-info --why all_r' all_reduce NOT all_gather
offers './tutti-info why ' all_reduce NOT ring
offers './tutti-info -n 4 --why b' broadcast barrier NOT all_reduce
offers './tutti-sim ' all_reduce barrier all_gather_v NOT send
offers './tutti-sim all_reduce 1M -m ' dgx-h100 dgx-h100-nccl ethernet NOT --svg
offers './tutti-sim all_reduce 1M --s' --svg --slice NOT --goal
offers './tutti-train ' train mesh explain verify schedule demo data NOT tutti-train --dp
offers './tutti-train --z' --zero NOT --dp train
offers './tutti-train explain --t' --tp --tape NOT --steps
offers './tutti-train --model ' gpt:nano gpt:small NOT sizes
offers './tutti-train --model gpt : m' micro NOT nano gpt:micro
offers './tutti-train --model gpt :' nano micro
offers './tutti-train --dp 2 --inject all-r' all-reduce-missing NOT wrong-fold
offers './tutti-train --schedule Make' Makefile NOT gpipe
offers './tutti-train --schedule z' zb-h1 NOT gpipe
offers './tutti-train mesh --d' --dp --data NOT --tp
offers './tutti-train schedule ' gpipe --pp NOT --dp
offers './tutti-train schedule gpipe --' --hop --csv --f NOT --dp
offers './tutti-train demo ' matmul ring
offers './tutti-train data Make' Makefile
offers './tutti-train data -' -o --help NOT --dp

((failures == 0)) && echo "completion: $checks offers are right"
((failures == 0))
END

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bench_run.sh: how bench.sh runs one program and keeps what it printed; sourced by it.
#
# Expects: here build collperf scratch results cores limit patience under peers as_root, and of the point that
# is measured point mode collective n bytes. Sets failed.
# shellcheck disable=SC2154,SC2034

# --- The command lines. Each prints JSON lines; a failure is a message and no line.
tutti_command() # collective ranks smallest largest memory variant mode
{
    case $6 in *+* | all_reduce) called=$6 ;; *) called=$1 ;; esac
    echo "${under:+$under }$([ "$6" != fused_off ] || echo 'env TUTTI_FUSED=off ')$collperf $called $(
        [ "$6" = threads ] && echo -t || echo -g
    ) $2 --bind -b $3 -e $4 --memory $5$([ "$7" != dirty ] || echo ' --dirty') --json"
}
peer_command() # collective ranks bytes peer variant mode
{
    crowded=$([ "$2" -le "$cores" ] || echo 1)
    case $4,$5 in
    openmpi,default) options=$as_root ;;
    openmpi,bound) options="$as_root --bind-to core${crowded:+:overload-allowed}" ;;
    mpich,default) options= ;;
    mpich,bound) options='-bind-to core' ;;
    esac
    [ "$4" != openmpi ] || options="$options${crowded:+ --oversubscribe --mca mpi_yield_when_idle 1}"
    echo "mpirun.$4${options:+ $options} -n $2 ${under:+$under }$build/bench_$4 $1 $3$(
        [ "$6" != dirty ] || echo ' dirty'
    )"
}

# --- A machine that does other things is waited for, if it becomes quiet within BENCH_PATIENCE seconds. Who
# else used the cores while a measurement ran is known, in percent of them, from what lies between two marks.
mark() # name
{
    [ -r /proc/stat ] || return
    times >"$scratch/$1"
    sed -n 's/^cpu  *//p' /proc/stat >>"$scratch/$1"
    cut -d ' ' -f 1 /proc/uptime >>"$scratch/$1"
}
others()
{
    if [ ! -r /proc/stat ] || [ -n "$under" ]; then
        echo 0
        return
    fi
    awk -v cores="$cores" -v hz="$(getconf CLK_TCK)" '
        function seconds(text,    p) { split(text, p, /[ms]/); return 60 * p[1] + p[2] }
        FNR == 1 || FNR == 2 { own += sign * (seconds($1) + seconds($2)) }
        FNR == 3 { busy += sign * ($1 + $2 + $3 + $6 + $7 + $8) / hz }
        FNR == 4 { wall += sign * $1 }
        END { printf("%.0f", wall > 0 && busy > own ? 100 * (busy - own) / (wall * cores) : 0) }
        ' sign=-1 "$scratch/before" sign=1 "$scratch/after"
}
wait_for_quiet()
{
    if [ ! -r /proc/loadavg ] || [ -n "$under" ]; then
        return
    fi
    while [ "$waited" -lt $((5 * patience)) ]; do
        read -r _ _ _ running _ </proc/loadavg
        [ "${running%%/*}" -gt 1 ] || return
        waited=$((waited + 1))
        sleep 0.2
    done
}

# Nobody else took the cores, and the class was the same before and after, unless ranks share cores.
is_clean()
{
    [ "$others" -le 8 ] || return
    [ "$n" -le "$cores" ] || return 0
    seen=$(grep "$compared" "$scratch/lines" | grep -o '"class[_after]*": "[^"]*"' | sed 's/.*: //' | sort -u)
    [ "$seen" = '"NEAR"' ] || [ "$seen" = '"FAR"' ]
}

# One that fails or takes too long leaves no line, is told, and makes the run one that failed. Broadcast is
# compared in place, since MPI has no other form of it, and everything else out of place. The words of a
# command are split on purpose: no path here may hold a blank.
measure() # library variant command
{
    waited=0
    compared="\"in_place\": $([ "$collective" = broadcast ] && echo true || echo false)"
    for try in 1 2 3 4 5; do
        wait_for_quiet
        mark before
        # shellcheck disable=SC2086
        timeout -k 5 "$limit" $3 </dev/null >"$scratch/lines" 2>"$scratch/errors" || {
            [ $? -ne 124 ] || echo "it took more than $limit s" >>"$scratch/errors"
            echo "bench.sh: this failed: $3: $(tail -n 3 "$scratch/errors")" >&2
            failed=1
            return
        }
        mark after
        others=$(others)
        # a ladder is long, and each of its lines is judged by itself
        if [ "$patience" -eq 0 ] || [ "$mode" = ladder ] || is_clean; then
            break
        fi
    done
    grep "$compared" "$scratch/lines" |
        sed -e "s/^{/{\"point\": \"$point\", \"library\": \"$1\", \"variant\": \"$2\", /" \
            -e "s/}\$/, \"size\": $bytes, \"tries\": $try, \"others\": $others}/" >>"$scratch/round"
}
# All programs of one point, once.
measure_point()
{
    : >"$scratch/round"
    for memory in malloc registered; do
        placed=$([ $memory = malloc ] && echo default || echo bound)
        for variant in $(variants_of "$n" "$mode" "$collective"); do
            measure tutti "$variant" \
                "$(tutti_command "$collective" "$n" "$bytes" "$bytes" $memory "$variant" "$mode")"
        done
        for peer in $peers; do
            measure "$peer" "$placed" \
                "$(peer_command "$collective" "$n" "$bytes" "$peer" "$placed" "$mode")"
        done
    done
    cat "$scratch/round" >>"$results"
}

# All sizes of one collective with Tutti alone, where neighbours of a factor 2 are compared.
measure_ladder()
{
    : >"$scratch/round"
    for memory in malloc registered; do
        measure tutti ladder "$(tutti_command "$collective" "$n" 8 67108864 $memory default steady)"
    done
    cat "$scratch/round" >>"$results"
}

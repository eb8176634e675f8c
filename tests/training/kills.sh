#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kills.sh: whichever process of a job is killed, and whenever, the whole job ends within seconds, says who
# died, and leaves no process and no file in /dev/shm.
#
# usage: kills.sh     KILLS=N does each case N times and tells how long the ends took
#
# Seconds are what a user waits for, 2 of them; here 5 are taken, as the machine may be loaded.
set -u
train=$PWD/tutti-train
rounds=${KILLS:-1}
seed=${KILLS_SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
mark=$((1000000 + $$)) # the number of steps: the processes of these jobs have it among their arguments
scratch=$(mktemp -d) || exit 1
job=
trap 'ranks | xargs -r kill -9; rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0
kills=0

fail()
{
    echo "kills: $1 (KILLS_SEED=$seed, kill $kills)"
    failures=$((failures + 1))
}

# ranks: the processes that train, in the order of their numbers; not the one that forked them, and not the
# shell that libtool lets start it.
ranks()
{
    ps -ww -eo pid=,args= | awk -v mark="$mark" -v job="${job:-0}" \
        '$1 != job && $2 ~ /tutti-train$/ && index($0, "--steps " mark) { print $1 }'
}

# shared: Tutti's files in /dev/shm.
shared()
{
    find /dev/shm -name '*tutti*' 2>/dev/null | sort
}

# alive PID: it runs; a process that has ended and was not waited for does not.
alive()
{
    read -r _ _ state _ 2>/dev/null <"/proc/$1/stat" && [ "$state" != Z ]
}

# random EXPRESSION: what awk makes of it with rand(), which is another for each kill.
random()
{
    awk -v seed=$((seed + 1000 * kills)) "BEGIN { srand(seed); rand(); print $1 }"
}

# begun N: waits until the job has N ranks, in $pids.
begun()
{
    tries=0
    pids=$(ranks)
    while [ "$(echo "$pids" | wc -w)" -lt "$1" ] && [ $tries -lt 600 ] && kill -0 "$job" 2>/dev/null; do
        sleep 0.05
        pids=$(ranks)
        tries=$((tries + 1))
    done
    [ "$(echo "$pids" | wc -w)" -eq "$1" ] || fail "$what: not $1 ranks but: $pids, $(cat "$scratch/said")"
}

# kill_one VICTIM REST...: kills a process at a random moment and waits until it and the rest have ended.
kill_one()
{
    victim=$1
    sleep "$(random 'rand() ^ 3')" # up to a second, and often while the ranks still join
    begin=$(date +%s%N)
    kill -9 "$victim" || fail "$what: there was nothing to kill: $(tail -n 5 "$scratch/said")"
    left="$*"
    while [ -n "$left" ] && [ $(($(date +%s%N) - begin)) -lt 5000000000 ]; do
        sleep 0.01
        still=
        for pid in $left; do
            alive "$pid" && still="$still $pid"
        done
        left=$still
    done
    echo $((($(date +%s%N) - begin) / 1000000)) >>"$scratch/times"
    [ -z "${KILLS:-}" ] || echo "$(tail -n 1 "$scratch/times") ms $what"
    [ -z "$left" ] || fail "$what: after 5 s there are still the processes$left"
    # shellcheck disable=SC2086 # words
    [ -z "$left" ] || kill -9 $left
}

# ended WORDS: what the job leaves: a status, the cause, nothing else.
ended()
{
    wait "$job" && fail "$what: ended as if nothing was wrong"
    [ -z "$1" ] || grep -q -- "$1" "$scratch/said" ||
        fail "$what: not \"$1\" but: $(tail -n 20 "$scratch/said")"
    [ -z "$(ranks)" ] || fail "$what: there are processes left"
    [ "$(shared)" = "$files" ] || fail "$what: /dev/shm has $(shared)"
    kills=$((kills + 1))
    job=
}

# start COMMAND OPTIONS...: a job that goes on for ever.
start()
{
    what=$*
    files=$(shared)
    "$@" --data grammar --quiet --steps "$mark" >"$scratch/said" 2>&1 &
    job=$!
}

# of_ranks N: one of the N ranks of the job is killed.
of_ranks()
{
    begun "$1"
    number=$(random "int(rand() * $1)")
    # shellcheck disable=SC2086 # words
    kill_one $(echo $pids | cut -d ' ' -f $((number + 1))) $pids "$job"
}

while [ "$rounds" -gt 0 ]; do
    rounds=$((rounds - 1))
    # The mesh's ranks, and its options.
    while read -r n options; do
        # shellcheck disable=SC2086 # words
        start "$train" $options
        of_ranks "$n"
        ended "tutti-train: rank $number was ended by signal 9"
    done <<END
4 --dp 2 --tp 2
2 --pp 2 --micro 4 --schedule 1f1b
4 --pp 2 --dp 2 --micro 4 --schedule zb-h1 --zero 3
2 --dp 2 --micro 2 --bucket 64K --overlap
2 --dp 2 --zero 3 --zero3-prefetch 1 --save $scratch/kept --save-every 1
END

    # A worker, and a server.
    for number in 0 3; do
        start "$train" --dp 2 --servers 2
        begun 4
        # shellcheck disable=SC2086 # words
        kill_one $(echo $pids | cut -d ' ' -f $((number + 1))) $pids "$job"
        ended "tutti-train: rank $number was ended by signal 9"
        start "$train" --dp 3 --batch 6 --servers 1 --server-mode async --staleness 2
        begun 4
        # shellcheck disable=SC2086 # words
        kill_one $(echo $pids | cut -d ' ' -f $((number + 1))) $pids "$job"
        ended "tutti-train: rank $number was ended by signal 9"
    done

    # A rank that does not see that another died, for it was stopped: it is ended, too.
    start "$train" --dp 2
    begun 2
    kill -STOP "$(echo "$pids" | tail -n 1)"
    # shellcheck disable=SC2086 # words
    kill_one "$(echo "$pids" | head -n 1)" $pids "$job"
    ended 'tutti-train: rank 0 was ended by signal 9'

    # Who forked the ranks dies, and they with it: nobody is left to name a cause.
    start "$train" --dp 2 --tp 2
    begun 4
    # shellcheck disable=SC2086 # words
    kill_one "$job" $pids
    ended ''

    # Launchers. They say which rank a signal ended, each in its own words.
    if command -v mpirun.openmpi >/dev/null; then
        start mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 "$train"
        of_ranks 2
        ended 'signal 9\|Killed'
    else
        echo "skipped: mpirun.openmpi (not here)"
    fi
    if command -v mpirun.mpich >/dev/null; then
        start mpirun.mpich -n 2 "$train"
        of_ranks 2
        ended 'KILLED BY SIGNAL: 9\|EXIT CODE: 9'
    else
        echo "skipped: mpirun.mpich (not here)"
    fi
done
[ "$failures" -eq 0 ] && echo "kills: after $kills kills the jobs ended with the cause and left nothing;" \
    "the end took ms: median $(sort -n "$scratch/times" | sed -n "$(((kills + 1) / 2))p")," \
    "worst $(sort -n "$scratch/times" | tail -n 1)"
exit "$failures"

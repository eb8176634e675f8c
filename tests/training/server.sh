#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# server.sh: asynchronous parameter servers: in a given order they have the bits of the simulator; whoever
# comes first is taken, nobody gets farther ahead than the bound, and the log gives the same bits again.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
cd "$scratch" || exit 1

# refused WORDS COMMAND OPTIONS...: the options are refused, in these words, before anything ran.
refused()
{
    why=$1
    shift
    fails_with "$why" '^push' "$train" "$@"
}

# run COMMAND OPTIONS...: the lines of an asynchronous run, without the comments, in $lines.
run()
{
    lines=$1
    shift
    "$train" "$@" --server-mode async --hex >all 2>said || fail "$*: $(cat said)"
    grep -v '^#' all >"$lines"
}

# --- a given order: bits of the simulator
while read -r options; do
    # shellcheck disable=SC2086 # words
    run servers train $options
    # shellcheck disable=SC2086 # words
    run simulator simulate $options
    cmp -s servers simulator || fail "$options: $(diff servers simulator | head -n 4)"
done <<END
--data grammar --servers 1 --dp 4 --steps 3 --arrivals seed:1
--data grammar --servers 2 --dp 4 --steps 3 --arrivals seed:2 --staleness 1 --micro 2
--data grammar --servers 1 --dp 3 --batch 6 --steps 3 --arrivals seed:3 --staleness 0 --untied --optimizer sgd
--model mlp:nano --servers 4 --dp 2 --steps 4 --arrivals seed:4 --staleness 2
--model cnn:nano --servers 1 --dp 1 --steps 2 --arrivals seed:5
--model mlp:nano --servers 1 --dp 2 --steps 3 --arrivals seed:6 --clip 0
END
# One worker is alone, so asynchronous is what is synchronous, but for the loss.
run servers --model mlp:nano --servers 1 --dp 1 --steps 2
"$train" --hex --model mlp:nano --servers 1 --dp 1 --steps 2 | sed -n 's/^step.*norm/norm/p' >wanted
sed -n 's/^push.*norm/norm/p' servers | cmp -s - wanted || fail "one worker: $(cat servers)"

# --- live, with a slow worker: the bound is kept, and the log is an order
for options in '--servers 1 --staleness 1' '--servers 2 --staleness 0' '--servers 1'; do
    rm -f log*
    # shellcheck disable=SC2086 # words
    run live --model mlp:nano $options --dp 3 --batch 6 --steps 6 --slow 0:30 --arrivals-log log
    bound=${options##*staleness }
    sed -n 's/^# pushes by steps ahead: //p' all | tr ' ' '\n' | sed -n 's/:$//p' >aheads
    [ -s aheads ] || fail "$options: it does not tell how far ahead pushes were: $(cat all)"
    most=$(sort -n aheads | tail -n 1)
    [ "$bound" = "$options" ] || [ "$most" -eq "$bound" ] || # a slow worker lets others go as far as they may
        fail "$options: workers were up to $most steps ahead"
    # shellcheck disable=SC2086 # words
    run again --model mlp:nano $options --dp 3 --batch 6 --steps 6 --arrivals log
    cmp -s live again || fail "$options: the log gives $(diff live again | head -n 4)"
    # shellcheck disable=SC2086 # words
    run simulator simulate --model mlp:nano $options --dp 3 --batch 6 --steps 6 --arrivals log
    cmp -s live simulator || fail "$options: the simulator has $(diff live simulator | head -n 4)"
done

# A slow worker changes no bit of what is synchronous.
"$train" --hex --model mlp:nano --servers 1 --dp 2 --steps 2 --slow 1:2 | grep '^step' >slow
"$train" --hex --model mlp:nano --dp 2 --steps 2 | grep '^step' | cmp -s - slow || fail "--slow: $(cat slow)"

# --- what goes wrong is told by who knows the cause
"$train" --model mlp:nano --servers 1 --dp 2 --steps 20 --server-mode async --quiet --optimizer sgd \
    --rate 1e30 >out 2>said && fail "a loss that is no number: $(cat out)"
grep -q 'server 0: push [0-9]*, of worker [01], has the loss' said ||
    fail "a loss that is no number: $(cat said)"

# --- orders that cannot be
printf '0\n0\n0\n1\n1\n1\n' >hasty
async="--model mlp:nano --servers 1 --dp 2 --steps 3 --server-mode async"
# shellcheck disable=SC2086 # words
{
    "$train" $async --quiet --arrivals hasty >out 2>&1 || fail "an order without a bound: $(cat out)"
    run servers $async --arrivals hasty --staleness 2 # as far ahead as is legal
    run simulator simulate $async --arrivals hasty --staleness 2
    cmp -s servers simulator || fail "at the bound: $(diff servers simulator | head -n 4)"
    refused 'push 2 is of worker 0, which is 2 steps before the slowest' $async --arrivals hasty --staleness 1
    refused 'push 2 is of worker 0, which is 2 steps before' simulate $async --arrivals hasty --staleness 1
    refused 'line 7: 2 workers push 3 times each' $async --arrivals "$(cat hasty hasty >long && echo long)"
    refused '4 pushes, and 2 workers push 3 times each' $async \
        --arrivals "$(head -n 4 hasty >short && echo short)"
    refused 'push 4 is of worker 0, which has pushed 3 times' $async \
        --arrivals "$(sed '5s/1/0/' hasty >unequal && echo unequal)"
    refused 'line 1: legal are workers, 0 to 1' $async --arrivals "$(echo 2 >none && echo none)"
    refused 'the file cannot be read' $async --arrivals nowhere
    refused 'the file cannot be read' $async --arrivals .
    refused 'line 1: legal are workers, 0 to 1' $async --arrivals "$(echo 0.5 >half && echo half)"
    refused 'line 1: legal are workers, 0 to 1' $async --arrivals "$(echo 1x >word && echo word)"
    refused 'legal are live, seed:N with a whole number' $async --arrivals seed:x
    refused 'legal are live, seed:N with a whole number' $async --arrivals seed:-1
    refused 'legal are live, seed:N with a whole number' $async --arrivals seed:99999999999999999999
    refused '--arrivals reads that file' $async --arrivals hasty --arrivals-log hasty
    refused '--arrivals-log nowhere/log: No such file' $async --arrivals-log nowhere/log
    refused "the servers' orders contradict each other" $async --servers 2 \
        --arrivals "$(printf '0\n0\n0\n1\n1\n1\n' >two.0 && printf '1\n1\n1\n0\n0\n0\n' >two.1 && echo two)"
    refused 'simulate takes --servers' simulate $async
    refused '--save: asynchronous workers have no step in common' $async --save state
    refused 'legal are RANK:FACTOR' $async --slow 2:3
    refused 'legal are RANK:FACTOR' $async --slow 1
}
refused 'there is no server' --server-mode async
refused 'norm-too-late' train --inject list
refused 'there is no server' --staleness 1
refused 'legal with --server-mode async' --dp 2 --servers 1 --staleness 1
refused '--arrivals: pushes are taken' --dp 2 --servers 1 --arrivals seed:1
refused '--arrivals-log: pushes are taken' --dp 2 --servers 1 --arrivals-log log
refused 'legal with --servers' --dp 2 --slow 0:2

[ "$failures" -eq 0 ] && echo "server: in a given order the simulator's bits, live no worker beyond the bound"
exit "$failures"

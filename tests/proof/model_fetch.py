#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""model_fetch.py: messages between processes on one device, whose bytes the receiver's kernel fetches.

Each rank is a process with one stream, which is one queue of the device, and a worker. A group is a round,
and a message of it is known by its ends. The stream of a rank has for each round: the operands of what it
sends, each followed by the gate's word `ready`; then, for each message that it receives, `ready`, a wait for
`done`, and the kernel, which makes `over`; and last, for each that it sends, a wait for `done`. Each slice
counts two at its gate, as in model_led.py, which has what captured words are; here a message is one slice.

A worker has all messages of a round at once. A sender's worker says `here` when its stream has come, waits
for `left`, and opens the gate. A receiver's waits for its own stream and for `here`, tells the kernel where
the bytes are, claims `turn`, and lets it go; when it is over, it says `left`. `turn` of message k of a pair
is 2k, open; 2k + 1, a kernel may be out; or CANCELLED. Who gives up cancels what it receives, then what it
sends, or waits while a turn is odd, unless the receiver's process is wholly gone; and only then gates are
opened.

Promised: a kernel sees the place, and the bytes, of its message; who uses a result has that of its message,
unless the communicator has ended; no kernel reads or stores memory of a living rank whose stream has passed,
or may; nobody waits for ever."""
import collections

from explore import Report, Wrong, explore, put

CANCELLED = -1
ALIVE, DYING, GONE = range(3)
# What a worker does next with a message. It looks whether the communicator has ended only where it waits.
STREAM, HERE, LEFT, RESULTS, ALL, CLAIM, STORE, GO, KERNEL, LEAVE, TURN, END = range(12)
WAITS = (STREAM, LEFT, ALL, CLAIM, KERNEL)
RUNS, RECEIVES, SENDS, OPENS, STOPPED = range(5)  # a worker: with its messages, or which of them it gives up

# Of each pair, one after the other: how far both workers are (`work`: message, phase), the words of both
# gates, and what the ends share. `seen`: what the kernels of a rank are told; `loaded`: what the one that is
# on its way has.
State = collections.namedtuple(
    "State", "at work gives_up words here left turn seen skip loaded failed alive made result opened")
Words = collections.namedtuple("Words", "ready over done")
SENDER, RECEIVER = range(2)


def script_of(rank, pairs, rounds, mutant):
    """The stream's part. An item names a pair by its index."""
    sends = [p for p, ends in enumerate(pairs) if ends[SENDER] == rank]
    receives = [p for p, ends in enumerate(pairs) if ends[RECEIVER] == rank]
    script = []
    for k in range(rounds):
        for p in sends:
            script += [("make", p, k), ("put", p, SENDER, "ready", 2 * k + 1)]
        early = mutant == "says ready early"
        script += [("put", p, RECEIVER, "ready", 2 * k + 1) for p in receives if early]
        waits = [("wait", p, SENDER, 2 * k + 2) for p in sends]
        if mutant == "sends first":
            script += waits
        for p in receives:
            script += [] if early else [("put", p, RECEIVER, "ready", 2 * k + 1)]
            script += [("wait", p, RECEIVER, 2 * k + 1), ("load",), ("begin", p, k), ("end", p, k),
                       ("put", p, RECEIVER, "over", 2 * k + 2)]
        script += waits if mutant != "sends first" else []
        script += [("use", p, k) for p in receives] + [("pass", p, k) for p in sends]
    return script


def word(s, p, end, name):
    return getattr(s.words[p][end], name)


def with_word(s, p, end, name, value):
    return put(s.words, p, put(s.words[p], end, s.words[p][end]._replace(**{name: value})))


def has_passed(s, scripts, rank, what):
    return what in scripts[rank][:s.at[rank]]


def stream_step(s, scripts, pairs, rank):
    what, *item = scripts[rank][s.at[rank]]
    after = s._replace(at=put(s.at, rank, s.at[rank] + 1))
    if what == "make":
        yield after._replace(made=put(s.made, item[0], item[1]))
    elif what == "put":
        yield after._replace(words=with_word(s, *item))
    elif what == "wait":
        if word(s, item[0], item[1], "done") >= item[2]:
            yield after
    elif what == "load":
        yield after._replace(loaded=put(s.loaded, rank, (s.skip[rank], s.seen[rank])))
    elif what in ("begin", "end"):
        p, k = item
        sender = pairs[p][SENDER]
        skips, seen = s.loaded[rank]
        if skips:
            yield after
            return
        if seen != (p, k):
            raise Wrong("kernel %d of pair %d has the place %s" % (k, p, seen))
        if s.alive[sender] == ALIVE and (s.opened[sender] or has_passed(s, scripts, sender, ("pass", p, k))):
            raise Wrong("kernel %d reads memory of rank %d, which may use it" % (k, sender))
        if s.made[p] != k:
            raise Wrong("kernel %d of pair %d sees operand %d" % (k, p, s.made[p]))
        if s.alive[rank] == ALIVE and s.opened[rank]:
            raise Wrong("kernel %d stores into memory of rank %d, which may use it" % (k, rank))
        yield after._replace(result=put(s.result, p, k)) if what == "end" else after
    elif what == "use":
        if s.result[item[0]] != item[1] and not s.failed:
            raise Wrong("rank %d uses result %d for message %d" % (rank, s.result[item[0]], item[1]))
        yield after
    else:
        yield after


def work_step(s, pairs, p, end, rounds, mutant):
    """A worker, with one of its messages."""
    k, phase = s.work[p][end]
    rank = pairs[p][end]

    def to(next_phase, next_k=k, **changes):
        return s._replace(work=put(s.work, p, put(s.work[p], end, (next_k, next_phase))), **changes)

    def next_message(**changes):
        return to(STREAM if k + 1 < rounds else END, k + 1, **changes)

    if phase == STREAM and word(s, p, end, "ready") >= 2 * k + 1:
        yield to(HERE if end == SENDER else ALL)
    elif phase == HERE:
        yield to(LEFT, here=put(s.here, p, k + 1))
    elif phase == LEFT and s.left[p] > k:
        yield to(RESULTS)
    elif phase == RESULTS:
        yield next_message(words=with_word(s, p, end, "done", 2 * k + 2))
    elif phase == ALL and (s.here[p] > k or mutant == "goes alone"):
        yield to(CLAIM, seen=put(s.seen, rank, (p, k)), skip=put(s.skip, rank, False))
    elif phase == CLAIM and s.turn[p] == 2 * k:
        stored = mutant == "turn is stored"
        yield to(STORE if stored else GO, turn=s.turn if stored else put(s.turn, p, 2 * k + 1))
    elif phase == STORE:
        yield to(GO, turn=put(s.turn, p, 2 * k + 1))
    elif phase == GO:
        early = mutant == "lets go early"
        yield to(LEAVE if early else KERNEL, words=with_word(s, p, end, "done", 2 * k + 1))
    elif phase == KERNEL and word(s, p, end, "over") >= 2 * k + 2:
        yield to(LEAVE)
    elif phase == LEAVE:
        yield to(TURN, left=put(s.left, p, k + 1))
    elif phase == TURN:
        yield next_message(turn=put(s.turn, p, 2 * k + 2))


def take_turn(s, pairs, p, end, mutant):
    """One look at the turn of a pair, by who gives up: None, it is not to be had yet; or what is then so."""
    receiver = pairs[p][RECEIVER]
    gone = s.alive[receiver] >= (DYING if mutant == "dead is gone" else GONE)
    if s.turn[p] == CANCELLED or (end == SENDER and (gone or mutant == "opens at once")):
        return s
    if s.turn[p] % 2 == 0:
        return s._replace(turn=put(s.turn, p, CANCELLED))
    k = s.turn[p] // 2
    if end == RECEIVER and word(s, p, end, "over") >= 2 * k + 2:
        return s._replace(left=put(s.left, p, k + 1), turn=put(s.turn, p, CANCELLED))
    return None


def give_up_step(s, pairs, rank, rounds, mutant):
    """The communicator has ended."""
    first, second = (SENDS, RECEIVES) if mutant == "gives up what it sends first" else (RECEIVES, SENDS)
    phase = s.gives_up[rank]
    if phase in (RECEIVES, SENDS):
        end = RECEIVER if phase == RECEIVES else SENDER
        after = s
        for p, ends in enumerate(pairs):
            if ends[end] == rank:
                after = take_turn(after, pairs, p, end, mutant)
                if after is None:
                    return
        if end == RECEIVER and mutant != "skip is not set":
            after = after._replace(skip=put(after.skip, rank, True))
        follows = second if phase == first else OPENS
        yield after._replace(gives_up=put(s.gives_up, rank, follows),
                             opened=put(s.opened, rank, follows == OPENS))
    elif phase == OPENS:
        words = s.words
        for p, ends in enumerate(pairs):
            for end in (SENDER, RECEIVER):
                if ends[end] == rank:
                    words = put(words, p, put(words[p], end, words[p][end]._replace(done=2 * rounds)))
        yield s._replace(words=words, gives_up=put(s.gives_up, rank, STOPPED))
    elif s.failed:
        yield s._replace(gives_up=put(s.gives_up, rank, first))


def worker_steps(s, pairs, rank, rounds, mutant):
    mine = [(p, end) for p, ends in enumerate(pairs) for end in (SENDER, RECEIVER) if ends[end] == rank]
    if s.gives_up[rank] != RUNS:
        yield from give_up_step(s, pairs, rank, rounds, mutant)
        return
    for p, end in mine:
        yield from work_step(s, pairs, p, end, rounds, mutant)
    if s.failed and all(s.work[p][end][1] in WAITS + (END,) for p, end in mine):
        yield from give_up_step(s, pairs, rank, rounds, mutant)


def fate_steps(s, fails, killed):
    """The communicator ends for no reason, or a process is killed and its peers notice, any time later."""
    if not s.failed and (fails or ALIVE != max(s.alive)):
        yield s._replace(failed=True)
    for rank, state in enumerate(s.alive):
        if state == ALIVE and rank == killed or state == DYING:
            yield s._replace(alive=put(s.alive, rank, state + 1))


def fetch(n, pairs, rounds, fails=False, killed=None, mutant=None):
    """Each pair, (sender, receiver), has one message in each round."""
    scripts = [script_of(r, pairs, rounds, mutant) for r in range(n)]
    m = len(pairs)
    first = State(at=(0,) * n, work=(((0, STREAM),) * 2,) * m, gives_up=(RUNS,) * n,
                  words=((Words(0, 0, 0),) * 2,) * m, here=(0,) * m, left=(0,) * m, turn=(0,) * m,
                  seen=((),) * n, skip=(False,) * n, loaded=((False, ()),) * n, failed=False,
                  alive=(ALIVE,) * n, made=(-1,) * m, result=(-1,) * m, opened=(False,) * n)

    def steps(s):
        yield from fate_steps(s, fails, killed)
        for r in range(n):
            if s.at[r] < len(scripts[r]) and s.alive[r] != GONE:
                yield from stream_step(s, scripts, pairs, r)
            if s.alive[r] == ALIVE:
                yield from worker_steps(s, pairs, r, rounds, mutant)

    def is_end(s):
        return all(s.alive[r] != ALIVE or s.at[r] == len(scripts[r]) for r in range(n))

    return explore(first, steps, is_end)


ONE, BOTH, TWO_TO_ONE = ((0, 1),), ((0, 1), (1, 0)), ((1, 0), (2, 0))
CIRCLE, CHAIN = ((0, 1), (1, 2), (2, 0)), ((0, 1), (1, 2))


def main():
    report = Report("model_fetch")
    for n, pairs, rounds in ((2, ONE, 3), (2, BOTH, 2), (3, TWO_TO_ONE, 1), (3, CHAIN, 1), (3, CIRCLE, 1)):
        report.holds("%s, %d rounds" % (pairs, rounds), fetch, n, pairs, rounds)
    for pairs, rounds in ((ONE, 2), (BOTH, 1)):
        report.holds("%s, it fails" % (pairs,), fetch, 2, pairs, rounds, fails=True)
        for killed in range(2):
            report.holds("%s, %d is killed" % (pairs, killed), fetch, 2, pairs, rounds, killed=killed)
    report.holds("%s, 1 is killed" % (TWO_TO_ONE,), fetch, 3, TWO_TO_ONE, 1, killed=1)
    report.finds("sends first", "nothing can move", fetch, 2, BOTH, 1)
    report.finds("goes alone", "sees operand", fetch, 2, ONE, 1)
    report.finds("lets go early", "which may use it", fetch, 2, ONE, 2)
    report.finds("turn is stored", "which may use it", fetch, 2, ONE, 1, fails=True)
    report.finds("opens at once", "which may use it", fetch, 2, ONE, 1, fails=True)
    report.finds("skip is not set", "has the place", fetch, 2, ONE, 1, fails=True)
    report.finds("dead is gone", "which may use it", fetch, 2, ONE, 1, killed=1)
    report.finds("says ready early", "has the place", fetch, 3, TWO_TO_ONE, 1)
    report.finds("gives up what it sends first", "nothing can move", fetch, 2, BOTH, 1, fails=True)
    report.exit()


if __name__ == "__main__":
    main()

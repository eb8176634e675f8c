#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""model_direct.py: kernels of several devices that store into each other's pads (cuda_direct.h).

LL: a thread of a kernel stores a packet for its fellow on each other device, in the half of the slots that
its call's parity says, and waits for theirs. A kernel ends with its last thread, and only then the next
call's begins; or one kernel does a list of calls, and its threads all end one before any begins the next, by
a barrier, which is the same to all others. So ranks may list different calls. Nothing else keeps a rank from
storing where another one has not read yet. Threads have no packet where a call has fewer vectors.

PADS: a block of each kernel stores its operand in its own pad, meets the others, folds all operands into its
result there, meets them again, and gathers all results; then it stores the next operand. To meet is to store
one's number in a flag of each other one, and to wait until one's own flags have it.

MAPPED: a kernel tells each other one where it reaches the rank's buffer, and has told so when it has come.
If one has nothing that all reach, all of them take PADS. Else each folds its share of all buffers into its
own, in place, they meet, it gathers the other shares, and they meet again: nobody reads any more, and the
rank has its buffer back.

Promised: nobody overwrites what somebody has not read; who reads finds what was stored for that call or
round; nobody reads what its rank has back; nobody waits for ever."""
import collections

from explore import Report, Wrong, explore, put

# --- LL

Packets = collections.namedtuple("Packets", "call sent heard slots")


def everybody(sender, receiver):
    return sender != receiver


def from_the_root(sender, receiver):
    return sender == 0 and receiver != 0


def but_for_one_pair(sender, receiver):
    return sender != receiver and (sender, receiver) != (1, 0)


def ll(n, threads, calls, vectors=(), lists=0, mutant=None):
    """Thread t of rank r is number r * threads + t; a slot has the number of the call that stored last. Call
    c has vectors[c] of them, or one for each thread. The first `lists` ranks have one kernel for all."""
    kinds = {"only the root sends": from_the_root, "a block is empty": but_for_one_pair}
    wants = kinds.get(mutant, everybody)
    halves = 1 if mutant == "one half" else 2
    everyone = range(n * threads)

    def slot(sender, receiver, call):
        return (sender * n + receiver // threads) * halves + call % halves

    def steps(s):
        for me in everyone:
            rank, fellow = divmod(me, threads)
            call = s.call[me]
            together = rank >= lists or mutant != "no barrier in a list"
            if call == calls or (together and min(s.call[rank * threads:(rank + 1) * threads]) < call):
                continue
            is_last = True
            has_one = fellow < (vectors[call] if vectors else threads)
            for other in range(n):
                peer = other * threads + fellow
                if has_one and wants(rank, other) and other not in s.sent[me]:
                    is_last = False
                    at = slot(me, peer, call)
                    was = s.slots[at]
                    unread = s.call[peer] < was or (s.call[peer] == was and rank not in s.heard[peer])
                    if was >= 0 and unread:
                        raise Wrong("thread %d stores where %d has not read packet %d" % (me, peer, was))
                    yield s._replace(sent=put(s.sent, me, s.sent[me] | {other}), slots=put(s.slots, at, call))
                if has_one and wants(other, rank) and other not in s.heard[me]:
                    is_last = False
                    if s.slots[slot(peer, me, call)] == call:
                        yield s._replace(heard=put(s.heard, me, s.heard[me] | {other}))
            if is_last:
                yield s._replace(call=put(s.call, me, call + 1), sent=put(s.sent, me, frozenset()),
                                 heard=put(s.heard, me, frozenset()))

    nothing = (frozenset(),) * (n * threads)
    first = Packets((0,) * (n * threads), nothing, nothing, (-1,) * (n * threads * n * halves))
    return explore(first, steps, lambda s: min(s.call) == calls)


# --- PADS

# What a block does next in its round: the second of a pair is done with one rank after the other.
STORE, TELL, AWAIT, FOLD, TELL_FOLDED, AWAIT_FOLDED, GATHER = range(7)

Pads = collections.namedtuple("Pads", "at flags operand result")


def pads(n, rounds, mutant=None):
    def read(s, me, other, kept, what, number):
        if kept[other] != number:
            raise Wrong("rank %d reads %s %s of rank %d in round %d" % (me, what, kept[other], other, number))

    def steps(s):
        for me in range(n):
            number, phase, other = s.at[me]
            if number == rounds:
                continue
            epoch = 2 * number + (1 if phase in (TELL, AWAIT) else 2)

            def go_on(**changes):
                after = (number, phase, other + 1) if other + 1 < n else (number, phase + 1, 0)
                if after[1] > GATHER:
                    after = (number + 1, STORE, 0)
                return s._replace(at=put(s.at, me, after), **changes)

            def skip_to(next_phase, **changes):
                return s._replace(at=put(s.at, me, (number, next_phase, 0)), **changes)

            if phase == STORE:
                first = FOLD if mutant == "operands are not awaited" else TELL
                yield skip_to(first, operand=put(s.operand, me, number))
            elif phase in (TELL, TELL_FOLDED):
                yield go_on(flags=put(s.flags, other, put(s.flags[other], me, epoch)))
            elif phase in (AWAIT, AWAIT_FOLDED):
                if s.flags[me][other] >= epoch:
                    yield go_on()
            elif phase == FOLD:
                read(s, me, other, s.operand, "operand", number)
                if other + 1 < n:
                    yield go_on()
                else:
                    after = GATHER if mutant == "results are not awaited" else TELL_FOLDED
                    yield skip_to(after, result=put(s.result, me, number))
            elif phase == GATHER:
                read(s, me, other, s.result, "result", number)
                yield go_on()

    first = Pads(((0, STORE, 0),) * n, ((0,) * n,) * n, (-1,) * n, (-1,) * n)
    return explore(first, steps, lambda s: all(at[0] == rounds for at in s.at))


# --- MAPPED

# What a kernel does next; in each phase it does one rank after the other.
PLACE, AWAIT_PLACES, READ, TELL_READ, AWAIT_READ, COLLECT, TELL_COLLECTED, AWAIT_COLLECTED = range(8)

# shares[r][k]: what rank r has of share k: (is it folded, of which call).
Mapped = collections.namedtuple("Mapped", "at places flags shares")


def mapped(n, calls, unmapped=(), mutant=None):
    """Rank r in call c has nothing that others reach if (r, c) is in `unmapped`. PADS is not done again here:
    it only has to be taken by all."""
    operand, result = False, True

    def fresh(call):
        return ((operand, call),) * n

    def read(s, me, other, share, kind, call):
        if s.shares[other][share] != (kind, call):
            raise Wrong("rank %d reads %r of rank %d, in call %d" % (me, s.shares[other][share], other, call))

    def store(s, me, share, call):
        return put(s.shares, me, put(s.shares[me], share, (result, call)))

    def steps(s):
        for me in range(n):
            call, phase, other = s.at[me]
            if call == calls:
                continue

            def go_on(**changes):
                after = (call, phase, other + 1) if other + 1 < n else (call, phase + 1, 0)
                if after[1] == READ and phase == AWAIT_PLACES and takes_pads(call, s, me):
                    after = (call, TELL_COLLECTED, 0)
                if mutant == "shares are not awaited" and after[1] == TELL_READ:
                    after = (call, COLLECT, 0)
                if mutant == "who has read is done" and after[1] == TELL_COLLECTED:
                    after = (call, AWAIT_COLLECTED + 1, 0)
                changes.setdefault("shares", s.shares)
                if after[1] > AWAIT_COLLECTED:
                    after = (call + 1, PLACE, 0)
                    changes["shares"] = put(changes["shares"], me, fresh(call + 1))
                return s._replace(at=put(s.at, me, after), **changes)

            if phase == PLACE:
                told = (call, (me, call) not in unmapped)
                yield go_on(places=put(s.places, other, put(s.places[other], me, told)))
            elif phase == AWAIT_PLACES:
                if s.places[me][other][0] >= call or mutant == "places are not awaited":
                    yield go_on()
            elif phase == READ:
                if (other, call) in unmapped:
                    raise Wrong("rank %d reads where rank %d has nothing that it reaches" % (me, other))
                read(s, me, other, me, operand, call)
                yield go_on(shares=store(s, me, me, call)) if other + 1 == n else go_on()
            elif phase in (TELL_READ, TELL_COLLECTED):
                epoch = 2 * call + (1 if phase == TELL_READ else 2)
                yield go_on(flags=put(s.flags, other, put(s.flags[other], me, epoch)))
            elif phase in (AWAIT_READ, AWAIT_COLLECTED):
                if s.flags[me][other] >= 2 * call + (1 if phase == AWAIT_READ else 2):
                    yield go_on()
            elif phase == COLLECT:
                read(s, me, other, other, result, call)
                yield go_on(shares=store(s, me, other, call))

    def takes_pads(call, s, me):
        if mutant == "a rank decides alone":
            return (me, call) in unmapped
        return not all(told for _, told in s.places[me])

    first = Mapped(((0, PLACE, 0),) * n, (((-1, False),) * n,) * n, ((0,) * n,) * n, (fresh(0),) * n)
    return explore(first, steps, lambda s: all(at[0] == calls for at in s.at))


# --- MAPPED, where a rank gives up at any moment

# A kernel: it has not begun; it has told that it is out; it has looked whether it is to leave, and so has
# told its places; it knows all places, and reads; it has read all; or it has left, and waits to be let go.
WAITING, OUT, PLACED, READING, HAS_READ, LEFT, OVER = range(7)
# Its host: nothing is wrong; it has said that kernels are to leave; its own has; so have the others'.
FINE, LEAVING, ALONE, RELEASED = range(4)

Given = collections.namedtuple("Given", "kernel told read host looked")


def given_up(n, mutant=None):
    """A kernel that is over is one whose rank may free its buffer."""
    inside = (PLACED, READING, HAS_READ) if mutant == "it looks first" else (OUT, PLACED, READING, HAS_READ)

    def steps(s):
        for me in range(n):
            kernel, host = s.kernel[me], s.host[me]
            looks = (WAITING if mutant == "it looks first" else OUT) if mutant != "it does not look" else None

            def become(phase, **changes):
                return s._replace(kernel=put(s.kernel, me, phase), **changes)

            if kernel == looks and host != FINE:
                yield become(OVER)
            elif kernel == WAITING:
                yield become(OUT)
            elif kernel == OUT:
                yield become(PLACED, told=put(s.told, me, True))
            elif kernel == PLACED and all(s.told):
                yield become(READING)
            elif kernel == READING:
                other = s.read[me]
                if s.kernel[other] == OVER:
                    raise Wrong("rank %d reads what rank %d has back" % (me, other))
                yield become(HAS_READ if other + 1 == n else READING, read=put(s.read, me, other + 1))
            elif kernel == HAS_READ:
                if mutant == "readers are not awaited" or min(s.read) == n:
                    yield become(OVER)
            elif kernel == LEFT:
                if host == RELEASED or mutant == "who leaves is let go":
                    yield become(OVER)
            if kernel in (PLACED, HAS_READ) and host != FINE:
                yield become(LEFT)
            if host == FINE:
                yield s._replace(host=put(s.host, me, LEAVING))
            elif host == LEAVING and kernel not in inside:
                yield s._replace(host=put(s.host, me, ALONE))
            elif host == ALONE:
                other = s.looked[me]
                if (s.host[other] != FINE and s.kernel[other] not in inside) or mutant == "only one looks":
                    after = RELEASED if other + 1 == n else ALONE
                    yield s._replace(looked=put(s.looked, me, other + 1), host=put(s.host, me, after))

    zeros = (0,) * n
    first = Given((WAITING,) * n, (False,) * n, zeros, zeros, zeros)
    return explore(first, steps, lambda s: all(k == OVER for k in s.kernel))


def main():
    report = Report("model_direct")
    for n, threads, calls in ((2, 1, 6), (2, 2, 4), (3, 1, 4)):
        report.holds("LL, %d ranks of %d threads, %d calls" % (n, threads, calls), ll, n, threads, calls)
    for n, calls in ((2, (2, 1, 2, 1, 2)), (2, (1, 1, 2, 2)), (3, (1, 1))):
        report.holds("LL, %d ranks, calls of %s vectors" % (n, calls), ll, n, 2, len(calls), calls)
    for lists in (1, 2):
        report.finds("no barrier in a list", "has not read", ll, 2, 2, 3, (2, 1, 2), lists)
    for mutant in ("one half", "only the root sends"):
        report.finds(mutant, "has not read", ll, 2, 1, 4)
    report.finds("a block is empty", "has not read", ll, 3, 1, 4)
    for n, rounds in ((2, 4), (3, 2), (4, 1)):
        report.holds("PADS, %d ranks, %d rounds" % (n, rounds), pads, n, rounds)
    report.finds("operands are not awaited", "reads operand", pads, 2, 2)
    report.finds("results are not awaited", "reads result", pads, 2, 2)
    for n, calls in ((2, 3), (3, 1)):
        report.holds("MAPPED, %d ranks, %d calls" % (n, calls), mapped, n, calls)
    report.holds("MAPPED, not all", mapped, 2, 3, {(1, 1)})
    report.finds("a rank decides alone", "has nothing", mapped, 2, 2, {(1, 1)})
    for mutant in ("places are not awaited", "shares are not awaited", "who has read is done"):
        report.finds(mutant, " reads ", mapped, 2, 2)
    for n in (2, 3):
        report.holds("MAPPED, %d ranks that give up" % n, given_up, n)
    for mutant in ("it does not look", "it looks first", "readers are not awaited", "who leaves is let go",
                   "only one looks"):
        report.finds(mutant, "has back", given_up, 2)
    report.exit()


if __name__ == "__main__":
    main()

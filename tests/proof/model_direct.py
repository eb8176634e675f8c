#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""model_direct.py: kernels of several devices that store into each other's pads (cuda_direct.h).

LL: a thread of a kernel stores a packet for its fellow on each other device, in the half of the slots that
its call's parity says, and waits for theirs. A kernel ends with its last thread, and only then the next
call's begins. Nothing else keeps a rank from storing where another one has not read yet.

PADS: a block of each kernel stores its operand in its own pad, meets the others, folds all operands into its
result there, meets them again, and gathers all results; then it stores the next operand. To meet is to store
one's number in a flag of each other one, and to wait until one's own flags have it.

Promised: nobody overwrites what somebody has not read; who reads finds what was stored for that call or
round; nobody waits for ever."""
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


def ll(n, threads, calls, mutant=None):
    """Thread t of rank r is number r * threads + t; a slot has the number of the call that stored last."""
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
            if call == calls or min(s.call[rank * threads:(rank + 1) * threads]) < call:
                continue
            is_last = True
            for other in range(n):
                peer = other * threads + fellow
                if wants(rank, other) and other not in s.sent[me]:
                    is_last = False
                    at = slot(me, peer, call)
                    was = s.slots[at]
                    unread = s.call[peer] < was or s.call[peer] == was and rank not in s.heard[peer]
                    if was >= 0 and unread:
                        raise Wrong("thread %d stores where %d has not read packet %d" % (me, peer, was))
                    yield s._replace(sent=put(s.sent, me, s.sent[me] | {other}), slots=put(s.slots, at, call))
                if wants(other, rank) and other not in s.heard[me]:
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


def main():
    report = Report("model_direct")
    for n, threads, calls in ((2, 1, 6), (2, 2, 4), (3, 1, 4)):
        report.holds("LL, %d ranks of %d threads, %d calls" % (n, threads, calls), ll, n, threads, calls)
    for mutant in ("one half", "only the root sends"):
        report.finds(mutant, "has not read", ll, 2, 1, 4)
    report.finds("a block is empty", "has not read", ll, 3, 1, 4)
    for n, rounds in ((2, 4), (3, 2), (4, 1)):
        report.holds("PADS, %d ranks, %d rounds" % (n, rounds), pads, n, rounds)
    report.finds("operands are not awaited", "reads operand", pads, 2, 2)
    report.finds("results are not awaited", "reads result", pads, 2, 2)
    report.exit()


if __name__ == "__main__":
    main()

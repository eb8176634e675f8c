#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""model_words.py: ranks of several processes on one device meet by their workers; the leader's kernel does
all.

A stream speaks with its own worker only, by three words of pinned memory: `ready`, it has made its operand;
`done`, the gate, behind which the leader's stream has the kernel and the others what uses their results; and
`over`, which the leader's kernel writes. Workers meet in shared memory: each tells `here`; when all are here
the leader's worker opens its own gate, and when the kernel is over it tells `left`, upon which the others
open theirs. Eager calls count in their words. Captured calls have words of their own, `ready` being the name
of the call. Who waits for one of those clears it: so replays find what the first one found, and ranks may
capture or not as they like.

`turn` of call c: 2c, open; 2c + 1, a kernel may be storing; CANCELLED. When the communicator fails, a
follower opens its gate only after it has cancelled; or when the leader's process is gone, for the kernel of a
process that is dying may go on for a while.

Promised: a kernel that does not skip sees the operands of its call, of all ranks; who uses a result has that
of its call, unless the communicator has failed; nothing is stored at a rank whose stream has passed; a
captured call is run for itself; no stream of a living process waits for ever."""
import collections

from explore import Report, Wrong, explore, put

CANCELLED = -1
READY, DONE, OVER = 0, 1, 2
CAPTURED = 3  # what a captured call adds to the number of its word
# What a worker does next in its call.
AWAIT, COME, MEET, OPEN, FINISH = range(5)
CLAIM = 5  # of the mutant that looks at the turn, and writes it later
ALIVE, DYING, GONE = range(3)

State = collections.namedtuple("State", "stream worker words here turn left failed life made result skips")


def count_of(calls, call):
    """What an eager call's words come to."""
    return calls[: call + 1].count("E")


def stream_program(rank, calls, mutant):
    program = []
    for call, kind in enumerate(calls):
        base = CAPTURED if kind == "C" else 0
        value = 1 if base else count_of(calls, call)
        program += [("make", call), ("put", READY + base, call + 1 if base else value)]
        program.append(("wait", DONE + base, value))
        if rank == 0:
            program += [("begin", call), ("end", call), ("put", OVER + base, value)]
        program.append(("pass", call))
        if base and mutant == "the stream clears over":
            program += [("put", READY + base, 0), ("put", OVER + base, 0)]
        if base:
            program.append(("put", DONE + base, 0))
        program.append(("use", call))
    return program


class Model:
    def __init__(self, calls, faults, mutant):
        self.calls, self.faults, self.mutant = calls, faults, mutant
        self.n, self.count = len(calls), len(calls[0])
        self.programs = [stream_program(r, calls[r], mutant) for r in range(self.n)]

    # --- Streams

    def stream_step(self, s, rank):
        what, a, *b = self.programs[rank][s.stream[rank]]
        after = s._replace(stream=put(s.stream, rank, s.stream[rank] + 1))
        if what == "put":
            yield self.written(after, rank, a, b[0])
        elif what == "wait":
            if s.words[rank][a] >= b[0]:
                yield after
        elif what == "make":
            yield after._replace(made=put(s.made, rank, a))
        elif what == "begin":
            self.check_operands(s, a)
            yield after
        elif what == "end":
            self.check_operands(s, a)
            self.check_passed(s, a)
            yield after if s.skips else after._replace(result=(a,) * self.n)
        elif what == "use":
            if s.result[rank] != a and not s.failed:
                raise Wrong("rank %d uses result %d for call %d" % (rank, s.result[rank], a))
            yield after
        else:
            yield after

    def check_operands(self, s, call):
        if not s.skips and any(version != call for version in s.made):
            raise Wrong("kernel %d sees operands %s" % (call, s.made))

    def check_passed(self, s, call):
        for rank in range(self.n):
            passed = s.stream[rank] > self.programs[rank].index(("pass", call))
            if not s.skips and passed and s.life[rank] == ALIVE:
                raise Wrong("kernel %d stores at rank %d, whose stream has passed" % (call, rank))

    @staticmethod
    def written(s, rank, word, value):
        return s._replace(words=put(s.words, rank, put(s.words[rank], word, value)))

    # --- Workers

    def to(self, s, rank, phase, call=None, **changes):
        call = s.worker[rank][0] if call is None else call
        return s._replace(worker=put(s.worker, rank, (call, phase)), **changes)

    def worker_step(self, s, rank):
        call, phase = s.worker[rank]
        base = CAPTURED if self.calls[rank][call] == "C" else 0
        if phase == AWAIT:
            yield from self.await_ready(s, rank, call, base)
        elif phase == COME:
            yield self.to(s, rank, MEET, here=put(s.here, rank, call + 1))
        elif rank == 0:
            yield from self.lead(s, call, phase, base)
        else:
            yield from self.follow(s, rank, call, phase, base)

    def await_ready(self, s, rank, call, base):
        ready, done = s.words[rank][READY + base], s.words[rank][DONE + base]
        if self.mutant == "the stream clears over" and base and done != 0:
            return
        if base and ready != 0:
            if ready != call + 1:
                raise Wrong("rank %d runs captured call %d for %d" % (rank, ready - 1, call))
            keeps = self.mutant in ("ready is kept", "the stream clears over")
            yield self.to(s if keeps else self.written(s, rank, READY + base, 0), rank, COME)
        elif not base and ready >= count_of(self.calls[rank], call):
            yield self.to(s, rank, COME)

    def opened(self, s, rank, call, base, phase, next_call, **changes):
        """The gate of this call opens."""
        value = 1 if base else count_of(self.calls[rank], call)
        return self.to(self.written(s, rank, DONE + base, value), rank, phase, next_call, **changes)

    def lead(self, s, call, phase, base):
        if phase == MEET and s.failed and s.turn == CANCELLED:
            yield self.opened(s, 0, call, base, FINISH, call, skips=True)
        elif phase == MEET and s.failed and s.turn % 2 == 0:
            yield s._replace(turn=CANCELLED)
        elif phase == MEET and not s.failed and min(s.here) > call:
            if self.mutant == "turn is not claimed":
                yield self.to(s, 0, CLAIM if s.turn != CANCELLED else MEET)
            elif s.turn == CANCELLED:
                yield self.opened(s, 0, call, base, FINISH, call, skips=True)
            else:
                yield self.to(s, 0, OPEN, turn=2 * call + 1)
        elif phase == CLAIM:
            yield self.to(s, 0, OPEN, turn=2 * call + 1)
        elif phase == OPEN:
            yield self.opened(s, 0, call, base, FINISH, call)
        elif phase == FINISH:
            yield from self.finish(s, call, base)

    def finish(self, s, call, base):
        if s.words[0][OVER + base] < (1 if base else count_of(self.calls[0], call)):
            return
        turn = s.turn if s.turn == CANCELLED else 2 * call + 2
        keeps = not base or self.mutant in ("over is kept", "the stream clears over")
        after = s if keeps else self.written(s, 0, OVER + base, 0)
        yield self.to(after, 0, AWAIT, call + 1, turn=turn, left=call + 1)

    def follow(self, s, rank, call, phase, base):
        if phase == OPEN:
            yield self.opened(s, rank, call, base, AWAIT, call + 1)
        elif s.left > call:
            yield self.to(s, rank, OPEN)
        elif s.failed and self.mutant == "opens at once":
            yield self.to(s, rank, OPEN)
        elif s.failed and self.mutant == "dying is gone" and s.life[0] != ALIVE:
            yield self.to(s, rank, OPEN)
        elif s.failed and (s.turn == CANCELLED or s.life[0] == GONE):
            yield self.to(s, rank, OPEN)
        elif s.failed and s.turn % 2 == 0:
            yield s._replace(turn=CANCELLED)

    # --- All of it

    def fault_steps(self, s):
        victims = [0] * ("leader dies" in self.faults) + [self.n - 1] * ("follower dies" in self.faults)
        if not s.failed and ("fails" in self.faults or max(s.life) > ALIVE):
            yield s._replace(failed=True)
        for rank in victims:
            if max(s.life) == ALIVE:
                yield s._replace(life=put(s.life, rank, DYING))
        for rank in range(self.n):
            if s.life[rank] == DYING:
                yield s._replace(life=put(s.life, rank, GONE))

    def steps(self, s):
        yield from self.fault_steps(s)
        for rank in range(self.n):
            if s.stream[rank] < len(self.programs[rank]) and s.life[rank] != GONE:
                yield from self.stream_step(s, rank)
            if s.worker[rank][0] < self.count and s.life[rank] == ALIVE:
                yield from self.worker_step(s, rank)

    def is_end(self, s):
        ranks = range(self.n)
        return all(s.stream[r] == len(self.programs[r]) or s.life[r] != ALIVE for r in ranks)


def words(*calls, faults=(), mutant=None):
    """calls: of each rank, a letter a call: E, eager, or C, captured."""
    model, n = Model(calls, faults, mutant), len(calls)
    first = State(stream=(0,) * n, worker=((0, AWAIT),) * n, words=((0,) * 6,) * n, here=(0,) * n, turn=0,
                  left=0, failed=False, life=(ALIVE,) * n, made=(-1,) * n, result=(-1,) * n, skips=False)
    return explore(first, model.steps, model.is_end)


def main():
    report = Report("model_words")
    for calls in ("EEEE", "CCCC", "ECCE"):
        report.holds("2 ranks, %s" % calls, words, calls, calls)
    report.holds("2 ranks that differ", words, "ECEC", "CECE")
    report.holds("3 ranks that differ", words, "EC", "CE", "CC")
    for fault in ("fails", "leader dies", "follower dies"):
        for calls in ("EE", "CC"):
            report.holds("2 ranks, %s, one %s" % (calls, fault), words, calls, calls, faults=(fault,))
        report.holds("2 ranks that differ, one %s" % fault, words, "EC", "CE", faults=(fault,))
        report.holds("3 ranks, one %s" % fault, words, "E", "C", "E", faults=(fault,))
    stores = "whose stream has passed"
    report.finds("opens at once", stores, words, "EE", "EE", faults=("fails",))
    report.finds("dying is gone", stores, words, "EE", "EE", faults=("leader dies",))
    report.finds("turn is not claimed", stores, words, "EE", "EE", faults=("fails",))
    report.finds("ready is kept", "runs captured call", words, "CC", "CC")
    report.finds("over is kept", "uses result", words, "CC", "CC")
    report.finds("the stream clears over", "nothing can move", words, "CCC", "CCC")
    report.exit()


if __name__ == "__main__":
    main()

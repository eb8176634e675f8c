#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""model_led.py: ranks of several processes on one device, whose workers meet; the kernel of one serves all.

Rank 0 leads. A rank has a stream, which a device runs, and a worker, which runs its calls slice by slice; the
two know each other by the words of a gate. Each slice counts two there: the stream makes `ready` one more
when its operands are in their place; the worker makes `done` one more when the kernel may begin, for which
the leader's stream waits, and two when the results are there, for which the others' do. The leader's kernel
makes `over` two more. Words of captured calls begin at 0 with each replay, and who waits for one clears it;
who captures and who does not is each rank's own affair. By what name a worker knows which call its stream
has reached is another model's (model_captured.py): here it is told.

The workers meet by rows: a rank writes where its bytes are, then `here`; the leader's worker, when all are,
tells its kernel where all bytes are, claims `turn`, and lets it go; when it is over, it says `left`. `turn`
of round t is 2t, open; 2t + 1, a kernel may be out; or CANCELLED. Who gives up cancels it first, or waits
while it is odd, unless the leader's process is wholly gone: a killed one's device goes on for a while. The
leader then tells its kernel to skip, and only then a gate is opened.

Promised: the kernel of a slice sees the operands, and the places, of that slice, of all ranks; who uses a
result has that of its slice, unless the communicator has ended; no kernel stores into memory of a living rank
whose stream has passed, or may; nobody waits for ever."""
import collections

from explore import Report, Wrong, explore, put

CANCELLED = -1
ALIVE, DYING, GONE = range(3)
# What a worker does next. It looks whether the communicator has ended only where it waits.
STREAM, ROW, HERE, ALL, CLAIM, STORE, GO, KERNEL, LEAVE, TURN, RESULTS, LEFT, GIVE_UP, OPEN, END = range(15)
WAITS = (STREAM, ALL, CLAIM, KERNEL, LEFT)

# words: of each rank, two gates, one of eager calls and one of captured ones. rows, seen, loaded: the slice
# that each rank's place is of, as said by it, as told to the kernel, and as the kernel has it. A call of a
# graph has its `total` for all of it: that is what a gate is opened to.
State = collections.namedtuple(
    "State", "at work words rows here left turn seen skip loaded failed alive made result opened")
Gate = collections.namedtuple("Gate", "ready over done")
Call = collections.namedtuple("Call", "captured base slices rounds begin total following")


class Rank:
    """What a rank is to do: a script for its stream, and its calls for the worker. A pattern is a list of
    words: E is an eager call, and of C each is a call of one graph."""

    def __init__(self, rank, pattern, slices, host, mutant):
        self.leads, self.script, self.calls = rank == 0, [], []
        self.waits = {}  # where in the script its stream waits for the results of a round
        counted = rounds = 0
        for graph in pattern:
            captured = graph[0] == "C"
            base, begin = (0 if captured else counted), len(self.script)
            first = len(self.calls)
            for _ in graph:
                count = slices[len(self.calls)]
                self.calls.append(Call(captured, base, count, rounds, begin, 0, 0))
                for z in range(count):
                    self.add_slice(captured, base + 2 * z, rounds + z, host)
                base, rounds = base + 2 * count, rounds + count
            counted = counted if captured else base
            following = len(self.calls)
            self.calls[first:] = [c._replace(total=base, following=following) for c in self.calls[first:]]
            if captured and mutant == "the stream clears over":
                self.script.append(("put", captured, "over", 0))
            if captured and mutant != "done is kept":
                self.script.append(("put", captured, "done", 0))

    def add_slice(self, captured, base, t, host):
        self.script += [("make", t), ("put", captured, "ready", base + 1)]
        if self.leads:
            self.script += [("wait", captured, "done", base + 1), ("load",), ("begin", t), ("end", t),
                            ("put", captured, "over", base + 2)]
        if not self.leads or host:
            self.script.append(("wait", captured, "done", base + 2))
        self.waits[t] = len(self.script) - 1
        self.script.append(("use", t))


def word(s, rank, captured, name):
    return getattr(s.words[rank][captured], name)


def with_word(s, rank, captured, name, value):
    gate = s.words[rank][captured]._replace(**{name: value})
    return put(s.words, rank, put(s.words[rank], captured, gate))


def stream_step(s, ranks, rank):
    what, *item = ranks[rank].script[s.at[rank]]
    after = s._replace(at=put(s.at, rank, s.at[rank] + 1))
    if what == "make":
        yield after._replace(made=put(s.made, rank, item[0]))
    elif what == "put":
        yield after._replace(words=with_word(s, rank, *item))
    elif what == "wait":
        if word(s, rank, item[0], item[1]) >= item[2]:
            yield after
    elif what == "load":
        yield after._replace(loaded=(s.skip, s.seen))
    elif what in ("begin", "end") and s.loaded[0]:
        yield after
    elif what == "begin":
        if any(t != item[0] for t in s.loaded[1]):
            raise Wrong("kernel %d has the places %s" % (item[0], s.loaded[1]))
        look_at_operands(s, item[0])
        yield after
    elif what == "end":
        for k, other in enumerate(ranks):
            if s.alive[k] == ALIVE and (s.opened[k] or s.at[k] > other.waits[item[0]]):
                raise Wrong("kernel %d stores into memory of rank %d, which may use it" % (item[0], k))
        look_at_operands(s, item[0])
        yield after._replace(result=(item[0],) * len(ranks))
    elif what == "use":
        if s.result[rank] != item[0] and not s.failed:
            raise Wrong("rank %d uses result %d for slice %d" % (rank, s.result[rank], item[0]))
        yield after


def look_at_operands(s, t):
    if any(version != t for version in s.made):
        raise Wrong("kernel %d sees operands %s" % (t, s.made))


def meet_step(s, ranks, rank, mutant):
    """A worker, up to where the leader's kernel and the others part."""
    call, z, phase = s.work[rank]
    c = ranks[rank].calls[call]
    t, is_last = c.rounds + z, z + 1 == c.slices

    def to(next_phase, **changes):
        return s._replace(work=put(s.work, rank, (call, z, next_phase)), **changes)

    if phase == STREAM and word(s, rank, c.captured, "ready") >= c.base + 2 * z + 1:
        clears = c.captured and is_last and mutant not in ("ready is kept", "ready is cleared early")
        words = with_word(s, rank, c.captured, "ready", 0) if clears else s.words
        yield to(HERE if mutant == "here before the row" else ROW, words=words)
    elif phase == ROW:
        early = mutant == "here before the row"
        yield to((LEFT if rank else ALL) if early else HERE, rows=put(s.rows, rank, t))
    elif phase == HERE:
        early = mutant == "here before the row"
        yield to(ROW if early else LEFT if rank else ALL, here=put(s.here, rank, t + 1))
    elif phase == LEFT and s.left > t:
        yield to(RESULTS)
    elif phase == RESULTS:
        words = with_word(s, rank, c.captured, "done", c.base + 2 * z + 2)
        yield from next_slice(s._replace(words=words), ranks, rank, mutant)


def lead_step(s, ranks, host, mutant):
    call, z, phase = s.work[0]
    c = ranks[0].calls[call]
    t, is_last = c.rounds + z, z + 1 == c.slices

    def to(next_phase, **changes):
        return s._replace(work=put(s.work, 0, (call, z, next_phase)), **changes)

    if phase == ALL and (all(h > t for h in s.here) or mutant == "goes alone"):
        yield to(CLAIM, seen=s.rows, skip=False)
    elif phase == CLAIM and mutant == "turn is stored":
        if s.turn == 2 * t:
            yield to(STORE)
    elif phase == STORE:
        yield to(GO, turn=2 * t + 1)
    elif phase == CLAIM and s.turn == 2 * t:
        yield to(GO, turn=2 * t + 1)
    elif phase == GO:
        yield to(LEAVE if mutant == "lets go early" else KERNEL,
                 words=with_word(s, 0, c.captured, "done", c.base + 2 * z + 1))
    elif phase == KERNEL and word(s, 0, c.captured, "over") >= c.base + 2 * z + 2:
        clears = c.captured and is_last and mutant not in ("over is kept", "the stream clears over")
        yield to(LEAVE, words=with_word(s, 0, c.captured, "over", 0) if clears else s.words)
    elif phase == LEAVE:
        yield to(TURN, left=t + 1)
    elif phase == TURN:
        after = s._replace(turn=2 * t + 2)
        if not host:
            yield from next_slice(after, ranks, 0, mutant)
        else:
            yield after._replace(work=put(s.work, 0, (call, z, RESULTS)))


def next_slice(s, ranks, rank, mutant):
    call, z, _ = s.work[rank]
    calls = ranks[rank].calls
    if z + 1 < calls[call].slices:
        yield s._replace(work=put(s.work, rank, (call, z + 1, STREAM)))
        return
    words, following = s.words, call + 1
    if mutant == "ready is cleared early" and following < len(calls) and calls[following].captured:
        words = with_word(s, rank, True, "ready", 0)
    phase = STREAM if following < len(calls) else END
    yield s._replace(words=words, work=put(s.work, rank, (following, 0, phase)))


def give_up_step(s, ranks, rank, mutant):
    """The communicator has ended. The turn is taken for good, and then gates are opened."""
    call, z, phase = s.work[rank]
    c = ranks[rank].calls[call]

    def to(next_phase, next_call=call, **changes):
        return s._replace(work=put(s.work, rank, (next_call, z, next_phase)), **changes)

    if phase == GIVE_UP:
        gone = rank and s.alive[0] >= (DYING if mutant == "dead is gone" else GONE)
        skip = s.skip or (rank == 0 and mutant != "skip is not set")
        if s.turn == CANCELLED or gone or (rank and mutant == "opens at once"):
            yield to(OPEN, skip=skip, opened=put(s.opened, rank, True))
        elif s.turn % 2 == 0:
            yield to(OPEN, skip=skip, turn=CANCELLED, opened=put(s.opened, rank, True))
        elif rank == 0 and word(s, 0, c.captured, "over") >= c.base + 2 * z + 2:
            yield to(GIVE_UP, left=s.left + 1, turn=s.turn + 1)
    elif phase == OPEN and (not c.captured or s.at[rank] >= c.begin):  # of a graph: its stream is there
        phase = OPEN if c.following < len(ranks[rank].calls) else END
        yield to(phase, c.following, words=with_word(s, rank, c.captured, "done", c.total))


def worker_step(s, ranks, rank, host, mutant):
    phase = s.work[rank][2]
    if s.failed and phase in WAITS:
        yield s._replace(work=put(s.work, rank, s.work[rank][:2] + (GIVE_UP,)))
    if phase in (GIVE_UP, OPEN):
        yield from give_up_step(s, ranks, rank, mutant)
    elif rank == 0 and phase not in (STREAM, ROW, HERE, RESULTS):
        yield from lead_step(s, ranks, host, mutant)
    else:
        yield from meet_step(s, ranks, rank, mutant)


def fate_steps(s, fails, killed):
    """The communicator ends for no reason, or a process is killed and its peers notice, any time later."""
    if not s.failed and (fails or ALIVE != max(s.alive)):
        yield s._replace(failed=True)
    for rank, state in enumerate(s.alive):
        if state == ALIVE and rank == killed or state == DYING:
            yield s._replace(alive=put(s.alive, rank, state + 1))


def led(patterns, slices, host=False, fails=False, killed=None, mutant=None):
    """One pattern for each rank. `host`: the leader wants its results in ordinary memory of the host, which
    its worker copies, and its stream waits for that."""
    n = len(patterns)
    ranks = [Rank(r, pattern, slices, host and r == 0, mutant) for r, pattern in enumerate(patterns)]
    first = State(at=(0,) * n, work=((0, 0, STREAM),) * n, words=((Gate(0, 0, 0),) * 2,) * n, rows=(-1,) * n,
                  here=(0,) * n, left=0, turn=0, seen=(-1,) * n, skip=False, loaded=(False, ()), failed=False,
                  alive=(ALIVE,) * n, made=(-1,) * n, result=(-1,) * n, opened=(False,) * n)

    def steps(s):
        yield from fate_steps(s, fails, killed)
        for r, rank in enumerate(ranks):
            if s.at[r] < len(rank.script) and s.alive[r] != GONE:
                yield from stream_step(s, ranks, r)
            if s.work[r][2] != END and s.alive[r] == ALIVE:
                yield from worker_step(s, ranks, r, host, mutant)

    def is_end(s):
        return all(s.alive[r] != ALIVE or (s.at[r] == len(rank.script) and s.work[r][2] == END)
                   for r, rank in enumerate(ranks))

    return explore(first, steps, is_end)


def main():
    report = Report("model_led")
    for n, pattern, slices in ((2, "E E E", (1, 2, 1)), (2, "C C C", (1, 2, 1)), (3, "E C", (1, 1)),
                               (2, "CC E CC", (1, 2, 1, 2, 1)), (3, "C C", (1, 1)), (4, "E", (1,))):
        for host in (False, True):
            report.holds("%d ranks, %s" % (n, pattern), led, [pattern.split()] * n, slices, host=host)
    for patterns in (("E C E", "C E C"), ("CC E", "E CC"), ("CC", "C E"), ("C E", "E E", "C C")):
        report.holds("ranks differ: %s" % (patterns,), led, [p.split() for p in patterns], (1, 1, 1))
    for n, pattern, slices in ((2, "E E", (1, 2)), (2, "C C", (2, 1)), (2, "CC E", (1, 1, 1)), (3, "E", (1,)),
                               (3, "C", (1,))):
        for fate in ({"fails": True}, {"killed": 0}, {"killed": n - 1}):
            report.holds("%d ranks, %s, %s" % (n, pattern, fate), led, [pattern.split()] * n, slices, **fate)
    for fate in ({"fails": True}, {"killed": 0}, {"killed": 1}):
        report.holds("ranks differ, %s" % fate, led, [["E", "C"], ["C", "E"]], (1, 1), **fate)
    two, captured = [["E", "E"]] * 2, [["C", "C"]] * 2
    report.finds("opens at once", "which may use it", led, two, (1, 1), fails=True)
    report.finds("turn is stored", "which may use it", led, two, (1, 1), fails=True)
    report.finds("skip is not set", "has the places", led, two, (1, 1), fails=True)
    report.finds("dead is gone", "which may use it", led, two, (1, 1), killed=0)
    report.finds("here before the row", "has the places", led, two, (1, 1))
    report.finds("goes alone", "has the places", led, two, (1, 1))
    report.finds("lets go early", "uses result", led, two, (1, 1))
    report.finds("the stream clears over", "nothing can move", led, captured, (1, 1))
    report.finds("over is kept", "uses result", led, captured, (1, 1))
    report.finds("ready is kept", "sees operands", led, captured, (1, 1))
    report.finds("ready is cleared early", "nothing can move", led, captured, (1, 1))
    report.finds("done is kept", "has the places", led, captured, (1, 1))
    report.exit()


if __name__ == "__main__":
    main()

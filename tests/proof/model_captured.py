#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""model_captured.py: the one gate of a rank's captured calls: its stream and its worker, any number of calls.

Calls that are captured together, in a group, have one name, and count on from each other, as messages with
one peer do. The stream writes which of them it has reached (`name`), then for each slice that its operands
lie in their cells (`ready`), waits for the slice (`done`), and takes the result; two slices are in flight.
The rule of all words is: who waits, clears. The worker clears the name as soon as it has seen it, and `ready`
when it has seen the last slice of a call, for before that the stream may be writing the next one; both before
it tells that slice. The stream clears `done` at the end of all that was captured together: a communicator
that fails opens the gate once for all of it. So the next replay finds all words as the first one did.

Promised: the worker runs the calls in the order of the stream, and reads no slice but that which it is told;
the stream takes no result but of that slice; nobody waits for ever, also if the communicator fails at any
moment, after which results mean nothing."""
import collections

from explore import Report, Wrong, explore, put

NAME, READY, DONE = range(3)
FIND = -1  # a worker that looks for a call; else it is at a slice, and waits for it or tells it

State = collections.namedtuple("State", "at words group call slice told dead cells results")


def stream_program(groups, mutant):
    program = []
    for g, slices in enumerate(groups):
        program.append(("put", NAME, g + 1))
        base = 0
        for count in slices:
            for z in range(base, base + count + 1):
                if z < base + count:
                    program += [("in", g, z), ("put", READY, z + 1)]
                if z > base:
                    program += [("wait", DONE, z), ("out", g, z - 1)]
            base += count
            if mutant == "each call clears":
                program.append(("put", DONE, 0))
        program.append(("put", DONE, 0))
    return program


def stream_step(s, item):
    what, a, b = item
    after = s._replace(at=s.at + 1)
    if what == "put":
        yield after._replace(words=put(s.words, a, b))
    elif what == "in":
        yield after._replace(cells=put(s.cells, b % 2, (a, b)))
    elif what == "wait":
        if s.words[a] >= b:
            yield after
    elif what == "out":
        if not s.dead and s.results[b % 2] != (a, b):
            raise Wrong("group %d takes the result %s for slice %d" % (a, s.results[b % 2], b))
        yield after


def find_step(s, mutant):
    if s.words[NAME] == 0:
        return
    if s.words[NAME] != s.group + 1:
        raise Wrong("the worker runs group %d for group %d" % (s.words[NAME] - 1, s.group))
    words = s.words if mutant == "name is kept" else put(s.words, NAME, 0)
    yield s._replace(words=words, call=0, slice=0, told=False)


def open_step(s, slices):
    """The communicator has failed: the gate is opened, once for all of the group."""
    yield s._replace(words=put(s.words, DONE, sum(slices)), group=s.group + 1, slice=FIND)


def slice_step(s, slices, mutant):
    is_last = s.slice == sum(slices[:s.call + 1]) - 1
    if not s.told:
        if s.words[READY] <= s.slice:
            return
        if s.cells[s.slice % 2] != (s.group, s.slice):
            raise Wrong("group %d reads %s for slice %d" % (s.group, s.cells[s.slice % 2], s.slice))
        clears = (is_last and mutant != "ready is kept") or mutant == "ready is cleared early"
        yield s._replace(words=put(s.words, READY, 0) if clears else s.words, told=True,
                         results=put(s.results, s.slice % 2, (s.group, s.slice)))
        return
    after = s._replace(words=put(s.words, DONE, s.slice + 1), told=False, slice=s.slice + 1,
                       call=s.call + is_last)
    yield after._replace(group=s.group + 1, slice=FIND) if after.call == len(slices) else after


def captured(groups, mutant=None, fails=False):
    program = stream_program(groups, mutant)

    def steps(s):
        if s.at < len(program):
            yield from stream_step(s, program[s.at])
        if s.group == len(groups):
            return
        if fails and not s.dead:
            yield s._replace(dead=True)
        if s.slice == FIND:
            yield from find_step(s, mutant)
        elif s.dead:
            yield from open_step(s, groups[s.group])
        else:
            yield from slice_step(s, groups[s.group], mutant)

    first = State(at=0, words=(0, 0, 0), group=0, call=0, slice=FIND, told=False, dead=False,
                  cells=(None,) * 2, results=(None,) * 2)
    return explore(first, steps, lambda s: s.at == len(program) and s.group == len(groups))


def main():
    report = Report("model_captured")
    for groups in (((1,), (1,), (1,)), ((2,), (3,), (1,)), ((4,), (1,), (4,), (2,)), ((1,), (5,), (5,)),
                   ((1, 1, 1), (1, 1)), ((2, 1), (1, 3, 1), (2,))):
        report.holds("groups of %s slices" % (groups,), captured, groups)
        report.holds("groups of %s slices, of which one fails" % (groups,), captured, groups, fails=True)
    report.finds("ready is cleared early", "nothing can move", captured, ((3,), (2,)))
    report.finds("ready is kept", "reads (0, 0) for slice 0", captured, ((2,), (2,)))
    report.finds("name is kept", "runs group 0 for group 1", captured, ((1,), (1,)))
    report.finds("each call clears", "nothing can move", captured, ((1, 1), (1,)), fails=True)
    report.exit()


if __name__ == "__main__":
    main()

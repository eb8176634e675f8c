#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""model_captured.py: the one gate of a rank's captured calls: its stream and its worker, any number of calls.

The stream writes which call it has reached (`name`), then for each slice that its operands lie in their cells
(`ready`), waits for the slice (`done`), and takes the result; two slices are in flight. The rule of all words
is: who waits, clears. The worker clears the name as soon as it has seen it, and `ready` when it has seen the
last slice of the call, for before that the stream may be writing the next one; both before it tells the last
slice. The stream clears `done` at the end. So the next replay finds all words as the first one did.

Promised: the worker runs the calls in the order of the stream, and reads no slice but that which it is told;
the stream takes no result but of that slice; nobody waits for ever."""
import collections

from explore import Report, Wrong, explore, put

NAME, READY, DONE = range(3)
FIND = -1  # a worker that looks for a call; else it is at a slice, and waits for it or tells it

State = collections.namedtuple("State", "at words call slice told cells results")


def stream_program(slices):
    program = []
    for call, count in enumerate(slices):
        program.append(("put", NAME, call + 1))
        for z in range(count + 1):
            if z < count:
                program += [("in", call, z), ("put", READY, z + 1)]
            if z > 0:
                program += [("wait", DONE, z), ("out", call, z - 1)]
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
        if s.results[b % 2] != (a, b):
            raise Wrong("call %d takes the result %s for slice %d" % (a, s.results[b % 2], b))
        yield after


def worker_step(s, slices, mutant):
    if s.slice == FIND:
        if s.words[NAME] == 0:
            return
        if s.words[NAME] != s.call + 1:
            raise Wrong("the worker runs call %d for call %d" % (s.words[NAME] - 1, s.call))
        words = s.words if mutant == "name is kept" else put(s.words, NAME, 0)
        yield s._replace(words=words, slice=0, told=False)
        return
    is_last = s.slice == slices[s.call] - 1
    if not s.told:
        if s.words[READY] <= s.slice:
            return
        if s.cells[s.slice % 2] != (s.call, s.slice):
            raise Wrong("call %d reads %s for slice %d" % (s.call, s.cells[s.slice % 2], s.slice))
        clears = (is_last and mutant != "ready is kept") or mutant == "ready is cleared early"
        yield s._replace(words=put(s.words, READY, 0) if clears else s.words, told=True,
                         results=put(s.results, s.slice % 2, (s.call, s.slice)))
        return
    after = s._replace(words=put(s.words, DONE, s.slice + 1), told=False)
    yield after._replace(call=s.call + 1, slice=FIND) if is_last else after._replace(slice=s.slice + 1)


def captured(slices, mutant=None):
    program = stream_program(slices)

    def steps(s):
        if s.at < len(program):
            yield from stream_step(s, program[s.at])
        if s.call < len(slices):
            yield from worker_step(s, slices, mutant)

    first = State(at=0, words=(0, 0, 0), call=0, slice=FIND, told=False, cells=(None,) * 2,
                  results=(None,) * 2)
    return explore(first, steps, lambda s: s.at == len(program) and s.call == len(slices))


def main():
    report = Report("model_captured")
    for slices in ((1, 1, 1), (2, 3, 1), (4, 1, 4, 2), (1, 5, 5)):
        report.holds("calls of %s slices" % (slices,), captured, slices)
    report.finds("ready is cleared early", "nothing can move", captured, (3, 2))
    report.finds("ready is kept", "reads (0, 0) for slice 0", captured, (2, 2))
    report.finds("name is kept", "runs call 0 for call 1", captured, (1, 1))
    report.exit()


if __name__ == "__main__":
    main()

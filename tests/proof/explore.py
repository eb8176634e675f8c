# SPDX-License-Identifier: BSD-3-Clause
"""explore.py: every state that a protocol can reach, for the models of how ranks meet on a device.

A model is a first state and a function that yields the states after one. Whatever runs at the same time, a
stream, a worker, a thread of the host, moves one step at a time, in every order. A model raises Wrong where a
promise is broken; a state that nothing follows must be an end, or somebody waits for ever.

A model is worth as much as what it finds: so each has mutants, protocols with one mistake, and a mutant in
which nothing is wrong fails the test."""
import collections
import sys


class Wrong(Exception):
    pass


def explore(first, steps, is_end, most=1000000):
    seen = {first}
    waiting = collections.deque([first])
    while waiting:
        state = waiting.popleft()
        is_last = True
        for after in steps(state):
            is_last = False
            if after not in seen:
                seen.add(after)
                waiting.append(after)
        if is_last and not is_end(state):
            raise Wrong("nothing can move: %r" % (state,))
        if len(seen) > most:
            raise Wrong("there are more than %d states" % most)
    return len(seen)


def put(values, index, value):
    """The tuple, with another value in one place."""
    return values[:index] + (value,) + values[index + 1:]


class Report:
    """Tells of cases, and how the program ends."""

    def __init__(self, name):
        self.name, self.states, self.cases, self.failures = name, 0, 0, 0

    def holds(self, what, model, *arguments, **options):
        self.cases += 1
        try:
            self.states += model(*arguments, **options)
        except Wrong as wrong:
            self.failures += 1
            print("%s: %s: %s" % (self.name, what, wrong))

    def finds(self, mutant, why, model, *arguments, **options):
        """The mistake is found, and for this reason."""
        self.cases += 1
        try:
            model(*arguments, mutant=mutant, **options)
            found = "nothing is wrong"
        except Wrong as wrong:
            found = str(wrong)
        if why not in found:
            self.failures += 1
            print("%s: mutant %s: %s, not: %s" % (self.name, mutant, found, why))

    def exit(self):
        print("%s: %d cases, %d states, %d failures" % (self.name, self.cases, self.states, self.failures))
        sys.exit(self.failures > 0)

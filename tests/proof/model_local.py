#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""model_local.py: ranks of one process on one device, each a thread, meet on the host for each call.

A thread enqueues what makes its operand, records its ready event, and says that it has come; the last one to
come launches the kernel behind all ready events, and records the done event, behind which the others enqueue
what uses their results. Streams run by themselves; one queue may serve them all. A wait means the record that
the event has when it is enqueued, as with CUDA.

`turn` of call c: 2c, open; 2c + 1, being launched; CANCELLED. It is claimed: a thread leaves with an error
only after it has cancelled, and so no kernel runs on buffers that are its caller's again. In a group it
begins the next call without a look at whether the communicator has failed, and may cancel that; so who finds
it cancelled looks back at his own call.

Promised: the kernel of a call sees the operands of that call, of all ranks; who uses a result has that of its
call; a rank that left with an error is touched no more; nobody waits for ever."""
import collections

from explore import Report, Wrong, explore, put

CANCELLED = -1
# What a thread does next in its call.
ENQUEUE, COME, WAIT, LEAVE, CLAIM, LAUNCH, TELL, FOLLOW = range(8)

State = collections.namedtuple(
    "State", "host place launched turn failed left queues ready done made result fired")


def device_steps(s, n):
    for q, queue in enumerate(s.queues):
        if not queue:
            continue
        what, rank, call = queue[0]
        after = s._replace(queues=put(s.queues, q, queue[1:]))
        if what == "make":
            yield after._replace(made=put(s.made, rank, call))
        elif what == "record":
            yield after._replace(fired=s.fired | {(rank, call)})
        elif what == "wait":
            if call is None or (rank, call) in s.fired:
                yield after
        elif what == "kernel":
            if call + 1 in s.left:
                raise Wrong("kernel %d runs on buffers of a rank that left that call" % call)
            if any(version != call for version in s.made):
                raise Wrong("kernel %d sees operands %s" % (call, s.made))
            yield after._replace(result=(call,) * n)
        elif what == "use":
            if s.result[rank] != call:
                raise Wrong("rank %d uses result %d for call %d" % (rank, s.result[rank], call))
            yield after


def enqueued(s, rank, *items):
    q = rank if len(s.queues) > 1 else 0
    return put(s.queues, q, s.queues[q] + items)


DONE = -1  # the rank by which records of the done event are known


def host_step(s, rank, n, calls, grouped, mutant):
    call, phase = s.host[rank]

    def to(next_phase, next_call=call, **changes):
        return s._replace(host=put(s.host, rank, (next_call, next_phase)), **changes)

    leave = s._replace(left=put(s.left, rank, call + 1))
    if phase == ENQUEUE and s.failed and not grouped:
        yield to(ENQUEUE, calls)
    elif phase == ENQUEUE:
        queues = enqueued(s, rank, ("make", rank, call), ("record", rank, call))
        yield to(COME, queues=queues, ready=put(s.ready, rank, call))
    elif phase == COME:
        place = put(s.place, rank, call + 1)
        yield to(CLAIM if sum(place) == n * (call + 1) else WAIT, place=place)
    elif phase == WAIT:
        if s.launched > call:
            yield to(FOLLOW)
        elif s.failed and mutant == "leaves unclaimed":
            yield leave
        elif s.failed:
            yield to(LEAVE)
    elif phase == LEAVE: # the call may have been launched since it was looked at
        if s.turn == CANCELLED and (s.launched <= call or mutant == "does not look back"):
            yield leave
        elif s.turn == 2 * call:
            yield s._replace(turn=CANCELLED)
        else:
            yield to(WAIT)
    elif phase == CLAIM:
        if s.turn == CANCELLED:
            yield leave
        elif s.turn == 2 * call:
            yield to(LAUNCH, turn=2 * call + 1)
    elif phase == LAUNCH:
        waits = [("wait", k, s.ready[k]) for k in range(n) if k != rank and mutant != "waits for nobody"]
        queues = enqueued(s, rank, *waits, ("kernel", rank, call), ("record", DONE, call))
        if mutant == "done is recorded late":
            yield to(TELL, queues=queues, launched=call + 1)
        else:
            yield to(TELL, queues=queues, done=call)
    elif phase == TELL:
        queues = enqueued(s, rank, ("use", rank, call))
        turn = CANCELLED if s.turn == CANCELLED else 2 * call + 2
        yield to(ENQUEUE, call + 1, queues=queues, launched=call + 1, turn=turn, done=call)
    elif phase == FOLLOW:
        queues = enqueued(s, rank, ("wait", DONE, s.done), ("use", rank, call))
        yield to(ENQUEUE, call + 1, queues=queues)


def local(n, calls, queues, fails=False, grouped=False, mutant=None):
    first = State(host=((0, ENQUEUE),) * n, place=(0,) * n, launched=0, turn=0, failed=False, left=(0,) * n,
                  queues=((),) * queues, ready=(None,) * n, done=None, made=(-1,) * n, result=(-1,) * n,
                  fired=frozenset())

    def steps(s):
        if fails and not s.failed:
            yield s._replace(failed=True)
        yield from device_steps(s, n)
        for rank in range(n):
            if s.host[rank][0] < calls and not s.left[rank]:
                yield from host_step(s, rank, n, calls, grouped, mutant)

    def is_end(s):
        return all(s.host[r][0] == calls or s.left[r] for r in range(n)) and not any(s.queues)

    return explore(first, steps, is_end)


def main():
    report = Report("model_local")
    for n, calls, queues in ((2, 3, 2), (2, 3, 1), (3, 2, 3), (3, 1, 1), (4, 1, 4)):
        report.holds("%d ranks, %d calls, %d queues" % (n, calls, queues), local, n, calls, queues)
    for n, calls in ((2, 2), (3, 1)):
        report.holds("%d ranks, it fails at any moment" % n, local, n, calls, n, fails=True)
    report.holds("in a group, it fails at any moment", local, 2, 2, 2, fails=True, grouped=True)
    report.finds("waits for nobody", "sees operands", local, 2, 2, 2)
    report.finds("done is recorded late", "uses result", local, 2, 2, 2)
    report.finds("leaves unclaimed", "of a rank that left", local, 2, 2, 2, fails=True)
    report.finds("does not look back", "of a rank that left", local, 2, 2, 2, fails=True,
                 grouped=True)
    report.exit()


if __name__ == "__main__":
    main()

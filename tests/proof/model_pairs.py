#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""model_pairs.py: two ranks of one process on one device, each a thread, meet on the host for each message.

Both enqueue what makes their buffers; the first one to come records its ready event, and waits on the host.
The second one decides: it enqueues a wait for that event and the copy, and records the done event, for which
the first one's stream waits then; or the message is the host's, and nothing is enqueued here. Streams run by
themselves; one queue may serve both. A wait means the record that the event has when it is enqueued. Each
look at `turn`, and each change of it, is a step.

`turn` of message k: 4k, open; 4k + 1, one has come; 4k + 2, the other one decides; with True beside it, it is
cancelled. A rank that leaves with an error has cancelled, or its stream waits for the copy.

Promised: a copy has the buffers of its message, of both ranks; who uses a result has that of its message;
what a rank has left without waiting is not copied from or to; nobody waits for ever."""
import collections

from explore import Report, Wrong, explore, put

# What a thread does next with its message.
BEGIN, LOOK, RECORD, COME, CLAIM, DECIDE, TELL, WAIT, CANCEL, FOLLOW = range(10)
DONE = 2  # the number by which records of the done event are known

State = collections.namedtuple(
    "State", "host turn failed left queues ready done made copied fired seen")


def device_steps(s):
    for q, queue in enumerate(s.queues):
        if not queue:
            continue
        what, rank, message = queue[0]
        after = s._replace(queues=put(s.queues, q, queue[1:]))
        if what == "make":
            yield after._replace(made=put(s.made, rank, message))
        elif what == "record":
            yield after._replace(fired=s.fired | {(rank, message)})
        elif what == "wait":
            if message is None or (rank, message) in s.fired:
                yield after
        elif what == "copy":
            if message + 1 in s.left:
                raise Wrong("message %d is copied for a rank that left it" % message)
            if any(version != message for version in s.made):
                raise Wrong("copy %d has the buffers %s" % (message, s.made))
            yield after._replace(copied=message)
        elif what == "use":
            if s.copied != message:
                raise Wrong("rank %d uses result %s for message %d" % (rank, s.copied, message))
            yield after


def enqueued(s, rank, *items):
    q = rank if len(s.queues) > 1 else 0
    return put(s.queues, q, s.queues[q] + items)


def host_step(s, rank, messages, by_host, mutant):
    k, phase = s.host[rank]
    turn, cancelled = s.turn
    copies = k not in by_host

    def to(next_phase, next_k=k, **changes):
        return s._replace(host=put(s.host, rank, (next_k, next_phase)), **changes)

    def leave():
        return s._replace(left=put(s.left, rank, k + 1))

    if phase == BEGIN:
        if s.failed:
            yield to(BEGIN, messages)
        else:
            yield to(LOOK, queues=enqueued(s, rank, ("make", rank, k)))
    elif phase == LOOK:
        first = turn == 4 * k and not cancelled
        late = mutant == "ready is recorded late"
        yield to((COME if late else RECORD) if first else CLAIM)
    elif phase == RECORD:
        after = COME if mutant != "ready is recorded late" else WAIT
        yield to(after, queues=enqueued(s, rank, ("record", rank, k)), ready=put(s.ready, rank, k))
    elif phase == COME:
        if s.turn == (4 * k, False):
            after = WAIT if mutant != "ready is recorded late" else RECORD
            yield to(after, turn=(4 * k + 1, False))
        else:
            yield to(CLAIM)
    elif phase == CLAIM:
        if s.turn == (4 * k + 1, False):
            yield to(DECIDE, turn=(4 * k + 2, False))
        elif cancelled:
            yield leave()
    elif phase == DECIDE:
        other = 1 - rank
        waits = [] if mutant == "waits for nobody" else [("wait", other, s.ready[other])]
        items = waits + [("copy", rank, k)]
        if not copies:
            yield to(TELL)
        elif mutant == "done is recorded late":
            yield to(TELL, queues=enqueued(s, rank, *items), turn=(4 * k + 4, s.turn[1]))
        else:
            yield to(TELL, queues=enqueued(s, rank, *items, ("record", DONE, k)), done=k)
    elif phase == TELL:
        more = [("record", DONE, k)] if mutant == "done is recorded late" and copies else []
        use = [("use", rank, k)] if copies else []
        yield to(BEGIN, k + 1, queues=enqueued(s, rank, *more, *use), turn=(max(turn, 4 * k + 4), cancelled),
                 done=k if copies else s.done)
    elif phase == WAIT:
        if turn >= 4 * k + 4:
            yield to(FOLLOW)
        if s.failed:
            yield leave() if mutant == "leaves unclaimed" else to(CANCEL, seen=put(s.seen, rank, s.turn))
    elif phase == CANCEL:
        yield from cancel_step(s, rank, k, to, leave, mutant)
    elif phase == FOLLOW:
        items = [("wait", DONE, s.done), ("use", rank, k)] if copies else []
        yield to(BEGIN, k + 1, queues=enqueued(s, rank, *items))


def cancel_step(s, rank, k, to, leave, mutant):
    """The communicator has failed. The rank leaves once it has cancelled; what is decided, it follows."""
    turn, cancelled = s.seen[rank]
    if turn >= 4 * k + 4 and mutant != "does not look back":
        yield to(FOLLOW)
    elif turn >= 4 * k + 4 or cancelled:
        yield leave()
    elif turn == 4 * k + 2 and mutant != "cancels a decision":
        yield to(WAIT)
    elif s.turn == s.seen[rank] or mutant == "cancels a decision":
        yield to(CANCEL, turn=(s.turn[0], True), seen=put(s.seen, rank, (s.turn[0], True)))
    else:
        yield to(WAIT)


def pairs(messages, queues, by_host=(), fails=False, mutant=None):
    first = State(host=((0, BEGIN),) * 2, turn=(0, False), failed=False, left=(0,) * 2, queues=((),) * queues,
                  ready=(None,) * 2, done=None, made=(-1,) * 2, copied=-1, fired=frozenset(),
                  seen=(None,) * 2)

    def steps(s):
        if fails and not s.failed:
            yield s._replace(failed=True)
        yield from device_steps(s)
        for rank in range(2):
            if s.host[rank][0] < messages and not s.left[rank]:
                yield from host_step(s, rank, messages, by_host, mutant)

    def is_end(s):
        return all(s.host[r][0] == messages or s.left[r] for r in range(2)) and not any(s.queues)

    return explore(first, steps, is_end)


def main():
    report = Report("model_pairs")
    for messages, queues, by_host in ((3, 2, ()), (2, 1, ()), (3, 2, (1,)), (2, 1, (0,))):
        what = "%d messages, %s by the host, %d queues" % (messages, by_host, queues)
        report.holds(what, pairs, messages, queues, by_host)
    for messages, queues, by_host in ((2, 2, ()), (1, 1, ()), (2, 1, (0,)), (2, 2, (1,))):
        what = "%d messages, %s by the host, %d queues, one fails" % (messages, by_host, queues)
        report.holds(what, pairs, messages, queues, by_host, fails=True)
    report.finds("waits for nobody", "has the buffers", pairs, 2, 2)
    report.finds("ready is recorded late", "has the buffers", pairs, 2, 2)
    report.finds("done is recorded late", "uses result", pairs, 2, 2)
    report.finds("leaves unclaimed", "for a rank that left it", pairs, 2, 2, fails=True)
    report.finds("cancels a decision", "for a rank that left it", pairs, 2, 2, fails=True)
    report.finds("does not look back", "for a rank that left it", pairs, 2, 2, fails=True)
    report.exit()


if __name__ == "__main__":
    main()

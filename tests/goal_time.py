#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""goal_time.py: how long the schedules of a GOAL file take by the LogGOPS model.

Written from the paper, and from no line of Tutti, so that tutti-sim is compared with somebody else's
arithmetic: T. Hoefler, T. Schneider, A. Lumsdaine: LogGOPSim, simulating large-scale applications in the
LogGOPS model. LSAP 2010. All messages are eager (S is without end) and O is 0. A message of k bytes takes o
of its sender, leaves the next one's way out free (k - 1) G later, is there after L, and takes o + (k - 1) G
of its receiver, whether that waits for it or not. What may begin at one moment begins in the order in which
it came to be: sends, receives, computations, each in the order of the file. LogGOPSim 76451de (github.com/
spcl/LogGOPSim) with std::stable_sort in place of std::sort comes to the same times.

usage: goal_time.py FILE L o g G     all in ns; prints the time of the last rank in us
"""
import heapq
import sys

SEND, RECV, CALC, MESSAGE = range(4)
KINDS = {"send": SEND, "recv": RECV, "calc": CALC}


class Rank:
    def __init__(self):
        self.ops = []  # [kind, bytes or ns, peer, tag, operations it waits for, operations that wait for it]
        self.cpu = self.way_out = self.way_in = 0
        self.posted, self.unexpected = {}, {}


def read(path):
    ranks, labels = [], {}
    for words in (line.split() for line in open(path)):
        if not words or words[0] in ("num_ranks", "}"):
            continue
        if words[0] == "rank":
            labels = {}
            ranks.append(Rank())
        elif words[1] == "requires":
            after, before = labels[words[0]], labels[words[2]]
            ranks[-1].ops[after][4] += 1
            ranks[-1].ops[before][5].append(after)
        else:
            labels[words[0].rstrip(":")] = len(ranks[-1].ops)
            message = words[1] != "calc"
            peer, tag = (int(words[4]), int(words[6])) if message else (-1, 0)
            ranks[-1].ops.append([KINDS[words[1]], int(words[2].rstrip("b")), peer, tag, 0, []])
    return ranks


def run(ranks, L, o, g, G):
    events, count = [], 0

    def begin(r, indices):
        nonlocal count
        for i in sorted(indices, key=lambda i: (ranks[r].ops[i][0], i)):
            kind = ranks[r].ops[i][0]
            time = max(ranks[r].cpu, ranks[r].way_out) if kind == SEND else ranks[r].cpu
            count += 1
            heapq.heappush(events, (time, count, kind, r, i, -1))

    def end(r, i):
        followers = []
        for f in ranks[r].ops[i][5]:
            ranks[r].ops[f][4] -= 1
            if ranks[r].ops[f][4] == 0:
                followers.append(f)
        ranks[r].ops[i][0] = None
        begin(r, followers)

    for r, rank in enumerate(ranks):
        begin(r, [i for i, op in enumerate(rank.ops) if op[4] == 0])
    while events:
        time, order, kind, r, i, peer = heapq.heappop(events)
        rank = ranks[r]
        if kind == MESSAGE:
            size, tag = ranks[peer].ops[i][1], ranks[peer].ops[i][3]
            free, key = max(rank.cpu, rank.way_in), (peer, tag)
        else:
            size, key = rank.ops[i][1], rank.ops[i][2:4]
            key = tuple(key)
            free = {SEND: max(rank.cpu, rank.way_out), RECV: time, CALC: rank.cpu}[kind]
        if free > time:
            heapq.heappush(events, (free, order, kind, r, i, peer))
            continue
        if kind == CALC:
            rank.cpu = time + size
            end(r, i)
        elif kind == SEND:
            rank.cpu, rank.way_out = time + o, time + g + (size - 1) * G
            count += 1
            heapq.heappush(events, (time + o + L, count, MESSAGE, key[0], i, r))
            end(r, i)
        elif kind == RECV and rank.unexpected.get(key):
            rank.unexpected[key] -= 1
            end(r, i)
        elif kind == RECV:
            rank.posted.setdefault(key, []).append(i)
        else:
            rank.cpu, rank.way_in = time + o + (size - 1) * G, time + g + (size - 1) * G
            if rank.posted.get(key):
                end(r, rank.posted[key].pop(0))
            else:
                rank.unexpected[key] = rank.unexpected.get(key, 0) + 1
    if any(op[0] is not None for rank in ranks for op in rank.ops):
        sys.exit("goal_time.py: an operation does not end")
    return max(rank.cpu for rank in ranks)


if __name__ == "__main__":
    print("%.3f" % (run(read(sys.argv[1]), *map(float, sys.argv[2:6])) / 1000))

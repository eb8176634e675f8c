#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""linear.py: a linear model, trained on several ranks, each of which has a part of the data.

usage: linear.py [RANKS]           starts as many processes (default: 4)
       mpirun -n 4 linear.py       ranks of mpirun, srun or torchrun

Each rank computes the gradient of its part; all_reduce makes their mean, so all ranks take the same step.
The sum's order is the same on all of them, so their weights stay equal to the bit, and nobody has to send
them around."""

import hashlib
import multiprocessing
import os
import sys

import numpy as np

import tutti

STEPS, SAMPLES, FEATURES, RATE = 50, 1200, 64, 0.2


def part_of(rank, n):
    """This rank's samples; the same noise whatever n is."""
    random = np.random.default_rng(1)
    x = random.standard_normal((SAMPLES, FEATURES), dtype=np.float32)
    y = (
        x @ random.standard_normal(FEATURES, dtype=np.float32)
        + random.standard_normal(SAMPLES, dtype=np.float32) / 10
    )
    return np.array_split(x, n)[rank], np.array_split(y, n)[rank]


def train(comm):
    x, y = part_of(comm.rank, comm.size)
    weights = np.zeros(FEATURES, np.float32)
    sums = tutti.empty(FEATURES + 1, np.float32)  # the gradient, and the loss: peers read it in place
    for step in range(STEPS + 1):
        wrong = x @ weights - y
        sums[:-1] = x.T @ wrong
        sums[-1] = wrong @ wrong / 2
        comm.all_reduce(sums, out=sums)
        weights -= RATE * sums[:-1] / SAMPLES
        if comm.rank == 0 and step % 10 == 0:
            print(f"step {step:2}: loss {sums[-1] / SAMPLES:.4f}")

    # Are they the same on all ranks, to the bit?
    digest = np.frombuffer(hashlib.sha256(weights.tobytes()).digest(), np.uint8)
    digests = comm.all_gather(digest).reshape(comm.size, -1)
    if comm.rank == 0:
        equal = (digests == digest).all()
        print(f"{comm.size} ranks: weights are {'equal to the bit' if equal else 'DIFFERENT'}")
    return 0 if (digests == digest).all() else 1


def one_rank(n, rank, id):
    with tutti.init_rank(n, rank, id) as comm:
        code = train(comm)
    sys.exit(code)


def main():
    if any(name in os.environ for name in ("TUTTI_RANK", "PMIX_RANK", "PMI_RANK", "RANK")):
        with tutti.init_env() as comm:
            return train(comm)
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    processes = multiprocessing.get_context("spawn")
    id = tutti.get_id()
    ranks = [processes.Process(target=one_rank, args=(n, rank, id)) for rank in range(n)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    return max(abs(each.exitcode or 0) for each in ranks)


if __name__ == "__main__":
    sys.exit(main())

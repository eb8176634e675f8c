# SPDX-License-Identifier: BSD-3-Clause
"""One rank that measures Tutti beside Gloo (torch.distributed) between hosts, by turns.

usage: TUTTI_ROOT=HOST:PORT TUTTI_RANK=R TUTTI_SIZE=N python3 bench_gloo.py GLOO_HOST:GLOO_PORT [ROUNDS]

perf/bench/bench_gloo.sh starts the ranks. Both are called from Python, so each time has what a call from
there costs. Rank 0 prints, of each collective and size, the medians of all rounds, of the slowest
rank, in microseconds, and how many times as long as Tutti Gloo takes: the median of the ratios of each round.
"""

import statistics
import sys
import time

import numpy as np
import torch
import torch.distributed as dist

import tutti

SIZES = (8, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20)


def calls(comm, count):
    """The two forms of each collective on `count` floats."""
    x, out = np.ones(count, np.float32), np.empty(count, np.float32)
    part = np.ones(max(count // comm.size, 1), np.float32)
    whole = np.empty((comm.size, part.size), np.float32)
    t, t_part = torch.from_numpy(x.copy()), torch.from_numpy(part)
    t_whole = list(torch.empty(comm.size, part.size))
    return {
        "all_reduce": (lambda: comm.all_reduce(x, out=out), lambda: dist.all_reduce(t)),
        "broadcast": (lambda: comm.broadcast(x, root=0), lambda: dist.broadcast(t, 0)),
        "all_gather": (lambda: comm.all_gather(part, out=whole), lambda: dist.all_gather(t_whole, t_part)),
    }


def time_of(comm, call, times):
    """The time of a call on the slowest rank, in microseconds."""
    call()
    comm.barrier()
    begun = time.perf_counter()
    for _ in range(times):
        call()
    mine = np.array([(time.perf_counter() - begun) / times * 1e6])
    return float(comm.all_reduce(mine, op=tutti.MAX)[0])


def main():
    comm = tutti.init_env()
    dist.init_process_group(
        "gloo", init_method=f"tcp://{sys.argv[1]}", rank=comm.rank, world_size=comm.size)
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 11
    torch.set_num_threads(1)
    for size in SIZES:
        for name, pair in calls(comm, size // 4).items():
            times = 100 if size <= 16 << 10 else 10
            measured = [[time_of(comm, call, times) for call in pair] for _ in range(rounds)]
            ours, theirs = (statistics.median(m[i] for m in measured) for i in (0, 1))
            ratio = statistics.median(m[1] / m[0] for m in measured)
            if comm.rank == 0:
                print(f"{name:<12} {size:>9} {ours:>10.1f} {theirs:>10.1f} {ratio:>8.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Ranks for tests: as threads, which are cheap, and as processes, which can be killed."""

import multiprocessing
import threading

import tutti

HANG_S = 300  # a machine that is only slow does not come near it
_context = multiprocessing.get_context("spawn")


def threads(n, function, *arguments, **settings):
    """function(comm, ...) on n threads, each with a rank; their results in rank order. Where one fails, all
    end."""
    comms = tutti.init_all(n, **settings)
    results, failures = [None] * n, []

    def run(rank):
        try:
            results[rank] = function(comms[rank], *arguments)
        except BaseException as exception:
            failures.append(exception)
            comms[rank].abort()

    running = [threading.Thread(target=run, args=(rank,)) for rank in range(n)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for comm in comms:
        comm.close()
    if failures:
        raise failures[0]
    return results


def _run(function, n, rank, id, to, arguments, settings):
    try:
        comm = tutti.init_rank(n, rank, id, **settings)
        comm.tell = to.send  # for what the test waits for before the rank is done
        result = function(comm, *arguments)
        comm.close()
        to.send(result)
    except BaseException as exception:
        to.send(exception)


class Processes:
    """function(comm, ...) in n processes. hear(rank) is what a rank has told, or what it returned, or
    raised."""

    def __init__(self, n, function, *arguments, **settings):
        id = tutti.get_id()
        self.ranks, self._from = [], []
        for rank in range(n):
            receiver, sender = _context.Pipe(duplex=False)
            given = (function, n, rank, id, sender, arguments, settings)
            process = _context.Process(target=_run, args=given, daemon=True)
            process.start()
            sender.close()
            self.ranks.append(process)
            self._from.append(receiver)

    def hear(self, rank):
        assert self._from[rank].poll(HANG_S), f"rank {rank} hangs"
        try:
            return self._from[rank].recv()
        except EOFError:
            raise AssertionError(
                f"rank {rank} ended without a word, exit code {self.ranks[rank].exitcode}"
            ) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.ranks:
            process.kill()
            process.join()


def processes(n, function, *arguments, **settings):
    """The results of n processes, in rank order."""
    with Processes(n, function, *arguments, **settings) as job:
        results = [job.hear(rank) for rank in range(n)]
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results

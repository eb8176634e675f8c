# SPDX-License-Identifier: BSD-3-Clause
"""Tutti under PyTorch: what its programs do with streams, graphs and memory, by two processes on one GPU.

`python3 torch_streams.py CASE` runs one case and prints nothing but why it failed; `--list` names the cases.
It wants PyTorch with a GPU. The library is that of TUTTI_LIBRARY."""

import os
import subprocess
import sys
import threading

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
COUNT = 1 << 20
RANKS = 2
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Rank:
    """A communicator on torch's current device, and all_reduce of its tensors on torch's current stream."""

    def __init__(self, rank):
        import torch
        import tutti
        from tutti._library import library, tutti_stream

        self.rank, self.torch, self.library, self.stream = rank, torch, library, tutti_stream
        torch.cuda.set_device(0)
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self.comm = tutti.init_env()

    def all_reduce(self, tensor, out=None):
        out = tensor if out is None else out
        types = {self.torch.float32: 7, self.torch.bfloat16: 9}  # of tutti.h
        status = self.library.tutti_all_reduce(
            tensor.data_ptr(), out.data_ptr(), tensor.numel(), types[tensor.dtype], 0, self.comm._handle,
            self.stream(self.torch.cuda.current_stream().cuda_stream, 2, -1))
        assert status == 0, f"all_reduce: {self.library.tutti_get_last_error(None)}"

    def mine(self, value, dtype=None):
        return self.torch.full((COUNT,), float(value), device="cuda", dtype=dtype or self.torch.float32)


def expect(tensor, value):
    got = tensor.float().unique().tolist()
    assert got == [value], f"{value} is expected everywhere, there are {got[:5]}"


@case
def current_stream(me):
    for i in range(20):
        x = me.mine(i + me.rank)
        me.all_reduce(x)
        y = x * 2  # on the same stream: after the all-reduce
        expect(y, 2 * (2 * i + 1))


@case
def side_stream(me):
    side = me.torch.cuda.Stream()
    for i in range(20):
        x = me.mine(i + me.rank, me.torch.bfloat16)
        side.wait_stream(me.torch.cuda.current_stream())
        with me.torch.cuda.stream(side):
            me.all_reduce(x)
        me.torch.cuda.current_stream().wait_stream(side)
        expect(x, 2 * i + 1)


@case
def graph(me):
    x, out = me.mine(me.rank), me.mine(-1)
    side = me.torch.cuda.Stream()
    with me.torch.cuda.stream(side):
        me.all_reduce(x, out)
    side.synchronize()
    captured = me.torch.cuda.CUDAGraph()
    with me.torch.cuda.graph(captured):
        doubled = x * 2
        me.all_reduce(doubled, out)
        out += 1
    for i in range(20):
        x.fill_(i + me.rank)
        captured.replay()
        expect(out, 2 * (2 * i + 1) + 1)


@case
def busy_stream(me):
    """The ranks come at different times, from behind work of their own."""
    a = me.torch.randn(4096, 4096, device="cuda")
    for i in range(5):
        x = me.mine(i + me.rank)
        for _ in range(20 * (1 + me.rank)):
            a = me.torch.nn.functional.normalize(a @ a)
        me.all_reduce(x)
        expect(x, 2 * i + 1)


@case
def memory_is_freed_meanwhile(me):
    """Another thread allocates and frees, as autograd's does, while calls wait for their peers."""
    over = threading.Event()

    def churn():
        me.torch.cuda.set_device(0)
        while not over.is_set():
            me.torch.empty(64 << 20, device="cuda", dtype=me.torch.uint8)
            me.torch.cuda.empty_cache()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for i in range(50):
            x = me.mine(i + me.rank)
            me.all_reduce(x)
            expect(x, 2 * i + 1)
    finally:
        over.set()
        thread.join()


def run_rank(name):
    sys.path.insert(0, PACKAGE)
    me = Rank(int(os.environ["TUTTI_RANK"]))
    CASES[name](me)
    me.torch.cuda.synchronize()
    me.comm.finalize()


def run(name):
    sys.path.insert(0, PACKAGE)
    import tutti

    meeting = tutti.get_id().hex()
    ranks = [
        subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), name],
            env={**os.environ, "TUTTI_RANK": str(rank), "TUTTI_SIZE": str(RANKS), "TUTTI_ID": meeting},
        )
        for rank in range(RANKS)
    ]
    return max(abs(rank.wait()) for rank in ranks)


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CASES))
    elif len(sys.argv) == 2 and sys.argv[1] in CASES:
        if "TUTTI_RANK" in os.environ:
            run_rank(sys.argv[1])
        else:
            sys.exit(run(sys.argv[1]))
    else:
        sys.exit(f"usage: torch_streams.py --list | CASE; cases: {', '.join(CASES)}")

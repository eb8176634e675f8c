# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's own NCCL backend over Tutti's libnccl.so.2: several processes on one GPU, which NCCL refuses.

`python3 torch_nccl.py CASE-RANKS` runs one case and prints nothing but why it failed, or a line of JSON with
times; `--list` names the cases. It wants PyTorch with a GPU. TUTTI_NCCL_LIBRARY is the library; each rank's
process has it preloaded, as tutti-nccl does it."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta

CASES, LIMIT_S, FAST_S = {}, 120, 45


def case(function):
    CASES[function.__name__] = function
    return function


class Rank:
    """torch.distributed, initialised, with a device; numbers whose sums are exact in every type."""

    def __init__(self, backend="nccl"):
        import torch
        import torch.distributed

        self.torch, self.dist = torch, torch.distributed
        self.rank, self.n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.backend, self.begun = backend, 0
        torch.cuda.set_device(0)
        self.init()

    def init(self):
        self.begun += 1
        meeting = f"file://{os.environ['MEETING']}.{self.backend}.{self.begun}"
        self.dist.init_process_group(
            self.backend, init_method=meeting, rank=self.rank, world_size=self.n,
            timeout=timedelta(seconds=FAST_S)
        )

    def numbers(self, count, dtype, rank):
        """Small whole ones."""
        return ((self.torch.arange(count) * (rank + 3) + rank) % 5).to(dtype)

    def mine(self, count, dtype=None):
        return self.numbers(count, dtype or self.torch.float32, self.rank).cuda()

    def all(self, count, dtype=None):
        double = self.torch.float64
        return self.torch.stack([self.numbers(count, dtype or double, r).to(double) for r in range(self.n)])

    def same(self, found, expected, what):
        found = found.detach().cpu().to(self.torch.float64)
        wrong = (found != expected.to(self.torch.float64)).sum().item()
        first = found.flatten()[:4].tolist()
        assert wrong == 0, f"{what}: {wrong} of {expected.numel()} are wrong; it begins with {first}"


@case
def all_reduce(me):
    torch, op = me.torch, me.dist.ReduceOp
    types = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
             torch.int32, torch.int64)
    sums = ((op.SUM, lambda t: t.sum(0)), (op.PRODUCT, lambda t: t.prod(0)), (op.MAX, lambda t: t.amax(0)),
            (op.MIN, lambda t: t.amin(0)))
    for count in (1, 1000, 100001):
        for dtype in types:
            for operator, expected in sums:
                tensor = me.mine(count, dtype)
                me.dist.all_reduce(tensor, operator)
                wanted = expected(me.all(count))
                if not dtype.is_floating_point:  # they wrap: a product of eight ranks is 256
                    wanted = wanted.to(torch.int64).to(dtype)
                me.same(tensor, wanted, f"{operator} of {count} {dtype}")
    for dtype in types[:4]:
        tensor = me.mine(1000, dtype) * me.n
        me.dist.all_reduce(tensor, op.AVG)
        me.same(tensor, me.all(1000).sum(0), f"AVG of {dtype}")
        tensor = me.mine(1000, dtype)
        me.dist.all_reduce(tensor, me.dist._make_nccl_premul_sum(2.0))
        me.same(tensor, 2 * me.all(1000).sum(0), f"PREMUL_SUM of {dtype}")


@case
def others(me):
    torch, dist, n = me.torch, me.dist, me.n
    for count in (1, 1000, 70001):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            for root in range(n):
                tensor = me.mine(count, dtype)
                dist.broadcast(tensor, root)
                me.same(tensor, me.all(count)[root], "broadcast")
                tensor = me.mine(count, dtype)
                dist.reduce(tensor, root)
                if me.rank == root:
                    me.same(tensor, me.all(count).sum(0), "reduce")
            gathered = torch.empty(n * count, dtype=dtype, device="cuda")
            dist.all_gather_into_tensor(gathered, me.mine(count, dtype))
            me.same(gathered, me.all(count).flatten(), "all_gather")
            scattered = torch.empty(count, dtype=dtype, device="cuda")
            dist.reduce_scatter_tensor(scattered, me.mine(n * count, dtype))
            me.same(scattered, me.all(n * count).sum(0)[me.rank * count:][:count], "reduce_scatter")
            dist.all_to_all_single(gathered, me.mine(n * count, dtype))
            blocks = me.all(n * count)[:, me.rank * count:(me.rank + 1) * count]
            me.same(gathered, blocks.flatten(), "all_to_all")


@case
def messages(me):
    dist, torch = me.dist, me.torch
    following, before = (me.rank + 1) % me.n, (me.rank - 1) % me.n
    for count in (1, 1000, 1 << 20):
        got = torch.zeros(count, device="cuda")
        operations = [dist.P2POp(dist.isend, me.mine(count), following), dist.P2POp(dist.irecv, got, before)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        me.same(got, me.numbers(count, torch.float32, before), "batch_isend_irecv")


@case
def coalesced(me):
    tensors = [me.mine(100 + i) for i in range(50)]
    with me.dist._coalescing_manager(device=me.torch.device("cuda", 0)):
        for tensor in tensors:
            me.dist.all_reduce(tensor)
    for i, tensor in enumerate(tensors):
        me.same(tensor, me.all(100 + i).sum(0), "a coalesced all_reduce")


@case
def groups(me):
    halves = [me.dist.new_group(list(range(first, me.n, 2))) for first in (0, 1)]
    tensor = me.mine(1000)
    me.dist.all_reduce(tensor, group=halves[me.rank % 2])
    me.same(tensor, me.all(1000)[me.rank % 2::2].sum(0), "a group")


@case
def graph(me):
    torch = me.torch
    given, result = torch.zeros(1 << 16, device="cuda"), torch.zeros(1 << 16, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        me.dist.all_reduce(result)
    side.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, capture_error_mode="thread_local"):
        result.copy_(given * 2)
        me.dist.all_reduce(result)
        result += 1
    for i in range(20):
        given.fill_(i + me.rank)
        captured.replay()
        expected = 2 * sum(i + r for r in range(me.n)) + 1
        me.same(result, torch.full((1 << 16,), expected), "a replay")


def train(me, model, mine):
    """Ten steps of a small network: on all of a batch, or on this rank's part."""
    torch = me.torch
    generator = torch.Generator().manual_seed(7)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(10):
        x, y = (torch.randn(8 * me.n, width, generator=generator).cuda() for width in (64, 16))
        part = slice(8 * me.rank, 8 * me.rank + 8) if mine else slice(None)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x[part]), y[part]).backward()
        optimizer.step()


def network(me):
    nn = me.torch.nn
    me.torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 16)
    ).cuda()


def compare(me, found, expected):
    for a, b in zip(found, expected):
        off = ((a.double() - b.double()).abs() / (b.double().abs() + 1e-2)).max().item()
        assert off < 2e-5, f"a parameter differs by {off:.1e} from one process's"


@case
def ddp(me):
    whole, inner = network(me), network(me)
    train(me, whole, False)
    train(me, me.torch.nn.parallel.DistributedDataParallel(inner, bucket_cap_mb=0.1), True)
    compare(me, inner.parameters(), whole.parameters())


@case
def fsdp(me):
    from torch.distributed.fsdp import fully_shard

    whole, model = network(me), network(me)
    train(me, whole, False)
    for layer in model:
        if isinstance(layer, me.torch.nn.Linear):
            fully_shard(layer)
    train(me, fully_shard(model), True)
    compare(me, [parameter.full_tensor() for parameter in model.parameters()], whole.parameters())


@case
def again(me):
    for _ in range(3):
        me.dist.destroy_process_group()
        me.init()
        tensor = me.mine(1000)
        me.dist.all_reduce(tensor)
        me.same(tensor, me.all(1000).sum(0), "after one more init")


@case
def killed(me):
    """The last rank dies: the others get an error soon, and end by themselves."""
    me.dist.all_reduce(me.mine(4))
    me.torch.cuda.synchronize()
    if me.rank == me.n - 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.time()
    try:
        while time.time() < begin + 20:
            me.dist.all_reduce(me.mine(1000))
            me.torch.cuda.synchronize()
            time.sleep(0.1)
        raise AssertionError("no error for 20 seconds")
    except me.torch.distributed.DistBackendError as error:
        assert "ncclRemoteError" in str(error) and "died" in str(error), error
    me.dist.destroy_process_group()


def median_us(me, call):
    for _ in range(5):
        call()
    me.torch.cuda.synchronize()
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        call()
        me.torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return round(1e6 * statistics.median(times), 1)


def tell(me, check, told):
    """The least of what each was measured to take."""
    if me.rank == 0:
        numbers = {name: min(times) for name, times in told.items()}
        print(json.dumps({"program": "torch_nccl", "check": f"{check}-{me.n}", "outcome": "passed", "why": "",
                          "numbers": numbers}))


# How a step's all_reduces are served: settings of the communicators that are made then.
WAYS = {"host": {"TUTTI_EXECUTOR": "host"}, "led": {"TUTTI_EXECUTOR": "led"},
        "mapped": {"TUTTI_EXECUTOR": "led", "TUTTI_DEVICE_IMPORT": "all"}}


@case
def step(me):
    """A step of a network with 64 MiB of gradients: alone, and with all_reduces beside it, which compete for
    the device with the other processes' steps. By turns, in the same processes."""
    torch, nn = me.torch, me.torch.nn
    inner = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(16)]).cuda()
    given, told = torch.randn(64, 1024, device="cuda"), {}

    def run(model):
        return lambda: model(given).square().mean().backward()

    for _ in range(2):
        told.setdefault("alone_us", []).append(median_us(me, run(inner)))
        for way, settings in WAYS.items():
            me.dist.destroy_process_group()
            os.environ.update({"TUTTI_DEVICE_IMPORT": "given", **settings})
            me.init()
            model = nn.parallel.DistributedDataParallel(inner, gradient_as_bucket_view=True)
            told.setdefault(f"{way}_us", []).append(median_us(me, run(model)))
            del model
    tell(me, "step", told)


@case
def timing(me):
    """Beside gloo, which serves several processes on one GPU, too; in turn, in the same processes."""
    told = {}
    for _ in range(2):
        for count, name in ((2, "8"), (1 << 18, "1M"), (1 << 24, "64M")):
            tensor = me.torch.ones(count, device="cuda")
            told.setdefault(f"{me.backend}_{name}_us", []).append(
                median_us(me, lambda: me.dist.all_reduce(tensor, me.dist.ReduceOp.MAX)))
        if me.backend == "nccl":
            me.dist.destroy_process_group()
            me.backend = "gloo"
            me.init()
    tell(me, "timing", told)


def run_rank(name):
    me = Rank()
    CASES[name](me)
    if name != "killed":
        me.torch.cuda.synchronize()
        me.dist.destroy_process_group()


def run(name, n):
    library = os.environ["TUTTI_NCCL_LIBRARY"]
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            subprocess.Popen(
                [sys.executable, __file__, "--rank", name],
                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(n), "LD_PRELOAD": library,
                     "MEETING": os.path.join(folder, "meeting"), "PYTHONUNBUFFERED": "1"},
                stdout=None if rank == 0 else subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for rank in range(n)
        ]
        deadline = time.time() + LIMIT_S
        failed = False
        for rank, process in enumerate(ranks):
            try:
                said = process.communicate(timeout=max(1, deadline - time.time()))[1]
            except subprocess.TimeoutExpired:
                process.kill()
                said = process.communicate()[1] + f"\nError: it took longer than {LIMIT_S} s"
            expected = -signal.SIGKILL if name == "killed" and rank == n - 1 else 0
            if process.returncode != expected:
                failed = True
                last = [line for line in said.splitlines() if line][-1:] or ["nothing was said"]
                print(f"rank {rank} of {n}, exit code {process.returncode}: {last[0]}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(f"{name}-{n}" for n in (2, 4, 8) for name in CASES))
    elif sys.argv[1:2] == ["--rank"]:
        run_rank(sys.argv[2])
    else:
        wanted, ranks = sys.argv[1].rsplit("-", 1)
        sys.exit(run(wanted, int(ranks)))

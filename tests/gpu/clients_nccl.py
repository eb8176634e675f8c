# SPDX-License-Identifier: BSD-3-Clause
"""CuPy's and JAX's use of NCCL over Tutti's libnccl.so.2: two processes on one GPU, which NCCL refuses.

`python3 clients_nccl.py cupy` or `jax` runs one and prints nothing but why it failed; `--has NAME` asks by
its exit code whether the package is here, with a GPU. TUTTI_NCCL_LIBRARY is the library, which is preloaded,
as tutti-nccl does it."""

import os
import socket
import subprocess
import sys
import tempfile
import time

RANKS, COUNT, LIMIT_S = 2, 1000, 120


def expect(truth, what):
    if not truth:
        raise AssertionError(what)


def cupy_has_gpu():
    import cupy

    return cupy.cuda.runtime.getDeviceCount() > 0


def jax_has_gpu():
    import jax

    return any(device.platform == "gpu" for device in jax.devices())


def meet(folder, rank, make):
    """What rank 0 makes, at every rank."""
    path = os.path.join(folder, "id")
    if rank == 0:
        with open(path + ".new", "wb") as file:
            file.write(bytes(make()))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return file.read()


def cupy_rank(rank, folder):
    import cupy
    from cupy.cuda import nccl

    cupy.cuda.Device(0).use()
    comm = nccl.NcclCommunicator(RANKS, meet(folder, rank, nccl.get_unique_id), rank)
    stream = cupy.cuda.Stream(non_blocking=True)
    one, two = cupy.arange(COUNT, dtype=cupy.float32) + rank, cupy.zeros(2 * COUNT, dtype=cupy.float32)
    cupy.cuda.Device().synchronize()
    kind, on = nccl.NCCL_FLOAT32, stream.ptr
    comm.allReduce(one.data.ptr, one.data.ptr, COUNT, kind, nccl.NCCL_SUM, on)
    comm.allGather(one.data.ptr, two.data.ptr, COUNT, kind, on)
    comm.bcast(one.data.ptr, COUNT, kind, 0, on)
    nccl.groupStart()
    comm.send(one.data.ptr, COUNT, kind, 1 - rank, on)
    comm.recv(two.data.ptr, COUNT, kind, 1 - rank, on)
    nccl.groupEnd()
    stream.synchronize()
    wanted = 2 * cupy.arange(COUNT, dtype=cupy.float32) + 1
    expect(bool((one == wanted).all()), "the sum is wrong")
    expect(bool((two == cupy.concatenate([wanted, wanted])).all()), "what was gathered or received is wrong")
    comm.destroy()


def jax_rank(rank, folder):
    import jax
    import numpy
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    port = meet(folder, rank, free_port).decode()
    jax.distributed.initialize(
        f"127.0.0.1:{port}", RANKS, rank, local_device_ids=[0], initialization_timeout=60)
    mesh = Mesh(numpy.array(jax.devices()), ("d",))
    whole = numpy.arange(RANKS * COUNT, dtype=numpy.float32).reshape(RANKS, COUNT)
    parts = jax.make_array_from_callback(
        whole.shape, NamedSharding(mesh, PartitionSpec("d")), lambda index: whole[index])
    everywhere = NamedSharding(mesh, PartitionSpec())
    total = jax.jit(lambda a: a.sum(0), out_shardings=everywhere)(parts)
    twice = jax.jit(lambda a: a * 2, out_shardings=everywhere)(parts)
    expect((numpy.asarray(total.addressable_data(0)) == whole.sum(0)).all(), "the sum is wrong")
    expect((numpy.asarray(twice.addressable_data(0)) == 2 * whole).all(), "what was gathered is wrong")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1]).encode()


CLIENTS = {"cupy": (cupy_has_gpu, cupy_rank), "jax": (jax_has_gpu, jax_rank)}


def run(name):
    environment = {**os.environ, "LD_PRELOAD": os.environ["TUTTI_NCCL_LIBRARY"],
                   "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "2"}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            subprocess.Popen(
                [sys.executable, __file__, "--rank", name, str(rank), folder], env=environment,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for rank in range(RANKS)
        ]
        deadline = time.time() + LIMIT_S
        for rank, process in enumerate(ranks):
            try:
                said = process.communicate(timeout=max(1, deadline - time.time()))[1]
            except subprocess.TimeoutExpired:
                process.kill()
                said = process.communicate()[1] + f"\nError: it took longer than {LIMIT_S} s"
            if process.returncode != 0:
                failed = True
                last = [line for line in said.splitlines() if line][-1:] or ["nothing was said"]
                print(f"{name}, rank {rank}, exit code {process.returncode}: {last[0]}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1] == "--has":
        try:
            sys.exit(0 if CLIENTS[sys.argv[2]][0]() else 1)
        except Exception:  # it is not here, or finds no driver
            sys.exit(1)
    elif sys.argv[1] == "--rank":
        CLIENTS[sys.argv[2]][1](int(sys.argv[3]), sys.argv[4])
    else:
        sys.exit(run(sys.argv[1]))

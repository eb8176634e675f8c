# SPDX-License-Identifier: BSD-3-Clause
"""import tutti.nccl: whose NCCL a process has from then on, and what is said; each in its own process."""

import os
import subprocess
import sys

import pytest

import tutti

LOAD = "import tutti.nccl, ctypes; version = ctypes.c_int(); "
# By the name alone, as what comes later does; and by a function that everybody sees.
CALL = (
    "ctypes.CDLL('libnccl.so.2').ncclGetVersion(ctypes.byref(version)); print(version.value); "
    "print(ctypes.CDLL(None).ncclGetUniqueId is not None)"
)

folder = os.path.dirname(os.path.realpath(tutti._library.library._name))
if not os.path.exists(os.path.join(folder, "libnccl.so.2")):
    pytest.skip("libnccl.so.2 is not built", allow_module_level=True)


def run(program, **variables):
    environment = {**os.environ, **variables, "TUTTI_DEVICE": "none"}
    environment.pop("NCCL_DEBUG", None)
    environment.pop("LD_PRELOAD", None)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)


def test_serves_who_comes_later():
    said = run(LOAD + CALL)
    assert said.returncode == 0, said.stderr
    assert said.stdout.split() == ["22809", "True"]
    assert len(said.stderr.splitlines()) == 1
    assert said.stderr.startswith("tutti.nccl: NCCL is /") and "libnccl.so.2" in said.stderr


def test_quiet():
    said = run(LOAD + CALL, TUTTI_NCCL_QUIET="1")
    assert said.returncode == 0 and said.stderr == ""


def test_tells_vllm():
    said = run("import tutti.nccl, os; print(os.environ['VLLM_NCCL_SO_PATH'] == tutti.nccl.path)")
    assert said.stdout == "True\n"


def test_too_late():
    said = run("import sys, types; sys.modules['torch'] = types.ModuleType('torch'); import tutti.nccl")
    assert said.returncode == 0
    assert "torch was imported first" in said.stderr and "tutti-nccl" in said.stderr
    assert "NCCL is" not in said.stderr


ONE_CALL = """
nccl, comm, f, g = ctypes.CDLL("libnccl.so.2"), ctypes.c_void_p(), ctypes.c_float(3), ctypes.c_float()
assert nccl.ncclCommInitAll(ctypes.byref(comm), 1, None) == 0
assert nccl.ncclAllReduce(ctypes.byref(f), ctypes.byref(g), ctypes.c_size_t(1), 7, 0, comm, None) == 0
assert nccl.ncclCommDestroy(comm) == 0
print(g.value)
"""


def test_one_call():
    said = run(LOAD + ONE_CALL)
    assert said.stdout == "3.0\n", said.stderr

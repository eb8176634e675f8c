#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench_plan.py: whether plan knows what is fast: for each model and number of ranks, plan --measure prices
configurations for this machine; they run by turns, and the one that is fastest is looked for among plan's
first three of them.

usage: bench_plan.py TUTTI_TRAIN [ROUNDS]

Configurations that are within a twentieth of the fastest count as the fastest: clocks tell them no better."""
import json
import statistics
import subprocess
import sys

train = sys.argv[1]
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
ASKED = [(model, ranks) for ranks in (2, 4)
         for model in ("gpt:nano", "gpt:micro", "moe:nano", "mlp:nano", "mlp:micro", "cnn:nano")]
STEPS, ALIKE = 12, 1.05


def lines(command):
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(x) for x in said.splitlines()]


def step_ms(run):
    """The median step of a run, without its first two."""
    return statistics.median(x["ms"] for x in lines(run) if x["event"] == "step" and x["step"] >= 2)


def configurations(model, ranks):
    """Those that plan evaluated, fastest first, and how to run each."""
    said = lines([train, "plan", "--measure", "--json", "--model", model, "-n", str(ranks)])[0]
    priced = {x["options"]: x["seconds"] for x in said["best"] + list(said["alone"].values())
              if x["fits"] and x["host_bytes"] == 0}
    fixed = [train, "--json", "--data", "grammar", "--steps", str(STEPS), "--model", model,
             "-n", str(ranks), "--batch", str(said["batch"])]
    return [(o, fixed + (o.split() if o.startswith("-") else [])) for o in sorted(priced, key=priced.get)]


right = asked = 0
for model, ranks in ASKED:
    runs = configurations(model, ranks)
    times = {o: [] for o, _ in runs}
    for turn in range(rounds):
        for o, run in runs[turn % len(runs):] + runs[:turn % len(runs)]:
            times[o].append(step_ms(run))
    ms = {o: statistics.median(t) for o, t in times.items()}
    fastest = min(ms.values())
    first = next(i for i, (o, _) in enumerate(runs) if ms[o] <= ALIKE * fastest)
    asked += 1
    right += first < 3
    best = min(ms, key=ms.get)
    print(f"{model:10} {ranks} ranks, {len(runs)} configurations: fastest {best}: {fastest:.2f} ms; "
          f"plan's first, {runs[0][0]}: {ms[runs[0][0]]:.2f} ms; as fast is plan's number {first + 1}",
          flush=True)
print(f"the fastest is among plan's first three in {right} of {asked}")

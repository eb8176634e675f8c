#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench_plan.py: whether plan knows what is fast: for each model and number of ranks, plan --measure prices
configurations for this machine; they run by turns, and the one that is fastest is looked for among plan's
first three of them.

usage: bench_plan.py TUTTI_TRAIN [ROUNDS [CASES [OTHER_TUTTI_TRAIN]]]

CASES: names with commas, as gpt:nano@4 for four ranks, or so many of the first; without it all. With another
program its plans are judged, too, by the same runs, which are those of the first: a machine is not the same
for long, so only this compares two planners. Below each case stand its configurations: what plan said, what
was measured, and the ratio to the fastest in the same round: its median and the middle half. Configurations
that are within a twentieth of the fastest count as the fastest: clocks tell them no better. A busy machine
tells less: what is no slower than the fastest in a quarter of the rounds is a tie, and such cases count
apart. The regret is the time of the best of plan's first three over that of the fastest that was measured."""
import json
import statistics
import subprocess
import sys

train = sys.argv[1]
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
asked = sys.argv[3] if len(sys.argv) > 3 else "12"
planners = [train] + sys.argv[4:5]
CASES = [f"{model}@{ranks}" for ranks in (2, 4)
         for model in ("gpt:nano", "gpt:micro", "moe:nano", "mlp:nano", "mlp:micro", "cnn:nano")]
cases = CASES[:int(asked)] if asked.isdigit() else asked.split(",")
if not set(cases) <= set(CASES):
    sys.exit(f"bench_plan.py: {asked}: legal are a number, or some of {','.join(CASES)}")
STEPS, ALIKE = 12, 1.05


def lines(command):
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(x) for x in said.splitlines()]


def step_ms(run):
    """The median step of a run, without its first two."""
    return statistics.median(x["ms"] for x in lines(run) if x["event"] == "step" and x["step"] >= 2)


def plan(planner, model, ranks):
    """The configurations that plan evaluated, in its order, with the milliseconds that it says; the batch."""
    said = lines([planner, "plan", "--measure", "--json", "--model", model, "-n", ranks])[0]
    alone = sorted((x for x in said["alone"].values() if "seconds" in x), key=lambda x: x["seconds"])
    priced = {x["options"]: 1e3 * x["seconds"]
              for x in said["best"] + alone if x["fits"] and x["host_bytes"] == 0}
    return priced, said["batch"]


def run(model, ranks, batch, options):
    """The median step of it."""
    words = [train, "--json", "--data", "grammar", "--steps", str(STEPS), "--model", model, "-n", ranks,
             "--batch", str(batch)]
    return step_ms(words + (options.split() if options.startswith("-") else []))


def quarters(values):
    """A quarter of them is below the first, and a quarter above the second."""
    ordered = sorted(values)
    return ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]


def measure(plans, model, ranks):
    """Milliseconds of each configuration that any of the plans has, a number for each round."""
    times = {o: [] for priced, _ in plans for o in priced}
    for turn in range(rounds):
        first = turn % len(times)
        for o in list(times)[first:] + list(times)[:first]:
            times[o].append(run(model, ranks, plans[0][1], o))
    return times


def judge(case, priced, times):
    """How good a plan was: whether one of its first three is the fastest, or by the noise; its regret."""
    ms = {o: statistics.median(times[o]) for o in times}
    best = min(ms, key=ms.get)
    above = {o: [x / y for x, y in zip(times[o], times[best])] for o in priced}
    order = list(priced)
    first = next((i for i, o in enumerate(order) if ms[o] <= ALIKE * ms[best]), len(order))
    ties = first >= 3 and any(quarters(above[o])[0] <= 1 for o in order[:3])
    regret = min(ms[o] for o in order[:3]) / ms[best]
    place = f"number {first + 1}" if first < len(order) else "none"
    print(f"{case:11} {len(order)} configurations: fastest {best}: {ms[best]:.2f} ms; plan's first, "
          f"{order[0]}: {ms[order[0]]:.2f} ms; as fast is plan's {place}; regret {regret:.2f}"
          f"{'; one of the first three is as fast by the noise' if ties else ''}", flush=True)
    for o in order:
        low, high = quarters(above[o])
        print(f"    said {priced[o]:8.2f} ms, measured {ms[o]:8.2f}, "
              f"of the fastest {statistics.median(above[o]):.2f} ({low:.2f} to {high:.2f}): {o}", flush=True)
    return first < 3, ties, regret


verdicts = [[] for _ in planners]
for case in cases:
    model, ranks = case.split("@")
    plans = [plan(p, model, ranks) for p in planners]
    times = measure(plans, model, ranks)
    for of, (priced, _) in zip(verdicts, plans):
        of.append(judge(case, priced, times))
for planner, of in zip(planners, verdicts):
    right, tied, regrets = zip(*of)
    print(f"{planner}: the fastest is among plan's first three in {sum(right)} of {len(of)}, "
          f"and by the noise in {sum(tied)} more; "
          f"mean regret {statistics.mean(regrets):.3f}, most {max(regrets):.2f}")

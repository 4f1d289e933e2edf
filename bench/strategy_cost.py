#!/usr/bin/env python3
"""What each strategy's step costs over plain joins, launch by launch.

    bench/strategy_cost.py [--case MODEL:BATCH] [--residual NAME]… [--rounds N] [--steps N]

Where others share the machine, whole steps scatter by more than a strategy costs. A launch is short: its best time over all
rounds is what it takes undisturbed. So the cost is the sum over a step's launches of each one's best time. A library's call of
one shape is the same work whichever the strategy, and its best is taken over all of them; a kernel's is its strategy's own.
"""
import argparse
import pathlib
import types

import contenders
import run


def is_call(launch):
    return launch["name"].startswith("gemm ")  # its shape follows; all else is a kernel, or a table of them


def key(residual, launch):
    return launch["name"] if is_call(launch) else (residual, launch["name"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewire", type=pathlib.Path, default=contenders.BUILD / "rewire")
    parser.add_argument("--case", default="vit_s_cifar:32", metavar="MODEL:BATCH")
    parser.add_argument("--residual", action="append", metavar="PLUGIN[:KEY=VALUE,…]", help="default: " + ", ".join(run.RESIDUALS[1:]))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    residuals = ["plain", *(options.residual or run.RESIDUALS[1:])]
    model, batch = options.case.split(":")

    network = types.SimpleNamespace(rewire=options.rewire, threads=options.threads, device="cpu", dtype="f32", set=[], end=float("inf"))
    best, steps = {}, {}
    for number in range(options.rounds):
        contenders.say(f"round {number + 1} of {options.rounds}")
        for residual in residuals:
            contender = contenders.Rewire(network, model, batch, residual)
            profile = contender.bench(options.steps, "--profile")["profile"]
            contender.close()
            for launch in profile:
                each = launch["ms"] / launch["launches"]
                best[key(residual, launch)] = min(best.get(key(residual, launch), each), each)
            steps[residual] = profile

    print(f"{model}, batch {batch}, f32, {options.threads} threads: each launch's best of {options.rounds} x {options.steps} steps\n")
    print("| residual | launches | MB | calls ms | kernels ms | sum ms | over plain |\n|---|---|---|---|---|---|---|")
    plain = None
    for residual in residuals:
        sums = {True: 0.0, False: 0.0}
        for launch in steps[residual]:
            sums[is_call(launch)] += best[key(residual, launch)] * launch["launches"]
        total = sum(sums.values())
        plain = plain or total
        print(f"| {residual} | {sum(launch['launches'] for launch in steps[residual])} "
              f"| {sum(launch['bytes'] for launch in steps[residual]) / 1e6:.0f} | {sums[True]:.1f} | {sums[False]:.1f} "
              f"| {total:.1f} | {100 * (total / plain - 1):+.1f} % |")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What an optimizer's step costs over AdamW's, beside its public code in PyTorch.

    bench/optimizer_cost.py --python VENV/bin/python --reference soap.py:SOAP [--optimizer soap] [--case MODEL:BATCH]…
                            [--rounds N] [--steps N] [--threads N]

FILE:CLASS is the reference, which the user has. All four (`rewire` with AdamW and with the optimizer, eager PyTorch likewise) do
their steps in turn, once a round. Steps are a multiple of the refresh's period (10): a figure is the mean of a round's steps, of
`rewire` the median step and its share of a refresh, and the result the median of the rounds.
"""
import argparse
import pathlib
import statistics

import contenders
import run


def own_ms(result):
    return result["step_ms"] + result.get("refresh_ms", 0) / result.get("refresh_period", 1)


def measure(options, case):
    """ms of each, by name: medians of the rounds."""
    own = {name: contenders.Rewire(options, case.model.partition("@")[0], case.batch, "plain", [*case.settings, *settings])
           for name, settings in (("rewire adamw", []), (f"rewire {options.optimizer}", [f"optimizer.name={options.optimizer}"]))}
    peers = {"pytorch adamw": contenders.PyTorch(options, case.shape, case.batch, "plain", "eager"),
             f"pytorch {options.optimizer}": contenders.PyTorch(options, case.shape, case.batch, "plain", "eager")}
    peers[f"pytorch {options.optimizer}"].command += ["--optimizer", str(options.reference), "--warm-up", "11"]
    times = {name: [] for name in (*own, *peers)}
    try:
        for peer in peers.values():
            peer.start()
        for number in range(options.rounds):
            contenders.say(f"{case}: round {number + 1} of {options.rounds}")
            for name, one in own.items():
                times[name].append(own_ms(one.bench(options.steps)))
            for name, one in peers.items():
                times[name].append(one.measure(options.steps)["mean_ms"])
    finally:
        for one in (*own.values(), *peers.values()):
            one.close()
    return {name: statistics.median(each) for name, each in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewire", type=pathlib.Path, default=contenders.BUILD / "rewire")
    parser.add_argument("--python", required=True)
    parser.add_argument("--optimizer", default="soap")
    parser.add_argument("--reference", required=True, metavar="FILE:CLASS")
    parser.add_argument("--case", action="append", type=run.parse_case, metavar="MODEL:BATCH", help="default: mae_vit_tiny_28:64")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="a round; a multiple of the refresh's period, 10")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.steps % 10:
        parser.error(f"--steps {options.steps} is no multiple of 10: the peer's refresh would count for too much or too little")
    options.device, options.dtype, options.set, options.end = "cpu", "f32", [], float("inf")

    print(f"{contenders.cpu_name()}, {options.threads} threads; ms a step, of {options.rounds} rounds of {options.steps}\n")
    print(f"| model, batch | rewire adamw | {options.optimizer} | cost | pytorch adamw | {options.optimizer} | cost |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for model, batch in options.case or [("mae_vit_tiny_28", 64)]:
        case = run.Case(options, model, batch)
        own, own_other, peer, peer_other = measure(options, case).values()
        print(f"| {case.model}, {case.batch} | {own:.1f} | {own_other:.1f} | {own_other / own:.2f} | "
              f"{peer:.1f} | {peer_other:.1f} | {peer_other / peer:.2f} |", flush=True)


if __name__ == "__main__":
    main()

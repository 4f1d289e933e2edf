#!/usr/bin/env python3
"""What each strategy costs a training step, beside no strategy and beside the same network in PyTorch.

    bench/strategies.py --python PYTHON_WITH_TORCH [--case MODEL:BATCH] [--strategy SPEC]… [--rounds N] [--steps N] [--out FILE]

One strategy at a time: in each round `rewire bench` without and with it, then PyTorch eager and compiled without and with it. A figure is
the median of the rounds' medians; a ratio the median of the rounds' ratios, so that what slows a whole round cancels. The
table also says how many lines the plugin has (neither blank nor comment) and what it adds to a step's launches, a join.
"""
import argparse
import pathlib
import statistics
import types

import contenders
import run

STRATEGIES = ("layerscale", "layerscale:kind=rezero", "layerscale:kind=skipinit", "denseformer",
              "denseformer:dilation=4,period=5", "value_residual", "value_residual:kind=shared", "postnorm",
              "postnorm:kind=deepnorm", "postnorm:kind=keel", "attnres:block=3", "attnres", "hyper:kind=static", "hyper",
              "hyper:kind=mhc")


def source_lines(spec):
    name = spec.partition(":")[0]
    lines = (contenders.HERE.parent / "plugins" / name / f"{name}.cpp").read_text().splitlines()
    return sum(bool(line.strip()) and not line.strip().startswith("//") for line in lines)


def launches(profile):
    return sum(launch["launches"] for launch in profile)


def cell(value, form):
    return "–" if value is None else format(value, form)


class Row:
    """`plain_peers`: PyTorch's without a strategy, which are there for every row."""

    def __init__(self, case, spec, options, plain_peers):
        self.spec, self.options, self.joins = spec, options, 2 * case.shape["depth"]
        self.plain, self.own = (contenders.Rewire(options, case.network, case.batch, name, case.settings) for name in ("plain", spec))
        self.peers = [contenders.PyTorch(options, case.shape, case.batch, spec, mode) for mode in options.mode]
        self.plain_peers = plain_peers

    def measure(self):
        """Interleaved rounds; a peer that fails is left out of the table."""
        everybody = (self.plain, self.own, *self.plain_peers, *self.peers)
        for peer in self.plain_peers:
            peer.rounds = []
        try:
            for peer in self.peers:
                peer.attempt(peer.start)
            self.added = (launches(self.own.bench(1, "--profile")["profile"])
                          - launches(self.plain.bench(1, "--profile")["profile"])) / self.joins
            for _ in range(self.options.rounds):
                for contender in everybody:
                    contender.attempt(contender.measure, self.options.steps)
        finally:
            for contender in (self.plain, self.own, *self.peers):
                contender.close()

    def __str__(self):
        def step(contender):
            return statistics.median(r["step_ms"] for r in contender.rounds) if contender.rounds else None

        def over(contender, other):
            return run.ratio(contender.rounds, other.rounds) if contender.rounds and other.rounds else None

        def cost(contender, plain):
            ratio = over(contender, plain)
            return cell(ratio and 100 * (ratio - 1), "+.1f") + " %"

        cells = [self.spec, str(source_lines(self.spec)), f"{self.added:+.2f}", cell(step(self.plain), ".0f"),
                 cell(step(self.own), ".0f"), cost(self.own, self.plain)]
        for peer, plain in zip(self.peers, self.plain_peers):
            cells += [cell(step(plain), ".0f"), cell(step(peer), ".0f"), cost(peer, plain), cell(over(peer, self.own), ".2f")]
        return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewire", type=pathlib.Path, default=contenders.BUILD / "rewire")
    parser.add_argument("--python", help="one that has PyTorch; without it the peers are left out")
    parser.add_argument("--case", default="vit_tiny_28:64", metavar="MODEL:BATCH")
    parser.add_argument("--strategy", action="append", metavar="SPEC", help=f"default: {', '.join(STRATEGIES)}")
    parser.add_argument("--mode", action="append", choices=run.MODES, help="of PyTorch; default: eager and compile")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, help="where the table goes, beside the terminal")
    given = parser.parse_args()
    modes = (given.mode or list(run.DEFAULT_MODES)) if given.python else []
    options = types.SimpleNamespace(**{**vars(given), "mode": modes}, device="cpu", dtype="f32", set=[], end=float("inf"))
    model, _, batch = options.case.rpartition(":")
    case = run.Case(options, model, int(batch))

    lines = [f"{options.case}, f32, {options.threads} threads of {contenders.cpu_name()}, commit {contenders.commit()}, "
             f"{options.rounds} rounds of {options.steps} steps; times in ms, ratios PyTorch / rewire", ""]
    head = ["strategy", "lines", "launches a join", "plain", "with it", "cost"]
    for mode in modes:
        head += [f"PyTorch {mode}, plain", "with it", "cost", "ratio"]
    lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    plain_peers = [contenders.PyTorch(options, case.shape, case.batch, "plain", mode) for mode in modes]
    try:
        for peer in plain_peers:
            peer.attempt(peer.start)
        for spec in options.strategy or STRATEGIES:
            contenders.say(f"{spec}; others keep {contenders.busy_cores():.1f} cores busy")
            row = Row(case, spec, options, plain_peers)
            row.measure()
            lines.append(str(row))
            if options.out:
                options.out.write_text("\n".join(lines) + "\n")
    finally:
        for peer in plain_peers:
            peer.close()
    print("\n".join(lines))


if __name__ == "__main__":
    main()

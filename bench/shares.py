#!/usr/bin/env python3
"""What the steps of a benchmark are made of, as a picture: a bar a case, beside its floor and the faster mode of PyTorch.

    bench/shares.py RESULT.json… --output shares.svg      results of bench/run.py; needs matplotlib

A class of launches is as wide as the sum of its launches, each alone at its best; what the median step takes beyond them is
waiting. Everything is a share of that step. Of a case in several results the last counts.
"""
import argparse
import json

WAITING = "waiting, and slower steps"
COLOURS = {"matrix products": "#4c72b0", "convolutions": "#64b5cd", "attention": "#dd8452", "rows, columns, maps": "#55a868",
           "optimizer, gradient norm": "#c44e52", WAITING: "#cccccc"}


def bars_of(result):
    """Of each case and join: a name, [class, share], and the shares of the floor and of the faster PyTorch, None where there is none."""
    bars = []
    for case in result["cases"]:
        for residual, classes in case["classes"].items():
            steps = {c["name"]: c["step_ms"] for c in case["contenders"] if c["residual"] == residual and "step_ms" in c}
            step = steps.pop("rewire")
            shares = [(name, ms / step) for name, _, ms, *_ in classes]
            shares.append((WAITING, max(0.0, 1 - sum(share for _, share in shares))))
            floors = case["floors"].get(residual, {})
            partial = "convolutions" in [name for name, *_ in classes] and "convolution_gflop" not in floors.get("kernels", {})
            floor = None if partial else floors.get("floor_from_peak_ms")  # older results leave convolutions out of it
            bars.append((f"{case['model']}, {case['batch']}" + ("" if residual == "plain" else f", {residual}"), shares,
                         floor and floor / step, min(steps.values()) / step if steps else None))
    return bars


def draw(bars, title, output):
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as pyplot
    pyplot.rcParams["svg.hashsalt"] = "rewire"
    pyplot.rcParams["svg.fonttype"] = "none"
    figure, axes = pyplot.subplots(figsize=(8, 0.5 * len(bars) + 1.8), layout="constrained")
    for row, (_, shares, floor, peer) in enumerate(bars):
        left = 0.0
        for name, share in shares:
            axes.barh(row, share, left=left, color=COLOURS.get(name), height=0.6)
            left += share
        for at, style in ((floor, "k-"), (peer, "k:")):
            if at is not None:
                axes.plot([at, at], [row - 0.4, row + 0.4], style, linewidth=1.6)
    for name in dict.fromkeys(name for _, shares, *_ in bars for name, _ in shares):
        axes.barh(0, 0, color=COLOURS.get(name), label=name)
    axes.plot([], [], "k-", label="floor from the peak")
    axes.plot([], [], "k:", label="PyTorch, its faster mode")
    axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
    axes.invert_yaxis()
    axes.set_xlabel("share of a step")
    axes.set_title(title, fontsize=9)
    figure.legend(fontsize=7, ncols=4, loc="outside lower center")
    figure.savefig(output, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+")
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    results = []
    for path in options.results:
        with open(path) as file:
            results.append(json.load(file))
    bars = {bar[0]: bar for result in results for bar in bars_of(result)}
    draw(list(bars.values()),
         f"{results[0].get('device') or results[0]['cpu']}, {results[0]['threads']} threads, {results[0]['dtype']}", options.output)


if __name__ == "__main__":
    main()

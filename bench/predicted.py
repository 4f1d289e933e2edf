#!/usr/bin/env python3
"""Puts what a step's launches should take beside what they took, the largest differences first.

    rewire dump MODEL --stage times --card h200 --json > predicted.json      on any machine
    bench/predicted.py predicted.json measured.json [--top N]

The measured file is that of `rewire bench MODEL --device cuda --profile --json`, or the results.tar.gz of scripts/gpu/call.py,
whose step_vit_s_untuned is taken (attention by our own kernels, as it is predicted), or --step. Launches meet by their names, but for what a
device says of a product: its algorithm, and its calls. Exit 1 if a launch stands on one side alone: another network or batch.
"""
import argparse
import json
import pathlib
import re
import sys
import tarfile


def key(name):
    return re.sub(r"(, \d+ calls)?, (algorithm|cuDNN) .*$", "", name)


def read(path, part, step=""):
    """The launches of a prediction or of a profile, by what they are called on both sides. `step`: of an archive."""
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as tar:
            result = json.load(tar.extractfile(f"1_{step}.json"))
    else:
        result = json.loads(path.read_text())
    rows = {}
    for launch in result[part]:
        row = rows.setdefault(key(launch["name"]), {"launches": 0, "ms": 0.0, "bytes": 0})
        for number in row:
            row[number] += launch[number]
        row["bound"] = launch.get("bound", "")
    return rows


def joined(predicted, measured):
    """[name, launches, predicted ms, measured ms, bytes, bound], the largest differences first; and who stands alone."""
    both = [[name, row["launches"], predicted[name]["ms"], row["ms"], row["bytes"], predicted[name]["bound"]]
            for name, row in measured.items() if name in predicted]
    both.sort(key=lambda row: -abs(row[3] - row[2]))
    return both, sorted(predicted.keys() - measured.keys()), sorted(measured.keys() - predicted.keys())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predicted", type=pathlib.Path)
    parser.add_argument("measured", type=pathlib.Path)
    parser.add_argument("--step", default="step_vit_s_untuned", metavar="STEP", help="of call 1 (step_vit_s_untuned)")
    parser.add_argument("--top", type=int, default=0, metavar="N", help="so many rows (all)")
    options = parser.parse_args()
    predicted, measured = read(options.predicted, "predicted"), read(options.measured, "profile", options.step)
    both, only_predicted, only_measured = joined(predicted, measured)

    print("| count | predicted ms | measured ms | ratio | GB/s | bound | kernel or call |\n|---|---|---|---|---|---|---|")
    for name, launches, expected, taken, moved, bound in both[:options.top or None]:
        print(f"| {launches} | {expected:.3f} | {taken:.3f} | {taken / expected:.2f} | {moved / taken * 1e-6:.0f} | {bound} | {name} |")
    expected, taken = (sum(row[side] for row in both) for side in (2, 3))
    print(f"| {sum(row[1] for row in both)} | {expected:.3f} | {taken:.3f} | {taken / max(expected, 1e-9):.2f} | | | all of both |")
    for name in only_predicted:
        print(f"not measured: {predicted[name]['ms']:.3f} ms, {name}")
    for name in only_measured:
        print(f"not predicted: {measured[name]['ms']:.3f} ms, {name}")
    sys.exit(1 if only_predicted or only_measured else 0)


if __name__ == "__main__":
    main()

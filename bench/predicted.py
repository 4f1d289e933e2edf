#!/usr/bin/env python3
"""Puts what a step's launches should take beside what they took, the largest differences first.

    rewire dump MODEL --stage times --card h200 --json > predicted.json      on any machine
    bench/predicted.py predicted.json measured.json [--top N | --classes]

The measured file is one of bench/results/*-networks.json, whose network --network is taken, or that of `rewire bench MODEL --device cuda --profile --json`, or the results.tar.gz of scripts/gpu/call.py,
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


def class_of(name):
    """The kind of work of a launch; times of one kind are predicted well or badly together."""
    if name.startswith("gemm"):
        return "products, " + next(kind for kind in ("bf16", "tf32", "f32") if kind in name)
    if name.startswith("convolution"):
        return f"convolutions, {name.split()[1]}, " + next(kind for kind in ("bf16", "tf32", "f32") if kind in name)
    if "attention" in name:
        return "attention, backward" if "attention_grad" in name else "attention, forward"
    if "a table of" in name or "finish" in name or "optimizer" in name or "update" in name:
        return "optimizer and ends of sums"
    return next((kind for kind in ("rows_columns", "columns", "rows", "map") if f"_{kind}_" in name), "other")


def read(path, part, options):
    """The launches of a prediction or of a profile, by what they are called on both sides."""
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as tar:
            result = json.load(tar.extractfile(f"1_{options.step}.json"))
    else:
        result = json.loads(path.read_text())
        result = result["networks"][options.network] if "networks" in result else result
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


def print_classes(both):
    """One row for each class: milliseconds and their ratio."""
    classes = {}
    for name, _, expected, taken, *_ in both:
        row = classes.setdefault(class_of(name), [0.0, 0.0])
        row[0] += expected
        row[1] += taken
    print("| class | predicted ms | measured ms | ratio |\n|---|---|---|---|")
    for name, (expected, taken) in sorted(classes.items(), key=lambda item: -item[1][1]):
        print(f"| {name} | {expected:.2f} | {taken:.2f} | {expected / taken:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predicted", type=pathlib.Path)
    parser.add_argument("measured", type=pathlib.Path)
    parser.add_argument("--step", default="step_vit_s_untuned", metavar="STEP", help="of call 1 (step_vit_s_untuned)")
    parser.add_argument("--top", type=int, default=0, metavar="N", help="so many rows (all)")
    parser.add_argument("--network", default="vit_s_untuned", metavar="NAME", help="of *-networks.json (vit_s_untuned)")
    parser.add_argument("--classes", action="store_true", help="sums by class instead of launches")
    options = parser.parse_args()
    predicted, measured = read(options.predicted, "predicted", options), read(options.measured, "profile", options)
    both, only_predicted, only_measured = joined(predicted, measured)

    if options.classes:
        return print_classes(both)
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

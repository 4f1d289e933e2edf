#!/usr/bin/env python3
"""What a step of several ranks should take, from a step of one and what is known of the links between them.

    rewire models --json | bench/scale_model.py                          ViT-B and ResNet-50 on 8, 64 and 1024 GPUs
    mpirun -n 2 rewire bench --ranks --json | bench/scale_model.py --check

A sum over N ranks is 2 log2 N exchanges: of halves with the neighbour, of quarters with the rank two away, and so on, and
the same way back (docs/design/processes.md). An exchange takes the link's latency, times the trips that a message of its
size needs, and its bytes over the bandwidth of one rank in one direction. Nothing is hidden: sums begin after backward.

Not in the model: the wait for the slowest rank, which on busy machines costs more than the sums; links that several ranks
share, unless the bandwidth given is a rank's part; and everything that a real network does under load. --check fits
latency and bandwidth to the smallest and the largest array measured, and predicts those between. No machine with several
GPUs has run this.
"""
import argparse
import json
import math
import sys

EAGER = 64e3  # bytes; a larger message is announced and answered first
NODE = 8  # GPUs of a machine
# GB/s of a rank in one direction, and seconds: NVLink 4 within a machine; 400 Gb/s a GPU, or 100 Gb/s a machine, between them
INSIDE = (450e9, 5e-6)
FABRICS = {"400 Gb/s a GPU": (50e9, 10e-6), "100 Gb/s a machine": (12.5e9 / NODE, 20e-6)}
DECISIONS = 4  # small exchanges of all ranks by MPI: stop flag, finite flags, metrics
HBM = 3.35e12  # bytes a second, for the additions
# Milliseconds of a step on one H200 (docs/results/speed.md), for so many images
STEPS = {"vit_b16_224": (62.6, 256), "resnetv2_50": (88.3, 128)}


def trips(size):
    return 1 if size <= EAGER else 3


def seconds_of_sum(size, ranks, link):
    """`link(distance)` gives bandwidth and latency between ranks so far apart."""
    total = 0.0
    for step in range(int(math.log2(ranks))):
        bandwidth, latency = link(2**step)
        part = size / 2 ** (step + 1)
        total += 2 * (trips(part) * latency + part / bandwidth) + 3 * part / HBM
    return total


def check():
    measured = json.load(sys.stdin)
    ranks, rows = measured["ranks"], measured["sums"]
    sizes = [row["bytes"] for row in rows]
    exchanges = 2 * math.log2(ranks)
    latency = rows[0]["sum_ms"] / 1e3 / (exchanges * trips(sizes[0] / 2))
    rest = rows[-1]["sum_ms"] / 1e3 - seconds_of_sum(sizes[-1], ranks, lambda _: (math.inf, latency))
    bandwidth = 2 * sizes[-1] * (1 - 1 / ranks) / rest
    print(f"{ranks} ranks: latency {latency * 1e6:.1f} us, {bandwidth / 1e9:.2f} GB/s in one direction\n"
          f"{'MB':>9} {'measured ms':>12} {'model ms':>9} {'off by':>7}")
    for size, row in zip(sizes, rows):
        model = 1e3 * seconds_of_sum(size, ranks, lambda _: (bandwidth, latency))
        print(f"{size / 1e6:9.3f} {row['sum_ms']:12.3f} {model:9.3f} {100 * (model / row['sum_ms'] - 1):+6.0f} %")


def tables():
    zoo = {row["name"]: row["parameters"] for row in json.load(sys.stdin)}
    for fabric, outside in FABRICS.items():
        print(f"\n{fabric} between machines of {NODE} GPUs\n{'network':>12} {'images':>7} {'GPUs':>5} {'sums ms':>8} "
              f"{'step ms':>8} {'weak scaling':>13}")
        for name, (step, images) in STEPS.items():
            for ranks in (8, 64, 1024):
                link = lambda distance: INSIDE if distance < NODE else outside
                sums = 1e3 * seconds_of_sum(4 * zoo[name], ranks, link)
                decisions = 1e3 * DECISIONS * math.log2(ranks) * (outside[1] if ranks > NODE else INSIDE[1])
                whole = step + sums + decisions
                print(f"{name:>12} {images:7} {ranks:5} {sums:8.2f} {whole:8.1f} {100 * step / whole:11.0f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with `rewire bench --ranks --json` instead")
    check() if parser.parse_args().check else tables()

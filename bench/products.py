#!/usr/bin/env python3
"""Single matrix products of a step: our own code beside oneDNN, MKL (through PyTorch), OpenBLAS (through NumPy) and BLIS (if the
machine has libblis.so.4), in f32.

    bench/products.py --python VENV/bin/python [--case MODEL[@IMAGE]:BATCH]… [--rounds N] [--threads N]

Prints a table, GFLOP/s, each the best of all rounds, and the share that our own has of the multiply-adds' peak
(`rewire_bench_ceilings`, which times ours and oneDNN's own threads; a bias is added there, by the peers not). Operands are as near as
they fit. VENV has torch and numpy.
"""
import argparse
import ctypes
import json
import os
import pathlib
import re
import statistics
import sys
import time

import contenders
import run


def best_rate(compute, flops):
    """Of runs of together 0.1 s, behind one that warms up."""
    compute()
    best, until, runs = float("inf"), time.perf_counter() + 0.1, 0
    while runs < 5 or time.perf_counter() < until:
        start = time.perf_counter()
        compute()
        best, runs = min(best, time.perf_counter() - start), runs + 1
    return flops / best * 1e-9


def find_blis():
    try:
        return ctypes.CDLL("libblis.so.4").cblas_sgemm
    except OSError:
        return None


def by_blis(sgemm, left, right, c):
    """c = left right, all of PyTorch; transposed operands are views."""
    def order(matrix):  # CblasNoTrans, CblasTrans, and the leading dimension
        return (111, matrix.stride(0)) if matrix.stride(1) == 1 else (112, matrix.stride(1))
    (ta, lda), (tb, ldb) = order(left), order(right)
    one, zero, pointer = ctypes.c_float(1), ctypes.c_float(0), ctypes.c_void_p
    row_major, (m, n), k = 101, c.shape, left.shape[1]
    return lambda: sgemm(row_major, ta, tb, m, n, k, one, pointer(left.data_ptr()), lda, pointer(right.data_ptr()), ldb, zero,
                         pointer(c.data_ptr()), n)


def answer_as_peer():
    """Reads [[m, n, k, transposed a, transposed b], …] and prints [[GFLOP/s of MKL, of OpenBLAS, of BLIS or 0], …]."""
    import numpy
    import torch
    blis = find_blis()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    rates = []
    for m, n, k, ta, tb in json.load(sys.stdin):
        a, b, c = torch.randn(k, m) if ta else torch.randn(m, k), torch.randn(n, k) if tb else torch.randn(k, n), torch.empty(m, n)
        left, right = a.T if ta else a, b.T if tb else b
        arrays = left.numpy(), right.numpy(), c.numpy()
        rates.append([best_rate(lambda: torch.mm(left, right, out=c), 2 * m * n * k),
                      best_rate(lambda: numpy.matmul(arrays[0], arrays[1], out=arrays[2]), 2 * m * n * k),
                      best_rate(by_blis(blis, left, right, c), 2 * m * n * k) if blis else 0])
    print(json.dumps(rates))


def shape_of(name):
    """Of "gemm 3200x768x192 NT + bias"; None for a batch of products."""
    match = re.fullmatch(r"gemm (\d+)x(\d+)x(\d+) ([NT])([NT])( \+ .*)?", name)
    return match and [int(match[1]), int(match[2]), int(match[3]), match[4] == "T", match[5] == "T"]


def measure(options, dumps):
    """By name: our own, oneDNN, MKL, OpenBLAS, BLIS; and the peak."""
    environment = dict(os.environ, **{f"{name}_NUM_THREADS": str(options.threads) for name in ("OMP", "OPENBLAS", "BLIS")})
    rates, peak = {}, 0

    def keep(name, column, rate):
        row = rates.setdefault(name, [0.0] * 5)
        row[column] = max(row[column], rate)

    for number in range(options.rounds):
        for case, dump in dumps.items():
            contenders.say(f"round {number + 1} of {options.rounds}: {case}")
            ceilings = json.loads(contenders.output_of([str(options.ceilings), str(options.threads)], options, given=dump))
            peak = max(peak, ceilings["peak_gflops"])
            named = {row["shape"]: row for row in ceilings["gemm"]["shapes"] if row["mflop"] >= options.least and shape_of(row["shape"])}
            words = [options.python, str(pathlib.Path(__file__)), "--peer"]
            peers = json.loads(contenders.output_of(words, options, given=json.dumps([shape_of(name) for name in named]),
                                             environment=environment))
            for (name, row), others in zip(named.items(), peers):
                for column, rate in enumerate((row["own_gflops"], row["library_gflops"], *others)):
                    keep(name, column, rate)
    return rates, peak


def main():
    if sys.argv[1:] == ["--peer"]:
        return answer_as_peer()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewire", type=pathlib.Path, default=contenders.BUILD / "rewire")
    parser.add_argument("--ceilings", type=pathlib.Path, default=contenders.BUILD / "rewire_bench_ceilings")
    parser.add_argument("--python", required=True)
    parser.add_argument("--case", action="append", type=run.parse_case, metavar="MODEL[@IMAGE]:BATCH",
                        help="default: vit_tiny_28:64, vit_s_cifar:32, mae_vit_tiny_28:64")
    parser.add_argument("--least", type=float, default=60, help="millions of operations of a product that is timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.device, options.end = "cpu", float("inf")
    dumps = {}
    for model, batch in options.case or [("vit_tiny_28", 64), ("vit_s_cifar", 32), ("mae_vit_tiny_28", 64)]:
        case = run.Case(options, model, batch)
        words = [str(options.rewire), "dump", model.partition("@")[0], "--plugin", "none", "--set", f"train.batch={batch}", "--stage",
                 "step", "--log-level", "warning", *(word for text in case.settings for word in ("--set", text))]
        dumps[str(case)] = contenders.output_of(words, options)
    rates, peak = measure(options, dumps)
    print(f"{contenders.cpu_name()}, {options.threads} threads, f32, commit {contenders.commit()}; the multiply-adds' peak is {peak:.1f} GFLOP/s\n")
    print("| product | own | % of peak | oneDNN | MKL | OpenBLAS | BLIS | own / the best of these |\n|---|---|---|---|---|---|---|---|")
    for name, (own, *others) in rates.items():
        figures = " | ".join(f"{rate:.0f}" if rate else "" for rate in others)
        print(f"| {name.removeprefix('gemm ')} | {own:.0f} | {100 * own / peak:.0f} | {figures} | {own / max(others):.2f} |")
    shares = sorted(row[0] / peak for row in rates.values())
    behind = [name.removeprefix("gemm ") for name, (own, *others) in rates.items() if own < 0.95 * max(others)]
    print(f"\nOf {len(rates)} products the median reaches {100 * statistics.median(shares):.0f} % of the peak, the least {100 * shares[0]:.0f}.\n"
          f"More than 5 % behind the best of the others: {', '.join(behind) or 'none'}.")


if __name__ == "__main__":
    main()

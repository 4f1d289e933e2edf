#!/usr/bin/env python3
"""Training by several processes beside one, beside as many that do not speak, and beside PyTorch's DDP.

    bench/ranks.py [--python PYTHON_WITH_TORCH] [--model vit_tiny_28] [--batch 32] [--ranks 2] [--rounds 5] [--steps 30]

Each process has one thread and a batch of its own, of random images. Of each contender the median step of a round, in
turns, and the medians over the rounds:
    one        one process
    apart      as many processes as ranks, side by side, each for itself: the bound that the cores and their memory set
    ranks      `mpirun -n RANKS rewire train`, the batch RANKS times as large
    ddp        DistributedDataParallel over gloo, eager and compiled (--python)
Weak scaling is apart / ranks. Run it on an idle machine.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MPI = {"OMPI_MCA_btl_vader_single_copy_mechanism": os.environ.get("OMPI_MCA_btl_vader_single_copy_mechanism", "none")}
LINE_STEPS = 5


def command(options, batch, folder):
    values = ["train.threads=1", f"train.batch={batch}", f"train.max_steps={options.steps}", f"train.log_every={LINE_STEPS}",
              "objective.label_smoothing=0.1", "train.clip_norm=1", "data.format=synthetic", "data.threads=1", f"data.count={batch * (options.steps + 1)}", "eval.batch=50",
              "train.epochs=1", "train.report=false", "train.events=false"]
    return [str(options.rewire), "train", options.model, "--plain", "--no-autotune", "--quiet", "--out", str(folder),
            *[part for value in values for part in ("--set", value)]]


def step_ms(folder, batch):
    """The median over the lines of metrics.jsonl, without the first, which warms up."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rates = [line["samples_per_s"] for line in lines if line["kind"] == "train"][1:]
    return statistics.median(batch / rate * 1e3 for rate in rates)


def rewire(options, launches, folder):
    """`launches`: for each process or group of ranks, how many ranks it has. Returns the slowest one's step."""
    running = []
    for number, ranks in enumerate(launches):
        run = folder / str(number)
        shutil.rmtree(run, ignore_errors=True)
        start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
        batch = options.batch * ranks
        line = start + command(options, batch, run)
        running.append((run, batch, subprocess.Popen(line, env=os.environ | MPI, stdout=subprocess.DEVNULL)))
    for _, _, process in running:
        if process.wait() != 0:
            sys.exit("bench: a run failed")
    return max(step_ms(run, batch) for run, batch, _ in running)


class Ddp:
    """Processes that live through all rounds, as bench/run.py's."""

    def __init__(self, options, mode):
        self.mode = mode
        self.process = subprocess.Popen(
            [options.python, str(HERE / "pytorch_ranks.py"), "--batch", str(options.batch), "--ranks", str(options.ranks),
             "--mode", mode, "--model", shape_of(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()  # compiled

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def shape_of(options):
    zoo = json.loads(subprocess.run([options.rewire, "models", "--json", "--quiet"], check=True, capture_output=True).stdout)
    row = next(row for row in zoo if row["name"] == options.model)
    sys.path.insert(0, str(HERE))
    from contenders import peer_shape
    return json.dumps(peer_shape(row))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rewire", default=HERE.parent / "build/release/bin/rewire", type=pathlib.Path)
    parser.add_argument("--python", help="a Python that has PyTorch")
    parser.add_argument("--model", default="vit_tiny_28")
    parser.add_argument("--batch", type=int, default=32, help="of a process")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    peers = [Ddp(options, mode) for mode in ("eager", "compile")] if options.python else []
    rounds = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for _ in range(options.rounds):
            rounds.append({"one": rewire(options, [1], folder), "apart": rewire(options, [1] * options.ranks, folder),
                           "ranks": rewire(options, [options.ranks], folder),
                           **{f"ddp {peer.mode}": peer.steps(options.steps) for peer in peers}})
            print(json.dumps(rounds[-1]), flush=True)
    for name in rounds[0]:
        print(f"{name:>12} {statistics.median(one[name] for one in rounds):8.1f} ms a step")
    for name in rounds[0]:
        if name != "ranks":
            print(f"{name + ' / ranks':>20} {statistics.median(one[name] / one['ranks'] for one in rounds):6.3f}")


if __name__ == "__main__":
    main()

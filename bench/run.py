#!/usr/bin/env python3
"""Training steps of `rewire` beside PyTorch's, in interleaved rounds, and beside the machine's ceilings.

    bench/run.py [--python PYTHON_WITH_TORCH] [--case MODEL:BATCH]… [--residual NAME]… [--rounds N] [--steps N] [--threads N]
                 [--device cpu|cuda] [--dtype f32|bf16] [--budget SECONDS]

Writes bench/results/DATE-DEVICE.json and the same as a table in .md. bench/README.md says how it is measured.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import gpu_ceilings

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent / "build" / "release" / "bin"
RESIDUALS = ("plain", "decay", "orthogonal", "augment", "skipless")
DEFAULT_RESIDUALS = ("plain", "orthogonal")
MODES = ("eager", "compile", "max-autotune")
DEFAULT_MODES = ("eager", "compile")
# What every contender trains with.
LABEL_SMOOTHING, CLIP_NORM, WEIGHT_DECAY = 0.1, 1.0, 0.05


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def cpu_name():
    with open("/proc/cpuinfo") as info:
        line = next((line for line in info if line.startswith("model name")), ": unknown")
    return line.split(":", 1)[1].strip()


def busy_cores(seconds=1.0):
    """How many cores others keep busy, measured while every contender sleeps. A load average would remember our own work."""
    def ticks():
        with open("/proc/stat") as stat:
            fields = [int(field) for field in stat.readline().split()[1:9]]  # guests are in user already
        return sum(fields), fields[3] + fields[4]  # all, and idle or waiting for a disk

    before = ticks()
    time.sleep(seconds)
    total, idle = (after - start for after, start in zip(ticks(), before))
    return os.cpu_count() * (total - idle) / max(total, 1)


def commit():
    """Of the tree that was measured, with a + where it has other changes; "" outside a repository."""
    def git(*words):
        return subprocess.run(["git", "-C", str(HERE), *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout

    try:
        changes = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=10", "HEAD").strip() + ("+" if changes else "")
    except FileNotFoundError:
        return ""


def device_name(options):
    if options.device == "cpu":
        return cpu_name()
    listed = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    return listed.splitlines()[0].strip()


class Rewire:
    """`rewire bench`, a fresh process each round: its kernels come from the cache."""

    def __init__(self, options, model, batch, residual):
        self.name, self.residual = "rewire", residual
        self.options, self.about, self.step = options, {}, None
        self.network = [model, "--plugin", "none" if residual == "plain" else residual,
                        "--set", f"train.batch={batch}", "--set", f"train.label_smoothing={LABEL_SMOOTHING}",
                        "--set", f"train.clip_norm={CLIP_NORM}", "--set", f"optimizer.weight_decay={WEIGHT_DECAY}",
                        "--set", f"train.dtype={options.dtype}"]

    def command(self, verb, *rest):
        return [str(self.options.rewire), verb, *self.network, *rest, "--log-level", "warning"]

    def bench(self, steps, *rest, cache=None):
        where = ["--threads", str(self.options.threads)] if self.options.device == "cpu" else ["--device", "cuda"]
        command = self.command("bench", *where, "--steps", str(steps), *rest, "--json")
        environment = dict(os.environ, XDG_CACHE_HOME=cache) if cache else None
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout)

    def start_up(self):
        """Without timing any choice: what compiling takes with no cache and with all of it, and the process with two steps."""
        with tempfile.TemporaryDirectory() as cache:
            for state in ("cold", "warm"):
                start = time.perf_counter()
                result = self.bench(1, "--no-autotune", cache=cache)
                self.about[f"{state}_process_s"] = time.perf_counter() - start
                self.about[f"{state}_compile_s"] = result["compile_s"]

    def measure(self, steps):
        result = self.bench(steps)
        peak = "peak_mb" if self.options.device == "cpu" else "device_mb"
        return {"step_ms": result["step_ms"], "peak_mb": result[peak]}

    def floor(self):
        """The ceilings as they are now, for this network's own step."""
        if self.options.device == "cuda":
            if self.step is None:
                self.step = self.bench(3, "--profile")["profile"]
            return gpu_ceilings.floor(self.step, self.options.dtype)
        if self.step is None:
            dump = subprocess.run(self.command("dump", "--stage", "step"), check=True, stdout=subprocess.PIPE)
            self.step = dump.stdout
        command = [str(self.options.ceilings), str(self.options.threads)]
        return json.loads(subprocess.run(command, check=True, input=self.step, stdout=subprocess.PIPE).stdout)

    def launches(self, steps):
        """Every launch alone, its best time of `steps` runs."""
        return self.bench(steps, "--profile")["profile"]

    def close(self):
        pass


class PyTorch:
    """bench/pytorch_step.py, one process for all rounds: it compiles once."""

    def __init__(self, options, shape, batch, residual, mode):
        self.name, self.residual = f"pytorch {mode}", residual
        command = [options.python, str(HERE / "pytorch_step.py"), "--model", json.dumps(shape), "--batch", str(batch),
                   "--residual", residual, "--mode", mode, "--threads", str(options.threads),
                   "--device", options.device, "--dtype", options.dtype,
                   "--label-smoothing", str(LABEL_SMOOTHING), "--clip-norm", str(CLIP_NORM),
                   "--weight-decay", str(WEIGHT_DECAY)]
        environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        self.about = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with status {self.process.wait()}")
        return json.loads(line)

    def measure(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def contenders(options, model, shape, batch, residuals):
    every = [Rewire(options, model, batch, residual) for residual in residuals]
    if options.python:
        for mode in options.mode or DEFAULT_MODES:
            for residual in residuals:
                say(f"  warming up pytorch {mode}, {residual}")
                every.append(PyTorch(options, shape, batch, residual, mode))
    return every


def summary(contender, rounds, batch):
    step_ms = statistics.median(r["step_ms"] for r in rounds)
    return {"name": contender.name, "residual": contender.residual, "step_ms": step_ms,
            "images_per_s": batch / step_ms * 1e3, "fastest_round_ms": min(r["step_ms"] for r in rounds),
            "slowest_round_ms": max(r["step_ms"] for r in rounds), "peak_mb": max(r["peak_mb"] for r in rounds),
            "about": contender.about, "rounds": rounds}


def ratio(rounds, others):
    """The median of the rounds' own ratios: what slows a whole round down cancels."""
    return statistics.median(a["step_ms"] / b["step_ms"] for a, b in zip(rounds, others))


def take_turns(options, every, rounds, floors, launches):
    """Fills in what each contender measured in each round, and the floors and launches of our own."""
    own = [contender for contender in every if contender.name == "rewire"]
    rounds.update({contender: [] for contender in every})
    if options.device == "cuda" or options.ceilings.exists():
        floors.update({contender.residual: [] for contender in own})
    try:
        for index in range(options.rounds):
            options.busy.append(busy_cores())
            say(f"  round {index + 1} of {options.rounds}, others keep {options.busy[-1]:.1f} cores busy")
            for contender in every:
                rounds[contender].append(contender.measure(options.steps))
            for contender in own if floors else ():
                floors[contender.residual].append(contender.floor())
        launches.update({contender.residual: contender.launches(options.steps) for contender in own})
        for contender in own:
            contender.start_up()
    finally:
        for contender in every:
            contender.close()


def run_case(options, model, batch):
    say(f"{model}, batch {batch}")
    zoo = json.loads(subprocess.run([str(options.rewire), "models", "--json"], check=True,
                                    stdout=subprocess.PIPE).stdout)
    row = next((row for row in zoo if row["name"] == model), None)
    if row is None:
        sys.exit(f"bench: no model '{model}'; `rewire models` lists them")
    shape = {key: row[key] for key in ("image", "channels", "classes", "patch", "dim", "depth", "heads")}
    every, rounds, floors, launches = [], {}, {}, {}
    # A card holds the peers of one residual at a time, and its times hardly scatter; on a CPU all take turns.
    for residuals in [[residual] for residual in options.residual] if options.device == "cuda" else [options.residual]:
        if time.monotonic() > options.deadline:
            left_out = f"{model}:{batch} {', '.join(residuals)}"
            say(f"  left out for lack of time: {left_out}")
            options.left_out.append(left_out)
            continue
        group = contenders(options, model, shape, batch, residuals)
        every += group
        take_turns(options, group, rounds, floors, launches)

    # What the machine can do at its best; a round's own median stands in the round's ratio.
    best = {residual: min(each, key=lambda floor: floor["floor_ms"]) for residual, each in floors.items()}
    alone = {residual: sum(launch["ms"] for launch in each) for residual, each in launches.items()}
    result = {"model": model, "batch": batch, "shape": shape, "floors": best, "launches_ms": alone,
              "contenders": [summary(c, rounds[c], batch) for c in every], "ratios": {}}
    ours = {c.residual: rounds[c] for c in every if c.name == "rewire"}
    for name in dict.fromkeys(contender.name for contender in every):
        of = {c.residual: rounds[c] for c in every if c.name == name}
        for residual in [r for r in of if r != "plain" and "plain" in of]:
            result["ratios"][f"{name} {residual} / plain"] = ratio(of[residual], of["plain"])
    for peer in every:
        if peer.name == "rewire":
            continue
        result["ratios"][f"{peer.name} / rewire, {peer.residual}"] = ratio(rounds[peer], ours[peer.residual])
        mine = max(r["peak_mb"] for r in ours[peer.residual])
        theirs = max(r["peak_mb"] for r in rounds[peer])
        result["ratios"][f"peak memory: rewire / {peer.name}, {peer.residual}"] = mine / theirs
        if options.device == "cpu":
            beyond = theirs - peer.about["imported_mb"]
            result["ratios"][f"peak memory: rewire / {peer.name} beyond `import torch`, {peer.residual}"] = mine / beyond
    for residual, each in floors.items():
        floor, steps = best[residual]["floor_ms"], ours[residual]
        result["ratios"][f"rewire / floor, {residual}"] = statistics.median(r["step_ms"] for r in steps) / floor
        result["ratios"][f"rewire / floor, medians of one round, {residual}"] = statistics.median(
            r["step_ms"] / f["floor_median_ms"] for r, f in zip(steps, each))
        result["ratios"][f"every launch alone, its best / floor, {residual}"] = alone[residual] / floor
    result["launches"] = launches
    if options.device == "cuda":
        for residual, each in launches.items():
            step = statistics.median(r["step_ms"] for r in ours[residual])
            result["ratios"][f"between launches, share of the step, {residual}"] = 1 - alone[residual] / step
            result["ratios"][f"row kernels / copy bandwidth, {residual}"] = row_kernels(each) / gpu_ceilings.copy_bandwidth()
    return result


def launch_class(name):
    if name.startswith("gemm"):
        return "matrix products"
    if "_attention" in name:
        return "attention"
    return "optimizer, gradient norm" if name.startswith("optimizer") else "rows, columns, maps"


def by_class(launches):
    """What a step is made of: (class, launches, ms, bytes, flops), the longest first."""
    rows = {}
    for launch in launches:
        row = rows.setdefault(launch_class(launch["name"]), [0, 0.0, 0, 0])
        for index, key in enumerate(("launches", "ms", "bytes", "flops")):
            row[index] += launch[key]
    return sorted(((name, *row) for name, row in rows.items()), key=lambda row: -row[2])


def row_kernels(launches):
    """Bytes a second of all kernels together that compute no products and move 16 MB and more at a time."""
    rows = [launch for launch in launches if not launch["name"].startswith("gemm") and "attention" not in launch["name"]
            and launch["bytes"] / launch["launches"] >= 16e6]
    return sum(launch["bytes"] for launch in rows) / max(sum(launch["ms"] for launch in rows) * 1e-3, 1e-12)


def markdown(result):
    where = result["device"] if "device" in result else f"{result['cpu']}, {result['threads']} threads"
    lines = [f"# {where}, {result['date']}" + (f", commit {result['commit']}" if result["commit"] else ""), ""]
    for case in result["cases"]:
        lines += [f"## {case['model']}, batch {case['batch']}, {result['dtype']}", "",
                  "| | residual | step ms | rounds ms | images/s | peak MB |", "|---|---|---|---|---|---|"]
        for c in case["contenders"]:
            lines.append(f"| {c['name']} | {c['residual']} | {c['step_ms']:.1f} | {c['fastest_round_ms']:.1f}–"
                         f"{c['slowest_round_ms']:.1f} | {c['images_per_s']:.0f} | {c['peak_mb']:.0f} |")
        for residual, floor in case["floors"].items():
            lines.append(f"| floor | {residual} | {floor['floor_ms']:.1f} | GEMM {floor['gemm']['ms']:.1f}, "
                         f"{floor['kernels']['mb']:.0f} MB {floor['kernels']['ms']:.1f} | "
                         f"{case['batch'] / floor['floor_ms'] * 1e3:.0f} | |")
        for residual, each in case["launches"].items():
            step = next(c for c in case["contenders"] if c["name"] == "rewire" and c["residual"] == residual)
            alone = case["launches_ms"][residual]
            lines += ["", f"What a step is made of, {residual}; each launch alone, its best time:", "",
                      "| | launches | ms | GB/s | GFLOP/s |", "|---|---|---|---|---|"]
            lines += [f"| {name} | {count} | {ms:.1f} | {size / ms / 1e6:.1f} | {flops / ms / 1e6:.1f} |"
                      for name, count, ms, size, flops in by_class(each)]
            lines += [f"| all launches | {sum(l['launches'] for l in each)} | {alone:.1f} | | |",
                      f"| the fastest round beyond them | | {step['fastest_round_ms'] - alone:.1f} | | |"]
            about = step["about"]
            if "cold_compile_s" in about:
                lines += ["", *(f"Start-up, {residual}, {state}: compiling {about[f'{state}_compile_s']:.2f} s, the process with "
                                f"two steps {about[f'{state}_process_s']:.2f} s." for state in ("cold", "warm"))]
        lines += ["", "| ratio (of step times, if not said otherwise) | |", "|---|---|"]
        lines += [f"| {name} | {value:.3f} |" for name, value in case["ratios"].items()]
        lines.append("")
    return "\n".join(lines)


def parse_case(text):
    match = re.fullmatch(r"(\w+):(\d+)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no MODEL:BATCH")
    return match[1], int(match[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rewire", type=pathlib.Path, default=BUILD / "rewire")
    parser.add_argument("--ceilings", type=pathlib.Path, default=BUILD / "rewire_bench_ceilings",
                        help="without this program the floors are left out")
    parser.add_argument("--python", default="", help="a Python that has torch; without it the peers are left out")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--mode", choices=MODES, action="append", help=f"of PyTorch; default: {' and '.join(DEFAULT_MODES)}")
    parser.add_argument("--residual", choices=RESIDUALS, action="append",
                        help=f"the joins; default: {' and '.join(DEFAULT_RESIDUALS)}")
    parser.add_argument("--case", type=parse_case, action="append", metavar="MODEL:BATCH",
                        help="default: vit_tiny_28:64 and vit_s_cifar:32")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10, help="a round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS",
                        help="on a GPU: begin no other model's or residual's comparison after so long")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results", help="a folder")
    options = parser.parse_args()
    options.residual = options.residual or DEFAULT_RESIDUALS

    options.deadline, options.left_out = time.monotonic() + options.budget, []
    options.busy = [busy_cores()]
    if options.device == "cpu" and options.busy[0] > 0.25:
        say(f"others keep {options.busy[0]:.1f} cores busy: no figure of this run is worth keeping")
    date = datetime.date.today().isoformat()
    result = {"date": date, "commit": commit(), "cpu": cpu_name(), "threads": options.threads, "rounds": options.rounds,
              "steps": options.steps, "dtype": options.dtype, "cases": []}
    if options.device == "cuda":
        result["device"] = device_name(options)
        result["ceilings"] = gpu_ceilings.measure()
    options.out.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(\w+\)", "", device_name(options)).lower()).strip("-")
    path = options.out / f"{date}-{slug}.json"
    for model, batch in options.case or [("vit_tiny_28", 64), ("vit_s_cifar", 32)]:
        result["cases"].append(run_case(options, model, batch))
        result["busy_cores"] = [round(cores, 2) for cores in options.busy]
        result["left_out"] = options.left_out
        path.write_text(json.dumps(result, indent=1) + "\n")  # each case as it is done: the next may not be
        path.with_suffix(".md").write_text(markdown(result))
    print(markdown(result))
    say(f"written to {path}")


if __name__ == "__main__":
    main()

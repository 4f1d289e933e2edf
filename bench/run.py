#!/usr/bin/env python3
"""Training steps of `rewire` beside PyTorch's, in interleaved rounds, and beside the machine's ceilings.

    bench/run.py [--python PYTHON_WITH_TORCH] [--case MODEL[@IMAGE|@KEY=NUMBER,…]:BATCH[+RESIDUAL…]]… [--residual NAME]… [--rounds N] [--steps N] [--threads N]
                 [--device cpu|cuda] [--dtype f32|bf16] [--budget SECONDS] [--resume]

Writes bench/results/DATE-DEVICE.json and the same as a table in .md, after each piece of work. What fails is in them with its
reason, and the rest goes on; --resume goes on where an earlier run on a GPU was ended. bench/README.md says how it is measured.
"""
import argparse
import concurrent.futures
import datetime
import functools
import json
import os
import pathlib
import re
import signal
import statistics
import sys
import tempfile
import time

import gpu_ceilings
from contenders import (BUILD, GRACE_S, HERE, LABEL_SMOOTHING, OWN_SETTINGS, OwnProcess, PREPARED_AT_ONCE, PyTorch, Rewire,
                        busy_cores, commit, cpu_name, device_name, for_lack_of_time, output_of, peer_shape, say)
from step_tables import between_launches, by_class, markdown, row_kernels

RESIDUALS = ("plain", "decay", "orthogonal", "augment", "skipless", "layerscale", "denseformer", "value_residual", "postnorm",
             "attnres", "hyper")
DEFAULT_RESIDUALS = ("plain", "orthogonal")
MODES = ("eager", "compile", "max-autotune")
DEFAULT_MODES = ("eager", "compile")


def summary(contender, batch):
    named = {"name": contender.name, "residual": contender.residual}
    if contender.failed:
        named["failed"] = contender.failed
    if not contender.rounds:
        return named
    rounds = contender.rounds
    step_ms = statistics.median(r["step_ms"] for r in rounds)
    fed = [r["fed_step_ms"] for r in rounds if "fed_step_ms" in r]
    return {**named, "step_ms": step_ms, **({"fed_step_ms": statistics.median(fed)} if fed else {}),
            "images_per_s": batch / step_ms * 1e3, "fastest_round_ms": min(r["step_ms"] for r in rounds),
            "slowest_round_ms": max(r["step_ms"] for r in rounds), "peak_mb": max(r["peak_mb"] for r in rounds),
            "about": contender.about, "rounds": rounds}


def ratio(rounds, others):
    """The median of the rounds' own ratios: what slows a whole round down cancels."""
    return statistics.median(a["step_ms"] / b["step_ms"] for a, b in zip(rounds, others))


def imported(options, source, image):
    """Brings a network of timm or torchvision in."""
    path = pathlib.Path(options.folder) / f"{source.replace(':', '_')}_{image}.rir"
    output_of([options.python, "-m", "rewire.export", source, "--input", f"3x{image}x{image}", "--output", str(path)], options,
              environment=dict(os.environ, PYTHONPATH=str(HERE.parent / "python"), REWIRE=str(options.rewire)))
    return path


class Case:
    def __init__(self, options, model, batch, residuals=()):
        """`model`: MODEL, MODEL@IMAGE for another size than its own, or MODEL@KEY=NUMBER,… for other options; or timm:NAME,
        torchvision:NAME, as PyTorch has it."""
        self.options, self.model, self.batch, self.residuals, self.contenders = options, model, batch, residuals, []
        model, _, image = model.partition("@")
        self.network, self.settings = model, [f"train.label_smoothing={LABEL_SMOOTHING}"]
        if ":" in model:
            size = int(image or 224)
            self.network = str(imported(options, model, size))
            self.shape = {"family": "public", "source": model, "image": size, "channels": 3, "classes": 1000}
            return
        zoo = json.loads(output_of([str(options.rewire), "models", "--json", "--quiet"], options))
        row = next((row for row in zoo if row["name"] == model), None)
        if row is None:
            sys.exit(f"bench: no model '{model}'; `rewire models` lists them")
        self.shape = peer_shape(row)
        changes = [pair.split("=") for pair in image.split(",")] if "=" in image else [("image", image)] if image else []
        self.settings = OWN_SETTINGS.get(row["family"], self.settings) + [f"model.{key}={number}" for key, number in changes]
        for key, number in changes:
            if key not in self.shape:
                sys.exit(f"bench: the peer of {model} has no option '{key}'; it has {', '.join(self.shape)}")
            self.shape[key] = int(number)

    def __str__(self):
        return f"{self.model}:{self.batch}"

    def own(self, residual):
        known = next((c for c in self.contenders if c.name == "rewire" and c.residual == residual), None)
        if known is None:
            known = Rewire(self.options, self.network, self.batch, residual, self.settings)
            self.contenders.append(known)
        return known

    def peer(self, residual, mode):
        self.contenders.append(PyTorch(self.options, self.shape, self.batch, residual, mode))
        return self.contenders[-1]

    def kept(self):
        return [c.kept() for c in self.contenders if c.rounds or c.failed]

    def restore(self, rows):
        """Contenders of an earlier run; one that time ran out for may try again."""
        for row in rows:
            known = self.own(row["residual"]) if row["name"] == "rewire" else self.peer(row["residual"], row["mode"])
            vars(known).update(row)
            if for_lack_of_time(known.failed):
                known.failed = ""

    def take_turns(self, own, peers):
        """Interleaved rounds. Who fails is out; peers are ended in any case."""
        options = self.options
        if options.device == "cuda":
            own[0].attempt(options.own_process.forget_others, own[0])
        try:
            for peer in peers:
                peer.attempt(peer.start)
            for index in range(options.rounds):
                say(f"  round {index + 1} of {options.rounds}{others_busy(options)}")
                measured = {c.residual: c.attempt(c.measure, options.steps) for c in own}
                for peer in peers:
                    step = peer.attempt(peer.measure, options.steps)
                    if step and measured.get(peer.residual):
                        peer.beside.append({"theirs": step, "ours": own_round(own, peer.residual)})
                if options.device == "cpu" and options.ceilings.exists():
                    for contender in own:
                        contender.attempt(contender.measure_floor, out=False)
            if options.device == "cuda":
                for peer in peers:
                    peer.attempt(peer.list_kernels, out=False)
        finally:
            for peer in peers:
                peer.close()

    def result(self):
        order = sorted((c for c in self.contenders if c.rounds or c.failed), key=lambda c: c.name != "rewire")
        result = {"model": self.model, "batch": self.batch, "shape": self.shape, "floors": {}, "launches_ms": {},
                  "contenders": [summary(c, self.batch) for c in order], "ratios": {}, "classes": {}, "launches": {}}
        ratios, measured = result["ratios"], [c for c in order if c.rounds]
        plain = {c.name: c for c in measured if c.residual == "plain"}
        for c in measured:
            if c.residual != "plain" and c.name in plain:
                ratios[f"{c.name} {c.residual} / plain"] = self.beside_plain(c.rounds, plain[c.name].rounds)
        for peer in measured:
            if peer.name != "rewire" and peer.beside:
                self.add_peer_ratios(ratios, peer)
        for own in measured:
            if own.name == "rewire":
                self.add_own(result, own)
        return result

    def beside_plain(self, rounds, plain):
        """On a GPU the two are of rounds apart."""
        if self.options.device == "cpu":
            return ratio(rounds, plain)
        return statistics.median(r["step_ms"] for r in rounds) / statistics.median(r["step_ms"] for r in plain)

    def add_peer_ratios(self, ratios, peer):
        theirs, ours = ([pair[side] for pair in peer.beside] for side in ("theirs", "ours"))
        ratios[f"{peer.name} / rewire, {peer.residual}"] = ratio(theirs, ours)
        peak, mine = (max(r["peak_mb"] for r in each) for each in (theirs, ours))
        ratios[f"peak memory: rewire / {peer.name}, {peer.residual}"] = mine / peak
        if self.options.device == "cpu":
            beyond = peak - peer.about["imported_mb"]
            ratios[f"peak memory: rewire / {peer.name} beyond `import torch`, {peer.residual}"] = mine / beyond

    def add_own(self, result, own):
        ratios, residual = result["ratios"], own.residual
        alone = sum(launch["ms"] for launch in own.launches or ())
        if own.floors:
            # What the machine can do at its best; a round's own median stands in the round's ratio.
            best = min(own.floors, key=lambda floor: floor["floor_ms"])
            result["floors"][residual] = best
            step = statistics.median(r["step_ms"] for r in own.rounds)
            ratios[f"rewire / floor, {residual}"] = step / best["floor_ms"]
            ratios[f"rewire / floor, medians of one round, {residual}"] = statistics.median(
                r["step_ms"] / r["floor_median_ms"] for r in own.rounds if "floor_median_ms" in r)
            if "floor_from_peak_ms" in best and self.options.dtype == "f32":
                ratios[f"rewire / floor from the multiply-adds' peak, {residual}"] = step / best["floor_from_peak_ms"]
            if own.launches:
                ratios[f"every launch alone, its best / floor, {residual}"] = alone / best["floor_ms"]
        if not own.launches:
            return
        result["launches"][residual], result["launches_ms"][residual] = own.launches, alone
        result["classes"][residual] = by_class(own.launches)
        if own.profiled_step_ms:
            least, most = between_launches(own.launches, own.profiled_step_ms)
            ratios[f"between launches, share of the step, at least, {residual}"] = least
            ratios[f"between launches, share of the step, at most, {residual}"] = most
        if self.options.device == "cuda" and self.options.gpu:
            ratios[f"row kernels / copy bandwidth, {residual}"] = row_kernels(own.launches) / self.options.gpu.copy_bandwidth()


def own_round(own, residual):
    return next(c.rounds[-1] for c in own if c.residual == residual)


def others_busy(options):
    """On a CPU; a GPU is nobody else's, and its time is short."""
    if options.device == "cuda":
        return ""
    options.busy.append(busy_cores())
    return f", others keep {options.busy[-1]:.1f} cores busy"


def on_cpu(options, case):
    """All contenders of a case take turns."""
    own = [case.own(residual) for residual in case.residuals]
    modes = (options.mode or DEFAULT_MODES) if options.python else ()
    case.take_turns(own, [case.peer(residual, mode) for mode in modes for residual in case.residuals])
    for contender in own:
        contender.attempt(contender.profile, options.steps, out=False)
        contender.close()
        contender.attempt(contender.start_up, out=False)


def joins_of(cases):
    """Each case with its first joins, then with the others."""
    return [(case, case.residuals[0]) for case in cases], [(case, residual) for case in cases for residual in case.residuals[1:]]


def gpu_work(options, cases):
    """The pieces of work on a GPU, each what it is and a function, the most wanted first: each case's first joins beside compiled
    PyTorch, then with our launches and floors; the other joins in the same way; start-up; the other modes. No two peers are on the
    card at a time."""
    def own_steps(own):
        own.attempt(own.measure_with_launches, options.steps)
        if own.launches:
            own.attempt(own.measure_floor, out=False)

    def beside(case, residual, mode):
        """Whether time did not suffice for the peer."""
        peer = case.peer(residual, mode)
        case.take_turns([case.own(residual)], [peer])
        return for_lack_of_time(peer.failed)

    def start_up(own):
        own.attempt(own.start_up, out=False)

    modes = sorted((options.mode or DEFAULT_MODES) if options.python else (), key=("compile", "eager", "max-autotune").index)
    first, others = joins_of(cases)

    def own(joins):
        return [(f"{case} {residual}", functools.partial(own_steps, case.own(residual))) for case, residual in joins]

    def peers(joins, modes):
        return [(f"{case} {residual} beside pytorch {mode}", functools.partial(beside, case, residual, mode))
                for mode in modes for case, residual in joins]

    return [*peers(first, modes[:1]), *own(first), *peers(others, modes[:1]), *own(others),
            (f"start-up of {cases[0]} {first[0][1]}", functools.partial(start_up, cases[0].own(first[0][1]))),
            *peers(first + others, modes[1:])]


def compile_peers(options, cases, unfinished):
    """Into PyTorch's cache, several at a time, until the budget is spent: then the file is there. Returns the exit code."""
    def prepare(case, residual):
        peer = PyTorch(options, case.shape, case.batch, residual, "compile")
        start = time.monotonic()
        peer.attempt(peer.prepare)
        if not peer.failed:
            say(f"{case} {residual}: compiled in {time.monotonic() - start:.0f} s")
        return peer.failed

    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))  # the peers end with it
    unfinished.touch()
    first, others = joins_of(cases)
    with concurrent.futures.ThreadPoolExecutor(PREPARED_AT_ONCE) as pool:
        failed = [reason for reason in pool.map(lambda join: prepare(*join), first + others) if reason]
    if not any(map(for_lack_of_time, failed)):
        unfinished.unlink()
    return 0 if all(map(for_lack_of_time, failed)) else 1


def on_gpu(options, cases, write):
    """Until the budget is spent."""
    for what, work in gpu_work(options, cases):
        if what in options.done:
            continue
        if time.monotonic() > options.deadline:
            say(f"left out for lack of time: {what}")
            options.left_out.append(what)
            continue
        say(what)
        start = time.monotonic()
        unready = work()
        say(f"  {time.monotonic() - start:.1f} s")
        if unready:
            options.left_out.append(what)
        elif time.monotonic() < options.end:
            options.done.append(what)
        write()
    write()


def find_ceilings(options):
    """PyTorch's, else ours; None, with the reason, where neither can be measured."""
    try:
        return gpu_ceilings.MeasuredByPyTorch()
    except (ImportError, RuntimeError) as error:
        say(f"ceilings by rewire itself: {error}")
    command = [str(options.rewire), "bench", "vit_tiny_28", "--set", "model.depth=1", "--set", f"train.dtype={options.dtype}",
               "--batch", "2", "--steps", "1", "--device", "cuda", "--no-autotune", "--kernels", "--json", "--log-level", "warning"]
    try:
        return gpu_ceilings.ReportedByRewire(json.loads(output_of(command, options))["ceilings"])
    except RuntimeError as error:
        say(f"no ceilings, and so no floors: {error}")
        return None


def replace(path, text):
    """Whoever is ended here leaves the file as it was."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.replace(path)


def parse_case(text):
    match = re.fullmatch(r"((?:(?:timm|torchvision):)?[\w.]+(?:@[\w=,]+)?):(\d+)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no MODEL[@IMAGE|@KEY=NUMBER,…]:BATCH")
    return match[1], int(match[2])


def parse_joined_case(text):
    case, *residuals = text.split("+")
    if unknown := [residual for residual in residuals if residual not in RESIDUALS]:
        raise argparse.ArgumentTypeError(f"no join '{unknown[0]}'; there are {', '.join(RESIDUALS)}")
    return *parse_case(case), residuals


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
    parser.add_argument("--case", type=parse_joined_case, action="append", metavar="MODEL[@IMAGE|@KEY=NUMBER,…]:BATCH[+RESIDUAL…]",
                        help="MODEL: also timm:NAME or torchvision:NAME, which need --python; IMAGE: pixels, if not the model's own; KEY: an option of the model; "
                             "RESIDUAL: in place of --residual; default: vit_tiny_28:64 and vit_s_cifar:32")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10, help="a round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS",
                        help=f"on a GPU: begin nothing new after so long, and end what still runs {GRACE_S} s later")
    parser.add_argument("--resume", action="store_true",
                        help="on a GPU: go on where an earlier run into the same folder was ended, if one was")
    parser.add_argument("--compile-peers", action="store_true",
                        help="on a GPU: nothing but compile the peers' steps into PyTorch's cache, several at a time; what time did not "
                             "suffice for leaves a file `uncompiled` in --out")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="of rewire's recipe, for trying this program out: no peer follows")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results", help="a folder")
    options = parser.parse_args()
    if options.set and options.python:
        parser.error("--set changes rewire's network alone: without --python")
    if options.compile_peers and (options.device != "cuda" or not options.python):
        parser.error("--compile-peers: of peers on a GPU, with --device cuda and --python")
    options.residual = options.residual or DEFAULT_RESIDUALS
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that contenders are ended

    options.deadline, options.end = time.monotonic() + options.budget, float("inf")
    options.left_out, options.done = [], []

    def make_cases():
        joins = {}  # of a case that is named twice, all
        for model, batch, residuals in options.case or [("vit_tiny_28", 64, ()), ("vit_s_cifar", 32, ())]:
            joins.setdefault((model, batch), {}).update(dict.fromkeys(residuals or options.residual))
        return [Case(options, model, batch, tuple(residuals)) for (model, batch), residuals in joins.items()]

    date = datetime.date.today().isoformat()
    result = {"date": date, "commit": commit(), "cpu": cpu_name(), "threads": options.threads, "rounds": options.rounds,
              "steps": options.steps, "dtype": options.dtype, "cases": []}
    folder = tempfile.TemporaryDirectory(prefix="rewire_bench_")  # for networks that are brought in
    options.folder = folder.name
    if options.compile_peers:
        options.end = options.deadline
        options.out.mkdir(parents=True, exist_ok=True)
        sys.exit(compile_peers(options, make_cases(), options.out / "uncompiled"))
    if options.device == "cuda":
        options.end, options.busy, options.own_process = options.deadline + GRACE_S, [], OwnProcess(options)
        result["device"], options.gpu = device_name(options), find_ceilings(options)
        result["ceilings"] = options.gpu.facts() if options.gpu else {}
    else:
        options.busy = [busy_cores()]
        if options.busy[0] > 0.25:
            say(f"others keep {options.busy[0]:.1f} cores busy: no figure of this run is worth keeping")
    options.out.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\(\w+\)", "", device_name(options)).lower()).strip("-")
    path = options.out / f"{date}-{slug}.json"
    cases = make_cases()

    unfinished = options.out / "unfinished"  # what --resume goes on from
    if options.device == "cuda" and options.resume and unfinished.is_file():
        before = json.loads(unfinished.read_text())
        options.done = before["done"]
        for case in cases:
            case.restore(before["cases"].get(str(case), []))
        say(f"going on behind {', '.join(options.done) or 'nothing'}")

    def write():
        result["cases"] = [case.result() for case in cases if any(c.rounds or c.failed for c in case.contenders)]
        result["busy_cores"] = [round(cores, 2) for cores in options.busy]
        result["left_out"] = options.left_out
        replace(path, json.dumps(result, indent=1) + "\n")
        replace(path.with_suffix(".md"), markdown(result))
        if options.device == "cuda":
            replace(unfinished, json.dumps({"done": options.done, "cases": {str(case): case.kept() for case in cases}}))

    if options.device == "cuda":
        try:
            on_gpu(options, cases, write)
        finally:
            options.own_process.close()
        if not options.left_out and time.monotonic() < options.end:
            unfinished.unlink()
    else:
        for case in cases:
            say(f"{case.model}, batch {case.batch}")
            on_cpu(options, case)
            write()  # each case as it is done: the next may not be
    print(markdown(result))
    say(f"written to {path}")


if __name__ == "__main__":
    main()

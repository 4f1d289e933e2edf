#!/usr/bin/env python3
"""Training steps of `rewire` beside PyTorch's, in interleaved rounds, and beside the machine's ceilings.

    bench/run.py [--python PYTHON_WITH_TORCH] [--case MODEL[@IMAGE]:BATCH[+RESIDUAL…]]… [--residual NAME]… [--rounds N] [--steps N] [--threads N]
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
import queue
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import gpu_ceilings

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent / "build" / "release" / "bin"
RESIDUALS = ("plain", "decay", "orthogonal", "augment", "skipless", "layerscale", "denseformer", "value_residual", "postnorm",
             "attnres", "hyper")
DEFAULT_RESIDUALS = ("plain", "orthogonal")
MODES = ("eager", "compile", "max-autotune")
DEFAULT_MODES = ("eager", "compile")
# What every contender trains with.
LABEL_SMOOTHING, CLIP_NORM, WEIGHT_DECAY = 0.1, 1.0, 0.05
# On a GPU: the share of the time left that a peer may take to compile and warm up; how many compile at a time with
# --compile-peers, for the card's memory; how long after the budget what still runs is ended.
WARM_UP_SHARE, PREPARED_AT_ONCE, GRACE_S = 0.6, 4, 30
TIME_IS_UP, NOT_READY = "it was not done when time was up", "it was not ready after"


def for_lack_of_time(failed):
    """Then another run may try it again."""
    return failed.startswith((TIME_IS_UP, NOT_READY))


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


# Families with a loss of their own: what their peers are built of, and the views of a step.
OWN_LOSS = {"mae": ("image", "channels", "patch", "dim", "depth", "heads", "decoder_dim", "decoder_depth", "decoder_heads"),
            "dino": ("image", "channels", "patch", "dim", "depth", "heads", "hidden_dim", "bottleneck_dim", "out_dim")}
OWN_CROPS = {"dino": {"local_crops": 4, "local_size": 16}}
OWN_SETTINGS = {"mae": [], "dino": ["train.ema=0.99", "objective.freeze_last_layer=0",
                                    *(f"objective.{key}={value}" for key, value in OWN_CROPS["dino"].items())]}


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
    """Of the tree that was measured, with a + where it has other changes; as a bundle says it; "" outside of both."""
    packed = HERE.parent / "commit"
    if packed.is_file():
        return packed.read_text().strip()

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
    try:
        listed = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], check=True,
                                stdout=subprocess.PIPE, text=True).stdout
        return listed.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        devices = json.loads(output_of([str(options.rewire), "doctor", "--json", "--quiet"], options))["cuda"]["devices"]
        return devices[0] if devices else "no GPU"


def seconds_left(options):
    """Until whatever still runs is ended; None: it may take its time."""
    return None if options.end == float("inf") else max(options.end - time.monotonic(), 1)


def leashed(command):
    """Also where this program is killed it ends: what it left would compute beside whoever measures next."""
    return ["setpriv", "--pdeathsig", "KILL", *command] if shutil.which("setpriv") else command


def end(process):
    """A contender with all processes of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def last_words(errors):
    errors.seek(0)
    lines = [line for line in errors.read().splitlines() if line.strip()]
    for line in lines[-20:]:
        print(line, file=sys.stderr)
    return lines[-1].strip() if lines else ""


def output_of(command, options, given=None, environment=None):
    """What a program prints; where it fails or is not done in time, a RuntimeError with its last words."""
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(leashed(command), stdin=subprocess.PIPE if given is not None else subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, process_group=0)
        try:
            printed, _ = process.communicate(given, timeout=seconds_left(options))
        except subprocess.TimeoutExpired:
            raise RuntimeError(TIME_IS_UP) from None
        finally:
            end(process)
        said = last_words(errors)
        if process.returncode:
            raise RuntimeError(said or f"`{command[1]}` ended with status {process.returncode}")
        return printed


class Piped:
    """A program that answers each line with a line of JSON."""

    def __init__(self, options, command, environment=None):
        self.options, self.lines = options, queue.Queue()
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(leashed(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=environment, process_group=0)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        with self.process.stdout as lines:
            for line in lines:
                if line.startswith("{"):
                    self.lines.put(line)
        self.lines.put("")

    def answer(self, share=1.0):
        """Waits for it as long as there is time, or a share of that."""
        left = seconds_left(self.options)
        most = None if left is None else share * left
        try:
            line = self.lines.get(timeout=most)
        except queue.Empty:
            raise RuntimeError(TIME_IS_UP if share == 1 else f"{NOT_READY} {most:.0f} s") from None
        if not line:
            status = self.process.wait()
            raise RuntimeError(last_words(self.errors) or f"it ended with status {status}")
        return json.loads(line)

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        """It has nothing to save."""
        end(self.process)
        try:
            self.process.stdin.close()
        except OSError:  # it never read the last line
            pass
        self.errors.close()


class Contender:
    def __init__(self, options, name, residual):
        self.options, self.name, self.residual = options, name, residual
        self.about, self.rounds, self.failed = {}, [], ""

    # What is written down of one that another run goes on with.
    KEPT = ("name", "residual", "about", "rounds", "failed")

    def kept(self):
        return {key: getattr(self, key) for key in self.KEPT}

    def start(self):
        pass

    def close(self):
        pass

    def attempt(self, work, *arguments, out=True):
        """What `work` returns, None where it fails: then the contender has a reason, and is `out`."""
        if self.failed:
            return None
        try:
            return work(*arguments)
        except (KeyError, OSError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            say(f"  {self.name}, {self.residual}, {work.__name__}: failed: {reason}")
            if out:
                self.failed = reason
                self.close()
            else:
                self.about[f"{work.__name__}_failed"] = reason
            return None


class OwnProcess:
    """`rewire bench --pipe`, started when it is first asked. What it compiled for one contender it forgets for the next."""

    def __init__(self, options):
        self.options, self.piped, self.holds = options, None, None

    def forget_others(self, contender):
        """A peer wants the device's memory as well."""
        if self.piped is not None and self.holds not in (None, contender):
            self.piped.ask("[]")
            self.holds = None

    def ask(self, contender, words):
        try:
            self.forget_others(contender)
            self.holds = contender
            if self.piped is None:
                self.piped = Piped(self.options, [str(self.options.rewire), "bench", "--pipe", "--log-level", "warning"])
            answer = self.piped.ask(json.dumps(words))
            if "error" in answer:
                raise RuntimeError(answer["error"])
            return answer
        except (OSError, RuntimeError, ValueError):
            self.close()  # after a fault of the device nothing works in the process
            raise

    def close(self):
        if self.piped is not None:
            self.piped.close()
            self.piped = self.holds = None


class Rewire(Contender):
    """`rewire bench`: on a GPU one process for all of these, which has its libraries open; on a CPU one each, so that it has a
    peak of memory of its own."""
    KEPT = (*Contender.KEPT, "floors", "launches", "profiled_step_ms")

    def __init__(self, options, model, batch, residual, settings=()):
        super().__init__(options, "rewire", residual)
        self.dump, self.floors, self.launches, self.profiled_step_ms = None, [], None, None
        self.process = getattr(options, "own_process", None) or OwnProcess(options)
        self.network = [model, "--plugin", "none" if residual == "plain" else residual,
                        "--set", f"train.batch={batch}", "--set", f"train.clip_norm={CLIP_NORM}", "--set", f"optimizer.weight_decay={WEIGHT_DECAY}",
                        "--set", f"train.dtype={options.dtype}", *(word for text in (*settings, *options.set) for word in ("--set", text))]

    def words(self, steps, *rest):
        where = ["--threads", str(self.options.threads)] if self.options.device == "cpu" else ["--device", "cuda"]
        return [*self.network, *where, "--steps", str(steps), *rest]

    def bench(self, steps, *rest):
        return self.process.ask(self, self.words(steps, *rest))

    def close(self):
        if self.process is not getattr(self.options, "own_process", None):
            self.process.close()

    def start_up(self):
        """Without timing any choice: what compiling takes with no cache and with all of it, and the process with two steps."""
        with tempfile.TemporaryDirectory() as cache:
            for state in ("cold", "warm"):
                start = time.perf_counter()
                command = [str(self.options.rewire), "bench", *self.words(1, "--no-autotune", "--json", "--log-level", "warning")]
                result = json.loads(output_of(command, self.options, environment=dict(os.environ, XDG_CACHE_HOME=cache)))
                self.about[f"{state}_process_s"] = time.perf_counter() - start
                self.about[f"{state}_compile_s"] = result["compile_s"]

    def measure(self, steps, *rest):
        """On a GPU steps whose inputs stay there, as the peer's do, and beside them those that a host feeds."""
        if self.options.device == "cpu":
            result = self.bench(steps, *rest)
            self.rounds.append({"step_ms": result["step_ms"], "peak_mb": result["peak_mb"]})
        else:
            result = self.bench(steps, "--resident", *rest)
            self.rounds.append({"step_ms": result["resident_step_ms"], "fed_step_ms": result["step_ms"],
                                "peak_mb": result["device_mb"]})
        return result

    def measure_floor(self):
        """The ceilings as they are now, for this network's own step."""
        if self.options.device == "cuda":
            if not self.options.gpu:
                return
            floor = gpu_ceilings.floor(self.options.gpu, self.launches)
        else:
            if self.dump is None:
                self.dump = output_of([str(self.options.rewire), "dump", *self.network, "--stage", "step", "--log-level", "warning"],
                                      self.options)
            command = [str(self.options.ceilings), str(self.options.threads)]
            floor = json.loads(output_of(command, self.options, given=self.dump))
        self.floors.append(floor)
        self.rounds[-1]["floor_median_ms"] = floor["floor_median_ms"]

    def profile(self, steps):
        """Every launch alone, its best time of `steps` runs."""
        self.launches = self.bench(steps, "--profile")["profile"]

    def measure_with_launches(self, steps):
        """A round and a profile in one process, whose figures can be compared."""
        result = self.measure(steps, "--profile")
        self.launches, self.profiled_step_ms = result["profile"], self.rounds[-1]["step_ms"]


class PyTorch(Contender):
    """bench/pytorch_step.py, one process for all rounds: it compiles once."""
    KEPT = (*Contender.KEPT, "mode", "beside")

    def __init__(self, options, shape, batch, residual, mode):
        super().__init__(options, f"pytorch {mode}", residual)
        self.beside = []  # what rewire measured in the same rounds
        self.mode, self.piped = mode, None
        self.command = [options.python, str(HERE / "pytorch_step.py"), "--model", json.dumps(shape), "--batch", str(batch),
                        "--residual", residual, "--mode", mode, "--threads", str(options.threads),
                        "--device", options.device, "--dtype", options.dtype,
                        "--label-smoothing", str(LABEL_SMOOTHING), "--clip-norm", str(CLIP_NORM),
                        "--weight-decay", str(WEIGHT_DECAY)]

    def start(self):
        say(f"  warming up {self.name}, {self.residual}")
        self.piped = Piped(self.options, self.command, dict(os.environ, OMP_NUM_THREADS=str(self.options.threads)))
        self.about = self.piped.answer(WARM_UP_SHARE)

    def prepare(self):
        """Compiles into PyTorch's cache; others do so at the same time, so what it times there is forgotten."""
        threads = max(1, (os.cpu_count() or 1) // PREPARED_AT_ONCE)
        output_of([*self.command, "--prepare"], self.options, environment=dict(
            os.environ, OMP_NUM_THREADS=str(self.options.threads), TORCHINDUCTOR_COMPILE_THREADS=str(threads)))

    def measure(self, steps):
        self.rounds.append(self.piped.ask(steps))
        return self.rounds[-1]

    def list_kernels(self):
        """What its step launched; the last question, since a process that was profiled may be slower."""
        self.about |= self.piped.ask("kernels")

    def close(self):
        if self.piped is not None:
            self.piped.close()
            self.piped = None


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


def peer_shape(row):
    """What bench/pytorch_step.py builds the same network of."""
    if row["family"] in OWN_LOSS:
        return {"family": row["family"], **{key: row[key] for key in OWN_LOSS[row["family"]]}, **OWN_CROPS.get(row["family"], {})}
    image = {key: row[key] for key in ("image", "channels", "classes")}
    if row["family"] == "vit":
        return {**image, **{key: row[key] for key in ("patch", "dim", "depth", "heads")}}
    if row["family"] != "resnetv2":
        sys.exit(f"bench: the peer has no network of the family '{row['family']}'; it has vit, resnetv2, mae and dino")
    return {"family": "resnetv2", **image, "width": row["width"], "depths": [int(depth) for depth in row["depths"]],
            "bottleneck": row["block"] == "bottleneck"}


class Case:
    def __init__(self, options, model, batch, residuals=()):
        """`model`: MODEL, or MODEL@IMAGE for another size than its own."""
        self.options, self.model, self.batch, self.residuals, self.contenders = options, model, batch, residuals, []
        model, _, image = model.partition("@")
        zoo = json.loads(output_of([str(options.rewire), "models", "--json", "--quiet"], options))
        row = next((row for row in zoo if row["name"] == model), None)
        if row is None:
            sys.exit(f"bench: no model '{model}'; `rewire models` lists them")
        self.shape = peer_shape(row)
        self.settings = [f"model.image={image}"] if image else []
        self.settings += OWN_SETTINGS.get(row["family"], [f"train.label_smoothing={LABEL_SMOOTHING}"])
        if image:
            self.shape["image"] = int(image)

    def __str__(self):
        return f"{self.model}:{self.batch}"

    def own(self, residual):
        known = next((c for c in self.contenders if c.name == "rewire" and c.residual == residual), None)
        if known is None:
            known = Rewire(self.options, self.model.partition("@")[0], self.batch, residual, self.settings)
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


def launch_class(name):
    if name.startswith("gemm"):
        return "matrix products"
    if re.match(r"(conv2d(_input_grad|_weight_grad)?|convolution) ", name):  # oneDNN's with the packing of weights, or cuDNN's
        return "convolutions"
    if re.search(r"(^|_)attention[ _]", name):  # cuDNN's, or kernels of ours
        return "attention"
    return "optimizer, gradient norm" if name.startswith("optimizer") else "rows, columns, maps"


def by_class(launches):
    """What a step is made of: [class, launches, ms, bytes, flops], the longest first."""
    rows = {}
    for launch in launches:
        row = rows.setdefault(launch_class(launch["name"]), [0, 0.0, 0, 0])
        for index, key in enumerate(("launches", "ms", "bytes", "flops")):
            row[index] += launch[key]
    return sorted(([name, *row] for name, row in rows.items()), key=lambda row: -row[2])


def between_launches(launches, step_ms):
    """The share of a step in which none runs, at least and at most. A launch is timed from the event before it to the one behind
    it, which is longer than it runs: by the gap to its neighbour, and where it is short by what the host takes to launch it. That
    is no more than the shortest of all takes."""
    alone, count = sum(launch["ms"] for launch in launches), sum(launch["launches"] for launch in launches)
    shortest = min(launch["ms"] / launch["launches"] for launch in launches)
    return max(0.0, 1 - alone / step_ms), max(0.0, 1 - (alone - count * shortest) / step_ms)


def row_kernels(launches):
    """Bytes a second of all kernels together that compute no products and move 16 MB and more at a time."""
    rows = [launch for launch in launches if not launch["name"].startswith("gemm") and "attention" not in launch["name"]
            and launch["bytes"] / launch["launches"] >= 16e6]
    return sum(launch["bytes"] for launch in rows) / max(sum(launch["ms"] for launch in rows) * 1e-3, 1e-12)


def markdown(result):
    where = result["device"] if "device" in result else f"{result['cpu']}, {result['threads']} threads"
    lines = [f"# {where}, {result['date']}" + (f", commit {result['commit']}" if result["commit"] else ""), ""]
    for case in result["cases"]:
        fed = any("fed_step_ms" in c for c in case["contenders"])
        lines += [f"## {case['model']}, batch {case['batch']}, {result['dtype']}", "",
                  "| | residual | step ms | rounds ms | images/s | peak MB |" + (" fed by the host, ms |" if fed else ""),
                  "|---|---|---|---|---|---|" + ("---|" if fed else "")]
        for c in case["contenders"]:
            if "failed" in c:
                lines.append(f"| {c['name']} | {c['residual']} | failed: {c['failed'].replace('|', '/')} | | | |")
            if "step_ms" not in c:
                continue
            lines.append(f"| {c['name']} | {c['residual']} | {c['step_ms']:.1f} | {c['fastest_round_ms']:.1f}–"
                         f"{c['slowest_round_ms']:.1f} | {c['images_per_s']:.0f} | {c['peak_mb']:.0f} |"
                         + (f" {c['fed_step_ms']:.1f} |" if "fed_step_ms" in c else ""))
        for residual, floor in case["floors"].items():
            lines.append(f"| floor | {residual} | {floor['floor_ms']:.1f} | GEMM {floor['gemm']['ms']:.1f}, "
                         f"{floor['kernels']['mb']:.0f} MB {floor['kernels']['ms']:.1f} | "
                         f"{case['batch'] / floor['floor_ms'] * 1e3:.0f} | |")
            if "peak_gflops" in floor and result["dtype"] == "f32":
                lines.append(f"| floor from the peak | {residual} | {floor['floor_from_peak_ms']:.1f} | products at 95 % of "
                             f"{floor['peak_gflops']:.1f} GFLOP/s | {case['batch'] / floor['floor_from_peak_ms'] * 1e3:.0f} | |")
        for residual, each in case["launches"].items():
            step = next(c for c in case["contenders"] if c["name"] == "rewire" and c["residual"] == residual)
            alone = case["launches_ms"][residual]
            lines += ["", f"What a step is made of, {residual}; each launch alone, its best time:", "",
                      "| | launches | ms | GB/s | GFLOP/s |", "|---|---|---|---|---|"]
            lines += [f"| {name} | {count} | {ms:.1f} | {size / ms / 1e6:.1f} | {flops / ms / 1e6:.1f} |"
                      for name, count, ms, size, flops in by_class(each)]
            lines.append(f"| all launches | {sum(l['launches'] for l in each)} | {alone:.1f} | | |")
            if "device" not in result:  # a GPU's, timed alone, have something of the gaps in them
                lines.append(f"| the fastest round beyond them | | {step['fastest_round_ms'] - alone:.1f} | | |")
            about = step["about"]
            lines += [f"\n{key.removesuffix('_failed')}, {residual}: failed: {reason}"
                      for key, reason in about.items() if key.endswith("_failed")]
            if "cold_compile_s" in about:
                lines += ["", *(f"Start-up, {residual}, {state}: compiling {about[f'{state}_compile_s']:.2f} s, the process with "
                                f"two steps {about[f'{state}_process_s']:.2f} s." for state in ("cold", "warm"))]
        lines += ["", "| ratio (of step times, if not said otherwise) | |", "|---|---|"]
        lines += [f"| {name} | {value:.3f} |" for name, value in case["ratios"].items()]
        lines.append("")
    return "\n".join(lines)


def replace(path, text):
    """Whoever is ended here leaves the file as it was."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.replace(path)


def parse_case(text):
    match = re.fullmatch(r"(\w+(?:@\d+)?):(\d+)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no MODEL[@IMAGE]:BATCH")
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
    parser.add_argument("--case", type=parse_joined_case, action="append", metavar="MODEL[@IMAGE]:BATCH[+RESIDUAL…]",
                        help="IMAGE: pixels, if not the model's own; RESIDUAL: in place of --residual; default: vit_tiny_28:64 and "
                             "vit_s_cifar:32")
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

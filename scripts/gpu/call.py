#!/usr/bin/env python3
"""One of the two calls of README.md beside this file, from the unpacked bundle of scripts/gpu/pack.sh.

    call.py NUMBER [--out FOLDER] [--from results.tar.gz] [--limit SECONDS]

Writes results.tar.gz, results.json and summary.txt into FOLDER (default: results) after each step, so that a call that is
killed leaves what it has; call 2 also what PyTorch compiled, peers.tar.gz. A later call takes up the results that it finds there,
else those of --from: steps that were done are not done again, and kernels and choices come from the cache. Exit 1 if a step failed,
2 if nothing can run, 3 if something was left out.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "bench"))
import step_tables  # noqa: E402

MOST_BYTES = 15 << 20  # of results.tar.gz; what caches have beyond it stays behind
PACKING_S = 8          # the limit's share for what is written after each step and at the end
LEAST_S = 5            # with less time left no step begins
STRATEGIES = ("decay", "orthogonal", "augment", "skipless", "layerscale", "denseformer", "value_residual", "postnorm", "attnres", "hyper",
              "laurel", "x0_lambdas")
SMALL = ["vit_tiny_28", "--set", "model.dim=48", "--set", "model.depth=2"]
SMALL_CONVOLUTIONS = ["resnetv2_18", "--set", "model.width=8", "--set", "model.depths=[1,1]", "--set", "model.image=12"]
OBJECTIVES = [[name, "--set", "model.dim=48", "--set", "model.depth=1"] for name in ("mae_vit_tiny_28", "sit_tiny_28")]
# Steps whose launches are timed: MODEL[@IMAGE]:BATCH[+PLUGIN], then settings. The baseline is also timed as the cost model has it.
BASELINE = "vit_s"
NETWORKS = {"vit_s": ["vit_s16_224:256", "train.dtype=bf16"], "vit_b": ["vit_b16_224:256", "train.dtype=bf16"],
            "mae": ["mae_vit_b16:256", "train.dtype=bf16"], "sit": ["sit_b_2:64", "train.dtype=bf16"],
            "resnet": ["resnetv2_50@224:128"], "resnet_tf32": ["resnetv2_50@224:128", "train.tf32=true"],
            "hyper": ["vit_s16_224:256+hyper", "train.dtype=bf16"], "attnres": ["vit_s16_224:256+attnres", "train.dtype=bf16"]}
PEERS = ("resnetv2_50@224:128+plain", "mae_vit_b16:256+plain", "vit_s16_224:256+plain", "vit_b16_224:256+plain")
COUNTED = 5  # kernels of the baseline whose counters are read
SECTIONS = ("SpeedOfLight", "LaunchStats", "Occupancy", "WarpStateStats", "MemoryWorkloadAnalysis", "InstructionStats")
COUNTERS = "counters.csv"
COMPILE_PEERS, PEERS_CACHE = "compile_peers", "peers"  # what PyTorch compiled is a file of its own
ATTENTION_PEERS = "attention.json"
PASSING = "passing"  # a cache that is not carried
LIMITS = {1: 470, 2: 235}
TITLES = {1: "is it right, and where does each network's step go",
          2: "how fast is it, beside PyTorch and the card's ceilings"}
ENDED = "time is up"


def say(text):
    print(f"call: {text}", flush=True)


def last_line(path):
    """The last line, but for the one that asks for a report of a bug."""
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()] if path.exists() else []
    while len(lines) > 1 and lines[-1].startswith("rewire: this is a bug in Rewire"):
        lines.pop()
    return lines[-1].strip()[:200] if lines else ""


def variants_of(work):
    """What was measured of each variant of the baseline."""
    path = work / "1_variants.json"
    return json.loads(path.read_text())["variants"] if path.exists() else []


class Step:
    """Commands with a limit of seconds for all of them together; each has a key, "" if it is the only one, and is words or a
    function that returns them once the steps before are done. `why_not`: it cannot run here. `prints_json`: what a command prints on
    stdout is a result, NAME.json. `unfinished`: a file that is there while the work is not all done, though its command ended well.
    `timed`: one command at a time, whose kernels and choices are carried; a later call has no use for the thousands of small kernels
    of the others. `found`: returns what its files say, and whether that is nothing."""

    def __init__(self, name, seconds, commands, why_not="", prints_json=False, unfinished="", timed=False, found=None):
        self.name, self.seconds, self.commands, self.why_not = name, seconds, commands, why_not
        self.prints_json, self.unfinished, self.timed, self.found = prints_json, unfinished, timed, found


class Plan:
    """The steps of a call, in their order: what takes least for what it finds comes first."""

    def __init__(self, options, work, missing):
        self.options, self.work, self.missing = options, work, missing
        self.rewire, self.device_check = str(HERE / "bin" / "rewire"), str(HERE / "bin" / "device_check")
        self.strategies = options.strategy or STRATEGIES
        self.settings = [word for text in options.set for word in ("--set", text)]
        self.small = SMALL + self.settings

    def steps(self):
        return self.right() if self.options.number == 1 else self.fast()

    def script(self, name, *words):
        return [sys.executable, str(HERE / "bench" / name), *words]

    def verify(self, name, seconds, networks, why_not=""):
        return Step(name, seconds, [(key, [self.rewire, "verify", *words, "--device", "cuda"]) for key, *words in networks], why_not)

    def steps_on(self, strategy, *words):
        return self.script("device_steps.py", "--rewire", self.rewire, "--residual", strategy, *self.settings, *words)

    def seeds(self, kind, seconds, count, why_not=""):
        """So many seeds of device_check, shared by the processes."""
        each = max(1, -(-count // self.options.jobs))
        shards = range(1, count + 1, each)
        return Step(kind, seconds, [(str(first), [self.device_check, kind, str(first), str(min(each, count + 1 - first))])
                                    for first in shards], why_not or ("" if count else "0 seeds"))

    def goldens(self):
        folder, jobs = HERE / "references" / "goldens", self.options.jobs
        count = len(list(folder.glob("*.safetensors")))
        return Step("goldens", 90, [(str(first), [str(HERE / "bin" / "device_goldens"), str(folder), str(first), str(jobs)])
                                    for first in range(min(jobs, count))], "" if count else f"there is no {folder}")

    def bench(self, name, *words):
        """A step of one of the networks."""
        case, *settings = self.options.networks[name]
        network, _, plugin = case.partition("+")
        model, batch = network.split(":")
        model, _, image = model.partition("@")
        settings += [f"model.image={image}"] if image else []
        return [self.rewire, "bench", model, "--batch", batch, "--plugin", plugin or "none",
                *(word for text in settings for word in ("--set", text)), "--device", "cuda", "--steps", str(self.options.steps),
                "--resident", "--json", "--log-level", "warning", *words]

    def profiled(self, name, *words, untuned=False):
        return Step(f"step_{name}{'_untuned' if untuned else ''}", 60, [("", self.bench(name, *words))],
                    self.missing["cuDNN"] if name.startswith("resnet") else "", prints_json=True, timed=True)

    def variants(self):
        """Variants of the baseline beside each other, each with its launches."""
        def compared():
            rows = variants_of(self.work)
            return ", ".join(f"{row['name']} {row['ratio']:.3f}" for row in rows), not rows

        file = HERE / "variants.toml"
        return Step("variants", 110, [("", self.bench(BASELINE, "--variants", str(file), "--profile"))],
                    "" if file.exists() else f"there is no {file}", prints_json=True, timed=True, found=compared)

    def attention_peers(self):
        """Attention by the backends of PyTorch, cuDNN's of its own wheel among them."""
        out = self.work / ATTENTION_PEERS

        def measured():
            rows = json.loads(out.read_text())["attention"] if out.exists() else []
            return f"{len(rows)} shapes", not rows

        return Step("attention_peers", 40, [("", self.script("pytorch_layers.py", "--only-attention", "--out", str(out)))],
                    self.missing["torch"], timed=True, found=measured)

    def counters(self):
        """Of the longest kernels of our own in the baseline's step, by Nsight Compute."""
        def command():
            launches = json.loads((self.work / f"1_step_{BASELINE}.json").read_text())["profile"]
            ours = list(dict.fromkeys(name for name in (launch["name"].partition(",")[0]
                                                        for launch in sorted(launches, key=lambda launch: -launch["ms"]))
                                      if re.fullmatch(r"\w+", name)))
            sections = [word for name in SECTIONS for word in ("--section", name)]
            return ["ncu", "--csv", "--log-file", str(self.work / COUNTERS), "--page", "details", "--clock-control", "none", *sections,
                    "--kernel-id", f"::regex:^({'|'.join(ours[:COUNTED])})$:2", *self.bench(BASELINE)]

        def counted():
            lines = (self.work / COUNTERS).read_text().splitlines() if (self.work / COUNTERS).exists() else []
            names = {row["Kernel Name"] for row in csv.DictReader(line for line in lines if line.startswith('"')) if row["Kernel Name"]}
            return f"{len(names)} kernels", not names

        return Step("counters", 60, [("", command)], self.missing["ncu"], timed=True, found=counted)

    def right(self):
        options = self.options
        bf16, tf32, gelu = (("--set", text) for text in ("train.dtype=bf16", "train.tf32=true", "model.act_layer=gelu_tanh"))
        plain = (*self.small, "--plugin", "none")
        sanitized = [self.rewire, "bench", *self.small, "--batch", "3", "--steps", "2", "--no-autotune", "--device", "cuda"]
        kinds = {"": ("--plugin", "orthogonal"), "_bf16": ("--plugin", "augment", *bf16)}
        return [Step("doctor", 30, [("", [self.rewire, "doctor", "--quiet"])]),
                self.verify("verify_plain", 60, [("f32", *plain), ("bf16", *plain, *bf16), ("tf32", *plain, *tf32),
                                                 ("gelu_f32", *plain, *gelu), ("gelu_bf16", *plain, *gelu, *bf16)]),
                self.goldens(),
                self.seeds("attention", 60, options.attention, self.missing["cuDNN"]),
                self.seeds("convolutions", 60, options.engines, self.missing["cuDNN"]),
                self.verify("verify_convolutions", 60, [(kind, *SMALL_CONVOLUTIONS, "--plugin", "none", *words)
                                                        for kind, words in (("f32", ()), ("tf32", tf32))], self.missing["cuDNN"]),
                self.verify("verify", 60, [(f"{name}_{dtype}", *self.small, "--plugin", name, "--set", f"train.dtype={dtype}")
                                           for name in self.strategies for dtype in ("f32", "bf16")]),
                self.verify("verify_objectives", 60, [(f"{words[0]}_{dtype}", *words, "--plugin", "none", "--set", f"train.dtype={dtype}")
                                                      for words in OBJECTIVES for dtype in ("f32", "bf16")]),
                Step("determinism", 60, [(name, self.steps_on(name)) for name in ("none", *self.strategies)]),
                self.profiled(BASELINE, "--profile", "--no-autotune", untuned=True), self.profiled(BASELINE, "--kernels"),
                self.variants(),
                *(self.profiled(name, "--profile") for name in options.networks if name != BASELINE),
                self.counters(),
                Step("tuned", 60, [("", self.steps_on("none", "--autotune"))]),
                self.seeds("programs", 60, options.programs), self.seeds("ops", 60, options.seeds),
                self.seeds("transforms", 60, options.transforms, self.missing["cuFFT"]),
                Step("sanitizers", 90, [(f"{tool}{kind}", ["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", "--error-exitcode",
                                                           "9", *sanitized, *words])
                                        for tool in ("memcheck", "racecheck", "synccheck", "initcheck") for kind, words in kinds.items()],
                     self.missing["compute-sanitizer"])]

    def fast(self):
        options, out = self.options, self.work / "bench_2"
        words = ["--rewire", self.rewire, "--device", "cuda", "--dtype", "bf16", "--out", str(out), "--rounds", str(options.rounds),
                 "--steps", str(options.steps), *self.settings, *(word for case in options.peer or PEERS for word in ("--case", case))]
        if not self.missing["torch"]:
            words += ["--python", sys.executable]
        modes = ["--mode", "compile", "--mode", "max-autotune"]
        return [self.attention_peers(),
                Step(COMPILE_PEERS, 100, [("", self.script("run.py", *words, "--compile-peers", "--budget", "{seconds}"))],
                     self.missing["torch"], unfinished=str(out / "uncompiled")),
                Step("beside_pytorch", options.limit, [("", self.script("run.py", *words, *modes, "--resume", "--budget", "{budget}"))],
                     unfinished=str(out / "unfinished"), timed=True)]


class Call:
    def __init__(self, options):
        self.options, self.start = options, time.monotonic()
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="rewire-gpu-"))
        self.running, self.lock = set(), threading.Lock()
        self.publishing = threading.RLock()  # a signal may come while a long step's results are packed
        self.state = {"commit": "", "device": "", "steps": {}}

    def left(self):
        return self.options.limit - PACKING_S - (time.monotonic() - self.start)

    def take_up(self):
        """What an earlier call left: its steps only if they are of this commit and device, its cache in any case."""
        if self.options.source and not self.options.source.exists():
            print(f"call: --from {self.options.source}: there is no such file", file=sys.stderr)
            sys.exit(2)
        known = [path for path in (self.options.out / "results.tar.gz", self.options.source) if path and path.exists()]
        if not known:
            return
        source = known[0]
        for packed in (source, source.with_name(f"{PEERS_CACHE}.tar.gz")):
            if packed.exists():
                with tarfile.open(packed) as tar:
                    tar.extractall(self.work, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        before = json.loads((self.work / "state.json").read_text())
        beside = source.with_name("results.json")  # says which step was begun after the archive was packed
        for name, told in (json.loads(beside.read_text())["steps"] if beside.exists() else {}).items():
            before["steps"].setdefault(name, {**told, "status": "running"})
        if (before["commit"], before["device"]) == (self.state["commit"], self.state["device"]):
            self.state = before
            say(f"taking up {source}: {len(before['steps'])} steps")
        else:
            for path in self.work.iterdir():
                if path.name not in ("cache", PEERS_CACHE):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            say(f"taking the cache of {source}, of commit {before['commit']} on {before['device']}")

    def libraries(self, cuda):
        """What is missing, by name. Ends the call if nothing can run. `cuda`: what doctor says of it."""
        if not cuda["usable"]:
            say(f"nothing can run: {cuda['why']}")
            sys.exit(2)
        missing = {name: f"without {name}: {cuda['parts'][name]['why']}" if cuda["parts"][name]["found"] == "" else ""
                   for name in ("cuDNN", "cuFFT")}
        torch = subprocess.run([sys.executable, "-c", "import torch, safetensors"], stderr=subprocess.DEVNULL).returncode
        missing["torch"] = "python3 has no torch, or no safetensors" if torch else ""
        missing |= {name: "" if shutil.which(name) else f"there is no {name}" for name in ("compute-sanitizer", "ncu")}
        return missing

    def doctor(self):
        """What doctor says of CUDA. It finds the libraries among the packages of this Python, where PyTorch's are."""
        os.environ.setdefault("VIRTUAL_ENV", sys.prefix)
        done = subprocess.run([HERE / "bin" / "rewire", "doctor", "--json", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            say(f"doctor fails: {(done.stderr.strip().splitlines() or ['it says nothing'])[-1]}")
            sys.exit(2)
        return json.loads(done.stdout)["cuda"]

    def run(self):
        options = self.options
        signal.signal(signal.SIGTERM, lambda *_: self.stop())
        cuda = self.doctor()
        missing = self.libraries(cuda)
        self.state["commit"], self.state["device"] = (HERE / "commit").read_text().strip(), cuda["device"]
        self.take_up()
        for name in ("TORCHINDUCTOR", "TRITON"):
            os.environ[f"{name}_CACHE_DIR"] = str(self.work / PEERS_CACHE / name.lower())
        say(f"{options.number}: {TITLES[options.number]}; commit {self.state['commit']}, {self.state['device']}")
        options.out.mkdir(parents=True, exist_ok=True)
        steps = [step for step in Plan(options, self.work, missing).steps() if not options.only or step.name in options.only]
        # What was cut short the last time may be so again: it comes behind what has not been tried.
        steps.sort(key=lambda step: self.told(step.name).get("status") in ("running", "cut"))
        for index, step in enumerate(steps):
            if self.told(step.name).get("status") in ("ok", "failed") and step.name not in options.again:
                say(f"{step.name}: {self.told(step.name)['status']} in an earlier call")
                continue
            self.do(step)
            if step.name == COMPILE_PEERS:
                self.publish_peers()
            if index + 1 < len(steps):
                say(f"next: {steps[index + 1].name}, at most {min(steps[index + 1].seconds, max(int(self.left()), 0))} s")
        statuses = {self.told(step.name)["status"] for step in steps}
        self.publish()
        print((options.out / "summary.txt").read_text(), end="")
        say(f"{options.number}: {time.monotonic() - self.start:.0f} s" + (
            f"; next: call.py {options.number + 1}, {TITLES[options.number + 1]}" if options.number + 1 in TITLES else ""))
        return 1 if "failed" in statuses else 3 if statuses - {"ok"} else 0

    def told(self, name):
        return self.state["steps"].get(f"{self.options.number}.{name}", {})

    def tell(self, name, status, seconds=0.0, text=""):
        self.state["steps"][f"{self.options.number}.{name}"] = {"status": status, "seconds": round(seconds, 1), "text": text}
        self.publish(packed=status != "running")

    def do(self, step):
        limit = min(step.seconds, self.left())
        if step.why_not or limit < LEAST_S:
            self.tell(step.name, "left out" if step.why_not else "cut", text=step.why_not or ENDED)
            say(f"{step.name}: not run, {step.why_not or ENDED}")
            return
        say(f"{step.name}: at most {limit:.0f} s")
        self.tell(step.name, "running")
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(1 if step.timed else self.options.jobs) as pool:
            faults = [fault for fault in pool.map(lambda command: self.command(step, *command, start + limit), step.commands) if fault]
        seconds, log = time.monotonic() - start, self.log(step, step.commands[-1][0])
        if (ENDED in faults and limit < step.seconds) or (step.unfinished and pathlib.Path(step.unfinished).exists()):
            status, text = "cut", ENDED
        elif faults:
            faults = [f"not done in {step.seconds} s" if fault == ENDED else fault for fault in faults]
            status, text = "failed", f"{len(faults)} of {len(step.commands)}: {faults[0]}" if len(step.commands) > 1 else faults[0]
        else:
            status, text = "ok", f"{len(step.commands)} done" if len(step.commands) > 1 else last_line(log)
            if step.prints_json and not step.found:
                text = f"a step {json.loads((self.work / log.with_suffix('.json').name).read_text())['resident_step_ms']:.2f} ms"
            if step.found:
                text, nothing = step.found()
                status = "failed" if nothing else "ok"
        say(f"{step.name}: {status}, {seconds:.0f} s, {text}")
        self.tell(step.name, status, seconds, text)

    def log(self, step, key):
        return self.work / "logs" / f"{self.options.number}_{step.name}{'_' if key else ''}{key}.log"

    def command(self, step, key, words, end):
        """What is wrong with it; None: nothing."""
        log = self.log(step, key)
        log.parent.mkdir(exist_ok=True)
        if callable(words):
            try:
                words = words()
            except (OSError, ValueError, KeyError) as error:
                return f"{step.name}: {error}"
        # Also where this program is killed: what it left would compute beside the next call's.
        leash = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        left = end - time.monotonic()
        words = [word.replace("{budget}", str(max(int(left) - 35, 1))).replace("{seconds}", str(max(int(left) - 3, 1)))
                 for word in words]  # run.py's grace is 30 s
        name = f"{step.name} {key}".strip()
        if end - time.monotonic() <= 0:
            return ENDED
        with open(log, "w") as said, open(self.work / f"{log.stem}.json.new", "w") as printed:
            process = subprocess.Popen([*leash, *words], stdin=subprocess.DEVNULL, stdout=printed if step.prints_json else said,
                                       stderr=said, process_group=0,
                                       env={**os.environ, "XDG_CACHE_HOME": str(self.work / ("cache" if step.timed else PASSING))})
            with self.lock:
                self.running.add(process)
            try:
                status = self.wait(process, step, end)
            finally:
                self.kill(process)
                with self.lock:
                    self.running.discard(process)
        new = pathlib.Path(printed.name)
        if step.prints_json and status == 0:
            new.replace(new.with_suffix(""))
        else:
            new.unlink()
        if status is None:
            return ENDED
        return None if status == 0 else f"{name}: status {status}, {last_line(log)}"

    def wait(self, process, step, end):
        """Its status; None: time is up. What a long step has by now is packed as it comes."""
        packed = self.written(step)
        while process.poll() is None:
            if time.monotonic() >= end:
                return None
            try:
                process.wait(timeout=min(max(end - time.monotonic(), 0.1), 1))
            except subprocess.TimeoutExpired:
                if (now := self.written(step)) != packed:
                    packed = now
                    self.publish()
        return process.returncode

    @staticmethod
    def written(step):
        """When a step that goes on where it was has last written what it has."""
        path = pathlib.Path(step.unfinished) if step.unfinished else None
        return path.stat().st_mtime if path and path.exists() else 0

    def kill(self, process):
        """With all that it started."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def stop(self):
        """Asked to end."""
        with self.lock:
            for process in list(self.running):
                self.kill(process)
        try:
            self.publish()
        except OSError:  # a file went as it was packed: what was packed before stands
            pass
        shutil.rmtree(self.work, ignore_errors=True)
        os._exit(143)

    def figures(self):
        """The numbers that are asked for first."""
        found = {}
        for path in sorted(self.work.glob("1_step_*.json")):
            result = json.loads(path.read_text())
            row = {key: result[key] for key in ("step_ms", "resident_step_ms", "device_mb", "compile_s", "cache_hits", "unique_kernels")}
            row["classes_ms"] = {name: round(ms, 3) for name, _, ms, *_ in step_tables.by_class(result["profile"])}
            row["attention"] = [choice for choice in result.get("choices", []) if choice.get("key", "").startswith("attention")]
            found[path.stem] = {**row, **({"ceilings": result["ceilings"]} if "ceilings" in result else {})}
        if rows := variants_of(self.work):
            keys = ("name", "resident_step_ms", "step_ms", "ratio", "moved_gb", "memory_mb", "same_bits")
            found["variants"] = [{key: row[key] for key in keys} for row in rows]
        for path in sorted(self.work.glob("bench_2/*.json")):
            result = json.loads(path.read_text())
            for case in result["cases"]:
                found[f"{path.parent.name} {case['model']}:{case['batch']}"] = {
                    "contenders": [{**{key: c[key] for key in ("name", "residual", "step_ms", "fed_step_ms", "peak_mb", "failed") if key in c},
                                    **{key: c["about"][key] for key in ("warm_up_s", "attention") if key in c.get("about", {})}}
                                   for c in case["contenders"]], "ratios": case["ratios"], "left_out": result["left_out"]}
        return found

    def summary(self, figures):
        lines = [f"Rewire {self.state['commit']} on {self.state['device']}", ""]
        for name, told in self.state["steps"].items():
            lines.append(f"{name:<18} {told['status']:<9} {told['seconds']:>6} s  {told['text'][:90]}")
        for name, row in figures.items():
            if name == "variants":
                lines += ["", "variants of the baseline, to the first"]
                lines += [f"  {one['name']:<22} {one['ratio']:.4f}  {one['moved_gb']:.2f} GB" + ("" if one["same_bits"] else ", other bits")
                          for one in row]
                continue
            if "contenders" not in row:
                lines += ["", f"{name}: a step {row['resident_step_ms']:.2f} ms, fed by the host {row['step_ms']:.2f} ms, "
                              f"{row['device_mb']:.0f} MB, compiled in {row['compile_s']:.1f} s",
                          "  launches alone, ms: " + ", ".join(f"{what} {ms:.2f}" for what, ms in row["classes_ms"].items())]
                lines += [f"  {choice['key'].partition(' bf16')[0]}: {choice['taken']} {choice.get('ms', '')}" for choice in row["attention"]]
                continue
            lines += ["", name]
            lines += [f"  {c['name']:<22} {c['residual']:<15} " + (f"{c['step_ms']:.2f} ms" if "step_ms" in c else f"failed: {c['failed'][:60]}")
                      for c in row["contenders"]]
            lines += [f"  {key}: {value:.3f}" for key, value in row["ratios"].items() if "plain" in key]
        return "\n".join(lines) + "\n"

    def publish(self, packed=True):
        """Each file whole or as it was, whenever this ends."""
        with self.publishing:
            self.write_results(packed)

    def write_results(self, packed):
        out, figures = self.options.out, self.figures()
        self.replace(self.work / "state.json", json.dumps(self.state, indent=1) + "\n")
        self.replace(out / "summary.txt", self.summary(figures))
        self.replace(out / "results.json", json.dumps({**self.state, "figures": figures}, indent=1) + "\n")
        if not packed:
            return
        for left_behind in ((), (".cu", ".tile"), (".cu", ".tile", ".kernel")):  # choices, which take longest, stay
            if self.pack("results", [path for path in self.work.iterdir() if path.name not in (PEERS_CACHE, PASSING)], (".new", *left_behind)):
                break

    def publish_peers(self):
        """What PyTorch compiled, for a call that goes on elsewhere."""
        if (self.work / PEERS_CACHE).exists() and not self.pack(PEERS_CACHE, [self.work / PEERS_CACHE]):
            say(f"{PEERS_CACHE}: what PyTorch compiled is more than {MOST_BYTES >> 20} MiB, and stays behind")

    def pack(self, name, paths, without=(".new",)):
        """Whether it is no more than MOST_BYTES; what cannot get any smaller is kept in any case, but of the peers'."""
        fresh = self.options.out / f"{name}.tar.gz.new"
        with tarfile.open(fresh, "w:gz", compresslevel=1) as tar:
            for path in sorted(paths):
                tar.add(path, path.name, filter=lambda info: None if info.name.endswith(without) else info)
        fits = fresh.stat().st_size <= MOST_BYTES
        if fits or (name == "results" and ".kernel" in without):
            fresh.replace(fresh.with_suffix(""))
        else:
            fresh.unlink()
        return fits

    @staticmethod
    def replace(path, text):
        fresh = path.with_name(path.name + ".new")
        fresh.write_text(text)
        fresh.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, choices=tuple(TITLES))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results"), metavar="FOLDER")
    parser.add_argument("--from", dest="source", type=pathlib.Path, metavar="FILE", help="an earlier call's, where FOLDER has none")
    parser.add_argument("--limit", type=float, metavar="SECONDS",
                        help=f"of the whole call ({', '.join(f'call {number}: {limit}' for number, limit in LIMITS.items())})")
    parser.add_argument("--only", action="append", default=[], metavar="STEP")
    parser.add_argument("--again", action="append", default=[], metavar="STEP", help="although it was done before")
    parser.add_argument("--networks", type=lambda path: json.loads(pathlib.Path(path).read_text()), default=NETWORKS, metavar="FILE",
                        help="JSON: in place of the networks of call 1, each NAME: [MODEL[@IMAGE]:BATCH[+PLUGIN], KEY=VALUE…]")
    parser.add_argument("--peer", action="append", metavar="MODEL[@IMAGE]:BATCH[+RESIDUAL…]", help="in place of the networks of call 2")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the small ViT of call 1 and all networks of call 2")
    parser.add_argument("--strategy", action="append", choices=STRATEGIES, help="default: all")
    parser.add_argument("--jobs", type=int, default=12, help="processes at a time where nothing is timed (12)")
    parser.add_argument("--steps", type=int, default=20, help="that are timed (20)")
    parser.add_argument("--rounds", type=int, default=3, help="beside PyTorch (3)")
    for name, count in (("attention", 8), ("engines", 8), ("seeds", 4), ("programs", 160), ("transforms", 48)):
        parser.add_argument(f"--{name}", type=int, default=count, help=f"cases of device_check ({count})")
    options = parser.parse_args()
    options.limit = options.limit or LIMITS[options.number]
    call = Call(options)
    try:
        sys.exit(call.run())
    finally:
        shutil.rmtree(call.work, ignore_errors=True)


if __name__ == "__main__":
    main()

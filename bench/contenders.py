"""Who is measured: `rewire` and PyTorch, each in a process of its own, and the machine that they run on."""
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import gpu_ceilings

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent / "build" / "release" / "bin"
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
            "dino": ("image", "channels", "patch", "dim", "depth", "heads", "hidden_dim", "bottleneck_dim", "out_dim"),
            "gpt2": ("vocab", "context", "dim", "depth", "heads", "tied"),
            "llama": ("vocab", "context", "dim", "depth", "heads", "kv_heads", "mlp_hidden", "tied")}
OWN_CROPS = {"dino": {"local_crops": 4, "local_size": 16}}
OWN_SETTINGS = {"mae": [], "gpt2": [], "llama": [], "dino": ["train.ema=0.99", "objective.freeze_last_layer=0",
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
        parts = json.loads(output_of([str(options.rewire), "doctor", "--json", "--quiet"], options))["cuda"]["parts"]
        return parts.get("device 0", {"found": "no GPU"})["found"]


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


def peer_shape(row):
    """What bench/pytorch_step.py builds the same network of."""
    if row["family"] in OWN_LOSS:
        return {"family": row["family"], **{key: row[key] for key in OWN_LOSS[row["family"]]}, **OWN_CROPS.get(row["family"], {})}
    image = {key: row[key] for key in ("image", "channels", "classes")}
    if row["family"] == "vit":
        return {**image, **{key: row[key] for key in ("patch", "dim", "depth", "heads")}}
    if row["family"] != "resnetv2":
        sys.exit(f"bench: the peer has no network of the family '{row['family']}'; it has vit, resnetv2, mae, dino, gpt2 and llama")
    return {"family": "resnetv2", **image, "width": row["width"], "depths": [int(depth) for depth in row["depths"]],
            "bottleneck": row["block"] == "bottleneck"}

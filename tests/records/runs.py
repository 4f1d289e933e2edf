"""Small runs, and the lines of their metrics."""
import json
import pathlib
import signal
import struct
import subprocess
import time

SMALL = ["model.dim=16", "model.depth=2", "model.heads=2", "data.format=synthetic", "data.count=64", "train.batch=16",
         "train.log_every=2", "train.threads=1"]
MAE = ["model.decoder_dim=16", "model.decoder_depth=1", "model.decoder_heads=2", "objective.name=mae"]


def words(settings):
    return [word for setting in settings for word in ("--set", setting)]


def train(rewire, out, *settings, model="vit_tiny_28", more=()):
    command = [rewire, "train", model, "--plugin", "none", *words((*SMALL, *settings)), "--out", out, *more]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(out)


def killed(rewire, out, after, *settings):
    """A run that is killed as soon as `after` checkpoints were written."""
    command = [rewire, "train", "vit_tiny_28", "--plugin", "none", "--quiet", *words((*SMALL, *settings)), "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    epoch = pathlib.Path(out) / "checkpoints" / f"{after:04}-{after * 4:08}"
    end = time.monotonic() + 60
    while not epoch.exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.002)
    time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return pathlib.Path(out)


def lines(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def single(number):
    """As f32; None is no number."""
    return float("nan") if number is None else struct.unpack("<f", struct.pack("<f", number))[0]


def scalars_of(run):
    """{tag: [(step, value)]} as the event files are to have them."""
    expected = {}
    for line in lines(run):
        kind = line["kind"]
        for name, value in line.items():
            if name not in ("kind", "step"):
                tag = f"{kind}/{name.removeprefix(kind + '.')}"
                expected.setdefault(tag, []).append((line["step"], single(value)))
    return expected
